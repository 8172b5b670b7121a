"""Station means, and a smooth daily and yearly cycle, from noisy readings with gaps.

Every station's coefficients are fitted by least squares and then shrunk: the coefficients of one kind are a field over the
network with an exponential covariance, seen with an error. How large that error is, is read off coefficients at
frequencies beside the cycle's own, where there is weather and noise but no cycle (empirical Bayes).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from nareg.errors import InputError
from nareg.spacetime._readings.cycle_errors import (
    OffsetErrors,
    comparable_stations,
    of_coefficient,
    shown_errors,
    unit_errors,
)  # fmt: skip
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


@dataclass(frozen=True, eq=False)
class Shrunk:
    """A coefficient at all stations (N,), from noisy ones of some."""

    level: np.ndarray
    common: float  # the network's own
    spread: np.ndarray  # (N,) variances
    errors: np.ndarray  # (N, J) draws of their errors
    reach: float = 0.0  # range of the coefficient's field; 0: all stations share one coefficient
    variance: float = 0.0  # of the field around common
    dual: np.ndarray | None = None  # (N,) as in Cycles


class Shrinkage(Protocol):
    """Draws coefficients towards fields over the network."""

    def error_model(self, unit: np.ndarray, comparable: np.ndarray) -> Any:
        """Covariance between stations of errors ``unit`` (N, J) of variance about one, told by ``comparable`` (N,) stations."""
        ...

    def __call__(
        self, b: np.ndarray, error: np.ndarray, error_model: Any, unit: np.ndarray, rng: np.random.Generator
    ) -> Shrunk:
        """By the likeliest field: ``b`` (N,) are NaN where nothing is known, ``error`` (N,) their errors' variances.

        Draws are the errors of fields of this kind that were estimated from coefficients with errors ``unit`` (N, J) times
        their size.
        """
        ...


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


def shrunk_cycles(
    y: np.ndarray, seconds: np.ndarray, step: float, dated: bool, wanted: str | tuple[str, ...], shrinkage: Shrinkage, *,
    draws: int,
) -> Cycles:  # fmt: skip
    """Means and cycles of readings (T, N), NaN where missing, with so many draws of their errors."""
    names, harmonics = find(seconds, step, dated, wanted)
    B = none(names, harmonics).basis(seconds)
    coefficients, spreads, power, controls = _least_squares(
        y, np.column_stack([B, control_waves(seconds, step, names)]), B.shape[1]
    )
    rng = np.random.default_rng(0)  # fixed: the same readings have the same bands
    controls /= np.sqrt(power or 1.0)
    unit = unit_errors(controls, y, rng, draws)
    model = shrinkage.error_model(shown_errors(controls, y).T, comparable_stations(controls, np.isfinite(y).sum(axis=0)))
    parts = [
        shrinkage(b, spread * power, model, of_coefficient(unit, k).T, rng)
        for k, (b, spread) in enumerate(zip(coefficients, spreads, strict=True))
    ]
    level, common, reach, variance, spread, errors = (
        np.array([getattr(part, name) for part in parts])
        for name in ("level", "common", "reach", "variance", "spread", "errors")
    )
    dual = np.array([np.zeros(y.shape[1]) if part.dual is None else part.dual for part in parts])
    return Cycles(names, harmonics, level, common, reach, dual, variance, spread, errors)


def _least_squares(y: np.ndarray, X: np.ndarray, K: int) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    """Coefficients (K, N) of every station, NaN where it has too few readings, their spreads, and the noise's power.

    The last are the coefficients of the control waves over the roots of their spreads.
    """
    n, m = y.shape[1], X.shape[1]
    observed = np.isfinite(y)
    counts = observed.sum(axis=0)
    first, second = np.triu_indices(m)
    products = (X[:, first] * X[:, second]).T @ observed.astype(float)
    right = X.T @ np.where(observed, y, 0.0)
    coefficients, spreads, controls = (np.full((count, n), np.nan) for count in (K, K, m - K))
    rich = np.flatnonzero(counts >= FEWEST_PER_WAVE * m)
    if rich.size:
        normal = np.zeros((rich.size, m, m))
        normal[:, first, second] = normal[:, second, first] = products[:, rich].T
        # coefficients that a short record leaves open have a large variance; the mean may be large, and is never open
        ridge = np.arange(m) > 0
        normal[:, np.arange(m), np.arange(m)] += 1e-9 * counts[rich, None] * ridge
        inverse = np.linalg.inv(normal)
        solution = np.einsum("nij,jn->in", inverse, right[:, rich])
        diagonal = np.einsum("nii->in", inverse)
        coefficients[:, rich], spreads[:, rich] = solution[:K], diagonal[:K]
        closed = diagonal[0] * counts[rich] <= OPEN_MEAN
        controls[:, rich[closed]] = (solution[K:] / np.sqrt(diagonal[K:]))[:, closed]
        few = np.linalg.inv(normal[~closed, :K, :K])
        coefficients[:, rich[~closed]] = np.einsum("nij,jn->in", few, right[:K, rich[~closed]])
        spreads[:, rich[~closed]] = np.einsum("nii->in", few)
    powers = (controls**2).mean(axis=0)
    power = float(np.nanmedian(powers)) if np.isfinite(powers).any() else slow_power(y)
    poor = np.flatnonzero((counts > 0) & (counts < FEWEST_PER_WAVE * m))
    coefficients[0, poor] = right[0, poor] / counts[poor]
    spreads[0, poor] = 1.0 / counts[poor]
    return coefficients, spreads, power, controls


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


def control_waves(seconds: np.ndarray, step: float, names: tuple[str, ...]) -> np.ndarray:
    """Waves at frequencies beside the cycles', that fit the record a whole number of times."""
    span = float(seconds[-1] - seconds[0]) + step
    # a cycle need not fit the record a whole number of times: no wave may be one of its harmonics, or nearly so
    own = [k * span / PERIODS[name] for name in names for k in (1, 2)]
    first = max((round(span / PERIODS[name]) for name in names), default=1)
    free = [k for k in range(max(1, first - 2), first + 9) if all(abs(k - f) >= APART for f in own)][:4]
    return np.column_stack(waves(seconds - seconds[0], span, tuple(free)))
