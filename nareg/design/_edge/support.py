"""The unknowns u of an edge design: a number for every node and edge, and the matrix S that they make.

``S = sum_k u_k v_k v_k^T`` with ``v = e_i`` for a node and ``e_i - e_j`` for an edge: u holds the excess of every
row over its edges and the weight of every edge, and ``u >= 0`` says that S is a diagonally dominant M-matrix.

Edge weights shared by groups of nodes: ``u = Z v`` with one unknown per group and per pair of groups.

Nodes of a group share the row sum of S. Edges whose ends lie in the same two groups share one factor, which multiplies
the graph's own weights: with one group S is ``kappa I + beta L``. Row sums that the operator itself has (a normalized
Laplacian) go with the edges inside the node's group, so that this holds for every operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

from nareg._solvers.system import Penalty
from nareg.design._risk.descent import Groups
from nareg.results import upper_edges

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

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The nodes between which v_k is a difference; N, one beyond the nodes, where v_k is of one node alone."""
        nodes = np.arange(self.n)
        return np.concatenate([nodes, self.i]), np.concatenate([np.full_like(nodes, self.n), self.j])

    def products(self, *pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Lower triangle of ``sum_pairs (V^T A V) o (V^T B V)``, entrywise products, for symmetric A and B."""
        from nareg.design._risk import kernels  # numba: imported when first needed

        first, second = (np.zeros((len(pairs), self.n + 1, self.n + 1)) for _ in range(2))
        for side, stack in enumerate((first, second)):
            for position, pair in enumerate(pairs):
                stack[position, :-1, :-1] = pair[side]  # the zero row stands for the missing end of a node's e_i
        return kernels.rank_one_products(*self.ends, first, second)

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


#: Row sums of the operator are zero below this part of its diagonal.
ROUNDING = 1e-10


@dataclass(frozen=True)
class SharedSupport(Support):
    """Nodes and edges whose numbers are ``u = Z v``."""

    Z: sp.csc_array  # (N + M, unknowns), the nodes' columns first
    n_groups: int

    @property
    def size(self) -> int:
        return int(self.Z.shape[1])

    @property
    def identity(self) -> np.ndarray:
        return (np.arange(self.size) < self.n_groups).astype(float)

    def numbers(self, u: np.ndarray) -> np.ndarray:
        return self.Z @ u

    def entries(self, u: np.ndarray) -> np.ndarray:
        return super().entries(self.numbers(u))

    def unknowns(self, entries: np.ndarray) -> np.ndarray:
        """Unknowns of the nearest matrix with shared weights."""
        v: np.ndarray = spsolve(sp.csc_array(self.Z.T @ self.Z), self.Z.T @ super().unknowns(entries))
        return np.atleast_1d(v)

    def reduce(self, each: np.ndarray) -> np.ndarray:
        return self.Z.T @ each

    def products(self, *pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        return self.reduced_products(super().products(*pairs))

    def reduced_products(self, lower: np.ndarray) -> np.ndarray:
        full = lower + np.tril(lower, -1).T
        return np.tril(self.Z.T @ (self.Z.T @ full).T)

    def product_diagonal(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.diagonal(self.products((A, B)))

    def column_product_diagonal(self, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        ends_U, ends_V = self._differences(U), self._differences(V)
        diagonal: np.ndarray = self._of_single(np.sum(ends_U**2, axis=1) * np.sum(ends_V**2, axis=1))
        for k, rows, z in self._of_several():
            diagonal[k] = np.sum(((z * ends_U[rows]).T @ ends_V[rows]) ** 2)
        return diagonal

    def squared_diagonal(self, each: np.ndarray, sketch: Callable[[], Sketch]) -> np.ndarray:
        """Estimated from independent sketches: ``sum_kl z_k z_l (v_k^T A v_l)(v_k^T B v_l)``, at least its terms k = l."""
        diagonal = self._of_single(each**2)
        if self.Z.nnz == self.size:
            return diagonal
        (A, Y), (B, Z) = (tuple(self._differences(part) for part in pair) for pair in sketch())
        for k, rows, z in self._of_several():
            diagonal[k] = max(diagonal[k], float(np.sum(((z * A[rows]).T @ B[rows]) * ((z * Y[rows]).T @ Z[rows]))))
        return diagonal

    def _of_single(self, each: np.ndarray) -> np.ndarray:
        """``sum_k z_k^2 each_k``."""
        return self.Z.multiply(self.Z).T @ each

    def _of_several(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Unknowns that several nodes or edges share: which, and their factors as a column."""
        for k in np.flatnonzero(np.diff(self.Z.indptr) > 1):
            members = slice(self.Z.indptr[k], self.Z.indptr[k + 1])
            yield int(k), self.Z.indices[members], self.Z.data[members, None]

    def _differences(self, U: np.ndarray) -> np.ndarray:
        """``v_k^T U`` for every node and edge."""
        return np.concatenate([U, U[self.i] - U[self.j]])


def support_of(base: Penalty, groups: Groups) -> Support:
    """The unknowns of a graph's edge design, shared or not."""
    n, (i, j) = base.n_nodes, upper_edges(base.L)
    plain = Support(n, i, j)
    if groups.index is None:
        return plain
    nodes = groups.index
    first, second = np.minimum(nodes[i], nodes[j]), np.maximum(nodes[i], nodes[j])
    own = plain.of_operator(base.L)
    own[:n][np.abs(own[:n]) <= ROUNDING * base.L.diagonal()] = 0.0
    has_edges = np.bincount(first[first == second], minlength=groups.count) > 0
    inside = _row_sums_by_group(own[:n], nodes, has_edges)
    rows = np.concatenate([np.arange(n, n + i.size), inside])
    pair, column = np.unique(
        np.concatenate([first, nodes[inside]]) * groups.count + np.concatenate([second, nodes[inside]]), return_inverse=True
    )
    size = np.bincount(column, np.abs(own[rows])) / np.bincount(column)  # an unknown is the mean weight of its edges
    values = np.divide(own[rows], size[column], out=np.ones(rows.size), where=size[column] > 0)
    Z = sp.csc_array(
        (
            np.concatenate([np.ones(n), values]),
            (np.concatenate([np.arange(n), rows]), np.concatenate([nodes, groups.count + column])),
        ),
        shape=(plain.size, groups.count + pair.size),
    )
    return SharedSupport(n, i, j, Z, groups.count)


def _row_sums_by_group(sums: np.ndarray, nodes: np.ndarray, has_edges: np.ndarray) -> np.ndarray:
    """Nodes whose row sums go with the edges of their group; not where the shared row sum says the same."""
    low, high = np.full(has_edges.size, np.inf), np.full(has_edges.size, -np.inf)
    np.minimum.at(low, nodes, sums)
    np.maximum.at(high, nodes, sums)
    varies = high - low > ROUNDING * np.abs(sums).max(initial=0.0)
    return np.flatnonzero((sums != 0) & (has_edges | varies)[nodes])
