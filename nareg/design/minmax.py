"""Min-max designs (31)-(32) for when only signal bounds are known.

The paper says that the worst signal in the box ``low <= x <= high`` is at one of the two corners ``low`` and
``high``. That is false: it is at some vertex of the box (an 8-node example: 2064.7 against 21.8 at the two
corners). What the paper computes, and what is offered here under ``uncertainty="corners"``, is the design for
the worse of these two signals. Give bounds per station: one global pair makes both corners proportional to the
ones vector, every constant weight scores zero, and nothing is designed.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from nareg import _checks
from nareg.design._local import Progress
from nareg.design._problem import Problem, local_status, problem
from nareg.design._program import Solved, SupportProgram, _cvxpy, image, run
from nareg.design.prony import SCALES, published_bound, scaled_by_mse
from nareg.design.relaxation import fit_weights_to, lyapunov
from nareg.design.rounding import round_and_refine
from nareg.errors import InputError
from nareg.filters._system import penalty
from nareg.results import WeightDesign


def minmax(
    graph: Any,
    *,
    low: Any,
    high: Any,
    noise: Any = None,
    criterion: str = "prony",
    uncertainty: str = "corners",
    lower: Any = None,
    upper: Any = None,
    fit: Any = None,
    solver: str = "auto",
    scale: str = "bound",
    progress: Progress | None = None,
) -> WeightDesign:
    """Design for the worse of two extreme signals, "min-max Prony" and "min-max SDR".

    Parameters
    ----------
    graph : Graph or (N, N) operator
    low, high : number or (N,) array
        Lowest and highest value of the signal at each node, ``low <= high``.
    noise : number, (N,) or (N, N) array, optional
        Noise variance(s) or covariance; required for ``criterion="mse"``.
    criterion : {"prony", "mse"}
        ``max_k ||S x_k||^2`` (32), or the true error (29) of the worse corner followed by the fit (30).
    uncertainty : {"corners"}
        The set of signals: the two corners ``low`` and ``high``, as published.
    lower, upper : number or (N,) array, optional
        Bounds on ``w_i^2``. Default below: the paper's ``w0*`` where the noise is known (signal power: mean of
        the corners'), else 0; above: ``1e8 / lambda_max(L)``.
    fit : None, "noise" or (N,) array
        Data term for which to design.
    solver : {"auto", "closed-form", "sdp", "clarabel", "scs"}
        ``"prony"`` is solved as an SDP. ``"mse"``: by default ("closed-form") one dual variable, the weight of
        the two corners, and the Lyapunov equation; with an SDP solver, (30) is solved as an SDP as well.
    scale : {"bound", "mse"}
        For ``"prony"``: leave the solution at its bound, as published, or choose the scale by the mean MSE of
        the corners.
    progress : callable, optional
        ``progress(iteration, objective, relative gradient norm)``.

    Returns
    -------
    WeightDesign
        ``objective`` is the larger of the two corners' criteria ("prony") or that of the fit (30) ("mse").

    References
    ----------
    Yang, Coutino, Leus, Isufi 2021, Section IV-C, equations (31)-(32).

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((3, 3))
    >>> x = np.linspace(1, 2, 9)
    >>> d = nareg.design.minmax(g, low=x - 0.2, high=x + 0.3, noise=0.1)
    >>> d.status.name
    'CONVERGED'
    """
    criterion = _checks.choice("criterion", criterion, ("prony", "mse"))
    _checks.choice("uncertainty", uncertainty, ("corners",))
    _checks.choice("solver", solver, ("auto", "closed-form", "sdp", "clarabel", "scs"))
    _checks.choice("scale", scale, SCALES)
    base = penalty(graph)
    n = base.n_nodes
    x_low, x_high = _checks.node_vector("low", low, n), _checks.node_vector("high", high, n)
    if (x_low > x_high).any():
        i = int(np.flatnonzero(x_low > x_high)[0])
        raise InputError(f"low[{i}] = {x_low[i]:g} is above high[{i}] = {x_high[i]:g}: swap them.")
    if criterion == "mse" and noise is None:
        raise InputError("criterion='mse' needs noise: pass its variance, or use criterion='prony'.")
    if criterion == "prony" and solver == "closed-form":
        raise InputError("solver='closed-form' is for criterion='mse': use 'sdp' here.")
    corners = np.column_stack([x_low, x_high])
    task = problem(base, signals=corners, noise=noise, fit=fit, needs="minmax")
    bound_low, bound_high = task.squared_bounds(lower, upper, default_lower=published_bound(task))
    white = task.whitened()
    extremes = np.sqrt(task.c)[:, None] * corners
    if criterion == "mse":
        started = time.perf_counter()
        H, theta, worst = saddle_point(white, extremes)
        return fit_weights_to(
            task, white, H, bound_low, bound_high, solver=solver, method="min-max (corners, mse)",
            details={"worst_mse": worst, "corner_weights": [theta, 1 - theta]},
            timings={"step one": time.perf_counter() - started}, progress=progress,
        )  # fmt: skip
    if not bound_low.any():
        raise InputError("lower is 0 at every node: zero weights then solve (32); pass noise or a positive lower bound.")
    return _minmax_prony(task, white, extremes, bound_low, bound_high, solver, scale, progress)


def _minmax_prony(
    task: Problem,
    white: Problem,
    extremes: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    solver: str,
    scale: str,
    progress: Progress | None,
) -> WeightDesign:
    unit = float((low / task.c).max())  # homogeneous: solve with the largest bound at one
    program = SupportProgram(white.L, worst_of=[image(white.L, x) for x in extremes.T])
    solved = program.solve(low / task.c / unit, "sdp" if solver == "auto" else solver)
    omega, value = solved.omega * unit, solved.value * unit**2
    smooth = smooth_worst(white.L, extremes)
    result, rounding = round_and_refine(omega, smooth, low / task.c, high / task.c, progress=progress)
    root = np.sqrt(task.c)
    w, factor = scaled_by_mse(task, result.w * root, low, high, scale)
    return task.pack(
        "min-max (corners, prony)",
        w,
        worst_corner(white.L, extremes, w / root),
        local_status(result, solved.status),
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
        timings={"build": program.build_seconds, "sdp": solved.seconds},
        settings={"solver": solver, "scale": scale},
    )


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


def saddle_point(task: Problem, extremes: np.ndarray) -> tuple[np.ndarray, float, float]:
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


def saddle_program(task: Problem, extremes: np.ndarray, solver: str) -> tuple[Solved, np.ndarray]:
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
