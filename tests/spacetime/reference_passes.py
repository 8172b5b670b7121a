"""The filter and the Rauch-Tung-Striebel smoother in plain NumPy, one time after the other: what the compiled loops compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrs

from nareg.spacetime._dense.filter import Correction, Dynamics, correct, factor, innovate, is_steady
from nareg.spacetime._dense.smoother import Moments, Pass


def _patterns(observed: np.ndarray, r: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A number per time; equal where gaps, variances and scale are."""
    key = np.column_stack([np.where(observed, r, np.inf), scale])
    return np.unique(key, axis=0, return_inverse=True)[1].ravel()


class Covariances:
    """Predicted and corrected covariances of all times. They depend on where there are readings, not on what is read."""

    def __init__(self, dynamics: Dynamics, observed: np.ndarray, r: np.ndarray, scale: np.ndarray):
        self.dynamics, self.observed, self.r, self.scale = dynamics, observed, r, scale
        self.pattern = _patterns(observed, r, scale)
        self.steps: list[tuple[np.ndarray, np.ndarray]] = []

    def forward(self) -> Iterator[tuple[np.ndarray, Correction | None, np.ndarray]]:
        """Predicted covariance, correction and corrected covariance of every time."""
        P, pattern, before, correction = self.dynamics.P0, self.pattern, None, None
        T = len(pattern)
        for t in range(T):
            repeats = t > 0 and pattern[t] == pattern[t - 1] and P is before
            if not self.observed[t].any():
                correction, after = None, P
            else:
                if not repeats or correction is None:
                    stations = np.flatnonzero(self.observed[t])
                    correction = correct(P, stations, self.r[t, stations])
                after = correction.covariance
            self.steps.append((P, after))
            yield P, correction, after
            before = P
            if t + 1 < T:
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


def reference(
    y: np.ndarray, dynamics: Dynamics, r: np.ndarray, *, scale: np.ndarray | None = None, smooth: bool = True,
    moments: bool = False, df: float | None = None, W: np.ndarray | None = None, tick: Callable[[], None] | None = None,
    errors: np.ndarray | None = None,
) -> Pass:  # fmt: skip
    """What :func:`nareg.spacetime._dense.smoother.run` computes, with its parameters."""
    T, N = y.shape
    r = np.broadcast_to(r, (T, N))
    scale = np.ones(T) if scale is None else scale
    forward = filter_pass(y, dynamics, r, scale, tick, errors)
    if smooth:
        x, var, sums, scale, points, point_variances = _backward(forward, dynamics, scale, moments, df, W)
    taken = None
    if not smooth:
        x, var = forward.corrected[:, :N], forward.var
        sums = points = point_variances = None
    if errors is not None:
        x, taken = x[..., 0], x[..., 1:]
    return Pass(
        forward.log_likelihood, x, np.maximum(var, 0.0), forward.innovations, forward.innovation_variances,
        sums, scale, points, point_variances, forward.corrected[-1], forward.last, taken,
    )  # fmt: skip


class _Sums:
    """Sums of smoothed covariances over time, or the surprises alone; what repeats is added once, with its weight."""

    def __init__(self, dynamics: Dynamics, moments: bool, surprises: bool):
        n, m = dynamics.n, dynamics.P0.shape[0]
        self.moments = moments
        self.S11, self.S10, self.S00 = np.zeros((n, n)), np.zeros((n, m)), np.zeros((m, m))
        self.weight, self.trace, self.surprises = 0.0, 0.0, surprises
        self.waiting: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        if not surprises:
            return
        self.A = dynamics.matrix()
        self.Q_inverse = dpotrs(factor(dynamics.Q, "the process noise"), np.eye(n, order="F"), lower=1)[0]
        self.QA = self.Q_inverse @ self.A
        self.AQA = self.A.T @ self.QA

    def begin(self, V1: np.ndarray, C: np.ndarray, V0: np.ndarray) -> None:
        """Covariances of the coming times: of ``x_t``, between ``x_t`` and ``z_{t-1}``, of ``z_{t-1}``."""
        self.flush()
        self.waiting = (V1, C, V0)
        if self.surprises:
            self.trace = float(np.vdot(self.Q_inverse, V1) - 2 * np.vdot(self.QA, C) + np.vdot(self.AQA, V0))

    def flush(self) -> None:
        if self.moments and self.waiting is not None:
            V1, C, V0 = self.waiting
            self.S11 += self.weight * V1
            self.S10 += self.weight * C
            self.S00 += self.weight * V0
        self.weight = 0.0

    def surprise(self, x: np.ndarray, before: np.ndarray) -> float:
        """``tr Q^-1 E[e e']`` of one step, with the covariances that wait."""
        e = x - self.A @ before
        return self.trace + float(e @ self.Q_inverse @ e)

    def total(self, states: np.ndarray, weights: np.ndarray, V: np.ndarray) -> Moments:
        self.flush()
        n = self.S11.shape[0]
        now, past = states[1:, :n], states[:-1]
        weighted = now * weights[:, None]
        return Moments(
            self.S11 + weighted.T @ now,
            self.S10 + weighted.T @ past,
            self.S00 + (past * weights[:, None]).T @ past,
            V + np.outer(states[0], states[0]),
        )


def _joined(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """``[[a, b], [c, d]]``; np.block takes several times as long."""
    k = a.shape[0]
    result = np.empty((k + d.shape[0], k + d.shape[0]))
    result[:k, :k], result[:k, k:], result[k:, :k], result[k:, k:] = a, b, c, d
    return result


def _backward(
    forward: FilterPass, dynamics: Dynamics, scale: np.ndarray, moments: bool, df: float | None, W: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, Moments | None, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Backward in time. Only the oldest block of a state is new: the others stand in the state one time later."""
    n, T, m = dynamics.n, len(forward.corrected), dynamics.P0.shape[0]
    z, V = forward.corrected[-1], forward.last
    states, var = np.empty((T, *z.shape)), np.empty((T, n))
    point_variances = None if W is None else np.empty((T, W.shape[0]))
    scale = scale.copy()
    sums = _Sums(dynamics, moments, surprises=bool(df)) if moments or df else None
    G = cross = before = V
    key: tuple[Any, Any, Any] = (None, None, None)
    for t in range(T - 1, -1, -1):
        if t < T - 1:
            ahead, P = forward.covariances.steps[t + 1][0], forward.covariances.steps[t][1]
            steady = key[0] is P and key[1] is ahead
            if not (steady and key[2] is V):
                oldest = P[m - n :]
                if not steady:
                    cross = dynamics.product(oldest.T)  # with the next state
                    if m > n:
                        cross = np.vstack([cross, oldest[:, : m - n].T])
                    L = factor(ahead, "the predicted covariance")
                    G = dpotrs(L, np.asfortranarray(cross), lower=1)[0].T
                VG = V @ G.T
                last = oldest[:, m - n :] + G @ (VG - cross)  # ahead G' is cross
                last = 0.5 * (last + last.T)
                before = last if m == n else _joined(V[n:, n:], VG[n:], VG[n:].T, last)
                if sums is not None:
                    sums.begin(V[:n, :n], VG if m == n else np.hstack([V[:n, n:], VG[:n]]), before)
                key = (P, ahead, V)
                if steady and is_steady(before, V):
                    before = V
            V = before
            ahead_z = z
            z = np.concatenate([ahead_z[n:], forward.corrected[t, m - n :] + G @ (ahead_z - forward.predicted[t + 1])])
            if sums is not None:
                if df:
                    scale[t + 1] = (sums.surprise(_field(ahead_z[:n]), _field(z)) + df) / (n + df + 2)
                sums.weight += 1.0 / scale[t + 1]
        states[t], var[t] = z, V.diagonal()[:n]
        if W is not None and point_variances is not None:
            point_variances[t] = np.einsum("ij,ij->i", W @ V[:n, :n], W)
    first = states if states.ndim == 2 else states[..., 0]  # the field's column
    total = None if sums is None or not moments else sums.total(first, 1.0 / scale[1:], V)
    points = None if W is None else first[:, :n] @ W.T
    return states[:, :n], var, total, scale, points, point_variances


def _field(z: np.ndarray) -> np.ndarray:
    """The field's column of a state's mean, which may have others of errors."""
    return z if z.ndim == 1 else z[:, 0]
