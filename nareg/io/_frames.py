"""Tables in memory: pandas and polars frames, xarray arrays and geopandas points, in the shape in which files are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nareg.errors import InputError
from nareg.io._around import SAMPLE
from nareg.io._file import FileTable
from nareg.io._notes import Notes, count, listed, verb
from nareg.io._numbers import Numbers, OddCells
from nareg.io._vocabulary import (
    ALTITUDE,
    FLAG,
    KIND,
    LATITUDE,
    LONGITUDE,
    MISSING,
    POSITION,
    SENSOR,
    STATION,
    TIME,
    kinds_in,
    loose,
    plain,
)

#: What is said of a frame without times, and its remedy.
UNTIMED = (
    "there is neither an index of times nor a column 'time'; rows are taken as evenly spaced",
    "set a DatetimeIndex",
)
#: Degrees of latitude and longitude.
WGS84 = 4326


def is_xarray(table: Any) -> bool:
    """Whether this is an xarray DataArray or Dataset."""
    return _library(table) == "xarray" and hasattr(table, "dims")


def refuse_frame(path: Any, instead: str) -> None:
    """Refuse a table in the place of files: its columns would be taken for their names."""
    if hasattr(path, "columns") or is_xarray(path):
        raise InputError(f"path is a {type(path).__name__}: pass the files' names, or this table to nareg.io.{instead}.")


def is_quantity(array: Any) -> bool:
    """Whether an xarray DataArray holds a pint quantity."""
    return hasattr(array.data, "magnitude")


def _library(table: Any) -> str:
    return type(table).__module__.partition(".")[0]


def readings_frame(
    table: Any, notes: Notes, value: str | None = None, stations: Sequence[str] | None = None
) -> tuple[Any, str | None, str | None]:
    """A pandas frame of readings, wide or long, with their unit and the name of what they are, if the table has them."""
    if not is_xarray(table):
        return _one_level(_pandas(table, notes.source), notes, stations), None, None
    if hasattr(table, "data_vars"):
        series = _series_of_one_place(table, notes, value)
        series = _long(table) if series is None else series
        if series is not None:
            return series, None, None
    array = one_variable(table, notes.source)
    others = [str(name) for name in getattr(table, "data_vars", ()) if name != array.name and _is_flag(name, table[name])]
    if others:
        notes.fact(f"{count(len(others), 'variable')} of flags {verb(len(others))} not used: {listed(others)}")
    named = [array.attrs.get("standard_name"), array.attrs.get("long_name"), array.name]
    return *_wide(array, notes.source), " ".join(str(name) for name in named if name) or None


def _one_level(frame: Any, notes: Notes, stations: Sequence[str] | None) -> Any:
    """A frame whose columns have two levels, stations and quantities, as a long one; others as they are.

    The level of the stations has a name that says so, or the names of the table of stations; or most of the other level's
    names have words of quantities.
    """
    import pandas as pd

    columns = getattr(frame, "columns", None)
    if not isinstance(columns, pd.MultiIndex):
        return frame
    keys = [name for name in columns if any(str(part).strip() in ("", "nan") for part in name)]
    readings = frame.set_index(keys) if keys and isinstance(frame.index, pd.RangeIndex) else frame
    levels = [[str(part).strip() for part in readings.columns.unique(k)] for k in range(columns.nlevels)]
    titles = [plain(str(name)) for name in columns.names]
    known = {loose(name) for name in stations or ()}
    shows = (
        [title in (*STATION, *SENSOR) for title in titles],
        [title in KIND for title in titles[::-1]],
        [bool({*map(loose, names)} & known) for names in levels],
        [2 * sum(map(bool, map(kinds_in, names))) > len(names) for names in levels[::-1]],
    )
    said, level = next(((k, one.index(True)) for k, one in enumerate(shows) if sum(one) == 1), (0, None))
    if columns.nlevels != 2 or level is None or not readings.columns.is_unique:
        raise InputError(
            f"{notes.source} has {columns.nlevels} levels of columns: give it one name per column, or two levels of which one "
            "is called 'station' (frame.columns.names)."
        )
    if said > 1:
        notes.guess(
            f"level {level + 1} of the columns has the names of the stations ({listed(levels[level])})",
            "call it 'station' (frame.columns.names)",
        )
    if isinstance(readings.index, pd.RangeIndex) and readings.index.name is None:
        notes.guess(*UNTIMED)
    names = ["".join(name) if isinstance(name, tuple) else name for name in readings.index.names]
    long = readings.rename_axis(index=["time" if name is None else name for name in names]).stack(level, future_stack=True)
    long.index = long.index.set_names("station", level=-1)
    return long.set_axis([str(name) for name in long.columns], axis=1)


def _series_of_one_place(table: Any, notes: Notes, value: str | None) -> Any:
    """Variables along time alone as a frame with their units, where these are all, or the place is along it, too."""
    names = [str(name) for name, array in table.data_vars.items() if array.ndim == 1 and time_of(array) is not None]
    names = [name for name in names if table[name].dtype.kind in "fiu" and not _is_flag(name, table[name])]
    two = [name for name, array in table.data_vars.items() if array.ndim == 2 and time_of(array) is not None]
    time = str(time_of(table[names[0]])) if names else ""
    along = {plain(str(name)) for name, array in table.coords.items() if array.dims == (time,)}
    if not names or (two and value not in names and not along & {*LATITUDE}):
        return None
    names = [name for name in names if table[name].dims == (time,)]
    others = [str(name) for name in table.data_vars if str(name) not in names]
    if others:
        notes.fact(f"{count(len(others), 'variable')} {verb(len(others))} not used: {listed(others)}")
    places = [str(name) for name in table.coords if plain(str(name)) in (*LATITUDE, *LONGITUDE) and table[name].dims == (time,)]
    frame = table[[*names]].reset_coords(places)[[*names, *places]].to_dataframe()[[*names, *places]]
    frame.attrs = {"units": {name: str(table[name].attrs["units"]) for name in names if "units" in table[name].attrs}}
    return frame.rename_axis("time")


def _long(table: Any) -> Any:
    """Several variables along stations and times, or ragged arrays of the CF conventions, as a long frame; None of others."""
    import pandas as pd

    both = {str(name): array for name, array in table.data_vars.items() if array.ndim == 2 and time_of(array) is not None}
    read = [name for name, array in both.items() if not _is_flag(name, array)]
    links = ("instance_dimension", "sample_dimension")
    ragged = next((array for array in table.variables.values() if {*links} & {*array.attrs}), None)
    if ragged is not None:  # the station of each row, or how many rows each station has
        of_row, (own,) = links[0] in ragged.attrs, ragged.dims
        station, row = (ragged.attrs[links[0]], own) if of_row else (own, ragged.attrs[links[1]])
        numbers = ragged.to_numpy().astype(int)
        which = numbers if of_row else np.repeat(np.arange(numbers.size), numbers)
        cells = {str(name): array.to_numpy() for name, array in _along(table, row).items() if links[0] not in array.attrs}
    elif len(read) > 1 and len({frozenset(both[name].dims) for name in read}) == 1:
        dimensions, time = both[read[0]].dims, str(time_of(both[read[0]]))
        station = next(str(name) for name in dimensions if name != time)
        length, size = table.sizes[time], table.sizes[station]
        which = np.tile(np.arange(size), length)
        cells = {"time": np.repeat(table[time].to_numpy() if time in table.coords else np.arange(length), size)}
        alike = {name: array for name, array in both.items() if {*array.dims} == {*dimensions}}
        cells |= {name: array.transpose(time, station).to_numpy().ravel() for name, array in alike.items()}
    else:
        return None
    places = {str(n): a.to_numpy()[which] for n, a in _along(table, station).items() if plain(str(n)) in POSITION}
    frame = pd.DataFrame({"station": np.array(_labels(table, station), dtype=object)[which], **places, **cells})
    units = {name: table[name].attrs.get("units") for name in cells if name in table}
    frame.attrs = {"units": {name: str(unit) for name, unit in units.items() if unit}}
    return frame


def wide_frame(table: Any, source: str) -> Any:
    """A pandas frame with a row per time, which is its index, and a column per station."""
    if is_xarray(table):
        return _wide(one_variable(table, source), source)[0]
    frame = _pandas(table, source)
    if frame is table:
        return frame
    times = [name for name in frame.columns if plain(str(name)) in TIME or frame[name].dtype.kind == "M"]
    return frame.set_index(times[0]) if times else frame


def stations_frame(table: Any, source: str) -> Any:
    """A pandas frame of stations with their coordinates as columns."""
    if is_xarray(table):
        alone = _series_of_one_place(table, Notes(source, strict=False), None) if hasattr(table, "data_vars") else None
        return _places(table, source) if alone is None else alone
    frame = _pandas(table, source)
    return _points(frame, source) if _library(frame) == "geopandas" else frame


def _pandas(table: Any, source: str) -> Any:
    if _library(table) != "polars":
        return table
    import pandas as pd

    if not hasattr(table, "get_columns"):
        raise InputError(f"{source} is a polars {type(table).__name__}: pass a DataFrame, with collect().")
    columns: dict[str, Any] = {}
    for column in table.get_columns():
        if column.dtype.is_numeric():
            columns[column.name] = column.to_numpy()
        elif getattr(column.dtype, "time_zone", None) is not None:
            columns[column.name] = pd.DatetimeIndex(column.to_numpy()).tz_localize("UTC")
        else:
            columns[column.name] = column.to_numpy() if column.dtype.is_temporal() else column.to_list()
    return pd.DataFrame(columns)


def _points(frame: Any, source: str) -> Any:
    """A GeoDataFrame's points as columns latitude and longitude, or x and y where it has no reference system."""
    import pandas as pd

    points = frame.geometry
    if not (points.geom_type == "Point").all():
        kind = points.geom_type[points.geom_type != "Point"].iloc[0]
        raise InputError(f"{source} holds a {kind}: pass points, such as frame.set_geometry(frame.centroid).")
    known = frame.crs is not None
    if known:
        points = points.to_crs(WGS84)
    table = pd.DataFrame(frame.drop(columns=frame.geometry.name))
    drop = [name for name in table.columns if plain(str(name)) in (*LATITUDE, *LONGITUDE, "x", "y")]
    table = table.drop(columns=drop)  # the geometry is what counts
    table["latitude" if known else "y"], table["longitude" if known else "x"] = points.y.to_numpy(), points.x.to_numpy()
    return table


def one_variable(table: Any, source: str) -> Any:
    """The one array of readings: two dimensions, one of them time."""
    if hasattr(table, "data_vars"):
        names = [name for name, array in table.data_vars.items() if array.ndim == 2 and time_of(array) is not None]
        if len(names) > 1:
            names = [name for name in names if not _is_flag(name, table[name])]
        if len(names) != 1:
            some = ", ".join(map(str, names)) or "none"
            raise InputError(
                f"{source}: {some} of its variables have a time and a station dimension: keep one of them in the file, or pass "
                "that variable from Python."
            )
        return table[names[0]]
    return table


def _is_flag(name: Any, array: Any) -> bool:
    """Whether a variable is a quality flag of another, by the attributes of the CF conventions or by its name."""
    marked = {"flag_values", "flag_masks", "flag_meanings"} & set(array.attrs)
    return bool(marked) or "flag" in str(array.attrs.get("standard_name", "")) or plain(str(name)) in FLAG


def time_of(array: Any) -> str | None:
    """The dimension of the times."""
    dated = [str(d) for d in array.dims if d in array.coords and array.coords[d].dtype.kind == "M"]
    named = [str(d) for d in array.dims if plain(str(d)) in TIME]
    return next(iter(dated or named), None)


def _wide(array: Any, source: str) -> tuple[Any, str | None]:
    """A row per time and a column per station."""
    import pandas as pd

    time = time_of(array)
    if array.ndim != 2 or time is None:
        raise InputError(f"{source} has the dimensions {tuple(array.dims)}: pass an array with two, one of them 'time'.")
    station = next(str(d) for d in array.dims if d != time)
    if is_quantity(array):
        array = array.pint.dequantify()
    array = array.transpose(time, station)
    index = pd.Index(array.coords[time].to_numpy(), name="time") if time in array.coords else None
    unit = array.attrs.get("units")
    return pd.DataFrame(array.to_numpy(), index=index, columns=_labels(array, station)), None if unit is None else str(unit)


def _labels(table: Any, dimension: str) -> list[str]:
    """Names along a dimension: of its coordinate, of another one that names stations, or the numbers."""
    words = (*STATION, *SENSOR)
    along = _along(table, dimension)
    others = [n for n, v in along.items() if v.attrs.get("cf_role") == "timeseries_id"]
    others += [n for n, v in along.items() if plain(str(n)) in words and v.dtype.kind in "OUST"]
    name = dimension if dimension in table.coords else next(iter(others), None)
    if name is None:
        return [str(i) for i in range(table.sizes[dimension])]
    return [v.decode() if isinstance(v, bytes) else str(v) for v in table[name].to_numpy().tolist()]


def _along(table: Any, dimension: str) -> dict[Any, Any]:
    """Coordinates, and variables of a Dataset, along one dimension."""
    named = {**dict(table.coords), **dict(getattr(table, "data_vars", {}))}
    return {name: array for name, array in named.items() if array.dims == (dimension,)}


def _places(table: Any, source: str) -> Any:
    """Coordinates of the stations of an array."""
    import pandas as pd

    for dimension in map(str, table.dims):
        words = {plain(str(name)): array for name, array in _along(table, dimension).items()}
        columns = {}
        for role in (LATITUDE, LONGITUDE, ALTITUDE, ("x",), ("y",)):
            array = next((words[word] for word in role if word in words), None)
            if array is not None:
                columns[role[0]] = np.asarray(array.to_numpy(), dtype=float)
        if {"latitude", "longitude"} <= set(columns) or {"x", "y"} <= set(columns):
            return pd.DataFrame(columns, index=pd.Index(_labels(table, dimension), name="station"))
    raise InputError(
        f"{source} has no coordinates latitude and longitude, or x and y, along one dimension: "
        "assign them with assign_coords, or pass stations."
    )


class FrameTable:
    """Header, sample and columns of a frame; an index with a meaning becomes the first columns.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    notes : Notes
        Collects the guesses.
    missing : frozenset of str
        Cells that mean that there is no reading, beside the usual ones.
    """

    comma = False

    def __init__(self, frame: Any, notes: Notes, missing: frozenset[str] = frozenset()) -> None:
        import pandas as pd

        self.source, self.notes, self.missing = notes.source, notes, MISSING | missing
        if isinstance(frame, pd.Series):
            frame = frame.to_frame(frame.name if frame.name is not None else "value")
        if not isinstance(frame, pd.DataFrame):
            raise InputError(f"{self.source} is {type(frame).__name__}, a pandas DataFrame is expected.")
        if isinstance(frame.columns, pd.MultiIndex):
            raise InputError(f"{self.source} has {frame.columns.nlevels} levels of columns: give it one name per column.")
        if not len(frame):
            raise InputError(f"{self.source} is empty: at least one row is needed.")
        #: Whether rows have nothing but their number.
        self.counted = isinstance(frame.index, pd.RangeIndex) and frame.index.name is None
        levels = [] if self.counted else [frame.index.get_level_values(level) for level in range(frame.index.nlevels)]
        names = ["" if level.name is None else str(level.name) for level in levels]
        if len(levels) == 1 and isinstance(levels[0], (pd.DatetimeIndex, pd.PeriodIndex)):
            names = ["time"]
        #: Units of columns, by their names.
        self.units: dict[str, str] = dict(frame.attrs.get("units", {}))
        #: Readings of columns that failed the checks of who made the file, and that are left empty.
        self.failed: dict[str, int] = dict(frame.attrs.get("failed", {}))
        self.stated: dict[str, str] = {}
        self._frame, self._levels = frame, [pd.Series(level) for level in levels]
        self.header = names + [str(name).strip() for name in frame.columns]

    def _series(self, index: int) -> Any:
        """The level of the index, or the column, at this place of the header."""
        return self._levels[index] if index < len(self._levels) else self._frame.iloc[:, index - len(self._levels)]

    def head(self, index: int) -> list[str]:
        """The first cells of a column, empty where they mean missing."""
        own = self.missing - MISSING
        return ["" if cell.lower() in own else cell for cell in _texts(self._series(index).iloc[:SAMPLE])]

    def column(self, index: int) -> str:
        """The name of a column in messages."""
        return f"column {self.header[index]!r}" if self.header[index] else "the index"

    def line(self, row: int) -> str:
        """The place of a row."""
        return f"row {row}"

    def place(self, row: int, column: int) -> str:
        """The place of a cell."""
        return f"{self.line(row)}, {self.column(column)}"

    def load(
        self, texts: Sequence[int], numbers: Sequence[int], *, finite: bool = False, odd: OddCells | None = None
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Texts of some columns and numbers (R, C) of others, by ``odd`` where their cells are no numbers."""
        levels = len(self._levels)
        part = self._frame.iloc[:, [i - levels for i in numbers]] if min(numbers, default=0) >= levels else None
        if part is not None and all(_numeric(dtype) for dtype in set(part.dtypes)):
            values = part.to_numpy(dtype=float, na_value=np.nan).copy()
        else:
            values = np.empty((len(self._frame), len(numbers)))
            converter = Numbers(
                self.notes,
                lambda row, j: self.place(row, numbers[j]),
                comma=False,
                finite=finite,
                odd=odd,
                missing=self.missing,
            )
            for j, index in enumerate(numbers):
                values[:, j] = self._converted(index, j, converter)
            converter.finish(values)
        bad = np.isinf(values)
        if bad.any():
            if finite or self.notes.strict:
                row, j = (int(i) for i in np.argwhere(bad)[0])
                raise InputError(f"{self.source}, {self.place(row, numbers[j])}: the value is infinite: write NaN.")
            values[bad] = np.nan
            self.notes.fact(f"{count(int(bad.sum()), 'reading is', 'readings are')} infinite and taken as missing")
        return [_texts(self._series(i)) for i in texts], values

    def _converted(self, index: int, place: int, converter: Numbers) -> np.ndarray:
        column = self._series(index)
        if _numeric(column.dtype):
            return np.asarray(column.to_numpy(dtype=float, na_value=np.nan))
        if column.dtype.kind in "bmMc":
            raise InputError(f"{self.source}, {self.column(index)}: its type is {column.dtype}, numbers are expected.")
        return converter.convert(_texts(column)[:, None], column=place)[:, 0]


def _numeric(dtype: Any) -> bool:
    return dtype.kind in "iuf"


def _texts(column: Any) -> np.ndarray:
    """The column as stripped texts; empty where a cell is missing."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column.dtype):  # pandas drops the time of day where it is 0 in all rows
        words = pd.Index(column).astype(str)
    elif column.dtype.kind == "m":  # times since some start, in seconds
        words = [repr(v) for v in column.dt.total_seconds()]
    elif pd.api.types.is_float_dtype(column.dtype):
        words = [repr(float(v)) for v in column.to_numpy(dtype=float, na_value=np.nan)]
    else:
        words = [str(v) for v in column]
    absent = column.isna().to_numpy()
    return np.array(["" if a else str(w).strip() for w, a in zip(words, absent, strict=True)], dtype=object)


#: A table of any origin.
Table = FileTable | FrameTable
