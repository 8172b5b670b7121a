"""What the page shows: a cleaned network, its unit and title, and its truth where there is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np

from nareg import datasets
from nareg._core import checks
from nareg.cleaning import (
    Cleaned,
    CleanSettings,
    ReadingsLike,
    StationNetwork,
    StationsLike,
    assemble,
    directions,
    run,
)
from nareg.datasets import SensorNetwork, SimulatedNetwork
from nareg.datasets.loaders import SensorName
from nareg.errors import InputError, TooLargeError
from nareg.io import Readings
from nareg.progress import ProgressCallback

#: Limits of the page: it factors dense matrices, and holds every reading.
MAX_STATIONS, MAX_READINGS = 500, 400_000


@dataclass(frozen=True, eq=False)
class Scene:
    """A cleaned network with its title.

    Attributes
    ----------
    cleaned : Cleaned
    title : str
    truth : (N, T) array or None
        The field without noise, if it is known.
    record : bool
        Whether the readings are a data set's record, which stands in for the truth once the page adds noise.
    source : str
        Where the readings come from, and their license; empty for a user's own.
    """

    cleaned: Cleaned
    title: str
    truth: np.ndarray | None
    record: bool
    source: str


@dataclass(frozen=True, eq=False)
class Unclean:
    """A network that is still to be cleaned, and what the page says about it."""

    network: StationNetwork
    title: str
    unit: str | None
    truth: np.ndarray | None = None
    record: bool = False
    source: str = ""


def scene(
    source: object, stations: StationsLike | None, *, unit: str | None, strict: bool, neighbors: int,
    rng: np.random.Generator | None, progress: ProgressCallback,
) -> Scene:  # fmt: skip
    """Everything that the page shows, from any source that :func:`nareg.explore` takes."""
    if isinstance(source, Cleaned):
        if stations is not None:
            raise InputError("stations is given with a cleaned network, which has its own: omit stations.")
        check_size(source.network)
        return Scene(source, "Your network", None, record=False, source="")
    unclean = assembled(source, stations, unit=unit, strict=strict, neighbors=neighbors)
    cleaned = run(unclean.network, CleanSettings(unit=unclean.unit, rng=rng), progress)
    return Scene(cleaned, unclean.title, unclean.truth, unclean.record, unclean.source)


def assembled(
    source: object, stations: StationsLike | None, *, unit: str | None, strict: bool = False, neighbors: int = 7
) -> Unclean:
    """The tables of a source, checked for the page's limits."""
    if stations is None:
        unclean = _known(source, unit, neighbors)
    else:
        network = assemble(_readings_like(source), stations, strict=strict, neighbors=neighbors)
        unclean = Unclean(network, "Your network", unit)
    check_size(unclean.network)
    return unclean


def check_size(network: StationNetwork) -> None:
    """Refuse what the page cannot hold or compute."""
    n, n_times = network.readings.values.shape
    if n < 2:
        raise InputError("readings has one station: explore needs at least 2; use nareg.clean for one.")
    if directions(network, "auto", None):
        raise InputError("readings are directions, which the page cannot show: clean them with nareg.clean.")
    if n > MAX_STATIONS:
        raise TooLargeError(
            f"readings has {n} stations, but the page takes at most {MAX_STATIONS}: pass the stations of one region."
        )
    if n * n_times > MAX_READINGS:
        raise TooLargeError(
            f"readings has {n} stations and {n_times} times, but the page takes at most {MAX_READINGS:,} readings: pass "
            f"{MAX_READINGS // n} times or fewer."
        )
    if network.graph.coordinates is None or network.graph.coordinates.shape[1] != 2:
        raise InputError("stations has no two-dimensional coordinates: pass a table with latitude and longitude, or x and y.")
    if network.graph.n_edges == 0:
        raise InputError("the stations have no edges: pass a graph with edges, or a table of coordinates.")


def _known(source: object, unit: str | None, neighbors: int) -> Unclean:
    """A network that needs no table of stations."""
    if isinstance(source, SimulatedNetwork):
        graph = source.graph(min(checks.integer("neighbors", neighbors, low=1), max(source.n_nodes - 1, 1)))
        table = Readings(source.names, tuple(map(str, source.times)), source.readings, source.times)
        return Unclean(
            StationNetwork(graph, table, source.names, ()), "Simulated network", unit or source.units, source.truth,
        )  # fmt: skip
    if isinstance(source, str):
        names = get_args(SensorName)
        if source not in names:
            raise InputError(
                f"source is {source!r}: pass readings with their stations, or the name of a sensor network: {', '.join(names)}."
            )
        source = datasets.load(source)
    if not isinstance(source, SensorNetwork):
        raise InputError(
            f"source is a {type(source).__name__} without stations: pass stations=, or a SensorNetwork or the name of one."
        )
    return _sensor_network(source, unit)


def _sensor_network(source: SensorNetwork, unit: str | None) -> Unclean:
    labels = tuple(str(time) for time in source.times)
    try:
        stamps = source.times.astype("datetime64[ns]") if source.times.dtype.kind in "USM" else source.times.astype(float)
    except ValueError:  # labels that are no dates
        stamps = None
    table = Readings(source.names, labels, source.signals, stamps)
    network = StationNetwork(source.graph, table, source.names, ())
    origin = f"{source.source.rstrip('.')}. License: {source.license}."
    title = datasets.info(source.name).title if source.name in get_args(SensorName) else source.name
    return Unclean(network, title, unit or source.units, None, True, origin)


def _readings_like(source: object) -> ReadingsLike:
    if isinstance(source, (SensorNetwork, SimulatedNetwork)):
        raise InputError("stations is given with a network, which has its own: omit stations.")
    return source  # type: ignore[return-value]  # assemble refuses what is no table
