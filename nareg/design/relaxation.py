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
from typing import Any

import numpy as np

from nareg import _checks
from nareg.design._local import Progress, descend, feasible, few_threads
from nareg.design._problem import Problem, local_status, problem
from nareg.design._program import SDP_NODES, Solved, SupportProgram, _cvxpy, gram, linear, run
from nareg.design._starts import best_scalar, inverse_signal
from nareg.design.prony import published_bound
from nareg.design.rounding import rank_one, round_and_refine
from nareg.errors import TooLargeError
from nareg.results import Status, WeightDesign


def relaxation(
    graph: Any,
    *,
    signals: Any = None,
    second_moment: Any = None,
    noise: Any,
    lower: Any = None,
    upper: Any = None,
    fit: Any = None,
    solver: str = "auto",
    progress: Progress | None = None,
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
    solver : {"auto", "closed-form", "sdp", "clarabel", "scs"}
        ``"closed-form"`` (and ``"auto"``): Lyapunov solve, then (30) at rank one by L-BFGS from several
        starts; seconds at a few hundred nodes. ``"sdp"``: Lyapunov solve, then (30) as an SDP by cvxpy
        (Clarabel up to 100 nodes, SCS above), rounded and refined.
    progress : callable, optional
        ``progress(iteration, objective, relative gradient norm)``.

    Returns
    -------
    WeightDesign
        ``objective`` is that of (30) at the weights; ``certificate.details["symmetric_limit"]`` the value of step
        one: the smallest MSE of any symmetric filter (with ``fit``: in the coordinates ``C^1/2 x``).

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
    _checks.choice("solver", solver, ("auto", "closed-form", "sdp", "clarabel", "scs"))
    data = {"signals": signals, "second_moment": second_moment, "noise": noise, "fit": fit}
    task = problem(graph, **data, needs="relaxation", noise_required=True)
    low, high = task.squared_bounds(lower, upper, default_lower=published_bound(task))
    white = task.whitened()
    started = time.perf_counter()
    with few_threads(task.n_nodes):
        H, value = step_one(white)
    timings = {"step one": time.perf_counter() - started}
    return fit_weights_to(
        task,
        white,
        H,
        low,
        high,
        solver=solver,
        method="relaxation",
        details={"symmetric_limit": value},
        timings=timings,
        progress=progress,
    )


def fit_weights_to(
    task: Problem,
    white: Problem,
    H: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    solver: str,
    method: str,
    details: dict[str, Any],
    timings: dict[str, float],
    progress: Progress | None,
) -> WeightDesign:
    """Step two, (30): weights whose filter is closest to H, packed."""
    low_white, high_white = low / task.c, high / task.c
    objective = fit_criterion(white.L, H)
    omega = relaxed = None
    solved_status = Status.CONVERGED
    if solver in ("auto", "closed-form"):
        # (30) at rank one has local minima: several starts, the best kept
        results = {}
        with few_threads(task.n_nodes):
            candidates = {
                "best scalar": best_scalar(white, low_white, high_white)[0],
                "inverse principal signal": inverse_signal(white, high_white),
                "low rank": low_rank_start(white.L, H),
            }
            for name, candidate in candidates.items():
                start = _best_scale(objective, candidate, low_white, high_white)
                results[name] = descend(objective, start, low_white, high_white, progress=progress)
        result = min(results.values(), key=lambda d: d.value)
        details = {**details, "starts": {name: d.value for name, d in results.items()}}
        solved_by, word = "Lyapunov equation, then L-BFGS-B (scipy)", result.message
    else:
        P = H @ H
        unit = float(np.linalg.norm(white.L, 2))  # Omega o L does not change when L / unit and Omega * unit do
        L = white.L / unit
        program = SupportProgram(L, quadratic=gram(L, P), slope=linear(L, P - (H + H.T) / 2))
        solved = program.solve(low_white * unit, solver)
        omega = solved.omega / unit
        result, rounding = round_and_refine(omega, objective, low_white, high_white, progress=progress)
        relaxed = 2 * solved.value + 2 * float(np.sum((H - np.eye(len(H))) ** 2))
        solved_status = solved.status if relaxed <= result.value * (1 + 1e-5) else Status.INACCURATE
        details, solved_by, word = {**details, **rounding}, solved.solver, solved.solver_status
        timings = {**timings, "build": program.build_seconds, "sdp": solved.seconds}
        omega = np.sqrt(task.c)[:, None] * omega * np.sqrt(task.c)
    status = local_status(result, solved_status)
    factor = open_scale(white, objective, result.w, low_white, high_white)
    w = feasible(factor * result.w, low_white, high_white)
    details = {**details, "scale_factor": factor}
    return task.pack(
        method,
        feasible(w * np.sqrt(task.c), low, high),
        objective(w)[0],
        status,
        lower=low,
        upper=high,
        solver=solved_by,
        solver_status=word,
        omega=omega,
        relaxed_objective=relaxed,
        gradient_norm=result.gradient_norm,
        details=details,
        timings=timings,
        settings={"solver": solver},
    )


def step_one(task: Problem) -> tuple[np.ndarray, float]:
    """Optimal H of (29) by one symmetric eigendecomposition, and its mean squared error."""
    connected = task.L.diagonal() > 0
    H = np.eye(task.n_nodes)
    index = np.ix_(connected, connected)
    H[index] = lyapunov(task.R[index], task.Sigma_matrix[index])
    error = H - np.eye(len(H))
    return H, float(np.sum((error @ task.R) * error) + np.sum((H @ task.Sigma_matrix) * H))


def lyapunov(R: np.ndarray, Sigma: np.ndarray) -> np.ndarray:
    """Solve ``(R + Sigma) H + H (R + Sigma) = 2 R``; the least-norm H where R + Sigma is singular."""
    values, Q = np.linalg.eigh(R + Sigma)
    pair = values[:, None] + values[None]
    rotated = 2 * (Q.T @ R @ Q)
    keep = pair > 1e-12 * max(pair.max(initial=0.0), 1e-300)
    H = Q @ np.where(keep, rotated / np.where(keep, pair, 1.0), 0.0) @ Q.T
    # H is PSD, and of low rank where R is: what rounding adds would be blown up by large weights in (30)
    values, Q = np.linalg.eigh((H + H.T) / 2)
    values[values < 1e-9 * values[-1]] = 0.0
    return (Q * values) @ Q.T


def fit_criterion(L: np.ndarray, H: np.ndarray) -> Any:
    """(30) at rank one, ``2 ||H (I + S(w)) - I||_F^2``, and its gradient in w."""
    identity = np.eye(len(H))

    def value_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
        E = H @ (identity + (w[:, None] * L) * w) - identity
        slope = 2 * H.T @ E
        return 2 * float(np.sum(E**2)), 2 * ((slope + slope.T) * L) @ w

    return value_and_gradient


def low_rank_start(L: np.ndarray, H: np.ndarray, rank: int = 6) -> np.ndarray:
    """Leading direction of ``Omega = V V^T`` that minimises (30) at rank 6, where few local minima are left."""
    n = len(L)
    identity = np.eye(n)

    def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        V = flat.reshape(n, rank)
        E = H @ (identity + (V @ V.T) * L) - identity
        slope = 2 * H.T @ E
        return 2 * float(np.sum(E**2)), (2 * ((slope + slope.T) * L) @ V).ravel()

    start = 0.1 * np.random.default_rng(0).standard_normal((n, rank))
    start[:, 0] += 1.0
    free = np.zeros(start.size)
    V = descend(value_and_gradient, start.ravel(), free, free + np.inf, max_iterations=300).w.reshape(n, rank)
    return rank_one(V @ V.T)[0]


def _best_scale(objective: Any, start: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The start at the scale that suits this criterion: the gentlest one within a thousandth of the best.

    Where the direction makes ``S x = 0`` the criterion hardly depends on the scale, and large weights only
    spoil the conditioning.
    """
    unit = start / (np.abs(start).max() or 1.0)
    scales = float(np.sqrt(high.min())) * np.geomspace(1e-8, 1.0, 81)
    values = np.array([objective(feasible(s * unit, low, high))[0] for s in scales])
    good = values <= values.min() + 1e-3 * (values[0] - values.min())
    return feasible(scales[np.argmax(good)] * unit, low, high)


def open_scale(white: Problem, objective: Any, w: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
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
    along = white.mse_along(w)
    return min(scales[allowed].tolist() or [1.0], key=along)


def relaxation_program(task: Problem, lower: np.ndarray, solver: str) -> tuple[Solved, np.ndarray]:
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
