"""Texts of dates and times to nanoseconds since 1970, by their parts."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass

MONTHS = {
    name: number
    for number, names in enumerate(
        ("jan january", "feb february", "mar march", "apr april", "may", "jun june", "jul july", "aug august",
         "sep sept september", "oct october", "nov november", "dec december"), 1
    )
    for name in names.split()
}  # fmt: skip
CLOCK = (
    r"(?:(?:[T, ]\s*|:)(?P<H>\d{1,2})(?:[:h](?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,](?P<f>\d{1,9})\d*)?)?)?"
    r"(?:\s*(?P<half>[AaPp])\.?[Mm]\.?)?(?:\s*(?P<zone>(?i:Z|UTC|GMT)|(?:UTC|GMT)?[+-]\d{1,2}:?(?:\d{2})?)|\s*(?P<other>[A-Z]{2,5}|[A-Z][A-Za-z]+/[A-Z][A-Za-z_/]+))?)?"
)
YEAR_FIRST = re.compile(r"(?P<y>\d{4})([-/.])(?P<m>\d{1,2})\2(?P<d>\d{1,2})" + CLOCK, re.ASCII)
YEAR_LAST = re.compile(r"(?P<a>\d{1,2})([-/.])(?P<b>\d{1,2})\2(?P<y>\d{4}|\d{2})" + CLOCK, re.ASCII)
COMPACT = re.compile(
    r"(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})(?:[T ]?(?P<H>\d{2})(?::?(?P<M>\d{2})(?::?(?P<S>\d{2}))?)?(?P<zone>Z)?)?", re.ASCII
)
DAY_NAME = re.compile(r"(?:[A-Za-z]{3,9}\.?,?\s+)?(?P<d>\d{1,2})[-\s.]+(?P<name>[A-Za-z]{3,9})[-\s.,]+(?P<y>\d{4})" + CLOCK)
NAME_DAY = re.compile(r"(?:[A-Za-z]{3,9}\.?,?\s+)?(?P<name>[A-Za-z]{3,9})\.?\s+(?P<d>\d{1,2}),?\s+(?P<y>\d{4})" + CLOCK)
EPOCH = datetime.datetime(1970, 1, 1)
#: What 64 bits of nanoseconds hold.
LIMIT = 2**63 - 1


@dataclass(frozen=True)
class Date:
    """Parts of a date; ``first`` and ``second`` are day and month, in unknown order."""

    year: int
    month: int
    day: int
    first: int
    second: int
    clock: int  # nanoseconds since midnight
    offset: int | None  # minutes east of Greenwich
    zone: str | None = None  # a zone by its name, which says no offset: CST is one in China, another in America

    @property
    def ordered(self) -> bool:
        """Whether the text shows which is the month."""
        return self.month > 0

    def nanoseconds(self, *, day_first: bool = True) -> int | None:
        """Since 1970, in UTC where there is an offset; None where there is no such date."""
        day, month = (self.day, self.month) if self.ordered else (self.first, self.second) if day_first else self._swapped
        try:
            days = (datetime.datetime(self.year, month, day) - EPOCH).days
        except ValueError:
            return None
        total = days * 86_400 * 10**9 + self.clock - (self.offset or 0) * 60 * 10**9
        return total if abs(total) <= LIMIT else None

    @property
    def _swapped(self) -> tuple[int, int]:
        return self.second, self.first


def parse(text: str) -> Date | None:
    """The parts of a text that is a date, perhaps with a time of day; None of others.

    Examples
    --------
    >>> parse("2024-01-31 10:00+01:00").nanoseconds() == parse("31 Jan 2024 9:00 Z").nanoseconds()
    True
    >>> parse("03.04.2024").ordered
    False
    >>> parse("station 3") is None
    True
    """
    for pattern in (YEAR_FIRST, YEAR_LAST, COMPACT, DAY_NAME, NAME_DAY):
        match = pattern.fullmatch(text)
        if match:
            return _date(match.groupdict())
    return None


def _date(parts: dict[str, str | None]) -> Date | None:
    clock = _clock(parts)
    if clock is None:
        return None
    text = parts["y"] or ""
    year = int(text) + ((2000 if int(text) < 70 else 1900) if len(text) == 2 else 0)
    month, day, first, second = 0, 0, 0, 0
    if parts.get("name"):
        month, day = MONTHS.get(str(parts["name"]).lower(), 0), int(parts["d"] or 0)
        if not month:
            return None
    elif parts.get("m"):
        month, day = int(parts["m"] or 0), int(parts["d"] or 0)
        if not 1 <= month <= 12:
            return None
    else:
        first, second = int(parts["a"] or 0), int(parts["b"] or 0)
    return Date(year, month, day, first, second, clock, _offset(parts.get("zone")), parts.get("other"))


def _clock(parts: dict[str, str | None]) -> int | None:
    """Nanoseconds since midnight; 24:00 is the midnight at the end of the day."""
    hour, minute, second = (int(parts.get(key) or 0) for key in "HMS")
    half = parts.get("half")
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (half in "Pp")
    rest = int((parts.get("f") or "").ljust(9, "0"))
    if minute > 59 or second > 60 or hour > 24 or (hour == 24 and (minute or second or rest)):
        return None
    return ((hour * 60 + minute) * 60 + second) * 10**9 + rest


def _offset(zone: str | None) -> int | None:
    if not zone:
        return None
    digits = zone.upper().removeprefix("UTC").removeprefix("GMT").replace(":", "")
    if digits in ("", "Z"):
        return 0
    sign, digits = (-1 if digits[0] == "-" else 1), digits[1:]
    hours, minutes = (int(digits), 0) if len(digits) < 3 else (int(digits[:-2]), int(digits[-2:]))
    return sign * (60 * hours + minutes)
