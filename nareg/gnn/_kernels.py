"""The sparse product of the NumPy backend, in place."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from nareg._compiled import parallel


@parallel
def multiply_add(
    indptr: Any, indices: Any, data: Any, Z: Any, X: Any, alpha: Any, beta: Any, out: Any
) -> None:  # pragma: no cover - compiled
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
def dropout(x: Any, seed: Any, threshold: Any, scale: Any, out: Any) -> None:  # pragma: no cover - compiled
    """``out = scale x`` where a 16-bit random number is at least ``threshold``, else zero; flat arrays.

    Four entries share one output of the SplitMix64 generator for their place: the mask is a function of the seed alone, whatever
    the number of threads, and a backward pass computes it again.
    """
    for i in numba.prange((x.size + 3) // 4):
        z = seed + np.uint64(i + 1) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
        for k in range(4 * i, min(4 * i + 4, x.size)):
            out[k] = x[k] * scale if (z & np.uint64(0xFFFF)) >= threshold else x[k] * 0
            z = z >> np.uint64(16)
