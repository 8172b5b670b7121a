"""Months, quarters and years as times, told from days, counters and names."""

from __future__ import annotations

import numpy as np
import pytest

from nareg import io
from nareg.errors import InputError
from tests.io.test_times import read

MONTHS = ("2023-11", "11/2023", "Nov 2023", "november 2023", "2023-Nov", "2023M11", "2023-M11")


@pytest.mark.parametrize("label", MONTHS)
def test_months_stand_for_their_first_day(tmp_path, label):
    later = {"11": "12", "Nov": "Dec", "november": "december"}
    word = next(word for word in later if word in label)
    readings = read(tmp_path, [label, label.replace(word, later[word])])
    assert readings.timestamps.astype("datetime64[D]").astype(str).tolist() == ["2023-11-01", "2023-12-01"]


@pytest.mark.parametrize("labels", [("2023Q4", "2024Q1"), ("2023-Q4", "2024-Q1"), ("Q4 2023", "Q1 2024")])
def test_quarters_stand_for_their_first_day(tmp_path, labels):
    readings = read(tmp_path, labels)
    assert readings.timestamps.astype("datetime64[D]").astype(str).tolist() == ["2023-10-01", "2024-01-01"]


def test_months_as_numbers_are_told_from_counters(tmp_path):
    months = [f"{year}{month:02}" for year in (2022, 2023) for month in range(1, 13)]
    readings = read(tmp_path, months)
    assert readings.timestamps[-1] == np.datetime64("2023-12-01")
    assert any("are read as months" in note for note in readings.notes)
    for header, rows in (("year,month,A", ["2023,1,5", "2023,2,6"]), ("Month,Year,A", ["Jan,2023,5", "Feb,2023,6"])):
        path = tmp_path / "parts.csv"
        path.write_text("\n".join([header, *rows]))
        assert io.read_readings(path).timestamps.astype("datetime64[D]").astype(str).tolist() == ["2023-01-01", "2023-02-01"]
    for numbers in ([str(n) for n in range(202_001, 202_013)], ["200101", "200102", "200110", "200403"]):
        assert read(tmp_path, numbers).timestamps.dtype.kind == "f"


@pytest.mark.parametrize("name", ["code", "batch"])
def test_months_are_no_times_beside_a_column_of_days(tmp_path, name):
    rows = [f"{month:02}/2020,2020-01-0{day},{10 * month + day}" for day in range(1, 6) for month in (1, 2, 3)]
    (tmp_path / "r.csv").write_text("\n".join([f"{name},when,temp", *rows]))
    readings = io.read_readings(tmp_path / "r.csv", recipe=io.Recipe(station=(name,)))
    assert readings.names == ("01/2020", "02/2020", "03/2020")
    np.testing.assert_array_equal(readings.values[1], [21, 22, 23, 24, 25])


@pytest.mark.parametrize("rest", ["week", "quarter", "hour_of_year"])
@pytest.mark.parametrize("of_year", ["year", "year,month"])
def test_years_and_months_with_the_rest_of_the_time_in_a_column_are_not_averaged(tmp_path, rest, of_year):
    keys = [f"{year},{month}" if "," in of_year else str(year) for year in (2020, 2021) for month in range(1, 3)]
    rows = [f"{key},{number},{number},{-number}" for key in keys for number in range(1, 6)]  # 5 is no quarter
    (tmp_path / "r.csv").write_text("\n".join([f"{of_year},{rest},A,B", *rows]))
    with pytest.raises(InputError, match="if a column has the rest of the time, by --time-column"):
        io.read_readings(tmp_path / "r.csv")


@pytest.mark.parametrize("header", ["year,week,station,temp", "month,n,station,temp"])
def test_years_and_months_of_stations_are_not_averaged_either(tmp_path, header):
    keys = ("2020", "2021") if header.startswith("year") else ("10/2020", "11/2020", "12/2020")
    rows = [f"{key},{week},{station},{week}" for key in keys for week in range(1, 53) for station in "ab"]
    (tmp_path / "r.csv").write_text("\n".join([header, *rows]))
    with pytest.raises(InputError, match="most times have several rows"):
        io.read_readings(tmp_path / "r.csv", recipe=io.Recipe(value="temp"))


def test_months_that_repeat_are_no_hour_of_autumn(tmp_path):
    """In Havana the clocks go back at midnight, as on the first of November 2020."""
    rows = [f"{month}/2020,{month}" for month in (10, 11, 11, 12)]
    (tmp_path / "r.csv").write_text("\n".join(["time,A", *rows[:2], "11/2020,13", rows[3]]))
    readings = io.read_readings(tmp_path / "r.csv")
    np.testing.assert_array_equal(readings.values, [[10, 12, 12]])
    assert not any("clocks" in note for note in readings.notes)


@pytest.mark.parametrize("form", ["{1:02}.{0}", "{0}.{1:02}", "{0}/{1:02}"])
def test_months_behind_points_are_no_decimal_numbers(tmp_path, form):
    readings = read(tmp_path, [form.format(year, month) for year in (2022, 2023) for month in range(1, 13)])
    np.testing.assert_array_equal(readings.timestamps, np.arange("2022-01", "2024-01", dtype="datetime64[M]"))


def test_columns_of_days_are_no_stations(tmp_path):
    """31 days of each month were 31 stations, of a reading a month."""
    days = {month: 30 if month in (4, 6, 9, 11) else 28 if month == 2 else 31 for month in range(1, 13)}
    header = ";".join(["Data", *(f"Vazao{day:02}" for day in range(1, 32))])
    rows = [
        ";".join([f"01/{month:02}/2023", *(str(day) if day <= last else "" for day in range(1, 32))])
        for month, last in days.items()
    ]
    (tmp_path / "r.csv").write_text("\n".join([header, *rows]))
    with pytest.raises(InputError, match=r"has a column per day of the month .*: write one row per day"):
        io.read_readings(tmp_path / "r.csv")
    stations = [row.replace(";;", ";7;").replace(";;", ";7;") + ("7" if row.endswith(";") else "") for row in rows]
    (tmp_path / "r.csv").write_text("\n".join([header.replace("Vazao", "S"), *stations]))
    assert len(io.read_readings(tmp_path / "r.csv").names) == 31


@pytest.mark.parametrize(("first", "last"), [(0, 40), (1, 31)])
def test_a_dead_station_31_makes_no_month_of_a_network(tmp_path, first, last):
    stations = range(first, last + 1)
    header = ";".join(["time", *(f"S{i:02}" for i in stations)])
    rows = [";".join([f"2024-01-{day:02}", *("" if i == 31 else "7" for i in stations)]) for day in range(1, 30)]
    (tmp_path / "r.csv").write_text("\n".join([header, *rows]))
    assert len(io.read_readings(tmp_path / "r.csv").names) == len(stations)


def test_months_of_years_of_two_digits(tmp_path):
    """Jan-18 was taken as evenly spaced, without a year; Jan-01 to Jan-31 are days."""
    months = [f"{name}{mark}{year}" for year, mark in (("98", "-"), ("99", " ")) for name in ("Jan", "Feb", "Mar", "Apr")]
    for header in ("time,A", "Month,A"):
        path = tmp_path / "r.csv"
        path.write_text("\n".join([header, *(f"{month},{k}" for k, month in enumerate(months))]))
        stamps = io.read_readings(path).timestamps.astype("datetime64[M]").astype(str).tolist()
        assert stamps == [f"{year}-0{month}" for year in (1998, 1999) for month in (1, 2, 3, 4)]
    with pytest.raises(InputError, match="'Jan-01' may be a day or a month of a year"):
        read(tmp_path, [f"{name}-{day:02}" for name in ("Jan", "Feb") for day in range(1, 29)])


@pytest.mark.parametrize("form", ["{}", "Q{}"])
def test_quarters_beside_years(tmp_path, form):
    """They were refused, or taken as stations; by --time-column 2004, 1 was a year and a day of it."""
    rows = [f"{year},{form.format(q)},{s},{year + q}" for year in (2004, 2005) for q in (1, 2, 3, 4) for s in "AB"]
    (tmp_path / "r.csv").write_text("\n".join(["year,quarter,station,temp", *rows]))
    for recipe in (None, io.Recipe(time=("year", "quarter"))):
        table = io.read_readings(tmp_path / "r.csv", recipe=recipe)
        months = table.timestamps.astype("datetime64[M]").astype(str).tolist()
        assert months == [f"{year}-{month:02}" for year in (2004, 2005) for month in (1, 4, 7, 10)]
        np.testing.assert_array_equal(table.values, [[y + q for y in (2004, 2005) for q in (1, 2, 3, 4)]] * 2)


def test_weeks_beside_years_are_no_days_of_them(tmp_path):
    (tmp_path / "r.csv").write_text("year,week,A\n2020,52,1\n2020,53,2\n2021,1,3\n2021,2,4\n")
    table = io.read_readings(tmp_path / "r.csv", recipe=io.Recipe(time=("year", "week")))
    days = table.timestamps.astype("datetime64[D]").astype(str).tolist()
    assert days == ["2020-12-21", "2020-12-28", "2021-01-04", "2021-01-11"]
    assert any("ISO 8601" in note for note in table.notes)


def test_names_such_as_oct_12_are_no_dates(tmp_path):
    """Such wells were refused as no numbers, and the row of Jan 9 was taken as a header above that of Jan 10."""
    rows = [f"{well},2024-05-01 {h:02}:00,{h}.5" for h in range(20) for well in ("Oct-12", "Mar 07")]
    (tmp_path / "r.csv").write_text("\n".join(["borehole,when,level", *rows]))
    assert io.read_readings(tmp_path / "r.csv").names == ("Oct-12", "Mar 07")
    rows = [f"Jan {day}, 2024 10:00 AM;{day};2" for day in range(1, 30)]
    (tmp_path / "r.csv").write_text("\n".join(["time;A;B", *rows]))
    np.testing.assert_array_equal(io.read_readings(tmp_path / "r.csv").values[0], range(1, 30))
    with pytest.raises(InputError, match="'Jan 05' may be a day or a month of a year"):  # whose years would go back
        read(tmp_path, ["Jan 05", "Feb 09", "Mar 14", "Apr 02"])


@pytest.mark.parametrize("dates", ["2024-{0:02}-{1:02}", "{1:02}/{0:02}/2024"])
def test_a_sensor_31_that_is_often_dead_makes_no_month_of_days(tmp_path, dates):
    names = [f"S{i:02}" for i in range(1, 32)]
    rows = [
        ",".join([dates.format(month, day), *("" if name == "S31" and day % 2 else "7" for name in names)])
        for month in (1, 2, 3) for day in range(1, 29)
    ]  # fmt: skip
    (tmp_path / "r.csv").write_text("\n".join([",".join(["date", *names]), *rows]))
    assert io.read_readings(tmp_path / "r.csv").names == (*names,)
    rows = [
        ",".join([dates.format(month, 1), *("" if k == 30 and month > 6 else "7" for k in range(31))]) for month in range(1, 13)
    ]
    (tmp_path / "r.csv").write_text("\n".join([",".join(["date", *names]), *rows]))  # one that is read on the 31st of April
    assert io.read_readings(tmp_path / "r.csv").names == (*names,)


@pytest.mark.parametrize(("keys", "number"), [("year", 20), ("year,month", 12)])
def test_stations_with_numbers_are_no_months(tmp_path, keys, number):
    dates = [f"{year},1" if "," in keys else str(year) for year in range(1990, 2000)]
    rows = [date + ",5" * number for date in dates]
    (tmp_path / "r.csv").write_text("\n".join([",".join([keys, *map(str, range(1, number + 1))]), *rows]))
    assert len(io.read_readings(tmp_path / "r.csv").names) == number


@pytest.mark.parametrize(
    "months",
    [
        "1 janv. 2024|2 févr. 2024|3 août 2024|4 déc. 2024",
        "1. Januar 2024|2. Feb. 2024|3. August 2024|4. Dezember 2024",
        "01-Jan-2024|02-Feb-2024|03-Aug-2024|04-Dez-2024",
        "1 de enero de 2024|2 de febrero de 2024|3 de agosto de 2024|4 de diciembre de 2024",
        "1 jan 2024|2 fev 2024|3 ago 2024|4 dez 2024",
        "1 gen 2024|2 feb 2024|3 ago 2024|4 dic 2024",
        "maandag 1 januari 2024|2 februari 2024|3 augustus 2024|4 december 2024",
    ],
)
def test_months_of_seven_languages(tmp_path, months):
    """Their rows were taken as evenly spaced, or no column had times."""
    rows = [f"{label};{k};{k}" for k, label in enumerate(months.split("|"))]
    (tmp_path / "r.csv").write_text("\n".join(["Datum;A;B", *rows]), encoding="utf-8")
    expected = np.array(["2024-01-01", "2024-02-02", "2024-08-03", "2024-12-04"], dtype="datetime64[ns]")
    np.testing.assert_array_equal(io.read_readings(tmp_path / "r.csv").timestamps, expected)
