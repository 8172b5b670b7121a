"""The convex quadratic that Prony's design (25) and the fit (30) share, evaluated with sparse products only.

Both are, in ``S = Omega o L`` with ``R = A A^T`` for some columns A,

    q(S) = tr(S R S) + 2 <B, S> + const,      dq = <G, dS>,   G = S R + R S + 2 B.

Row i of S has its entries at the neighbors of i, and G is needed on the support of L alone: both ask only for
the entries of R between neighbors of one node. These blocks are formed once, after which value, gradient and
Hessian products cost the sum of squared degrees, whatever the number of columns.

The convex programs in the entries of Omega on the support of L.

Only these entries enter ``S = Omega o L``. With ``z`` those entries (N diagonal,
M off-diagonal) and ``E_k`` the symmetric matrices ``S = sum_k z_k E_k``, both criteria are quadratics

    Prony (25)   tr(S R S)                        = z^T G(R) z
    fit   (30)   2 ||H (I + S) - I||_F^2          = 2 (z^T G(H^2) z + 2 b^T z) + const
    G(P)_kl = tr(E_k P E_l),   b_k = tr(E_k (H^2 - H))

so that a program has N + M quadratic unknowns instead of products of N x N matrices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from nareg.design._risk.descent import Groups
from nareg.design._risk.sampled import diagonal_positions, pair_products, with_diagonal


def support(L: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of every unknown: the N diagonal entries, then the edges (i < j)."""
    n = len(L)
    i, j = np.nonzero(np.triu(L, 1))
    diagonal = np.arange(n)
    return np.concatenate([diagonal, i]), np.concatenate([diagonal, j])


def _amplitude(L: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """``a`` with ``E_k = a_k (e_i e_j^T + e_j e_i^T)``; half of L_ii on the diagonal, where both terms meet."""
    return np.where(i == j, 0.5, 1.0) * L[i, j]


def gram(L: np.ndarray, P: np.ndarray) -> np.ndarray:
    """``G(P)_kl = tr(E_k P E_l)`` over the support of L, (N + M, N + M)."""
    i, j = support(L)
    a = _amplitude(L, i, j)
    p, q = i[None], j[None]
    r, s = i[:, None], j[:, None]
    total = P[np.ix_(j, i)] * (q == r) + P[np.ix_(j, j)] * (p == r) + P[np.ix_(i, i)] * (q == s) + P[np.ix_(i, j)] * (p == s)
    total *= a[:, None] * a[None]
    return (total + total.T) / 2


def linear(L: np.ndarray, P: np.ndarray) -> np.ndarray:
    """``b_k = tr(E_k P)`` for symmetric P."""
    i, j = support(L)
    return 2 * _amplitude(L, i, j) * P[i, j]


#: Largest sum of squared degrees whose blocks are kept (0.4 GB); beyond, products with the columns of R.
BLOCK_ENTRIES = 5e7


@dataclass(frozen=True)
class LowRankPoint:
    """Factor V (a row for every group of nodes), value, ``tr(S R S)`` and ``Y = G o L`` on the pattern."""

    V: np.ndarray
    value: float
    square: float
    Y: sp.csr_array


class SupportQuadratic:
    """q as a function of V, ``Omega = V V^T``.

    Parameters
    ----------
    L : (N, N) sparse
        Operator (in the coordinates where the data term is the identity).
    A : (N, r) array
        Columns with ``A A^T = R``.
    groups : Groups
        Nodes that share a row of V.
    constant : float
        What q is at S = 0.
    """

    def __init__(self, L: sp.csr_array, A: np.ndarray, groups: Groups, *, constant: float = 0.0) -> None:
        self.L = with_diagonal(L)
        self.A = np.ascontiguousarray(A)
        self.groups = groups
        self.constant = constant
        #: B on the pattern of :attr:`L`, in its order, where there is a linear term.
        self.slope: np.ndarray | None = None
        #: No S whatever gives less than this.
        self.least = 0.0
        n = self.L.shape[0]
        rows = np.repeat(np.arange(n), np.diff(self.L.indptr))
        # where the entry (j, i) of the pattern is, for every entry (i, j)
        self.mirror = np.lexsort((rows, self.L.indices))
        self.power = np.einsum("ir,ir->i", self.A, self.A)
        degree = np.diff(self.L.indptr).astype(np.int64)
        self.blocks: np.ndarray | None = None
        # with few columns the products with them are as quick, and a sum of squares near zero keeps its digits
        if float(np.sum(degree**2)) <= min(BLOCK_ENTRIES, float(self.L.nnz) * self.A.shape[1]):
            self.starts = np.concatenate([[0], np.cumsum(degree**2)])
            from nareg.design._risk import kernels  # numba: imported when first needed

            self.blocks = kernels.neighbor_blocks(self.L.indptr, self.L.indices, self.starts, self.A)
        # sum_j L_ij^2 R_ii for j != i, the part of the curvature that no cancellation between neighbors removes
        square = sp.csr_array((self.L.data**2, self.L.indices, self.L.indptr), self.L.shape)
        # a node without entries of its own in L, or with no signal where it has them, has no say in q
        self.enters = groups.reduce(square @ self.power + np.asarray(square.sum(axis=1)).ravel() * self.power) > 0
        square.data[diagonal_positions(square)] = 0.0
        self.curvature = sp.csr_array((square.data * self.power[rows], self.L.indices, self.L.indptr), self.L.shape)

    def entries(self, V: np.ndarray, W: np.ndarray) -> np.ndarray:
        """``(V W^T + W V^T) o L`` on the pattern."""
        return self.L.data * pair_products(self.L, self.groups.expand(V), self.groups.expand(W))

    def at(self, V: np.ndarray) -> LowRankPoint:
        """Value and ``Y`` at V."""
        s = self.entries(V, V) / 2
        G, square = self._image(s)
        value = square + self.constant
        if self.slope is not None:
            value += 2 * float(self.slope @ s)
            G += 2 * self.slope
        return LowRankPoint(V, value, square, self._matrix(self.L.data * G))

    def image(self, V: np.ndarray, D: np.ndarray) -> sp.csr_array:
        """Derivative of ``Y`` at V along D."""
        return self._matrix(self.L.data * self._image(self.entries(V, D))[0])

    def apply(self, Y: sp.csr_array, V: np.ndarray) -> np.ndarray:
        """``Y V`` of the groups' rows."""
        return self.groups.reduce(np.asarray(Y @ self.groups.expand(V)))

    def grouped(self, Y: sp.csr_array) -> sp.csr_array:
        """``P^T Y P`` with the groups' membership P."""
        index = self.groups.index
        if index is None:
            return Y
        P = sp.csr_array((np.ones(index.size), (np.arange(index.size), index)), shape=(index.size, self.groups.count))
        return sp.csr_array(P.T @ Y @ P)

    def row_curvature(self, V: np.ndarray) -> np.ndarray:
        """(G, k, k) blocks of the curvature of ``tr(S R S)`` in one row of V.

        ``R_ii sum_j L_ij^2 v_j v_j^T`` from the entries ``S_ji``, and what row i of S adds where its block of R is kept.
        """
        nodes = self.groups.expand(V)
        n, k = nodes.shape
        outer = (nodes[:, :, None] * nodes[:, None, :]).reshape(n, k * k)
        blocks = np.asarray(self.curvature @ outer).reshape(n, k, k)
        if self.blocks is not None:
            from nareg.design._risk import kernels  # numba: imported when first needed

            kernels.add_row_part(self.L.indptr, self.L.indices, self.L.data, self.starts, self.blocks, nodes, blocks)
        return self.groups.reduce(blocks)

    def weights_criterion(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Q at rank one, and its gradient ``2 (G o L) w``, as a function of the groups' weights."""
        point = self.at(w[:, None])
        return point.value, 2 * self.apply(point.Y, point.V)[:, 0]

    def best_multiple(self, V: np.ndarray) -> np.ndarray:
        """``t V`` with the t that minimizes q, a small one where q rises from zero."""
        s = self.entries(V, V) / 2
        square, slope = self._image(s)[1], 0.0 if self.slope is None else float(self.slope @ s)
        if square <= 0:
            return V
        # q = square t^4 + 2 slope t^2 + const
        return V * np.sqrt(max(-slope, 1e-3 * abs(slope)) / square) if slope else V

    def _image(self, s: np.ndarray) -> tuple[np.ndarray, float]:
        """``S R + R S`` on the pattern, and ``tr(S R S)``."""
        if self.blocks is None:
            SA = self._matrix(s) @ self.A
            return pair_products(self.L, SA, self.A), float(np.einsum("ir,ir->", SA, SA))
        from nareg.design._risk import kernels  # numba: imported when first needed

        SR = kernels.times_blocks(self.L.indptr, self.starts, self.blocks, s)
        return SR + SR[self.mirror], max(float(s @ SR), 0.0)

    def _matrix(self, data: np.ndarray) -> sp.csr_array:
        return sp.csr_array((data, self.L.indices, self.L.indptr), shape=self.L.shape)
