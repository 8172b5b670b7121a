"""From two tables to a network: what is joined, kept and said."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nareg import io
from nareg.cleaning._network import assemble


def tables(n: int = 6, times: int = 48, **columns) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(5)
    names = [f"S{i}" for i in range(n)]
    places = pd.DataFrame({"latitude": rng.uniform(47, 48, n), "longitude": rng.uniform(11, 12, n)} | columns, index=names)
    index = pd.date_range("2024-03-01", periods=times, freq="h", name="time")
    values = 10 + 3 * np.sin(np.arange(times) / 4)[:, None] + rng.normal(size=(times, n))
    return pd.DataFrame(values, index=index, columns=names), places


@pytest.mark.parametrize("name", ["elevation", "altitude", "Elev (m)"])
def test_heights_are_kept_in_the_order_of_the_readings_and_the_highest_station_is_named(name):
    heights = np.array([500.0, 520.0, 2956.0, 480.0, np.nan, 530.0])
    readings, places = tables(**{name: heights})
    network = assemble(readings.iloc[:, ::-1], places)
    np.testing.assert_array_equal(network.elevation, heights[::-1])
    (note,) = (note for note in network.notes if "height" in note)
    assert "do not enter the estimate" in note
    assert "'S2' is 2,426 above its highest neighbor" in note


def test_a_low_station_is_named_and_level_ones_are_not():
    readings, places = tables(elevation=[900.0, 910.0, 920.0, 100.0, 905.0, 915.0])
    assert any("'S3' is 800 below its lowest neighbor" in note for note in assemble(readings, places).notes)
    readings, places = tables(elevation=[10.0] * 6)
    assert "The stations' heights do not enter the estimate." in assemble(readings, places).notes


def test_without_heights_there_is_no_word_about_them():
    for columns in ({}, {"elevation": [np.nan] * 6}):
        readings, places = tables(**columns)
        network = assemble(readings, places)
        assert network.elevation is None
        assert not any("height" in note for note in network.notes)
    assert assemble(readings, io.stations_from_frame(places)).elevation is None
