"""Stations and readings of one network, from files, frames or tables."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from nareg import io
from nareg._core import checks
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.io import NETCDF, Readings, Recipe, Stations, is_xarray

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
#: Of directions, which wrap from 360 degrees to 0: their mean is not that of their numbers.
NAMES = frozenset(
    ("direction", "direccion", "dirección", "richtung", "windrichtung", "windrichting", "richting", "winddirection", "winddir",
     "wdir", "wd", "dir", "mwd", "azimuth", "heading", "bearing")
)  # fmt: skip
UNITS = frozenset(("°", "deg", "degree", "degrees", "degt", "degtrue", "degreestrue", "degreetrue", "°true", "degrees_true"))
#: Readings alone tell directions by so many steps across the seam, this share of all, and of the steps beyond half a turn.
CROSSINGS, SHARE, MOST = 5, 0.002, 0.8
#: Such a step is short around the circle: its median, in degrees, as near to north as the readings on both sides reach.
SHORT, NORTH = 45.0, 45.0
#: Different whole degrees that occur on either side of north, and parts of ten degrees elsewhere.
DIFFERENT, PARTS = 4, 5
#: The readings reach within this many degrees of either end.
REACH = 15.0


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
    elevation : (N,) float64, optional
        Height of the graph's stations as the station table has it (its ``altitude``), NaN where it has none.
    """

    graph: Graph
    readings: Readings
    stations: tuple[str, ...]
    notes: tuple[str, ...]
    elevation: np.ndarray | None = None


def assemble(
    readings: ReadingsLike, stations: StationsLike = None, *, strict: bool = False, neighbors: int = NEIGHBORS,
    recipe: Recipe | None = None,
) -> StationNetwork:  # fmt: skip
    """Read both tables and join each station with its nearest neighbors."""
    neighbors = checks.integer("neighbors", neighbors, low=1)
    step = None if recipe is None else recipe.step
    if strict and step is None:
        step = "none"  # a common step is a guess
    if stations is None:
        stations = _with_places(readings, strict, recipe)
    graph = _graph(stations)
    if graph is not None:
        names = graph.names or tuple(str(i) for i in range(graph.n_nodes))
        table = io.on_grid(_readings(readings, names, strict, recipe), step)
        if table.names != names:
            graph = graph.subgraph([names.index(name) for name in table.names])
        graph = graph if graph.names is not None else Graph(
            graph.adjacency, coordinates=graph.coordinates, names=table.names, metric=graph.metric
        )  # fmt: skip
        return _checked(StationNetwork(graph, table, names, table.notes), readings)
    places = _stations(stations, strict, recipe)
    table = io.on_grid(_readings(readings, places.names, strict, recipe), step)
    rows = {name: i for i, name in enumerate(places.names)}
    order = [rows[name] for name in table.names]
    coordinates = places.coordinates[order]
    elevation = None if places.altitude is None or np.isnan(places.altitude).all() else places.altitude[order]
    notes = [*places.notes, *table.notes]
    count = len(table.names)
    if count == 1:
        graph = Graph(np.zeros((1, 1)), coordinates=coordinates, names=table.names, metric=places.metric)
        notes.append("There is only one station, without neighbors: it is estimated from its own readings before and after.")
    else:
        graph = Graph.from_knn(coordinates, min(neighbors, count - 1), metric=places.metric, names=table.names)
    twice = count - len(np.unique(coordinates, axis=0))
    if twice:
        notes.append(f"{twice} {'station is' if twice == 1 else 'stations are'} at the place of another; both are used.")
    return _checked(StationNetwork(graph, table, places.names, tuple(notes), elevation), readings)


def _checked(network: StationNetwork, source: ReadingsLike) -> StationNetwork:
    if not network.readings.observed.any():
        raise InputError("readings contains no reading: check the table and its marks for missing readings.")
    table = network.readings
    file = Path(source).stem if isinstance(source, (str, os.PathLike)) else None
    refuse_directions(table.values, table.unit, (table.quantity, file))
    return network


def _graph(stations: StationsLike) -> Graph | None:
    """The graph, where stations is one or a file that holds one."""
    if isinstance(stations, Graph):
        return stations
    if isinstance(stations, (str, os.PathLike)) and Path(stations).suffix.lower() == ".mtx":
        return Graph(io.read_adjacency(stations))
    return None


def _with_places(readings: ReadingsLike, strict: bool, recipe: Recipe | None) -> StationsLike:
    """The readings themselves, where they can have coordinates: in an array's, or in every row."""
    if is_xarray(readings) or (isinstance(readings, (str, os.PathLike)) and Path(readings).suffix.lower() in NETCDF):
        return cast("StationsLike", readings)
    if isinstance(readings, Readings):
        raise InputError("stations is None: pass a table with station, latitude, longitude.")
    try:
        return _stations(cast("StationsLike", readings), strict, recipe)
    except InputError as error:
        raise InputError(f"stations is None: pass the table of stations, or positions in the rows. {error}") from None


def _stations(stations: StationsLike, strict: bool, recipe: Recipe | None) -> Stations:
    if isinstance(stations, Stations):
        return stations
    if isinstance(stations, (str, os.PathLike, list, tuple)):
        return io.read_stations(stations, strict=strict, recipe=recipe)
    if hasattr(stations, "columns") or is_xarray(stations):
        return io.stations_from_frame(stations, strict, recipe=recipe)
    raise InputError(
        f"stations is a {type(stations).__name__}: pass a frame with columns station, latitude, longitude, a path or a Graph."
    )


def _readings(readings: ReadingsLike, names: Sequence[str], strict: bool, recipe: Recipe | None) -> Readings:
    """The readings of known stations, in their own order: results can be laid over the user's table cell by cell."""
    if isinstance(readings, Readings):
        return _known(readings, names)
    if isinstance(readings, (str, os.PathLike, list, tuple)):
        return io.read_readings(readings, names, strict=strict, own_order=True, recipe=recipe)
    if hasattr(readings, "columns") or is_xarray(readings):
        return io.readings_from_frame(readings, names, strict, own_order=True, recipe=recipe)
    raise InputError(
        f"readings is a {type(readings).__name__}: pass a frame with a row per time and a column per station, or a path."
    )


def _known(table: Readings, names: Sequence[str]) -> Readings:
    """The rows of a table that was read already that are of known stations."""
    rows, known = {name: i for i, name in enumerate(table.names)}, set(names)
    wanted = [name for name in table.names if name in known]
    if not wanted:
        raise InputError(f"readings has no station of the station table: rename {', '.join(table.names[:3])}, ...")
    values = table.values[[rows[name] for name in wanted]]
    if np.isinf(values).any():
        i, t = np.argwhere(np.isinf(values))[0]
        raise InputError(f"readings of station {wanted[i]!r} hold an infinite value at {table.times[t]}: set it to NaN.")
    notes = list(table.notes)
    lost = len(table.names) - len(wanted)
    if lost:
        notes.append(f"{lost} {'station' if lost == 1 else 'stations'} of the readings left out: no coordinates.")
    return replace(table, names=tuple(wanted), values=values, notes=tuple(notes))


def refuse_directions(values: np.ndarray, unit: str | None, names: Iterable[str | None]) -> None:
    """Refuse readings (N, T) that are directions, by their unit or a name, or by how they cross north.

    Parameters
    ----------
    values : (N, T) array
        NaN where missing.
    unit : str or None
        What the table states. Any but degrees clears the readings.
    names : iterable of str or None
        Names of the quantity: of its column, its variable, its file.

    Raises
    ------
    InputError
        With the remedy.
    """
    known = np.isfinite(values)
    if not known.any():
        return
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if low < -180 or high > 360 or (low < 0 and high > 180):
        return
    in_degrees = unit is not None and re.sub(r"[\s.]+", "", unit).casefold() in UNITS
    if unit is not None and not in_degrees:
        return
    from_seam = values if low >= 0 else values + 180  # -180 to 180 wraps there
    named = in_degrees or any(_named(name) for name in names if name)
    if not (_wraps(from_seam) if not named else _both_sides(from_seam)):
        return
    raise InputError(
        "readings are directions, which wrap from 360 degrees to 0: clean their sines and cosines as two tables, and take "
        "the angle of the estimates with arctan2. If they are no directions, multiply them by 10."
    )


def _named(name: str) -> bool:
    """Whether a name says direction: as a word, or in the manner of windDir and WIND_DIRECTION_10M."""
    spaced = re.sub(r"(?<=[a-zäöü])(?=[A-Z])", " ", name)
    words = re.split(r"[\W\d_]+", spaced.casefold())
    return bool(NAMES & {*words, "".join(words)}) or any(word.startswith("wind") and word.endswith("dir") for word in words)


def _both_sides(values: np.ndarray) -> bool:
    """Whether readings lie on both sides of the seam, so that their mean would point to the other side."""
    return bool((values < 90).any() and (values > 270).any())


def _wraps(values: np.ndarray) -> bool:
    """Whether readings from 0 to 360 cross the seam in short steps, as directions do, and hardly anything else."""
    if np.nanmin(values) > REACH or np.nanmax(values) < 360 - REACH:
        return False
    number = beyond = steps = 0
    around = []
    for row in values:
        own = row[np.isfinite(row)]
        size = np.abs(np.diff(own))
        ends = np.sort(np.stack([own[1:], own[:-1]]), axis=0)
        crossing = (size > 180) & (ends[0] <= 90) & (ends[1] >= 270)
        steps, beyond, number = steps + size.size, beyond + int((size > 180).sum()), number + int(crossing.sum())
        around.append(360 - size[crossing])
    if number < max(CROSSINGS, SHARE * steps) or number < MOST * beyond or np.median(np.concatenate(around)) > SHORT:
        return False
    flat = values[np.isfinite(values)]
    east, west = np.unique(np.rint(flat[flat < NORTH])), np.unique(np.rint(flat[flat > 360 - NORTH]))
    parts = np.unique(flat[(flat > NORTH) & (flat < 360 - NORTH)] // 10)
    return min(len(east), len(west)) >= DIFFERENT and len(parts) >= PARTS
