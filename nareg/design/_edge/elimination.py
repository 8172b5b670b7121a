"""Sparse ``L D L^T`` of one matrix after another with the same pattern, and entries of the inverses on that pattern.

The order of elimination and the pattern of L are found once. A library's factor finds them each time: on 3,000 nodes
that takes ten times as long as the arithmetic.
"""

from __future__ import annotations

import numpy as np

from nareg._solvers.factorization import fill_order, superlu
from nareg.results import symmetric_from_entries


class Elimination:
    """Pattern of L for a matrix with a diagonal and the entries ``(i, j)``, and where its entries are in L.

    The order of elimination is SuperLU's, unless it is given.
    """

    def __init__(self, n: int, i: np.ndarray, j: np.ndarray, order: np.ndarray | None = None) -> None:
        if order is None:
            order = fill_order(symmetric_from_entries(np.ones(n + i.size), i, j))
        self.order = order
        rank = np.empty(n, dtype=np.int64)
        rank[order] = np.arange(n)
        # diagonally dominant: eliminated as it stands, nothing cancels
        degrees = np.bincount(i, minlength=n) + np.bincount(j, minlength=n)
        ordered = symmetric_from_entries(np.concatenate([degrees[order] + 1.0, -np.ones(i.size)]), rank[i], rank[j])
        lu = superlu(ordered, natural=True)
        assert lu is not None
        L = lu.L.tocsc()
        L.sort_indices()
        #: Where each node is in the order of elimination.
        self.rank = rank
        self.indptr, self.indices = L.indptr.astype(np.int64), L.indices.astype(np.int64)
        stored = np.repeat(np.arange(n), np.diff(self.indptr)) * n + self.indices  # sorted: columns, then rows
        wanted = np.minimum(rank[i], rank[j]) * n + np.maximum(rank[i], rank[j])
        self.positions = np.concatenate([self.indptr[rank], np.searchsorted(stored, wanted)])

    def factor(self, entries: np.ndarray) -> tuple[float, np.ndarray] | None:
        """Log-determinant and factor (D on its diagonal); None where a pivot is not positive.

        ``entries`` are the N diagonal ones, then those of ``(i, j)``.
        """
        from nareg.design._risk import kernels  # numba: imported when first needed

        data = np.zeros(self.indices.size)
        data[self.positions] = entries
        if not kernels.eliminate(self.indptr, self.indices, data):
            return None
        return float(np.log(data[self.indptr[:-1]]).sum()), data

    def inverse(self, data: np.ndarray) -> np.ndarray:
        """Entries of the inverse on the pattern of L."""
        from nareg.design._risk import kernels  # numba: imported when first needed

        inverse: np.ndarray = kernels.selected_inverse(self.indptr, self.indices, data)
        return inverse

    def inverse_entries(self, data: np.ndarray) -> np.ndarray:
        """Entries of the inverse: N diagonal ones, then those at ``(i, j)``."""
        return self.inverse(data)[self.positions]
