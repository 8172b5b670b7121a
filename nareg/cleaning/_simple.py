"""Simple methods to compare with, on the same readings: each fills the whole table (N, T)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from nareg import baselines
from nareg.cleaning._one_weight import one_weight
from nareg.errors import NaregError
from nareg.graph import Graph

#: Readings in the window of the rolling mean.
WINDOW = 13
#: Kriging factors a dense covariance for every pattern of gaps.
MAX_KRIGED = 500
LAST, LINE, MEDIAN, ROLLING, WEIGHT, KRIGING = (
    "last reading", "straight line in time", "neighbors' median", f"rolling mean of {WINDOW}", "one weight", "kriging"
)  # fmt: skip

Methods = dict[str, Callable[[], np.ndarray]]


def last_reading(y: np.ndarray) -> np.ndarray:
    """Repeat the last reading; before the first reading, repeat that one."""
    seen = np.isfinite(y)
    place = np.where(seen, np.arange(y.shape[1]), -1)
    before = np.maximum.accumulate(place, axis=1)
    first = np.where(seen.any(axis=1), seen.argmax(axis=1), 0)
    before = np.where(before < 0, first[:, None], before)
    return np.take_along_axis(y, before, axis=1)


def _methods(graph: Graph, y: np.ndarray, times: np.ndarray | None, rng: np.random.Generator) -> Methods:
    methods: Methods = {
        LAST: lambda: last_reading(y),
        LINE: lambda: baselines.interpolate_in_time(y, times=times),
        MEDIAN: lambda: baselines.neighbor_median(graph, y),
        ROLLING: lambda: baselines.interpolate_in_time(baselines.rolling_mean(y, WINDOW), times=times),
        WEIGHT: lambda: one_weight(graph, y, rng),
    }
    if graph.coordinates is not None and 1 < graph.n_nodes <= MAX_KRIGED:
        methods[KRIGING] = lambda: baselines.kriging(graph, y, metric=graph.metric).x
    return methods


def predict(
    graph: Graph, y: np.ndarray, times: np.ndarray | None, rng: np.random.Generator, tick: Callable[[str], None]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Estimates (N, T) of every method from readings with NaN where missing, and notes about methods that cannot work."""
    median = baselines.neighbor_median(graph, y)
    results, notes = {}, []
    for name, method in _methods(graph, y, times, rng).items():
        tick(name)
        try:
            results[name] = complete(method(), y, median)
        except NaregError as error:
            notes.append(f"The method {name!r} was left out of the comparison: {error}")
    return results, notes


def estimate(name: str, graph: Graph, y: np.ndarray, times: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """The estimate (N, T) of one method."""
    return complete(_methods(graph, y, times, rng)[name](), y, baselines.neighbor_median(graph, y))


def fallback(estimates: Mapping[str, np.ndarray]) -> str:
    """The method to use without a comparison: denoising in space, if it could be computed."""
    return next(name for name in (WEIGHT, MEDIAN, LINE) if name in estimates)


def complete(x: np.ndarray, y: np.ndarray, median: np.ndarray) -> np.ndarray:
    """Fill NaN by the neighbors' median, the station's mean, or the mean of all readings."""
    if np.isfinite(x).all():
        return x
    seen = np.isfinite(y)
    counts = seen.sum(axis=1)
    mean = np.where(seen, y, 0.0).sum(axis=1) / np.maximum(counts, 1)
    mean = np.where(counts > 0, mean, y[seen].mean())
    result = np.where(np.isfinite(x), x, median)
    return np.where(np.isfinite(result), result, mean[:, None])
