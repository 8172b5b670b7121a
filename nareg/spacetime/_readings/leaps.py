"""Readings that leave those before and after at once: faults that show without a model.

A quantity is calm at times and rough at others, so that a leap is measured by the steps around it. One that returns within a
few readings is the sensor's: what a model with heavy-tailed steps takes for the field's. One that stays may be the field's, and
has to be larger.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from nareg.spacetime._readings.outliers import ABRUPT, limit_of, shared
from nareg.spacetime._readings.repeats import intermittent, remembered

#: Steps on each side that a leap is measured by.
AROUND = 12
#: Readings that a leap which returns lasts, at most.
LONGEST = 4
#: Share of the largest leaps that may be faults, and say nothing of usual ones.
FAULTS = 0.05
#: Times from which on each station tells what is usual for it.
LONG = 500
#: A leap that stays is so many times as large as chance makes one.
STAYS = 2.0
#: Changes of level are a station's way, as below a gate, where so many are at least half as large.
OFTEN = 5


@remembered
def leaps(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(T, N) True for readings of leaps that return, and for the first reading after a leap that stays; never at rest."""
    returns, stays = np.zeros((2, *y.shape))
    if intermittent(y):
        return returns > 0, stays > 0
    for i, column in enumerate(y.T):
        rows = np.flatnonzero(np.isfinite(column))
        if rows.size <= 2 * AROUND:
            continue
        values = column[rows]
        steps = np.diff(values)
        changes = np.abs(steps[steps != 0])
        if changes.size == 0:
            continue
        apart = values - medians(values)
        total, floor = np.append(0.0, np.cumsum(np.abs(steps))), float(np.median(changes))
        for width in range(LONGEST, -1, -1):
            first = np.arange(1, values.size - width)
            height = _leap(values, first, width)
            score = height / (_around(total, first, width) + floor)
            if width == 0:
                near = rows[first] - rows[first - 1] == 1  # after a gap the quantity may be anywhere
                stays[rows[first], i] = np.where(near, score, 0.0)
                continue
            for k in range(width):
                at = (rows[first + k], i)
                off = np.sign(height) * apart[first + k] >= ABRUPT * np.abs(height)  # a reading between two leaps is not
                returns[at] = np.where(off & (np.abs(score) > np.abs(returns[at])), score, returns[at])
    back, stay = _beyond(returns, y), _beyond(stays, y, STAYS)
    return back, stay & ~back & ~np.vstack([np.zeros_like(back[:1]), back[:-1]])


def edges(y: np.ndarray) -> np.ndarray:
    """(T, N) True for first readings of another level, where the station often changes it.

    Those around are at one level or the other, by more than half of the change. There are more than :data:`LONGEST` on both
    sides, so that no leap which returns is an edge. On one side they differ by less than half of it: a slope has no edge.
    """
    result, side = np.zeros(y.shape, dtype=bool), LONGEST + 1
    for i, column in enumerate(y.T):
        rows = np.flatnonzero(np.isfinite(column))
        if rows.size < 2 * side:
            continue
        near = sliding_window_view(column[rows], 2 * side)
        before, after = near[:, :side], near[:, side:]
        last, first = before[:, -1:], after[:, :1]
        change = np.abs(first - last)
        apart = np.concatenate([first - before, after - last], axis=1) * np.sign(first - last)
        one, other = np.sort([np.ptp(before, axis=1), np.ptp(after, axis=1)], axis=0)
        level = (one < ABRUPT * change[:, 0]) & (ABRUPT * other < change[:, 0])
        there = (apart > ABRUPT * change).all(axis=1) & level
        sizes = np.sort(change[there, 0])
        many = sizes.size - np.searchsorted(sizes, ABRUPT * change[:, 0]) >= OFTEN
        result[rows[side : 1 - side], i] = there & many
    return result


def medians(values: np.ndarray) -> np.ndarray:
    """The median of each value and those around it, mirrored at the ends."""
    reach = AROUND // 2
    windows = sliding_window_view(np.pad(values, reach, mode="symmetric"), 2 * reach + 1)
    middle: np.ndarray = np.partition(windows, reach, axis=1)[:, reach]
    return middle


def _leap(values: np.ndarray, first: np.ndarray, width: int) -> np.ndarray:
    """By how much all ``width`` readings from ``first`` on are above those on both sides, or below; the step for 0."""
    before, after = values[first - 1], values[first + width]
    if width == 0:
        return after - before
    inside = np.stack([values[first + k] for k in range(width)])
    above, below = inside.min(axis=0) - np.maximum(before, after), inside.max(axis=0) - np.minimum(before, after)
    return np.maximum(above, 0.0) + np.minimum(below, 0.0)


def _around(total: np.ndarray, first: np.ndarray, width: int) -> np.ndarray:
    """Mean size of the steps on both sides of a leap; ``total`` are their cumulative sums."""
    last = total.size - 1
    before, after = np.maximum(first - 1 - AROUND, 0), np.minimum(first + width + AROUND, last)
    count = first - 1 - before + after - (first + width)
    sums = total[first - 1] - total[before] + total[after] - total[np.minimum(first + width, last)]
    return sums / np.maximum(count, 1)


def _beyond(scores: np.ndarray, y: np.ndarray, times: float = 1.0) -> np.ndarray:
    """(T, N) True beyond ``times`` what is usual, which in a short record all stations tell together."""
    usual = np.where(np.isfinite(y), scores, np.nan)
    limit = times * limit_of(usual if len(y) >= LONG else usual.reshape(-1, 1), FAULTS)
    return (np.abs(scores) > limit) & ~shared(scores, limit)
