"""The label of the time of every row: of one column or several, with the offset of a zone that the table names."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from nareg.errors import InputError
from nareg.io._frames import Table
from nareg.io._layout import Layout
from nareg.io._notes import Notes
from nareg.io._recipe import Recipe
from nareg.io._times import joined_date, parse
from nareg.io._vocabulary import ZONES


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
    elif recipe.zone is None:
        labels = _with_zone_of_name([table.header[i] for i in layout.time], labels, notes)
    return labels, table.column(layout.time[0])


#: An offset from UTC in the name of a column.
FROM_UTC = re.compile(r"(?:GMT|UTC) ?([+-]\d\d:\d\d)")


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


def _with_zone_of_name(names: Sequence[str], labels: np.ndarray, notes: Notes) -> np.ndarray:
    """Labels with the offset of the zone that the name of their column has, as in ``time PST``; others as they are."""
    zones = {word: f"{ZONES[word]:+03d}:00" for name in names for word in re.findall(r"[A-Za-z]+", name) if ZONES.get(word)}
    zones |= {match[0]: match[1] for name in names for match in FROM_UTC.finditer(name)}
    first = parse(str(labels[0])) if len(zones) == 1 and len(labels) else None
    if first is None or first.offset is not None or first.zone is not None:
        return labels
    ((zone, offset),) = zones.items()
    shown = "" if offset in zone else f" ({offset})"
    notes.guess(f"times are in {zone}{shown}, as the name of their column says", "write the offset behind the times")
    return np.array([f"{label}{offset}" if label else label for label in labels], dtype=object)


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
