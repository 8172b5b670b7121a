"""Prony's criterion for the worse of the two corners of a box, as published (32): the program, then weights.

The corner program (32) by duality: a mixture of the two corners, whose program is Prony's of rank two.

    min_Omega max_k ||S x_k||^2  =  max_theta min_Omega tr(S R(theta) S),   R = theta x_l x_l^T + (1 - theta) x_u x_u^T

with ``S = Omega o L``: the left side is convex in Omega and linear in the mixture, so the order may be exchanged. The inner
problem is Prony's (25), which a low-rank factor solves with a proven lower bound (:mod:`nareg.design._convex.low_rank`); the
bound of any mixture is one of the corner program. The outer problem has one unknown: by Danskin's theorem the slope in theta
is ``||S x_l||^2 - ||S x_u||^2``, which falls as theta grows and is zero where the corners balance.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

from nareg._solvers.threads import one_blas_thread
from nareg.design._convex import low_rank
from nareg.design._convex.criteria import MinmaxOptions, both_vanish, corner_starts, corner_status, smooth_worst, worst_corner
from nareg.design._convex.low_rank import GAP, LOW_RANK, SOLVED, LowRank, ProgramEnd
from nareg.design._convex.quadratic import SupportQuadratic
from nareg.design._convex.row_newton import RowNewton
from nareg.design._risk.checked import STATIONARY, DesignEnd
from nareg.design._risk.descent import DescentResult, Groups, descend, feasible
from nareg.design._risk.problem import SignalProblem
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, Status, WeightDesign

#: Most mixtures tried.
ROUNDS = 30
#: Distance from a zero, and value there, that are near enough.
NEAR = 1e-7
#: Limits of ``log(theta / (1 - theta))``: a corner with a smaller share has no say.
EXTREME = 14.0
#: Largest step of that logarithm.
STEP = 3.0


@dataclass
class CornerSolution:
    """The factor V (a row per group) with the smallest larger corner, that value, and the proven bound."""

    V: np.ndarray
    value: float = np.inf
    #: Greatest bound of all mixtures.
    bound: float = -np.inf
    theta: float = 0.5
    rounds: int = 0
    steps: int = 0
    products: int = 0
    interrupted: bool = False
    inner: LowRank | None = field(default=None, repr=False)

    @property
    def gap(self) -> float:
        """Distance of value and bound, over the value."""
        return (self.value - self.bound) / max(self.value, 1e-300)

    @property
    def status(self) -> Status:
        """Solved if the gap is closed, or the corners balance where the mixture's gradient is small."""
        if self.interrupted:
            return Status.INTERRUPTED
        inner = self.inner
        stationary = inner is not None and inner.gradient_norm <= STATIONARY and self.value <= (1 + SOLVED) * inner.value
        return Status.CONVERGED if self.gap <= SOLVED or stationary else Status.INACCURATE

    def details(self) -> DesignDetails:
        """Details of the program for a certificate."""
        inner = {} if self.inner is None else self.inner.details()
        bounded = np.isfinite(self.bound)
        return {
            **inner,
            "low_rank_objective": self.value,
            "dual_bound": self.bound if bounded else None,
            "gap": self.gap if bounded else None,
            "corner_weights": [self.theta, 1 - self.theta],
            "newton_steps": self.steps,
            "hessian_products": self.products,
        }


def minimize_worst_corner(
    L: sp.csr_array, extremes: np.ndarray, low: np.ndarray, high: np.ndarray, groups: Groups, start: np.ndarray, *,
    mesh_like: bool, progress: ProgressCallback | None,
) -> CornerSolution:  # fmt: skip
    """Solve the corner program in the groups' rows of V, from ``start``, with a proven lower bound."""
    solution = CornerSolution(start)
    warm = start

    def excess(t: float) -> float:
        """``log(||S x_l||^2 / ||S x_u||^2)`` at the optimum of a mixture: falls with t."""
        nonlocal warm
        theta, quadratic = mixture(L, extremes, t, groups)
        inner = low_rank.minimize(quadratic, low, high, warm, mesh_like=mesh_like, progress=progress)
        warm = inner.V
        values = corner_values(quadratic, extremes, inner.V)
        solution.rounds += 1
        solution.steps += inner.steps
        solution.products += inner.products
        if inner.bound is not None:
            solution.bound = max(solution.bound, inner.bound)
        if values.max() < solution.value or solution.inner is None:
            solution.V, solution.value, solution.theta, solution.inner = inner.V, float(values.max()), theta, inner
        solution.interrupted = inner.interrupted
        return log_ratio(values)

    find_zero(excess, 0.0, done=lambda: solution.interrupted or solution.gap <= GAP)
    return solution


def mixture(L: sp.csr_array, extremes: np.ndarray, t: float, groups: Groups) -> tuple[float, SupportQuadratic]:
    """The share theta of the first corner, ``t = log(theta / (1 - theta))``, and Prony's objective of the mixture."""
    theta = 1.0 / (1.0 + np.exp(-t))
    return theta, SupportQuadratic(L, extremes * np.sqrt([theta, 1.0 - theta]), groups)


def corner_values(quadratic: SupportQuadratic, extremes: np.ndarray, V: np.ndarray) -> np.ndarray:
    """``||S x_k||^2`` of both corners, ``S = V V^T o L``."""
    L = quadratic.L
    S = sp.csr_array((quadratic.entries(V, V) / 2, L.indices, L.indptr), shape=L.shape)
    return np.asarray(np.sum((S @ extremes) ** 2, axis=0))


def log_ratio(values: np.ndarray) -> float:
    """The logarithm of their ratio; a value that vanishes beside the other one counts as tiny."""
    tiny = max(1e-12 * float(values.max()), 1e-300)
    first, second = np.log(np.maximum(values, tiny))
    return float(first - second)


def find_zero(function: Callable[[float], float], t: float, *, done: Callable[[], bool]) -> None:
    """Call a falling function at points that approach its zero, until it is that near or ``done``.

    The first step takes the slope for -1. Then secants, kept inside the bracket once there is one.
    """
    above = below = previous = None  # (t, value) nearest to the zero on either side
    for _ in range(ROUNDS):
        value = function(t)
        if done() or abs(value) <= NEAR:
            return
        here = (t, value)
        above, below = (here, below) if value > 0 else (above, here)
        if above is not None and below is not None:
            share = above[1] / (above[1] - below[1])
            t = above[0] + float(np.clip(share, 0.05, 0.95)) * (below[0] - above[0])
            if abs(below[0] - above[0]) < NEAR:
                return
        else:
            slope = -1.0 if previous is None else (value - previous[1]) / (t - previous[0])
            # a little beyond, so that the zero is enclosed; far where the secant is nearly flat
            step = 1.05 * value / max(-slope, 1e-2)
            t = float(np.clip(t + np.clip(step, -STEP, STEP), -EXTREME, EXTREME))
            if t == here[0]:
                return
        previous = here


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
    V = groups.expand(solution.V)
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
