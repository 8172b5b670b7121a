"""Rauch-Tung-Striebel smoother: one pass over the readings forward and back, with the moments that EM needs.

Smoothing with heavy-tailed steps, and without gross outliers: passes until variances and outliers stay the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrs

from nareg._solvers.threads import few_threads
from nareg.spacetime._dense.filter import Dynamics, FilterPass, factor, filter_pass, is_steady
from nareg.spacetime._readings.outliers import contradicted


@dataclass(frozen=True)
class Moments:
    """Sums over time of smoothed second moments, each weighted by ``1 / s_t``: what EM and gradients need.

    With Student t steps the weights are those of the updated ``s_t`` (:attr:`Pass.scale`).
    """

    S11: np.ndarray  # (N, N), sum E[x_t x_t'] over the T - 1 steps
    S10: np.ndarray  # (N, pN), sum E[x_t z_{t-1}']
    S00: np.ndarray  # (pN, pN), sum E[z_{t-1} z_{t-1}']
    first: np.ndarray  # (pN, pN), E[z_0 z_0']


@dataclass(frozen=True)
class Pass:
    """Result of one pass over the readings, in their (transformed) unit."""

    log_likelihood: float
    x: np.ndarray  # (T, N) smoothed mean of the field (filtered where only the filter ran)
    var: np.ndarray  # its variance
    innovations: np.ndarray  # (T, N) reading minus what the past predicts, NaN without a reading
    innovation_variances: np.ndarray
    moments: Moments | None
    scale: np.ndarray  # (T,) variance of every step relative to Q; with Student t steps the updated one
    points: np.ndarray | None  # (T, M) mean of W x_t
    point_variances: np.ndarray | None
    state: np.ndarray  # filtered mean of the last state; with errors of an offset further columns
    covariance: np.ndarray
    taken: np.ndarray | None  # (T, N, J) what the field's mean takes of errors of an offset


def run(
    y: np.ndarray, dynamics: Dynamics, r: np.ndarray, *, scale: np.ndarray | None = None, smooth: bool = True,
    moments: bool = False, df: float | None = None, W: np.ndarray | None = None, tick: Callable[[], None] | None = None,
    errors: np.ndarray | None = None,
) -> Pass:  # fmt: skip
    """Filter, and unless ``smooth`` is False smooth, the readings ``y`` (T, N), NaN where missing.

    Parameters
    ----------
    r : (N,) or (T, N) array
        Noise variances.
    scale : (T,) array, optional
        ``s_t``; default ones.
    moments : bool
        Also sum the second moments that EM needs.
    df : float, optional
        Degrees of freedom of Student t steps. Their variances become the most probable ones after this pass,
        ``(tr Q^-1 E[e_t e_t'] + df) / (N + df + 2)``.
    W : (M, N) array, optional
        Also return mean and variance of ``W x_t``.
    errors : (T, N, J) array, optional
        Errors of an offset that was removed from the readings. Also return what the field's mean takes of each.
    """
    T, N = y.shape
    r = np.broadcast_to(r, (T, N))
    scale = np.ones(T) if scale is None else scale
    with few_threads(dynamics.P0.shape[0]):
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
            ahead, P = forward.covariances.predicted(t + 1), forward.covariances.corrected(t)
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


#: Passes with Student t steps, whose variances change little after the third; and where they were known for nearly the same
#: readings.
PASSES, AGAIN = 4, 2


def heavy_tailed_pass(
    y: np.ndarray, dynamics: Dynamics, r: np.ndarray, df: float | None, *, scale: np.ndarray | None = None,
    smooth: bool = True, W: np.ndarray | None = None, tick: Callable[[float], None] | None = None,
    errors: np.ndarray | None = None,
) -> Pass:  # fmt: skip
    """One pass, or with ``df`` a few, over readings (T, N), from the steps' variances ``scale`` on; ``tick`` counts rows."""
    passes = 1 if not (df and smooth) else PASSES if scale is None else AGAIN
    each = None if tick is None else lambda: tick(1.0)
    for _ in range(passes - 1):
        scale = run(y, dynamics, r, scale=scale, df=df, tick=each).scale
    return run(y, dynamics, r, scale=scale, smooth=smooth, W=W, tick=each, errors=errors)


def robust_pass(
    y: np.ndarray, dynamics: Dynamics, r: np.ndarray, df: float | None, *, W: np.ndarray | None = None,
    tick: Callable[[float], None] | None = None, errors: np.ndarray | None = None,
) -> tuple[Pass, np.ndarray]:  # fmt: skip
    """Smooth without the readings that the others contradict; and every reading's deletion score."""
    done: Pass | None = None

    def estimate(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal done
        scale = done.scale if done is not None and df else None
        done = heavy_tailed_pass(y, dynamics, r, df, scale=scale, W=W, tick=tick, errors=errors)
        return done.x, done.var

    _, scores = contradicted(y, r, dynamics.P0.diagonal()[: dynamics.n], estimate, least_spread=1.0)
    assert done is not None
    return done, scores
