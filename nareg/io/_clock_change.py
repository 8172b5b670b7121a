"""The hour that local time repeats when daylight saving ends: readings an hour apart have one label."""

from __future__ import annotations

import numpy as np

from nareg.errors import InputError
from nareg.io._notes import Notes

#: One zone for each rule of the day and the hour of the change.
ZONES = (
    "Europe/Paris", "Europe/London", "Europe/Helsinki", "America/New_York", "Australia/Sydney", "Pacific/Auckland",
    "America/Santiago", "America/Havana", "Atlantic/Azores",
)  # fmt: skip
#: Share of the labels of the hour that must be there twice.
TWICE = 0.5
#: Rows behind the hour that show the step; nanoseconds by which the step to them is shorter, at most, in the second pass.
STEPS, HALF_HOUR = 50, 30 * 60 * 10**9


def in_standard_time(
    stamps: np.ndarray, series: np.ndarray, values: np.ndarray, labels: np.ndarray, notes: Notes
) -> np.ndarray | None:
    """Standard time of rows that repeat the hour in which daylight saving ends, with a note; None where none do.

    Parameters
    ----------
    stamps : (R,) datetime64[ns] array
        Local times without a zone, in the order of the table.
    series : (R,) int array
        Station of every row; zeros where a row has all stations.
    values : (R, C) array
        Readings. Rows that are the same in full are copies, not another hour.
    labels : (R,) array of str
        The times as the table has them.
    notes : Notes
        Receives what was found.
    """
    import pandas as pd

    if not (stamps - stamps.astype("datetime64[D]")).any():  # days and months have no hour
        return None
    near = _near_change(stamps)
    twice = _repeated(stamps[near], series[near])
    if not twice.size:
        return None
    best: tuple[int, np.ndarray, np.ndarray] | None = None
    for zone in ZONES:
        try:
            if not pd.DatetimeIndex(twice).tz_localize(zone, ambiguous="NaT", nonexistent="NaT").hasnans:
                continue
            index = pd.DatetimeIndex(stamps)
            hour = np.asarray(index.tz_localize(zone, ambiguous="NaT").isna())
            second = _second_pass(stamps, series, values, hour)
            utc = index.tz_localize(zone, ambiguous=~second).tz_convert("UTC").tz_localize(None)
        except (KeyError, ValueError):  # no such zone on this machine, or a time that the zone does not have
            continue
        if second.any() and (best is None or second.sum() > best[0]):
            moved = utc.as_unit("ns").to_numpy()
            best = int(second.sum()), moved + (stamps - moved).min(), second
    if best is None:
        return None
    first = labels[np.flatnonzero(best[2])[0]]
    notes.guess(
        f"{first!r} is there twice, where the clocks go back at the end of daylight saving: both rows are kept, and all times "
        "are taken in standard time",
        "write the times in UTC",
    )
    return best[1]


def known_zone(zone: str) -> None:
    """Raise an error for a zone that there is not."""
    import pandas as pd

    try:
        pd.Timestamp(0).tz_localize(zone)
    except (KeyError, ValueError):
        raise _unknown(zone) from None


def is_of_zone(name: str, offset: str, zone: str) -> bool:
    """Whether a name, as CET, is one of a ``zone``'s own in winter or summer; or the zone has this offset all year."""
    import pandas as pd

    times = [pd.Timestamp(2024, month, 1).tz_localize(zone) for month in (1, 7)]
    return name in {time.tzname() for time in times} or {time.utcoffset() for time in times} == {
        pd.Timestamp(f"2024-01-01 00:00{offset}").utcoffset()
    }


def _unknown(zone: str) -> InputError:
    return InputError(f"zone is {zone!r}, which is not known: pass a name such as 'Europe/Brussels', or '+01:00'.")


def in_utc(
    stamps: np.ndarray, series: np.ndarray, values: np.ndarray, labels: np.ndarray, notes: Notes, zone: str
) -> np.ndarray:
    """UTC of local times of a zone, named as ``Europe/Brussels`` or ``+01:00``; arguments as of :func:`in_standard_time`."""
    import pandas as pd

    index = pd.DatetimeIndex(stamps)
    try:
        absent = np.asarray(index.tz_localize(zone, ambiguous=np.ones(len(index), dtype=bool), nonexistent="NaT").isna())
        hour = np.asarray(index.tz_localize(zone, ambiguous="NaT", nonexistent="shift_forward").isna())
    except (KeyError, ValueError):
        raise _unknown(zone) from None
    if absent.any():
        lost = str(stamps[np.flatnonzero(absent)[0]])[:16].replace("T", " ")
        raise InputError(
            f"zone is {zone!r}, in which {lost} does not exist, when the clocks go forward: the times have no daylight saving; "
            "pass an offset such as '+01:00'."
        )
    second = _second_pass(stamps, series, values, hour)
    begin = _begin_in_second(stamps, series, hour & ~second)
    if begin.any():
        notes.guess(
            f"{labels[np.flatnonzero(begin)[0]]!r} may be before or after the clocks go back: it is taken for the time after, "
            "as the next reading follows then",
            "write the times in UTC",
        )
    utc = index.tz_localize(zone, ambiguous=~(second | begin)).tz_convert("UTC").tz_localize(None)
    return np.asarray(utc.as_unit("ns").to_numpy())


def _near_change(stamps: np.ndarray) -> np.ndarray:
    """Rows (R,) between 11 pm on a Saturday and 4 am on a Sunday: when clocks are changed."""
    hours = stamps.astype("datetime64[h]").astype(np.int64)
    of_week = (hours + 4 * 24 + 1) % (7 * 24)  # 1970 began on a Thursday
    return of_week < 5


def _repeated(stamps: np.ndarray, series: np.ndarray) -> np.ndarray:
    """Times that a series has more than once."""
    order = np.lexsort((stamps, series))
    same = (stamps[order][1:] == stamps[order][:-1]) & (series[order][1:] == series[order][:-1])
    return np.unique(stamps[order][1:][same])


def _begin_in_second(stamps: np.ndarray, series: np.ndarray, hour: np.ndarray) -> np.ndarray:
    """First rows (R,) of series that begin in the repeated ``hour``, where the row behind it follows the second pass."""
    if stamps[-1] < stamps[0]:
        return _begin_in_second(stamps[::-1], series[::-1], hour[::-1])[::-1]
    begin = np.zeros(len(stamps), dtype=bool)
    which, first = np.unique(series, return_index=True)
    for one in which[hour[first]]:
        own = np.flatnonzero(series == one)
        behind = int(np.argmin(hour[own]))
        steps = np.diff(stamps[own[: behind + STEPS]])
        if not hour[own].all() and len(steps) > behind and (steps[:behind] > np.timedelta64(0)).all():
            begin[own[:behind]] = np.median(steps.astype(np.int64)) - steps[behind - 1].astype(np.int64) < HALF_HOUR
    return begin


def _second_pass(stamps: np.ndarray, series: np.ndarray, values: np.ndarray, hour: np.ndarray) -> np.ndarray:
    """Rows (R,) of the second pass through the repeated ``hour``, where it is there twice, in order, with other readings."""
    if stamps[-1] < stamps[0]:  # the newest row is the first
        return _second_pass(stamps[::-1], series[::-1], values[::-1], hour[::-1])[::-1]
    second = np.zeros(len(stamps), dtype=bool)
    rows = np.flatnonzero(hour)
    first_rows = {*np.unique(series, return_index=True)[1].tolist()}
    last_rows = {*(len(series) - 1 - np.unique(series[::-1], return_index=True)[1]).tolist()}
    day = stamps.astype("datetime64[D]")
    for here in (rows[day[rows] == date] for date in np.unique(day[rows])):
        again: list[int] = []
        pairs: list[tuple[int, int]] = []
        labels = 0
        for own in (here[series[here] == one] for one in np.unique(series[here])):
            times = stamps[own]
            back = np.flatnonzero(times[1:] <= times[:-1]) + 1
            place = np.arange(len(own))
            if len(back) == 1:
                passes = place >= back[0]
            else:  # sorted, each label twice; or anything else
                sorted_pairs = len(back) > 1 and len(own) % 2 == 0 and bool((times[::2] == times[1::2]).all())
                passes = (place % 2 == 1) & sorted_pairs
            first = {time: i for time, i in zip(times[~passes], own[~passes], strict=True)}
            pairs += [(first[time], int(i)) for time, i in zip(times[passes], own[passes], strict=True) if time in first]
            again += own[passes].tolist()
            both = np.unique(times)
            if len(back) == 1:  # a record that begins or ends in the hour has fewer labels twice
                both = both[both >= times[0]] if int(own[0]) in first_rows else both
                both = both[both <= times[-1]] if int(own[-1]) in last_rows else both
            labels += len(both)
        differ = any(not np.array_equal(values[i], values[k], equal_nan=True) for i, k in pairs)
        if differ and len(pairs) >= TWICE * labels:
            second[again] = True
    return second
