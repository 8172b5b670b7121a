"""Noise is at least the readings' rounding, and what a smooth record shows at its highest frequencies."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.spacetime import fit, load
from nareg.spacetime._readings import transforms as _transforms
from nareg.spacetime._readings.resolution import most_noise, noise_floor, rough_variance, rounding_variance, steps
from tests.helpers import at_night

RNG = np.random.default_rng


def smooth(T: int = 300, n: int = 6, seed: int = 0) -> tuple[nareg.Graph, np.ndarray]:
    """Places, and slow waves that pass them (N, T)."""
    rng = RNG(seed)
    places = rng.random((n, 2))
    t = np.arange(T)
    waves = sum(
        size * np.sin(2 * np.pi * t / period - places @ rng.normal(0, 0.5, 2)[:, None] + rng.uniform(0, 6))
        for size, period in ((2.0, 55.0), (1.5, 31.0), (0.7, 19.0))
    )
    return nareg.Graph.from_knn(places, 3), 15 + waves


@pytest.mark.parametrize("step", [0.1, 0.05, 0.25, 1.0, 0.001])
@pytest.mark.parametrize("level", [0.0, 1e4])
def test_the_commonest_step_is_the_resolution(step, level):
    y = RNG(0).normal(0, 20 * step, (2, 400))
    np.testing.assert_allclose(steps(np.round(y / step) * step + level), step, rtol=1e-4)


def test_units_that_were_converted_and_rounded_again():
    fahrenheit = np.round(RNG(0).normal(60, 15, (1, 600)))
    np.testing.assert_allclose(steps((fahrenheit - 32) / 1.8), 1 / 1.8, rtol=1e-9)
    # in tenths of a degree Celsius, whole degrees Fahrenheit are 0.5 or 0.6 apart
    assert steps(np.round((fahrenheit - 32) / 1.8, 1))[0] in (pytest.approx(0.5), pytest.approx(0.6))


def test_single_precision():
    kelvin = np.round(RNG(0).normal(290, 3, (1, 500)), 1).astype(np.float32)
    np.testing.assert_allclose(steps(kelvin.astype(float)), 0.1, rtol=1e-3)


def test_unrounded_readings_have_no_resolution_and_short_series_have_the_networks():
    y = RNG(0).normal(0, 1, (3, 300))
    np.testing.assert_array_equal(steps(y), 0.0)
    y = np.round(y, 1)
    y[2, 2:] = np.nan
    np.testing.assert_allclose(steps(y), 0.1, rtol=1e-6)


def test_rounding_through_a_transform_follows_its_slope():
    y = np.round(RNG(0).uniform(50, 150, (1, 2000)))
    slope = 1 / (2 * np.sqrt(y))
    np.testing.assert_allclose(rounding_variance(y, _transforms.named("sqrt", y.ravel())), np.mean(slope**2) / 12, rtol=0.01)
    zeros = np.where(RNG(1).random(y.shape) < 0.5, 0.0, y)
    assert np.isfinite(rounding_variance(zeros, _transforms.named("log", zeros.ravel()))).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "transform"), [("dense", None), ("sparse", None), ("dense", "sqrt"), *at_night([("sparse", "sqrt")])]
)
def test_noise_of_rounded_readings_is_at_least_their_rounding(engine, transform):
    graph, truth = smooth(T=120, n=4)
    y = np.round(truth / 0.5) * 0.5
    model = fit(graph, y, engine=engine, transform=transform, rng=RNG(0))
    typical = np.sqrt(model.noise).mean()
    assert 0.9 * 0.5 / np.sqrt(12) < typical < 1.5 * 0.5 / np.sqrt(12)
    errors = np.abs(model.smooth().x - truth)
    assert np.mean(errors < 1.645 * model.smooth().std) > 0.8


def test_a_smooth_record_shows_its_noise():
    graph, truth = smooth()
    y = truth + 0.1 * RNG(1).standard_normal(truth.shape)
    np.testing.assert_allclose(np.sqrt(rough_variance(y.T, graph.adjacency)), 0.1, rtol=0.25)
    y[RNG(2).random(y.shape) < 0.05] = np.nan
    y[0, 100] += 50.0
    np.testing.assert_allclose(np.sqrt(rough_variance(y.T, graph.adjacency)), 0.1, rtol=0.35)


def test_a_rough_field_is_not_taken_for_noise():
    rng = RNG(0)
    graph, _ = smooth()
    slow = np.cumsum(rng.standard_normal((6, 600)), axis=1)
    shared = np.cumsum(np.cumsum(rng.standard_normal(600))) + 0.01 * rng.standard_normal((6, 600))
    daily = 0.8 * rng.standard_normal(600) + 0.6 * rng.standard_normal((6, 600))
    for y in (slow, shared, daily):
        assert rough_variance(y.T, graph.adjacency).max() <= 0.02**2


def test_a_record_with_too_few_neighbors_at_the_same_times_is_left_alone():
    graph, truth = smooth()
    y = truth + 0.1 * RNG(1).standard_normal(truth.shape)
    y[RNG(2).random(y.shape) < 0.3] = np.nan
    np.testing.assert_array_equal(rough_variance(y.T, graph.adjacency), 0.0)
    assert (noise_floor(y, y.T, _transforms.Transform("none"), 1.0, graph.adjacency) == 0).all()


@pytest.mark.slow
def test_bands_of_a_tide_hold_the_truth_at_its_readings():
    graph, _ = smooth(n=4)
    hours, rng = np.arange(400), RNG(0)
    late = rng.uniform(0, 1, (4, 1))
    truth = 1.4 * np.sin(2 * np.pi * (hours - late) / 12.42) + 0.4 * np.sin(2 * np.pi * (hours - late) / 24)
    truth += np.cumsum(0.02 * rng.standard_normal(400))
    y = np.round(truth + 0.05 * rng.standard_normal(truth.shape), 2)
    y[rng.random(y.shape) < 0.05] = np.nan
    smoothed = fit(graph, y, rng=RNG(0)).smooth()
    low, high = smoothed.interval(0.9)
    assert np.mean((low <= truth) & (truth <= high)) > 0.8


def test_few_readings_widen_the_estimate_and_say_so(tmp_path):
    graph, truth = smooth(T=24, n=5)
    y = np.round(truth + 0.4 * RNG(1).standard_normal(truth.shape), 2)
    model = fit(graph, y, rng=RNG(0))
    assert any("noise and field can hardly be told apart" in note for note in model.details.notes)
    smoothed = model.smooth()
    error = np.sqrt(np.mean((smoothed.x - truth) ** 2))
    assert np.sqrt(np.mean(smoothed.std**2)) > 0.6 * error
    model.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(load(tmp_path / "model.npz").smooth().std, smoothed.std)


def test_noise_that_is_given_has_neither_a_floor_nor_a_doubt():
    graph, truth = smooth(T=24, n=5)
    model = fit(graph, np.round(truth), noise=0.01, rng=RNG(0))
    np.testing.assert_allclose(model.noise, 0.01)
    assert model.noise_error is None
    assert not model.details.notes


@pytest.mark.parametrize("step", [0.0, 1.0])
def test_jumps_of_the_field_leave_room_for_no_more_noise(step):
    rng = RNG(0)
    noise = 0.4 * rng.standard_normal((600, 5))
    field = 30.0 * (np.arange(600)[:, None] // 14 % 2) + np.cumsum(0.1 * rng.standard_normal((600, 5)), axis=0)
    rows = np.where(rng.random(noise.shape) < 0.05, np.nan, field + noise)
    rows = np.round(rows / step) * step if step else rows
    most = most_noise(rows, np.full(5, step**2 / 12))
    assert (most > 0.6 * (0.4**2 + step**2 / 12)).all()
    assert (most < 4 * (0.4**2 + step**2 / 12)).all()
    assert np.isinf(most_noise(rows[:120], np.zeros(5))).all()


@pytest.mark.parametrize(
    "sizes",
    [
        lambda rng, shape: np.where(rng.random(shape) < 0.2, 10.0, 1.0) * rng.standard_normal(shape),
        lambda rng, shape: np.where(rng.random(shape) < 0.3, 10.0, 0.0) + 0.1 * rng.standard_normal(shape),
        lambda rng, shape: np.where(rng.random(shape) < 0.5, 1.0, 0.0) * rng.exponential(size=shape),
        lambda rng, shape: np.where(rng.random((20, 1)) < 0.3, 10.0, 1.0).repeat(20, axis=0) * rng.standard_normal(shape),
    ],
)
def test_white_noise_of_any_law_has_room(sizes):
    """Where most of it is small, as two values or bursts, the median of its differences says little of its variance."""
    noise = sizes(RNG(0), (400, 30))
    assert (most_noise(noise, np.zeros(30)) > 0.4 * noise.var(axis=0)).all()


@pytest.mark.parametrize("level", [0.0, 30.0])
def test_a_leap_to_another_level_is_no_field(level):
    rows = 0.4 * RNG(0).standard_normal((200, 3)) + np.where(np.arange(200) < 90, 0.0, level)[:, None]
    assert np.isinf(most_noise(rows, np.zeros(3))).all()
