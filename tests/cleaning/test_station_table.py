"""What is said of each station."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

import nareg
from nareg.cleaning._station_table import silence


@pytest.fixture(scope="module")
def cleaned():
    """Eight stations in tenths: one 3 above the others, one with a gap, one stuck; none reads at hours 50 to 53 and at 70."""
    network = nareg.datasets.simulated(8, 120, faults=(), rng=np.random.default_rng(0))
    y = network.readings.round(1)
    y[1] += 3
    y[2, 10:35] = np.nan
    y[5, 80:110] = y[5, 80]
    y[:, 50:54] = y[:, 70] = np.nan
    frame = pd.DataFrame(y.T, pd.DatetimeIndex(network.times, name="time"), network.names)
    return nareg.clean(frame, pd.DataFrame(network.coordinates, network.names, ["latitude", "longitude"]))


def test_a_row_per_station(cleaned):
    table = cleaned.stations
    y = cleaned.network.readings.values
    assert list(table.index) == list(cleaned.network.readings.names)
    np.testing.assert_array_equal(table["readings"], np.isfinite(y).sum(axis=1))
    np.testing.assert_allclose(table["missing"], np.isnan(y).mean(axis=1))
    assert table["longest_gap"].iloc[2] == 25
    assert set(table["resolution"]) == {0.1}
    assert (table["bad"] == (cleaned.flags == 4).sum().to_numpy()).all()
    assert "stuck" in table["faults"].iloc[5]
    assert table["bad"].iloc[5] >= 25
    np.testing.assert_allclose(table["noise"], np.sqrt(cleaned.model.noise))


def test_a_station_above_its_neighbors(cleaned):
    table = cleaned.stations["above_neighbors"]
    assert table.idxmax() == table.index[1]
    assert 1.5 < table.iloc[1] < 4.5


def test_neighbors_are_named_strongest_first(cleaned):
    graph = cleaned.network.graph
    weights = graph.adjacency.toarray()[3]
    named = cleaned.stations["neighbors"].iloc[3].split(", ")
    assert len(named) == 4
    order = [weights[graph.names.index(name)] for name in named]
    assert order == sorted(weights, reverse=True)[:4]


def test_when_all_are_silent(cleaned):
    times = cleaned.network.readings.times
    sentence = f"At 5 times no station has a reading, in 2 stretches, the longest from {times[50]} to {times[53]}."
    assert silence(cleaned) == sentence
    full = dataclasses.replace(cleaned.network.readings, values=np.ones((8, 120)))
    assert silence(dataclasses.replace(cleaned, network=dataclasses.replace(cleaned.network, readings=full))) == ""


@pytest.mark.slow
def test_the_report_shows_both(cleaned, tmp_path):
    page = cleaned.report(tmp_path / "report.html").read_text()
    assert silence(cleaned) in page
    assert "<h2>Stations</h2>" in page
    assert all(f"<td>{name}</td>" in page for name in cleaned.network.readings.names)


@pytest.mark.slow
def test_directions_go_around(rng):
    y = (350 + 15 * rng.standard_normal((6, 80)) + np.array([[0, 40, 0, 0, 0, 0]]).T) % 360
    index = pd.date_range("2024-01-01", periods=80, freq="h", name="time")
    places = pd.DataFrame({"latitude": 50 + np.arange(6) / 10, "longitude": [4.0] * 6}, index=list("abcdef"))
    table = nareg.clean(pd.DataFrame(y.T, index, list("abcdef")), places, kind="direction").stations
    assert 30 < table["above_neighbors"]["b"] < 50
    assert table["noise"].isna().all()
