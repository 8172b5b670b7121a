"""What the quantity can be: hard bounds, and predictions beyond all readings."""

from __future__ import annotations

import numpy as np

from nareg._core import checks
from nareg.cleaning._words import number
from nareg.errors import InputError
from nareg.spacetime import Bounds, bounds, intermittent

#: Bounds that everybody knows; another one may be a limit of detection, beyond which the quantity goes on.
WELL_KNOWN = (0.0, 100.0)
#: Half width of the band that is judged beside the estimate, in standard deviations.
REACH = 1.645
NO_BOUNDS = Bounds()


def limits(y: np.ndarray, given: tuple[float | None, float | None], learned: Bounds = NO_BOUNDS) -> tuple[Bounds, str | None]:
    """Bounds of readings (N, T) without bad ones: the user's, a model's, else those that they show, with a note on these."""
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise InputError(f"bounds is {given!r}: pass a lower and an upper bound, such as (0, 100) or (0, None).")
    low, high = (None if end is None else checks.number(f"bounds[{i}]", end) for i, end in enumerate(given))
    low, high = (
        own if own is not None or not np.isfinite(end) else end for own, end in ((low, learned.low), (high, learned.high))
    )
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


def failed(x: np.ndarray, std: np.ndarray | None, y: np.ndarray, ends: Bounds) -> np.ndarray:
    """(N, T) True where an estimate, or an end of its band, is beyond the readings' range by more than their spread.

    ``y`` (N, T) are the readings without bad ones. A band ends where the quantity does.
    """
    seen = y[np.isfinite(y)]
    if seen.size < 2:
        return np.zeros(x.shape, dtype=bool)
    spread = float(seen.std())
    reach = 0.0 if std is None else REACH * np.nan_to_num(std)
    top, bottom = np.maximum(x, ends.clip(x + reach)), np.minimum(x, ends.clip(x - reach))
    return (top > seen.max() + spread) | (bottom < seen.min() - spread)


def own_estimates(y: np.ndarray, ends: Bounds) -> np.ndarray:
    """(N, T) True for good readings that are their own estimate: all of an intermittent quantity, else those at a bound.

    There is no noise at a bound: it would carry some of them away from it.
    """
    return np.isfinite(y) if intermittent(y.T) else (y == ends.low) | (y == ends.high)


def with_own(good: np.ndarray, x: np.ndarray, std: np.ndarray, ends: Bounds, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Estimates within bounds, and those of ``own`` readings as they are; and their standard deviations."""
    mean = ends.clip(x)
    final = np.where(own, good, mean)
    # the field scatters around its mean, and not around a reading that is kept
    away = (final > ends.low) & (final < ends.high)
    return final, np.where(away, np.hypot(std, final - mean), std)
