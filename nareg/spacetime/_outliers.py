"""Distance of every reading from its prediction by all others, and readings that must not enter a fit.

The smoother's residual of a reading with noise variance r and smoothed variance V tells what the estimate would be without
it: the deletion residual is ``(y - x) / (1 - V / r)`` with variance ``r / (1 - V / r)``. Both follow from one pass.
"""

from __future__ import annotations

import numpy as np

#: Median absolute deviation of a normal variable times this is its standard deviation.
MAD_TO_STD = 1.4826
#: Readings so many robust standard deviations from their station's median are no readings of the field.
ABSURD = 25.0
#: Readings beyond so many standard deviations of their deletion residual are left out of a fit.
GROSS = 5.0
#: Where the median station itself exceeds that in more than this share of its readings, the field has heavy tails, and the
#: limit rises until it does not.
USUAL = 1e-3
#: Runs of one value are stuck where chance gives such a run anywhere in the file with at most this probability.
CHANCE = 1e-3
SHORTEST_RUN = 5


def deletion_scores(y: np.ndarray, x: np.ndarray, var: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Standardized deletion residuals (T, N), NaN without a reading; a reading with infinite r is already deleted."""
    r = np.broadcast_to(r, y.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(np.isfinite(r), np.clip(var / r, 0.0, 1 - 1e-6), 0.0)
        spread = np.where(np.isfinite(r), r / (1 - share), 1.0)
        return (y - x) / (1 - share) / np.sqrt(spread)


def robust_spread(scores: np.ndarray) -> np.ndarray:
    """Robust standard deviation of every station's scores, 1 where a station has fewer than ten."""
    result = np.ones(scores.shape[1])
    for i, column in enumerate(scores.T):
        seen = column[np.isfinite(column)]
        if seen.size >= 10:
            result[i] = max(MAD_TO_STD * float(np.median(np.abs(seen - np.median(seen)))), 1e-6)
    return result


def gross(scores: np.ndarray) -> np.ndarray:
    """(T, N) True for the readings to leave out; a station's own spread counts, not what its outliers made of it."""
    sizes = np.abs(scores / robust_spread(scores))
    sizes[~np.isfinite(sizes)] = 0.0
    return sizes > limit_of(sizes[:, (sizes > 0).any(axis=0)])


def limit_of(sizes: np.ndarray) -> float:
    """From how many standard deviations on a reading is gross, in a network whose scores have these sizes (T, N)."""
    if not sizes.size:
        return GROSS
    return max(GROSS, float(np.median(np.quantile(sizes, 1 - USUAL, axis=0))))


def absurd(y: np.ndarray) -> np.ndarray:
    """(T, N) True for values that no model should see."""
    if not np.isfinite(y).any():
        return np.zeros(y.shape, dtype=bool)
    silent = ~np.isfinite(y).any(axis=0)
    shown = np.where(silent, 0.0, y)
    center = np.nanmedian(shown, axis=0)
    spread = MAD_TO_STD * np.nanmedian(np.abs(shown - center), axis=0)
    typical = float(np.median(spread[~silent]))
    with np.errstate(invalid="ignore"):
        return np.abs(shown - center) > ABSURD * np.maximum(spread, typical) if typical > 0 else np.zeros(y.shape, dtype=bool)


def stuck(y: np.ndarray) -> np.ndarray:
    """(T, N) True in runs of one value that chance does not explain; missing readings do not end a run."""
    result = np.zeros(y.shape, dtype=bool)
    series = [np.flatnonzero(np.isfinite(column)) for column in y.T]
    repeats = [float(np.mean(np.diff(column[seen]) == 0)) for column, seen in zip(y.T, series, strict=True) if seen.size > 1]
    if not repeats:
        return result
    total = sum(seen.size for seen in series)
    usual = min(max(float(np.median(repeats)), 1 / total), 1 - 1e-9)
    shortest = max(SHORTEST_RUN, 1 + int(np.ceil(np.log(CHANCE / total) / np.log(usual))))
    for i, seen in enumerate(series):
        if seen.size < shortest:
            continue
        ends = np.flatnonzero(np.diff(y[seen, i]) != 0)
        starts = np.concatenate([[0], ends + 1])
        stops = np.concatenate([ends + 1, [seen.size]])
        for a, b in zip(starts, stops, strict=True):
            if b - a >= shortest:
                result[seen[a:b], i] = True
    return result
