"""Long tables: time, station, one number."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nareg import io
from nareg.errors import InputError
from nareg.io import SeveralQuantities
from tests.helpers import little_memory


def read(tmp_path, text, *arguments, **options):
    path = tmp_path / "r.csv"
    path.write_text(text, encoding="utf-8")
    return io.read_readings(path, *arguments, **options)


@pytest.mark.parametrize(
    "header", ["time,station,value", "Date,Station_ID,Temperature", "timestamp,id,pm25", "datetime,name,Reading"]
)
def test_long_tables_are_recognized(tmp_path, header):
    text = header + "\n2024-01-01,A,1\n2024-01-01,B,2\n2024-01-02,B,4\n"
    table = read(tmp_path, text, strict=True)
    assert (table.names, table.times) == (("A", "B"), ("2024-01-01", "2024-01-02"))
    np.testing.assert_array_equal(table.values, [[1, np.nan], [2, 4]])
    table = read(tmp_path, text, ["B", "A"], strict=True)
    np.testing.assert_array_equal(table.values, [[2, 4], [1, np.nan]])


def test_wide_and_long_are_the_same(tmp_path, rng):
    values = np.where(rng.random((6, 9)) < 0.3, np.nan, rng.standard_normal((6, 9)))
    frame = pd.DataFrame(values.T, index=pd.date_range("2024-01-01", periods=9, freq="h", name="time"), columns=list("ABCDEF"))
    long = frame.reset_index().melt("time", var_name="station", value_name="value").dropna().sample(frac=1, random_state=0)
    long.to_csv(tmp_path / "long.csv", index=False)
    frame.to_csv(tmp_path / "wide.csv")
    wide = io.read_readings(tmp_path / "wide.csv", list("FEDCBA"), strict=True)
    for table in (
        io.read_readings(tmp_path / "long.csv", list("FEDCBA"), strict=True),
        io.readings_from_frame(long, list("FEDCBA"), strict=True),
        io.readings_from_frame(long.set_index(["time", "station"]), list("FEDCBA"), strict=True),
        io.readings_from_frame(long.set_index("time"), list("FEDCBA"), strict=True),
    ):
        np.testing.assert_array_equal(table.values, wide.values)
        np.testing.assert_array_equal(table.timestamps, wide.timestamps)


def test_numbers_as_names_and_columns_beside(tmp_path):
    text = "station_id,time,lat,lon,value,unit\n2,2024-01-01,48.1,-2,5,degC\n1,2024-01-01,48.2,-3,6,degC\n"
    table = read(tmp_path, text, ["1", "2"])
    np.testing.assert_array_equal(table.values, [[6], [5]])
    assert [note.partition(": ")[2] for note in table.notes] == ["columns of positions are no readings: 'lat', 'lon'."]


def test_of_several_numbers_the_one_named_value_or_none(tmp_path):
    text = "time,station,value,humidity\n2024-01-01,A,1,50\n"
    table = read(tmp_path, text)
    np.testing.assert_array_equal(table.values, [[1]])
    assert "the readings are in column 'value'; left out: 'humidity'" in table.notes[0]
    with pytest.raises(InputError, match="keep the columns time, station and value"):
        read(tmp_path, text, strict=True)
    # a temperature is one quantity beside the other: none of two is left out
    for name in ("pressure", "temperature", "temp"):
        with pytest.raises(SeveralQuantities, match=f"one column of readings, not 2 \\('{name}', 'humidity'\\): name the one"):
            read(tmp_path, text.replace("value", name))


def test_a_column_of_texts_may_hold_the_stations(tmp_path):
    text = "time,where,value\n2024-01-01,A,1\n2024-01-01,B,2\n"
    table = read(tmp_path, text)
    assert "column 'where' holds the station names" in table.notes[0]
    with pytest.raises(InputError, match="name it 'station'"):
        read(tmp_path, text, strict=True)


def test_repeated_readings_are_averaged(tmp_path):
    text = "time,station,value\n2024-01-01,A,1\n2024-01-01,A,2\n2024-01-02,A,\n2024-01-02,A,7\n2024-01-01T00:00,A,6\n"
    table = read(tmp_path, text)
    np.testing.assert_array_equal(table.values, [[3, 7]])
    assert table.times == ("2024-01-01", "2024-01-02")
    assert "2 readings repeat station and time of another ('A', '2024-01-01'); they are averaged" in table.notes[0]
    with pytest.raises(InputError, match="keep one row per station and time"):
        read(tmp_path, text, strict=True)


def test_stations_of_other_names(tmp_path):
    text = "time,station,value\n2024-01-01,A,1\n2024-01-02,D,2\n2024-01-03,B,3\n"
    table = read(tmp_path, text, ["A", "B", "C"])
    assert table.names == ("A", "B")
    assert table.times == ("2024-01-01", "2024-01-03")
    assert len(table.notes) == 2
    table = read(tmp_path, text, ["A", "B", "C"], keep_absent=True)
    np.testing.assert_array_equal(table.values, [[1, np.nan], [np.nan, 3], [np.nan, np.nan]])


def test_times_of_a_long_table_need_no_order_but_a_place(tmp_path):
    text = "time,station,value\n2024-01-02,A,1\n2024-01-01,A,2\nsoon,A,3\n"
    with pytest.raises(InputError, match="line 4, column 'time': 'soon' is not a time like '2024-01-02'"):
        read(tmp_path, text)
    table = read(tmp_path, text.replace("soon", "2024-01-03"), strict=True)
    np.testing.assert_array_equal(table.values, [[2, 1, 3]])
    with pytest.raises(InputError, match="line 3: the row has no station"):
        read(tmp_path, text.replace("2024-01-01,A", "2024-01-01,"))


def test_times_that_never_agree_are_refused_before_memory_is_taken(tmp_path, monkeypatch):
    little_memory(monkeypatch)
    rows = "".join(f"2024-01-01 00:{s:02d},{s},1\n" for s in range(10))
    with pytest.raises(InputError, match=r"10 stations by 10 times needs about .* round the times to a common step"):
        read(tmp_path, "time,station,value\n" + rows)


def test_a_column_that_tells_repeats_apart_is_named_instead_of_an_average_over_it(tmp_path):
    rows = [f"2024-01-0{d},{s},{p},{v}" for d in (1, 2) for s in "AB" for p, v in (("temp", 10 + d), ("humidity", 80 + d))]
    text = "time,station,parameter,value\n" + "\n".join(rows) + "\n"
    with pytest.raises(InputError, match=r"column 'parameter' tells apart \('humidity', 'temp'\): keep the rows of one"):
        read(tmp_path, text)
    one = [row for row in rows if "temp" in row]
    np.testing.assert_array_equal(
        read(tmp_path, "time,station,parameter,value\n" + "\n".join(one) + "\n").values, [[11, 12], [11, 12]]
    )
    frame = pd.read_csv(tmp_path / "r.csv")
    assert io.readings_from_frame(frame).values.tolist() == [[11, 12], [11, 12]]
    few = [*one, *(f"2024-02-{d:02d},A,temp,1" for d in range(1, 9)), "2024-01-01,A,again,13"]  # one repeat is an accident
    table = read(tmp_path, "time,station,parameter,value\n" + "\n".join(few) + "\n")
    assert table.values[0, 0] == 12


def test_readings_in_two_units_are_refused(tmp_path):
    text = "time,station,value,unit\n2024-01-01,A,50,F\n2024-01-01,B,10,C\n"
    with pytest.raises(InputError, match=r"line 3: column 'unit' holds 2 units \('C', 'F'\): convert the readings"):
        read(tmp_path, text)
    np.testing.assert_array_equal(read(tmp_path, text.replace("F", "C")).values, [[50], [10]])


@pytest.mark.parametrize("time", ["Obs Date", "obs_time", "Observation Date"])
def test_a_mark_for_missing_that_is_not_known_is_named_with_its_place(tmp_path, time):
    """The only column that readings can be in is taken whatever its cells; a flag beside it is no candidate."""
    path = tmp_path / "r.csv"
    text = f"Station Name,{time},Air Temp (degF),flag\nA,29-Mar-2024,68.3,T\nB,29-Mar-2024,X,T\nA,30-Mar-2024,70.1,T\n"
    path.write_text(text)
    with pytest.raises(InputError, match=r"r\.csv, line 3, column 'Air Temp \(degF\)': 'X' is not a number; leave it empty"):
        io.read_readings(path)
    path.write_text(text.replace("X,T", ",T"))
    table = io.read_readings(path)
    np.testing.assert_array_equal(table.values, [[68.3, 70.1], [np.nan, np.nan]])


def test_two_columns_that_may_both_name_the_stations(tmp_path):
    """Two sensors at each site: the option that settles it is named; an id beside its name changes nothing."""
    path = tmp_path / "r.csv"
    rows = [f"2024-01-0{d},{s}{k},{s},{d}" for d in range(1, 6) for s in "AB" for k in "12"]
    path.write_text("\n".join(["time,sensor,site,value", *rows]))
    table = io.read_readings(path)
    assert table.names == ("A1", "A2", "B1", "B2")
    assert any("columns 'sensor' and 'site' may both name the stations, and the first is taken" in note for note in table.notes)
    with pytest.raises(InputError, match="name the right one by --station-column"):
        io.read_readings(path, strict=True)
    chosen = io.read_readings(path, recipe=io.Recipe(station=("sensor",)))
    assert chosen.names == table.names
    assert not any("may both name" in note for note in chosen.notes)
    path.write_text(
        "\n".join(["time,id,name,value", *(row.replace("1,A", "1,Alp").replace("2,A", "2,Arm") for row in rows[:2])])
    )
    assert not any("may both name" in note for note in io.read_readings(path).notes)


def test_words_name_the_stations_where_rows_repeat_times_and_the_readings_are_named(tmp_path):
    """Without that, all stations would be averaged into one."""
    rows = [f"2024-01-01T0{h}:00,{name},{10 * k + h},80" for h in range(6) for k, name in enumerate(("ash", "elm", "oak"))]
    path = tmp_path / "long.csv"
    path.write_text("\n".join(["Datum,Vlinder,Temperatuur,Vochtigheid", *rows]), encoding="utf-8")
    readings = io.read_readings(path, recipe=io.Recipe(value="Temperatuur"))
    assert readings.names == ("ash", "elm", "oak")
    assert readings.values[2, 3] == 23.0


def test_rows_that_mix_stations_without_a_name_are_refused(tmp_path):
    rows = [f"2024-01-01T0{h}:00,{k},{10 * k + h},80" for h in range(6) for k in (3, 7, 9)]
    path = tmp_path / "long.csv"
    path.write_text("\n".join(["when,nr,Temperatuur,Vochtigheid", *rows]), encoding="utf-8")
    with pytest.raises(InputError, match="--station-column"):
        io.read_readings(path, recipe=io.Recipe(value="Temperatuur"))
    readings = io.read_readings(path, recipe=io.Recipe(value="Temperatuur", station="nr"))
    assert readings.values[1, 3] == 73.0


def test_a_number_of_each_station_is_no_quantity(tmp_path):
    """It was offered as one beside a name in another language; a setpoint that two stations share, or of a unit, stays."""
    for column, cells, left_out in (
        ("지점", (108, 112, 119), True), ("setting", (20, 21, 20), False), ("setting", (20.5, 21, 22), False),
        ("setting (°C)", (20, 21, 22), False), ("humidity", (80, 81, 82), False),
    ):  # fmt: skip
        rows = [f"{cells[s]},{'abc'[s]},2024-05-01 {h:02}:00,{h}.5" for s in range(3) for h in range(9)]
        path = tmp_path / "r.csv"
        path.write_text("\n".join([f"{column},지점명,일시,기온(°C)", *rows]))
        seen = io.inspect(path)
        assert (column not in seen.quantities.index) == left_out
        assert any(f"left out as numbers of the stations: {column!r}" in note for note in seen.notes) == left_out
        if left_out:
            assert io.read_readings(path).quantity == "기온(°C)"
        else:
            with pytest.raises(InputError, match="name the one to read"):
                io.read_readings(path)
        assert io.read_readings(path, recipe=io.Recipe(value=column)).values[1, 0] == cells[1]


@pytest.mark.parametrize("header", ["station,time,count,level", "time,station,count,level"])
def test_whole_numbers_behind_stations_and_times_are_readings(tmp_path, header):
    """A setpoint or count of each station was left out as its number."""
    form = "{1},{0},{2},{3}.5" if header[0] == "s" else "{0},{1},{2},{3}.5"
    rows = [form.format(f"2024-05-01 {h:02}:00", "abc"[s], 20 + s, h) for s in range(3) for h in range(9)]
    (tmp_path / "r.csv").write_text("\n".join([header, *rows]))
    assert [*io.inspect(tmp_path / "r.csv").quantities.index] == ["count", "level"]


def test_ids_of_one_moment_are_stations(tmp_path):
    """60 wells read on one day were averaged by their place, as ids that differ in all rows number the rows."""
    rows = [f"{i},{'North' if i % 2 else 'South'},2024-05-01,{i}" for i in range(60)]
    (tmp_path / "r.csv").write_text("\n".join(["id,location,time,v", *rows]))
    assert len(io.read_readings(tmp_path / "r.csv").names) == 60


@pytest.mark.parametrize("beside", ["result,qc,v", "result,duration,v", "latitude,longitude,v"])
def test_what_stands_beside_a_kind_is_no_station(tmp_path, beside):
    """Results, their marks and places beside a column of kinds were stations."""
    rows = [f"2024-05-01 {h:02}:00,{kind},{h},1,2" for h in range(20) for kind in ("rain", "snow")]
    (tmp_path / "r.csv").write_text("\n".join([f"time,type,{beside}", *rows]))
    assert not any("beside it as stations" in note for note in io.inspect(tmp_path / "r.csv").notes)


@pytest.mark.parametrize("name", ["quantity", "variable", "element"])
def test_a_few_whole_numbers_are_no_kinds_without_a_value_beside_them(tmp_path, name):
    """Readings of such a name were kinds, and the rows of each a quantity of its own."""
    rows = [f"2024-05-01 {h:02}:00,{s},{h % 5},{h}.5" for h in range(20) for s in "AB"]
    (tmp_path / "r.csv").write_text("\n".join([f"time,station,{name},price", *rows]))
    assert [*io.inspect(tmp_path / "r.csv").quantities.index] == [name, "price"]


def test_kinds_whose_quality_is_marked_are_no_stations(tmp_path):
    """Degrees and per cents were readings of two stations, 'temp' and 'rh'."""
    rows = [f"2024-05-01 {h:02}:00,{kind},{h},1" for h in range(20) for kind in ("temp", "rh")]
    (tmp_path / "r.csv").write_text("\n".join(["time,parameter,result,qc", *rows]))
    with pytest.raises(InputError, match="column 'parameter' holds words"):
        io.read_readings(tmp_path / "r.csv")
