"""Directions are refused with the remedy; what only lies between 0 and 360 is not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nareg.cleaning._network import assemble
from nareg.errors import InputError

REFUSAL = r"are directions, which wrap from 360 degrees to 0: clean their sines and cosines"
T = 400


def network(values: np.ndarray, tmp_path=None, name: str = "readings", **columns):
    """Assemble readings (T, N) of stations at random places, from a file of this name where there is a folder."""
    rng = np.random.default_rng(1)
    names = [f"S{i}" for i in range(values.shape[1])]
    places = pd.DataFrame(rng.uniform(47, 48, (len(names), 2)), index=names, columns=["latitude", "longitude"])
    index = pd.date_range("2024-03-05", periods=len(values), freq="h", name="time")
    frame = pd.DataFrame(values, index=index, columns=names)
    if tmp_path is None:
        return assemble(frame, places)
    frame.to_csv(tmp_path / f"{name}.csv")
    return assemble(tmp_path / f"{name}.csv", places)


def wind(rng, mean: float = 0.0, spread: float = 60.0, step: float = 5.0) -> np.ndarray:
    """Directions (T, 6) that wander around a mean, in steps as vanes have them."""
    common = spread * np.sin(np.arange(T) / 30)[:, None] + mean
    return np.round((common + 12 * rng.standard_normal((T, 6))) / step) * step % 360


@pytest.mark.parametrize("step", [1.0, 5.0, 10.0, 0.1])
@pytest.mark.parametrize("mean", [0.0, 40.0, 330.0])
def test_readings_that_cross_north_are_directions(rng, mean, step):
    values = wind(rng, mean, 110.0, step)
    values[rng.random(values.shape) < 0.1] = np.nan
    with pytest.raises(InputError, match=REFUSAL):
        network(values)


def test_directions_from_minus_180_to_180(rng):
    with pytest.raises(InputError, match=REFUSAL):
        network((wind(rng, 180.0, 110.0, 1.0) + 180) % 360 - 180)


@pytest.mark.parametrize("name", ["wind_direction", "WindDir", "wdir_10m", "Windrichtung", "WD"])
def test_a_name_tells_directions_that_are_too_few_or_too_wild_to_tell(tmp_path, rng, name):
    values = rng.uniform(0, 360, (T, 6)).round()
    network(values)
    with pytest.raises(InputError, match=REFUSAL):
        network(values, tmp_path, name)
    network(100 + values / 4, tmp_path, name)  # their mean is right where none points north


@pytest.mark.parametrize(("column", "unit"), [("value", "deg"), ("value", "degrees"), ("wind_dir", None)])
def test_a_column_or_a_unit_tells_directions(rng, column, unit):
    values = rng.uniform(0, 360, (20, 3)).round()
    rows = [(t, f"S{i}", values[t, i]) for t in range(20) for i in range(3)]
    long = pd.DataFrame(rows, columns=["time", "station", column])
    long["time"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(long["time"], "h")
    places = pd.DataFrame({"x": [0, 1, 2], "y": [0, 1, 1]}, index=["S0", "S1", "S2"])
    if unit is not None:
        long["unit"] = unit
    with pytest.raises(InputError, match=REFUSAL):
        assemble(long, places)
    long["unit"] = "W"
    assemble(long, places)


def tilt(rng):
    return rng.normal(3, 1, (T, 6))


def humidity(rng):
    return np.clip(90 + 15 * rng.standard_normal((T, 6)).cumsum(axis=0) % 40, 0, 100)


def power(rng):
    """Solar power up to 360 W under clouds that come and go."""
    sun = np.clip(np.sin((np.arange(T) % 24 - 6) / 12 * np.pi), 0, None)[:, None]
    return 360 * sun * np.where(rng.random((T, 6)) < 0.4, rng.uniform(0.05, 0.4, (T, 6)), 1.0)


def machine(rng):
    """On and off, at about 355 W and 0."""
    return np.where(rng.random((T, 6)) < 0.3, 355 + 4 * rng.standard_normal((T, 6)), 0.0).clip(0, 360)


def counter(rng):
    return (np.arange(T)[:, None] * 7.3 + rng.uniform(0, 50, 6)) % 300


def flow(rng):
    return np.exp(rng.normal(3, 1.5, (T, 6))).clip(0, 360)


@pytest.mark.parametrize("quantity", [tilt, humidity, power, machine, counter, flow])
def test_what_only_lies_between_0_and_360_is_cleaned(rng, quantity):
    values = quantity(rng)
    network(values)
    values[0, 0], values[1, 0] = 0.0, 360.0
    network(values)
