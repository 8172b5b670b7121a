"""Tables in and out: station coordinates, readings and weights as CSV, NPZ or MatrixMarket.

Formats
-------
stations    a row per station: ``station``, then ``latitude, longitude`` (degrees) or ``x, y`` (any unit)
readings    a row per time: ``time``, then a column per station; an empty cell, NA or NaN is a missing reading
weights     a row per station: ``station, weight``
adjacency   MatrixMarket (``.mtx``), a graph instead of coordinates
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp

from nareg.errors import UNREADABLE, InputError
from nareg.results import atomic_write

STATION_COLUMNS = ("station", "id", "name")
MISSING = ("", "na", "nan", "null", "none")


@dataclass(frozen=True)
class Stations:
    """Station names, coordinates (N, 2) and the metric that fits them."""

    names: tuple[str, ...]
    coordinates: np.ndarray
    metric: str


@dataclass(frozen=True)
class Readings:
    """Readings (N, T), NaN where missing, with station names and time labels."""

    names: tuple[str, ...]
    times: tuple[str, ...]
    values: np.ndarray

    @property
    def observed(self) -> np.ndarray:
        """(N, T) True where there is a reading."""
        return np.isfinite(self.values)


def read_stations(path: str | os.PathLike[str]) -> Stations:
    """Read station coordinates from CSV."""
    header, rows = _rows(path)
    lowered = [h.lower() for h in header]
    name = next((lowered.index(c) for c in STATION_COLUMNS if c in lowered), None)
    if name is None:
        raise InputError(f"{path}: no column {' or '.join(map(repr, STATION_COLUMNS))}; it has {', '.join(header)}.")
    pairs = {("latitude", "longitude"): "haversine", ("lat", "lon"): "haversine", ("x", "y"): "euclidean"}
    pair = next((p for p in pairs if set(p) <= set(lowered)), None)
    if pair is None:
        raise InputError(f"{path}: no columns latitude and longitude, or x and y; it has {', '.join(header)}.")
    _once(path, lowered, (lowered[name], *pair))
    columns = [lowered.index(c) for c in pair]
    names = tuple(row[name] for _, row in rows)
    if "" in names:
        raise InputError(f"{path}, line {rows[names.index('')][0]}: the station has no name.")
    _distinct(path, names)
    values = np.array([[_number(path, line, header[c], row[c]) for c in columns] for line, row in rows])
    if np.isnan(values).any():
        line, row = rows[int(np.flatnonzero(np.isnan(values).any(axis=1))[0])]
        raise InputError(f"{path}, line {line}: station {row[name]!r} has no coordinates; fill them in or drop the row.")
    if pairs[pair] == "haversine" and (np.abs(values) > [90, 360]).any():
        line, row = rows[int(np.flatnonzero((np.abs(values) > [90, 360]).any(axis=1))[0])]
        raise InputError(
            f"{path}, line {line}: station {row[name]!r} is at {', '.join(row[c] for c in columns)}: a latitude of at most 90 "
            "and a longitude of at most 360 degrees are expected; columns x and y are for other coordinates."
        )
    return Stations(names, values, pairs[pair])


def read_readings(path: str | os.PathLike[str], stations: Sequence[str] | None = None) -> Readings:
    """Read readings from CSV, or an NPZ with ``values`` (N, T), ``names`` (N,) and ``times`` (T,).

    With ``stations`` given the columns are put in that order; a missing or unknown station is an error.
    """
    if Path(path).suffix.lower() == ".npz":
        table = _read_npz(path)
    else:
        header, rows = _rows(path)
        if header[0].lower() not in ("time", "date", "timestamp"):
            raise InputError(f"{path}: the first column is {header[0]!r}; it must be 'time', then one column per station.")
        if len(set(header)) != len(header):
            raise InputError(f"{path}: column {next(h for h in header if header.count(h) > 1)!r} stands there twice.")
        cells = [[_number(path, line, h, cell) for h, cell in zip(header[1:], row[1:], strict=True)] for line, row in rows]
        times = tuple(row[0] for _, row in rows)
        table = Readings(tuple(header[1:]), times, np.array(cells, dtype=float).reshape(len(rows), -1).T)
    if stations is None:
        return table
    absent = [s for s in stations if s not in table.names]
    unknown = [s for s in table.names if s not in set(stations)]
    if absent or unknown:
        what = f"no column for station {absent[0]!r}" if absent else f"column {unknown[0]!r} is no station"
        raise InputError(f"{path}: {what}; the columns must be the names in the station file.")
    place = {name: i for i, name in enumerate(table.names)}
    return Readings(tuple(stations), table.times, table.values[[place[s] for s in stations]])


def write_readings(path: str | os.PathLike[str], table: Readings) -> None:
    """Write readings as CSV or NPZ, by the file's suffix; whole or not at all."""
    if Path(path).suffix.lower() == ".npz":
        with atomic_write(path) as handle:
            np.savez_compressed(
                handle, allow_pickle=False, values=table.values, names=np.array(table.names), times=np.array(table.times)
            )
        return
    rows = ([time, *(_cell(v) for v in column)] for time, column in zip(table.times, table.values.T, strict=True))
    write_rows(path, ["time", *table.names], rows)


def read_column(path: str | os.PathLike[str], stations: Sequence[str], column: str) -> np.ndarray:
    """Read one number per station from a CSV with the columns ``station`` and ``column``, in the given order; of no others."""
    header, rows = _rows(path)
    lowered = [h.lower() for h in header]
    for needed in ("station", column):
        if needed not in lowered:
            raise InputError(f"{path}: no column {needed!r}; it has {', '.join(header)}.")
    _once(path, lowered, ("station", column))
    s, w = lowered.index("station"), lowered.index(column)
    _distinct(path, [row[s] for _, row in rows])
    table = {row[s]: _number(path, line, column, row[w]) for line, row in rows}
    absent = [name for name in stations if name not in table or np.isnan(table[name])]
    if absent:
        raise InputError(f"{path}: no {column} for station {absent[0]!r}: every station in the station file needs one.")
    unknown = [name for name in table if name not in set(stations)]
    if unknown:
        raise InputError(f"{path}: {unknown[0]!r} is no station in the station file: is this {column} of another network?")
    return np.array([table[name] for name in stations])


def read_weights(path: str | os.PathLike[str], stations: Sequence[str]) -> np.ndarray:
    """Read weights written by :func:`write_weights`, in the order of ``stations``."""
    return read_column(path, stations, "weight")


def read_fit(path: str | os.PathLike[str], stations: Sequence[str]) -> np.ndarray | None:
    """The ``fit`` column of a weights file (data-term weights), or None if it has none."""
    header, _ = _rows(path)
    return read_column(path, stations, "fit") if "fit" in [h.lower() for h in header] else None


def write_weights(
    path: str | os.PathLike[str], stations: Sequence[str], weights: np.ndarray, fit: np.ndarray | None = None
) -> None:
    """Write one weight per station as CSV, with the data-term weights where the design has them."""
    columns = [weights] if fit is None else [weights, fit]
    rows = ([s, *(repr(float(v)) for v in values)] for s, *values in zip(stations, *columns, strict=True))
    write_rows(path, ["station", "weight", "fit"][: 1 + len(columns)], rows)


def read_adjacency(path: str | os.PathLike[str]) -> sp.csr_array:
    """Read a MatrixMarket file."""
    try:
        return sp.csr_array(scipy.io.mmread(path))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except (*UNREADABLE, MemoryError) as error:
        raise InputError(f"{path} is not a MatrixMarket file, or one too large ({error}).") from None


def _once(path: str | os.PathLike[str], header: Sequence[str], columns: Iterable[str]) -> None:
    """Refuse a file in which one of the columns stands more than once."""
    twice = [column for column in columns if header.count(column) > 1]
    if twice:
        raise InputError(f"{path}: column {twice[0]!r} stands there twice.")


def _distinct(path: str | os.PathLike[str], stations: Sequence[str]) -> None:
    if len(set(stations)) != len(stations):
        twice = next(name for name in stations if list(stations).count(name) > 1)
        raise InputError(f"{path}: station {twice!r} is listed twice.")


def _read_npz(path: str | os.PathLike[str]) -> Readings:
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in stored.files}
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except UNREADABLE:
        raise InputError(f"{path} is not an NPZ file of plain arrays: write it again.") from None
    for needed in ("values", "names", "times"):
        if needed not in arrays:
            raise InputError(f"{path}: no array {needed!r}; it has {', '.join(arrays) or 'none'}.")
    values, names, times = (arrays[key] for key in ("values", "names", "times"))
    if names.ndim != 1 or times.ndim != 1 or names.dtype.kind not in "Uiu" or times.dtype.kind not in "UiuM":
        raise InputError(f"{path}: names and times must be lists of texts; they have {names.shape} and {times.shape} entries.")
    if values.shape != (names.size, times.size) or values.dtype.kind not in "fiu":
        raise InputError(f"{path}: values has shape {values.shape} and dtype {values.dtype}, numbers (names, times) expected.")
    with np.errstate(over="ignore"):
        values = values.astype(float)
    if np.isinf(values).any() or not values.size:
        raise InputError(f"{path}: values is empty or holds an infinite reading; NaN marks a missing one.")
    _distinct(path, tuple(map(str, names)))
    return Readings(tuple(map(str, names)), tuple(map(str, times)), values)


def _rows(path: str | os.PathLike[str]) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Header and (line number, cells) of a CSV file, cells stripped, row lengths checked."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, a CSV file is expected.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text: save it as CSV UTF-8.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from None
    reader = csv.reader(io.StringIO(text), strict=True)  # or an open quote takes in the rest of the file
    try:
        lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not readable as CSV ({error}).") from None
    if not lines:
        raise InputError(f"{path} is empty: a header line and at least one row are needed.")
    header = lines[0][1]
    if len(header) == 1 and any(separator in header[0] for separator in ";\t|"):
        raise InputError(f"{path}: the separator must be a comma (and the decimal mark a point); the header is {header[0]!r}.")
    if len(lines) == 1:
        raise InputError(f"{path} has a header and no rows.")
    for line, row in lines[1:]:
        if len(row) != len(header):
            raise InputError(f"{path}, line {line}: {len(row)} cells where the header has {len(header)}.")
    return header, lines[1:]


def _number(path: str | os.PathLike[str], line: int, column: str, cell: str) -> float:
    if cell.lower() in MISSING:
        return np.nan
    try:
        value = float(cell.replace("_", "?"))  # Python would read 1_5 as 15
    except ValueError:
        raise InputError(
            f"{path}, line {line}, column {column!r}: {cell!r} is not a number; leave it empty if it is missing."
        ) from None
    if np.isinf(value):
        raise InputError(f"{path}, line {line}, column {column!r}: {cell!r} is infinite; leave it empty if it is missing.")
    return value


def _cell(value: float) -> str:
    return "" if np.isnan(value) else repr(float(value))


def write_rows(path: str | os.PathLike[str], header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """A CSV file, whole or not at all."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    with atomic_write(path) as handle:
        handle.write(text.getvalue().encode())
