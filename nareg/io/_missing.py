"""Readings that are none: numbers such as -9999, recognized by the rest of the data."""

from __future__ import annotations

import numpy as np

from nareg.io._counts import CODED
from nareg.io._notes import Notes, count
from nareg.io._vocabulary import SENTINELS, UNMISTAKABLE

#: A sentinel lies outside of the rest by this share of the range of its middle 99 %; one that occurs once, by this multiple.
FAR, VERY_FAR = 0.5, 10.0
#: And occurs this many times as often as other readings that lie as far outside.
OFTEN = 10
#: A number that is no convention: by this multiple of that range, so often, at two stations or in so many runs of one,
#: among so many different readings, and at no station always.
UNUSUAL, TIMES, RUNS, DIFFERENT = 1.5, 5, 3, 20
#: How many such numbers are looked for at either end.
ROUNDS = 3


def remove_sentinels(values: np.ndarray, station: np.ndarray, notes: Notes) -> None:
    """Set sentinels to NaN, in place, and note each with its count.

    999 is plausible among readings of 990 to 1020, but not among readings of 0 to 30. So a conventional code is taken as
    missing only where it repeats exactly, lies far from all other readings and has no neighbors there. Any other number must
    lie farther, and come and go at stations that read something else in between.

    Parameters
    ----------
    values : array
        The readings, in order of time along the last axis.
    station : int array
        Number of the station of each reading; shapes are broadcast.
    notes : Notes
        Receives what was found.
    """
    if not np.isfinite(values).any():
        return
    low, high = np.nanmin(values), np.nanmax(values)
    counts = {code: int((values == code).sum()) for code in SENTINELS if low <= code <= high}
    counts = {code: number for code, number in counts.items() if number}
    if counts:
        rest = values[np.isfinite(values) & ~np.isin(values, list(counts))]
        for code in [code for code, number in counts.items() if _sentinel(code, number, rest)]:
            _remove(values, code, counts[code], notes)
    with np.errstate(over="ignore", invalid="ignore"):  # of readings whose range overflows
        unusual = _unusual(values, station)
    for code, number in unusual:
        _remove(values, code, number, notes)


def _remove(values: np.ndarray, code: float, number: int, notes: Notes) -> None:
    notes.guess(
        f"{code:g} appears in {count(number, 'cell')}, far outside the other readings, and is taken as missing",
        "leave these cells empty",
    )
    notes.beside[CODED] += number
    values[values == code] = np.nan


def _sentinel(code: float, number: int, rest: np.ndarray) -> bool:
    if not rest.size:
        return number > 1
    gap, spread, beyond = _outside(code, rest, FAR)
    single = code in UNMISTAKABLE and gap > VERY_FAR * spread and spread > 0
    return gap > FAR * spread and (number > 1 or single) and number > OFTEN * beyond


def _unusual(values: np.ndarray, station: np.ndarray) -> list[tuple[float, int]]:
    """Codes by no convention, each with its count: the extremes of the readings, where they repeat far from all others."""
    rest, codes = values, []
    for _ in range(ROUNDS):
        known = np.isfinite(rest)
        if not known.any():
            break
        ends = {end: int((rest == end).sum()) for end in (float(np.nanmin(rest)), float(np.nanmax(rest))) if end != 0}
        ends = {end: number for end, number in ends.items() if number >= TIMES}
        others = rest[known & ~np.isin(rest, list(ends))]
        new = [(code, n) for code, n in ends.items() if _far(code, n, others) and _comes_and_goes(values, code, station)]
        if not new:
            break
        codes += new
        rest = np.where(np.isin(rest, [code for code, _ in new]), np.nan, rest)
    return codes


def _far(code: float, number: int, others: np.ndarray) -> bool:
    if not others.size:
        return False
    gap, spread, beyond = _outside(code, others, UNUSUAL / 2)
    far = spread > 0 and gap > UNUSUAL * spread and number > OFTEN * beyond
    return far and len(np.unique(others)) >= DIFFERENT


def _outside(code: float, rest: np.ndarray, share: float) -> tuple[float, float, int]:
    """How far a code is from the middle 99 % of the rest, their range, and how many are as far as this share of it."""
    low, high = np.quantile(rest, [0.005, 0.995]).tolist()
    limit = share * (high - low)
    if code < low:
        return low - code, high - low, int((rest < low - limit).sum())
    return code - high, high - low, int((rest > high + limit).sum())


def _comes_and_goes(values: np.ndarray, code: float, station: np.ndarray) -> bool:
    """Whether a code is a mark, not a fault: at two stations or more, or in several runs; never all that a station reads."""
    place = np.broadcast_to(station, values.shape)
    here = values == code
    marked, other = (np.bincount(place[cells], minlength=int(place.max()) + 1) for cells in (here, np.isfinite(values) & ~here))
    mixed = np.flatnonzero((marked > 0) & (other > 0))
    if len(mixed) != 1:
        return len(mixed) > 1
    own = here[place == mixed[0]]
    return int((own[1:] & ~own[:-1]).sum()) + int(own[0]) >= RUNS
