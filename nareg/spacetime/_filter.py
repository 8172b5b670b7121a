"""Dense Kalman filter for readings with gaps.

What repeats is computed once: where the pattern of gaps and the variances stay the same, the covariances converge to their
steady state, and the same array then serves every further time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dtrtrs

from nareg.spacetime._dynamics import Dynamics, factor

LOG_2PI = float(np.log(2 * np.pi))
#: Covariances that differ by less than this share of their standard deviations are the same: the steady state is reached.
STEADY = 1e-13


@dataclass(frozen=True)
class Correction:
    """Correction of a predicted covariance by readings at some stations."""

    stations: np.ndarray
    L: np.ndarray  # factor of the innovations' covariance
    gain: np.ndarray  # L^-1 H P, so that the correction of the mean is gain' L^-1 v
    covariance: np.ndarray  # of the state after the readings
    variances: np.ndarray  # of the innovations
    constant: float  # of the log-likelihood


def correct(P: np.ndarray, stations: np.ndarray, variances: np.ndarray) -> Correction:
    """Correction by readings at ``stations`` (indices, increasing) with noise ``variances``."""
    count = stations.size
    everywhere = count == P.shape[0]
    rows = P if everywhere else P[stations]
    F = P.copy() if everywhere else rows[:, stations]
    F.flat[:: count + 1] += variances
    spread = F.diagonal().copy()
    L = factor(F, "the covariance of the innovations")
    gain = dtrtrs(L, rows if everywhere else np.asfortranarray(rows), lower=1)[0]
    constant = -float(np.log(L.diagonal()).sum()) - 0.5 * count * LOG_2PI
    return Correction(stations, L, gain, P - gain.T @ gain, spread, constant)


def innovate(z: np.ndarray, y: np.ndarray, correction: Correction) -> tuple[np.ndarray, np.ndarray, float]:
    """Corrected mean, innovations and log-likelihood of readings ``y`` at the correction's stations.

    With further columns the same correction is applied to these; innovations and log-likelihood are those of the first.
    """
    v = y - z[correction.stations]
    white = dtrtrs(correction.L, v, lower=1)[0]
    first = white if white.ndim == 1 else white[:, 0]
    return z + correction.gain.T @ white, v if v.ndim == 1 else v[:, 0], correction.constant - 0.5 * float(first @ first)


def _patterns(y: np.ndarray, r: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A number per time; equal where gaps, variances and scale are."""
    key = np.column_stack([np.where(np.isfinite(y), r, np.inf), scale])
    return np.unique(key, axis=0, return_inverse=True)[1].ravel()


def is_steady(P: np.ndarray, other: np.ndarray) -> bool:
    """Whether no entry differs by more than a share of the standard deviations that it belongs to."""
    spread = np.sqrt(np.maximum(P.diagonal(), 0.0))  # of a field that vanishes, rounding may leave less
    return bool((np.abs(P - other) <= STEADY * spread[:, None] * spread).all())


@dataclass
class FilterPass:
    """Every predicted and corrected mean and covariance; times in a steady state share their covariances."""

    predicted: list[tuple[np.ndarray, np.ndarray]]
    corrected: list[tuple[np.ndarray, np.ndarray]]
    log_likelihood: float
    innovations: np.ndarray
    innovation_variances: np.ndarray


def filter_pass(
    y: np.ndarray, dynamics: Dynamics, r: np.ndarray, scale: np.ndarray, tick: Callable[[], None] | None,
    errors: np.ndarray | None = None,
) -> FilterPass:  # fmt: skip
    """Forward in time. ``y`` (T, N) with NaN, ``r`` (T, N), ``scale`` (T,), ``scale[t]`` for the step into time t.

    With ``errors`` (T, N, J) means have J further columns: what the filter takes of them, where there is a reading.
    """
    T, N = y.shape
    observed = np.isfinite(y)
    pattern = _patterns(y, r, scale)
    columns = y if errors is None else np.concatenate([y[..., None], errors], axis=2)
    z, P = np.zeros((dynamics.P0.shape[0], *columns.shape[2:])), dynamics.P0
    predicted: list[tuple[np.ndarray, np.ndarray]] = []
    corrected: list[tuple[np.ndarray, np.ndarray]] = []
    log_likelihood = 0.0
    innovations, spreads = np.full((T, N), np.nan), np.full((T, N), np.nan)
    correction: Correction | None = None
    for t in range(T):
        repeats = t > 0 and pattern[t] == pattern[t - 1] and P is predicted[-1][1]
        predicted.append((z, P))
        if observed[t].any():
            if not repeats or correction is None:
                stations = np.flatnonzero(observed[t])
                correction = correct(P, stations, r[t, stations])
            z, v, part = innovate(z, columns[t, correction.stations], correction)
            log_likelihood += part
            innovations[t, correction.stations] = v
            spreads[t, correction.stations] = correction.variances
            after = correction.covariance
        else:
            correction, after = None, P
        corrected.append((z, after))
        if t + 1 < T:
            z = dynamics.mean_after(z)
            again = pattern[t + 1] == pattern[t]
            if not (repeats and again):
                following = dynamics.covariance_after(after, float(scale[t + 1]))
                P = P if again and is_steady(following, P) else following
        if tick is not None:
            tick()
    return FilterPass(predicted, corrected, log_likelihood, innovations, spreads)
