"""Tables that were written before: how they write times, their rows, and new rows among them."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import StringIO
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nareg import io
from nareg.cleaning._report import TIDY
from nareg.errors import InputError
from nareg.io import Readings
from nareg.results import atomic_write

if TYPE_CHECKING:
    import pandas as pd

#: How tables write times, and what may stand behind: an offset from UTC.
FORMS = [
    f"{day}{clock}"
    for day in ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d")
    for clock in ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S")
] + ["%Y-%m", "%Y/%m", "%m/%Y", "%m.%Y"]
NAMES = re.compile(r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*", re.IGNORECASE)
OFFSET = re.compile(r"(?:Z|(?<=:\d\d)[+-]\d\d:?\d\d)$")
ISO = re.compile(r"\d{4}-\d\d-\d\d(?:$|[T ]\d\d:\d\d)")
#: A cell that is no value, and one that is, where nareg writes them just so: no quote, no formula, no figure too many.
KEY = r"""(?!'*[=+\-@\t＝＋－＠])[^,\n\r"]+"""
VALUE = (
    r"(?:-?(?!0\.0000)(?=[0-9.]{3,16}[,\n])(?:0|[1-9][0-9]*)\.(?:0|[0-9]*[1-9])"
    r"|-?[1-9](?:\.[0-9]{0,13}[1-9])?e-(?:0[5-9]|[1-9][0-9])|0|[1-9][0-9]{0,15}|(?!nan|inf)[a-z]+(?: [a-z]+)*|)"
)


def shaped(readings: Readings, path: Path) -> Readings:
    """Readings in the shape of a table that was written before; in their own where there is none."""
    if not path.exists():
        return readings
    header = next(written_before(path))
    tidy = header[:-1] == list(TIDY) and header[1:] != list(readings.names)
    return replace(readings, tidy=tidy, quantity=header[-1] if tidy else readings.quantity)


def labeled_as(readings: Readings, before: Iterable[str], path: Path, zone: str | None) -> Readings:
    """Readings whose times are written as those ``before`` in the table of a path: a time has one label there.

    Raises
    ------
    InputError
        If times have a zone in one of both alone, or the form of the table's is not known.
    """
    before = list(before)
    if not before or readings.timestamps is None or readings.timestamps.dtype.kind != "M":
        return readings
    new, old = readings.times[0], before[-1]
    if readings.zone is None and io.has_zone(old):
        raise InputError(
            f"readings have times without a zone, such as {new!r}, and those of {path} have one, such as {old!r}: pass it as "
            "--zone (zone= of a recipe)."
        )
    if zone is None and io.has_zone(new) and not io.has_zone(old):
        raise InputError(
            f"readings have times with a zone, such as {new!r}, and those of {path} have none, such as {old!r}: write the "
            "new ones in the same way, or clean all anew."
        )
    forms = {_form_of(time) for time in readings.times}
    if all(any(form == _form_of(time) for time in reversed(dict.fromkeys(before))) for form in forms):
        return readings
    labels = _written_as(readings, before, zone)
    if labels is None and not (ISO.match(new) and ISO.match(old)):
        raise InputError(f"readings have times such as {new!r}, and {path} such as {old!r}: write them alike.")
    return readings if labels is None else replace(readings, times=labels)


def _form_of(label: str) -> str:
    """A time without what its numbers and names of months are, but with its offset from UTC."""
    offset = OFFSET.search(label)
    bare = NAMES.sub("Jan", label[: offset.start() if offset else None])
    return re.sub(r"\d", "0", bare) + (offset[0] if offset else "")


def _written_as(readings: Readings, before: list[str], zone: str | None) -> tuple[str, ...] | None:
    """The times of readings in the form of labels of a table, with the offset of its last; None where they show no form.

    Where the form is too short for them, as for seconds, more is written behind it.
    """
    import pandas as pd

    offset = OFFSET.search(before[-1])
    bare = pd.Index(OFFSET.sub("", label) for label in before)
    forms = [form for form in FORMS if _is_form(bare[:20], form) and _is_form(bare, form)]
    if len(forms) != 1:
        return None
    index = pd.DatetimeIndex(readings.timestamps)
    if readings.zone is not None:
        here = zone or "UTC" if offset is None else "UTC" if offset[0] == "Z" else offset[0]
        index = index.tz_localize("UTC").tz_convert(here).tz_localize(None)
    for form in FORMS:
        labels = index.strftime(form)
        if form.startswith(forms[0]) and (pd.to_datetime(labels, format=form) == index).all():
            return tuple(labels + (offset[0] if offset else ""))
    return None


def _is_form(labels: pd.Index, form: str) -> bool:
    """Whether labels are times in this form, in order, but for the hour that repeats in autumn."""
    import pandas as pd

    times = pd.to_datetime(labels, format=form, errors="coerce")
    back = pd.Series(times).diff() < -pd.Timedelta("1h")
    return bool(times.notna().all() and not back.any() and (times.strftime(form) == labels).all())


def written_before(path: Path) -> Iterator[list[str]]:
    """The rows of a table that was written before, as they were before a spreadsheet's formulas were made texts."""
    for row in csv.reader(StringIO(_text_of(path), newline="")):
        if any(row):  # spreadsheets leave empty rows behind
            yield list(map(io.unshield, row))


def _text_of(path: Path) -> str:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} is no text in UTF-8: save it so, or name another folder with --out.") from None
    if not text.strip():
        raise InputError(f"{path} is empty: remove it, or name another folder with --out.")
    return text


def with_new(before: list[str], new: list[str]) -> list[str]:
    """Lines with new ones in the place of those of the same times, and others where their times belong.

    Where labels do not show that, as in autumn, others go behind the time before; else to the end.
    """
    old, fresh = _by_time(before), _by_time(new)
    stamps = io.instants([label for label, _ in (*old, *fresh)])
    if stamps is not None and all((part[1:] >= part[:-1]).all() for part in np.split(stamps, [len(old)])):
        at_time = dict(zip((*old, *fresh), stamps, strict=True))
        return [row for _, rows in sorted((old | fresh).items(), key=lambda one: at_time[one[0]]) for row in rows]
    place = {time: k for k, time in enumerate(old)}
    at = next((place[time] - 1 for time in fresh if time in place), len(old))
    placed = [((k, 0), old[time]) for time, k in place.items() if time not in fresh]
    for number, (time, rows) in enumerate(fresh.items(), 1):
        at = place.get(time, at)
        placed.append(((at, 0 if time in place else number), rows))
    return [row for _, rows in sorted(placed, key=itemgetter(0)) for row in rows]


def _by_time(lines: list[str]) -> dict[tuple[str, int], list[str]]:
    """Lines by the label of their time and its number, for in autumn two hours have the same."""
    groups: dict[tuple[str, int], list[str]] = {}
    seen: Counter[str] = Counter()
    for time, some in groupby(lines, key=label_of):
        seen[time] += 1
        groups[time, seen[time]] = list(some)
    return groups


def written_lines(path: Path, header: list[str], keys: int) -> list[str]:
    """The lines of a table that was written before, as they are written anew; ``keys`` cells of each are no values."""
    if not path.exists():
        return []
    rows = written_before(path)
    if next(rows) != header:
        raise InputError(f"{path} has other columns than the model's stations: name another folder with --out.")
    start, text = next(io.as_lines([header])), _text_of(path)
    # to parse all cells and write them again takes ten times as long
    odd = re.compile(rf"\n(?!(?:{KEY},){{{keys}}}{VALUE}(?:,{VALUE})*\n|\Z)")
    if text.startswith(start) and text.endswith("\n") and not odd.search(text, len(start) - 1):
        return list(StringIO(text[len(start) :]))
    return list(io.as_lines([*row[:keys], *map(cell, row[keys:])] for row in rows))


def label_of(line: str) -> str:
    """The label of the time of a line."""
    return io.unshield(next(csv.reader([line]))[0]) if line[0] in "\"'" else line.partition(",")[0]


def write_lines(path: Path, header: list[str], lines: Iterable[str]) -> None:
    """Write a table, whole or not at all."""
    with atomic_write(path) as handle:
        handle.write("".join([*io.as_lines([header]), *lines]).encode())


def cell(text: str) -> int | float | str:
    """A cell of a table that was written before: a flag, a value, a word, or nothing."""
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        return text
