"""The unknowns u of an edge design: a number for every node and edge, and the matrix S that they make.

``S = sum_k u_k v_k v_k^T`` with ``v = e_i`` for a node and ``e_i - e_j`` for an edge: u holds the excess of every
row over its edges and the weight of every edge, and ``u >= 0`` says that S is a diagonally dominant M-matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

#: ``A Z`` and Z of random probes with ``E Z Z^T = I``, so that ``A = E (A Z) Z^T``.
Sketch = tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Support:
    """Nodes and edges ``(i, j)`` of the graph, whose numbers are the unknowns u."""

    n: int
    i: np.ndarray
    j: np.ndarray

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return self.n + self.i.size

    @property
    def identity(self) -> np.ndarray:
        """Unknowns of the identity matrix: ones for the row sums, zeros for the weights of edges."""
        return (np.arange(self.size) < self.n).astype(float)

    def matrix(self, u: np.ndarray) -> np.ndarray:
        """Dense ``S(u)``."""
        entries = self.entries(u)
        full = np.zeros((self.n, self.n))
        full[self.i, self.j] = full[self.j, self.i] = entries[self.n :]
        np.fill_diagonal(full, entries[: self.n])
        return full

    def unknowns(self, entries: np.ndarray) -> np.ndarray:
        """``u`` of the matrix with these entries (N diagonal ones, then those of the edges)."""
        return self._from_rows(entries)

    def of_operator(self, L: sp.csr_array) -> np.ndarray:
        """``u`` of a sparse matrix on this support."""
        return self.unknowns(np.concatenate([L.diagonal(), np.asarray(L[self.i, self.j]).ravel()]))

    def entries(self, u: np.ndarray) -> np.ndarray:
        """Diagonal and edge entries of ``S(u)``."""
        return self._from_rows(u)

    def _from_rows(self, v: np.ndarray) -> np.ndarray:
        """Entries to u and back: each node adds its edges, each edge changes sign; its own inverse."""
        edge = v[self.n :]
        ends = np.bincount(self.i, edge, self.n) + np.bincount(self.j, edge, self.n)
        return np.concatenate([v[: self.n] + ends, -edge])

    def numbers(self, u: np.ndarray) -> np.ndarray:
        """The number of every node and edge."""
        return u

    def reduce(self, each: np.ndarray) -> np.ndarray:
        """Derivatives by the unknowns from those by the number of every node and edge."""
        return each

    def differences(self, entries: np.ndarray) -> np.ndarray:
        """``v_k^T M v_k`` for every node and edge, from M's N diagonal entries and those between the ends of edges."""
        d = entries[: self.n]
        return np.concatenate([d, d[self.i] + d[self.j] - 2 * entries[self.n :]])

    def gather(self, M: np.ndarray) -> np.ndarray:
        """``v_k^T M v_k`` for symmetric M."""
        return self.reduce(self.differences(np.concatenate([np.diagonal(M), M[self.i, self.j]])))

    def column_products(self, A: np.ndarray, U: np.ndarray) -> np.ndarray:
        """``sum over columns (v_k^T a)(v_k^T u)``."""
        from nareg.design._risk import kernels  # numba: imported when first needed

        edge = kernels.edge_products(self.i, self.j, np.ascontiguousarray(A), np.ascontiguousarray(U))
        return self.reduce(np.concatenate([np.einsum("it,it->i", A, U), edge]))

    def products(self, *pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Lower triangle of ``sum_pairs (V^T A V) o (V^T B V)``, entrywise products, for symmetric A and B."""
        from nareg.design._risk import kernels  # numba: imported when first needed

        first, second = (np.zeros((len(pairs), self.n + 1, self.n + 1)) for _ in range(2))
        for side, stack in enumerate((first, second)):
            for position, pair in enumerate(pairs):
                stack[position, :-1, :-1] = pair[side]  # the zero row stands for the missing end of a node's e_i
        nodes = np.arange(self.n)
        first_end = np.concatenate([nodes, self.i])
        second_end = np.concatenate([np.full_like(nodes, self.n), self.j])
        return kernels.rank_one_products(first_end, second_end, first, second)

    def reduced_products(self, lower: np.ndarray) -> np.ndarray:
        """Lower triangle of a symmetric matrix by the unknowns from that by the number of every node and edge."""
        return lower

    def product_diagonal(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Diagonal of :meth:`products`."""
        return self.gather(A) * self.gather(B)

    def column_product_diagonal(self, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        """The same for ``A = U U^T`` and ``B = V V^T``."""
        return self.column_products(U, U) * self.column_products(V, V)

    def squared_diagonal(self, each: np.ndarray, sketch: Callable[[], Sketch]) -> np.ndarray:
        """The same for ``A = B``, given ``v_k^T A v_k`` of every node and edge, and two sketches of A if these must do."""
        return each**2
