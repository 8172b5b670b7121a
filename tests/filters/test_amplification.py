"""Where nothing was observed an estimate may not be far larger than every reading without a word."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nareg
from nareg.errors import AmplificationWarning
from nareg.filters import interpolate
from nareg.filters.apply import LARGEST_AMPLIFICATION


@given(st.integers(0, 100_000))
def test_warning_is_the_largest_row_sum_of_the_filter(seed):
    rng = np.random.default_rng(seed)
    graph = nareg.graphs.erdos_renyi(9, 0.6, rng=rng)
    w = 10 ** rng.uniform(-1, 1, 9) * rng.choice([-1, 1], 9)
    fit = 10 ** rng.uniform(-1, 1, 9)
    observed = rng.random(9) < 0.5
    observed[rng.integers(9)] = True
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        H = interpolate(graph, w, np.eye(9), observed, fit=fit, method="direct").x * observed
    rows = np.where(observed, 0.0, np.abs(H).sum(axis=1))
    if rows.max() > LARGEST_AMPLIFICATION * (1 + 1e-6):
        (told,) = (c.message for c in caught)
        assert told.amplification == pytest.approx(rows.max(), rel=1e-2)
        assert rows[told.node] == pytest.approx(rows.max(), rel=1e-2)
    elif rows.max() < LARGEST_AMPLIFICATION * (1 - 1e-6):
        assert not caught


def test_one_weight_never_warns_and_a_weight_near_zero_does(recwarn):
    path = nareg.graphs.grid((3,))
    observed = np.array([True, False, True])
    interpolate(path, 5.0, np.array([1.0, 0.0, 3.0]), observed)
    assert not recwarn
    with pytest.warns(AmplificationWarning, match="node 1.* times the largest reading"):
        found = interpolate(path, [1.0, 0.01, 1.0], np.array([1.0, np.nan, 3.0]), observed)
    assert found.x[1] > 10
    masks = np.column_stack([np.ones(3, dtype=bool), observed])
    with pytest.warns(AmplificationWarning, match="node 1"):
        interpolate(path, [1.0, 0.01, 1.0], np.ones((3, 2)), masks)


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

    one = error(nareg.design.node_invariant(network.graph, rule="oracle", signals=train, noise=noise, fit="noise"))
    subset = error(nareg.design.exact(network.graph, signals=train, noise=noise, fit=observed / noise))
    assert not recwarn
    assert subset < 0.95 * one
    with pytest.warns(AmplificationWarning):
        assert error(nareg.design.exact(network.graph, signals=train, noise=noise, fit="noise")) > 1.2 * one
