"""The label of the time of every row: of one column or several, with the offset of a zone that the table names."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence

import numpy as np

from nareg.errors import InputError
from nareg.io._clock_change import is_of_zone
from nareg.io._dates import HALF, ORDINAL, date_of_day, has_zone, joined_date, offset_of, parse, written, year_last
from nareg.io._frames import Table
from nareg.io._layout import Layout
from nareg.io._notes import Notes, listed
from nareg.io._recipe import Recipe
from nareg.io._vocabulary import CALENDAR, DAY_OF_YEAR, OFFSETS, OWN_ZONE, QUARTER, ZONES, plain

#: Columns of weeks, beside those of years; years and days of them, which may have a fraction.
WEEK = ("week", "weekno", "weeknumber", "isoweek", "kw", "woche", "semaine", "semana")
YEAR, DAY = re.compile(r"(?:19|20)\d{2}(?:\.0*)?", re.ASCII), re.compile(r"\d{1,3}(?:\.\d*)?", re.ASCII)


def labels_of(
    table: Table, layout: Layout, texts: dict[int, np.ndarray], rows: int, notes: Notes, recipe: Recipe
) -> tuple[np.ndarray, str]:
    """The label of every row and the name of its column; the row numbers where there is none."""
    if recipe.start is not None:
        return _from_start(recipe.start, str(recipe.step), rows, notes), "start"
    if not layout.time:
        return np.array([str(i) for i in range(rows)], dtype=object), ""
    labels = _joined([table.header[i] for i in layout.time], [texts[i] for i in layout.time], notes, recipe)
    if layout.zone is not None:
        labels = _with_zone(table, layout.zone, labels, texts[layout.zone], notes)
    else:
        labels = _with_zone_of_name([table.header[i] for i in layout.time], labels, notes, recipe.zone)
    return labels, table.column(layout.time[0])


def _joined(names: Sequence[str], parts: list[np.ndarray], notes: Notes, recipe: Recipe) -> np.ndarray:
    """Labels of one column, of a date and a time of day, or of year, month (or day of the year) and so on."""
    words, half = [plain(name) for name in names], None
    if len(parts) > 1 and all(map(HALF.fullmatch, parts[-1])):
        half = parts.pop()
    if len(parts) == 2 and words[0] in CALENDAR[0] and words[1] in CALENDAR[1]:
        both = zip(*([cell.split(".")[0] for cell in part] for part in parts), strict=True)
        return np.array([f"{year}-{month:0>2}" for year, month in both], dtype=object)
    if len(parts) == 2 and words[0] in CALENDAR[0] and words[1] in QUARTER:
        return np.array(
            [f"{y.split('.')[0]}-Q{q.removeprefix('Q').split('.')[0]}" for y, q in zip(*parts, strict=True)], object
        )
    if len(parts) == 2 and words[0] in CALENDAR[0] and words[1] in WEEK:
        return _weeks(parts, notes)
    days = _days_of_years(words, parts, by_name=bool(recipe.time))
    if days is not None:
        dates, used = days
        notes.fact(f"{', '.join(str(part[0]) for part in parts[:used])} is read as {dates[0]}: a year and a day of it")
        rest = parts[used:]
        parts, words = [dates, *rest[:1]], words[used - 1 :]
        if len(rest) > 1:
            parts[1] = np.array(
                [":".join(one.split(".")[0].zfill(2) for one in own) for own in zip(*rest, strict=True)], dtype=object
            )
    if len(parts) == 2 and (turned := year_last(parts[0].tolist())) is not None:
        notes.guess(f"numbers such as {parts[0][0]} are read as dates ({turned[0][0]})", "write dates as 2024-01-31")
        parts[0] = np.array(turned[0], dtype=object)
    clock = {2: 1, 4: 3}.get(len(parts))
    if clock is not None:
        parts[clock] = _clocks(parts[clock], words[clock])
        if all(map(str.isdecimal, parts[0])):  # 20240601 needs two digits of the hour
            parts[clock] = np.array([re.sub(r"^\d(?!\d)", r"0\g<0>", cell) for cell in parts[clock]], dtype=object)
    if len(parts) == 1 and half is None:
        return parts[0]
    join = joined_date if len(parts) > 2 else lambda *own: " ".join(own).strip()
    ends = [""] * len(parts[0]) if half is None else [f" {end}" for end in half]
    return np.array([join(*own) + end for *own, end in zip(*parts, ends, strict=True)], dtype=object)


def _weeks(parts: list[np.ndarray], notes: Notes) -> np.ndarray:
    """The Mondays of weeks of years; both as they are where there is none."""
    labels = []
    for year, week in zip(*([cell.split(".")[0] for cell in part] for part in parts), strict=True):
        try:
            labels.append(str(datetime.date.fromisocalendar(int(year), int(week), 1)))
        except ValueError:
            labels.append(f"{year}-W{week}")
    notes.guess(f"weeks such as {parts[0][0]}, {parts[1][0]} are those of ISO 8601, and stand for their Mondays", "write dates")
    return np.array(labels, dtype=object)


def _days_of_years(words: list[str], parts: list[np.ndarray], *, by_name: bool) -> tuple[np.ndarray, int] | None:
    """Dates of days of the year, and of how many columns; None where the names do not say so, nor the user (``by_name``)."""
    if (
        len(parts) > 1
        and words[1] not in CALENDAR[1]
        and all(map(YEAR.fullmatch, parts[0]))
        and all(map(DAY.fullmatch, parts[1]))
        and (words[1] in DAY_OF_YEAR or len(parts) == 2 or max(float(day) for day in parts[1]) > 12)
    ):
        return np.array([date_of_day(*own) for own in zip(parts[0], parts[1], strict=True)], dtype=object), 2
    if len(parts) > 2 or not ORDINAL.match(parts[0][0]):
        return None
    matches = [ORDINAL.match(label) for label in parts[0]]
    if not all(matches):
        return None
    if words[0] not in DAY_OF_YEAR and not by_name and not all("-" in label for label in parts[0]):
        return None
    both = zip(matches, parts[0], strict=True)
    return np.array([date_of_day(*m.groups()) + label[m.end() :] for m, label in both if m is not None], dtype=object), 1


def _clocks(cells: np.ndarray, word: str) -> np.ndarray:
    """Times of day of a column that may write them as 930, 93000 or 0930 UTC, or has hours alone; others as they are."""
    zoned = [re.fullmatch(r"(\d+)( ?(?:UTC|GMT))", cell) for cell in cells]
    if all(zoned):
        plainly = _clocks(np.array([match[1] for match in zoned if match is not None], dtype=object), word)
        return np.array(
            [cell + match[2] for cell, match in zip(plainly, zoned, strict=True) if match is not None], dtype=object
        )
    digits = [cell.removesuffix(".0") for cell in cells]
    if not all(digit.isdecimal() for digit in digits):
        return cells
    longest = max(map(len, digits))
    if longest < 3 and word not in ("hhmm", "hrmn", "timehhmm") and max(map(int, digits)) <= 24:
        return cells
    padded = [digit.zfill(4 if longest < 5 else 6) for digit in digits]
    return np.array([":".join(digit[k : k + 2] for k in range(0, len(digit), 2)) for digit in padded], dtype=object)


#: An offset from UTC in the name of a column, and UTC itself.
FROM_UTC = re.compile(r"(?:GMT|UTC) ?([+-])(\d{1,2}):?(\d\d)?(?!\d)", re.IGNORECASE)
UTC = re.compile(r"(?<![A-Za-z])(?:UTC|GMT)(?![A-Za-z])|(?:UTC|Utc)$", re.IGNORECASE)


#: Zones of whose offset a name is not sure: with daylight saving, or of several meanings.
UNSURE = re.compile(
    r"(?:Africa|America|Antarctica|Asia|Atlantic|Australia|Europe|Indian|Pacific|US|Etc)/[A-Za-z_+\-0-9/]+|\b(?:IST|BST|AST)\b"
)


def _with_zone(table: Table, column: int, labels: np.ndarray, zones: np.ndarray, notes: Notes) -> np.ndarray:
    """Labels with the offset of the zone that another column names."""
    if len(labels) and has_zone(str(labels[0])):
        return labels
    offsets = {}
    for zone in dict.fromkeys(zones.tolist()):
        own = offset_of(zone) if plain(table.header[column]) in OWN_ZONE else None
        if own is not None:
            offsets[zone] = own
            continue
        if zone not in ZONES:
            row = int(np.flatnonzero(zones == zone)[0])
            raise InputError(
                f"{notes.source}, {table.place(row, column)}: {zone!r} is no zone that is known: write the offset behind the "
                "time, as in 2024-01-31 10:00+01:00."
            )
        offsets[zone] = f"{ZONES[zone]:+03d}:00"
    shown = ", ".join(zone if zone == offset else f"{zone} {offset}" for zone, offset in offsets.items())
    notes.guess(f"the zones of the times are in {table.column(column)} ({shown})", "write the times in UTC")
    return np.array([_with_offset(label, offsets[zone]) for label, zone in zip(labels, zones, strict=True)], dtype=object)


def _with_zone_of_name(names: Sequence[str], labels: np.ndarray, notes: Notes, asked: str | None) -> np.ndarray:
    """Labels with the offset of the zone that the name of their column has, as in ``time PST``; others as they are.

    A zone that is ``asked`` goes before one of its own names, as Europe/Berlin before CET; any other is refused.
    """
    hours = {zone: 60 * number for zone, number in ZONES.items() if number} | OFFSETS
    zones = {word: written(hours[word]) for name in names for word in re.findall(r"[A-Za-z]+", name) if hours.get(word)}
    for name in names:
        from_utc = FROM_UTC.search(name)
        if from_utc is not None:
            sign, hour, minute = from_utc.groups()
            zones[from_utc[0]] = f"{sign}{hour:0>2}:{minute or '00'}"
        elif utc := UTC.search(name):
            zones[utc[0].upper()] = "+00:00"
    unused = list(zones) if len(zones) > 1 else [] if zones else [said[0] for name in names for said in UNSURE.finditer(name)]
    if unused and asked is None and len(labels) and not has_zone(str(labels[0])):
        notes.fact(
            f"the name of the column of times says {listed(unused)}, which is not used: pass the zone of times as --zone"
        )
    first = parse(str(labels[0])) if len(zones) == 1 and len(labels) else None
    if first is None or first.offset is not None or first.zone is not None:
        return labels
    ((zone, offset),) = zones.items()
    if asked is not None:
        if not is_of_zone(zone, offset, asked):
            raise InputError(
                f"zone is {asked!r}, but the name of the column of times in {notes.source} says {zone}: omit zone, or rename "
                "the column."
            )
        notes.fact(f"the name of the column of times says {zone}; they are taken in {asked}, as asked for")
        return labels
    if not any(":" in label or parse(label + offset) for label in labels):  # days, which begin nowhere else for that
        return labels
    said = f"times are in {zone}{{}}, as the name of their column says"
    if "UTC" in zone.upper() or "GMT" in zone.upper():
        notes.fact(said.format(""))
    else:
        notes.guess(said.format(f" ({offset})"), "write the offset behind the times")
    return np.array([_with_offset(label, offset) for label in labels], dtype=object)


def _with_offset(label: str, offset: str) -> str:
    """A label with an offset behind its time of day, which is midnight where it has none."""
    if ":" in label or parse(label) is None or parse(label + offset) is not None:
        return label and label + offset
    return f"{label} 00:00{offset}"


def _from_start(start: str, step: str, rows: int, notes: Notes) -> np.ndarray:
    """Labels of rows without times: the first, and the time from one to the next."""
    import pandas as pd

    try:
        index = pd.Timestamp(start) + pd.Timedelta(step) * np.arange(rows)
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"start is {start!r} and step {step!r}: pass such as '2012-03-01 00:00' and '5min' ({error})."
        ) from None
    notes.fact(f"its {rows:,} rows have no times; they are taken every {step} from {start} on")
    return np.array([str(time) for time in index], dtype=object)
