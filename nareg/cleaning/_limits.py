"""What the quantity can be: hard bounds, predictions beyond all readings, and levels that follow the stations' heights.

The level of a station that never reads follows its height, where the others' levels do.
"""

from __future__ import annotations

import numpy as np

from nareg._core import checks
from nareg.cleaning._words import number
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.spacetime import Bounds, bounds, intermittent

#: Bounds that everybody knows; another one may be a limit of detection, beyond which the quantity goes on.
WELL_KNOWN = (0.0, 100.0)
#: Half width of the band that is judged beside the estimate, in standard deviations.
REACH = 1.645
#: Stations and readings of each that show how levels depend on heights, and standard errors that the slope is from zero.
FEWEST_STATIONS, FEWEST_READINGS, CLEAR = 6, 10, 4.0


def limits(y: np.ndarray, given: tuple[float | None, float | None]) -> tuple[Bounds, str | None]:
    """Bounds of readings (N, T) without bad ones: the user's, else those that the readings show, with a note on these."""
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise InputError(f"bounds is {given!r}: pass a lower and an upper bound, such as (0, 100) or (0, None).")
    low, high = (None if end is None else checks.number(f"bounds[{i}]", end) for i, end in enumerate(given))
    shown = bounds(y.T)
    result = Bounds(shown.low if low is None else low, shown.high if high is None else high)
    if not result.low < result.high:
        raise InputError(f"bounds is ({result.low:g}, {result.high:g}): pass a lower bound below the upper one.")
    sentences = []
    for end, own, side in ((shown.low, low, "below"), (shown.high, high, "above")):
        if own is not None or not np.isfinite(end):
            continue
        share = 100 * float((y == end).sum()) / max(int(np.isfinite(y).sum()), 1)
        sentence = f"No reading is {side} {number(end)}, and {share:.0f} % are exactly that: estimates stay inside."
        if end not in WELL_KNOWN:
            sentence += f" If it is a limit of detection, what lies {side} it is unknown; pass other bounds."
        sentences.append(sentence)
    return result, " ".join(sentences) or None


def failed(x: np.ndarray, std: np.ndarray | None, y: np.ndarray) -> np.ndarray:
    """(N, T) True where an estimate, or an end of its band, is beyond the readings' range by more than their spread.

    ``y`` (N, T) are the readings without bad ones.
    """
    seen = y[np.isfinite(y)]
    if seen.size < 2:
        return np.zeros(x.shape, dtype=bool)
    spread = float(seen.std())
    reach = 0.0 if std is None else REACH * np.nan_to_num(std)
    beyond: np.ndarray = (x + reach > seen.max() + spread) | (x - reach < seen.min() - spread)
    return beyond


def at_end(y: np.ndarray, ends: Bounds) -> np.ndarray:
    """(N, T) True for readings at a bound, where there is no noise: it would carry some of them away from it."""
    at: np.ndarray = (y == ends.low) | (y == ends.high)
    return at


def own_estimates(y: np.ndarray, ends: Bounds) -> np.ndarray:
    """(N, T) True for good readings that are their own estimate: all of an intermittent quantity, else those at a bound."""
    return np.isfinite(y) if intermittent(y.T) else at_end(y, ends)


def follow_heights(
    graph: Graph, heights: np.ndarray | None, y: np.ndarray, x: np.ndarray, std: np.ndarray
) -> tuple[np.ndarray, np.ndarray, str | None]:
    """Estimate and standard deviation (N, T), corrected at stations without a reading, and a note.

    The model takes the level of such a station from the stations around, whatever their heights. The difference of the
    heights, times the slope of the others' levels, is added.
    """
    if heights is None:
        return x, std, None
    counts = np.isfinite(y).sum(axis=1)
    silent = np.flatnonzero((counts == 0) & np.isfinite(heights))
    slope = _slope(y, heights, counts)
    if slope is None or not silent.size:
        return x, std, _unused(graph, heights)
    rate, left = slope
    usable = (counts > 0) & np.isfinite(heights)
    weights = graph.adjacency[silent] * usable
    total = weights.sum(axis=1)
    around = np.where(
        total > 0, weights @ np.where(usable, heights, 0.0) / np.where(total > 0, total, 1.0), heights[usable].mean()
    )
    x, std = x.copy(), std.copy()
    x[silent] += (rate * (heights[silent] - around))[:, None]
    std[silent] = np.hypot(std[silent], left)
    assert graph.names is not None
    which = ", ".join(graph.names[i] for i in silent[:3]) + (", ..." if silent.size > 3 else "")
    per = ("-" if rate < 0 else "") + number(1000 * abs(rate))
    note = (
        f"Without a reading: {which}. The level there follows the height, by {per} per 1,000, as at the {int(usable.sum())} "
        "stations that read. Elsewhere heights do not enter the estimate."
    )
    return x, std, note


def _slope(y: np.ndarray, heights: np.ndarray, counts: np.ndarray) -> tuple[float, float] | None:
    """Slope of the stations' levels over their heights, and the standard deviation that it leaves; None where it is unclear."""
    some = np.flatnonzero((counts >= FEWEST_READINGS) & np.isfinite(heights))
    if some.size < FEWEST_STATIONS or np.ptp(heights[some]) == 0:
        return None
    # at every time beside the network, as gaps differ
    times = np.isfinite(y[some]).any(axis=0)
    relative = y[np.ix_(some, times)] - np.nanmedian(y[np.ix_(some, times)], axis=0)
    levels = np.nanmedian(relative, axis=1)
    h = heights[some] - heights[some].mean()
    if not np.isfinite(size := float(h @ h)):
        return None
    rate = float(h @ levels / size)
    left = levels - levels.mean() - rate * h
    spread = float(np.sqrt(left @ left / (some.size - 2)))
    return (rate, spread) if abs(rate) * np.sqrt(size) > CLEAR * spread else None


def _unused(graph: Graph, heights: np.ndarray) -> str:
    """That heights do not enter the estimate, and the station that stands out most of all its neighbors."""
    note = "The stations' heights do not enter the estimate"
    near = [heights[row.indices] for row in graph.adjacency.tocsr()]
    near = [some[np.isfinite(some)] for some in near]
    ends = np.array([(some.min(), some.max()) if some.size else (np.nan, np.nan) for some in near])
    with np.errstate(over="ignore", invalid="ignore"):
        beyond = np.fmax(heights - ends[:, 1], ends[:, 0] - heights)
        usual = np.nanstd(heights)
    if not np.isfinite(beyond).any() or not np.nanmax(beyond) > usual:
        return f"{note}."
    i = int(np.nanargmax(beyond))
    side = "above its highest" if heights[i] > ends[i, 1] else "below its lowest"
    assert graph.names is not None
    return (
        f"{note}: {graph.names[i]!r} is {beyond[i]:,.0f} {side} neighbor. Its estimate may be off where readings depend on "
        "height, most of all in gaps."
    )
