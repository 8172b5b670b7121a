"""Sampling sets: the dense definition, the best of all sets on small graphs, random sets, and simulated errors."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import nareg
from nareg.design import placement
from nareg.errors import InputError, TooLargeError


def error(S, c, nodes):
    reads = np.zeros(len(S))
    reads[list(nodes)] = c[list(nodes)]
    return np.trace(np.linalg.inv(S + np.diag(reads))) / len(S)


@pytest.fixture
def problem(rng):
    g = nareg.graphs.sensor(14, 3, rng=rng)
    w = rng.uniform(0.5, 2.0, 14)
    return g, w, np.diag(w) @ g.laplacian().toarray() @ np.diag(w), rng.uniform(0.5, 2.0, 14)


def test_each_node_is_the_best_given_those_before(problem):
    g, w, S, c = problem
    result = placement(g, w, count=6, data_weight=c, noise=0.3)
    assert np.isinf(result.mse[0])
    for k in range(6):
        before = list(result.nodes[:k])
        best = min(error(S, c, [*before, j]) for j in range(14) if j not in before)
        assert result.mse[k + 1] == pytest.approx(0.3 * best, rel=1e-9)
        assert result.mse[k + 1] == pytest.approx(0.3 * error(S, c, result.nodes[: k + 1]), rel=1e-9)
    assert np.mean(result.std**2) == pytest.approx(result.mse[-1], rel=1e-9)


def test_greedy_is_near_the_best_of_all_sets_and_beats_random_ones(problem, rng):
    g, w, S, c = problem
    for count in (2, 3, 4):
        reached = placement(g, w, count=count, data_weight=c).mse[-1]
        assert reached <= 1.1 * min(error(S, c, nodes) for nodes in combinations(range(14), count))
    large = nareg.graphs.sensor(120, rng=rng)
    L, ones = large.laplacian().toarray(), np.ones(120)
    reached = placement(large, 1.0, count=12).mse[-1]
    assert reached < min(error(L, ones, rng.choice(120, 12, replace=False)) for _ in range(200))


def test_simulated_errors_are_those_expected(rng):
    g = nareg.graphs.grid((5, 6))
    S = g.laplacian() + 0.2 * np.eye(30)  # a field with a level of its own: a proper prior
    result = placement(g, S, count=8, noise=0.5)
    assert np.isfinite(result.mse).all()
    x = np.linalg.solve(np.linalg.cholesky(S / 0.5).T, rng.standard_normal((30, 20_000)))
    y = x + np.sqrt(0.5) * rng.standard_normal(x.shape)
    seen = np.isin(np.arange(30), result.nodes)
    squared = (nareg.filters.interpolate(g, S, y, seen).x - x) ** 2
    per_signal = squared.mean(axis=0)
    assert abs(per_signal.mean() - result.mse[-1]) < 5 * per_signal.std() / np.sqrt(per_signal.size)
    np.testing.assert_allclose(np.sqrt(squared.mean(axis=1)), result.std, rtol=0.05)


def test_parts_and_nodes_that_are_measured_already(problem):
    g, w, S, c = problem
    result = placement(g, w, count=2, data_weight=c, observed=[3, 5], candidates=[1, 2, 3, 8])
    assert set(result.nodes) <= {1, 2, 8}
    assert result.mse[0] == pytest.approx(error(S, c, [3, 5]))
    assert result.mse[2] == pytest.approx(error(S, c, [3, 5, *result.nodes]))
    two = nareg.Graph(np.kron(np.eye(2), nareg.graphs.grid((5,)).adjacency.toarray()))
    assert sorted(placement(two, 1.0, count=2).nodes) == [2, 7]  # the middle of each path
    with pytest.raises(InputError, match="2 connected parts of the graph need a reading each"):
        placement(two, 1.0, count=1)
    with pytest.raises(InputError, match="no node in the part with node 5"):
        placement(two, 1.0, count=2, candidates=[0, 1, 2])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"count": 15}, "there are 14 nodes to choose from"),
        ({"count": 3, "candidates": [1, 2]}, "there are 2 nodes"),
        ({"noise": 0.0}, "noise is 0.0"),
        ({"observed": [14]}, "observed holds 14"),
    ],
)
def test_what_cannot_work_is_refused(problem, options, words):
    with pytest.raises(InputError, match=words):
        placement(problem[0], 1.0, **options)


def test_large_networks_are_refused_before_they_are_tried():
    with pytest.raises(TooLargeError, match=r"graph\.subgraph"):
        placement(nareg.graphs.grid((60, 60)), 1.0)
