"""Filter and smoother: one pass over the readings forward and back, with the moments that EM needs.

Smoothing with heavy-tailed steps, and without gross outliers: passes until variances and outliers stay the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil, prod, sqrt
from threading import Lock
from typing import TYPE_CHECKING, TypeVar
from weakref import finalize

import numpy as np

from nareg._core.memory import room
from nareg._solvers.threads import ONE_THREAD, few_threads
from nareg.spacetime._dense.filter import Dynamics, factor, indefinite
from nareg.spacetime._readings.holdout import station_order
from nareg.spacetime._readings.outliers import contradicted

if TYPE_CHECKING:
    from nareg.spacetime._dense.passes import SegmentCovariances, SmoothedTimes

Result = TypeVar("Result")

#: Bytes of covariances that a pass keeps, and up to so many times as many where these are a share of the free memory. Of more,
#: it keeps the first ones of about sqrt(T) segments, and computes the others again going back: a third of its work.
KEPT, LARGER, FREE = 2**30, 6, 0.25
#: Multiplications, in products of matrices, between two ticks: about a tenth of a second.
BETWEEN_TICKS = 2**25
#: Stations that are passed over together where those around each tell nearly all, and how many of these they bring along. Of
#: fewer stations than MANY groups save a tenth of a fit, and the readings that they leave out differ.
GROUP, AROUND, MANY = 32, 8, 128
#: Windows that are passed over at once.
THREADS = min(4, os.cpu_count() or 1)


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
    with few_threads(dynamics.P0.shape[0]):
        record = Record(y, dynamics, r, scale, errors, smooth)
        record.filter(tick)
        return record.result(moments, df, W)


def local_pass(y: np.ndarray, dynamics: Dynamics, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smoothed mean and variance (T, N) by the stations around each: with one autoregression, some follow the law that all do.

    A :func:`large` network is passed over in groups, whose few states cost far less. What is far adds little to what is near.
    """
    if not large(dynamics):
        done = run(y, dynamics, r)
        return done.x, done.var
    n, p = dynamics.n, dynamics.order
    x, var = np.empty(y.shape), np.empty(y.shape)
    order = station_order(y)  # on a regular grid it decides which stations are a group
    for inside, around in _groups(dynamics.Q[np.ix_(order, order)]):
        group = order[around]
        stacked = (np.arange(p)[:, None] * n + group).ravel()
        part = Dynamics(dynamics.blocks, dynamics.Q[np.ix_(group, group)], dynamics.P0[np.ix_(stacked, stacked)])
        done = run(y[:, group], part, np.broadcast_to(r, y.shape)[:, group])
        at = np.searchsorted(around, inside)
        x[:, order[inside]], var[:, order[inside]] = done.x[:, at], done.var[:, at]
    return x, var


def large(dynamics: Dynamics) -> bool:
    """Whether a :func:`local_pass` is another than that over all stations."""
    return dynamics.n >= MANY and not any(block.ndim for block in dynamics.blocks)


def _groups(covariance: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Stations in groups, those least like the rest first; and each group with the stations most like one of its own."""
    spread = np.sqrt(np.maximum(covariance.diagonal(), np.finfo(float).tiny))
    like = np.round(covariance / np.outer(spread, spread), 9)  # what rounding tells apart is alike
    near = np.argsort(-like, axis=1, kind="stable")[:, :AROUND]
    left = np.arange(len(like))
    while left.size:
        first = left[np.argmin(like[np.ix_(left, left)].sum(axis=1))]
        inside = left[np.argsort(-like[first, left], kind="stable")[:GROUP]]
        left = np.setdiff1d(left, inside)
        yield inside, np.union1d(near[inside], inside)


def filter_each(
    windows: Sequence[np.ndarray], dynamics: Dynamics, r: np.ndarray, scales: Sequence[np.ndarray | None] | None = None,
    *, smooth: bool = True, means: bool = False,
) -> list[Record]:  # fmt: skip
    """The first half of a pass over each of some windows, several at once; with their smoothed ``means``, where wanted."""

    def one(k: int) -> Record:
        with few_threads(dynamics.P0.shape[0]):
            record = Record(windows[k], dynamics, r, None if scales is None else scales[k], None, smooth)
            record.filter(None)
            if means:
                record.x = record.smooth(False, None, None, spreads=False).states[:, 0, : dynamics.n]
            return record

    return _each(one, len(windows), dynamics)


def moments_each(records: Sequence[Record], df: float | None = None) -> list[Pass]:
    """The second half, with the second moments that EM needs."""

    def one(k: int) -> Pass:
        with few_threads(records[k].dynamics.P0.shape[0]):
            return records[k].result(True, df, None)

    return _each(one, len(records), records[0].dynamics)


def smoothed_means(
    windows: Sequence[np.ndarray], dynamics: Dynamics, r: np.ndarray, scales: Sequence[np.ndarray | None] | None = None
) -> list[np.ndarray]:
    """(T, N) smoothed mean of the field over each of some windows, and nothing else."""

    def one(k: int) -> np.ndarray:
        return filter_each([windows[k]], dynamics, r, None if scales is None else [scales[k]], means=True)[0].x

    return _each(one, len(windows), dynamics)


@dataclass(frozen=True)
class Slopes:
    """The log-likelihood, and its derivatives by what a model is made of."""

    log_likelihood: float
    Q: np.ndarray  # (N, N)
    P0: np.ndarray  # (pN, pN)
    a: np.ndarray  # (p,) by multiples of the identity in A
    r: np.ndarray  # (N,)


def slopes_each(windows: Sequence[np.ndarray], dynamics: Dynamics, r: np.ndarray) -> list[Slopes]:
    """The log-likelihood of each of some windows, and its derivatives, for dynamics that are diagonal."""

    def one(k: int) -> Slopes:
        with few_threads(dynamics.P0.shape[0]):
            record = Record(windows[k], dynamics, r, None, None, smooth=True)
            record.filter(None)
            done = record.smooth(False, None, None, spreads=False, derived=True)
        (score,), information = record.begin
        first = 0.5 * (np.outer(score, score) - information)
        return Slopes(record.log_likelihood, 0.5 * done.by_Q, first, done.by_a, 0.5 * done.by_r)

    return _each(one, len(windows), dynamics)


def _each(one: Callable[[int], Result], count: int, dynamics: Dynamics) -> list[Result]:
    """Of each of so many windows, several at once."""
    if count == 1 or dynamics.P0.shape[0] >= ONE_THREAD:  # BLAS has the cores
        return [one(k) for k in range(count)]
    with few_threads(dynamics.P0.shape[0]), ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(one, range(count)))


def normal_equations(y: np.ndarray, dynamics: Dynamics, r: np.ndarray, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``D' V^-1 D`` (NK, NK) and ``D' V^-1 y`` (NK,): V is the covariance of the readings, D has each station's functions F.

    ``F`` (T, K) are functions of time; those of one station follow each other. Every column of D goes through the filter.
    """
    with few_threads(dynamics.P0.shape[0]):
        return Record(y, dynamics, r, None, None, smooth=True).normal_equations(F)


def step_variances(
    y: np.ndarray, dynamics: Dynamics, r: np.ndarray, df: float, *, scale: np.ndarray | None = None,
    tick: Callable[[], None] | None = None,
) -> np.ndarray:  # fmt: skip
    """Variances ``s_t`` of Student t steps after one pass: as :attr:`Pass.scale`, without what else a pass computes."""
    with few_threads(dynamics.P0.shape[0]):
        record = Record(y, dynamics, r, scale, None, smooth=True)
        record.filter(tick)
        return record.smooth(False, df, None, spreads=False).scale


class _Spare:
    """Covariances of passes that are over, whose memory the next ones take: the system is slow to clear and give anew."""

    def __init__(self) -> None:
        self.lock, self.users = Lock(), 0
        self.stored: list[SegmentCovariances] = []

    @contextmanager
    def during(self) -> Iterator[None]:
        """Whether anything is left for later: until the last of those who want it ends."""
        with self.lock:
            self.users += 1
        try:
            yield
        finally:
            with self.lock:
                self.users -= 1
                if not self.users:
                    self.stored.clear()

    def take(self, shapes: tuple[tuple[int, ...], ...]) -> SegmentCovariances | None:
        """Arrays of these shapes, if there are; else all are given back to the system but the largest, if these are smaller."""
        with self.lock:
            for k, stored in enumerate(self.stored):
                if tuple(part.shape for part in stored) == shapes:
                    return self.stored.pop(k)
            most = max((stored.covariances.size for stored in self.stored), default=0)
            self.stored = [stored for stored in self.stored if stored.covariances.size == most > prod(shapes[1])]
            return None

    def give(self, stored: SegmentCovariances) -> None:
        """Leave arrays for the next pass."""
        with self.lock:
            if self.users:
                self.stored.append(stored)


SPARE = _Spare()


class Record:
    """Readings and what the compiled loops leave of them, segment by segment: a pass that is under way."""

    log_likelihood: float  # of a pass that has been forward
    x: np.ndarray  # (T, N) smoothed mean of the field, where it was wanted

    def __init__(
        self, y: np.ndarray, dynamics: Dynamics, r: np.ndarray, scale: np.ndarray | None, errors: np.ndarray | None,
        smooth: bool,
    ):  # fmt: skip
        from nareg.spacetime._dense import passes  # numba: imported when first needed

        (T, n), m = y.shape, dynamics.P0.shape[0]
        columns = y[:, None] if errors is None else np.concatenate([y[:, None], np.moveaxis(errors, 2, 1)], axis=1)
        A, C = dynamics.matrix(), columns.shape[1]
        diagonal = all(block.ndim < 2 for block in dynamics.blocks)
        diagonals = [np.broadcast_to(block, n) for block in dynamics.blocks] if diagonal else np.empty((0, n))
        self.loops, self.dynamics, self.smooths = passes, dynamics, smooth
        self.system = passes.StateSpace(
            _array(columns), _array(np.broadcast_to(r, (T, n))), _array(np.ones(T) if scale is None else scale),
            _array(A), _array(A.T), _array(diagonals), _array(dynamics.Q),
        )  # fmt: skip
        self.means = passes.Means(
            np.empty((T, C, m)), np.empty((T, C, n)), np.empty((T, n)), np.full((T, n), np.nan), np.full((T, n), np.nan)
        )
        block = min(n, passes.BLOCK)
        fits = not smooth or _fits(8 * T * (m * m + n * m + n * block))
        self.length = T if fits else ceil(sqrt(T))
        size = self.length if smooth else 1
        shapes: tuple[tuple[int, ...], ...] = (self.length,), (size, m, m), (size, n, m), (size, n, block), (size,)
        self.stored = SPARE.take(shapes) or passes.SegmentCovariances(
            np.empty(self.length, np.int64), *(np.empty(shape) for shape in shapes[1:])
        )
        finalize(self, SPARE.give, self.stored)
        self.rows = max(1, BETWEEN_TICKS // m**3)
        self.starts: list[tuple[np.ndarray, ...]] = []
        self.stands = 0  # row that the segment begins with whose covariances are stored
        self.last = np.empty((m, m))
        self.begin = np.empty((C, m)), np.empty((m, m))  # score and information of the first state

    def _parts(self, first: int) -> list[tuple[int, int]]:
        """Rows of the segment that begins at ``first``, in parts that the loops take a short time for."""
        end = min(first + self.length, len(self.system.y))
        return [(start, min(start + self.rows, end)) for start in range(first, end, self.rows)]

    def filter(self, tick: Callable[[], None] | None) -> None:
        """Forward in time."""
        state = np.zeros(self.means.states.shape[1:]), _array(self.dynamics.P0).copy(), np.zeros(1, np.int64)
        self.log_likelihood = 0.0
        for first in range(0, len(self.system.y), self.length):
            self.starts.append(tuple(part.copy() for part in state))
            self.log_likelihood += self._filter(first, state, tick)
        if self.smooths and len(self.means.var) > 1:  # nothing is divided by it, but what it says of the past would be wrong
            factor(state[1], "the predicted covariance")
        self.last[:] = self.stored.covariances[self.stored.places[(len(self.system.y) - 1) % self.length]]

    def _filter(self, first: int, state: tuple[np.ndarray, ...], tick: Callable[[], None] | None = None) -> float:
        log_likelihood, self.stands = 0.0, first
        for start, stop in self._parts(first):
            part = self.loops.forward(self.system, self.means, self.stored, *state, first, start, stop)
            if part == np.inf:
                raise indefinite("the covariance of the innovations")
            log_likelihood += part
            if tick is not None:
                for _ in range(start, stop):
                    tick()
        return log_likelihood

    def normal_equations(self, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As the function; covariances of the filter are those of every column."""
        A, (T, C, m), n, K = self.system.A, self.means.states.shape, self.dynamics.n, F.shape[1]
        state = np.zeros((C, m)), _array(self.dynamics.P0).copy(), np.zeros(1, np.int64)
        values, Z, totals = np.zeros((n, n * K + 1)), np.zeros((m, n * K + 1)), np.zeros((n * K + 1, n * K + 1))
        stations = np.arange(n)[:, None]
        for first in range(0, T, self.length):
            self._filter(first, state)
            for t in range(first, min(first + self.length, T)):
                seen = np.flatnonzero(np.isfinite(self.system.y[t, 0]))
                values[stations, stations * K + np.arange(K)] = F[t]
                values[:, -1] = self.system.y[t, 0]
                innovations, precision = values[seen] - Z[seen], 1 / self.system.r[t, seen]
                P = self.stored.covariances[self.stored.places[t - first]]
                Z += (P[:, seen] * precision) @ innovations
                # readings minus the filter's mean are r times the innovations, weighted by the inverse of their covariance
                totals += innovations.T @ (precision[:, None] * (values[seen] - Z[seen]))
                Z = np.concatenate([A @ Z, Z[: m - n]])
        return 0.5 * (totals + totals.T)[:-1, :-1], totals[:-1, -1]

    def smooth(
        self, moments: bool, df: float | None, W: np.ndarray | None, *, spreads: bool = True, derived: bool = False
    ) -> SmoothedTimes:
        """Backward in time; without ``spreads`` there are no variances, but for those of the steps with ``df``."""
        T, C, m = self.means.states.shape
        n = self.system.Q.shape[0]
        (k, size), wanted = (n, m) if moments else (0, 0), n if derived else 0
        W = np.empty((0, n)) if W is None else _array(W)
        sizes: tuple[tuple[int, ...], ...] = (k, k), (k, k), (size, k), (k, size), (size, k), (k, size), (size, size), (5,)
        p = len(self.system.diagonals)
        sizes += (wanted, wanted), (p,), (wanted,), (p + n,)
        done = self.loops.SmoothedTimes(
            np.empty((T, C, m)), np.empty((T if spreads else 0, n)), self.system.scale.copy(), W, np.empty((T, len(W))),
            *(np.zeros(shape) for shape in sizes),
        )  # fmt: skip
        state = np.zeros((C, m)), np.zeros((m, m)), np.zeros(1, np.int64)
        for k in range(len(self.starts) - 1, -1, -1):
            first = k * self.length
            if first != self.stands:  # its covariances have made room for others
                self._filter(first, tuple(part.copy() for part in self.starts[k]))
            for start, stop in reversed(self._parts(first)):
                self.loops.backward(self.system, self.means, self.stored, done, *state, first, start, stop, df or 0.0)
        self.begin = state[:2]
        return done

    def result(self, moments: bool, df: float | None, W: np.ndarray | None) -> Pass:
        """Backward in time, unless only the filter was wanted, and all that a pass is for."""
        means, n, done = self.means, self.dynamics.n, self.smooth(moments, df, W) if self.smooths else None
        states, var = (means.states, means.var) if done is None else (done.states, done.var)
        state, taken = means.states[-1], None
        if states.shape[1] == 1:
            state = state[0]
        else:
            state, taken = state.T, np.moveaxis(states[:, 1:, :n], 1, 2)
        sums = points = point_variances = None
        if done is not None:
            sums = _moments(done, self.dynamics) if moments else None
            if W is not None:
                points, point_variances = states[:, 0, :n] @ W.T, done.point_variances
        return Pass(
            self.log_likelihood, states[:, 0, :n], np.maximum(var, 0.0), means.innovations, means.spreads, sums,
            self.system.scale if done is None else done.scale, points, point_variances, state, self.last, taken,
        )  # fmt: skip


def _fits(size: float) -> bool:
    """Whether a pass keeps so many bytes of covariances."""
    return size <= KEPT or size <= min(LARGER * KEPT, FREE * room()[0])


def _array(a: object) -> np.ndarray:
    """An array that the loops are compiled for."""
    return np.require(a, np.float64, ["C", "W"])


def _moments(done: SmoothedTimes, dynamics: Dynamics) -> Moments:
    """Sums of second moments: of covariances, and of means."""
    n, weights = dynamics.n, 1.0 / done.scale[1:]
    sums = zip((done.present, done.lagged, done.past, done.shared), done.weights, strict=False)
    waiting = (done.covariance[:n], done.covariance[:n], done.covariance, done.information)
    S11, lagged, S00, shared = (total + weight * part for (total, weight), part in zip(sums, waiting, strict=True))
    if len(S00) > n:  # what a state knows of the field two steps before, is what the state before knows of its own
        lagged = lagged + weights[:1].sum() * done.first[n:, n:]
        S00 = np.hstack([S00, np.vstack([S00[n:].T, lagged])])
    states = done.states[:, 0]
    now, past = states[1:, :n], states[:-1]
    weighted = now * weights[:, None]
    return Moments(
        S11 + weighted.T @ now,
        dynamics.product(S00) - dynamics.Q @ shared + weighted.T @ past,
        S00 + (past * weights[:, None]).T @ past,
        done.first + np.outer(states[0], states[0]),
    )


#: Passes with Student t steps, whose variances change little after the third; and where they were known for nearly the same
#: readings. The first one changes the logarithms of variances more than it should, which the next one mends: where readings
#: tell little of them, three passes come as far as four.
PASSES, AGAIN, LENGTH = 3, 2, 2.0


def heavy_tailed_pass(
    y: np.ndarray, dynamics: Dynamics, r: np.ndarray, df: float | None, *, scale: np.ndarray | None = None,
    smooth: bool = True, W: np.ndarray | None = None, tick: Callable[[float], None] | None = None,
    errors: np.ndarray | None = None,
) -> Pass:  # fmt: skip
    """One pass, or with ``df`` a few, over readings (T, N), from the steps' variances ``scale`` on; ``tick`` counts rows."""
    each = None if tick is None else lambda: tick(1.0)
    with SPARE.during():
        if df and smooth:
            scale = tail_variances(y, dynamics, r, df, scale=scale, tick=each)
        return run(y, dynamics, r, scale=scale, smooth=smooth, W=W, tick=each, errors=errors)


def tail_variances(
    y: np.ndarray, dynamics: Dynamics, r: np.ndarray, df: float, *, scale: np.ndarray | None = None,
    tick: Callable[[], None] | None = None,
) -> np.ndarray | None:  # fmt: skip
    """Variances of Student t steps for the last of a few passes, from those of ``scale`` on."""
    for _ in range((PASSES if scale is None else AGAIN) - 1):
        scale = step_variances(y, dynamics, r, df, scale=scale, tick=tick) ** (1.0 if scale is not None else LENGTH)
    return scale


def robust_pass(
    y: np.ndarray, dynamics: Dynamics, r: np.ndarray, df: float | None, *, scale: np.ndarray | None = None,
    W: np.ndarray | None = None, tick: Callable[[float], None] | None = None, errors: np.ndarray | None = None,
) -> tuple[Pass, np.ndarray]:  # fmt: skip
    """Smooth without the readings that the others contradict; and every reading's deletion score."""
    done: Pass | None = None

    def estimate(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal done, scale
        scale = done.scale if done is not None and df else scale
        done = heavy_tailed_pass(y, dynamics, r, df, scale=scale, W=W, tick=tick, errors=errors)
        return done.x, done.var

    with SPARE.during():
        _, scores = contradicted(y, r, dynamics.P0.diagonal()[: dynamics.n], estimate, least_spread=1.0)
    assert done is not None
    return done, scores
