"""One loader per data set. Nothing here unpickles; missing values become a mask."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, overload

import numpy as np

from nareg.datasets import _graph_loaders, radomeh
from nareg.datasets.network import SensorNetwork, build
from nareg.datasets.node_classification import NodeClassification
from nareg.datasets.registry import BUNDLED, DatasetInfo, arrays, data_root, info, not_found

#: Names of sensor networks, and of graphs whose nodes have classes, so that an editor knows what ``load`` returns.
SensorName = Literal[
    "us-weather", "au-weather", "molene", "sea-surface-temperature", "pm25-california", "aqi36", "noaa-109"
]  # fmt: skip
GraphName = Literal[
    "cora", "citeseer", "pubmed", "cornell", "texas", "wisconsin", "actor", "amazon-photo", "coauthor-cs", "coauthor-physics",
    "metattack-cora", "metattack-citeseer", "metattack-pubmed", "flickr", "ogbn-arxiv", "ogbn-products", "ogbn-papers100M",
    "amazon-ratings", "roman-empire",
]  # fmt: skip


@overload
def load(name: SensorName, *, root: str | os.PathLike[str] | None = None) -> SensorNetwork: ...
@overload
def load(name: GraphName, *, root: str | os.PathLike[str] | None = None) -> NodeClassification: ...
@overload
def load(name: str, *, root: str | os.PathLike[str] | None = None) -> Any: ...
def load(name: str, *, root: str | os.PathLike[str] | None = None) -> SensorNetwork | NodeClassification:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        One of :func:`names`. ``"us-weather"`` and ``"noaa-109"`` ship with the package.
    root : path, optional
        Data folder. Default: ``$NAREG_DATA``, else the user's cache.

    Returns
    -------
    SensorNetwork or NodeClassification
        Stations with readings, or a graph whose nodes have features and a class.

    Raises
    ------
    DatasetNotFoundError
        If the files are missing; the message says how to get them.
    DatasetCorruptError
        If a file does not have the registry's checksum.

    Examples
    --------
    >>> import nareg
    >>> nareg.datasets.load("us-weather")
    SensorNetwork('us-weather', 144 stations, 365 times, 44 missing, °C)
    """
    entry = info(name)
    return _LOADERS[entry.name](entry, data_root(root) if not entry.bundled else Path())


def available(name: str, *, root: str | os.PathLike[str] | None = None) -> bool:
    """Whether the files of a data set are there. Their content is not checked.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    root : path, optional
        Data folder. Default: ``$NAREG_DATA``, else the user's cache.

    Returns
    -------
    bool

    Raises
    ------
    InputError
        If there is no data set of this name.

    Examples
    --------
    >>> import nareg
    >>> nareg.datasets.available("us-weather")
    True
    """
    entry = info(name)
    folder = BUNDLED if entry.bundled else data_root(root)
    there = [(folder / relative).is_file() for relative in entry.files]
    return any(there) if entry.name == "molene" else all(there)


def _ghcn(entry: DatasetInfo, root: Path) -> SensorNetwork:
    data = arrays(entry, next(iter(entry.files)), root)
    readings = np.where(data["observation_mask"], data["daily_temperature_midrange_c"], np.nan)
    return build(entry, readings, data["dates"], "°C", data["coordinates"], data["station_names"].tolist())


def _molene(entry: DatasetInfo, root: Path) -> SensorNetwork:
    prepared, archive = entry.files
    if (root / prepared).is_file():
        data = arrays(entry, prepared, root)
        readings, times = data["temperature_K"], data["timestamps"]
        columns = (data[f"temp_{part}"].tolist() for part in ("station_id", "station_name", "lat", "lon"))
        stations = list(zip(*columns, strict=True))
    elif (root / archive).is_file():
        stations = radomeh.stations()
        times, series = radomeh.read(root / archive)
        readings = np.column_stack([series[station[0]] for station in stations])
    else:
        raise not_found(entry, root)
    places = np.array([station[2:] for station in stations])
    return build(entry, readings, times, "K", places, [station[1] for station in stations], neighbors=5)


def _graph_trss(entry: DatasetInfo, root: Path, variable: str, units: str, name: str) -> SensorNetwork:
    data = arrays(entry, next(iter(entry.files)), root)
    readings = data[variable]
    if variable == "pm25":
        readings = np.where(readings != 0, readings, np.nan)
    names = [f"{name} {i}" for i in range(readings.shape[1])]
    return build(entry, readings, None, units, np.column_stack([data["lat"], data["lon"]]), names)


def _aqi36(entry: DatasetInfo, root: Path) -> SensorNetwork:
    data = arrays(entry, next(iter(entry.files)), root)
    shown, measured = data["pm25_missing"], data["pm25"]
    places = np.column_stack([data["lat"], data["lon"]])
    network = build(entry, shown, data["time"], "µg/m³", places, data["station"].tolist())
    month = data["time"].astype("datetime64[M]").astype(int) % 12 + 1
    hidden = np.isfinite(measured) & ~np.isfinite(shown) & np.isin(month, (3, 6, 9, 12))[:, None]
    return replace(network, reference=measured.T.astype(np.float64), held_out=np.ascontiguousarray(hidden.T))


def _noaa_109(entry: DatasetInfo, root: Path) -> SensorNetwork:
    data = arrays(entry, next(iter(entry.files)), root)
    readings = data["temperature_f_tenths"] / 10
    return build(entry, readings, None, "°F", data["coordinates"], data["station_names"].tolist())


_LOADERS: dict[str, Callable[[DatasetInfo, Path], SensorNetwork | NodeClassification]] = {
    "us-weather": _ghcn,
    "au-weather": _ghcn,
    "molene": _molene,
    "sea-surface-temperature": partial(_graph_trss, variable="temperature_C", units="°C", name="point"),
    "pm25-california": partial(_graph_trss, variable="pm25", units="µg/m³", name="station"),
    "aqi36": _aqi36,
    "noaa-109": _noaa_109,
    **{name: _graph_loaders.LOADERS.get(name, _graph_loaders.prepared) for name in get_args(GraphName)},
}
