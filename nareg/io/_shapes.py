"""From the cells of a table to readings: wide, of one station, or long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nareg._core import checks
from nareg.errors import InputError
from nareg.io._counts import CODED, EMPTY, FAILED, MARKED, MERGED, OTHER_KIND, UNKNOWN
from nareg.io._dates import is_of_year
from nareg.io._directions import merged
from nareg.io._frames import Table
from nareg.io._join import Wanted, from_columns, in_order, several_rows
from nareg.io._kinds import one_unit, refuse_mixed_kinds
from nareg.io._labels import labels_of
from nareg.io._layout import Layout
from nareg.io._marks import marked_bad
from nareg.io._missing import remove_sentinels
from nareg.io._notes import NoReadings, count, listed
from nareg.io._numbers import LimitCells
from nareg.io._tables import Readings
from nareg.io._text import stem
from nareg.io._times import Times, understand
from nareg.io._vocabulary import distinct, loose, match


def wide(table: Table, layout: Layout, request: Wanted) -> Readings:
    stations, notes = request.stations, request.notes
    names = [table.header[i] for i in layout.values]
    if layout.single:
        return _of_one_station(table, layout, request)
    matched = dict(zip(names, names, strict=True)) if stations is None else match(names, stations, notes)
    columns = [i for i in layout.values if table.header[i] in matched]
    names = [table.header[i] for i in columns]
    twice = next((name for name in names if not name), None)
    if twice is not None:
        raise InputError(f"{notes.source}: a column of readings has no name: name it, or drop it.")
    distinct(notes.source, names, "column", "give each a name of its own")
    flags = [(flag, columns.index(about)) for flag, about in layout.flags if about in columns]
    before = [*layout.time, *(() if layout.zone is None else [layout.zone])]
    wanted = [*before, *(flag for flag, _ in flags)]
    odd = LimitCells(() if layout.flags else request.recipe.bad)
    loaded, values = table.load(wanted, columns, odd=odd)
    count_cells(len(values) * len(layout.values), values, request, marked=odd.left_out)
    if flags:
        _honor(table, wanted[len(before) :], loaded[len(before) :], values, [place for _, place in flags], request)
    labels, column = labels_of(table, layout, dict(zip(wanted, loaded, strict=True)), len(values), notes, request.recipe)
    read = from_columns([matched[name] for name in names], labels, values.T, column, table.line, request, "column")
    return replace(read, unit=one_unit(table, layout, notes))


def count_cells(every: int, values: np.ndarray, request: Wanted, *, failed: int = 0, marked: int = 0) -> None:
    """Count the cells of a table, of which these are of known stations; those with a code of the recipe become NaN.

    Of ``failed`` readings the reader of the format has left the cells empty; ``marked`` ones have a bad mark behind the number.
    """
    notes = request.notes
    notes.cells += every
    notes.beside[UNKNOWN] += every - values.size
    empty = int(np.isnan(values).sum())
    failed = min(failed, empty)
    notes.beside[FAILED] += failed
    marked = min(marked, empty - failed)
    notes.beside[MARKED] += marked
    notes.beside[EMPTY] += empty - failed - marked
    notes.beside[CODED] += request.recipe.remove_codes(values)


def _of_one_station(table: Table, layout: Layout, request: Wanted) -> Readings:
    """One column of a table of one station, which has the file's name."""
    notes = request.notes
    name = station_in(table, request.stations)
    wanted = [*layout.time, *(flag for flag, _ in layout.flags), *(() if layout.zone is None else [layout.zone])]
    odd = LimitCells(() if layout.flags else request.recipe.bad)
    loaded, values = table.load(wanted, layout.values, odd=odd)
    failed = table.failed.get(table.header[layout.values[0]], 0)
    count_cells(values.size, values, request, failed=failed, marked=odd.left_out)
    for flag, _ in layout.flags:
        _honor(table, [flag], [loaded[wanted.index(flag)]], values, [0], request)
    labels, column = labels_of(table, layout, dict(zip(wanted, loaded, strict=True)), len(values), notes, request.recipe)
    own = replace(request, stations=None) if request.stations is None else replace(request, stations=(name,))
    quantity = table.header[layout.values[0]]
    read = from_columns([name], labels, values.T, column, table.line, own, "column", quantity)
    return replace(read, quantity=quantity, unit=one_unit(table, layout, notes))


def station_in(table: Table, stations: Sequence[str] | None) -> str:
    """The station that a table of one states, or that its file is named after."""
    source, title = table.source, stem(table.source)
    stated = table.stated.get("station")
    if stated is not None:
        own = [stated] if stations is None else [name for name in stations if loose(name) == loose(stated)]
        if len(own) == 1:
            table.notes.fact("the name of the station is read from the lines above its rows")
            return own[0]
    if stations is None:
        return title
    inside = sorted((name for name in stations if loose(name) and loose(name) in loose(title)), key=len)
    if not inside:
        raise NoReadings(
            f"{source}: there is no column of stations, and no station's name in the name of the file (stations are "
            f"{listed(stations)}): name the file after its station, or pass --station-column (station= of a recipe)."
        )
    if len(inside) > 1:
        request_note = listed(inside)
        if loose(inside[-2]) not in loose(inside[-1]):
            raise InputError(f"{source}: the name of the file has several stations' names ({request_note}): keep one.")
    return inside[-1]


def _honor(
    table: Table, flags: list[int], marks: list[np.ndarray], values: np.ndarray, places: list[int], request: Wanted
) -> None:
    """Set readings (R, C) that columns of marks call bad to NaN, in place: those of column ``places[k]`` by ``marks[k]``."""
    known = np.isfinite(values[:, places])
    names = [table.header[flag] for flag in flags]
    marked = marked_bad(np.concatenate(marks), known.T.ravel(), names, request.notes, request.recipe)
    if marked is not None:
        for place, rows in zip(places, marked.reshape(len(flags), -1), strict=True):
            values[rows, place] = np.nan
        request.notes.beside[MARKED] += int(marked.sum())


def long(table: Table, layout: Layout, station: int, request: Wanted) -> Readings:
    import pandas as pd

    stations, notes = request.stations, request.notes
    if not layout.time:
        raise InputError(f"{notes.source}: there is no column of times: name it 'time'.")
    unit = one_unit(table, layout, notes)
    others = [i for i in (layout.zone, layout.kind and layout.kind[0]) if i is not None]
    wanted = [*layout.time, station, *(flag for flag, _ in layout.flags), *others]
    odd = LimitCells(() if layout.flags else request.recipe.bad)
    loaded, numbers = table.load(wanted, layout.values, odd=odd)
    texts = dict(zip(wanted, loaded, strict=True))
    labels, column = labels_of(table, layout, texts, len(numbers), notes, request.recipe)
    sites, rows = texts[station], np.arange(len(numbers))
    if layout.kind is not None:
        rows = np.flatnonzero(texts[layout.kind[0]] == layout.kind[1])
        notes.fact(
            f"{count(len(rows), 'row')} of {len(numbers):,} {'has' if len(rows) == 1 else 'have'} {layout.kind[1]!r} in "
            f"{table.column(layout.kind[0])}; the others are left out"
        )
        notes.cells += len(numbers) - len(rows)
        notes.beside[OTHER_KIND] += len(numbers) - len(rows)
        labels, sites = labels[rows], sites[rows]
    if "" in sites:
        raise InputError(
            f"{notes.source}, {table.line(rows[list(sites).index('')])}: the row has no station; fill it in or drop it."
        )
    site, names = pd.factorize(sites)
    if stations is not None:
        matched = match(list(names), stations, notes, "station", merge=True)
        known = np.array([name in matched for name in names])[site]
        site, labels, rows = site[known], labels[known], rows[known]
        site, index = pd.factorize(np.array([matched.get(name) for name in names], dtype=object)[site])
        names = index
    numbers = numbers[rows]
    failed = table.failed.get(table.header[layout.values[0]], 0)
    count_cells(len(sites), numbers, request, failed=failed, marked=odd.left_out)
    for flag, _ in layout.flags:
        _honor(table, [flag], [texts[flag][rows]], numbers, [0], request)
    values = numbers[:, 0]
    row, unique = pd.factorize(labels)
    first = rows[np.unique(row, return_index=True)[1]]
    remove_sentinels(values, site, notes)
    zone = request.recipe.zone
    times = understand(np.asarray(unique, dtype=object), column, lambda t: table.line(first[t]), notes, request.recipe)
    unique, stamps = np.asarray(unique, dtype=object), times.stamps
    if stamps is not None or zone is not None:
        own = None if stamps is None else stamps[row]
        moved = replace(times, stamps=own).moved(site, values[:, None], unique[row], notes, zone)
        if moved is not None:
            stamps, keep_first, row = np.unique(moved, return_index=True, return_inverse=True)
            unique, times = labels[keep_first], Times(stamps, times.zone if zone is None else "UTC")
    if stamps is not None:
        stamps, keep_first, of_label = np.unique(stamps, return_index=True, return_inverse=True)
        unique, row = unique[keep_first], of_label[row]
    n, t = len(names), len(unique)
    checks.memory(
        f"{notes.source}: a table of {n:,} stations by {t:,} times",
        24.0 * n * t,
        alternative="round the times to a common step",
    )
    seen = np.isfinite(values)
    flat = site[seen] * t + row[seen]
    number = np.bincount(flat, minlength=n * t)
    notes.beside[MERGED] += int((number - 1).clip(0).sum())
    if (number > 1).any():
        refuse_mixed_kinds(table, layout, flat, rows[seen], notes)
        i, j = divmod(int(np.argmax(number > 1)), t)
        if is_of_year(str(unique[j])) and 2 * (number > 1).sum() > (number > 0).sum():
            raise several_rows(notes.source, unique[j])
        notes.guess(
            f"{count(int((number - 1).clip(0).sum()), 'reading repeats', 'readings repeat')} station and time of another "
            f"({names[i]!r}, {unique[j]!r}); they are averaged",
            "keep one row per station and time",
        )
    quantity = layout.kind[1] if layout.kind else table.header[layout.values[0]]
    called = [quantity, stem(notes.source)]
    values, _ = merged(values[seen], flat, (n, t), unit, called, request.recipe.kind_of(called))
    table_of = in_order([str(name) for name in names], unique, values, replace(times, stamps=stamps), request, "row")
    return replace(table_of, unit=unit, quantity=quantity, tidy=True)
