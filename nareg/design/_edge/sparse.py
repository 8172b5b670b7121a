"""Edge design on large networks: sparse factors, sample columns for signals and noise, L-BFGS.

The risk needs probes of the noise (:mod:`nareg.design._edge.sparse_risk`), the likelihood none
(:mod:`nareg.design._edge.sparse_likelihood`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._solvers.held_out import standard_error, worthwhile
from nareg._solvers.system import Penalty
from nareg._solvers.threads import one_blas_thread
from nareg.design._edge.cone import ConeDescent
from nareg.design._edge.dense import PROXIMAL, data_scale
from nareg.design._edge.result import EdgeOptions, EdgeOutcome
from nareg.design._edge.sparse_likelihood import EdgeLikelihood
from nareg.design._edge.sparse_risk import PROBES, EdgeRisk
from nareg.design._edge.support import Support
from nareg.design._risk.checked import STANDARD_ERRORS, STATIONARY, DesignEnd, checked_data_weight
from nareg.design._risk.descent import report
from nareg.design._risk.problem import moment
from nareg.design._risk.sampled import SampleColumns, clean_and_noise, probes
from nareg.errors import InputError
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, Status

#: Part of the signals held out to stop the descent.
HELD_OUT = 0.25
#: The descent ends after this many steps without a smaller held-out risk.
PATIENCE = 8
#: Proven distance from the smallest likelihood, per node, that counts as converged.
GAP = 1e-7
SINGLE = "the best single weight is kept"
#: What an ending means.
ENDINGS = {
    "held-out risk rises": Status.STOPPED_EARLY,
    "gradient below tolerance": Status.CONVERGED,
    "duality gap below tolerance": Status.CONVERGED,
    "iteration limit": Status.MAX_ITERATIONS,
    "no further decrease": Status.STALLED,
    "interrupted": Status.INTERRUPTED,
    SINGLE: Status.NO_IMPROVEMENT,
}
#: Fewer training signals than this are not worth splitting: the single weight is kept.
FEWEST = 8
#: Shrinkage during a descent that held-out signals stop: it makes the point where that happens better.
EARLY_SHRINK = 0.3
#: Smallest edge weight of a Laplacian structure, relative to the smallest of the single weight: zero but for the pattern.
FLOOR = 1e-9


@dataclass(frozen=True)
class Samples:
    """The source of columns: the graph, signals, the noise covariance's root, the data term, a generator."""

    L: sp.csr_array
    X: np.ndarray
    root: np.ndarray | None  # (N,), (N, N), or None: no probes of the noise
    c: np.ndarray
    rng: np.random.Generator

    def columns(self, which: np.ndarray) -> SampleColumns:
        """SampleColumns for some of the signals, with probes of their own."""
        if self.root is None:
            clean = self.X[:, which] / np.sqrt(which.size)
            return SampleColumns(clean, clean, which.size)
        Z = self.probes()
        noise = (self.root[:, None] * Z if self.root.ndim == 1 else self.root @ Z) / np.sqrt(PROBES)
        return clean_and_noise(self.X[:, which], noise)

    def probes(self) -> np.ndarray:
        """Fresh probes."""
        return probes(self.L, PROBES, self.rng)


@one_blas_thread
def design(
    base: Penalty, support: Support, *, signals: Any, second_moment: Any, noise: Any, data_weight: Any, options: EdgeOptions
) -> tuple[EdgeOutcome, np.ndarray]:
    """Outcome and data term."""
    n = base.n_nodes
    X, Sigma = _signal_columns(signals, second_moment, n), None if noise is None else checks.noise("noise", noise, n)
    checks.memory("the edge design", 80 * n * (X.shape[1] + 2 * PROBES), alternative="pass fewer signals")
    c = checked_data_weight(base, data_weight, Sigma)
    if not X.any():
        raise InputError("signals (or second_moment) are zero everywhere: there is no signal to design for.")
    root = None if Sigma is None or not options.by_risk else np.sqrt(Sigma) if Sigma.ndim == 1 else _root(Sigma)
    samples = Samples(base.L, X, root, c, options.rng)
    held_out: np.ndarray | None = None
    if options.shrink is None and signals is not None:
        held_out = np.sort(options.rng.permutation(X.shape[1])[: int(np.ceil(HELD_OUT * X.shape[1]))])
    amount = options.shrink if options.shrink is not None else 0.0 if held_out is None else EARLY_SHRINK
    criterion = EdgeRisk(base, support, c, options.backend) if options.by_risk else EdgeLikelihood(base, support)
    outcome = _descend(criterion, samples, held_out, amount, options)
    if not options.by_risk:
        scale = 1.0 if Sigma is None else data_scale(c, Sigma if Sigma.ndim == 1 else np.diag(Sigma))
        outcome = outcome.reported({}, factor=scale)
    return outcome, c


def _descend(
    criterion: EdgeRisk | EdgeLikelihood, samples: Samples, held_out: np.ndarray | None, amount: float, options: EdgeOptions
) -> EdgeOutcome:
    """From the best single weight down, to the smallest held-out risk where signals are held out."""
    everything = np.arange(samples.X.shape[1])
    too_few = held_out is not None and everything.size < FEWEST
    train = samples.columns(everything if held_out is None or too_few else np.setdiff1d(everything, held_out))
    judge = None if held_out is None or too_few else samples.columns(held_out)
    start = criterion.start(train)
    stiffness = criterion.stiffness(start, train, samples.probes)
    stiffness = np.maximum(stiffness, 1e-6 * np.median(stiffness))
    of_edges = 1.0 - criterion.support.identity
    # edges stay in the factor's pattern
    floor = FLOOR * np.abs(start[of_edges > 0]).min() * of_edges if options.nonnegative else None
    h = amount * PROXIMAL * stiffness
    function = _proximal(criterion.blended(train, start, amount), start, h)
    descent = ConeDescent(function, start, stiffness, floor, criterion.size)
    scalar = criterion.value(start, train)
    watch = None if judge is None else Watch(criterion, judge, start)
    message, iterations, gradient = SINGLE, 0, descent.relative_gradient
    if not too_few and amount < 1.0:
        message, iterations, gradient = _run(criterion, descent, h, watch, options.progress)
    u = descent.u if watch is None else watch.u
    objective = criterion.value(u, train)
    single = message == SINGLE or objective > scalar or (watch is not None and not watch.worthwhile)
    if single:
        u, objective, message = start, scalar, message if message == "interrupted" else SINGLE
    if watch is not None:  # where held-out risk was smallest: another point than the last one, on all signals
        everywhere = samples.columns(everything)
        objective, scalar = criterion.value(u, everywhere), criterion.value(start, everywhere)
    details: DesignDetails = {
        "shrink": 1.0 if single else amount,
        "held_out_risk": None if watch is None else float(watch.best.sum()),
        "held_out_scalar_risk": None if watch is None else float(watch.scalar.sum()),
        "held_out_error": None if watch is None else watch.error,
        "degrees_of_freedom": u.size,
        "effective_degrees_of_freedom": None,
        "iterations": iterations,
        "gap": None if single or watch is not None else criterion.gap(descent, h),
        **criterion.start_details(scalar),
    }
    status, solver = _status(message, gradient, watched=watch is not None), f"L-BFGS, {criterion.method}"
    solver = "projected " + solver if options.nonnegative else solver
    end = DesignEnd(status, solver, message, None if single else gradient, details)
    return EdgeOutcome(criterion.support.entries(u), objective, end)


def _run(
    criterion: EdgeRisk | EdgeLikelihood, descent: ConeDescent, h: np.ndarray, watch: Watch | None,
    progress: ProgressCallback | None,
) -> tuple[str, int, float]:  # fmt: skip
    """Steps to one of the endings: which, how many, and the relative gradient at the last point that counts."""
    steps, gradient = 0, descent.relative_gradient
    try:
        while True:
            if descent.relative_gradient < 0.1 * STATIONARY:
                return "gradient below tolerance", steps, gradient
            gap = criterion.gap(descent, h) if h.any() else None
            if gap is not None and gap <= GAP * criterion.support.n:
                return "duality gap below tolerance", steps, gradient
            if steps == criterion.max_iterations:
                return "iteration limit", steps, gradient
            if not descent.step():
                return "no further decrease", steps, gradient
            steps += 1
            report(progress, steps, descent.value, descent.relative_gradient)
            rises = watch is not None and watch.stop(descent.u)
            if watch is None or watch.since == 0:
                gradient = descent.relative_gradient
            if rises:
                return "held-out risk rises", steps, gradient
    except KeyboardInterrupt:
        return "interrupted", steps, gradient


def _status(message: str, gradient: float, *, watched: bool) -> Status:
    """What an ending means."""
    if message == "no further decrease" and gradient < STATIONARY:
        return Status.CONVERGED
    status = ENDINGS[message]
    # converged after held-out risk had begun to rise
    early = watched and status is Status.CONVERGED and gradient >= STATIONARY
    return Status.STOPPED_EARLY if early else status


class Watch:
    """Held-out risk along a descent, and where it was smallest."""

    def __init__(self, risk: EdgeRisk | EdgeLikelihood, columns: SampleColumns, start: np.ndarray) -> None:
        self.risk, self.columns, self.u, self.since, self.shared = risk, columns, start, 0, risk.shared
        values = risk.column_values(start, columns)
        assert values is not None
        self.scalar = self.best = values

    def stop(self, u: np.ndarray) -> bool:
        """Whether the held-out risk has not fallen for some time."""
        each = self.risk.column_values(u, self.columns)
        self.since += 1
        if each is not None and each.sum() < self.best.sum():
            self.u, self.best, self.since = u, each, 0
        return self.since >= PATIENCE

    @property
    def error(self) -> float:
        """Standard error of the gain over signals; that of the probes is smaller by an order of magnitude."""
        return standard_error((self.scalar - self.best)[: -self.shared])

    @property
    def worthwhile(self) -> bool:
        """Whether the held-out gain exceeds its error."""
        return worthwhile(self.scalar - self.best, standard_errors=STANDARD_ERRORS, scattered=slice(-self.shared))


def _proximal(
    function: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray, h: np.ndarray
) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """The function plus ``1/2 sum_k h_k (u_k - start_k)^2``."""

    def with_pull(u: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = function(u)
        away = u - start
        return value + 0.5 * float(h @ away**2), gradient + h * away

    return with_pull


def _signal_columns(signals: Any, second_moment: Any, n: int) -> np.ndarray:
    """Training signals, or columns with the given second moment."""
    if signals is None or second_moment is not None:
        return _root(moment(signals, second_moment, n, needs="edge")) * np.sqrt(n)
    return checks.signals("signals", signals, n).astype(np.float64).reshape(n, -1)


def _root(covariance: np.ndarray) -> np.ndarray:
    """A square matrix F with ``F F^T`` the covariance."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))
