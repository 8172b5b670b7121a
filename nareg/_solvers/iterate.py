"""When an iteration ends, what it returns, and its progress reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nareg._core.arrays import is_tensor, namespace, ratio
from nareg.results import Status

#: ``callback(iteration, largest relative residual)``; raising KeyboardInterrupt in it stops the solve.
Callback = Callable[[int, float], None]


def check_every(array: Any) -> int:
    """Iterations between two looks at the columns that are left, for arrays that lie where this one does."""
    return 1 if not is_tensor(array) or array.device.type == "cpu" else ON_DEVICE


@dataclass(frozen=True)
class Stop:
    """The method of a solve, and when it ends."""

    method: str
    tol: float
    max_iterations: int | None
    callback: Callback | None = None


@dataclass
class Iterates:
    """The point reached, how many iterations it took and the largest relative residual after each; NumPy or torch."""

    x: Any
    iterations: int
    residuals: list[float] = field(default_factory=list)
    status: Status = Status.CONVERGED
    rounds: int | None = None
    note: str = ""
    #: Both relative residuals (of K, and over its diagonal) where the solver computed them better than float64 can
    #: from ``x`` alone.
    reached: tuple[float, float] | None = None

    def after(self, first: Iterates) -> Iterates:
        """The same with the iterations that led to its start."""
        return replace(self, iterations=first.iterations + self.iterations, residuals=first.residuals + self.residuals[1:])


class Monitor:
    """Records the residual history, calls the callback, and decides when to stop.

    A column is done when all its residuals are below the tolerance: the plain one, and usually that over the diagonal. They are
    relative to ``norms``, (k, T) of the right-hand side; None: to the first residual. Flags stay on their device, and the host
    reads them after every so many steps.
    ``frozen`` says that a method leaves a column alone once it is done. Where it does not, a residual may rise again.
    """

    def __init__(
        self, norms: Any, tol: Any, callback: Callback | None = None, *, frozen: bool = True, every: int | None = None
    ) -> None:
        self._norms, self._tol, self._callback, self._frozen, self._every = norms, tol, callback, frozen, every
        self._where: Any = None
        self._reported = 0
        #: The largest plain residual at the start and after each iteration, on the device.
        self.records: list[Any] = []
        self.active: Any = True
        self.failed: Any = None
        self.status: Status | None = None

    @property
    def iterations(self) -> int:
        """Steps after which a residual was recorded."""
        return len(self.records) - 1

    def record(self, squares: Any) -> None:
        """Take in the squares (k, T) of the residual after a step."""
        lengths = squares**0.5
        if self._where is None:
            self._norms = lengths if self._norms is None else self._norms
            self._where, self._every = self._norms > 0, self._every or check_every(lengths)
        relative = ratio(lengths, self._norms, self._where)
        above = ~(relative <= self._tol).all(0)  # NaN counts as active
        self.active = self.active & above if self._frozen else above
        self.records.append(relative[0].max())

    def fail(self, columns: Any) -> None:
        """Give up those of these columns that are not done."""
        failed = self.active & columns
        self.failed = failed if self.failed is None else self.failed | failed
        self.active = self.active & ~columns

    def ended(self, iteration: int, limit: int) -> bool:
        """Whether the iteration ends here: every column is done, or one has failed, or this is the last."""
        if iteration < limit and iteration % (self._every or 1):
            return False
        left = self.active.any()
        seen = int(left if self.failed is None else left + 2 * self.failed.any())  # one number: a device is waited for once
        if self._callback is not None:
            for value in self.history(self._reported):
                self._callback(self._reported, value)
                self._reported += 1
        if seen == 1 and iteration < limit:
            return False
        self.status = Status.INDEFINITE if seen >= 2 else Status.MAX_ITERATIONS if seen else Status.CONVERGED
        return True

    def history(self, first: int = 0) -> list[float]:
        """The records from this one on, in one copy from the device."""
        return namespace(self._norms).stack(self.records[first:]).tolist() if self.records[first:] else []

    def iterates(self, x: Any) -> Iterates:
        """What an iteration that has ended returns."""
        assert self.status is not None
        return Iterates(x, self.iterations, self.history(), self.status)


#: Iterations between two looks at the flags of a device, for which the host waits; on the CPU a look costs nothing.
ON_DEVICE = 8

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
