"""Several quantities of one network: one table of all, in the layout of a tidy input, and a page of links to the reports."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np

from nareg import __version__
from nareg.cleaning._apply import Applied, cell
from nareg.cleaning._cleaned import Cleaned
from nareg.cleaning._report import REPORT, decimals, environment, write_dataset, write_frame
from nareg.cleaning._words import plural
from nareg.errors import InputError
from nareg.io import Recipe, read_readings, unshield, write_rows
from nareg.quality import Flag
from nareg.results import atomic_write

if TYPE_CHECKING:
    import xarray

#: What the columns beside a quantity's readings are called.
ENDS = ("", " estimate", " std", " flag")


def folder_name(quantity: str) -> str:
    """The folder of a quantity's own results."""
    return re.sub(r"[^\w.\-]+", "_", quantity)


def several_files(form: str) -> tuple[str, ...]:
    """Names of the files of all quantities together."""
    return ("clean.nc" if form == "netcdf" else f"clean.{form}", REPORT)


def several_parts(results: Mapping[str, Cleaned], folders: Mapping[str, str], form: str) -> dict[str, Callable[[Path], object]]:
    """Name of each of the :func:`several_files`, and the function that writes it; ``folders`` have the single reports."""
    page: dict[str, Callable[[Path], object]] = {REPORT: partial(_page, results, folders)}
    if form == "netcdf":
        return {"clean.nc": partial(write_dataset, make=partial(_dataset, results, folders))} | page
    return {f"clean.{form}": partial(_csv if form == "csv" else _parquet, _Tidy.of(results))} | page


def append_several(path: Path, applied: Mapping[str, Applied], zone: str | None = None) -> None:
    """Add rows by quantity to the ``clean.csv`` of all quantities, whole or not at all, in the order of a new cleaning.

    What it has at the same times is written anew; ``zone`` is that of its times.
    """
    header = ["time", "station", *(name + end for name in applied for end in ENDS)]
    rows: dict[tuple[str, str], dict[str, object]] = {}
    stamps: dict[str, object] = {}
    if path.exists():
        with path.open(newline="", encoding="utf-8") as handle:
            lines = csv.reader(handle)
            known = list(map(unshield, next(lines, [])))
            absent = [name for name in header if name not in known]
            if absent:
                raise InputError(f"{path} has no column {absent[0]!r} (other quantities?): name another folder with --out.")
            header = known
            for time, station, *cells in lines:
                rows[time, unshield(station)] = dict(zip(header[2:], map(cell, cells), strict=True))
        before = read_readings(path, own_order=True, recipe=Recipe(value=header[2], zone=zone))
        assert before.timestamps is not None
        stamps = dict(zip(before.times, before.timestamps, strict=True))
    applied = {name: applied[name] for name in sorted(applied, key=header.index)}
    for name, one in applied.items():
        table = one.readings
        assert table.timestamps is not None
        stamps |= dict(zip(table.times, table.timestamps, strict=True))
        columns = [name + end for end in ENDS]
        blocks = [values.tolist() for values in (table.values.T, *one.written)]
        for t, time in enumerate(table.times):
            for s, station in enumerate(table.names):
                new = ["" if block[t][s] != block[t][s] else block[t][s] for block in blocks]
                rows.setdefault((time, station), {}).update(zip(columns, new, strict=True))
    order = dict.fromkeys([*(name for one in applied.values() for name in one.readings.names), *(key[1] for key in rows)])
    place = {name: k for k, name in enumerate(order)}
    keys = sorted(rows, key=lambda key: (stamps[key[0]], place[key[1]]))
    write_rows(path, header, ([*key, *(rows[key].get(column, "") for column in header[2:])] for key in keys))


@dataclass(frozen=True, eq=False)
class _Tidy:
    """A row per time and station at which a quantity was cleaned; columns of readings, estimates and so on by their names."""

    labels: list[str]
    stamps: np.ndarray | None
    stations: list[str]
    columns: dict[str, np.ndarray]
    zone: str | None

    @classmethod
    def of(cls, results: Mapping[str, Cleaned]) -> _Tidy:
        tables = [cleaned.network.readings for cleaned in results.values()]
        dated = all(table.timestamps is not None for table in tables)
        keys = [np.array(table.times, dtype=object) if not dated else np.asarray(table.timestamps) for table in tables]
        every = np.array(list(dict.fromkeys(np.concatenate(keys).tolist())), dtype=object) if not dated else np.unique(
            np.concatenate(keys)
        )  # fmt: skip
        label = {key: text for own, table in zip(keys, tables, strict=True) for key, text in zip(own, table.times, strict=True)}
        stations = list(dict.fromkeys(name for table in tables for name in table.names))
        time_of, place_of = ({key: k for k, key in enumerate(own)} for own in (every, stations))
        there = np.zeros((len(every), len(stations)), dtype=bool)
        at = [
            np.ix_([time_of[key] for key in own], [place_of[name] for name in table.names])
            for own, table in zip(keys, tables, strict=True)
        ]
        for where in at:
            there[where] = True
        columns = {}
        for (name, cleaned), where in zip(results.items(), at, strict=True):
            places = decimals(cleaned.std.to_numpy())
            x, std = (np.round(frame.to_numpy(), places) for frame in (cleaned.x, cleaned.std))
            parts = (cleaned.network.readings.values.T, x, std, cleaned.written_flags.to_numpy())
            for end, values in zip(ENDS, parts, strict=True):
                full = np.full(there.shape, np.nan, dtype=np.result_type(values, float))
                full[where] = values
                columns[name + end] = full[there]
        t, s = np.nonzero(there)
        zone = tables[0].zone if len({table.zone for table in tables}) == 1 else None
        return cls([label[every[k]] for k in t], every[t] if dated else None, [stations[k] for k in s], columns, zone)


def _csv(tidy: _Tidy, path: Path) -> None:
    cells = [
        [
            "" if value != value else int(value) if name.endswith(ENDS[-1]) and not isinstance(value, str) else value
            for value in values.tolist()
        ]
        for name, values in tidy.columns.items()
    ]
    write_rows(path, ["time", "station", *tidy.columns], zip(tidy.labels, tidy.stations, *cells, strict=True))


def _parquet(tidy: _Tidy, path: Path) -> None:
    import pandas as pd

    times = pd.Series(tidy.labels if tidy.stamps is None else tidy.stamps)
    if tidy.zone is not None and times.dtype.kind == "M":
        times = times.dt.tz_localize(tidy.zone)
    write_frame(path, pd.DataFrame({"time": times, "station": tidy.stations, **tidy.columns}))


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
    page = environment().get_template("several.html.j2").render(rows=rows, version=__version__)
    with atomic_write(path) as handle:
        handle.write(page.encode())
