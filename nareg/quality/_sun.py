"""Sensors in the sun: above the other stations at some hours of the day, by much on some days and by little on others.

The hours count in eighths of a day. What a station reads in each, less what the others say and less its own day's median, is
compared with the other stations' on the same day. A station whose day is larger, as inland, is above by as much every day, and
one that is off at random is so at all hours: a sensor in the sun is unlike all others in both, in mean and in spread.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from nareg._core.arrays import robust_std
from nareg.quality._level import differences
from nareg.quality._others import Others
from nareg.quality._residuals import Residuals
from nareg.quality._results import Fault

DAY, PARTS = 86_400.0, 8
#: Days with readings in each part, and stations that have these.
DAYS, STATIONS = 10, 8
#: The mean is so many times as far above the station's own day as that is below anywhere: a day of larger amplitude, as in a
#: valley, grows on clear days too, and is as far below at night.
SKEWED = 2.0
#: By so many standard deviations of all stations the mean is above theirs, and the logarithm of its spread over days; and the
#: mean is so many of its own standard errors.
ABOVE, WIDER, SURE = 6.0, 2.0, 4.0


@dataclass(frozen=True)
class Sunlit(Fault):
    """Readings that are too large in parts of the day, in the worst by ``excess`` in the mean, in the model's unit."""

    parts: tuple[int, ...]
    excess: float


def sunlit(residuals: Residuals, seen: Others) -> list[Sunlit]:
    """Stations in the sun; none where the model has no daily cycle."""
    grid = residuals.grid
    if "day" not in residuals.model.cycles.names or grid.step > DAY / PARTS:
        return []
    there = np.isfinite(residuals.y) & ~residuals.frozen
    off = np.where(there, differences(residuals, seen, there.any(axis=0)), np.nan)
    days = _by_day(off, parts_of_day(grid.seconds), np.floor(grid.seconds / DAY).astype(int))
    # a day of which few parts are read has no middle
    days = np.where(np.isfinite(days).sum(axis=1, keepdims=True) > PARTS / 2, days, np.nan)
    enough = (np.isfinite(days).sum(axis=0) >= DAYS).all(axis=0)
    if enough.sum() < STATIONS:
        return []
    days = days[:, :, enough]
    with warnings.catch_warnings():  # a station may be silent for a day
        warnings.simplefilter("ignore", RuntimeWarning)
        days = days - np.nanmedian(days, axis=1, keepdims=True)
        days = days - np.nanmedian(days, axis=2, keepdims=True)
    mean, spread = np.nanmean(days, axis=0), np.maximum(np.nanstd(days, axis=0), 1e-9)
    counts = np.isfinite(days).sum(axis=0)
    error = spread / np.sqrt(counts)
    above, wider = _beside(mean, error), _beside(np.log(spread), 1 / np.sqrt(2 * counts))
    odd = (above > ABOVE) & (wider > WIDER) & (mean > SURE * error) & (mean > -SKEWED * mean.min(axis=0))
    result = []
    for k, station in enumerate(map(int, np.flatnonzero(enough))):
        if odd[:, k].any():
            worst = int(np.argmax(np.where(odd[:, k], above[:, k], -np.inf)))
            parts = tuple(np.flatnonzero(odd[:, k]).tolist())
            result.append(Sunlit(station, 0, len(off), float(above[worst, k]), parts, float(mean[worst, k])))
    return result


def parts_of_day(seconds: np.ndarray) -> np.ndarray:
    """Part of the day of every row, by its seconds in UTC."""
    return np.floor((seconds % DAY) / (DAY / PARTS)).astype(int)


def _by_day(off: np.ndarray, part: np.ndarray, day: np.ndarray) -> np.ndarray:
    """(days, parts, N) means of the rows (T, N) in each part of each day, NaN where there are none."""
    sums, counts = np.zeros((2, int(np.ptp(day)) + 1, PARTS, off.shape[1]))
    np.add.at(sums, (day - day.min(), part), np.where(np.isfinite(off), off, 0.0))
    np.add.at(counts, (day - day.min(), part), np.isfinite(off))
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _beside(values: np.ndarray, error: np.ndarray) -> np.ndarray:
    """(parts, N) how far every station is above the median one, in robust standard deviations of all, or their errors."""
    spread = np.maximum([robust_std(row) for row in values], np.median(error, axis=1))
    return (values - np.median(values, axis=1, keepdims=True)) / spread[:, None]
