"""Prony's criterion for the worse of the two corners of a box, as published (32): the program, then weights.

The convex program is solved by a low-rank factor and duality over the corners (:mod:`nareg.design._convex.corner_program`).
Weights then descend at rank one from several starts, and the
best of them to the point where the corners balance.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from nareg._solvers.threads import one_blas_thread
from nareg.design._convex import low_rank
from nareg.design._convex.corner_program import (
    EXTREME,
    CornerSolution,
    corner_values,
    find_zero,
    log_ratio,
    minimize_worst_corner,
    mixture,
)
from nareg.design._convex.criteria import MinmaxOptions, both_vanish, corner_starts, corner_status, smooth_worst, worst_corner
from nareg.design._convex.rounding import LOW_RANK, ProgramEnd
from nareg.design._convex.row_newton import RowNewton
from nareg.design._risk.descent import DescentResult, descend, feasible
from nareg.design._risk.groups import Groups
from nareg.design._risk.problem import DesignEnd, SignalProblem
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, Status, WeightDesign

#: Relative projected gradient to which weights are polished, and the ratio of the corners' values that counts as one.
POLISHED, BALANCED = 1e-8, 1e-6


def prony_over_corners(
    task: SignalProblem, extremes: np.ndarray, bounds: tuple[np.ndarray, np.ndarray], options: MinmaxOptions
) -> WeightDesign:
    """The design for ``extremes``, both corners in the coordinates ``C^1/2 x``; bounds are on ``w_i^2``."""
    groups = options.groups
    L, half = low_rank.coordinates(task.base.L, task.c, groups)
    low_white, high_white = (bound / half**2 for bound in bounds)
    starts = corner_starts(extremes, low_white, high_white)
    perfect = [w for w in starts.values() if groups.index is None and both_vanish(L, extremes, w)]
    if perfect and options.solver == "auto":  # no criterion of squares is smaller: one range for all stations, say
        message, shares = "S x = 0 at both corners", DesignDetails(rank_one_share=1.0)
        end = ProgramEnd(perfect[0], perfect[0][:, None], DesignEnd(Status.CONVERGED, "closed form", message, 0.0, shares, 0.0))
    else:
        end = _by_low_rank(L, extremes, starts, groups, groups.bounds(low_white, high_white), task.mesh_like, options.progress)
    settings = {"solver": options.solver, "scale": options.scale}
    return end.scaled_design("min-max (corners, prony)", task, lambda w: worst_corner(L, extremes, w), half, bounds, settings)


def _by_low_rank(
    L: sp.csr_array, extremes: np.ndarray, starts: dict[str, np.ndarray], groups: Groups,
    bounds: tuple[np.ndarray, np.ndarray], mesh_like_graph: bool, progress: ProgressCallback | None,
) -> ProgramEnd:  # fmt: skip
    clock = [time.perf_counter()]
    first = low_rank.spread(np.sqrt(np.where(bounds[0] > 0, bounds[0], bounds[0][bounds[0] > 0].mean())))
    solution = minimize_worst_corner(L, extremes, *bounds, groups, first, mesh_like=mesh_like_graph, progress=progress)
    clock.append(time.perf_counter())
    V = low_rank.of_nodes(solution.V, groups)
    W, share = low_rank.directions(V)
    candidates = {name: feasible(groups.reduce_start(w), *bounds) for name, w in {**low_rank.named(W), **starts}.items()}
    result, reached = _refined(L, extremes, candidates, bounds, solution, groups, progress)
    clock.append(time.perf_counter())
    details: DesignDetails = {
        **solution.details(),
        "degrees_of_freedom": groups.count,
        "rank_one_share": share,
        "rounded_objective": worst_corner(L, extremes, groups.expand(candidates["rounded"])),
        "starts": reached,
    }
    result = replace(result, w=groups.expand(result.w))
    bound = solution.bound if np.isfinite(solution.bound) else None
    status = corner_status(L, extremes, result, solution.status)
    end = DesignEnd(status, LOW_RANK, result.message, result.gradient_norm, details, bound)
    return ProgramEnd(result.w, V, end, {"low rank": clock[1] - clock[0], "refinement": clock[2] - clock[1]})


@one_blas_thread
def _refined(
    L: sp.csr_array, extremes: np.ndarray, candidates: dict[str, np.ndarray], bounds: tuple[np.ndarray, np.ndarray],
    solution: CornerSolution, groups: Groups, progress: ProgressCallback | None,
) -> tuple[DescentResult, dict[str, float]]:  # fmt: skip
    """The best end of descents at rank one, balanced, and the value that each start reached."""
    criterion = groups.tied(smooth_worst(L, extremes))
    reached: dict[str, DescentResult] = {}
    for name, start in candidates.items():
        if solution.interrupted:
            return DescentResult(start, criterion(start)[0], np.inf, 0, "interrupted"), {}
        reached[name] = descend(criterion, start, *bounds, progress=progress)
        if reached[name].message == "interrupted":
            break
    best = low_rank.best(reached)
    if best.message != "interrupted" and not both_vanish(L, extremes, groups.expand(best.w)):
        best = balanced(L, extremes, best, solution.theta, bounds, groups, progress)
    return best, {name: end.value for name, end in reached.items()}


def balanced(
    L: sp.csr_array, extremes: np.ndarray, end: DescentResult, theta: float, bounds: tuple[np.ndarray, np.ndarray],
    groups: Groups, progress: ProgressCallback | None,
) -> DescentResult:  # fmt: skip
    """From the end of a descent on the smooth maximum to a stationary point of the larger corner itself.

    At such a point the corners balance, and a mixture of their gradients vanishes: Newton steps at rank one for every
    mixture, whose share is found as in the convex program. The end is returned as it was where that fails.
    """
    best, lowest = end, worst_corner(L, extremes, groups.expand(end.w))
    v = end.w[:, None]

    def excess(t: float) -> float:
        nonlocal best, lowest, v
        newton = RowNewton(mixture(L, extremes, t, groups)[1], *bounds, progress)
        newton.begin(v)
        newton.run(POLISHED)
        v = newton.point.V
        values = corner_values(newton.q, extremes, v)
        ratio = log_ratio(values)
        at_end = abs(t) >= EXTREME and ratio * t > 0  # only one corner has a say
        if (abs(ratio) < BALANCED or at_end) and values.max() <= lowest:
            lowest = float(values.max())
            best = DescentResult(v[:, 0], lowest, newton.gradient_norm(), end.iterations + newton.steps, end.message)
        return ratio

    try:
        find_zero(excess, float(np.log(theta / (1 - theta))), done=lambda: False)
    except KeyboardInterrupt:
        return replace(best, message="interrupted")
    return best
