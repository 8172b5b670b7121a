"""Times: what labels mean, their order, repetitions and zones."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nareg import io
from nareg.errors import InputError
from nareg.io._dates import parse
from nareg.io._vocabulary import SENTINELS


def read(tmp_path, labels, *, strict=False, name="time", separator=","):
    path = tmp_path / "r.csv"
    rows = [separator.join([str(label), str(i)]) for i, label in enumerate(labels)]
    path.write_text("\n".join([f"{name}{separator}A", *rows]), encoding="utf-8")
    return io.read_readings(path, strict=strict)


def stamps(*texts):
    return np.array(texts, "datetime64[ns]")


@pytest.mark.parametrize(
    "label",
    ["2024-03-04 05:06", "2024-03-04T05:06:00", "2024-03-04T05:06Z", "2024-03-04 06:06+01:00", "2024-03-04T00:06:00.000-0500"],
)
def test_iso_needs_no_guess(tmp_path, label):
    table = read(tmp_path, [label], strict=True)
    np.testing.assert_array_equal(table.timestamps, stamps("2024-03-04T05:06"))
    assert table.times == (label,)
    assert table.zone == (None if label.endswith(("05:06", "06:00")) else "UTC")


def test_numbers_stay_numbers(tmp_path):
    for labels in (["0", "1", "2.5"], ["2014", "2015"], ["-1.5", "0", "7"]):
        table = read(tmp_path, labels, strict=True)
        assert table.timestamps.dtype == np.float64
        np.testing.assert_array_equal(table.timestamps, np.array(labels, dtype=float))
        assert table.zone is None
    np.testing.assert_array_equal(read(tmp_path, ["0,5", "1"], separator=";").timestamps, [0.5, 1.0])


@pytest.mark.parametrize(
    ("labels", "words", "expected"),
    [
        (["1704067200", "1704067800"], "seconds since 1970", ("2024-01-01T00:00", "2024-01-01T00:10")),
        (["1704067200000", "1704067200001"], "milliseconds", ("2024-01-01T00:00", "2024-01-01T00:00:00.001")),
        (["1704067200.5"], "seconds", ("2024-01-01T00:00:00.5",)),
        (["1704067200000000123"], "nanoseconds", ("2024-01-01T00:00:00.000000123",)),
        (["20240101", "20240102"], "read as dates", ("2024-01-01", "2024-01-02")),
        (["202401012330", "202401020000"], "read as dates", ("2024-01-01T23:30", "2024-01-02")),
        (["2024010123", "2024010200"], "read as dates", ("2024-01-01T23:00", "2024-01-02")),
        (
            ["45292", "45292.04167", "45292.0833333"],
            "a spreadsheet's days",
            ("2024-01-01T00:00", "2024-01-01T01:00", "2024-01-01T02:00"),
        ),
    ],
)
def test_numbers_that_are_times(tmp_path, labels, words, expected):
    table = read(tmp_path, labels)
    np.testing.assert_array_equal(table.timestamps, stamps(*expected))
    assert words in table.notes[0]
    assert table.times == tuple(labels)
    with pytest.raises(InputError, match="write times as 2024-01-31 10:00"):
        read(tmp_path, labels, strict=True)


def test_days_of_a_spreadsheet_are_told_from_other_numbers(tmp_path):
    """Whole days need a column that says so, fractions of a day a time to the minute."""
    for labels in (["45292", "45293"], ["45292.1", "45292.12345"]):
        table = read(tmp_path, labels)
        np.testing.assert_array_equal(table.timestamps, np.array(labels, dtype=float))
        assert "if they are a spreadsheet's days, write times as 2024-01-31 10:00" in table.notes[0]
    table = read(tmp_path, ["45292", "45293"], name="Date")
    np.testing.assert_array_equal(table.timestamps, stamps("2024-01-01", "2024-01-02"))


@pytest.mark.parametrize(
    ("labels", "words", "expected"),
    [
        (["13/04/2024", "14/04/2024"], "day first, as '13/04/2024' shows", ("2024-04-13", "2024-04-14")),
        (["04/12/2024", "04/13/2024"], "month first, as '04/13/2024' shows", ("2024-04-12", "2024-04-13")),
        (["01/02/2024", "02/02/2024", "03/02/2024"], "day first, which gives", ("2024-02-01", "2024-02-02", "2024-02-03")),
        (["02/01/2024", "02/02/2024", "02/03/2024"], "month first, which gives", ("2024-02-01", "2024-02-02", "2024-02-03")),
        (["03.04.2024 10:30"], "day first, as in most", ("2024-04-03T10:30",)),
        (["3/4/24 1:05 PM"], "month first", ("2024-03-04T13:05",)),
        (["3/4/24 12:05a", "3/4/24 1:05p"], "month first", ("2024-03-04T00:05", "2024-03-04T13:05")),
        (["31-12-1999 24:00"], "day first", ("2000-01-01",)),
    ],
)
def test_the_whole_column_decides_on_day_and_month(tmp_path, labels, words, expected):
    table = read(tmp_path, labels)
    np.testing.assert_array_equal(table.timestamps, stamps(*expected))
    assert words in table.notes[0]
    with pytest.raises(InputError, match=r"pass --dates (day|month)-first"):
        read(tmp_path, labels, strict=True)


def test_surveys_on_the_fifth_of_some_months_are_not_days_of_one(tmp_path):
    for month in (3, 4, 5):
        times = [f"05/{month:02}/2024 {hour:02}:00" for hour in range(0, 24, 6)]
        pd.DataFrame({"A": range(4), "B": range(4)}, times).to_csv(tmp_path / f"{month}.csv", index_label="time")
    table = io.read_readings(sorted(tmp_path.glob("*.csv")))
    assert sorted({str(time)[:10] for time in table.timestamps}) == ["2024-03-05", "2024-04-05", "2024-05-05"]
    assert any("--dates" in note for note in table.notes)


@pytest.mark.parametrize(
    ("first", "days", "form", "words"),
    [
        ("2025-06-10", 5, "%m/%d/%Y %H:%M", "month first"),  # two of the files show it
        ("2025-06-10", 5, "%d/%m/%Y %H:%M", "day first"),
    ],
)
def test_all_files_decide_on_day_and_month(tmp_path, first, days, form, words):
    """A file of one of the first twelve days was read day first, months from the others."""
    files = []
    for day in pd.date_range(first, periods=days):
        files.append(tmp_path / f"{day:%Y%m%d}.csv")
        times = pd.date_range(day, periods=4, freq="6h")
        pd.DataFrame({"A": times.day, "B": times.hour}, times.strftime(form)).to_csv(files[-1], index_label="time")
    table = io.read_readings(files)
    times = pd.date_range(first, periods=4 * days, freq="6h")
    np.testing.assert_array_equal(table.timestamps, times)
    np.testing.assert_array_equal(table.values, [times.day, times.hour])
    assert any(f"dates are read {words}, as all files together show" in note for note in table.notes)
    seen = io.inspect(files)
    np.testing.assert_array_equal(np.unique(seen.times), times)
    assert seen.recipe.dates == words.replace(" ", "-")


def test_day_and_month_in_both_orders_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"'13/04/2024' \(line 2\) has the day first and '04/13/2024' \(line 3\) the month"):
        read(tmp_path, ["13/04/2024", "04/13/2024"])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [(["01.07.24 10.30", "13.07.24 11.30"], ("2024-07-01T10:30", "2024-07-13T11:30")),
     (["2024-07-01 10.30.15"], ("2024-07-01T10:30:15",)),
     (["Mon Jul  1 10:00:00 2024", "Mon Jul  1 11:00:00 2024"], ("2024-07-01T10:00", "2024-07-01T11:00")),
     (["Mon Jul 01 10:00:00 CEST 2024"], ("2024-07-01T08:00",)),
     (["Mon Jan  1 10:00:00 UTC 2024"], ("2024-01-01T10:00",)),
     (["Mon 01.07.2024 10:00", "Sat 13.07.2024 11:00"], ("2024-07-01T10:00", "2024-07-13T11:00")),
     (["lun. 2024-07-01 10:00"], ("2024-07-01T10:00",))],
)  # fmt: skip
def test_clocks_with_points_and_the_year_behind(tmp_path, labels, expected):
    """They were no times: rows were taken as evenly spaced."""
    np.testing.assert_array_equal(read(tmp_path, labels).timestamps, stamps(*expected))


def test_words_before_a_date_are_days_of_the_week_alone():
    """Any word that begins like one was one, and a title above the header a row of readings."""
    assert [parse(f"{word} 01.07.2024") for word in ("from", "Download", "Sonde", "maximum")] == [None] * 4
    for word in ["MONDAY", "Mo.", "Montag,", "lun", "Dienstag", "mié.", "sábado", "zaterdag", "dimanche", "mercoledì", "Thurs"]:
        assert parse(f"{word} 01.07.2024") == parse("01.07.2024")


@pytest.mark.parametrize("hours", [("9.25", "10.50"), ("9.00", "10.25"), ("9.50", "10.50")])
def test_quarters_of_hours_are_no_minutes(tmp_path, hours):
    path = tmp_path / "r.csv"
    path.write_text("date,hour,A\n2024-01-01,{},5\n2024-01-02,{},9\n".format(*hours))
    assert io.read_readings(path).names == ("hour", "A")


def test_a_town_is_no_clock(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("date,Bolzano,Ora\n2024-01-01,3,5\n2024-01-02,4,9\n")
    assert io.read_readings(path).names == ("Bolzano", "Ora")


@pytest.mark.parametrize(
    "label", ["5 Jan 2024 10:00", "Jan 5, 2024 10:00 AM", "2024/1/5 10:00", "Fri, 05-January-2024 10:00:00"]
)
def test_names_of_months(tmp_path, label):
    assert read(tmp_path, [f'"{label}"']).timestamps[0] == stamps("2024-01-05T10:00")[0]


DATES = ["2024-07-0{} 10:00", "1.7.2024 1{}:00:00", "Jul {} 2024 10:00 AM", "2024-07-01T1{}:00"]


def test_a_frame_may_count_time_from_its_start():
    frame = pd.DataFrame({"A": [1.0, 2.0]}, index=pd.to_timedelta([0, 90], unit="min"))
    np.testing.assert_array_equal(io.readings_from_frame(frame, strict=True).timestamps, [0.0, 5400.0])


def test_labels_that_are_no_times(tmp_path):
    for labels in (["t0", "t1", "t0"], ["10:00", "10:10"], ["", ""]):
        table = read(tmp_path, labels)
        assert table.timestamps is None
        assert table.times == tuple(labels)
        assert "rows are taken as evenly spaced" in table.notes[0]
        with pytest.raises(InputError, match="or as numbers"):
            read(tmp_path, labels, strict=True)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["2024-01-01", "2024-01-02", "noon"], "line 4, column 'time': 'noon' is not a time like '2024-01-01'"),
        (["2024-01-01", "2024-01-02", ""], "line 4, column 'time': the row has no time; correct it or drop the row"),
        (["0", "1", "nan"], "line 4, column 'time': 'nan' is not a time like '0'"),
        (["2024-01-01", "2024-02-30"], "line 3, column 'time': '2024-02-30' is not a date between"),
        (["2024-01-01", "1500-01-01"], "line 3, column 'time': '1500-01-01' is not a date between the years 1678 and 2261"),
        (["2024-01-01", "2024-01-02", "7"], "line 4, column 'time': '7' is not a time like"),
    ],
)
def test_a_label_unlike_the_others_is_refused(tmp_path, labels, words):
    with pytest.raises(InputError, match=words):
        read(tmp_path, labels)


def test_times_are_sorted_with_their_labels(tmp_path):
    labels = ["2024-01-03", "2024-01-01", "2024-01-02"]
    table = read(tmp_path, labels)
    assert table.times == ("2024-01-01", "2024-01-02", "2024-01-03")
    np.testing.assert_array_equal(table.values, [[1, 2, 0]])
    assert "times do not increase (1 step back) and are sorted" in table.notes[0]
    with pytest.raises(InputError, match="sort the rows by time"):
        read(tmp_path, labels, strict=True)
    np.testing.assert_array_equal(read(tmp_path, ["5", "2", "2"]).values, [[1.5, 0]])


def test_rows_of_one_time_are_averaged_over_what_was_read(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("time,A,B,C\n2024-01-01,1,,\n2024-01-01 00:00,2,5,\n2024-01-02,3,4,6\n2024-01-01,6,,\n")
    table = io.read_readings(path)
    np.testing.assert_array_equal(table.values, [[3, 3], [5, 4], [np.nan, 6]])
    assert table.times == ("2024-01-01", "2024-01-02")
    assert "2 rows repeat the time of another" in table.notes[1]
    path.write_text("time,A\n2024-01-01,1\n2024-01-01,2\n")
    with pytest.raises(InputError, match="keep one row per time"):
        io.read_readings(path, strict=True)


#: Numbers such as 999.0 may stand for a missing reading, as tests/io/test_missing.py says.
READINGS = st.floats(-1e3, 1e3).filter(lambda value: value not in SENTINELS) | st.just(np.nan)


@given(st.lists(st.tuples(st.integers(0, 9), READINGS), min_size=1, max_size=40))
@settings(max_examples=60)
@pytest.mark.slow
def test_merging_is_pandas_mean_by_time(rows):
    frame = pd.DataFrame({"time": [float(t) for t, _ in rows], "A": [v for _, v in rows], "B": 1.0})
    table = io.readings_from_frame(frame)
    expected = frame.groupby("time").mean()
    np.testing.assert_array_equal(table.timestamps, expected.index)
    np.testing.assert_allclose(table.values, expected.to_numpy().T, rtol=1e-12)


@given(st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1)))
@settings(max_examples=100)
def test_every_way_to_write_a_date_is_the_same(moment):
    moment = moment.replace(microsecond=0)
    expected = int(np.datetime64(moment, "ns").astype(np.int64))
    for form in ("%Y-%m-%d %H:%M:%S", "%Y/%m/%dT%H:%M:%S", "%Y%m%d%H%M%S", "%d %B %Y %I:%M:%S %p", "%b %d, %Y %H:%M:%S"):
        # strftime does not fill up years before 1000, which are not here
        assert parse(moment.strftime(form)).nanoseconds() == expected
    assert parse(moment.strftime("%d.%m.%Y %H:%M:%S")).nanoseconds(day_first=True) == expected
    assert parse(moment.strftime("%m/%d/%Y %H:%M:%S")).nanoseconds(day_first=False) == expected
    assert parse(moment.strftime("%Y-%m-%d %H:%M:%S+05:30")).nanoseconds() == expected - 330 * 60 * 10**9


def test_labels_are_written_back_as_they_were(tmp_path):
    table = read(tmp_path, ["2/1/2024", "13/1/2024"])
    io.write_readings(tmp_path / "out.csv", table)
    assert (tmp_path / "out.csv").read_text() == "time,A\n2/1/2024,0.0\n13/1/2024,1.0\n"


def test_rows_of_many_times_need_no_regular_expression(tmp_path):
    index = pd.date_range("2024-01-01", periods=3000, freq="min", tz="UTC")
    table = read(tmp_path, index.astype(str), strict=True)
    np.testing.assert_array_equal(table.timestamps, index.tz_localize(None).to_numpy().astype("datetime64[ns]"))


def test_dates_further_apart_than_nanoseconds_reach(tmp_path):
    """Their difference overflows 64 bits after 292 years."""
    rows = "1700-01-01,1\n2200-06-30,3\n1700-01-02,2\n"
    (tmp_path / "r.csv").write_text("time,a\n" + rows)
    table = io.read_readings(tmp_path / "r.csv")
    assert table.values.tolist() == [[1, 2, 3]]
    assert any("1 step back" in note for note in table.notes)


@pytest.mark.parametrize(
    ("labels", "first", "said"),
    [
        (["240201000000", "240201010000"], "2024-02-01T00:00", "as dates whose years have two digits (2024)"),
        (["991231230000", "991231233000"], "1999-12-31T23:00", "as dates whose years have two digits (1999)"),
        (["2402011230", "2402011240"], "2024-02-01T12:30", "as dates whose years have two digits (2024)"),
        (["202402010000", "202402010010"], "2024-02-01T00:00", "as dates"),
        (["946684800000", "946688400000"], "2000-01-01T00:00", "as milliseconds since 1970, UTC"),
        (["1704067200", "1704070800"], "2024-01-01T00:00", "as seconds since 1970, UTC"),
    ],
)
def test_years_of_two_digits_are_no_milliseconds(tmp_path, labels, first, said):
    """240201000000 was a day of 1977."""
    table = read(tmp_path, labels)
    assert table.timestamps[0] == np.datetime64(first)
    assert [note.endswith(f"such as {labels[0]} are read {said}.") for note in table.notes] == [True]
    with pytest.raises(InputError):
        read(tmp_path, labels, strict=True)


def test_dates_are_read_rather_than_seconds(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("time,timestamp,A,B\n2018-09-05T21:00Z,1536181200,1,2\n2018-09-05T22:00Z,1536184800,3,4\n")
    table = io.read_readings(path, ["A", "B"])
    assert table.times[0] == "2018-09-05T21:00Z"
    assert not any("seconds since 1970" in note for note in table.notes)


def table_of(tmp_path, header, rows, **entries):
    text = [f"{header},A,B,C", *(f"{row},{i},{i + 1},{i + 2}" for i, row in enumerate(rows))]
    (tmp_path / "r.csv").write_text("\n".join(text))
    table = io.read_readings(tmp_path / "r.csv", recipe=io.Recipe(**entries))
    assert table.names == ("A", "B", "C")
    assert table.values[0].tolist() == list(range(len(rows)))
    return table


@pytest.mark.parametrize("header", ["date,time", "Date,hour", "date,hhmm", "DATE,HHMM"])
@pytest.mark.parametrize("date", ["20240601", "2024-06-01", "01.06.2024"])
def test_a_time_of_day_without_a_colon_beside_a_date(tmp_path, header, date):
    for clocks in (("0030", "0930", "2400"), ("30", "930", "2400"), ("003000", "093000", "240000")):
        table = table_of(tmp_path, header, [f"{date},{clock}" for clock in clocks])
        np.testing.assert_array_equal(table.timestamps, stamps("2024-06-01T00:30", "2024-06-01T09:30", "2024-06-02"))


@pytest.mark.parametrize(
    ("header", "rows", "expected", "entries"),
    [
        ("date,time", ["20240601,1", "20240601,24"], ("2024-06-01T01", "2024-06-02"), {}),
        ("date,time", ["20240601,9:30", "20240601,10:30"], ("2024-06-01T09:30", "2024-06-01T10:30"), {}),
        ("d,hm", ["20240601,30", "20240601,1030"], ("2024-06-01T00:30", "2024-06-01T10:30"), {"time": ("d", "hm")}),
        ("year,month,day,hhmm", ["2024,6,1,30", "2024,6,1,930"], ("2024-06-01T00:30", "2024-06-01T09:30"), {}),
        ("date,time,ampm", ["2024-06-01,9:30,AM", "2024-06-01,12:30,PM"], ("2024-06-01T09:30", "2024-06-01T12:30"), {}),
        ("date,time", ["6/1/2024,12:30a", "6/13/2024,1:05p"], ("2024-06-01T00:30", "2024-06-13T13:05"), {}),
        ("time,AM/PM", ["6/1/2024 12:05,a.m.", "6/13/2024 9:30,p.m."], ("2024-06-01T00:05", "2024-06-13T21:30"), {}),
        ("Data,Ora", ["01/06/2024,9.30", "13/06/2024,10.00"], ("2024-06-01T09:30", "2024-06-13T10:00"), {}),
        ("d,t,h", ["2024-06-01,9:30,am", "2024-06-01,9:30,pm"], ("2024-06-01T09:30", "2024-06-01T21:30"),
         {"time": ("d", "t", "h")}),
    ],
)  # fmt: skip
def test_times_in_parts(tmp_path, header, rows, expected, entries):
    np.testing.assert_array_equal(table_of(tmp_path, header, rows, **entries).timestamps, stamps(*expected))


@pytest.mark.parametrize(
    ("header", "rows", "expected", "entries"),
    [
        ("year,doy", ["2024,153", "2024,366"], ("2024-06-01", "2024-12-31"), {}),
        ("year,doy", ["2024,153.25", "2024,154.5"], ("2024-06-01T06", "2024-06-02T12"), {}),
        ("year,doy,hour", ["2024,1,0", "2024,1,13"], ("2024-01-01T00", "2024-01-01T13"), {}),
        ("Year,DOY,HHMM", ["2023,152,30", "2023,152,2400"], ("2023-06-01T00:30", "2023-06-02"), {}),
        ("yr,jday,hr,mn", ["2024,153,0,5", "2024,153,13,10"], ("2024-06-01T00:05", "2024-06-01T13:10"), {}),
        ("year,day_of_year,time", ["2024,153,9:30", "2024,153,10:30"], ("2024-06-01T09:30", "2024-06-01T10:30"), {}),
        ("time", ["2024-153", "2024-154"], ("2024-06-01", "2024-06-02"), {}),
        ("date", ["2024-153 10:00", "2024-154T11:30"], ("2024-06-01T10", "2024-06-02T11:30"), {}),
        ("date,hour", ["2024-153,1", "2024-153,2"], ("2024-06-01T01", "2024-06-01T02"), {}),
        ("doy", ["2024153", "2024154"], ("2024-06-01", "2024-06-02"), {}),
        ("yyyy-doy", ["2024-153", "2024-154"], ("2024-06-01", "2024-06-02"), {}),
        ("t", ["2024153", "2024154"], ("2024-06-01", "2024-06-02"), {"time": "t"}),
        ("yr,jul,hm", ["2024,153,930", "2024,154,1030"], ("2024-06-01T09:30", "2024-06-02T10:30"),
         {"time": ("yr", "jul", "hm")}),
    ],
)  # fmt: skip
def test_days_of_the_year(tmp_path, header, rows, expected, entries):
    table = table_of(tmp_path, header, rows, **entries)
    np.testing.assert_array_equal(table.timestamps, stamps(*expected))
    assert any("a year and a day of it" in note for note in table.notes)


def test_numbers_that_may_be_days_of_the_year_are_no_dates_by_themselves(tmp_path):
    assert read(tmp_path, ["2024153", "2024154"]).timestamps.tolist() == [2024153, 2024154]
    read(tmp_path, ["1900800", "1904400"])  # seconds, in a column that a recipe names
    assert io.read_readings(tmp_path / "r.csv", recipe=io.Recipe(time="time")).timestamps.tolist() == [1900800, 1904400]
    with pytest.raises(InputError, match="line 4, column 'year': '2023-366' is not a time like '2023-01-01'"):
        table_of(tmp_path, "year,doy", ["2023,1", "2023,2", "2023,366"])
    with pytest.raises(InputError, match="line 4, column 'year': '2023-13-01 00:00:00' is not a time like"):
        table_of(tmp_path, "year,month,day", ["2023,1,1", "2023,2,1", "2023,13,1"])


def test_a_day_of_the_year_beside_dates_is_no_station(tmp_path):
    table = table_of(tmp_path, "date,doy", ["2024-06-01,153", "2024-06-02,154"])
    assert any("1 more column of times left out: 'doy'" in note for note in table.notes)


@pytest.mark.parametrize(
    "label", ["01-Jul-24 13:00", "01-Jul-24 01:00:00 PM", "1/jul/2024 13:00:00", "01-Juli-24 13:00", "01-Jux-24 13:00"]
)
def test_days_and_names_of_months_with_short_years(tmp_path, label):
    """Their rows were taken as evenly spaced."""
    text = f"time,A,B\n{label},1,2\n{label.replace('1', '2', 1)},3,4\n"
    (tmp_path / "r.csv").write_text(text)
    stamps = io.read_readings(tmp_path / "r.csv").timestamps
    expected = None if "Jux" in label else np.array(["2024-07-01T13", "2024-07-02T13"], dtype="datetime64[ns]")
    np.testing.assert_array_equal(stamps, expected)


def test_a_column_has_the_offset_of_each_time(tmp_path):
    """It was left out, and times of stations in different zones were hours apart."""
    for header, rows in (
        ("time,timezone,station,value", ["2024-07-01 10:00,+01:00,A,5", "2024-07-01 11:00,+02:00,B,6"]),
        ("time,tz,station,value", ["2024-07-01 11:00,CEST,A,5", "2024-07-01 09:00,UTC,B,6"]),
        ("time,tz,A,B", ["2024-07-01 11:00,CEST,5,6"]),
    ):
        (tmp_path / "r.csv").write_text("\n".join([header, *rows]))
        table = io.read_readings(tmp_path / "r.csv")
        assert (table.names, table.zone) == (("A", "B"), "UTC")
        assert [str(time)[:16] for time in table.timestamps] == ["2024-07-01T09:00"]
        np.testing.assert_array_equal(table.values, [[5], [6]])
        assert [str(time)[:16] for time in np.unique(io.inspect(tmp_path / "r.csv").times)] == ["2024-07-01T09:00"]
    rows = ["2024-07-01 10:00,Europe/Lisbon,A,5", "2024-07-01 11:00,Europe/Berlin,B,6"]
    (tmp_path / "r.csv").write_text("\n".join(["time,timezone,station,value", *rows]))
    with pytest.raises(InputError, match=r"column 'timezone' names 2 zones .* write the offset behind each time"):
        io.read_readings(tmp_path / "r.csv")
    (tmp_path / "r.csv").write_text("\n".join(["time,timezone,station,value", rows[0], rows[0].replace("10", "11")]))
    assert io.read_readings(tmp_path / "r.csv").zone is None  # one zone, whose times are in order


def test_columns_of_months_are_no_stations(tmp_path):
    months = "Jan,Feb,Mar,Apr,May,Jun,Jul,Aug,Sep,Oct,Nov,Dec"
    for header, key in (("year", ""), ("station,year", "A,")):
        rows = [f"{key}{year}," + ",".join("123456789012") for year in range(1990, 2000)]
        (tmp_path / "r.csv").write_text("\n".join([f"{header},{months}", *rows]))
        with pytest.raises(InputError, match=r"has a column per month .*: write one row per month"):
            io.read_readings(tmp_path / "r.csv")


def test_a_thirteenth_month_is_refused(tmp_path):
    (tmp_path / "r.csv").write_text("\n".join(["year,month,A", *(f"2020,{month},5" for month in range(1, 14))]))
    with pytest.raises(InputError, match="'2020-13' is not a time like '2020-01'"):
        io.read_readings(tmp_path / "r.csv")


def test_a_column_called_year_without_years_is_no_time():
    frame = pd.DataFrame({"A": [1.0, 2.0, 3.0], "yr": [0.5, 1.5, -2.5]})
    assert io.readings_from_frame(frame).names == ("A", "yr")


def test_weeks_of_pandas_stand_for_their_first_day():
    frame = pd.DataFrame({"A": range(5)}, pd.period_range("2015-01-05", periods=5, freq="W"))
    readings = io.readings_from_frame(frame)
    np.testing.assert_array_equal(readings.timestamps, np.datetime64("2015-01-05") + 7 * np.arange(5))


def test_columns_of_years_and_months_may_be_decimal_numbers(tmp_path):
    (tmp_path / "r.csv").write_text("year,month,A\n2022.0,1.0,5\n2022.0,2.0,6")
    frame = pd.DataFrame({"year": [2022, 2022], "month": [1, 2], "A": [5.0, 6.0]})
    for readings in (io.read_readings(tmp_path / "r.csv"), io.readings_from_frame(frame)):
        np.testing.assert_array_equal(readings.timestamps, np.arange("2022-01", "2022-03", dtype="datetime64[M]"))
        assert readings.names == ("A",)


def test_hours_that_say_their_zone_are_times_of_day(tmp_path):
    """The agency of Brazil writes 0300 UTC beside a date: 24 readings of a day were averaged."""
    rows = [f"2024/01/{1 + t // 24:02};{t % 24:02}00 UTC;{t},5" for t in range(30)]
    (tmp_path / "A001.csv").write_text("\n".join(["Data;Hora UTC;TEMPERATURA (°C)", *rows]))
    readings = io.read_readings(tmp_path / "A001.csv")
    np.testing.assert_array_equal(readings.values, [np.arange(30) + 0.5])
    assert str(readings.timestamps[-1])[:16] == "2024-01-02T05:00"
    assert readings.times[0].endswith(("UTC", "Z", "+00:00"))
