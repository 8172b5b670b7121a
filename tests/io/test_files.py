from __future__ import annotations

import csv

import numpy as np
import pytest

from nareg import io
from nareg.errors import InputError

STATIONS = "station,latitude,longitude\nA,48.1,-2.4\nB,48.2,-3.3\nC,47.6,-2.9\n"
READINGS = "time,C,A,B\n2014-01-01,3.5,1.5,\n2014-01-02,4,2,NaN\n"


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_stations_and_readings_are_matched_by_name(tmp_path):
    stations = io.read_stations(write(tmp_path, "s.csv", "﻿" + STATIONS))  # a byte-order mark, as spreadsheets write
    assert stations.names == ("A", "B", "C")
    assert stations.metric == "haversine"
    table = io.read_readings(write(tmp_path, "r.csv", READINGS), stations.names)
    np.testing.assert_array_equal(table.values, [[1.5, 2.0], [np.nan, np.nan], [3.5, 4.0]])
    np.testing.assert_array_equal(table.observed, [[True, True], [False, False], [True, True]])
    assert table.times == ("2014-01-01", "2014-01-02")


@pytest.mark.parametrize("cell", ["33.9 s", "12N", "87.65O", "-87.65W", "W87.65W"])
def test_a_letter_of_another_axis_is_refused(tmp_path, cell):
    """O is east in German and west in French; the number alone may be on the other side of Greenwich."""
    with pytest.raises(InputError, match=r"line 2, column 'longitude': "):
        io.read_stations(write(tmp_path, "s.csv", f"station,latitude,longitude\nA,41.9,{cell}\nB,42,-87\n"))


def test_planar_coordinates(tmp_path):
    assert io.read_stations(write(tmp_path, "s.csv", "id,x,y\n1,0,0\n2,1,0\n")).metric == "euclidean"


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_readings_round_trip_exactly(tmp_path, suffix, rng):
    values = rng.standard_normal((3, 4))
    values[1, 2] = np.nan
    table = io.Readings(("A", "B, with comma", "C"), ("t0", "t1", "t2", "t3"), values)
    io.write_readings(tmp_path / f"r.{suffix}", table)
    back = io.read_readings(tmp_path / f"r.{suffix}")
    np.testing.assert_array_equal(back.values, values)
    assert (back.names, back.times) == (table.names, table.times)


def test_weights_round_trip_exactly_in_another_order(tmp_path, rng):
    w = rng.standard_normal(3)
    io.write_weights(tmp_path / "w.csv", ("A", "B", "C"), w)
    np.testing.assert_array_equal(io.read_weights(tmp_path / "w.csv", ("C", "A", "B")), w[[2, 0, 1]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("station,latitude,longitude\n", "no rows"),
        ("place,latitude,longitude\n1,1,2\n", "no column 'station'"),
        ("station,latitude\nA,1\n", "no columns latitude and longitude"),
        ("station,latitude,longitude\nA,1,2\nA,1,2\n", "'A' appears twice"),
        ("station,latitude,longitude\nA,north,2\n", "line 2, column 'latitude': 'north' is not a number"),
        ("station,latitude,longitude\nA,,2\n", "line 2: station 'A' has no coordinates"),
        ("station,latitude,longitude\nA,1\n", "line 2: 2 cells, but the header has 3: correct the line"),
        ("station,latitude,longitude\nA,inf,2\n", "is infinite"),
        (
            "station,latitude,longitude\nA,1,2\nB,45,-999\n",
            "line 3: station 'B' is at 45, -999: write a latitude of at most 90",
        ),
        ("station,x,y,x\nA,1,2,3\n", "column 'x' appears twice"),
        ("station,x,y\nA,1,2\n,3,4\n", "line 3: the station has no name: fill it in"),
        ('station,x,y,notes\nA,1,2,"5 inch\nB,3,4,fine\n', "cannot be read as CSV"),
    ],
)
def test_bad_station_files_are_named(tmp_path, text, words):
    with pytest.raises(InputError, match=words):
        io.read_stations(write(tmp_path, "s.csv", text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A,B,C\n1,2,3\n", "first column is 'A'"),
        ("time,A,A,B\nt,1,2,3\n", "column 'A' appears twice"),
        ("time,A,B,C\nt,1,two,3\n", "line 2, column 'B': 'two' is not a number"),
    ],
)
def test_bad_reading_files_are_named(tmp_path, text, words):
    with pytest.raises(InputError, match=words):
        io.read_readings(write(tmp_path, "r.csv", text), ("A", "B", "C"))


def test_other_bad_files_are_named(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        io.read_stations(tmp_path / "absent.csv")
    with pytest.raises(InputError, match="is a folder"):
        io.read_stations(tmp_path)
    with pytest.raises(InputError, match="no column 'weight'"):
        io.read_weights(write(tmp_path, "w.csv", "station,w\nA,1\n"), ["A"])
    with pytest.raises(InputError, match="no weight for station 'B'"):
        io.read_weights(write(tmp_path, "w.csv", "station,weight\nA,1\n"), ["A", "B"])
    with pytest.raises(InputError, match="'C' is not in the station file: pass the weight of this network"):
        io.read_weights(write(tmp_path, "w.csv", "station,weight\nA,1\nC,1\n"), ["A"])
    with pytest.raises(InputError, match="column 'weight' appears twice"):
        io.read_weights(write(tmp_path, "w.csv", "station,weight,weight\nA,1,2\n"), ["A"])
    for name in (tmp_path / "w.csv" / "x.csv", tmp_path / ("x" * 300)):
        with pytest.raises(InputError, match="cannot be read"):
            io.read_stations(name)
    head = "%%MatrixMarket matrix coordinate real general\n"
    bad = "not a MatrixMarket file"
    for text, message in (
        ("hello", bad),
        (head + "2 2 1\n1 99999999999999999999 1\n", r"names column 1e\+20: columns are numbered from 1 to 2"),
        (head + "1000000000000 1000000000000 0\n", "declares 16000000000000"),
    ):
        with pytest.raises(InputError, match=message):
            io.read_adjacency(write(tmp_path, "g.mtx", text))
    (tmp_path / "r.npz").write_text("hello")
    with pytest.raises(InputError, match="not an NPZ file"):
        io.read_readings(tmp_path / "r.npz")
    np.savez(tmp_path / "q.npz", values=np.ones((2, 2)))
    with pytest.raises(InputError, match="no array 'names'"):
        io.read_readings(tmp_path / "q.npz")
    with (tmp_path / "a.npz").open("wb") as handle:
        np.save(handle, np.ones(3))
    with pytest.raises(InputError, match="not an NPZ file"):
        io.read_readings(tmp_path / "a.npz")
    for names, words in (
        (["A", "A"], "'A' appears twice"),
        ([["A", "B"]], "write lists of texts"),
        ([b"A", b"B"], "write lists of texts"),
    ):
        np.savez(tmp_path / "q.npz", values=np.ones((2, 1)), names=np.array(names), times=np.array(["t"]))
        with pytest.raises(InputError, match=words):
            io.read_readings(tmp_path / "q.npz")


FORMULAS = [
    "=cmd|' /C calc'!A0",
    "@SUM(1)",
    "+1+cmd()",
    "-2+3",
    "'=quoted",
    "''=twice",
    "－fullwidth",
    "-",
    "-7",
    "=",
    "Weir -2",
]


def test_names_that_are_formulas_are_texts_in_a_spreadsheet_and_come_back(tmp_path):
    table = io.Readings(tuple(FORMULAS), ("=1", "=2"), np.arange(2.0 * len(FORMULAS)).reshape(-1, 2) - 5)
    io.write_readings(tmp_path / "r.csv", table)
    cells = next(csv.reader([(tmp_path / "r.csv").read_text().splitlines()[0]]))
    assert [cell for cell in cells if cell[:1] in "=+-@－" and cell not in ("-", "-7", "=")] == []
    assert ",-3.0," in (tmp_path / "r.csv").read_text()  # numbers stay numbers
    back = io.read_readings(tmp_path / "r.csv")
    assert (back.names, back.times) == (table.names, table.times)
    np.testing.assert_array_equal(back.values, table.values)
    io.write_weights(tmp_path / "w.csv", FORMULAS, np.arange(float(len(FORMULAS))))
    np.testing.assert_array_equal(io.read_weights(tmp_path / "w.csv", FORMULAS), np.arange(len(FORMULAS)))
    rows = ((name, i, i + 1) for i, name in enumerate(FORMULAS))
    io.write_rows(tmp_path / "s.csv", ["station", "x", "y"], rows)
    stations = io.read_stations(tmp_path / "s.csv")
    assert stations.names == tuple(FORMULAS)
    assert io.read_readings(tmp_path / "r.csv", stations).names == table.names
