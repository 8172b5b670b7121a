"""The parametric likelihood: its gradient, its covariances, and that the search only ever goes up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import nareg
from nareg.spacetime._dense.parametric import (
    ETA_PRIOR,
    NOISE_SPREAD,
    REACH_PRIOR,
    Penalized,
    information,
    maximize,
    noise_errors,
)
from nareg.spacetime._dense.smoother import run
from nareg.spacetime._dense.starts import first_guess, second_order, with_shown_swing
from nareg.spacetime._readings.space import FAMILIES, Space
from tests.spacetime.reference import dense, parameters, slopes


def problem(seed=0, n=6, T=40, gaps=0.1, phi=(0.8,)):
    """Two windows of readings that the returned parameters drew, and where the stations are."""
    rng = np.random.default_rng(seed)
    graph = nareg.Graph.from_knn(4 * rng.random((n, 2)), 3)
    space = Space.of(graph)
    truth = parameters(n, phi=phi, eta=0.1)
    dynamics = truth.dynamics(space)
    root, windows = np.linalg.cholesky(dynamics.Q), []
    for _ in range(2):
        z, y = np.linalg.cholesky(dynamics.P0) @ rng.standard_normal(dynamics.P0.shape[0]), np.empty((T, n))
        for t in range(T):
            y[t] = z[:n] + 0.5 * rng.standard_normal(n)
            z = dynamics.mean_after(z)
            z[:n] += root @ rng.standard_normal(n)
        windows.append(np.where(rng.random(y.shape) < gaps, np.nan, y))
    return windows, space, truth


def penalized(windows, space, theta, start, *, fixed_noise):
    """What the search maximizes, from the filter alone."""
    k = 3 + start.order
    now = replace(start, log_variance=theta[0], log_reach=theta[1], logit_eta=theta[2], partials=np.array(theta[3:k]))
    if not fixed_noise:
        now = replace(now, log_noise=np.array(theta[k:]))
    value = sum(run(y, now.dynamics(space), now.noise, smooth=False).log_likelihood for y in windows)
    if not fixed_noise:
        value -= 0.5 * np.sum((now.log_noise - now.log_noise.mean()) ** 2) / NOISE_SPREAD**2
    value -= 0.5 * ((theta[2] - ETA_PRIOR[0]) / ETA_PRIOR[1]) ** 2
    return value - 0.5 * ((theta[1] - np.log(space.typical_range(start.family))) / REACH_PRIOR) ** 2


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("phi", [(0.8,), (0.8, -0.3)])
@pytest.mark.parametrize("fixed_noise", [False, True])
def test_gradient_is_that_of_the_filters_likelihood(family, phi, fixed_noise):
    """What the search climbs, against central differences of the likelihood that the filter returns."""
    windows, space, truth = problem(phi=phi)
    start = replace(truth, family=family)
    rng = np.random.default_rng(1)
    theta = np.concatenate([[0.3, 0.5, -1.5], np.arctanh(phi) + 0.1, [] if fixed_noise else rng.normal(-1.3, 0.4, space.n)])
    value, _, gradient = Penalized(windows, space, start, fixed_noise=fixed_noise).evaluate(theta)
    differences = slopes(lambda t: penalized(windows, space, t, start, fixed_noise=fixed_noise), theta)
    assert value == pytest.approx(penalized(windows, space, theta, start, fixed_noise=fixed_noise), rel=1e-10)
    np.testing.assert_allclose(gradient, differences, rtol=2e-5, atol=2e-5 * np.abs(differences).max())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("phi", [(0.8,), (0.8, -0.3)])
def test_information_is_that_of_the_covariance_of_all_readings(family, phi):
    """Half the trace of products of the inverse covariance with its derivatives, of a record much longer than its memory."""
    n, T, rng = 3, 150, np.random.default_rng(2)
    space = Space.of(nareg.Graph.from_knn(4 * rng.random((n, 2)), 2))
    here = parameters(n, phi=phi, eta=0.2)
    theta = np.concatenate([[0.3, 0.5, -1.5], np.arctanh(phi), rng.normal(-1.3, 0.4, n)])

    def covariance(at):
        now = replace(
            here, family=family, log_variance=at[0], log_reach=at[1], logit_eta=at[2], partials=at[3:-n], log_noise=at[-n:]
        )
        a = now.autoregression()[0]
        correlation = [1.0, float(np.tanh(now.partials[0]))]
        while len(correlation) < T:
            correlation.append(float(a @ correlation[: -a.size - 1 : -1]))
        apart = np.abs(np.arange(T)[:, None] - np.arange(T))
        return np.kron(np.array(correlation)[apart], now.covariance(space)) + np.diag(np.tile(now.noise, T))

    inverse = np.linalg.inv(covariance(theta))
    steps = [(covariance(theta + 1e-5 * e) - covariance(theta - 1e-5 * e)) / 2e-5 for e in np.eye(theta.size)]
    products = [inverse @ step for step in steps]
    exact = np.array([[0.5 * np.sum(one * other.T) for other in products] for one in products])
    now = Penalized([np.zeros((T, n))], space, replace(here, family=family), fixed_noise=False).parameters(theta)
    given = information(now, space, np.full(n, T))
    size = np.sqrt(np.outer(exact.diagonal(), exact.diagonal()))
    np.testing.assert_allclose(given / size, exact / size, atol=0.03)


def test_noise_is_not_better_known_where_stations_hardly_read():
    """A field without memory in space looks like noise, whoever reads it."""
    n, rng = 6, np.random.default_rng(6)
    space = Space.of(nareg.Graph.from_knn(2 * rng.random((n, 2)), 5))
    here = replace(parameters(n, phi=(0.3,)), family="exponential", log_reach=np.log(0.05), log_noise=np.full(n, -1.0))
    many, few = np.full(n, 400), np.array([0, 1, 400, 400, 400, 400])
    assert (noise_errors(here, space, few)[1] > noise_errors(here, space, many)[1]).all()


@pytest.mark.parametrize("fixed_noise", [False, True])
@pytest.mark.parametrize("order", [1, 2])
def test_search_never_goes_down_and_reports_what_it_reached(fixed_noise, order):
    windows, space, _ = problem()
    known = np.full(space.n, 0.25) if fixed_noise else None
    start = first_guess(windows, space, "exponential", known)
    start = start if order == 1 else second_order(start)
    values = []
    fitted = maximize(Penalized(windows, space, start, fixed_noise=fixed_noise, tick=values.append), 8)
    assert (np.diff(fitted.history) > 0).all()
    assert fitted.history[0] == values[0]
    assert fitted.objective == fitted.history[-1] == max(values)
    again = sum(
        run(y, fitted.parameters.dynamics(space), fitted.parameters.noise, smooth=False).log_likelihood for y in windows
    )
    assert fitted.log_likelihood == pytest.approx(again, rel=1e-10)
    if fixed_noise:
        np.testing.assert_allclose(fitted.parameters.noise, 0.25)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_search_climbs_where_stations_copy_another(seed):
    """No stationary process has such readings, so that its information is far from the curvature."""
    (first, second), space, _ = problem(seed=seed, n=8, T=150, gaps=0.0)
    y = np.concatenate([first, second])
    y[:, [1, 3]] = y[:, [0]]
    function = Penalized([y], space, first_guess([y], space, "graph", None), fixed_noise=False)
    reached = minimize(
        lambda theta: [-part for part in function.evaluate(theta)[::2]], function.theta, jac=True, method="L-BFGS-B",
        bounds=np.column_stack([function.lower, function.upper]), options={"maxiter": 25},
    )  # fmt: skip
    assert maximize(function, 25).objective > -reached.fun - 250  # of 2,000 and more


def test_many_iterations_find_a_point_without_gradient():
    windows, space, _ = problem(T=80)
    start = first_guess(windows, space, "exponential", None)
    fitted = maximize(Penalized(windows, space, start, fixed_noise=False), 60)
    reached = Penalized(windows, space, fitted.parameters, fixed_noise=False)
    theta = reached.theta
    gradient = slopes(lambda t: penalized(windows, space, t, start, fixed_noise=False), theta)
    distance = np.sqrt(gradient @ np.linalg.solve(reached.curvature(theta), gradient))
    assert distance < 0.05  # standard errors of what is estimated
    assert fitted.parameters.noise.mean() == pytest.approx(0.25, rel=0.15)


@given(st.integers(0, 1000), st.floats(-0.95, 0.95), st.floats(-0.95, 0.95), st.sampled_from((1, 2)))
def test_process_is_stationary(seed, first, second, order):
    """The first state's covariance is what a step leaves unchanged."""
    rng = np.random.default_rng(seed)
    space = Space.of(nareg.Graph.from_knn(rng.random((4, 2)), 2))
    dynamics = parameters(4, phi=(first, second)[:order]).dynamics(space)
    np.testing.assert_allclose(dynamics.covariance_after(dynamics.P0, 1.0), dynamics.P0, atol=1e-10)


@given(st.floats(-0.9, 0.9), st.floats(-0.9, 0.9))
def test_coefficients_and_partial_autocorrelations_are_one_process(first, second):
    process = parameters(3, phi=(first, second))
    a = process.autoregression()[0]
    np.testing.assert_allclose(process.with_coefficients(a).partials, process.partials, atol=1e-8)
    assert (np.abs(np.roots([1.0, -a[0], -a[1]])) < 1).all()


def test_a_turn_is_that_of_complex_roots():
    """A swing of 12 steps that keeps 0.97 of itself per step; first orders and critical damping do not swing."""
    root = 0.97 * np.exp(2j * np.pi / 12)
    swing = parameters(3, phi=(0.5, -0.5)).with_coefficients(np.array([2 * root.real, -(abs(root) ** 2)]))
    assert swing.turn() == pytest.approx(0.97**12)
    assert parameters(3, phi=(0.9,)).turn() == 0
    assert second_order(parameters(3, phi=(0.9,))).turn() < 1e-6


def test_a_swing_that_readings_show_begins_the_search():
    """Of 12 steps a turn, at nine of ten times silent; none in a slow field, nor of waves with few turns."""
    rng = np.random.default_rng(0)
    t = np.arange(600)
    y = np.cos(2 * np.pi * t / 12)[:, None] * [1.0, 2.0, -1.5] + 0.5 * rng.standard_normal((600, 3))
    silent = rng.random(600) < 0.9
    first = parameters(3, phi=(0.9,))
    for readings in (y, np.where(silent[:, None], np.nan, y)):
        start = with_shown_swing(first, [readings])
        a = start.autoregression()[0]
        assert 2 * np.pi / np.angle(np.roots([1.0, *-a])[0]) == pytest.approx(12, abs=0.3)
        assert start.turn() == pytest.approx(0.8)
        assert (start.log_noise == first.log_noise).all()
    # of any period, however long the record: it stood between the frequencies looked at
    for T, period in ((600, 7.3), (2000, 12.42), (4000, 31.7)):
        long = np.cos(2 * np.pi * np.arange(T) / period)[:, None] * [1.0, 2.0] + 0.5 * rng.standard_normal((T, 2))
        start = with_shown_swing(parameters(2, phi=(0.9,)), [long])
        root = np.roots([1.0, *-start.autoregression()[0]])[0]
        assert 2 * np.pi / abs(np.angle(root)) == pytest.approx(period, rel=0.01)
    walk = np.cumsum(rng.standard_normal((600, 3)), axis=0)
    assert with_shown_swing(first, [walk - walk.mean(axis=0)]) is None
    assert with_shown_swing(first, [y[:80]]) is None


@pytest.mark.parametrize("family", FAMILIES)
def test_covariances_are_positive_definite_at_extreme_ranges(family):
    space = Space.of(nareg.Graph.from_knn(np.repeat(np.random.default_rng(0).random((5, 2)), 2, axis=0), 3))
    for log_reach in (-6.0, 0.0, 6.0):
        K = replace(parameters(10, family=family, eta=1e-6), log_reach=log_reach).covariance(space)
        np.testing.assert_allclose(K, K.T, atol=1e-12)
        assert np.linalg.eigvalsh(K)[0] > 0
        np.testing.assert_allclose(K.diagonal(), 1.0, rtol=1e-4)


def test_likelihood_of_parameters_is_dense():
    windows, space, truth = problem(n=4, T=8)
    y = windows[0]
    exact = dense(y, truth.dynamics(space), truth.noise, np.ones(len(y)))
    assert run(y, truth.dynamics(space), truth.noise).log_likelihood == pytest.approx(exact.log_likelihood, rel=1e-10)


@pytest.mark.slow
def test_rounding_of_the_readings_moves_no_estimate():
    """Differences of the likelihood made 2e-5 of one part in 2^51: searches stopped at their limit ended elsewhere."""
    network = nareg.datasets.simulated(12, 300, rng=np.random.default_rng(2))
    estimates = []
    for readings in (network.readings, network.readings * (1 + 2.0**-51)):
        model = nareg.spacetime.fit(network.graph(), readings, times=network.times, rng=np.random.default_rng(0))
        estimates.append(model.smooth().x)
    np.testing.assert_allclose(*estimates, rtol=0, atol=5e-7)
