"""The matrix variable Omega of the programs: its entries on the support of L, and what makes it positive semidefinite."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg.design._convex.quadratic import support
from nareg.design.programs._cliques import CliqueTree

CONES = ("cliques", "dense")


class Omega:
    """A PSD matrix in units of ``unit``, of which the programs need the entries on the support of L.

    With ``cone="cliques"`` the other entries are no unknowns: blocks over cliques are PSD, so that a PSD completion exists.
    """

    def __init__(self, L: np.ndarray, cone: str, unit: float) -> None:
        import cvxpy as cp  # half a second to import: only when a program is built

        self.L, self.cone, self.unit, self.n = L, cone, unit, len(L)
        self.rows, self.columns = support(L)
        self.tree = CliqueTree(self.n, self.rows, self.columns)
        if cone == "dense":
            self.variable = cp.Variable((self.n, self.n), PSD=True, name="omega")
            self.unit_entries = self.variable[self.rows, self.columns]
            self.constraints: list[Any] = []
            self.cone_rows = [self.n]
            self.n_entries = self.rows.size
            return
        filled = sorted(self.tree.pairs() - set(zip(self.rows.tolist(), self.columns.tolist(), strict=True)))
        self._rows = np.concatenate([self.rows, np.array([i for i, _ in filled], dtype=int)])
        self._columns = np.concatenate([self.columns, np.array([j for _, j in filled], dtype=int)])
        self.n_entries = self._rows.size
        self.variable = cp.Variable(self.n_entries, name="omega")
        self.unit_entries = self.variable[: self.rows.size]
        index = sp.csr_array((np.arange(self.n_entries) + 1, (self._rows, self._columns)), shape=(self.n, self.n)).toarray()
        index = np.maximum(index, index.T) - 1
        self.constraints = [self._block(index[np.ix_(clique, clique)]) >> 0 for clique in self.tree.cliques]
        self.cone_rows = [clique.size for clique in self.tree.cliques]

    def _block(self, index: np.ndarray) -> Any:
        """The matrix of the variable's entries at ``index``."""
        import cvxpy as cp

        picked = sp.csr_array((np.ones(index.size), (np.arange(index.size), index.ravel())), shape=(index.size, self.n_entries))
        return cp.reshape(picked @ self.variable, index.shape, order="C")

    @property
    def entries(self) -> Any:
        """Entries on the support of L: N diagonal ones, then those of the edges (i < j)."""
        return self.unit * self.unit_entries

    @property
    def diagonal(self) -> Any:
        """``Omega_ii``, which are the squared weights at rank one."""
        return self.unit * self.unit_entries[: self.n]

    def times(self, L: np.ndarray) -> Any:
        """``Omega o L`` for an L of this support, (N, N)."""
        import cvxpy as cp

        i, j = self.rows, self.columns
        off = i != j
        k = np.arange(i.size)
        places = np.concatenate([i + self.n * j, (j + self.n * i)[off]])
        values = np.concatenate([L[i, j], L[i, j][off]]) * self.unit
        spread = sp.csr_array((values, (places, np.concatenate([k, k[off]]))), shape=(self.n**2, i.size))
        return cp.reshape(spread @ self.unit_entries, (self.n, self.n), order="F")

    @property
    def value(self) -> np.ndarray | None:
        """The matrix, completed outside the cliques; None before a solve."""
        solution = self.variable.value
        if solution is None:
            return None
        if self.cone == "dense":
            return self.unit * (solution + solution.T) / 2
        matrix = np.zeros((self.n, self.n))
        matrix[self._rows, self._columns] = matrix[self._columns, self._rows] = self.unit * solution
        return self.tree.complete(matrix)

    def assign(self, matrix: np.ndarray) -> None:
        """Make the variable's value that of a matrix."""
        if self.cone == "dense":
            self.variable.save_value(matrix / self.unit)
        else:
            self.variable.save_value(matrix[self._rows, self._columns] / self.unit)
