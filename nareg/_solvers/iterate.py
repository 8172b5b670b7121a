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


#: Columns solved together: enough to amortize the gather of a row, few enough to bound the scratch memory.
BLOCK = 16

#: Solves for a C-ordered block of columns; the second is where to start, or None for zero.
BlockSolver = Callable[[np.ndarray, np.ndarray | None], Iterates]


def in_blocks(
    rhs: np.ndarray, solve: BlockSolver, *, order: np.ndarray | None, x0: np.ndarray | None = None, first_only: bool = False
) -> Iterates:
    """Solve for all columns, a block at a time, with the nodes in this order (None: as they are).

    ``first_only`` leaves the other blocks at ``x0``, or zero, where the first one reaches its limit of iterations. The slowest
    block's history is kept.
    """
    result = Iterates(x=np.zeros_like(rhs) if x0 is None else x0.copy(), iterations=0)
    for first in range(0, rhs.shape[1], BLOCK):
        columns = slice(first, first + BLOCK)
        block, start = (
            None if v is None else np.ascontiguousarray(v[:, columns] if order is None else v[order, columns])
            for v in (rhs, x0)
        )
        assert block is not None
        part = solve(block, start)
        if order is None:
            if rhs.shape[1] <= BLOCK:
                result.x = part.x  # the only block: no copy
            else:
                result.x[:, columns] = part.x
        else:
            result.x[order, columns] = part.x
        if part.iterations >= result.iterations:
            result.iterations, result.residuals, result.rounds = part.iterations, part.residuals, part.rounds
        if part.status is not Status.CONVERGED:
            result.status = part.status
        if first_only and first == 0 and part.status is Status.MAX_ITERATIONS:
            break
    return result
