"""Times of the readings, put on a regular grid of steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from nareg._core.arrays import MONTH, calendar_months, in_calendar, month_of, since
from nareg.errors import InputError, TooLargeError

#: One time: a date, or a number.
Time: TypeAlias = str | float | np.datetime64
#: A grid may be finer than the median step by this factor, so that irregular times fall on it.
FINEST = 8
#: Times are off the grid by at most this share of the median step, or the grid gets finer.
OFF_GRID = 0.02
#: The grid may have this many times as many rows as there are readings' times, or this many rows in all.
MAX_ROWS, FEW_ROWS = 20, 20_000
#: Longest jump in time, in steps: the state then has long returned to its mean.
LONGEST_JUMP = 100_000
#: Largest time that is a number: differences of larger ones overflow.
LARGEST = 1e300
#: Whole years that nanoseconds since 1970 reach.
FIRST_YEAR, LAST_YEAR = np.datetime64("1678"), np.datetime64("2261")
#: How a date begins; NumPy also takes "20240501" or "17", as years.
ISO = re.compile(r"\d{4}-\d\d|NaT")


@dataclass(frozen=True)
class TimeGrid:
    """A regular grid: ``start + step * k``; seconds for dates, the unit of the user's numbers otherwise.

    A step of whole :data:`~nareg._core.arrays.MONTH` stands for calendar months, which are equal steps to the model.
    """

    start: Any  # float or datetime64
    step: float
    dated: bool  # whether times are dates
    rows: np.ndarray  # (T,) row of the grid that each of the user's times falls on
    length: int  # rows of the grid
    values: np.ndarray  # (T,) the user's times

    @property
    def seconds(self) -> np.ndarray:
        """Time of every row of the grid, as :meth:`seconds_of`."""
        return self.seconds_of(np.arange(self.length))

    def on_rows(self, values: np.ndarray) -> np.ndarray:
        """Values (T, N) at the user's times as (rows, N), NaN elsewhere."""
        rows = np.full((self.length, values.shape[1]), np.nan)
        rows[self.rows] = values
        return rows

    def seconds_of(self, rows: np.ndarray) -> np.ndarray:
        """Time of rows of the grid since 1970 in seconds, or in the user's numbers; of months as if all were equally long."""
        if self.months:  # a month has one time, wherever a grid begins
            return float(MONTH) * (month_of(self.start).astype(int) + self.months * np.asarray(rows, dtype=float))
        start = float(since(self.start, np.datetime64(0, "s"))) if self.dated else float(self.start)
        return start + self.step * np.asarray(rows, dtype=float)

    @property
    def months(self) -> int:
        """Calendar months of a step, 0 where all steps are equally long."""
        months = round(self.step / MONTH) if self.dated else 0
        return months if months and self.step == months * MONTH else 0

    def time_of(self, row: int) -> np.datetime64 | float:
        """Time of one row of the grid."""
        if self.months:
            return in_calendar(self.start, np.array([row * self.months]))[0]
        return self.start + np.timedelta64(round(self.step * row * 1e9), "ns") if self.dated else self.start + self.step * row

    def row_of(self, times: np.ndarray) -> np.ndarray:
        """Rows (not rounded) of other times."""
        if self.months:
            number = (np.asarray(times).astype("datetime64[M]") - self.start.astype("datetime64[M]")).astype(np.int64)
            around = np.arange(number.min() - 1, number.max() + 3)
            seconds, known = (since(each, self.start) for each in (times, in_calendar(self.start, around)))
            return np.interp(seconds, known, around) / self.months
        return _since(times, self.start, self.dated) / self.step


def _since(times: np.ndarray, start: Any, dated: bool) -> np.ndarray:
    """Seconds, or the user's unit, from the start on."""
    return since(times, start) if dated else np.asarray(np.asarray(times, dtype=float) - start, dtype=float)


def checked(times: ArrayLike | Sequence[Time] | None, n_times: int) -> np.ndarray:
    """Times as (T,) datetime64[ns] or float64, strictly increasing; None is 0, 1, 2, ..."""
    if times is None:
        return np.arange(n_times, dtype=float)
    values = np.asarray(times)
    if values.shape != (n_times,):
        raise InputError(f"times has shape {values.shape} but readings has {n_times} columns: pass one time per column.")
    if values.dtype.kind in "OU":
        values = _dates(values)
    if values.dtype.kind == "M":
        given, values = values, values.astype("datetime64[ns]")
        bad = np.isnat(values)
        far = ~bad & ((given.astype("datetime64[Y]") < FIRST_YEAR) | (given.astype("datetime64[Y]") > LAST_YEAR))
        if far.any():  # nanoseconds since 1970 would overflow, into another century
            i = int(np.flatnonzero(far)[0])
            raise InputError(f"times[{i}] is {given[i]}, outside the years 1678 to 2261: check the unit of time.")
    elif values.dtype.kind in "iuf":
        values = values.astype(float)
        bad = ~np.isfinite(values)
        far = ~bad & (np.abs(values) > LARGEST)
        if far.any():
            raise InputError(f"times[{int(np.flatnonzero(far)[0])}] is {values[far][0]:g}: divide times by a constant.")
    else:
        raise InputError(f"times has dtype {values.dtype}: pass datetime64 values, ISO texts or numbers.")
    if bad.any():
        raise InputError(f"times[{int(np.flatnonzero(bad)[0])}] is {values[bad][0]}: give every column a time.")
    rises = values[1:] > values[:-1]
    if not rises.all():
        i = int(np.flatnonzero(~rises)[0])
        word = "repeats" if values[i + 1] == values[i] else "is before"
        raise InputError(
            f"times[{i + 1}] = {values[i + 1]} {word} times[{i}] = {values[i]}: sort the columns by time and merge duplicates."
        )
    return values


def _dates(values: np.ndarray) -> np.ndarray:
    texts = [value.isoformat() if hasattr(value, "isoformat") else str(value) for value in values]
    if any(text.endswith("Z") or "+" in text[10:] or "-" in text[10:] for text in texts):
        raise InputError("times have a time zone: convert them to UTC without one, or read the file with nareg.io.")
    odd = next((text for text in texts if not ISO.match(text)), None)
    try:
        dates = np.array(texts, dtype="datetime64") if odd is None else None
    except ValueError:
        dates = None
    if dates is None:
        shown = texts[0] if odd is None else odd
        raise InputError(f"times holds {shown!r}, which is not an ISO date or a number: pass datetime64 values or numbers.")
    return dates


def grid(times: np.ndarray) -> TimeGrid:
    """The coarsest regular grid that the times fall on, up to 2 % of their median step, or of calendar months."""
    dated = times.dtype.kind == "M"
    if times.size == 1:
        return TimeGrid(times[0], 1.0, dated, np.zeros(1, dtype=int), 1, times)
    since = _since(times, times[0], dated)
    if dated and (by_month := _by_month(times)) is not None:
        return by_month
    median = float(np.median(np.diff(since)))
    _refuse_endless(since, median, dated)
    for finer in range(1, FINEST + 1):
        for step in (median / finer, _regressed(since, median / finer)):
            rows = np.rint(since / step).astype(np.int64)
            distinct = (np.diff(rows) > 0).all()
            on_grid = distinct and np.abs(since / step - rows).max() <= OFF_GRID * finer
            if on_grid:
                break
        if on_grid:
            break
    while not distinct:  # times closer together than the grid: refine until each has a row of its own
        finer *= 2
        step = median / finer
        rows = np.rint(since / step).astype(np.int64)
        distinct = (np.diff(rows) > 0).all()
        if rows[-1] + 1 > max(MAX_ROWS * times.size, FEW_ROWS):
            break
    length = int(rows[-1]) + 1
    if length > max(MAX_ROWS * times.size, FEW_ROWS):
        raise TooLargeError(
            f"times span {length} steps of {step:g}{' s' if dated else ''} for {times.size} readings: "
            "fit the dense parts one by one, or round the times."
        )
    return TimeGrid(times[0], step, dated, rows, length, times)


def _by_month(times: np.ndarray) -> TimeGrid | None:
    """The grid of times that are calendar months apart, such as the first or the last day of each."""
    number = calendar_months(times)
    if number is None:
        return None
    each = int(np.gcd.reduce(np.diff(number)))
    rows = (number - number[0]) // each
    return TimeGrid(times[0], each * MONTH, True, rows, int(rows[-1]) + 1, times)


def _refuse_endless(since: np.ndarray, step: float, dated: bool) -> None:
    """Refuse a span of so many steps that they have no exact numbers."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        steps = since[-1] / np.float64(step)
    if not steps < 2**53 / FINEST:
        raise TooLargeError(
            f"times span {since[-1]:g} with steps of {step:g}{' s' if dated else ''}: fit the dense parts one by one."
        )


def _regressed(since: np.ndarray, step: float) -> float:
    """The step of times that jitter: their median step is off by a little, which adds up over a long record."""
    rows = np.concatenate([[0.0], np.cumsum(np.maximum(np.rint(np.diff(since) / step), 1.0))])
    return float(rows @ since / (rows @ rows))


def on_steps(times: np.ndarray, step: float) -> TimeGrid:
    """Other times on a grid whose step is known; times nearer than half a step are refused."""
    dated = times.dtype.kind == "M"
    _refuse_endless(_since(times, times[0], dated), step, dated)
    rows = np.rint(TimeGrid(times[0], step, dated, np.zeros(0), 0, times).row_of(times)).astype(np.int64)
    if (np.diff(rows) <= 0).any():
        i = int(np.flatnonzero(np.diff(rows) <= 0)[0])
        raise InputError(
            f"times[{i}] = {times[i]} and times[{i + 1}] = {times[i + 1]} fall into one step of the model, "
            f"{step:g}{' s' if dated else ''}: merge them, or fit a model to these times."
        )
    length = int(rows[-1]) + 1
    if length > max(MAX_ROWS * times.size, FEW_ROWS):
        raise TooLargeError(f"times span {length} steps for {times.size} readings: smooth the dense parts one by one.")
    return TimeGrid(times[0], step, dated, rows, length, times)
