"""Means and cycles of each station by least squares, and their errors: draws of them, and the share that readings leave.

Mean and cycles are removed with an error d, so that what is smoothed is the field plus d. The estimate of field, mean and
cycles is then off by ``d - S d``, where S is the smoother: where readings tell the field, they tell d with it. A few draws of d
go through every pass beside the readings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Draws of the errors.
DRAWS = 8
#: Readings per function of time that a station needs for a cycle of its own.
FEWEST_PER_WAVE = 3
#: Largest autoregression that a record without enough readings for waves is taken to have.
SLOWEST = 0.9
#: Waves beside the cycles are left out at a station whose readings lie so close together that they raise the variance of its
#: mean by this factor: a mean with a huge variance would spoil estimates in the unit of the readings.
OPEN_MEAN = 4.0


def unit_errors(controls: np.ndarray, y: np.ndarray, rng: np.random.Generator, count: int = DRAWS) -> np.ndarray:
    """(count, N) errors of variance one of the stations' own coefficients, with the correlation between stations.

    ``controls`` (B, N) are coefficients of waves where there is weather and noise but no cycle, in their standard deviations:
    such errors themselves. A station without them, NaN, has a random combination of its readings ``y`` (T, N).
    """
    mixed = rng.standard_normal((count, len(y))) @ _of_length_one(y)
    if not len(controls):
        return mixed
    own = controls[np.arange(count) % len(controls)]
    return np.where(np.isfinite(own), own, mixed)


def shown_errors(controls: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(B, N) errors of variance one that tell their correlation: those of ``controls`` (B, N), 0 where a station has none.

    Where no station has any, all of what readings ``y`` (T, N) leave beside their means, (T, N): random combinations have the
    same covariance between stations in the mean, but vary by their numbers' own size.
    """
    if np.isfinite(controls).all(axis=0).any():
        return np.nan_to_num(controls)
    return np.sqrt(len(y)) * _of_length_one(y)


def comparable_stations(controls: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Whether each of N stations has enough readings in common with others that its errors can tell the correlation of errors.

    ``controls`` (B, N) are its coefficients of control waves, NaN where it has too few of its ``counts`` (N,) readings.
    """
    rich = np.isfinite(controls).all(axis=0)
    # errors that are drawn from few times are no more independent than these
    return rich if rich.any() else (2 * counts > counts.max()) & (counts > DRAWS)


def _of_length_one(y: np.ndarray) -> np.ndarray:
    """Readings (T, N) around their means, 0 where missing, over the root of their sum of squares."""
    counts = np.isfinite(y).sum(axis=0)
    rest = np.nan_to_num(y - np.nansum(y, axis=0) / np.maximum(counts, 1))
    size = np.sqrt((rest**2).sum(axis=0))
    return rest / np.where(size > 0, size, 1.0)


def of_coefficient(unit: np.ndarray, k: int) -> np.ndarray:
    """The same errors in another order, so that those of two coefficients are not alike."""
    return np.roll(unit, k, axis=0)


@dataclass(frozen=True, eq=False)
class OffsetErrors:
    """Errors of mean and cycles at T times, in the model's unit; computed when asked for, as large networks need parts only."""

    basis: np.ndarray  # (T, K) functions of time
    spread: np.ndarray  # (K, N) variances of the coefficients
    errors: np.ndarray  # (K, N, J) draws of their errors

    @property
    def variance(self) -> np.ndarray:
        """(T, N)"""
        return self.basis**2 @ self.spread

    @property
    def draws(self) -> np.ndarray:
        """(T, N, J)"""
        return np.einsum("tk,knj->tnj", self.basis, self.errors)

    def left(self, taken: np.ndarray | None) -> np.ndarray:
        """Variance (T, N) of what stays where a pass has ``taken`` so much of each draw as field, (T, N, J)."""
        assert taken is not None  # passes over draws return it
        return self.variance * share_left(self.draws, taken)

    def at(self, rows: slice | np.ndarray) -> OffsetErrors:
        return OffsetErrors(self.basis[rows], self.spread, self.errors)

    def of(self, stations: np.ndarray) -> OffsetErrors:
        return OffsetErrors(self.basis, self.spread[:, stations], self.errors[:, stations])


def share_left(draws: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """Share (..., N) of the variance of ``draws`` (..., N, J) that stays where so much of each is ``taken`` as field."""
    total = (draws**2).sum(axis=-1)
    left = ((draws - taken) ** 2).sum(axis=-1)
    return np.where(total > 0, left / np.where(total > 0, total, 1.0), 1.0)


def with_offsets(var: np.ndarray, offsets: np.ndarray, noise: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Variances of the field with its mean and cycles, from both; where a reading is ``seen``, at most its noise variance."""
    total = var + offsets
    return np.where(seen, np.minimum(total, np.maximum(var, noise)), total)


def least_squares(y: np.ndarray, X: np.ndarray, K: int) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
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
