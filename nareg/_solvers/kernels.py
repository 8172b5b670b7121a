"""Compiled loops over CSR rows and columns of a block of signals, each pass fused to touch memory once.

Signals are C-ordered (N, T), so that one gathered neighbor brings T contiguous numbers. Rows are split into a fixed number of
chunks and partial sums are added in chunk order: results do not depend on the thread count. Row and column numbers are
unsigned, which spares the compiler's test for negative ones.

A sweep of a multigrid cycle runs through chunks of rows at the same time and in order within each. Neighbors in other chunks
keep their old values; the sum of their ``|a_ij|`` is added to the diagonal, so that the sweep converges for every positive
definite matrix (Baker, Falgout, Kolev, Yang, "Multigrid smoothers for ultraparallel computing", SIAM J. Sci. Comput. 2011). The
chunks depend on the matrix alone, and so does the result.
"""

import numpy as np
from numba import prange, uintp

from nareg._core.compiled import by_width, summed

CHUNKS = 64


@summed
@by_width
def product_and_dot(width):  # type: ignore[no-untyped-def]
    """``Q = K P``; returns the column-wise dot products of P and Q."""

    def product_and_dot(indptr, indices, data, P, Q):  # type: ignore[no-untyped-def]
        n = P.shape[0]
        t_end = width or P.shape[1]
        partial = np.empty((CHUNKS, t_end))
        for chunk in prange(CHUNKS):
            row = np.empty(t_end)
            dots = np.zeros(t_end)
            for i in range(uintp(chunk * n // CHUNKS), uintp((chunk + 1) * n // CHUNKS)):
                for t in range(t_end):
                    row[t] = 0.0
                for e in range(uintp(indptr[i]), uintp(indptr[i + uintp(1)])):
                    j, a = uintp(indices[e]), data[e]
                    for t in range(t_end):
                        row[t] += a * P[j, t]
                for t in range(t_end):
                    Q[i, t] = row[t]
                    dots[t] += row[t] * P[i, t]
            for t in range(t_end):
                partial[chunk, t] = dots[t]
        return partial

    return product_and_dot


@summed
@by_width
def norms(width):  # type: ignore[no-untyped-def]
    """``R^T D^-1 R``, ``R^T R`` and ``R^T D^-2 R`` of each column, (3, T)."""

    def norms(R, inverse_diagonal):  # type: ignore[no-untyped-def]
        n = R.shape[0]
        t_end = width or R.shape[1]
        partial = np.empty((CHUNKS, 3, t_end))
        for chunk in prange(CHUNKS):
            sums = np.zeros((3, t_end))
            for i in range(uintp(chunk * n // CHUNKS), uintp((chunk + 1) * n // CHUNKS)):
                d = inverse_diagonal[i]
                for t in range(t_end):
                    square = R[i, t] * R[i, t]
                    sums[0, t] += square * d
                    sums[1, t] += square
                    sums[2, t] += square * d * d
            for k in range(3):
                for t in range(t_end):
                    partial[chunk, k, t] = sums[k, t]
        return partial

    return norms


@summed
@by_width
def step_and_norms(width):  # type: ignore[no-untyped-def]
    """``X += alpha P``, ``R -= alpha Q``; returns ``R^T D^-1 R``, ``R^T R`` and ``R^T D^-2 R`` of each column, (3, T)."""

    def step_and_norms(X, R, P, Q, inverse_diagonal, alpha):  # type: ignore[no-untyped-def]
        n = X.shape[0]
        t_end = width or X.shape[1]
        partial = np.empty((CHUNKS, 3, t_end))
        for chunk in prange(CHUNKS):
            sums = np.zeros((3, t_end))
            for i in range(uintp(chunk * n // CHUNKS), uintp((chunk + 1) * n // CHUNKS)):
                d = inverse_diagonal[i]
                for t in range(t_end):
                    X[i, t] += alpha[t] * P[i, t]
                    r = R[i, t] - alpha[t] * Q[i, t]
                    R[i, t] = r
                    sums[0, t] += r * r * d
                    sums[1, t] += r * r
                    sums[2, t] += r * r * d * d
            for k in range(3):
                for t in range(t_end):
                    partial[chunk, k, t] = sums[k, t]
        return partial

    return step_and_norms


@by_width
def new_direction(width):  # type: ignore[no-untyped-def]
    """``P = D^-1 R + beta P``."""

    def new_direction(R, P, inverse_diagonal, beta):  # type: ignore[no-untyped-def]
        n = R.shape[0]
        t_end = width or R.shape[1]
        for chunk in prange(CHUNKS):
            for i in range(uintp(chunk * n // CHUNKS), uintp((chunk + 1) * n // CHUNKS)):
                d = inverse_diagonal[i]
                for t in range(t_end):
                    P[i, t] = d * R[i, t] + beta[t] * P[i, t]

    return new_direction


@summed
@by_width
def relax(width):  # type: ignore[no-untyped-def]
    """One round of a stationary or Chebyshev iteration.

    ``R = B - K X``, and the next point ``X + beta (X - before) + alpha M^-1 R`` with M^-1 = ``inverse_diagonal`` takes the
    place of ``before``; returns ``R^T diag(scale) R``, ``R^T R`` and ``R^T diag(scale)^2 R`` of each column, (3, T).
    """

    def relax(indptr, indices, data, inverse_diagonal, scale, B, X, before, alpha, beta):  # type: ignore[no-untyped-def]
        n = X.shape[0]
        t_end = width or X.shape[1]
        partial = np.empty((CHUNKS, 3, t_end))
        for chunk in prange(CHUNKS):
            row = np.empty(t_end)
            sums = np.zeros((3, t_end))
            for i in range(uintp(chunk * n // CHUNKS), uintp((chunk + 1) * n // CHUNKS)):
                for t in range(t_end):
                    row[t] = B[i, t]
                for e in range(uintp(indptr[i]), uintp(indptr[i + uintp(1)])):
                    j, a = uintp(indices[e]), data[e]
                    for t in range(t_end):
                        row[t] -= a * X[j, t]
                d, s = alpha * inverse_diagonal[i], scale[i]
                for t in range(t_end):
                    square = row[t] * row[t]
                    sums[0, t] += square * s
                    sums[1, t] += square
                    sums[2, t] += square * s * s
                    before[i, t] = X[i, t] + beta * (X[i, t] - before[i, t]) + d * row[t]
            for k in range(3):
                for t in range(t_end):
                    partial[chunk, k, t] = sums[k, t]
        return partial

    return relax


@by_width
def sweep_down(width):  # type: ignore[no-untyped-def]
    """``X = (D + lower part within chunks)^-1 B``: a forward sweep that starts from zero."""

    def sweep_down(indptr, indices, data, inverse_diagonal, bounds, B, X):  # type: ignore[no-untyped-def]
        t_end = width or B.shape[1]
        for chunk in prange(bounds.size - 1):
            row = np.empty(t_end)
            first = uintp(bounds[chunk])
            for i in range(first, uintp(bounds[chunk + 1])):
                for t in range(t_end):
                    row[t] = B[i, t]
                for e in range(uintp(indptr[i]), uintp(indptr[i + uintp(1)])):
                    j, a = uintp(indices[e]), data[e]
                    if j >= i:
                        break
                    if j >= first:
                        for t in range(t_end):
                            row[t] -= a * X[j, t]
                d = inverse_diagonal[i]
                for t in range(t_end):
                    X[i, t] = d * row[t]

    return sweep_down


@by_width
def sweep_up(width):  # type: ignore[no-untyped-def]
    """X after a backward sweep from ``old``; with :func:`sweep_down` before it the cycle is symmetric."""

    def sweep_up(indptr, indices, data, inverse_diagonal, bounds, B, old, X):  # type: ignore[no-untyped-def]
        t_end = width or B.shape[1]
        for chunk in prange(bounds.size - 1):
            row = np.empty(t_end)
            first, end = uintp(bounds[chunk]), uintp(bounds[chunk + 1])
            for i in range(first, end):
                for t in range(t_end):
                    X[i, t] = old[i, t]
            for back in range(end - first):
                i = uintp(end - uintp(1) - uintp(back))
                for t in range(t_end):
                    row[t] = B[i, t]
                for e in range(uintp(indptr[i]), uintp(indptr[i + uintp(1)])):
                    j, a = uintp(indices[e]), data[e]
                    if j >= first and j < end:
                        for t in range(t_end):
                            row[t] -= a * X[j, t]
                    else:
                        for t in range(t_end):
                            row[t] -= a * old[j, t]
                d = inverse_diagonal[i]
                for t in range(t_end):
                    X[i, t] += d * row[t]

    return sweep_up


@by_width
def add_product(width):  # type: ignore[no-untyped-def]
    """``out = B + factor A X``."""

    def add_product(indptr, indices, data, factor, B, X, out):  # type: ignore[no-untyped-def]
        n = B.shape[0]
        t_end = width or B.shape[1]
        for chunk in prange(CHUNKS):
            row = np.empty(t_end)
            for i in range(uintp(chunk * n // CHUNKS), uintp((chunk + 1) * n // CHUNKS)):
                for t in range(t_end):
                    row[t] = B[i, t]
                for e in range(uintp(indptr[i]), uintp(indptr[i + uintp(1)])):
                    j, a = uintp(indices[e]), factor * data[e]
                    for t in range(t_end):
                        row[t] += a * X[j, t]
                for t in range(t_end):
                    out[i, t] = row[t]

    return add_product
