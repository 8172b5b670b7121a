"""Sums and products in twice the precision of float64, and what a filter system leaves of its right-hand side in it.

Where weights are huge, ``K = C + diag(w) L diag(w)`` rounds C away, and a residual of K says nothing about the system. So the
residual is computed from the parts, whose entries never meet in one number:

    r_i = b_i - c_i x_i - w_i (e_i u_i + sum_j P_ij (u_j - u_i)),    u = w x,

P by its entries off the diagonal and its row sums e. Differences of nearly equal u are exact.
"""

from __future__ import annotations

import numpy as np

from nareg._core.compiled import serial


@serial
def two_sum(a, b):  # type: ignore[no-untyped-def]
    """``a + b`` as a rounded sum and its error (Knuth)."""
    s = a + b
    part = s - a
    return s, (a - (s - part)) + (b - part)


@serial
def two_product(a, b):  # type: ignore[no-untyped-def]
    """``a b`` as a rounded product and its error (Dekker, Veltkamp)."""
    p = a * b
    big = 134217729.0 * a
    a_high = big - (big - a)
    a_low = a - a_high
    big = 134217729.0 * b
    b_high = big - (big - b)
    b_low = b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


@serial
def row_sums(indptr, data):  # type: ignore[no-untyped-def]
    """Sums of CSR rows: rounded, and the rest."""
    n = indptr.size - 1
    high, low = np.zeros(n), np.zeros(n)
    for i in range(n):
        rest = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            high[i], error = two_sum(high[i], data[e])
            rest += error
        high[i], low[i] = two_sum(high[i], rest)
    return high, low


@serial
def add(U, V, D):  # type: ignore[no-untyped-def]
    """``U + V += D`` in place, for a sum of two arrays that stays unevaluated."""
    for i in range(U.shape[0]):
        for t in range(U.shape[1]):
            s, error = two_sum(U[i, t], D[i, t])
            U[i, t], V[i, t] = two_sum(s, error + V[i, t])


@serial
def scale(w, X, U, V):  # type: ignore[no-untyped-def]
    """``U + V = diag(w) X``."""
    for i in range(X.shape[0]):
        for t in range(X.shape[1]):
            U[i, t], V[i, t] = two_product(w[i], X[i, t])


@serial
def residual(indptr, indices, data, excess, excess_low, w, c, B, X, X_low, U, V, R):  # type: ignore[no-untyped-def]
    """``R = B - diag(c) (X + X_low) - diag(w) P (U + V)``; U may have more rows than P, which has other columns then."""
    n, t_end = R.shape
    for i in range(n):
        for t in range(t_end):
            own, own_low = U[i, t], V[i, t]
            high, low = two_product(excess[i], own)
            low += excess[i] * own_low + excess_low[i] * own
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                if j != i:
                    difference, rest = two_sum(U[j, t], -own)
                    difference, rest = two_sum(difference, rest + (V[j, t] - own_low))
                    p, error = two_product(data[e], difference)
                    error += data[e] * rest
                    high, rest = two_sum(high, p)
                    low += rest + error
            p, error = two_product(-w[i], high)
            low = error - w[i] * low
            high, rest = two_sum(B[i, t], p)
            low += rest
            p, error = two_product(-c[i], X[i, t])
            high, rest = two_sum(high, p)
            R[i, t] = high + (low + rest + (error - c[i] * X_low[i, t]))
