"""Flags of readings, with the codes of QARTOD."""

from __future__ import annotations

from enum import IntEnum


class Flag(IntEnum):
    """Flag of a reading, with the codes of QARTOD (UNKNOWN: not evaluated).

    Examples
    --------
    >>> from nareg.quality import Flag
    >>> [f"{flag.value} {flag.name}" for flag in Flag]
    ['1 GOOD', '2 UNKNOWN', '3 SUSPECT', '4 BAD', '9 MISSING']
    """

    GOOD = 1
    UNKNOWN = 2
    SUSPECT = 3
    BAD = 4
    MISSING = 9
