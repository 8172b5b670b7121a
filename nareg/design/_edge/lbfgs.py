"""L-BFGS for functions that are infinite outside a cone, with a diagonal metric of the caller's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

#: Pairs of steps and gradient changes that are kept.
MEMORY = 20


@dataclass
class Descent:
    """State of L-BFGS with a diagonal first metric: point, value, gradient and remembered pairs."""

    function: Callable[[np.ndarray], tuple[float, np.ndarray]]
    u: np.ndarray
    stiffness: np.ndarray
    pairs: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

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
                s, y = u - self.u, gradient - self.gradient
                # the risk is not convex: a pair of negative curvature would spoil the metric
                if s @ y > 1e-10 * np.sqrt((s @ (self.stiffness * s)) * (y @ (y / self.stiffness))):
                    self.pairs = [*self.pairs[-MEMORY + 1 :], (s, y)]
                self.u, self.value, self.gradient = u, value, gradient
                return True
            # half a step where K is no longer positive definite, else the minimum of the parabola through what is known
            bend = value - self.value - length * slope
            length *= 0.5 if not np.isfinite(value) else float(np.clip(-0.5 * slope * length / bend, 0.1, 0.5))
        return False

    def _direction(self) -> np.ndarray:
        """Two-loop recursion."""
        q = self.gradient.copy()
        used = []
        for s, y in reversed(self.pairs):
            a = (s @ q) / (s @ y)
            q -= a * y
            used.append(a)
        metric = 1.0
        if self.pairs:
            s, y = self.pairs[-1]
            metric = float((s @ y) / (y @ (y / self.stiffness)))
        q *= metric / self.stiffness
        for (s, y), a in zip(self.pairs, reversed(used), strict=True):
            q += s * (a - (y @ q) / (s @ y))
        return -q
