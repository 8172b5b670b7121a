"""Compiled loops over some rows of a graph and over node vectors of a few columns.

Signals are C-ordered (N, B), so that one gathered neighbor brings B contiguous numbers. Partial sums are added in a fixed
order: results do not depend on the number of threads.
"""

import numpy as np
from numba import prange

from nareg._core.compiled import parallel, summed

#: Parts that the rows are shared in.
CHUNKS = 64


@parallel
def neighbor_sums(indptr, indices, weights, V, out):  # type: ignore[no-untyped-def]
    """``out = A V`` for some rows of A, in V's precision; no weights are ones."""
    n, columns = out.shape
    for chunk in prange(CHUNKS):
        row = np.empty(columns, V.dtype)
        for i in range(chunk * n // CHUNKS, (chunk + 1) * n // CHUNKS):
            for t in range(columns):
                row[t] = 0
            if weights.size:
                for e in range(indptr[i], indptr[i + 1]):
                    j, a = indices[e], V.dtype.type(weights[e])
                    for t in range(columns):
                        row[t] += a * V[j, t]
            else:
                for e in range(indptr[i], indptr[i + 1]):
                    j = indices[e]
                    for t in range(columns):
                        row[t] += V[j, t]
            for t in range(columns):
                out[i, t] = row[t]


@parallel
def neighbor_differences(indptr, indices, weights, V, first, out):  # type: ignore[no-untyped-def]
    """``out = L V`` for the rows of A from ``first`` on, as sums of ``a_ij (v_i - v_j)``."""
    n, columns = out.shape
    for chunk in prange(CHUNKS):
        row = np.empty(columns)
        for i in range(chunk * n // CHUNKS, (chunk + 1) * n // CHUNKS):
            for t in range(columns):
                row[t] = 0
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                a = float(weights[e]) if weights.size else 1.0
                for t in range(columns):
                    row[t] += a * (V[first + i, t] - V[j, t])
            for t in range(columns):
                out[i, t] = row[t]


@parallel
def weighted_degrees(indptr, weights, out):  # type: ignore[no-untyped-def]
    """Sums of some rows' weights in float64; no weights are ones."""
    n = out.size
    for chunk in prange(CHUNKS):
        for i in range(chunk * n // CHUNKS, (chunk + 1) * n // CHUNKS):
            total = 0.0
            if weights.size:
                for e in range(indptr[i], indptr[i + 1]):
                    total += weights[e]
            else:
                total = float(indptr[i + 1] - indptr[i])
            out[i] = total


@summed
@parallel
def finish_product(s, smallest, P, Q):  # type: ignore[no-untyped-def]
    """``Q = p - s (A P)`` in the place of the neighbor sums ``A P``, with ``P = s p``; returns the columns' ``p^T Q``.

    Nodes whose s is below ``smallest`` stay as they are.
    """
    n, columns = P.shape
    partial = np.empty((CHUNKS, columns))
    for chunk in prange(CHUNKS):
        dots = np.zeros(columns)
        for i in range(chunk * n // CHUNKS, (chunk + 1) * n // CHUNKS):
            if abs(s[i]) < smallest:
                for t in range(columns):
                    Q[i, t] = 0
                continue
            for t in range(columns):
                p = P[i, t] / s[i]
                q = p - s[i] * Q[i, t]
                Q[i, t] = q
                dots[t] += p * q
        for t in range(columns):
            partial[chunk, t] = dots[t]
    return partial


@summed
@parallel
def step(U, R, P, Q, diagonal, alpha):  # type: ignore[no-untyped-def]
    """``U += alpha P``, ``R -= alpha Q``; returns the norms of :func:`norms`."""
    n, columns = R.shape
    partial = np.empty((CHUNKS, 3, columns))
    for chunk in prange(CHUNKS):
        sums = np.zeros((3, columns))
        for i in range(chunk * n // CHUNKS, (chunk + 1) * n // CHUNKS):
            for t in range(columns):
                U[i, t] += alpha[t] * P[i, t]
                r = R[i, t] - alpha[t] * Q[i, t]
                R[i, t] = r
                square = float(r) * float(r)
                sums[0, t] += square
                sums[1, t] += square * diagonal[i]
                sums[2, t] += square / diagonal[i]
        for k in range(3):
            for t in range(columns):
                partial[chunk, k, t] = sums[k, t]
    return partial


@summed
@parallel
def norms(R, diagonal):  # type: ignore[no-untyped-def]
    """Squared norms of each column, (3, B): of r, of ``D^1/2 r`` (the residual of K) and of ``D^-1/2 r`` (that over D)."""
    n, columns = R.shape
    partial = np.empty((CHUNKS, 3, columns))
    for chunk in prange(CHUNKS):
        sums = np.zeros((3, columns))
        for i in range(chunk * n // CHUNKS, (chunk + 1) * n // CHUNKS):
            for t in range(columns):
                square = float(R[i, t]) * float(R[i, t])
                sums[0, t] += square
                sums[1, t] += square * diagonal[i]
                sums[2, t] += square / diagonal[i]
        for k in range(3):
            for t in range(columns):
                partial[chunk, k, t] = sums[k, t]
    return partial


@parallel
def direction(s, R, P, beta):  # type: ignore[no-untyped-def]
    """``P = s R + beta P``."""
    n, columns = P.shape
    for chunk in prange(CHUNKS):
        for i in range(chunk * n // CHUNKS, (chunk + 1) * n // CHUNKS):
            for t in range(columns):
                P[i, t] = s[i] * R[i, t] + beta[t] * P[i, t]
