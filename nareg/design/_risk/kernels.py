"""Compiled loops of the designs: sums over columns on the support of a sparse matrix. Imported when first needed.

Rows are dealt to a fixed number of chunks, each written by one thread: results do not depend on the thread count.

Compiled sparse ``L D L^T`` of several matrices at once, which share their pattern. Imported when first needed.

Arrays hold one matrix per column: finding the place of an entry takes longer than the arithmetic, and is done once for
all of them.
"""

import numpy as np
from numba import prange

from nareg._core.compiled import parallel, serial

CHUNKS = 64


@parallel
def pair_products(indptr, indices, A, B):  # type: ignore[no-untyped-def]
    """``(A B^T + B A^T)_ij`` for every stored entry."""
    n, t_end = A.shape
    out = np.empty(indices.size)
    for chunk in prange(CHUNKS):
        for i in range(chunk * n // CHUNKS, (chunk + 1) * n // CHUNKS):
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                total = 0.0
                for t in range(t_end):
                    total += A[i, t] * B[j, t] + B[i, t] * A[j, t]
                out[e] = total
    return out


@serial
def color_nodes(indptr, indices, order, tie, count):  # type: ignore[no-untyped-def]
    """A class for every node: the one met least among its neighbors (twice) and theirs (once), at most 200 a node."""
    n = indptr.size - 1
    label = np.full(n, -1)
    met = np.zeros(count)
    for i in order:
        met[:] = 0.0
        looked = 0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j != i and label[j] >= 0:
                met[label[j]] += 2.0
            for f in range(indptr[j], indptr[j + 1]):
                k = indices[f]
                if k != i and label[k] >= 0:
                    met[label[k]] += 1.0
            looked += indptr[j + 1] - indptr[j]
            if looked > 200:
                break
        # ties are broken at random, each class equally often
        best = tie[i]
        for step in range(count):
            p = (tie[i] + step) % count
            if met[p] < met[best]:
                best = p
        label[i] = best
    return label


@parallel
def edge_products(i, j, A, U):  # type: ignore[no-untyped-def]
    """``sum over columns (a_i - a_j)(u_i - u_j)`` for every edge."""
    out = np.empty(i.size)
    for e in prange(i.size):
        total = 0.0
        for t in range(A.shape[1]):
            total += (A[i[e], t] - A[j[e], t]) * (U[i[e], t] - U[j[e], t])
        out[e] = total
    return out


@parallel
def rank_one_products(i, j, first, second):  # type: ignore[no-untyped-def]
    """``sum over pairs (V^T A V) o (V^T B V)``, lower triangle, v_k the difference of the unit vectors at the ends of k."""
    size = i.size
    out = np.empty((size, size))
    for k in prange(size):
        for m in range(size):
            out[k, m] = 0.0
        for pair in range(first.shape[0]):
            a = first[pair, i[k]] - first[pair, j[k]]
            b = second[pair, i[k]] - second[pair, j[k]]
            for m in range(k + 1):
                out[k, m] += (a[i[m]] - a[j[m]]) * (b[i[m]] - b[j[m]])
    return out


@parallel
def two_by_two_products(i, j, Z, own, sign):  # type: ignore[no-untyped-def]
    """``tr(Z E_k Z E_m)``, lower triangle: E_k is ``own`` at (i, i) and (j, j) and ``sign`` at (i, j) and (j, i)."""
    size = i.size
    out = np.empty((size, size))
    for k in prange(size):
        for m in range(k + 1, size):
            out[k, m] = 0.0
        first, second = Z[i[k]], Z[j[k]]
        for m in range(k + 1):
            a, b, c, d = first[i[m]], first[j[m]], second[i[m]], second[j[m]]
            straight = own * (a * a + b * b + c * c + d * d) + 2.0 * sign * (a * b + c * d)
            crossed = own * (a * c + b * d) + sign * (b * c + a * d)
            out[k, m] = own * straight + 2.0 * sign * crossed
    return out


@parallel
def neighbor_blocks(indptr, indices, starts, A):  # type: ignore[no-untyped-def]
    """``R = A A^T`` between the neighbors of every node, one square block after the other."""
    n, r = A.shape
    out = np.empty(starts[n])
    for chunk in prange(CHUNKS):
        for i in range(chunk * n // CHUNKS, (chunk + 1) * n // CHUNKS):
            first, degree = indptr[i], indptr[i + 1] - indptr[i]
            for a in range(degree):
                for b in range(a + 1):
                    total = 0.0
                    for t in range(r):
                        total += A[indices[first + a], t] * A[indices[first + b], t]
                    out[starts[i] + a * degree + b] = total
                    out[starts[i] + b * degree + a] = total
    return out


@parallel
def times_blocks(indptr, starts, blocks, s):  # type: ignore[no-untyped-def]
    """``S R`` on the pattern."""
    n = indptr.size - 1
    out = np.empty(s.size)
    for chunk in prange(CHUNKS):
        for i in range(chunk * n // CHUNKS, (chunk + 1) * n // CHUNKS):
            first, degree = indptr[i], indptr[i + 1] - indptr[i]
            for a in range(degree):
                total = 0.0
                for b in range(degree):
                    total += blocks[starts[i] + a * degree + b] * s[first + b]
                out[first + a] = total
    return out


@parallel
def add_row_part(indptr, indices, data, starts, blocks, V, out):  # type: ignore[no-untyped-def]
    """``W^T R_i W`` for each row i, where row i of S changes by ``W dv_i``, added to ``out``."""
    n, k = V.shape
    for chunk in prange(CHUNKS):
        for i in range(chunk * n // CHUNKS, (chunk + 1) * n // CHUNKS):
            first, degree = indptr[i], indptr[i + 1] - indptr[i]
            W = np.empty((degree, k))
            for a in range(degree):
                j = indices[first + a]
                W[a] = data[first + a] * (2.0 if j == i else 1.0) * V[j]
            for a in range(degree):
                for p in range(k):
                    total = 0.0
                    for b in range(degree):
                        total += blocks[starts[i] + a * degree + b] * W[b, p]
                    for m in range(k):
                        out[i, m, p] += W[a, m] * total


@serial
def eliminate(indptr, indices, data):  # type: ignore[no-untyped-def]
    """``L D L^T`` in place of the lower triangle of a matrix on the pattern of L (CSC, sorted, diagonal first).

    D is left on the diagonal. False where a pivot is not positive.
    """
    for j in range(indptr.size - 1):
        pivot = data[indptr[j]]
        if not (pivot > 0.0 and pivot < np.inf):
            return False
        start, end = indptr[j] + 1, indptr[j + 1]
        for p in range(start, end):
            factor = data[p] / pivot
            place = indptr[indices[p]]
            for q in range(p, end):
                while indices[place] != indices[q]:  # the column of a row of L holds all later rows
                    place += 1
                data[place] -= factor * data[q]
        for p in range(start, end):
            data[p] /= pivot
    return True


@serial
def selected_inverse(indptr, indices, data):  # type: ignore[no-untyped-def]
    """Entries of ``(L D L^T)^-1`` on the pattern of L, as :func:`eliminate` leaves it."""
    Z = np.zeros(data.size)
    sums = np.zeros(indptr.size)
    for i in range(indptr.size - 2, -1, -1):
        start, end = indptr[i] + 1, indptr[i + 1]
        sums[: end - start] = 0.0
        for p in range(start, end):
            place = indptr[indices[p]]
            total = sums[p - start] + data[p] * Z[place]
            for q in range(p + 1, end):
                while indices[place] != indices[q]:
                    place += 1
                sums[q - start] += data[p] * Z[place]
                total += data[q] * Z[place]
            sums[p - start] = total
        diagonal = 1.0 / data[indptr[i]]
        for p in range(start, end):
            Z[p] = -sums[p - start]
            diagonal -= data[p] * Z[p]
        Z[indptr[i]] = diagonal
    return Z


@serial
def eliminate_many(indptr, indices, data):  # type: ignore[no-untyped-def]
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
def selected_inverse_many(indptr, indices, data):  # type: ignore[no-untyped-def]
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
def substitute_many(indptr, indices, data, which, x):  # type: ignore[no-untyped-def]
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
