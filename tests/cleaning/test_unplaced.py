"""Stations without places: neighbors are those whose readings go up and down together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter

import nareg
from nareg.cleaning import assemble
from nareg.errors import InputError


@pytest.fixture(scope="module")
def simulated():
    """Readings with noise and gaps, a table of places, and the truth (T, N)."""
    network = nareg.datasets.simulated(10, 250, faults=(), rng=np.random.default_rng(5))
    index = pd.DatetimeIndex(network.times, name="time")
    readings = pd.DataFrame(network.readings.T, index=index, columns=network.names)
    return readings, pd.DataFrame(network.coordinates, network.names, ["latitude", "longitude"]), network.truth.T


def rms(errors: np.ndarray) -> float:
    return float(np.sqrt(np.nanmean(errors**2)))


def test_neighbors_are_stations_that_vary_together(rng):
    groups = np.repeat(np.cumsum(rng.standard_normal((3, 300)), axis=1), 4, axis=0)
    y = groups * rng.uniform(0.5, 3, (12, 1)) + 20 * rng.standard_normal((12, 1)) + 0.1 * rng.standard_normal((12, 300))
    y[rng.random(y.shape) < 0.2] = np.nan
    readings = pd.DataFrame(y.T, pd.date_range("2024", periods=300, freq="h", name="time"), list("abcdefghijkl"))
    network = assemble(readings, neighbors=3)
    weights = network.graph.adjacency.toarray()
    same = np.kron(np.eye(3), np.ones((4, 4))).astype(bool)
    assert weights[same].sum() > 0.95 * weights.sum()
    assert any("go up and down together" in note for note in network.notes)


def test_an_absurd_reading_leaves_no_station_without_neighbors(simulated):
    """One of 9999 made the rest of its station's readings look constant."""
    readings = simulated[0].copy()
    readings.iloc[100, 1] = np.nan
    expected = assemble(readings).graph.adjacency.toarray()
    readings.iloc[100, 1] = 9999.0
    np.testing.assert_array_equal(assemble(readings).graph.adjacency.toarray(), expected)
    assert (expected[1] > 0).any()


@pytest.mark.slow
def test_estimates_are_nearly_as_good_as_with_places(simulated):
    readings, places, truth = simulated
    cleaned, placed = nareg.clean(readings), nareg.clean(readings, places)
    assert cleaned.method == "space-time model"
    errors = [rms(result.x.to_numpy() - truth) for result in (cleaned, placed)]
    assert errors[0] < 1.15 * errors[1]
    assert errors[0] < 0.6 * rms(readings.to_numpy() - truth)
    assert set(cleaned.figures()) >= {"series", "errors"}
    assert "map" not in cleaned.figures()


def test_a_dead_and_a_constant_station_have_no_neighbors(simulated):
    readings = simulated[0].copy()
    readings.iloc[:, 3] = np.nan
    readings.iloc[:, 4] = 7.0
    graph = assemble(readings).graph
    degrees = graph.adjacency.sum(axis=1)
    assert degrees[3] == 0
    assert (np.delete(degrees, [3, 4]) > 0).all()


@pytest.mark.parametrize("count", [1, 2])
def test_one_and_two_stations(simulated, count):
    cleaned = nareg.clean(simulated[0].iloc[:, :count])
    assert rms(cleaned.x.to_numpy() - simulated[2][:, :count]) < rms(
        simulated[0].to_numpy()[:, :count] - simulated[2][:, :count]
    )


def test_strict_refuses_to_learn_a_network(simulated):
    with pytest.raises(InputError, match="stations is None: pass the table of stations, or positions in the rows"):
        nareg.clean(simulated[0], strict=True)


def test_places_that_cannot_be_read_are_named(simulated):
    readings = simulated[0].iloc[:, :4].stack().rename("value").rename_axis(["time", "station"]).reset_index()
    readings["latitude"], readings["longitude"] = "north", "east"
    network = assemble(readings)
    assert any("Why no place was read" in note and "latitude" in note for note in network.notes)


@pytest.mark.parametrize("seed", [0, 1, 5, 20261121])
@pytest.mark.slow
def test_a_slow_road_among_fast_ones_is_no_fault(seed):
    """Without places stations may be at any level; a unit that changes still shows, and by how much, in the readings' unit."""
    rng = np.random.default_rng(seed)
    common = lfilter([1.0], [1.0, -0.95], rng.standard_normal(400))
    readings = 60 + 2 * common + 1.5 * rng.standard_normal((10, 400))
    readings[6] = 15 + 1.5 * rng.standard_normal(400)
    index = pd.date_range("2024-01-01", periods=400, freq="h", name="time")
    names = [f"road {i}" for i in range(10)]
    assert nareg.clean(pd.DataFrame(readings.T, index, names)).suspects == ()
    readings[3, 200:] *= 10
    changed = nareg.clean(pd.DataFrame(readings.T, index, names))
    assert changed.quality is not None
    (suspect,) = (s for s in changed.quality.suspects if s.name == "road 3")
    assert suspect.kind in ("unit", "drift")
    if suspect.kind == "drift":  # it was said to be more than all readings differ, and dropped for that
        assert suspect.size == pytest.approx(540, rel=0.1)
