"""Readings from files, frames and archives: one way from cells to a table in time order."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nareg._core import checks
from nareg.errors import InputError
from nareg.io._binary import SUFFIXES, read_npz, read_table
from nareg.io._frames import FrameTable, readings_frame
from nareg.io._labels import labels_of
from nareg.io._layout import Layout, Table, one_unit, recognize, refuse_mixed_kinds
from nareg.io._missing import marked_bad, remove_sentinels
from nareg.io._notes import NoReadings, Notes, count, listed
from nareg.io._numbers import LimitCells
from nareg.io._open import open_tables
from nareg.io._recipe import Recipe
from nareg.io._tables import Readings, Stations
from nareg.io._text import stem
from nareg.io._times import Times, understand
from nareg.io._vocabulary import absent, loose, match, refuse_repeated

if TYPE_CHECKING:
    import pandas as pd

Source = TypeVar("Source")
#: What a file says of stations that others may have.
ABSENT = re.compile(r"stations? ha(s|ve) no (column|row) and")


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
        per month, are joined by their times; where ``recipe`` names a ``value`` and a file has no column of stations, its
        name has the station's.
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
        request = _Request.of(stations, Notes("readings", strict), recipe, keep_absent=keep_absent, own_order=own_order)
        return _joined(path, lambda one: read_readings(one, stations, strict=strict, own_order=True, recipe=recipe), request)
    request = _Request.of(stations, Notes(str(path), strict), recipe, keep_absent=keep_absent, own_order=own_order)
    if Path(path).suffix.lower() == ".npz":
        return _from_archive(*read_npz(path, request.notes), request)
    if Path(path).suffix.lower() in SUFFIXES:
        return _from_foreign(read_table(path), request)
    tables = open_tables(path, request.notes, request.recipe)
    if len(tables) == 1:
        own = tables[0].notes
        read = _from_table(tables[0], replace(request, notes=own))
        return read if own is request.notes else replace(read, notes=(*request.notes.sentences, *read.notes))
    each = replace(request, keep_absent=False, own_order=True)
    return _joined(tables, lambda table: _from_table(table, replace(each, notes=table.notes)), request)


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
    return _from_foreign(frame, _Request.of(stations, notes, recipe, keep_absent=keep_absent, own_order=own_order))


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


def _joined(sources: Iterable[Source], read: Callable[[Source], Readings], request: _Request) -> Readings:
    """Several tables of readings as one: all their stations at all their times. Those without readings are left out."""
    notes = request.notes
    parts, empty = [], []
    for source in sources:
        try:
            parts.append(read(source))
        except NoReadings as error:
            empty.append(error)
    if not parts:
        raise empty[0] if empty else InputError("readings are no files: pass at least one.")
    for why in empty:
        notes.fact(f"a file without readings is left out ({str(why).rstrip('.')})")
    own = [part.timestamps for part in parts if part.timestamps is not None]
    if len(own) < len(parts) or len({times.dtype.kind for times in own}) > 1:
        raise InputError("readings are several files, not all of which have dates: add a column 'time' to each.")
    zones = {part.zone for part in parts}
    if len(zones) > 1:
        raise InputError("readings are several files, some with and some without a time zone: write the times alike.")
    quantities = list(dict.fromkeys(part.quantity for part in parts if part.quantity and request.recipe.value is None))
    if len(quantities) > 1:
        raise InputError(f"readings are several files with different quantities ({listed(quantities)}): name one by --value.")
    units = {part.unit for part in parts if part.unit}
    if len(units) > 1:
        raise InputError(f"readings are several files with different units ({listed(sorted(units))}): convert them to one.")
    stamps, first = np.unique(np.concatenate(own), return_index=True)
    labels = np.concatenate([np.array(part.times, dtype=object) for part in parts])[first]
    names = list(dict.fromkeys(name for part in parts for name in part.names))
    place = {name: i for i, name in enumerate(names)}
    checks.memory(
        f"readings: a table of {len(names):,} stations by {len(stamps):,} times",
        24.0 * len(names) * len(stamps),
        alternative="round the times to a common step",
    )
    sums, number = np.zeros((len(names), len(stamps))), np.zeros((len(names), len(stamps)), dtype=int)
    for part, times in zip(parts, own, strict=True):
        where = np.ix_(np.array([place[name] for name in part.names]), np.searchsorted(stamps, times))
        sums[where] += np.where(part.observed, part.values, 0.0)
        number[where] += part.observed
    twice = int((number > 1).sum())
    if twice:
        notes.guess(f"{count(twice, 'reading is', 'readings are')} in several files; they are averaged", "leave out repeats")
    values = np.divide(sums, number, out=np.full(sums.shape, np.nan), where=number > 0)
    table = _in_order(names, labels, values, Times(stamps, zones.pop()), request, "file")
    said = [note for part in parts for note in part.notes if not ABSENT.search(note)]  # each file may lack stations
    return replace(table, notes=(*said, *table.notes), unit=next(iter(units), None), quantity=parts[0].quantity)


@dataclass(frozen=True)
class _Request:
    """The stations to read, or all; whether those without readings stay; whether the order is the table's own."""

    stations: tuple[str, ...] | None
    notes: Notes
    recipe: Recipe
    keep_absent: bool
    own_order: bool

    @classmethod
    def of(
        cls,
        stations: Sequence[str] | Stations | None,
        notes: Notes,
        recipe: Recipe | None,
        *,
        keep_absent: bool,
        own_order: bool,
    ) -> _Request:
        if keep_absent and own_order:
            raise InputError(
                "own_order is True but the table has no place for stations that keep_absent keeps: pass one of the two."
            )
        names = stations.names if isinstance(stations, Stations) else stations
        return cls(None if names is None else tuple(names), notes, recipe or Recipe(), keep_absent, own_order)


def _from_foreign(table: Any, request: _Request) -> Readings:
    frame, unit, quantity = readings_frame(table, request.notes, request.recipe.value)
    read = _from_table(FrameTable(frame, request.notes, request.recipe.words), request)
    return replace(read, unit=unit or read.unit, quantity=quantity or read.quantity)


def _from_archive(names: Sequence[str], labels: np.ndarray, values: np.ndarray, request: _Request) -> Readings:
    if request.stations is not None:
        matched = match(names, request.stations, request.notes, "station")
        values = values[[i for i, name in enumerate(names) if name in matched]]
        names = [matched[name] for name in names if name in matched]
    return _from_columns(names, labels, values, "times", lambda t: f"time {t}", request, "station")


def _from_table(table: Table, request: _Request) -> Readings:
    layout = recognize(table, request.stations, request.notes, request.recipe)
    if layout.station is None:
        return _wide(table, layout, request)
    return _long(table, layout, layout.station, request)


def _wide(table: Table, layout: Layout, request: _Request) -> Readings:
    stations, notes = request.stations, request.notes
    names = [table.header[i] for i in layout.values]
    if layout.single:
        return _of_one_station(table, layout, request)
    matched = dict(zip(names, names, strict=True)) if stations is None else match(names, stations, notes)
    columns = [i for i in layout.values if table.header[i] in matched]
    names = [table.header[i] for i in columns]
    twice = next((name for name in names if not name), None)
    if twice is not None:
        raise InputError(f"{notes.source}: a column of readings has no name: name it, or drop it.")
    refuse_repeated(notes.source, names)
    flags = [(flag, columns.index(about)) for flag, about in layout.flags if about in columns]
    wanted = [*layout.time, *(flag for flag, _ in flags)]
    loaded, values = table.load(wanted, columns, odd=LimitCells())
    request.recipe.remove_codes(values)
    if flags:
        _honor(table, wanted[len(layout.time) :], loaded[len(layout.time) :], values, [place for _, place in flags], notes)
    labels, column = labels_of(table, layout, dict(zip(wanted, loaded, strict=True)), len(values), notes, request.recipe)
    return _from_columns([matched[name] for name in names], labels, values.T, column, table.line, request, "column")


def _of_one_station(table: Table, layout: Layout, request: _Request) -> Readings:
    """One column of a table of one station, which has the file's name."""
    notes = request.notes
    name = station_in(notes.source, request.stations)
    wanted = [*layout.time, *(flag for flag, _ in layout.flags)]
    loaded, values = table.load(wanted, layout.values, odd=LimitCells())
    request.recipe.remove_codes(values)
    for flag, _ in layout.flags:
        _honor(table, [flag], [loaded[wanted.index(flag)]], values, [0], notes)
    labels, column = labels_of(table, layout, dict(zip(wanted, loaded, strict=True)), len(values), notes, request.recipe)
    own = replace(request, stations=None) if request.stations is None else replace(request, stations=(name,))
    read = _from_columns([name], labels, values.T, column, table.line, own, "column")
    return replace(read, quantity=table.header[layout.values[0]], unit=one_unit(table, layout, notes))


def station_in(source: str, stations: Sequence[str] | None) -> str:
    """The station that a file is named after."""
    title = stem(source)
    if stations is None:
        return title
    inside = sorted((name for name in stations if loose(name) and loose(name) in loose(title)), key=len)
    if not inside:
        raise NoReadings(
            f"{source}: there is no column of stations, and no station's name in the name of the file (stations are "
            f"{listed(stations)}): name the file after its station, or pass --station-column (station= of a recipe)."
        )
    if len(inside) > 1:
        request_note = listed(inside)
        if loose(inside[-2]) not in loose(inside[-1]):
            raise InputError(f"{source}: the name of the file has several stations' names ({request_note}): keep one.")
    return inside[-1]


def _honor(
    table: Table, flags: list[int], marks: list[np.ndarray], values: np.ndarray, places: list[int], notes: Notes
) -> None:
    """Set readings (R, C) that columns of marks call bad to NaN, in place: those of column ``places[k]`` by ``marks[k]``."""
    known = np.isfinite(values[:, places])
    name = f"column {table.header[flags[0]]!r}" if len(flags) == 1 else f"columns such as {table.header[flags[0]]!r}"
    marked = marked_bad(np.concatenate(marks), known.T.ravel(), name, notes)
    if marked is not None:
        for place, rows in zip(places, marked.reshape(len(flags), -1), strict=True):
            values[rows, place] = np.nan


def _from_columns(
    names: Sequence[str], labels: np.ndarray, values: np.ndarray, column: str, line: Callable[[int], str], request: _Request,
    what: str,
) -> Readings:  # fmt: skip
    """Readings (N, T) of a row per station, in time order; ``column`` is empty where there are no times."""
    notes = request.notes
    values = np.array(values, dtype=float, order="C")
    remove_sentinels(values, np.arange(len(values))[:, None], notes)
    times = understand(labels, column, line, notes) if column else Times(None)
    zone = request.recipe.zone
    moved = times.moved(np.zeros(len(labels), dtype=int), values.T, labels, notes, zone)
    times = times if moved is None else Times(moved, times.zone if zone is None else "UTC")
    labels, values, stamps = _in_time_order(labels, values, times.stamps, notes)
    return _in_order(names, labels, values, replace(times, stamps=stamps), request, what)


def _in_time_order(
    labels: np.ndarray, values: np.ndarray, stamps: np.ndarray | None, notes: Notes
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Rows sorted by time, those of one time merged."""
    if stamps is None or len(stamps) < 2:
        return labels, values, stamps
    backwards = int((stamps[1:] < stamps[:-1]).sum())  # differences of dates may overflow
    if backwards:
        notes.guess(f"times do not increase ({count(backwards, 'step')} back) and are sorted", "sort the rows by time")
        order = np.argsort(stamps, kind="stable")
        labels, values, stamps = labels[order], values[:, order], stamps[order]
    repeats = stamps[1:] == stamps[:-1]
    starts = np.flatnonzero(np.concatenate([[True], ~repeats]))
    if repeats.any():
        twice = labels[1:][repeats][0]
        notes.guess(
            f"{count(len(stamps) - len(starts), 'row repeats', 'rows repeat')} the time of another ({twice!r}); "
            "their readings are averaged",
            "keep one row per time",
        )
        seen = np.isfinite(values)
        sums = np.add.reduceat(np.where(seen, values, 0.0), starts, axis=1)
        number = np.add.reduceat(seen, starts, axis=1, dtype=np.int64)
        values = np.divide(sums, number, out=np.full(sums.shape, np.nan), where=number > 0)
        labels, stamps = labels[starts], stamps[starts]
    return labels, values, stamps


def _in_order(
    names: Sequence[str], labels: np.ndarray, values: np.ndarray, times: Times, request: _Request, what: str
) -> Readings:
    """The rows in the order of the stations, or their own, and a note about those that never read."""
    stations, notes = request.stations, request.notes
    silent = [name for name, never in zip(names, np.isnan(values).all(axis=1), strict=True) if never]
    if silent:
        notes.fact(f"{count(len(silent), 'station has', 'stations have')} no reading: {listed(silent)}")
    if stations is not None:
        place = {name: i for i, name in enumerate(names)}
        wanted = absent(stations, names, notes, keep=request.keep_absent, what=what)
        if request.own_order:
            wanted = list(names)
        ordered = np.full((len(wanted), values.shape[1]), np.nan)
        there = [i for i, name in enumerate(wanted) if name in place]
        ordered[there] = values[[place[wanted[i]] for i in there]]
        names, values = wanted, ordered
    return Readings(tuple(names), tuple(labels), values, times.stamps, times.zone, notes.sentences)


def _long(table: Table, layout: Layout, station: int, request: _Request) -> Readings:
    import pandas as pd

    stations, notes = request.stations, request.notes
    if not layout.time:
        raise InputError(f"{notes.source}: there is no column of times: name it 'time'.")
    unit = one_unit(table, layout, notes)
    others = [i for i in (layout.zone, layout.kind and layout.kind[0]) if i is not None]
    wanted = [*layout.time, station, *(flag for flag, _ in layout.flags), *others]
    loaded, numbers = table.load(wanted, layout.values, odd=LimitCells())
    request.recipe.remove_codes(numbers)
    texts = dict(zip(wanted, loaded, strict=True))
    for flag, _ in layout.flags:
        _honor(table, [flag], [texts[flag]], numbers, [0], notes)
    labels, column = labels_of(table, layout, texts, len(numbers), notes, request.recipe)
    values, sites, rows = numbers[:, 0], texts[station], np.arange(len(numbers))
    if layout.kind is not None:
        rows = np.flatnonzero(texts[layout.kind[0]] == layout.kind[1])
        notes.fact(
            f"{count(len(rows), 'row')} of {len(values):,} {'has' if len(rows) == 1 else 'have'} {layout.kind[1]!r} in "
            f"{table.column(layout.kind[0])}; the others are left out"
        )
        labels, values, sites = labels[rows], values[rows], sites[rows]
    if "" in sites:
        raise InputError(
            f"{notes.source}, {table.line(rows[list(sites).index('')])}: the row has no station; fill it in or drop it."
        )
    site, names = pd.factorize(sites)
    if stations is not None:
        matched = match(list(names), stations, notes, "station", merge=True)
        known = np.array([name in matched for name in names])[site]
        site, labels, values, rows = site[known], labels[known], values[known], rows[known]
        site, index = pd.factorize(np.array([matched.get(name) for name in names], dtype=object)[site])
        names = index
    row, unique = pd.factorize(labels)
    first = rows[np.unique(row, return_index=True)[1]]
    remove_sentinels(values, site, notes)
    times = understand(np.asarray(unique, dtype=object), column, lambda t: table.line(first[t]), notes)
    unique, stamps = np.asarray(unique, dtype=object), times.stamps
    zone = request.recipe.zone
    if stamps is not None or zone is not None:
        own = None if stamps is None else stamps[row]
        moved = replace(times, stamps=own).moved(site, values[:, None], unique[row], notes, zone)
        if moved is not None:
            stamps, keep_first, row = np.unique(moved, return_index=True, return_inverse=True)
            unique, times = labels[keep_first], Times(stamps, times.zone if zone is None else "UTC")
    if stamps is not None:
        stamps, keep_first, of_label = np.unique(stamps, return_index=True, return_inverse=True)
        unique, row = unique[keep_first], of_label[row]
    n, t = len(names), len(unique)
    checks.memory(
        f"{notes.source}: a table of {n:,} stations by {t:,} times",
        24.0 * n * t,
        alternative="round the times to a common step",
    )
    seen = np.isfinite(values)
    flat = site[seen] * t + row[seen]
    number = np.bincount(flat, minlength=n * t)
    if (number > 1).any():
        refuse_mixed_kinds(table, layout, flat, rows[seen], notes)
        i, j = divmod(int(np.argmax(number > 1)), t)
        notes.guess(
            f"{count(int((number - 1).clip(0).sum()), 'reading repeats', 'readings repeat')} station and time of another "
            f"({names[i]!r}, {unique[j]!r}); they are averaged",
            "keep one row per station and time",
        )
    sums = np.bincount(flat, weights=values[seen], minlength=n * t)
    values = np.divide(sums, number, out=np.full(n * t, np.nan), where=number > 0).reshape(n, t)
    table_of = _in_order([str(name) for name in names], unique, values, replace(times, stamps=stamps), request, "row")
    return replace(table_of, unit=unit, quantity=layout.kind[1] if layout.kind else table.header[layout.values[0]])
