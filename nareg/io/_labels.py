"""The label of the time of every row: of one column or several, with the offset of a zone that the table names."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from nareg.errors import InputError
from nareg.io._clock_change import is_of_zone
from nareg.io._frames import Table
from nareg.io._layout import Layout
from nareg.io._notes import Notes
from nareg.io._recipe import Recipe
from nareg.io._times import joined_date, parse, written
from nareg.io._vocabulary import OFFSETS, ZONES


def labels_of(
    table: Table, layout: Layout, texts: dict[int, np.ndarray], rows: int, notes: Notes, recipe: Recipe
) -> tuple[np.ndarray, str]:
    """The label of every row and the name of its column; the row numbers where there is none."""
    if recipe.start is not None:
        return _from_start(recipe.start, str(recipe.step), rows, notes), "start"
    if not layout.time:
        return np.array([str(i) for i in range(rows)], dtype=object), ""
    labels = texts[layout.time[0]]
    if len(layout.time) > 1:
        join = joined_date if len(layout.time) > 2 else lambda date, clock: f"{date} {clock}".strip()
        labels = np.array([join(*parts) for parts in zip(*(texts[i] for i in layout.time), strict=True)], dtype=object)
    if layout.zone is not None:
        labels = _with_zone(table, layout.zone, labels, texts[layout.zone], notes)
    else:
        labels = _with_zone_of_name([table.header[i] for i in layout.time], labels, notes, recipe.zone)
    return labels, table.column(layout.time[0])


#: An offset from UTC in the name of a column, and UTC itself.
FROM_UTC = re.compile(r"(?:GMT|UTC) ?([+-])(\d{1,2}):?(\d\d)?(?!\d)", re.IGNORECASE)
UTC = re.compile(r"(?<![A-Za-z])(?:UTC|GMT)(?![A-Za-z])|(?:UTC|Utc)$", re.IGNORECASE)


def _with_zone(table: Table, column: int, labels: np.ndarray, zones: np.ndarray, notes: Notes) -> np.ndarray:
    """Labels with the offset of the zone that another column names."""
    offsets = {}
    for zone in dict.fromkeys(zones.tolist()):
        if zone not in ZONES:
            row = int(np.flatnonzero(zones == zone)[0])
            raise InputError(
                f"{notes.source}, {table.place(row, column)}: {zone!r} is no zone that is known: write the offset behind the "
                "time, as in 2024-01-31 10:00+01:00."
            )
        offsets[zone] = f"{ZONES[zone]:+03d}:00"
    shown = ", ".join(f"{zone} {offset}" for zone, offset in offsets.items())
    notes.guess(f"the zones of the times are in {table.column(column)} ({shown})", "write the times in UTC")
    return np.array([label + offsets[zone] for label, zone in zip(labels, zones, strict=True)], dtype=object)


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
