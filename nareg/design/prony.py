"""Prony's design (25): minimise the modified error ``e' = y - (I + S) x``, that is ``tr(S R S)``.

* The objective of (25) is homogeneous: without a lower bound ``Omega = 0`` is optimal, and with one known
  signal ``w = s / x`` is optimal (value zero) for every scale s. The scale is therefore not identified by
  (25); where the noise is known it is chosen by the MSE (11).
* With training data R has full rank, the optimum is not rank one, and the weights are rounded and refined.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nareg import _checks
from nareg.design._local import Progress, feasible
from nareg.design._problem import Problem, local_status, minimise_scale, problem
from nareg.design._program import Solved, SupportProgram, gram, root
from nareg.design.rounding import round_and_refine
from nareg.errors import InputError
from nareg.results import Status, WeightDesign

SCALES = ("mse", "bound")


def prony(
    graph: Any,
    *,
    signals: Any = None,
    second_moment: Any = None,
    noise: Any = None,
    lower: Any = None,
    upper: Any = None,
    fit: Any = None,
    solver: str = "auto",
    scale: str = "mse",
    progress: Progress | None = None,
) -> WeightDesign:
    """Prony's design of node weights, equation (25), by semidefinite programming.

    Parameters
    ----------
    graph : Graph or (N, N) operator
    signals : (N,) or (N, T) array, optional
        Clean training signals.
    second_moment : (N, N) array, optional
        ``E[x x^T]``; exactly one of the two.
    noise : number, (N,) or (N, N) array, optional
        Noise variance(s) or covariance; sets the default lower bound and the scale.
    lower, upper : number or (N,) array, optional
        Bounds on ``w_i^2``. Default below: the paper's ``w0*`` (rule "chen-liu") where the noise is known,
        else 0; above: ``1e8 / lambda_max(L)``.
    fit : None, "noise" or (N,) array
        Data term c for which to design; the criterion is then ``tr(S C^-1 S R)``, which weighs the modified
        error by ``C^-1``.
    solver : {"auto", "sdp", "clarabel", "scs"}
        ``"sdp"`` takes Clarabel up to 100 nodes and SCS above, both at tight tolerances. ``"auto"`` does the
        same unless a single known signal makes ``w = s / x`` optimal, which needs no solver.
    scale : {"mse", "bound"}
        Multiply the solution of (25) by the factor that minimises the MSE within the bounds (needs noise), or leave it at
        the bound as published.
    progress : callable, optional
        Called by the refinement as ``progress(iteration, objective, relative gradient norm)``.

    Returns
    -------
    WeightDesign
        ``objective`` is ``tr(S R S)`` (with ``fit``: in the coordinates ``C^1/2 x``) at the weights;
        ``certificate.relaxed_objective`` the SDP's value, a lower bound; ``certificate.details`` the scale factor,
        the objective before scaling, and the rounding.

    References
    ----------
    Yang, Coutino, Leus, Isufi 2021, Section IV-A, equations (23)-(25).

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((3, 3))
    >>> x = np.linspace(1, 2, 9)
    >>> d = nareg.design.prony(g, signals=x, noise=0.1)
    >>> bool(np.allclose(d.weights * x, (d.weights * x)[0], rtol=1e-2))  # w = s / x
    True
    """
    _checks.choice("solver", solver, ("auto", "sdp", "clarabel", "scs"))
    _checks.choice("scale", scale, SCALES)
    task = problem(graph, signals=signals, second_moment=second_moment, noise=noise, fit=fit, needs="prony")
    low, high = task.squared_bounds(lower, upper, default_lower=published_bound(task))
    if not low.any():
        return _nothing_to_do(task, low, high)
    white = task.whitened()
    low_white, high_white = low / task.c, high / task.c
    objective = criterion(white)
    inverse = feasible_inverse(white, low_white, high_white)
    gradient_norm: float | None
    if solver == "auto" and inverse is not None and objective(inverse)[0] <= zero_level(white, inverse):
        solved = Solved(np.outer(inverse, inverse), 0.0, "closed form", "S x = 0", 0.0, Status.CONVERGED)
        found, status, gradient_norm, build_seconds = inverse, Status.CONVERGED, None, 0.0
        rounding: dict[str, Any] = {"rank_one_share": 1.0}
    else:
        solved, build_seconds = _solve_sdp(white, low_white, solver)
        also = {} if inverse is None else {"inverse principal signal": inverse}
        result, rounding = round_and_refine(solved.omega, objective, low_white, high_white, also=also, progress=progress)
        found, status, gradient_norm = result.w, local_status(result, solved.status), result.gradient_norm
    half = np.sqrt(task.c)
    w, factor = scaled_by_mse(task, found * half, low, high, scale)
    return task.pack(
        "prony",
        w,
        objective(w / half)[0],
        status,
        lower=low,
        upper=high,
        solver=solved.solver,
        solver_status=solved.solver_status,
        omega=half[:, None] * solved.omega * half,
        relaxed_objective=solved.value,
        gradient_norm=gradient_norm,
        details={**rounding, "scale_factor": factor, "objective_before_scaling": objective(found)[0]},
        timings={"build": build_seconds, "sdp": solved.seconds},
        settings={"solver": solver, "scale": scale},
    )


def feasible_inverse(task: Problem, low: np.ndarray, high: np.ndarray) -> np.ndarray | None:
    """``s / u`` at the smallest s that meets the lower bound, u the principal direction of R.

    None where u vanishes at a node or the upper bound would be exceeded.
    """
    u = np.linalg.eigh(task.R)[1][:, -1]
    if (np.abs(u) < 1e-12).any():
        return None
    w = np.sqrt(np.max(low * u**2)) / u
    return w if (w**2 <= high).all() else None


def zero_level(task: Problem, w: np.ndarray) -> float:
    """Value of ``tr(S R S)`` that is zero within rounding."""
    size = float(np.max(np.abs((w[:, None] * task.L) * w)))
    return 1e-20 * size**2 * float(np.trace(task.R)) * task.n_nodes


def published_bound(task: Problem) -> float | None:
    """The paper's w0* where the noise is known and there is any, else None (no bound)."""
    return task.published_w0 if task.Sigma is not None and task.noise_power > 0 else None


def criterion(task: Problem) -> Any:
    """``tr(S R S)`` and its gradient ``2 (sym(2 S R) o L) w`` as a function of the weights."""
    L, F = task.L, root(task.R)  # R = F^T F: a sum of squares cannot round below zero

    def value_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
        S = (w[:, None] * L) * w
        SF = S @ F.T
        SR = SF @ F
        return float(np.sum(SF**2)), 2 * ((SR + SR.T) * L) @ w

    return value_and_gradient


def scaled_by_mse(task: Problem, w: np.ndarray, low: np.ndarray, high: np.ndarray, scale: str) -> tuple[np.ndarray, float]:
    """``s w`` with the feasible s that minimises the MSE, and s; unchanged without noise or with "bound"."""
    w = feasible(w, low, high)
    if scale == "bound" or task.Sigma is None or not w.any():
        return w, 1.0
    square = np.maximum(w**2, 1e-300)
    least = float(np.sqrt(np.max(low / square)))
    most = float(np.sqrt(np.min(high / square)))
    factor, _ = minimise_scale(task.mse_along(w), max(least, 1e-12), most)
    return feasible(factor * w, low, high), factor


def _solve_sdp(task: Problem, low: np.ndarray, solver: str) -> tuple[Solved, float]:
    # (25) is homogeneous: solve with the largest bound at one and scale back
    unit = float(low.max())
    program = SupportProgram(task.L, quadratic=gram(task.L, task.R))
    solved = program.solve(low / unit, "sdp" if solver == "auto" else solver)
    return replace(solved, omega=solved.omega * unit, value=solved.value * unit**2), program.build_seconds


def _nothing_to_do(task: Problem, low: np.ndarray, high: np.ndarray) -> WeightDesign:
    """Without a lower bound (25) is solved by zero weights: the filter that returns its input."""
    if task.Sigma is None and task.base.L.nnz == 0:
        raise InputError("graph has no edges: there is nothing to smooth over; connect it first.")
    return task.pack(
        "prony",
        np.zeros(task.n_nodes),
        0.0,
        Status.ZERO_WEIGHTS,
        lower=low,
        upper=high,
        solver="closed form",
        solver_status="without a lower bound zero weights are optimal in (25)",
        details={"scale_factor": 1.0},
    )
