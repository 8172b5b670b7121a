"""Maximum likelihood of the large model by EM, its expectations from the mean and a few draws of the field's error.

The random numbers of the draws are chosen once, so that an iteration is a smooth map, which Anderson's method accelerates.
A step changes one autoregression, the field's reach and variance, and a noise variance per station, which is drawn to the
network's as in the dense model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize_scalar

from nareg.spacetime._large.field import Field
from nareg.spacetime._large.system import Preconditioner, Process, System
from nareg.spacetime._parametric import NOISE_RANGE, NOISE_SPREAD, REACH_PRIOR

#: Draws of the field's error that an expectation averages.
DRAWS = 2
#: Residual of the solves of an iteration; their error is far below that of the draws.
SOLVE_TOL = 1e-3
#: A step that changes log variances, the reach and the autoregression (in atanh) by less has converged.
CONVERGED = 5e-3
#: Steps that Anderson's method remembers.
MEMORY = 5
#: A preconditioner serves until a parameter (in the optimizer's coordinates) has moved by this much.
STALE = 0.4
#: Bounds of atanh(rho), and of the log of the reach around the typical one, two edges.
STEEPEST, REACHES = 4.5, (np.log(0.3), np.log(200.0))
TYPICAL_REACH = float(np.log(2.0))


@dataclass
class Fitted:
    """Process of (nearly) largest likelihood, the size of the last step, and the steps taken."""

    process: Process
    steps: list[float] = field(default_factory=list)
    converged: bool = False


@dataclass(frozen=True)
class Window:
    """Readings (N, T) of some times in a row, NaN where missing, and the seed of their draws."""

    y: np.ndarray
    seed: int

    @property
    def observed(self) -> np.ndarray:
        return np.isfinite(self.y)


@dataclass
class _Memory:
    """Solutions and preconditioner of the iteration before."""

    X: np.ndarray | None = None
    preconditioner: Preconditioner | None = None
    theta: np.ndarray | None = None  # parameters that the preconditioner was made for


def posterior(
    process: Process, window: Window, draws: int, tol: float, memory: _Memory | None = None,
    pool: ThreadPoolExecutor | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Mean and ``draws`` errors of the field, (N, 1 + draws, T); and ``draws`` fields that resemble these errors."""
    memory = memory or _Memory()
    theta = _pack(process)
    if memory.theta is None or np.abs(theta - memory.theta).max() > STALE:
        memory.preconditioner, memory.theta = None, theta
    system = System(process, window.observed, memory.preconditioner)
    memory.preconditioner = system.preconditioner
    B, prior = system.right_side(window.y)[:, None, :], np.zeros((process.field.n, 0, window.y.shape[1]))
    if draws:
        noise, prior = system.perturbation(draws, np.random.default_rng(window.seed))
        B = np.concatenate([B, noise + prior], axis=1)
        prior = process.prior_solve(prior)
    memory.X, _ = system.solve(B, tol, memory.X, pool)
    return memory.X, prior


def learn(
    windows: Sequence[Window], start: Process, *, iterations: int, fixed_noise: bool,
    pool: ThreadPoolExecutor | None = None, tick: Callable[[], None] | None = None,
) -> Fitted:  # fmt: skip
    """At most ``iterations`` of EM from ``start``."""
    level = max(float(np.nanvar(np.concatenate([w.y.ravel() for w in windows]))), 1e-12)
    lower, upper = _bounds(start.field.n, level)
    memories = [_Memory() for _ in windows]
    mixer = _Anderson(np.concatenate([np.full(3, np.sqrt(start.field.n)), np.ones(start.field.n)]))
    now = Fitted(start)
    for _ in range(iterations):
        theta = _pack(now.process)
        following = _step(windows, now.process, memories, fixed_noise, pool)
        change = _pack(following) - theta
        globals_, stations = np.abs(change[:3]).max(), float(np.sqrt(np.mean(change[3:] ** 2)))
        now.steps.append(float(max(globals_, stations)))
        if tick is not None:
            tick()
        if now.steps[-1] <= CONVERGED:
            now.process, now.converged = following, True
            break
        mixed = np.clip(mixer.next(theta, change), lower, upper)
        now.process = _unpack(mixed, following, fixed_noise)
    return now


def _bounds(n: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    noise = np.log(level * np.array(NOISE_RANGE))
    lower = np.concatenate([[np.log(level) - 20, -STEEPEST, REACHES[0]], np.full(n, noise[0])])
    upper = np.concatenate([[np.log(level) + 10, STEEPEST, REACHES[1]], np.full(n, noise[1])])
    return lower, upper


def _pack(process: Process) -> np.ndarray:
    return np.concatenate(
        [[np.log(process.variance), np.arctanh(process.rho), np.log(process.field.reach)], np.log(process.noise)]
    )


def _unpack(theta: np.ndarray, like: Process, fixed_noise: bool) -> Process:
    spatial = like.field if np.exp(theta[2]) == like.field.reach else like.field.family.at(float(np.exp(theta[2])))
    noise = like.noise if fixed_noise else np.exp(theta[3:])
    return Process(spatial, float(np.tanh(theta[1])), float(np.exp(theta[0])), noise)


class _Anderson:
    """Anderson's acceleration: the combination of the last steps whose residual is least, in a weighted norm."""

    def __init__(self, weights: np.ndarray):
        self.weights = weights
        self.points: list[np.ndarray] = []
        self.changes: list[np.ndarray] = []

    def next(self, theta: np.ndarray, change: np.ndarray) -> np.ndarray:
        size = np.linalg.norm(self.weights * change)
        if self.changes and size > 2 * np.linalg.norm(self.weights * self.changes[-1]):
            self.points, self.changes = [], []  # the map is not what it was: begin again
        self.points = [*self.points[-MEMORY:], theta]
        self.changes = [*self.changes[-MEMORY:], change]
        if len(self.points) == 1:
            return theta + change
        dF = np.column_stack([change - before for before in self.changes[:-1]]) * self.weights[:, None]
        dX = np.column_stack([theta - before for before in self.points[:-1]])
        gamma = np.linalg.lstsq(dF, self.weights * change, rcond=1e-8)[0]
        moved = change - (dX + dF / self.weights[:, None]) @ gamma
        # no further than so many plain steps, which leaves no room for a wild extrapolation
        limit = 20 * size / max(float(np.linalg.norm(self.weights * moved)), 1e-300)
        return theta + min(1.0, limit) * moved


@dataclass
class _Sums:
    """Expected sums over time that the next parameters need.

    A sum over draws of the error is close to one over the fields that these resemble, whose expectation is known: a share of
    the difference is added (a control variate). Where the readings tell little, the sums would else drown in their own noise,
    as a step changes the parameters by no more than the readings tell.
    """

    process: Process
    rows: int = 0  # times
    starts: int = 0  # windows
    c0: float = 0.0  # x_t' Theta x_t
    ends: float = 0.0  # the same at the first and last time of every window
    c1: float = 0.0  # x_t' Theta x_{t+1}
    parts: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)  # the field (N, S, T), and weights of its draws
    share: float = 0.0  # of the fields, in all sums
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (N,) readings
    squares: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (N,) squared noise

    def add(self, window: Window, X: np.ndarray, prior: np.ndarray, share: float) -> None:
        """Take in the mean and the errors ``X`` of one window, and the fields that the errors resemble."""
        process, n = self.process, self.process.field.n
        Theta, T = process.field.precision(), X.shape[-1]
        Y = np.concatenate([X, prior], axis=1)
        weights = np.array([1.0] + [1 / DRAWS] * DRAWS + [-share / DRAWS] * DRAWS)
        TY = (Theta @ Y.reshape(n, -1)).reshape(Y.shape)
        c0 = np.einsum("ist,ist,s->t", Y, TY, weights) + share * n * process.variance
        self.rows += T
        self.starts += 1
        self.c0 += float(c0.sum())
        self.ends += float(c0[0] + c0[-1])
        self.c1 += float(np.einsum("ist,ist,s->", Y[..., 1:], TY[..., :-1], weights))
        self.c1 += share * n * process.variance * process.rho * (T - 1)
        self.parts.append((Y, weights))
        self.share = share
        seen = window.observed
        residual = np.where(seen, window.y - X[:, 0], 0.0)
        counts = seen.sum(axis=1)
        squares = (residual**2).sum(axis=1) + share * counts * process.variance
        squares += np.einsum("ist,ist,it,s->i", Y[:, 1:], Y[:, 1:], seen.astype(float), weights[1:])
        if self.starts == 1:
            self.counts, self.squares = counts, squares
        else:
            self.counts, self.squares = self.counts + counts, self.squares + squares

    def quadratic(self, rho: float) -> float:
        """Of the precision of a unit process with this autoregression and the present field."""
        return ((1 + rho**2) * self.c0 - rho**2 * self.ends - 2 * rho * self.c1) / (1 - rho**2)

    def pairs(self, rho: float) -> np.ndarray:
        """``sum_t e_it e_jt`` on the field's pattern, e being the innovations of a unit process with this autoregression."""
        process, spatial = self.process, self.process.field
        family, n = spatial.family, spatial.n
        # innovations of a field whose own autoregression is another one
        growth = 1 + (rho**2 - rho * process.rho) * 2 / (1 - rho**2)
        rows = self.starts + growth * (self.rows - self.starts)
        G = self.share * process.variance * rows * spatial.covariance
        for Y, weights in self.parts:
            E = Y.copy()
            if Y.shape[-1] > 1:
                E[..., 1:] = (Y[..., 1:] - rho * Y[..., :-1]) / np.sqrt(1 - rho**2)
            for sign in (1.0, -1.0):
                some = sign * weights > 0
                if some.any():
                    F = (E[:, some] * np.sqrt(np.abs(weights[some]))[:, None]).reshape(n, -1)
                    G[:n] += sign * np.einsum("it,it->i", F, F)
                    G[n:] += sign * products(family.i, family.j, F)
        G[n:] *= 2
        return G


def _step(
    windows: Sequence[Window], process: Process, memories: list[_Memory], fixed_noise: bool, pool: ThreadPoolExecutor | None
) -> Process:
    """One expectation and maximization."""
    n = process.field.n
    sums = _Sums(process)
    solved = [posterior(process, w, DRAWS, SOLVE_TOL, memory, pool) for w, memory in zip(windows, memories, strict=True)]
    errors = sum(float(np.vdot(X[:, 1:], X[:, 1:])) for X, _ in solved)
    share = min(errors / sum(float(np.vdot(prior, prior)) for _, prior in solved), 1.0) ** 2
    for window, (X, prior) in zip(windows, solved, strict=True):
        sums.add(window, X, prior, share)
    rho = _best_rho(sums, n)
    spatial, total = _best_reach(process.field, sums, rho)
    noise = process.noise if fixed_noise else shrunk_noise(sums.counts, sums.squares, process.noise)
    return Process(spatial, rho, total / (n * sums.rows), noise)


def _best_rho(sums: _Sums, n: int) -> float:
    """The autoregression of largest expected likelihood; the variance is the best for each."""
    if sums.rows == sums.starts:
        return 0.0

    def loss(a: float) -> float:
        rho = np.tanh(a)
        value = n * sums.rows * np.log(max(sums.quadratic(rho), 1e-300))
        return float(value + n * (sums.rows - sums.starts) * np.log(1 - rho**2))

    return float(np.tanh(minimize_scalar(loss, bounds=(-STEEPEST, STEEPEST), method="bounded", options={"xatol": 1e-7}).x))


def _best_reach(before: Field, sums: _Sums, rho: float) -> tuple[Field, float]:
    """The field of largest expected likelihood, and the quadratic form of its precision."""
    family, n, G = before.family, before.n, sums.pairs(rho)
    tried: list[tuple[float, Field, float]] = []

    def loss(log_reach: float) -> float:
        spatial = before if log_reach == here else family.at(float(np.exp(log_reach)))
        total = float(G @ spatial.entries)
        value = 0.5 * sums.rows * (n * np.log(max(total, 1e-300)) - spatial.log_det)
        value += 0.5 * ((log_reach - TYPICAL_REACH) / REACH_PRIOR) ** 2
        tried.append((value, spatial, total))
        return value

    # one Newton step from a parabola through three reaches is enough for EM
    here, width = float(np.log(before.reach)), 0.05
    low, mid, high = (loss(here + shift) for shift in (-width, 0.0, width))
    curvature, slope = (low - 2 * mid + high) / width**2, (high - low) / (2 * width)
    move = -slope / curvature if curvature > 0 else -np.sign(slope) * 0.5
    loss(float(np.clip(here + np.clip(move, -0.7, 0.7), *REACHES)))
    _, spatial, total = min(tried, key=lambda entry: entry[0])
    return spatial, total


def products(i: np.ndarray, j: np.ndarray, E: np.ndarray) -> np.ndarray:
    """``sum_t E[i, t] E[j, t]`` for every pair."""
    from nareg.spacetime._large import kernels  # numba: imported when first needed

    return kernels.pair_sums(i, j, E)


def shrunk_noise(counts: np.ndarray, squares: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Noise variances from expected squares, drawn to the network's mean in the logarithm; without a reading they are it."""
    u = np.log(before)
    for _ in range(30):
        center = float(u.mean())
        ratio = squares * np.exp(-u)
        gradient = 0.5 * (counts - ratio) + (u - center) / NOISE_SPREAD**2
        step = gradient / (0.5 * ratio + 1 / NOISE_SPREAD**2)
        u = u - np.clip(step, -1.0, 1.0)
        if np.abs(step).max() < 1e-8:
            break
    return np.exp(u)
