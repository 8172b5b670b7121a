"""The convex programs in the entries of Omega on the support of L.

Only these entries enter ``S = Omega o L``. With ``z`` those entries (N diagonal,
M off-diagonal) and ``E_k`` the symmetric matrices ``S = sum_k z_k E_k``, both criteria are quadratics

    Prony (25)   tr(S R S)                        = z^T G(R) z
    fit   (30)   2 ||H (I + S) - I||_F^2          = 2 (z^T G(H^2) z + 2 b^T z) + const
    G(P)_kl = tr(E_k P E_l),   b_k = tr(E_k (H^2 - H))

so that a program has N + M quadratic unknowns instead of products of N x N matrices.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


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


def image(L: np.ndarray, x: np.ndarray) -> sp.csr_array:
    """The sparse (N, N + M) matrix B with ``S x = B z``."""
    i, j = support(L)
    off = i != j
    k = np.arange(len(i))
    rows = np.concatenate([i, j[off]])
    cols = np.concatenate([k, k[off]])
    values = np.concatenate([L[i, j] * x[j], (L[i, j] * x[i])[off]])
    return sp.csr_array((values, (rows, cols)), shape=(len(L), len(i)))


def half(P: np.ndarray) -> np.ndarray:
    """F with ``F F^T = P`` for PSD P; one column of zeros where P is zero."""
    F = root(P).T
    return F if F.shape[1] else np.zeros((len(P), 1))


def root(G: np.ndarray) -> np.ndarray:
    """F with ``F^T F = G`` for PSD G, without its null directions."""
    values, vectors = np.linalg.eigh(G)
    positive = values > 1e-14 * max(values[-1], 1e-300)
    return np.sqrt(values[positive])[:, None] * vectors[:, positive].T
