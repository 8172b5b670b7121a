"""What a table of readings holds, and how it is understood, before anything is computed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nareg.errors import InputError
from nareg.io._binary import SUFFIXES, read_table
from nareg.io._frames import FrameTable, readings_frame
from nareg.io._grid import NEAR, STEPS, in_words
from nareg.io._labels import labels_of
from nareg.io._layout import Layout, Table, one_unit, recognize
from nareg.io._missing import remove_sentinels
from nareg.io._notes import NoReadings, Notes, count, listed
from nareg.io._numbers import LimitCells
from nareg.io._open import open_tables
from nareg.io._readings import station_in
from nareg.io._recipe import Recipe
from nareg.io._stations import Placeless, read_stations
from nareg.io._tables import Stations
from nareg.io._text import stem
from nareg.io._times import understand
from nareg.io._vocabulary import BRACKETS, KIND, LATITUDE, LONGITUDE, plain

if TYPE_CHECKING:
    import pandas as pd

#: Differences between readings that show the resolution, a sample of so many.
SAMPLE = 20_000
#: The most frequent time from one reading to the next is the usual one from this share on.
MODE = 0.1
#: Names that no column has.
TIMES, SITES = "\0time", "\0station"
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
            sentences.append(f"places: {count(len(self.placed.names), 'station')}, {ranges}{height}{without}")
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
    readings: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | pd.DataFrame,
    stations: str | os.PathLike[str] | None = None,
    *,
    recipe: Recipe | None = None,
    strict: bool = False,
) -> Inspection:
    r"""Say how a table of readings is understood, and what it holds.

    Parameters
    ----------
    readings : path or frame
        A text file, Parquet or netCDF, or a frame of pandas: wide, or long with one column of readings or several. Several
        files, a folder of them or a zip archive are joined.
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
    in_files = isinstance(readings, (str, os.PathLike, list, tuple))
    files = _files(readings) if in_files else []
    notes = Notes(str(files[0]) if len(files) == 1 else "readings", strict)
    placed = None if stations is None else read_stations(stations, strict=strict, recipe=recipe)
    name = stem(str(files[0])) if len(files) == 1 else "readings"
    tables: list[Table] = []
    unit = None
    for file in files:
        own = notes if len(files) == 1 else Notes(str(file), strict)
        try:
            if Path(file).suffix.lower() in SUFFIXES:
                frame, unit, quantity = readings_frame(read_table(file), own, recipe.value)
                name = quantity or name
                tables.append(FrameTable(frame, own, recipe.words))
            else:
                tables += open_tables(file, own, recipe)
        except NoReadings as error:
            if len(files) == 1:
                raise
            notes.fact(f"a file without readings is left out ({str(error).rstrip('.')})")
    if not in_files:
        frame, unit, quantity = readings_frame(readings, notes, recipe.value)
        name = quantity or name
        tables = [FrameTable(frame, notes, recipe.words)]
    if not tables:
        raise InputError(f"{notes.source}: no file has readings: name others.")
    full = _layouts(tables, None if placed is None else placed.names, recipe, notes)
    parts = [_Rows.of(table, layout, recipe, name, placed) for table, layout in full]
    seen = parts[0] if len(parts) == 1 else _Rows.joined(parts)
    table, layout = full[0]
    units = {own: unit for one in tables for own, unit in one.units.items()}
    if unit is None and (layout.station is not None or layout.single) and len(layout.values) == 1:
        unit = one_unit(table, layout, table.notes)
    if placed is None and in_files:
        placed = _places_in(tables, files, strict, recipe, notes)
    step, regular = seen.step()
    header = table.header
    understood = replace(
        recipe,
        time=tuple(header[i] for i in layout.time),
        station=recipe.station or (() if layout.station is None else (header[layout.station],)),
        value=seen.names_of[0] if (layout.station is not None or layout.single) and len(seen.names_of) == 1 else recipe.value,
    )
    order = None if seen.stamps is None else np.sort(seen.stamps)
    said = [
        *(() if placed is None else placed.notes),
        *(note for one, _ in full for note in one.notes.sentences),
        *notes.sentences,
    ]
    return Inspection(
        understood,
        seen.quantities(unit, units),
        seen.names,
        placed,
        order,
        step,
        regular,
        seen.zone,
        tuple(dict.fromkeys(said)),
    )


def _layouts(tables: Sequence[Table], names: Sequence[str] | None, recipe: Recipe, notes: Notes) -> list[tuple[Table, Layout]]:
    """The tables that hold readings, with their layouts; the others of several are left out with a note."""
    full, empty = [], []
    for table in tables:
        try:
            layout = recognize(table, names, table.notes, recipe, several=True)
            if not layout.values:
                raise NoReadings(f"{table.source}: no column holds readings: name it by --value, or value= of a recipe.")
            full.append((table, layout))
        except NoReadings as error:
            empty.append(error)
    if not full:
        raise empty[0]
    for why in empty:
        notes.fact(f"a file without readings is left out ({str(why).rstrip('.')})")
    return full


def _files(paths: Any) -> list[Any]:
    """The files that are named, and those of a folder."""
    paths = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    inside = [sorted(p for p in Path(one).iterdir() if p.is_file()) if os.path.isdir(one) else [one] for one in paths]
    return [file for files in inside for file in files]


def _places_in(tables: Sequence[Table], files: Sequence[Any], strict: bool, recipe: Recipe, notes: Notes) -> Stations | None:
    """Positions in the rows of readings; None where the tables have no columns of them, or nothing in these."""
    words = {plain(name) for table in tables for name in table.header}
    if not (words & {*LATITUDE} and words & {*LONGITUDE}) and not words >= {"x", "y"}:
        return None
    try:
        return read_stations(files if len(files) > 1 else files[0], strict=strict, recipe=recipe)
    except Placeless as error:
        notes.fact(f"no position is understood ({str(error).rstrip('.')})")
        return None


def _kinds(table: Table, layout: Layout) -> int | None:
    """The column that names the kind of each reading, where a long table has one column of readings."""
    if layout.kind is not None:
        return layout.kind[0]
    if layout.station is None or len(layout.values) != 1:
        return None
    return next((i for i in layout.extra if plain(table.header[i]) in KIND), None)


@dataclass(frozen=True)
class _Rows:
    """Readings (R, C) of all rows, and the time and the station of each; a wide table has a column per station.

    ``names_of`` are the names of the quantities, one for a wide table.
    """

    values: np.ndarray
    names_of: tuple[str, ...]
    stamps: np.ndarray | None
    site: np.ndarray | None
    names: tuple[str, ...]
    zone: str | None

    @classmethod
    def of(cls, table: Table, layout: Layout, recipe: Recipe, name: str, placed: Stations | None) -> _Rows:
        import pandas as pd

        notes = table.notes
        kinds = _kinds(table, layout)
        wanted = [*layout.time, *(i for i in (layout.station, kinds) if i is not None)]
        loaded, values = table.load(wanted, layout.values, odd=LimitCells())
        texts = dict(zip(wanted, loaded, strict=True))
        recipe.remove_codes(values)
        labels, column = labels_of(table, replace(layout, zone=None), texts, len(values), notes, recipe)
        times = understand(labels, column, table.line, notes) if column else None
        stamps, zone = (None, None) if times is None else (times.stamps, times.zone)
        if layout.station is None and not layout.single:
            series = values.T.copy()
            remove_sentinels(series, np.arange(len(series))[:, None], notes)
            return cls(series.T, (name,), stamps, None, tuple(table.header[i] for i in layout.values), zone)
        if layout.station is None:
            own = np.full(len(values), station_in(table.source, None if placed is None else placed.names), dtype=object)
        else:
            own = texts[layout.station]
        names_of = tuple(table.header[i] for i in layout.values)
        if kinds is not None:
            kind, words = pd.factorize(texts[kinds])
            values = np.where(kind[:, None] == np.arange(len(words)), values, np.nan)
            names_of = tuple(map(str, words))
            if layout.kind is not None:
                chosen = kind == names_of.index(layout.kind[1])
                values, own, stamps = values[chosen], own[chosen], None if stamps is None else stamps[chosen]
                values, names_of = values[:, [names_of.index(layout.kind[1])]], (layout.kind[1],)
        site, names = pd.factorize(own)
        for j in range(values.shape[1]):
            one = values[:, j].copy()
            remove_sentinels(one, site, notes)
            values[:, j] = one
        return cls(values, names_of, stamps, site, tuple(map(str, names)), zone)

    @classmethod
    def joined(cls, parts: Sequence[_Rows]) -> _Rows:
        """Rows of several tables, with the quantities of all."""
        import pandas as pd

        frames = []
        for part in parts:
            frame = pd.DataFrame(part.values, columns=part.names_of if part.site is not None else part.names)
            frame = frame.assign(
                **{TIMES: part.stamps, SITES: None if part.site is None else np.array(part.names, dtype=object)[part.site]}
            )
            frames.append(frame if part.site is not None else frame.melt([TIMES], part.names, SITES, part.names_of[0]))
        every = pd.concat(frames, ignore_index=True)
        site, names = pd.factorize(every.pop(SITES))
        stamps = every.pop(TIMES).to_numpy()
        zones = {part.zone for part in parts}
        return cls(
            every.to_numpy(dtype=float), tuple(every.columns), None if stamps.dtype == object else stamps, site, tuple(names),
            zones.pop() if len(zones) == 1 else None,
        )  # fmt: skip

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
        if number.max() < MODE * len(gaps):  # times jitter
            median = float(np.median(gaps))
            near = min(STEPS, key=lambda one: abs(np.log(median / one)))
            usual = float(near) if self.stamps.dtype.kind == "M" and abs(median / near - 1) <= NEAR else median
        return usual, float(np.mean(np.abs(gaps - usual) <= JITTER * usual))

    def quantities(self, unit: str | None, units: dict[str, str]) -> pd.DataFrame:
        """A row per quantity; ``unit`` is that of the only one."""
        import pandas as pd

        parts = [(self.names_of[0], unit, self.values)] if self.site is None else [
            (title, unit if len(self.names_of) == 1 else units.get(title), self.values[:, [j]])
            for j, title in enumerate(self.names_of)
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
