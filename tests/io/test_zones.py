"""Zones: offsets behind times, names of zones, and those in names of columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nareg import io
from nareg.errors import InputError
from tests.io.test_times import DATES, read, stamps


def test_zones(tmp_path):
    table = read(tmp_path, ["2024-01-01T00:00+01:00", "2024-01-01T00:30Z", "2024-01-01T03:00+02:00"])
    np.testing.assert_array_equal(table.timestamps, stamps("2023-12-31T23:00", "2024-01-01T00:30", "2024-01-01T01:00"))
    assert table.zone == "UTC"
    assert "3 time zones; all times are converted to UTC" in table.notes[0]
    labels = ["2024-01-01T00:00", "2024-01-01T00:30Z"]
    assert "1 time without a time zone, among others with one, is taken as UTC" in read(tmp_path, labels).notes[0]
    with pytest.raises(InputError, match="write the zone everywhere"):
        read(tmp_path, labels, strict=True)


@pytest.mark.parametrize("zone", [" UTC", "UTC", " utc", " GMT", "z", " +0000", " GMT+0"])
def test_names_of_utc(tmp_path, zone):
    table = read(tmp_path, [f"2024-07-01 1{hour}:00{zone}" for hour in range(3)])
    np.testing.assert_array_equal(table.timestamps, stamps("2024-07-01T10", "2024-07-01T11", "2024-07-01T12"))
    assert table.zone == "UTC"


@pytest.mark.parametrize("zone", [" CST", " IST", "BST", " AST", " Europe/Berlin", " America/Port_of_Spain"])
@pytest.mark.parametrize("date", DATES)
def test_zones_of_several_meanings_are_refused(tmp_path, zone, date):
    """Never read without their offset, nor as evenly spaced rows."""
    labels = [date.format(k) + zone for k in range(1, 6)]
    for mixed in (labels, [labels[0].removesuffix(zone) + "Z", labels[1].removesuffix(zone) + "Z", *labels[2:]]):
        with pytest.raises(
            InputError, match=r"line [24], column 'time': .* has a time zone by its name.*pass it as --zone.*write the offset"
        ) as said:
            read(tmp_path, mixed)
        assert zone.strip() in str(said.value)
    frame = pd.DataFrame({"A": range(5)}, index=pd.Index(labels, name="time"))
    with pytest.raises(InputError, match="has a time zone by its name"):
        io.readings_from_frame(frame)


@pytest.mark.parametrize(
    ("zone", "hours"), [(" CEST", 2), ("CET", 1), (" MESZ", 2), (" EEST", 3), (" WET", 0), (" EST", -5), (" PDT", -7)]
)
@pytest.mark.parametrize("date", DATES)
def test_zones_of_one_meaning_are_read(tmp_path, zone, hours, date):
    labels = [date.format(k) for k in range(1, 6)]
    local = read(tmp_path, [f'"{label}"' for label in labels]).timestamps
    table = read(tmp_path, [label + zone for label in labels])
    np.testing.assert_array_equal(table.timestamps, local - np.timedelta64(hours, "h"))
    assert table.zone == "UTC"
    assert any(f"{zone.strip()} {hours:+03d}:00" in note for note in table.notes)
    with pytest.raises(InputError, match=r"line 3, column 'time': .* has no time zone, among others with one"):
        read(tmp_path, [labels[0] + zone, labels[1]])


@pytest.mark.parametrize("asked", [None, "Europe/Berlin"])
def test_names_of_zones_tell_the_repeated_hour(tmp_path, asked):
    labels = [f"2024-10-27 02:{minute:02d} {zone}" for zone in ("CEST", "CET") for minute in (0, 30)]
    expected = stamps("2024-10-27T00", "2024-10-27T00:30", "2024-10-27T01", "2024-10-27T01:30")
    rows = "".join(f"{label},{i}\n" for i, label in enumerate(labels))
    (tmp_path / "wide.csv").write_text("time,A\n" + rows)
    (tmp_path / "long.csv").write_text("time,station,value\n" + rows.replace(",", ",A,"))
    for name in ("wide.csv", "long.csv"):
        table = io.read_readings(tmp_path / name, recipe=io.Recipe(zone=asked))
        np.testing.assert_array_equal(table.timestamps, expected)
        np.testing.assert_array_equal(table.values, [[0, 1, 2, 3]])
    with pytest.raises(InputError, match="is no time of the zone 'Europe/London', which is given"):
        io.read_readings(tmp_path / "wide.csv", recipe=io.Recipe(zone="Europe/London"))


@pytest.mark.parametrize(
    ("name", "asked", "hours"),
    [("IST", "Asia/Kolkata", 5.5), ("IST", "Europe/Dublin", 1), ("CST", "America/Chicago", None), ("CST", "Asia/Shanghai", 8),
     ("BST", "Asia/Dhaka", 6), ("BST", "Europe/London", 1), ("Europe/Berlin", "Europe/Berlin", 2), ("EST", "America/Lima", -5)],
)  # fmt: skip
def test_a_zone_that_is_given_says_what_a_name_means(tmp_path, name, asked, hours):
    (tmp_path / "r.csv").write_text(f"time,A\n2024-07-01 10:00 {name},1\n2024-07-02 10:00 {name},2\n")
    recipe = io.Recipe(zone=asked)
    if hours is None:  # in July Chicago has CDT
        with pytest.raises(InputError, match="is no time of the zone 'America/Chicago'"):
            io.read_readings(tmp_path / "r.csv", recipe=recipe)
        return
    table = io.read_readings(tmp_path / "r.csv", recipe=recipe)
    np.testing.assert_array_equal(
        table.timestamps, stamps("2024-07-01T10", "2024-07-02T10") - np.timedelta64(int(60 * hours), "m")
    )
    assert table.zone == "UTC"


@pytest.mark.parametrize(
    ("name", "minutes"),
    [("Tijd (UTC)", 0), ("Time [UTC]", 0), ("time_utc", 0), ("TimestampUTC", 0), ('"Date Time, GMT+02:00"', 120),
     ("TIMESTAMP (EST)", -300), ("Zeit (MEZ)", 60), ("time (UTC-5)", -300), ("Date/Time (UTC +5:30)", 330)],
)  # fmt: skip
@pytest.mark.parametrize("label", ["2024-06-01 10:00", "01.06.2024 10:00", "20240601 1000", "20240601T10"])
def test_a_zone_in_the_name_of_the_column(tmp_path, name, minutes, label):
    table = read(tmp_path, [label], name=name)
    np.testing.assert_array_equal(table.timestamps, stamps("2024-06-01T10:00") - np.timedelta64(minutes, "m"))
    assert table.zone == "UTC"
    assert any("as the name of their column says" in note for note in table.notes)
    with pytest.raises(InputError, match=r"zone is 'Asia/Tokyo', but the name of the column of times in .* says"):
        io.read_readings(tmp_path / "r.csv", recipe=io.Recipe(zone="Asia/Tokyo"))


def test_a_zone_that_is_given_goes_before_its_own_name_in_the_column(tmp_path):
    """CET in a name may mean the time of the clocks of Berlin, in summer too."""
    read(tmp_path, ["2024-06-01 10:00"], name="time (CET)")
    for zone, hour in (("Europe/Berlin", 8), ("+01:00", 9)):
        table = io.read_readings(tmp_path / "r.csv", recipe=io.Recipe(zone=zone))
        np.testing.assert_array_equal(table.timestamps, stamps(f"2024-06-01T{hour:02d}:00"))
        assert any(f"says CET; they are taken in {zone}, as asked for" in note for note in table.notes)


def test_days_are_not_moved_by_a_zone_in_the_name_of_their_column(tmp_path):
    table = read(tmp_path, ["2024-06-01", "2024-06-02"], name="date (EST)")
    np.testing.assert_array_equal(table.timestamps, stamps("2024-06-01", "2024-06-02"))
    table = read(tmp_path, ["2.6.2024", "2.6.2024 01:00"], name="date (EST)")  # midnight without its time of day
    np.testing.assert_array_equal(table.timestamps, stamps("2024-06-02T05:00", "2024-06-02T06:00"))


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("time (Europe/Berlin),A", "says 'Europe/Berlin', which is not used"),
        ("time (IST),A", "says 'IST', which is not used"),
        ("date (UTC),time (CET),A", "says 'CET', 'UTC', which is not used"),
    ],
)
def test_a_zone_in_the_name_of_a_column_that_is_not_used_is_said(tmp_path, header, said):
    row = "2024-07-01,10:00,5" if header.startswith("date") else "2024-07-01 10:00,5"
    (tmp_path / "r.csv").write_text("\n".join([header, row, row.replace("10", "11")]))
    assert any(said in note for note in io.read_readings(tmp_path / "r.csv").notes)
    asked = io.read_readings(tmp_path / "r.csv", recipe=io.Recipe(zone="+05:30")) if "IST" in header else None
    assert asked is None or not any("not used" in note for note in asked.notes)
