"""Readings that must not enter a fit: spikes and codes do not, peaks that rise and fall do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nareg.spacetime._readings.outliers import GROSS, absurd, limit_of, spikes

T, N = 500, 6


@pytest.fixture
def river(rng) -> np.ndarray:
    """(T, N) levels in which four waves travel: 40 steps of rise and fall, much above the usual scatter."""
    t = np.arange(T)[:, None] - 3 * np.arange(N)
    waves = sum(np.exp(-(((t - start) / 12.0) ** 2)) * (1 + (t > start)) / 2 for start in (90, 190, 300, 420))
    return 1 + np.linspace(1.5, 0.5, N) * waves + 0.01 * rng.standard_normal((T, N))


def test_a_flood_is_not_absurd_and_a_code_in_it_is(river):
    spread = 1.4826 * np.median(np.abs(river - np.median(river, axis=0)), axis=0)
    assert (np.abs(river - np.median(river, axis=0)) > 25 * spread).sum() > 50  # it is far beyond the usual
    assert not absurd(river).any()
    river[200, 2], river[330:333, 4] = 99.9, -9.99
    assert set(zip(*np.nonzero(absurd(river)), strict=True)) == {(200, 2), (330, 4), (331, 4), (332, 4)}


def test_heavy_rain_is_not_absurd_and_a_code_is(rng):
    rain = np.where(rng.random((T, N)) < 0.3, rng.pareto(1.8, (T, N)) * 3, 0.0)
    assert not absurd(rain).any()
    rain[77, 1] = 9999.0
    assert list(zip(*np.nonzero(absurd(rain)), strict=True)) == [(77, 1)]


def test_a_wrong_level_to_the_end_is_absurd(rng):
    y = rng.standard_normal((T, N))
    y[400:, 3] -= 80
    np.testing.assert_array_equal(np.flatnonzero(absurd(y)[:, 3]), np.arange(400, T))


def test_spikes_begin_and_end_at_once():
    scores = np.zeros((100, 5))
    scores[2, 0] = 9.0  # one reading
    scores[10:13, 1] = -9.0  # a few
    scores[20:31, 2] = 12 * np.bartlett(11)  # a rise and a fall
    scores[40, 3], scores[41:60, 3] = 9.0, 9 * 0.85 ** np.arange(1, 20)  # a flash flood
    scores[90:, 4] = 9.0  # a wrong level to the end
    found = spikes(scores, GROSS)
    np.testing.assert_array_equal(found.sum(axis=0), [1, 3, 0, 0, 10])


def test_what_others_show_with_it_is_no_spike(rng):
    """A cloudburst over three of twelve stations; -99.9 of all at once, again and again, is no weather."""
    rain = np.where(rng.random((T, 12)) < 0.1, np.round(rng.gamma(0.6, 2.0, (T, 12)), 1), 0.0)
    rain[200, [1, 4, 7]] = 172.5
    assert not absurd(rain).any()
    rain[[50, 150, 250]] = -99.9
    np.testing.assert_array_equal(np.flatnonzero(absurd(rain).all(axis=1)), [50, 150, 250])
    rain[200, [4, 7]] = 0.0
    assert absurd(rain)[200, 1]


def test_missing_readings_stand_between_nothing():
    scores = np.zeros((9, 1))
    scores[4], scores[3], scores[5] = 8.0, np.nan, np.nan
    assert np.flatnonzero(spikes(scores, GROSS)[:, 0]).tolist() == [4]


def test_the_limit_rises_with_the_tails_of_the_quantity_not_with_a_few_sensors(rng):
    calm = rng.standard_normal((2000, 12))
    assert limit_of(calm) == pytest.approx(GROSS, abs=0.6)
    calm[::10, :3] *= 20
    assert limit_of(calm) == pytest.approx(GROSS, abs=0.6)
    heavy = rng.standard_t(2, (2000, 12))
    limit = limit_of(heavy)
    assert (np.abs(heavy) > limit).sum() <= 3
    assert limit > 15


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 100), st.floats(-1e3, 1e3))
def test_absurd_readings_do_not_depend_on_unit_zero_or_order(seed, factor, zero):
    rng = np.random.default_rng(seed)
    y = np.round(rng.standard_normal((60, 4)) * rng.uniform(0.5, 2, 4), 2)
    y[rng.integers(60), 1], y[rng.random(y.shape) < 0.1] = 300.0, np.nan
    expected = absurd(y)
    np.testing.assert_array_equal(absurd(factor * y + zero), expected)
    order = rng.permutation(4)
    np.testing.assert_array_equal(absurd(y[:, order]), expected[:, order])
