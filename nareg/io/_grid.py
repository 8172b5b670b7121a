"""Readings on a common step of time, where times jitter around its steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from nareg._core.arrays import MONTH
from nareg.errors import InputError
from nareg.io._counts import IN_STEP
from nareg.io._directions import merged
from nareg.io._notes import count
from nareg.io._tables import Readings

#: Steps that networks have, seconds; a usual gap between readings within this share of one is it.
STEPS = (
    1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 300, 360, 600, 720, 900, 1_200, 1_800, 3_600, 7_200, 10_800, 14_400, 21_600, 28_800,
    43_200, 86_400,
)  # fmt: skip
NEAR = 0.15
#: Share of the gaps that are within WHOLE of a step that a part of the record has. Few readings share such a step, and more of
#: them are within WHOLE of it than of times that are any. The usual time is between two steps where less than this share of
#: the gaps that are near the most frequent one are near its own.
MANY, FEW, HALF, BETWEEN = 0.15, 0.03, 0.6, 2 / 3
#: A grid is worth it from so many times fewer times on, and where at most this share of readings shares a step with another.
FEWER, SHARED = 1.5, 0.1
#: A grid begins at whole steps where the readings are within this part of a step of them, and either so many seconds or
#: their own spread: a day's reading at 20:00 is not one of the next midnight. Other beginnings are rounded to this part.
WHOLE, LATE, ROUNDED = 0.25, 900, 1 / 60
#: As many times as steps are on a grid where they jitter: beyond what a model takes for its own grid (part of a step), with
#: this share of them within WHOLE of a step, and hardly two in one.
JITTER, MOST, TWICE = 0.02, 0.95, 0.01
#: Length of the mean of times on a circle of one step from which on they are near each other.
TOGETHER = 0.5


def on_grid(
    readings: Readings, step: str | None = None, names: Iterable[str] = (), kind: str | None = None,
    known: tuple[float, float] | None = None,
) -> Readings:  # fmt: skip
    """Readings on a common step of time.

    Parameters
    ----------
    readings : Readings
        A table with dates.
    step : str, optional
        Such as ``"10min"``, ``"1h"``; ``"none"`` leaves the table as it is. Default: the usual step of the stations, where
        their times jitter around it.
    names : iterable of str
        Of what is read, beside the table's own, such as the file's: they may say that readings are directions.
    kind : str, optional
        What the readings are, such as ``"direction"``. Default: as unit, names and readings say.
    known : (float, float), optional
        Begin, in seconds since 1970, and step of a grid that earlier readings are on: it is the default for times near it.

    Returns
    -------
    Readings
        Each reading at the nearest step, several in one averaged, directions around the circle. Its notes say how far
        readings were moved.

    Raises
    ------
    InputError
        If the step is no time, or the table has no dates.

    Examples
    --------
    >>> times = np.array(["2024-01-01T00:01", "2024-01-01T00:09", "2024-01-01T00:11"], dtype="datetime64[ns]")
    >>> table = Readings(("A", "B"), tuple(map(str, times)), np.array([[1.0, np.nan, 3.0], [np.nan, 2.0, np.nan]]), times)
    >>> on_grid(table, "10min").values
    array([[ 1.,  3.],
           [nan,  2.]])
    """
    if step == "none":
        return readings
    stamps = readings.timestamps
    if stamps is None or stamps.dtype.kind != "M":
        if step in (None, "auto"):
            return readings
        raise InputError(f"step is {step!r}, but the readings have no dates: pass 'none', or times as 2024-01-31 10:00.")
    seconds = stamps.astype("datetime64[ns]").astype(np.int64) / 1e9
    auto = step in (None, "auto")
    near = auto and known is not None and bool(np.mean(_off(seconds, *known) <= WHOLE) >= MOST)
    station, time = np.nonzero(readings.observed)
    usual, part = _usual(seconds, readings.observed) if auto and not near else (None, None)
    sizes = [known[1]] if near and known else [usual, part] if auto else [in_seconds(str(step))]
    for size in filter(None, sizes):
        start = known[0] if near and known else _start(seconds[readings.observed.any(axis=0)], size)
        number = np.floor((seconds - start) / size + 0.5).astype(np.int64)  # what is midway goes to the later step
        first, last = int(number.min()), int(number.max())
        cells = station * (last - first + 1) + number[time] - first
        shared = len(cells) - len(np.unique(cells))
        off = _off(seconds, start, size)
        if near and len(np.unique(number)) == len(number) and off.max() <= JITTER:
            return readings
        most = SHARED if size != part else FEW * float(np.mean(off <= WHOLE) > HALF)
        fewer = len(stamps) >= FEWER * (last - first + 1) and shared <= most * len(cells)
        if not auto or near or fewer or (shared <= TWICE * len(cells) and _jittered(seconds, off, size)):
            break
    else:
        return readings
    shape = (len(readings.names), last - first + 1)
    values, averaged = merged(readings.values[station, time], cells, shape, readings.unit, [*names, readings.quantity], kind)
    grid = (1e9 * (start + size * np.arange(first, last + 1))).round().astype(np.int64).astype("datetime64[ns]")
    labels = tuple(str(t).removesuffix(".000000000") + ("Z" if readings.zone else "") for t in grid)  # in UTC, where known
    moved = float(np.abs(seconds[time] - start - size * number[time]).max())
    counts = readings.counts and readings.counts.less(shared, IN_STEP)
    number_of_each = averaged if shared else None
    gridded = replace(readings, times=labels, values=values, timestamps=grid, counts=counts, averaged=number_of_each)
    if not moved and shape[1] == len(stamps):
        return gridded
    taken = f"{len(stamps):,} times are taken as {shape[1]:,}," if shape[1] < len(stamps) else "Times that jitter are taken"
    note = (
        f"{taken} every {in_words(size)}; readings move by {in_words(moved, one='1 ')} at most"
        + (f", and {count(shared, 'reading', 'readings')} averaged with another of the step" if shared else "")
        + ". --step none keeps every time."
    )
    return replace(gridded, notes=(*readings.notes, note), before=readings if moved else None)


def _usual(seconds: np.ndarray, observed: np.ndarray) -> tuple[float | None, float | None]:
    """Steps that networks have: near the usual time from one reading of a station to its next, and one of a part of the record.

    Where the step changes from 10 to 5 minutes, the usual time may be near one of them, or none. That of a part is the least
    of which the most frequent step is a multiple.
    """
    each = [np.diff(seconds[row]) for row in observed if row.sum() > 1]
    if not each:
        return None, None
    gaps = np.concatenate(each)
    usual = float(np.median(gaps))
    step = min(STEPS, key=lambda one: abs(np.log(usual / one)))
    shares = {one: float(np.mean(np.abs(gaps / one - 1) <= NEAR)) for one in STEPS}
    most = max(STEPS, key=shares.__getitem__)
    parts = (one for one in STEPS if most % one == 0 and np.mean(np.abs(gaps / one - 1) <= WHOLE) >= MANY)
    least = next(parts, None)
    near = float(step) if abs(usual / step - 1) <= NEAR and shares[step] >= BETWEEN * shares[most] else None
    return near, None if least is None or least >= (near or usual) else float(least)


def _off(seconds: np.ndarray, start: float, size: float) -> np.ndarray:
    """How far times are from the nearest step of a grid, as parts of a step."""
    places = (seconds - start) / size
    return np.abs(places - np.rint(places))


def _jittered(seconds: np.ndarray, off: np.ndarray, size: float) -> bool:
    """Whether times are those of a grid, each off by a part of a step of its own, not regular in a way of their own."""
    gaps = np.diff(seconds) / size
    single = gaps[np.rint(gaps) == 1]
    return bool(single.size and np.ptp(single) > JITTER < off.max() and np.mean(off <= WHOLE) >= MOST)


def _start(seconds: np.ndarray, size: float) -> float:
    """Where a grid begins: at whole steps, or where the times are near each other within their step, at their mean there."""
    mean = np.exp(2j * np.pi * (seconds % size) / size).mean()
    begin = float(np.angle(mean)) / (2 * np.pi) * size
    if abs(mean) < TOGETHER:
        return 0.0
    spread = float(np.sqrt(-2 * np.log(min(abs(mean), 1.0)))) / (2 * np.pi) * size
    if abs(begin) <= min(WHOLE * size, max(LATE, spread)):
        return 0.0
    unit = max((one for one in STEPS if one <= ROUNDED * size), default=1)
    return float(unit * np.rint(begin / unit))


def in_seconds(step: str) -> float:
    """A step such as ``10min``."""
    import pandas as pd

    try:
        size = pd.Timedelta(step).total_seconds()
    except ValueError:
        size = 0.0
    if not size > 0:
        raise InputError(f"step is {step!r}: pass a time such as '10min' or '1h', 'none' or 'auto'.")
    return size


def in_words(seconds: float, one: str = "") -> str:
    """A time in words: ``10 minutes``; of a single unit ``minute``, behind ``one``."""
    for size, unit in ((12 * MONTH, "year"), (MONTH, "month"), (86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size and seconds % size == 0:
            return one + unit if seconds == size else f"{seconds / size:,.0f} {unit}s"
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.3g} seconds"
