"""Regressors of readings with gaps: against the library's filters, and what their training scores."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import _nodes, _regressors, gnn_interpolation
from nareg import filters, gnn, graphs

torch = _nodes.torch


@pytest.fixture
def g():
    return graphs.sensor(12, rng=np.random.default_rng(3))


def with_gaps(rng, shape):
    return np.where(rng.random(shape) < 0.4, np.nan, rng.standard_normal(shape))


@pytest.mark.parametrize("shared", [False, True])
def test_gappy_weights_are_the_filter_that_interpolates(g, rng, shared):
    Y = with_gaps(rng, (12, 5))
    if shared:
        Y = np.where(np.isnan(Y[:, :1]), np.nan, rng.standard_normal(Y.shape))
    w = rng.uniform(0.5, 2.0, 12)
    network = _regressors.GappyWeights(g.laplacian().toarray())
    with torch.no_grad():
        network.log_w.copy_(torch.tensor(np.log(w)))
        x = network(torch.tensor(Y, dtype=torch.float32), _nodes.Adjacency(g)).numpy()
    np.testing.assert_allclose(x, filters.interpolate(g, w, Y).x, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("build", [lambda: _regressors.Snapshots(gaps=True), lambda: _regressors.Dense(12, gaps=True)])
def test_networks_with_gaps_see_where_a_reading_is_missing(g, rng, build):
    """A missing reading is not a reading of zero."""
    Y = with_gaps(rng, (12, 5))
    network = build()
    missing, zero = (network(torch.tensor(part, dtype=torch.float32), _nodes.Adjacency(g)) for part in (Y, np.nan_to_num(Y)))
    assert torch.isfinite(missing).all()
    assert (missing - zero).abs().max() > 1e-3


def test_the_normalized_polynomial_is_a_ratio_of_two_filters(g, rng):
    Y = with_gaps(rng, (12, 5))
    network, A = _regressors.NormalizedPolynomial(order=3), _nodes.Adjacency(g)
    with torch.no_grad():
        x = network(torch.tensor(Y, dtype=torch.float32), A).numpy()
    matrix = gnn.propagate(A, np.eye(12), weights=[0.0, 1.0])
    weights = np.array([0.5, 0.25, 0.125, 0.0625])
    powers = [np.linalg.matrix_power(matrix, k) for k in range(4)]
    top = sum(c * P for c, P in zip(weights, powers, strict=True)) @ np.nan_to_num(Y)
    bottom = sum(c * P for c, P in zip(weights / weights.sum(), powers, strict=True)) @ np.isfinite(Y)
    np.testing.assert_allclose(x, top / bottom, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_training_scores_what_is_hidden(g, rng):
    """Half of the stations are never read and have other signals: a network that scored the others would miss them."""
    common = rng.standard_normal((1, 200))
    U = np.repeat(common, 12, axis=0)
    silent = np.arange(12) < 6
    U[silent] *= -1

    def hidden(shape):
        return np.tile(silent[:, None], (1, shape[1]))

    options = {"lr": 0.003, "epochs": 300, "rng": rng, "hidden": hidden, "batch": 32}
    learned = _regressors.train(lambda: _regressors.Dense(12, gaps=True), _nodes.Adjacency(g), U, 0.01, **options)
    Y = np.where(silent[:, None], np.nan, U)
    error = (learned.apply(Y) - U) ** 2
    assert error[silent].mean() < 0.1 < error[~silent].mean()


def test_errors_count_where_no_reading_is_taken():
    truth = np.array([[1.0, 2.0], [3.0, 4.0]])
    readings = np.array([[np.nan, 0.0], [0.0, 0.0]])
    assert gnn_interpolation.error_of(np.array([[0.0, 9.0], [9.0, 9.0]]), readings, truth) == 1.0
    assert gnn_interpolation.error_of(np.zeros((2, 2)), np.zeros((2, 2)), truth) == 1.0
