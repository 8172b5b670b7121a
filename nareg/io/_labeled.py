"""Functions of signals (N, T) that also take tables: a row per time and a column per station, with names and times."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from nareg._core.conversions import labeled
from nareg.errors import InputError
from nareg.io._frames import is_quantity, is_xarray, one_variable, time_of, wide_frame

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
LIBRARIES = ("pandas", "polars", "xarray")


@dataclass(frozen=True, eq=False)
class Labeled:
    """Signals in the graph's order, and the way back.

    Attributes
    ----------
    values : (N, T) or (N,) array
    times : (T,) datetime64 (UTC) or float array, optional
    restore : callable
        Puts an array of the same shape into a table like the one that was given.
    """

    values: np.ndarray
    times: np.ndarray | None
    restore: Callable[[np.ndarray], Any]


def is_table(value: object) -> bool:
    """Whether this is a frame, series or array of pandas, polars or xarray."""
    return type(value).__module__.partition(".")[0] in LIBRARIES and hasattr(value, "shape")


def as_series(value: Any) -> Any:
    """A pandas Series, and an xarray array of one named dimension as one; None for anything else."""
    if not is_table(value):
        return None
    if is_xarray(value) and value.ndim == 1 and value.dims[0] in value.coords:
        return value.to_series()
    return value if type(value).__name__ == "Series" and hasattr(value, "index") else None  # polars' has no names


def takes_tables(
    *names: str,
    rows: Collection[str] = (),
    times: str | None = None,
    observed: str | None = None,
    like: str | None = None,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Let the arguments ``names`` of a function be tables; ``graph`` or its first argument is the graph, or has one.

    A series with a value per station in any other argument, and a square frame, are taken in the graph's order too.

    Parameters
    ----------
    *names : str
        Arguments that may be tables.
    rows : collection of str
        Arguments that may be frames with a row per node.
    times : str, optional
        Argument that gets a table's times, unless it is given.
    observed : str, optional
        Argument that gets the mask of readings where a table has gaps, unless it is given.
    like : str, optional
        Argument whose kind of table the result's x becomes.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
            if not any(map(is_table, (*args, *options.values()))):
                return function(*args, **options)
            bound = signature.bind(*args, **options)
            first = next(iter(bound.arguments.values()))
            graph = bound.arguments.get("graph", getattr(first, "graph", first))
            if "graph" in bound.arguments and type(graph).__name__ == "DataFrame" and hasattr(graph, "index"):
                square = set(graph.columns) == set(graph.index)  # an operator, not places of stations
                bound.arguments["graph"], labels = labeled("graph", graph, square=square)
                graph = SimpleNamespace(names=labels, n_nodes=len(graph))
            restore = None
            for name in bound.arguments.keys() - names:
                bound.arguments[name] = _per_station(name, bound.arguments[name], graph, by_row=name in rows)
            for name in names:
                value = bound.arguments.get(name)
                if not is_table(value):
                    continue
                taken = take(name, value, graph)
                bound.arguments[name] = taken.values
                if name == like:
                    restore = taken.restore
                if times is not None and bound.arguments.get(times) is None:
                    bound.arguments[times] = taken.times
                gaps = ~np.isfinite(taken.values) if taken.values.dtype.kind == "f" else np.zeros(1, dtype=bool)
                if observed is not None and gaps.any() and bound.arguments.get(observed) is None:
                    bound.arguments[observed] = ~gaps
            result = function(*bound.args, **bound.kwargs)
            return result if restore is None else cast(Result, replace(cast(Any, result), x=restore(cast(Any, result).x)))

        return call

    return decorate


def take(name: str, table: Any, graph: Any) -> Labeled:
    """A table as signals in the order of the graph's stations.

    Raises
    ------
    InputError
        If a station of the graph has no column, or a column is no station.
    """
    import pandas as pd

    stations = getattr(graph, "names", None)
    n = int(getattr(graph, "n_nodes", None) or graph.shape[0])
    if isinstance(table, pd.Series):
        order = _order(name, list(map(str, table.index)), stations, n, "entry")
        return Labeled(table.to_numpy()[order], None, lambda x: pd.Series(_back(x, order), table.index, name=table.name))
    frame = wide_frame(table, name)
    if frame.columns.nlevels > 1:
        raise InputError(f"{name} has {frame.columns.nlevels} levels of columns: give it one name per station.")
    labels = [str(label).strip() for label in frame.columns]
    if stations is not None and set(stations) == set(map(str, frame.index)) and set(labels) != set(stations):
        raise InputError(f"{name} has a row per station: pass {name}.T, a row per time and a column per station.")
    order = _order(name, labels, stations, n, "column")
    kinds = {dtype.kind for dtype in frame.dtypes}
    if not kinds <= set("iufb"):
        worst = next(column for column, dtype in frame.dtypes.items() if dtype.kind not in "iufb")
        raise InputError(f"{name}, column {worst!r}: its type is {frame[worst].dtype}, numbers are expected.")
    single = all(dtype == np.float32 for dtype in frame.dtypes)
    values = frame.to_numpy(bool) if kinds == {"b"} else frame.to_numpy(np.float32 if single else float, na_value=np.nan)
    values = values.T[order]
    return Labeled(values, _times(frame.index), lambda x: _like(table, frame, _back(x, order).T))


def in_order(name: str, value: Any, graph: Any, *, signals: bool) -> Any:
    """A table of signals, or values per station, as an array in the graph's order; anything else as it is."""
    return take(name, value, graph).values if signals and is_table(value) else _per_station(name, value, graph)


def signals_of(name: str, table: Any) -> tuple[np.ndarray, list[str] | None]:
    """A table's signals (N, T) in the order of its columns, and the names of these where they are texts."""
    frame = wide_frame(table, name)
    labels = list(frame.columns)
    values = take(name, frame, np.empty((len(labels), 0))).values
    return values, labels if all(isinstance(label, str) for label in labels) else None


def _per_station(name: str, value: Any, graph: Any, *, by_row: bool = False) -> Any:
    """Values per station, pairs of stations or rows, in the graph's order if their labels are its names; else as they are."""
    stations = getattr(graph, "names", None)
    if stations is None or not is_table(value):
        return value
    n, series = len(stations), value if by_row and hasattr(value, "index") else as_series(value)
    counting = list(map(str, range(n)))  # labels that only count say nothing, also where names are numbers
    if series is not None and len(series) == n:
        labels = list(map(str, series.index))
        # names of which none is a station's are those of another network
        named = labels != counting and (set(labels) & set(stations) or any(isinstance(label, str) for label in series.index))
        return series.to_numpy()[_order(name, labels, stations, n, "entry")] if named else value
    if type(value).__name__ == "DataFrame" and hasattr(value, "index") and value.shape == (n, n):
        rows, columns = list(map(str, value.index)), list(map(str, value.columns))
        if counting not in (rows, columns) and set(rows) & set(stations) and set(columns) & set(stations):
            order = [_order(name, labels, stations, n, "entry") for labels in (rows, columns)]
            return value.to_numpy()[np.ix_(*order)]
    return value


def _order(name: str, labels: list[str], stations: tuple[str, ...] | None, n: int, what: str) -> np.ndarray:
    """Position in the table of each station of the graph."""
    if stations is None:
        if len(labels) != n:
            raise InputError(f"{name} has {len(labels)} {what}s but the graph has {n} nodes: pass one {what} per node.")
        return np.arange(n)
    place = {label: i for i, label in enumerate(labels)}
    if len(place) < len(labels):
        twice = next(label for i, label in enumerate(labels) if place[label] != i)
        raise InputError(f"{name}: {what} {twice!r} appears twice.")
    lacking = [station for station in stations if station not in place]
    if lacking:
        raise InputError(
            f"{name} has no {what} for station {lacking[0]!r} ({len(lacking)} of {n} are absent): add it, NaN where there is "
            "no reading, or take graph.subgraph."
        )
    extra = set(labels) - set(stations)
    if extra:
        raise InputError(f"{name}: {what} {min(extra)!r} is no station of the graph: drop it.")
    return np.array([place[station] for station in stations])


def _back(x: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Rows in the order of the table again."""
    placed = np.empty_like(x)
    placed[order] = x
    return placed


def _times(index: Any) -> np.ndarray | None:
    """UTC dates or numbers; None where the index only counts rows, or has something else."""
    import pandas as pd

    if isinstance(index, pd.PeriodIndex):
        index = index.to_timestamp()
    if isinstance(index, pd.DatetimeIndex):
        return np.asarray((index if index.tz is None else index.tz_convert("UTC").tz_localize(None)).to_numpy())
    counted = isinstance(index, pd.RangeIndex) and index.name is None
    return None if counted or index.dtype.kind not in "iuf" else index.to_numpy(dtype=float)


def _like(table: Any, frame: Any, values: np.ndarray) -> Any:
    """Values (T, N) in a table like the one that was given."""
    import pandas as pd

    if is_xarray(table):
        array = one_variable(table, "")
        done = array.copy(data=values if array.dims[0] == time_of(array) else values.T)
        return done.pint.quantify(array.pint.units) if is_quantity(array) else done
    filled = pd.DataFrame(values, index=frame.index, columns=frame.columns)
    if isinstance(table, pd.DataFrame):
        return filled
    import polars as pl

    columns = {name: pl.Series(name, filled[name].to_numpy()) for name in filled.columns}
    return table.with_columns(**columns)
