"""Made-up graphs with classes."""

from __future__ import annotations

import numpy as np
import pytest

from nareg.datasets.node_classification import synthetic
from nareg.errors import InputError


def same_class(data) -> float:
    """Share of the edges within classes."""
    edges = data.graph.adjacency.tocoo()
    return float((data.labels[edges.row] == data.labels[edges.col]).mean())


@pytest.mark.parametrize("exponent", [None, 2.5])
@pytest.mark.parametrize("homophily", [0.3, 0.8])
def test_edges_join_a_class_as_often_as_asked(exponent, homophily):
    data = synthetic(5000, 4, homophily=homophily, exponent=exponent, rng=np.random.default_rng(0))
    assert abs(same_class(data) - homophily) < 0.03


def test_degrees_by_a_power_law(rng):
    data = synthetic(20_000, 3, exponent=2.5, rng=rng)
    degrees = np.sort(np.diff(data.graph.adjacency.indptr))[::-1]
    # the k-th largest falls as k^(-1 / (exponent - 1))
    ranks = np.array([50, 100, 200, 400, 800, 1600])
    slope = np.polyfit(np.log(ranks), np.log(degrees[ranks]), 1)[0]
    assert abs(slope + 1 / 1.5) < 0.1
    assert degrees[0] > 100 * np.median(degrees)
    even = np.diff(synthetic(20_000, 3, rng=rng).graph.adjacency.indptr)
    assert even.max() < 10 * np.median(even)


def test_hubs_are_no_more_often_trained_on(rng):
    data = synthetic(20_000, 20, exponent=2.5, rng=rng)
    degrees = np.diff(data.graph.adjacency.indptr)
    assert np.median(degrees[data.splits[0][0]]) < 2 * np.median(degrees)


def test_an_exponent_without_a_mean_is_refused(rng):
    with pytest.raises(InputError, match="exponent"):
        synthetic(100, 3, exponent=2.0, rng=rng)
