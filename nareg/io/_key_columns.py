"""Recognize the columns of the times (one, a date and a time of day, or year, month and so on) and of the station names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nareg.errors import InputError
from nareg.io._around import NAME_COLUMNS, SAMPLE, WITHOUT_TIMES, about_header
from nareg.io._dates import HALF, MONTHS, ORDINAL, YEAR, is_day, months_of_short_years, parse
from nareg.io._frames import UNTIMED, FrameTable, Table
from nareg.io._marks import is_flag
from nareg.io._notes import NoReadings, Notes, count, listed
from nareg.io._numbers import looks_numeric, looks_read
from nareg.io._vocabulary import (
    CALENDAR,
    CLOCK,
    COUNTERS,
    DAY_OF_YEAR,
    EAST,
    KIND,
    LATITUDE,
    LONGITUDE,
    MISSING,
    NORTH,
    NUMBERED,
    QUARTER,
    SENSOR,
    STATION,
    TIME,
    UNNAMED,
    loose,
    plain,
)

#: A time of day, and what is one in a column of that name.
CLOCK_TIME = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s*[AaPp](?:\.?[Mm]\.?)?)?", re.ASCII)
#: Words of names of columns of seconds since 1970, or parts of them.
STAMPED, SINCE_1970 = frozenset(("ts", "epoch", "unix", "timestamp")), re.compile(r"1\d{9}(?:\d{3}){0,3}(?:\.\d+)?", re.ASCII)
#: A quarter, beside a column of years.
QUARTERS = re.compile(r"Q?[1-4](?:\.0)?", re.ASCII)
#: Names that say that times are universal.
OF_UTC = re.compile(r"(?<![A-Za-z])(?:UTC|GMT)(?![A-Za-z])", re.IGNORECASE)
HOUR = re.compile(r"(?:\d{1,6}(?:\.0)?|" + CLOCK_TIME.pattern + r")(?: ?(?:UTC|GMT))?", re.ASCII)
#: Hours and minutes with a point between them, which are no halves of hours.
POINTED = re.compile(r"(?:[01]?\d|2[0-4])\.[0-5]\d", re.ASCII)


def more_times(table: Table, rest: list[int], stations: Sequence[str] | None, notes: Notes) -> set[int]:
    """Columns with dates or times of day beside the one that is read; of known stations, others are left out anyway."""

    def dated(cells: list[str]) -> bool:
        return not looks_numeric(cells, comma=table.comma) and all(is_day(cell) or CLOCK_TIME.fullmatch(cell) for cell in cells)

    more = set() if stations is not None else {i for i in rest if dated(table.head(i)) or plain(table.header[i]) in DAY_OF_YEAR}
    if more:
        notes.fact(f"{count(len(more), 'more column')} of times left out: {listed([table.header[i] for i in sorted(more)])}")
    return more


def half_of_day(table: Table, time: tuple[int, ...], rest: Sequence[int]) -> tuple[int, ...]:
    """The column of a.m. and p.m. beside times of a clock of twelve hours, if there is one."""
    halves = [i for i in rest if i not in time and all(map(HALF.fullmatch, table.head(i)))]
    if len(halves) != 1 or not time:
        return ()
    hours = [re.search(r"(\d{1,2}):\d\d", cell) for cell in table.head(time[-1])]
    return (halves[0],) if all(hour is not None and 1 <= int(hour[1]) <= 12 for hour in hours) else ()


def time_columns(
    table: Table, words: list[str], stations: Sequence[str] | None, notes: Notes, *, universal: bool = True
) -> tuple[int, ...]:
    known = {s.strip() for s in stations} if stations is not None else set()
    named = sorted((TIME.index(word), i) for i, word in enumerate(words) if word in TIME and table.header[i] not in known)
    parts = _calendar(table, words)
    if parts and not any(any(table.head(i)) and all(parse(cell) for cell in table.head(i)) for _, i in named):
        return parts
    others = [i for i in range(len(words)) if table.header[i] not in known]
    days = next((i for i in others if words[i] in DAY_OF_YEAR and all(map(ORDINAL.match, table.head(i)))), None)
    if days is not None and all(all(map(HOUR.fullmatch, table.head(i))) for _, i in named):
        return _with_clock(table, words, days, known, notes)
    if named:
        columns = {TIME[rank]: i for rank, i in reversed(named)}
        if set(columns) == {"time", "date"} and not any(parse(cell) for cell in table.head(columns["time"])):
            return columns["date"], columns["time"]
        dates = [i for _, i in named if not looks_numeric(table.head(i), comma=False) and all(map(parse, table.head(i)))]
        numbers = looks_numeric(table.head(named[0][1]), comma=False)  # of seconds, which nobody reads as well as dates
        return _with_clock(table, words, dates[0] if numbers and dates else named[0][1], known, notes)
    if words[0] in UNNAMED and not counts_rows(table, 0, words[0]):
        return _with_clock(table, words, 0, known, notes)
    dated = next((i for sure in (is_day, parse) for i in others if all(map(sure, table.head(i)))), None)
    if dated is not None and universal:  # start_utc is taken before start_local, not before the day or the end
        same = [i for i in others if plain(OF_UTC.sub("", table.header[i])) in words[dated] and all(map(is_day, table.head(i)))]
        dated = next((i for i in same if OF_UTC.search(table.header[i]) and all(table.load([i], [])[0][0])), dated)
    if dated is not None and parse(table.header[dated]) is not None:
        raise InputError(
            f"{notes.source}: the first line is a row of readings ({listed(table.header)}): write a header above it, with "
            f"'time', then the names of the columns, or {NAME_COLUMNS}."
        )
    if dated is None:
        dated = next((i for i in others if words[i] in CALENDAR[1] and months_of_short_years(table.head(i))), None)
    if dated is None:  # numbers are times where the name of their column says so
        stamps = [i for i in others if STAMPED & {*re.split(r"[\s_\-.]+", table.header[i].casefold())}]
        dated = next((i for i in stamps if all(map(SINCE_1970.fullmatch, table.head(i)))), None)
    if dated is not None:
        notes.guess(f"column {table.header[dated]!r} holds the times", "name it 'time'")
        return _with_clock(table, words, dated, known, notes)
    of_year = [next((i for i in others if words[i] in names), None) for names in CALENDAR[:2]]
    if of_year[1] is None:
        quarters = (i for i in others if words[i] in QUARTER and all(map(QUARTERS.fullmatch, table.head(i))))
        of_year[1] = next(quarters, None)
    if of_year[0] is not None and all(map(YEAR.fullmatch, table.head(of_year[0]))):  # months of years, or years alone
        months = [table.header[i] for i in others if words[i] in MONTHS]
        numbered = [table.header[i] for i in others if words[i].isdecimal()] if of_year[1] is None else []
        months += numbered if sorted(map(int, numbered)) == [*range(1, 13)] else []
        if len(months) > 6:
            raise InputError(
                f"{notes.source} has a column per month ({listed(months)}): write one row per month, with a column 'time' as "
                "2024-07, and one column per station."
            )
        return tuple(i for i in of_year if i is not None)
    if isinstance(table, FrameTable) and table.counted:
        notes.guess(*UNTIMED)
        return ()
    if words[0] in UNNAMED:
        return (0,)
    if len(table.header) == 1:
        raise InputError(
            f"{notes.source} has one column ({table.header[0][:80]!r}): separate its cells by commas, below a header with "
            f"'time', then one column per station.{about_header(table.header[0].split())}"
        )
    if sum(parse(name) is not None for name in table.header) > 1:
        raise InputError(f"{notes.source} has a column per time: transpose it, one row per time and one column per station.")
    if {*LATITUDE, *EAST} & set(words) and {*LONGITUDE, *NORTH} & set(words):
        raise NoReadings(
            f"{notes.source} has positions ({listed(table.header)}) and no times where the readings are expected: pass the "
            "table of readings, with a column 'time'."
        )
    if looks_numeric(table.header, comma=table.comma):
        raise InputError(
            f"{notes.source}: there is no column of times, and the header holds numbers ({listed(table.header)}): add a column "
            f"'time', and above it a header if there is none, or {NAME_COLUMNS}. {WITHOUT_TIMES}"
        )
    raise InputError(
        f"{notes.source}: the first column is {table.header[0]!r}, and none has times: call that of the times 'time', or name "
        f"it by --time-column (time= of a recipe).{about_header(table.header)}"
    )


def _calendar(table: Table, words: list[str]) -> tuple[int, ...]:
    """Columns of year, month, day (or day of the year), then of hour (or time of day), minute, second; none without a day."""
    parts = _further([], words, CALENDAR)
    day, date = next((i for i, word in enumerate(words) if word in DAY_OF_YEAR), None), 3
    if parts and len(parts) < 3 and day is not None:  # no month: mm is the minute
        parts, date = _further([parts[0], day], words, CALENDAR[3:]), 2
    if len(parts) == date:
        clocks = [i for i, word in enumerate(words) if _of_clock(word) and all(map(HOUR.fullmatch, table.head(i)))]
        parts += clocks[:1]
    return tuple(parts) if len(parts) >= date else ()


def _further(parts: list[int], words: list[str], calendar: Sequence[tuple[str, ...]]) -> list[int]:
    """Columns, and those of further parts of a time by their names, up to the first that there is none of."""
    for names in calendar:
        part = next((i for i, word in enumerate(words) if word in names and i not in parts), None)
        if part is None:
            break
        parts.append(part)
    return parts


def _with_clock(table: Table, words: list[str], date: int, known: set[str], notes: Notes) -> tuple[int, ...]:
    """The column of times and, where it has dates alone, the one of the times of day."""
    if not all((parse(cell) or ORDINAL.match(cell)) and ":" not in cell for cell in table.head(date)):
        return (date,)
    others = [i for i in range(len(words)) if i != date and table.header[i] not in known]
    others = [i for i in others if words[i] != "ora" or abs(i - date) == 1]  # Ora is a town, too
    clocks = [i for i in others if all(map((HOUR if _of_clock(words[i]) else CLOCK_TIME).fullmatch, table.head(i)))]
    clocks = clocks or [i for i in others if _of_clock(words[i]) and _pointed(table.head(i))]
    if len(clocks) > 1:  # of "Date GMT" the clock is "Time GMT"
        clocks = [i for i in clocks if words[i].replace("time", "") == words[date].replace("date", "")]
    if len(clocks) != 1:
        return (date,)
    notes.guess(
        f"the times are in the columns {table.header[date]!r} and {table.header[clocks[0]]!r}", "name them 'date' and 'time'"
    )
    return date, clocks[0]


def _of_clock(word: str) -> bool:
    """Whether a name is that of times of day, which may say that they are in UTC."""
    return word in CLOCK or word.removesuffix("utc").removesuffix("gmt") in CLOCK


def _pointed(cells: list[str]) -> bool:
    """Whether cells are hours and minutes as in 10.30; of hours, 10.25 would be a quarter, and 10.50 a half."""
    minutes = {cell[-2:] for cell in cells}
    return all(map(POINTED.fullmatch, cells)) and (minutes == {"00"} or not minutes <= {"00", "25", "50"})


def counts_rows(table: Table, index: int, word: str) -> bool:
    """Whether a column only numbers the rows, as pandas writes its index, and loggers their records."""
    cells = table.head(index)
    if word not in (*COUNTERS, *NUMBERED) or not any(cells) or not all(map(str.isdecimal, cells)):
        return False
    return word in COUNTERS or [int(cell) - int(cells[0]) for cell in cells] == list(range(len(cells)))


def station_column(
    table: Table, words: list[str], rest: list[int], chosen: int | None, stations: Sequence[str] | None, notes: Notes
) -> int | None:
    """The column of station names, if the table is long; ``chosen`` is that of the readings, if it is known."""
    others = [i for i in rest if i != chosen]
    names = {s.strip() for s in stations} if stations is not None else set()
    if sum(table.header[i] in names for i in rest) > 1:
        return None
    candidates = [i for word in (*STATION, *SENSOR) for i in others if words[i] == word]
    candidates = [i for i in candidates if len(rest) > 1 and not (table.header[i] in names and len(rest) > 2)]
    if len(candidates) > 1 and words[candidates[0]] == "id" and _numbers_rows(table, candidates[0], rest):
        del candidates[0]
    if names:  # of an id and a name, the one that the station table has; else any that has its names
        candidates.sort(key=lambda i: not any(cell in names for cell in table.head(i)))
        if not candidates or not any(cell in names for cell in table.head(candidates[0])):
            loosely_known = {loose(name) for name in names}
            wide = any(loose(table.header[i]) in loosely_known for i in rest)
            holding = [i for i in others if len(rest) > 1 and not wide and _holds(table.head(i), loosely_known)]
            if holding and holding[0] not in candidates[:1]:
                notes.guess(f"column {table.header[holding[0]]!r} holds the station names", "name it 'station'")
                return holding[0]
    if candidates:
        _note_other(table, candidates, notes)
        return candidates[0]
    kinds = [i for i in others if words[i] in KIND] if len(rest) > 2 else []  # of readings whose quality is marked
    rest = [i for i in (rest if len(rest) == 2 else others) if any(table.head(i)) and not is_flag(table.header[i])]
    rest = [i for i in rest if not all(map(is_day, table.head(i)))]  # beside marks of quality, further dates and what is empty
    if len(rest) == 2 and not any(table.header[i] in names for i in rest):
        texts = [i for i in rest if all(map(word_alone, table.head(i))) and i not in kinds]
        numbers = [i for i in rest if looks_read(table.head(i), comma=table.comma)]
        if len(texts) == len(numbers) == 1:
            notes.guess(f"column {table.header[texts[0]]!r} holds the station names", "name it 'station'")
            return texts[0]
    return None


def _numbers_rows(table: Table, index: int, rest: list[int]) -> bool:
    """Whether no two rows have the same cell, and more than the first few rows are there, of several times."""
    cells, *times = (part.tolist() for part in table.load([index, *({*range(len(table.header))} - {*rest})], [])[0])
    return len(cells) > SAMPLE and len({*cells}) == len(cells) and any(len({*part}) > 1 for part in times)


def only_words(table: Table, rest: list[int], notes: Notes) -> int | None:
    """The column of words, where there is one and at least two of numbers: a long table of several quantities."""
    named = [i for i in rest if not is_flag(table.header[i]) and all(map(word_alone, table.head(i)))]
    numbers = [i for i in rest if any(table.head(i)) and looks_read(table.head(i), comma=table.comma)]
    if len(named) != 1 or len(numbers) < 2:
        return None
    notes.guess(f"column {table.header[named[0]]!r} holds the station names", "name it 'station'")
    return named[0]


def _note_other(table: Table, candidates: list[int], notes: Notes) -> None:
    """Say which column is taken where another one would make other stations of the rows."""
    taken, *others = [i for i in candidates if any(table.head(i))] or candidates
    if not others:
        return
    taken_cells, *other_cells = table.load([taken, *others], [])[0]
    own = len(set(taken_cells.tolist()))
    for i, cells in zip(others, other_cells, strict=True):
        pairs = len(set(zip(taken_cells.tolist(), cells.tolist(), strict=True)))
        if pairs > own or pairs > len(set(cells.tolist())):
            notes.guess(
                f"columns {table.header[taken]!r} and {table.header[i]!r} may both name the stations, and the first is taken",
                "name the right one by --station-column (station= of a recipe)",
            )
            return


def _holds(cells: list[str], loosely_known: set[str]) -> bool:
    """Whether most cells of a column are station names, given without case and leading zeros."""
    return 2 * sum(loose(cell) in loosely_known for cell in cells if cell) > len(cells)


def word_alone(cell: str) -> bool:
    """Whether a cell is a name, not a damaged number, a missing reading or a date."""
    return cell[:1].isalpha() and cell.lower() not in MISSING and parse(cell) is None
