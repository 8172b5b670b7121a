"""Bands hold the share that they promise, also where the model is wrong about gaps and right about readings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter
from scipy.stats import norm

import nareg
from nareg.spacetime._model.results import FEWEST, LEVELS, PRIOR, Bands, calibrate
from nareg.spacetime._readings.holdout import HeldOut
from tests.helpers import at_night


def drawn(rng: np.random.Generator, count: int) -> HeldOut:
    """Small standard deviations are half of the true ones, large ones are right."""
    std = np.where(rng.random(count) < 0.5, 1.0, 4.0) * rng.uniform(0.95, 1.05, count)
    truth = rng.standard_normal(count) * np.where(std < 2, 2 * std, std)
    return HeldOut(truth, np.zeros(count), std)


@pytest.mark.parametrize("level", LEVELS)
def test_each_stratum_holds_its_share(level):
    rng = np.random.default_rng(0)
    bands = calibrate(drawn(rng, 20_000))
    fresh = drawn(rng, 20_000)
    reach = norm.ppf(0.5 + level / 2) * fresh.std * bands.at(level, fresh.std)
    for part in (fresh.std < 2, fresh.std > 2):
        inside = float(np.mean(np.abs(fresh.truth[part]) <= reach[part]))
        # the factors still count 200 Gaussian readings; three standard errors for the rest
        assert abs(inside - level) < 3 * np.sqrt(level * (1 - level) / 4000) + 0.02


def test_few_hidden_readings_calibrate_nothing_and_some_are_drawn_to_the_gaussian_band():
    rng = np.random.default_rng(1)
    few, some = drawn(rng, FEWEST - 1), drawn(rng, FEWEST)
    np.testing.assert_array_equal(calibrate(few).at(0.9, few.std), 1.0)
    (factor,) = calibrate(some).factors[0.9]
    scores = np.sort(np.abs(some.errors) / some.std)
    raw = scores[int(np.ceil((FEWEST + 1) * 0.9)) - 1] / norm.ppf(0.95)
    assert factor == pytest.approx(1 + FEWEST / (FEWEST + PRIOR) * (raw - 1))


def test_equal_standard_deviations_make_one_stratum():
    rng = np.random.default_rng(2)
    bands = calibrate(HeldOut(rng.standard_normal(3000), np.zeros(3000), np.ones(3000)))
    assert bands.stds == (1.0,)
    np.testing.assert_allclose(bands.at(0.9, np.array([1e-9, 1.0, 1e9])), 1.0, atol=0.05)


def test_errors_in_gaps_say_nothing_of_far_smaller_ones():
    """A field that rests by night is told too well in gaps then, and far too badly by day: its readings err as ever."""
    bands = Bands((40.0,), {0.9: (0.7,)})
    np.testing.assert_allclose(bands.at(0.9, np.array([1.0, 20.0, 20 * 2**0.5, 40.0, 80.0])), [1, 1, 0.85, 0.7, 0.7])


@given(st.floats(0.01, 0.999), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_factors_lie_between_those_of_the_strata_and_follow_the_unit(level, std, unit):
    bands = Bands((1.0, 3.0, 10.0), {0.5: (0.8, 1.0, 1.3), 0.9: (0.9, 1.1, 1.5)})
    factor = bands.at(level, np.array([std]))
    assert 0.8 <= factor[0] <= 1.5
    np.testing.assert_allclose(bands.in_unit(unit).at(level, np.array([std * unit])), factor, rtol=1e-9)


def test_noise_of_quiet_stations_is_no_field():
    """Four stations move twenty times as much as two others, whose noise was field: bands held .64 of the truth."""
    rng, hours = np.random.default_rng(4), np.arange(500)
    white = rng.standard_normal(500) + 0.5 * rng.standard_normal((6, 500))
    truth = lfilter([1.0], [1.0, -1.6, 0.63], white, axis=1)
    truth *= 2.0 / truth.std(axis=1, keepdims=True)
    for i in (4, 5):
        truth[i] = 0.1 * np.sin(2 * np.pi * hours / rng.uniform(150, 250) + rng.uniform(0, 6))
    y = truth + 0.03 * rng.standard_normal(truth.shape)
    y[rng.random(y.shape) < 0.03] = np.nan
    graph = nareg.Graph.from_knn(rng.random((6, 2)), 3)
    smoothed = nareg.spacetime.fit(graph, y, cycles=None, rng=np.random.default_rng(0)).smooth()
    low, high = smoothed.interval(0.9)
    assert ((low <= truth) & (truth <= high)).mean(axis=1).min() > 0.85
    assert np.sqrt(np.mean((smoothed.x - truth)[4:] ** 2)) < 0.015  # 0.027 before


@pytest.mark.slow
@pytest.mark.parametrize("stations", [12, *at_night([36])])
def test_bands_are_multiples_of_what_the_last_model_expects(stations, data_root):
    """A model of the whole year has smaller deviations than one of its windows, whose errors calibrate: 87 % before."""
    network = nareg.datasets.load("aqi36", root=data_root).select(np.arange(stations))
    y, times = network.signals, np.array([str(time) for time in network.times], dtype="datetime64[s]")
    hidden = network.observed & (np.random.default_rng(0).random(y.shape) < 0.1)
    estimate = nareg.spacetime.fit(network.graph, np.where(hidden, np.nan, y), times=times).smooth()
    low, high = estimate.interval(0.9, of="reading")
    assert 0.88 <= np.mean(((low <= y) & (y <= high))[hidden]) <= 0.92
