"""The state-space model, and its correction by the readings of one time.

The state stacks the field at the last p times, ``z_t = (x_t, ..., x_{t-p+1})`` with p = 1 or 2::

    x_t = A_1 x_{t-1} + ... + A_p x_{t-p} + e_t,    e_t ~ N(0, s_t Q)
    y_t = x_t + v_t where there is a reading,         v_t ~ N(0, diag(r_t))

Rows are times in this package's inner modules. Whole records are filtered in compiled loops (:mod:`.passes`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtrs

from nareg.errors import SolverError


@dataclass(frozen=True)
class Dynamics:
    """``A_1 .. A_p`` as numbers, (N,) diagonals or (N, N) matrices, and the covariances that belong to them."""

    blocks: tuple[np.ndarray, ...]  # A_1 .. A_p
    Q: np.ndarray  # (N, N) covariance of the process noise per step
    P0: np.ndarray  # (pN, pN) covariance of the first state, whose mean is zero

    @property
    def order(self) -> int:
        return len(self.blocks)

    @property
    def n(self) -> int:
        return int(self.Q.shape[0])

    def matrix(self) -> np.ndarray:
        """``[A_1 ... A_p]``, (N, pN)."""
        eye = np.eye(self.n)
        return np.hstack([A if A.ndim == 2 else A * eye for A in self.blocks])

    def product(self, state: np.ndarray) -> np.ndarray:
        """``[A_1 ... A_p] state`` for a state (pN,) or (pN, k)."""
        if len(self.blocks) == 1:
            return _times(self.blocks[0], state)
        n = self.n
        return _times(self.blocks[0], state[:n]) + _times(self.blocks[1], state[n:])

    def mean_after(self, z: np.ndarray) -> np.ndarray:
        """Mean of the next state."""
        return np.concatenate([self.product(z), z[: len(z) - self.n]])

    def covariance_after(self, P: np.ndarray, scale: float) -> np.ndarray:
        """Covariance of the next state."""
        n, m = self.n, P.shape[0]
        if m == n and self.blocks[0].ndim == 0:
            return self.blocks[0] ** 2 * P + (self.Q if scale == 1 else scale * self.Q)
        AP = self.product(P)
        top = self.product(AP.T)
        top = 0.5 * (top + top.T) + scale * self.Q
        if m == n:
            return top
        result = np.empty_like(P)
        result[:n, :n] = top
        result[:n, n:] = AP[:, : m - n]
        result[n:, :n] = result[:n, n:].T
        result[n:, n:] = P[: m - n, : m - n]
        return result

    def state_after(self, z: np.ndarray, P: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance after ``steps`` without a reading, by doubling: log2(steps) products of matrices."""
        n, m = self.n, P.shape[0]
        F, Q = np.eye(m, k=-n), np.zeros((m, m))
        F[:n], Q[:n, :n] = self.matrix(), self.Q
        while steps:
            if steps & 1:
                z, P = F @ z, F @ P @ F.T + Q
            steps >>= 1
            if steps:
                F, Q = F @ F, F @ Q @ F.T + Q
        return z, 0.5 * (P + P.T)

    def draw(self, n_times: int, rng: np.random.Generator) -> np.ndarray:
        """A field (T, N)."""
        root, start = np.linalg.cholesky(self.Q), np.linalg.cholesky(self.P0)
        z = start @ rng.standard_normal(start.shape[0])
        states = np.empty((n_times, self.n))
        for t in range(n_times):
            if t:
                z = self.mean_after(z)
                z[: self.n] += root @ rng.standard_normal(self.n)
            states[t] = z[: self.n]
        return states


def _times(A: np.ndarray, part: np.ndarray) -> np.ndarray:
    if A.ndim == 2:
        return A @ part
    return (A if part.ndim == 1 or A.ndim == 0 else A[:, None]) * part


def factor(matrix: np.ndarray, what: str) -> np.ndarray:
    """Lower Cholesky factor (what stands above the diagonal is not zero), or an error that says of what."""
    L, info = dpotrf(matrix, lower=1, clean=0)
    if info:
        raise indefinite(what)
    return L


def indefinite(what: str) -> SolverError:
    """The error that says of what covariance there is no factor."""
    return SolverError(f"{what} is not positive definite in float64: the noise or the process noise is too small.")


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


def is_steady(P: np.ndarray, other: np.ndarray) -> bool:
    """Whether no entry differs by more than a share of the standard deviations that it belongs to."""
    spread = np.sqrt(np.maximum(P.diagonal(), 0.0))  # of a field that vanishes, rounding may leave less
    return bool((np.abs(P - other) <= STEADY * spread[:, None] * spread).all())
