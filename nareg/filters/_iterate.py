"""The result of an iterative solver for :mod:`nareg.filters.apply`, and its progress reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from nareg.results import Status

#: ``callback(iteration, largest relative residual)``; raising KeyboardInterrupt in it stops the solve.
Callback = Callable[[int, float], None]


@dataclass(frozen=True)
class Stop:
    """The method of a solve, and when it ends."""

    method: str
    tol: float
    max_iterations: int | None
    callback: Callback | None = None


@dataclass
class Iterates:
    """The point reached, how many iterations it took and the largest relative residual after each."""

    x: np.ndarray
    iterations: int
    residuals: list[float] = field(default_factory=list)
    status: Status = Status.CONVERGED
    rounds: int | None = None
    note: str = ""
    #: Both relative residuals (of K, and over its diagonal) where the solver computed them better than float64 can
    #: from ``x`` alone.
    reached: tuple[float, float] | None = None


@dataclass
class Monitor:
    """Records the residual history, calls the callback, and decides when to stop.

    A column is done when both its residual and its residual scaled by the diagonal are below the tolerance.
    """

    norms: np.ndarray  # (2, T): of the right-hand side, and of the same over the diagonal
    tol: float
    callback: Callback | None
    history: list[float] = field(default_factory=list)

    def active(self, squared: np.ndarray) -> np.ndarray:
        """Columns above the tolerance, from the squared norms (2, T); zero columns are done before they start."""
        relative = np.divide(np.sqrt(squared), self.norms, out=np.zeros_like(self.norms), where=self.norms > 0)
        self.history.append(float(relative[0].max(initial=0.0)))
        if self.callback is not None:
            self.callback(len(self.history) - 1, self.history[-1])
        return ~(relative <= self.tol).all(axis=0)  # NaN counts as active
