"""What a table of readings holds, and how it is understood, before anything is computed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nareg._core.arrays import briefly_shown
from nareg.errors import InputError
from nareg.io._binary import OF_READINGS, read_table
from nareg.io._counts import CellCounts
from nareg.io._dates import parse
from nareg.io._directions import about_counters, about_tens
from nareg.io._frames import FrameTable, Table, readings_frame
from nareg.io._grid import in_words, on_grid
from nareg.io._join import DATES_OF_ALL, named_by_files, without_dates
from nareg.io._kinds import one_unit
from nareg.io._layout import Layout, recognize
from nareg.io._marks import ABOUT_MARKS
from nareg.io._notes import NoReadings, Notes, condensed, count, listed
from nareg.io._open import open_tables
from nareg.io._quantities import QuantityRows
from nareg.io._readings import read_readings, readings_from_frame
from nareg.io._recipe import Recipe
from nareg.io._stations import Placeless, read_stations
from nareg.io._tables import Stations
from nareg.io._text import stem
from nareg.io._times import order_of_all
from nareg.io._vocabulary import LATITUDE, LONGITUDE, plain

if TYPE_CHECKING:
    import pandas as pd


#: Stations whose times are their own that are named, at most; they differ by more than this share of a step.
LINES, NOTICED = 10, 0.01
#: A step that is a smaller share of the times from reading to reading is only about the usual one.
SELDOM = 0.05


@briefly_shown
@dataclass(frozen=True, eq=False)
class Inspection:
    """How a table of readings is understood.

    Attributes
    ----------
    recipe : Recipe
        The columns, as they would be read.
    quantities : pandas.DataFrame
        A row per quantity: ``unit``, ``kind`` (number, nonnegative, bounded from 0 to 100, or direction), by what it is
        ``shown_by`` (recipe, unit, name or values), ``stations`` and ``readings`` that it has, share ``missing`` of the table's
        rows,
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
    cadences : pandas.DataFrame
        A row per station with three readings or more at known times: its own ``step``, the ``offset`` of its times from whole
        steps, and their ``jitter``, how far 95 % are at most from that; seconds.
    zone : str or None
        "UTC" where the times have offsets.
    notes : tuple of str
        What was guessed or left out.
    counts : mapping of str to CellCounts
        By quantity, what becomes of the cells of the table.
    """

    recipe: Recipe
    quantities: pd.DataFrame
    stations: tuple[str, ...]
    placed: Stations | None
    times: np.ndarray | None
    step: float | None
    regular: float | None
    cadences: pd.DataFrame
    zone: str | None
    notes: tuple[str, ...]
    counts: Mapping[str, CellCounts]

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
        zone = self.zone or self.recipe.zone or ("in no stated zone" if dated else "")
        text = f"times: {len(np.unique(self.times)):,} from {first} to {last}{zone and ', '}{zone}"
        if self.step is not None and self.regular is not None:
            step = in_words(self.step) if dated else f"{self.step:g}"
            often = f"every {step} ({100 * self.regular:.0f} % of steps)" if self.regular >= SELDOM else f"about every {step}"
            text += f"; a reading {often}"
        return [*sentences, text, *self._own_cadences(dated)]

    def _own_cadences(self, dated: bool) -> list[str]:
        """Sentences about stations whose step, offset or jitter is not the network's."""
        table = self.cadences
        if len(table) < 2 or self.step is None:
            return []
        step, jitter = table["step"], table["jitter"]
        common = step.mode()[0]
        grid = (table["offset"][step == common] / (NOTICED * common)).round()
        usual = table.loc[grid.index[grid == grid.mode()[0]]].median()
        apart = (table["offset"] - usual["offset"] + step / 2) % step - step / 2
        slack = jitter.clip(lower=max(usual["jitter"], NOTICED * common))
        other = (step != common) | (apart.abs() > slack) | (jitter > 2 * max(usual["jitter"], NOTICED * common))

        def words(value: float) -> str:
            return in_words(value, one="1 ") if dated else f"{value:g}"

        lines = []
        for name, own in table[other].round(3).head(LINES).iterrows():
            often, offset, jitter = (words(own[part]) for part in ("step", "offset", "jitter"))
            often = often.removeprefix("1 ")
            lines.append(f"station {name!r}: a reading every {often}, {offset} after whole steps, with a jitter of {jitter}")
        more = int(other.sum()) - len(lines)
        return lines + ([f"{count(more, 'more station differs', 'more stations differ')} from the usual times"] if more else [])


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
    files: list[Any] = _files(readings) if in_files else [readings]
    alone = in_files and len(files) == 1
    notes = Notes(str(files[0]) if alone else "readings", strict)
    placed = None if stations is None else read_stations(stations, strict=strict, recipe=recipe)
    name = stem(str(files[0])) if alone else "readings"
    tables: list[Table] = []
    unit = None
    for file in files:
        own = notes if len(files) == 1 else Notes(str(file), strict)
        try:
            if not in_files or Path(file).suffix.lower() in OF_READINGS:
                known = None if placed is None else placed.names
                frame, unit, quantity = readings_frame(read_table(file) if in_files else file, own, recipe.value, known)
                name = quantity or name
                tables.append(FrameTable(frame, own, recipe.words))
            else:
                tables += open_tables(file, own, recipe)
        except NoReadings as error:
            if len(files) == 1:
                raise
            notes.fact(error.note)
    if not tables:
        raise InputError(f"{notes.source}: no file has readings: name others.")
    full = _layouts(tables, None if placed is None else placed.names, recipe, notes)
    dates = None if recipe.dates is not None or len(full) < 2 else order_of_all([_labels(*one) for one in full])
    if dates is not None:
        recipe = replace(recipe, dates=dates)
        notes.guess(DATES_OF_ALL.format(dates.replace("-", " ")), "pass --dates (dates= of a recipe)")
    parts = [QuantityRows.of(table, layout, recipe, name, placed) for table, layout in full]
    single = [
        (part.names if part.site is None or len(part.names_of) == 1 else (), part.stamps, part.values)
        for part in parts
        if part.stamps is not None
    ]
    if placed is None and len(single) == len(parts):
        sources = [one.source for one, _ in full]
        called = named_by_files(single, sources, notes)
        if not called and [part.names for part in parts] == [(stem(source),) for source in sources]:
            called = without_dates(sources, [(stamps, values[:, 0]) for _, stamps, values in single], notes)
        if called:
            parts = [
                replace(one, names=(name,), names_of=one.names if one.site is None else one.names_of)
                for one, name in zip(parts, called, strict=True)
            ]
    seen = parts[0] if len(parts) == 1 else QuantityRows.joined(parts)
    table, layout = full[0]
    units = {own: unit for one in tables for own, unit in one.units.items()}
    if unit is None and len(seen.names_of) == 1:
        unit = one_unit(table, layout, table.notes)
    if placed is None and in_files:
        placed = _places_in(tables, files, strict, recipe, notes)
    step, regular = seen.step()
    header = table.header
    by_name = in_files and isinstance(table, FrameTable)  # its format says what the columns are
    understood = recipe if by_name else replace(
        recipe,
        dates=recipe.dates or seen.order,
        time=tuple(header[i] for i in layout.time),
        station=recipe.station or (() if layout.station is None else (header[layout.station],)),
    )  # fmt: skip
    understood = replace(
        understood,
        value=seen.names_of[0] if (layout.station is not None or layout.single) and len(seen.names_of) == 1 else recipe.value,
    )
    order = None if seen.stamps is None else np.sort(seen.stamps)
    source = files[0] if len(files) == 1 else files
    quantities = seen.quantities(unit, units, name, recipe)
    counted, read, wrong = _counted(source, placed, recipe, quantities, strict)
    said = [
        *(() if placed is None else placed.notes),
        *condensed([note for one, _ in full for note in one.notes.sentences]),
        *notes.sentences,
        *(note for note in read if len(seen.names_of) == 1 or ABOUT_MARKS.search(note)),
        *wrong,
    ]
    return Inspection(
        understood,
        quantities,
        seen.names,
        placed,
        order,
        step,
        regular,
        seen.cadences(),
        seen.zone,
        tuple(dict.fromkeys(said)),
        counted,
    )


def _counted(
    readings: Any, placed: Stations | None, recipe: Recipe, quantities: pd.DataFrame, strict: bool
) -> tuple[dict[str, CellCounts], list[str], list[str]]:
    """By quantity, what becomes of the cells when it is read; the notes; and why quantities cannot be cleaned as they are."""
    read = read_readings if isinstance(readings, (str, os.PathLike, list, tuple)) else readings_from_frame
    counted: dict[str, CellCounts] = {}
    said: list[str] = []
    wrong: list[str] = []
    for name, row in quantities.iterrows():
        one = replace(recipe, value=name) if len(quantities) > 1 else recipe
        try:
            table = read(readings, placed, strict=strict, own_order=True, recipe=one)
            table = on_grid(table, "none" if strict and recipe.step is None else recipe.step, (), recipe.kind_of([name]))
        except InputError as error:
            wrong.append(f"{name}: the readings cannot be cleaned as they are ({str(error).rstrip('.')}).")
            continue
        assert table.counts is not None
        counted[name] = table.counts
        said += table.notes
        kind, unit = recipe.kind_of([name]), row["unit"] or table.unit
        about = None if kind or row["kind"] == "direction" else about_counters(table.values, unit)
        tens = about_tens(table.values, unit, [str(name)], kind)
        wrong += [f"{name}: {sentence}" for sentence in (about and about[0], tens) if sentence]
    return counted, said, wrong


def _labels(table: Table, layout: Layout) -> list[str]:
    """The times of a table as texts; none where the first ones show the order of day and month."""
    dates = [parse(cell) for column in layout.time for cell in table.head(column)]
    if not any(date is not None and not date.ordered for date in dates):
        return []
    loaded, _ = table.load(list(layout.time), [])
    return [" ".join(cells) for cells in zip(*(column.tolist() for column in loaded), strict=True)]


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
        notes.fact(why.note)
    return full


def _files(paths: Any) -> list[Any]:
    """The files that are named, and those of a folder."""
    paths = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    inside = [sorted(p for p in Path(one).iterdir() if p.is_file()) if os.path.isdir(one) else [one] for one in paths]
    return [file for files in inside for file in files]


def _places_in(tables: Sequence[Table], files: Sequence[Any], strict: bool, recipe: Recipe, notes: Notes) -> Stations | None:
    """Positions in the rows of readings; None where the tables have no columns of them, or nothing in these."""
    words = {plain(name) for table in tables for name in table.header}
    stated = any("latitude" in table.stated for table in tables)
    if not stated and not (words & {*LATITUDE} and words & {*LONGITUDE}) and not words >= {"x", "y"}:
        return None
    try:
        return read_stations(files if len(files) > 1 else files[0], strict=strict, recipe=recipe)
    except Placeless as error:
        notes.fact(f"no position is understood ({str(error).rstrip('.')})")
        return None
