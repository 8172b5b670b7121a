"""The graph of an estimator: as given, or of the stations whose readings go together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg.errors import InputError
from nareg.graph import Graph

#: Neighbors per station of the graph that is built from the readings.
NEIGHBORS = 7


def network_of(graph: Any, anomalies: np.ndarray, names: Sequence[str] | None) -> Graph:
    """The graph of the stations of anomalies (N, T); ``names`` are those of X's columns, if they have any."""
    if graph is None:
        return by_correlation(anomalies)
    if not isinstance(graph, Graph):
        graph = Graph(graph)
    n = anomalies.shape[0]
    if graph.n_nodes != n:
        hint = " rows of X are times, columns are stations: pass X.T" if graph.n_nodes == anomalies.shape[1] else ""
        raise InputError(f"graph has {graph.n_nodes} nodes but X has {n} columns:{hint or ' pass one column per station'}.")
    if graph.names is not None and names is not None:
        given = [str(name) for name in names]
        if given != list(graph.names) and set(given) == set(graph.names):
            raise InputError("X has the graph's stations in another order: pass X[list(graph.names)].")
    return graph


def by_correlation(anomalies: np.ndarray) -> Graph:
    """Join each station with the seven others whose readings (N, T), NaN where missing, correlate most with its own.

    The distance of two stations is ``sqrt(2 - 2 r)``, which is Euclidean between standardized series, with r over the times at
    which both read. The weight of an edge is ``exp(-d^2 / mean d^2)``, the mean over all pairs of neighbors.
    """
    n = anomalies.shape[0]
    checks.dense_size("a graph of correlations", n, copies=3, alternative="pass graph, as Graph.from_knn makes it")
    squares = 2.0 - 2.0 * _correlations(anomalies)
    np.fill_diagonal(squares, np.inf)
    k = min(NEIGHBORS, n - 1)
    near = np.argsort(squares, axis=1, kind="stable")[:, :k]
    chosen = np.take_along_axis(squares, near, axis=1)
    weights = np.exp(-chosen / (chosen.mean() or 1.0))
    one_way = sp.csr_array((weights.ravel(), (np.repeat(np.arange(n), k), near.ravel())), shape=(n, n))
    return Graph(one_way.maximum(one_way.T))


def _correlations(anomalies: np.ndarray) -> np.ndarray:
    """(N, N) correlations over common times; zero where a station does not vary or two never read together."""
    seen = np.isfinite(anomalies)
    present = seen.astype(float)
    counts = present.sum(axis=1, keepdims=True)
    filled = np.where(seen, anomalies, 0.0)
    filled = np.where(seen, filled - filled.sum(axis=1, keepdims=True) / np.maximum(counts, 1), 0.0)
    largest = float(np.abs(filled).max(initial=0.0))
    if largest > 0:
        filled = filled / largest  # squares neither overflow nor vanish
    power = filled**2 @ present.T
    scale = np.sqrt(power * power.T)
    r = np.divide(filled @ filled.T, scale, out=np.zeros_like(scale), where=scale > 0)
    clipped: np.ndarray = np.clip((r + r.T) / 2, -1.0, 1.0)
    return clipped
