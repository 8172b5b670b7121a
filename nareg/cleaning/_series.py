"""Tables of what all stations share over time, such as a reanalysis: ``nareg clean --with``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nareg import io
from nareg.cleaning._words import plural
from nareg.errors import InputError
from nareg.io import Readings, Recipe, SeveralQuantities
from nareg.spacetime import LONGEST, straight

#: Columns that are series at most: more are stations.
MOST = 20
#: Times that a comparison of shifts needs.
FEWEST = 100
#: A series whose step is more than so many of the readings' is said to be coarse.
COARSE = 3
#: Hours by which times of another zone may be off; the last are only there to be worse than those between.
SHIFTS = range(-3, 4)
#: A shift is better where changes of the shifted series have this correlation with the readings', and leave less of them.
ALIKE, BETTER = 0.4, 0.9


def read_series(sources: Sequence[Any], readings: Readings, recipe: Recipe | None) -> tuple[dict[str, np.ndarray], list[str]]:
    """Series (1, T) at the times of readings, from tables with a column for each, and notes on what was guessed.

    Between the times of a series it is a straight line, and it goes on for one of its steps.
    """
    result: dict[str, np.ndarray] = {}
    notes: list[str] = []
    for source in sources:
        named = str(source) if isinstance(source, (str, os.PathLike)) else "the table of series"
        table = _table(source, recipe)
        own, times = table.timestamps, readings.timestamps
        if own is None or times is None or own.dtype.kind != times.dtype.kind:
            raise InputError(f"{named} and the readings have times of two kinds: give both dates, or both numbers.")
        same = sorted(set(table.names) & set(readings.names))
        if same or len(table.names) > MOST:
            raise InputError(
                f"{named} has {f'the station {same[0]!r}' if same else f'{len(table.names)} columns'}: a series is one column "
                f"that all stations share, and at most {MOST} can be followed. Add further stations to the readings."
            )
        own, times = own.astype(float), times.astype(float)
        slack = float(np.median(np.diff(own))) if len(own) > 1 else 0.0
        notes += table.notes
        if len(own) > 1 and len(times) > 1 and slack > COARSE * float(np.median(np.diff(times))):
            notes.append(f"{named} is coarser than the readings: between its times it is a straight line.")
        # of one place the name is the column's, where the table is named by its file
        names = (table.quantity,) if len(table.names) == 1 and table.quantity else table.names
        for name, row in zip(names, table.values, strict=True):
            known = np.flatnonzero(np.isfinite(row))
            if name in result:
                raise InputError(f"{named}: there is another series {name!r}: rename one.")
            if not known.size:
                raise InputError(f"{named}: {name!r} has no value: leave the column out.")
            there = np.flatnonzero((times >= own[known[0]] - slack) & (times <= own[known[-1]] + slack))
            if there.size < len(times):
                raise InputError(_too_short(named, name, [table.times[k] for k in known[[0, -1]]], readings, there))
            result[name] = straight(f"{named}: {name!r}", row, own, times, table.times, LONGEST * slack)[None]
            notes += [f"{named}: {name!r} {said}" for said in _shifted(readings, own[known], row[known])]
    return result, notes


def _shifted(readings: Readings, own: np.ndarray, values: np.ndarray) -> list[str]:
    """What is said of a series whose values look as if their times were of another zone."""
    assert readings.timestamps is not None
    if readings.timestamps.dtype.kind != "M" or len(readings.times) < FEWEST:
        return []
    hour = float(np.timedelta64(1, "h").astype(readings.timestamps.dtype.str.replace("M", "m")).astype(int))
    times, seen = readings.timestamps.astype(float), readings.observed
    if np.median(np.diff(times)) > hour:
        return []
    several = seen.sum(axis=1) > 0
    apart = readings.values[several] - np.nanmedian(readings.values[several], axis=1, keepdims=True)
    there = seen.any(axis=0)
    network = np.nanmedian(apart[:, there], axis=0)
    inside = times[there][(times[there] >= own[0] + 3 * hour) & (times[there] <= own[-1] - 4 * hour)]

    def changes(at: np.ndarray, of: np.ndarray, shift: int = 0) -> np.ndarray:
        result: np.ndarray = np.diff([np.interp(inside + k * hour, at, of) for k in (shift, shift + 1)], axis=0)[0]
        return result

    ours = changes(times[there], network)
    theirs = [changes(own, values, shift) for shift in SHIFTS]
    if len(ours) < FEWEST or not all(part.std() > 0 for part in (ours, *theirs)):
        return []
    alike = np.array([abs(np.corrcoef(ours, part)[0, 1]) for part in theirs])
    best, now = int(np.argmax(alike)), SHIFTS.index(0)
    left = 1 - alike**2
    if best in (0, now, len(SHIFTS) - 1) or alike[best] < ALIKE or left[best] > BETTER * left[now]:
        return []
    by = f"{plural(abs(SHIFTS[best]), 'hour')} {'earlier' if best > now else 'later'}"
    return [
        f"goes with the readings better where its times are {by}: its hourly changes have a correlation of {alike[best]:.2f} "
        f"with theirs, not {alike[now]:.2f}. Check its time zone, unless one follows the other."
    ]


def _too_short(named: str, name: str, ends: list[str], readings: Readings, there: np.ndarray) -> str:
    """What to do about a series that has values between two ends, at ``there`` of the times of readings."""
    first, last = (readings.times[k] for k in (0, -1))
    remedy = "pass a series of their times"
    if there.size:
        begin, end = (readings.times[t] for t in there[[0, -1]])
        some = f"{there.size:,} of {len(readings.times):,} times from {begin} to {end}"
        remedy = f"pass a longer series, or cut the readings to the {some}"
    return f"{named}: {name!r} has values from {ends[0]} to {ends[1]}, and the readings go from {first} to {last}: {remedy}."


def _table(source: Any, recipe: Recipe | None) -> Readings:
    own = Recipe() if recipe is None else Recipe(missing=recipe.missing, zone=recipe.zone, decimal=recipe.decimal)

    def of(zone: str | None) -> Readings:
        try:
            return io.read_shared(source, None, replace(own, zone=zone))
        except SeveralQuantities as several:  # of one place
            return io.read_shared(source, several.names, replace(own, zone=zone))

    table = of(None)  # times may have offsets of their own, such as a reanalysis in UTC beside local readings
    return table if own.zone is None or table.zone is not None else of(own.zone)
