"""The compiled filter and smoother against the passes in plain NumPy."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nareg
from nareg.errors import SolverError
from nareg.spacetime._dense import smoother as _smoother
from nareg.spacetime._dense.filter import Dynamics
from nareg.spacetime._dense.smoother import (
    SPARE,
    filter_each,
    heavy_tailed_pass,
    large,
    local_pass,
    moments_each,
    robust_pass,
    run,
    slopes_each,
    smoothed_means,
    step_variances,
    tail_variances,
)
from nareg.spacetime._readings.space import Space
from tests.helpers import examples
from tests.spacetime.reference import KINDS, parameters, random_dynamics
from tests.spacetime.reference_passes import reference


def compare(result, expected, rtol=1e-9):
    """Every array, relative to its largest entry; rounding in a small one is that of the large ones that it came from."""
    expected, result = asdict(expected), asdict(result)
    for name, value in expected.items():
        parts, others = (v if isinstance(value, dict) else {name: v} for v in (value, result[name]))
        for key, part in parts.items():
            if part is None:
                assert others[key] is None
                continue
            size = np.nanmax(np.abs(part)) if np.isfinite(part).any() else 1.0
            np.testing.assert_allclose(others[key], part, rtol=rtol, atol=rtol * size, err_msg=key)


@st.composite
def cases(draw):
    """Readings (T, N) of any gaps, their model, and options."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, T = draw(st.integers(1, 12)), draw(st.integers(1, 60))
    dynamics = random_dynamics(rng, n, draw(st.sampled_from((1, 2))), draw(st.sampled_from(KINDS)))
    y = rng.standard_normal((T, n))
    y[rng.random(y.shape) < draw(st.sampled_from((0.0, 0.13, 0.6)))] = np.nan
    kind = draw(st.sampled_from(("random", "repeated", "silent", "equal")))
    if kind == "repeated":
        y[:, rng.random(n) < 0.5] = np.nan
        y[: T // 2] = rng.standard_normal((T // 2, n))
    elif kind == "silent":
        y[T // 3 : T // 2 + 1] = np.nan
    r = np.full(n, 0.3) if kind == "equal" else 10 ** rng.uniform(-3, 1, (T, n) if draw(st.booleans()) else n)
    options = {
        "smooth": draw(st.booleans()),
        "moments": draw(st.booleans()),
        "scale": 0.2 + 2 * rng.random(T) if draw(st.booleans()) else None,
        "df": 4.0 if draw(st.booleans()) else None,
        "W": rng.standard_normal((3, n)) if draw(st.booleans()) else None,
        "errors": rng.standard_normal((T, n, 3)) if draw(st.booleans()) else None,
    }
    return y, dynamics, r, options


@pytest.mark.slow
@given(cases())
@examples(30, 150)
def test_passes_are_those_in_plain_numpy(case):
    y, dynamics, r, options = case
    compare(run(y, dynamics, r, **options), reference(y, dynamics, r, **options))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [40, 70, 110])
def test_products_and_blocks_of_more_stations(n, kind):
    rng = np.random.default_rng(n)
    dynamics = random_dynamics(rng, n, 1, kind)
    y = np.where(rng.random((12, n)) < 0.2, np.nan, rng.standard_normal((12, n)))
    compare(run(y, dynamics, np.full(n, 0.2), moments=True), reference(y, dynamics, np.full(n, 0.2), moments=True))


@pytest.mark.parametrize("n", [40, 70])
def test_rounding_does_not_grow_over_a_long_record(n):
    """Where errors that are not symmetric stay in the information, they grow to more than the covariances."""
    rng = np.random.default_rng(0)
    apart = np.abs(np.arange(n)[:, None] - np.arange(n))
    K = 3.0 * np.exp(-apart / 20)
    dynamics = Dynamics((np.asarray(0.95),), (1 - 0.95**2) * K, K)
    y = np.where(rng.random((300, n)) < 0.2, np.nan, rng.standard_normal((300, n)))
    compare(run(y, dynamics, np.full(n, 0.2), moments=True), reference(y, dynamics, np.full(n, 0.2), moments=True))


def test_parts_between_ticks_change_nothing(monkeypatch):
    rng = np.random.default_rng(5)
    dynamics, y = random_dynamics(rng, 3, 2, "full"), rng.standard_normal((60, 3))
    y[20:26] = np.nan
    whole = run(y, dynamics, np.ones(3), moments=True, df=4.0)
    monkeypatch.setattr(_smoother, "BETWEEN_TICKS", 0)
    compare(run(y, dynamics, np.ones(3), moments=True, df=4.0), whole, 1e-12)


@pytest.mark.parametrize("p", [1, 2])
def test_variances_are_the_same_beside_covariances_whatever_the_noise(p):
    """Alone they are told by the readings, unless noise or a gap leaves these silent."""
    rng = np.random.default_rng(8)
    dynamics, y = random_dynamics(rng, 6, p, "full"), rng.standard_normal((50, 6))
    y[rng.random(y.shape) < 0.3] = np.nan
    y[:, 5], r = np.nan, np.array([1e-4, 0.3, 30.0, 1e6, 1e300, 1.0])
    beside = run(y, dynamics, r, W=np.eye(6))
    np.testing.assert_allclose(run(y, dynamics, r).var, beside.var, rtol=1e-11)
    np.testing.assert_allclose(beside.var, beside.point_variances, rtol=1e-11)


@pytest.mark.parametrize("p", [1, 2])
def test_steps_alone_have_the_same_variances(p):
    rng = np.random.default_rng(7)
    dynamics, y = random_dynamics(rng, 3, p, "full"), rng.standard_normal((40, 3))
    y[rng.random(y.shape) < 0.3] = np.nan
    r, scale = np.full(3, 0.3), 0.2 + rng.random(40)
    expected = run(y, dynamics, r, scale=scale, df=4.0).scale
    np.testing.assert_array_equal(step_variances(y, dynamics, r, 4.0, scale=scale), expected)


def with_leaps(seed):
    """Dynamics, noise variances and readings of four stations, whose field leaps twice."""
    rng = np.random.default_rng(seed)
    dynamics, r = Dynamics((np.asarray(0.95),), 0.1 * np.eye(4), np.eye(4)), np.full(4, 2.0)
    x = dynamics.draw(300, rng)
    x[100:], x[200:] = x[100:] + 3.0, x[200:] - 6.0
    return dynamics, r, x + np.sqrt(2.0) * rng.standard_normal(x.shape)


def test_three_passes_come_as_far_as_four_where_readings_tell_little_of_steps():
    dynamics, r, y = with_leaps(4)
    scale = np.ones(300)
    scales = [scale := step_variances(y, dynamics, r, 4.0, scale=scale) for _ in range(100)]
    mode, four, three = (run(y, dynamics, r, scale=s).x for s in (scales[-1], scales[2], scales[1]))
    result = heavy_tailed_pass(y, dynamics, r, 4.0).x
    off = [float(np.sqrt(np.mean((other - mode) ** 2))) for other in (three, four, result)]
    assert off[0] > 1.1 * off[1]
    assert off[2] < off[1] + 0.3 * (off[0] - off[1])


def test_a_robust_pass_goes_on_from_variances_that_are_known():
    dynamics, r, y = with_leaps(5)
    scale = np.ones(300)
    for _ in range(100):
        scale = step_variances(y, dynamics, r, 4.0, scale=scale)
    mode, (anew, scores) = run(y, dynamics, r, scale=scale).x, robust_pass(y, dynamics, r, 4.0)
    assert np.nanmax(np.abs(scores)) < 4.5  # no reading is left out
    ended = robust_pass(y, dynamics, r, 4.0, scale=anew.scale)[0]
    assert np.linalg.norm(ended.x - mode) < np.linalg.norm(anew.x - mode)


def test_windows_at_once_have_the_numbers_of_one_after_the_other():
    rng = np.random.default_rng(9)
    dynamics, r = random_dynamics(rng, 4, 2, "full"), np.full(4, 0.3)
    windows = [np.where(rng.random((T, 4)) < 0.2, np.nan, rng.standard_normal((T, 4))) for T in (300, 1, 200, 250, 300)]
    scales = [0.2 + rng.random(len(y)) for y in windows]
    together = moments_each(filter_each(windows, dynamics, r, scales), 4.0)
    for y, scale, result in zip(windows, scales, together, strict=True):
        compare(result, run(y, dynamics, r, scale=scale, moments=True, df=4.0), 0.0)


@pytest.mark.parametrize("kept", [0, 2**30])
def test_moments_after_means_are_those_of_one_pass(monkeypatch, kept):
    """In one segment, and in some whose covariances are computed again, for the means and then for the moments."""
    monkeypatch.setattr(_smoother, "KEPT", kept)
    rng = np.random.default_rng(9)
    dynamics, r = random_dynamics(rng, 4, 2, "full"), np.full(4, 0.3)
    y = np.where(rng.random((50, 4)) < 0.2, np.nan, rng.standard_normal((50, 4)))
    whole = run(y, dynamics, r, moments=True)
    records = filter_each([y], dynamics, r, means=True)
    np.testing.assert_array_equal(records[0].x, whole.x)
    compare(moments_each(records)[0], whole, 0.0)


@pytest.mark.parametrize("T", [1, 2, 3])
@pytest.mark.parametrize("p", [1, 2])
def test_moments_of_the_shortest_records(T, p):
    rng = np.random.default_rng(8)
    dynamics, y = random_dynamics(rng, 3, p, "full"), rng.standard_normal((T, 3))
    options = {"moments": True, "df": 4.0, "scale": 0.2 + rng.random(T)}
    compare(run(y, dynamics, np.ones(3), **options), reference(y, dynamics, np.ones(3), **options))


@pytest.mark.parametrize("df", [None, 4.0])
@pytest.mark.parametrize("p", [1, 2])
def test_means_alone_are_those_of_a_whole_pass(p, df):
    rng = np.random.default_rng(8)
    dynamics, r, y = random_dynamics(rng, 3, p, "full"), np.full(3, 0.3), rng.standard_normal((2, 40, 3))
    y[0][rng.random(y[0].shape) < 0.3] = np.nan
    scales = [tail_variances(part, dynamics, r, df) if df else None for part in y]
    for part, x in zip(y, smoothed_means(y, dynamics, r, scales), strict=True):
        np.testing.assert_array_equal(x, heavy_tailed_pass(part, dynamics, r, df).x)


def test_passes_take_over_the_memory_of_those_before_them_while_that_is_wanted():
    rng = np.random.default_rng(3)
    dynamics, r, y = random_dynamics(rng, 3, 2, "full"), np.full(3, 0.3), rng.standard_normal((40, 3))
    once, other = run(y, dynamics, r, moments=True), run(y[:20], dynamics, r)
    assert not SPARE.stored
    with SPARE.during():
        run(y, dynamics, r)
        (spare,) = SPARE.stored
        compare(run(y, dynamics, r, moments=True), once, 0.0)
        assert SPARE.stored[0] is spare
        compare(run(y[:20], dynamics, r), other, 0.0)
        smaller = SPARE.stored[1]
        run(y[:30], dynamics, r)
        assert SPARE.stored[0] is spare
        assert SPARE.stored[1] is not smaller
        run(np.concatenate([y, y]), dynamics, r)
        assert len(SPARE.stored) == 1
    assert not SPARE.stored


@pytest.mark.parametrize("kind", ["scalar", "diagonal"])
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("between", [0, _smoother.BETWEEN_TICKS])
def test_slopes_follow_from_the_moments_of_the_plain_passes(monkeypatch, between, p, kind):
    """Fisher's identity: the derivatives of the likelihood are those of the expected complete-data likelihood."""
    monkeypatch.setattr(_smoother, "BETWEEN_TICKS", between)
    rng, n, T = np.random.default_rng(11), 12, 150
    dynamics, r, y = random_dynamics(rng, n, p, kind), rng.uniform(0.1, 1.0, n), rng.standard_normal((T, n))
    y[:40][rng.random((40, n)) < 0.2] = np.nan
    y[60:65] = np.nan
    (slopes,) = slopes_each([y], dynamics, r)
    done, A, Q, P0 = reference(y, dynamics, r, moments=True), dynamics.matrix(), dynamics.Q, dynamics.P0
    sums, there = done.moments, np.isfinite(y)
    steps = sums.S11 - A @ sums.S10.T - sums.S10 @ A.T + A @ sums.S00 @ A.T
    by_A = np.linalg.solve(Q, sums.S10 - A @ sums.S00)
    squares = np.where(there, (np.where(there, y, 0.0) - done.x) ** 2 + done.var, 0.0).sum(axis=0)
    expected = {
        "log_likelihood": done.log_likelihood,
        "Q": 0.5 * np.linalg.solve(Q, np.linalg.solve(Q, steps - (T - 1) * Q).T),
        "P0": 0.5 * np.linalg.solve(P0, np.linalg.solve(P0, sums.first - P0).T),
        "a": [np.trace(by_A[:, k * n : (k + 1) * n]) for k in range(p)],
        "r": 0.5 * (squares / r**2 - there.sum(axis=0) / r),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(slopes, name), value, rtol=1e-7, atol=1e-7 * np.abs(value).max(), err_msg=name)


def test_readings_may_be_read_only_and_single_precision():
    rng = np.random.default_rng(6)
    dynamics, y = random_dynamics(rng, 3, 1, "scalar"), rng.standard_normal((9, 3)).astype(np.float32)
    y.flags.writeable = False
    compare(run(y, dynamics, np.ones(3)), reference(y, dynamics, np.ones(3)))


def test_a_covariance_that_is_not_positive_definite_is_named():
    dynamics = Dynamics((np.asarray(0.5),), np.eye(2), -np.eye(2))
    with pytest.raises(SolverError, match="the covariance of the innovations is not positive definite"):
        run(np.zeros((3, 2)), dynamics, np.full(2, 0.1))
    dynamics = Dynamics((np.asarray(0.5),), -np.eye(2), np.eye(2))
    with pytest.raises(SolverError, match="the predicted covariance is not positive definite"):
        run(np.zeros((3, 2)), dynamics, np.full(2, 9.0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("p", [1, 2])
def test_long_records_with_gaps_let_no_rounding_grow(kind, p):
    """The antisymmetric part of the information grew from time to time: 1e38 after 1,500."""
    rng = np.random.default_rng(3)
    dynamics, y = random_dynamics(rng, 5, p, kind), rng.standard_normal((1500, 5))
    y[rng.random(y.shape) < 0.3] = np.nan
    compare(run(y, dynamics, np.full(5, 0.01), moments=True), reference(y, dynamics, np.full(5, 0.01), moments=True), 1e-8)


@pytest.mark.parametrize(("family", "phi"), [("exponential", (0.9,)), ("matern", (0.9, -0.5)), ("graph", (0.95,))])
def test_the_stations_around_each_tell_nearly_all(family, phi, rng):
    space = Space.of(nareg.graphs.sensor(130, rng=rng))
    model = parameters(130, family=family, phi=phi, reach=3.0 if family == "graph" else 0.3)
    dynamics, noise = model.dynamics(space), 0.2 + rng.random(130)
    y = dynamics.draw(40, rng) + np.sqrt(noise) * rng.standard_normal((40, 130))
    y[rng.random(y.shape) < 0.2] = np.nan
    exact, (x, var) = run(y, dynamics, noise), local_pass(y, dynamics, noise)
    assert large(dynamics)
    assert (var >= exact.var * (1 - 1e-9)).all()  # fewer readings tell less
    assert var.mean() < 1.05 * exact.var.mean()
    # what other readings change has the variance that they take away
    assert np.mean((x - exact.x) ** 2) == pytest.approx(np.mean(var - exact.var), rel=0.3)


def test_groups_of_a_regular_grid_do_not_depend_on_the_order_of_stations(rng):
    graph, order = nareg.graphs.grid((12, 12)), rng.permutation(144)
    model, y = parameters(144, family="graph", reach=2.0), rng.standard_normal((20, 144))
    x, var = local_pass(y, model.dynamics(Space.of(graph)), model.noise)
    other = local_pass(y[:, order], model.dynamics(Space.of(graph.subgraph(order))), model.noise)
    np.testing.assert_allclose(other, (x[:, order], var[:, order]), atol=1e-12)


def test_a_pass_over_groups_is_one_over_all_where_these_are_few_or_steps_depend_on_others(rng):
    space = Space.of(nareg.graphs.sensor(130, rng=rng))
    all_stations = parameters(130, reach=0.3).dynamics(space)
    turned = Dynamics((0.9 * np.eye(130),), all_stations.Q, all_stations.P0)
    few = parameters(9, reach=0.3).dynamics(space.subset(np.arange(9)))
    for dynamics in (turned, few):
        y = rng.standard_normal((12, dynamics.n))
        assert not large(dynamics)
        x, var = local_pass(y, dynamics, np.full(dynamics.n, 0.5))
        expected = run(y, dynamics, np.full(dynamics.n, 0.5))
        assert np.array_equal(x, expected.x)
        assert np.array_equal(var, expected.var)
