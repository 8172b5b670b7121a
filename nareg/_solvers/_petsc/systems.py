"""``K(w) = C + diag(w) L diag(w)`` for one w after another, distributed by rows: the systems of a descent over node weights.

Every rank holds the graph and runs the same descent. K, right-hand sides and solutions are distributed; what comes out, a
number per column or per node, is put together in the order of the ranks, so that all get the same bits.
"""

from __future__ import annotations

import numpy as np

from nareg._solvers._petsc.choice import all_rows
from nareg._solvers._petsc.factor import product
from nareg._solvers._petsc.krylov import Krylov
from nareg._solvers._petsc.matrices import DistributedSystem, from_rows, local_range, with_dominant_form
from nareg._solvers._petsc.ranks import load, roll_call, together
from nareg._solvers.iterate import Iterates
from nareg._solvers.sequence import LevelSequence
from nareg._solvers.system import Penalty
from nareg.results import Status


class PetscSystems(LevelSequence):
    """The systems of an operator with a stored diagonal; columns are the local rows of (N, T) arrays.

    One Mat and one KSP serve all w: their values change. Levels are GAMG's.
    """

    def __init__(self, base: Penalty, c: np.ndarray, *, mesh_like: bool, tol: float) -> None:
        super().__init__(may_cycle=base.is_laplacian and mesh_like, tol=tol)
        self._comm, self._structure = load().comm, load().PETSc.Mat.Structure.SAME_NONZERO_PATTERN
        L, n = base.L, c.size
        roll_call(self._comm, {"graph": (L.shape, L.indptr, L.indices, L.data), "data_weight": c})
        self.label = " [PETSc]" if self._comm.size == 1 else f" [PETSc on {self._comm.size} ranks]"
        self._own = slice(*local_range(n))
        self._c = c[self._own]
        with together(self._comm):
            rows = L[self._own]
            self._L = from_rows(n, rows.indptr, rows.indices, rows.data)
            self._L_diagonal = L.diagonal()[self._own]
            self._K = self._L.duplicate(copy=True)
            self._gamg: Krylov | None = None
            self._set(np.ones(n))
            self._jacobi = Krylov(self._system, "jacobi")

    def keep(self, columns: np.ndarray) -> np.ndarray:
        """The local rows."""
        roll_call(self._comm, {"the data of the design": columns})
        return columns[self._own].copy()

    def update(self, w: np.ndarray) -> None:
        """Set the weights, the same on all ranks."""
        roll_call(self._comm, {"weights": w})
        with together(self._comm):
            if not np.array_equal(w != 0, self._w != 0):
                self.forget()  # a node without a weight is coupled to none, in the levels, too
            self._set(w)
            self._fresh = False
            self._jacobi.update(self._system)
            if self._levels:
                assert self._gamg is not None
                self._gamg.update(self._system)

    def solve(self, rhs: np.ndarray, x0: np.ndarray | None = None) -> np.ndarray:
        """``K^-1 rhs``, from ``x0`` if given; SolverError on all ranks where the residual stays above the tolerance."""
        self.columns += rhs.shape[1]
        with together(self._comm):
            x: np.ndarray = self._solve(rhs, x0)
        return x

    def filtered(self, y: np.ndarray, x0: np.ndarray | None = None) -> np.ndarray:
        """``K^-1 C y``."""
        return self.solve(self._c[:, None] * y, x0)

    def dots(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """The inner product of every pair of columns, (T,)."""
        shares = np.empty((self._comm.size, A.shape[1]))
        with together(self._comm):
            self._comm.Allgather(np.einsum("it,it->t", A, B), shares)
        return shares.sum(axis=0)

    def derivative(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """``sum over columns d (a^T K(w) b) / dw``, which is ``a * (L W b) + b * (L W a)``."""
        W = self._w[self._own, None]
        with together(self._comm):
            own = np.einsum("it,it->i", A, product(self._L, W * B)) + np.einsum("it,it->i", B, product(self._L, W * A))
            return all_rows(own[:, None])[:, 0]

    def _set(self, w: np.ndarray) -> None:
        """The values of K."""
        self._w, own = w, w[self._own]
        self._L.copy(self._K, self._structure)
        d = self._K.getDiagonal()
        scale = d.copy()
        scale.array[:] = own
        self._K.diagonalScale(scale, scale)
        d.array[:] = self._L_diagonal * own**2 + self._c
        self._K.setDiagonal(d)
        if self._may_cycle:
            self._system = with_dominant_form(self._K, d, own, self._c, self._L_diagonal)
        else:
            self._system = DistributedSystem(self._K, d)

    def _run(self, rhs: np.ndarray, x0: np.ndarray | None, limit: int) -> Iterates:
        if not self._system.positive:
            return Iterates(np.zeros_like(rhs), 0, [1.0], Status.INDEFINITE)
        solver = self._gamg if self._levels else self._jacobi
        assert solver is not None
        reached = solver.solve(rhs, tol=self.tol, max_iterations=limit, x0=x0)
        self.iterations += reached.iterations * rhs.shape[1]
        return reached

    def _make_levels(self) -> None:
        self._gamg = Krylov(self._system, "gamg")
