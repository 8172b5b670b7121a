"""Min-max designs for the worse of the two corners of a box, as published.

(32) is an SDP or a descent per start; the optimal filter of (29) has a closed form.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from nareg.design._convex.low_rank import best, coordinates
from nareg.design._convex.lyapunov import lyapunov
from nareg.design._convex.program import Solved, SupportProgram, image
from nareg.design._convex.rounding import bound_starts, round_and_refine, scaled_by_mse, zero_level
from nareg.design._risk.descent import DescentResult, descend, feasible
from nareg.design._risk.groups import Groups
from nareg.design._risk.problem import DesignProblem, local_status
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, Status, WeightDesign


def prony_over_corners(
    task: DesignProblem, white: DesignProblem, extremes: np.ndarray, low: np.ndarray, high: np.ndarray, solver: str,
    scale: str, progress: ProgressCallback | None,
) -> WeightDesign:  # fmt: skip
    """A weight for every node: SDP, rounding, descent."""
    unit = float((low / task.c).max())  # homogeneous: solve with the largest bound at one
    starts = bound_starts(extremes, low / task.c, high / task.c)
    perfect = [w for w in starts.values() if _both_vanish(white.L, extremes, w)] if solver == "auto" else []
    timings: dict[str, float] = {}
    if perfect:  # no criterion of squares is smaller: one range for all stations, say
        solved = Solved(
            np.outer(perfect[0], perfect[0]) / unit, 0.0, "closed form", "S x = 0 at both corners", 0.0, Status.CONVERGED
        )
    else:
        program = SupportProgram(white.L, worst_of=[image(white.L, x) for x in extremes.T])
        solved = program.solve(low / task.c / unit, "sdp" if solver == "auto" else solver)
        timings = {"build": program.build_seconds, "sdp": solved.seconds}
    omega, value = solved.omega * unit, solved.value * unit**2
    smooth = smooth_worst(white.L, extremes)
    result, rounding = round_and_refine(omega, smooth, low / task.c, high / task.c, also=starts, progress=progress)
    root = np.sqrt(task.c)
    return _packed(
        task, white, extremes, result, result.w * root, solved.status, low, high, scale, rounding, solver=solved.solver,
        solver_status=solved.solver_status, omega=root[:, None] * omega * root, relaxed_objective=value, timings=timings,
        settings={"solver": solver, "scale": scale},
    )  # fmt: skip


def prony_over_corners_tied(
    task: DesignProblem, white: DesignProblem, extremes: np.ndarray, low: np.ndarray, high: np.ndarray, groups: Groups,
    solver: str, scale: str, progress: ProgressCallback | None,
) -> WeightDesign:  # fmt: skip
    """A weight for every group: descents from one weight and from the inverse of each corner and of their mean."""
    root = np.sqrt(task.c)
    L, _ = coordinates(sp.csr_array(white.L), task.c, groups)
    criterion = groups.tied(smooth_worst(L.toarray(), extremes))
    bounds = groups.bounds(low, high)
    directions = {"one weight": np.ones(task.n_nodes)}
    for name, x in {"first corner": extremes[:, 0], "second corner": extremes[:, 1], "center": extremes.mean(axis=1)}.items():
        if (np.abs(x) > 1e-3 * np.abs(x).max()).all():
            directions[f"inverse {name}"] = root / x
    reached = {}
    for name, direction in directions.items():
        v = groups.reduce_start(direction)
        if (v == 0).any():
            continue
        smallest = float(np.sqrt(np.max(bounds[0] / v**2)))
        reached[name] = descend(criterion, feasible(smallest * v, *bounds), *bounds, progress=progress)
        if reached[name].message == "interrupted":
            break
    result = best(reached)
    expanded = groups.expand(result.w)
    starts = {name: d.value for name, d in reached.items()}
    details: DesignDetails = {"degrees_of_freedom": groups.count, "starts": starts}
    return _packed(
        task, white, extremes, replace(result, w=expanded / root), expanded, Status.CONVERGED, low, high, scale, details,
        solver="L-BFGS-B (scipy)", solver_status=result.message, settings={"solver": solver, "scale": scale},
    )  # fmt: skip


def _packed(
    task: DesignProblem, white: DesignProblem, extremes: np.ndarray, result: DescentResult, weights: np.ndarray, solved: Status,
    low: np.ndarray, high: np.ndarray, scale: str, details: DesignDetails, **parts: Any,
) -> WeightDesign:  # fmt: skip
    """The design of a descent in the coordinates ``C^1/2 x``, whose ``weights`` may be scaled by the mean MSE."""
    w, factor = scaled_by_mse(task, weights, low, high, scale)
    before = worst_corner(white.L, extremes, result.w)
    return task.pack(
        "min-max (corners, prony)", w, worst_corner(white.L, extremes, w / np.sqrt(task.c)),
        _status(result, solved, white.L, extremes), lower=low, upper=high, gradient_norm=result.gradient_norm,
        details={**details, "scale_factor": factor, "objective_before_scaling": before}, **parts,
    )  # fmt: skip


def _status(result: DescentResult, solved: Status, L: np.ndarray, extremes: np.ndarray) -> Status:
    """Status of a descent; a value of zero within rounding is a minimum, whatever its gradient over it."""
    if _both_vanish(L, extremes, result.w):
        return local_status(replace(result, gradient_norm=0.0), Status.CONVERGED)
    return local_status(result, solved)


def _both_vanish(L: np.ndarray, extremes: np.ndarray, w: np.ndarray) -> bool:
    """Whether ``S(w) x`` is zero within rounding at both corners."""
    return worst_corner(L, extremes, w) <= zero_level(sp.csr_array(L), extremes, w)


def worst_corner(L: np.ndarray, extremes: np.ndarray, w: np.ndarray) -> float:
    """``max_k ||S(w) x_k||^2``."""
    return float(np.max(np.sum((w[:, None] * (L @ (w[:, None] * extremes))) ** 2, axis=0)))


def smooth_worst(L: np.ndarray, extremes: np.ndarray, sharpness: float = 200.0) -> Any:
    """A differentiable stand-in for the larger of the corners' values: their ``sharpness``-norm.

    It exceeds the maximum by less than ``2^(1 / sharpness) - 1`` = 0.35 %.
    """

    def value_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
        image_ = L @ (w[:, None] * extremes)
        Sx = w[:, None] * image_
        values = np.sum(Sx**2, axis=0)
        top = values.max()
        if top == 0:
            return 0.0, np.zeros_like(w)
        norm = np.sum((values / top) ** sharpness) ** (1 / sharpness)
        share = (values / top / norm) ** (sharpness - 1)
        # d ||S x||^2 / dw_i = 2 (Sx)_i (L (w x))_i + 2 x_i (L (w Sx))_i
        gradient = 2 * Sx * image_ + 2 * extremes * (L @ (w[:, None] * Sx))
        return float(top * norm), gradient @ share

    return value_and_gradient


def saddle_point(task: DesignProblem, extremes: np.ndarray) -> tuple[np.ndarray, float, float]:
    """``min_H max_k ||(H - I) x_k||^2 + tr(H^2 Sigma)``: H, the weight of the first corner, and the value.

    The objective is convex in H and linear in the mixture ``R = theta x_l x_l^T + (1 - theta) x_u x_u^T`` of
    the corners, so the order may be exchanged: a concave function of theta alone, whose value at each theta
    is one Lyapunov equation.
    """
    connected = task.L.diagonal() > 0
    index = np.ix_(connected, connected)
    identity = np.eye(task.n_nodes)

    def best_response(theta: float) -> tuple[np.ndarray, np.ndarray]:
        R = (extremes * [theta, 1 - theta]) @ extremes.T
        H = identity.copy()
        H[index] = lyapunov(R[index], task.Sigma_matrix[index])
        noise = float(np.sum((H @ task.Sigma_matrix) * H))
        return H, np.sum(((H - identity) @ extremes) ** 2, axis=0) + noise

    def negative_dual(theta: float) -> float:
        values = best_response(theta)[1]
        return -float(theta * values[0] + (1 - theta) * values[1])

    theta = float(minimize_scalar(negative_dual, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10}).x)
    H, values = best_response(theta)
    return H, theta, float(values.max())
