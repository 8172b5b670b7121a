"""The semidefinite relaxation of the true error, (29)-(30).

Step one, (29). Its matrix inequality never binds on a graph without isolated nodes (take ``Omega = t I``, t
large), so the optimal H solves the Lyapunov equation

    (R + Sigma) H + H (R + Sigma) = 2 R,

positive semidefinite by itself; for ``Sigma = s^2 I`` it is the LMMSE filter ``R (R + s^2 I)^-1``. An isolated
node is never filtered: it is left out of the equation and keeps ``H_ii = 1``.

Step two, (30): the weights whose filter comes closest to that H, ``min 2 ||H (I + S(w)) - I||_F^2`` with the
lower bound that (30) drops put back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg import _checks
from nareg._linear.threads import few_threads
from nareg._operator import Penalty, penalty
from nareg.design._convex import low_rank
from nareg.design._convex.lyapunov import StepOne, dense_step_one, factor, low_rank_step_one, lyapunov_factor
from nareg.design._convex.program import SDP_NODES, Solved, SupportProgram, _cvxpy, gram, linear, run
from nareg.design._convex.quadratic import SupportQuadratic
from nareg.design._convex.rounding import round_and_refine
from nareg.design._convex.sparse_problem import (
    AnyProblem,
    SparseProblem,
    principal_direction,
    refuse_extreme,
    sparse_problem,
)
from nareg.design._published.prony import mesh_like, published_bound
from nareg.design._risk.descent import ValueAndGradient, feasible
from nareg.design._risk.groups import Groups
from nareg.design._risk.problem import DesignProblem, local_status, problem
from nareg.design._risk.starts import best_scalar, inverse_signal
from nareg.design._risk.support import pair_products
from nareg.errors import InputError, TooLargeError
from nareg.progress import ProgressCallback
from nareg.results import Status, WeightDesign

#: Without N x N matrices above this size, where H has low rank.
DENSE_NODES = 500
REFERENCES = ("sdp", "clarabel", "scs")


def relaxation(
    graph: Any,
    *,
    signals: Any = None,
    second_moment: Any = None,
    noise: Any,
    lower: Any = None,
    upper: Any = None,
    fit: Any = None,
    groups: Any = None,
    solver: str = "auto",
    progress: ProgressCallback | None = None,
) -> WeightDesign:
    """Node weights by the paper's semidefinite relaxation ("SDR").

    Parameters
    ----------
    graph : Graph or (N, N) operator
    signals : (N,) or (N, T) array, optional
        Clean training signals.
    second_moment : (N, N) array, optional
        ``E[x x^T]``; exactly one of the two.
    noise : number, (N,) or (N, N) array
        Noise variance(s) or covariance.
    lower, upper : number or (N,) array, optional
        Bounds on ``w_i^2``. Default below: the paper's ``w0*`` (rule "chen-liu"); above:
        ``1e8 / lambda_max(L)``.
    fit : None, "noise" or (N,) array
        Data term c for which to design. The relaxation is then done in the coordinates ``C^1/2 x``.
    groups : (N,) array of labels, optional
        Nodes with the same label share a weight (not for the SDP solvers).
    solver : {"auto", "closed-form", "sdp", "clarabel", "scs"}
        ``"closed-form"`` (and ``"auto"``): step one by eigenvalues, then (30) by a low-rank factor of Omega with a
        proven lower bound, rounded, and refined at rank one from several starts. Networks of any size where there are
        fewer signals than nodes and the noise is the same everywhere or ``fit="noise"``; else up to 3,000 nodes.
        ``"sdp"``: (30) by cvxpy (Clarabel up to 100 nodes, SCS above), the reference.
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per step. Ctrl-C keeps the best weights so far.

    Returns
    -------
    WeightDesign
        ``objective`` is that of (30) at the weights; ``certificate.details["symmetric_limit"]`` the value of step
        one: the smallest MSE of any symmetric filter (with ``fit``: in the coordinates ``C^1/2 x``).
        ``certificate.relaxed_objective`` is a lower bound on (30) for every feasible weights: proven by duality (None
        if there is no proof, ``details["dual_proof"]`` says why), or as an SDP solver reports it.

    References
    ----------
    Yang, Coutino, Leus, Isufi 2021, Section IV-B, equations (26)-(30).

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((3, 3))
    >>> d = nareg.design.relaxation(g, signals=np.linspace(1, 2, 9), noise=0.5)
    >>> d.status.name
    'CONVERGED'
    """
    _checks.choice("solver", solver, ("auto", "closed-form", *REFERENCES))
    base = penalty(graph)
    tied = Groups(groups, base.n_nodes)
    if solver in REFERENCES and groups is not None:
        raise InputError(f"groups is not for solver={solver!r}, which has a weight for every node: use solver='closed-form'.")
    data = {"signals": signals, "second_moment": second_moment, "noise": noise, "fit": fit}
    task = None if solver in REFERENCES else _low_rank_task(base, data)
    if task is not None:
        refuse_extreme(task, "relaxation")
        low, high = task.squared_bounds(lower, upper, default_lower=published_bound(task))
        started = time.perf_counter()
        L, A = task.white
        assert task.Sigma is not None
        step = low_rank_step_one(A, float(task.c[0] * task.Sigma[0]), L.diagonal() > 0)
        timings = {"step one": time.perf_counter() - started}
        candidates = {"inverse principal signal": _inverse_columns(A), "best scalar": _scalar_start(task, low, high)}
        return _fit_low_rank(
            task, L, step, candidates, _along(task), low, high, tied, solver=solver, method="relaxation",
            details={"symmetric_limit": step.value}, timings=timings, progress=progress,
        )  # fmt: skip
    dense = problem(base, **data, needs="relaxation", noise_required=True)
    refuse_extreme(dense, "relaxation")
    low, high = dense.squared_bounds(lower, upper, default_lower=published_bound(dense))
    white = dense.whitened()
    started = time.perf_counter()
    with few_threads(dense.n_nodes):
        step = dense_step_one(white)
    timings = {"step one": time.perf_counter() - started}
    details = {"symmetric_limit": step.value}
    if solver in REFERENCES:
        return fit_weights_to(
            dense, white, step.matrix, low, high, solver=solver, method="relaxation", details=details, timings=timings,
            progress=progress,
        )  # fmt: skip
    return _fit_dense(
        dense, white, step, low, high, tied, solver=solver, method="relaxation", details=details, timings=timings,
        progress=progress,
    )  # fmt: skip


def _low_rank_task(base: Penalty, data: dict[str, Any]) -> SparseProblem | None:
    """The problem without N x N matrices, where H has low rank; None where it is to be solved with them."""
    n, X, noise = base.n_nodes, data["signals"], data["noise"]
    if n <= DENSE_NODES or X is None or data["second_moment"] is not None or noise is None or np.ndim(noise) > 1:
        return None
    task = sparse_problem(base, signals=X, noise=noise, fit=data["fit"], needs="relaxation")
    assert task.Sigma is not None
    white_noise = task.c * task.Sigma
    remedy = None
    if np.ptp(white_noise) > 1e-12 * white_noise.max():
        remedy = "noise differs between nodes, so that its filter H is a dense matrix: pass fit='noise'"
    elif task.X.shape[1] >= n:
        remedy = f"signals are not fewer than nodes ({task.X.shape[1]}), so that its filter H is a dense matrix: pass fewer"
    if remedy is None:
        return task
    if n > _checks.DENSE_LIMIT:
        raise TooLargeError(
            f"relaxation on {n} nodes needs dense matrices beyond the limit of {_checks.DENSE_LIMIT} nodes because {remedy}."
        )
    return None


def fit_weights_to(
    task: DesignProblem,
    white: DesignProblem,
    H: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    solver: str,
    method: str,
    details: dict[str, Any],
    timings: dict[str, float],
    progress: ProgressCallback | None,
    groups: Groups | None = None,
) -> WeightDesign:
    """Step two, (30): weights whose filter is closest to a dense H, packed."""
    more: dict[str, Any] = {"solver": solver, "method": method, "progress": progress}
    if solver in REFERENCES:
        return _fit_by_sdp(task, white, H, low, high, details=details, timings=timings, **more)
    step = StepOne(*factor(H), 0.0, np.ones(len(H), dtype=bool))
    groups = Groups(None, len(H)) if groups is None else groups
    return _fit_dense(task, white, step, low, high, groups, details=details, timings=timings, **more)


def _fit_by_sdp(
    task: DesignProblem,
    white: DesignProblem,
    H: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    solver: str,
    method: str,
    details: dict[str, Any],
    timings: dict[str, float],
    progress: ProgressCallback | None,
) -> WeightDesign:
    low_white, high_white = low / task.c, high / task.c
    objective = fit_criterion(white.L, H)
    P = H @ H
    unit = float(np.linalg.norm(white.L, 2))  # Omega o L does not change when L / unit and Omega * unit do
    L = white.L / unit
    program = SupportProgram(L, quadratic=gram(L, P), slope=linear(L, P - (H + H.T) / 2))
    solved = program.solve(low_white * unit, solver)
    omega = solved.omega / unit
    result, rounding = round_and_refine(omega, objective, low_white, high_white, progress=progress)
    relaxed = 2 * solved.value + 2 * float(np.sum((H - np.eye(len(H))) ** 2))
    solved_status = solved.status if relaxed <= result.value * (1 + 1e-5) else Status.INACCURATE
    scale = open_scale(white.mse_along, objective, result.w, low_white, high_white)
    w = feasible(scale * result.w, low_white, high_white)
    half = np.sqrt(task.c)
    return task.pack(
        method,
        feasible(w * half, low, high),
        objective(w)[0],
        local_status(result, solved_status),
        lower=low,
        upper=high,
        solver=solved.solver,
        solver_status=solved.solver_status,
        omega=half[:, None] * omega * half,
        relaxed_objective=relaxed,
        gradient_norm=result.gradient_norm,
        details={**details, **rounding, "scale_factor": scale},
        timings={**timings, "build": program.build_seconds, "sdp": solved.seconds},
        settings={"solver": solver},
    )


def _fit_dense(
    task: DesignProblem, white: DesignProblem, step: StepOne, low: np.ndarray, high: np.ndarray, groups: Groups, **more: Any
) -> WeightDesign:
    """(30) for a problem with dense matrices: starts and scale by the exact risk."""
    with few_threads(task.n_nodes):
        candidates = {
            "inverse principal signal": inverse_signal(white, high / task.c),
            "best scalar": best_scalar(white, low / task.c, high / task.c)[0],
        }
    return _fit_low_rank(task, task.base.L, step, candidates, white.mse_along, low, high, groups, **more)


def _fit_low_rank(
    task: AnyProblem,
    L: sp.csr_array,
    step: StepOne,
    candidates: dict[str, np.ndarray],
    along: Callable[[np.ndarray], Callable[[float], float]],
    low: np.ndarray,
    high: np.ndarray,
    groups: Groups,
    *,
    solver: str,
    method: str,
    details: dict[str, Any],
    timings: dict[str, float],
    progress: ProgressCallback | None,
) -> WeightDesign:
    """(30) by a low-rank factor with its dual bound, then at rank one from several starts, the best kept."""
    started = time.perf_counter()
    L, half = low_rank.coordinates(L, task.c, groups)
    low_white, high_white = low / half**2, high / half**2
    to_white = half / np.sqrt(task.c)
    quadratic = fit_quadratic(L, step, groups)
    bounds = groups.bounds(low_white, high_white)
    first = low_rank.spread(groups.reduce_start(1 / np.sqrt(np.where(L.diagonal() > 0, L.diagonal(), L.diagonal().max()))))
    start = quadratic.best_multiple(first)
    omega = low_rank.minimize(quadratic, *bounds, start, mesh_like=mesh_like(task), progress=progress)
    spent = time.perf_counter()
    V = low_rank.of_nodes(omega.V, groups)
    rounded, share = low_rank.leading(V)
    objective = doubled(quadratic)
    # (30) at rank one has local minima: several starts, the best kept
    starts = {
        name: groups.expand(_best_scale(objective, groups.reduce_start(w / to_white), *bounds))
        for name, w in candidates.items()
    }
    starts = {"low rank": feasible(rounded, low_white, high_white), **starts}
    reached = low_rank.refine(quadratic, starts, low_white, high_white, interrupted=omega.interrupted, progress=progress)
    result = low_rank.best(reached)
    found = groups.expand(result.w)
    scale = open_scale(lambda d: along(to_white * d), lambda w: objective(groups.reduce_start(w)), found, low_white, high_white)
    w = feasible(scale * found, low_white, high_white)
    details = {
        **details,
        "degrees_of_freedom": groups.count,
        **omega.details(2.0),
        "rank_one_share": share,
        "starts": {name: 2 * d.value for name, d in reached.items()},
        "scale_factor": scale,
    }
    return task.pack(
        method,
        feasible(w * half, low, high),
        objective(groups.reduce_start(w))[0],
        local_status(result, omega.status),
        lower=low,
        upper=high,
        solver="eigenvalues; low-rank factor, Newton; L-BFGS-B (scipy)",
        solver_status=result.message,
        omega=low_rank.dense_omega(half[:, None] * V),
        relaxed_objective=None if omega.bound is None else 2 * omega.bound,
        gradient_norm=result.gradient_norm,
        details=details,
        timings={**timings, "low rank": spent - started, "refinement": time.perf_counter() - spent},
        settings={"solver": solver},
    )


def fit_quadratic(L: sp.csr_array, step: StepOne, groups: Groups) -> SupportQuadratic:
    """Half of (30), ``||H (I + S) - I||_F^2 = ||H S||_F^2 + 2 <H^2 - H, S> + ||H - I||_F^2``."""
    quadratic = SupportQuadratic(L, step.columns, groups, constant=step.constant)
    quadratic.slope = pair_products(quadratic.L, step.U * (step.h**2 - step.h), step.U) / 2
    # H (I + S) has at most the rank of H, which leaves this much of the identity
    quadratic.least = float(step.connected.sum() - step.h.size)
    return quadratic


def doubled(quadratic: SupportQuadratic) -> ValueAndGradient:
    """(30) itself at rank one."""

    def value_and_gradient(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = quadratic.weights_criterion(v)
        return 2 * value, 2 * gradient

    return value_and_gradient


def step_one(task: DesignProblem) -> tuple[np.ndarray, float]:
    """Optimal H of (29) by symmetric eigendecomposition, and its mean squared error."""
    found = dense_step_one(task)
    return found.matrix, found.value


def lyapunov(R: np.ndarray, Sigma: np.ndarray) -> np.ndarray:
    """Solve ``(R + Sigma) H + H (R + Sigma) = 2 R``; the least-norm H where R + Sigma is singular."""
    U, h = lyapunov_factor(R, Sigma)
    return (U * h) @ U.T


def fit_criterion(L: np.ndarray, H: np.ndarray) -> ValueAndGradient:
    """(30) at rank one, ``2 ||H (I + S(w)) - I||_F^2``, and its gradient in w, with dense matrices."""
    identity = np.eye(len(H))

    def value_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
        E = H @ (identity + (w[:, None] * L) * w) - identity
        slope = 2 * H.T @ E
        return 2 * float(np.sum(E**2)), 2 * ((slope + slope.T) * L) @ w

    return value_and_gradient


def _inverse_columns(A: np.ndarray) -> np.ndarray:
    """``1 / u`` of the principal direction of ``A A^T``, without division by zero."""
    u = principal_direction(A)
    return np.where(u < 0, -1.0, 1.0) / np.maximum(np.abs(u), 1e-6 * np.abs(u).max())


def _scalar_start(task: SparseProblem, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return task.best_scalar(low, high) / np.sqrt(task.c)


def _along(task: SparseProblem) -> Callable[[np.ndarray], Callable[[float], float]]:
    """The sampled risk along weights of the white coordinates."""
    return lambda w: task.mse_along(np.sqrt(task.c) * w)


def _best_scale(objective: ValueAndGradient, start: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The start at the scale that suits this criterion: the gentlest one within a thousandth of the best.

    Where the direction makes ``S x = 0`` the criterion hardly depends on the scale, and large weights only
    spoil the conditioning.
    """
    unit = start / (np.abs(start).max() or 1.0)
    scales = float(np.sqrt(high.max())) * np.geomspace(1e-8, 1.0, 81)
    values = np.array([objective(feasible(s * unit, low, high))[0] for s in scales])
    good = values <= values.min() + 1e-3 * (values[0] - values.min())
    return feasible(scales[np.argmax(good)] * unit, low, high)


def open_scale(
    along: Callable[[np.ndarray], Callable[[float], float]],
    objective: ValueAndGradient,
    w: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> float:
    """The factor with the smallest MSE among those that leave (30) as it is within one part in a million.

    With one known signal the best weights at rank one make ``S x = 0`` at any scale, and (30) cannot choose.
    """
    # (30) along s is a + b s^2 + d s^4: three values give it all
    first, second, third = (objective(s * w)[0] for s in (0.0, 1.0, np.sqrt(2.0)))
    d = (third - 2 * second + first) / 2
    b = second - first - d
    scales = np.geomspace(1e-4, 1e4, 161)
    square = np.outer(scales**2, w**2)
    allowed = (square >= low).all(axis=1) & (square <= high).all(axis=1)
    allowed &= first + b * scales**2 + d * scales**4 <= second * (1 + 1e-6)
    choices = scales[allowed].tolist() or [1.0]
    return choices[0] if len(choices) == 1 else min(choices, key=along(w))


def relaxation_program(task: DesignProblem, lower: np.ndarray, solver: str) -> tuple[Solved, np.ndarray]:
    """(29) literally, as the SDP of the paper: the reference for :func:`step_one`. Returns also H.

    A (2N) x (2N) matrix inequality: about half a minute at 50 nodes.
    """
    n = task.n_nodes
    if 2 * n > SDP_NODES:
        raise TooLargeError(f"(29) as an SDP on {n} nodes would take hours: use the Lyapunov equation (step_one).")
    cp = _cvxpy()
    omega, H = cp.Variable((n, n), PSD=True), cp.Variable((n, n), PSD=True)
    S = cp.multiply(task.L, omega)
    identity = np.eye(n)
    scale = float(np.trace(task.R)) or 1.0
    R_half, Sigma_half = _half(task.R / scale), _half(task.Sigma_matrix / scale)
    cost = cp.sum_squares((H - identity) @ R_half) + cp.sum_squares(H @ Sigma_half)
    block = cp.bmat([[identity + S, identity], [identity, H]])
    problem_ = cp.Problem(cp.Minimize(cost), [(block + block.T) / 2 >> 0, cp.diag(omega) >= lower])
    solved = run(problem_, omega, solver, n, scale)
    return solved, np.asarray(H.value)


def _half(P: np.ndarray) -> np.ndarray:
    values, Q = np.linalg.eigh(P)
    keep = values > 1e-14 * max(values[-1], 1e-300)
    if not keep.any():
        return np.zeros((len(P), 1))
    return Q[:, keep] * np.sqrt(values[keep])
