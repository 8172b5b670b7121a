"""The graph that an estimator uses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import nareg
from nareg.errors import InputError
from nareg.estimators import GraphInterpolator
from nareg.estimators._base import NEIGHBORS, by_correlation


def reference(anomalies: np.ndarray) -> np.ndarray:
    """The same graph by pandas' pairwise correlations and loops."""
    r = pd.DataFrame(anomalies.T).corr(min_periods=1).fillna(0.0).to_numpy()
    n = len(r)
    chosen = {i: sorted((j for j in range(n) if j != i), key=lambda j: -r[i, j])[:NEIGHBORS] for i in range(n)}
    mean = np.mean([2 - 2 * r[i, j] for i in range(n) for j in chosen[i]])
    A = np.zeros((n, n))
    for i, near in chosen.items():
        for j in near:
            A[i, j] = A[j, i] = np.exp(-(2 - 2 * r[i, j]) / mean)
    return A


def test_the_correlation_graph_is_that_of_a_plain_loop(rng):
    anomalies = rng.standard_normal((20, 50)) + 2 * rng.standard_normal((4, 50)).repeat(5, axis=0)
    np.testing.assert_allclose(by_correlation(anomalies).adjacency.toarray(), reference(anomalies), rtol=1e-10)


def test_gaps_leave_pairs_of_readings_out(rng):
    """Over common times, with each station's own mean: near pandas' pairwise correlation."""
    anomalies = rng.standard_normal((12, 400)) + 2 * rng.standard_normal((4, 400)).repeat(3, axis=0)
    gappy = np.where(rng.random(anomalies.shape) < 0.1, np.nan, anomalies)
    near, exact = by_correlation(gappy).adjacency.toarray(), reference(gappy)
    linked = (near > 0) & (exact > 0)
    assert linked.sum() > 0.9 * (exact > 0).sum()
    np.testing.assert_allclose(near[linked], exact[linked], rtol=0.05)


def test_stations_that_go_together_are_neighbors(rng):
    groups = np.arange(24) % 3
    anomalies = rng.standard_normal((3, 100))[groups] + 0.3 * rng.standard_normal((24, 100))
    i, j = by_correlation(anomalies).adjacency.nonzero()
    assert (groups[i] == groups[j]).all()


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_units_and_constant_stations_do_not_matter(scale, rng):
    anomalies = rng.standard_normal((10, 30))
    anomalies[3] = 0.0
    expected, scaled = by_correlation(anomalies), by_correlation(scale * anomalies)
    np.testing.assert_allclose(scaled.adjacency.toarray(), expected.adjacency.toarray())
    assert (scaled.degrees > 0).all()


def test_the_distance_graph_is_close_to_the_correlation_graph(network, clean):
    """On a smooth field the neighbors by correlation are neighbors on the map."""
    built = GraphInterpolator().fit(clean - clean.mean()).graph_
    by_distance = network.graph.adjacency.toarray() > 0
    i, j = built.adjacency.nonzero()
    assert by_distance[i, j].mean() > 2 * by_distance.mean()


def test_a_graph_of_another_size_is_refused(grid, waves):
    with pytest.raises(InputError, match=r"graph has 9 nodes but X has 8 columns: pass one column per station"):
        GraphInterpolator(grid).fit(waves[:, :8])
    with pytest.raises(InputError, match=r"rows of X are times, columns are stations: pass X.T"):
        GraphInterpolator(grid).fit(waves.T)


def test_stations_in_another_order_are_refused(waves):
    names = [f"station {i}" for i in range(9)]
    graph = nareg.Graph(nareg.graphs.grid((3, 3)).adjacency, names=names)
    frame = pd.DataFrame(waves, columns=names)
    assert GraphInterpolator(graph).fit(frame).graph_ is graph
    with pytest.raises(InputError, match=r"another order: pass X\[list\(graph.names\)\]"):
        GraphInterpolator(graph).fit(frame[names[::-1]])
    GraphInterpolator(graph).fit(frame.set_axis([f"column {i}" for i in range(9)], axis=1))  # other names are no order


def test_an_estimator_checks_its_graph(waves):
    with pytest.raises(InputError, match="negative"):
        GraphInterpolator(-np.ones((9, 9))).fit(waves)
