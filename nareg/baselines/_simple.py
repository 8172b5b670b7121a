"""Simple baselines: a rolling mean, interpolation in time, the network's mean, the median of the neighbors."""

from __future__ import annotations

from typing import Any

import numpy as np

from nareg._core import checks
from nareg._core.arrays import since
from nareg.baselines._masks import series
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.io import takes_tables
from nareg.typing import ArrayLike


def rolling_mean(y: ArrayLike, window: int, *, observed: ArrayLike | None = None) -> np.ndarray:
    """Centered rolling mean of each station's readings.

    By pandas: ``DataFrame(y.T).rolling(window, center=True, min_periods=1).mean().T``, the mean of the readings that the
    window holds. NaN where it holds none; :func:`interpolate_in_time` fills those.

    Parameters
    ----------
    y : (N, T) array
        NaN where missing.
    window : int
        Number of times.
    observed : (N, T) or (N,) bool array, optional
        Default: where ``y`` is not NaN.

    Returns
    -------
    (N, T) float64 array

    Examples
    --------
    >>> import numpy as np, nareg
    >>> nareg.baselines.rolling_mean(np.array([[1.0, 2.0, np.nan, 6.0]]), 3)
    array([[1.5, 1.5, 4. , 6. ]])
    """
    import pandas as pd

    frame = pd.DataFrame(series(y, observed).T)
    return frame.rolling(checks.integer("window", window, low=1), center=True, min_periods=1).mean().to_numpy().T


def interpolate_in_time(y: ArrayLike, *, times: ArrayLike | None = None, observed: ArrayLike | None = None) -> np.ndarray:
    """Fill each station's gaps by a straight line between the readings before and after.

    Before the first and after the last reading that reading is repeated. A station without a reading stays NaN.

    Parameters
    ----------
    y : (N, T) array
        NaN where missing.
    times : (T,) array of numbers or datetime64, optional
        Rising; default 0, 1, 2, ...
    observed : (N, T) or (N,) bool array, optional
        Default: where ``y`` is not NaN.

    Returns
    -------
    (N, T) float64 array

    Examples
    --------
    >>> import numpy as np, nareg
    >>> nareg.baselines.interpolate_in_time(np.array([[np.nan, 2.0, np.nan, 6.0]]))
    array([[2., 2., 4., 6.]])
    """
    values = series(y, observed)
    clock = _clock(times, values.shape[1])
    for row in values:
        seen = np.isfinite(row)
        if seen.any() and not seen.all():
            row[~seen] = np.interp(clock[~seen], clock[seen], row[seen])
    return values


def _clock(times: ArrayLike | None, count: int) -> np.ndarray:
    if times is None:
        return np.arange(count, dtype=np.float64)
    clock = checks.array_of("times", times)
    if clock.dtype.kind == "M":
        clock = since(clock, clock.flat[0]) if clock.size else clock
    clock = checks.floats("times", clock, ndim=(1,)).astype(np.float64)
    if clock.shape != (count,):
        raise InputError(f"times has shape {clock.shape} but y has {count} times: pass one time per column.")
    if (np.diff(clock) <= 0).any():
        raise InputError(f"times does not rise at index {int(np.flatnonzero(np.diff(clock) <= 0)[0]) + 1}: sort the columns.")
    return clock


def network_mean(y: ArrayLike, *, observed: ArrayLike | None = None) -> np.ndarray:
    """The mean of all stations that read at a time, for every station; NaN where none reads.

    Parameters
    ----------
    y, observed
        As in :func:`rolling_mean`.

    Returns
    -------
    (N, T) float64 array

    Examples
    --------
    >>> import numpy as np, nareg
    >>> nareg.baselines.network_mean(np.array([[1.0, np.nan], [3.0, 5.0]]))
    array([[2., 5.],
           [2., 5.]])
    """
    values = series(y, observed)
    seen = np.isfinite(values)
    counts = seen.sum(axis=0)
    mean = np.where(counts > 0, np.where(seen, values, 0.0).sum(axis=0) / np.maximum(counts, 1), np.nan)
    return np.tile(mean, (values.shape[0], 1))


@takes_tables("y", "observed", observed="observed")
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
