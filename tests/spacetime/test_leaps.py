"""Readings that leave those before and after at once."""

import numpy as np
import pytest
from scipy.ndimage import median_filter

from nareg.spacetime import edges, leaps
from nareg.spacetime._readings.leaps import AROUND, medians


@pytest.fixture
def river():
    """Three sensors at 15 minutes in hundredths, half of the days rough: steps are ten times as large there."""
    rng = np.random.default_rng(0)
    t = np.arange(2880)
    rough = (t // 96) % 2 == 1
    noise = rng.normal(0, 0.01, (t.size, 3)) * np.where(rough, 10, 1)[:, None]
    return np.round(10 + 2 * np.cos(2 * np.pi * t / 96)[:, None] + noise, 2), rough


def test_nothing_leaps_in_calm_and_rough_weather(river):
    back, stays = leaps(river[0])
    assert back.sum() + stays.sum() <= 2


def test_what_is_remembered_is_not_what_a_caller_changes(river):
    leaps(river[0])[0][:] = True
    assert not leaps(river[0])[0].all()


@pytest.mark.parametrize("length", [1, 2, 4])
def test_a_leap_that_returns_is_found_where_the_quantity_is_calm(river, length):
    y, rough = river
    calm, wild = 240, 144
    assert not rough[calm]
    assert rough[wild]
    y[calm : calm + length, 0] += 1.0
    y[wild : wild + length, 0] += 0.3
    back, stays = leaps(y)
    assert np.flatnonzero(back[:, 0])[:length].tolist() == list(range(calm, calm + length))
    assert not back[130:160, 0].any()
    assert not stays[230:260, 0].any()


def test_a_leap_that_stays_marks_its_first_reading(river):
    y = river[0]
    y[240:, 0] += 2.5
    back, stays = leaps(y)
    assert np.flatnonzero(stays[:, 0]).tolist() == [240]
    assert not back[230:250, 0].any()


def test_what_other_stations_show_as_well_is_no_leap(river):
    y = river[0]
    y[240] -= 2.5
    assert not leaps(y)[0][235:245].any()


def test_after_a_gap_the_quantity_may_be_anywhere(river):
    y = river[0]
    y[230:240, 0] = np.nan
    y[240:, 0] += 2.5
    assert not leaps(y)[1][:, 0].any()


def test_rain_does_not_leap():
    rng = np.random.default_rng(1)
    rain = np.where(rng.random((600, 4)) < 0.1, rng.gamma(1, 5, (600, 4)), 0.0)
    back, stays = leaps(rain)
    assert not back.any()
    assert not stays.any()


@pytest.mark.parametrize("y", [np.full((40, 2), 3.0), np.full((40, 2), np.nan), np.arange(20.0)[:, None]])
def test_little_to_judge_by(y):
    assert not np.any(leaps(y))


def test_a_healthy_reading_between_two_leaps_is_none(river):
    y = river[0]
    y[[240, 242], 0] += 2.0
    assert np.flatnonzero(leaps(y)[0][230:250, 0]).tolist() == [10, 12]


@pytest.mark.parametrize("times", [200, 600])
def test_a_pump_that_goes_on_and_off_does_not_leap(times):
    rng = np.random.default_rng(0)
    y = np.cumsum(rng.random((times, 6)) < 0.15, axis=0) % 2 * 360.0 + rng.normal(0, 3, (times, 6))
    back, stays = leaps(y)
    assert back.mean() + stays.mean() < 0.002


def test_medians_are_those_of_a_filter():
    values = np.random.default_rng(0).normal(size=(5, 60)).round(1)
    for row in values:
        np.testing.assert_array_equal(medians(row), median_filter(row, AROUND + 1))


@pytest.mark.parametrize(("times", "usual"), [(3, True), (2, False)])
def test_a_gate_that_opens_every_day_is_no_fault_of_the_gauge(river, times, usual):
    """Every opening was suspect, and left out of the fit, where the other gauges are smooth."""
    y, opened = river[0], 192 * np.arange(1, times + 1) + 30
    for start in opened:
        y[start : start + 20, 0] += 2.5
    at = np.union1d(opened, opened + 20).tolist()
    assert np.flatnonzero(leaps(y)[1][:, 0]).tolist() == at
    assert edges(y)[at, 0].tolist() == [usual] * len(at)


def test_readings_off_for_a_short_time_have_no_edge(river):
    y = river[0]
    for start in 192 * np.arange(1, 8) + 30:
        y[start : start + 4, 0] += 2.5
    assert not edges(y)[np.abs(np.diff(y, axis=0, prepend=y[:1])) > 1].any()


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_changes_of_level_have_no_unit(unit):
    """Readings of 1e9 overflowed beside a change of zero."""
    y = np.repeat(np.random.default_rng(0).integers(0, 4, 50), 10)[:, None].astype(float)
    usual = edges(y)
    assert usual.any()
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(edges(y * unit), usual)
