"""Tables of what stations follow over time, such as a reanalysis: ``nareg clean --with``."""

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


def read_series(sources: Sequence[Any], readings: Readings, recipe: Recipe) -> tuple[dict[str, np.ndarray], list[str]]:
    """Series at the times of readings, and notes on what was guessed.

    A table with a column for each has series that all stations share, (1, T). One whose columns, or names in a column, are
    the stations' has one series with a row per station, (N, T). Between its times a series is a straight line, and it goes
    on for one of its steps.
    """
    result: dict[str, np.ndarray] = {}
    notes: list[str] = []
    for source, table in [(each, table) for each in sources for table in _tables(each, recipe, readings.names)]:
        named = _named(source)
        own, times = table.timestamps, readings.timestamps
        if own is None or times is None or own.dtype.kind != times.dtype.kind:
            raise InputError(f"{named} and the readings have times of two kinds: give both dates, or both numbers.")
        groups, said = _groups(named, table, readings.names)
        if "" in groups:  # tomorrow's file may have another name: the place among the tables says which it is
            groups = {f"series {len(result) + 1}" if result else "series": groups[""]}
        own, times = own.astype(float), times.astype(float)
        slack = float(np.median(np.diff(own))) if len(own) > 1 else 0.0
        notes += [*table.notes, *said]
        if len(own) > 1 and len(times) > 1 and slack > COARSE * float(np.median(np.diff(times))):
            notes.append(f"{named} is coarser than the readings: between its times it is a straight line.")
        for name, rows in groups.items():
            if name in result:
                raise InputError(f"{named}: there is another series {name!r}: rename one.")
            lines = []
            for station, row in zip(readings.names if len(rows) > 1 else ("",), rows, strict=True):
                what = f"{named}: {name!r}" + (f" of the station {station!r}" if station else "")
                known = np.flatnonzero(np.isfinite(row))
                if not known.size:
                    raise InputError(
                        f"{what} has no value: {'fill it in, or leave the series' if station else 'leave the column'} out."
                    )
                there = np.flatnonzero((times >= own[known[0]] - slack) & (times <= own[known[-1]] + slack))
                if there.size < len(times):
                    raise InputError(_too_short(what, [table.times[k] for k in known[[0, -1]]], readings, there))
                lines.append(straight(what, row, own, times, table.times, LONGEST * slack))
            result[name], mean = np.array(lines), rows.mean(axis=0)
            still = [station for station, line in zip(readings.names, result[name], strict=False) if not np.ptp(line)]
            if 0 < len(still) < len(lines):
                notes.append(
                    f"{named}: {name!r} has one value at all times at {plural(len(still), 'station')}, such as {still[0]!r}, "
                    "where it misleads the estimate if that is no value: fill it in."
                )
            known = np.flatnonzero(np.isfinite(mean))
            notes += [f"{named}: {name!r} {said}" for said in _shifted(readings, own[known], mean[known]) if known.size]
    return result, notes


def _named(source: Any) -> str:
    return str(source) if isinstance(source, (str, os.PathLike)) else "the table of series"


def _groups(named: str, table: Readings, stations: Sequence[str]) -> tuple[dict[str, np.ndarray], list[str]]:
    """Series of a table by name, (1, T), or (N, T) where its columns are the stations, and a note on those left out."""
    rows = dict(zip(table.names, table.values, strict=True))
    absent = [station for station in stations if station not in rows]
    spelled = {name.casefold(): name for name in rows}
    for station in absent:
        if station.casefold() in spelled:
            raise InputError(
                f"{named} has {spelled[station.casefold()]!r}, and the readings {station!r}: write the names of stations alike."
            )
    # of one place the name is the column's, where the table is named by its file
    if len(absent) == len(stations):
        if len(rows) > MOST:
            raise InputError(
                f"{named} has {len(rows)} columns, none of them a station's: at most {MOST} series that all stations share can "
                "be followed. Name the columns like the stations for a series at each."
            )
        names = (table.quantity,) if len(rows) == 1 and table.quantity else table.names
        return {name: row[None] for name, row in zip(names, rows.values(), strict=True)}, []
    if absent:
        raise InputError(
            f"{named} has values of {len(stations) - len(absent)} of {len(stations)} stations, but none of {absent[0]!r}: pass "
            "values of every station, or give columns of what all stations share other names than theirs."
        )
    further = len(rows) - len(stations)
    said = [f"{named}: {plural(further, 'column')} of no station left out."] if further else []
    return {table.quantity or "": np.array([rows[station] for station in stations])}, said


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
        return np.diff([np.interp(inside + k * hour, at, of) for k in (shift, shift + 1)], axis=0)[0]

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


def _too_short(what: str, ends: list[str], readings: Readings, there: np.ndarray) -> str:
    """What to do about a series that has values between two ends, at ``there`` of the times of readings."""
    first, last = (readings.times[k] for k in (0, -1))
    remedy = "pass a series of their times"
    if there.size:
        begin, end = (readings.times[t] for t in there[[0, -1]])
        some = f"{there.size:,} of {len(readings.times):,} times from {begin} to {end}"
        remedy = f"pass a longer series, or cut the readings to the {some}"
    return f"{what} has values from {ends[0]} to {ends[1]}, and the readings go from {first} to {last}: {remedy}."


def _tables(source: Any, recipe: Recipe, stations: Sequence[str]) -> list[Readings]:
    """A table, or one per quantity where stations of the readings have several."""
    own = Recipe(recipe.station, missing=recipe.missing, zone=recipe.zone, decimal=recipe.decimal)

    def of(zone: str | None) -> list[Readings]:
        wanted = replace(own, zone=zone)
        try:
            return [io.read_shared(source, None, wanted)]
        except SeveralQuantities as several:
            each = [io.read_shared(source, None, replace(wanted, value=name)) for name in several.names]
            places = each[0].names
            if set(places) & set(stations):
                return each
            if len(places) > 1:  # as columns they would be means over the places
                raise InputError(
                    f"{_named(source)} has {', '.join(several.names)} at {len(places)} places, such as {places[0]!r}, none of "
                    f"them a station of the readings: name them like the stations, such as {stations[0]!r}."
                ) from None
            return [io.read_shared(source, several.names, replace(wanted, station=()))]

    tables = of(None)  # times may have offsets of their own, such as a reanalysis in UTC beside local readings
    return tables if own.zone is None or tables[0].zone is not None else of(own.zone)
