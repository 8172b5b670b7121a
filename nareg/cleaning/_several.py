"""Several quantities of one network: one table of all, in the layout of a tidy input, and a page of links to the reports."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np

from nareg import __version__
from nareg.cleaning._apply import Applied
from nareg.cleaning._cleaned import Cleaned
from nareg.cleaning._report import FORMATS, REPORT, files, write_dataset, write_frame, write_page
from nareg.cleaning._words import plural
from nareg.cleaning._written import cell, labeled_as, written_before
from nareg.errors import InputError
from nareg.io import Readings, Recipe, read_readings, write_rows
from nareg.quality import Flag

if TYPE_CHECKING:
    import pandas as pd
    import xarray

#: What the columns beside a quantity's readings are called.
ENDS = ("", " estimate", " std", " flag")


def folder_name(quantity: str) -> str:
    """The folder of a quantity's own results."""
    return re.sub(r"[^\w.\-]+", "_", quantity)


def several_files(form: str) -> tuple[str, ...]:
    """Names of the files of all quantities together."""
    return ("clean.nc" if form == "netcdf" else f"clean.{form}", REPORT)


def of_other_runs(out: Path, written: Sequence[str]) -> list[str]:
    """Files and folders of results in a folder that are not among those that were ``written`` to it.

    Examples
    --------
    >>> import tempfile
    >>> out = Path(tempfile.mkdtemp())
    >>> (out / "rain").mkdir()
    >>> for name in ("clean.csv", "std.csv", "rain/std.csv", "rain/report.html", "notes.txt"):
    ...     (out / name).touch()
    >>> of_other_runs(out, ["clean.csv"])
    ['std.csv', 'rain']
    """
    tables = {name: None for form in FORMATS for name in files(form)}
    pages = sorted(out.glob(f"*/{REPORT}"))
    folders = [page.parent.name for page in pages if any(page.with_name(name).exists() for name in tables if name != REPORT)]
    return [name for name in (*tables, *folders) if name not in written and (out / name).exists()]


def several_parts(results: Mapping[str, Cleaned], folders: Mapping[str, str], form: str) -> dict[str, Callable[[Path], object]]:
    """Name of each of the :func:`several_files`, and the function that writes it; ``folders`` have the single reports."""
    page: dict[str, Callable[[Path], object]] = {REPORT: partial(_page, results, folders)}
    if form == "netcdf":
        return {"clean.nc": partial(write_dataset, make=partial(_dataset, results, folders))} | page
    tables = {name: cleaned.network.readings for name, cleaned in results.items()}
    dated = all(table.timestamps is not None for table in tables.values())
    joint = _joined([_part(name, table, results[name].written, dated=dated) for name, table in tables.items()])
    zones = {table.zone for table in tables.values()}
    write = partial(_csv, joint) if form == "csv" else partial(_parquet, joint, zones.pop() if len(zones) == 1 else None)
    return {f"clean.{form}": write} | page


def append_several(path: Path, applied: Mapping[str, Applied], zone: str | None = None) -> None:
    """Add rows by quantity to the ``clean.csv`` of all quantities, whole or not at all, in the order of a new cleaning.

    What it has at the same times is written anew; ``zone`` is that of its times.
    """
    import pandas as pd

    columns = [name + end for name in applied for end in ENDS]
    before, lines = [], []
    if path.exists():
        (_, _, *known), *lines = written_before(path)
        absent = [name for name in columns if name not in known]
        if absent:
            raise InputError(f"{path} has no column {absent[0]!r} (other quantities?): name another folder with --out.")
        columns = known
        read = read_readings(path, own_order=True, recipe=Recipe(value=columns[0], zone=zone))
        assert read.timestamps is not None
        stamps = dict(zip(read.times, read.timestamps, strict=True))
        index = pd.MultiIndex.from_arrays([[stamps[line[0]] for line in lines], [line[1] for line in lines]])
        rows = [[time, *map(cell, cells)] for time, _, *cells in lines]
        before = [pd.DataFrame(rows, index, ["time", *columns], dtype=object)]
    parts = [
        _part(name, labeled_as(applied[name].readings, [line[0] for line in lines], path, zone), applied[name].written)
        for name in sorted(applied, key=columns.index)
    ]
    _csv(_joined([*parts, *before])[["time", *columns]], path)


def _part(name: str, table: Readings, written: Sequence[np.ndarray], *, dated: bool = True) -> pd.DataFrame:
    """A row per time and station of a quantity: labels of times, readings, estimates and so on."""
    import pandas as pd

    index = pd.MultiIndex.from_product([table.timestamps if dated else table.times, table.names])
    blocks = zip(ENDS, (table.values.T, *written), strict=True)
    return pd.DataFrame(
        {"time": np.repeat(np.array(table.times, dtype=object), len(table.names))}
        | {name + end: block.ravel() for end, block in blocks},
        index,
    )  # fmt: skip


def _joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all parts, times in order; what the first parts have counts, and their order of stations."""
    import pandas as pd

    first, *others = parts
    times, stations = (first.index.unique(k).append([part.index.unique(k) for part in others]).unique() for k in (0, 1))
    rows = pd.MultiIndex.from_product([times.sort_values() if times.dtype.kind in "Mfi" else times, stations])
    there = np.zeros(len(rows), dtype=bool)
    columns: dict[str, np.ndarray] = {}
    for part in reversed(parts):
        at = rows.get_indexer(part.index)
        there[at] = True
        for name, values in part.items():
            full = np.full(len(rows), np.nan, dtype=np.result_type(values.to_numpy(), float))
            columns.setdefault(str(name), full)[at] = values
    return pd.DataFrame(columns, rows)[list(dict.fromkeys(name for part in parts for name in part))][there]


def _csv(table: pd.DataFrame, path: Path) -> None:
    cells = [
        [
            "" if value != value else int(value) if str(name).endswith(ENDS[-1]) and not isinstance(value, str) else value
            for value in values.tolist()
        ]
        for name, values in table.items()
    ]
    cells.insert(1, list(table.index.get_level_values(1)))
    write_rows(path, ["time", "station", *table.columns[1:]], zip(*cells, strict=True))


def _parquet(table: pd.DataFrame, zone: str | None, path: Path) -> None:
    typed = table.drop(columns="time").rename_axis(["time", "station"]).reset_index()
    if zone is not None and typed["time"].dtype.kind == "M":
        typed["time"] = typed["time"].dt.tz_localize(zone)
    write_frame(path, typed)


def _dataset(results: Mapping[str, Cleaned], folders: Mapping[str, str]) -> xarray.Dataset:
    """Variables of all quantities, with the names of their folders before their own; flags say where one has no reading."""
    import xarray

    parts = [cleaned.to_xarray() for cleaned in results.values()]
    labels = [np.concatenate([part[axis].values for part in parts]) for axis in ("station", "time")]
    stations, times = (list(dict.fromkeys(values.tolist())) for values in labels)
    every = times if labels[1].dtype.kind in "OU" else np.unique(labels[1])
    filled = []
    for (name, cleaned), part in zip(results.items(), parts, strict=True):
        gap = {"qartod": int(Flag.MISSING), "labels": "gap", "binary": 0}[cleaned.rules.flags]
        one = part.reindex(station=stations, time=every, fill_value={"flags": gap})
        for own in one.data_vars:
            one[own].attrs["long_name"] = f"{name}, {own}"
        filled.append(one.rename({own: f"{folders[name]}_{own}" for own in one.data_vars}))
    return xarray.merge(filled, join="exact", compat="no_conflicts")


def _page(results: Mapping[str, Cleaned], folders: Mapping[str, str], path: Path) -> None:
    """A page with a row per quantity, and a link to its report."""
    rows = [
        {
            "name": name, "unit": cleaned.unit or "", "headline": cleaned.headline(), "method": cleaned.method,
            "stations": plural(len(cleaned.network.readings.names), "station"), "suspects": cleaned.suspects,
            "times": plural(len(cleaned.network.readings.times), "time"), "notes": cleaned.notes,
            "link": f"{quote(folders[name])}/{REPORT}",
        }
        for name, cleaned in results.items()
    ]  # fmt: skip
    write_page(path, "several.html.j2", rows=rows, version=__version__)
