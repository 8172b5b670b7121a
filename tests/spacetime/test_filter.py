"""The filter and the smoother against the dense conditional of the joint Gaussian."""

from __future__ import annotations

import itertools
import tracemalloc
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nareg.errors import SolverError
from nareg.spacetime._dense import smoother as _smoother
from nareg.spacetime._dense.filter import Dynamics, correct, factor
from nareg.spacetime._dense.smoother import run
from tests.spacetime.reference import KINDS, dense, random_dynamics, spd, with_gaps

EXACT = {"rtol": 1e-8, "atol": 1e-8}
CASES = list(itertools.product((1, 2), KINDS, (0.0, 0.3)))


def case(seed, order, kind, gaps, n=4, T=9, scaled=True):
    """Readings (T, n), dynamics, noise per time and station, and variances of the steps."""
    rng = np.random.default_rng(seed)
    dynamics = random_dynamics(rng, n, order, kind)
    y = with_gaps(rng, rng.standard_normal((T, n)), gaps)
    r = 0.05 + rng.random((T, n) if scaled else n)
    scale = 0.2 + 2 * rng.random(T) if scaled else np.ones(T)
    return y, dynamics, r, scale


@pytest.mark.parametrize(("order", "kind", "gaps"), CASES)
@pytest.mark.parametrize("seed", range(3))
def test_smoother_is_the_dense_conditional(order, kind, gaps, seed):
    y, dynamics, r, scale = case(seed, order, kind, gaps)
    n = dynamics.n
    W = np.random.default_rng(seed).standard_normal((3, n))
    result, exact = run(y, dynamics, r, scale=scale, W=W), dense(y, dynamics, r, scale)
    np.testing.assert_allclose(result.x, exact.mean[:, :n], **EXACT)
    blocks = np.array([exact.covariance[t, :n, t, :n] for t in range(len(y))])
    np.testing.assert_allclose(result.var, np.diagonal(blocks, axis1=1, axis2=2), **EXACT)
    np.testing.assert_allclose(result.points, exact.mean[:, :n] @ W.T, **EXACT)
    np.testing.assert_allclose(result.point_variances, np.einsum("mi,tij,mj->tm", W, blocks, W), **EXACT)
    assert result.log_likelihood == pytest.approx(exact.log_likelihood, rel=1e-10, abs=1e-9)


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize(("order", "kind", "gaps"), CASES)
def test_normal_equations_are_those_of_the_joint_gaussian(order, kind, gaps, segments, monkeypatch):
    if segments:
        monkeypatch.setattr(_smoother, "KEPT", 0)
    y, dynamics, r, _ = case(3, order, kind, gaps, scaled=False)
    (T, n), K = y.shape, 2
    F, zero = np.random.default_rng(1).standard_normal((T, K)), np.zeros_like(y)
    D = np.zeros((T, n, n, K))
    D[:, np.arange(n), np.arange(n)] = F[:, None]
    seen = np.isfinite(y)
    # the precision of the readings, by the smoother of one reading of 1 and others of 0
    unit = [dense(np.where(seen, zero + e.reshape(T, n), np.nan), dynamics, r, np.ones(T)).mean[:, :n] for e in np.eye(T * n)]
    precision = (np.eye(T * n) - np.array([x.ravel() for x in unit]).T) / np.tile(r, T)[:, None]
    at, columns = seen.ravel(), D.reshape(T * n, n * K)
    precision = precision[np.ix_(at, at)]
    A, b = _smoother.normal_equations(y, dynamics, r, F)
    np.testing.assert_allclose(A, columns[at].T @ precision @ columns[at], **EXACT)
    np.testing.assert_allclose(b, columns[at].T @ precision @ y.ravel()[at], **EXACT)


@pytest.mark.parametrize(("order", "kind", "gaps"), CASES)
def test_moments_are_those_of_the_dense_conditional(order, kind, gaps):
    y, dynamics, r, scale = case(7, order, kind, gaps)
    n, T = dynamics.n, len(y)
    moments = run(y, dynamics, r, scale=scale, moments=True).moments
    exact = dense(y, dynamics, r, scale)
    second = exact.covariance + np.einsum("ta,sb->tasb", exact.mean, exact.mean)
    steps = range(1, T)
    np.testing.assert_allclose(moments.S11, sum(second[t, :n, t, :n] / scale[t] for t in steps), **EXACT)
    np.testing.assert_allclose(moments.S10, sum(second[t, :n, t - 1] / scale[t] for t in steps), **EXACT)
    np.testing.assert_allclose(moments.S00, sum(second[t - 1, :, t - 1] / scale[t] for t in steps), **EXACT)
    np.testing.assert_allclose(moments.first, second[0, :, 0], **EXACT)


@pytest.mark.parametrize(("order", "kind", "gaps"), CASES)
def test_student_scales_are_their_mode(order, kind, gaps):
    """Given the smoothed steps, ``s_t`` maximizes the expected density of step and variance."""
    y, dynamics, r, scale = case(3, order, kind, gaps)
    n, df = dynamics.n, 4.0
    result = run(y, dynamics, r, scale=scale, moments=True, df=df)
    exact = dense(y, dynamics, r, scale)
    second = exact.covariance + np.einsum("ta,sb->tasb", exact.mean, exact.mean)
    A, precision = dynamics.matrix(), np.linalg.inv(dynamics.Q)
    expected = scale.copy()
    for t in range(1, len(y)):
        cross = second[t, :n, t - 1] @ A.T
        E = second[t, :n, t, :n] - cross - cross.T + A @ second[t - 1, :, t - 1] @ A.T
        expected[t] = (np.trace(precision @ E) + df) / (n + df + 2)
    np.testing.assert_allclose(result.scale, expected, rtol=1e-8)
    weighted = sum(second[t, :n, t, :n] / expected[t] for t in range(1, len(y)))
    np.testing.assert_allclose(result.moments.S11, weighted, **EXACT)


@pytest.mark.parametrize(("order", "kind", "gaps"), CASES)
def test_filter_is_the_dense_conditional_of_what_came_before(order, kind, gaps):
    y, dynamics, r, scale = case(5, order, kind, gaps)
    n, T = dynamics.n, len(y)
    result = run(y, dynamics, r, scale=scale, smooth=False)
    for t in range(T):
        past = dense(np.where(np.arange(T)[:, None] <= t, y, np.nan), dynamics, r, scale)
        np.testing.assert_allclose(result.x[t], past.mean[t, :n], **EXACT)
        np.testing.assert_allclose(result.var[t], past.covariance[t, :, t].diagonal()[:n], **EXACT)
        before = dense(np.where(np.arange(T)[:, None] < t, y, np.nan), dynamics, r, scale)
        np.testing.assert_allclose(result.innovations[t], y[t] - before.mean[t, :n], **EXACT)
        spread = before.covariance[t, :, t].diagonal()[:n] + r[t]
        np.testing.assert_allclose(result.innovation_variances[t], np.where(np.isnan(y[t]), np.nan, spread), **EXACT)
    np.testing.assert_allclose(result.state, past.mean[-1], **EXACT)
    np.testing.assert_allclose(result.covariance, past.covariance[-1, :, -1], **EXACT)


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 7), st.sampled_from((1, 2)), st.sampled_from(KINDS))
def test_any_shape_and_any_gaps(seed, n, T, order, kind):
    rng = np.random.default_rng(seed)
    dynamics = random_dynamics(rng, n, order, kind)
    y = np.where(rng.random((T, n)) < rng.random(), np.nan, rng.standard_normal((T, n)))
    r = 10 ** rng.uniform(-3, 2, n)
    result, exact = run(y, dynamics, r), dense(y, dynamics, r, np.ones(T))
    np.testing.assert_allclose(result.x, exact.mean[:, :n], **EXACT)
    np.testing.assert_allclose(result.var, [exact.covariance[t, :, t].diagonal()[:n] for t in range(T)], **EXACT)
    assert result.log_likelihood == pytest.approx(exact.log_likelihood, rel=1e-9, abs=1e-8)
    assert np.isnan(result.innovations[np.isnan(y)]).all()


def test_no_reading_at_all_is_the_prior():
    y, dynamics, r, _ = case(0, 1, "full", 0.0, scaled=False)
    result = run(np.full_like(y, np.nan), dynamics, r)
    exact = dense(np.full_like(y, np.nan), dynamics, r, np.ones(len(y)))
    assert result.log_likelihood == 0.0
    assert not result.x.any()
    np.testing.assert_allclose(result.var, [exact.covariance[t, :, t].diagonal() for t in range(len(y))], **EXACT)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("holes", [0, 1, 40])
def test_shared_steady_state_changes_nothing(order, kind, holes):
    """A long record, complete or with a hole in the middle; tiny differences in r forbid that anything is shared."""
    rng = np.random.default_rng(11)
    dynamics = random_dynamics(rng, 4, order, kind)
    T = 400
    y = rng.standard_normal((T, 4))
    y[200 : 200 + holes, 1] = np.nan
    r = np.full((T, 4), 0.4)
    apart = r * (1 + 1e-13 * rng.random((T, 4)))
    shared, single = (run(y, dynamics, noise, moments=True) for noise in (r, apart))
    for name in ("x", "var", "innovations", "innovation_variances", "state", "covariance"):
        np.testing.assert_allclose(getattr(shared, name), getattr(single, name), rtol=1e-9, atol=1e-10)
    for name in ("S11", "S10", "S00", "first"):
        np.testing.assert_allclose(getattr(shared.moments, name), getattr(single.moments, name), rtol=1e-9, atol=1e-8)
    assert shared.log_likelihood == pytest.approx(single.log_likelihood, rel=1e-11)


def test_slow_convergence_is_no_steady_state():
    """Nearly a random walk with much noise: the variance falls so slowly that one step looks like none."""
    dynamics = Dynamics((np.asarray(0.9999),), np.full((1, 1), 1e-7), np.eye(1))
    y = np.random.default_rng(0).standard_normal((3000, 1))
    r = np.full((3000, 1), 30.0)
    apart = r * (1 + 1e-13 * np.random.default_rng(1).random(r.shape))
    shared, single = (run(y, dynamics, noise) for noise in (r, apart))
    np.testing.assert_allclose(shared.var, single.var, rtol=1e-8)
    np.testing.assert_allclose(shared.x, single.x, rtol=1e-8, atol=1e-8)


def test_steady_state_of_a_quiet_station_beside_a_loud_one():
    """A share of the loudest variance is no measure for the quietest."""
    dynamics = Dynamics((np.array([0.2, 0.999]),), np.diag([1.0, 1e-11]), np.diag([1.0, 1e-8]))
    rng = np.random.default_rng(0)
    y = rng.standard_normal((4000, 2)) * [1.0, 1e-4]
    r = np.broadcast_to([1.0, 1e-7], y.shape)
    apart = r * (1 + 1e-13 * rng.random(r.shape))
    shared, single = (run(y, dynamics, noise) for noise in (r, apart))
    np.testing.assert_allclose(shared.var, single.var, rtol=1e-8)


@pytest.mark.parametrize("order", [1, 2])
def test_tiny_noise_is_nearly_interpolation(order):
    rng = np.random.default_rng(2)
    dynamics = random_dynamics(rng, 4, order, "full")
    y = with_gaps(rng, rng.standard_normal((8, 4)), 0.2)
    result = run(y, dynamics, np.full(4, 1e-7))
    seen = np.isfinite(y)
    np.testing.assert_allclose(result.x[seen], y[seen], atol=1e-5)
    assert (result.var[seen] <= 1.01e-7).all()
    assert (result.var[~seen] > 1e-3).all()


def test_inputs_are_not_changed():
    y, dynamics, r, scale = case(1, 2, "full", 0.3)
    copies = [a.copy() for a in (y, r, scale, dynamics.Q, dynamics.P0, *dynamics.blocks)]
    run(y, dynamics, r, scale=scale, moments=True, df=4.0)
    for a, b in zip((y, r, scale, dynamics.Q, dynamics.P0, *dynamics.blocks), copies, strict=True):
        np.testing.assert_array_equal(a, b)


def test_tick_counts_rows_and_indefinite_covariance_is_named():
    y, dynamics, r, _ = case(1, 1, "full", 0.3, scaled=False)
    ticks = []
    run(y, dynamics, r, tick=lambda: ticks.append(1))
    assert len(ticks) == len(y)
    with pytest.raises(SolverError, match="the process noise is not positive definite"):
        factor(-np.eye(2), "the process noise")


@pytest.mark.parametrize("stations", [[0], [1, 3], [0, 1, 2, 3]])
def test_correction_is_the_conditional(stations):
    rng = np.random.default_rng(3)
    P, index, r = spd(rng, 4), np.array(stations), 0.1 + rng.random(len(stations))
    before = P.copy()
    result = correct(P, index, r)
    S = P[np.ix_(index, index)] + np.diag(r)
    np.testing.assert_allclose(result.covariance, P - P[:, index] @ np.linalg.solve(S, P[index]), **EXACT)
    np.testing.assert_allclose(result.variances, S.diagonal())
    np.testing.assert_array_equal(P, before)


@pytest.mark.parametrize("gaps", [0.0, 0.3])
@pytest.mark.parametrize("order", [1, 2])
def test_results_are_the_same_where_covariances_are_computed_twice(monkeypatch, order, gaps):
    # times without a reading and times of a steady state stand at the borders of segments, too
    y, dynamics, r, _ = case(3, order, "scalar", gaps, T=47, scaled=False)
    y[6:9] = np.nan
    errors = np.random.default_rng(0).standard_normal((*y.shape, 2))
    options = {"moments": True, "df": 5.0, "W": np.ones((1, dynamics.n)), "errors": errors}
    whole = asdict(run(y, dynamics, r, **options))
    monkeypatch.setattr(_smoother, "KEPT", 0)
    again = asdict(run(y, dynamics, r, **options))
    for name, value in whole.items():
        parts = value if isinstance(value, dict) else {name: value}
        others = again[name] if isinstance(value, dict) else {name: again[name]}
        for key, part in parts.items():
            # the steady state of the smoother is found anew per segment
            np.testing.assert_allclose(others[key], part, rtol=1e-11, atol=1e-12, err_msg=key)


def test_memory_grows_with_the_root_of_the_times_where_covariances_do_not_fit(monkeypatch):
    y, dynamics, r, _ = case(4, 1, "scalar", 0.5, n=40, T=400, scaled=False)
    peaks = {}
    for kept in (2**30, 0):
        monkeypatch.setattr(_smoother, "KEPT", kept)
        tracemalloc.start()
        run(y, dynamics, r)
        peaks[kept] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    # of 800 covariances, predicted and corrected, some 60 remain: first ones, a segment's, and what a step needs
    assert peaks[2**30] - peaks[0] > 700 * dynamics.P0.nbytes
