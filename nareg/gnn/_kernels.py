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
