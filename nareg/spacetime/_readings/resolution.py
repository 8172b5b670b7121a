"""What the noise of readings is at least: their rounding, and what a smooth record shows at its highest frequencies."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.special import comb

from nareg._core.arrays import MAD_TO_STD
from nareg.spacetime._readings.transforms import Transform

#: Steps between distinct values that differ by less than this share are one, and the commonest one is a resolution where it
#: makes up at least this share of them; where fewer do, values are far apart and rounding matters little.
SAME_STEP, COMMON = 0.01, 0.25
#: Distinct values are further apart than this share of the largest: less is the rounding of floats, single or double.
SINGLE, DOUBLE = 2e-7, 1e-12
#: Fewer distinct values show no resolution of their own.
FEWEST_VALUES = 4
#: Orders of differences. Where a first one leaves at least so many times the variance that the last orders do, which agree to
#: this factor, the field is smooth and what is left is noise.
ORDERS, SMOOTH, LEVEL = (1, 2, 3, 4, 5), 3.0, 1.3
#: But an autoregression of second order without noise leaves less than the first number times as much in the second order, and
#: the second number times as much in the third. Noise makes that less; all is noise from so much less on.
SECOND, THIRD, CLEARLY = 2.5, 1.25, 0.05
#: Shares of the variance of its steps that an autoregression of first order close to 1 leaves in the first and the last order:
#: they tell it from noise, to this share, where first differences have at most so much of the readings' variance.
STEPS, UNSURE, FINE = (1 / 2, 70 / 252), 0.15, 0.05
#: A field moves where steps beyond so many standard deviations of noise are at least this share of all.
MOVING, OFTEN = 3.0, 0.02
#: Differences by whose median the noise is known to a tenth.
MANY = 150
#: Neighbors leave at least this share of noise; they show more of a field. Fewer neighbors than this tell nothing.
OWN, FEWEST_NEIGHBORS = 0.5, 2
#: Differences that a variance needs, neighbors that explain a station's, and robust spreads at which they are cut.
FEWEST, NEIGHBORS, CUT = 30, 5, 3.5


def steps(y: np.ndarray) -> np.ndarray:
    """(N,) commonest step between the distinct values of every station's readings (N, T); 0 where there is none.

    A station with few values has the network's.
    """
    own = np.array([_step(row[np.isfinite(row)]) for row in y])
    usual = float(np.nanmedian(own)) if np.isfinite(own).any() else 0.0
    return np.where(np.isfinite(own), own, usual)


def _step(values: np.ndarray) -> float:
    """NaN where there are too few distinct values."""
    if not values.size:
        return np.nan
    single = bool((values == values.astype(np.float32)).all())
    rounding = (SINGLE if single else DOUBLE) * float(np.abs(values).max())
    gaps = np.diff(np.sort(values))
    gaps = np.sort(gaps[gaps > rounding])
    if gaps.size < FEWEST_VALUES - 1:
        return np.nan
    close = np.searchsorted(gaps, gaps * (1 + SAME_STEP) + 2 * rounding, side="right") - np.arange(gaps.size)
    k = int(np.argmax(close))
    # where equal numbers agree, the smallest step: it comes first
    return float(np.median(gaps[k : k + close[k]])) if close[k] >= max(2, COMMON * gaps.size) else 0.0


def rounding_variance(y: np.ndarray, law: Transform) -> np.ndarray:
    """(N,) variance that rounding to :func:`steps` adds to the transformed readings (N, T)."""
    step = steps(y)
    if law.linear or not (step > 0).any():
        return step**2 / 12
    low, high = float(np.nanmin(y)), float(np.nanmax(y))
    half = step[:, None] / 2
    # a transform need not be defined beyond the readings: there the half of the step inside stands for both
    below, above = np.clip(y - half, low, high), np.clip(y + half, low, high)
    width = np.maximum(above - below, 1e-300)
    spread = (np.asarray(law.forward(above)) - np.asarray(law.forward(below))) * (step[:, None] / width)
    seen = np.isfinite(y)
    counts = np.maximum(seen.sum(axis=1), 1)
    return np.where(seen & (step[:, None] > 0), spread**2, 0.0).sum(axis=1) / counts / 12


def rough_variance(rows: np.ndarray, adjacency: sp.csr_array) -> np.ndarray:
    """(N,) variance of a record (T, N) that neither time nor neighbors explain; 0 where the field may be as rough.

    Differences of high order cancel a smooth field and keep white noise, ``comb(2k, k)`` times its variance. No autoregression
    of first or second order describes such a field: it takes the noise for the field's.
    """
    n = rows.shape[1]
    nothing = np.zeros(n)
    differences = [_differences(rows, order) for order in ORDERS]
    levels = [_variances(d) for d in differences]
    able = np.all([np.isfinite(level) for level in levels], axis=0)
    if not able.any():
        return nothing
    left = [float(np.exp(np.log(np.maximum(level[able], 1e-300)).mean())) for level in levels]
    share = _noise_share(left, float(np.nanvar(rows[:, able])))
    if not share:
        return nothing
    limit = CUT * np.sqrt(levels[-1])
    z = np.clip(differences[-1], -limit, limit)
    own = np.array([_own_share(z, i, adjacency) if able[i] else np.nan for i in range(n)])
    shown = np.isfinite(own)
    if 2 * shown.sum() < able.sum() or (usual := float(np.median(own[shown]))) < OWN:
        return nothing
    return share * np.where(able, np.where(shown, own, usual) * levels[-1], 0.0)


def most_noise(rows: np.ndarray, least: np.ndarray) -> np.ndarray:
    """(N,) largest noise variance that differences of a record (T, N) leave room for; infinite where there are too few.

    White noise alone makes them so large in the median, and whatever a field adds makes them larger. Of noise that is mostly
    small a median shows nothing: it returns in the next step, by so much in the mean, as what a field does and keeps does not.
    Rounding, of which ``least`` (N,) is the variance or more, moves a median by half a step. It is infinite, too, where few
    steps are larger than such noise makes them: a leap to another level is no field.
    """
    result, half = np.full(rows.shape[1], np.inf), np.sqrt(12 * least) / 2
    for order in ORDERS if len(rows) > MANY + max(ORDERS) else ():
        sizes = np.abs(np.diff(rows, n=order, axis=0))
        known = np.isfinite(sizes).sum(axis=0) >= MANY
        middle = np.nanmedian(np.where(known, sizes, 0.0), axis=0) + half
        result = np.where(known, np.minimum(result, (MAD_TO_STD * middle) ** 2 / comb(2 * order, order)), result)
    changes = np.diff(rows, axis=0)
    pairs = changes[1:] * changes[:-1]
    returned = -np.nansum(pairs, axis=0) / np.maximum(np.isfinite(pairs).sum(axis=0), 1)
    result = np.maximum(result, np.maximum(least, returned))
    sizes = np.abs(changes)
    moving = (result > 0) & ((sizes > MOVING * np.sqrt(2 * result)).sum(axis=0) >= OFTEN * np.isfinite(sizes).sum(axis=0))
    return np.where(moving, result, np.inf)


def _noise_share(left: list[float], variance: float) -> float:
    """How much is noise of what the last differences leave, where all orders have ``left`` these variances."""
    first, second, third, fourth = (each / max(left[-1], 1e-300) for each in left[:-1])
    if first >= SMOOTH:
        smoother = fourth <= LEVEL and second >= SECOND
        return 1.0 if smoother else float(np.clip((THIRD - third) / CLEARLY, 0.0, 1.0))
    if left[0] > FINE * variance:
        return 0.0
    begin, end = STEPS
    return float(np.clip((begin - end * first) / (begin - end) - UNSURE, 0.0, 1.0))


def noise_floor(y: np.ndarray, rows: np.ndarray, law: Transform, unit: float, adjacency: sp.csr_array) -> np.ndarray:
    """(N,) least noise variances of readings ``y`` (N, T), which over ``unit`` and on a grid are ``rows`` (T, N)."""
    return np.maximum(rounding_variance(y, law) / unit**2, rough_variance(rows, adjacency))


def _differences(rows: np.ndarray, order: int) -> np.ndarray:
    return np.diff(rows, n=order, axis=0) / np.sqrt(comb(2 * order, order))


def _variances(d: np.ndarray) -> np.ndarray:
    """(N,) variances without outliers, NaN where there are few differences."""
    result = np.full(d.shape[1], np.nan)
    for i, column in enumerate(d.T):
        sizes = np.abs(column[np.isfinite(column)])
        if sizes.size >= FEWEST:
            # a median of rounded readings' differences would be one of few values
            limit = CUT * MAD_TO_STD * float(np.median(sizes))
            usual = sizes[sizes <= limit] if limit > 0 else sizes
            result[i] = float(np.mean(usual**2))
    return result


def _own_share(z: np.ndarray, i: int, adjacency: sp.csr_array) -> float:
    """Share of the variance of one station's differences ``z`` (T, N) that its neighbors do not tell; NaN where too few can."""
    own = np.isfinite(z[:, i])
    near, weights = (part[adjacency.indptr[i] : adjacency.indptr[i + 1]] for part in (adjacency.indices, adjacency.data))
    chosen: list[int] = []
    rows = own
    for j in near[np.argsort(-weights, kind="stable")][:NEIGHBORS]:
        both = rows & np.isfinite(z[:, j])
        if both.sum() >= max(FEWEST, own.sum() // 4):
            chosen.append(int(j))
            rows = both
    if len(chosen) < min(FEWEST_NEIGHBORS, near.size):
        return float("nan")
    target, others = z[rows, i], z[np.ix_(rows, chosen)]
    left = target - others @ np.linalg.lstsq(others, target, rcond=None)[0] if chosen else target
    return min(float(left @ left) / (left.size - len(chosen)) / max(float(target @ target) / target.size, 1e-300), 1.0)
