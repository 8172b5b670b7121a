"""Station means, and a smooth daily and yearly cycle, from noisy readings with gaps.

Every station's coefficients are fitted by least squares and then shrunk: the coefficients of one kind are a field over the
network with an exponential covariance, seen with an error. How large that error is, is read off coefficients at
frequencies beside the cycle's own, where there is weather and noise but no cycle (empirical Bayes).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from nareg.errors import InputError
from nareg.spacetime._readings.cycle_errors import DRAWS, OffsetErrors, of_coefficient, read_together, shown_errors, unit_errors
from nareg.spacetime._readings.holdout import station_order
from nareg.spacetime._readings.space import JITTER, Space

DAY, YEAR = 86_400.0, 365.2425 * 86_400.0
PERIODS = {"day": DAY, "year": YEAR}
#: A cycle is looked for when the readings span at least so many periods and have so many steps per period.
FEWEST_PERIODS = {"day": 1.9, "year": 0.9}
FEWEST_STEPS = 6
#: Readings per function of time that a station needs for a cycle of its own.
FEWEST_PER_WAVE = 3
#: Largest autoregression that a record without enough readings for waves is taken to have.
SLOWEST = 0.9
#: Waves beside the cycles are left out at a station whose readings lie so close together that they raise the variance of its
#: mean by this factor: a mean with a huge variance would spoil estimates in the unit of the readings.
OPEN_MEAN = 4.0
#: Least distance between such a wave and a cycle's harmonic, in periods per record: closer ones the record cannot tell apart.
APART = 0.75
#: Harmonics per cycle, where there are enough steps per period.
HARMONICS = {"day": 2, "year": 1}
#: Ranges that the field of a coefficient may have, as a share of the largest distance, and its signal-to-total ratios.
RANGES = (0.05, 0.15, 0.5, 1.5)
SHARES = (0.0, 0.1, 0.3, 0.6, 0.85, 0.97)
#: What stands for the largest distance where a range counts edges.
LARGEST_EDGES = 8.0
#: A station whose coefficient has so many times the median station's error variance has no say in the field's reach and size.
UNSURE = 30.0
#: Stations whose errors tell how alike they are.
FEWEST_TOGETHER = 3
#: Shares of the coefficients' errors that a station has of its own.
OWN = (0.02, 0.04, 0.08, 0.15, 0.22, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True, eq=False)
class Cycles:
    """Means and cycles: ``level[k]`` (N,) multiplies the k-th function of time."""

    names: tuple[str, ...]  # cycles, of "day" and "year"
    harmonics: tuple[int, ...]
    level: np.ndarray  # (K, N) coefficients: mean, then cosine and sine of every harmonic of every cycle
    common: np.ndarray  # (K,) the network's own coefficient
    ranges: np.ndarray  # (K,) range of the coefficient's field in the unit of the distances; 0: all stations share one
    dual: np.ndarray  # (K, N): coefficient at a place = common + correlation with the stations @ dual
    variance: np.ndarray  # (K,) variance of the coefficient's field around common
    spread: np.ndarray  # (K, N) variance of each station's coefficient given its readings
    errors: np.ndarray  # (K, N, J) draws of the coefficients' errors, with their correlation between stations

    def basis(self, seconds: np.ndarray) -> np.ndarray:
        """The functions of time, (T, K)."""
        columns = [np.ones_like(seconds)]
        for name, count in zip(self.names, self.harmonics, strict=True):
            columns += waves(seconds, PERIODS[name], range(1, count + 1))
        return np.column_stack(columns)

    def at(self, seconds: np.ndarray) -> np.ndarray:
        """Mean and cycles of every station, (T, N)."""
        return self.basis(seconds) @ self.level

    def variance_at(self, seconds: np.ndarray) -> np.ndarray:
        """Variance of mean and cycles of every station, (T, N)."""
        return self.basis(seconds) ** 2 @ self.spread

    def errors_at(self, seconds: np.ndarray) -> OffsetErrors:
        """Errors of mean and cycles of every station."""
        return OffsetErrors(self.basis(seconds), self.spread, self.errors)

    def at_points(self, space: Space, points: np.ndarray) -> np.ndarray:
        """Coefficients (K, M) at places without a station."""
        family = space.families[0]
        level = np.repeat(self.common[:, None], points.shape[0], axis=1)
        for k, reach in enumerate(self.ranges):
            if reach > 0:
                level[k] += space.cross_correlation(family, float(reach), points) @ self.dual[k, : space.n]
        return level

    def spread_at_points(self, space: Space, points: np.ndarray) -> np.ndarray:
        """Variances (K, M) of the coefficients at places: of what the stations do not tell, and of the stations' own.

        Errors of the stations' coefficients are taken to be alike, so that they do not average out.
        """
        spread = np.empty((self.common.size, points.shape[0]))
        for k, reach in enumerate(self.ranges):
            if reach == 0:
                spread[k] = self.variance[k] + self.spread[k].mean()
                continue
            K = space.correlation(space.families[0], float(reach))
            K.flat[:: space.n + 1] += JITTER
            cross = space.cross_correlation(space.families[0], float(reach), points)
            W = np.linalg.solve(K, cross.T).T
            own = np.maximum(1 - np.einsum("mn,mn->m", W, cross), 0.0)
            spread[k] = self.variance[k] * own + (W @ np.sqrt(self.spread[k])) ** 2
        return spread

    def restricted(self, space: Space, stations: np.ndarray) -> Cycles:
        """The cycles of some of the stations, in their ``space``. The level at other places interpolates theirs."""
        level = self.level[:, stations]
        dual = np.zeros_like(level)
        for k, reach in enumerate(self.ranges):
            if reach > 0:
                K = space.correlation(space.families[0], float(reach))
                K.flat[:: space.n + 1] += JITTER
                dual[k] = np.linalg.solve(K, level[k] - self.common[k])
        return replace(self, level=level, dual=dual, spread=self.spread[:, stations], errors=self.errors[:, stations])


def waves(seconds: np.ndarray, period: float, multiples: range | tuple[float, ...]) -> list[np.ndarray]:
    angle = 2 * np.pi * seconds / period
    return [wave(k * angle) for k in multiples for wave in (np.cos, np.sin)]


def find(
    seconds: np.ndarray, step: float, dated: bool, wanted: str | tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Names of the cycles that the readings can show, and their numbers of harmonics."""
    if not dated:
        if wanted and wanted != "auto":
            raise InputError(f"cycles is {wanted!r} but times are numbers, which have no days or years: pass dates as times.")
        return (), ()
    span = float(seconds[-1] - seconds[0]) + step
    names, harmonics = [], []
    for name in PERIODS if wanted == "auto" else wanted:
        steps = PERIODS[name] / step
        if span >= FEWEST_PERIODS[name] * PERIODS[name] and steps >= FEWEST_STEPS:
            names.append(name)
            harmonics.append(max(1, min(HARMONICS[name], int(steps) // 4)))
        elif wanted != "auto":
            raise InputError(
                f"cycles names {name!r} but the times span {span / PERIODS[name]:.2g} of them with {steps:.2g} steps each: "
                f"pass at least {FEWEST_PERIODS[name]:g} with {FEWEST_STEPS} steps each, or omit it."
            )
    return tuple(names), tuple(harmonics)


def fit(y: np.ndarray, seconds: np.ndarray, step: float, dated: bool, space: Space, wanted: str | tuple[str, ...]) -> Cycles:
    """Means and cycles of readings (T, N), NaN where missing."""
    names, harmonics = find(seconds, step, dated, wanted)
    N = y.shape[1]
    empty = none(names, harmonics)
    B = empty.basis(seconds)
    K = B.shape[1]
    X = np.column_stack([B, beside(seconds, step, names)])
    observed = np.isfinite(y)
    ridge = 1e-9 * np.eye(X.shape[1])
    ridge[0, 0] = 0.0  # the mean may be large, and is never open
    coefficients, spreads = np.full((K, N), np.nan), np.full((K, N), np.nan)
    powers = []
    apart = np.full((X.shape[1] - K, N), np.nan)
    for i in range(N):
        seen = observed[:, i]
        count = int(seen.sum())
        if count >= FEWEST_PER_WAVE * X.shape[1]:
            # coefficients that a short record leaves open have a large variance, and the network decides
            inverse = np.linalg.inv(X[seen].T @ X[seen] + ridge * count)
            if inverse[0, 0] * count > OPEN_MEAN:
                part = X[seen, :K]
                inverse = np.linalg.inv(part.T @ part + ridge[:K, :K] * count)
            m = len(inverse)
            solution = inverse @ (X[seen, :m].T @ y[seen, i])
            coefficients[:, i], spreads[:, i] = solution[:K], np.diag(inverse)[:K]
            if m > K:
                apart[:, i] = solution[K:] / np.sqrt(np.diag(inverse)[K:])
                powers.append(apart[:, i] ** 2)
        elif count:
            coefficients[0, i], spreads[0, i] = y[seen, i].mean(), 1.0 / count
    power = float(np.median(np.mean(powers, axis=1))) if powers else slow_power(y)
    errors = spreads * power
    rng = np.random.default_rng(0)  # fixed: the same readings have the same bands
    apart /= np.sqrt(power or 1.0)
    unit = unit_errors(apart, y, rng)
    alike = _covariance_of(shown_errors(apart, y), read_together(apart, observed.sum(axis=0)), space)
    order = station_order(y)
    parts = [_shrink(coefficients[k], errors[k], alike, space, of_coefficient(unit, k), order, rng) for k in range(K)]
    return Cycles(names, harmonics, *(np.array(part) for part in zip(*parts, strict=True)))


def none(names: tuple[str, ...] = (), harmonics: tuple[int, ...] = (), stations: int = 0) -> Cycles:
    """Means and cycles that are zero and known."""
    K = 1 + 2 * sum(harmonics)
    zero, zeros = np.zeros(K), np.zeros((K, stations))
    return Cycles(names, harmonics, zeros, zero, zero, zeros, zero, zeros, zeros[..., None])


def slow_power(y: np.ndarray) -> float:
    """Power at the slowest frequencies of readings (T, N) around their stations' means, as that of an autoregression."""
    counts = np.isfinite(y).sum(axis=0)
    if not (counts > 1).any():
        return float(np.nanvar(y)) if counts.any() else 1.0
    rest = y - np.where(counts > 0, np.nansum(y, axis=0) / np.maximum(counts, 1), 0.0)
    variance = float(np.nansum(rest**2) / (counts - 1)[counts > 1].sum())
    neighbors = rest[1:] * rest[:-1]
    pairs = int(np.isfinite(neighbors).sum())
    rho = float(np.nansum(neighbors)) / pairs / variance if pairs and variance > 0 else 0.0
    rho = float(np.clip(rho, 0.0, SLOWEST))
    return variance * (1 + rho) / (1 - rho)


def beside(seconds: np.ndarray, step: float, names: tuple[str, ...]) -> np.ndarray:
    """Waves at frequencies beside the cycles', that fit the record a whole number of times."""
    span = float(seconds[-1] - seconds[0]) + step
    # a cycle need not fit the record a whole number of times: no wave may be one of its harmonics, or nearly so
    own = [k * span / PERIODS[name] for name in names for k in (1, 2)]
    first = max((round(span / PERIODS[name]) for name in names), default=1)
    free = [k for k in range(max(1, first - 2), first + 9) if all(abs(k - f) >= APART for f in own)][:4]
    return np.column_stack(waves(seconds - seconds[0], span, tuple(free)))


def _symmetric_root(whole: np.ndarray) -> np.ndarray:
    """Root of a correlation matrix, which permutes with its rows."""
    values, U = np.linalg.eigh(whole)
    root: np.ndarray = (U * np.sqrt(np.maximum(values, 0.0) + JITTER)) @ U.T
    return root


Shrunk: TypeAlias = tuple[np.ndarray, float, float, np.ndarray, float, np.ndarray, np.ndarray]


def _covariance_of(unit: np.ndarray, together: np.ndarray, space: Space) -> np.ndarray:
    """(N, N) covariance of errors ``unit`` (J, N) of variance about one, of largest likelihood.

    Slow weather moves the coefficients of neighbors alike: their difference is known far better than either. That holds for
    stations that read at the same times, ``together`` (N,); errors of others are their own.
    """
    N = unit.shape[1]
    family, result = space.families[0], np.eye(N)
    some = np.flatnonzero(together & unit.any(axis=0))
    if some.size < FEWEST_TOGETHER:
        return result
    largest = (float(space.distances.max()) or 1.0) if family != "graph" else LARGEST_EDGES
    best = np.inf
    for reach in RANGES:
        values, U = np.linalg.eigh(space.correlation(family, reach * largest)[np.ix_(some, some)])
        squares = ((unit[:, some] @ U) ** 2).mean(axis=0)
        for own in OWN:
            spectrum = (1 - own) * np.maximum(values, 0.0) + own
            size = float(np.mean(squares / spectrum))
            score = float(np.log(spectrum).sum()) + some.size * np.log(max(size, 1e-300))
            if score < best:
                best = score
                result[np.ix_(some, some)] = (U * (size * spectrum)) @ U.T
    return result


def _shrink(
    b: np.ndarray, error: np.ndarray, alike: np.ndarray, space: Space, unit: np.ndarray, order: np.ndarray,
    rng: np.random.Generator,
) -> Shrunk:  # fmt: skip
    """Coefficients at all stations from noisy ones at some, by the range and variance of largest likelihood.

    ``error`` (N,) are variances of the noisy ones, ``alike`` (N, N) is the covariance of their errors over the roots of these.

    Returns them, the network's own, the range, the dual, the variance of the field, the coefficients' variances (N,), and draws
    (N, J) of their errors: those of fields of this kind, found from coefficients with errors ``unit`` (J, N) times their size.
    """
    N = b.size
    known = np.flatnonzero(np.isfinite(b))
    dual = np.zeros(N)
    if known.size == 0:
        return np.zeros(N), 0.0, 0.0, dual, 0.0, np.zeros(N), np.zeros((N, DRAWS))
    # relative to how they differ: a level far from zero is no error
    z, v = b[known], np.maximum(error[known], max(1e-12 * float(np.var(b[known])), 1e-300))
    # a station that knows next to nothing of its coefficient sets neither the scale of the errors nor that of the field
    trust, typical = v.min() / v, float(np.median(v))
    common = float(np.average(z, weights=trust))
    total = float(np.average((z - common) ** 2, weights=trust))
    if known.size < 3 or total == 0:
        level = np.full(N, common)
        level[known] = z
        spread = np.full(N, float(v.mean()))
        spread[known] = v
        return level, common, 0.0, dual, 0.0, spread, unit.T * np.sqrt(spread)[:, None]
    family = space.families[0]
    largest = float(space.distances.max()) if family != "graph" else LARGEST_EDGES
    noise = alike[np.ix_(known, known)] * np.sqrt(np.outer(v, v))
    sure = np.flatnonzero(v <= UNSURE * typical)

    def conditioned(signal: float, whole: np.ndarray, some: np.ndarray) -> tuple[float, float, np.ndarray, Any]:
        """Twice the negative log-likelihood of ``some`` of the known coefficients, common, weights and factor."""
        S = signal * whole[np.ix_(known[some], known[some])] + noise[np.ix_(some, some)]
        S.flat[:: some.size + 1] += JITTER * signal
        factor = cho_factor(S, lower=True)
        ones = cho_solve(factor, np.ones(some.size))
        common = float(ones @ z[some] / ones.sum())
        alpha = cho_solve(factor, z[some] - common)
        score = 2 * float(np.log(np.diag(factor[0])).sum()) + float((z[some] - common) @ alpha) + float(np.log(ones.sum()))
        return score, common, signal * alpha, factor

    best = np.inf, 0.0, 0.0
    for reach in (share * (largest or 1.0) for share in RANGES):
        whole = space.correlation(family, reach)
        for share in SHARES:
            signal = share / (1 - share) * typical if share < SHARES[-1] else max(total, 30 * typical)
            best = min(best, (conditioned(signal, whole, sure)[0], reach, signal))
    _, reach, signal = best
    whole = space.correlation(family, reach)
    _, common, weights, factor = conditioned(signal, whole, np.arange(known.size))
    cross = whole[:, known]
    dual[known] = weights
    ones = cho_solve(factor, np.ones(known.size))
    weighted = signal * cross
    # of the field given the coefficients, and of the network's own, which is estimated with them
    spread = signal - np.einsum("ij,ji->i", weighted, cho_solve(factor, weighted.T)) + (1 - weighted @ ones) ** 2 / ones.sum()
    white = np.empty((N, DRAWS))
    white[order] = rng.standard_normal((N, DRAWS))
    fields = np.sqrt(signal) * _symmetric_root(whole) @ white
    noisy = fields[known] + np.sqrt(v)[:, None] * unit.T[known]
    middle = ones @ noisy / ones.sum()
    errors = fields - middle - weighted @ cho_solve(factor, noisy - middle)
    return common + cross @ weights, common, reach if signal else 0.0, dual, signal, np.maximum(spread, 0.0), errors
