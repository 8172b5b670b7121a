"""One loader per data set. Nothing here unpickles; missing values become a mask."""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, overload

import numpy as np

from nareg.datasets import _graph_loaders
from nareg.datasets.network import SensorNetwork, build
from nareg.datasets.node_classification import NodeClassification
from nareg.datasets.registry import BUNDLED, DatasetInfo, arrays, data_root, info, not_found
from nareg.errors import UNREADABLE, DatasetCorruptError, brief
from nareg.io import read_rows, rows

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
        stations = radomeh_stations()
        times, series = read_radomeh(root / archive)
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


#: sha256 of the 37 complete temperature series, stations by id, in hundredths of a kelvin, little-endian int32.
CONTENT_SHA256 = "93730f03782f58ac180723669286f5e884bb0d8f6e9dacb73f2a346a369b2e7f"
FIRST_HOUR, N_HOURS = np.datetime64("2014-01-01T00", "h"), 744
#: A station's month is about 0.1 MB; anything far larger is not this archive.
MEMBER_LIMIT, TOTAL_LIMIT = 20 * 2**20, 200 * 2**20
MISSING = ("mq", "")


def radomeh_stations() -> list[tuple[str, str, float, float]]:
    """Id, name, latitude and longitude of the 37 stations with a complete series, in the prepared file's order."""
    (_, header), *listed = read_rows(BUNDLED / "molene_temperature_stations.csv")
    columns = [header.index(name) for name in ("station_id", "name", "lat_deg", "lon_deg")]
    cells = ([row[column] for column in columns] for _, row in listed)
    return [(station, name, float(latitude), float(longitude)) for station, name, latitude, longitude in cells]


def read_radomeh(path: Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Times (744,) and the temperature in kelvin of every station id in Météo-France's archive, NaN where missing.

    It is read member by member in memory and never unpacked to disk, so that no path in it can point anywhere. Its own checksum
    is not published; what is parsed is checked against a digest of the temperatures.

    Raises
    ------
    DatasetCorruptError
        If it is no such archive, or the 37 complete series differ from the known ones.
    """
    series: dict[str, np.ndarray] = {}
    total = 0
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                total += member.size  # of members that are passed over too: they are decompressed all the same
                if member.size > MEMBER_LIMIT or total > TOTAL_LIMIT:
                    raise DatasetCorruptError(f"{path}: member {member.name!r} is too large for this archive: get it again.")
                if not member.isfile() or not member.name.lower().endswith((".txt", ".csv")):
                    continue
                handle = archive.extractfile(member)
                if handle is not None:
                    _parse(member.name, handle.read().decode("latin-1").splitlines(), series)
    except (tarfile.TarError, *UNREADABLE) as error:
        raise DatasetCorruptError(f"{path} is not a readable tar.gz archive ({brief(error)}): download it again.") from None
    actual = content_digest(series)
    if actual != CONTENT_SHA256:
        raise DatasetCorruptError(
            f"{path}: the temperatures in it have digest {actual[:12]}..., expected {CONTENT_SHA256[:12]}...: get it again."
        )
    hours = FIRST_HOUR + np.arange(N_HOURS)
    return np.datetime_as_string(hours, unit="m"), series


def content_digest(series: dict[str, np.ndarray]) -> str:
    """Digest of the 37 listed stations; ``"missing <id>"`` if one is absent or incomplete."""
    rows = []
    for station in sorted(s[0] for s in radomeh_stations()):
        values = series.get(station)
        if values is None or not np.isfinite(values).all():
            return f"missing {station}"
        rows.append(np.round(values * 100).astype("<i4"))
    return hashlib.sha256(np.stack(rows).tobytes()).hexdigest()


def _parse(source: str, lines: list[str], series: dict[str, np.ndarray]) -> None:
    """Add the temperatures of one station file; other files of the archive (a readme) are skipped."""
    header = lines[0] if lines else ""
    delimiter = ";" if header.count(";") > header.count(",") else ","
    columns = [column.strip().lower() for column in header.split(delimiter)]
    if not {"numer_sta", "date", "t"} <= set(columns):
        return
    station, date, temperature = columns.index("numer_sta"), columns.index("date"), columns.index("t")
    for _, row in rows(source, lines[1:], delimiter, first=2):
        if len(row) <= max(station, date, temperature):
            continue  # the files end with a line that is no record
        digits = "".join(ch for ch in row[date] if ch.isdigit())
        if len(digits) < 10:
            continue
        hour = np.datetime64(f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}T{digits[8:10]}", "h")
        index = int((hour - FIRST_HOUR).astype(int))
        if 0 <= index < N_HOURS:
            values = series.setdefault(row[station].strip(), np.full(N_HOURS, np.nan))
            cell = row[temperature].strip()
            if cell.lower() not in MISSING:
                values[index] = float(cell)
