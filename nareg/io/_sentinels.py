"""Numbers that stand for a missing reading, -9999 and the like, recognized by the rest of the data."""

from __future__ import annotations

import numpy as np

from nareg.io._notes import Notes, count
from nareg.io._vocabulary import SENTINELS, UNMISTAKABLE

#: A sentinel lies outside of the rest by this share of the range of its middle 99 %; one that occurs once, by this multiple.
FAR, VERY_FAR = 0.5, 10.0
#: And occurs this many times as often as other readings that lie as far outside.
OFTEN = 10


def remove(values: np.ndarray, notes: Notes) -> None:
    """Set sentinels to NaN, in place, and note each with its count.

    999 is plausible among readings of 990 to 1020, but not among readings of 0 to 30. So a conventional code is taken as
    missing only where it repeats exactly, lies far from all other readings and has no neighbors there.
    """
    if not np.isfinite(values).any():
        return
    low, high = np.nanmin(values), np.nanmax(values)
    counts = {code: int((values == code).sum()) for code in SENTINELS if low <= code <= high}
    counts = {code: number for code, number in counts.items() if number}
    if not counts:
        return
    rest = values[np.isfinite(values) & ~np.isin(values, list(counts))]
    codes = [code for code, number in counts.items() if _sentinel(code, number, rest)]
    for code in codes:
        notes.guess(
            f"{code:g} appears in {count(counts[code], 'cell')}, far outside the other readings, and is taken as missing",
            "leave these cells empty",
        )
        values[values == code] = np.nan


def _sentinel(code: float, number: int, rest: np.ndarray) -> bool:
    if not rest.size:
        return number > 1
    low, high = np.quantile(rest, [0.005, 0.995])
    gap = low - code if code < low else code - high
    spread = high - low
    if gap <= FAR * spread:
        return False
    limit = FAR * spread
    beyond = int((rest < low - limit).sum()) if code < low else int((rest > high + limit).sum())
    once = code in UNMISTAKABLE and gap > VERY_FAR * spread and spread > 0
    return (number > 1 or once) and number > OFTEN * beyond
