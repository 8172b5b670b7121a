"""Stations and readings of one network, from files, frames or tables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
import scipy.sparse as sp

from nareg import graphs, io
from nareg._core import checks
from nareg.baselines import interpolate_in_time
from nareg.cleaning._series import read_series
from nareg.cleaning._words import plural
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.io import NETCDF, UNKNOWN, Readings, Recipe, Stations, is_xarray
from nareg.spacetime import TimeGrid, absurd

if TYPE_CHECKING:
    import pandas as pd
    import polars
    import xarray

#: A table of readings: a row per time and a column per station, or long; or its file, or several; or an array of xarray.
ReadingsLike: TypeAlias = (
    "pd.DataFrame | polars.DataFrame | xarray.DataArray | Readings | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"
)
#: A table of stations with coordinates, its file, or the graph. None: the readings have the coordinates.
StationsLike: TypeAlias = "pd.DataFrame | polars.DataFrame | Stations | Graph | str | os.PathLike[str] | None"
#: Neighbors per station, where nothing else is asked for.
NEIGHBORS = 7
#: Stations of which a network is learned.
FEWEST_LEARNED = 5


@dataclass(frozen=True, eq=False)
class StationNetwork:
    """A graph and its readings, rows in the same order.

    Attributes
    ----------
    graph : Graph
    readings : Readings
    stations : tuple of str
        All names of the station table, those without readings too.
    notes : tuple of str
        What was guessed or left out.
    covariates : mapping from names to (N,), (1, T) or (N, T) arrays
        What means and cycles of the graph's stations may follow: the station table's altitude, and columns that were named;
        and series over time, of all stations or a row per station.
    quantity : tuple of str
        Names that the quantity has: of its column, its file.
    """

    graph: Graph
    readings: Readings
    stations: tuple[str, ...]
    notes: tuple[str, ...]
    covariates: Mapping[str, np.ndarray] = field(default_factory=dict)
    quantity: tuple[str, ...] = ()


def assemble(
    readings: ReadingsLike, stations: StationsLike = None, *, strict: bool = False, neighbors: int = NEIGHBORS,
    recipe: Recipe | None = None, series: Sequence[ReadingsLike] = (),
) -> StationNetwork:  # fmt: skip
    """Read both tables, and those of series, and join each station with its nearest neighbors."""
    recipe = recipe or Recipe()
    step = "none" if strict and recipe.step is None else recipe.step  # a common step is a guess
    network = _assembled(readings, stations, strict, neighbors, replace(recipe, step=step))
    shared, notes = read_series((*series, *recipe.series), network.readings, recipe)
    return replace(network, covariates={**network.covariates, **shared}, notes=(*network.notes, *notes))


def _assembled(readings: ReadingsLike, stations: StationsLike, strict: bool, neighbors: int, recipe: Recipe) -> StationNetwork:
    neighbors = checks.integer("neighbors", neighbors, low=1)
    if recipe.covariates and _graph(stations) is not None:
        raise InputError(
            "covariates are columns of a table of stations, but stations is a graph: pass the table, or omit them."
        )
    if stations is None:
        placed = _with_places(readings, strict, recipe)
        if isinstance(placed, InputError) and recipe.covariates:
            raise InputError(
                f"covariates are columns of a table of stations, but none was read: pass one, or omit them. {placed}"
            )
        if isinstance(placed, InputError):
            table = _gridded(readings, None, strict, recipe)
            return _checked(_unplaced(table, neighbors, placed), readings)
        stations = placed
    graph = _graph(stations)
    if graph is not None:
        names = graph.names or tuple(str(i) for i in range(graph.n_nodes))
        table = _gridded(readings, names, strict, recipe)
        if table.names != names:
            graph = graph.subgraph([names.index(name) for name in table.names])
        graph = graph if graph.names is not None else Graph(
            graph.adjacency, coordinates=graph.coordinates, names=table.names, metric=graph.metric
        )  # fmt: skip
        return _checked(StationNetwork(graph, table, names, table.notes), readings)
    places = _stations(stations, strict, recipe)
    table = _gridded(readings, places.names, strict, recipe)
    rows = {name: i for i, name in enumerate(places.names)}
    order = [rows[name] for name in table.names]
    coordinates = places.coordinates[order]
    notes = [*dict.fromkeys((*places.notes, *table.notes))]  # both may be of one file
    count = len(table.names)
    if count == 1:
        graph = Graph(np.zeros((1, 1)), coordinates=coordinates, names=table.names, metric=places.metric)
        notes.append("There is only one station, without neighbors: it is estimated from its own readings before and after.")
    else:
        graph = Graph.from_knn(coordinates, min(neighbors, count - 1), metric=places.metric, names=table.names)
    twice = count - len(np.unique(coordinates, axis=0))
    if twice:
        notes.append(f"{twice} {'station is' if twice == 1 else 'stations are'} at the place of another; both are used.")
    covariates, guessed = _covariates(places, order, graph, recipe.covariates)
    return _checked(StationNetwork(graph, table, places.names, (*notes, *guessed), covariates), readings)


def _covariates(
    places: Stations, order: list[int], graph: Graph, named: Sequence[str]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Covariates of the graph's stations, ``named`` ones and the altitude, and notes on what was guessed."""
    absent = [name for name in named if name not in places.covariates]
    if absent:
        raise InputError(f"covariates names {absent[0]!r}, which the stations do not have: read their table with that column.")
    covariates = {name: places.covariates[name][order] for name in named}
    for name, values in covariates.items():
        if np.isnan(values).any():
            station = places.names[order[int(np.argmax(np.isnan(values)))]]
            raise InputError(f"covariate {name!r} has no value at station {station!r}: fill it in, or omit the covariate.")
    if places.altitude is None or any(np.array_equal(places.altitude[order], values) for values in covariates.values()):
        return covariates, []
    heights = places.altitude[order]
    unknown, notes = np.isnan(heights), []
    if unknown.all():
        return covariates, []
    if unknown.any():
        weights = graph.adjacency @ sp.diags_array((~unknown).astype(float))
        total = np.asarray(weights.sum(axis=1))
        around = weights @ np.nan_to_num(heights) / np.where(total > 0, total, 1.0)
        heights = np.where(unknown, np.where(total > 0, around, np.nanmedian(heights)), heights)
        notes = [f"{plural(int(unknown.sum()), 'station')} without an altitude: that of the neighbors is taken."]
    return covariates | {"altitude": heights}, notes


def _checked(network: StationNetwork, source: ReadingsLike) -> StationNetwork:
    if not network.readings.observed.any():
        raise io.NeverRead("readings contains no reading: check the table and its marks for missing readings.")
    table, file = network.readings, _file(source)
    counts = table.counts
    said = () if counts is None or counts.all_used else (counts.sentence(),)
    return replace(network, quantity=tuple(name for name in (table.quantity, file) if name), notes=(*network.notes, *said))


def _graph(stations: StationsLike) -> Graph | None:
    """The graph, where stations is one or a file that holds one."""
    if isinstance(stations, Graph):
        return stations
    if isinstance(stations, (str, os.PathLike)) and Path(stations).suffix.lower() == ".mtx":
        return Graph(io.read_adjacency(stations))
    return None


def _with_places(readings: ReadingsLike, strict: bool, recipe: Recipe) -> StationsLike | InputError:
    """The readings themselves, where they have coordinates: in an array's, or in every row; else why they have none."""
    if is_xarray(readings) or (isinstance(readings, (str, os.PathLike)) and Path(readings).suffix.lower() in NETCDF):
        return cast("StationsLike", readings)
    if isinstance(readings, Readings):
        return InputError("stations is None")
    try:
        return _stations(cast("StationsLike", readings), strict, recipe)
    except InputError as error:
        if strict:
            raise InputError(f"stations is None: pass the table of stations, or positions in the rows. {error}") from None
        return error


def _unplaced(table: Readings, neighbors: int, why: InputError) -> StationNetwork:
    """A network of stations without places, which is learned from their readings."""
    count = len(table.names)
    if count == 1:
        note = "There is only one station, without a place: it is estimated from its own readings before and after."
        graph = Graph(np.zeros((1, 1)), names=table.names)
    else:
        graph = learned_graph(table.values, table.names, neighbors)
        note = (
            "No station has a place: neighbors are stations whose readings go up and down together. A table of places is "
            "better where readings are few or noisy."
        )
        if not isinstance(why, io.NoPlaces) and ("latitude" in str(why) or "coordinates" in str(why)):
            note += f" Why no place was read: {why}"
    return StationNetwork(graph, table, table.names, (*table.notes, note))


def learned_graph(y: np.ndarray, names: Sequence[str], neighbors: int) -> Graph:
    """The graph of stations whose readings (N, T), NaN where missing, go up and down together, whatever level and scale."""
    y = np.where(absurd(y.T).T, np.nan, y)  # one of them would leave a station without neighbors
    n, seen = len(y), np.isfinite(y)
    counts = np.maximum(seen.sum(axis=1, keepdims=True), 1)
    apart = np.where(seen, y - np.where(seen, y, 0.0).sum(axis=1, keepdims=True) / counts, 0.0)
    spread = np.sqrt((apart**2).sum(axis=1, keepdims=True) / counts)
    usable = np.flatnonzero(spread[:, 0] > 0)
    if usable.size < FEWEST_LEARNED:  # all are neighbors: there is little to choose from
        return Graph(np.ones((n, n)) - np.eye(n), names=tuple(names))
    live = seen[usable].any(axis=0)
    z = np.where(seen, apart, np.nan)[np.ix_(usable, live)] / spread[usable]
    # gaps are filled beside the network's median, which adds nothing to what stations differ by
    z = interpolate_in_time(z - np.nanmedian(z, axis=0))
    learned = graphs.learn(z, neighbors=min(max(neighbors, 2), usable.size - 2)).graph.adjacency
    place = sp.csr_array((np.ones(usable.size), (usable, np.arange(usable.size))), shape=(n, usable.size))
    return Graph(place @ learned @ place.T, names=tuple(names))


def _stations(stations: StationsLike, strict: bool, recipe: Recipe) -> Stations:
    if isinstance(stations, Stations):
        return stations
    if isinstance(stations, (str, os.PathLike, list, tuple)):
        return io.read_stations(stations, strict=strict, recipe=recipe)
    if hasattr(stations, "columns") or is_xarray(stations):
        return io.stations_from_frame(stations, strict, recipe=recipe)
    raise InputError(
        f"stations is a {type(stations).__name__}: pass a frame with columns station, latitude, longitude, a path or a Graph."
    )


def _readings(readings: ReadingsLike, names: Sequence[str] | None, strict: bool, recipe: Recipe) -> Readings:
    """The readings of known stations, in their own order: results can be laid over the user's table cell by cell."""
    if isinstance(readings, Readings):
        return readings if names is None else _known(readings, names)
    if isinstance(readings, (str, os.PathLike, list, tuple)):
        return io.read_readings(readings, names, strict=strict, own_order=True, recipe=recipe)
    if hasattr(readings, "columns") or is_xarray(readings):
        return io.readings_from_frame(readings, names, strict, own_order=True, recipe=recipe)
    raise InputError(
        f"readings is a {type(readings).__name__}: pass a frame with a row per time and a column per station, or a path."
    )


def _gridded(
    readings: ReadingsLike, names: Sequence[str] | None, strict: bool, recipe: Recipe, grid: TimeGrid | None = None
) -> Readings:
    """The readings on a common step, or that of a model's grid; a file's name may say that they are directions."""
    file, table = _file(readings), _readings(readings, names, strict, recipe)
    regular = grid is not None and grid.dated and not grid.months
    known = (float(grid.seconds_of(np.zeros(1))[0]), grid.step) if grid is not None and regular else None
    names_of = () if file is None else (file,)
    return io.on_grid(table, recipe.step, names_of, recipe.kind_of([table.quantity, file]), known)


def _file(readings: ReadingsLike) -> str | None:
    return Path(readings).stem if isinstance(readings, (str, os.PathLike)) else None


def read_known(
    readings: ReadingsLike, names: Sequence[str], strict: bool, recipe: Recipe | None, grid: TimeGrid | None = None
) -> Readings:
    """The readings of all these stations, in this order, those of absent ones missing; times near a ``grid`` are its own."""
    return _of_all(_gridded(readings, names, strict, recipe or Recipe(), grid), names)


def _of_all(table: Readings, names: Sequence[str]) -> Readings:
    """The readings of all these stations, in this order, those of absent ones missing."""
    rows = {name: i for i, name in enumerate(table.names)}
    values = np.full((len(names), len(table.times)), np.nan)
    here = [i for i, name in enumerate(names) if name in rows]
    values[here] = table.values[[rows[names[i]] for i in here]]
    before = None if table.before is None else _of_all(table.before, names)
    return replace(table, names=tuple(names), values=values, averaged=None, before=before)


def _known(table: Readings, names: Sequence[str]) -> Readings:
    """The rows of a table that was read already that are of known stations."""
    rows, given = {name: i for i, name in enumerate(table.names)}, set(names)
    wanted = [name for name in table.names if name in given]
    if not wanted:
        raise InputError(f"readings has no station of the station table: rename {', '.join(table.names[:3])}, ...")
    known = chosen(table, [rows[name] for name in wanted])
    if np.isinf(known.values).any():
        i, t = np.argwhere(np.isinf(known.values))[0]
        raise InputError(f"readings of station {wanted[i]!r} hold an infinite value at {table.times[t]}: set it to NaN.")
    notes = list(table.notes)
    lost = len(table.names) - len(wanted)
    counts = table.counts and table.counts.less(int(table.observed.sum() - known.observed.sum()), UNKNOWN)
    if lost:
        notes.append(f"{lost} {'station' if lost == 1 else 'stations'} of the readings left out: no coordinates.")
    return replace(known, notes=tuple(notes), counts=counts)


def chosen(table: Readings, rows: Sequence[int] | np.ndarray) -> Readings:
    """The readings of some stations, in this order, also as they were before a step moved them."""
    return replace(
        table, names=tuple(table.names[i] for i in rows), values=table.values[rows],
        averaged=None if table.averaged is None else table.averaged[rows],
        before=None if table.before is None else chosen(table.before, rows),
    )  # fmt: skip
