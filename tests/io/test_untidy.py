"""Tables as networks publish them: parts of times, cells between spaces, positions in the rows, a file per station."""

from __future__ import annotations

import numpy as np
import pytest

from nareg import io
from nareg.cleaning import assemble
from nareg.errors import InputError
from nareg.io import Recipe


def write(folder, name, text):
    (folder / name).write_text(text)
    return folder / name


def test_times_in_parts(tmp_path):
    text = "No,year,month,day,hour,station,x1\n1,2013,3,1,0,A,5\n2,2013,3,1,1,A,6\n3,2013,3,1,23,A,7\n"
    table = io.read_readings(write(tmp_path, "r.csv", text))
    assert [str(t)[:16] for t in table.timestamps] == ["2013-03-01T00:00", "2013-03-01T01:00", "2013-03-01T23:00"]
    np.testing.assert_array_equal(table.values, [[5, 6, 7]])


@pytest.mark.parametrize(
    ("header", "cells", "expected"),
    [
        ("year,month,day,time,A", "2024,3,1,09:10:00,5", "2024-03-01T09:10"),
        ("year,month,day,hour,A", "2024,3,1,910,5", "2024-03-01T09:10"),
        ("A,year,mo,dd,hh,mn", "5,2024,03,01,09,10", "2024-03-01T09:10"),
        ("datetime,year,month,day,A", "2024-03-01 09:10,2024,3,1,5", "2024-03-01T09:10"),
    ],
)
def test_parts_of_times_in_other_forms(tmp_path, header, cells, expected):
    text = f"{header}\n{cells}\n{cells.replace('2024', '2025')}\n"
    table = io.read_readings(write(tmp_path, "r.csv", text), ["A"])
    assert str(table.timestamps[0])[:16] == expected
    np.testing.assert_array_equal(table.values, [[5, 5]])


def test_a_gas_that_is_called_no_is_no_counter(tmp_path):
    text = "time,NO,NO2\n2024-01-01 00:00,4,1\n2024-01-01 01:00,4,2\n2024-01-01 02:00,9,3\n"
    assert io.read_readings(write(tmp_path, "r.csv", text)).names == ("NO", "NO2")


BUOY = (
    "#YY  MM DD hh mm WDIR WSPD\n#yr  mo dy hr mn degT m/s\n"
    "2019 04 02 13 50 120  2.0\n2019 04 02 13 40 110   MM\n2019 04 02 12 50 130  1.0\n"
)


def test_a_buoys_file_has_minutes_and_cells_between_spaces(tmp_path):
    table = io.read_readings(write(tmp_path, "46097.txt", BUOY), recipe=Recipe(value="WSPD"))
    assert table.names == ("46097",)
    assert [str(t)[11:16] for t in table.timestamps] == ["12:50", "13:40", "13:50"]
    np.testing.assert_array_equal(table.values, [[1, np.nan, 2]])
    with pytest.raises(InputError, match="separated by spaces"):
        io.read_readings(tmp_path / "46097.txt", recipe=Recipe(value="WSPD"), strict=True)


def test_positions_in_the_rows(tmp_path):
    rows = [f"S{k},{48 + k},{2 - k},2024-01-0{t},{k + t}" for t in range(1, 4) for k in range(3)]
    path = write(tmp_path, "r.csv", "\n".join(["station,latitude,longitude,date,value", *rows]))
    network = assemble(str(path))
    np.testing.assert_array_equal(network.graph.coordinates, [[48, 2], [49, 1], [50, 0]])
    np.testing.assert_array_equal(network.readings.values, [[1, 2, 3], [2, 3, 4], [3, 4, 5]])
    assert any("3 stations in 9 rows" in note for note in network.notes)


def test_a_station_that_moves_has_the_median_position_and_is_named(tmp_path):
    text = "station,lat,lon,time,value\nA,48,2,1,1\nA,48,2,2,1\nA,49,2,3,1\nB,50,3,1,1\n"
    places = io.read_stations(write(tmp_path, "r.csv", text))
    np.testing.assert_array_equal(places.coordinates, [[48, 2], [50, 3]])
    assert any("several positions, and the median is taken: 'A'" in note for note in places.notes)


def test_readings_without_any_position_say_so(tmp_path):
    path = write(tmp_path, "r.csv", "time,A,B\n2024-01-01,1,2\n2024-01-02,1,2\n")
    assert any("No station has a place" in note for note in assemble(str(path)).notes)
    with pytest.raises(InputError, match="stations is None: pass the table of stations, or positions in the rows"):
        assemble(str(path), strict=True)


def test_a_file_per_station(tmp_path):
    for name, start in (("river-North", 1.0), ("river-South", 10.0)):
        write(tmp_path, f"{name} 2024.csv", f"time,temp,ph\n2024-01-01 00:00,{start},7\n2024-01-01 00:15,{start + 1},7\n")
    write(tmp_path, "river-South 2025.csv", "time,temp,ph\n2025-01-01 00:00,5,7\n")
    files = sorted(tmp_path.iterdir())
    table = io.read_readings(files, ["South", "North"], recipe=Recipe(value="temp"))
    assert table.names == ("South", "North")
    np.testing.assert_array_equal(table.values, [[10, 11, 5], [1, 2, np.nan]])
    assert table.notes == ()
    with pytest.raises(InputError, match=r"no station's name in the name of the file .*pass --station-column"):
        io.read_readings(files, ["East"], recipe=Recipe(value="temp"))


def test_readings_in_two_files_are_averaged_and_counted(tmp_path):
    files = [write(tmp_path, f"{k}.csv", f"time,A\n2024-01-01,{k}\n2024-01-0{k},5\n") for k in (2, 4)]
    table = io.read_readings(files)
    np.testing.assert_array_equal(table.values, [[3, 5, 5]])
    assert any("1 reading is in several files" in note for note in table.notes)


def test_files_with_and_without_a_zone_are_refused(tmp_path):
    files = [write(tmp_path, f"{k}.csv", f"time,A\n2024-01-0{k}{z},1\n") for k, z in ((1, "T00:00"), (2, "T00:00Z"))]
    with pytest.raises(InputError, match="some with and some without a time zone"):
        io.read_readings(files)


class TestZones:
    AUTUMN = "time,A\n2024-10-27 01:30,1\n2024-10-27 02:30,2\n2024-10-27 02:30,3\n2024-10-27 03:30,4\n"

    def test_local_times_become_utc_and_both_hours_stay(self, tmp_path):
        path = write(tmp_path, "r.csv", self.AUTUMN)
        table = io.read_readings(path, recipe=Recipe(zone="Europe/Brussels"))
        assert [str(t)[11:16] for t in table.timestamps] == ["23:30", "00:30", "01:30", "02:30"]
        np.testing.assert_array_equal(table.values, [[1, 2, 3, 4]])
        assert table.zone == "UTC"

    def test_a_long_table_and_an_offset(self, tmp_path):
        text = "time,station,value\n2024-06-01 10:00,A,1\n2024-06-01 10:00,B,2\n2024-06-01 11:00,A,3\n"
        table = io.read_readings(write(tmp_path, "r.csv", text), recipe=Recipe(zone="+02:00"))
        assert [str(t)[11:16] for t in table.timestamps] == ["08:00", "09:00"]
        assert table.zone == "UTC"
        np.testing.assert_array_equal(table.values, [[1, 3], [2, np.nan]])

    @pytest.mark.parametrize(
        ("times", "zone", "words"),
        [
            ("2024-10-27 01:30", "Mars/Olympus", "not known: pass a name such as 'Europe/Brussels'"),
            ("2024-03-31 02:30", "Europe/Brussels", r"2024-03-31 02:30 does not exist.*pass an offset such as '\+01:00'"),
            ("2024-10-27 01:30Z", "Europe/Brussels", "have offsets of their own: omit it"),
            ("3", "Europe/Brussels", "has no dates: omit it"),
        ],
    )
    def test_zones_that_do_not_fit_are_refused(self, tmp_path, times, zone, words):
        with pytest.raises(InputError, match=words):
            io.read_readings(write(tmp_path, "r.csv", f"time,A\n{times},1\n"), recipe=Recipe(zone=zone))
        with pytest.raises(InputError, match=words):
            io.read_readings(write(tmp_path, "l.csv", f"time,station,value\n{times},A,1\n"), recipe=Recipe(zone=zone))


class TestFilesAsPublished:
    """Values read off the files by hand."""

    @pytest.fixture
    def files(self, data_root):
        return data_root / "files"

    def test_metobs(self, files):
        places = io.read_stations(files / "metobs-demo" / "metadatafile.csv")
        table = io.read_readings(files / "metobs-demo" / "datafile.csv", places, recipe=Recipe(value="Temperatuur"))
        assert table.values.shape == (7, 2593)
        assert places.names[0] == "vlinder01"
        assert table.values[0, 0] == 18.8
        assert str(table.timestamps[1])[:16] == "2022-09-01T00:05"

    @pytest.mark.slow
    def test_beijing(self, files):
        places = io.read_stations(files / "beijing-multisite" / "stations.csv")
        path = files / "beijing-multisite" / "PRSA_Data_Dongsi_20130301-20170228.csv"
        table = io.read_readings(path, places, recipe=Recipe(value="TEMP"))
        assert table.names == ("Dongsi",)
        np.testing.assert_array_equal(table.values[0, :2], [-0.5, -0.7])
        assert table.values.shape == (1, 35_064)

    def test_epa(self, files):
        path = files / "epa-aqs" / "ad_viz_plotval_data.csv"
        network = assemble(str(path), recipe=Recipe(value="Daily Mean PM2.5 Concentration"))
        assert network.graph.n_nodes == 10
        day = [str(t)[:10] for t in network.readings.timestamps].index("2023-01-06")
        assert network.readings.values[network.readings.names.index("270031002"), day] == 10.05  # 19.5 and 0.6: two monitors
        assert any("178 readings repeat station and time" in note for note in network.notes)

    def test_buoy(self, files):
        table = io.read_readings(files / "ndbc-buoy" / "46097.txt", recipe=Recipe(value="WSPD"))
        assert table.values[0, -1] == 2.0  # its first line, the latest: 2019-04-02 13:50
        assert str(table.timestamps[-1])[:16] == "2019-04-02T13:50"


def test_the_same_sentence_about_several_files_is_said_once(tmp_path):
    for k in range(3):
        (tmp_path / f"{k}.csv").write_text(f"time;A;B\n2024-01-0{k + 1};1;2\n2024-02-0{k + 1};3;4\n")
    notes = io.read_readings(sorted(tmp_path.glob("*.csv"))).notes
    assert notes == (f"{tmp_path / '0.csv'} and 2 more: the cells are separated by a semicolon.",)


def test_readings_with_positions_in_their_rows_are_not_called_unneeded(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text(
        "time,station,lat,lon,value\n" + "".join(f"2024-01-0{d},{s},48,1{s}.5,{d}\n" for d in (1, 2, 3) for s in "12")
    )
    assert io.read_stations(path).notes == (f"{path}: 2 stations in 6 rows, which have the positions.",)


def test_the_stations_of_positions_are_those_of_the_readings(tmp_path):
    """A column of another name was that of the readings, and all rows were one station's in the table of places."""
    path = tmp_path / "waves.csv"
    rows = [f"2024-01-0{d},4{i}.1,-8.{i},buoy_{i},{d + i}" for d in range(1, 9) for i in range(3)]
    path.write_text("\n".join(["time,latitude,longitude,platform,VHM0", *rows]))
    places = io.read_stations(path)
    assert places.names == io.read_readings(path, places.names).names == ("buoy_0", "buoy_1", "buoy_2")
    np.testing.assert_allclose(places.coordinates, [[40.1, -8.0], [41.1, -8.1], [42.1, -8.2]])
    alone = tmp_path / "alone.csv"
    alone.write_text("\n".join(["time,latitude,longitude,VHM0,SWH", *(f"2024-01-0{d},4.1,-8,{d},{d}" for d in range(1, 9))]))
    assert io.read_stations(alone).names == ("alone",)
    with pytest.raises(InputError, match=r"--station-column; if a column has the rest of the time, by --time-column \("):
        io.read_readings(path)


def test_a_folder_with_a_table_of_stations_among_the_readings(tmp_path):
    (tmp_path / "places.csv").write_text("station,lat,lon\nA,48,11\nB,48.5,11\n")
    for name in "AB":
        rows = [f"2024-01-{d:02d},{name},{d}" for d in range(1, 9)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["time,station,value", *rows]))
    files = sorted(tmp_path.glob("*.csv"))
    assert io.read_stations(files).notes == ()
    notes = io.read_readings(files).notes
    assert [note for note in notes if "places.csv" in note] == [
        f"readings: a table without readings is left out ({tmp_path / 'places.csv'} has positions ('station', 'lat', 'lon') "
        "and no times where the readings are expected)."
    ]


@pytest.mark.parametrize("text", [",,,\n,,,\n", ";;\n;;\n", '"",""\n"",""\n'])
def test_an_empty_sheet_is_refused_in_one_sentence(tmp_path, text):
    with pytest.raises(InputError, match=r"r\.csv has no cell with content: a header line and at least one row are needed\."):
        io.read_readings(write(tmp_path, "r.csv", text))


def test_quantities_of_every_file_are_named(tmp_path):
    """The first file's alone were named, and so cleaned."""
    quantities = {"a.csv": "temp,humid", "b.csv": "temp,wind", "c.csv": "rain"}
    for station, (name, columns) in enumerate(quantities.items()):
        rows = [f"2024-01-01 0{t}:00,S{station}{',1.5' * len(columns.split(','))}" for t in range(9)]
        write(tmp_path, name, "\n".join([f"time,station,{columns}", *rows]))
    files = [tmp_path / name for name in quantities]
    with pytest.raises(io.SeveralQuantities) as several:
        io.read_readings(files)
    assert set(several.value.names) == set(io.inspect(files).quantities.index) == {"temp", "humid", "wind", "rain"}
    for value, stations in (("temp", ("S0", "S1")), ("wind", ("S1",)), ("rain", ("S2",))):
        assert io.read_readings(files, recipe=Recipe(value=value)).names == stations


class TestTwoHeaders:
    """Quantities above the names of the stations, or the other way around."""

    ROWS = "".join(f"2024-06-0{d},{d},{d + 1},{d + 50},{d + 60}\n" for d in range(1, 6))

    @pytest.mark.parametrize(
        "top",
        [",Temperature,Temperature,Humidity,Humidity\ntime,A,B,A,B\n", ",Temperature,,Humidity,\ntime,A,B,A,B\n",
         "time,Temperature,Temperature,Humidity,Humidity\ntime,A,B,A,B\n,C,C,%,%\n"],
    )  # fmt: skip
    @pytest.mark.parametrize("separator", [",", ";"])
    def test_quantities_above_stations(self, tmp_path, top, separator):
        path = write(tmp_path, "r.csv", (top + self.ROWS).replace(",", separator))
        for value, first in (("Temperature", 1), ("Humidity", 51)):
            table = io.read_readings(path, recipe=Recipe(value=value))
            assert table.names == ("A", "B")
            assert table.values[:, 0].tolist() == [first, first + (1 if first == 1 else 10)]
            assert table.unit == ({"Temperature": "C", "Humidity": "%"}[value] if "%" in top else None)
            assert any("two lines of headers are read as quantities ('Temperature', 'Humidity')" in n for n in table.notes)
        with pytest.raises(InputError, match=r"not 2 \('Temperature', 'Humidity'\): name the one to read by --value"):
            io.read_readings(path)
        assert list(io.inspect(path).quantities.index) == ["Temperature", "Humidity"]

    def test_stations_above_quantities(self, tmp_path):
        top = ",,North,,South,\ndate,hour,temperature,humidity,temperature,humidity\n"
        path = write(tmp_path, "r.csv", top + self.ROWS.replace("2024-06-0", "2024-06-01,"))
        table = io.read_readings(path, recipe=Recipe(value="humidity"))
        assert table.names == ("North", "South")
        assert table.values[:, 0].tolist() == [2, 61]
        assert str(table.timestamps[0])[:13] == "2024-06-01T01"

    @pytest.mark.parametrize(
        "top",
        [",North,,South,\ntime,A,B,A,B\n", "time,Temperature,Temperature,Humidity,Humidity\n",
         ",Temperature,Temperature,Humidity,Humidity\ntime,A,B,A,C\n"],
    )  # fmt: skip
    def test_others_are_refused(self, tmp_path, top):
        """Rather than the first column of a name is read."""
        with pytest.raises(InputError, match=r"twice|no such column"):
            io.read_readings(write(tmp_path, "r.csv", top + self.ROWS), recipe=Recipe(value="Temperature"))


def day(hour, form="%Y-%m-%d %H:%M"):
    return (np.datetime64("2024-07-01T00") + np.timedelta64(hour, "h")).item().strftime(form)


def test_kinds_in_one_column_have_units_of_their_own(tmp_path):
    """nareg clean refused what nareg inspect had listed: two units in one column."""
    kinds = (("temperature", 5, "°C"), ("humidity", 70, "%"))
    rows = [f"{day(t)},{s},{kind},{v + t},{unit}" for t in range(4) for s in "AB" for kind, v, unit in kinds]
    path = write(tmp_path, "r.csv", "\n".join(["time,station,parameter,value,unit", *rows]))
    with pytest.raises(io.SeveralQuantities) as refused:
        io.read_readings(path)
    assert refused.value.names == ("temperature", "humidity")
    read = io.read_readings(path, recipe=Recipe(value="humidity"))
    assert read.unit == "%"
    np.testing.assert_array_equal(read.values, [[70, 71, 72, 73]] * 2)
    write(tmp_path, "r.csv", path.read_text().replace(",humidity,", ",temperature,"))
    with pytest.raises(InputError, match="holds 2 units"):
        io.read_readings(path)


def test_files_of_different_quantities_are_not_averaged(tmp_path):
    for name, first in (("temperature", 5), ("humidity", 70)):
        rows = [f"{day(t)},{first + t},{first - t}" for t in range(6)]
        write(tmp_path, f"{name}.csv", "\n".join(["time,A,B", *rows]))
    both = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match=r"humidity.csv.*temperature.csv.*pass those of one quantity alone"):
        io.read_readings(both)
    write(tmp_path, "humidity.csv", both[0].read_text().replace("A,B", "C,D"))  # of other stations
    assert io.read_readings(both).names == ("C", "D", "A", "B")


def test_loggers_whose_sensors_have_the_same_labels_are_not_averaged(tmp_path):
    for logger in (1, 2):
        sensors = [
            f'"Temp, °C (LGR S/N: {logger}, SEN S/N: {logger}{k}, LBL: {end})"' for k, end in enumerate(("North", "South"))
        ]
        rows = [f"{t + 1},{day(t, '%m/%d/%y %I:%M:%S %p')},{logger + t},{9 * logger + t}" for t in range(6)]
        write(tmp_path, f"{logger}.csv", "\n".join(['"#","Date Time, GMT+00:00",' + ",".join(sensors), *rows]))
    with pytest.raises(InputError, match="give each station a name of its own"):
        io.read_readings(sorted(tmp_path.iterdir()))


def test_a_title_that_all_files_share_is_neither_station_nor_quantity(tmp_path):
    for k, name in enumerate(("Hut", "Bay")):
        rows = [f"{day(t)},{5 * k + t}" for t in range(6)]
        write(tmp_path, f"{name}.csv", "\n".join(["# Station: Network North", "time,temperature", *rows]))
    files = sorted(tmp_path.iterdir())
    read = io.read_readings(files)
    assert (read.names, read.quantity) == (("Bay", "Hut"), "temperature")
    np.testing.assert_array_equal(read.values, [np.arange(5.0, 11), np.arange(6.0)])
    seen = io.inspect(files)
    assert (seen.stations, list(seen.quantities.index)) == (("Bay", "Hut"), ["temperature"])


def test_a_day_of_the_year_goes_before_a_time_of_day(tmp_path):
    """Every day was averaged into one: the column of days was left out."""
    rows = [f"2024{183 + t // 24},{t % 24 * 100:04d},{t},{2 * t}" for t in range(60)]
    read = io.read_readings(write(tmp_path, "r.csv", "\n".join(["yearday,time,A,B", *rows])))
    np.testing.assert_array_equal(read.timestamps, np.datetime64("2024-07-01T00") + np.arange(60) * np.timedelta64(1, "h"))
    np.testing.assert_array_equal(read.values, [np.arange(60), 2 * np.arange(60)])


def test_a_folder_is_inspected_as_its_files_are(tmp_path):
    """The counts were missing, and a note said that a folder is no file."""
    for k, name in enumerate(("Hut", "Bay")):
        write(tmp_path, f"{name}.csv", "\n".join(["time,temperature", *(f"{day(t)},{5 * k + t}" for t in range(6))]))
    seen = io.inspect(tmp_path)
    assert seen.counts["temperature"].used == 12
    assert not any("cannot be cleaned" in note for note in seen.notes)


def test_files_that_name_their_station_in_the_first_line_are_all_of_readings(tmp_path):
    """The first one was taken as the table of stations."""
    for name in ("Weir", "Mill"):
        rows = [f"2024-01-0{day} 00:00,{day}.5" for day in range(1, 5)]
        write(tmp_path, f"{name}.csv", "\n".join([f"# Station: {name}", "time,level", *rows]))
    assert io.alike(tmp_path / "Weir.csv", tmp_path / "Mill.csv")
    assert not io.alike(tmp_path / "Weir.csv", write(tmp_path, "s.csv", "# Places\nstation,x,y\nWeir,1,2\nMill,2,3\n"))


def test_numbers_are_times_where_their_column_says_so(tmp_path):
    rows = [f"m{k % 2},{1706745600 + 3600 * (k // 2)},{50 + k}" for k in range(8)]
    read = io.read_readings(write(tmp_path, "r.csv", "\n".join(["sensor_id,ts_utc_epoch,laeq_db", *rows])))
    assert (read.names, str(read.timestamps[0])[:16], read.zone) == (("m0", "m1"), "2024-02-01T00:00", "UTC")
    np.testing.assert_array_equal(read.values[1], [51, 53, 55, 57])
    with pytest.raises(InputError, match="none has times"):  # numbers of any other size are none
        io.read_readings(write(tmp_path, "r.csv", "sensor_id,ts_utc_epoch,laeq_db\na,17,3\nb,18,4\n"))


def test_a_quantity_is_named_without_its_unit(tmp_path):
    rows = [f"2024-01-0{day},A,{day}.5,{60 + day}" for day in range(1, 5)]
    path = write(tmp_path, "r.csv", "\n".join(["time,station,PM2.5 (µg/m³),rh (%)", *rows]))
    np.testing.assert_array_equal(io.read_readings(path, recipe=Recipe(value="PM2.5")).values, [[1.5, 2.5, 3.5, 4.5]])
    twice = write(tmp_path, "r.csv", "\n".join(["time,station,t (°C),t (K)", *rows]))
    with pytest.raises(InputError, match="value is 't', but there is no such column"):
        io.read_readings(twice, recipe=Recipe(value="t"))


def test_remarks_that_begin_late_are_no_quantity(tmp_path):
    """A column without a cell in the first rows was taken for a second quantity, whose first word was then refused."""
    rows = [
        f"{name};0{day % 9 + 1}.0{day // 9 + 1}.2024;{day},5;{'Ausfall' if day == 50 else ''}"
        for day in range(60)
        for name in "AB"
    ]
    path = write(tmp_path, "r.csv", "\n".join(["Messstelle;Datum;Stand;Bemerkung", *rows]))
    read = io.read_readings(path)
    assert (read.quantity, read.values.shape) == ("Stand", (2, 60))
    assert any("left out: 'Bemerkung'" in note for note in read.notes)
