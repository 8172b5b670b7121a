"""L-BFGS for functions that are infinite outside a cone, with a diagonal metric of the caller's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from nareg._solvers.lbfgs import MEMORY, Pair, two_loop

#: A step is too long where the slope at its end is this many times as steep upward: next to the boundary of the cone.
OVERSHOOT = 10.0


@dataclass
class ConeDescent:
    """State of L-BFGS with a diagonal first metric: point, value, gradient and remembered pairs."""

    function: Callable[[np.ndarray], tuple[float, np.ndarray]]
    u: np.ndarray
    stiffness: np.ndarray
    #: Lower bounds of the unknowns, or None.
    floor: np.ndarray | None = None
    #: What a gradient is relative to; None: the value.
    size: float | None = None
    pairs: list[Pair] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.value, self.gradient = self.function(self.u)

    @property
    def relative_gradient(self) -> float:
        """``||projected gradient|| ||u|| / size``."""
        size = abs(self.value) if self.size is None else self.size
        return float(np.linalg.norm(self.gradient[self._free()]) * np.linalg.norm(self.u) / (size or 1.0))

    def _free(self) -> np.ndarray:
        """Unknowns that are not pushed against their lower bound."""
        if self.floor is None:
            return np.ones(self.u.size, dtype=bool)
        return (self.u > self.floor) | (self.gradient < 0)

    def step(self) -> bool:
        """Take one step with backtracking; False where none lowers the value."""
        direction = self._direction()
        slope = float(self.gradient @ direction)
        if slope >= 0:
            self.pairs.clear()
            direction = -self.gradient / self.stiffness * self._free()
            slope = float(self.gradient @ direction)
        length = 1.0
        while length > 1e-10:
            u = self.u + length * direction
            if self.floor is not None:
                u = np.maximum(u, self.floor)
            value, gradient = self.function(u)
            promised = length * slope if self.floor is None else float(self.gradient @ (u - self.u))
            overshoots = float(gradient @ (u - self.u)) > OVERSHOOT * abs(length * slope)
            if value <= self.value + 1e-4 * promised and not overshoots:
                pair = self._pair(u - self.u, gradient - self.gradient)
                if pair is not None:
                    self.pairs = [*self.pairs[-MEMORY + 1 :], pair]
                self.u, self.value, self.gradient = u, value, gradient
                return True
            # half a step where K is no longer positive definite, else the minimum of the parabola through what is known
            bend = value - self.value - length * slope
            length *= 0.5 if overshoots or not np.isfinite(value) else float(np.clip(-0.5 * slope * length / bend, 0.1, 0.5))
        return False

    def _pair(self, step: np.ndarray, change: np.ndarray) -> Pair | None:
        """The pair to remember; None of negative curvature, which a risk that is not convex may have."""
        curvature = float(step @ change)
        size = np.sqrt((step @ (self.stiffness * step)) * (change @ (change / self.stiffness)))
        return Pair(step, change, curvature) if curvature > 1e-10 * size else None

    def _direction(self) -> np.ndarray:
        """Minus the approximate inverse Hessian times the gradient, in the unknowns that are free to move."""
        metric = 1.0
        if self.pairs:
            last = self.pairs[-1]
            metric = last.curvature / float(last.change @ (last.change / self.stiffness))
        free = self._free()
        if self.floor is None:
            return -two_loop(self.gradient, self.pairs, lambda q: q * (metric / self.stiffness))
        # pairs as the free unknowns see them: the others stay where they are
        seen = (Pair(p.step * free, p.change * free, float((p.step * free) @ p.change)) for p in self.pairs)
        pairs = [p for p in seen if p.curvature > 0]
        return -two_loop(self.gradient * free, pairs, lambda q: q * (metric / self.stiffness)) * free
