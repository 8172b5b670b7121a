"""Solves with ``K = C + S`` while S changes a little at a time, as in a descent over its weights.

Jacobi-preconditioned CG from the previous solution while that is quick. Where it is not (smooth, large weights)
and the graph is a mesh, a sparse factor of some earlier K preconditions CG: the weights move little from step to
step, so that one factorization serves many systems, until it takes too many iterations and is made anew. Where a
factor would not fit, CG goes on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._solvers import cg
from nareg._solvers.factorization import Solve, factorize
from nareg._solvers.iterate import Iterates
from nareg.errors import SolverError
from nareg.results import Status

#: Jacobi-CG that has not converged by then is preconditioned by a factor, where one fits.
PATIENCE = 150
#: A factor of an earlier K that needs more iterations than this is replaced.
STALE = 12
#: Largest mesh-like graph whose factor is formed (about 1.5 GB for nearest neighbors in the plane).
FACTOR_NODES = 200_000
#: Largest other graph: a completely filled factor of this size holds 0.3 GB.
FACTOR_ANY = 6_000
MAX_ITERATIONS = 20_000


def unsolved(tol: float, status: Status) -> str:
    """What to say where a system of a design was not solved."""
    return (
        f"the systems of this design could not be solved to {tol:g} ({status.name}): pass a smaller upper bound, or a data "
        "term (data_weight) at more nodes."
    )


class SystemSequence:
    """Solves ``K x = b`` for one K after another with the same pattern.

    Parameters
    ----------
    mesh_like : bool
        Whether sparse factors of K stay sparse.
    tol : float
        Relative residual of every column.

    Attributes
    ----------
    iterations, factorizations, columns : int
        Work done so far: CG iterations times columns, factors, right-hand sides.
    """

    def __init__(self, n_nodes: int, *, mesh_like: bool, tol: float) -> None:
        self.tol = tol
        self.may_factor = n_nodes <= FACTOR_ANY or (mesh_like and n_nodes <= FACTOR_NODES)
        self.iterations = self.factorizations = self.columns = 0
        self._K: sp.csr_array | None = None
        self._factor: Solve | None = None
        self._fresh = False

    def set_matrix(self, K: sp.csr_array) -> None:
        """Set the next system."""
        self._K, self._fresh = K, False

    def forget(self) -> None:
        """Drop the factor: the next systems are easier."""
        self._factor = None

    def solve(self, rhs: np.ndarray, x0: np.ndarray | None = None) -> np.ndarray:
        """Solve for (N, T) right-hand sides, from ``x0`` if given.

        Raises
        ------
        SolverError
            If the residual stays above the tolerance.
        """
        self.columns += rhs.shape[1]
        solution = None
        if self._factor is None:
            solution = self._run(rhs, x0, None, PATIENCE if self.may_factor else MAX_ITERATIONS)
            if solution.status is Status.MAX_ITERATIONS and self.may_factor:
                self._factorize()
                solution = None
        if solution is None:
            solution = self._run(rhs, x0, self._factor, STALE if not self._fresh else 50)
            if solution.status is Status.MAX_ITERATIONS and not self._fresh:
                self._factorize()
                solution = self._run(rhs, solution.x, self._factor, 50)
        if solution.status is not Status.CONVERGED:
            raise SolverError(unsolved(self.tol, solution.status))
        return solution.x

    def _run(self, rhs: np.ndarray, x0: np.ndarray | None, precondition: cg.Preconditioner | None, limit: int) -> Iterates:
        solution = cg.solve_in_order(self._K, rhs, tol=self.tol, max_iterations=limit, x0=x0, precondition=precondition)
        self.iterations += solution.iterations * rhs.shape[1]
        return solution

    def _factorize(self) -> None:
        factor = factorize(self._K, definite=False)
        if factor is None:
            raise SolverError("C + S became singular in float64 during the design: pass a smaller upper bound.")
        self._factor, self._fresh = factor.solve, True
        self.factorizations += 1


#: Levels of an earlier w are replaced when they need this many times the iterations of new ones, and some more.
WORN, MORE = 2, 5
#: Iterations of new levels; beyond, the solve has failed.
LEVELS_ITERATIONS = 500


class LevelSequence(ABC):
    """Solves ``K(w) X = B`` for one w after another, by multigrid levels where that is quicker.

    CG starts from the previous solution, by Jacobi until that is slow on a mesh. Then levels of ``diag(c / w^2) + L`` at some
    earlier w are used, scaled on both sides by the inverse of the present w: the preconditioned eigenvalues lie between one and
    the ratios of the diagonal terms then and now, so that levels serve until weights have moved by large factors.

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
    def _run(self, rhs: Any, x0: Any, limit: int) -> Iterates:
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
            reached = self._run(rhs, x0, WORN * self._usual + MORE)
            if reached.status is Status.MAX_ITERATIONS:
                reached = self._with_new_levels(rhs, reached.x)
        if reached.status is not Status.CONVERGED:
            raise SolverError(unsolved(self.tol, reached.status))
        return reached.x

    def _with_new_levels(self, rhs: Any, x0: Any) -> Iterates:
        self._make_levels()
        self._levels = self._fresh = True
        self.factorizations += 1
        reached = self._run(rhs, x0, LEVELS_ITERATIONS)
        self._usual = reached.iterations
        return reached
