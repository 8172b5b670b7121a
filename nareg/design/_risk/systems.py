"""The systems of a descent over node weights, in the hands of one library: SciPy, torch or PETSc.

A design asks four things of ``K(w) = C + diag(w) L diag(w)``: solutions with it, inner products of columns, the derivative of
``a^T K(w) b`` in w, and that all of this is quick when w has moved a little. What a library solves with, and where columns
lie, is its own affair: a descent hands in w and takes out numbers per column and per node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp

from nareg._solvers.backends import SolverBackend, open_systems
from nareg._solvers.sequence import SystemSequence
from nareg._solvers.system import Penalty, scale_symmetric
from nareg.design._risk import support

if TYPE_CHECKING:
    from collections.abc import Callable


class NodeSystems(Protocol):
    """``K(w)`` for one w after another. Columns are arrays of the library's own kind, made by ``keep`` and ``solve``."""

    #: Relative residual of every column.
    tol: float
    #: Work so far: iterations times columns, factors or multigrid levels made, right-hand sides.
    iterations: int
    factorizations: int
    columns: int
    #: What solves, for reports; empty for SciPy.
    label: str

    def keep(self, columns: np.ndarray) -> Any:
        """(N, T) columns where this library solves."""

    def update(self, w: np.ndarray) -> None:
        """Set the weights."""

    def forget(self) -> None:
        """Drop what preconditions: the next systems are easier."""

    def solve(self, rhs: Any, x0: Any = None) -> Any:
        """``K^-1 rhs``, from ``x0`` if given; SolverError where the residual stays above the tolerance."""

    def filtered(self, y: Any, x0: Any = None) -> Any:
        """``K^-1 C y``."""

    def dots(self, A: Any, B: Any) -> np.ndarray:
        """The inner product of every pair of columns, (T,)."""

    def derivative(self, A: Any, B: Any) -> np.ndarray:
        """``sum over columns d (a^T K(w) b) / dw``, (N,)."""


class ScipySystems(SystemSequence):
    """Those of SciPy with our compiled loops."""

    label = ""

    def __init__(self, L: sp.csr_array, c: np.ndarray, *, mesh_like: bool, tol: float) -> None:
        super().__init__(c.size, mesh_like=mesh_like, tol=tol)
        self.L, self.c = L, c
        self._w = np.ones_like(c)

    def keep(self, columns: np.ndarray) -> np.ndarray:
        return columns

    def update(self, w: np.ndarray) -> None:
        K = scale_symmetric(self.L, w)
        K.data[support.diagonal_positions(K)] += self.c
        self._w = w
        self.set_matrix(K)

    def filtered(self, y: np.ndarray, x0: np.ndarray | None = None) -> np.ndarray:
        return self.solve(self.c[:, None] * y, x0)

    def dots(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.einsum("it,it->t", A, B)

    def derivative(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        # dS_ij = L_ij (dw_i w_j + w_i dw_j)
        pairs = support.pair_products(self.L, A, B)
        out: np.ndarray = sp.csr_array((pairs * self.L.data, self.L.indices, self.L.indptr), self.L.shape) @ self._w
        return out


def node_systems(backend: SolverBackend, base: Penalty, c: np.ndarray, *, mesh_like: bool, tol: float) -> NodeSystems:
    """The systems of an operator whose diagonal is stored, in the hands of the library of this name."""
    if backend == "scipy":
        return ScipySystems(base.L, c, mesh_like=mesh_like, tol=tol)
    systems: Callable[..., NodeSystems] = open_systems
    return systems(backend, base, c, mesh_like=mesh_like, tol=tol)
