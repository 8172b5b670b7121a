"""The removal of an edge as factors."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.errors import InputError
from nareg.unlearning.propagation.base import Change
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.propagation.exact import Propagation, edge_factors
from nareg.unlearning.propagation.residual import ApproximatePropagation
from tests.unlearning.test_propagation import SCHEMES


@pytest.mark.slow
@pytest.mark.parametrize("weights", SCHEMES.values(), ids=list(SCHEMES))
def test_factors_are_the_change_of_the_embedding(weights, rng):
    order = len(weights) - 1
    live = LiveGraph(nareg.graphs.erdos_renyi(60, 0.06, rng=rng))
    propagation = Propagation(live, rng.standard_normal((60, 5)), np.array(weights), np.arange(20))
    W = rng.standard_normal((5, 2))
    for _ in range(20):
        pair = rng.permutation(np.argwhere(np.triu(live.adjacency().toarray())))[:1]
        before, graph = propagation.embedding(), live.adjacency().toarray()
        result = edge_factors(propagation, pair[0])
        np.testing.assert_array_equal(propagation.embedding(), before)  # nothing is changed by asking
        np.testing.assert_array_equal(live.adjacency().toarray(), graph)
        propagation.update(Change(removed=pair))
        change = propagation.embedding() - before
        assert result.right.shape == (2 * (order + 1), 5)
        np.testing.assert_allclose(result.left @ result.right, change[result.nodes], atol=1e-13)
        np.testing.assert_allclose(result.apply(W), (change @ W)[result.nodes], atol=1e-13)
        np.testing.assert_allclose(np.delete(change, result.nodes, axis=0), 0, atol=1e-13)
        # a gradient Z^T R, at rows R of the new scores: what the old embedding gives, and what the factors add
        R = np.cos(propagation.embedding() @ W)
        np.testing.assert_allclose(
            before.T @ R + result.transposed_apply(R[result.nodes]), propagation.embedding().T @ R, atol=1e-12
        )
        assert (propagation.scratch.slot == -1).all()


def test_one_edge_and_exact_propagation_only(rng):
    graph, X = nareg.graphs.erdos_renyi(20, 0.3, rng=rng), rng.standard_normal((20, 2))
    pairs = np.argwhere(np.triu(graph.adjacency.toarray()))[:2]
    propagation = Propagation(LiveGraph(graph), X, np.array([0.0, 1.0]), np.arange(5))
    with pytest.raises(InputError, match="edge has 2 pairs"):
        edge_factors(propagation, pairs)
    with pytest.raises(InputError, match="which is not an edge"):
        edge_factors(propagation, np.argwhere(np.triu(graph.adjacency.toarray() == 0, 1))[0])
    rough = ApproximatePropagation(LiveGraph(graph), X, np.array([0.0, 1.0]), np.arange(5), r_max=0.1)
    with pytest.raises(InputError, match="r_max=0"):
        edge_factors(rough, pairs[0])
