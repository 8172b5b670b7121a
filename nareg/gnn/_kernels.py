"""The sparse product of the NumPy backend, in place."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from nareg._core.compiled import parallel


@parallel
def multiply_add(indptr: Any, indices: Any, data: Any, Z: Any, X: Any, alpha: Any, beta: Any, out: Any) -> None:
    """``out = alpha M Z + beta X`` for CSR M; out may be X."""
    for i in numba.prange(X.shape[0]):
        for f in range(X.shape[1]):
            out[i, f] = beta * X[i, f]
        for p in range(indptr[i], indptr[i + 1]):
            weight, j = alpha * data[p], indices[p]
            for f in range(X.shape[1]):
                out[i, f] += weight * Z[j, f]


def scalar(value: float, like: np.ndarray) -> Any:
    """A number in the dtype of an array, so that a float32 loop stays one."""
    return like.dtype.type(value)


@parallel
def dropout(x: Any, low: Any, high: Any, threshold: Any, scale: Any, out: Any) -> None:
    """``out = scale x`` where a 32-bit random number is at least ``threshold``, else zero; flat arrays.

    The number is a hash (the finalizer of MurmurHash3) of the entry's place and a seed of two 32-bit halves: the mask is a
    function of the seed alone, whatever the number of threads, a backward pass computes it again, and the loop vectorizes.
    """
    for i in numba.prange(x.size):
        # numba's products of 32-bit integers have 64 bits: cut them back
        h = np.uint32(np.uint32(i) * np.uint32(0x9E3779B1) + low)
        h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
        h = np.uint32((np.uint32(h ^ (h >> np.uint32(13))) + high) * np.uint32(0xC2B2AE35))
        h = np.uint32(h ^ (h >> np.uint32(16)))
        out[i] = x[i] * scale if h >= threshold else x[i] * 0
