"""The hour that local time repeats in autumn is two hours, not one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nareg import io
from nareg.errors import InputError


def local(zone: str, start: str, hours: int, step: str = "1h", seed: int = 0) -> pd.DataFrame:
    """Readings of two stations in local time without a zone, as loggers and portals write them."""
    index = pd.date_range(start, periods=int(pd.Timedelta(hours=hours) / pd.Timedelta(step)), freq=step, tz="UTC").tz_convert(
        zone
    )
    values = np.random.default_rng(seed).normal(10, 3, (len(index), 2)).round(2)
    return pd.DataFrame(values, index=index.tz_localize(None).rename("time"), columns=["A", "B"])


def read(tmp_path, frame, **options):
    frame.to_csv(tmp_path / "r.csv")
    return io.read_readings(tmp_path / "r.csv", **options)


ZONES = [
    ("Europe/Berlin", "2024-10-25"), ("Europe/London", "2023-10-27"), ("Europe/Athens", "2022-10-28"),
    ("America/Chicago", "2024-11-01"), ("America/New_York", "2005-10-28"), ("Australia/Melbourne", "2024-04-05"),
    ("Pacific/Auckland", "2024-04-05"),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "start"), ZONES)
@pytest.mark.parametrize("step", ["1h", "30min", "10min"])
def test_both_hours_are_kept_an_hour_apart(tmp_path, zone, start, step):
    frame = local(zone, start, 72, step)
    table = read(tmp_path, frame)
    np.testing.assert_array_equal(table.values, frame.to_numpy().T)
    assert set(np.diff(table.timestamps)) == {np.timedelta64(pd.Timedelta(step))}
    assert table.times == tuple(frame.index.astype(str))  # labels stay as they are
    (note,) = table.notes
    assert "daylight saving: both rows are kept" in note
    with pytest.raises(InputError, match="write the times in UTC"):
        read(tmp_path, frame, strict=True)


def test_a_year_with_both_changes_is_even(tmp_path):
    frame = local("Europe/Paris", "2024-01-01", 24 * 366)
    table = read(tmp_path, frame)
    assert set(np.diff(table.timestamps)) == {np.timedelta64(1, "h")}
    assert table.timestamps[0] == np.datetime64("2024-01-01T01:00")  # standard time: winter's labels are right


def test_the_newest_row_may_be_the_first(tmp_path):
    frame = local("Europe/Berlin", "2024-10-25", 72, "30min")
    table = read(tmp_path, frame.iloc[::-1])
    np.testing.assert_array_equal(table.values, frame.to_numpy().T)


@pytest.mark.parametrize("order", ["by station", "by time", "sorted"])
def test_long_tables(tmp_path, order):
    frame = local("Europe/Berlin", "2024-10-25", 72, "30min")
    long = (
        frame.reset_index()
        .melt("time", var_name="station", value_name="value")
        .assign(row=lambda t: t.groupby("station").cumcount())
    )
    if order == "by time":
        long = long.sort_values("row", kind="stable")
    elif order == "sorted":
        long = long.sort_values(["time", "station", "row"], kind="stable")
    long.drop(columns="row").to_csv(tmp_path / "r.csv", index=False)
    table = io.read_readings(tmp_path / "r.csv")
    np.testing.assert_array_equal(table.values, frame.to_numpy().T)
    assert set(np.diff(table.timestamps)) == {np.timedelta64(30, "m")}


def test_a_row_that_is_lost_in_the_hour_is_a_gap(tmp_path):
    frame = local("Europe/Berlin", "2024-10-25", 72, "10min")
    again = np.flatnonzero(frame.index == "2024-10-27 02:20")[1]
    table = read(tmp_path, frame.drop(frame.index[0]).iloc[np.arange(len(frame) - 1) != again - 1])
    assert table.values.shape[1] == len(frame) - 2
    assert any("both rows are kept" in note for note in table.notes)


@pytest.mark.parametrize("kind", ["copies", "another day", "another hour", "a zone", "spring too"])
def test_other_repeated_rows_are_averaged_as_before(tmp_path, kind):
    frame = local("UTC", "2024-10-25", 72)
    at = {"another day": "2024-10-26 02:00", "another hour": "2024-10-27 05:00"}.get(kind, "2024-10-27 02:00")
    extra = frame.loc[[at]] + (0 if kind == "copies" else 1)
    frame = pd.concat([frame.loc[:at], extra, frame.loc[at:].iloc[1:]])
    if kind == "a zone":
        frame.index = frame.index.tz_localize("UTC")
    if kind == "spring too":  # the hour that local time skips is there: these are no local times
        frame = pd.concat([local("UTC", "2024-03-30", 48), frame])
    table = read(tmp_path, frame)
    assert any("are averaged" in note for note in table.notes)
    assert not any("daylight" in note for note in table.notes)


def test_plain_repeats_beside_the_hour_are_averaged(tmp_path):
    frame = local("Europe/Berlin", "2024-10-25", 72)
    table = read(tmp_path, pd.concat([frame.iloc[:3], frame.iloc[[2]] + 2, frame.iloc[3:]]))
    np.testing.assert_allclose(table.values[:, 2], frame.iloc[2].to_numpy() + 1)
    assert set(np.diff(table.timestamps)) == {np.timedelta64(1, "h")}
    assert sum("averaged" in note or "daylight" in note for note in table.notes) == 2


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize(
    ("start", "step"),
    [("00:30", "10min"), ("00:50", "10min"), ("01:00", "10min"), ("01:50", "10min"), ("00:00", "1h"), ("01:00", "1h")],
)
def test_a_table_that_begins_in_the_hour(tmp_path, zone, newest_first, start, step):
    """Its first rows were averaged with those an hour later, or, after the change, an hour early."""
    frame = local("Europe/Berlin", f"2024-10-27 {start}", 12, step)
    utc = pd.date_range(f"2024-10-27 {start}", periods=len(frame), freq=step)
    table = read(tmp_path, frame[::-1] if newest_first else frame, recipe=io.Recipe(zone=zone))
    np.testing.assert_array_equal(table.values, frame.to_numpy().T)
    np.testing.assert_array_equal(table.timestamps, utc if zone else utc + pd.Timedelta("1h"))
    assert any("as the next reading follows then" in note for note in table.notes) == (start >= "01:00" and zone is not None)


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("stop", ["00:20", "01:00", "01:10", "01:40"])
def test_a_table_that_ends_in_the_hour(tmp_path, zone, stop):
    frame = local("Europe/Berlin", "2024-10-26 12:00", 24, "10min")
    utc = pd.date_range("2024-10-26 12:00", f"2024-10-27 {stop}", freq="10min")
    table = read(tmp_path, frame[: len(utc)], recipe=io.Recipe(zone=zone))
    np.testing.assert_array_equal(table.values, frame[: len(utc)].to_numpy().T)
    # without a zone and without a label that repeats nothing says that clocks change
    hours = 0 if zone else 1 if stop >= "01:00" else 2
    np.testing.assert_array_equal(table.timestamps, utc + pd.Timedelta(hours=hours))
