"""Sums over columns on the support of a sparse symmetric matrix: the sparse gradients of every design."""

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
