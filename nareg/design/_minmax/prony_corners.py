"""Prony's criterion for the worse of the two corners of a box, as published (32): the program, then weights.

The convex program is solved by a low-rank factor and duality over the corners (:mod:`nareg.design._minmax.corner_program`), or
as a semidefinite program (:mod:`nareg.design.programs.minmax`). Weights then descend at rank one from several starts, and the
best of them to the point where the corners balance.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._linear.threads import one_blas_thread
from nareg.design._convex import low_rank
from nareg.design._convex.rounding import bound_starts, round_and_refine, scaled_by_mse, zero_level
from nareg.design._convex.row_newton import RowNewton
from nareg.design._convex.sparse_problem import AnyProblem, mesh_like
from nareg.design._minmax.corner_program import (
    EXTREME,
    CornerSolution,
    corner_values,
    find_zero,
    log_ratio,
    minimize_worst_corner,
    mixture,
)
from nareg.design._minmax.criteria import smooth_worst, worst_corner
from nareg.design._risk.descent import DescentResult, descend, feasible
from nareg.design._risk.groups import Groups
from nareg.design._risk.problem import DesignProblem, local_status
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, Status, WeightDesign

#: Relative projected gradient to which weights are polished, and the ratio of the corners' values that counts as one.
POLISHED, BALANCED = 1e-8, 1e-6


def prony_over_corners(
    task: AnyProblem, extremes: np.ndarray, low: np.ndarray, high: np.ndarray, groups: Groups, solver: str, scale: str,
    progress: ProgressCallback | None,
) -> WeightDesign:  # fmt: skip
    """The design for ``extremes``, both corners in the coordinates ``C^1/2 x``; bounds are on ``w_i^2``."""
    L, half = low_rank.coordinates(task.base.L, task.c, groups)
    low_white, high_white = low / half**2, high / half**2
    starts = _starts(extremes, low_white, high_white)
    packer = _Packer(task, L, extremes, half, low, high, scale, solver)
    perfect = [w for w in starts.values() if groups.index is None and _both_vanish(L, extremes, w)]
    if perfect and solver == "auto":  # no criterion of squares is smaller: one range for all stations, say
        result = DescentResult(perfect[0], 0.0, 0.0, 0, "S x = 0 at both corners")
        return packer.pack(
            result,
            Status.CONVERGED,
            {"rank_one_share": 1.0},
            solver="closed form",
            relaxed_objective=0.0,
            V=perfect[0][:, None],
        )
    return _by_low_rank(packer, starts, groups, groups.bounds(low_white, high_white), progress)


def _by_low_rank(
    packer: _Packer, starts: dict[str, np.ndarray], groups: Groups, bounds: tuple[np.ndarray, np.ndarray],
    progress: ProgressCallback | None,
) -> WeightDesign:  # fmt: skip
    L, extremes = packer.L, packer.extremes
    clock = [time.perf_counter()]
    first = low_rank.spread(np.sqrt(np.where(bounds[0] > 0, bounds[0], bounds[0][bounds[0] > 0].mean())))
    solution = minimize_worst_corner(L, extremes, *bounds, groups, first, mesh_like=mesh_like(packer.task), progress=progress)
    clock.append(time.perf_counter())
    W, share = low_rank.directions(low_rank.of_nodes(solution.V, groups))
    rounded = {"rounded" if k == 0 else f"rounded {k + 1}": W[:, k] for k in range(W.shape[1])}
    criterion = groups.tied(smooth_worst(L, extremes))
    candidates = {name: feasible(groups.reduce_start(w), *bounds) for name, w in {**rounded, **starts}.items()}
    result, reached = _refined(criterion, candidates, bounds, solution, groups, packer, progress)
    clock.append(time.perf_counter())
    details: DesignDetails = {
        **solution.details(),
        "degrees_of_freedom": groups.count,
        "rank_one_share": share,
        "rounded_objective": worst_corner(L, extremes, groups.expand(candidates["rounded"])),
        "starts": reached,
    }
    return packer.pack(
        replace(result, w=groups.expand(result.w)), solution.status, details,
        solver="low-rank factor, Newton; L-BFGS-B (scipy)",
        relaxed_objective=solution.bound if np.isfinite(solution.bound) else None, V=low_rank.of_nodes(solution.V, groups),
        timings={"low rank": clock[1] - clock[0], "refinement": clock[2] - clock[1]},
    )  # fmt: skip


@one_blas_thread
def _refined(
    criterion: Callable[[np.ndarray], tuple[float, np.ndarray]], candidates: dict[str, np.ndarray],
    bounds: tuple[np.ndarray, np.ndarray], solution: CornerSolution, groups: Groups, packer: _Packer,
    progress: ProgressCallback | None,
) -> tuple[DescentResult, dict[str, float]]:  # fmt: skip
    """The best end of descents at rank one, balanced, and the value that each start reached."""
    reached: dict[str, DescentResult] = {}
    for name, start in candidates.items():
        if solution.interrupted:
            return DescentResult(start, criterion(start)[0], np.inf, 0, "interrupted"), {}
        reached[name] = descend(criterion, start, *bounds, progress=progress)
        if reached[name].message == "interrupted":
            break
    best = low_rank.best(reached)
    if best.message != "interrupted" and not _both_vanish(packer.L, packer.extremes, groups.expand(best.w)):
        best = balanced(packer.L, packer.extremes, best, solution.theta, bounds, groups, progress)
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


def from_optimum(
    task: DesignProblem, extremes: np.ndarray, low: np.ndarray, high: np.ndarray, omega: np.ndarray, value: float, solver: str,
    solver_status: str, status: Status, timings: dict[str, float], scale: str, proof: DesignDetails,
    progress: ProgressCallback | None,
) -> WeightDesign:  # fmt: skip
    """Weights from a solved program (32) for two corners in the coordinates ``C^1/2 x``; bounds are on ``w_i^2``."""
    L, half = low_rank.coordinates(task.base.L, task.c, Groups(None, task.n_nodes))
    low_white, high_white = low / half**2, high / half**2
    packer = _Packer(task, L, extremes, half, low, high, scale, solver)
    smooth, starts = smooth_worst(L, extremes), _starts(extremes, low_white, high_white)
    matrix = omega / half[:, None] / half
    result, rounding = round_and_refine(matrix, smooth, low_white, high_white, also=starts, progress=progress)
    return packer.pack(
        result, status, {**rounding, **proof}, solver=solver, solver_status=solver_status, relaxed_objective=value,
        omega=matrix, timings=timings,
    )  # fmt: skip


@dataclass(frozen=True)
class _Packer:
    """What every way to solve the program packs alike: ``half`` is the unit of its weights."""

    task: AnyProblem
    L: sp.csr_array
    extremes: np.ndarray
    half: np.ndarray
    low: np.ndarray
    high: np.ndarray
    scale: str
    solver: str

    def pack(
        self, result: DescentResult, solved: Status, details: DesignDetails, *, V: np.ndarray | None = None,
        omega: np.ndarray | None = None, **parts: Any,
    ) -> WeightDesign:  # fmt: skip
        """The design at ``result.w * half``, which may be scaled by the mean MSE of the corners."""
        half, before = self.half, worst_corner(self.L, self.extremes, result.w)
        w, factor = scaled_by_mse(self.task, result.w * half, self.low, self.high, self.scale)
        if V is not None:
            omega = low_rank.dense_omega(half[:, None] * V)
        elif omega is not None:
            omega = half[:, None] * omega * half
        return self.task.pack(
            "min-max (corners, prony)", w, worst_corner(self.L, self.extremes, w / half), self._status(result, solved),
            lower=self.low, upper=self.high, gradient_norm=result.gradient_norm, omega=omega,
            details={**details, "scale_factor": factor, "objective_before_scaling": before},
            settings={"solver": self.solver, "scale": self.scale}, **{"solver_status": result.message, **parts},
        )  # fmt: skip

    def _status(self, result: DescentResult, solved: Status) -> Status:
        """Status of a descent; a value of zero within rounding is a minimum, whatever its gradient over it."""
        if _both_vanish(self.L, self.extremes, result.w):
            return local_status(replace(result, gradient_norm=0.0), Status.CONVERGED)
        return local_status(result, solved)


def _starts(extremes: np.ndarray, low: np.ndarray, high: np.ndarray) -> dict[str, np.ndarray]:
    """Weights to descend from: those of the bound, and the inverse of each corner and of their mean."""
    starts = bound_starts(extremes, low, high)
    for name, x in {"first corner": extremes[:, 0], "second corner": extremes[:, 1], "center": extremes.mean(axis=1)}.items():
        if (np.abs(x) > 1e-3 * np.abs(x).max()).all():
            starts[f"inverse {name}"] = feasible(np.sqrt(np.max(low * x**2)) / x, low, high)
    return starts


def _both_vanish(L: sp.csr_array, extremes: np.ndarray, w: np.ndarray) -> bool:
    """Whether ``S(w) x`` is zero within rounding at both corners."""
    return worst_corner(L, extremes, w) <= zero_level(L, extremes, w)
