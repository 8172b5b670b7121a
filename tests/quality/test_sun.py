"""A sensor that stands in the sun, and networks where none does."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import nareg
from nareg.quality import Flag, check
from nareg.quality._others import others
from nareg.quality._residuals import compute_residuals
from nareg.quality._sun import sunlit
from tests.helpers import at_night

N, DAYS, PER_DAY = 12, 15, 8
HOURS = np.arange(DAYS * PER_DAY) * (24 / PER_DAY)
TIMES = np.datetime64("2024-06-01T00:00:00", "s") + (HOURS * 3600).astype("timedelta64[s]")


def network(seed: int) -> tuple[nareg.Graph, np.ndarray]:
    """Days of amplitude 3 to 5, of which some are dull, and weather that neighbors share."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(0, 2, (N, 2))
    root = np.linalg.cholesky(np.exp(-np.linalg.norm(places[:, None] - places, axis=2)) + 1e-9 * np.eye(N))
    weather = root @ rng.standard_normal((N, HOURS.size))
    for t in range(1, HOURS.size):
        weather[:, t] = 0.9 * weather[:, t - 1] + np.sqrt(1 - 0.81) * weather[:, t]
    dull = np.repeat(rng.uniform(0.3, 1, DAYS), PER_DAY)
    day = rng.uniform(3, 5, (N, 1)) * dull * np.cos(2 * np.pi * (HOURS - 15) / 24)
    return nareg.Graph.from_knn(places, 5), 15 + day + weather + 0.3 * rng.standard_normal(weather.shape)


def in_the_sun(seed: int) -> tuple[nareg.Graph, np.ndarray]:
    """Station 7 is too warm by up to 10 at 9 and 12 h."""
    graph, readings = network(seed)
    clear = np.repeat(np.random.default_rng(seed).uniform(0, 1, DAYS), PER_DAY)
    readings[7] += 10 * clear * np.isin(HOURS % 24, (9, 12))
    return graph, readings


def accused(graph: nareg.Graph, readings: np.ndarray) -> list[int]:
    residuals = compute_residuals(nareg.spacetime.fit(graph, readings, times=TIMES))
    return [fault.station for fault in sunlit(residuals, others(residuals))]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
def test_a_sensor_in_the_sun(seed):
    assert accused(*in_the_sun(seed)) == [7]


def test_its_readings_are_suspect_at_those_hours_only():
    graph, readings = in_the_sun(0)
    model = nareg.spacetime.fit(graph, readings, times=TIMES)
    assert "sunlit" not in {s.kind for s in check(model).suspects}
    quality = check(model, rules={"checks": "sunlit"})
    (suspect,) = quality.suspects
    assert suspect.station == 7
    assert set(HOURS[suspect.columns] % 24) == {9, 12}
    assert "from 9 to 12 and 12 to 15 h are above" in suspect.evidence
    assert suspect.size > 2
    assert (quality.flags[7, suspect.columns] >= Flag.SUSPECT).all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
def test_a_larger_day_is_no_fault(seed):
    graph, readings = network(seed)
    readings[7] += 3 * np.cos(2 * np.pi * (HOURS - 12) / 24)
    assert accused(graph, readings) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(12), *at_night([range(12, 60)])])
def test_no_station_of_healthy_networks_is_accused(seeds):
    assert [accused(*network(seed)) for seed in seeds] == [[]] * len(seeds)


def test_without_a_daily_cycle_none_is_asked_for():
    graph, readings = in_the_sun(0)
    residuals = compute_residuals(nareg.spacetime.fit(graph, readings[:, ::4], times=TIMES[::4]))
    assert sunlit(residuals, others(residuals)) == []


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "named"), [("°C", True), ("µg/m³", False), (None, False)])
def test_cleaning_looks_for_it_among_temperatures_alone(unit, named):
    """Air at a road is dirty at rush hours of working days, much as a sensor in the sun is warm on clear days."""
    graph, readings = in_the_sun(0)
    index, names = pd.DatetimeIndex(TIMES, name="time"), [f"S{i}" for i in range(N)]
    places = pd.DataFrame(graph.coordinates, index=names, columns=["latitude", "longitude"])
    cleaned = nareg.clean(pd.DataFrame(readings.T, index, names), places, unit=unit)
    assert ("sunlit" in {s.kind for s in cleaned.quality.suspects}) is named
