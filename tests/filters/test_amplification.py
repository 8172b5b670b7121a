"""Where nothing was observed an estimate may not be far larger than every reading without a word."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

import nareg
from nareg.errors import AmplificationWarning
from nareg.filters import interpolate
from nareg.filters.apply import LARGEST_AMPLIFICATION


def dense_rows(graph, w, data_weight, observed):
    """Row sums of |H| at the nodes that are not observed, by dense inversion."""
    c = data_weight * observed
    H = np.linalg.inv(np.diag(c) + w[:, None] * graph.laplacian().toarray() * w) * c
    return np.where(observed, 0.0, np.abs(H).sum(axis=1)), H


def case(seed):
    rng = np.random.default_rng(seed)
    graph = nareg.graphs.erdos_renyi(9, 0.6, rng=rng)
    w = 10 ** rng.uniform(-1, 1, 9) * rng.choice([-1, 1], 9)
    observed = rng.random(9) < 0.5
    observed[rng.integers(9)] = True
    count, part = connected_components(graph.adjacency, directed=False)
    for k in range(count):  # a part without a reading has no estimate, and is refused
        if not observed[part == k].any():
            observed[np.argmax(part == k)] = True
    return graph, w, 10 ** rng.uniform(-1, 1, 9), observed


def told_and_matrix(graph, w, data_weight, observed):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solution = interpolate(graph, w, np.eye(9), observed, data_weight=data_weight, method="direct")
    return [c.message for c in caught], solution.x * observed, solution


@given(st.integers(0, 100_000))
def test_warning_is_the_largest_row_sum_of_the_given_filter(seed):
    graph, w, data_weight, observed = case(seed)
    rows, _ = dense_rows(graph, w, data_weight, observed)
    stated, *_ = told_and_matrix(graph, w, data_weight, observed)
    if rows.max() > LARGEST_AMPLIFICATION * (1 + 1e-6):
        (message,) = stated
        assert message.amplification == pytest.approx(rows.max(), rel=1e-2)
        assert rows[message.node] == pytest.approx(rows.max(), rel=1e-2)
        assert message.done
    elif rows.max() < LARGEST_AMPLIFICATION * (1 - 1e-6):
        assert not stated


@given(st.integers(0, 100_000))
def test_what_is_warned_of_is_never_returned(seed):
    graph, w, data_weight, observed = case(seed)
    _, given_filter = dense_rows(graph, w, data_weight, observed)
    stated, H, solution = told_and_matrix(graph, w, data_weight, observed)
    assert np.abs(H[~observed]).sum(axis=1).max(initial=0.0) <= LARGEST_AMPLIFICATION * (1 + 1e-6)
    if not stated:
        assert "; " not in solution.method
        np.testing.assert_allclose(H, given_filter, atol=1e-8 * np.abs(given_filter).max())
    elif "one weight" in solution.method:
        alone, _ = dense_rows(graph, np.full(9, np.exp(np.mean(np.log(np.abs(w))))), data_weight, observed)
        np.testing.assert_allclose(np.abs(H[~observed]).sum(axis=1), alone[~observed], rtol=1e-8)
    else:  # where there was a reading nothing changes
        np.testing.assert_allclose(H[observed], given_filter[observed], atol=1e-8 * np.abs(given_filter[observed]).max())


def test_an_observed_node_that_its_neighbors_inflate_leads_to_one_weight():
    star = np.zeros((6, 6))
    star[0, 1:] = star[1:, 0] = 1.0
    graph, w = nareg.Graph(star), np.array([0.3, 3.0, 3.0, 3.0, 3.0, 0.01])
    y, data_weight = np.array([0.5, 2.0, 1.0, 1.0, 1.0, np.nan]), np.array([0.01, 1.0, 1.0, 1.0, 1.0, 1.0])
    with pytest.warns(AmplificationWarning, match="one weight for all nodes in 1 of 1 signals"):
        result = interpolate(graph, w, y, np.isfinite(y), data_weight=data_weight)
    one = np.exp(np.log(w).mean())
    np.testing.assert_allclose(result.x, interpolate(graph, one, y, np.isfinite(y), data_weight=data_weight).x)
    assert "one weight for all nodes" in result.method


def test_one_weight_never_warns_and_a_weight_near_zero_does(recwarn):
    path = nareg.graphs.grid((3,))
    observed = np.array([True, False, True])
    interpolate(path, 5.0, np.array([1.0, 0.0, 3.0]), observed)
    assert not recwarn
    with pytest.warns(AmplificationWarning, match="node 1.* times the largest reading"):
        result = interpolate(path, [1.0, 0.01, 1.0], np.array([1.0, np.nan, 3.0]), observed)
    assert result.x[1] == pytest.approx((result.x[0] + result.x[2]) / 2)
    assert "weighted like their neighbors in 1 of 1 signals" in result.method
    masks = np.column_stack([np.ones(3, dtype=bool), observed])
    with pytest.warns(AmplificationWarning, match="node 1"):
        both = interpolate(path, [1.0, 0.01, 1.0], np.ones((3, 2)), masks)
    assert "in 1 of 2 signals" in both.method
    np.testing.assert_array_equal(both.x[:, 0], nareg.filters.denoise(path, [1.0, 0.01, 1.0], np.ones(3)).x)


def test_large_networks_are_repaired_alike(rng):
    """Beyond the direct solver, with conjugate gradients."""
    g = nareg.graphs.grid((72, 72))
    w = 10 ** rng.uniform(-2, 0, g.n_nodes)
    observed = rng.random(g.n_nodes) < 0.5
    y = np.where(observed, rng.standard_normal(g.n_nodes), np.nan)
    with pytest.warns(AmplificationWarning):
        x = interpolate(g, w, y, observed).x
    c = observed.astype(float)
    as_given = nareg.filters.denoise(g, w, np.where(observed, y, 0.0), data_weight=c).x
    assert np.abs(as_given).max() > 5 * np.nanmax(np.abs(y))
    assert np.abs(x).max() < 2 * np.nanmax(np.abs(y))
    np.testing.assert_allclose(x[observed], as_given[observed], atol=1e-5)


@pytest.mark.nightly
def test_gaps_of_the_weather_network_after_designs_for_denoising():
    """Half of the readings hidden: with the exact weights as given the gaps are up to hundreds of degrees off."""
    network = nareg.datasets.load("us-weather")
    X, hidden = network.signals, np.random.default_rng(1).random(network.signals.shape) < 0.5
    seen = network.observed & ~hidden
    mean = X[seen].mean()
    Y = np.where(seen, X - mean, np.nan)
    exact = nareg.design.exact(network.graph, signals=np.where(network.observed, X - mean, 0.0), noise=1.0)
    blind = nareg.design.blind(network.graph, measurements=Y, observed=seen)
    one = nareg.design.node_invariant(network.graph, rule="gcv", measurements=Y, observed=seen)

    def error(weights):
        difference = interpolate(network.graph, weights, Y, seen).x + mean - X
        return np.sqrt(np.mean(difference[network.observed & hidden] ** 2))

    for design in (exact, blind):
        with pytest.warns(AmplificationWarning):
            assert error(design) < 3.0
    as_given = [
        nareg.filters.denoise(network.graph, exact, np.nan_to_num(Y[:, t]), data_weight=seen[:, t].astype(float)).x
        for t in range(0, X.shape[1], 7)
    ]
    test = (network.observed & hidden)[:, ::7]
    assert np.sqrt(np.mean((np.column_stack(as_given) + mean - X[:, ::7])[test] ** 2)) > 4
    assert error(one) < 2.8


@pytest.mark.slow
def test_a_design_for_the_subset_is_safe_where_one_for_denoising_is_not(recwarn):
    network = nareg.datasets.load("us-weather").complete()
    X = network.signals - network.signals.mean()
    n = network.n_nodes
    rng = np.random.default_rng(0)
    noise = 10 ** rng.uniform(-1, 1, n)
    noise *= 0.1 * np.mean(X**2) / noise.mean()
    observed = rng.permutation(n) < n // 2
    train, test = X[:, ::2], X[:, 1::2]

    def error(design):
        H = interpolate(network.graph, design, np.eye(n), observed, method="direct").x * observed
        return (np.sum((H @ test - test) ** 2) / test.shape[1] + np.sum(H**2 * noise)) / np.mean(np.sum(test**2, axis=0))

    one = error(nareg.design.node_invariant(network.graph, rule="oracle", signals=train, noise=noise, data_weight="noise"))
    subset = error(nareg.design.exact(network.graph, signals=train, noise=noise, data_weight=observed / noise))
    assert not recwarn
    assert subset < 0.95 * one
    design = nareg.design.exact(network.graph, signals=train, noise=noise, data_weight="noise")
    with pytest.warns(AmplificationWarning):
        assert error(design) < 1.1 * one
