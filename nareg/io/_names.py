"""Match columns with stations: by exact name, else ignoring case, spaces and leading zeros, then a unit in brackets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from nareg.errors import InputError
from nareg.io._notes import Notes, count, listed, verb

BRACKETS = re.compile(r"\s*[(\[][^)\]]*[)\]]\s*$")
WHOLE = re.compile(r"0*(\d+)(?:\.0*)?", re.ASCII)


def match(
    columns: Sequence[str], stations: Sequence[str], notes: Notes, what: str = "column", *, merge: bool = False
) -> dict[str, str]:
    """Map columns to stations; other columns are noted, or refused. With ``merge``, one station may have many spellings."""
    known = {station.strip(): station for station in stations}
    matched = {column: known[column.strip()] for column in columns if column.strip() in known}
    taken = set(matched.values())
    forms = ((loose, "case, spaces or leading zeros", merge), (_without_unit, "a unit in brackets", False))
    for form, ignored, spellings in forms:
        loose_stations = _unique((station for station in stations if spellings or station not in taken), form)
        others = [column for column in columns if column not in matched]
        if not spellings:
            others = list(_unique(others, form).values())
        close = {column: loose_stations[form(column)] for column in others if form(column) in loose_stations}
        if close:
            column, station = next(iter(close.items()))
            notes.guess(
                f"{count(len(close), f'{what} is', f'{what}s are')} matched with a station by ignoring {ignored}: "
                f"{column!r} is taken as {station!r}",
                "write the names as in the station table",
            )
            matched |= close
            taken |= set(close.values())
    unknown = [column for column in columns if column not in matched]
    if columns and not matched:
        raise InputError(
            f"{notes.source}: no {what} has a station's name; it has {listed(columns)}, but the stations are "
            f"{listed(stations)}."
        )
    if unknown:
        many = f"{count(len(unknown), f'{what} is', f'{what}s are')} not in the station table and left out: {listed(unknown)}"
        remedy = f"the {what}s must be the names in the station file"
        notes.guess(many, remedy, refusal=f"{what} {unknown[0]!r} is not a station")
    return matched


def absent(stations: Sequence[str], present: Iterable[str], notes: Notes, *, keep: bool, what: str = "column") -> list[str]:
    """The stations to use, in their order; those without a column are noted, and left out unless ``keep``."""
    names = set(present)
    missing = [station for station in stations if station not in names]
    if missing:
        number, end = len(missing), "taken as missing" if keep else "left out"
        notes.guess(
            f"{count(number, 'station has', 'stations have')} no {what} and {verb(number)} {end}: {listed(missing)}",
            f"the {what}s must be the names in the station file",
            refusal=f"no {what} for station {missing[0]!r}",
        )
    return list(stations) if keep else [station for station in stations if station in names]


def distinct(source: str, stations: Sequence[str]) -> None:
    """Refuse a list in which a name occurs twice."""
    twice = next((name for name, number in Counter(stations).items() if number > 1), None)
    if twice is not None:
        raise InputError(f"{source}: station {twice!r} appears twice: keep one of its rows.")


def refuse_repeated(source: str, header: Sequence[str]) -> None:
    """Refuse a header in which a name occurs twice."""
    seen: set[str] = set()
    for name in header:
        if name in seen:
            raise InputError(f"{source}: column {name!r} appears twice.")
        seen.add(name)


def _unique(names: Iterable[str], form: Callable[[str], str]) -> dict[str, str]:
    """Names by their loose form, without those that share one."""
    by_form: dict[str, list[str]] = {}
    for name in names:
        by_form.setdefault(form(name), []).append(name)
    return {key: same[0] for key, same in by_form.items() if len(same) == 1}


def loose(name: str) -> str:
    """A name without differences of case, spaces and leading zeros."""
    plain = re.sub(r"\s+", " ", name.strip()).casefold()
    number = WHOLE.fullmatch(plain)
    return number[1] if number else plain


def _without_unit(name: str) -> str:
    return loose(BRACKETS.sub("", name))
