"""Sparse Cholesky without a subtraction: compiled loops for :mod:`.refine`.

A diagonally dominant M-matrix is given by its off-diagonal entries ``-a_ij`` and its row sums ``e_i >= 0``. Elimination
after Grassmann, Taksar and Heyman carries both, and adds non-negative numbers only:

    p_k = e_k + sum_i a_ik,    a_ij += a_ik a_jk / p_k,    e_i += a_ik e_k / p_k

so every number of the factor is right to a few rounding errors whatever the condition number (Alfa, Xue, Ye, "Accurate
computation of the smallest eigenvalue of a diagonally dominant M-matrix", Math. Comp. 2002).
"""

from __future__ import annotations

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
def substitute(start, rows, values, pivots, B):  # type: ignore[no-untyped-def]
    """Solve with the factor, in place, for (N, T)."""
    n, t_end = B.shape
    for k in range(n):
        for q in range(start[k], start[k + 1]):
            for t in range(t_end):
                B[rows[q], t] += values[q] * B[k, t]
    for k in range(n - 1, -1, -1):
        for t in range(t_end):
            B[k, t] /= pivots[k]
        for q in range(start[k], start[k + 1]):
            for t in range(t_end):
                B[k, t] += values[q] * B[rows[q], t]
