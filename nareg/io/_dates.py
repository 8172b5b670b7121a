"""What one text means: a date in one of many spellings, perhaps with a time of day and a zone."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from nareg.io._vocabulary import OFFSETS

#: Names of months without accents, of seven languages whose names agree on the month.
MONTHS = {
    name: number
    for number, names in enumerate(
        ("jan january januar januari janv janvier ene enero janeiro gen gennaio",
         "feb february februar februari fev fevr fevrier febrero fevereiro febbraio",
         "mar march marz mrz mrt maart mars marzo marco marts",
         "apr april avr avril abr abril aprile",
         "may mai mei maj mayo maio mag maggio",
         "jun june juni juin junio junho giu giugno",
         "jul july juli juil juillet julio julho lug luglio",
         "aug august augustus augusti aout ago agosto",
         "sep sept september septembre septiembre set setembro settembre",
         "oct october okt oktober octobre octubre out outubro ott ottobre",
         "nov november novembre noviembre novembro",
         "dec december dez dezember decembre dic diciembre dezembro dicembre des desember"), 1
    )
    for name in names.split()
}  # fmt: skip
CLOCK = (
    r"(?:(?:[T, ]\s*|:)(?P<H>\d{1,2})(?:[:h](?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,](?P<f>\d{1,9})\d*)?)?"
    r"|\.(?P<minute>\d{2})(?:\.(?P<second>\d{2}))?)?"  # 01.07.24 10.30
    r"(?:\s*(?P<half>[AaPp])(?:\.?[Mm]\.?|(?![A-Za-z.])))?(?:\s*(?P<zone>(?i:Z|UTC|GMT)|(?:UTC|GMT)?[+-]\d{1,2}:?(?:\d{2})?)|\s*(?P<other>[A-Z]{2,5}|[A-Z][A-Za-z]+/[A-Z][A-Za-z_/]+))?)?"
)
#: Days of the week before a date in numbers, in six languages: Mon 01.07.2024.
WEEKDAY = (
    r"(?:(?i:(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?|(?:mon|diens|donners|frei|sams|sonn)tag|mo|mit(?:twoch)?|mi"
    r"|don?|fr|fre|sa|so|son|die?|(?:lun|mar|mercre|jeu|vendre|same)di|dim(?:anche)?|(?:lune|marte|mercole|giove|vener)d[iì]"
    r"|jeu|gio|s[aá]b(?:ato|ado)?|dom(?:enica|ingo)?|(?:lun|mart|mi[eé]rcol|juev|viern)es|lun|mar|mer|mi[eé]|jue|vie|ven|sam"
    r"|(?:maan|dins|woens|donder|vrij|zater|zon)dag|ma|wo|vr|za|zo)\.?,?\s+)?"
)
YEAR_FIRST = re.compile(WEEKDAY + r"(?P<y>\d{4})([-/.])(?P<m>\d{1,2})\2(?P<d>\d{1,2})" + CLOCK, re.ASCII)
YEAR_LAST = re.compile(WEEKDAY + r"(?P<a>\d{1,2})([-/.]|:(?=\d\d:\d{4}))(?P<b>\d{1,2})\2(?P<y>\d{4}|\d{2})" + CLOCK, re.ASCII)
COMPACT = re.compile(
    r"(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})"
    r"(?:[T :]?(?P<H>\d{2})(?::?(?P<M>\d{2})(?::?(?P<S>\d{2}))?)?(?P<zone>Z|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)
#: A word, and Spanish and Portuguese before a month and a year.
WORD, OF = r"[^\W\d_]{3,10}", r"(?:de\s+)?"
DAY_NAME = re.compile(rf"(?:{WORD}\.?,?\s+)?(?P<d>\d{{1,2}})[-\s.]+{OF}(?P<name>{WORD})[-\s.,]+{OF}(?P<y>\d{{4}})" + CLOCK)
SHORT = re.compile(rf"(?P<d>\d{{1,2}})([-/])(?P<name>{WORD})\2(?P<y>\d{{4}}|\d{{2}})" + CLOCK)  # 01-Jul-24, as spreadsheets do
NAME_DAY = re.compile(rf"(?:{WORD}\.?,?\s+)?(?P<name>{WORD})\.?\s+(?P<d>\d{{1,2}}),?\s+(?P<y>\d{{4}})" + CLOCK)
#: As the command "date" writes them: Mon Jul  1 10:00:00 CEST 2024.
YEAR_AFTER = re.compile(
    r"[A-Za-z]{3}\s+(?P<name>[A-Za-z]{3})\s+(?P<d>\d{1,2})\s+(?P<H>\d{2}):(?P<M>\d{2}):(?P<S>\d{2})\s+"
    r"(?:(?:(?P<zone>UTC|GMT)|(?P<other>[A-Z]{2,5}))\s+)?(?P<y>\d{4})"
)
#: A span of days, as pandas writes weeks, stands for its first.
SPAN = re.compile(r"(?P<y>\d{4})-(?P<m>\d{2})-(?P<d>\d{2})/\d{4}-\d{2}-\d{2}", re.ASCII)
#: A month of a year of two digits, or a day of a month: Jan-18. It is a date in a column of times alone.
SHORT_MONTH = re.compile(rf"(?P<name>{WORD})[-/\s'](?P<y>\d{{2}})")
#: Months and quarters: 07/2024, 2024/07, Jul 2024, 2024-Jul, 2024M07, 2024-Q3. They stand for their first day.
OF_YEAR = (
    re.compile(r"(?P<m>\d{1,2})[-/](?P<y>(?:1[89]|20)\d{2})", re.ASCII),
    re.compile(r"(?P<y>(?:1[89]|20)\d{2})[-/](?P<m>\d{1,2})", re.ASCII),
    re.compile(rf"(?P<name>{WORD})\.?[-/,\s]\s*(?P<y>\d{{4}})"),
    re.compile(rf"(?P<y>\d{{4}})[-/\s](?P<name>{WORD})\.?"),
    re.compile(r"(?P<y>\d{4})-?M(?P<m>\d{1,2})", re.ASCII),
    re.compile(r"(?P<y>\d{4})[-\s]?Q(?P<quarter>[1-4])", re.ASCII),
    re.compile(r"Q(?P<quarter>[1-4])[-/\s]?(?P<y>\d{4})", re.ASCII),
)
YEAR = re.compile(r"(?:1[89]|20)\d{2}(?:\.0)?", re.ASCII)
DOTTED = ("hour", "minute", "second")
#: The half of the day in a column beside a clock of twelve hours.
HALF = re.compile(r"[AaPp]\.?[Mm]\.?")
#: A year and a day of it, perhaps with a time of day behind.
ORDINAL = re.compile(r"(?P<year>(?:19|20)\d{2})-?(?P<day>[0-2]\d{2}|3[0-5]\d|36[0-6])(?![^T ])", re.ASCII)
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
    zone: str | None = None  # a zone by its name, which may say no offset: CST is one in China, another in America

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
    >>> parse("3. März 2024") == parse("3 mars 2024") == parse("3 de marzo de 2024") == parse("3 Mar 2024")
    True
    >>> parse("Mo, 01.07.2024 10:00") == parse("01.07.2024 10:00")
    True
    >>> parse("Jul 2024") == parse("07/2024") == parse("2024-Q3") == parse("2024-07-01")
    True
    """
    for pattern in (YEAR_FIRST, YEAR_LAST, COMPACT, DAY_NAME, SHORT, NAME_DAY, YEAR_AFTER, SPAN, *OF_YEAR):
        match = pattern.fullmatch(text)
        if match:
            return _date(match.groupdict())
    return None


def months_of_short_years(labels: Sequence[str]) -> list[Date] | None:
    """The months that texts such as ``Jan-18`` are, where all are; as names of stations they are no dates elsewhere.

    Examples
    --------
    >>> [date.year for date in months_of_short_years(["Jan-18", "Feb-99"])]
    [2018, 1999]
    """
    if not all(map(SHORT_MONTH.fullmatch, labels)):
        return None
    dates = [_date(match.groupdict()) for match in map(SHORT_MONTH.fullmatch, labels) if match]
    known = [date for date in dates if date is not None]
    return known if len(known) == len(dates) else None


def is_day(text: str) -> bool:
    """Whether a text is a date with a day; months and quarters, which may be names of stations, are none.

    Examples
    --------
    >>> is_day("2024-07-01"), is_day("07/2024")
    (True, False)
    """
    return parse(text) is not None and not any(pattern.fullmatch(text) for pattern in OF_YEAR)


def is_of_year(text: str) -> bool:
    """Whether a text is a year, a quarter or a month, with the rest of the time elsewhere if it is there often."""
    return bool(YEAR.fullmatch(text)) or bool(months_of_short_years([text])) or (parse(text) is not None and not is_day(text))


def _date(parts: dict[str, str | None]) -> Date | None:
    clock = _clock(parts)
    if clock is None:
        return None
    text = parts["y"] or ""
    year = int(text) + ((2000 if int(text) < 70 else 1900) if len(text) == 2 else 0)
    month, day, first, second = 0, 0, 0, 0
    if parts.get("name"):
        plain = "".join(letter for letter in unicodedata.normalize("NFKD", str(parts["name"]).lower()) if letter.isalpha())
        month, day = MONTHS.get(plain, 0), int(parts.get("d", 1) or 0)
        if not month:
            return None
    elif parts.get("quarter"):
        month, day = 3 * int(parts["quarter"] or 0) - 2, 1
    elif parts.get("m"):
        month, day = int(parts["m"] or 0), int(parts.get("d", 1) or 0)
        if not 1 <= month <= 12:
            return None
    else:
        first, second = int(parts["a"] or 0), int(parts["b"] or 0)
    return Date(year, month, day, first, second, clock, _offset(parts.get("zone")), parts.get("other"))


def joined_date(*parts: str) -> str:
    """Year, month, day, and perhaps hour (or a time of day), minute and second, as one label."""
    year, month, day, hour, minute, second = (*(part.split(".")[0] for part in parts), *("0",) * (6 - len(parts)))
    if ":" in hour:
        return f"{year}-{month:0>2}-{day:0>2} {parts[3]}"
    return f"{year}-{month:0>2}-{day:0>2} {hour:0>2}:{minute:0>2}:{second:0>2}"


def year_last(labels: Sequence[str]) -> tuple[list[str], bool] | None:
    """Dates of numbers such as 31012024, as texts, and whether the day is first, as they show; None where they do not.

    Examples
    --------
    >>> year_last(["1022024", "13022024"])
    (['2024-02-01', '2024-02-13'], True)
    """
    padded = [label.zfill(8) for label in labels]
    if not all(re.fullmatch(r"\d{4}(?:19|20)\d\d", label) for label in padded):
        return None
    for day, month in ((0, 2), (2, 0)):
        dates = [f"{label[4:]}-{label[month : month + 2]}-{label[day : day + 2]}" for label in padded]
        known = [parse(date) for date in dates]
        if all(date is not None and date.nanoseconds() is not None for date in known) and any(d and d.day > 12 for d in known):
            return dates, day == 0
    return None


def date_of_day(year: str, day: str) -> str:
    """The date of a day of the year, with a time of day where it has a fraction; both as they are where there is none.

    Examples
    --------
    >>> date_of_day("2024", "153"), date_of_day("2024", "153.25"), date_of_day("2023", "366")
    ('2024-06-01', '2024-06-01 06:00:00', '2023-366')
    """
    try:
        number, first = float(day), datetime.datetime(int(float(year)), 1, 1)
        date = first + datetime.timedelta(days=int(number) - 1)
    except (ValueError, OverflowError):
        return f"{year}-{day}"
    if date.year != first.year:
        return f"{year}-{day}"
    moment = date + datetime.timedelta(seconds=round(number % 1 * 86_400))
    return str(moment if number % 1 else date.date())


def _clock(parts: dict[str, str | None]) -> int | None:
    """Nanoseconds since midnight; 24:00 is the midnight at the end of the day."""
    hour, minute, second = (int(parts.get(key) or parts.get(dotted) or 0) for key, dotted in zip("HMS", DOTTED, strict=True))
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


def written(minutes: int) -> str:
    """An offset as in ``+05:30``."""
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def has_zone(label: str) -> bool:
    """Whether a text is a date with an offset or a zone."""
    date = parse(label)
    return date is not None and (date.offset is not None or date.zone is not None)


def offset_of(zone: str) -> str | None:
    """The offset that a zone behind a time means, as in ``+05:30``; None where it is not known."""
    date = parse(f"2024-01-01 00:00 {zone}") if zone else None
    minutes = None if date is None else date.offset if date.offset is not None else OFFSETS.get(date.zone or "")
    return None if minutes is None else written(minutes)
