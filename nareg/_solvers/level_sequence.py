"""When to precondition by multigrid levels, and when to make them anew, while ``K(w)`` changes a little at a time.

Conjugate gradients start from the previous solution, by Jacobi until that is slow on a mesh. Then levels of
``M = diag(c / w^2) + L`` at some earlier w are used, scaled on both sides by the inverse of the present w. With these the
preconditioned eigenvalues lie between one and the ratios of the diagonal terms then and now, so that levels serve until weights
have moved by large factors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

from nareg._solvers.sequence import MAX_ITERATIONS, PATIENCE, unsolved
from nareg.errors import SolverError
from nareg.results import Status

#: Levels of an earlier w are replaced when they need this many times the iterations of new ones, and some more.
STALE, MORE = 2, 5
#: Iterations of new levels; beyond, the solve has failed.
LEVELS_ITERATIONS = 500


class Ended(Protocol):
    """Where iterations ended."""

    x: Any
    iterations: int
    status: Status


class LevelSequence(ABC):
    """Solves ``K(w) X = B`` for one w after another.

    Parameters
    ----------
    may_cycle : bool
        Whether the graph is a mesh and L dominant, without which there are no levels.
    tol : float
        Relative residual of every column.

    Attributes
    ----------
    iterations, factorizations, columns : int
        Work done so far: CG iterations times columns, levels made, right-hand sides.
    """

    def __init__(self, *, may_cycle: bool, tol: float) -> None:
        self.tol, self._may_cycle = tol, may_cycle
        self.iterations = self.factorizations = self.columns = 0
        #: Whether there are levels, whether they are those of the present w, and what they took when they were.
        self._levels = self._fresh = False
        self._usual = 0

    @abstractmethod
    def _run(self, rhs: Any, x0: Any, limit: int) -> Ended:
        """CG with the levels, if there are any, else by Jacobi."""

    @abstractmethod
    def _make_levels(self) -> None:
        """Levels of the present w."""

    def forget(self) -> None:
        """Drop the levels: the next systems are easier."""
        self._levels = False

    def _solve(self, rhs: Any, x0: Any) -> Any:
        """One block of columns.

        Raises
        ------
        SolverError
            If the residual stays above the tolerance.
        """
        if not self._levels:
            reached = self._run(rhs, x0, PATIENCE if self._may_cycle else MAX_ITERATIONS)
            if reached.status is Status.MAX_ITERATIONS and self._may_cycle:
                reached = self._with_new_levels(rhs, reached.x)
        elif self._fresh:
            reached = self._run(rhs, x0, LEVELS_ITERATIONS)
        else:
            reached = self._run(rhs, x0, STALE * self._usual + MORE)
            if reached.status is Status.MAX_ITERATIONS:
                reached = self._with_new_levels(rhs, reached.x)
        if reached.status is not Status.CONVERGED:
            raise SolverError(unsolved(self.tol, reached.status))
        return reached.x

    def _with_new_levels(self, rhs: Any, x0: Any) -> Ended:
        self._make_levels()
        self._levels = self._fresh = True
        self.factorizations += 1
        reached = self._run(rhs, x0, LEVELS_ITERATIONS)
        self._usual = reached.iterations
        return reached
