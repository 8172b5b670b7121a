"""Exact designs at a rate on dense matrices: descents in the coordinates that keep it, from several starts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nareg.design._risk.descent import DescentResult, descend_between
from nareg.design._risk.groups import Groups
from nareg.design._risk.problem import DesignProblem
from nareg.design._risk.rate import MARGIN, NodeRate
from nareg.design._risk.rate_limit import RateLimit
from nareg.design._risk.starts import best_scalar
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, Status

#: Steps of each descent.
MAX_ITERATIONS = 3000
#: Norm of the gradient in the coordinates of the rate, times sqrt(N), over the risk, at which a descent has converged; it
#: goes on to a hundredth.
STATIONARY = 1e-3


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
    scalar, scalar_risk = best_scalar(task, promise.low, promise.high, promise.largest_single)
    low, high = (groups.reduce_start(bound) for bound in (promise.low, promise.high))
    limit = RateLimit(promise, groups, low, high)
    if status is Status.INTERRUPTED or promise.estimate(groups.expand(free.w)) > promise.rate * (1 - MARGIN):
        starts = {"best scalar": groups.reduce_start(scalar), "design without a rate": free.w}
        starts |= {f"given {i}": groups.reduce_start(start) for i, start in enumerate(given)}
        reached = {"best scalar kept": DescentResult(groups.reduce_start(scalar), scalar_risk, np.inf, 0, "it is the best")}
        for name, start in starts.items():
            if status is not Status.INTERRUPTED:
                reached[name] = _descend(task, limit, start, progress)
            if any(d.message == "interrupted" for d in reached.values()):
                status = Status.INTERRUPTED
        best = min(reached.values(), key=lambda d: d.value)
        if status is not Status.INTERRUPTED:
            status = Status.CONVERGED if best.gradient_norm < STATIONARY else Status.MAX_ITERATIONS
    else:
        best = free
    w, promised = promise.certified(groups.expand(best.w), task.mse)
    return EndAtRate(w, best, reached, status, {**promised, "best_scalar_risk": scalar_risk})


def _descend(task: DesignProblem, limit: RateLimit, start: np.ndarray, progress: ProgressCallback | None) -> DescentResult:
    """Descend in the coordinates that keep the rate; the result has weights in place of these."""
    first = limit.unknowns(start)
    length = float(np.sqrt(start.size))
    end = descend_between(
        limit.limited(limit.groups.tied(task.mse_and_gradient)), first, *limit.bounds(first),
        unit=1.0, length=length, stationary=0.01 * STATIONARY, max_iterations=MAX_ITERATIONS, progress=progress,
    )  # fmt: skip
    w = limit.weights(end.w)
    return replace(end, w=w, value=task.mse(limit.groups.expand(w)))
