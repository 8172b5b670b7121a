"""Labels of rows to times: ISO, epochs, numbers, and dates whose order of day and month the whole column decides."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from nareg.errors import InputError
from nareg.io._clock_change import in_standard_time, in_utc
from nareg.io._dates import Date, months_of_short_years, parse, written, year_last
from nareg.io._notes import Notes, count, verb
from nareg.io._recipe import DATES, Recipe
from nareg.io._vocabulary import OFFSETS

DIGITS = re.compile(r"\d{8}(?:\d{2}){0,3}", re.ASCII)
#: A month as a number: 202407, 2024.07 and 07.2024.
MONTH = re.compile(r"(?P<y>(?:1[89]|20)\d{2})\.?(?P<m>0[1-9]|1[0-2])", re.ASCII)
MONTH_FIRST = re.compile(r"(?P<m>0[1-9]|1[0-2])\.(?P<y>(?:1[89]|20)\d{2})", re.ASCII)
#: Numbers of this size in the whole column count from 1970, with so many of them per second: 1973 to 2103.
EPOCHS = ((1e8, 4.2e9, 1, "seconds"), (1e11, 4.2e12, 10**3, "milliseconds"), (1e14, 4.2e15, 10**6, "microseconds"),
          (1e17, 4.2e18, 10**9, "nanoseconds"))  # fmt: skip
#: Seconds from which on numbers of ten digits are dates with a year of two, if all are: 2033.
FAR = 2e9
#: Days since the end of 1899, as spreadsheets keep them, for the years 1990 to 2064; a day's fraction, in minutes, to a second.
SPREADSHEET, EPOCH_OF_SPREADSHEETS, MINUTE = (32_874, 60_266), -25_569, 1_440
#: Where clocks have twelve hours the month is written first.
TWELVE_HOURS = re.compile(r"\d\s*[AaPp](?:\.?[Mm])?(?![A-Za-z])")
ISO_REMEDY = "write times as 2024-01-31 10:00"


@dataclass(frozen=True)
class Times:
    """What the labels mean: timestamps (R,), or None; ``zone`` is "UTC" where the labels have offsets.

    ``agreed`` are those whose labels name zones that agree with the one that is given. ``order`` is that of dates such as
    3/4/2024, if there are any.
    """

    stamps: np.ndarray | None
    zone: str | None = None
    agreed: bool = False
    order: str | None = None

    def moved(
        self, series: np.ndarray, values: np.ndarray, labels: np.ndarray, notes: Notes, zone: str | None
    ) -> np.ndarray | None:
        """UTC of the local times of a zone; or standard time where the hour repeats in which daylight saving ends; or None."""
        if self.agreed:
            return None
        if zone is not None:
            if self.stamps is None or self.stamps.dtype.kind != "M":
                raise InputError(f"zone is {zone!r}, but {notes.source} has no dates: omit it.")
            if self.zone is not None:
                raise InputError(f"zone is {zone!r}, but the times of {notes.source} have offsets of their own: omit it.")
            return in_utc(self.stamps, series, values, labels, notes, zone)
        if self.stamps is None or self.stamps.dtype.kind != "M" or self.zone is not None:
            return None
        return in_standard_time(self.stamps, series, values, labels, notes)


def understand(labels: np.ndarray, column: str, line: Callable[[int], str], notes: Notes, recipe: Recipe) -> Times:
    """The times of texts (R,); ``line(r)`` names the place of the r-th. Zones by name agree with the recipe's."""
    import pandas as pd

    quick = _iso(labels)
    if quick is not None:
        return quick
    numbers = np.array(pd.to_numeric(labels, errors="coerce"), dtype=float)
    commas = [bool(re.fullmatch(r"[+-]?\d+,\d+", label)) for label in labels] if np.isnan(numbers).any() else []
    if commas and all(c or not np.isnan(n) for c, n in zip(commas, numbers, strict=True)):
        numbers = np.array([float(label.replace(",", ".")) for label in labels])
    numeric = np.isfinite(numbers)
    if numeric.all():
        return _numeric(labels, numbers, column, notes)
    months = months_of_short_years(labels.tolist())
    dates = [parse(label) for label in labels] if months is None else [*months]
    dated = np.array([date is not None for date in dates])
    like = dated if dated.sum() >= numeric.sum() else numeric
    if 2 * like.sum() <= len(labels):
        notes.guess(
            f"{column} does not hold times ({labels[0]!r}): rows are taken as evenly spaced, in the order of the table",
            f"{ISO_REMEDY} or as numbers",
        )
        return Times(None)
    if not like.all():
        row, model = int(np.flatnonzero(~like)[0]), labels[np.flatnonzero(like)[0]]
        what = f"{labels[row]!r} is not a time like {model!r}" if labels[row] else "the row has no time"
        raise InputError(f"{notes.source}, {line(row)}, {column}: {what}; correct it or drop the row.")
    if months is not None:
        names = [str(label)[:3] for k, label in enumerate(labels) if k == 0 or label != labels[k - 1]]
        order = [12 * date.year + date.month for date in dict.fromkeys(months)]  # of days it is another one
        ordered = order in (sorted(order), sorted(order, reverse=True))
        if not ordered or 2 * sum(one == other for one, other in pairwise(names)) >= max(len(names) - 1, 1):
            raise InputError(f"{notes.source}, {column}: {labels[0]!r} may be a day or a month of a year: {ISO_REMEDY}.")
        notes.guess(f"times in {column} such as {labels[0]!r} are read as months of years", ISO_REMEDY)
    return _dated(labels, [date for date in dates if date is not None], column, line, notes, recipe)


def _iso(labels: np.ndarray) -> Times | None:
    """The common case, fast: every label is ISO 8601 with a date, and all have the same offset or none."""
    import pandas as pd

    if not all("-" in label for label in labels):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            index: Any = pd.to_datetime(labels, format="ISO8601", errors="coerce")
            if not isinstance(index, pd.DatetimeIndex) or index.hasnans:
                return None
            if index.tz is not None:
                return Times(_naive(index.tz_convert("UTC")), "UTC")
            return Times(_naive(index))
        except (ValueError, TypeError, OverflowError, Warning):
            return None


def _naive(index: Any) -> np.ndarray:
    return np.asarray(index.tz_localize(None).as_unit("ns").to_numpy()).astype("datetime64[ns]")


def _numeric(labels: np.ndarray, numbers: np.ndarray, column: str, notes: Notes) -> Times:
    """Compact dates, time since 1970, or plain numbers."""
    months = months_of(labels)
    if months is not None and _is_monthly(months.astype("datetime64[M]").astype(np.int64)):
        notes.guess(f"numbers in {column} such as {labels[0]} are read as months", ISO_REMEDY)
        return Times(months)
    if all(DIGITS.fullmatch(label) for label in labels) and len({len(label) for label in labels}) == 1:
        forms = [(labels, "")]
        if len(labels[0]) == 12 or (len(labels[0]) == 10 and numbers.min() >= FAR):
            short = [("20" if label < "70" else "19") + label for label in labels]
            forms.append((np.array(short, dtype=object), f" whose years have two digits ({short[0][:4]})"))
        for full, how in forms:
            parsed = [parse(label) for label in full]
            stamps = [None if date is None or not 1900 <= date.year <= 2100 else date.nanoseconds() for date in parsed]
            if None not in stamps:
                notes.guess(f"numbers in {column} such as {labels[0]} are read as dates{how}", ISO_REMEDY)
                return Times(np.array(stamps, dtype=np.int64).view("datetime64[ns]"))
    if (turned := year_last(labels.tolist())) is not None:
        notes.guess(f"numbers in {column} such as {labels[0]} are read as dates ({turned[0][0]})", ISO_REMEDY)
        return Times(np.array(turned[0], dtype="datetime64[ns]"), order=DATES[not turned[1]])
    for low, high, per_second, unit in EPOCHS:
        if numbers.min() >= low and numbers.max() <= high:
            notes.guess(f"numbers in {column} such as {labels[0]} are read as {unit} since 1970, UTC", ISO_REMEDY)
            scale = 10**9 // per_second
            whole = np.floor(numbers)
            exact = [int(label) for label in labels] if all(map(str.isdecimal, labels)) else whole.astype(np.int64)
            ns = np.array(exact, dtype=np.int64) * scale + np.rint((numbers - whole) * scale).astype(np.int64)
            return Times(ns.view("datetime64[ns]"), "UTC")
    if numbers.min() >= SPREADSHEET[0] and numbers.max() < SPREADSHEET[1]:
        return _spreadsheet(labels, numbers, column, notes)
    return Times(numbers)


def months_of(labels: Sequence[str] | np.ndarray) -> np.ndarray | None:
    """The first days (R,) of months that numbers such as 202407 may be; None where one is no month."""
    form = MONTH_FIRST if MONTH_FIRST.fullmatch(labels[0]) else MONTH
    if not all(form.fullmatch(label) for label in labels):
        return None
    return np.array([form.sub(r"\g<y>-\g<m>", label) for label in labels], dtype="datetime64[ns]")


def _is_monthly(months: np.ndarray) -> bool:
    """Whether months, read of numbers such as 202407, rise by one at most steps, and turn a year somewhere."""
    steps = np.diff(np.unique(months))
    return bool(steps.size and np.median(steps) == 1 and np.ptp(months) >= 12)


def _spreadsheet(labels: np.ndarray, numbers: np.ndarray, column: str, notes: Notes) -> Times:
    """A spreadsheet's days, if some have a time of day, and that to the minute, or if the column says that it holds dates."""
    minutes = np.rint(numbers * MINUTE)
    whole = bool((numbers == np.rint(numbers)).all())
    if np.abs(numbers * MINUTE - minutes).max() > 1 / 60 or (whole and "date" not in column.casefold()):
        notes.fact(
            f"numbers in {column} such as {labels[0]} are taken as they are; if they are a spreadsheet's days, {ISO_REMEDY}"
        )
        return Times(numbers)
    notes.guess(f"numbers in {column} such as {labels[0]} are read as a spreadsheet's days", ISO_REMEDY)
    since = minutes.astype(np.int64) + EPOCH_OF_SPREADSHEETS * MINUTE
    return Times((since * 60 * 10**9).view("datetime64[ns]"))


def _dated(
    labels: np.ndarray, dates: list[Date], column: str, line: Callable[[int], str], notes: Notes, recipe: Recipe
) -> Times:
    asked, order = recipe.zone, _order(labels, dates, column, line, notes, recipe.dates)
    day_first = order != "month-first"
    named = any(date.zone is not None for date in dates)
    if named:
        offsets_of = _offsets(dates, day_first, asked)
        row = next((r for r, offset in enumerate(offsets_of) if offset is None), None)
        if row is not None:
            raise InputError(f"{notes.source}, {line(row)}, {column}: {labels[row]!r} {_why_no_offset(dates[row], asked)}.")
        both = list(zip(dates, offsets_of, strict=True))
        shown = dict.fromkeys(f"{date.zone} {written(offset or 0)}" for date, offset in both if date.zone is not None)
        notes.guess(f"times in {column} name their zones ({', '.join(shown)})", "write the offset behind the times")
        dates = [replace(date, offset=offset) for date, offset in both]
    stamps = [date.nanoseconds(day_first=day_first) for date in dates]
    if None in stamps:
        row = stamps.index(None)
        raise InputError(
            f"{notes.source}, {line(row)}, {column}: {labels[row]!r} is not a date between the years 1678 and 2261; correct it."
        )
    offsets = {date.offset for date in dates}
    if None in offsets and len(offsets) > 1:
        number = sum(date.offset is None for date in dates)
        notes.guess(
            f"{count(number, 'time')} without a time zone, among others with one, {verb(number)} taken as UTC",
            "write the zone everywhere",
        )
    elif len(offsets) > 1:
        notes.fact(f"{column} holds {len(offsets)} time zones; all times are converted to UTC")
    utc = None if offsets == {None} else "UTC"
    return Times(np.array(stamps, dtype=np.int64).view("datetime64[ns]"), utc, named and asked is not None, order)


def _offsets(dates: list[Date], day_first: bool, asked: str | None) -> list[int | None]:
    """The offset of each date by the zone that it names, which agrees with the one that is ``asked``; None where none does."""
    import pandas as pd

    own = [date.offset if date.zone is None else OFFSETS.get(date.zone) for date in dates]
    if asked is None:
        return own
    local = [replace(date, offset=None).nanoseconds(day_first=day_first) for date in dates]
    index = pd.DatetimeIndex(np.array([0 if ns is None else ns for ns in local], dtype=np.int64).view("datetime64[ns]"))
    # in the hour that repeats in autumn, the first pass is summer time
    passes = [
        index.tz_localize(asked, ambiguous=np.full(len(index), summer), nonexistent="shift_forward") for summer in (True, False)
    ]
    chosen: list[int | None] = []
    for date, offset, *times in zip(dates, own, *passes, strict=True):
        choices = [(time.tzname(), int(time.utcoffset().total_seconds() // 60)) for time in times]
        unnamed = not any(word.isalpha() for word, _ in choices)  # zones such as Asia/Riyadh have no names, but +03
        agreeing = (
            number for word, number in choices
            if number == offset or (offset is None and date.zone is not None and (unnamed or date.zone in (word, asked)))
        )  # fmt: skip
        chosen.append(next(agreeing, None))
    return chosen


def _why_no_offset(date: Date, asked: str | None) -> str:
    if date.zone is None and date.offset is None:
        return "has no time zone, among others with one: write the zone everywhere"
    if asked is not None:
        return f"is no time of the zone {asked!r}, which is given: omit zone, or pass the zone of the times"
    return (
        "has a time zone by its name, which may mean several offsets: pass it as --zone, such as Asia/Kolkata (zone= of a "
        "recipe), or write the offset, as in 2024-01-31 10:00+01:00"
    )


def _order(
    labels: np.ndarray, dates: list[Date], column: str, line: Callable[[int], str], notes: Notes, asked: str | None
) -> str | None:
    """Whether 3/4/2024 is a day of April: as asked, by a number above 12 anywhere, else by the more regular steps."""
    rows = [r for r, date in enumerate(dates) if not date.ordered]
    if not rows:
        return None
    first = next((r for r in rows if dates[r].first > 12), None)
    second = next((r for r in rows if dates[r].second > 12), None)
    if first is not None and second is not None:
        raise InputError(
            f"{notes.source}, {column}: {labels[first]!r} ({line(first)}) has the day first and {labels[second]!r} "
            f"({line(second)}) the month: {ISO_REMEDY}."
        )
    other, remedy = second if asked == "day-first" else first, "pass --dates day-first or month-first (dates= of a recipe)"
    if asked is not None and other is not None:
        raise InputError(
            f"{notes.source}, {line(other)}, {column}: dates is {asked!r}, but this is {labels[other]!r}: omit it."
        )
    if asked is not None:
        return asked
    if first is not None or second is not None:
        day_first = first is not None
        why = f"as {labels[first if first is not None else second]!r} shows"
    else:
        by_day, by_month = (_irregularity(dates, first) for first in (True, False))
        if by_day == by_month:
            day_first = not any(TWELVE_HOURS.search(label) for label in labels)
            why = "as in most countries" if day_first else "as clocks of twelve hours go with it"
            why += f"; if that is wrong, pass --dates {DATES[day_first]} (dates= of a recipe)"
            remedy = "say which"
        else:
            day_first, why = by_day < by_month, "which gives the more regular steps"
    notes.guess(f"dates such as {labels[rows[0]]!r} are read {'day' if day_first else 'month'} first, {why}", remedy)
    return DATES[0 if day_first else 1]


def either_order(labels: Sequence[str]) -> list[np.ndarray] | None:
    """Times (R,) of labels with the day first, and with the month first; None where the labels show which it is."""
    dates = [date for date in map(parse, labels) if date is not None and not date.ordered]
    if not dates or len(dates) < len(labels) or any(max(date.first, date.second) > 12 for date in dates):
        return None
    stamps = [[date.nanoseconds(day_first=first) for date in dates] for first in (True, False)]
    return None if None in stamps[0] + stamps[1] else [np.array(s, dtype=np.int64).view("datetime64[ns]") for s in stamps]


def instants(labels: Sequence[str]) -> np.ndarray | None:
    """The times (R,) of labels that one column has; None where they are none."""
    try:
        return understand(np.array(labels, dtype=object), "time", str, Notes("times", strict=False), Recipe()).stamps
    except InputError:
        return None


def order_of_all(labels: Sequence[Sequence[str]]) -> str | None:
    """The order of day and month in which all files are, where one of them may be in either; None where they do not say.

    Some show it, by a day above 12 or by steps that are more regular.
    """
    files = [[date for date in map(parse, own) if date is not None and not date.ordered] for own in labels]
    either, shown = False, set()
    for own in filter(None, files):
        days = [max(date.first for date in own) > 12, max(date.second for date in own) > 12]
        by_day, by_month = (_irregularity(own, first) for first in (True, False))
        either |= not any(days)
        if any(days) or by_day != by_month:
            shown.add(DATES[0 if days[0] or (not days[1] and by_day < by_month) else 1])
    return shown.pop() if either and len(shown) == 1 else None


def _irregularity(dates: list[Date], day_first: bool) -> tuple[int, int, float]:
    """Impossible dates, steps back in time, and the range of steps: the smaller the more likely."""
    stamps = [date.nanoseconds(day_first=day_first) for date in dates]
    known = np.array([s for s in stamps if s is not None], dtype=float)  # differences of integers may overflow
    steps = np.diff(known)
    steps = steps[steps != 0]  # a long table repeats a time for every station
    return stamps.count(None), int((steps < 0).sum()), float(np.ptp(steps)) if steps.size else 0.0
