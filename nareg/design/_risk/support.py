"""Sums over columns on the support of a sparse symmetric matrix: the sparse gradients of every design.

Random probes for traces: ``E[Z Z^T] = P I``, with like signs kept apart on the graph.

Hutchinson's estimate of ``tr(F^T F)`` with independent signs errs by the products ``(F^T F)_ij`` of all pairs of
nodes. A filter decays with distance on the graph, so that nearly all of that comes from near pairs. Here the nodes
are colored with P classes, near nodes to different ones, and probe p is ``sqrt(P)`` times random signs on class p: a
pair errs only if it shares a class (probing, after Tang and Saad 2012).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def with_diagonal(matrix: sp.csr_array) -> sp.csr_array:
    """The matrix with every diagonal entry stored, zero or not, indices sorted."""
    n = matrix.shape[0]
    coo = matrix.tocoo()
    off = coo.coords[0] != coo.coords[1]
    diagonal = np.arange(n)
    rows, cols = (np.concatenate([diagonal, axis[off]]) for axis in coo.coords)
    full = sp.csr_array((np.concatenate([matrix.diagonal(), coo.data[off]]), (rows, cols)), shape=matrix.shape)
    full.sort_indices()
    return full


def diagonal_positions(matrix: sp.csr_array) -> np.ndarray:
    """Positions of the diagonal entries in ``matrix.data``; all must be stored."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return np.flatnonzero(rows == matrix.indices)


def pair_products(pattern: sp.csr_array, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """``(A B^T + B A^T)_ij`` for every stored entry (i, j) of the pattern, in its order."""
    from nareg.design._risk import kernels  # numba: imported when first needed

    return kernels.pair_products(pattern.indptr, pattern.indices, np.ascontiguousarray(A), np.ascontiguousarray(B))


def probes(L: sp.csr_array, count: int, rng: np.random.Generator) -> np.ndarray:
    """(N, count) probes, one non-zero in every row."""
    from nareg.design._risk import kernels  # numba: imported when first needed

    n = L.shape[0]
    order = rng.permutation(n)
    tie = rng.permuted(np.tile(np.arange(count), n // count + 1))[:n]
    label = kernels.color_nodes(L.indptr, L.indices, order, tie, count)
    Z = np.zeros((n, count))
    Z[np.arange(n), label] = np.sqrt(count) * rng.choice([-1.0, 1.0], size=n)
    return Z


def half(P: np.ndarray) -> np.ndarray:
    """F with ``F F^T = P`` for PSD P; one column of zeros where P is zero."""
    F = root(P).T
    return F if F.shape[1] else np.zeros((len(P), 1))


def root(G: np.ndarray) -> np.ndarray:
    """F with ``F^T F = G`` for PSD G, without its null directions."""
    values, vectors = np.linalg.eigh(G)
    positive = values > 1e-14 * max(values[-1], 1e-300)
    return np.sqrt(values[positive])[:, None] * vectors[:, positive].T
