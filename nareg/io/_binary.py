"""Files that other libraries read: Parquet, netCDF and map files.

Those libraries follow what a file says: to other files of the user, and to addresses. So each file is looked at first, and read
by the one driver that its name promises.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from nareg._core import checks
from nareg._storage import array_files
from nareg._storage.array_files import refuse_expanding
from nareg.errors import UNREADABLE, InputError, MissingDependencyError, TooLargeError
from nareg.io._notes import Notes, count
from nareg.io._text import starts
from nareg.io._vocabulary import TIME, distinct, plain

PARQUET = (".parquet", ".pq")
NETCDF = (".nc", ".nc4", ".netcdf")
#: First bytes of map files. Drivers of other formats search the text up to the first zero byte for their own marks.
MAP_MARKS = {".gpkg": b"SQLite format 3\0", ".shp": b"\0\0\x27\x0a", ".fgb": b"fgb\x03fgb"}
GEOJSON = ".geojson"
#: Suffixes of files that :func:`read_table` reads, and of those of readings: GeoJSON of readings is read as text.
SUFFIXES = (*PARQUET, *NETCDF, GEOJSON, *MAP_MARKS)
OF_READINGS = tuple(suffix for suffix in SUFFIXES if suffix != GEOJSON)
#: First bytes of the classic netCDF; netCDF 4 is HDF5.
CLASSIC = b"CDF"
#: Reference systems of GeoJSON, by name: a link to one would be opened.
REFERENCE = re.compile(r"(urn:ogc:def:crs:)?(OGC|EPSG):[\d.]*:?(CRS84|\d+)")
#: Virtual tables that hold their rows in the same file.
INSIDE = ("rtree", "fts3", "fts4", "fts5")
VIRTUAL = re.compile(r"create\s+virtual\s+table.*?\busing\s+[\"'\[]?(\w+)", re.IGNORECASE | re.DOTALL)


def read_table(path: str | os.PathLike[str]) -> Any:
    """A Parquet file as a pandas frame, a netCDF file as an xarray Dataset in memory, a map file as a GeoDataFrame.

    Raises
    ------
    InputError
        If the file cannot be read, or keeps what it holds in other places.
    """
    suffix = Path(path).suffix.lower()
    if not Path(path).is_file():
        raise InputError(f"{path}: no such file.")
    path = Path(path).absolute()  # no prefix of a driver or of a remote file system
    if suffix in PARQUET:
        return _read(path, "pandas", "pyarrow", lambda pandas: pandas.read_parquet(path), _parquet_bytes)
    if suffix in NETCDF:
        engine = "scipy" if starts(path, CLASSIC) else "h5netcdf"
        return _read(path, "xarray", engine, lambda xarray: xarray.load_dataset(path, engine=engine), _netcdf_bytes)
    if suffix == GEOJSON:
        return _read(path, "geopandas", "shapely", lambda geopandas: _geojson(path, geopandas))
    return _read(path, "geopandas", "pyogrio", lambda geopandas: geopandas.read_file(path), _check_map)


def _parquet_bytes(path: str | os.PathLike[str]) -> int:
    """Bytes of the table in memory, as the file declares it: a column of one value takes no room in a file."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        declared = file.metadata
        groups = sum(declared.row_group(k).total_byte_size for k in range(declared.num_row_groups))
        return int(max(groups, 8 * declared.num_rows * declared.num_columns))


def _netcdf_bytes(path: str | os.PathLike[str]) -> int:
    """Bytes of all arrays in memory, as the file declares them: parts that were never written take no room in a file.

    Raises
    ------
    InputError
        If an array or a part lies in another file: HDF5 has links, external storage and virtual data sets.
    """
    if starts(path, CLASSIC):
        return 0  # every number is stored
    import h5py

    outside: list[str] = []

    def check_link(name: str, link: Any) -> None:
        if isinstance(link, h5py.ExternalLink):
            outside.append(name)

    def check_array(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and (item.external or item.is_virtual):
            outside.append(name)

    with h5py.File(path, "r") as file:
        file.visititems_links(check_link)
        file.visititems(check_array)
        if outside:
            raise InputError(f"{path}: {outside[0]!r} lies in another file: write the file again with its data inside.")
        arrays = [array for array in file.values() if isinstance(array, h5py.Dataset)]
        return sum(max(array.dtype.itemsize, 8) * math.prod(array.shape or ()) for array in arrays)


def _check_map(path: str | os.PathLike[str]) -> int:
    """Refuse a map file that another driver than its own would read, or whose tables lie elsewhere; 0, it declares nothing."""
    suffix = Path(path).suffix.lower()
    if not starts(path, MAP_MARKS[suffix]):
        raise InputError(f"{path} cannot be read by geopandas (it is no {suffix} file): write it again.")
    if suffix == ".gpkg":
        with closing(sqlite3.connect(f"{Path(path).as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            texts = [str(sql) for (sql,) in database.execute("select sql from sqlite_master where sql is not null")]
        modules = [match[1].lower() for match in map(VIRTUAL.search, texts) if match]
        calls = any(re.search(r"\b(ogr|gdal)_\w+\s*\(|\bload_extension\b", sql, re.IGNORECASE) for sql in texts)
        other = next((module for module in modules if module not in INSIDE), "a function" if calls else None)
        if other is not None:
            raise InputError(f"{path} has tables that are read by {other} from elsewhere: export the layer to a new file.")
    return 0


def reads_as_table(path: str | os.PathLike[str]) -> bool:
    """Whether :func:`read_table` reads the stations of a file: not where points of GeoJSON are readings, of a time each."""
    suffix = Path(path).suffix.lower()
    if suffix != GEOJSON:
        return suffix in SUFFIXES
    try:
        first = json.loads(Path(path).read_text(encoding="utf-8-sig"))["features"][0]["properties"]
    except (OSError, ValueError, LookupError, TypeError):
        return True  # which says what is wrong
    return first is None or not {*map(plain, first)} & {*TIME}


def _geojson(path: str | os.PathLike[str], geopandas: Any) -> Any:
    """The features of a GeoJSON file. GDAL would open what the text names: VRT, or a link to a reference system."""
    collection = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    features = collection["features"]
    for feature in features:
        properties = feature["properties"] = dict(feature.get("properties") or {})
        if "id" in feature:
            properties.setdefault("id", feature["id"])
    stated = collection.get("crs")
    name = "OGC:CRS84" if stated is None else str(stated.get("properties", {}).get("name"))
    if not REFERENCE.fullmatch(name):
        raise InputError(f"{path}: its reference system is {name[:80]!r}: write degrees (WGS 84), or a name such as EPSG:3857.")
    return geopandas.GeoDataFrame.from_features(features, crs=4326 if name.endswith("CRS84") else name)


def _read(
    path: str | os.PathLike[str],
    library: str,
    engine: str,
    read: Callable[[Any], Any],
    declared_bytes: Callable[[str | os.PathLike[str]], int] = lambda _: 0,
) -> Any:
    """Read with a library, after a look at how large the file says that the result is."""
    try:
        importlib.import_module(engine)
        module = importlib.import_module(library)
    except ImportError:
        raise MissingDependencyError(f"{path} needs {library} and {engine}: pip install 'nareg[tables]'.") from None
    try:
        n_bytes = declared_bytes(path)
        refuse_expanding(path, n_bytes, remedy="write a part of it")
        checks.memory(f"the table in {path}", n_bytes, alternative="write a part of it")
        return read(module)
    except (InputError, TooLargeError):
        raise
    except Exception as error:  # of the file's own library, of many types
        reason = str(error).partition("\n")[0]
        raise InputError(f"{path} cannot be read by {library} ({type(error).__name__}: {reason}): write it again.") from error


def read_npz(path: str | os.PathLike[str], notes: Notes) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Names, labels of the times, and values (N, T)."""
    try:
        arrays = array_files.read_npz(path)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except InputError:
        raise
    except (*UNREADABLE, MemoryError):
        raise InputError(f"{path} is not an NPZ file of plain arrays: write it again.") from None
    for needed in ("values", "names", "times"):
        if needed not in arrays:
            raise InputError(f"{path}: no array {needed!r}; it has {', '.join(arrays) or 'none'}.")
    values, names, times = (arrays[key] for key in ("values", "names", "times"))
    if names.ndim != 1 or times.ndim != 1 or names.dtype.kind not in "Uiu" or times.dtype.kind not in "UiufM":
        raise InputError(f"{path}: names and times have shapes {names.shape} and {times.shape}: write lists of texts.")
    if values.shape != (names.size, times.size) or values.dtype.kind not in "fiu":
        raise InputError(f"{path}: values has shape {values.shape} and dtype {values.dtype}: write numbers (names, times).")
    if not values.size:
        raise InputError(f"{path}: values is empty: write at least one reading.")
    with np.errstate(over="ignore"):
        values = values.astype(float)
    infinite = np.isinf(values)
    if infinite.any():
        if notes.strict:
            raise InputError(f"{path}: values contains an infinite reading: write NaN where a reading is missing.")
        values[infinite] = np.nan
        notes.fact(f"{count(int(infinite.sum()), 'reading is', 'readings are')} infinite and taken as missing")
    listed = tuple(map(str, names.tolist()))
    distinct(str(path), listed)
    labels = times.astype(str) if times.dtype.kind == "M" else [str(time) for time in times.tolist()]
    return listed, np.array(list(labels), dtype=object), values
