"""Where S is a matrix, an estimate far beyond the readings is never returned without a word."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import nareg
from nareg.errors import AmplificationWarning, SingularSystemError
from nareg.filters import interpolate, prepare
from nareg.filters._matrix_amplification import EXACT_NODES, LARGEST_AMPLIFICATION, LARGEST_SENSITIVITY


def dense(S, observed):
    """Row sums of |H|, zero where observed, and ``S_ii (K^-1)_ii``, by dense inversion."""
    inverse = np.linalg.inv(np.diag(observed.astype(float)) + S)
    return np.where(observed, 0.0, np.abs(inverse * observed).sum(axis=1)), np.diag(S) * np.diag(inverse)


def graph_and_mask(n, rng):
    graph = nareg.graphs.erdos_renyi(n, 0.7 if n < 50 else 8 / n, rng=rng)
    observed = rng.random(n) < 0.5
    for part in np.unique(graph.components):  # a part without a reading is refused for another reason
        observed[np.argmax(graph.components == part)] = True
    return graph, observed


def scaled_laplacian(graph, rng):
    """Node weights of both signs over two decades, passed as a matrix: large rows, but well determined."""
    w = 10 ** rng.uniform(-1.5, 0.5, graph.n_nodes) * rng.choice([-1.0, 1.0], graph.n_nodes)
    return w[:, None] * graph.laplacian().toarray() * w


def cut_off(n, group, rng, tie):
    """A complete group of nodes that is joined to the rest by entries about ``tie`` of both signs."""
    inside = np.arange(n) < group
    W = np.where(inside[:, None] == inside, rng.uniform(0.5, 2.0, (n, n)) * np.where(inside, 1.0, 1.0 / n), 0.0)
    W = np.triu(W, 1) + np.triu(W, 1).T
    ties = np.triu(np.where(inside[:, None] == inside, 0.0, tie * rng.choice([-1.0, 1.0], (n, n))), 1)
    S = np.diag(W.sum(axis=1) + np.where(inside, tie / group, 0.1)) - W - ties - ties.T
    return nareg.Graph(W + (inside[:, None] != inside)), S, inside


def outcome(graph, S, observed, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solution = interpolate(graph, S, np.eye(graph.n_nodes), observed, **options)
    return [entry.message for entry in caught], solution


@given(st.integers(0, 100_000))
def test_small_networks_are_told_the_largest_row(seed):
    rng = np.random.default_rng(seed)
    graph, observed = graph_and_mask(9, rng)
    S = scaled_laplacian(graph, rng)
    rows, sensitivity = dense(S, observed)
    messages, solution = outcome(graph, S, observed)
    if rows.max() > LARGEST_AMPLIFICATION * (1 + 1e-6):
        (message,) = messages
        assert message.amplification == pytest.approx(rows.max(), rel=1e-6)
        assert rows[message.node] == pytest.approx(rows.max(), rel=1e-6)
        assert message.nodes == (rows > LARGEST_AMPLIFICATION).sum()
        assert "criterion='likelihood'" in str(message)
        assert "data_weight=observed.astype(float)" in str(message)
    elif rows.max() < LARGEST_AMPLIFICATION * (1 - 1e-6):
        assert not messages
    if sensitivity[~observed].max(initial=0.0) < LARGEST_SENSITIVITY:  # what the weights determine is returned
        K = np.diag(observed.astype(float)) + S
        np.testing.assert_allclose(K @ solution.x, np.diag(observed.astype(float)), atol=1e-7)
        assert "one weight" not in solution.method
        assert all(not message.done and message.unchanged == "9 of 9 signals" for message in messages)


@given(st.integers(0, 100_000))
def test_ties_near_zero_lead_to_one_weight(seed):
    rng = np.random.default_rng(seed)
    graph, S, inside = cut_off(12, 4, rng, tie=1e-7)
    observed = ~inside & (rng.random(12) < 0.7)
    observed[-1] = True
    rows, sensitivity = dense(S, observed)
    messages, solution = outcome(graph, S, observed)
    suspect = (rows > LARGEST_AMPLIFICATION) & (sensitivity > LARGEST_SENSITIVITY)
    if not suspect.any():
        assert "one weight" not in solution.method
        return
    (message,) = messages
    assert message.done == "one weight for all nodes in 12 of 12 signals"
    assert not message.unchanged
    own = np.exp(np.mean(np.log(np.diag(S) / graph.laplacian().diagonal())) / 2)
    one = interpolate(graph, own, np.eye(12), observed)
    np.testing.assert_allclose(solution.x, one.x, atol=1e-10)
    assert np.abs(solution.x * observed).sum(axis=1).max() <= 1 + 1e-9


def test_such_ties_are_met():
    """The property above is not empty."""
    rng = np.random.default_rng(0)
    graph, S, inside = cut_off(12, 4, rng, tie=1e-7)
    rows, sensitivity = dense(S, ~inside)
    assert rows.max() > LARGEST_AMPLIFICATION
    assert sensitivity.max() > 10 * LARGEST_SENSITIVITY
    with pytest.warns(AmplificationWarning, match="one weight for all nodes in 1 of 1 signals"):
        interpolate(graph, S, np.ones(12), ~inside)


@pytest.mark.slow
@given(st.integers(0, 100_000))
def test_dominant_rows_of_any_sign_say_nothing(seed):
    rng = np.random.default_rng(seed)
    graph, observed = graph_and_mask(9, rng)
    off = graph.adjacency.toarray() * rng.choice([-1.0, 1.0], (9, 9))
    off = np.triu(off, 1) + np.triu(off, 1).T
    S = np.diag(np.abs(off).sum(axis=1) + 1e-3) + off
    assert dense(S, observed)[0].max() <= 1 + 1e-9
    assert not outcome(graph, S, observed)[0]


@given(st.integers(0, 100_000))
def test_indefinite_systems_are_refused(seed):
    rng = np.random.default_rng(seed)
    graph, observed = graph_and_mask(9, rng)
    S = graph.adjacency.toarray() * rng.standard_normal((9, 9))
    S = S + S.T + np.diag(rng.uniform(0.5, 6.0, 9))
    smallest = np.linalg.eigvalsh(np.diag(observed.astype(float)) + S)[0]
    if observed.all() or abs(smallest) < 1e-9:
        return
    if smallest > 0:
        assert outcome(graph, S, observed)[1].status.ok
        return
    with pytest.raises(SingularSystemError, match=r"C \+ S indefinite where .* of 9 readings are missing \(node"):
        interpolate(graph, S, np.ones(9), observed)


@pytest.mark.parametrize("n", [300, 3200])  # with a dense check of K, and without one
def test_indefinite_large_systems_are_refused(n, rng):
    graph = nareg.graphs.grid((n // 20, 20))
    observed = np.ones(n, dtype=bool)
    observed[37] = False
    S = graph.laplacian() + sp.diags_array(np.where(np.arange(n) == 37, -3.9, 0.5))
    assert (S.diagonal() > 0).all()
    with pytest.raises(SingularSystemError, match=rf"1 of {n} readings are missing \(node 37\)"):
        interpolate(graph, S, rng.standard_normal(n), observed)


@pytest.mark.slow
@given(st.integers(0, 1_000))
def test_large_networks_find_most_of_the_largest_row(seed):
    rng = np.random.default_rng(seed)
    n = EXACT_NODES + 50
    graph, observed = graph_and_mask(n, rng)
    S = scaled_laplacian(graph, rng)
    rows, _ = dense(S, observed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        interpolate(graph, S, rng.standard_normal(n), observed)
    amplifications = [entry.message.amplification for entry in caught]
    if rows.max() > 2 * LARGEST_AMPLIFICATION:
        assert 0.5 * rows.max() <= amplifications[0] <= 1.001 * rows.max()
    assert all(value <= 1.001 * rows.max() for value in amplifications)


def test_large_networks_find_a_group_that_is_cut_off(rng):
    n = EXACT_NODES + 50
    graph, S, inside = cut_off(n, 20, rng, tie=1e-7)
    rows, sensitivity = dense(S, ~inside)
    assert rows.max() > LARGEST_AMPLIFICATION
    assert sensitivity[inside].min() > LARGEST_SENSITIVITY
    with pytest.warns(AmplificationWarning, match="one weight for all nodes in 1 of 1 signals") as caught:
        solution = interpolate(graph, S, rng.standard_normal(n), ~inside)
    assert caught[0].message.amplification == pytest.approx(rows.max(), rel=0.05)
    assert np.abs(solution.x).max() < 5


def test_a_message_has_what_was_replaced_and_what_was_not(rng):
    graph, S, inside = cut_off(12, 4, rng, tie=1e-7)
    S[-1] *= 0.01
    S[:, -1] *= 0.01  # a node of small weight: well determined, but large
    masks = np.column_stack([~inside, np.arange(12) != 11, np.ones(12, dtype=bool)])
    with pytest.warns(AmplificationWarning) as caught:
        solution = prepare(graph, S).interpolate(np.ones((12, 3)), masks)
    (message,) = (entry.message for entry in caught)
    assert message.done == "one weight for all nodes in 1 of 3 signals"
    assert message.unchanged == "1 of 3 signals"
    assert f"; used instead: {message.done}; used as they are: {message.unchanged}. " in str(message)
    assert solution.method.endswith(message.done)
    assert caught[0].filename == __file__


@pytest.mark.slow
def test_pm25_in_california_with_half_of_the_readings_missing(data_root):
    """Edge weights by the risk tie three stations to the others by entries of 1e-6."""
    network = nareg.datasets.load("pm25-california", root=data_root)
    network = network.select(np.sort(np.argsort(-network.observed.mean(axis=1), kind="stable")[:17]))
    X = network.signals[:, network.observed.all(axis=0)]
    first = np.arange(X.shape[1]) * 20 // X.shape[1] % 2 == 0
    X = X - X[:, first].mean(axis=1, keepdims=True)
    train, test = X[:, first], X[:, ~first]
    rng = np.random.default_rng(0)
    noise = 0.1 * np.mean(train**2)
    seen = np.argsort(rng.random(test.shape), axis=0) >= 8
    Y = np.where(seen, test + np.sqrt(noise) * rng.standard_normal(test.shape), np.nan)

    def error(x):
        return np.sum((x - test)[~seen] ** 2) / np.sum(test[~seen] ** 2)

    def filtered(weights):
        return error(interpolate(network.graph, weights, Y).x)

    one = filtered(nareg.design.node_invariant(network.graph, rule="oracle", signals=train, noise=noise))
    risk = nareg.design.edge(network.graph, signals=train, noise=noise)
    given_weights = [
        np.linalg.solve(np.diag(here.astype(float)) + risk.matrix.toarray(), np.where(here, y, 0.0))
        for y, here in zip(Y.T, seen.T, strict=True)
    ]
    assert error(np.column_stack(given_weights)) > 2 * one
    with pytest.warns(AmplificationWarning, match="one weight for all nodes"):
        assert filtered(risk) < 1.1 * one
    assert filtered(nareg.design.edge(network.graph, signals=train, noise=noise, criterion="likelihood")) < one
