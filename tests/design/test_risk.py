"""Risk and gradients against dense formulas, Monte Carlo and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nareg
from nareg.design._convex import criteria as _corners
from nareg.design._convex import filter_fit as _filter_fit
from nareg.design._risk import problem as _problem
from nareg.errors import InputError
from tests.helpers import dense_filter, dense_risk, directional_difference


def random_case(seed: int, n: int = 9):
    rng = np.random.default_rng(seed)
    g = nareg.graphs.erdos_renyi(n, 0.5, rng=rng)
    root = rng.standard_normal((n, n))
    return rng, g, rng.standard_normal((n, 4)), root @ root.T / n


@given(st.integers(0, 10_000), st.booleans())
@pytest.mark.slow
def test_risk_is_the_dense_formula_and_above_lmmse(seed, weighted):
    rng, g, X, Sigma = random_case(seed)
    w = rng.standard_normal(9)
    c = 10 ** rng.uniform(-1, 1, 9) if weighted else None
    result = nareg.design.risk(g, w, data_weight=c, signals=X, noise=Sigma)
    R = X @ X.T / 4
    bias, variance = dense_risk(dense_filter(g, w, c), R, Sigma)
    assert result.bias == pytest.approx(bias, rel=1e-9)
    assert result.variance == pytest.approx(variance, rel=1e-9)
    assert result.nmse == pytest.approx((bias + variance) / np.trace(R), rel=1e-9)
    wiener = R @ np.linalg.inv(R + Sigma)
    assert result.lmmse == pytest.approx(sum(dense_risk(wiener, R, Sigma)) / np.trace(R), rel=1e-6)
    assert result.nmse >= result.lmmse * (1 - 1e-9)


def test_risk_agrees_with_monte_carlo(us, rng):
    x = us.signals[:, 10] - us.signals[:, 10].mean()
    w, noise = rng.random(us.n_nodes), rng.random(us.n_nodes) * 20
    y = x[:, None] + np.sqrt(noise)[:, None] * rng.standard_normal((us.n_nodes, 4000))
    errors = np.sum((nareg.filters.denoise(us.graph, w, y).x - x[:, None]) ** 2, axis=0)
    expected = nareg.design.risk(us.graph, w, signals=x, noise=noise).mse
    assert abs(errors.mean() - expected) < 4 * errors.std() / np.sqrt(errors.size)


@given(
    st.integers(0, 10_000),
    st.sampled_from(["mse", "mse, weighted fit", "mse, full covariance", "prony", "fit", "worst corner"]),
)
def test_gradients_against_finite_differences(seed, which):
    rng, g, X, Sigma = random_case(seed)
    noise = Sigma if which == "mse, full covariance" else np.diag(Sigma)
    c = 10 ** rng.uniform(-1, 1, 9) if which == "mse, weighted fit" else None
    task = _problem.problem(g, signals=X, noise=noise, data_weight=c, needs="test")
    function = {
        "prony": lambda: _corners.square_criterion(task.L, _problem.root(task.R).T),
        "fit": lambda: _filter_fit.fit_criterion(task.L, _filter_fit.dense_step_one(task).matrix),
        "worst corner": lambda: _corners.smooth_worst(task.L, X[:, :2]),
    }.get(which, lambda: task.mse_and_gradient)()
    w, direction = rng.standard_normal((2, 9))
    value, gradient = function(w)
    slope = directional_difference(function, w, direction)
    assert gradient @ direction == pytest.approx(slope, rel=2e-5, abs=1e-6 * (1 + abs(value)))


def test_whitening_changes_coordinates_and_nothing_else(rng):
    _, g, X, Sigma = random_case(3)
    c = 10 ** rng.uniform(-1, 1, 9)
    task = _problem.problem(g, signals=X, noise=Sigma, data_weight=c, needs="test")
    w = rng.standard_normal(9)
    H, H_white = task.filter_matrix(w)[1], task.whitened().filter_matrix(w / np.sqrt(c))[1]
    root = np.sqrt(c)
    np.testing.assert_allclose(H_white, root[:, None] * H / root, rtol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"signals": np.ones(4), "second_moment": np.eye(4)}, "exactly one of signals"),
        ({}, "exactly one of signals"),
        ({"second_moment": np.ones((3, 3))}, "second_moment has shape"),
        ({"second_moment": -np.eye(4)}, r"second_moment\[0, 0\] is -1, negative"),
        ({"second_moment": np.eye(4) - 0.9}, r"second_moment has a negative eigenvalue \(-26 with"),
        ({"second_moment": np.triu(np.ones((4, 4)))}, "second_moment is not symmetric"),
        ({"signals": np.zeros(4)}, "zero everywhere"),
        ({"signals": np.ones(4), "noise": -1.0}, r"noise\[0\] is -1"),
        ({"signals": np.ones(4), "noise": [1, 1, -2, 1]}, r"noise\[2\] is -2"),
        ({"signals": np.ones(4), "noise": np.diag([1.0, 1, -1, 1])}, r"noise\[2, 2\] is -1, negative"),
        ({"signals": np.ones(4), "noise": np.nan}, "noise is nan"),
    ],
)
def test_bad_arguments_are_named(arguments, words):
    with pytest.raises(InputError, match=words):
        nareg.design.risk(nareg.graphs.grid((4,)), 1.0, **{"noise": 1.0, **arguments})
