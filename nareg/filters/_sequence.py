"""Solves with ``K = C + S`` while S changes a little at a time, as in a descent over its weights.

Jacobi-preconditioned CG from the previous solution while that is quick. Where it is not (smooth, large weights)
and the graph is a mesh, a sparse factor of some earlier K preconditions CG: the weights move little from step to
step, so that one factorization serves many systems, until it takes too many iterations and is made anew. Where a
factor would not fit, CG goes on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from nareg.errors import SolverError
from nareg.filters import cg
from nareg.filters._iterate import Iterates
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
        self._factor: Callable[[np.ndarray], np.ndarray] | None = None
        self._fresh = False

    def update(self, K: sp.csr_array) -> None:
        """Take the next system."""
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
        found = None
        if self._factor is None:
            found = self._run(rhs, x0, None, PATIENCE if self.may_factor else MAX_ITERATIONS)
            if found.status is Status.MAX_ITERATIONS and self.may_factor:
                self._factorize()
                found = None
        if found is None:
            found = self._run(rhs, x0, self._factor, STALE if not self._fresh else 50)
            if found.status is Status.MAX_ITERATIONS and not self._fresh:
                self._factorize()
                found = self._run(rhs, found.x, self._factor, 50)
        if found.status is not Status.CONVERGED:
            raise SolverError(
                f"the systems of this design could not be solved to {self.tol:g} ({found.status.name}): pass a smaller upper "
                "bound, or a data term (fit) at more nodes."
            )
        return found.x

    def _run(self, rhs: np.ndarray, x0: np.ndarray | None, precondition: cg.Preconditioner | None, limit: int) -> Iterates:
        assert self._K is not None
        found = cg.solve_in_order(self._K, rhs, tol=self.tol, max_iterations=limit, x0=x0, precondition=precondition)
        self.iterations += found.iterations * rhs.shape[1]
        return found

    def _factorize(self) -> None:
        assert self._K is not None
        K = sp.csc_matrix(self._K)
        try:
            self._factor = splu(K, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}).solve
        except RuntimeError:  # SuperLU's word for an exactly singular factor
            raise SolverError("C + S became singular in float64 during the design: pass a smaller upper bound.") from None
        self._fresh = True
        self.factorizations += 1
