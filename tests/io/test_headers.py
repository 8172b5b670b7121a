"""Lines above, below and among the rows: headers, comments, units and ends."""

from __future__ import annotations

import numpy as np
import pytest

from nareg import io
from nareg.errors import InputError
from nareg.io import Recipe
from tests.io.test_untidy import day, write


def test_a_comment_that_begins_with_the_name_of_a_column_is_no_header(tmp_path):
    text = "#  site_no         -- Site identification number\nsite_no\tdec_lat_va\tdec_long_va\n01\t40.5\t-80.25\n"
    places = io.read_stations(write(tmp_path, "sites.txt", text))
    assert places.names == ("01",)


@pytest.mark.parametrize(
    ("end", "number"),
    [("# end\n", 1), ("# end, of, file\n\n", 1), ("Total,,123\n", 1), ("Average,1.5,2.5,3.5\nMin:,1,2,3\n", 2),
     ("-- end of file --\n", 1), ("EOF", 1), ('"Mean",1,2,3\n\n(c) 2024 the agency\n', 2), ("Mean value 1.5\n", 1),
     ("Gemiddeld,1,2,3\n", 1)],
)  # fmt: skip
@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("first", ["2024-01-0{}", "{}"])
def test_lines_below_the_rows_that_are_none(tmp_path, end, number, separator, first):
    rows = [f"{first.format(k)},{k},{k + 1},{k + 2}" for k in (1, 2, 3)]
    text = "\n".join(["time,A,B,C", *rows, end]).replace(",", separator)
    table = io.read_readings(write(tmp_path, "r.csv", text))
    assert table.values.tolist() == [[1, 2, 3], [2, 3, 4], [3, 4, 5]]
    said = "1 line below the rows is left out" if number == 1 else "2 lines below the rows are left out"
    assert any(said in note for note in table.notes)
    with pytest.raises(InputError):
        io.read_readings(write(tmp_path, "r.csv", text), strict=True)


def test_rows_below_others_are_not_taken_for_an_end(tmp_path):
    """A station may be called Max; a row that is cut off is refused, not left out."""
    rows = "A,2024-01-01,1\nMax,2024-01-01,2\n"
    assert io.read_readings(write(tmp_path, "r.csv", "station,time,value\n" + rows)).names == ("A", "Max")
    table = io.read_readings(write(tmp_path, "r.csv", "station,time,value\n" + rows + "Total,,3\n"))
    assert table.names == ("A", "Max")
    assert any("1 line below the rows is left out ('Total,,3')" in note for note in table.notes)
    assert io.read_stations(write(tmp_path, "s.csv", "station,lat,lon\nMin,48,11\nMax,49,12\n")).names == ("Min", "Max")
    for cut in ("2024-01-03,1", "2024-01-0", "2024-01-03T1"):
        with pytest.raises(InputError, match=r"line 4: . cells, but the header has 3: correct the line"):
            io.read_readings(write(tmp_path, "r.csv", f"time,A,B\n2024-01-01,1,2\n2024-01-02,1,2\n{cut}"))


def test_one_quantity_above_each_station(tmp_path):
    rows = [f"{day(t)},{350 + t},{t}" for t in range(4)]
    path = write(tmp_path, "r.csv", "\n".join([",wind direction,wind direction", "time,S1,S2", *rows]))
    read = io.read_readings(path)
    assert (read.names, read.quantity) == (("S1", "S2"), "wind direction")
    np.testing.assert_array_equal(read.values, [np.arange(350, 354), np.arange(4)])


@pytest.mark.parametrize(
    "block", ["Station: {0}\nLatitude: {1}\nLongitude: 4", "Station,{0}\nLat,{1}\nLon,4", "Site;{0}\nLat;{1}\nLon;4"]
)
@pytest.mark.parametrize("quantities", ["temperature", "temperature,humidity"])
def test_lines_above_the_header_state_the_station_and_its_place(tmp_path, block, quantities):
    for k, name in enumerate(("Hut", "Bay")):
        rows = [",".join([day(t), *(str(5 * k + t) for _ in quantities.split(","))]) for t in range(6)]
        text = "\n".join([block.format(name, 50 + k), "", f"time,{quantities}", *rows])
        write(tmp_path, f"{k}.csv", text.replace(",", ";") if ";" in block else text)
    files = sorted(tmp_path.iterdir())
    read = io.read_readings(files, recipe=Recipe(value="temperature"))
    assert read.names == ("Hut", "Bay")
    np.testing.assert_array_equal(read.values, [np.arange(6.0), np.arange(5.0, 11)])
    np.testing.assert_array_equal(io.inspect(files).placed.coordinates, [[50, 4], [51, 4]])
    assert any("3 lines above the header are left out" in note for note in read.notes)


def test_two_headers_whose_first_column_is_known_by_its_dates(tmp_path):
    """The second quantity was left out without a word: its columns had no name in the first line."""
    rows = [f"0{t + 1}.07.2024 00:00;{t},5;{60 + t};{9 + t},5;{70 + t}" for t in range(4)]
    path = write(tmp_path, "r.csv", "\n".join([";Hut;;Bay;", "Zeit (MESZ);Temperatur;Feuchte;Temperatur;Feuchte", *rows]))
    read = io.read_readings(path, recipe=Recipe(value="Feuchte"))
    assert (read.names, str(read.timestamps[0])[:16]) == (("Hut", "Bay"), "2024-06-30T22:00")
    np.testing.assert_array_equal(read.values, [np.arange(60, 64), np.arange(70, 74)])
    np.testing.assert_array_equal(io.read_readings(path, recipe=Recipe(value="Temperatur")).values[0], np.arange(0.5, 4))


def test_columns_without_a_name_are_counted_where_they_are_left_out(tmp_path):
    path = write(tmp_path, "r.csv", "time,A,,B\n2024-01-01,1,7,3\n2024-01-02,2,5,4\n")
    read = io.read_readings(path)
    assert read.names == ("A", "B")
    assert [note for note in read.notes if "1 column of whole numbers without a name is left out" in note]
    assert not io.read_readings(write(tmp_path, "r.csv", "time,A,\n2024-01-01,1,\n2024-01-02,2,\n")).notes


def test_a_header_that_is_there_again_and_comments_among_the_rows_are_left_out(tmp_path):
    """A logger writes its header whenever it starts, and people write down what they did."""
    rows = ["time,A,B", "2024-01-01,1,2", "time,A,B", "# battery changed", "2024-01-02,3,4", "#, by me", "time,A,B"]
    path = write(tmp_path, "r.csv", "\n".join([*rows, "2024-01-03,5,6"]))
    table = io.read_readings(path)
    assert table.values.tolist() == [[1, 3, 5], [2, 4, 6]]
    assert any("2 lines with the header again are left out" in note for note in table.notes)
    assert any("2 lines of comments among the rows are left out" in note for note in table.notes)
    with pytest.raises(InputError, match="delete such lines"):
        io.read_readings(path, strict=True)
    path = write(tmp_path, "r.csv", "\n".join([*rows, "2024-01-03,5"]))
    with pytest.raises(InputError, match="line 8: 2 cells, but the header has 3"):
        io.read_readings(path)


@pytest.mark.parametrize("line", ["# cleaned, new battery, ok", "#2024-01-02,9,9", "# UTC, 5, ok"])
@pytest.mark.parametrize("at", [1, 2, 4])
def test_a_comment_with_as_many_separators_as_the_header_is_left_out(tmp_path, line, at):
    rows = ["time,A,B", "2024-01-01,1,2", "2024-01-02,3,4", "2024-01-03,5,6"]
    for mark in (",", ";"):
        table = io.read_readings(write(tmp_path, "r.csv", "\n".join([*rows[:at], line, *rows[at:]]).replace(",", mark)))
        assert table.values.tolist() == [[1, 3, 5], [2, 4, 6]]
        assert sum("1 line" in note and "left out" in note for note in table.notes) == 1


def test_what_starts_with_a_number_sign_and_is_no_comment_is_read(tmp_path):
    rows = [f"{name},2024-01-0{day},{day}" for day in (1, 2, 3) for name in ("#3", "4")]
    assert io.read_readings(write(tmp_path, "r.csv", "\n".join(["station,time,value", *rows]))).names == ("#3", "4")
    path = write(tmp_path, "r.csv", "time,A,B\n# UTC,m/s,m/s\n2024-01-01,1,2\n2024-01-02,3,4\n2024-01-03,5,6\n")
    assert io.read_readings(path).unit == "m/s"


def test_a_comma_in_the_header_separates_no_cells_that_the_rows_do_not_have(tmp_path):
    """HOBOware writes the zone behind a comma, whatever separates the cells."""
    rows = ["01/12/2023 11:00 PM;5.10", "01/13/2023 12:00 AM;5.24", "01/13/2023 01:00 AM;5.31"]
    path = write(tmp_path, "r.csv", "\n".join(["Date Time, GMT+01:00;Water Temp (°C)", *rows]))
    read = io.read_readings(path)
    assert [str(t)[:16] for t in read.timestamps] == ["2023-01-12T22:00", "2023-01-12T23:00", "2023-01-13T00:00"]
    np.testing.assert_array_equal(read.values, [[5.10, 5.24, 5.31]])


def test_a_row_of_units_below_titles_is_no_header(tmp_path):
    """As gauges write them: the format of the dates in the row of units, and two columns."""
    rows = [f"{day}.10.2023 00:00;{500 + day},5" for day in range(1, 29)]
    text = "\n".join(["Pegel: St.Pauli", "Gewässer: Elbe", "", "Datum;Wasserstand", "TT.MM.JJJJ hh:mm;cm ü. PN", *rows])
    table = io.read_readings(write(tmp_path, "r.csv", text))
    assert (table.names, table.unit) == (("Wasserstand",), "cm ü. PN")
    assert table.values[0, :2].tolist() == [501.5, 502.5]


def test_meters_in_a_row_of_units_are_no_missing_readings(tmp_path):
    rows = [f"{day:02}.10.2023;{day},5;{day},7" for day in range(1, 28)]
    table = io.read_readings(write(tmp_path, "r.csv", "\n".join(["Datum;A;B", "TT.MM.JJJJ;m;m", *rows])))
    assert (table.names, table.unit, len(table.times)) == (("A", "B"), "m", 27)


def test_a_row_of_groups_above_the_form_of_dates_is_no_header(tmp_path):
    rows = [f"{day:02}.10.2023;{day},5;{day},7" for day in range(1, 28)]
    table = io.read_readings(write(tmp_path, "r.csv", "\n".join(["Pegel;a;b;c", "Ort;Ort;Ort", "TT.MM.JJJJ;A;B", *rows])))
    assert table.names == ("A", "B")


def test_a_line_of_dates_above_rows_that_begin_with_a_station(tmp_path):
    rows = [f"{name};{day:02}.06.2025;{day},5;OK" for day in range(2, 30) for name in ("Höngg", "Wipkingen")]
    above = ["Stadtentwässerung - Export", "Zeitraum;02.06.2025;22.06.2025", "", "Messstelle;Datum;Niederschlag [mm];Status"]
    table = io.read_readings(write(tmp_path, "r.csv", "\n".join([*above, *rows])))
    assert (table.names, table.unit, len(table.times)) == (("Höngg", "Wipkingen"), "mm", 28)
    assert table.values[1, :2].tolist() == [2.5, 3.5]


def test_the_names_of_stations_above_their_readings_and_status(tmp_path):
    """As the United Kingdom's air quality is downloaded: the second column was refused, as one that is no number."""
    lines = ["Data supplied by UK-AIR", "Status: R = Ratified", "", ",,Bloomsbury,,Marylebone Road,"]
    lines += ["Date,time,Nitrogen dioxide,status,Nitrogen dioxide,status"]
    lines += [f"{day:02}/01/2024,06:00:00,{day},R ugm-3,{day + 20},P ugm-3" for day in range(10, 20)]
    read = io.read_readings(write(tmp_path, "r.csv", "\n".join(lines)))
    assert read.names == ("Bloomsbury", "Marylebone Road")
    np.testing.assert_array_equal(read.values, [np.arange(10, 20), np.arange(30, 40)])
    assert any("3 lines above the headers are left out" in note for note in read.notes)


def test_last_rows_with_few_readings_are_no_prose(tmp_path):
    """Of a station with rain alone most cells are empty, and all may be quoted."""
    head = '"STATION","NAME","LATITUDE","LONGITUDE","DATE","PRCP","SNOW","TMAX","TMIN","TOBS"\n'
    rows = "".join(f'"US1","SAINT PAUL 3.8 WSW, MN US","44.93","-93.15","2024-05-{d}","0.{d}",,,,\n' for d in range(11, 30))
    read = io.read_readings(write(tmp_path, "r.csv", head + rows), recipe=Recipe(value="PRCP"))
    assert read.values.size == 19
    row = "Weir in the north;;;;;\n"  # that lacks its date is not left out unless it is the only cell
    text = "station;time;A;B;C;D\n" + "".join(f"Weir in the north;2024-05-{d};1;2;3;4\n" for d in range(11, 30))
    with pytest.raises(InputError):
        io.read_readings(write(tmp_path, "r.csv", text + row.replace(";;", ";;5")), recipe=Recipe(value="A"))


def test_last_rows_that_begin_as_others_do_are_rows(tmp_path):
    """Names and dates of several words were left out as prose where the last rows have few cells."""
    stations = [f"Weir number {name}, lower gate" for name in "ABCD"]
    head = "name;lat;lon;owner\n"
    rows = [f"{name};4{k};1{k};\n" for k, name in enumerate(stations)]
    path = write(tmp_path, "s.csv", head + "".join(rows[:3]) + f"{stations[3]};;;\n")
    assert any("1 station has no coordinates" in note for note in io.read_stations(path).notes)
    text = "time;A;B;C\n" + "".join(f"day no. {d};{d};{d};{d}\n" for d in range(1, 29)) + "day no. 29;;;\n"
    assert io.read_readings(write(tmp_path, "r.csv", text)).values.shape == (3, 29)


@pytest.mark.parametrize(
    ("above", "separator"),
    [
        ('file,timestamp,2024-03-01T10:00:00\nstation,id,39001\nstation,text,"a, b"\ndata,last,2024-05-20\n', ","),
        ("Messstelle: ;Hallein\n L\u00e4nge (Grad,Min,Sek): ;13 05 40\nExport: ;Tagesmittel, m\u00b3/s\nWerte:\n", ";"),
    ],
)
def test_rows_without_a_header_below_other_lines(tmp_path, above, separator):
    """The line to correct was one of those above the rows, and --header named it."""
    rows = [f"2024-05-{day:02}{separator}{day}.5" for day in range(1, 20)]
    (tmp_path / "r.csv").write_text(above + "\n".join(rows), encoding="utf-8")
    first = above.count("\n") + 1
    with pytest.raises(InputError, match=f"no line above line {first} names the columns of its rows: .* by --header"):
        io.read_readings(tmp_path / "r.csv")
    table = io.read_readings(tmp_path / "r.csv", recipe=Recipe(header="time,flow"))
    np.testing.assert_array_equal(table.values, [np.arange(1, 20) + 0.5])
    assert f"{first - 1} lines above the rows are left out" in " ".join(table.notes)


def test_spaces_between_a_time_and_a_reading(tmp_path):
    (tmp_path / "r.zrx").write_text("#SNAMENord|*|\n" + "".join(f"202405{day:02}000000 {day}.5\n" for day in range(1, 20)))
    with pytest.raises(InputError, match=r"has one column .* If the first line is a row of readings, name its columns by --h"):
        io.read_readings(tmp_path / "r.zrx")
    table = io.read_readings(tmp_path / "r.zrx", recipe=Recipe(header="time,level"))
    np.testing.assert_array_equal(table.values, [np.arange(1, 20) + 0.5])


def test_a_header_that_names_all_but_the_first_column_is_to_be_repaired(tmp_path):
    (tmp_path / "r.csv").write_text("A,B\n" + "".join(f"2024-05-{day:02},{day}.5,{day}.1\n" for day in range(1, 20)))
    with pytest.raises(InputError, match="repair the header"):
        io.read_readings(tmp_path / "r.csv")
