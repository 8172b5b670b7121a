"""The median of the neighbors' readings: the oldest quality control."""

from __future__ import annotations

from typing import Any

import numpy as np

from nareg.baselines._masks import series
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.typing import ArrayLike


def neighbor_median(graph: Graph, y: ArrayLike, observed: ArrayLike | None = None, *, centered: bool = True) -> np.ndarray:
    """Median of the neighbors' readings at the same time; a station's own reading does not count.

    Parameters
    ----------
    graph : Graph
    y : (N, T) array
        NaN where missing.
    observed : (N, T) or (N,) bool array, optional
        Default: where ``y`` is not NaN.
    centered : bool
        Compare differences to each station's median over time, so that a hill does not bias its neighbors. A station
        without a reading gets its neighbors' level.

    Returns
    -------
    (N, T) float64 array
        NaN where no neighbor reads.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((3,))
    >>> nareg.baselines.neighbor_median(g, np.array([[0.0, 1.0], [9.0, 9.5], [4.0, 7.0]]), centered=False)
    array([[9. , 9.5],
           [2. , 4. ],
           [9. , 9.5]])
    """
    if not isinstance(graph, Graph):
        raise InputError(f"graph is a {type(graph).__name__}, a nareg.Graph is expected: neighbors are needed.")
    values = series(y, observed)
    if values.shape[0] != graph.n_nodes:
        raise InputError(f"y has {values.shape[0]} rows but the graph has {graph.n_nodes} nodes: rows are nodes.")
    level = median(values, axis=1) if centered else np.zeros(graph.n_nodes)
    A = graph.adjacency
    neighbors = [A.indices[A.indptr[i] : A.indptr[i + 1]] for i in range(graph.n_nodes)]
    silent = np.isnan(level)
    if silent.any():
        level = np.where(silent, [median(level[others]) if others.size else np.nan for others in neighbors], level)
    result = np.full(values.shape, np.nan)
    relative = values - level[:, None]
    for i, others in enumerate(neighbors):
        if others.size:
            result[i] = level[i] + median(relative[others], axis=0)
    return result


def median(values: np.ndarray, axis: int = 0) -> Any:
    """Median of the finite values along an axis, NaN where there is none; without numpy's warning."""
    ordered = np.sort(values, axis=axis)  # NaN comes last
    counts = np.isfinite(ordered).sum(axis=axis)
    if ordered.shape[axis] == 0:
        return np.full(counts.shape, np.nan)
    low = np.expand_dims(np.maximum(counts - 1, 0) // 2, axis)
    high = np.expand_dims(np.minimum(counts // 2, np.maximum(counts - 1, 0)), axis)
    middle = np.take_along_axis(ordered, low, axis) / 2 + np.take_along_axis(ordered, high, axis) / 2
    return np.where(counts > 0, np.squeeze(middle, axis), np.nan)[()]
