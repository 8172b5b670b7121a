"""Compiled loops of a multigrid cycle over blocks of signals: Gauss-Seidel sweeps, residuals, and products.

A sweep runs through chunks of rows at the same time and in order within each. Neighbors in other chunks keep their old
values; the sum of their ``|a_ij|`` is added to the diagonal, so that the sweep converges for every positive definite matrix
(Baker, Falgout, Kolev, Yang, "Multigrid smoothers for ultraparallel computing", SIAM J. Sci. Comput. 2011). The chunks depend
on the matrix alone, and so does the result.
"""

from __future__ import annotations

import numpy as np
from numba import prange, uintp

from nareg._core.compiled import by_width
from nareg._solvers.kernels import CHUNKS


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
    """A backward sweep from X, of which ``old`` is a copy; with :func:`sweep_down` before it the cycle is symmetric."""

    def sweep_up(indptr, indices, data, inverse_diagonal, bounds, B, old, X):  # type: ignore[no-untyped-def]
        t_end = width or B.shape[1]
        for chunk in prange(bounds.size - 1):
            row = np.empty(t_end)
            first, end = uintp(bounds[chunk]), uintp(bounds[chunk + 1])
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
def residual(width):  # type: ignore[no-untyped-def]
    """``R = B - A X``."""

    def residual(indptr, indices, data, B, X, R):  # type: ignore[no-untyped-def]
        n = B.shape[0]
        t_end = width or B.shape[1]
        for chunk in prange(CHUNKS):
            row = np.empty(t_end)
            for i in range(uintp(chunk * n // CHUNKS), uintp((chunk + 1) * n // CHUNKS)):
                for t in range(t_end):
                    row[t] = B[i, t]
                for e in range(uintp(indptr[i]), uintp(indptr[i + uintp(1)])):
                    j, a = uintp(indices[e]), data[e]
                    for t in range(t_end):
                        row[t] -= a * X[j, t]
                for t in range(t_end):
                    R[i, t] = row[t]

    return residual


@by_width
def add_product(width):  # type: ignore[no-untyped-def]
    """``X += P E``, and a copy of it."""

    def add_product(indptr, indices, data, E, X, copy):  # type: ignore[no-untyped-def]
        n = X.shape[0]
        t_end = width or X.shape[1]
        for chunk in prange(CHUNKS):
            row = np.empty(t_end)
            for i in range(uintp(chunk * n // CHUNKS), uintp((chunk + 1) * n // CHUNKS)):
                for t in range(t_end):
                    row[t] = X[i, t]
                for e in range(uintp(indptr[i]), uintp(indptr[i + uintp(1)])):
                    j, a = uintp(indices[e]), data[e]
                    for t in range(t_end):
                        row[t] += a * E[j, t]
                for t in range(t_end):
                    X[i, t] = row[t]
                    copy[i, t] = row[t]

    return add_product
