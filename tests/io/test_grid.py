"""Readings at the nearest step of a common grid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nareg import io
from nareg.cleaning import assemble
from nareg.errors import InputError
from nareg.io import Readings, on_grid

START = np.datetime64("2024-03-01T00:00:00", "ns")


def table(seconds, values):
    """Readings (N, T) of stations at times (N, T) of their own, in seconds."""
    own = np.asarray(seconds, dtype=np.int64)
    times, place = np.unique(own, return_inverse=True)
    y = np.full((len(own), len(times)), np.nan)
    y[np.arange(len(own))[:, None], place.reshape(own.shape)] = values
    stamps = START + times * np.timedelta64(1, "s")
    return Readings(tuple(f"S{i}" for i in range(len(own))), tuple(map(str, stamps)), y, stamps.astype("datetime64[ns]"))


@given(
    st.integers(3, 6), st.integers(15, 40), st.sampled_from([60, 600, 3600, 86_400]), st.integers(0, 2**31),
    st.floats(0.02, 0.2),
)  # fmt: skip
def test_jitter_is_taken_away(n, T, step, seed, share):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((n, T))
    moves = np.rint(rng.uniform(-share, share, (n, T)) * step)
    gridded = on_grid(table(step * np.arange(1, T + 1) + moves, values))
    np.testing.assert_array_equal(gridded.values, values)
    np.testing.assert_array_equal(gridded.timestamps, START + step * np.arange(1, T + 1) * np.timedelta64(1, "s"))
    assert f"are taken as {T}," in gridded.notes[-1]


def test_what_is_on_a_grid_is_left_as_it_is():
    values = np.arange(60.0).reshape(3, 20)
    regular = table(np.tile(600 * np.arange(20), (3, 1)), values)
    assert on_grid(regular) is regular
    mixed = table(np.concatenate([600 * np.arange(20)[None], 600 * np.arange(20)[None]]), values[:2])
    mixed.values[1, np.arange(20) % 6 != 0] = np.nan  # every hour beside every ten minutes
    assert on_grid(mixed) is mixed


@given(st.sampled_from([60, 600, 3600, 86_400]), st.integers(0, 2**31), st.floats(0.05, 0.24))
def test_rows_that_jitter_together_are_taken_every_step(step, seed, share):
    """One logger for all: as many times as steps, and none of them at one."""
    rng = np.random.default_rng(seed)
    values, moves = rng.standard_normal((3, 40)), np.rint(rng.uniform(-share, share, 40) * step)
    gridded = on_grid(table(np.tile(step * np.arange(1, 41) + moves, (3, 1)), values))
    np.testing.assert_array_equal(gridded.values, values)
    np.testing.assert_array_equal(gridded.timestamps, START + step * np.arange(1, 41) * np.timedelta64(1, "s"))
    assert f"readings move by {io._grid.in_words(np.abs(moves).max(), one='1 ')} at most" in gridded.notes[-1]


@pytest.mark.parametrize(
    "seconds",
    [
        606 * np.arange(200),  # a step of its own
        600 * np.arange(200) + np.tile([0, 5], 100),  # what the model takes for its grid
        np.sort(np.r_[3600 * np.arange(100), 3600 * np.arange(0, 100, 20) + 1300]),  # every hour, and reports between
    ],
)
def test_times_of_another_kind_are_left_as_they_are(seconds):
    own = table(np.tile(seconds, (2, 1)), np.ones((2, len(seconds))))
    assert on_grid(own) is own


def test_stations_with_a_shift_of_their_own_begin_there():
    shifted = table(3600 * np.arange(10)[None] + np.array([[1795], [1800], [1812]]), np.ones((3, 10)))
    assert str(on_grid(shifted).timestamps[0])[11:16] == "00:30"


@pytest.mark.parametrize(("hour", "begins"), [(5, "05:00"), (8, "08:00"), (20, "20:00"), (0, "00:00")])
def test_a_day_is_read_when_it_is_read(hour, begins, rng):
    """Readings at about 20:00 were those of the next midnight, a day later in a table of dates."""
    seconds = 86_400 * np.arange(60) + 3600 * hour + 60 * rng.integers(-60, 60, 60)
    values = rng.standard_normal((2, 60))
    gridded = on_grid(table(np.tile(seconds, (2, 1)), values))
    np.testing.assert_array_equal(gridded.values, values)
    assert [str(t)[:16] for t in gridded.timestamps[:2]] == [f"2024-03-01T{begins}", f"2024-03-02T{begins}"]


def test_times_on_a_grid_say_that_they_are_in_utc(tmp_path, rng):
    """Local times became others without an offset, two hours from those of the file."""
    local = pd.date_range("2024-06-01 12:00", periods=40, freq="10min") + pd.to_timedelta(rng.integers(-100, 100, 40), "s")
    pd.DataFrame({"time": local, "A": rng.standard_normal(40)}).to_csv(tmp_path / "local.csv", index=False)
    read = io.read_readings(tmp_path / "local.csv", recipe=io.Recipe(zone="+02:00"))
    assert on_grid(read).times[:2] == ("2024-06-01T10:00:00Z", "2024-06-01T10:10:00Z")


def test_a_single_minute_is_named_by_its_number(rng):
    seconds = 600 * np.arange(30) + np.tile([-60, 60, 10], 10)
    gridded = on_grid(table(np.tile(seconds, (2, 1)), rng.standard_normal((2, 30))))
    assert "every 10 minutes; readings move by 1 minute at most" in gridded.notes[-1]


def test_a_step_that_is_asked_for_averages_and_counts():
    gridded = on_grid(table([[0, 60, 600], [5, 590, 700]], [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]), "10min")
    np.testing.assert_array_equal(gridded.values, [[2, 5], [2, 5]])
    np.testing.assert_array_equal(gridded.averaged, [[2, 1], [1, 2]])
    assert "2 readings averaged with another of the step" in gridded.notes[-1]
    assert "readings move by 100 seconds at most" in gridded.notes[-1]


def test_a_coarser_step_begins_at_whole_steps():
    """Times that are spread evenly over a step have no place in it where it could begin."""
    seconds = 36 + 600 * np.arange(144)
    seconds[::7] += 5
    gridded = on_grid(table(seconds[None], np.arange(144.0)[None]), "1h")
    assert gridded.times[0].endswith("T00:00:00")
    assert gridded.values[0, 5] == np.arange(144.0)[27:33].mean()


def test_readings_midway_go_to_the_later_step():
    """To the even one, as numbers are rounded, steps had one and three readings in turn."""
    gridded = on_grid(table(300 * np.arange(13)[None], np.arange(13.0)[None]), "10min")
    assert gridded.averaged[0].tolist() == [1, 2, 2, 2, 2, 2, 2]
    np.testing.assert_array_equal(gridded.values[0], [0, 1.5, 3.5, 5.5, 7.5, 9.5, 11.5])


#: Pairs whose mean is north, three times, and south; the last cancel each other.
WIND = np.array([[350.0, 10.0, 20.0, 340.0, 355.0, 5.0, 170.0, 190.0, 0.0, 180.0]])


def test_directions_of_a_step_are_averaged_around_the_circle():
    """Their plain mean would point to the other side."""
    wind = table(600 * np.arange(6)[None], np.array([[350.0, 20.0, 340.0, 355.0, 5.0, 10.0]]))
    assert on_grid(wind, "20min").values[0].tolist() == [350.0, 180.0, 180.0, 10.0]
    here = on_grid(replace(wind, quantity="wind_direction"), "20min").values[0]
    np.testing.assert_allclose((here + 180) % 360 - 180, [-10.0, 0.0, 0.0, 10.0], atol=1e-9)


@pytest.mark.parametrize("form", ["long", "wide", "files"])
def test_repeated_directions_are_averaged_around_the_circle(tmp_path, form):
    first, second = (pd.DataFrame({"time": pd.date_range("2024-01-01", periods=5, freq="h")}) for _ in range(2))
    first["A"], second["A"] = WIND[0, ::2], WIND[0, 1::2]
    both = pd.concat([first, second])
    if form == "long":
        both.melt("time", var_name="station", value_name="wind_direction").to_csv(tmp_path / "r.csv", index=False)
        read = io.read_readings(tmp_path / "r.csv")
    elif form == "wide":
        both.assign(B=both["A"]).to_csv(tmp_path / "wind_direction.csv", index=False)
        read = io.read_readings(tmp_path / "wind_direction.csv")
    else:
        for k, part in enumerate((first, second)):
            part.assign(B=part["A"]).melt("time", var_name="station", value_name="wind_direction").to_csv(
                tmp_path / f"{k}.csv", index=False
            )
        read = io.read_readings([tmp_path / "0.csv", tmp_path / "1.csv"])
    np.testing.assert_allclose((read.values[0] + 180) % 360 - 180, [0.0, 0.0, 0.0, -180.0, np.nan], atol=1e-9)


def test_irregular_readings_have_no_grid():
    rng = np.random.default_rng(0)
    irregular = table(np.cumsum(rng.exponential(1000, (3, 40)).astype(int) + 1, axis=1), rng.standard_normal((3, 40)))
    assert on_grid(irregular) is irregular


def test_strict_tables_are_taken_as_they_are(tmp_path):
    rng = np.random.default_rng(0)
    moves = rng.integers(-100, 100, (3, 20))
    jittered = table(600 * np.arange(1, 21) + moves, rng.standard_normal((3, 20)))
    places = io.Stations(jittered.names, np.arange(6.0).reshape(3, 2), "euclidean")
    assert assemble(jittered, places, neighbors=2).readings.values.shape == (3, 20)
    assert assemble(jittered, places, neighbors=2, strict=True).readings.values.shape == jittered.values.shape


@pytest.mark.parametrize("step", ["soon", "-1h", "0s"])
def test_what_is_no_step_is_refused(step):
    with pytest.raises(InputError, match="pass a time such as '10min'"):
        on_grid(table([[0, 60]], [[1.0, 2.0]]), step)


def test_none_keeps_every_time_and_numbers_have_no_grid():
    jittered = table([[0, 601, 1199, 1802], [3, 599, 1204, 1798]], np.ones((2, 4)))
    assert on_grid(jittered, "none") is jittered
    numbers = Readings(("A",), ("0", "1"), np.ones((1, 2)), np.array([0.0, 1.0]))
    assert on_grid(numbers) is numbers
    with pytest.raises(InputError, match="the readings have no dates"):
        on_grid(numbers, "10min")


def test_a_published_table_of_stations_with_times_of_their_own(data_root):
    read = io.read_readings(data_root / "files" / "metobs-wide" / "wide_test_data.csv")
    gridded = on_grid(read)
    assert gridded.values.shape[1] < read.values.shape[1]
    assert np.nansum(gridded.observed) >= 0.9 * np.nansum(read.observed)


def test_times_that_are_on_the_step_need_no_note():
    times = np.arange("2024-01-01", "2024-01-02", np.timedelta64(1, "h"), dtype="datetime64[ns]")
    table = Readings(("A",), tuple(map(str, times)), np.arange(24.0)[None], times)
    assert on_grid(table, "1h").notes == ()


def test_a_folder_does_not_say_that_readings_are_directions(tmp_path):
    folder = tmp_path / "dir"
    folder.mkdir()
    times = pd.date_range("2024-01-01", periods=5, freq="h")
    table = pd.DataFrame({"time": [*times, *times], "A": [*WIND[0, ::2], *WIND[0, 1::2]]}).assign(B=1.0)
    for path in (folder / "counts.csv", folder / "long.csv"):
        rows = table if path.stem == "counts" else table.melt("time", var_name="station", value_name="counts")
        rows.to_csv(path, index=False)
        assert io.read_readings(path).values[0].tolist() == [180.0, 180.0, 180.0, 180.0, 90.0]


@pytest.mark.parametrize("jitter", [2, 20, 60])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_a_step_that_changes_within_a_record(jitter, share):
    """From 10 to 5 minutes: times stayed each station's own, where most steps were the longer one, or times jittered much."""
    rng = np.random.default_rng(0)
    change = round(48 * share) * 3600
    whole = np.concatenate([np.arange(0, change, 600), np.arange(change, 48 * 3600, 300)])
    stamps = np.datetime64("2024-06-01T00:00:00") + (whole + rng.integers(-jitter, jitter + 1, (4, len(whole)))).astype("m8[s]")
    values = rng.normal(size=stamps.shape)
    station = np.repeat(list("ABCD"), len(whole))
    frame = pd.DataFrame({"time": stamps.ravel().astype(str), "station": station, "value": values.ravel()})
    read = io.on_grid(io.readings_from_frame(frame, own_order=True))
    steps = np.datetime64("2024-06-01T00:00:00") + whole.astype("m8[s]")
    at = np.searchsorted(read.timestamps, steps.astype("datetime64[ns]"))
    assert set(np.diff(read.timestamps)) == {np.timedelta64(5, "m")}
    np.testing.assert_array_equal(read.values[:, at], values)
    assert read.observed.sum() == values.size
    assert any("every 5 minutes" in note for note in read.notes)


def test_a_step_between_the_two_of_a_record_is_not_taken():
    """The median of as many gaps of 10 as of 5 minutes is that of none: 6 minutes merged readings."""
    rng = np.random.default_rng(0)
    whole = np.concatenate([np.arange(0, 400), np.arange(400, 601, 0.5)]) * 600
    stamps = np.datetime64("2024-06-01T00:00:00") + (whole + rng.integers(-30, 31, (4, len(whole)))).astype("m8[s]")
    station, values = np.repeat(list("ABCD"), len(whole)), rng.normal(size=stamps.size)
    frame = pd.DataFrame({"time": stamps.ravel().astype(str), "station": station, "value": values})
    read = io.on_grid(io.readings_from_frame(frame))
    assert set(np.diff(read.timestamps)) == {np.timedelta64(5, "m")}
    assert read.observed.sum() == stamps.size


def test_times_of_no_step_stay():
    rng = np.random.default_rng(1)
    for gaps in (rng.exponential(3600, (12, 200)), rng.uniform(600, 5400, (12, 200))):
        stamps = np.datetime64("2024-06-01T00:00:00") + gaps.cumsum(axis=1).round().astype("m8[s]")
        frame = pd.DataFrame(
            {"time": stamps.ravel().astype(str), "station": np.repeat(list("ABCDEFGHIJKL"), 200), "value": 1.0}
        )
        read = io.readings_from_frame(frame, own_order=True)
        assert io.on_grid(read) is read
