"""Station tables: names, coordinates and, where there is one, the altitude."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from nareg.errors import InputError
from nareg.io._around import FEET
from nareg.io._binary import read_table, reads_as_table
from nareg.io._dates import parse
from nareg.io._frames import FrameTable, Table, refuse_frame, stations_frame
from nareg.io._layout import recognize
from nareg.io._notes import NoReadings, Notes, condensed, count, listed
from nareg.io._open import open_tables
from nareg.io._places import Angles, in_degrees, in_meters, note_far, note_two_decimals, refusal, unpack
from nareg.io._recipe import Recipe
from nareg.io._tables import Stations
from nareg.io._text import stem
from nareg.io._vocabulary import (
    ALTITUDE,
    CALENDAR,
    EAST,
    LATITUDE,
    LONGITUDE,
    NORTH,
    POSITION,
    SENSOR,
    SENTINELS,
    STATION,
    TIME,
    UNNAMED,
    distinct,
    place_words,
    plain,
)

Source = TypeVar("Source")
#: Ends of names of columns that name stations.
NAMING = ("id", "code", "name", "number", "nummer", "serial")
#: Degrees from 0, 0 within which another station makes it a place.
FAR = 10.0
#: A foot, in meters.
FOOT = 0.3048
#: A station whose positions differ by more has several: about a kilometer in degrees.
MOVED = 0.01


def read_stations(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, strict: bool = False, recipe: Recipe | None = None
) -> Stations:
    r"""Read station coordinates from a text file (CSV), Parquet, netCDF, or a map file such as GeoJSON.

    Parameters
    ----------
    path : path
        A row per station: ``station`` (or ``station_id``, ``id``, ``name``), then ``latitude`` and ``longitude`` in degrees
        (or ``lat`` and ``lon``, ``lng``, ``long``), or ``x`` and ``y``. ``altitude`` or ``elevation`` may follow. A long table
        of readings with positions in its rows serves, too, and several files of them, or a zip archive: a table without a
        column of stations has the station in the name of the file. Files that are no text need the extra ``tables``.
    strict : bool, default False
        Raise an error with a remedy where a guess would otherwise be noted.
    recipe : Recipe, optional
        Names columns whose meaning cannot be seen.

    Returns
    -------
    Stations
        Its ``notes`` say what was guessed or left out.

    Raises
    ------
    InputError
        If the file cannot be read; the message names file, line, column, cell and remedy.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "stations.csv"
    >>> _ = path.write_text("ID,Lat,Lng,Elevation\nA,48.1,-2.4,12\nB,48.2,-3.3,80\n")
    >>> read_stations(path).altitude
    array([12., 80.])
    """
    recipe = recipe or Recipe()
    if not isinstance(path, (str, os.PathLike)):
        refuse_frame(path, "stations_from_frame")
        return _merged(path, lambda one: read_stations(one, strict=strict, recipe=recipe), Notes("stations", strict))
    notes = Notes(str(path), strict)
    if reads_as_table(path):
        return _stations(FrameTable(stations_frame(read_table(path), notes.source), notes), notes, recipe)
    tables = open_tables(path, notes, replace(recipe, start=None))
    if len(tables) == 1:
        return _stations(tables[0], tables[0].notes, recipe)
    return _merged(tables, lambda table: _stations(table, table.notes, recipe), notes)


def _merged(sources: Iterable[Source], read: Callable[[Source], Stations], notes: Notes) -> Stations:
    """The stations of several tables, each once; tables without a position are left out with a note."""
    parts, placeless = [], []
    for source in sources:
        try:
            parts.append(read(source))
        except InputError as error:
            if not isinstance(error, (NoReadings, Placeless)):
                raise
            placeless.append(error)
    if not parts:
        raise placeless[0] if placeless else InputError(f"{notes.source} are no files: pass at least one.")
    for why in placeless:
        if isinstance(why, Placeless) and why.timed:
            continue  # its readings are read, and that is where it is said
        notes.fact(f"a file without positions is left out ({str(why).rstrip('.')})")
    if len({part.metric for part in parts}) > 1:
        raise InputError(f"{notes.source}: some files have degrees and others meters: pass --crs (crs= of a recipe).")
    names = np.array([name for part in parts for name in part.names], dtype=object)
    heights = [np.full(len(part.names), np.nan) if part.altitude is None else part.altitude for part in parts]
    beside = {name: np.concatenate([part.covariates[name] for part in parts]) for name in parts[0].covariates}
    values = np.column_stack([np.concatenate([part.coordinates for part in parts]), np.concatenate(heights), *beside.values()])
    names, values = _once(names, values, notes)
    altitude = None if np.isnan(values[:, 2]).all() else values[:, 2]
    said = condensed([note for part in parts for note in part.notes])
    return Stations(
        tuple(names), np.ascontiguousarray(values[:, :2]), parts[0].metric, altitude, (*said, *notes.sentences),
        dict(zip(beside, values[:, 3:].T.copy(), strict=True)),
    )  # fmt: skip


class Placeless(InputError):
    """A table in which no station has a position; a ``timed`` one may be of readings."""

    def __init__(self, message: str, timed: bool) -> None:
        super().__init__(message)
        self.timed = timed


class NoPlaces(Placeless):
    """A table without columns of positions."""


def stations_from_frame(frame: Any, strict: bool = False, *, recipe: Recipe | None = None) -> Stations:
    """Take station coordinates from a pandas or polars frame, geopandas points, or an xarray array.

    Parameters
    ----------
    frame : pandas, polars or geopandas frame, xarray DataArray or Dataset
        As in :func:`read_stations`; the names may be the index. Points are converted to degrees where they state their
        reference system. An array has the coordinates latitude and longitude, or x and y, along its stations.
    strict : bool, default False
        Refuse to guess.
    recipe : Recipe, optional
        As in :func:`read_stations`.

    Returns
    -------
    Stations
        Its ``notes`` say what was guessed or left out.

    Examples
    --------
    >>> import pandas as pd
    >>> stations_from_frame(pd.DataFrame({"lat": [48.1, 48.2], "lon": [-2.4, -3.3]}, index=["A", "B"])).names
    ('A', 'B')
    """
    notes = Notes("stations", strict)
    return _stations(FrameTable(stations_frame(frame, notes.source), notes), notes, recipe or Recipe())


def _as_stated(table: Table, recipe: Recipe) -> FrameTable | None:
    """The station of a table of readings, as comments above its header place it; None where they do not."""
    import pandas as pd

    words = {plain(name) for name in table.header}
    if "latitude" not in table.stated or words & {*LATITUDE, *LONGITUDE} or recipe.latitude is not None:
        return None
    layout, names = recognize(table, None, Notes(table.source, strict=False), recipe, several=True), set()
    if layout.station is not None:
        names = {*table.load([layout.station], [])[0][0].tolist()}
    if not layout.single and len(names) != 1:
        return None
    row = {"station": stem(table.source)} | table.stated | ({"station": names.pop()} if names else {})
    table.notes.fact("the place of the station is read from comments above the header")
    return FrameTable(pd.DataFrame({name: [cell] for name, cell in row.items()}), table.notes)


def _stations(table: Table, notes: Notes, recipe: Recipe) -> Stations:
    stated = _as_stated(table, recipe)
    if stated is not None:
        return _stations(stated, notes, Recipe(crs=recipe.crs))
    words = place_words(table.header)
    header = ", ".join(table.header[:6]) + (f" and {len(table.header) - 6} more" if len(table.header) > 6 else "")
    of_readings = not {*recipe.station} & {*table.header} and bool({*words} & {*STATION, *SENSOR})  # the recipe is theirs
    name = None if of_readings else recipe.station_column(table)
    if name is None:
        name = _first(words, (*STATION, *SENSOR), table)
    if name is None and words[0] in UNNAMED and not (isinstance(table, FrameTable) and table.counted):
        name = 0 if _names(table, 0) else _named_by_words(table, notes) or 0
    timed = any(word in TIME for word in words) or all(not {*names}.isdisjoint(words) for names in CALENDAR[:3])
    if name is None and not timed:  # a column of dates, of whatever name
        timed = any(cells and all(map(parse, cells)) for cells in map(table.head, range(len(words))))
    placed = any({*words} & {*one} and {*words} & {*other} for one, other in ((LATITUDE, LONGITUDE), (EAST, NORTH)))
    if name is None and not timed and placed:
        name = _named_by_words(table, notes, first=0)
        name = _named_by_end(words, table, notes) if name is None else name
    alone = name is None and timed and bool({*words} & {*LATITUDE}) and bool({*words} & {*LONGITUDE})
    if alone:  # the column that names the stations of the readings, whatever its name
        name = recognize(table, None, Notes(table.source, strict=False), recipe, several=True).station
    if name is None and not alone:
        if timed:
            raise NoPlaces(
                f"{notes.source} has a column of times ({header}) where the table of stations is expected: exchange the two "
                "tables.",
                timed,
            )
        options = " or ".join(map(repr, ("station", "id", "name")))
        raise InputError(
            f"{notes.source}: no column {options}; it has {header}. Name the one that has the names: --station-column, "
            "or station= of a recipe."
        )
    own = [recipe.column(role[0], table) for role in (LATITUDE, LONGITUDE, ALTITUDE)]
    latitude, longitude, altitude = (
        _first(words, role, table) if column is None else column
        for role, column in zip((LATITUDE, LONGITUDE, ALTITUDE), own, strict=True)
    )
    named = None not in own[:2]
    x, y = (_first(words, role, table) for role in (EAST, NORTH))
    degrees = latitude is not None and longitude is not None
    pair = [i for i in ((latitude, longitude) if degrees else (x, y)) if i is not None]
    if len(pair) < 2:
        raise NoPlaces(
            f"{notes.source}: no columns latitude and longitude, or x and y; it has {header}. Name those of the "
            "positions: --latitude-column and --longitude-column, or latitude= and longitude= of a recipe.",
            timed,
        )
    covariates = recipe.columns("covariates", table)
    used = {name, *pair, altitude, *covariates}
    extra = [table.header[i] for i, word in enumerate(words) if i not in used and word not in UNNAMED]
    columns = list(dict.fromkeys([*pair, *([] if altitude is None else [altitude]), *covariates]))
    words_of, values = table.load([] if name is None else [name], columns, finite=True, odd=Angles() if degrees else None)
    names = words_of[0] if words_of else np.full(len(values), stem(table.source), dtype=object)
    for row in np.flatnonzero(names == "")[:1]:
        raise InputError(f"{notes.source}, {table.line(row)}: the station has no name: fill it in or drop the row.")
    if not timed and len({*names}) < len(names):  # rows of a time each, whatever the name of its column
        timed = any(cells and all(map(parse, cells)) for cells in map(table.head, range(len(words))))
    if extra and not timed:
        notes.fact(f"{count(len(extra), 'column is', 'columns are')} not needed and left out: {listed(extra)}")
    if timed:
        names, values = _once(names, values, notes)
    else:
        names, values = _listed_once(names, values, notes) if degrees else (names, values)
        distinct(notes.source, list(names))
    if degrees:
        values[_placeless(values[:, :2]), :2] = np.nan
        values[:, :2] = unpack(values[:, :2], notes)
    lost = np.isnan(values[:, :2]).any(axis=1)
    if lost.any():
        first = int(np.flatnonzero(lost)[0])
        if lost.all():
            raise Placeless(
                f"{notes.source}, {table.line(first)}: station {names[first]!r} has no coordinates, and no other station has; "
                "fill them in.",
                timed,
            )
        notes.guess(
            f"{count(int(lost.sum()), 'station has', 'stations have')} no coordinates, left out: {listed(list(names[lost]))}",
            "fill them in or drop the row",
            place=table.line(first),
            refusal=f"station {names[first]!r} has no coordinates",
        )
    if degrees and named and in_meters(values[:, :2]):
        values[:, :2], degrees = values[:, 1::-1], False
        notes.fact(f"columns {listed([table.header[i] for i in pair])} are read as meters north and east")
    far = (np.abs(values[:, :2]) > [90, 360]).any(axis=1)
    if degrees and far.any():
        row = int(np.flatnonzero(far)[0])
        there = ", ".join(place[row] for place in table.load(pair, [])[0])
        raise InputError(
            f"{notes.source}, {table.line(row)}: station {names[row]!r} is at {there}: {refusal(*values[row, :2])}."
        )
    values = values[~lost]
    if altitude is not None and FEET.search(table.header[altitude]):
        values[:, 2] *= FOOT
        notes.fact(f"altitudes in column {table.header[altitude]!r} are in feet, and are converted to meters")
    if recipe.crs is not None:
        if degrees:
            raise InputError(f"crs is {recipe.crs!r}, but {notes.source} has latitudes and longitudes: omit it.")
        values[:, :2], degrees = in_degrees(values[:, :2], recipe.crs, notes), True
    elif degrees:
        note_two_decimals(values[:, :2], notes)
    note_far(names[~lost], values[:, :2], "haversine" if degrees else "euclidean", notes)
    return Stations(
        tuple(names[~lost]),
        np.ascontiguousarray(values[:, :2]),
        "haversine" if degrees else "euclidean",
        None if altitude is None else values[:, 2].copy(),
        notes.sentences,
        {table.header[i]: values[:, columns.index(i)].copy() for i in covariates},
    )


def _names(table: Table, index: int) -> bool:
    """Whether a column names rows: not if its numbers only increase, as those of an index of pandas."""
    cells = table.head(index)
    numbers = [int(cell) for cell in cells if cell.isdecimal()]
    return len(numbers) < len(cells) or any(later <= sooner for sooner, later in pairwise(numbers))


def _named_by_words(table: Table, notes: Notes, first: int = 1) -> int | None:
    """The first column of distinct words, from this one on; positions are none, such as N47.1."""
    for index in range(first, len(table.header)):
        cells = table.head(index)
        if plain(table.header[index]) in POSITION:
            continue
        if len(set(cells)) == len(cells) and all(cell[:1].isalpha() for cell in cells):
            notes.guess(f"column {table.header[index]!r} has the station names", "name it 'station'")
            return index
    return None


def _named_by_end(words: list[str], table: Table, notes: Notes) -> int | None:
    """The first column, where its name ends like that of names and its cells differ, as a ``logger_id`` of numbers."""
    cells = table.head(0)
    if words[0] in POSITION or not words[0].endswith(NAMING) or len(set(cells)) < len(cells):
        return None
    notes.guess(f"column {table.header[0]!r} has the station names", "name it 'station'")
    return 0


def _once(names: np.ndarray, values: np.ndarray, notes: Notes) -> tuple[np.ndarray, np.ndarray]:
    """Each station of a table of readings once, at the median of the positions in its rows."""
    import pandas as pd

    grouped = pd.DataFrame(values).groupby(names, sort=False)
    places = grouped.median()
    if len(places) < len(names):
        notes.fact(f"{count(len(places), 'station')} in {len(names):,} rows, which have the positions")
    moved = (grouped.max() - grouped.min()).iloc[:, :2].max(axis=1) > MOVED
    if moved.any():
        where = listed([str(name) for name in places.index[moved]])
        notes.guess(
            f"{count(int(moved.sum()), 'station has', 'stations have')} several positions, and the median is taken: {where}",
            "give each station one position",
        )
    return places.index.to_numpy(dtype=object), np.array(places, dtype=float)


def _listed_once(names: np.ndarray, values: np.ndarray, notes: Notes) -> tuple[np.ndarray, np.ndarray]:
    """Stations that are listed again at nearly the same place, once, at the median; all others as they are."""
    import pandas as pd

    grouped = pd.DataFrame(values[:, :2]).groupby(names, sort=False)
    moved = (grouped.max() - grouped.min()).max(axis=1)
    again = moved.index[(grouped.size() > 1) & (moved > 0) & (moved <= MOVED)]
    if not len(again) or len(again) < (grouped.size() > 1).sum():
        return names, values
    notes.guess(
        f"{count(len(again), 'station is', 'stations are')} listed again within a kilometer, and the median is taken: "
        f"{listed(list(again))}",
        "list each station once",
    )
    places = pd.DataFrame(values).groupby(names, sort=False).median()
    return places.index.to_numpy(dtype=object), np.array(places, dtype=float)


def _placeless(places: np.ndarray) -> np.ndarray:
    """Stations whose coordinates are codes: -999, -999 is nowhere on earth, and 0, 0 is at sea, far from all the others."""
    zero = (places == 0).all(axis=1)
    far = not zero.all() and not (np.abs(places[~zero]).max(axis=1) <= FAR).any()  # NaN is not near
    return np.isin(places, SENTINELS).all(axis=1) | (zero & far)


def _first(words: Sequence[str], role: Sequence[str], table: Table) -> int | None:
    """The column with the first of these names that the table has; None without one."""
    word = next((word for word in role if word in words), None)
    if word is None:
        return None
    if words.count(word) > 1:
        raise InputError(f"{table.source}: column {table.header[words.index(word)]!r} appears twice.")
    return list(words).index(word)
