"""The estimate at the own times of readings that a step moved."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nareg import io
from nareg.cleaning import CleanSettings, assemble, run
from nareg.io import Recipe

START, T = pd.Timestamp("2024-06-01"), 240


def readings(seed, signal, *, noise):
    """A long table of three stations that read up to three minutes beside every ten; and the truth there."""
    rng = np.random.default_rng(seed)
    seconds = 600 * np.arange(T) + rng.integers(-180, 181, (3, T))
    truth = signal(seconds)
    station = np.repeat(["A", "B", "C"], T)
    time = START + pd.to_timedelta(seconds.ravel(), unit="s")
    value = (truth + noise * rng.standard_normal(truth.shape)).ravel()
    return pd.DataFrame({"time": time.astype(str), "station": station, "value": value}), truth


def cleaned(table, kind="auto"):
    places = pd.DataFrame({"latitude": [50.0, 50.01, 50.02], "longitude": [8.0, 8.01, 8.0]}, ["A", "B", "C"])
    return run(assemble(table, places, recipe=Recipe(step="10min")), CleanSettings(kind=kind))


@pytest.mark.slow
def test_estimates_at_own_times_follow_what_changes_between_steps(tmp_path):
    table, truth = readings(0, lambda s: 20 * np.sin(2 * np.pi * s / 10_800), noise=0.05)
    result = cleaned(table)
    own = result.own_times
    assert len(own) == 3 * T
    rows = {(row.time[:19], row.station): row for row in own.itertuples()}
    at = [rows[(time[:19], station)] for time, station in zip(table.time, table.station, strict=True)]
    np.testing.assert_array_equal([row.reading for row in at], table.value)
    errors = np.array([row.estimate for row in at]) - truth.ravel()
    step = result.x.index.get_indexer(pd.DatetimeIndex(table.time).round("10min"))
    of_step = result.x.to_numpy()[step, np.repeat(range(3), T)] - truth.ravel()
    assert np.sqrt(np.mean(errors**2)) < 0.5 * np.sqrt(np.mean(of_step**2))
    assert set(own.flag) <= {1, 2, 3, 4}
    result.save(tmp_path)
    written = pd.read_csv(tmp_path / "own_times.csv")
    np.testing.assert_allclose(written.estimate, own.estimate, atol=1e-3)


def test_directions_turn_the_short_way_between_steps():
    table, truth = readings(1, lambda s: (s / 120) % 360, noise=0.0)  # 5 degrees a step, through north
    table.value %= 360
    own = cleaned(table, kind="direction").own_times
    rows = {(row.time[:19], row.station): row.estimate for row in own.itertuples()}
    estimate = np.array([rows[(time[:19], station)] for time, station in zip(table.time, table.station, strict=True)])
    turn = (estimate - truth.ravel() + 180) % 360 - 180
    assert np.abs(turn).max() < 30
    assert np.median(np.abs(turn)) < 2
    assert ((estimate >= 0) & (estimate < 360)).all()


def test_signed_directions_stay_signed_between_steps():
    table, _ = readings(1, lambda s: (s / 120) % 360, noise=0.0)
    table.value = (table.value + 180) % 360 - 180
    own = cleaned(table, kind="direction").own_times
    assert -180 <= own.estimate.min() < -170
    assert 170 < own.estimate.max() <= 180


def test_own_times_of_some_stations_of_a_table_that_a_step_moved():
    table, _ = readings(0, np.cos, noise=0.1)
    gridded = io.on_grid(io.readings_from_frame(table, own_order=True), "10min")
    places = pd.DataFrame({"latitude": [50.0, 50.01], "longitude": [8.0, 8.01]}, ["C", "B"])
    own = run(assemble(gridded, places), CleanSettings(effort="fast")).own_times
    for name in "BC":
        np.testing.assert_array_equal(np.sort(own.reading[own.station == name]), np.sort(table.value[table.station == name]))
    assert set(own.station) == {"B", "C"}


def test_a_standard_deviation_that_is_not_known_is_an_empty_cell(tmp_path):
    table, _ = readings(3, np.cos, noise=0.1)
    some = table[table.groupby("station").cumcount() < 12]
    places = pd.DataFrame({"latitude": [50.0, 50.01, 50.02], "longitude": [8.0, 8.01, 8.0]}, ["A", "B", "C"])
    result = run(assemble(some, places, recipe=Recipe(step="10min")), CleanSettings(effort="fast"))
    assert result.std.isna().all(axis=None)
    result.save(tmp_path)
    lines = (tmp_path / "own_times.csv").read_text().splitlines()
    assert len(lines) == 37
    assert {line.split(",")[4] for line in lines[1:]} == {""}


@pytest.mark.parametrize("start", ["2024-06-01 00:00", "2024-06-01 00:10"])
def test_the_flag_of_a_reading_between_two_steps_is_that_of_its_own(start):
    """Every other time is in the middle between two steps: the only reading there of another station says where it went."""
    times = pd.date_range(start, periods=81, freq="5min", name="time")
    frame = pd.DataFrame({"A": 1.0 * np.arange(81), "B": 2.0 * np.arange(81)}, times)
    frame.loc[times[1::4], "B"] = np.nan
    frame.loc[times[::2], "B"] = np.nan
    result = run(assemble(frame, recipe=Recipe(step="10min")), CleanSettings(effort="fast"))
    own = result.own_times
    own = own[own.station == "B"]
    assert len(own) == 20
    assert (own.flag != 9).all()


@pytest.mark.parametrize("step", ["none", "10min"])
@pytest.mark.slow
def test_readings_that_no_step_moved_have_no_such_file(tmp_path, step):
    table, _ = readings(2, lambda s: np.cos(s / 7_000), noise=0.1)
    table.time = np.tile(START + pd.to_timedelta(600 * np.arange(T), unit="s"), 3).astype(str)
    (tmp_path / "own_times.csv").write_text("of an earlier run")
    places = pd.DataFrame({"latitude": [50.0, 50.01, 50.02], "longitude": [8.0, 8.01, 8.0]}, ["A", "B", "C"])
    result = run(assemble(table, places, recipe=Recipe(step=step)), CleanSettings(effort="fast"))
    assert result.own_times.empty
    result.save(tmp_path)
    assert not (tmp_path / "own_times.csv").exists()
