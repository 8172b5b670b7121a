"""Workbooks: a sheet is read as the same cells in a text file are."""

from __future__ import annotations

import datetime
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest

from nareg import io
from nareg.errors import InputError, TooLargeError
from nareg.io import Recipe

openpyxl = pytest.importorskip("openpyxl")
pytest.importorskip("python_calamine")

TIMES = [datetime.datetime(2024, 1, 1) + datetime.timedelta(minutes=10 * k) for k in range(300)]
ROWS = [[time, k / 10, None if k == 7 else -k / 10] for k, time in enumerate(TIMES)]
PLACES = [["Station", "Breite", "Länge"], ["A", 50.1, 8.6], ["B", 50.2, 8.7]]


def book(folder, sheets, name="readings.xlsx"):
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.active)
    for title, rows in sheets.items():
        sheet = workbook.create_sheet(title)
        for row in rows:
            sheet.append(row)
    workbook.save(folder / name)
    return folder / name


def is_whole(table):
    assert table.names == ("A", "B")
    np.testing.assert_array_equal(table.timestamps, np.array(TIMES, dtype="datetime64[ns]"))
    np.testing.assert_array_equal(table.values, [[row[i] if row[i] is not None else np.nan for row in ROWS] for i in (1, 2)])


def test_times_and_numbers_are_those_of_the_cells(tmp_path):
    """Ten minutes are no fraction of a day that a workbook keeps to the microsecond."""
    is_whole(io.read_readings(book(tmp_path, {"Sheet1": [["time", "A", "B"], *ROWS], "Sheet2": []})))


def test_titles_units_sums_and_times_in_two_columns(tmp_path):
    rows = [[time.date(), time.time(), *values] for time, *values in ROWS]
    above = [["Klimanetz"], ["Lufttemperatur"], [], ["Datum", "Uhrzeit", "A", "B"]]
    parts = {"Januar": [*above, *rows[:150], ["Mittel", None, 1.5, 2.5]], "Februar": [*above, *rows[150:]]}
    path = book(tmp_path, parts | {"Info": [["Autor", "Müller"], ["Stand", "Mai"]]})
    table = io.read_readings(path)
    is_whole(table)
    said = "\n".join(table.notes)
    assert "1 line below the rows is left out ('Mittel,,1.5,2.5')" in said
    assert f"a table without readings is left out ({path}/Info has few numbers)" in said


def test_a_sheet_of_places_beside_the_readings(tmp_path):
    path = book(tmp_path, {"Stationen": PLACES, "Daten": [["Zeit", "A", "B"], *ROWS]})
    is_whole(io.read_readings(path))
    np.testing.assert_array_equal(io.read_stations(path).coordinates, [[50.1, 8.6], [50.2, 8.7]])
    assert io.inspect(path).placed.names == ("A", "B")


@pytest.mark.parametrize("zipped", [False, True])
def test_a_station_per_sheet_or_workbook(tmp_path, zipped):
    each = {name: [["time", "T"], *([row[0], row[1 + k]] for row in ROWS)] for k, name in enumerate("AB")}
    if zipped:
        path = tmp_path / "network.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name, rows in each.items():
                archive.write(book(tmp_path, {"Sheet1": rows}, f"{name}.xlsx"), f"data/{name}.xlsx")
    else:
        path = book(tmp_path, each)
    is_whole(io.read_readings(path, recipe=Recipe(value="T")))


@pytest.mark.parametrize("beside", ["readme.txt", "stations.csv", "readings.csv"])
def test_a_workbook_in_an_archive_beside_a_text(tmp_path, beside):
    """It was left out, or the archive refused; one that a text of its name repeats still is."""
    texts = {
        "readme.txt": "The readings of two stations.\nThey are as they were read.\n",
        "stations.csv": "station,lat,lon\nA,48,11\nB,48.1,11\n",
        "readings.csv": "\n".join(["time,A,B", *(",".join(map(str, row)) for row in ROWS)]),
    }
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr(beside, texts[beside])
        archive.write(book(tmp_path, {"Sheet1": [["time", "A", "B"], *ROWS]}), "readings.xlsx")
    read = io.read_readings(tmp_path / "all.zip")
    is_whole(read)
    assert any("left out" in note and (beside if beside != "readings.csv" else "readings.xlsx") in note for note in read.notes)


def test_workbooks_of_other_programs(tmp_path):
    rows = "".join(
        f'<table:table-row><table:table-cell office:value-type="date" office:date-value="2024-01-{d:02d}T06:00:00"/>'
        f'<table:table-cell office:value-type="float" office:value="{d}.5"/></table:table-row>' for d in range(1, 6)
    )  # fmt: skip
    names = ("office", "table", "text")
    spaces = " ".join(f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in names)
    head = "".join(
        f'<table:table-cell office:value-type="string"><text:p>{name}</text:p></table:table-cell>' for name in ("time", "A")
    )
    content = (
        f'<?xml version="1.0"?><office:document-content {spaces}><office:body><office:spreadsheet><table:table table:name="D">'
        f"<table:table-row>{head}</table:table-row>{rows}</table:table></office:spreadsheet></office:body>"
        "</office:document-content>"
    )
    with zipfile.ZipFile(tmp_path / "r.ods", "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", content)
        archive.writestr("META-INF/manifest.xml", "<manifest/>")
    table = io.read_readings(tmp_path / "r.ods")
    assert str(table.timestamps[0])[:16] == "2024-01-01T06:00"
    np.testing.assert_array_equal(table.values, [[1.5, 2.5, 3.5, 4.5, 5.5]])


def test_a_decimal_comma_is_of_texts_alone(tmp_path):
    path = book(
        tmp_path, {"D": [["time", "A", "B"], *([t, a, str(b).replace(".", ",") if b else None] for t, a, b in ROWS[1:])]}
    )
    for table in (io.read_readings(path, recipe=Recipe(decimal=",")), io.read_readings(path)):
        np.testing.assert_array_equal(table.values[:, :3], [[0.1, 0.2, 0.3], [-0.1, -0.2, -0.3]])
    assert any("texts such as '-0,1' are read with a decimal comma" in note for note in table.notes)


def test_two_headers_with_joined_cells(tmp_path):
    below = ["Zeit", "Temperatur", "Feuchte", "Temperatur", "Feuchte"]
    rows = [[None, "A", None, "B", None], below, *([t, a, 50 + k % 9, b, 60 + k % 7] for k, (t, a, b) in enumerate(ROWS))]
    is_whole(io.read_readings(book(tmp_path, {"D": rows}), recipe=Recipe(value="Temperatur")))


def test_a_quantity_per_sheet(tmp_path):
    head, damp = ["time", "A", "B"], [[time, 50 + k % 9, 60 + k % 7] for k, (time, *_) in enumerate(ROWS)]
    path = book(tmp_path, {"Temperature": [head, *ROWS], "Humidity": [head, *damp[:200]]})
    is_whole(io.read_readings(path, recipe=Recipe(value="Temperature")))
    humid = io.read_readings(path, recipe=Recipe(value="Humidity"))
    np.testing.assert_array_equal(humid.values[:, :200], np.array([row[1:] for row in damp[:200]]).T)
    assert np.isnan(humid.values[:, 200:]).all()
    assert list(io.inspect(path).quantities.index) == ["Temperature", "Humidity"]


def test_what_is_no_workbook(tmp_path, monkeypatch):
    damaged = book(tmp_path, {"D": [["time", "A"], *ROWS]}, "damaged.xlsx")
    with zipfile.ZipFile(damaged, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("xl/workbook.xml", "<a")
    with pytest.raises(InputError, match=r"damaged\.xlsx cannot be read as a workbook .*: export it as CSV"):
        io.read_readings(damaged)
    with pytest.raises(InputError, match=r"empty\.xlsx holds no table of readings"):
        io.read_readings(book(tmp_path, {"D": []}, "empty.xlsx"))
    whole = book(tmp_path, {"D": [["time", "A"], *ROWS]})
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(InputError, match=r"is a workbook: pip install 'nareg\[tables\]', or export it as CSV"):
        io.read_readings(whole)
    monkeypatch.undo()
    monkeypatch.setattr("nareg._storage.array_files.FREE", 0)
    monkeypatch.setattr("nareg._storage.array_files.EXPANSION", 1)
    with pytest.raises(TooLargeError, match="is damaged or malicious"):
        io.read_readings(whole)


def test_a_frame_of_the_same_cells_is_read_alike(tmp_path):
    path = book(tmp_path, {"D": [["time", "A", "B"], *ROWS]})
    frame = pd.DataFrame(ROWS, columns=["time", "A", "B"])
    np.testing.assert_array_equal(io.readings_from_frame(frame).values, io.read_readings(path).values)
