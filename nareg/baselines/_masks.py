"""Run a linear estimator once per distinct mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nareg import _checks


def per_mask(y: Any, observed: Any, n_nodes: int, estimate: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """``estimate(readings (S, T) float64, mask (N,))`` for all signals that share a mask, put together.

    Returns the estimate in the shape and dtype of ``y``.
    """
    if observed is None:
        readings = _checks.signals("y", y, n_nodes)
        seen = np.ones(n_nodes, dtype=bool)
    else:
        shape = _checks.floats("y", y, ndim=(1, 2), finite=False).shape
        seen = _checks.mask("observed", observed, n_nodes, shape[1] if len(shape) == 2 else None)
        readings = _checks.partially_observed("y", y, seen, n_nodes)
    columns = readings.reshape(n_nodes, -1).astype(np.float64)
    result = np.empty_like(columns)
    patterns, group = np.unique(seen.reshape(n_nodes, -1), axis=1, return_inverse=True)
    group = np.broadcast_to(group.ravel(), columns.shape[1]) if seen.ndim == 1 else group.ravel()
    for p, mask in enumerate(patterns.T):
        member = group == p
        result[:, member] = estimate(columns[mask][:, member], mask)
    return result.reshape(readings.shape).astype(readings.dtype)
