"""The state-space model, and its dense Kalman filter for readings with gaps.

The state stacks the field at the last p times, ``z_t = (x_t, ..., x_{t-p+1})`` with p = 1 or 2::

    x_t = A_1 x_{t-1} + ... + A_p x_{t-p} + e_t,    e_t ~ N(0, s_t Q)
    y_t = x_t + v_t where there is a reading,         v_t ~ N(0, diag(r_t))

Rows are times in this package's inner modules.

What repeats is computed once: where the pattern of gaps and the variances stay the same, the covariances converge to their
steady state, and the same array then serves every further time. Covariances that would not fit are computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, sqrt

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
        raise SolverError(f"{what} is not positive definite in float64: the noise or the process noise is too small.")
    return L


LOG_2PI = float(np.log(2 * np.pi))
#: Covariances that differ by less than this share of their standard deviations are the same: the steady state is reached.
STEADY = 1e-13
#: Bytes of covariances that a pass keeps. Of more, it keeps those at the first time of every segment.
KEPT = 2**30


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


def _patterns(observed: np.ndarray, r: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A number per time; equal where gaps, variances and scale are."""
    key = np.column_stack([np.where(observed, r, np.inf), scale])
    return np.unique(key, axis=0, return_inverse=True)[1].ravel()


def is_steady(P: np.ndarray, other: np.ndarray) -> bool:
    """Whether no entry differs by more than a share of the standard deviations that it belongs to."""
    spread = np.sqrt(np.maximum(P.diagonal(), 0.0))  # of a field that vanishes, rounding may leave less
    return bool((np.abs(P - other) <= STEADY * spread[:, None] * spread).all())


class Covariances:
    """Predicted and corrected covariances of all times. They depend on where there are readings, not on what is read.

    Where all of them would take more than :data:`KEPT` bytes, only those of one of about sqrt(T) segments are there at a time:
    going back, :meth:`predicted` and :meth:`corrected` compute a segment again from its first covariance, to the last bit.
    """

    def __init__(self, dynamics: Dynamics, observed: np.ndarray, r: np.ndarray, scale: np.ndarray):
        self.dynamics, self.observed, self.r, self.scale = dynamics, observed, r, scale
        self.pattern = _patterns(observed, r, scale)
        T, size = len(observed), dynamics.P0.nbytes
        self.length = T if 2 * T * size <= KEPT else ceil(sqrt(T))
        self.starts: list[np.ndarray] = []
        self.segment, self.steps = -1, list[tuple[np.ndarray, np.ndarray]]()

    def forward(self) -> Iterator[tuple[np.ndarray, Correction | None, np.ndarray]]:
        """Predicted covariance, correction and corrected covariance of every time."""
        for t, step in enumerate(self._from(0, self.dynamics.P0, len(self.observed))):
            if t % self.length == 0:
                self.segment, self.steps = t // self.length, []
                self.starts.append(step[0])
            self.steps.append((step[0], step[2]))
            yield step

    def predicted(self, t: int) -> np.ndarray:
        """Of the state at time t, given what was read before. At first times of segments nothing is computed again."""
        k, place = divmod(t, self.length)
        return self.starts[k] if place == 0 else self._loaded(k)[place][0]

    def corrected(self, t: int) -> np.ndarray:
        """Of the state at time t, given what was read until then."""
        k, place = divmod(t, self.length)
        return self._loaded(k)[place][1]

    def _loaded(self, k: int) -> list[tuple[np.ndarray, np.ndarray]]:
        if k != self.segment:
            first = k * self.length
            steps = self._from(first, self.starts[k], min(first + self.length, len(self.observed)))
            self.segment, self.steps = k, [(P, after) for P, _, after in steps]
        return self.steps

    def _from(self, first: int, P: np.ndarray, stop: int) -> Iterator[tuple[np.ndarray, Correction | None, np.ndarray]]:
        pattern, before, correction = self.pattern, None, None
        for t in range(first, stop):
            repeats = t > first and pattern[t] == pattern[t - 1] and P is before
            if not self.observed[t].any():
                correction, after = None, P
            else:
                if not repeats or correction is None:
                    stations = np.flatnonzero(self.observed[t])
                    correction = correct(P, stations, self.r[t, stations])
                after = correction.covariance
            yield P, correction, after
            before = P
            if t + 1 < stop:
                again = pattern[t + 1] == pattern[t]
                if not (repeats and again):
                    following = self.dynamics.covariance_after(after, float(self.scale[t + 1]))
                    P = P if again and is_steady(following, P) else following


@dataclass
class FilterPass:
    """Means of every time, and their covariances; means have further columns of what the filter takes of errors."""

    predicted: np.ndarray  # (T, pN) or (T, pN, 1 + J) means of the states before their readings
    corrected: np.ndarray  # after them
    covariances: Covariances
    var: np.ndarray  # (T, N) variances of the field after the readings
    last: np.ndarray  # (pN, pN) covariance of the last state
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
    covariances = Covariances(dynamics, np.isfinite(y), r, scale)
    columns = y if errors is None else np.concatenate([y[..., None], errors], axis=2)
    z = np.zeros((dynamics.P0.shape[0], *columns.shape[2:]))
    predicted, corrected = np.empty((T, *z.shape)), np.empty((T, *z.shape))
    log_likelihood, after = 0.0, dynamics.P0
    innovations, spreads, var = np.full((T, N), np.nan), np.full((T, N), np.nan), np.empty((T, N))
    for t, (_, correction, after) in enumerate(covariances.forward()):
        predicted[t] = z
        if correction is not None:
            z, v, part = innovate(z, columns[t, correction.stations], correction)
            log_likelihood += part
            innovations[t, correction.stations] = v
            spreads[t, correction.stations] = correction.variances
        corrected[t], var[t] = z, after.diagonal()[:N]
        z = dynamics.mean_after(z)
        if tick is not None:
            tick()
    return FilterPass(predicted, corrected, covariances, var, after, log_likelihood, innovations, spreads)
