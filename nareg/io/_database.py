"""SQLite and DuckDB files: a table, or what a query selects. They are opened for reading alone, and a query can do no more."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nareg._core.imports import needed
from nareg.errors import InputError
from nareg.io._frames import FrameTable
from nareg.io._notes import NoReadings, Notes, listed
from nareg.io._recipe import Recipe
from nareg.io._text import starts

if TYPE_CHECKING:
    import pandas as pd

#: How the files begin, DuckDB's after a checksum.
SQLITE, DUCKDB, CHECKSUM = b"SQLite format 3\0", b"DUCK", 8
#: What a query may do.
ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
#: DuckDB's queries may read other files and the network otherwise, and allow themselves to.
LOCKED: dict[str, str | bool | int | float | list[str]] = {"enable_external_access": "false", "lock_configuration": "true"}


class _UnreadableError(Exception):
    """Why a file or a query cannot be read, in a database's words."""


def is_database(path: str | os.PathLike[str]) -> bool:
    """Whether a file is one of SQLite or DuckDB."""
    try:
        return starts(path, SQLITE) or starts(path, DUCKDB, after=CHECKSUM)
    except (OSError, ValueError):
        return False


def read_database(path: str | os.PathLike[str], notes: Notes, recipe: Recipe) -> FrameTable:
    """What the recipe's query selects, or the only table."""
    try:
        with (_sqlite if starts(path, SQLITE) else _duckdb)(Path(path).absolute()) as select:
            query = recipe.query
            if query is None:
                tables = select("select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'")
                names = [str(name) for name in tables["name"]]
                if len(names) != 1:
                    some = f"the tables {listed(names, 12)}" if names else "no table"
                    raise InputError(
                        f"{path} is a database with {some}: select the readings by --query (query= of a recipe), such as "
                        f"'select time, station, value from {names[0] if names else 'readings'}'."
                    )
                query = 'select * from "' + names[0].replace('"', '""') + '"'
            frame = select(query)
    except _UnreadableError as error:
        what = f"the query {recipe.query!r}" if recipe.query else "the file"
        raise InputError(f"{path}: {what} cannot be read ({error}): correct it, or export the readings as CSV.") from None
    if frame.empty:
        raise NoReadings(f"{path}: the query selects no row.")
    return FrameTable(frame, notes, recipe.words)


@contextmanager
def _sqlite(path: Path) -> Iterator[Callable[[str], pd.DataFrame]]:
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in ALLOWED else sqlite3.SQLITE_DENY)
            yield partial(_selected, database)
    except sqlite3.Error as error:
        raise _UnreadableError(error) from None


def _selected(database: sqlite3.Connection, query: str) -> pd.DataFrame:
    import pandas as pd

    rows = database.execute(query)
    if rows.description is None:
        raise _UnreadableError("it selects nothing")
    return pd.DataFrame(rows.fetchall(), columns=[str(column[0]) for column in rows.description])


@contextmanager
def _duckdb(path: Path) -> Iterator[Callable[[str], pd.DataFrame]]:
    with needed("duckdb", "DuckDB files", extra="tables"):
        import duckdb

    def select(query: str) -> pd.DataFrame:
        if [statement.type for statement in database.extract_statements(query)] != [duckdb.StatementType.SELECT]:
            raise _UnreadableError("it is no single select")
        return database.execute(query).df()

    try:
        with duckdb.connect(path, read_only=True, config=LOCKED) as database:
            yield select
    except duckdb.Error as error:
        raise _UnreadableError(str(error).splitlines()[0]) from None
