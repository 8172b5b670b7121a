"""Compiled loops of the large model. Imported when first needed."""

from __future__ import annotations

import numpy as np
from numba import prange

from nareg._compiled import parallel


@parallel
def solve_each(indptr, indices, factors, rank, B):  # type: ignore[no-untyped-def]
    """``x_w = K_w^-1 b_w`` for every row of B (W, N), from factors ``L D L^T`` (W, entries) with one pattern.

    One right side per matrix leaves a library's solver, made for many, far from the memory's rate.
    """
    W, n = B.shape
    X = np.empty((W, n))
    for w in prange(W):
        x, data = np.empty(n), factors[w]
        for i in range(n):
            x[rank[i]] = B[w, i]
        for j in range(n):
            value = x[j]
            for p in range(indptr[j] + 1, indptr[j + 1]):
                x[indices[p]] -= data[p] * value
        for j in range(n - 1, -1, -1):
            total = x[j] / data[indptr[j]]
            for p in range(indptr[j] + 1, indptr[j + 1]):
                total -= data[p] * x[indices[p]]
            x[j] = total
        for i in range(n):
            X[w, i] = x[rank[i]]
    return X


@parallel
def pair_sums(i, j, E):  # type: ignore[no-untyped-def]
    """``sum_t E[i, t] E[j, t]`` for every pair of rows."""
    out = np.empty(i.size)
    for e in prange(i.size):
        total = 0.0
        for t in range(E.shape[1]):
            total += E[i[e], t] * E[j[e], t]
        out[e] = total
    return out
