"""From two tables to a network: what is joined, kept and said."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nareg import io
from nareg.cleaning._network import assemble
from nareg.cleaning._steps import screen


def tables(n: int = 6, times: int = 48, **columns) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(5)
    names = [f"S{i}" for i in range(n)]
    places = pd.DataFrame({"latitude": rng.uniform(47, 48, n), "longitude": rng.uniform(11, 12, n)} | columns, index=names)
    index = pd.date_range("2024-03-01", periods=times, freq="h", name="time")
    values = 10 + 3 * np.sin(np.arange(times) / 4)[:, None] + rng.normal(size=(times, n))
    return pd.DataFrame(values, index=index, columns=names), places


@pytest.mark.parametrize("name", ["elevation", "altitude", "Elev (m)"])
def test_heights_are_kept_in_the_order_of_the_readings(name):
    heights = np.array([500.0, 520.0, 2956.0, 480.0, 510.0, 530.0])
    readings, places = tables(**{name: heights})
    network = assemble(readings.iloc[:, ::-1], places)
    np.testing.assert_array_equal(network.covariates["altitude"], heights[::-1])


def test_without_heights_there_is_no_word_about_them():
    for columns in ({}, {"elevation": [np.nan] * 6}):
        readings, places = tables(**columns)
        network = assemble(readings, places)
        assert not network.covariates
        assert not any("altitude" in note for note in network.notes)
    assert not assemble(readings, io.stations_from_frame(places)).covariates


def test_a_value_that_lasts_makes_no_other_absurd():
    """A gauge that is stuck for most of the record: its tide before that is no wild reading."""
    y = np.full((1, 500), 1.0942)
    y[0, 400:] += 1e-5  # as the data set has it, in another unit
    y[0, :150] = np.random.default_rng(0).normal(0, 0.5, 150)
    screened = screen(y)
    assert screened[0, 150:].all()
    assert not screened[0, :149].any()
