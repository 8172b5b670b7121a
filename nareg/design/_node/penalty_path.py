"""Exact and blind design on networks of any size: penalized descent on sampled risk, chosen on held-out columns.

Nothing here is N x N. The weights are ``w = s exp(u)`` around the best single weight s, and

    risk(s exp(u)) + mu (||u||^2 + beta u^T L' u),    L' the graph's Laplacian over its mean degree,

is minimized for a decreasing sequence of mu, each from the last: first the few degrees of freedom that all
columns agree on, then more. Where weights vary smoothly over the network, neighbors share their evidence; where
the risk insists, they part. The mu with the smallest risk on held-out columns is kept and the fit repeated on all
of them. A design that does not lower the held-out risk of the single weight by more than twice its standard error
is not returned (status NO_IMPROVEMENT).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg import _checks
from nareg._linear.held_out import standard_error, worthwhile
from nareg._linear.threads import one_blas_thread
from nareg._operator import FilterSystem, Penalty, refuse_singular
from nareg.design._node.sampling import Sampling
from nareg.design._risk.descent import DescentResult, ValueAndGradient, descend_between
from nareg.design._risk.groups import Groups
from nareg.design._risk.problem import fit_weights, pack, squared_bounds
from nareg.design._risk.sampled import SampleColumns, SampledRisk
from nareg.design._risk.selection import PENALTY_STANDARD_ERRORS
from nareg.design._risk.starts import best_single, carried_single
from nareg.errors import InputError
from nareg.progress import Progress, ProgressCallback
from nareg.results import Status, WeightDesign

#: Penalties tried, times the single weight's risk per node.
PENALTIES = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
#: How much more a difference between neighbors costs than a departure from the single weight.
SMOOTHNESS = 30.0
#: The search ends when the held-out risk has not fallen for so many penalties.
PATIENCE = 2
#: Descent steps for each penalty of the search, and for the final fit.
SEARCH_STEPS, FINAL_STEPS, FREE_STEPS = 8, 60, 500
#: Norm of the gradient in u, times sqrt(N), over the risk, at which a descent has converged.
STATIONARY = 1e-3
#: Relative residual of the solves in the final fit: with looser ones line searches end above that gradient.
FINAL_TOL = 1e-8
#: No weight goes below this share of the single one.
SMALLEST = 1e-8
#: Arrays of one number per node and column that are held at once: columns, targets, both solutions, CG's own.
ARRAYS = 7


@dataclass(frozen=True)
class Warm:
    """An earlier design's outcome, carried over to a network that changed a little."""

    weights: np.ndarray
    scalar: float
    penalty: float


@dataclass(frozen=True)
class LargeTask:
    """A checked problem: operator, data term, all columns, and those of the search: trained on and held out."""

    base: Penalty
    c: np.ndarray
    fit: np.ndarray | None
    columns: SampleColumns
    search: tuple[SampleColumns, SampleColumns] | None
    started: float
    groups: Groups
    #: False: too few columns to judge a design by, so that the single weight is kept.
    descend: bool = True
    warm: Warm | None = None


def checked_columns(base: Penalty, variance: np.ndarray, fit: Any, sampling: Sampling, n_signals: int) -> np.ndarray:
    """The data term, after a look at the memory that the columns take."""
    n = base.n_nodes
    if variance.ndim == 2:
        raise InputError(f"noise has shape {variance.shape}: sampled designs need variances, a number or ({n},).")
    columns = 2 * n_signals + 3 * sampling.n_probes
    less = "pass fewer signals, fewer probes (Sampling(n_probes=...)), or a part of the network"
    _checks.memory("this design", 8 * n * columns * ARRAYS, alternative=less)
    c = fit_weights(fit, variance, n)
    refuse_singular(FilterSystem(S=base.L, c=c, w=np.ones(n), penalty=base))
    return c


@dataclass
class _Descents:
    """Descents in u around one start, for any columns and penalty."""

    risk: SampledRisk
    start: np.ndarray
    groups: Groups
    low: np.ndarray
    high: np.ndarray
    roughness: sp.csr_array
    unit: float
    progress: ProgressCallback | None
    steps: int = 0
    #: Where the last descent ended: what an interrupt between descents keeps.
    reached: np.ndarray | None = None

    def weights(self, u: np.ndarray) -> np.ndarray:
        return self.start * np.exp(self.groups.expand(u))

    def objective(self, columns: SampleColumns, mu: float) -> ValueAndGradient:
        """The penalized risk as a function of the groups' u."""

        def value_and_gradient(u: np.ndarray) -> tuple[float, np.ndarray]:
            spread = self.groups.expand(u)
            w = self.start * np.exp(spread)
            value, gradient = self.risk.value_and_gradient(w, columns)
            pull = mu * self.unit * (spread + SMOOTHNESS * (self.roughness @ spread))
            return value + float(spread @ pull), self.groups.reduce(gradient * w + 2.0 * pull)

        return value_and_gradient

    def run(self, columns: SampleColumns, mu: float, u: np.ndarray, max_iterations: int) -> DescentResult:
        """Descend from u for at most so many steps."""
        before = self.steps

        def counted(now: Progress) -> None:
            self.steps = before + now.step
            if self.progress is not None:
                self.progress(replace(now, step=self.steps))

        length = float(np.sqrt(self.start.size))
        result = descend_between(
            self.objective(columns, mu), u, self.low, self.high,
            unit=length, length=length, stationary=STATIONARY, max_iterations=max_iterations, progress=counted,
        )  # fmt: skip
        self.reached = self.weights(result.w)
        return result


@dataclass
class _Search:
    """The penalty that held-out columns prefer, and what they said."""

    mu: float
    u: np.ndarray
    gain: float
    error: float
    worthwhile: bool
    before: float
    after: float
    tried: dict[str, float]
    interrupted: bool


def _search(
    descents: _Descents, train: SampleColumns, held_out: SampleColumns, penalties: tuple[float, ...], u: np.ndarray
) -> _Search:
    """Follow the penalties downwards, from u, until the held-out risk rises."""
    risk = descents.risk
    first = best = risk.column_values(descents.start, held_out)
    best_mu, best_u, worse, tried, interrupted = np.inf, u, 0, {}, False
    for mu in penalties:
        result = descents.run(train, mu, u, SEARCH_STEPS)
        u, interrupted = result.w, result.message == "interrupted"
        values = risk.column_values(descents.weights(u), held_out)
        tried[f"{mu:g}"] = float(values.sum()) + held_out.constant
        if values.sum() < best.sum():
            best, best_mu, best_u, worse = values, mu, u, 0
        else:
            worse += 1
        if interrupted or worse >= PATIENCE:
            break
    difference = first - best
    # over signals; the probes' own error is smaller by an order of magnitude
    signals = slice(held_out.n_signals)
    error = standard_error(difference[signals])
    better = worthwhile(difference, standard_errors=PENALTY_STANDARD_ERRORS, scattered=signals)
    before, after = (float(v.sum()) + held_out.constant for v in (first, best))
    return _Search(best_mu, best_u, float(difference.sum()), error, better, before, after, tried, interrupted)


@one_blas_thread
def design_large(
    method: str,
    task: LargeTask,
    lower: Any,
    upper: Any,
    *,
    progress: ProgressCallback | None,
    settings: dict[str, Any],
    details: dict[str, Any] | None = None,
) -> WeightDesign:
    """Best single weight, search on held-out columns, fit on all."""
    base, c, groups = task.base, task.c, task.groups
    # Gershgorin's bound stands in for the largest eigenvalue
    largest = float(np.max(np.asarray(abs(base.L).sum(axis=1)).ravel(), initial=0.0))
    low, high = squared_bounds(c, largest, lower, upper, default_lower=None)
    # nodes that share a weight share its bounds, and start together
    low, high = (groups.expand(bound) for bound in groups.bounds(low, high))
    risk = SampledRisk(base, c)
    columns = risk.arranged(task.columns)
    clock = [time.perf_counter()]
    warm = task.warm
    start = best_single(risk, columns, low, high) if warm is None else carried_single(risk, columns, low, high, warm.scalar)
    scalar_risk = risk.value(start, columns)
    clock.append(time.perf_counter())
    descents = _Descents(
        risk, start, groups, *_log_bounds(start, low, high, groups), _roughness(base.L),
        abs(scalar_risk) / base.n_nodes, progress,
    )  # fmt: skip
    try:
        w, status, message, reported = _fitted(descents, task, columns)
    except KeyboardInterrupt:  # between descents, which handle their own
        w = start if descents.reached is None else descents.reached
        status, message, reported = Status.INTERRUPTED, "interrupted", {}
    clock.append(time.perf_counter())
    reported |= {
        "best_scalar_risk": scalar_risk,
        "best_scalar": float(np.abs(start).max()),
        "iterations": descents.steps,
        "degrees_of_freedom": groups.count,
        "solves": {
            "columns": risk.sequence.columns,
            "iterations per column": risk.sequence.iterations / max(risk.sequence.columns, 1),
            "factorizations": risk.sequence.factorizations,
            "tolerance": risk.sequence.tol,
        },
    }
    return pack(
        method,
        w,
        risk.value(w, columns),
        status,
        base=base,
        fit=task.fit,
        started=task.started,
        lower=low,
        upper=high,
        solver="L-BFGS-B (scipy) on sampled risk",
        solver_status=message,
        gradient_norm=reported.pop("gradient_norm", None),
        details={**reported, **(details or {})},
        timings={"single weight": clock[1] - clock[0], "descent": clock[2] - clock[1]},
        settings=settings,
    )


def _fitted(descents: _Descents, task: LargeTask, columns: SampleColumns) -> tuple[np.ndarray, Status, str, dict[str, Any]]:
    """The weights, how it ended in a status and in words, and what was found on the way."""
    single = (descents.start, Status.NO_IMPROVEMENT, "the best single weight is kept")
    if not task.descend:
        return *single, {}
    mu, u, max_iterations, reported = 0.0, np.zeros(descents.low.size), FREE_STEPS, dict[str, Any]()
    penalties: tuple[float, ...] = PENALTIES
    if task.warm is not None:
        mu, penalties = task.warm.penalty, (task.warm.penalty,)
        ratio = np.divide(task.warm.weights, descents.start, out=np.ones_like(descents.start), where=descents.start > 0)
        u = np.clip(task.groups.reduce_start(np.log(np.maximum(ratio, SMALLEST))), descents.low, descents.high)
    if task.search is not None:
        train, held_out = (descents.risk.arranged(part) for part in task.search)
        result = _search(descents, train, held_out, penalties, u)
        mu, u, max_iterations = result.mu, result.u, FINAL_STEPS
        reported = {
            "penalty": mu,
            "held_out_risk": result.after,
            "held_out_scalar_risk": result.before,
            "held_out_gain": result.gain,
            "held_out_error": result.error,
            "held_out_path": result.tried,
        }
        if result.interrupted:
            return descents.weights(u), Status.INTERRUPTED, "interrupted", reported
        if not result.worthwhile:
            return *single, reported
    descents.risk.sequence.tol = FINAL_TOL
    last = descents.run(columns, mu, u, max_iterations)
    reported["gradient_norm"] = last.gradient_norm
    if last.message == "interrupted":
        status = Status.INTERRUPTED
    else:
        status = Status.CONVERGED if last.gradient_norm <= STATIONARY else Status.MAX_ITERATIONS
    return descents.weights(last.w), status, last.message, reported


def _log_bounds(start: np.ndarray, low: np.ndarray, high: np.ndarray, groups: Groups) -> tuple[np.ndarray, np.ndarray]:
    """Bounds on u; a node whose weight must be zero does not bound its group."""
    free = start > 0
    square = np.where(free, start, 1.0) ** 2
    smallest = np.where(free, 0.5 * np.log(np.maximum(low / square, SMALLEST**2)), -np.inf)
    largest = np.where(free, 0.5 * np.log(np.maximum(high, 1e-300) / square), np.inf)
    if groups.index is None:
        return smallest, largest
    below, above = np.full(groups.count, -np.inf), np.full(groups.count, np.inf)
    np.maximum.at(below, groups.index, smallest)
    np.minimum.at(above, groups.index, largest)
    groups.refuse_crossed(below, above)
    return below, above


def _roughness(L: sp.csr_array) -> sp.csr_array:
    """Laplacian over its mean degree; for another operator that of the sizes of its off-diagonal entries."""
    off = abs(L - sp.diags_array(L.diagonal()))
    degree = np.asarray(off.sum(axis=1)).ravel()
    return sp.csr_array((sp.diags_array(degree) - off) / (degree.mean() or 1.0))
