"""Smoothing, bands, forecasts and simulation of models whose parameters are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nareg.errors import InputError
from tests.helpers import examples
from tests.spacetime.reference import dense, model_of, network


def test_smooth_is_the_dense_conditional_in_the_unit_of_the_readings():
    model = network(n=4, T=15, level=np.array([1.0, -2.0, 0.5, 9.0]), unit=3.0, gaps=0.3)
    smoothed = model.smooth(robust=False)
    y = model.readings.T / 3 - np.array([1.0, -2.0, 0.5, 9.0])
    exact = dense(y, model.dynamics, model.unit_noise, np.ones(15))
    np.testing.assert_allclose(smoothed.x.T, 3 * (exact.mean + np.array([1.0, -2.0, 0.5, 9.0])), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(
        smoothed.std.T**2, 9 * np.array([exact.covariance[t, :, t].diagonal() for t in range(15)]), rtol=1e-8
    )
    assert smoothed.log_likelihood == pytest.approx(exact.log_likelihood - np.isfinite(y).sum() * np.log(3))
    np.testing.assert_allclose(smoothed.noise, 9 * 0.25)


def test_gaps_are_filled_and_less_certain():
    model = network(n=6, T=80, gaps=0.0)
    holes = model.readings.copy()
    holes[2, 30:50] = np.nan
    holes[:, 60] = np.nan
    smoothed = model.smooth(holes, robust=False)
    assert np.isfinite(smoothed.x).all()
    assert np.isfinite(smoothed.std).all()
    assert (smoothed.std[2, 31:49] > 1.2 * smoothed.std[2, 10]).all()
    assert (smoothed.std[:, 60] > smoothed.std[:, 61]).all()
    full = model.smooth(robust=False)
    assert (smoothed.std >= full.std - 1e-12).all()
    np.testing.assert_array_equal(smoothed.x, model.smooth(model.readings, observed=np.isfinite(holes), robust=False).x)


def test_standard_deviation_and_bands_are_calibrated_on_simulated_data():
    model, rng = network(n=6, T=60), np.random.default_rng(0)
    scores, inside, outside = [], [], []
    for _ in range(30):
        field, readings = model.simulate(rng)
        seen = rng.random(readings.shape) < 0.7
        smoothed = model.smooth(np.where(seen, readings, np.nan), robust=False)
        scores.append((field - smoothed.x) / smoothed.std)
        for level in (0.5, 0.9):
            lower, upper = smoothed.interval(level)
            inside.append(((lower < field) & (field < upper)).mean() - level)
            lower, upper = smoothed.interval(level, of="reading")
            outside.append(((lower < readings) & (readings < upper))[~seen].mean() - level)
    assert np.mean(np.square(scores)) == pytest.approx(1.0, abs=0.05)
    assert abs(np.mean(inside)) < 0.015
    assert abs(np.mean(outside)) < 0.015


def test_simulation_has_the_models_moments():
    model = network(n=3, T=10)
    field, readings = model.simulate(np.random.default_rng(0), n_times=20_000)
    np.testing.assert_allclose(np.cov(field), model.dynamics.P0, atol=0.12)
    np.testing.assert_allclose(np.cov(readings - field), 0.25 * np.eye(3), atol=0.02)
    lagged = np.mean(field[:, 1:] * field[:, :-1], axis=1) / np.mean(field**2, axis=1)
    np.testing.assert_allclose(lagged, 0.9, atol=0.02)
    np.testing.assert_array_equal(model.simulate(np.random.default_rng(5)), model.simulate(np.random.default_rng(5)))
    with pytest.raises(InputError, match="rng is 5"):
        model.simulate(5)


def test_forecast_is_the_smoother_with_missing_rows():
    model = network(n=4, T=30, level=2.0)
    ahead = model.forecast(5)
    longer = np.hstack([model.readings, np.full((4, 5), np.nan)])
    smoothed = model.smooth(longer, times=np.arange(35.0), robust=False)
    np.testing.assert_allclose(ahead.x, smoothed.x[:, 30:], atol=1e-10)
    np.testing.assert_allclose(ahead.std, smoothed.std[:, 30:], atol=1e-10)
    assert (np.diff(ahead.std, axis=1) > 0).all()
    far = model.forecast(400)
    np.testing.assert_allclose(far.x[:, -1], 2.0, atol=1e-6)
    np.testing.assert_allclose(far.std[:, -1], 1.0, atol=1e-3)
    for steps, message in ((0, "at least 1"), (2.5, "integer"), (10**9, "100,000")):
        with pytest.raises(InputError, match=message):
            model.forecast(steps)


@examples(8, 25)
@given(st.integers(0, 1000), st.sampled_from([1e-6, 1.8, 1e6]), st.sampled_from([0.0, 32.0, 1e4]))
def test_answers_follow_the_unit(seed, factor, shift):
    """°F for °C: the same model in another unit gives the same field in that unit."""
    one = network(seed, n=4, T=15)
    other = model_of(one.graph, factor * one.readings + shift, process=one.parameters, unit=factor, level=shift / factor)
    a, b = one.smooth(), other.smooth()
    np.testing.assert_allclose((b.x - shift) / factor, a.x, atol=1e-9 * (1 + shift / factor))
    np.testing.assert_allclose(b.std / factor, a.std, rtol=1e-8)
    size = np.isfinite(one.readings).sum()
    assert b.log_likelihood == pytest.approx(a.log_likelihood - size * np.log(factor), abs=1e-4)


@examples(8, 25)
@given(st.integers(0, 1000))
def test_order_of_the_stations_does_not_matter(seed):
    one, order = network(seed, n=5, T=15), np.random.default_rng(seed).permutation(5)
    graph = one.graph.subgraph(order)
    other = model_of(graph, one.readings[order], process=one.parameters)
    a, b = one.smooth(), other.smooth()
    np.testing.assert_allclose(b.x, a.x[order], atol=1e-9)
    np.testing.assert_allclose(b.std, a.std[order], atol=1e-9)
    assert a.log_likelihood == pytest.approx(b.log_likelihood)


def test_a_bad_reading_is_left_out_and_named_by_its_score():
    model = network(n=6, T=60, gaps=0.0)
    spoiled = model.readings.copy()
    spoiled[3, 20] += 30
    smoothed, robust = model.smooth(spoiled, robust=False), model.smooth(spoiled)
    clean = model.smooth(model.readings)
    assert np.abs(robust.x - clean.x).max() < 0.5 * np.abs(smoothed.x - clean.x).max()
    np.testing.assert_allclose(np.delete(robust.x, 3, axis=0), np.delete(clean.x, 3, axis=0), atol=0.5)
    scores = model.scores(spoiled)
    assert np.unravel_index(np.nanargmax(np.abs(scores)), scores.shape) == (3, 20)
    missing = np.where(np.arange(360).reshape(6, 60) == 3 * 60 + 20, np.nan, model.readings)
    np.testing.assert_allclose(robust.x, model.smooth(missing).x, atol=1e-10)
    assert np.isnan(model.scores(missing)[3, 20])


def test_heavy_tailed_steps_follow_a_jump():
    gaussian, heavy = network(n=4, T=60, gaps=0.0, phi=(0.98,)), network(n=4, T=60, gaps=0.0, phi=(0.98,), df=3.0)
    jump = np.where(np.arange(60) < 30, 0.0, 8.0) + np.zeros((4, 1)) + 0.3 * np.random.default_rng(0).standard_normal((4, 60))
    truth = np.where(np.arange(60) < 30, 0.0, 8.0)
    errors = [np.abs(m.smooth(jump, robust=False).x - truth)[:, 28:32].max() for m in (gaussian, heavy)]
    assert errors[1] < 0.7 * errors[0]


def test_progress_ends_at_one_and_only_rises():
    seen = []
    network(n=4, T=20, df=4.0).smooth(robust=False, progress=lambda now: seen.append(now.fraction))
    assert seen[-1] == 1.0
    assert (np.diff(seen) > 0).all()


def test_what_no_model_can_smooth():
    model = network(n=4, T=20)
    y = model.readings
    infinite, huge = y.copy(), y.copy()
    infinite[1, 2], huge[1, 2] = -np.inf, 1e200
    for act, message in (
        (lambda: model.smooth(y[:3]), "the graph has 4 nodes"),
        (lambda: model.smooth(y.T), "it looks transposed"),
        (lambda: model.smooth(infinite), r"readings\[1, 2\] is infinite"),
        (lambda: model.smooth(huge), r"readings\[1, 2\] is 1e\+200"),
        (lambda: model.smooth(y.astype(str)), "real numbers"),
        (lambda: model.smooth(y[:, :5]), "pass times as well"),
        (lambda: model.smooth(y, observed=np.ones((3, 20), dtype=bool)), r"observed has shape \(3, 20\)"),
        (lambda: model.smooth(y, observed=np.ones((4, 20))), "boolean mask"),
        (lambda: model.without(["s0", "s9"]), "'s9' is not in the model"),
        (lambda: model.without([0, 1, 2, 3]), "keep at least one"),
    ):
        with pytest.raises(InputError, match=message):
            act()
    nothing = model.smooth(y, observed=np.arange(20)[None].repeat(4, 0) != 7)
    assert np.isfinite(nothing.x).all()


def test_model_without_a_station_smooths_as_if_it_were_silent():
    model = network(n=5, T=30)
    silent = np.where(np.arange(5)[:, None] == 2, np.nan, model.readings)
    np.testing.assert_allclose(
        model.without("s2").smooth(robust=False).x, np.delete(model.smooth(silent, robust=False).x, 2, axis=0), atol=1e-9
    )


def test_summary_says_what_it_is():
    text = network(n=4, T=20).summary()
    assert "4 stations, 20 times" in text
    assert "noise standard deviation: median 0.5" in text


@pytest.mark.parametrize("backend", ["torch", "petsc"])
def test_other_libraries_are_for_the_sparse_engine(backend):
    with pytest.raises(InputError, match=f"backend='{backend}' solves for models of the sparse engine only"):
        network(n=4, T=15).smooth(backend=backend)
