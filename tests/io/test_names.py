"""Station tables, and which column of readings is which station."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nareg import io
from nareg.errors import InputError

NAMES = ["station", "Station ID", "station_id", "ID", "Name", "", "sensor_id", "Site", "Messstelle", "Estación"]
PAIRS = [("latitude", "longitude"), ("Lat", "Lng"), ("LAT", "lon"), ("lat", "Long"), ("lat (deg)", "lon [deg]"), ("X", "y")]


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pair", PAIRS)
def test_names_of_the_columns(tmp_path, name, pair):
    path = write(tmp_path, "s.csv", f"{name},{pair[0]},{pair[1]}\nA,48.1,-2.4\n1,48.2,-3.3\n")
    stations = io.read_stations(path, strict=True)
    assert stations.names == ("A", "1")
    assert stations.metric == ("euclidean" if pair[0] == "X" else "haversine")
    assert stations.altitude is None
    np.testing.assert_array_equal(stations.coordinates, [[48.1, -2.4], [48.2, -3.3]])


def test_a_column_of_places_does_not_take_the_place_of_names(tmp_path):
    path = write(tmp_path, "s.csv", "location,id,lat,lon\nquay,A,48.1,-2.4\nquay,B,48.2,-3.3\n")
    assert io.read_stations(path).names == ("A", "B")


@pytest.mark.parametrize("name", ["altitude", "Elevation", "elev (m)"])
def test_altitude(tmp_path, name):
    stations = io.read_stations(write(tmp_path, "s.csv", f"id,lat,lon,{name},owner\nA,1,2,100,me\nB,1,3,,you\n"))
    np.testing.assert_array_equal(stations.altitude, [100, np.nan])
    assert stations.notes == (f"{tmp_path / 's.csv'}: 1 column is not needed and left out: 'owner'.",)


@pytest.mark.parametrize(
    "form", ["sensor.{}_temperature", "{} temperature", "Temperature ({})", "Weather station {}", "{}_temp_degC"]
)
def test_names_between_the_same_words(tmp_path, form):
    """Dashboards write the quantity beside the name of each station."""
    names = [form.format(name) for name in ("s1", "s12", "s2")]
    wide = write(tmp_path, "r.csv", ",".join(["time", *names]) + "\n2024-01-01,1,2,3\n2024-01-02,4,5,6\n")
    table = io.read_readings(wide, ["S2", "S1", "S12"])
    np.testing.assert_array_equal(table.values, [[3, 6], [1, 4], [2, 5]])
    assert f"3 columns are matched with a station by what is between the same words: {names[0]!r}" in table.notes[0]
    with pytest.raises(InputError, match="write the names as in the station table"):
        io.read_readings(wide, ["S2", "S1", "S12"], strict=True)
    rows = [f"2024-01-0{t},{name},{t}{k}" for t in (1, 2) for k, name in enumerate(names)]
    long = write(tmp_path, "l.csv", "\n".join(["time,station,value", *rows]))
    np.testing.assert_array_equal(io.read_readings(long, ["S2", "S1", "S12"]).values, [[12, 22], [10, 20], [11, 21]])


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (
            ["a_temp", "b_temp", "a_hum", "b_hum"],
            "must have one column of readings, not 2 .'temp', 'hum'.: name the one to read by --value",
        ),
        (["t1", "t2", "t10", "t20"], "no column has a station.s name"),
        (["a_t", "c_t", "d_h", "e_h"], "no column has a station.s name"),
    ],
)
def test_names_between_several_words_are_not_matched(tmp_path, names, words):
    """Ten quantities of one station were seen, and the remedy was to pass the table of stations, which was passed."""
    path = write(tmp_path, "r.csv", ",".join(["time", *names]) + "\n2024-01-01,1,2,3,4\n2024-01-02,4,5,6,7\n")
    places = write(tmp_path, "s.csv", "station,lat,lon\n" + "".join(f"{name},{k},{k}\n" for k, name in enumerate("ab12")))
    with pytest.raises(InputError, match=words):
        io.read_readings(path, ["a", "b", "1", "2"])
    if "several" in words:
        with pytest.raises(InputError, match=words):
            io.inspect(path, places)


@pytest.mark.parametrize(("units", "same"), [(("°C", "°F"), False), (("°C", "degC"), True), (("hPa", "mm"), False)])
def test_stations_of_two_units_are_refused(tmp_path, units, same):
    """Fahrenheit was read beside Celsius, since units in brackets were left out unseen."""
    header = f"time,A [{units[0]}],B [{units[1]}],C\n"
    path = write(tmp_path, "r.csv", header + "2024-01-01,1,33.8,1\n2024-01-02,2,35.6,2\n")
    if same:
        assert io.read_readings(path, ["A", "B", "C"]).values.tolist() == [[1, 2], [33.8, 35.6], [1, 2]]
        return
    with pytest.raises(InputError, match=rf"columns 'A \[{units[0]}\]' and 'B \[{units[1]}\]' have different units"):
        io.read_readings(path, ["A", "B", "C"])


@pytest.mark.parametrize("columns", [("Temp",), ("Temp", "Hum")])
def test_files_of_a_month_each_are_of_one_station(tmp_path, columns):
    """Each file was a station of its own, with the month in its name."""
    days, files = pd.date_range("2025-05-30", periods=5, freq="D"), []
    for station in ("weir", "quay"):
        for part, month in ((days[:3], "2025-05"), (days[2:], "2025-06")):
            readings = pd.DataFrame({name: part.day + len(station) * k for k, name in enumerate(columns)}, part)
            files.append(tmp_path / f"{station}_{month}.csv")
            (readings + (station == "quay")).to_csv(files[-1], index_label="time")
    table = io.read_readings(files, recipe=io.Recipe(value="Temp"))
    assert (table.names, table.values.tolist()) == (("weir", "quay"), [[30, 31, 1, 2, 3], [31, 32, 2, 3, 4]])
    assert any("of the stations 'weir', 'quay', by their names without dates" in note for note in table.notes)
    assert "stations: 2 with readings ('weir', 'quay')" in io.inspect(files).lines()


def test_a_number_that_ends_a_name_is_no_year(tmp_path):
    """Two wells were averaged, for most readings of all stations are of other names."""
    levels, files = {"well2001": 5.0, "well2002": 50.0, "lake": 10.0, "creek": 20.0}, []
    for name, level in levels.items():
        files.append(tmp_path / f"{name}.csv")
        pd.DataFrame({"Level": level + np.arange(5.0)}, pd.date_range("2025", periods=5)).to_csv(files[-1], index_label="time")
    table = io.read_readings(files)
    assert dict(zip(table.names, table.values[:, 0], strict=True)) == levels
    files = [file.rename(file.with_stem(file.stem.replace("well", "well_"))) for file in files]
    assert io.read_readings(files).names == ("well_2001", "well_2002", "lake", "creek")


def test_files_that_differ_at_the_same_times_keep_the_dates_in_their_names(tmp_path):
    files = [tmp_path / f"{name}_20{k}.csv" for name in "ab" for k in (10, 11)]
    for k, file in enumerate(files):
        pd.DataFrame({"Temp": np.arange(5.0) + k}, pd.date_range("2025", periods=5)).to_csv(file, index_label="time")
    assert io.read_readings(files).names == ("a_2010", "a_2011", "b_2010", "b_2011")


@pytest.mark.parametrize("minus", ["−", "–"])
def test_a_typeset_minus_is_one(tmp_path, minus):
    """It was to be left empty, or passed as --missing: all frost was gone."""
    path = write(tmp_path, "r.csv", f"time,A{minus}B,C\n2024-01-01,{minus}1.5,2\n2024-01-02, {minus}.5,3\n")
    table = io.read_readings(path)
    assert (table.names, table.values.tolist()) == ((f"A{minus}B", "C"), [[-1.5, -0.5], [2, 3]])
    assert any("2 numbers with a typeset minus are read as negative" in note for note in table.notes)


def test_stations_without_coordinates_are_left_out(tmp_path):
    path = write(tmp_path, "s.csv", "id,lat,lon,elevation\nA,1,2,5\nB,,3,6\nC,-999,-999,7\nD,N/A,NA,8\nE,2,2,9\n")
    stations = io.read_stations(path)
    assert stations.names == ("A", "E")
    np.testing.assert_array_equal(stations.altitude, [5, 9])
    assert "3 stations have no coordinates, left out: 'B', 'C', 'D'" in stations.notes[0]
    with pytest.raises(InputError, match="line 3: station 'B' has no coordinates; fill them in or drop the row"):
        io.read_stations(path, strict=True)


def test_stations_in_frames(tmp_path):
    frame = pd.DataFrame({"id": ["A", "B"], "lat": [48.1, 48.2], "lon": [-2.4, -3.3], "altitude": [1, 2]})
    for same in (frame, frame.set_index("id"), frame.set_index("id").rename_axis(None)):
        stations = io.stations_from_frame(same, strict=True)
        assert (stations.names, stations.metric) == (("A", "B"), "haversine")
        np.testing.assert_array_equal(stations.coordinates, frame[["lat", "lon"]])
        np.testing.assert_array_equal(stations.altitude, [1, 2])
    with pytest.raises(InputError, match="stations: no column 'station'"):
        io.stations_from_frame(frame.drop(columns="id"))
    with pytest.raises(InputError, match=r"stations, row 1: station 'B' is at 148\.2, -3\.3"):
        io.stations_from_frame(frame.assign(lat=[48.1, 148.2]))


def test_columns_that_are_no_stations_are_left_out(tmp_path):
    path = write(tmp_path, "r.csv", "time,A,notes,B,C\n2024-01-01,1,windy,2,3\n")
    table = io.read_readings(path, ["B", "A"])
    np.testing.assert_array_equal(table.values, [[2], [1]])
    assert "2 columns are not in the station table and left out: 'notes', 'C'" in table.notes[0]
    with pytest.raises(InputError, match="column 'notes' is not a station; the columns must be the names in the station file"):
        io.read_readings(path, ["B", "A"], strict=True)


def test_stations_without_a_column(tmp_path):
    path = write(tmp_path, "r.csv", "time,A,B\n2024-01-01,1,2\n")
    table = io.read_readings(path, ["C", "B", "D", "A"])
    assert table.names == ("B", "A")
    assert "2 stations have no column and are left out: 'C', 'D'" in table.notes[0]
    table = io.read_readings(path, ["C", "B", "D", "A"], keep_absent=True)
    np.testing.assert_array_equal(table.values, [[np.nan], [2], [np.nan], [1]])
    assert "2 stations have no column and are taken as missing: 'C', 'D'" in table.notes[0]
    for keep in (True, False):
        with pytest.raises(InputError, match="no column for station 'C'; the columns must be the names in the station file"):
            io.read_readings(path, ["C", "B", "A"], strict=True, keep_absent=keep)
    said = "no column has a station's name; it has 'A', 'B', but the stations are 'X', 'Y': write them alike, or name"
    with pytest.raises(InputError, match=said):
        io.read_readings(path, ["X", "Y"])


@pytest.mark.parametrize(
    ("columns", "stations", "expected"),
    [
        (["a", "B"], ["A", "B"], ["A", "B"]),
        (["01", "2"], ["1", "2"], ["1", "2"]),
        (["1.0", "2.0"], ["1", "2"], ["1", "2"]),
        (["North  station", "B"], ["north station", "B"], ["north station", "B"]),
        (["a", "A", "B"], ["A", "B"], ["A", "B"]),  # an exact name first
        (["01", "001", "B"], ["1", "B"], ["B"]),  # two candidates are none
        (["a", "B"], ["A", "á", "B"], ["A", "B"]),
    ],
)
def test_names_that_differ_in_case_spaces_or_zeros(tmp_path, columns, stations, expected):
    text = "time," + ",".join(columns) + "\n2024-01-01," + ",".join(str(i) for i in range(len(columns))) + "\n"
    table = io.read_readings(write(tmp_path, "r.csv", text), stations)
    assert list(table.names) == expected
    assert table.notes
    with pytest.raises(InputError, match=r"write the names as in the station table|is not a station|no column for"):
        io.read_readings(tmp_path / "r.csv", stations, strict=True)


def test_spaces_around_names_do_not_matter(tmp_path):
    table = io.read_readings(write(tmp_path, "r.csv", "time, A ,B\n2024-01-01,1,2\n"), ["A", "B"], strict=True)
    assert table.names == ("A", "B")


def test_archives_are_matched_by_name_too(tmp_path):
    values = np.array([[1.0, 2.0], [3.0, np.inf], [5.0, 6.0]])
    np.savez(tmp_path / "r.npz", values=values, names=np.array(["A", "b", "D"]), times=np.array(["2024-01-02", "2024-01-01"]))
    table = io.read_readings(tmp_path / "r.npz", ["B", "C", "A"])
    np.testing.assert_array_equal(table.values, [[np.nan, 3], [2, 1]])
    assert table.times == ("2024-01-01", "2024-01-02")
    assert len(table.notes) == 5
    with pytest.raises(InputError, match="infinite reading"):
        io.read_readings(tmp_path / "r.npz", ["B", "C", "A"], strict=True)


def test_a_station_object_serves_as_names(tmp_path):
    stations = io.read_stations(write(tmp_path, "s.csv", "id,x,y\nA,1,2\nB,2,3\n"))
    table = io.read_readings(write(tmp_path, "r.csv", "time,B,A\n0,1,2\n"), stations)
    assert table.names == ("A", "B")


def test_a_number_per_station_may_stand_beside_those_of_others(tmp_path):
    path = write(tmp_path, "v.csv", "station,variance\nA,1\nB,2\n")
    np.testing.assert_array_equal(io.read_column(path, ["B"], "variance", others=["A"]), [2])
    with pytest.raises(InputError, match="'A' is not in the station file: pass the variance of this network"):
        io.read_column(path, ["B"], "variance")


def test_two_spellings_of_a_station_in_a_long_table_are_one_station(tmp_path):
    rows = ["2024-01-01,Brest Nord,1", "2024-01-02,BREST  NORD ,2", "2024-01-03,brest nord,3", "2024-01-01,B,5"]
    path = write(tmp_path, "r.csv", "time,station,value\n" + "\n".join(rows) + "\n")
    table = io.read_readings(path, ["Brest Nord", "B"])
    np.testing.assert_array_equal(table.values, [[1, 2, 3], [5, np.nan, np.nan]])
    assert "2 stations are matched with a station by ignoring case, spaces or leading zeros" in table.notes[0]
    with pytest.raises(InputError, match="write the names as in the station table"):
        io.read_readings(path, ["Brest Nord", "B"], strict=True)


def test_a_unit_in_brackets_after_a_name_does_not_matter(tmp_path):
    path = write(tmp_path, "r.csv", "time,A [°C],B (degC),C\n2024-01-01,1,2,3\n")
    table = io.read_readings(path, ["A", "B", "C"])
    np.testing.assert_array_equal(table.values, [[1], [2], [3]])
    assert "2 columns are matched with a station by ignoring a unit in brackets: 'A [°C]' is taken as 'A'" in table.notes[0]
    rows = "time,station,value\n2024-01-01,A [°C],1\n2024-01-01,A [%],50\n2024-01-01,B,2\n"
    table = io.read_readings(write(tmp_path, "two.csv", rows), ["A", "B"])  # two quantities are not one station
    assert table.names == ("B",)


@pytest.mark.parametrize(("latitude", "kept"), [(48.0, ("A", "C")), (5.0, ("A", "B", "C"))])
def test_a_station_at_zero_zero_has_no_coordinates_unless_others_are_near(latitude, kept):
    frame = pd.DataFrame({"lat": [latitude, 0.0, latitude + 0.1, np.nan], "lon": [-2.0, 0.0, -2.5, 1.0]}, index=list("ABCD"))
    stations = io.stations_from_frame(frame)
    assert stations.names == kept
    left_out = "2 stations have no coordinates, left out: 'B', 'D'" if len(kept) == 2 else "1 station has no coordinates"
    assert left_out in stations.notes[0]


@pytest.mark.parametrize("stations", [None, ["WEHR", "TAL", "OBER"]])
def test_files_of_the_same_column_are_a_station_each(tmp_path, stations):
    """Their one column is the quantity: six gauges were one, of which all readings were averaged."""
    paths = []
    for k, name in enumerate(("Wehr", "Tal", "Ober")):
        rows = [f"0{day}.03.2026;{100 * k + day}" for day in range(1, 8)]
        paths.append(tmp_path / f"Pegel_{name}.txt")
        paths[-1].write_text("\n".join(["Datum;Wasserstand", *rows]))
    table = io.read_readings(paths, stations)
    assert table.names == tuple(stations or ("Pegel_Wehr", "Pegel_Tal", "Pegel_Ober"))
    np.testing.assert_array_equal(table.values, 100 * np.arange(3)[:, None] + np.arange(1, 8))
    assert table.quantity == "Wasserstand"
    seen = io.inspect(paths)
    assert seen.quantities["stations"].tolist() == [3]


def test_files_of_one_station_by_month_or_in_folders(tmp_path):
    for folder, first, more in (("a", 1, 0), ("b", 1, 50), ("c", 8, 0)):
        rows = [f"2026-03-{day:02},{day + more}" for day in range(first, first + 7)]
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "level.csv").write_text("\n".join(["time,level", *rows]))
    a, b, c = (tmp_path / folder / "level.csv" for folder in "abc")
    assert io.read_readings([a, c]).names == ("level",)
    assert io.read_readings([a, c]).values.shape == (1, 14)
    assert io.read_readings([a, b]).names == ("a", "b")
    (tmp_path / "copy.csv").write_text(a.read_text())
    assert io.read_readings([a, tmp_path / "copy.csv"]).names == ("level",)


def test_stations_under_another_word_are_named_by_the_words_beside_their_places(tmp_path):
    path = write(tmp_path, "s.csv", "Anlage;Breite;Länge;kWp\nDach 01;48,1;11,5;5,5\nDach 02;48,2;11,6;6,4\n")
    read = io.read_stations(path)
    assert read.names == ("Dach 01", "Dach 02")
    assert any("column 'Anlage' has the station names" in note for note in read.notes)
    with pytest.raises(InputError, match="Anlage"):
        io.read_stations(path, strict=True)


def test_positions_in_letters_are_no_names_and_an_empty_column_is_no_quantity(tmp_path):
    places = "lat,lon,who\nN47.10,E8.10,A\nN47.20,E8.30,B\nN47.30,E8.20,C\n"
    stations = io.read_stations(write(tmp_path, "p.csv", places))
    assert stations.names == ("A", "B", "C")
    np.testing.assert_allclose(stations.coordinates[:, 0], [47.1, 47.2, 47.3])
    rows = "".join(f"{name},2024-03-01 0{hour}:00,,{hour}.5\n" for hour in range(9) for name in "ABC")
    table = io.read_readings(write(tmp_path, "r.csv", "station,time,spare,temp\n" + rows), stations.names)
    np.testing.assert_array_equal(table.values, np.tile(np.arange(9) + 0.5, (3, 1)))
    assert any("left out: 'spare'" in note for note in table.notes)


def test_a_column_of_stations_that_is_named_is_that_of_the_table_of_stations(tmp_path):
    """Columns with a unit behind each station's name have no column of stations."""
    path = write(tmp_path, "r.csv", "time,Dach 01 [kW],Dach 02 [kW]\n2024-01-01,1,2\n2024-01-02,3,4\n")
    read = io.read_readings(path, ("Dach 01", "Dach 02"), recipe=io.Recipe(station="Anlage"))
    np.testing.assert_array_equal(read.values, [[1, 3], [2, 4]])


@pytest.mark.parametrize("form", ["{0}_{1}", "{1} - {0}"])
def test_a_column_per_station_and_quantity(tmp_path, form):
    """Degrees and per cents were stations of one quantity, without a word."""
    names = [form.format(station, quantity) for station in ("North Weir", "Lock 2") for quantity in ("T", "RH")]
    rows = "".join(f"2024-01-01 {h:02}:00,{h},{h + 50},{h + 1},{h + 60}\n" for h in range(9))
    path = write(tmp_path, "r.csv", ",".join(["time", *names]) + "\n" + rows)
    assert list(io.inspect(path).quantities.index) == ["T", "RH"]
    for name, shifts in (("T", (0, 1)), ("RH", (50, 60))):
        table = io.read_readings(path, recipe=io.Recipe(value=name))
        assert table.names == ("North Weir", "Lock 2")
        np.testing.assert_array_equal(table.values, [[h + shift for h in range(9)] for shift in shifts])
    assert any("are read as stations ('North Weir', 'Lock 2') and quantities ('T', 'RH')" in note for note in table.notes)
    plainly = ["North 1", "North 2", "South 1", "South 2"]  # names of stations
    path = write(tmp_path, "r.csv", ",".join(["time", *plainly]) + "\n" + rows)
    assert io.read_readings(path).names == (*plainly,)


@pytest.mark.parametrize(
    ("names", "below"),
    [
        (["Denver_CO", "Boulder_CO", "Denver_NM", "Boulder_NM"], ""),  # CO is a state beside NM
        (["A_temp_10cm", "A_temp_20cm", "B_temp_10cm", "B_temp_20cm"], ""),
        ([f"H{i}" for i in range(24)], ""),
        ([f"HE{i}" for i in range(1, 25)], ""),
        (["North", "South"], ",degC,C\n"),
        (["North", "South"], ",SN-1A,SN-2B\n"),
    ],
)
def test_stations_that_could_be_quantities_or_hours(tmp_path, names, below):
    """They were split into stations and quantities, refused as hours of the day, or quantities of one station."""
    rows = [f"2024-05-01 {h:02}:00," + ",".join(str(h + k) for k in range(len(names))) for h in range(20)]
    path = write(tmp_path, "r.csv", ",".join(["time", *names]) + "\n" + below + "\n".join(rows))
    read = io.read_readings(path)
    assert read.names == (*names,)
    np.testing.assert_array_equal(read.values[:, 0], range(len(names)))


def test_columns_of_known_stations_are_no_hours(tmp_path):
    names = tuple(f"H{i}" for i in range(24))
    path = write(
        tmp_path, "r.csv", "\n".join([",".join(["date", *names]), *(f"2024-05-{d}" + ",5" * 24 for d in range(11, 31))])
    )
    assert io.read_readings(path, names).names == names


@pytest.mark.parametrize("name", ["", "Ora"])
def test_a_column_that_begins_late_is_not_left_out_for_its_name(tmp_path, name):
    """It was, without a word: nothing in the first rows, and a name that counts rows or is an hour."""
    rows = [f"2024-05-{d:02} {h:02}:00,{h},{'NaN' if d == 1 else h / 4}" for d in (1, 2) for h in range(24)]
    path = write(tmp_path, "r.csv", "\n".join([f"time,Bolzano,{name}", *rows]))
    if name:
        assert np.isfinite(io.read_readings(path).values[1]).sum() == 24
    else:
        with pytest.raises(InputError, match="a column of readings has no name"):
            io.read_readings(path)
