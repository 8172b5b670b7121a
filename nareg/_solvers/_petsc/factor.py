"""Sparse Cholesky factors by MUMPS, on any number of ranks; by PETSc itself on one where MUMPS is absent."""

from __future__ import annotations

from typing import Any

import numpy as np

from nareg._solvers._petsc.matrices import DistributedSystem
from nareg._solvers._petsc.ranks import load
from nareg._solvers.iterate import Iterates
from nareg.errors import InputError, TooLargeError
from nareg.results import Status

#: Steps of iterative refinement.
REFINEMENTS = 3
#: MUMPS's codes for memory that is refused.
OUT_OF_MEMORY = (-5, -7, -8, -9, -13, -19, -20)


class ParallelFactor:
    """The factor of K, made once."""

    def __init__(self, system: DistributedSystem) -> None:
        library = load()
        PETSc = library.PETSc
        self.system = system
        mumps = PETSc.Sys.hasExternalPackage("mumps")
        if not mumps and library.comm.size > 1:
            raise InputError(
                "this PETSc was built without MUMPS, which method='direct' needs on several ranks: take method='multigrid'."
            )
        system.K.setOption(PETSc.Mat.Option.SPD, True)
        self._pc = PETSc.PC().create(library.comm)
        self._pc.setOperators(system.K)
        self._pc.setType("cholesky")
        self._pc.setFactorSolverType("mumps" if mumps else "petsc")
        self.definite = True
        try:
            self._pc.setUp()
        except PETSc.Error:
            code = self._pc.getFactorMatrix().getMumpsInfog(1) if mumps else 0
            if code in OUT_OF_MEMORY:
                raise TooLargeError(
                    f"the factor of {system.n_nodes} nodes does not fit in memory: take 'multigrid' or 'cg', or more ranks."
                ) from None
            self.definite = False  # a zero or negative pivot
        if mumps and self.definite:
            infog = self._pc.getFactorMatrix().getMumpsInfog
            self.definite = infog(1) >= 0 and infog(12) == 0

    def solve(self, rhs: np.ndarray, tol: float) -> Iterates:
        """Solve for the local rows (n, T) of all signals at once, and refine."""
        if not self.definite:
            return Iterates(np.zeros_like(rhs), 0, [1.0], Status.INDEFINITE)
        x = np.zeros_like(rhs)
        left, worst = rhs, [np.inf]
        for _ in range(REFINEMENTS):
            step = x + self._apply(left)
            residual = float(np.max(self.system.residuals(step, rhs, tol)))
            if not residual < worst[-1]:
                break
            x, worst = step, [*worst, residual]
            if residual <= tol:
                break
            left = rhs - self._product(x)
        return Iterates(x, 0, worst[1:], Status.CONVERGED if worst[-1] <= tol else Status.STALLED)

    def _apply(self, rhs: np.ndarray) -> np.ndarray:
        b = dense(rhs, self.system.n_nodes)
        x = b.duplicate()
        self._pc.matApply(b, x)
        return extract_rows(b, x)

    def _product(self, x: np.ndarray) -> np.ndarray:
        return product(self.system.K, x)


def product(matrix: Any, rows: np.ndarray) -> np.ndarray:
    """The local rows of a square matrix times X, of which every rank has its rows."""
    X = dense(rows, matrix.getSize()[0])
    return extract_rows(X, matrix.matMult(X))


def extract_rows(argument: Any, result: Any) -> np.ndarray:
    """The local rows of a result. Both matrices are freed at once: PETSc keeps what Python merely forgets."""
    rows = np.array(result.getDenseArray())
    argument.destroy()
    result.destroy()
    return rows


def dense(rows: np.ndarray, n: int) -> Any:
    """A dense matrix of n rows from those of this rank."""
    library = load()
    columns = rows.shape[1]
    matrix = library.PETSc.Mat().createDense(size=((rows.shape[0], n), (library.PETSc.DECIDE, columns)), comm=library.comm)
    matrix.getDenseArray()[:] = rows
    matrix.assemble()
    return matrix
