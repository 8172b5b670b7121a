"""A clock that is wrong in a part of the record moves the station's own day at once, and nothing else does."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.quality import Suspect, check
from nareg.quality._clock import Delay, _same_everywhere
from nareg.quality._others import Whitener

from .conftest import drawn

STATIONS, HOURS = 8, np.arange(720)
HALF = HOURS >= 360


def unlike_days(seed: int, hours: np.ndarray, growth: np.ndarray, station: int | slice = 3) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates, and readings whose day, at a station or all, is so many hours early and so much larger."""
    rng = np.random.default_rng(seed)
    coordinates, readings = drawn(rng, STATIONS, HOURS.size)
    amplitude, late = rng.uniform(2, 6, (STATIONS, 1)), rng.uniform(-1.5, 1.5, (STATIONS, 1))
    early, larger = np.zeros(readings.shape), np.ones(readings.shape)
    early[station], larger[station] = hours, growth
    return coordinates, readings + larger * amplitude * np.cos(2 * np.pi * (HOURS - 15 - late + early) / 24)


def clocks(coordinates: np.ndarray, readings: np.ndarray) -> list[Suspect]:
    times = np.datetime64("2024-03-04", "s") + HOURS * np.timedelta64(3600, "s")
    model = nareg.spacetime.fit(nareg.Graph.from_knn(coordinates, 5), readings, times=times)
    return [suspect for suspect in check(model).suspects if suspect.kind == "clock"]


@pytest.mark.parametrize("part", [HALF, ~HALF])
@pytest.mark.slow
def test_a_day_that_moves_at_once_is_a_wrong_clock(part):
    coordinates, readings = unlike_days(0, np.zeros(HOURS.size), np.ones(HOURS.size))
    true = readings[3].copy()
    readings[3, part] = np.roll(true, -3)[part]
    (suspect,) = clocks(coordinates, readings)
    assert suspect.station == 3
    assert "360 readings" in suspect.evidence
    assert "if its clock is 3 h behind" in suspect.evidence
    assert suspect.size == pytest.approx(np.std((readings[3] - true)[part]), rel=0.35)


@pytest.mark.parametrize(
    ("hours", "growth", "station"),
    [
        (np.where(HALF, 2.0, 0.0), np.ones(HOURS.size), slice(None)),  # a season moves the days of all at once
        (np.linspace(0, 2, HOURS.size), np.ones(HOURS.size), slice(None)),  # or slowly
        (np.linspace(0, 3, HOURS.size), np.ones(HOURS.size), 3),  # or that of one valley
        (np.zeros(HOURS.size), np.where(HALF, 2.0, 1.0), 3),  # clear days are larger
        (np.where(HALF, 2.0, 0.0), np.where(HALF, 2.0, 1.0), 3),  # and may be early as well
    ],
)
@pytest.mark.slow
def test_other_changes_of_the_day_are_no_clocks(hours, growth, station):
    assert clocks(*unlike_days(1, hours, growth, station)) == []


@pytest.mark.parametrize(("late", "steps", "same"), [(1, 1, True), (0, 1, False), (2, 2, True), (1, 2, False), (3, 4, True)])
def test_a_lag_is_nearer_to_that_of_the_clock_than_to_none(late, steps, same, rng):
    """At every hour: a river's gauge, whose floods come at other lags when it is wet, was an hour late with a lag of none."""
    values = rng.standard_normal((600, 1)) + 0.3 * rng.standard_normal((600, 5))
    values[300:, 0] = np.roll(values[300:, 0], late)
    white = Whitener.of(np.vstack([np.ones(5), np.zeros((599, 5))]))
    lags = np.array([-4, -3, -2, -1, 1, 2, 3, 4])
    assert _same_everywhere(Delay(0, 300, 600, 20.0, steps, 1.0), values, values[:, 0], white, lags) == same
