"""L-BFGS for functions that are infinite outside a cone, with a diagonal metric of the caller's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from nareg._linear.lbfgs import MEMORY, Pair, two_loop


@dataclass
class ConeDescent:
    """State of L-BFGS with a diagonal first metric: point, value, gradient and remembered pairs."""

    function: Callable[[np.ndarray], tuple[float, np.ndarray]]
    u: np.ndarray
    stiffness: np.ndarray
    pairs: list[Pair] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.value, self.gradient = self.function(self.u)

    @property
    def relative_gradient(self) -> float:
        """``||gradient|| ||u|| / value``."""
        return float(np.linalg.norm(self.gradient) * np.linalg.norm(self.u) / (abs(self.value) or 1.0))

    def step(self) -> bool:
        """Take one step with backtracking; False where none lowers the value."""
        direction = self._direction()
        slope = float(self.gradient @ direction)
        if slope >= 0:
            self.pairs.clear()
            direction = -self.gradient / self.stiffness
            slope = float(self.gradient @ direction)
        length = 1.0
        while length > 1e-10:
            u = self.u + length * direction
            value, gradient = self.function(u)
            if value <= self.value + 1e-4 * length * slope:
                pair = self._pair(u - self.u, gradient - self.gradient)
                if pair is not None:
                    self.pairs = [*self.pairs[-MEMORY + 1 :], pair]
                self.u, self.value, self.gradient = u, value, gradient
                return True
            # half a step where K is no longer positive definite, else the minimum of the parabola through what is known
            bend = value - self.value - length * slope
            length *= 0.5 if not np.isfinite(value) else float(np.clip(-0.5 * slope * length / bend, 0.1, 0.5))
        return False

    def _pair(self, step: np.ndarray, change: np.ndarray) -> Pair | None:
        """The pair to remember; None of negative curvature, which a risk that is not convex may have."""
        curvature = float(step @ change)
        size = np.sqrt((step @ (self.stiffness * step)) * (change @ (change / self.stiffness)))
        return Pair(step, change, curvature) if curvature > 1e-10 * size else None

    def _direction(self) -> np.ndarray:
        """Minus the approximate inverse Hessian times the gradient."""
        metric = 1.0
        if self.pairs:
            last = self.pairs[-1]
            metric = last.curvature / float(last.change @ (last.change / self.stiffness))
        return -two_loop(self.gradient, self.pairs, lambda q: q * (metric / self.stiffness))
