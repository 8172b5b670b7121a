"""Dependent noise has the power of white noise at every node, is like that of neighbors, and passes a low-pass filter."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from experiments.gnn_dependent import DEPENDENT, WHITE, drawn
from nareg import graphs
from nareg.gnn import Adjacency, Chebyshev, propagate

SHAPE = 80, 4000


@pytest.fixture(scope="module")
def graph():
    return Adjacency(graphs.sensor(80, rng=np.random.default_rng(0)))


def noise(kind, graph, dependence=8.0):
    return drawn(SHAPE, kind, graph, dependence, np.random.default_rng(1))


@pytest.mark.slow
def test_power_is_one_at_every_node(graph):
    for kind, tolerance in ((WHITE, 0.1), (DEPENDENT, 1e-5)):
        np.testing.assert_allclose((noise(kind, graph) ** 2).mean(axis=1), 1, atol=tolerance)


def test_dependence_is_that_of_the_filter(graph):
    """Correlation of two nodes: that of the rows of ``(I + lam L~)^-1``."""
    H = np.linalg.inv(np.eye(80) + 8.0 * graph.augmented_laplacian.toarray())
    rows = H / np.linalg.norm(H, axis=1)[:, None]
    sampled = noise(DEPENDENT, graph) @ noise(DEPENDENT, graph).T / SHAPE[1]
    np.testing.assert_allclose(sampled, rows @ rows.T, atol=0.1)
    assert sampled[graph.raw.toarray() > 0].mean() > 3 * sampled[graph.raw.toarray() == 0].mean()


def test_a_low_pass_filter_removes_white_noise_and_leaves_dependent_noise(graph):
    remaining = {
        kind: (propagate(graph, noise(kind, graph), lam=8.0, solver=Chebyshev()) ** 2).mean() for kind in (WHITE, DEPENDENT)
    }
    assert remaining[WHITE] < 0.1
    assert remaining[DEPENDENT] > 5 * remaining[WHITE]
