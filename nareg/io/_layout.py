"""Recognize the columns of a table of readings: times, then one per station; or time, station and one number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nareg.errors import InputError
from nareg.io._around import SAMPLE
from nareg.io._dates import offset_of, parse
from nareg.io._file import FileTable
from nareg.io._frames import Table
from nareg.io._key_columns import counts_rows, half_of_day, more_times, only_words, station_column, time_columns, word_alone
from nareg.io._marks import is_flag
from nareg.io._notes import Notes, SeveralQuantities, count, listed, verb
from nareg.io._numbers import MARK, looks_numeric, looks_read, with_unit
from nareg.io._recipe import Recipe
from nareg.io._text import stem
from nareg.io._vocabulary import (
    ABOUT,
    BESIDE,
    BRACKETS,
    CLOCK,
    EVENTS,
    KIND,
    LATITUDE,
    LONGITUDE,
    MISSING,
    NUMBERED,
    OWN_ZONE,
    POSITION,
    SENSOR,
    STATION,
    TIME,
    UNIT_SIGN,
    VALUE,
    ZONE,
    between,
    kinds_in,
    loose,
    plain,
    unit_in,
)

#: Columns are quantities where at least this share of their names says so: a station may be called Windy Hill.
NAMED = 0.25
#: What is taken of readings, as names of columns end.
STATISTIC = re.compile(r"(?:(?<=[a-z])M|(?<=[\s_.\-])[Mm])(?:ean|in|ax|inimum|aximum|edian)$")
#: Rows per station, on average, from which on it shows that a number stays.
ROWS = 3
#: Numbers of kinds in the first rows, at most.
CODES = 6
#: Columns of the days of a month; the share of months that have fewer is between these, and which they are.
DAYS, SHORTER, LONGER, SHORT = 31, 0.3, 0.6, (2, 4, 6, 9, 11)
#: Columns of the hours of a day.
HOURS, OF_HOUR = 24, re.compile(r"(h|hr|he|hour|hora)[\s_]?(\d\d?)|(\d\d?)(?::00|h)", re.IGNORECASE)


@dataclass(frozen=True)
class Layout:
    """Columns by number: of the times (date and time of day, or year, month and so on), of station names, of readings.

    ``extra`` are the columns of a long table that hold neither; ``flags`` are those that mark the quality of readings, in a
    wide table with the column of readings that each is about. ``zone`` names the zone of each time. A ``single`` table is of
    one station, with a column per quantity. Of ``kind`` (column and word) only the rows with this word are read.
    """

    time: tuple[int, ...]
    station: int | None
    values: tuple[int, ...]
    extra: tuple[int, ...] = ()
    flags: tuple[tuple[int, int], ...] = ()
    zone: int | None = None
    single: bool = False
    kind: tuple[int, str] | None = None


def recognize(
    table: Table, stations: Sequence[str] | None, notes: Notes, recipe: Recipe, *, several: bool = False, shared: bool = False
) -> Layout:
    """The layout of a table of readings: by the recipe, and where it is silent by header and first rows.

    With ``several`` a long table may have columns of several quantities, which are then the values. What is ``shared`` by all
    stations has a row per time, beside which words are left out.
    """
    layout = _recognized(table, stations, notes, recipe, several=several, shared=shared)
    flag = recipe.column("flag", table)
    if flag is not None:
        layout = replace(layout, flags=tuple((flag, value) for value in layout.values))
    behind = not recipe.use_flags and all(re.fullmatch(MARK, mark) for mark in recipe.bad)  # the numbers themselves, as in 3.5*
    if (recipe.use_flags or recipe.bad) and not (layout.flags or several or behind):
        raise InputError(
            f"use_flags or bad is given, but {notes.source} has no column that marks the quality of the readings by its name: "
            "name it by --flag-column (flag= of a recipe)."
        )
    return layout


def _recognized(
    table: Table, stations: Sequence[str] | None, notes: Notes, recipe: Recipe, *, several: bool, shared: bool
) -> Layout:
    if isinstance(table, FileTable):
        _leave_out_units(table, notes)
    words = [plain(name) for name in table.header]
    time = recipe.columns("time", table)
    if recipe.start is not None:
        dated = [name for name, word in zip(table.header, words, strict=True) if word in TIME]
        if time or dated:
            raise InputError(
                f"start is {recipe.start!r}, but {notes.source} has times ({listed(dated or recipe.time)}): omit start."
            )
    elif not time:
        time = time_columns(table, words, stations, notes, universal=recipe.zone is None)
        time += half_of_day(table, time, range(len(words)))
    if not {*map(loose, stations or ())} & {*map(loose, table.header)}:
        _refuse_days(table, time, notes)
        _refuse_hours(table, time, notes)
    apart = (*time, recipe.column("flag", table))
    zone = _own_zone(table, words, notes) if recipe.zone is None else None
    apart = apart if zone is None else (*apart, zone)
    rest = [i for i in range(len(words)) if i not in apart and words[i] not in EVENTS and not counts_rows(table, i, words[i])]
    rest = [
        i
        for i in rest
        if (words[i] and words[i] not in CLOCK)
        or any(cell.lower() not in MISSING for cell in table.head(i))
        or not {*map(str.lower, table.load([i], [])[0][0])} <= MISSING
    ]
    others = [i for i, word in enumerate(words) if i and not word and i not in apart and counts_rows(table, i, word)]
    others = [i for i in others if not counts_rows(table, i, NUMBERED[0])]  # those that may be readings
    if others:
        notes.fact(f"{count(len(others), 'column')} of whole numbers without a name {verb(len(others))} left out")
    if shared and not _times_repeat(table, time):
        rest = _without_words(table, rest, notes)
    # the column named may be that of the table of stations alone, where a column per station needs none
    names = {loose(form) for name in table.header for form in (name, BRACKETS.sub("", name))}
    wide = not {*recipe.station} & {*table.header} and bool({*map(loose, stations or ())} & names)
    unnamed = shared and not ({*recipe.station} & {*table.header} and _times_repeat(table, time))
    station = None if wide or unnamed else recipe.station_column(table)
    kind = _kind(table, rest, recipe)
    chosen = recipe.column("value", table) if kind is None else None
    if station is None:
        station = station_column(table, words, rest, chosen, stations, notes)
    if station is None and stations is None and (several or (chosen is not None and _times_repeat(table, time))):
        station = only_words(table, rest, notes)
    if station is None:
        if not rest:
            raise InputError(f"{notes.source}: the times are the only column: add one column per station.")
        own = _of_one_station(table, words, rest, stations) if chosen is None else [chosen]
        if own and not (shared and len(rest) > 1):  # of what is shared each column is a series
            if len(own) > 1 and not several:
                _refuse_words(table, rest, notes)
                _refuse_several(table, own, notes)
            flags = tuple((i, v) for i, v in _flags_of(table, rest, stations) if v in own)
            if len(own) == 1 and not flags:
                flags = tuple((i, own[0]) for i in rest if i not in own and is_flag(table.header[i]))
            return Layout(time, None, tuple(own), flags=flags, zone=zone, single=True)
        if stations is None:
            _refuse_words(table, rest, notes)
        flags = _flags_of(table, rest, stations)
        spare = {flag for flag, _ in flags} | more_times(table, rest, stations, notes)
        return Layout(time, None, tuple(i for i in rest if i not in spare), (), flags, zone)
    if several and chosen is None and kind is None:
        columns = _no_numbers(table, _numeric(table, words, [i for i in rest if i != station], notes), station, time, notes)
        columns = _of_kinds(words, rest, columns)
        extra = tuple(i for i in rest if i != station and i not in columns)
        return Layout(time, station, tuple(columns), extra, zone=zone)
    value = _value(table, words, rest, station, time, notes) if chosen is None else chosen
    extra = tuple(i for i in rest if i not in (station, value))
    about = dict(_flags_of(table, [i for i in rest if i != station], None))
    flags = tuple((i, value) for i in extra if about.get(i, value) == value and is_flag(table.header[i], table.header[value]))
    zone = next((i for i in extra if words[i] in ZONE), zone)
    return Layout(time, station, (value,), extra, flags, zone, kind=kind)


def _refuse_days(table: Table, time: tuple[int, ...], notes: Notes) -> None:
    """No columns of the days of a month, as ``Flow01`` to ``Flow31``: the last is empty in months of fewer days."""
    names = [re.fullmatch(r"(.*?)(\d+)", name) for name in table.header]
    of_kind: dict[str, dict[int, int]] = {}
    for i, name in enumerate(names):
        if name is not None:
            of_kind.setdefault(name[1], {})[int(name[2])] = i
    for days in of_kind.values():
        if {*days} == {*range(1, DAYS + 1)}:
            cells, _ = table.load([days[28], days[DAYS], *time], [])
            before, last = (np.array([str(cell).strip().lower() in MISSING for cell in part]) for part in cells[:2])
            if SHORTER < (last & ~before).mean() < LONGER and _are_months(cells[2:], ~last):
                shown = listed([table.header[days[day]] for day in sorted(days)])
                raise InputError(
                    f"{notes.source} has a column per day of the month ({shown}): write one row per day, with a column 'time' "
                    "as 2024-07-01."
                )


def _are_months(times: Sequence[np.ndarray], filled: np.ndarray) -> bool:
    """Whether all dates have the same day and time of day, and those ``filled`` are of months with 31 days."""
    cells = [cell for part in times for cell in {*zip(part[: SAMPLE**2], filled[: SAMPLE**2].tolist(), strict=True)}]
    rows = [(date, full) for cell, full in cells if (date := parse(cell)) is not None]
    return any(
        len({(date.day or getattr(date, day), date.clock) for date, _ in rows}) < 2
        and not any(full and (date.month or getattr(date, month)) in SHORT for date, full in rows)
        for day, month in (("first", "second"), ("second", "first"))
    )


def _refuse_hours(table: Table, time: tuple[int, ...], notes: Notes) -> None:
    """No columns of the hours of a day, as ``00:00`` to ``23:00`` or ``H01`` to ``H24``, beside dates without a time of day."""
    if any(date.clock if (date := parse(cell)) else ":" in cell for i in time for cell in table.head(i)):
        return
    names = [OF_HOUR.fullmatch(name.strip()) for name in table.header]
    hours = [int(name[2] or name[3]) for name in names if name]
    wells = {(name[1] or "").lower() for name in names if name} == {"h"} and not {*map(plain, table.header)} & {
        *STATION,
        *SENSOR,
    }
    counted = {*hours} in ({*range(HOURS)}, set() if wells else {*range(1, HOURS + 1)})  # H1 to H24 may be those
    if len(hours) == len({*hours}) == HOURS and counted:
        shown = listed([own for own, name in zip(table.header, names, strict=True) if name])
        raise InputError(
            f"{notes.source} has a column per hour of the day ({shown}): write one row per hour, with a column 'time' as "
            "2024-07-01 05:00."
        )


def _own_zone(table: Table, words: list[str], notes: Notes) -> int | None:
    """The column that has the offset of each time, or its zone by a name that means one offset."""
    column = next((i for i, word in enumerate(words) if word in OWN_ZONE), None)
    if column is None:
        return None
    zones = sorted(set(table.load([column], [])[0][0].tolist()))
    if all(map(offset_of, zones)):
        return column
    if len(zones) > 1 and all(re.fullmatch(r"[A-Z]\w+/[A-Z][\w/]+", zone) for zone in zones):
        raise InputError(
            f"{notes.source}: {table.column(column)} names {len(zones)} zones ({listed(zones)}): write the offset behind each "
            "time, as in 2024-01-31 10:00+01:00."
        )
    return None


def _kind(table: Table, rest: list[int], recipe: Recipe) -> tuple[int, str] | None:
    """The column, and its word, of the rows to read, where ``value`` names no column but a kind of reading."""
    if recipe.value is None or recipe.value in table.header:
        return None
    for column in rest:
        if plain(table.header[column]) in KIND:
            (cells,), _ = table.load([column], [])
            if recipe.value in cells:
                return column, recipe.value
    return None


def _of_one_station(table: Table, words: list[str], rest: list[int], stations: Sequence[str] | None) -> list[int]:
    """Columns of quantities of one station: beside its position, or of several kinds by their names; else none."""
    if stations is not None and {loose(table.header[i]) for i in rest} & {loose(name) for name in stations}:
        return []
    if stations is not None and between([table.header[i] for i in rest], stations, table.notes):
        return []
    placed = bool({*words} & {*LATITUDE}) and bool({*words} & {*LONGITUDE})
    title = loose(stem(table.source))
    placed |= len(rest) == 1 and any(loose(name) and loose(name) in title for name in stations or ())  # the file is a station's
    placed |= len(rest) == 1 and bool(table.stated)
    marked = [i for i in rest if is_flag(table.header[i])]
    filled = [sum(map(bool, table.head(i))) for i in range(len(words))]
    remarks = [i for i in rest if 2 * filled[i] < max(filled) and not looks_read(table.head(i), comma=table.comma)]
    read = [i for i in rest if i not in (*marked, *remarks) and filled[i]]
    placed |= bool(marked) and len(read) == 1  # whose quality is marked
    # of a row below the header, which may hold other words
    units = {
        unit_in(f"({unit.strip('()[]')})").casefold().removeprefix("deg").lstrip("° ")
        for i in rest
        if (unit := table.units.get(table.header[i]))
    } - {""}
    if not placed and len(kinds_of([table.header[i] for i in rest])) < 2 and len(units) < 2:
        return []
    numeric = [i for i in _numeric(table, words, rest) if words[i] not in TIME]
    return [i for i in numeric if not all(map(parse, filter(None, table.head(i))))]


def kinds_of(names: Sequence[str]) -> set[str]:
    """What columns read: kinds by words in the names, where these have them, or units in brackets or as a word."""
    stated = {brackets.group().strip(" ()[]").casefold() for brackets in map(BRACKETS.search, names) if brackets}
    stated |= {word.casefold() for name in names for word in BRACKETS.sub("", name).split() if UNIT_SIGN.search(word)}
    units = {unit for unit in stated if re.search(r"[^\W\d]|[%°]", unit)}
    each = [kinds_in(name) for name in names]
    kinds: set[str] = set().union(*each)
    ends = [STATISTIC.search(name) for name in names]  # tempMean, tempMin
    if sum(map(bool, ends)) >= NAMED * len(names):
        kinds |= {end[0].casefold() for end in ends if end}
    return kinds if len(kinds) > 1 and sum(map(bool, each)) >= NAMED * len(names) else units


def _refuse_several(table: Table, columns: list[int], notes: Notes) -> None:
    names = [table.header[i] for i in columns]
    raise SeveralQuantities(
        f"{notes.source} has readings of one station and {len(names)} quantities ({listed(names, 12)}): name the one to read "
        "by --value, or value= of a recipe. If the columns are stations, pass the table of stations and readings of one unit.",
        names,
    )


def _flags_of(table: Table, rest: list[int], stations: Sequence[str] | None) -> tuple[tuple[int, int], ...]:
    """Columns such as ``A_qc`` beside ``A``, each with the column that it is about."""
    known = {s.strip() for s in stations} if stations is not None else set()
    place = {table.header[i]: i for i in rest}
    pairs = []
    for i in rest:
        name = table.header[i]
        stem = re.sub(r"[\s_.\-]*[^\W_.\-]+$", "", name)
        if stem in place and stem != name and name not in known and is_flag(name[len(stem) :]):
            pairs.append((i, place[stem]))
    return tuple(pairs)


def _words(table: Table, rest: list[int]) -> dict[int, str]:
    """The columns of words that no number follows: they name stations, or something beside the readings. And their words."""
    said = {}
    for i in rest:
        words = [cell for cell in table.head(i) if cell.strip().lower() not in MISSING]
        if len(words) < 2 or not all(map(word_alone, words)) or is_flag(table.header[i]) or set(words) <= {"True", "False"}:
            continue
        if not looks_read([*words, "0"], comma=table.comma):
            said[i] = f"{table.column(i)} holds words ({listed(list(dict.fromkeys(words)))})"
    return said


def _refuse_words(table: Table, rest: list[int], notes: Notes) -> None:
    for words in _words(table, rest).values():
        raise InputError(
            f"{notes.source}: {words}: pass it as --station-column (station= of a recipe) if it names the stations, and drop "
            "it otherwise."
        )


def _without_words(table: Table, rest: list[int], notes: Notes) -> list[int]:
    """Columns of what all stations share, which are numbers; what else is left out is said."""
    said = _words(table, rest)
    if said and len(said) == len(rest):
        raise InputError(f"{notes.source}: {next(iter(said.values()))}: add a column of numbers, or leave the table out.")
    for words in said.values():
        notes.fact(f"{words} and is left out")
    return [i for i in rest if i not in said]


def _leave_out_units(table: FileTable, notes: Notes) -> None:
    """Leave out a row of units below the header: it has no number and no date, and words above the first readings."""
    columns = [table.head(i)[:2] for i in range(len(table.header))]
    if len(columns[0]) < 2:
        return

    def number(cell: str) -> bool:
        return cell.lower() not in MISSING and looks_numeric([cell], comma=table.comma)

    if any(parse(first) or number(first) for first, _ in columns):
        return
    stated = {
        name: first
        for name, (first, second) in zip(table.header, columns, strict=True)
        if number(second) and (first == "m" or first.lower() not in MISSING)  # M is missing, m are meters
    }
    if units := sorted(set(stated.values())):
        table.units |= stated if len(units) > 1 else stated | {"": units[0]}
        notes.guess(f"the row of units below the header ({listed(units)}) is left out", "delete the row")
        table.leave_out_first()


def _times_repeat(table: Table, time: Sequence[int]) -> bool:
    """Whether rows repeat the time of another one: they are of several stations."""
    cells = list(zip(*(column.tolist() for column in table.load(list(time), [])[0]), strict=True))
    return len(set(cells)) < len(cells)


def _numeric(table: Table, words: list[str], rest: list[int], notes: Notes | None = None) -> list[int]:
    """Columns of a long table that are numbers in its first rows, and can be readings; with a note on those that half are."""
    possible = _possible(table, words, rest)
    cells = _first_cells(table, possible)
    numeric = [i for i in possible if any(cells[i]) and looks_read(cells[i], comma=table.comma)]
    measured = [i for i in possible if any(map(with_unit, cells[i])) and looks_read([*cells[i], "0"], comma=table.comma)]
    numeric = numeric or measured  # beside numbers, depths such as 5 cm are names
    for i in (i for i in possible if i not in numeric):
        odd = [cell for cell in cells[i] if cell and not looks_read([cell, "0"], comma=table.comma)]
        if notes is not None and odd and 2 * len(odd) <= len(list(filter(None, cells[i]))):
            notes.fact(
                f"{table.column(i)} is left out: it holds {odd[0]!r} among numbers; if that is no reading, pass --missing"
            )
    return [i for i in numeric if not words[i].endswith(ABOUT) and not _is_code(table, words, i)] or numeric


def _is_code(table: Table, words: list[str], index: int) -> bool:
    """Whether a column names kinds of readings by numbers, beside a column called a value."""
    cells = table.head(index)
    return words[index] in KIND and not {*VALUE}.isdisjoint(words) and all(map(str.isdecimal, cells)) and len({*cells}) <= CODES


def _first_cells(table: Table, columns: list[int]) -> dict[int, list[str]]:
    """The first cells of each column with content: some begin later than the table."""
    empty = [i for i in columns if not any(table.head(i))]
    later = dict(zip(empty, table.load(empty, [])[0], strict=True)) if empty else {}
    return {i: [cell for cell in later[i] if cell][:SAMPLE] if i in later else table.head(i) for i in columns}


def _possible(table: Table, words: list[str], rest: list[int]) -> list[int]:
    """Columns of a long table that can be readings: neither positions nor marks, nor other names of the stations."""

    def marks(i: int) -> bool:  # QT beside T, of a digit each
        return words[i][:1] == "q" and words[i][1:] in words and all(re.fullmatch(r"\d?", cell) for cell in table.head(i))

    possible = [i for i in rest if words[i] not in (*BESIDE, *STATION, *SENSOR, *TIME) and not is_flag(table.header[i])]
    return [i for i in possible if not marks(i)]


def _no_numbers(table: Table, numeric: list[int], station: int, time: tuple[int, ...], notes: Notes) -> list[int]:
    """The columns without those that number the stations: one whole number at each, of no unit, another at every other.

    They stand before the stations or the times; behind both are readings, such as setpoints.
    """
    first = table.head(station)
    maybe = [
        i for i in numeric
        if i < max((station, *time))
        and all(map(str.isdecimal, table.head(i))) and not kinds_in(table.header[i]) and not unit_in(table.header[i])
        and len({*zip(first, table.head(i), strict=True)}) == len({*first})
    ]  # fmt: skip
    if not maybe or len(maybe) == len(numeric):
        return numeric
    names, *columns = table.load([station, *maybe], [])[0]
    number = len({*names})
    alike = [{*zip(names, cells, strict=True)} for cells in columns]
    numbering = [
        i for i, pairs, cells in zip(maybe, alike, columns, strict=True)
        if 1 < number == len(pairs) == len({*cells}) and len(names) >= ROWS * number
    ]  # fmt: skip
    if numbering:
        notes.guess(
            f"{count(len(numbering), 'column')} of one whole number per station, another at each, left out as numbers of the "
            f"stations: {listed([table.header[i] for i in numbering])}; if it is a reading, name it by --value",
            "drop such columns",
        )
    return [i for i in numeric if i not in numbering]


def _of_kinds(words: list[str], rest: list[int], numeric: list[int]) -> list[int]:
    """The column called a value beside one that names kinds of readings; all columns elsewhere."""
    named = [i for i in numeric if words[i] in VALUE]
    return named if len(named) == 1 and any(words[i] in KIND for i in rest) else numeric


def _value(table: Table, words: list[str], rest: list[int], station: int, time: tuple[int, ...], notes: Notes) -> int:
    """The column of readings in a long table."""
    rest = [i for i in rest if i != station]
    possible = _possible(table, words, rest)
    cells = _first_cells(table, possible)
    numeric = [i for i in possible if looks_read(cells[i], comma=table.comma)]
    numeric = [i for i in numeric if not _is_code(table, words, i)] or numeric
    filled = [i for i in numeric if any(cells[i])]
    numeric = filled if len(filled) == 1 else numeric  # of several, the empty ones are left out with a note of their own
    if len(numeric) > 1:
        numeric = [i for i in numeric if not words[i].endswith(ABOUT)] or numeric
        numeric = _of_kinds(words, rest, _no_numbers(table, numeric, station, time, notes))
    named = [i for i in rest if words[i] in VALUE]
    # the only column that it can be is taken whatever its cells: one that is no number is named with its place
    chosen = next((columns for columns in (numeric, named, possible) if len(columns) == 1), [])
    if not chosen:
        which = [table.header[i] for i in (numeric or possible or rest)]
        raise SeveralQuantities(
            f"{notes.source} has a column of stations and so must have one column of readings, not {len(which)} "
            f"({listed(which, 12)}): name the one to read by --value, or value= of a recipe.",
            which,
        )
    places = [table.header[i] for i in rest if words[i] in POSITION]
    if places:
        notes.fact(f"columns of positions are no readings: {listed(places)}")
    others = [table.header[i] for i in possible if i != chosen[0] and not is_flag(table.header[i], table.header[chosen[0]])]
    if others:
        notes.guess(
            f"the readings are in column {table.header[chosen[0]]!r}; left out: {listed(others)}",
            "keep the columns time, station and value",
        )
    return chosen[0]
