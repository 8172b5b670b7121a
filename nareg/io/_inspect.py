"""What a table of readings holds, and how it is understood, before anything is computed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nareg.errors import InputError
from nareg.io._binary import SUFFIXES, read_table
from nareg.io._file import FileTable
from nareg.io._frames import FrameTable, readings_frame
from nareg.io._grid import in_words
from nareg.io._layout import Layout, Table, one_unit, recognize
from nareg.io._missing import remove_sentinels
from nareg.io._notes import Notes, listed
from nareg.io._numbers import LimitCells
from nareg.io._readings import labels_of
from nareg.io._recipe import Recipe
from nareg.io._stations import read_stations
from nareg.io._tables import Stations
from nareg.io._times import understand
from nareg.io._vocabulary import BRACKETS, LATITUDE, LONGITUDE, plain

if TYPE_CHECKING:
    import pandas as pd

#: Differences between readings that show the resolution, a sample of so many.
SAMPLE = 20_000
#: Steps of a station that are within this share of the usual one are regular.
JITTER = 1e-6


@dataclass(frozen=True, eq=False)
class Inspection:
    """How a table of readings is understood.

    Attributes
    ----------
    recipe : Recipe
        The columns, as they would be read.
    quantities : pandas.DataFrame
        A row per quantity: ``unit``, ``stations`` and ``readings`` that it has, share ``missing`` of the table's rows,
        ``low``, ``median`` and ``high``, and the ``resolution``, the step in which it is written.
    stations : tuple of str
        Names in the readings.
    placed : Stations or None
        The table of stations, or what the rows of readings say.
    times : (R,) array or None
        Times of the rows, increasing.
    step : float or None
        Usual time from one reading of a station to its next, seconds (or the unit of plain numbers).
    regular : float or None
        Share of such times that are the step.
    zone : str or None
        "UTC" where the times have offsets.
    notes : tuple of str
        What was guessed or left out.
    """

    recipe: Recipe
    quantities: pd.DataFrame
    stations: tuple[str, ...]
    placed: Stations | None
    times: np.ndarray | None
    step: float | None
    regular: float | None
    zone: str | None
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """Stations, times and places as sentences."""
        sentences = [f"stations: {len(self.stations):,} with readings ({listed(self.stations)})"]
        if self.placed is not None:
            unknown = sorted(set(self.stations) - set(self.placed.names))
            without = f"; no place for {listed(unknown)}" if unknown else ""
            low, high = self.placed.coordinates.min(axis=0), self.placed.coordinates.max(axis=0)
            names = ("latitude", "longitude") if self.placed.metric == "haversine" else ("x", "y")
            ranges = ", ".join(f"{n} {a:g} to {b:g}" for n, a, b in zip(names, low, high, strict=True))
            height = ", with altitudes" if self.placed.altitude is not None else ""
            sentences.append(f"places: {len(self.placed.names):,} stations, {ranges}{height}{without}")
        else:
            sentences.append("places: none in this table; pass the table of stations, too")
        if self.times is None or not len(self.times):
            sentences.append("times: none that are understood; rows are taken as evenly spaced")
            return sentences
        dated = self.times.dtype.kind == "M"
        first, last = (str(t).partition(".")[0] if dated else f"{t:g}" for t in (self.times[0], self.times[-1]))
        zone = f", {self.zone}" if self.zone else ", in no stated zone" if dated else ""
        text = f"times: {len(np.unique(self.times)):,} from {first} to {last}{zone}"
        if self.step is not None and self.regular is not None:
            step = in_words(self.step) if dated else f"{self.step:g}"
            text += f"; a reading every {step} ({100 * self.regular:.0f} % of steps)"
        return [*sentences, text]


def inspect(
    readings: str | os.PathLike[str] | pd.DataFrame,
    stations: str | os.PathLike[str] | None = None,
    *,
    recipe: Recipe | None = None,
    strict: bool = False,
) -> Inspection:
    r"""Say how a table of readings is understood, and what it holds.

    Parameters
    ----------
    readings : path or frame
        A text file, Parquet or netCDF, or a frame of pandas: wide, or long with one column of readings or several.
    stations : path, optional
        The table of stations. Default: the rows of readings may have the positions.
    recipe : Recipe, optional
        What is known of the columns; the rest is guessed.
    strict : bool, default False
        Raise an error with a remedy where a guess would otherwise be noted.

    Returns
    -------
    Inspection

    Raises
    ------
    InputError
        If no readings are recognized; the message names the option that settles it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "readings.csv"
    >>> rows = [f"2024-01-31 0{t // 2}:00,{'AB'[t % 2]},{t / 10},{80 + t}" for t in range(12)]
    >>> _ = path.write_text("\n".join(["time,station,temperature (°C),humidity (%)", *rows]))
    >>> seen = inspect(path)
    >>> seen.quantities[["unit", "stations", "low", "high", "resolution"]]
                     unit  stations   low  high  resolution
    temperature (°C)   °C         2   0.0   1.1         0.1
    humidity (%)        %         2  80.0  91.0         1.0
    >>> seen.recipe.time, seen.step
    (('time',), 3600.0)
    """
    recipe = recipe or Recipe()
    in_file = isinstance(readings, (str, os.PathLike))
    notes = Notes(str(readings) if in_file else "readings", strict)
    placed = None if stations is None else read_stations(stations, strict=strict, recipe=recipe)
    unit = quantity = None
    if in_file and Path(readings).suffix.lower() not in SUFFIXES:  # type: ignore[arg-type]
        table: Table = FileTable(readings, notes, recipe.words)  # type: ignore[arg-type]
    else:
        frame, unit, quantity = readings_frame(read_table(readings) if in_file else readings, notes)  # type: ignore[arg-type]
        table = FrameTable(frame, notes, recipe.words)
    layout = recognize(table, None if placed is None else placed.names, notes, recipe, several=True)
    if not layout.values:
        raise InputError(f"{notes.source}: no column holds readings: name it by --value, or value= of a recipe.")
    seen = _Rows.of(table, layout, recipe, notes)
    if layout.station is not None and unit is None:
        unit = one_unit(table, layout, notes)
    words = [plain(name) for name in table.header]
    if placed is None and in_file and {*words} & {*LATITUDE} and {*words} & {*LONGITUDE}:
        placed = read_stations(readings, strict=strict, recipe=recipe)  # type: ignore[arg-type]
    name = quantity or (Path(readings).stem if in_file else "readings")  # type: ignore[arg-type]
    step, regular = seen.step()
    header = table.header
    understood = replace(
        recipe,
        time=tuple(header[i] for i in layout.time),
        station=recipe.station or (() if layout.station is None else (header[layout.station],)),
        value=header[layout.values[0]] if layout.station is not None and len(layout.values) == 1 else recipe.value,
    )
    order = None if seen.stamps is None else np.sort(seen.stamps)
    notes_of_places = () if placed is None else placed.notes
    return Inspection(
        understood, seen.quantities(header, name, unit), seen.names, placed, order, step, regular, seen.zone,
        tuple(dict.fromkeys((*notes_of_places, *notes.sentences))),
    )  # fmt: skip


@dataclass(frozen=True)
class _Rows:
    """Readings (R, C) of all rows, and the time and the station of each; a wide table has a column per station."""

    values: np.ndarray
    columns: tuple[int, ...]
    stamps: np.ndarray | None
    site: np.ndarray | None
    names: tuple[str, ...]
    zone: str | None

    @classmethod
    def of(cls, table: Table, layout: Layout, recipe: Recipe, notes: Notes) -> _Rows:
        import pandas as pd

        wanted = [*layout.time, *([] if layout.station is None else [layout.station])]
        loaded, values = table.load(wanted, layout.values, odd=LimitCells())
        texts = dict(zip(wanted, loaded, strict=True))
        recipe.remove_codes(values)
        labels, column = labels_of(table, replace(layout, zone=None), texts, len(values), notes)
        times = understand(labels, column, table.line, notes) if column else None
        stamps, zone = (None, None) if times is None else (times.stamps, times.zone)
        if layout.station is None:
            series = values.T.copy()
            remove_sentinels(series, np.arange(len(series))[:, None], notes)
            return cls(series.T, layout.values, stamps, None, tuple(table.header[i] for i in layout.values), zone)
        site, names = pd.factorize(texts[layout.station])
        for j in range(values.shape[1]):
            one = values[:, j].copy()
            remove_sentinels(one, site, notes)
            values[:, j] = one
        return cls(values, layout.values, stamps, site, tuple(map(str, names)), zone)

    def step(self) -> tuple[float | None, float | None]:
        """The usual time from one reading of a station to its next, and the share of those that are it."""
        if self.stamps is None or len(self.stamps) < 3:
            return None, None
        times = self.stamps.astype("datetime64[ns]").astype(np.int64) / 1e9 if self.stamps.dtype.kind == "M" else self.stamps
        site = np.zeros(len(times), dtype=int) if self.site is None else self.site
        order = np.lexsort((times, site))
        gaps = np.diff(times[order])[np.diff(site[order]) == 0]
        gaps = gaps[gaps > 0]
        if not gaps.size:
            return None, None
        spans, number = np.unique(gaps, return_counts=True)
        usual = float(spans[np.argmax(number)])
        return usual, float(np.mean(np.abs(gaps - usual) <= JITTER * usual))

    def quantities(self, header: Sequence[str], name: str, unit: str | None) -> pd.DataFrame:
        """A row per quantity."""
        import pandas as pd

        parts = [(name, unit, self.values)] if self.site is None else [
            (header[i], unit if len(self.columns) == 1 else None, self.values[:, [j]]) for j, i in enumerate(self.columns)
        ]  # fmt: skip
        rows = {}
        for title, stated, values in parts:
            known = np.isfinite(values)
            own = values[known]
            sites = known.any(axis=0).sum() if self.site is None else len(np.unique(self.site[known[:, 0]]))
            brackets = BRACKETS.search(title)
            rows[title] = {
                "unit": stated or (brackets.group().strip(" ()[]") if brackets else ""),
                "stations": int(sites),
                "readings": int(known.sum()),
                "missing": float(1 - known.mean()),
                "low": own.min() if own.size else np.nan,
                "median": np.median(own) if own.size else np.nan,
                "high": own.max() if own.size else np.nan,
                "resolution": _resolution(own),
            }
        return pd.DataFrame.from_dict(rows, orient="index")


def _resolution(values: np.ndarray) -> float:
    """The largest of 1, .5, .1, .05, ... that all values are multiples of; NaN where none is."""
    sample = values[:: max(1, len(values) // SAMPLE)]
    if not sample.size:
        return float("nan")
    for step in (10.0, 5.0, 1.0, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001):
        parts = sample / step
        if np.all(np.abs(parts - np.rint(parts)) < 1e-6 * np.maximum(1, np.abs(parts))):
            return step
    return float("nan")
