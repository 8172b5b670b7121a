"""Compiled loops for systems that float64 cannot hold: factors without subtraction, twofold residuals.

A diagonally dominant M-matrix is given by its off-diagonal entries ``-a_ij`` and its row sums ``e_i >= 0``. Elimination
after Grassmann, Taksar and Heyman carries both, and adds non-negative numbers only:

    p_k = e_k + sum_i a_ik,    a_ij += a_ik a_jk / p_k,    e_i += a_ik e_k / p_k

so every number of the factor is right to a few rounding errors whatever the condition number (Alfa, Xue, Ye, "Accurate
computation of the smallest eigenvalue of a diagonally dominant M-matrix", Math. Comp. 2002).

Where weights are huge, ``K = C + diag(w) L diag(w)`` rounds C away, and a residual of K says nothing about the system. So the
residual is computed from the parts, whose entries never meet in one number:

    r_i = b_i - c_i x_i - w_i (e_i u_i + sum_j P_ij (u_j - u_i)),    u = w x,

P by its entries off the diagonal and its row sums e. Differences of nearly equal u are exact.
"""

import numpy as np

from nareg._core.compiled import serial


@serial
def column_counts(indptr, indices):  # type: ignore[no-untyped-def]
    """Entries below the diagonal in each column of the factor, and the elimination tree, of a symmetric pattern."""
    n = indptr.size - 1
    parent = np.full(n, -1)
    ancestor = np.full(n, -1)
    for i in range(n):
        for e in range(indptr[i], indptr[i + 1]):
            k = indices[e]
            while k != -1 and k < i:
                above = ancestor[k]
                ancestor[k] = i
                if above == -1:
                    parent[k] = i
                k = above
    counts = np.zeros(n, np.int64)
    mark = np.full(n, -1)
    for i in range(n):
        mark[i] = i
        for e in range(indptr[i], indptr[i + 1]):
            k = indices[e]
            while k < i and mark[k] != i:
                mark[k] = i
                counts[k] += 1
                k = parent[k]
    return counts, parent


@serial
def eliminate(indptr, indices, data, excess, counts, parent):  # type: ignore[no-untyped-def]
    """Columns ``l_ik = a_ik / p_k`` and pivots ``p_k`` of the M-matrix with off-diagonal ``-data`` and these row sums.

    A column takes the updates of all columns before it, then its pivot is a sum. Entries on the diagonal are ignored.
    """
    n = counts.size
    start = np.zeros(n + 1, np.int64)
    for k in range(n):
        start[k + 1] = start[k] + counts[k]
    rows = np.empty(start[n], np.int64)
    values = np.zeros(start[n])
    pivots = np.zeros(n)
    excess = excess.copy()
    free = start[:n].copy()
    mark = np.full(n, -1)
    for i in range(n):  # row by row, so that every column's rows come in order
        mark[i] = i
        for e in range(indptr[i], indptr[i + 1]):
            k = indices[e]
            while k < i and mark[k] != i:
                mark[k] = i
                rows[free[k]] = i
                free[k] += 1
                k = parent[k]
    free[:] = start[:n]  # from here on: the first row of a column that is not yet eliminated
    head = np.full(n, -1)  # columns whose next row this is, as linked lists
    following = np.full(n, -1)
    work = np.zeros(n)
    for k in range(n):
        for e in range(indptr[k], indptr[k + 1]):
            if indices[e] > k:
                work[indices[e]] += data[e]
        m = head[k]
        while m != -1:
            later = following[m]
            at = free[m]
            factor = values[at]
            excess[k] += factor * excess[m]
            factor *= pivots[m]
            for q in range(at + 1, start[m + 1]):
                work[rows[q]] += factor * values[q]
            free[m] = at + 1
            if at + 1 < start[m + 1]:
                following[m] = head[rows[at + 1]]
                head[rows[at + 1]] = m
            m = later
        pivot = excess[k]
        for q in range(start[k], start[k + 1]):
            pivot += work[rows[q]]
        pivots[k] = pivot
        for q in range(start[k], start[k + 1]):
            if pivot > 0:
                values[q] = work[rows[q]] / pivot
            work[rows[q]] = 0.0
        if start[k] < start[k + 1]:
            following[k] = head[rows[start[k]]]
            head[rows[start[k]]] = k
    return start, rows, values, pivots


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
