"""Errors of means and cycles: draws of them, and the share of them that readings leave in an estimate.

Mean and cycles are removed with an error d, so that what is smoothed is the field plus d. The estimate of field, mean and
cycles is then off by ``d - S d``, where S is the smoother: where readings tell the field, they tell d with it. A few draws of d
go through every pass beside the readings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Draws of the errors.
DRAWS = 8


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
    comparable: np.ndarray = rich if rich.any() else (2 * counts > counts.max()) & (counts > DRAWS)
    return comparable


def _of_length_one(y: np.ndarray) -> np.ndarray:
    """Readings (T, N) around their means, 0 where missing, over the root of their sum of squares."""
    counts = np.isfinite(y).sum(axis=0)
    rest = np.nan_to_num(y - np.nansum(y, axis=0) / np.maximum(counts, 1))
    size = np.sqrt((rest**2).sum(axis=0))
    result: np.ndarray = rest / np.where(size > 0, size, 1.0)
    return result


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
