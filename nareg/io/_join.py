"""Readings in the order of the times and of the stations, and several tables as one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TypeVar

import numpy as np

from nareg._core import checks
from nareg.errors import InputError
from nareg.io._counts import MERGED, CellCounts
from nareg.io._dates import is_of_year
from nareg.io._directions import merged
from nareg.io._file import LABELED
from nareg.io._missing import remove_sentinels
from nareg.io._notes import NoReadings, Notes, SeveralQuantities, condensed, count, listed
from nareg.io._recipe import Recipe
from nareg.io._tables import Readings, Stations
from nareg.io._text import stem
from nareg.io._times import Times, either_order, order_of_all, understand
from nareg.io._vocabulary import absent, kinds_in

Source = TypeVar("Source")
#: So many rows per date, on average, are of its hours.
HOURLY = 12
#: Rows of one time are averaged. In a table of one series whose readings differ at more than this share of the times, and at
#: more than a few times, they are of several stations.
MOST, FEW, EXTREMES = 0.5, 4, ((np.maximum, -np.inf), (np.minimum, np.inf))
#: What a file says of dates in either order, and what is said of all.
DATES_GUESSED = "dates such as"
DATES_OF_ALL = "dates are read {}, as all files together show"
#: A date at the end of a file's name: a year alone stands apart from it.
DATED = re.compile(r"[\s_.\-]+(?:19|20)\d{2}(?:[_.\-]?\d{2}){0,2}$|[\s_.\-]*(?:19|20)\d{2}(?:[_.\-]?\d{2}){1,2}$")
#: What a file says of stations that others may have.
ABSENT = re.compile(r"stations? ha(s|ve) no (column|row) and")


def joined(sources: Iterable[Source], read: Callable[[Source, Recipe], Readings], request: Wanted) -> Readings:
    """Several tables of readings as one: all their stations at all their times. Those without readings are left out.

    Where day and month may be in either order in some, they are read in that of all.
    """
    notes = request.notes
    parts, empty, several = [], [], []
    files: list[str] = []
    full: list[Source] = []
    for source in sources:
        try:
            parts.append(read(source, request.recipe))
            files.append(str(getattr(source, "source", source)))
            full.append(source)
        except NoReadings as error:
            empty.append(error)
        except SeveralQuantities as error:  # the next may have others
            several.append(error)
    if several:
        _refuse_several(several, parts, request.recipe)
    if not parts:
        raise empty[0] if empty else InputError("readings are no files: pass at least one.")
    for why in empty:
        notes.fact(why.note)
    if request.recipe.dates is None and any(DATES_GUESSED in note for part in parts for note in part.notes):
        order = order_of_all([part.times for part in parts])
        if order is not None:
            recipe = replace(request.recipe, dates=order)
            parts = [
                part if either_order(part.times) is None else read(source, recipe)
                for part, source in zip(parts, full, strict=True)
            ]
            notes.guess(DATES_OF_ALL.format(order.replace("-", " ")), "pass --dates (dates= of a recipe)")
    own = [part.timestamps for part in parts if part.timestamps is not None]
    if len(own) < len(parts) or len({times.dtype.kind for times in own}) > 1:
        raise InputError("readings are several files, not all of which have dates: add a column 'time' to each.")
    zones = {part.zone for part in parts}
    if len(zones) > 1:
        raise InputError("readings are several files, some with and some without a time zone: write the times alike.")
    alone = [(part.names, times, part.values) for part, times in zip(parts, own, strict=True)]
    called = [] if request.stations is not None else named_by_files(alone, files, notes)
    if request.stations is None and not called and [part.names for part in parts] == [(stem(file),) for file in files]:
        called = without_dates(files, [(times, values.ravel()) for _, times, values in alone], notes)
    if called:
        parts = [
            replace(part, names=(name,), quantity=part.quantity or part.names[0])
            for part, name in zip(parts, called, strict=True)
        ]
    _refuse_several([], parts, request.recipe)
    units = {part.unit for part in parts if part.unit}
    if len(units) > 1:
        raise InputError(f"readings are several files with different units ({listed(sorted(units))}): convert them to one.")
    stamps, first = np.unique(np.concatenate(own), return_index=True)
    labels = np.concatenate([np.array(part.times, dtype=object) for part in parts])[first]
    names = list(dict.fromkeys(name for part in parts for name in part.names))
    place = {name: i for i, name in enumerate(names)}
    checks.memory(
        f"readings: a table of {len(names):,} stations by {len(stamps):,} times",
        24.0 * len(names) * len(stamps),
        alternative="round the times to a common step",
    )
    cells = []
    for part, times in zip(parts, own, strict=True):
        i, t = np.nonzero(part.observed)
        cells.append(np.array([place[name] for name in part.names])[i] * len(stamps) + np.searchsorted(stamps, times)[t])
    every = np.concatenate([part.values[part.observed] for part in parts])
    unit, quantity = next(iter(units), None), parts[0].quantity
    kind = request.recipe.kind_of([quantity])
    _refuse_different(every, cells, parts, files)
    values, number = merged(every, np.concatenate(cells), (len(names), len(stamps)), unit, [quantity], kind)
    twice = int((number > 1).sum())
    if twice:
        notes.guess(f"{count(twice, 'reading is', 'readings are')} in several files; they are averaged", "leave out repeats")
    table = in_order(names, labels, values, Times(stamps, zones.pop()), request, "file")
    counts = reduce(CellCounts.__add__, [part.counts for part in parts if part.counts is not None], CellCounts(0, 0, {}))
    counts = counts.less(int((number - 1).clip(0).sum()), MERGED)
    said = condensed([note for part in parts for note in part.notes if not ABSENT.search(note)])  # each may lack stations
    return replace(
        table, notes=(*said, *table.notes), unit=unit, quantity=quantity, counts=counts, tidy=all(part.tidy for part in parts)
    )


def _refuse_several(several: Sequence[SeveralQuantities], parts: Sequence[Readings], recipe: Recipe) -> None:
    """Refuse files with more than one quantity, each or together, by the names of all."""
    quantities = dict.fromkeys(name for error in several for name in error.names)
    quantities |= dict.fromkeys(part.quantity for part in parts if part.quantity and recipe.value is None)
    if several and len(quantities) in (1, len(several[0].names)):
        raise several[0]
    if len(quantities) > 1:
        names = list(quantities)
        raise SeveralQuantities(
            f"readings are several files with different quantities ({listed(names)}): name one by --value.", names
        )


def _refuse_different(values: np.ndarray, cells: Sequence[np.ndarray], parts: Sequence[Readings], files: Sequence[str]) -> None:
    """Refuse files that differ at equal stations and times, where they are not of the same: no mean of them is right.

    Their names say different quantities, or labels of sensors name the stations of several loggers. ``values`` are the readings
    of all files, and ``cells`` say by file which station and time each is of.
    """
    kinds = [frozenset(kinds_in(stem(file))) for file in files]
    apart = all(kinds) and len({*kinds}) > 1
    if not apart and not any(LABELED in note for part in parts for note in part.notes):
        return
    _, place = np.unique(np.concatenate(cells), return_inverse=True)
    high, low = np.full(place.max(initial=-1) + 1, -np.inf), np.full(place.max(initial=-1) + 1, np.inf)
    np.maximum.at(high, place, values)
    np.minimum.at(low, place, values)
    differs = np.split((high > low)[place], np.cumsum([len(own) for own in cells])[:-1])
    wrong = [file for file, own in zip(files, differs, strict=True) if own.sum() > max(MOST * len(own), FEW)]
    if wrong:
        raise InputError(
            f"readings are several files that differ at the same stations and times ({listed(wrong)}): "
            + ("pass those of one quantity alone." if apart else "give each station a name of its own.")
        )


def without_dates(files: Sequence[str], parts: Sequence[tuple[np.ndarray, np.ndarray]], notes: Notes) -> list[str]:
    """Names of stations of which each has several files, with a date behind its name; else none.

    Of each file there are the times (T,) and the readings (T,): those of one station do not differ at the same times.
    """
    import pandas as pd

    bare = [DATED.sub("", stem(file)) for file in files]
    if not all(bare) or not 1 < len({*bare}) < len(bare):
        return []
    of, times = np.repeat(bare, [len(own) for own, _ in parts]), np.concatenate([own for own, _ in parts])
    readings = pd.Series(np.concatenate([values for _, values in parts]))
    each = readings.groupby([of, times]).agg(["size", "nunique"])
    twice = each[each["size"] > 1]  # at one time; of every name few may differ
    if ((twice["nunique"] > 1).groupby(level=0).mean() > MOST).any():
        return []
    stations = listed(list(dict.fromkeys(bare)))
    notes.guess(f"the files are of the stations {stations}, by their names without dates", "add a column of stations")
    return bare


def named_by_files(
    parts: Sequence[tuple[Sequence[str], np.ndarray, np.ndarray]], files: Sequence[str], notes: Notes
) -> list[str]:
    """Names of stations by files whose only column is the same, where most read otherwise at the same times; else none.

    A part has the names of its columns, its times (T,), and its readings. Those of a month each are of one station.
    """
    import pandas as pd

    if len(parts) < 2 or {tuple(names) for names, _, _ in parts} != {tuple(parts[0][0])} or len(parts[0][0]) != 1:
        return []
    times, values = np.concatenate([own for _, own, _ in parts]), np.concatenate([part.ravel() for _, _, part in parts])
    at = pd.Series(values).groupby(times).agg(["count", "nunique"])
    twice = at[at["count"] > 1]
    if 2 * len(twice) < len(at) or 2 * (twice["nunique"] > 1).sum() < len(twice) or not len(twice):
        return []
    called = [[stem(file) for file in files], [Path(file).parent.name for file in files]]
    if bare := without_dates(files, [(own, part.ravel()) for _, own, part in parts], notes):
        return bare
    names = next((each for each in called if len({*each}) == len(each)), [])
    if not names:
        return []
    column = f"the files have the one column {parts[0][0][0]!r} and differ at the same times"
    notes.guess(f"{column}: each is a station's, with the name of the file or its folder", "add a column of stations")
    return names


@dataclass(frozen=True)
class Wanted:
    """The stations to read, or all; whether those without readings stay; whether the order is the table's own."""

    stations: tuple[str, ...] | None
    notes: Notes
    recipe: Recipe
    keep_absent: bool
    own_order: bool
    shared: bool = False  # a row per time, of what all stations share

    @classmethod
    def of(
        cls,
        stations: Sequence[str] | Stations | None,
        notes: Notes,
        recipe: Recipe | None,
        *,
        keep_absent: bool,
        own_order: bool,
    ) -> Wanted:
        if keep_absent and own_order:
            raise InputError(
                "own_order is True but the table has no place for stations that keep_absent keeps: pass one of the two."
            )
        names = stations.names if isinstance(stations, Stations) else stations
        return cls(None if names is None else tuple(names), notes, recipe or Recipe(), keep_absent, own_order)


def from_columns(
    names: Sequence[str], labels: np.ndarray, values: np.ndarray, column: str, line: Callable[[int], str], request: Wanted,
    what: str, quantity: str | None = None,
) -> Readings:  # fmt: skip
    """Readings (N, T) of a row per station, in time order; ``column`` is empty where there are no times."""
    notes = request.notes
    values = np.array(values, dtype=float, order="C")
    remove_sentinels(values, np.arange(len(values))[:, None], notes)
    times = understand(labels, column, line, notes, request.recipe) if column else Times(None)
    zone = request.recipe.zone
    moved = times.moved(np.zeros(len(labels), dtype=int), values.T, labels, notes, zone)
    times = times if moved is None else Times(moved, times.zone if zone is None else "UTC")
    labels, values, stamps = _in_time_order(labels, values, times.stamps, request, [quantity, stem(notes.source)])
    return in_order(names, labels, values, replace(times, stamps=stamps), request, what)


def several_rows(source: str, time: str) -> InputError:
    """The error for a table most of whose times have several rows."""
    return InputError(
        f"{source}: most times have several rows with different readings ({time!r}): if they are of several stations, name the "
        "column of the stations by --station-column; if a column has the rest of the time, by --time-column (station=, time= "
        "of a recipe)."
    )


def _in_time_order(
    labels: np.ndarray, values: np.ndarray, stamps: np.ndarray | None, request: Wanted, called: list[str | None]
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Rows sorted by time, those of one time merged, as the names of the quantity say."""
    notes = request.notes
    if stamps is None or len(stamps) < 2:
        return labels, values, stamps
    backwards = int((stamps[1:] < stamps[:-1]).sum())  # differences of dates may overflow
    if backwards:
        notes.guess(f"times do not increase ({count(backwards, 'step')} back) and are sorted", "sort the rows by time")
        order = np.argsort(stamps, kind="stable")
        labels, values, stamps = labels[order], values[:, order], stamps[order]
    repeats = stamps[1:] == stamps[:-1]
    starts = np.flatnonzero(np.concatenate([[True], ~repeats]))
    if repeats.any():
        twice = labels[1:][repeats][0]
        notes.guess(
            f"{count(len(stamps) - len(starts), 'row repeats', 'rows repeat')} the time of another ({twice!r}); "
            "their readings are averaged",
            "keep one row per time",
        )
        seen = np.isfinite(values)
        i, t = np.nonzero(seen)
        cells = i * len(starts) + np.cumsum(np.concatenate([[0], ~repeats]))[t]
        mean, number = merged(values[seen], cells, (len(values), len(starts)), None, called, request.recipe.kind_of(called))
        high, low = (f.reduceat(np.where(seen, values, end), starts, axis=1) for f, end in EXTREMES)
        differ, of_year = int(((number > 1) & (high > low)).sum()), is_of_year(str(twice))
        few = 0 if of_year else FEW
        # of dates without a time of day, which is in a column that is not known
        days = stamps.dtype.kind == "M" and bool((stamps == stamps.astype("datetime64[D]")).all())
        hourly = days and HOURLY * len(starts) <= len(stamps) and _have_clock(values, repeats)
        if (len(values) == 1 or of_year or hourly) and differ > max(MOST * int((number > 0).sum()), few):
            raise several_rows(notes.source, twice)
        values, labels, stamps = mean, labels[starts], stamps[starts]
        notes.beside[MERGED] += int((number - 1).clip(0).sum())
    return labels, values, stamps


def _have_clock(values: np.ndarray, repeats: np.ndarray) -> bool:
    """Whether a series is of hours, whole numbers that increase at each date."""
    hours = (values >= 0) & (values <= 2400) & (values % 1 == 0)
    return bool((hours.all(axis=1) & (np.diff(values)[:, repeats] > 0).all(axis=1)).any())


def in_order(
    names: Sequence[str], labels: np.ndarray, values: np.ndarray, times: Times, request: Wanted, what: str
) -> Readings:
    """The rows in the order of the stations, or their own, and a note about those that never read."""
    stations, notes = request.stations, request.notes
    silent = [name for name, never in zip(names, np.isnan(values).all(axis=1), strict=True) if never]
    if silent:
        notes.fact(f"{count(len(silent), 'station has', 'stations have')} no reading: {listed(silent)}")
    if stations is not None:
        place = {name: i for i, name in enumerate(names)}
        wanted = absent(stations, names, notes, keep=request.keep_absent, what=what)
        if request.own_order:
            wanted = list(names)
        ordered = np.full((len(wanted), values.shape[1]), np.nan)
        there = [i for i, name in enumerate(wanted) if name in place]
        ordered[there] = values[[place[wanted[i]] for i in there]]
        names, values = wanted, ordered
    counts = CellCounts(notes.cells, int(np.isfinite(values).sum()), +notes.beside)
    return Readings(tuple(names), tuple(labels), values, times.stamps, times.zone, notes.sentences, counts=counts)
