"""Readings from files, frames and archives: one way from cells to a table in time order."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nareg.errors import InputError
from nareg.io._binary import OF_READINGS, read_npz, read_table
from nareg.io._database import is_database
from nareg.io._frames import FrameTable, Table, readings_frame, refuse_frame
from nareg.io._join import Wanted, from_columns, joined
from nareg.io._layout import recognize
from nareg.io._notes import Notes
from nareg.io._open import open_tables
from nareg.io._recipe import Recipe
from nareg.io._shapes import count_cells, long, wide
from nareg.io._tables import Readings, Stations
from nareg.io._vocabulary import match

if TYPE_CHECKING:
    import pandas as pd


def read_readings(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    stations: Sequence[str] | Stations | None = None,
    *,
    strict: bool = False,
    keep_absent: bool = False,
    own_order: bool = False,
    recipe: Recipe | None = None,
) -> Readings:
    r"""Read readings from a text file (CSV), wide or long, or from Parquet, netCDF or NPZ.

    Parameters
    ----------
    path : path
        A wide table has a column of times, then a column per station. A long table has the columns time, station, value.
        An NPZ has ``values`` (N, T), ``names`` (N,) and ``times`` (T,). A netCDF file (``.nc``) has one variable with the
        dimensions time and station. Parquet and netCDF need the extra ``tables``. Several files, such as one per station or
        per month, are joined by their times. Where a file has no column of stations, its name has the station's: if ``recipe``
        names a ``value``, or its only column is that of other files, which differ at the same times.
    stations : sequence of str or Stations, optional
        The stations to read, in this order unless ``own_order``. Other columns are left out with a note.
    strict : bool, default False
        Raise an error with a remedy where a guess would otherwise be noted.
    keep_absent : bool, default False
        Keep stations that the table lacks, with all readings missing. They are left out otherwise, with a note.
    own_order : bool, default False
        Keep the order of the table's columns, or of the first rows of a long table. Not with ``keep_absent``.
    recipe : Recipe, optional
        Names columns and cells whose meaning cannot be seen.

    Returns
    -------
    Readings
        Its ``notes`` say what was guessed.

    Raises
    ------
    InputError
        If the file cannot be read; the message names file, line, column, cell and remedy.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "readings.csv"
    >>> _ = path.write_text("Datetime;A;B\n2024-01-01 10:00;1,5;N/A\n2024-01-01 10:10;2,5;3\n")
    >>> table = read_readings(path)
    >>> table.values
    array([[1.5, 2.5],
           [nan, 3. ]])
    >>> len(table.notes)
    2
    """
    if not isinstance(path, (str, os.PathLike)):
        refuse_frame(path, "readings_from_frame")
        request = Wanted.of(stations, Notes("readings", strict), recipe, keep_absent=keep_absent, own_order=own_order)
        return joined(path, lambda one, own: read_readings(one, stations, strict=strict, own_order=True, recipe=own), request)
    return _from_file(path, Wanted.of(stations, Notes(str(path), strict), recipe, keep_absent=keep_absent, own_order=own_order))


def read_shared(source: Any, columns: Sequence[str] | None, recipe: Recipe) -> Readings:
    """Read what all stations share over time, a row per time and a column each, from a file or a frame."""
    path = isinstance(source, (str, os.PathLike))
    notes = Notes(str(source) if path else "the table of series", strict=False)
    request = replace(Wanted.of(columns, notes, recipe, keep_absent=False, own_order=False), shared=True)
    return _from_file(source, request) if path else _from_foreign(source, request)


def _from_file(path: str | os.PathLike[str], request: Wanted) -> Readings:
    if Path(path).suffix.lower() == ".npz":
        return _from_archive(*read_npz(path, request.notes), request)
    if Path(path).suffix.lower() in OF_READINGS:
        return _from_foreign(read_table(path), request)
    if request.recipe.query is not None and not is_database(path):
        raise InputError(f"query is {request.recipe.query!r}, but {path} is no database: omit query.")
    tables = open_tables(path, request.notes, request.recipe)
    if len(tables) == 1:
        own = tables[0].notes
        read = _from_table(tables[0], replace(request, notes=own))
        return read if own is request.notes else replace(read, notes=(*request.notes.sentences, *read.notes))
    each = replace(request, keep_absent=False, own_order=True)
    return joined(tables, lambda table, own: _from_table(table, replace(each, notes=table.notes, recipe=own)), request)


def readings_from_frame(
    frame: Any,
    stations: Sequence[str] | Stations | None = None,
    strict: bool = False,
    *,
    keep_absent: bool = False,
    own_order: bool = False,
    recipe: Recipe | None = None,
) -> Readings:
    """Take readings from a pandas or polars frame, wide or long, or from an xarray array.

    Parameters
    ----------
    frame : pandas or polars DataFrame, xarray DataArray or Dataset
        As in :func:`read_readings`. An index other than row numbers counts as a column. An array has two dimensions, one of
        them time; a Dataset has one such variable. Its attribute ``units`` is the unit.
    stations : sequence of str or Stations, optional
        The stations to take, in this order unless ``own_order``.
    strict, keep_absent, own_order : bool, default False
    recipe : Recipe, optional
        As in :func:`read_readings`.

    Returns
    -------
    Readings
        Its ``notes`` say what was guessed.

    Examples
    --------
    >>> import pandas as pd
    >>> index = pd.date_range("2024-01-01", periods=2, freq="10min")
    >>> readings_from_frame(pd.DataFrame({"A": [1.0, 2.0], "B": [None, 3.0]}, index=index)).timestamps
    array(['2024-01-01T00:00:00.000000000', '2024-01-01T00:10:00.000000000'],
          dtype='datetime64[ns]')
    """
    notes = Notes("readings", strict)
    return _from_foreign(frame, Wanted.of(stations, notes, recipe, keep_absent=keep_absent, own_order=own_order))


def readings_to_frame(readings: Readings) -> pd.DataFrame:
    """The readings as a wide pandas frame, indexed by time where the labels are times.

    Parameters
    ----------
    readings : Readings
        A table.

    Returns
    -------
    pandas.DataFrame
        A row per time, a column per station.

    Examples
    --------
    >>> table = Readings(("A", "B"), ("0", "1"), np.array([[1.5, 2.5], [3, 4]]), np.array([0.0, 1.0]))
    >>> readings_to_frame(table).loc[1.0].tolist()
    [2.5, 4.0]
    """
    import pandas as pd

    index = pd.Index(readings.times if readings.timestamps is None else readings.timestamps, name="time")
    if readings.zone is not None:
        index = pd.DatetimeIndex(index).tz_localize(readings.zone)
    return pd.DataFrame(readings.values.T.copy(), index=index, columns=list(readings.names))


def _from_foreign(table: Any, request: Wanted) -> Readings:
    frame, unit, quantity = readings_frame(table, request.notes, request.recipe.value, request.stations)
    read = _from_table(FrameTable(frame, request.notes, request.recipe.words), request)
    return replace(read, unit=unit or read.unit, quantity=quantity or read.quantity)


def _from_archive(names: Sequence[str], labels: np.ndarray, values: np.ndarray, request: Wanted) -> Readings:
    every = values.size
    if request.stations is not None:
        matched = match(names, request.stations, request.notes, "station")
        values = values[[i for i, name in enumerate(names) if name in matched]]
        names = [matched[name] for name in names if name in matched]
    count_cells(every, values, request)
    return from_columns(names, labels, values, "times", lambda t: f"time {t}", request, "station")


def _from_table(table: Table, request: Wanted) -> Readings:
    layout = recognize(table, request.stations, request.notes, request.recipe, shared=request.shared)
    if layout.station is None:
        return wide(table, layout, request)
    return long(table, layout, layout.station, request)
