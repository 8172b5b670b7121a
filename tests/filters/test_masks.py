"""Many masks of a small network: solved together where that is safe, with the answers of one at a time."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.errors import AmplificationWarning, InputError
from nareg.filters import interpolate


def network(n=12, T=60, seed=0):
    """A graph, the matrix of an edge design, readings, and where there are any: most times have gaps of their own."""
    rng = np.random.default_rng(seed)
    graph = nareg.Graph.from_knn(rng.random((n, 2)), 4)
    W = np.triu(graph.adjacency.toarray() * rng.uniform(-0.2, 1.0, (n, n)))
    S = np.diag(np.abs(W + W.T).sum(axis=1) * rng.uniform(0.9, 1.2, n) + 0.05) - W - W.T
    assert np.linalg.eigvalsh(S)[0] > 0
    assert (2 * np.diag(S) < np.abs(S).sum(axis=1)).any(), "a row that is not dominant may amplify"
    seen = rng.random((n, T)) < 0.8
    seen[:, :5], seen[0] = True, True
    return graph, S, rng.standard_normal((n, T)), seen


@pytest.mark.parametrize("size", [1.0, 1e-150])
def test_masks_have_the_answers_of_one_at_a_time(size):
    graph, S, y, seen = network()
    c = np.linspace(0.5, 2.0, 12)
    together = interpolate(graph, S, size * y, seen, data_weight=c)
    assert together.method.startswith("direct [dense inverses] (")
    assert together.residual < 1e-12
    for t in range(seen.shape[1]):
        alone = interpolate(graph, S, size * y[:, t], seen[:, t], data_weight=c)
        np.testing.assert_allclose(together.x[:, t], alone.x, rtol=1e-9, atol=1e-9 * size)


def test_a_mask_whose_estimates_may_be_huge_is_told_of():
    graph, S, y, seen = network()
    w = np.where(np.arange(12) == 3, 1e-3, 1.0)
    S = w[:, None] * S * w
    with pytest.warns(AmplificationWarning, match="node 3") as warned:
        x = interpolate(graph, S, y, seen).x
    assert len(warned) == 1
    t = int(np.flatnonzero(~seen[3])[0])
    with pytest.warns(AmplificationWarning):
        np.testing.assert_allclose(x[:, t], interpolate(graph, S, y[:, t], seen[:, t]).x, rtol=1e-6)


def test_a_time_whose_only_reading_does_not_count_is_refused():
    graph, S, y, seen = network()
    seen[:, 7] = np.arange(12) == 2
    with pytest.raises(InputError, match="data_weight is zero on every observed node"):
        interpolate(graph, S, y, seen, data_weight=(np.arange(12) != 2).astype(float))
