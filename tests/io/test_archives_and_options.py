"""Compressed files and archives, named formats that are damaged, and the options for what a table does not say."""

from __future__ import annotations

import gzip
import json
import zipfile

import numpy as np
import pytest

from nareg import io
from nareg.cli import inputs
from nareg.errors import InputError, TooLargeError
from nareg.io import Recipe

WIDE = "time,A,B\n2024-01-01,1,2\n2024-01-02,3,4\n"
CAMELS = "01022500 2000 01 01   255.00 A:e\n01022500 2000 01 02  -999.00 M\n01022500 2000 01 03   337.00 A\n"


def write(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def archive(folder, members, name="r.zip"):
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as file:
        for member, text in members.items():
            file.writestr(member, text)
    return folder / name


def test_a_gzip_file_is_read_as_the_text_in_it(tmp_path):
    (tmp_path / "r.csv.gz").write_bytes(gzip.compress(WIDE.encode()))
    np.testing.assert_array_equal(io.read_readings(tmp_path / "r.csv.gz").values, [[1, 3], [2, 4]])
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(WIDE.encode())[:-9])
    with pytest.raises(InputError, match="is a damaged gzip file"):
        io.read_readings(tmp_path / "d.csv.gz")


def test_an_archive_of_files_per_station(tmp_path):
    members = {f"data/{s}.csv": f"time,temp,ph\n2024-01-01,{k},7\n2024-01-02,{k + 1},7\n" for k, s in enumerate("AB")}
    path = archive(tmp_path, members | {"readme.pdf": "x", "../outside.md": "x"})
    table = io.read_readings(path, recipe=Recipe(value="temp"))
    assert table.names == ("A", "B")
    np.testing.assert_array_equal(table.values, [[0, 1], [1, 2]])
    seen = io.inspect(path)
    assert (seen.stations, list(seen.quantities.index)) == (("A", "B"), ["temp", "ph"])
    assert any("2 members of the archive that are no table left out" in note for note in seen.notes)
    assert [p.name for p in tmp_path.iterdir()] == ["r.zip"]


def test_an_archive_that_expands_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("nareg._storage.array_files.FREE", 1000)
    path = archive(tmp_path, {"r.csv": "time,A\n" + "0" * 1_000_000})
    with pytest.raises(TooLargeError, match="is damaged or malicious"):
        io.read_readings(path)


def test_an_archive_without_tables_and_a_workbook(tmp_path):
    with pytest.raises(InputError, match=r"holds no table of readings: export it as CSV"):
        io.read_readings(archive(tmp_path, {"a.pdf": "x"}))
    with pytest.raises(InputError, match=r"b\.xlsx cannot be read as a workbook"):
        io.read_readings(archive(tmp_path, {"xl/workbook.xml": "<a/>"}, "b.xlsx"))


def test_a_named_format_and_its_notes(tmp_path):
    table = io.read_readings(write(tmp_path, "q.txt", CAMELS))
    assert (table.names, table.quantity, table.unit) == (("01022500",), "streamflow", "ft³/s")
    np.testing.assert_array_equal(table.values, [[255, np.nan, 337]])
    assert any("read as CAMELS" in note for note in table.notes)
    assert any("1 reading that the agency estimated (A:e) is used" in note for note in table.notes)
    with pytest.raises(InputError, match=r"begins as a CAMELS file but cannot be read as one \(.*\): export it as CSV"):
        io.read_readings(write(tmp_path, "d.txt", CAMELS + "01022500 2000 01 99 3 A\n"))


def test_the_table_of_stations_in_the_folder_of_readings_is_of_the_stations(tmp_path):
    files = [write(tmp_path, "q.txt", CAMELS), write(tmp_path, "s.csv", "station,latitude,longitude\n01022500,44.6,-67.9\n")]
    assert io.read_stations(files).names == ("01022500",)
    assert io.read_readings(files).values.shape == (1, 3)
    seen = io.inspect(files)
    assert seen.placed.names == seen.stations


def test_files_that_are_alike_are_all_of_readings(tmp_path):
    first, second = (write(tmp_path, f"{s}.csv", f"time,temp\n2024-01-01,{k}\n") for k, s in enumerate("AB"))
    places = write(tmp_path, "s.csv", "station,x,y\nA,1,2\nB,2,3\n")
    assert inputs.tables(first, [second]) == ([first, second], None)
    assert inputs.tables(places, [first, second]) == ([first, second], places)
    assert inputs.tables(places, [tmp_path]) == ([first, second], places)
    assert inputs.tables(tmp_path, None) == ([first, second, places], None)


@pytest.mark.parametrize(
    ("decimal", "cells", "expected"),
    [(",", ("1.234,5", "2.000", "-0,5"), [1234.5, 2000, -0.5]), (".", ("1,234.5", "2,000", "-0.5"), [1234.5, 2000, -0.5])],
)
def test_a_known_decimal_mark_lets_the_other_separate_thousands(tmp_path, decimal, cells, expected):
    rows = "".join(f"{k + 1:02}.01.2024;{cell}\n" for k, cell in enumerate(cells))
    path = write(tmp_path, "r.csv", "time;A\n" + rows)
    np.testing.assert_array_equal(io.read_readings(path, recipe=Recipe(decimal=decimal)).values, [expected])


@pytest.mark.parametrize("text", ["1.5 2\n2.5 3\n", "1.5,2\n2.5,3\n", "7,8\n1.5,2\n2.5,3\n"])
def test_numbers_without_times(tmp_path, text):
    path = write(tmp_path, "r.txt", text)
    with pytest.raises(InputError, match="A table without times is read with --step and --start"):
        io.read_readings(write(tmp_path, "s.txt", "1.5 2 3 4\n" * 4))
    table = io.read_readings(path, recipe=Recipe(start="2012-03-01", step="5min"))
    assert table.names == (("7", "8") if text[0] == "7" else ("1", "2"))
    np.testing.assert_array_equal(table.values, [[1.5, 2.5], [2, 3]])
    assert [str(t)[:16] for t in table.timestamps] == ["2012-03-01T00:00", "2012-03-01T00:05"]


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ({"start": "2012-03-01"}, "start is '2012-03-01', but no step is given"),
        ({"start": "today at noon or so", "step": "5min"}, r"start is 'today at noon or so' and step '5min': pass such as"),
        ({"decimal": ";"}, r"decimal is ';': pass ',' or '\.'"),
        ({"start": "2012-03-01", "step": "5min"}, r"start is '2012-03-01', but .* has times \('time'\): omit start"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path, recipe, words):
    text = "1.5 2 3 4\n" * 4 if "noon" in words else WIDE
    path = write(tmp_path, "r.csv", text)
    with pytest.raises(InputError, match=words):
        io.read_readings(path, recipe=Recipe(**recipe))


@pytest.mark.parametrize(
    ("crs", "words"),
    [("EPSG:1", "is not known"), ("EPSG:4326", "has no x and y in the plane"), ("EPSG:28992", None)],
)
def test_reference_systems(tmp_path, crs, words):
    path = write(tmp_path, "s.csv", "station,x,y\nA,155000,463000\nB,156000,463000\n")
    if words is None:
        places = io.read_stations(path, recipe=Recipe(crs=crs))
        np.testing.assert_allclose(places.coordinates[0], [52.1552, 5.3872], atol=1e-3)  # Amersfoort, the origin
        with pytest.raises(InputError, match="has latitudes and longitudes: omit it"):
            io.read_stations(write(tmp_path, "d.csv", "station,lat,lon\nA,1,2\n"), recipe=Recipe(crs=crs))
        return
    with pytest.raises(InputError, match=f"crs is '{crs}', which {words}"):
        io.read_stations(path, recipe=Recipe(crs=crs))


def test_a_kind_of_readings_is_chosen_by_its_word(tmp_path):
    rows = [f"2024-01-0{d},{s},{p},{v},{u}" for d in (1, 2) for s in "AB" for p, v, u in (("no2", d, "ppb"), ("pm25", 9, "µg"))]
    path = write(tmp_path, "r.csv", "\n".join(["time,station,parameter,value,unit", *rows]))
    table = io.read_readings(path, recipe=Recipe(value="no2"))
    np.testing.assert_array_equal(table.values, [[1, 2], [1, 2]])
    assert (table.quantity, table.unit) == ("no2", "ppb")
    assert any("4 rows of 8 have 'no2' in column 'parameter'; the others are left out" in note for note in table.notes)
    seen = io.inspect(path, recipe=Recipe(value="no2"))
    assert list(seen.quantities.index) == ["no2"]


def test_the_table_of_one_station_asks_for_the_quantity(tmp_path):
    text = "time,temp,rh\n2024-01-01,5,80\n2024-01-02,6,81\n"
    path = write(tmp_path, "Weir 2.csv", text)
    with pytest.raises(InputError, match=r"readings of one station and 2 quantities \('temp', 'rh'\): name .* --value"):
        io.read_readings(path)
    assert io.read_readings(path, recipe=Recipe(value="rh")).names == ("Weir 2",)
    assert io.read_readings(path, ["temp", "rh"]).names == ("temp", "rh")
    seen = io.inspect(path)
    assert (seen.stations, list(seen.quantities.index)) == (("Weir 2",), ["temp", "rh"])


def test_positions_in_the_rows_of_one_station(tmp_path):
    path = write(tmp_path, "buoy.csv", "time,latitude,longitude,level\n2024-01-01,48,2,5\n2024-01-02,48,2,6\n")
    table = io.read_readings(path)
    assert (table.names, table.quantity) == (("buoy",), "level")
    places = io.read_stations(path)
    assert places.names == ("buoy",)
    np.testing.assert_array_equal(places.coordinates, [[48, 2]])
    empty = io.inspect(write(tmp_path, "gauge.csv", "time,latitude,longitude,level\n2024-01-01,,,5\n2024-01-02,,,6\n"))
    assert empty.placed is None
    assert any("no position is understood" in note for note in empty.notes)


def test_a_zone_in_the_name_of_the_column(tmp_path):
    table = io.read_readings(write(tmp_path, "r.csv", "'time PST','A'\n'2024-06-01 10:00',1\n'2024-06-01 11:00',2\n"))
    assert (table.zone, str(table.timestamps[0])[:16]) == ("UTC", "2024-06-01T18:00")
    assert any("times are in PST (-08:00)" in note for note in table.notes)


def test_rare_words_among_numbers_are_missing_and_frequent_ones_are_refused(tmp_path):
    rows = [f"2024-01-01 {k // 60:02}:{k % 60:02},{k}" for k in range(120)]
    rows[7] = rows[7].replace(",7", ",oops")
    table = io.read_readings(write(tmp_path, "r.csv", "\n".join(["time,A", *rows])))
    assert np.isnan(table.values).sum() == 1
    assert any("1 cell that is no number, such as 'oops' (line 9, column 'A'), counts as missing" in n for n in table.notes)
    with pytest.raises(InputError, match="'oops' is not a number"):
        io.read_readings(tmp_path / "r.csv", strict=True)
    for k in range(10, 20):
        rows[k] = rows[k].rpartition(",")[0] + ",oops"
    with pytest.raises(InputError, match="'oops' is not a number"):
        io.read_readings(write(tmp_path, "r.csv", "\n".join(["time,A", *rows])))


def test_files_of_different_quantities_are_not_averaged(tmp_path):
    files = [write(tmp_path, f"{q}.csv", f"time,station,{q}\n2024-01-01,A,1\n") for q in ("level", "flow")]
    with pytest.raises(InputError, match=r"different quantities \('level', 'flow'\): name one by --value"):
        io.read_readings(files)
    assert io.read_readings(files, recipe=Recipe(value="flow")).quantity == "flow"


def test_a_station_that_is_listed_twice_nearby_is_one(tmp_path):
    path = write(tmp_path, "s.csv", "station,latitude,longitude\nA,48.0,2\nA,48.002,2\nB,50,3\n")
    places = io.read_stations(path)
    np.testing.assert_allclose(places.coordinates, [[48.001, 2], [50, 3]])
    assert any("1 station is listed again within a kilometer" in note for note in places.notes)
    with pytest.raises(InputError, match="listed again"):
        io.read_stations(path, strict=True)


def test_lines_of_zero_bytes_are_left_out(tmp_path):
    (tmp_path / "r.csv").write_bytes(WIDE.encode().replace(b"\n2024-01-02", b"\n\0\0\0\0\n2024-01-02"))
    table = io.read_readings(tmp_path / "r.csv")
    np.testing.assert_array_equal(table.values, [[1, 3], [2, 4]])
    assert any("1 line of zero bytes is left out" in note for note in table.notes)


@pytest.mark.parametrize(("cell", "mark"), [("5.400,25", ","), ("1.005.400,25", ","), ("-5,400.25", "."), ("1,005,400.", ".")])
def test_marks_between_thousands_have_a_remedy(tmp_path, cell, mark):
    """They were to be left empty, or passed as --missing."""
    path = write(tmp_path, "r.csv", f"time;A;B\n2024-01-01;{cell};1\n2024-01-02;2;3\n")
    with pytest.raises(InputError, match=rf"'{cell}' has a mark between thousands; pass --decimal '\{mark}'"):
        io.read_readings(path)
    value = float(cell.replace("," if mark == "." else ".", "").replace(",", "."))
    assert io.read_readings(path, recipe=Recipe(decimal=mark)).values.tolist() == [[value, 2], [1, 3]]


@pytest.mark.parametrize("end", [b"\0" * 512, b"\n" + b"\0" * 9, b"\n \0\0 \n\0\0\n"])
def test_zero_bytes_at_the_end_are_left_out(tmp_path, end):
    """A logger sets a file's length before it writes the rows."""
    (tmp_path / "r.csv").write_bytes(WIDE.replace("A", "Zürich").encode().rstrip(b"\n") + end)
    table = io.read_readings(tmp_path / "r.csv")
    np.testing.assert_array_equal(table.values, [[1, 3], [2, 4]])
    assert any("of zero bytes" in note for note in table.notes)


def test_the_only_column_of_readings_may_be_named(tmp_path):
    text = "time,station,count\n" + "".join(f"{t},{s},{t}\n" for t in range(3) for s in "AB")
    path = write(tmp_path, "r.csv", text)
    table = io.read_readings(path, recipe=io.inspect(path).recipe)
    np.testing.assert_array_equal(table.values, [[0, 1, 2], [0, 1, 2]])


def test_a_recipe_of_a_named_format_serves_beside_a_table_of_stations(tmp_path):
    files = [write(tmp_path, "q.txt", CAMELS), write(tmp_path, "s.csv", "gauge_id,latitude,longitude\n01022500,44.6,-67.9\n")]
    recipe = io.inspect(files).recipe
    assert recipe == Recipe(value="streamflow")
    assert io.read_stations(files[1], recipe=recipe).names == ("01022500",)


def test_a_recipe_of_readings_serves_for_stations_whose_column_has_another_usual_name(tmp_path):
    path = write(tmp_path, "s.csv", "gauge,latitude,longitude\nA,50,4\nB,51,5\n")
    assert io.read_stations(path, recipe=Recipe(station="station")).names == ("A", "B")
    with pytest.raises(InputError, match="station is 'station', but there is no such column: it has 'Punt'"):
        io.read_stations(write(tmp_path, "t.csv", "Punt,latitude,longitude\nA,50,4\n"), recipe=Recipe(station="station"))


def test_records_in_json(tmp_path):
    rows = [{"time": f"2024-01-0{t}", "station": s, "value": t, "place": {"lat": 48}} for t in (1, 2) for s in "AB"]
    table = io.read_readings(write(tmp_path, "r.json", json.dumps(rows)))
    assert table.names == ("A", "B")
    np.testing.assert_array_equal(table.values, [[1, 2], [1, 2]])


def test_stations_that_are_called_after_the_weather_are_stations(tmp_path):
    names = [
        "Windy Hill",
        "Wind Gap",
        "Rain Creek",
        "Ashford",
        "Barton",
        "Camden",
        "Dover",
        "Exeter",
        "Frome",
        "Goole",
        "Hythe",
    ]
    path = write(tmp_path, "r.csv", ",".join(["time", *names]) + "\n" + "2024-01-01" + ",1" * 11 + "\n2024-01-02" + ",2" * 11)
    assert io.read_readings(path).names == tuple(names)


def test_a_line_of_text_beside_tables_is_left_out(tmp_path):
    """A readme.txt in an archive or a folder."""
    rows = "time,A,B\n" + "".join(f"2024-01-01 {h:02}:00,{h},{h + 1}\n" for h in range(4))
    files = {"readme.txt": "Exported by the logger.\n", "readings.csv": rows}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for name in files:
            archive.write(tmp_path / name, name)
    for source in (tmp_path / "all.zip", [tmp_path / name for name in files]):
        read = io.read_readings(source)
        assert read.values.shape == (2, 4)
        assert any("left out" in note and "readme.txt" in note for note in read.notes)


PROSE = """This folder holds the readings of the network.
They were taken in June 2024, by A. Smith, B. Jones and others.

Please cite the paper, which describes the sensors.
"""


@pytest.mark.parametrize(
    ("name", "data"),
    [("map.png", b"\x89PNG\r\n\x1a\n" + bytes(90)), ("photo.jpeg", b"\xff\xd8\xff\xe0" + bytes(90)), ("x.svg", b"<svg></svg>"),
     ("paper.pdf", b"%PDF-1.4\n" + bytes(90)), ("readme.txt", PROSE.encode()), ("LICENSE", b"MIT License\n\n" + PROSE.encode()),
     ("LEESMIJ.txt", b"Dit zijn de metingen.\nVragen? Bel ons.\n"),
     ("about", b"These are the readings of a network.\nAsk us before you use them.\n")],
)  # fmt: skip
def test_pictures_and_texts_beside_tables_are_left_out(tmp_path, name, data):
    (tmp_path / "folder").mkdir()
    rows = "time,A,B\n" + "".join(f"2024-01-01 {h:02}:00,{h},{h + 1}\n" for h in range(4))
    (tmp_path / "folder" / "readings.csv").write_text(rows)
    (tmp_path / "folder" / name).write_bytes(data)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for path in (tmp_path / "folder").iterdir():
            archive.write(path, path.name)
    for source in (tmp_path / "all.zip", sorted((tmp_path / "folder").iterdir())):
        read = io.read_readings(source)
        assert read.values.shape == (2, 4)
        assert any("left out" in note and name in note for note in read.notes)
    assert any("left out" in note and name in note for note in io.inspect(tmp_path / "folder").notes)
    with pytest.raises(InputError, match="of which no table can be made"):
        io.read_readings(tmp_path / "folder" / name)


def test_tables_with_many_words_are_no_texts(tmp_path):
    """Titles above a header, and stations with long names."""
    names = ["Upper meadow by the old mill", "Bridge over the little river", "Garden of the primary school"]
    rows = "time,station,value\n" + "".join(f"2024-01-0{d},{name},{d}\n" for d in (1, 2) for name in names)
    for title in ("", "Readings of the network of the town\n"):
        assert io.read_readings(write(tmp_path, "r.csv", title + rows)).names == tuple(names)
    with pytest.raises(InputError, match="has one column"):
        io.read_readings(write(tmp_path, "s.csv", "station\nMeadow\nBridge\n"))
