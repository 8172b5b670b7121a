"""Wide tables: a column of times, then a column per station, in whatever dialect."""

from __future__ import annotations

import csv
import io as texts

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nareg import io
from nareg.errors import InputError
from nareg.io._vocabulary import SENTINELS

ROWS = [["2024-01-01 00:00", "1.5", "2"], ["2024-01-01 00:10", "2.5", ""]]
VALUES = [[1.5, 2.5], [2.0, np.nan]]


def read(tmp_path, text, *arguments, **options):
    path = tmp_path / "r.csv"
    path.write_text(text, encoding="utf-8")
    return io.read_readings(path, *arguments, **options)


@pytest.mark.parametrize("top", ["# Export, temperature in °C, 2025\n", "\n#one\n  # two, three\n", "#", "# ", "#one\n# "])
def test_comments_before_the_header_are_left_out(tmp_path, top):
    # what np.savetxt writes has its header behind a "#"
    table = read(tmp_path, top + "time,A,B\n" + "\n".join(map(",".join, ROWS)))
    np.testing.assert_array_equal(table.values, VALUES)
    assert table.names == ("A", "B")
    assert any("of comments before the header" in note for note in table.notes) == ("\n" in top)
    line = top.count("\n") + 2
    with pytest.raises(InputError, match=rf"line {line}\b"):
        read(tmp_path, top + "time,A,B\n2024-01-01 00:10,1,2,3\n")


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize(
    "header", ["time", "Time", "DateTime", "date time", "timestamp", "Date", "", "Time (UTC)", "Unnamed: 0"]
)
def test_separators_and_names_of_the_time_column(tmp_path, separator, header):
    text = "\n".join(separator.join(row) for row in [[header, "A", "B"], *ROWS])
    table = read(tmp_path, text)
    np.testing.assert_array_equal(table.values, VALUES)
    assert table.names == ("A", "B")
    offset = "+00:00" if "UTC" in header else ""
    assert table.times == (f"2024-01-01 00:00{offset}", f"2024-01-01 00:10{offset}")
    np.testing.assert_array_equal(table.timestamps, np.array(["2024-01-01T00:00", "2024-01-01T00:10"], "datetime64[ns]"))
    assert len(table.notes) == (separator != ",") + ("UTC" in header)
    if separator == ",":
        assert len(read(tmp_path, text, strict=True).notes) == ("UTC" in header)
    else:
        with pytest.raises(InputError, match=r"the separator must be a comma .*the header is"):
            read(tmp_path, text, strict=True)


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_decimal_commas(tmp_path, separator):
    text = "\n".join(separator.join(row).replace(".", ",") for row in [["time", "A", "B"], *ROWS])
    table = read(tmp_path, text)
    np.testing.assert_array_equal(table.values, VALUES)
    assert any("'1,5' are read with a decimal comma" in note for note in table.notes)


def test_a_point_beside_a_decimal_comma_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"line 2, column 'A': '1,5' has a comma where line 3, column 'B' has a point"):
        read(tmp_path, "time;A;B\n2024-01-01;1,5;2\n2024-01-02;2;1.234\n")
    with pytest.raises(InputError, match=r"line 3, column 'A': '1,234' holds a comma; write a decimal point"):
        read(tmp_path, 'time,A\n2024-01-01,1\n2024-01-02,"1,234"\n')


def test_separators_in_quoted_names_and_at_the_ends_of_lines(tmp_path):
    table = read(tmp_path, 'time,"A, north","B ""x"""\n2024-01-01,1,2\n')
    assert table.names == ("A, north", 'B "x"')
    table = read(tmp_path, "time,A,B,\n2024-01-01,1,2,\n")
    assert table.names == ("A", "B")
    np.testing.assert_array_equal(read(tmp_path, "time,A,B\n2024-01-01,1,2,\n").values, [[1], [2]])
    assert read(tmp_path, "time;A, north;B\n2024-01-01;1;2\n").names == ("A, north", "B")
    assert read(tmp_path, "sep=;\ntime;A;B\n2024-01-01;1;2\n").names == ("A", "B")


def test_line_numbers_count_blank_and_quoted_lines(tmp_path):
    with pytest.raises(InputError, match="line 6, column 'B': 'two' is not a number"):
        read(tmp_path, "\ntime,A,B\n\n2024-01-01,1,2\n,,\n2024-01-02,1,two\n")
    with pytest.raises(InputError, match="line 4, column 'B': 'two' is not a number"):
        read(tmp_path, 'time,"A\nnorth",B\n2024-01-01,1,2\n2024-01-02,1,two\n')
    with pytest.raises(InputError, match="line 4, column 'B': 'two' is not a number"):
        read(tmp_path, "sep=,\ntime,A,B\n2024-01-01,1,2\n2024-01-02,1,two\n")
    for short in ("2024-01-02,1", '2024-01-02,"1"', "2024-01-02,1,2,3"):
        with pytest.raises(InputError, match=r"line 3: [24] cells, but the header has 3: correct the line"):
            read(tmp_path, f"time,A,B\n2024-01-01,1,2\n{short}\n")


@pytest.mark.parametrize("cell", ["12.3 °C", "12.3C", "5 mm", "12,3 °C"])
@pytest.mark.parametrize("separator", [",", ";"])
def test_a_cell_with_a_unit_is_refused_with_its_place(tmp_path, cell, separator):
    if separator in cell:
        cell = f'"{cell}"'
    with pytest.raises(
        InputError, match=r"r\.csv, line 3, column 'B': .* a number with a unit or a mark; write the number alone"
    ):
        read(
            tmp_path,
            separator.join(["time", "A", "B"]) + "\n" + "\n".join(separator.join(["2024-01-01", "1", c]) for c in ("2", cell)),
        )


@pytest.mark.parametrize("cell", ["1_5", "0x10", "١", "1 2", "1e5j", "True", "<0.5 mg", "1.2.3"])
def test_what_is_no_number_is_refused(tmp_path, cell):
    with pytest.raises(InputError, match="line 2, column 'A'"):
        read(tmp_path, f"time,A\n2024-01-01,{cell}\n")


def test_a_row_counter_beside_the_times_is_no_station(tmp_path):
    table = read(tmp_path, ",time,A\n0,2024-01-01,1\n1,2024-01-02,2\n")
    assert table.names == ("A",)
    assert table.notes == ()


def test_a_time_column_is_recognized_anywhere_and_by_its_content(tmp_path):
    table = read(tmp_path, "A,Timestamp,B\n1,2024-01-01,2\n", ["B", "A"])
    np.testing.assert_array_equal(table.values, [[2], [1]])
    table = read(tmp_path, "Zeit,A\n2024-01-01,1\n")
    assert "column 'Zeit' holds the times" in table.notes[0]
    with pytest.raises(InputError, match="name it 'time'"):
        read(tmp_path, "Zeit,A\n2024-01-01,1\n", strict=True)
    with pytest.raises(InputError, match="has a column per time: transpose it"):
        read(tmp_path, "station,2024-01-01,2024-01-02\nA,1,2\n", ["A"])
    with pytest.raises(InputError, match="the times are the only column: add one column per station"):
        read(tmp_path, "time\n2024-01-01\n")


def test_date_and_time_of_day_in_two_columns(tmp_path):
    table = read(tmp_path, "Date,Time,A\n2024-01-01,00:10,1\n2024-01-01,00:20,2\n")
    assert table.times == ("2024-01-01 00:10", "2024-01-01 00:20")
    np.testing.assert_array_equal(np.diff(table.timestamps), np.timedelta64(10, "m"))


@pytest.mark.slow
@given(
    values=arrays(float, (4, 3), elements=st.floats(-1e300, 1e300).filter(lambda v: v not in SENTINELS) | st.just(np.nan)),
    names=st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1), min_size=3, max_size=3, unique=True
    ),
    separator=st.sampled_from(",;\t|"),
    quote=st.booleans(),
)
@settings(max_examples=60)
def test_any_table_comes_back_exactly(tmp_path_factory, values, names, separator, quote):
    """Written by Python's csv in any dialect; -999 and the like are another test's."""
    path = tmp_path_factory.mktemp("t") / "r.csv"
    text = texts.StringIO()
    writer = csv.writer(text, delimiter=separator, quoting=csv.QUOTE_ALL if quote else csv.QUOTE_MINIMAL, lineterminator="\n")
    labels = [f"2024-01-0{t + 1}" for t in range(4)]
    writer.writerow(["time", *names])
    writer.writerows(
        [label, *("" if v != v else repr(float(v)) for v in row)] for label, row in zip(labels, values, strict=True)
    )
    path.write_text(text.getvalue(), encoding="utf-8")
    table = io.read_readings(path, names)
    np.testing.assert_array_equal(table.values, values.T)
    assert (table.names, table.times) == (tuple(names), tuple(labels))


def test_many_blocks_are_one_table(tmp_path, rng, monkeypatch):
    values = rng.standard_normal((50, 7))
    table = io.Readings(tuple("ABCDEFG"), tuple(map(str, range(50))), values.T)
    io.write_readings(tmp_path / "r.csv", table)
    quoted = (tmp_path / "r.csv").read_text().replace("time", '"time"')
    (tmp_path / "q.csv").write_text(quoted)
    monkeypatch.setattr("nareg.io._file.BLOCK", 40)
    for name in ("r.csv", "q.csv"):
        np.testing.assert_array_equal(io.read_readings(tmp_path / name).values, values.T)
    (tmp_path / "r.csv").write_text(quoted.replace('"', "") + "50,1,2,3,4,5,six,7\n")
    with pytest.raises(InputError, match="line 52, column 'F': 'six'"):
        io.read_readings(tmp_path / "r.csv")


def test_frames_are_read_as_files_are(tmp_path, rng):
    index = pd.date_range("2024-01-01", periods=4, freq="10min")
    frame = pd.DataFrame(rng.standard_normal((4, 3)), index=index, columns=list("ABC"))
    frame.iloc[1, 1] = np.nan
    frame.to_csv(tmp_path / "r.csv")
    expected = io.read_readings(tmp_path / "r.csv", ["C", "A", "B"])
    for same in (
        frame,
        frame.rename_axis("when"),
        frame.rename_axis("time").reset_index(),
        frame.astype(object),
        frame.astype("Float64"),
    ):
        table = io.readings_from_frame(same, ["C", "A", "B"], strict=True)
        np.testing.assert_array_equal(table.values, expected.values)
        np.testing.assert_array_equal(table.timestamps, expected.timestamps)
        assert table.times == expected.times
    back = io.readings_to_frame(io.readings_from_frame(frame))
    pd.testing.assert_frame_equal(back, frame, check_freq=False, check_names=False, check_index_type=False)
    zoned = frame.tz_localize("Europe/Berlin")
    back = io.readings_to_frame(io.readings_from_frame(zoned))
    pd.testing.assert_frame_equal(back, zoned.tz_convert("UTC"), check_freq=False, check_names=False, check_index_type=False)


def test_frames_of_no_use_are_refused():
    index = pd.date_range("2024-01-01", periods=2)
    for frame, words in (
        ([[1.0]], "readings is list, a pandas DataFrame is expected"),
        (pd.DataFrame(index=index[:0], columns=["A"]), "readings is empty"),
        (pd.DataFrame({"A": [True, False]}, index=index), "column 'A': its type is bool"),
        (pd.DataFrame({"A": ["1", "two"]}, index=index), "row 1, column 'A': 'two' is not a number"),
        (pd.DataFrame([[1.0, 2.0]] * 2, index=index, columns=["A", "A"]), "'A' appears twice"),
        (pd.DataFrame([[1.0, 2.0]] * 2, index=index, columns=pd.MultiIndex.from_tuples([("A", 1), ("B", 2)])), "2 levels"),
    ):
        with pytest.raises(InputError, match=words):
            io.readings_from_frame(frame)


def test_a_frame_without_times_is_evenly_spaced():
    frame = pd.DataFrame({"A": [1.0, 2.0]})
    table = io.readings_from_frame(frame)
    assert table.timestamps is None
    assert "evenly spaced" in table.notes[0]
    with pytest.raises(InputError, match="set a DatetimeIndex"):
        io.readings_from_frame(frame, strict=True)


@pytest.mark.parametrize(
    ("header", "clocks"),
    [("Datum,Uhrzeit", ("10:00", "11:30")), ("date,hour", ("10", "11")), ("Date,when", ("10:00:00", "11:00:00")),
     ("date,clock", ("1:00 PM", "2:00 PM"))],
)  # fmt: skip
def test_date_and_time_of_day_in_columns_of_other_names(tmp_path, header, clocks):
    path = tmp_path / "r.csv"
    path.write_text(f"{header},A,B\n" + "".join(f"2024-01-01,{clock},{k},{k + 5}\n" for k, clock in enumerate(clocks)))
    table = io.read_readings(path, ["A", "B"])
    np.testing.assert_array_equal(table.values, [[0, 1], [5, 6]])
    assert table.times == tuple(f"2024-01-01 {clock}" for clock in clocks)
    assert table.timestamps[0] == np.datetime64("2024-01-01T13" if "PM" in clocks[0] else "2024-01-01T10", "ns")
    with pytest.raises(InputError, match=r"name them 'date' and 'time'|name it 'time'"):
        io.read_readings(path, ["A", "B"], strict=True)


def test_a_station_whose_readings_look_like_hours_is_a_station(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("date,hour,B\n2024-01-01,1,2\n2024-01-02,3,4\n")
    np.testing.assert_array_equal(io.read_readings(path, ["hour", "B"]).values, [[1, 3], [2, 4]])


@pytest.mark.parametrize("units", [",°C,°C", "Einheit,degC,degC", "yyyy-mm-dd,°C,"])
def test_a_row_of_units_below_the_header_is_left_out(tmp_path, units):
    path = tmp_path / "r.csv"
    path.write_text(f"Zeit,A,B\n{units}\n2024-01-01,1,2\n2024-01-02,3,x\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 4, column 'B': 'x'"):  # lines count as in the file
        io.read_readings(path, ["A", "B"])
    path.write_text(f"Zeit,A,B\n{units}\n2024-01-01,1,2\n2024-01-02,3,4\n", encoding="utf-8")
    table = io.read_readings(path, ["A", "B"])
    np.testing.assert_array_equal(table.values, [[1, 3], [2, 4]])
    assert "the row of units below the header" in table.notes[0]
    assert table.unit == ("degC" if "degC" in units else "°C")
    assert io.inspect(path).quantities["unit"].tolist() == [table.unit]
    with pytest.raises(InputError, match="delete the row"):
        io.read_readings(path, ["A", "B"], strict=True)


def test_a_row_of_units_has_one_per_quantity(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("time,temp,rh\n,°C,%\n2024-01-01,1.5,20\n2024-01-02,1.7,25\n", encoding="utf-8")
    assert io.inspect(path).quantities["unit"].to_dict() == {"temp": "°C", "rh": "%"}
    assert io.read_readings(path, recipe=io.Recipe(value="rh")).unit == "%"
    path.write_text("time,A,B\n,°C,°F\n2024-01-01,1.5,20\n2024-01-02,1.7,25\n", encoding="utf-8")
    assert io.read_readings(path, ["A", "B"]).unit is None  # which of two is not said


@pytest.mark.parametrize("row", ["2024-01-01,bad,bad", "Monday,1.5,2", "Monday,,"])
def test_a_row_of_readings_is_no_row_of_units(tmp_path, row):
    path = tmp_path / "r.csv"
    path.write_text(f"time,A,B\n{row}\n2024-01-02,3,4\n")
    try:
        notes = io.read_readings(path, ["A", "B"]).notes
    except InputError as error:
        notes = (str(error),)
    assert not any("units" in note for note in notes)


def test_a_title_above_the_header_is_left_out_unless_nothing_may_be_guessed(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("Logger export v2\n\ntime,A,B\n2024-01-01,1,2\n")
    table = io.read_readings(path, ["A", "B"])
    np.testing.assert_array_equal(table.values, [[1], [2]])
    assert any("above the header is left out ('Logger export v2')" in note for note in table.notes)
    with pytest.raises(InputError, match="delete the lines above the header"):
        io.read_readings(path, ["A", "B"], strict=True)
