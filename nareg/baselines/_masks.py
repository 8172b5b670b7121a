"""Readings with gaps, and linear estimators run once per distinct mask."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from nareg._core import checks
from nareg.errors import InputError, SingularSystemError
from nareg.graph import Graph
from nareg.io import is_table
from nareg.typing import ArrayLike


def per_mask(
    y: ArrayLike, observed: ArrayLike | None, n_nodes: int, estimate: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """``estimate(readings (S, T) float64, mask (N,))`` for all signals that share a mask, put together.

    Returns the estimate in the shape and dtype of ``y``.
    """
    if observed is None:
        readings = checks.signals("y", y, n_nodes)
        seen = np.ones(n_nodes, dtype=bool)
    else:
        shape = checks.floats("y", y, ndim=(1, 2), finite=False).shape
        seen = checks.mask("observed", observed, n_nodes, shape[1] if len(shape) == 2 else None)
        readings = checks.partially_observed("y", y, seen, n_nodes)
    columns = readings.reshape(n_nodes, -1).astype(np.float64)
    result = np.empty_like(columns)
    for mask, member in patterns(np.broadcast_to(seen.reshape(n_nodes, -1), columns.shape)):
        result[:, member] = estimate(columns[mask][:, member], mask)
    return result.reshape(readings.shape).astype(readings.dtype)


def refuse_silent_part(graph: Graph, mask: np.ndarray) -> None:
    """Refuse a mask without a reading on some connected part of the graph."""
    parts = graph.components
    silent = ~np.isin(parts, parts[mask])
    if silent.any():
        raise SingularSystemError(
            f"observed marks no node of a connected part of the graph ({graph.describe_node(int(silent.argmax()))} is in it): "
            "observe one of its nodes, or drop it (graph.subgraph)."
        )


def patterns(seen: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Distinct columns of a boolean (N, T) array, and the indices of the columns that equal each."""
    distinct, group = np.unique(seen, axis=1, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    cuts = np.searchsorted(group.ravel()[order], np.arange(1, distinct.shape[1]))
    yield from zip(distinct.T, np.split(order, cuts), strict=True)


def series(y: ArrayLike, observed: ArrayLike | None) -> np.ndarray:
    """Readings as a new (N, T) float64 array with NaN where there is none; without a mask, where ``y`` is NaN.

    A time without a reading is allowed, and so is a station without one; infinite readings are not.
    """
    if is_table(y):
        raise InputError("y is a table, and no graph names its stations: pass y.to_numpy().T, whose rows are stations.")
    values = checks.floats("y", y, ndim=(2,), finite=False).astype(np.float64)
    if values.shape[0] == 0 or values.shape[1] == 0:
        raise InputError(f"y has shape {values.shape}: at least one station and one time are needed.")
    if observed is None:
        if np.isinf(values).any():
            i, t = np.argwhere(np.isinf(values))[0]
            raise InputError(f"y[{i}, {t}] is {values[i, t]}: replace it by NaN where the reading is missing.")
        return values
    mask = checks.array_of("observed", observed)
    if mask.dtype != bool or mask.shape not in (values.shape, values.shape[:1]):
        raise InputError(
            f"observed has dtype {mask.dtype} and shape {mask.shape}, a boolean mask of shape {values.shape} is expected."
        )
    seen = np.broadcast_to(mask.reshape(values.shape[0], -1), values.shape)
    bad = seen & ~np.isfinite(values)
    if bad.any():
        i, t = np.argwhere(bad)[0]
        raise InputError(f"y[{i}, {t}] is {values[i, t]} but observed is True there: set observed to False.")
    return np.where(seen, values, np.nan)
