"""Maximum likelihood of the large model by scoring; expectations are those of the mean and a few draws of the field's error.

The gradient in the few parameters of the whole network is that of the expected complete-data likelihood (Fisher's identity),
the curvature is Whittle's. The random numbers of the draws are chosen once, so that the gradient is a smooth function.
Each station's noise variance follows EM around the network's, to which it is drawn as in the dense model.

The curvature is the Fisher information, as if the readings were complete: a sum over modes of space and time.

With white noise of one variance n a stationary field with spectrum S has the information ``1/2 sum w^2 d log S d log S'`` with
``w = S / (S + n)`` (Whittle 1953). The spatial modes enter by the density of the Laplacian's eigenvalues alone (Golub
and Meurant 2010, chapter 11).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh_tridiagonal

from nareg.spacetime._dense.parametric import NOISE_RANGE, NOISE_SPREAD, REACH_PRIOR
from nareg.spacetime._sparse.field import GraphField
from nareg.spacetime._sparse.system import Process, SpaceTimeSystem, TimePreconditioner

#: Probes of the eigenvalues' density, and steps of Lanczos from each.
PROBES, STEPS = 4, 40
#: Frequencies in time that are summed over.
FREQUENCIES = 128


def eigenvalue_density(L: sp.csr_array, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights with ``sum_j h(l_j) / N`` nearly ``weights @ h(nodes)``, by Lanczos quadrature."""
    n = L.shape[0]
    nodes, weights = [], []
    for _ in range(PROBES):
        v = rng.choice([-1.0, 1.0], n) / np.sqrt(n)
        basis, a, b = [v], [], []
        for _ in range(min(STEPS, n)):
            w = L @ basis[-1]
            a.append(float(w @ basis[-1]))
            Q = np.array(basis)
            w -= Q.T @ (Q @ w)
            w -= Q.T @ (Q @ w)  # once more: against rounding
            b.append(float(np.linalg.norm(w)))
            if b[-1] <= 1e-10:
                break
            basis.append(w / b[-1])
        values, vectors = eigh_tridiagonal(np.array(a), np.array(b[: len(a) - 1]))
        nodes.append(np.maximum(values, 0.0))
        weights.append(vectors[0] ** 2 / PROBES)
    return np.concatenate(nodes), np.concatenate(weights)


def information(process: Process, rows: int, coverage: float, density: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """(4, 4) for log variance, atanh(rho), log reach and mean log noise; ``coverage`` is the mean of ``1 / r``, 0 in gaps."""
    nodes, weights = density
    rho, spatial = process.rho, process.field
    shift, power = spatial.reach**-2.0, spatial.family.smoothness
    raw = nodes + shift
    level = float(weights @ raw**-power)  # the fields are scaled to unit variances
    log_theta = power * np.log(raw) + np.log(level)
    by_reach = 2 * shift * power * (1 / raw - float(weights @ raw ** (-power - 1)) / level)
    waves = np.cos(np.pi * (np.arange(FREQUENCIES) + 0.5) / FREQUENCIES)
    gap = 1 + rho**2 - 2 * rho * waves
    log_time = np.log((1 - rho**2) / gap)
    by_rho = -2 * rho - (1 - rho**2) * (2 * rho - 2 * waves) / gap
    S = process.variance * np.exp(log_time[:, None] - log_theta)
    share = S * coverage / (1 + S * coverage)
    mass = np.broadcast_to(weights / FREQUENCIES, S.shape) * (0.5 * spatial.n * rows)
    slopes = [share, share * by_rho[:, None], share * by_reach, 1 - share]
    return np.array([[float(np.sum(mass * first * second)) for second in slopes] for first in slopes])


#: Pairs of draws of the field's error that an expectation averages: as many as make this many cells, within limits. Their noise
#: in the gradient is some two of its standard errors over the root of the pairs; in large networks these are small.
CELLS, PAIRS = 1_000_000, (1, 16)
#: Residual of the solves of an iteration; their error is far below that of the draws.
SOLVE_TOL = 1e-4
#: Converged is a step that adds less than this to the log-likelihood, and moves the stations' log noise by less.
FLAT, STILL = 0.1, 0.02
#: Widths of the difference on both sides in atanh(rho), and on one side in the log of the reach: the curvature of the complete
#: data, of which half such a width is the error, is that of all modes, told or not.
STEP, WIDE = 1e-5, 1e-6
#: Longest step in a parameter, all of which are logarithms or the like, and factors that scoring steps are multiplied by.
LONGEST_STEP, FACTORS = 0.7, (0.2, 3.0)
#: A preconditioner serves until a parameter (in the optimizer's coordinates) has moved by this much.
STALE = 0.4
#: Bounds of atanh(rho), and of the log of the reach around the typical one, two edges.
STEEPEST, REACHES = 4.5, (np.log(0.3), np.log(200.0))
TYPICAL_REACH = float(np.log(2.0))
#: Information of the weak priors on the shared parameters.
PRIOR = np.array([0.0, 0.0, REACH_PRIOR**-2, 0.0])


@dataclass
class FittedProcess:
    """Process of (nearly) largest likelihood, and what each step was expected to add to the log-likelihood."""

    process: Process
    gains: list[float] = field(default_factory=list)
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
class Memory:
    """Solutions and preconditioner of the iteration before, and whether it did not do."""

    X: np.ndarray | None = None
    preconditioner: TimePreconditioner | None = None
    theta: np.ndarray | None = None  # parameters that the preconditioner was made for
    hard: bool = False


def posterior(
    process: Process, window: Window, pairs: int, tol: float, memory: Memory | None = None,
    pool: ThreadPoolExecutor | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Mean and ``pairs`` times two errors of the field, (N, 1 + 2 pairs, T); and ``pairs`` fields that resemble these errors.

    Two errors of a pair share the draw of the prior, and have opposite draws of the noise.
    """
    memory = memory or Memory()
    theta = _pack(process)
    if memory.theta is None or np.abs(theta - memory.theta).max() > STALE:
        memory.preconditioner, memory.theta = None, theta
    system = SpaceTimeSystem(process, window.observed, memory.preconditioner)
    memory.preconditioner = system.preconditioner
    B, prior = system.right_side(window.y)[:, None, :], np.zeros((process.field.n, 0, window.y.shape[1]))
    if pairs:
        noise, prior = system.perturbation(pairs, np.random.default_rng(window.seed))
        B = np.concatenate([B, prior + noise, prior - noise], axis=1)
        prior = process.prior_solve(prior)
    system.hard = memory.hard
    memory.X, _ = system.solve(B, tol, memory.X, pool)
    memory.hard = system.hard
    return memory.X, prior


def learn(
    windows: Sequence[Window], start: Process, *, iterations: int, fixed_noise: bool, least: np.ndarray | None = None,
    pool: ThreadPoolExecutor | None = None, tick: Callable[[], None] | None = None,
) -> FittedProcess:  # fmt: skip
    """At most ``iterations`` of scoring from ``start``; noise variances are at ``least`` these (N,)."""
    level = max(float(np.nanvar(np.concatenate([w.y.ravel() for w in windows]))), 1e-12)
    lower, upper = _bounds(start.field.n, level)
    if least is not None:
        lower[3:] = np.clip(np.log(np.maximum(least, 1e-300)), lower[3:], upper[3:])
    memories = [Memory() for _ in windows]
    pairs = int(np.clip(CELLS // sum(w.y.size for w in windows), *PAIRS))
    density = eigenvalue_density(start.field.family.L, np.random.default_rng(windows[0].seed))
    length, now = _Length(), FittedProcess(start)
    for _ in range(iterations):
        process = now.process
        theta = _pack(process)
        solved = [posterior(process, w, pairs, SOLVE_TOL, memory, pool) for w, memory in zip(windows, memories, strict=True)]
        sums = _ExpectedSums(process, windows, solved)
        gradient = _gradient(sums)
        coverage = float(sums.counts @ (1 / process.noise)) / (process.field.n * sums.rows)
        curvature = information(process, sums.rows, coverage, density) + np.diag(PRIOR)
        free = slice(0, 3 if fixed_noise else 4)
        step = np.zeros(4)
        step[free] = np.linalg.solve(curvature[free, free], gradient[free])
        noise = process.noise if fixed_noise else shrunk_noise(sums.counts, sums.squares, process.noise)
        apart = np.log(noise) - np.log(noise).mean()
        moved = float(np.sqrt(np.mean((apart - (theta[3:] - theta[3:].mean())) ** 2)))
        now.gains.append(0.5 * float(gradient @ step))
        if tick is not None:
            tick()
        if abs(now.gains[-1]) <= FLAT and moved <= STILL:
            now.converged = True
            break
        shared = _shared(theta) + length.scaled(step, gradient)
        mixed = np.concatenate([shared[:3], shared[3] + apart if not fixed_noise else theta[3:]])
        now.process = _unpack(np.clip(mixed, lower, upper), process, fixed_noise)
    return now


def _gradient(sums: _ExpectedSums) -> np.ndarray:
    """Of the penalized log-likelihood in the shared parameters: that of the expected complete one (Fisher's identity)."""
    process, n = sums.process, sums.process.field.n
    a = np.arctanh(process.rho)
    quadratic = sums.quadratic(process.rho) / process.variance

    def in_time(moved: float) -> float:
        rho = float(np.tanh(moved))
        return -0.5 * (sums.quadratic(rho) / process.variance + n * (sums.rows - sums.starts) * np.log(1 - rho**2))

    G, here = sums.pairs(process.rho), float(np.log(process.field.reach))

    def in_space(spatial: GraphField) -> float:
        return -0.5 * (float(G @ spatial.entries) / process.variance - sums.rows * spatial.log_det)

    return np.array(
        [
            0.5 * (quadratic - n * sums.rows),
            (in_time(a + STEP) - in_time(a - STEP)) / (2 * STEP),
            (in_space(process.field.family.at(float(np.exp(here + WIDE)))) - in_space(process.field)) / WIDE
            - PRIOR[2] * (here - TYPICAL_REACH),
            0.5 * float(np.sum(sums.squares / process.noise - sums.counts)),
        ]
    )


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


def _shared(theta: np.ndarray) -> np.ndarray:
    """The parameters of the whole network: those of the field, and the mean log noise."""
    return np.append(theta[:3], theta[3:].mean())


class _Length:
    """How far to go along scoring steps: the slope at the end of the last one tells whether it was too long or too short."""

    def __init__(self) -> None:
        self.factor = 1.0
        self.before: tuple[np.ndarray, float] | None = None  # the last step, and the slope at its start

    def scaled(self, step: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """The step to take, at most :data:`LONGEST_STEP` in each parameter."""
        if self.before is not None:
            last, slope = self.before
            left = float(gradient @ last) / max(slope, 1e-300)
            # a parabola through both slopes has its top at 1 / (1 - left) times the last step
            self.factor = float(np.clip(self.factor / (1 - np.clip(left, -1.0, 0.5)), *FACTORS))
        taken = step * self.factor
        taken *= min(1.0, LONGEST_STEP / float(np.abs(taken).max() or 1.0))
        self.before = taken, float(gradient @ taken)
        return taken


class _ExpectedSums:
    """Expected sums over time that the next parameters need.

    A sum over draws of the error is close to one over the fields that these resemble, whose expectation is known: the
    difference is added with a weight (a control variate). Most modes of a field are finer than the readings tell; their draws
    are these fields' own, and would drown what the readings tell in noise.
    """

    def __init__(self, process: Process, windows: Sequence[Window], solved: Sequence[tuple[np.ndarray, np.ndarray]]):
        n = process.field.n
        self.process = process
        self.rows, self.starts = sum(w.y.shape[1] for w in windows), len(windows)
        #: Of the mean, of the draws' average, and of the fields': x_t' Theta x_t in all, at the ends, and x_t' Theta x_{t+1}.
        self.forms = np.zeros((3, 3))
        Theta = process.field.precision()
        self.fields = [np.concatenate([X, prior], axis=1) for X, prior in solved]
        self.draws = 2 * solved[0][1].shape[1]
        self.counts, squares = np.zeros(n), np.zeros((3, n))
        for window, Y in zip(windows, self.fields, strict=True):
            TY = (Theta @ Y.reshape(n, -1)).reshape(Y.shape)
            here = np.einsum("ist,ist->st", Y, TY)
            ahead = np.einsum("ist,ist->s", Y[..., 1:], TY[..., :-1])
            self.forms += self._averaged(np.column_stack([here.sum(axis=1), here[:, 0] + here[:, -1], ahead]))
            seen = window.observed
            self.counts += seen.sum(axis=1)
            squares += self._averaged(np.einsum("ist,ist,it->si", Y, Y, seen.astype(float)))
            squares[0] += np.where(seen, (window.y - Y[:, 0]) ** 2 - Y[:, 0] ** 2, 0.0).sum(axis=1)
        #: Weight of the fields' expectation minus their sums, in forms of the precision: all modes count alike there.
        self.weight = self._weight(*(self._of_unit_process(form, process.rho) for form in self.forms[1:]))
        weight = self._weight(squares[1].sum(), squares[2].sum())
        self.squares = squares[0] + squares[1] + weight * (process.variance * self.counts - squares[2])

    def _averaged(self, sums: np.ndarray) -> np.ndarray:
        """Of sums of the mean, the draws and the fields: the mean's, and the averages of the others'."""
        first = 1 + self.draws
        return np.array([sums[0], sums[1:first].mean(axis=0), sums[first:].mean(axis=0)])

    @staticmethod
    def _weight(draws: float, fields: float) -> float:
        """The best weight is a mode's ratio of variances, squared and averaged over modes."""
        return float(np.clip(draws / max(fields, 1e-300), 0.0, 1.0)) ** 2

    @staticmethod
    def _of_unit_process(forms: np.ndarray, rho: float) -> float:
        return float(((1 + rho**2) * forms[0] - rho**2 * forms[1] - 2 * rho * forms[2]) / (1 - rho**2))

    def quadratic(self, rho: float) -> float:
        """Expected quadratic form of the precision of a unit process with this autoregression and the present field."""
        level = self.process.field.n * self.process.variance
        steps = self.rows - self.starts
        ends = self.starts + sum(Y.shape[-1] > 1 for Y in self.fields)
        expected = level * np.array([self.rows, ends, steps * self.process.rho])
        forms = self.forms[0] + self.forms[1] + self.weight * (expected - self.forms[2])
        return self._of_unit_process(forms, rho)

    def pairs(self, rho: float) -> np.ndarray:
        """``sum_t e_it e_jt`` on the field's pattern, e being the innovations of a unit process with this autoregression."""
        process, spatial = self.process, self.process.field
        family, n = spatial.family, spatial.n
        # variance of these innovations where the field's own autoregression is another one
        growth = (1 + rho**2 - 2 * rho * process.rho) / (1 - rho**2)
        rows = self.starts + growth * (self.rows - self.starts)
        G = self.weight * process.variance * rows * spatial.covariance
        draws, fields = self.draws, self.draws // 2
        weights = np.array([1.0] + [1 / draws] * draws + [-self.weight / fields] * fields)
        for Y in self.fields:
            E = Y.copy()
            E[..., 1:] = (Y[..., 1:] - rho * Y[..., :-1]) / np.sqrt(1 - rho**2)
            for sign in (1.0, -1.0):
                some = sign * weights > 0
                F = (E[:, some] * np.sqrt(np.abs(weights[some]))[:, None]).reshape(n, -1)
                G[:n] += sign * np.einsum("it,it->i", F, F)
                G[n:] += sign * products(family.i, family.j, F)
        G[n:] *= 2
        return G


def products(i: np.ndarray, j: np.ndarray, E: np.ndarray) -> np.ndarray:
    """``sum_t E[i, t] E[j, t]`` for every pair."""
    from nareg.spacetime._sparse import kernels  # numba: imported when first needed

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
