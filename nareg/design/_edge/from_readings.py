"""Edge design from noisy readings: from the best ``kappa I + beta L`` by proximal steps, as far as held-out times agree.

Each step minimizes ``h f(Theta) + tr(Theta R) - log det Theta`` with ``R = Theta_before^-1``: the marginal likelihood f, kept
near the model before in the Kullback-Leibler sense. After steps that add up to s the model has taken in what the readings
tell clearly, and little of their noise; s goes to infinity at the maximum of the likelihood. ``a = 1 / (1 + s)`` is reported as
the amount of shrinkage. On 140 weather stations with 182 days at -10, 0 and 10 dB this is better than a prior around the single
weight, of any strength.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize

from nareg._core import checks
from nareg._solvers.held_out import standard_error
from nareg._solvers.system import Penalty
from nareg.design._edge.cone import cone_status
from nareg.design._edge.dense import data_scale
from nareg.design._edge.marginal import EqualGaps, MarginalObjective, patterns
from nareg.design._edge.result import EdgeOptions, EdgeOutcome
from nareg.design._edge.sparse_likelihood import EdgeLikelihood
from nareg.design._edge.sparse_marginal import SparseMarginal
from nareg.design._edge.support import Support
from nareg.design._risk.checked import STATIONARY, DesignEnd, checked_data_weight
from nareg.design._risk.descent import DescentResult
from nareg.errors import InputError
from nareg.progress import Progress, ProgressCallback
from nareg.results import DesignDetails, Status

#: Sums of steps at which to stop.
TIMES = (0.25, 0.5, 0.85, 1.4, 2.2, 3.5, 5.5, 8.5, 13.0, 20.0, 32.0, 50.0, 80.0, 130.0)
#: Folds of times held out in turn: each of blocks of consecutive times.
FOLDS, BLOCKS = 4, 12
#: Fewer times than this are not worth splitting: the best ``kappa I + beta L`` is kept.
FEWEST = 4
#: Steps without a gain on held-out times after which no further ones are tried.
ENOUGH = 2
#: A proximal step on the way ends at this relative gradient, the last one at the other.
ROUGH, FINAL = 1e-3, 0.1 * STATIONARY
#: Belief about ``kappa / (beta lambda_max)`` where the readings do not tell it: its logarithm is normal.
KAPPA, KAPPA_SCATTER = 1e-3, 1.5
#: Smallest of these: the matrix stays far from singular in float64.
LEAST_KAPPA = 1e-5

#: The marginal likelihood f of some readings, by dense matrices or sparse factors.
Marginal = MarginalObjective | SparseMarginal


class _Reporter:
    """Tells how many proximal steps are done."""

    def __init__(self, progress: ProgressCallback | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def step(self) -> None:
        self._done += 1
        if self._progress is not None:
            done = min(self._done, self._total)
            self._progress(Progress("proximal steps", done, self._total, done / self._total))


def _judged(
    amount: float, held_out: float | None = None, start: float | None = None, error: float | None = None
) -> DesignDetails:
    """The amount of shrinkage; mean deviance of held-out times there and at the start, and the error of the gain."""
    return {"shrink": amount, "held_out_risk": held_out, "held_out_scalar_risk": start, "held_out_error": error}


def _message(amount: float) -> str:
    return "maximum likelihood" if amount == 0 else f"stopped after steps of {1 / amount - 1:.3g} in all"


def _times(amount: float) -> list[float]:
    """Where the steps end on the way to this amount of shrinkage."""
    if amount == 0:
        return [*TIMES, np.inf]
    end = 1.0 / amount - 1.0
    return [time for time in TIMES if time < end] + ([end] if end > 0 else [])


@dataclass(frozen=True)
class FromReadings:
    """Readings (N, T), which were taken, one over their noise variances, and where the design is looked for.

    Solved in a unit in which noise has variances about one: the likelihood does not depend on it.
    """

    base: Penalty
    support: Support
    Y: np.ndarray
    seen: np.ndarray | None
    c: np.ndarray
    nonnegative: bool
    likelihood: Callable[[list[EqualGaps]], Marginal]

    def _at(self, times: np.ndarray) -> list[EqualGaps]:
        """The readings of some times."""
        return patterns(self.Y[:, times], None if self.seen is None else self.seen[:, times], self.c)

    def solve(self, shrink: float | None, progress: ProgressCallback | None) -> EdgeOutcome:
        """The precision matrix for an amount of shrinkage; None chooses it by held-out times."""
        data = self.likelihood(self._at(np.arange(self.Y.shape[1])))
        start = self._two_parameters(data)
        tell = _Reporter(progress, len(TIMES) * (1 if shrink is not None else 1 + FOLDS))
        choice, interrupted = _judged(1.0 if shrink is None else shrink), False
        reached: DescentResult | None = None
        steps = 0
        try:
            if shrink is None and data.n_times >= FEWEST:
                choice = self._chosen(tell)
            for reached in self._path(data, start, _times(choice["shrink"]), tell, tolerance=FINAL):
                steps += reached.iterations
        except KeyboardInterrupt:
            interrupted = True
        first, _ = data.value_and_slope(start)
        interrupted = interrupted or (reached is not None and reached.message == "interrupted")
        last = np.inf if reached is None else data.value_and_slope(reached.w)[0]
        end = reached if last < first else None
        details: DesignDetails = {
            **choice,
            "best_two_parameter_likelihood": first,
            "degrees_of_freedom": self.support.size,
            "iterations": steps,
        }
        if end is None:
            details["shrink"] = 1.0
        status = Status.NO_IMPROVEMENT if end is None else cone_status(end)
        solver = f"proximal steps, {data.label}" + (", projected" if self.nonnegative else "")
        message = "the best kappa I + beta L is kept" if end is None else _message(choice["shrink"])
        gradient = None if end is None else end.gradient_norm
        ended = DesignEnd(Status.INTERRUPTED if interrupted else status, solver, message, gradient, details)
        return EdgeOutcome(self.support.entries(start if end is None else end.w), min(first, last), ended)

    def _two_parameters(self, data: Marginal) -> np.ndarray:
        """The best ``kappa I + beta L``, with the belief about kappa."""
        L = self.support.of_operator(self.base.L)
        span = 2 * float(self.base.L.diagonal().max())
        size = float(np.mean(self.c))

        def u_of(logs: np.ndarray) -> np.ndarray:
            beta = size * np.exp(logs[0]) / span
            return beta * (L + np.exp(logs[1]) * span * self.support.identity)

        def value_and_gradient(logs: np.ndarray) -> tuple[float, np.ndarray]:
            u = u_of(logs)
            value, slope = data.value_and_slope(u)
            if not np.isfinite(value):
                return np.inf, np.zeros(2)
            away = (logs[1] - np.log(KAPPA)) / KAPPA_SCATTER
            along = size * np.exp(logs.sum()) * float(slope @ self.support.identity)
            gradient = np.array([slope @ u, along + 2 * away / (KAPPA_SCATTER * data.n_times)])
            return value + away**2 / data.n_times, gradient

        starts = [np.array([x, np.log(KAPPA)]) for x in (-3.0, 0.0, 3.0)]
        best = min(starts, key=lambda logs: value_and_gradient(logs)[0])
        bounds = [(-14, 14), (np.log(LEAST_KAPPA), 9)]
        fitted = minimize(value_and_gradient, best, jac=True, method="L-BFGS-B", bounds=bounds)
        return u_of(fitted.x)

    def _path(
        self, data: Marginal, start: np.ndarray, times: list[float], tell: _Reporter, *, tolerance: float
    ) -> Iterator[DescentResult]:
        """Proximal steps from the start to these times; only the last one has to reach the tolerance."""
        u, before = start, 0.0
        for k, time in enumerate(times):
            a = 0.0 if np.isinf(time) else 1.0 / (1.0 + time - before)
            last = k == len(times) - 1
            reached = data.step(u, a, nonnegative=self.nonnegative, tolerance=tolerance if last else ROUGH)
            tell.step()
            yield reached
            if reached.message == "interrupted":
                return
            u, before = reached.w, time

    def _chosen(self, tell: _Reporter) -> DesignDetails:
        """The amount of shrinkage with the least mean deviance of held-out times, each fold judged on its own."""
        times = np.arange(self.Y.shape[1])
        fold = times * BLOCKS // times.size % FOLDS if times.size >= BLOCKS else times % FOLDS
        walks = [self._held_out(np.flatnonzero(fold != f), np.flatnonzero(fold == f), tell) for f in range(FOLDS)]
        table: list[np.ndarray] = []
        for step in zip(*walks, strict=True):
            table.append(np.concatenate(step))
            best = int(np.argmin([row.mean() for row in table]))
            if len(table) - 1 - best == ENOUGH:  # it rises from here on
                break
        gain = table[0] - table[best]
        times_up_to_best = (0.0, *TIMES)[best]
        held_out, start = float(table[best].mean()), float(table[0].mean())
        return _judged(1.0 / (1.0 + times_up_to_best), held_out, start, standard_error(gain) / gain.size)

    def _held_out(self, trained: np.ndarray, held_out: np.ndarray, tell: _Reporter) -> Iterator[np.ndarray]:
        """Deviances of held-out times at the start and after every step."""
        data = self.likelihood(self._at(trained))
        judged = self._at(held_out)
        start = self._two_parameters(data)
        yield data.deviances(start, judged)
        for reached in self._path(data, start, list(TIMES), tell, tolerance=ROUGH):
            if reached.message == "interrupted":
                raise KeyboardInterrupt
            yield data.deviances(reached.w, judged)


def design(
    base: Penalty, support: Support, measurements: Any, observed: Any, noise: Any, data_weight: Any, *, dense: bool,
    options: EdgeOptions,
) -> tuple[EdgeOutcome, np.ndarray]:  # fmt: skip
    """Outcome and data term."""
    n = base.n_nodes
    Y, seen = checks.measurements(measurements, observed, n)
    if noise is None:
        raise InputError("noise is None: measurements need its variances; estimate them with nareg.design.estimate_noise.")
    variance = checks.noise("noise", noise, n)
    if variance.ndim == 2:
        raise InputError(
            f"noise has shape {variance.shape}: edge weights from measurements need variances, a number or ({n},)."
        )
    if not (variance > 0).all():
        i = int(np.argmin(variance))
        raise InputError(f"noise[{i}] is {variance[i]:g}: readings need positive variances; pass exact ones as signals.")
    counts = np.full(n, Y.shape[1]) if seen is None else seen.sum(axis=1)
    if float(np.sum(Y**2)) <= float(variance @ counts):
        raise InputError("measurements have no more power than noise: no signal is left to fit; check the variance.")
    c = checked_data_weight(base, data_weight, variance)
    unit = float(variance.mean())
    likelihood: Callable[[list[EqualGaps]], Marginal]
    if dense:
        likelihood = partial(MarginalObjective.of, support, unit / variance)
    else:
        clean = EdgeLikelihood(base, support)
        SparseMarginal.check_memory(clean, Y.shape[1])
        likelihood = partial(SparseMarginal, clean, unit / variance)
    if seen is not None and not seen.any(axis=0).all():  # times without a reading tell nothing, and would make empty folds
        Y, seen = Y[:, seen.any(axis=0)], seen[:, seen.any(axis=0)]
    task = FromReadings(base, support, Y / np.sqrt(unit), seen, unit / variance, options.nonnegative, likelihood)
    outcome = task.solve(options.shrink, options.progress)
    scale = data_scale(c, variance) / unit
    return outcome.reported({"noise_power": float(variance.sum())}, factor=scale), c
