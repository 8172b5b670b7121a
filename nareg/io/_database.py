"""SQLite files: a table, or what a query selects. A file is opened for reading alone, and a query can do nothing else."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from nareg.errors import InputError
from nareg.io._frames import FrameTable
from nareg.io._notes import NoReadings, Notes, listed
from nareg.io._recipe import Recipe
from nareg.io._text import starts

if TYPE_CHECKING:
    import pandas as pd

#: First bytes of the files.
SQLITE = b"SQLite format 3\0"
#: What a query may do.
ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)


def is_database(path: str | os.PathLike[str]) -> bool:
    """Whether a file is one of SQLite."""
    try:
        return starts(path, SQLITE)
    except (OSError, ValueError):
        return False


def read_database(path: str | os.PathLike[str], notes: Notes, recipe: Recipe) -> FrameTable:
    """What the recipe's query selects, or the only table."""
    try:
        with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            query = recipe.query
            if query is None:
                names = [str(name) for (name,) in database.execute(
                    "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'"
                )]  # fmt: skip
                if len(names) != 1:
                    some = f"the tables {listed(names, 12)}" if names else "no table"
                    raise InputError(
                        f"{path} is a database with {some}: select the readings by --query (query= of a recipe), such as "
                        f"'select time, station, value from {names[0] if names else 'readings'}'."
                    )
                query = 'select * from "' + names[0].replace('"', '""') + '"'
            frame = _selected(database, query)
    except sqlite3.Error as error:
        what = f"the query {recipe.query!r}" if recipe.query else "the file"
        raise InputError(f"{path}: {what} cannot be read ({error}): correct it, or export the readings as CSV.") from None
    if frame.empty:
        raise NoReadings(f"{path}: the query selects no row.")
    return FrameTable(frame, notes, recipe.words)


def _selected(database: sqlite3.Connection, query: str) -> pd.DataFrame:
    import pandas as pd

    database.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in ALLOWED else sqlite3.SQLITE_DENY)
    rows = database.execute(query)
    if rows.description is None:
        raise sqlite3.ProgrammingError("it selects nothing")
    return pd.DataFrame(rows.fetchall(), columns=[str(column[0]) for column in rows.description])
