"""Distance of every reading from its prediction by all others, and readings that must not enter a fit.

The smoother's residual of a reading with noise variance r and smoothed variance V tells what the estimate would be without
it: the deletion residual is ``(y - x) / (1 - V / r)`` with variance ``r / (1 - V / r)``. Both follow from one pass.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nareg._core.arrays import MAD_TO_STD, robust_std

#: Readings so many robust standard deviations from their station's median are no readings of the field.
ABSURD = 25.0
#: Readings beyond so many standard deviations of their deletion residual are left out of a fit.
GROSS = 5.0
#: Rounds that look for gross outliers.
ROUNDS = 3
#: Where the median station's scores have heavy tails, the limit rises to what chance exceeds once in so many records. Tails
#: begin at this quantile, have so many readings at least, and this shape at most.
EXCEEDED, TAIL, FEWEST_IN_TAIL, HEAVIEST = 100.0, 0.98, 8, 0.9
#: A spike begins and ends within one step, by this share of its height.
ABRUPT = 0.5
#: Others that show an event, at least, as a share of all and in number.
SHARED, FEWEST_SHARED = 0.15, 2
#: Readings are absurd only beyond so many times the largest ones of the median station, and what its tail makes possible.
TIMES_USUAL = 3.0


def deletion_scores(y: np.ndarray, x: np.ndarray, var: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Standardized deletion residuals (T, N), NaN without a reading; a reading with infinite r is already deleted."""
    r = np.broadcast_to(r, y.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(np.isfinite(r), np.clip(var / r, 0.0, 1 - 1e-6), 0.0)
        spread = np.where(np.isfinite(r), r / (1 - share), 1.0)
        return (y - x) / (1 - share) / np.sqrt(spread)


def scores_without(bad: np.ndarray, y: np.ndarray, x: np.ndarray, var: np.ndarray, r: np.ndarray) -> np.ndarray:
    """The same where ``bad`` readings (T, N) were deleted; these are judged with the noise that they would have."""
    return np.where(bad, (y - x) / np.sqrt(var + r), deletion_scores(y, x, var, np.where(bad, np.inf, r)))


def contradicted(
    y: np.ndarray, r: np.ndarray, field: np.ndarray | float, estimate: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    *, least_spread: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(T, N) True for readings that all others contradict, and every reading's score, in rounds of estimates without them.

    ``estimate`` gives mean and variance from readings, ``field`` is the field's variance. A station's spread counts as
    ``least_spread`` at least.
    """
    with np.errstate(invalid="ignore"):  # heavy-tailed steps would follow an absurd value
        bad = np.abs(y) > ABSURD * np.sqrt(field + r)
    for _ in range(ROUNDS):
        scores = scores_without(bad, y, *estimate(np.where(bad, np.nan, y)), r)
        now = gross(scores, least_spread)
        if (now == bad).all():
            break
        bad = now
    return bad, scores


def robust_spread(scores: np.ndarray) -> np.ndarray:
    """Robust standard deviation of every station's scores, 1 where a station has fewer than ten."""
    result = np.ones(scores.shape[1])
    for i, column in enumerate(scores.T):
        seen = column[np.isfinite(column)]
        if seen.size >= 10:
            result[i] = max(robust_std(seen), 1e-6)
    return result


def gross(scores: np.ndarray, least_spread: float = 0.0) -> np.ndarray:
    """(T, N) True for the readings to leave out; a station's own spread counts, not what its outliers made of it."""
    scores = scores / np.maximum(robust_spread(scores), least_spread)
    return spikes(scores, limit_of(scores))


def limit_of(scores: np.ndarray, faults: float = 0.0) -> float:
    """From how many standard deviations on a reading is gross, in a network with these scores (T, N).

    Beyond its quantile :data:`TAIL` a station's scores follow a generalized Pareto law. Its moments tell which size chance
    exceeds once in :data:`EXCEEDED` records. The median station decides: spikes of some sensors raise no limit, a quantity
    with heavy tails does. The largest ones, of a share ``faults`` of the tail, are left out of its moments.
    """
    limits = []
    for column in np.abs(scores).T:
        sizes = column[np.isfinite(column)]
        if (1 - TAIL) * sizes.size + 1 < FEWEST_IN_TAIL:
            continue
        threshold = float(np.quantile(sizes, TAIL))
        excess = np.sort(sizes[sizes > threshold]) - threshold
        if excess.size < FEWEST_IN_TAIL:
            continue
        usual = excess[: excess.size - int(faults * excess.size)]
        mean, variance = float(usual.mean()), max(float(usual.var()), 1e-300)
        shape = float(np.clip((1 - mean**2 / variance) / 2, 0.0, HEAVIEST))
        expected = excess.size * EXCEEDED
        growth = np.log(expected) if shape < 1e-6 else (expected**shape - 1) / shape
        limits.append(threshold + mean * (1 - shape) * growth)
    return max(GROSS, float(np.median(limits))) if limits else GROSS


def spikes(scores: np.ndarray, limit: float) -> np.ndarray:
    """(T, N) True for scores beyond a limit that begin and end at once, as a rise of the quantity does not, at one station.

    Successive scores on one side, the largest of them beyond the limit and all beyond half of it, are one event. Its readings
    are out where those before and after it differ from its first and last by more than :data:`ABRUPT` of its height. What
    others show at that time, a step before or after, is the field's.
    """
    return _abrupt(scores, limit) & ~shared(scores, limit)


def _abrupt(scores: np.ndarray, limit: float) -> np.ndarray:
    result = np.zeros(scores.shape, dtype=bool)
    for i, column in enumerate(scores.T):
        rows = np.flatnonzero(np.isfinite(column))
        values = column[rows]
        for a, b in _events(values, limit):
            height = ABRUPT * float(np.median(np.abs(values[a:b])))
            before = a == 0 or abs(values[a] - values[a - 1]) > height
            after = b == rows.size or abs(values[b - 1] - values[b]) > height
            result[rows[a:b], i] = before and after and b - a < rows.size
    return result


def shared(scores: np.ndarray, limit: float) -> np.ndarray:
    """(T, N) True where enough other stations have scores on the same side, beyond half of the limit, within a step."""
    result = np.zeros(scores.shape, dtype=bool)
    fewest = fewest_sharing(scores.shape[1])
    for side in (1.0, -1.0):
        with np.errstate(invalid="ignore"):
            beyond = np.pad(side * scores > limit / 2, ((1, 1), (0, 0)))
        near = beyond[:-2] | beyond[1:-1] | beyond[2:]
        result |= beyond[1:-1] & (near.sum(axis=1, keepdims=True) - 1 >= fewest)
    return result


def fewest_sharing(stations: int) -> float:
    """Others, in a network of so many stations, that make an event one of the field."""
    return max(SHARED * (stations - 1), FEWEST_SHARED)


def _events(values: np.ndarray, limit: float) -> list[tuple[int, int]]:
    """Starts and stops of runs of values on the same side, beyond half of a limit throughout and beyond it somewhere."""
    side = np.where(np.abs(values) > limit / 2, np.sign(values), 0.0)
    edges = np.flatnonzero(np.diff(side)) + 1
    parts = zip([0, *edges.tolist()], [*edges.tolist(), side.size], strict=True)
    return [(a, b) for a, b in parts if b > a and side[a] and np.abs(values[a:b]).max() > limit]


def absurd(y: np.ndarray) -> np.ndarray:
    """(T, N) True for values that no model should see: far beyond what the network reads, from one time to the next."""
    there = np.isfinite(y)
    live = there.any(axis=0)
    result = np.zeros(y.shape, dtype=bool)
    if not live.any():
        return result
    scores = np.full(y.shape, np.nan)
    spreads = np.full(y.shape[1], np.nan)
    for i in np.flatnonzero(live):
        series = y[there[:, i], i]
        scores[there[:, i], i] = series - np.median(series)
        spreads[i] = _spread(series)
    positive = spreads[spreads > 0]
    if not positive.size:
        return result
    scores /= np.fmax(spreads, float(np.median(positive)))
    codes = _codes(y, scores)
    limit = max(ABSURD, _usual(np.where(codes, np.nan, scores)))
    return _abrupt(scores, limit) & (codes | ~shared(np.where(codes, np.nan, scores), limit))


def _codes(y: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """(T, N) True for values far out that repeat exactly at several times: they stand for something else."""
    t, i = np.nonzero(np.abs(scores) > ABSURD)
    pairs = np.unique(np.stack([y[t, i], t]), axis=1)  # a value counts once at a time, however many stations have it
    repeated, counts = np.unique(pairs[0], return_counts=True)
    return np.isin(y, repeated[counts > 2])


def _usual(plain: np.ndarray) -> float:
    """Size up to which scores are usual in a network of three stations and more."""
    largest = [float(np.nanmax(np.abs(column))) for column in plain.T if np.isfinite(column).any()]
    return TIMES_USUAL * max(float(np.median(largest)), limit_of(plain)) if len(largest) > 2 else 0.0


def _spread(series: np.ndarray) -> float:
    """Robust standard deviation; of the readings that differ from the median where most do not, as with rain."""
    distance = np.abs(series - np.median(series))
    middle = float(np.median(distance))
    return MAD_TO_STD * (middle if middle > 0 or not distance.any() else float(np.median(distance[distance > 0])))
