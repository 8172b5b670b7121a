"""Compiled sparse ``L D L^T`` of several matrices at once, which share their pattern. Imported when first needed.

Arrays hold one matrix per column: finding the place of an entry takes longer than the arithmetic, and is done once for
all of them.
"""

from __future__ import annotations

import numpy as np

from nareg._core.compiled import serial


@serial
def eliminate(indptr, indices, data):  # type: ignore[no-untyped-def]
    """``L D L^T`` in place of lower triangles on the pattern of L (CSC, sorted, diagonal first), D on the diagonal.

    False where a pivot of one of them is not positive.
    """
    count = data.shape[1]
    factor = np.empty(count)
    for j in range(indptr.size - 1):
        pivot = data[indptr[j]]
        for k in range(count):
            if not (pivot[k] > 0.0 and pivot[k] < np.inf):
                return False
        start, end = indptr[j] + 1, indptr[j + 1]
        for p in range(start, end):
            for k in range(count):
                factor[k] = data[p, k] / pivot[k]
            place = indptr[indices[p]]
            for q in range(p, end):
                while indices[place] != indices[q]:  # the column of a row of L holds all later rows
                    place += 1
                for k in range(count):
                    data[place, k] -= factor[k] * data[q, k]
        for p in range(start, end):
            for k in range(count):
                data[p, k] /= pivot[k]
    return True


@serial
def selected_inverse(indptr, indices, data):  # type: ignore[no-untyped-def]
    """Entries of the inverses on the pattern of L, by Takahashi's recursion."""
    count = data.shape[1]
    Z = np.zeros(data.shape)
    sums = np.zeros((indptr.size, count))
    total = np.empty(count)
    for i in range(indptr.size - 2, -1, -1):
        start, end = indptr[i] + 1, indptr[i + 1]
        sums[: end - start] = 0.0
        for p in range(start, end):
            place = indptr[indices[p]]
            for k in range(count):
                total[k] = sums[p - start, k] + data[p, k] * Z[place, k]
            for q in range(p + 1, end):
                while indices[place] != indices[q]:
                    place += 1
                for k in range(count):
                    sums[q - start, k] += data[p, k] * Z[place, k]
                    total[k] += data[q, k] * Z[place, k]
            sums[p - start] = total
        first = indptr[i]
        for k in range(count):
            Z[first, k] = 1.0 / data[first, k]
        for p in range(start, end):
            for k in range(count):
                Z[p, k] = -sums[p - start, k]
                Z[first, k] -= data[p, k] * Z[p, k]
    return Z


@serial
def substitute(indptr, indices, data, which, x):  # type: ignore[no-untyped-def]
    """Solve in place of the columns of x, column t with factor ``which[t]``."""
    n, columns = x.shape
    for j in range(n):
        for p in range(indptr[j] + 1, indptr[j + 1]):
            for t in range(columns):
                x[indices[p], t] -= data[p, which[t]] * x[j, t]
    for j in range(n - 1, -1, -1):
        for t in range(columns):
            x[j, t] /= data[indptr[j], which[t]]
        for p in range(indptr[j] + 1, indptr[j + 1]):
            for t in range(columns):
                x[j, t] -= data[p, which[t]] * x[indices[p], t]
