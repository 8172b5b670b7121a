"""Minima of a function of one positive number, a weight or a scale: every design's one-dimensional searches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Function = Callable[[float], float]


def minimize_between(of_logarithm: Function, low: float, high: float, *, accuracy: float) -> tuple[float, float]:
    """Minimum of a function of a logarithm between two ends, by Brent's bounded method, and the value there."""
    from scipy.optimize import minimize_scalar

    minimum = minimize_scalar(of_logarithm, bounds=(low, high), method="bounded", options={"xatol": accuracy})
    return float(minimum.x), float(minimum.fun)


def minimize_scale(function: Function, low: float, high: float) -> tuple[float, float]:
    """Smallest value of a one-dimensional function on ``[low, high]``, low > 0: grid in log, then golden section."""
    if not high > low:
        return low, function(low)
    grid = np.geomspace(low, high, 61)
    values = [function(s) for s in grid]
    best = int(np.argmin(values))
    left, right = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    at, value = minimize_between(lambda t: function(float(np.exp(t))), np.log(left), np.log(right), accuracy=1e-6)
    return (float(np.exp(at)), value) if value < values[best] else (float(grid[best]), values[best])


def minimize_widely(function: Callable[[float], float], low: float, high: float) -> tuple[float, float, bool]:
    """:func:`minimize_scale` of a function of the size of a weight, further out while that pays.

    Also whether the minimum lies at an end: it was looked for until three decades lowered the value by less than 1e-9 of
    it, or until 1e-30 of the first lower end and 1e12 of the first upper one.
    """
    first, last = low * 1e-30, high * 1e12
    at, value = minimize_scale(function, low, high)
    while at <= 1.01 * low or at >= high / 1.01:
        down = at <= 1.01 * low
        if (down and low <= first) or (not down and high >= last):
            return at, value, True
        low, high = (low * 1e-3, low) if down else (high, high * 1e3)
        further, lower = minimize_scale(function, low, high)
        if not lower < value - 1e-9 * abs(value):
            return at, value, True
        at, value = further, lower
    return at, value, False


def descend_in_steps(
    of_logarithm: Function, start: float, low: float, high: float, *, accuracy: float, both_ways: bool = True
) -> float:
    """Logarithm at the first minimum downhill from ``start``, upwards only unless ``both_ways``.

    In steps of a factor of two until the value rises: large weights are the costly ones, and are met only if they pay.
    """
    step = float(np.log(2.0))
    at, value = start, of_logarithm(start)
    following = min(at + step, high)
    ahead = of_logarithm(following) if following != at else np.inf
    if both_ways and ahead > value:
        step = -step
        following = max(at + step, low)
        ahead = of_logarithm(following)
    while ahead < value:
        at, value = following, ahead
        following = min(max(at + step, low), high)
        if following == at:
            break
        ahead = of_logarithm(following)
    best, smallest = minimize_between(of_logarithm, max(at - abs(step), low), min(at + abs(step), high), accuracy=accuracy)
    return best if smallest < value else at
