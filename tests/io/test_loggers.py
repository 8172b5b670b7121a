"""Tables as loggers and agencies write them: read, or refused with the remedy for their kind."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nareg import io
from nareg.errors import InputError


def read(tmp_path, text, *arguments, **options):
    path = tmp_path / "r.csv"
    path.write_text(text, encoding="utf-8")
    return io.read_readings(path, *arguments, **options)


def places(tmp_path, text, **options):
    path = tmp_path / "s.csv"
    path.write_text(text, encoding="utf-8")
    return io.read_stations(path, **options)


TOA5 = (
    '"TOA5","Weirs","CR1000","12345","CR1000.Std.25","CPU:weirs.CR1","54321","Hourly"\n"TIMESTAMP","RECORD","North","South"\n'
    '"TS","RN","Deg C","Deg C"\n"","","Avg","Avg"\n"2024-01-10 00:00:00",7,4.1,"NAN"\n"2024-01-10 01:00:00",8,3.2,8.9\n'
)
TOACI1 = '"TOACI1","CR1000","Hourly"\n"TMSTAMP","RECNBR","North","South"\n' + "\n".join(TOA5.splitlines()[4:]) + "\n"


def test_groups_above_the_columns_are_part_of_their_names(tmp_path):
    """The groups were taken as stations, the second line as units, and columns below no group's name were left out."""
    text = (
        "Time,Outdoor,,Indoor,,Solar and UVI\n,Temperature(℃),Humidity(%),Temperature(℃),Humidity(%),Solar(w/m²)\n"
        "2025-06-02 00:00,5.4,60,22.1,45,0\n2025-06-02 00:10,-,61,22.0,46,0\n"
    )
    assert read(tmp_path, text, recipe=io.Recipe(value="Indoor Humidity(%)")).values.tolist() == [[45, 46]]
    table = read(tmp_path, text, recipe=io.Recipe(value="Outdoor Temperature(℃)"))
    np.testing.assert_array_equal(table.values, [[5.4, np.nan]])
    assert any("the 2 lines of the header are joined" in note for note in table.notes)
    assert len(io.inspect(tmp_path / "r.csv").quantities) == 5


@pytest.mark.parametrize("text", [TOA5, TOACI1, TOA5.replace('"', ""), TOA5.replace("\n", "\r\n")])
@pytest.mark.parametrize("stations", [None, ["South", "North"]])
def test_campbell_loggers(tmp_path, text, stations):
    table = read(tmp_path, text, stations)
    values = dict(zip(table.names, table.values.tolist(), strict=True))
    assert values["North"] == [4.1, 3.2]
    np.testing.assert_array_equal(values["South"], [np.nan, 8.9])
    assert len(table.names) == 2
    assert any("Campbell logger's (TOA" in note for note in table.notes)
    assert any("'Deg C'" in note for note in table.notes) == ("TOA5" in text)


def test_a_bad_line_of_a_logger_is_named_with_its_number(tmp_path):
    with pytest.raises(InputError, match="line 6, column 'South': 'x' is not a number"):
        read(tmp_path, TOA5.replace("8.9", "x"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '"TOB1","Weirs","CR1000"\n"SECONDS","NANOSECONDS","A"\n',
            "binary table of a Campbell logger .TOB1.: convert it to TOA5",
        ),
        ('{"value": {"timeSeries": []}}', "is JSON, a CSV file is expected"),
        ('[{"time": 1}]', "is JSON"),
        ("<?xml version='1.0'?>\n<ns1:timeSeriesResponse/>\n", "is XML or HTML"),
        ("<!DOCTYPE html>\n<html>\n", "is XML or HTML"),
        ("9.5 10.4 12.4 94\n9.7 10.6 12.5 94\n10.1 11 12.6 94\n", "separated by spaces"),
        ("1,0,0.5\n0,1,0.7\n0.5,0.7,1\n", "there is no column of times, and the header holds numbers"),
        ("773869,767541\n64.375,67.625\n62.7,68.5\n", "there is no column of times"),
        ("USC00411885191201TMAX-9999\nUSC00411885191201TMIN-9999\n", "has one column .*: separate its cells by commas"),
        (
            "time,place,A\n2024-01-01,north,2\n2024-01-02,south,3\n2024-01-03,south,x\n",
            "'place' holds words .*--station-column .* if",
        ),
        (
            "Title,x,y\nUser,,\ntime,A,B,C\n2024-01-01,1,2,3\n2024-01-02,1,2,3\n",
            "has 3 cells, but the lines from 3 on have 4: delete",
        ),
        ("station,latitude,longitude\nA,1,2\n", "has positions .* and no times .*: pass the table of readings"),
    ],
)
def test_what_is_no_table_of_readings_is_refused_with_the_remedy_for_its_kind(tmp_path, text, words):
    with pytest.raises(InputError, match=words):
        read(tmp_path, text)


@pytest.mark.parametrize(
    "title",
    [
        "Title:,,\nUser:,,\n",
        "Title,x,\nUser,,\n",
        '"Plot Title: Stream 12"\n',
        "Station;7\nHeight;12\n\n",
        "Made by a logger\n",
    ],
)
def test_lines_above_the_header_are_left_out(tmp_path, title):
    rows = "time,A,B,C\n2024-01-01,1,2,3\n2024-01-02,4,5,6\n"
    text = title + (rows.replace(",", ";") if ";" in title else rows)
    table = read(tmp_path, text)
    np.testing.assert_array_equal(table.values, [[1, 4], [2, 5], [3, 6]])
    assert any("above the header" in note for note in table.notes)
    with pytest.raises(InputError, match="delete the lines above the header"):
        read(tmp_path, text, strict=True)


@pytest.mark.parametrize(
    ("title", "unit"),
    [
        ("Pegel am Rhein\nEinheit: cm\n", "cm"),
        ("# Unit: m/s\n", "m/s"),
        ("Pegel;;\nEinheit;°C;\n", "°C"),
        ("Unit: cm\nUnit: m\n", None),  # which of two is not said
        ("Units;;\n", None),
        ("Station: Unit 7\n", None),
    ],
)
@pytest.mark.parametrize("header", ["Datum;A;B", "Datum;station;value"])
def test_a_line_above_the_header_states_the_unit(tmp_path, title, unit, header):
    second = "4,5" if header.endswith("B") else "A"
    path = tmp_path / "u.csv"
    path.write_text(title + header + "".join(f"\n2024-01-0{day};{second};5,5" for day in range(1, 5)), encoding="utf-8")
    assert io.read_readings(path).unit == unit
    assert io.inspect(path).quantities["unit"].tolist() == [unit or ""]


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("speed [m/s]", "m/s"),
        ("speed (m s-1)", "m s-1"),
        ("power (W m-2)", "W m-2"),
        ("level (cm)", "cm"),
        ("t [°C]", "°C"),
        ("t (℃)", "°C"),
        ("PM2.5 (μg/m3)", "μg/m3"),
        ("p (mmHg)", "mmHg"),
        ("rain (mm/h)", "mm/h"),
        ("humidity (%)", "%"),
        ("Maximum temperature (Degree C)", "°C"),
        ("temp [degrees Fahrenheit]", "°F"),
        ("temp (raw)", None),
        ("t (2 m)", None),
        ("t (in)", None),
        ("PM2.5 (A)", None),
        ("t (n/a)", None),
        ("t (in/out)", None),
    ],
)
def test_a_column_states_the_unit_in_brackets(tmp_path, name, unit):
    path = tmp_path / "u.csv"
    path.write_text(f"time,station,{name}" + "".join(f"\n2024-01-0{day},A,5.5" for day in range(1, 5)), encoding="utf-8")
    assert io.read_readings(path).unit == unit
    assert io.inspect(path).quantities["unit"].tolist() == [unit or ""]


@pytest.mark.parametrize(("second", "unit"), [("B [°C]", "°C"), ("B", None)])
def test_columns_of_stations_state_one_unit_in_brackets(tmp_path, second, unit):
    path = tmp_path / "u.csv"
    path.write_text(f"time,A [°C],{second}" + "".join(f"\n2024-01-0{day},4.5,5.5" for day in range(1, 5)), encoding="utf-8")
    assert io.read_readings(path).unit == unit


def test_a_logger_with_a_plot_title_and_serial_numbers(tmp_path):
    """HOBOware: a title, a number per row, the zone in the heading of the times, marks of the logger in columns at the end."""
    text = (
        '"Plot Title: Stream 12"\n"#","Date Time, GMT-05:00","Temp, °C (LGR S/N: 2001, SEN S/N: 2001)",'
        '"Host Connected (LGR S/N: 2001)","End Of File (LGR S/N: 2001)"\n'
    )
    text += "".join(f"{k},06/0{k}/23 12:00:00 PM,{18 + k}.5,,\n" for k in range(1, 6))
    table = read(tmp_path, text + "6,06/06/23 01:00:00 PM,,Logged,Logged\n")
    np.testing.assert_array_equal(table.values[0, :5], [19.5, 20.5, 21.5, 22.5, 23.5])
    assert str(table.timestamps[0])[:16] == "2023-06-01T17:00"
    assert any("GMT-05:00" in note for note in table.notes)


def test_the_month_is_first_where_clocks_have_twelve_hours(tmp_path):
    table = read(tmp_path, "time,A,B,C\n06/01/23 11:45 AM,1,2,3\n06/01/23 12:00 PM,1,2,3\n06/01/23 12:15 PM,1,2,3\n")
    assert str(table.timestamps[0])[:10] == "2023-06-01"
    assert any("clocks of twelve hours" in note for note in table.notes)


RDB = (
    "# Data for sites\n#\nagency_cd\tsite_no\tdatetime\ttz_cd\t69928_00065\t69928_00065_cd\n5s\t15s\t20d\t6s\t14n\t10s\n"
    "USGS\t03351000\t2023-11-05 00:00\tEDT\t2.21\tA\nUSGS\t03351000\t2023-11-05 01:00\tEDT\t2.5\tA\n"
    "USGS\t03351000\t2023-11-05 01:00\tEST\tIce\tP\nUSGS\t03351037\t2023-11-05 01:00\tEST\t1.25\tA\n"
)
SITES = (
    "#\nagency_cd\tsite_no\tstation_nm\tdec_lat_va\tdec_long_va\talt_va\n5s\t15s\t50s\t16s\t16s\t8s\n"
    "USGS\t03351000\tA RIVER\t40.96\t-85.59\t 250.5\nUSGS\t03351037\tB RIVER\t40.86\t-85.89\t 2.7\n"
)


def test_the_geological_surveys_tables(tmp_path):
    stations = places(tmp_path, SITES)
    assert stations.names == ("03351000", "03351037")
    np.testing.assert_array_equal(stations.coordinates, [[40.96, -85.59], [40.86, -85.89]])
    np.testing.assert_array_equal(stations.altitude, [250.5, 2.7])
    table = read(tmp_path, RDB, stations)
    assert table.zone == "UTC"
    expected = np.array(["2023-11-05T04:00", "2023-11-05T05:00", "2023-11-05T06:00"], "datetime64[ns]")
    np.testing.assert_array_equal(table.timestamps, expected)
    np.testing.assert_array_equal(table.values, [[2.21, 2.5, np.nan], [np.nan, np.nan, 1.25]])
    notes = " ".join(table.notes)
    for words in ("'Ice' says why", "EDT -04:00, EST -05:00", "'agency_cd'", "'69928_00065_cd' marks no reading as bad"):
        assert words in notes
    with pytest.raises(InputError, match=r"line 8, column 'tz_cd': 'LMT' is no zone that is known: write the offset"):
        read(tmp_path, RDB.replace("EST\t1.25", "LMT\t1.25"), stations)


@pytest.mark.parametrize("name", ["numer_sta", "NUM_POSTE", "Ort", "code"])
def test_a_column_that_has_the_stations_names_is_the_stations(tmp_path, name):
    text = f"{name};date;t\n07005;20240201000000;mq\n07015;20240201000000;278.15\n07005;20240201030000;275.75\n"
    for stations in (["07005", "07015"], ["7005", "7015"]):
        table = read(tmp_path, text, stations)
        assert table.names == tuple(stations)
        np.testing.assert_array_equal(table.values, [[np.nan, 275.75], [278.15, np.nan]])


def test_small_numbers_that_are_names_do_not_make_readings_stations(tmp_path):
    table = read(tmp_path, "time,1,2\n2024-01-01,1,2\n2024-01-02,2,1\n", ["1", "2"])
    np.testing.assert_array_equal(table.values, [[1, 2], [2, 1]])


def test_a_column_of_dates_of_any_name_anywhere_holds_the_times(tmp_path):
    table = read(tmp_path, "A,DAT,B\n1,2024-01-01,2\n3,2024-01-02,4\n")
    assert table.names == ("A", "B")
    assert "column 'DAT' holds the times" in table.notes[0]
    table = read(tmp_path, "START,END,A\n2024-01-01 00:00,2024-01-01 00:30,2\n2024-01-01 00:30,2024-01-01 01:00,4\n")
    assert table.names == ("A",)
    assert any("1 more column of times left out: 'END'" in note for note in table.notes)


@pytest.mark.parametrize("pair", ["easting,northing", "Eastings (m),Northings (m)", "UTM_E,UTM_N", "Rechtswert,Hochwert"])
def test_coordinates_in_meters(tmp_path, pair):
    stations = places(tmp_path, f"station,{pair}\nA,519229.8,5468346.7\nB,496317.8,5486502.3\n")
    assert stations.metric == "euclidean"
    np.testing.assert_array_equal(stations.coordinates[0], [519229.8, 5468346.7])


def test_flags_and_positions_beside_the_readings_are_named(tmp_path):
    text = "time,station,latitude,longitude,elevation,value,qc\n" + "".join(
        f"2024-01-0{d},{s},48,11,500,{d},{'x' if d == 2 else 'y'}\n" for d in (1, 2, 3) for s in "AB"
    )
    notes = " ".join(read(tmp_path, text).notes)
    assert "positions are no readings: 'latitude', 'longitude', 'elevation'" in notes
    assert "column 'qc' seems to mark the quality of readings; what 'x', 'y' means is not known, and not used" in notes
    frame = pd.read_csv(tmp_path / "r.csv")
    assert "columns of positions" in " ".join(io.readings_from_frame(frame).notes)


@pytest.mark.parametrize(
    ("good", "bad", "suspect"),
    [
        ("1", "4", "3"),
        ("good", "bad", "suspect"),
        ("OK", "Fail", "Questionable"),
        ("1.0", "4.0", "3.0"),
        ("valid", "invalid", "doubtful"),
    ],
)
@pytest.mark.parametrize("name", ["quality", "QC_flag", "flag", "value_qc", "Quality Code"])
def test_readings_that_a_known_mark_calls_bad_are_left_out(tmp_path, good, bad, suspect, name):
    marks = [good] * 8 + [bad, suspect]
    text = f"time,station,value,{name}\n" + "".join(
        f"2024-01-{d + 1:02d},{s},{d + 10 * (s == 'B')},{mark if s == 'A' else good}\n"
        for d, mark in enumerate(marks)
        for s in "AB"
    )
    table = read(tmp_path, text)
    expected = np.arange(10.0)
    expected[8] = np.nan
    np.testing.assert_array_equal(table.values, [expected, np.arange(10.0, 20.0)])
    notes = " ".join(table.notes)
    assert f"1 reading that column {name!r} marks as bad ({bad!r}) is left out" in notes
    assert f"1 reading that column {name!r} marks as suspect is used" in notes
    with pytest.raises(InputError, match="marks as bad"):
        read(tmp_path, text, strict=True)


@pytest.mark.parametrize(("stem", "end"), [("A", "_qc"), ("A", " flag"), ("A", ".quality")])
def test_marks_beside_each_station_of_a_wide_table(tmp_path, stem, end):
    rows = "".join(f"2024-01-{d + 1:02d},{d},{4 if d == 5 else 1},{d + 1},1\n" for d in range(9))
    for stations in (None, ["A", "B"]):
        table = read(tmp_path, f"time,A,A{end},B,B{end}\n{rows}", stations)
        expected = np.arange(9.0)
        expected[5] = np.nan
        np.testing.assert_array_equal(table.values, [expected, np.arange(1.0, 10.0)])
        assert any("marks as bad" in note and repr(stem + end) in note for note in table.notes)


@pytest.mark.parametrize("marks", [["0", "1"], ["1", "2", "3"], ["A", "P", "e"], ["4"] * 6 + ["1"], ["", "x"]])
def test_marks_that_may_mean_anything_are_named_and_not_used(tmp_path, marks):
    text = "time,station,value,quality\n" + "".join(f"2024-01-{d + 1:02d},A,{d},{mark}\n" for d, mark in enumerate(marks))
    table = read(tmp_path, text)
    assert np.isfinite(table.values).all()
    assert any("not used" in note and "'quality'" in note for note in table.notes)


def test_the_unit_that_a_column_states(tmp_path):
    table = read(tmp_path, "time,station,value,unit\n2024-01-01,A,5,degC\n2024-01-02,A,6,degC\n")
    assert (table.unit, table.quantity) == ("degC", "value")


@pytest.mark.parametrize("orient", ["columns", "index", "split"])
@pytest.mark.parametrize("unit", ["iso", "s", "ms", "us", "ns"])
def test_frames_that_pandas_writes_as_json(tmp_path, orient, unit):
    index = pd.date_range("2024-01-01", periods=12, freq="h", name="time")
    written = index if unit == "iso" else index.astype(f"datetime64[{unit}]").astype("int64").rename("time")
    wide = pd.DataFrame(np.arange(24.0).reshape(12, 2), written, ["A", "101"])
    wide.iloc[3, 1] = np.nan
    long = wide.rename_axis(columns="station").stack(future_stack=True).rename("temperature").reset_index()
    for number, frame in enumerate((wide, wide.reset_index(), long)):
        path = tmp_path / f"{number}.json"
        path.write_text(frame.to_json(orient=orient, date_format="iso"))
        read = io.read_readings(path)
        assert read.names == ("A", "101")
        np.testing.assert_array_equal(read.values, wide.to_numpy().T)
        np.testing.assert_array_equal(read.timestamps, index.to_numpy())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"1": {"0": 1.5, "1": 2}, "2": {"0": 3, "1": 4}}', "columns and rows have names of one kind"),
        ('{"a": {"0": 1.5, "1": 2}, "b": {"0": 3}}', "is JSON, but no frame as pandas writes it"),
        ('{"a": {"0": 1.5}, "b": 3}', "is JSON, but no frame as pandas writes it"),
        ('{"columns": ["time", "A"], "data": [["2024-01-01", {"x": 1}]]}', "tables in cells"),
    ],
)
def test_json_that_is_no_frame_is_refused(tmp_path, text, message):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(InputError, match=message):
        io.read_readings(tmp_path / "r.json")


def test_row_names_of_a_frame_in_json_are_not_lost(tmp_path):
    places = pd.DataFrame({"latitude": [50.0, 51], "longitude": [8.0, 9]}, ["A", "B"])
    (tmp_path / "s.json").write_text(places.to_json())
    recipe = io.Recipe(station="index")
    with pytest.raises(InputError, match="one kind"):
        io.read_stations(tmp_path / "s.json", recipe=recipe)
    (tmp_path / "s.json").write_text(places.to_json(orient="split"))
    assert io.read_stations(tmp_path / "s.json", recipe=recipe).names == ("A", "B")
    (tmp_path / "s.json").write_text(places.rename_axis("station").reset_index().to_json())
    assert io.read_stations(tmp_path / "s.json").names == ("A", "B")


STATED = (
    "# Station: Weir 3\n# Latitude: 50.1\n# Longitude: 8.2\n# Elevation (m): 112\n",
    "#station_name = Weir 3\n#lat=50.1\n#lon=8.2\n#Altitude = 112 m\n# Made by: me\n",
    "# Site: Weir 3, Lat: 50.1 N, Long: 8.2 E, Height: 112\n",
    "# Station ID: Weir 3\n# Latitude: 50.1\n# Longitude (E): 8.2\n# Altitude: 112\n",
    "# Station Name: Weir 3\n# Latitude (deg): 50° 6' N\n# Longitude (deg): 8° 12' E\n# Elevation: 112 m a.s.l.\n",
)


@pytest.mark.parametrize("comments", STATED)
def test_comments_state_the_station_and_its_place(tmp_path, comments):
    rows = "time,temperature\n2024-01-01,1.5\n2024-01-02,2.5\n2024-01-03,3.5\n"
    table = read(tmp_path, comments + rows)
    assert table.names == ("Weir 3",)
    assert any("the name of the station is read from the lines above its rows" in note for note in table.notes)
    there = io.read_stations(tmp_path / "r.csv")
    assert (there.names, there.metric) == (("Weir 3",), "haversine")
    np.testing.assert_allclose(there.coordinates, [[50.1, 8.2]])
    np.testing.assert_allclose(there.altitude, [112])
    (tmp_path / "q.csv").write_text(comments.replace("Weir 3", "Weir 4").replace("50", "51") + rows, encoding="utf-8")
    seen = io.inspect([tmp_path / "r.csv", tmp_path / "q.csv"])
    assert seen.stations == ("Weir 3", "Weir 4")
    np.testing.assert_allclose(seen.placed.coordinates, [[50.1, 8.2], [51.1, 8.2]])
    several = io.read_stations([tmp_path / "r.csv", tmp_path / "q.csv"])
    assert io.read_readings([tmp_path / "r.csv", tmp_path / "q.csv"], several).names == ("Weir 3", "Weir 4")


def test_a_longitude_that_is_west_by_its_name(tmp_path):
    read(tmp_path, "# Site: A\n# Latitude (N): 41\n# Longitude (West): 97.5\ntime,temperature\n2024-01-01,1\n2024-01-02,2\n")
    np.testing.assert_allclose(io.read_stations(tmp_path / "r.csv").coordinates, [[41, -97.5]])


def test_comments_over_a_table_of_several_stations_name_none(tmp_path):
    table = read(tmp_path, "# Station: hut\n# Latitude: 50\n# Longitude: 8\ntime,A,B\n2024-01-01,1,2\n2024-01-02,3,4\n")
    assert table.names == ("A", "B")
    with pytest.raises(InputError):
        io.read_stations(tmp_path / "r.csv")
    assert io.inspect(tmp_path / "r.csv").placed is None


def test_comments_with_two_stations_or_another_than_the_table_has_are_not_used(tmp_path):
    rows = "time,temperature\n2024-01-01,1\n2024-01-02,2\n"
    assert read(tmp_path, "# Station: A\n# Station: B\n" + rows).names == ("temperature",)
    assert read(tmp_path, "# Site: US-X\n" + rows).names == ("temperature",)
    assert read(tmp_path, "# Station: weather hut\n" + rows, ["r", "q"]).names == ("r",)


def test_the_label_of_a_sensor_is_the_station(tmp_path):
    start = '"Plot Title: x"\n"#","Date Time, GMT+00:00",'
    rows = "".join(f"{k},06/0{k}/23 12:00:00 PM,{18 + k}.5,{50 + k}\n" for k in range(1, 6))
    one = '"Temp, °C (LGR S/N: 1, SEN S/N: 1, LBL: Pond A)","RH, % (LGR S/N: 1, SEN S/N: 1, LBL: Pond A)"\n'
    table = read(tmp_path, start + one + rows, recipe=io.Recipe(value="Temp (°C)"))
    assert (table.names, table.unit) == (("Pond A",), "°C")
    two = '"Temp, °C (LGR S/N: 1, SEN S/N: 1, LBL: North)","Temp, °C (LGR S/N: 1, SEN S/N: 2, LBL: South)"\n'
    table = read(tmp_path, start + two + rows)
    assert (table.names, table.unit) == (("North", "South"), "°C")
    what = '"Temp, °C (LGR S/N: 1, SEN S/N: 1, LBL: Air Temp)","RH, % (LGR S/N: 1, SEN S/N: 1, LBL: Rel Hum)"\n'
    assert read(tmp_path, start + what + rows, recipe=io.Recipe(value="Temp (°C)")).names == ("r",)


HALF_HOURS = [f"05/{day:02}/2024,{hour:02}:{minute:02}:00" for day in (30, 31) for hour in range(24) for minute in (0, 30)]
SOLINST = "Serial_number:\n2012345\nLocation:\nMW-3\nLEVEL\nUNIT: m\nDate,Time,ms,LEVEL,TEMPERATURE\n"
KOR = (
    "KOR Export File\n\n\n,,,MEAN VALUE:,21.1,8.2\n,,,SENSOR SERIAL NUMBER:,17A,17B\n"
    "Date (MM/DD/YYYY),Time (HH:mm:ss),Time (Fract. Sec),Site Name,Temp °C,pH\n"
)
IN_SITU = (
    "Report Date:,2024-06-01\n\nLog File Properties\n     File Name,vulink.wsl\n\nSensors,1\n1,812345,Pressure/Temp 11 m\n\n"
    ",Sensor: Pres(G),Sensor: Pres(G)\n,SN#: 812345,SN#: 812345\nDate and Time,Pressure (PSI),Temperature (C)\n"
)
DIVER = (
    "Data file for DataLogger.\n[Logger settings]\n  Location                  =P12\n[Channel 1]\n"
    "  Identification            =PRESSURE\n[Channel 2]\n  Identification            =TEMPERATURE\n[Data]\n96\n"
)


@pytest.mark.parametrize(
    ("text", "row", "names"),
    [(SOLINST, lambda t, k: f"{t},0,1.{k:02},{k}.5", ["LEVEL", "TEMPERATURE"]),
     (KOR, lambda t, k: f"{t},0,Dock,1.{k:02},{k}.5", ["Temp °C", "pH"]),
     (IN_SITU, lambda t, k: f"{t.replace(',', ' ')},1.{k:02},{k}.5", ["Pressure (PSI)", "Temperature (C)"]),
     (DIVER, lambda t, k: f"2024/{t[:5]} {t[11:]}.0     1.{k:02}     {k}.5", ["pressure", "temperature"])],
)  # fmt: skip
def test_settings_and_other_tables_above_the_readings(tmp_path, text, row, names):
    """Loggers in wells and streams: the header is the last line of words above the readings."""
    path = tmp_path / "r.csv"
    path.write_text(text + "".join(row(time, k) + "\n" for k, time in enumerate(HALF_HOURS)), encoding="utf-8")
    assert list(io.inspect(path).quantities.index) == names
    for name, values in zip(names, ([float(f"1.{k:02}") for k in range(96)], np.arange(96) + 0.5), strict=True):
        table = io.read_readings(path, recipe=io.Recipe(value=name))
        np.testing.assert_array_equal(table.values, [values])
        assert str(table.timestamps[-1])[:16] == "2024-05-31T23:30"
