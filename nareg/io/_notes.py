"""Guesses about a table: collected as sentences, or refused; and tables that carry such sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nareg.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

#: How many names a sentence lists.
LISTED = 3


class NoReadings(InputError):
    """A file that is understood and holds no reading: of several files it is left out with a note."""

    @property
    def note(self) -> str:
        """What is said where others have readings, without what to do about it."""
        return f"a table without readings is left out ({str(self).split(': pass ')[0].rstrip('.')})"


class NeverRead(NoReadings):
    """A quantity that no station ever reads: of several it is left out with a note."""


class SeveralQuantities(InputError):
    """A table of several quantities, where one is to be read; ``names`` are what ``value`` may name."""

    def __init__(self, message: str, names: Sequence[str]) -> None:
        super().__init__(message)
        self.names = tuple(names)


class Notes:
    """Sentences about one table, and counts; ``strict`` turns each guess into an :class:`InputError`."""

    def __init__(self, source: str, strict: bool) -> None:
        self.source, self.strict = source, strict
        self._sentences: list[str] = []
        #: Cells of readings, and what becomes of those that are not used.
        self.cells = 0
        self.beside: Counter[str] = Counter()

    def guess(self, what: str, remedy: str, *, place: str = "", refusal: str | None = None) -> None:
        """Record a guess; refuse it, with the remedy, where nothing may be guessed."""
        if self.strict:
            raise InputError(f"{self.source}{place and ', ' + place}: {refusal or what}; {remedy}.")
        self.fact(what)

    def fact(self, what: str) -> None:
        """Record a fact that needs no guess."""
        self._sentences.append(f"{self.source}: {what}.")

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(self._sentences)


def condensed(sentences: Sequence[str]) -> list[str]:
    """The same sentences about several files as one each."""
    sources: dict[str, list[str]] = {}
    for sentence in sentences:
        source, _, what = sentence.partition(": ")
        sources.setdefault(what or source, []).append(source)
    every = {what: list(dict.fromkeys(own)) for what, own in sources.items()}
    return [
        what if own == [what] else f"{own[0]}{f' and {len(own) - 1:,} more' * (len(own) > 1)}: {what}"
        for what, own in every.items()
    ]


def listed(names: Sequence[str], most: int = LISTED) -> str:
    """The first few names in quotes, and how many more there are."""
    more = len(names) - most
    return ", ".join(map(repr, names[:most])) + (f" and {more} more" if more > 0 else "")


def stations_named(names: Iterable[str]) -> str:
    """``station 'A'``, ``stations 'A', 'B'``."""
    names = list(names)
    return f"station{'' if len(names) == 1 else 's'} {listed(names)}"


def verb(number: int) -> str:
    """The verb after a number of things."""
    return "is" if number == 1 else "are"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """``1 column``, ``2 columns``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def tidy(
    table: dict[str, Any], units: dict[str, str], *notes: str, failed: Mapping[str, int] | None = None, why: str = ""
) -> pd.DataFrame:
    """A frame with what is known of its columns; so many readings of some have ``failed`` and are empty, and ``why``."""
    import pandas as pd

    lost = {name: number for name, number in (failed or {}).items() if number}
    number = sum(lost.values())
    said = f"{count(number, 'reading')} {why} {verb(number)} left out" if number else ""
    frame = pd.DataFrame(table)
    known = {name: unit for name, unit in units.items() if name in frame}
    frame.attrs = {"units": known, "failed": lost, "notes": [note for note in (said, *notes) if note]}
    return frame


def without(table: dict[str, Any], bad: Mapping[str, Any]) -> dict[str, int]:
    """Empty the readings of columns that a mask calls bad, in place; how many of each."""
    failed = {name: table[name].notna() & mask for name, mask in bad.items()}
    table.update({name: table[name].mask(lost) for name, lost in failed.items()})
    return {name: int(lost.sum()) for name, lost in failed.items()}


def as_numbers(cells: Any) -> Any:
    import pandas as pd

    return pd.to_numeric(cells, errors="coerce")
