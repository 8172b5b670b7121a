"""Exact and blind designs on N x N matrices, up to some thousand nodes: noise and gaps of any kind.

Exact designs at a rate on dense matrices: descents in the coordinates that keep it, from several starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from nareg.design._node.log_weights import SMALLEST, LimitedLogWeights, LogWeights, log_weights
from nareg.design._node.penalty_path import Fold, PenaltyPath
from nareg.design._risk.descent import DescentResult, Groups, Stationary, descend_between
from nareg.design._risk.problem import DesignEnd, DesignProblem
from nareg.design._risk.rate import MARGIN, NodeRate
from nareg.design._risk.sampled import squares
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, Status, WeightDesign

#: Folds where the caller names no number.
DENSE_FOLDS = 4

#: From a filter matrix H the part of the risk that the noise has.
NoisePart = Callable[[np.ndarray], float]


def signal_fold(train: DesignProblem, held_out: np.ndarray, noise_part: NoisePart, constant: float = 0.0) -> Fold:
    """Signals or readings (N, T) held out: the distance of each from its filtered self, and the noise."""

    def values(w: np.ndarray) -> np.ndarray:
        H = train.filter_matrix(w)[1]
        return np.append(squares(H @ held_out - held_out) / held_out.shape[1], noise_part(H))

    return Fold(train.mse_and_gradient, values, held_out.shape[1] + 1, held_out.shape[1], constant)


def moment_fold(train: DesignProblem, held_out: DesignProblem) -> Fold:
    """A second moment held out: one number per fold."""
    return Fold(train.mse_and_gradient, lambda w: np.array([held_out.mse(w)]), 1, 1)


def design_dense(
    method: str,
    task: DesignProblem,
    folds: list[Fold],
    bounds: tuple[np.ndarray, np.ndarray],
    groups: Groups,
    *,
    progress: ProgressCallback | None,
    rate: float | None = None,
    details: DesignDetails | None = None,
) -> WeightDesign:
    """The path of penalties on dense matrices."""
    low, high = (groups.expand(bound) for bound in groups.bounds(*bounds))
    promise = None if rate is None else NodeRate(task.base, task.c, rate, low, high)
    start = task.best_scalar(low, high, np.inf if promise is None else promise.largest_single)
    path = PenaltyPath(task.base.L, log_weights(start, low, high, groups, promise), start, task.mse(start), groups, progress)
    end = path.follow(task.mse_and_gradient, folds)
    w, promised = (end.w, DesignDetails()) if promise is None else promise.certified(end.w, task.mse)
    return task.pack(
        method,
        w,
        task.mse(w),
        (low, high),
        DesignEnd(
            end.status,
            "L-BFGS-B (scipy)",
            end.message,
            end.gradient_norm,
            {**path.details(), **promised, **(details or {})},
        ),
        settings={} if rate is None else {"rate": rate},
    )


#: Steps of each descent.
MAX_ITERATIONS = 2000
#: Norm of the gradient in the coordinates of the rate, times sqrt(N), over the risk, at which a descent has converged, and at
#: which it ends.
STATIONARY, ENOUGH = 1e-3, 3e-4


@dataclass(frozen=True)
class EndAtRate:
    """The weights, the best descent, where each start led, and what the certificate says."""

    w: np.ndarray
    best: DescentResult
    reached: dict[str, DescentResult]
    status: Status
    details: DesignDetails


def at_rate(
    task: DesignProblem, promise: NodeRate, groups: Groups, free: DescentResult, status: Status, given: np.ndarray,
    progress: ProgressCallback | None,
) -> EndAtRate:  # fmt: skip
    """From the design without a rate, which is the answer where it has the rate already, and from other starts."""
    reached = {"design without a rate": free}
    scalar = task.best_scalar(promise.low, promise.high, promise.largest_single)
    scalar_risk = task.mse(scalar)
    if status is Status.INTERRUPTED or promise.estimate(groups.expand(free.w)) > promise.rate * (1 - MARGIN):
        starts = {"best scalar": groups.reduce_start(scalar), "design without a rate": free.w}
        starts |= {f"given {i}": groups.reduce_start(start) for i, start in enumerate(given)}
        reached = {"best scalar kept": DescentResult(groups.reduce_start(scalar), scalar_risk, np.inf, 0, "it is the best")}
        for name, start in starts.items():
            if status is not Status.INTERRUPTED:
                reached[name] = _descend(task, promise, groups, start, progress)
            if any(d.message == "interrupted" for d in reached.values()):
                status = Status.INTERRUPTED
        best = min(reached.values(), key=lambda d: d.value)
        if status is not Status.INTERRUPTED:
            status = Status.CONVERGED if best.gradient_norm < STATIONARY else Status.MAX_ITERATIONS
    else:
        best = free
    w, promised = promise.certified(groups.expand(best.w), task.mse)
    return EndAtRate(w, best, reached, status, {**promised, "best_scalar_risk": scalar_risk})


def _descend(
    task: DesignProblem, promise: NodeRate, groups: Groups, start: np.ndarray, progress: ProgressCallback | None
) -> DescentResult:
    """Descend in coordinates that keep the rate; the result has the groups' weights in place of these."""
    w = promise.bring(groups.expand(start))
    w = np.where(w == 0, SMALLEST * np.abs(w).max(), w)  # logarithms keep signs
    coordinates = LimitedLogWeights(LogWeights(w, promise.low, promise.high, groups), promise)

    def of_spread(spread: np.ndarray) -> tuple[float, np.ndarray]:
        reached = w * np.exp(spread)
        value, gradient = task.mse_and_gradient(reached)
        return value, gradient * reached

    end = descend_between(
        coordinates.of_unknowns(of_spread), coordinates.first, coordinates.bounds,
        unit=1.0, stationary=Stationary(float(np.sqrt(w.size)), ENOUGH), max_iterations=MAX_ITERATIONS, progress=progress,
    )  # fmt: skip
    w = w * np.exp(coordinates.spread(end.w))
    return replace(end, w=groups.reduce_start(w), value=task.mse(w))
