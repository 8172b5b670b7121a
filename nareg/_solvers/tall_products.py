"""Products of a tall array, and of its transpose, with a few columns.

BLAS copies the tall one into panels for every product with several columns. Where they are few that takes as long as the
product. In one thread 1,208 x 1,433 times 7 columns take OpenBLAS 2.1 ms, and the loops below 1.2 ms. These read the array in
place, four rows and two columns at a time.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

import numba
import numpy as np

from nareg._core.compiled import SHARED, parallel
from nareg._solvers.threads import SMALL_PRODUCT, product_threads

#: Columns from which on BLAS may be faster: with 128 features it is, with 1,433 not yet.
WIDE = 12
#: Rows that are added up in one go: sums do not depend on the number of threads, and rounding grows with a 256th of the rows.
ROWS = 256
#: So many multiply-adds count as one array element: products get threads from ``SMALL_PRODUCT`` on. Cora's, of 12 million,
#: take a millisecond; on two cores with other work a removal took 380 ms with threads for them and 105 ms without.
PER_ELEMENT = SMALL_PRODUCT // SHARED
#: Sums may be taken in any order, by several lanes; whatever is not finite stays so.
ORDER = frozenset({"reassoc", "contract"})


def times(S: Any, D: Any) -> Any:
    """``S D``.

    Examples
    --------
    >>> times(np.ones((3, 2)), np.array([[1.0], [2.0]])).T
    array([[3., 3., 3.]])
    """
    if not _few(S, D):
        return S @ D
    out = np.empty((len(S), D.shape[1]))
    _times(S, np.ascontiguousarray(D.T), out)
    return out


def transposed_times(S: Any, R: Any) -> Any:
    """``S^T R``.

    Examples
    --------
    >>> transposed_times(np.ones((3, 2)), np.array([[1.0], [2.0], [3.0]])).T
    array([[6., 6.]])
    """
    if not _few(S, R):
        return S.T @ R
    sums = np.zeros((-(-len(S) // ROWS), R.shape[1], S.shape[1]))
    _transposed_times(S, np.ascontiguousarray(R), sums)
    return sums.sum(axis=0).T


def threads(S: Any, columns: int) -> AbstractContextManager[None]:
    """Context for many products of S with so many columns: one BLAS thread where they are small, or made by the loops below.

    Threads of BLAS that wait for the next norm would keep the cores from those of the loops.
    """
    return product_threads(0 if not isinstance(S, np.ndarray) or 1 < columns < WIDE else S.size * columns)


def _few(S: Any, columns: Any) -> bool:
    """Whether the loops below apply: float64 arrays in memory, and neither one column nor many."""
    return isinstance(S, np.ndarray) and S.dtype == columns.dtype == np.float64 and 1 < columns.shape[1] < WIDE


@functools.partial(parallel, size=lambda S, rows, out: S.size * len(rows) // PER_ELEMENT, fastmath=ORDER)
def _times(S: Any, rows: Any, out: Any) -> None:
    """``rows`` are the columns of the other factor."""
    n, columns = S.shape[0], rows.shape[0]
    for block in numba.prange((n + 3) // 4):
        first = 4 * block
        # the rows of the last block are repeated where there are none
        i, j, k = min(first + 1, n - 1), min(first + 2, n - 1), min(first + 3, n - 1)
        a, b, c, d = S[first], S[i], S[j], S[k]
        for column in range(0, columns, 2):
            other = min(column + 1, columns - 1)
            v, w = rows[column], rows[other]
            av, bv, cv, dv, aw, bw, cw, dw = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for f in range(S.shape[1]):
                av += a[f] * v[f]
                bv += b[f] * v[f]
                cv += c[f] * v[f]
                dv += d[f] * v[f]
                aw += a[f] * w[f]
                bw += b[f] * w[f]
                cw += c[f] * w[f]
                dw += d[f] * w[f]
            out[first, column], out[first, other] = av, aw
            out[i, column], out[i, other] = bv, bw
            out[j, column], out[j, other] = cv, cw
            out[k, column], out[k, other] = dv, dw


@functools.partial(parallel, size=lambda S, few, out: S.size * few.shape[1] // PER_ELEMENT, fastmath=ORDER)
def _transposed_times(S: Any, few: Any, out: Any) -> None:
    n, columns = few.shape
    for block in numba.prange(out.shape[0]):
        last = min(n, (block + 1) * ROWS)
        fours = last - (last - block * ROWS) % 4
        for first in range(block * ROWS, fours, 4):
            a, b, c, d = S[first], S[first + 1], S[first + 2], S[first + 3]
            for column in range(0, columns - 1, 2):
                g, h = out[block, column], out[block, column + 1]
                ag, bg, cg, dg = few[first, column], few[first + 1, column], few[first + 2, column], few[first + 3, column]
                ah, bh = few[first, column + 1], few[first + 1, column + 1]
                ch, dh = few[first + 2, column + 1], few[first + 3, column + 1]
                for f in range(S.shape[1]):
                    g[f] += ag * a[f] + bg * b[f] + cg * c[f] + dg * d[f]
                    h[f] += ah * a[f] + bh * b[f] + ch * c[f] + dh * d[f]
            if columns % 2:
                g = out[block, columns - 1]
                ag, bg = few[first, columns - 1], few[first + 1, columns - 1]
                cg, dg = few[first + 2, columns - 1], few[first + 3, columns - 1]
                for f in range(S.shape[1]):
                    g[f] += ag * a[f] + bg * b[f] + cg * c[f] + dg * d[f]
        for row in range(fours, last):
            for column in range(columns):
                for f in range(S.shape[1]):
                    out[block, column, f] += few[row, column] * S[row, f]
