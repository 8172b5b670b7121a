"""Min-max designs (31)-(32), for signals of which only bounds are known.

The paper says that the worst signal in the box ``low <= x <= high`` is at one of its two extreme corners, ``low`` and
``high``. That is false: it is at some vertex of the box (an 8-node example: 2064.7 against 21.8 at the two corners).
The paper computes the design for the worse of these two signals, as ``uncertainty="corners"`` does here. Pass bounds
per station: with one global pair both corners are proportional to the ones vector, and every constant weight scores
zero.

The other sets are every signal of the box, of the box with ``x^T L x <= smoothness``, or of a ball. No algorithm is sure to
find the worst of them, so the design minimizes a proven bound (see :mod:`nareg.design._minmax.over_sets`).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from nareg import _checks
from nareg._operator import Penalty, penalty
from nareg.design._convex.filter_fit import fit_weights_to
from nareg.design._convex.low_rank import best, coordinates
from nareg.design._convex.lyapunov import lyapunov
from nareg.design._convex.program import Solved, SupportProgram, _cvxpy, image, run
from nareg.design._convex.rounding import bound_starts, round_and_refine, scaled_by_mse, zero_level
from nareg.design._convex.sparse_problem import published_bound
from nareg.design._minmax.criteria import mse_criterion, prony_criterion
from nareg.design._minmax.over_sets import mse_over_set, prony_over_set
from nareg.design._minmax.signal_sets import SignalSet, Uncertainty, box_bounds, checked_uncertainty, signal_set
from nareg.design._minmax.worst_case import FILTER_NODES, examine, filter_size
from nareg.design._risk.descent import DescentResult, descend, feasible
from nareg.design._risk.groups import Groups
from nareg.design._risk.problem import DesignProblem, local_status, problem
from nareg.errors import InputError
from nareg.progress import ProgressCallback
from nareg.results import Status, WeightDesign
from nareg.typing import ArrayLike, GraphLike

SET_SOLVERS = ("auto", "sdp", "clarabel", "scs", "first-order", "descent-ascent")


def minmax(
    graph: GraphLike,
    *,
    signal_low: ArrayLike | None = None,
    signal_high: ArrayLike | None = None,
    noise: ArrayLike | None = None,
    criterion: Literal["prony", "prony-scaled", "mse"] = "prony",
    uncertainty: Uncertainty = "corners",
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    fit: ArrayLike | Literal["noise"] | None = None,
    groups: ArrayLike | None = None,
    solver: str = "auto",
    progress: ProgressCallback | None = None,
) -> WeightDesign:
    """Design for the worst signal of a set: of two extreme signals, of a box, of its smooth part, of a ball.

    Parameters
    ----------
    graph : Graph or (N, N) operator
    signal_low, signal_high : number or (N,) array
        Lowest and highest value of the signal at each node; not for a :class:`Ball`.
    noise : number, (N,) or (N, N) array, optional
        Noise variance(s) or covariance; required for ``criterion="mse"``.
    criterion : {"prony", "prony-scaled", "mse"}
        ``max ||S x||^2`` (32), or the true error ``max ||(H - I) x||^2 + tr(H Sigma H^T)``. Under "corners" (and
        with an SDP solver) the true error is minimized over H (29), followed by the fit (30). "prony" leaves the
        solution at its bound, as published; "prony-scaled" multiplies it by the factor with the smallest mean MSE of
        the corners (ball: of an isotropic signal).
    uncertainty : "corners", "box", SmoothBox or Ball
        The set of signals: only the two corners, ``signal_low`` and ``signal_high``, as published; every signal
        between them; ``SmoothBox(smoothness)``, those with ``x^T L x <= smoothness``; ``Ball(radius)``, every signal
        with ``||x|| <= radius``. The whole box admits signals that jump from node to node and is pessimistic: prefer
        the smooth box.
    lower, upper : number or (N,) array, optional
        Bounds on the squared weights ``w_i^2``. Default below: the paper's ``w0*`` where the noise is known (signal power: mean
        of the corners', or ``radius^2``), else 0; above: ``1e8 / lambda_max(L)``.
    fit : None, "noise" or (N,) array
        Data term for which to design.
    groups : (N,) array of labels, optional
        Nodes with the same label share a weight (not with ``solver="sdp"``, "clarabel", "scs" or "descent-ascent").
    solver : str
        Corners, {"auto", "closed-form", "sdp", "clarabel", "scs"}: ``"prony"`` is solved as an SDP, or
        (with ``groups``) by descents on the larger of the two corners' values. ``"mse"``: by
        default ("closed-form") one dual variable, the weight of the two corners, and the Lyapunov equation; with
        an SDP solver, (30) is solved as an SDP as well.
        The other sets, {"auto", "sdp", "clarabel", "scs", "first-order", "descent-ascent"}: ``"first-order"`` adds
        the worst second moment of the set to a list of scenarios until nothing is added, with sparse products for
        ``"prony"`` (``"mse"``: up to 1,000 nodes). ``"sdp"`` solves the bound by the S-procedure first and rounds
        (up to 120 nodes; with ``"mse"`` the fit (30) follows). ``"descent-ascent"`` is for the ball. ``"auto"`` takes
        the SDP for ``"prony"`` up to 40 nodes, else first order; and for the ball, and a box with
        ``signal_low = -signal_high``, under ``"prony"`` the lower bound itself, which is optimal there.
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per step. Ctrl-C keeps the best weights so far.

    Returns
    -------
    WeightDesign
        ``objective`` is the larger of the two corners' criteria ("prony"), that of the fit (30) ("mse" by (30)), or
        the proven worst case (the other sets). For these ``certificate.details`` has ``"worst_case_lower"`` (the
        error at ``"worst_signal"``, the worst one found), ``"worst_case_upper"`` (proven). Under "prony" these are errors
        in the coordinates ``C^1/2 x``, and after an SDP ``certificate.relaxed_objective`` is the smallest proven worst
        case of any PSD Omega; under "mse" that of any PSD filter H is ``details["worst_mse"]``. A design for the
        corners has the same for the whole box between them, up to 1,000 nodes: ``"box_worst_case_lower"`` and
        ``"box_worst_case_upper"``, often a hundred times its objective.

    References
    ----------
    Yang, Coutino, Leus, Isufi 2021, Section IV-C, equations (31)-(32).

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((3, 3))
    >>> x = np.linspace(1, 2, 9)
    >>> bounds = {"signal_low": x - 0.2, "signal_high": x + 0.3}
    >>> d = nareg.design.minmax(g, **bounds, noise=0.1)
    >>> d.status.name
    'CONVERGED'
    >>> box = nareg.design.minmax(g, **bounds, noise=0.1, criterion="mse", uncertainty="box")
    >>> worst = box.certificate.details
    >>> worst["worst_case_lower"] <= worst["worst_case_upper"] == box.objective
    True
    """
    _checks.choice("criterion", criterion, ("prony", "prony-scaled", "mse"))
    scale = "mse" if criterion == "prony-scaled" else "bound"
    uncertainty = checked_uncertainty(uncertainty, corners=True)
    if criterion == "mse" and noise is None:
        raise InputError("criterion='mse' needs noise: pass its variance, or use criterion='prony'.")
    base = penalty(graph)
    tied = Groups(groups, base.n_nodes)
    if uncertainty != "corners":
        _checks.choice("solver", solver, SET_SOLVERS)
        U = signal_set(uncertainty, base.L, signal_low=signal_low, signal_high=signal_high)
        _refuse_tied(tied, solver)
        return _over_set(base, U, noise, criterion, lower, upper, fit, tied, solver, scale, progress)
    _checks.choice("solver", solver, ("auto", "closed-form", "sdp", "clarabel", "scs"))
    x_low, x_high = box_bounds(signal_low, signal_high, base.n_nodes)
    if criterion != "mse" and solver == "closed-form":
        raise InputError("solver='closed-form' is for criterion='mse': use 'sdp' here.")
    _refuse_tied(tied, solver)
    corners = np.column_stack([x_low, x_high])
    task = problem(base, signals=corners, noise=noise, fit=fit, needs="minmax")
    bound_low, bound_high = task.squared_bounds(lower, upper, default_lower=published_bound(task))
    white = task.whitened()
    extremes = np.sqrt(task.c)[:, None] * corners
    if criterion == "mse":
        started = time.perf_counter()
        H, theta, worst = saddle_point(white, extremes)
        design = fit_weights_to(
            task, white, H, bound_low, bound_high, solver=solver, method="min-max (corners, mse)", groups=tied,
            details={"worst_mse": worst, "corner_weights": [theta, 1 - theta]},
            timings={"step one": time.perf_counter() - started}, progress=progress,
        )  # fmt: skip
    else:
        _refuse_zero_weights(bound_low)
        if tied.index is None:
            design = _minmax_prony(task, white, extremes, bound_low, bound_high, solver, scale, progress)
        else:
            design = _minmax_prony_tied(task, white, extremes, bound_low, bound_high, tied, solver, scale, progress)
    return _with_worst_of_box(design, task, criterion, x_low, x_high)


def _with_worst_of_box(
    design: WeightDesign, task: DesignProblem, criterion: str, x_low: np.ndarray, x_high: np.ndarray
) -> WeightDesign:
    """Add bounds on the worst signal of the whole box to the certificate of a design for two corners."""
    if task.n_nodes > FILTER_NODES:
        return design
    U = signal_set("box", task.base.L, signal_low=x_low, signal_high=x_high)
    seen = (mse_criterion if criterion == "mse" else prony_criterion)(task)
    worst = examine(seen.operator(design.weights), U, variance=seen.variance(design.weights))
    bounds = {"box_worst_case_lower": worst.lower, "box_worst_case_upper": worst.upper}
    certificate = replace(design.certificate, details={**design.certificate.details, **bounds})
    return replace(design, certificate=certificate)


def _refuse_tied(groups: Groups, solver: str) -> None:
    if groups.index is not None and solver in ("sdp", "clarabel", "scs", "descent-ascent"):
        raise InputError(f"solver={solver!r} gives every node its own weight and cannot take groups: use solver='auto'.")


def _over_set(
    base: Penalty,
    U: SignalSet,
    noise: Any,
    criterion: str,
    lower: Any,
    upper: Any,
    fit: Any,
    groups: Groups,
    solver: str,
    scale: str,
    progress: ProgressCallback | None,
) -> WeightDesign:
    """The design for a whole set of signals."""
    n = base.n_nodes
    if solver == "descent-ascent" and U.name != "ball":
        raise InputError(f"solver='descent-ascent' is for uncertainty=Ball(radius): use 'first-order' for {U.name!r}.")
    if criterion == "mse":
        filter_size(n)
    if U.name == "ball":
        task = problem(base, second_moment=U.radius**2 / n * np.eye(n), noise=noise, fit=fit, needs="minmax")
    else:
        task = problem(base, signals=np.column_stack([U.low, U.high]), noise=noise, fit=fit, needs="minmax")
    bound_low, bound_high = task.squared_bounds(lower, upper, default_lower=published_bound(task))
    if criterion == "mse":
        return mse_over_set(task, U, bound_low, bound_high, groups, solver, progress)
    _refuse_zero_weights(bound_low)
    return prony_over_set(task, U, bound_low, bound_high, groups, solver, scale, progress)


def _refuse_zero_weights(low: np.ndarray) -> None:
    if not low.any():
        raise InputError(
            "lower is 0 at every node: zero weights then solve (32); pass noise, or a positive lower bound on w^2."
        )


def _minmax_prony(
    task: DesignProblem,
    white: DesignProblem,
    extremes: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    solver: str,
    scale: str,
    progress: ProgressCallback | None,
) -> WeightDesign:
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
    w, factor = scaled_by_mse(task, result.w * root, low, high, scale)
    return task.pack(
        "min-max (corners, prony)",
        w,
        worst_corner(white.L, extremes, w / root),
        _status(result, solved.status, white.L, extremes),
        lower=low,
        upper=high,
        solver=solved.solver,
        solver_status=solved.solver_status,
        omega=root[:, None] * omega * root,
        relaxed_objective=value,
        gradient_norm=result.gradient_norm,
        details={
            **rounding,
            "scale_factor": factor,
            "objective_before_scaling": worst_corner(white.L, extremes, result.w),
        },
        timings=timings,
        settings={"solver": solver, "scale": scale},
    )


def _minmax_prony_tied(
    task: DesignProblem,
    white: DesignProblem,
    extremes: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    groups: Groups,
    solver: str,
    scale: str,
    progress: ProgressCallback | None,
) -> WeightDesign:
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
    w, factor = scaled_by_mse(task, expanded, low, high, scale)
    return task.pack(
        "min-max (corners, prony)",
        w,
        worst_corner(white.L, extremes, w / root),
        _status(replace(result, w=expanded / root), Status.CONVERGED, white.L, extremes),
        lower=low,
        upper=high,
        solver="L-BFGS-B (scipy)",
        solver_status=result.message,
        gradient_norm=result.gradient_norm,
        details={
            "degrees_of_freedom": groups.count,
            "starts": {name: d.value for name, d in reached.items()},
            "scale_factor": factor,
            "objective_before_scaling": worst_corner(white.L, extremes, expanded / root),
        },
        settings={"solver": solver, "scale": scale},
    )


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


def saddle_program(task: DesignProblem, extremes: np.ndarray, solver: str) -> tuple[Solved, np.ndarray]:
    """The same as a cvxpy program, the reference for :func:`saddle_point`. Returns also H."""
    cp = _cvxpy()
    n = task.n_nodes
    H = cp.Variable((n, n), PSD=True)
    scale = float(np.sum(extremes**2))
    values, Q = np.linalg.eigh(task.Sigma_matrix / scale)
    noise = cp.sum_squares(H @ (Q * np.sqrt(values.clip(0))))
    errors = [cp.sum_squares((H - np.eye(n)) @ (x / np.sqrt(scale))) for x in extremes.T]
    solved = run(cp.Problem(cp.Minimize(cp.max(cp.hstack(errors)) + noise)), H, solver, n, scale)
    return solved, np.asarray(H.value)
