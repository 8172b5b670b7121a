"""SQLite and DuckDB files: their only table, or what a query selects."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing

import numpy as np
import pytest
from typer.testing import CliRunner

from nareg import io
from nareg.cli.main import app
from nareg.errors import InputError, MissingDependencyError
from nareg.io import Recipe

QUERY = "select time, name, latitude, longitude, value from readings join places using (name) where value is not 7"


@pytest.fixture
def database(tmp_path):
    """Readings and places; one reading is NULL."""
    path = tmp_path / "network.db"
    with closing(sqlite3.connect(path)) as file:
        file.execute("create table readings (time text, name text, value real)")
        rows = [(f"2024-01-{d:02d}", name, d + ord(name)) for d in range(1, 10) for name in "AB"]
        file.executemany("insert into readings values (?, ?, ?)", [*rows, ("2024-01-10", "A", None), ("2024-01-10", "B", 7)])
        file.execute("create table places (name text, latitude real, longitude real)")
        file.executemany("insert into places values (?, ?, ?)", [("A", 48.0, 11.0), ("B", 48.5, 11.5)])
        file.commit()
    return path


def test_a_query_selects_readings_and_places(database):
    recipe = Recipe(query=QUERY)
    table = io.read_readings(database, recipe=recipe)
    assert table.names == ("A", "B")
    np.testing.assert_array_equal(table.values[0], [*range(66, 75), np.nan])
    assert (table.counts.cells, table.counts.beside["empty"]) == (19, 1)
    np.testing.assert_array_equal(io.read_stations(database, recipe=recipe).coordinates, [[48, 11], [48.5, 11.5]])


def test_the_only_table_needs_no_query(tmp_path):
    with closing(sqlite3.connect(tmp_path / "one.sqlite")) as file:
        file.execute('create table "my readings" (time text, A real, B real)')
        file.executemany('insert into "my readings" values (?, ?, ?)', [("2024-01-01", 1, 2), ("2024-01-02", 3, None)])
        file.commit()
    np.testing.assert_array_equal(io.read_readings(tmp_path / "one.sqlite").values, [[1, 3], [2, np.nan]])


def test_the_command_line(database, tmp_path):
    done = CliRunner().invoke(app, ["inspect", str(database), "--query", QUERY, "--out", str(tmp_path / "recipe.toml")])
    assert done.exit_code == 0, done.output
    assert "places: 2 stations" in done.output
    assert Recipe.load(tmp_path / "recipe.toml").query == QUERY


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (None, "is a database with the tables 'readings', 'places': select the readings by --query"),
        ("select * from reading", "no such table: reading"),
        ("delete from readings", "not authorized"),
        ("attach 'other.db' as other", "not authorized"),
        ("select * from readings where value > 1000", "selects no row"),
        ("", "selects nothing"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(database, query, words):
    before = database.read_bytes()
    with pytest.raises(InputError, match=words):
        io.read_readings(database, recipe=Recipe(query=query))
    assert database.read_bytes() == before


def test_a_damaged_file(tmp_path):
    path = tmp_path / "damaged.db"
    path.write_bytes(b"SQLite format 3\0" + bytes(range(200)))
    with pytest.raises(InputError, match="cannot be read"):
        io.read_readings(path)


def test_a_query_of_a_text_file(tmp_path):
    (tmp_path / "r.csv").write_text("time,A\n2024-01-01,1\n2024-01-02,2\n")
    with pytest.raises(InputError, match="is no database: omit query"):
        io.read_readings(tmp_path / "r.csv", recipe=Recipe(query="select 1"))


@pytest.fixture
def duck(tmp_path):
    """Readings and places in a DuckDB file; one reading is NULL."""
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "network.duckdb"
    with duckdb.connect(path) as file:
        file.execute("create table readings (time timestamp, name varchar, value decimal(6, 1), checked utinyint)")
        rows = [(f"2024-01-{d:02d} 06:00", name, d + ord(name) / 10, 1) for d in range(1, 10) for name in "AB"]
        file.executemany("insert into readings values (?, ?, ?, ?)", [*rows, ("2024-01-10 06:00", "A", None, None)])
        file.execute("create table places (name varchar, latitude double, longitude double)")
        file.executemany("insert into places values (?, ?, ?)", [("A", 48.0, 11.0), ("B", 48.5, 11.5)])
    return path


def test_a_query_selects_from_duckdb(duck):
    recipe = Recipe(query="select time, name, latitude, longitude, value from readings join places using (name)")
    table = io.read_readings(duck, recipe=recipe)
    np.testing.assert_allclose(table.values, [[*np.arange(7.5, 16), np.nan], [*np.arange(7.6, 16), np.nan]])
    assert str(table.times[0]).startswith("2024-01-01 06:00")
    np.testing.assert_array_equal(io.read_stations(duck, recipe=recipe).coordinates, [[48, 11], [48.5, 11.5]])


def test_duckdb_has_an_only_table_too(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(tmp_path / "one.db") as file:
        file.execute('create table "my readings" (time date, A double, B integer)')
        file.execute("""insert into "my readings" values ('2024-01-01', 1, 2), ('2024-01-02', 3, null)""")
    np.testing.assert_array_equal(io.read_readings(tmp_path / "one.db").values, [[1, 3], [2, np.nan]])


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (None, "is a database with the tables 'places', 'readings': select the readings by --query"),
        ("select * from reading", "Table with name reading does not exist"),
        ("delete from readings", "it is no single select"),
        ("set lock_configuration = false", "it is no single select"),
        ("select 1; select 2", "it is no single select"),
        ("", "it is no single select"),
        ("select * from read_csv('secret.csv')", "disabled|does not exist"),
        ("select * from 'secret.csv'", "disabled|does not exist"),
        ("select * from readings where value > 1000", "selects no row"),
    ],
)
def test_what_duckdb_cannot_read_is_one_sentence(duck, tmp_path, monkeypatch, query, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.csv").write_text("time,A\n2024-01-01,1\n")
    before = duck.read_bytes()
    with pytest.raises(InputError, match=words) as caught:
        io.read_readings(duck, recipe=Recipe(query=query))
    assert "\n" not in str(caught.value)
    assert duck.read_bytes() == before


def test_a_damaged_duckdb_file(tmp_path):
    pytest.importorskip("duckdb")
    path = tmp_path / "damaged.duckdb"
    path.write_bytes(bytes(8) + b"DUCK" + bytes(range(200)))
    with pytest.raises(InputError, match="cannot be read"):
        io.read_readings(path)


def test_duckdb_is_an_extra(duck, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingDependencyError, match=r"DuckDB files: pip install 'nareg\[tables\]'"):
        io.read_readings(duck)
