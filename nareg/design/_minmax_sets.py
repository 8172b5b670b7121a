"""Min-max designs over a whole set of signals: the box, the smooth box, the ball.

First order: an exchange method. The inner maximum is taken over second moments, ``max tr(B X B^T)`` over the
relaxed set of :mod:`nareg.design._worst_case`, whose value is the certified bound; every worst moment ``X = F F^T``
becomes a scenario, and the weights descend on the smooth maximum over the scenarios. A moment holds many worst
signals at once, so that a few rounds do what single vertices would need hundreds for.

SDP: the same bound is jointly convex in (Omega, d, mu). With T, the box coordinates,

    min sum(d) + mu kappa   such that   [[diag(d) + mu T^T L T, T^T S], [S T, I]] >= 0,   S = Omega o L

which is the S-procedure for ``||S x||^2 <= t`` over the box, scaled so that every side has length two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg.design._groups import Groups
from nareg.design._local import Progress, ValueAndGradient, descend, feasible, few_threads, interval
from nareg.design._problem import Problem, minimise_scale
from nareg.design._program import Solved, _cvxpy, run
from nareg.design._signal_sets import Matrix, SignalSet
from nareg.design._worst_case import WorstCase, examine
from nareg.design._worst_moment import Relaxed, relax, spread_moment
from nareg.design.prony import scaled_by_mse
from nareg.design.relaxation import _half, fit_weights_to
from nareg.design.rounding import rank_one
from nareg.errors import TooLargeError
from nareg.results import Status, WeightDesign

#: The exchange ends when the worst signal exceeds the worst scenario by less than this fraction.
CLOSED = 0.01
#: Most rounds of the exchange.
ROUNDS = 60
#: The bound as an SDP has a matrix inequality of 2 N + 1 rows: with Clarabel 9 s at 40 nodes and minutes at 60,
#: with SCS two minutes at 70.
AUTO_NODES, CLARABEL_BOUND_NODES, BOUND_NODES = 40, 50, 120
#: Up to here every start gets an exchange of its own; above only the best.
ALL_STARTS = 60
#: Largest network whose worst signal is kept in the certificate.
SHOWN_NODES = 1000
#: Exponent of the smooth maximum over the scenarios.
SHARPNESS = 400.0


@dataclass(frozen=True)
class Criterion:
    """What is maximised over the signals: ``||B(w) x||^2 + variance(w)``, and its smooth maximum over moments."""

    operator: Callable[[np.ndarray], Matrix]
    variance: Callable[[np.ndarray], float]
    smooth_maximum: Callable[[list[np.ndarray]], ValueAndGradient]


def prony_criterion(task: Problem) -> Criterion:
    """``B = C^-1/2 S``: ``||S x||^2`` in the coordinates ``C^1/2 x``."""
    L, root = task.base.L, np.sqrt(task.c)

    def operator(w: np.ndarray) -> sp.csr_array:
        return sp.csr_array(sp.diags_array(w / root) @ L @ sp.diags_array(w))

    def smooth_maximum(moments: list[np.ndarray]) -> ValueAndGradient:
        F, groups = _stacked(moments)

        def value_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
            image = L @ (w[:, None] * F)
            error = (w / task.c)[:, None] * image
            columns = np.sum(error * (w[:, None] * image), axis=0)
            value, share = _power_mean(np.add.reduceat(columns, groups[:-1]))
            # d ||C^-1/2 S x||^2 / dw_i = 2 (C^-1 S x)_i (L (w x))_i + 2 x_i (L (w C^-1 S x))_i
            gradient = 2 * error * image + 2 * F * (L @ (w[:, None] * error))
            return value, gradient @ np.repeat(share, np.diff(groups))

        return value_and_gradient

    return Criterion(operator, lambda w: 0.0, smooth_maximum)


def mse_criterion(task: Problem) -> Criterion:
    """``B = H - I`` and the variance ``tr(H Sigma H^T)``."""
    assert task.Sigma is not None
    Sigma = task.Sigma

    def operator(w: np.ndarray) -> np.ndarray:
        return task.filter_matrix(w)[1] - np.eye(task.n_nodes)

    def smooth_maximum(moments: list[np.ndarray]) -> ValueAndGradient:
        F, groups = _stacked(moments)

        def value_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
            inverse, H = task.filter_matrix(w)
            error = H @ F - F
            value, share = _power_mean(np.add.reduceat(np.sum(error**2, axis=0), groups[:-1]))
            H_Sigma = H * Sigma if Sigma.ndim == 1 else H @ Sigma
            # as the gradient of the MSE (see Problem.mse_and_gradient), R the mixture of the moments
            mixed = (error * np.repeat(share, np.diff(groups))) @ F.T
            slope = -2.0 * inverse @ (mixed + H_Sigma) @ H.T
            return value + float(np.sum(H_Sigma * H)), ((slope + slope.T) * task.L) @ w

        return value_and_gradient

    return Criterion(operator, lambda w: task.risk_parts(w)[1], smooth_maximum)


def _stacked(moments: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The factors side by side, and where each begins (and the last ends)."""
    return np.hstack(moments), np.concatenate([[0], np.cumsum([F.shape[1] for F in moments])])


def _power_mean(values: np.ndarray, sharpness: float = SHARPNESS) -> tuple[float, np.ndarray]:
    """The ``sharpness``-norm of K values and its gradient: at most ``K^(1/sharpness)`` times the largest."""
    top = float(values.max())
    if top <= 0:
        return 0.0, np.zeros_like(values)
    norm = np.sum((values / top) ** sharpness) ** (1 / sharpness)
    return float(top * norm), (values / top / norm) ** (sharpness - 1)


@dataclass(frozen=True)
class Exchange:
    """Where an exchange ended: the best weights seen, their bound, and whether the worst signal adds nothing."""

    w: np.ndarray
    bound: float
    rounds: int
    closed: bool
    interrupted: bool

    def status(self, solved: Status = Status.CONVERGED) -> Status:
        """Status of the design, given how the convex step before it ended."""
        if self.interrupted:
            return Status.INTERRUPTED
        return solved if self.closed else Status.MAX_ITERATIONS

    def words(self) -> str:
        """How it ended, for a person."""
        if self.rounds == 0:
            return "no rounds needed"
        return f"{self.rounds} rounds, " + (f"within {CLOSED:.0%} of the worst scenario" if self.closed else "not closed")


def exchange(
    criterion: Criterion,
    U: SignalSet,
    start: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    groups: Groups,
    *,
    progress: Progress | None = None,
) -> Exchange:
    """Minimise the certified worst case over w: descend on the scenarios, add the worst moment, repeat."""
    bounds = groups.bounds(lower, upper)
    w = groups.expand(feasible(groups.reduce_start(start), *bounds))
    bound, relaxed = relaxed_bound(criterion, U, w)
    best = (bound, w)
    moments = [spread_moment(U), *relaxed.moments]
    B, X = criterion.operator(w), moments[0]
    # zero within rounding: where one signal is all there is, Prony's error can vanish
    zero = 1e-20 * float(abs(B).max() * np.linalg.norm(X)) ** 2 * w.size
    rounds, closed, interrupted = 0, best[0] <= zero, False
    while not closed and not interrupted and rounds < ROUNDS:
        rounds += 1
        smooth = groups.tied(criterion.smooth_maximum(moments))
        v = groups.reduce_start(best[1])
        descent = descend(smooth, v, *bounds, max_iterations=200, tolerance=1e-6, progress=progress)
        w = groups.expand(descent.w)
        bound, relaxed = relaxed_bound(criterion, U, w, start=relaxed)
        best = min(best, (bound, w), key=lambda pair: pair[0])
        # the smooth maximum is an upper bound on the scenarios: take its excess off before comparing
        model = descent.value * len(moments) ** (-1 / SHARPNESS)
        closed = best[0] <= max((1 + CLOSED) * model, zero)
        interrupted = descent.message == "interrupted"
        moments.extend(relaxed.moments)
    return Exchange(best[1], best[0], rounds, closed, interrupted)


def relaxed_bound(criterion: Criterion, U: SignalSet, w: np.ndarray, *, start: Relaxed | None = None) -> tuple[float, Relaxed]:
    """The worst case over the relaxed set, which the certificate then proves within a thousandth or so."""
    with few_threads(w.size):
        relaxed = relax(criterion.operator(w), U, start=start)
    return relaxed.value + criterion.variance(w), relaxed


def prony_over_set(
    task: Problem,
    U: SignalSet,
    lower: np.ndarray,
    upper: np.ndarray,
    groups: Groups,
    solver: str,
    scale: str,
    progress: Progress | None,
) -> WeightDesign:
    """Weights with the smallest certified ``max ||S x||^2`` over the set, in the coordinates ``C^1/2 x``."""
    criterion, white, root = prony_criterion(task), task.whitened(), np.sqrt(task.c)
    timings: dict[str, float] = {}
    omega = relaxed_objective = None
    solved_by, word, solved_status = "exchange of worst moments, L-BFGS-B (scipy)", "", Status.CONVERGED
    if solver == "auto":
        small = task.n_nodes <= AUTO_NODES and groups.index is None
        solver = "closed-form" if grows_with_weights(U) else "sdp" if small else "first-order"
    if solver == "closed-form":
        smallest = groups.expand(np.sqrt(groups.bounds(lower, upper)[0]))
        solved_by, word = "closed form", "the smallest weights allowed, "
        reached = {"bound": Exchange(smallest, relaxed_bound(criterion, U, smallest)[0], 0, True, False)}
    elif solver == "descent-ascent":
        solved_by = "descent-ascent"
        reached = {"bound": descent_ascent(criterion, U, np.sqrt(lower), lower, upper)}
    else:
        starts = starting_weights(task, U, lower, upper, scaled=False)
        if solver != "first-order":
            solved, omega = bound_program(white, U, task.c, lower / task.c, solver, criterion="prony")
            relaxed_objective, solved_status = solved.value, solved.status
            solved_by, word, timings["sdp"] = solved.solver, solved.solver_status + ", ", solved.seconds
            omega = root[:, None] * omega * root
            starts = {"rounded": feasible(rank_one(omega)[0], lower, upper), **starts}
        reached = exchanges(criterion, U, starts, lower, upper, groups, progress)
    found = min(reached.values(), key=lambda e: e.bound)
    w, factor = scaled_by_mse(task, found.w, lower, upper, scale)
    worst = examine(criterion.operator(w), U)
    return task.pack(
        f"min-max ({U.name}, prony)",
        w,
        worst.upper,
        found.status(solved_status),
        lower=lower,
        upper=upper,
        solver=solved_by,
        solver_status=word + found.words(),
        omega=omega,
        relaxed_objective=relaxed_objective,
        details={
            **worst_details(worst),
            "degrees_of_freedom": groups.count,
            "rounds": found.rounds,
            "starts": {name: e.bound for name, e in reached.items()},
            "scale_factor": factor,
            "objective_before_scaling": found.bound,
        },
        timings=timings,
        settings={"solver": solver, "scale": scale, **set_settings(U)},
    )


def mse_over_set(
    task: Problem,
    U: SignalSet,
    lower: np.ndarray,
    upper: np.ndarray,
    groups: Groups,
    solver: str,
    progress: Progress | None,
) -> WeightDesign:
    """Weights with the smallest certified ``max ||(H - I) x||^2 + tr(H Sigma H^T)`` over the set."""
    criterion = mse_criterion(task)
    if solver in ("sdp", "clarabel", "scs"):
        white = task.whitened()
        solved, H = bound_program(white, U, task.c, lower / task.c, solver, criterion="mse")
        design = fit_weights_to(
            task, white, H, lower, upper, solver="auto", method=f"min-max ({U.name}, mse)",
            details={"worst_mse": solved.value, "sdp_status": solved.solver_status},
            timings={"sdp": solved.seconds}, progress=progress,
        )  # fmt: skip
        worst = examine(criterion.operator(design.weights), U, variance=criterion.variance(design.weights))
        certificate = replace(design.certificate, details={**design.certificate.details, **worst_details(worst)})
        settings = {**design.settings, "solver": solver, **set_settings(U)}
        status = design.status if solved.status.ok else solved.status
        return replace(design, certificate=certificate, settings=settings, status=status)
    if solver == "descent-ascent":
        start = min(
            starting_weights(task, U, lower, upper, scaled=True).values(), key=lambda w: relaxed_bound(criterion, U, w)[0]
        )
        reached = {"best start": descent_ascent(criterion, U, start, lower, upper)}
    else:
        starts = starting_weights(task, U, lower, upper, scaled=True)
        reached = exchanges(criterion, U, starts, lower, upper, groups, progress)
    found = min(reached.values(), key=lambda e: e.bound)
    worst = examine(criterion.operator(found.w), U, variance=criterion.variance(found.w))
    return task.pack(
        f"min-max ({U.name}, mse)",
        found.w,
        worst.upper,
        found.status(),
        lower=lower,
        upper=upper,
        solver="descent-ascent" if solver == "descent-ascent" else "exchange of worst moments, L-BFGS-B (scipy)",
        solver_status=found.words(),
        details={
            **worst_details(worst),
            "degrees_of_freedom": groups.count,
            "rounds": found.rounds,
            "starts": {name: e.bound for name, e in reached.items()},
        },
        settings={"solver": solver, **set_settings(U)},
    )


def worst_details(worst: WorstCase) -> dict[str, Any]:
    """What a certificate says about the worst case."""
    shown = {"worst_signal": worst.signal.tolist()} if worst.signal.size <= SHOWN_NODES else {}
    return {"worst_case_lower": worst.lower, "worst_case_upper": worst.upper, **shown}


def set_settings(U: SignalSet) -> dict[str, Any]:
    """The set's name and its one number."""
    numbers = {"smooth-box": {"smoothness": U.smoothness}, "ball": {"radius": U.radius}}
    return {"uncertainty": U.name, **numbers.get(U.name, {})}


def grows_with_weights(U: SignalSet) -> bool:
    """Whether ``max ||S x||`` can only grow with every ``|w_i|``, so that the lower bound itself is optimal.

    ``||C^-1/2 W L W x||`` grows with the outer W, row by row. The inner one stretches the set: for a box or a ball
    with its centre at zero the stretched set contains the old one, whatever the signs of w.
    """
    return U.name == "ball" or (U.name == "box" and np.array_equal(U.low, -U.high))


def starting_weights(
    task: Problem, U: SignalSet, lower: np.ndarray, upper: np.ndarray, *, scaled: bool
) -> dict[str, np.ndarray]:
    """The lower bound, one weight for all, and the inverse of the centre (smooth after weighting).

    At the smallest scale allowed, or (``scaled``) at that of the smallest mean MSE over the set.
    """
    n = task.n_nodes
    F = spread_moment(U)
    average = replace(task, R=F @ F.T)
    directions = {"one weight": np.ones(n)}
    if U.name != "ball":
        centre = (U.low + U.high) / 2
        size = np.abs(centre)
        if size.max() > 0:
            inverse = 1 / np.maximum(size, 0.05 * size.max())
            directions["inverse centre"] = np.where(centre < 0, -1.0, 1.0) * inverse / inverse.max()
    starts = {}
    for name, direction in directions.items():
        smallest = float(np.sqrt(np.max(lower / direction**2)))
        largest = float(np.sqrt(np.max(upper / direction**2)))
        if not scaled or smallest >= largest:
            scale = smallest
        else:  # node by node into the bounds: a node that must not be smoothed does not keep the others from it

            def mse(s: float, direction: np.ndarray = direction) -> float:
                return sum(average.risk_parts(feasible(s * direction, lower, upper)))

            scale = minimise_scale(mse, max(smallest, 1e-6 * largest), largest)[0]
        starts[name] = feasible(scale * direction, lower, upper)
    if lower.any() and not np.allclose(starts["one weight"] ** 2, lower):
        starts["bound"] = np.sqrt(lower)
    return starts


def exchanges(
    criterion: Criterion,
    U: SignalSet,
    starts: dict[str, np.ndarray],
    lower: np.ndarray,
    upper: np.ndarray,
    groups: Groups,
    progress: Progress | None,
) -> dict[str, Exchange]:
    """An exchange from every start, or on larger networks from the best one."""
    if lower.size > ALL_STARTS:
        best = min(starts, key=lambda name: relaxed_bound(criterion, U, starts[name])[0])
        starts = {best: starts[best]}
    reached: dict[str, Exchange] = {}
    for name, start in starts.items():
        reached[name] = exchange(criterion, U, start, lower, upper, groups, progress=progress)
        if reached[name].interrupted:
            break
    return reached


def descent_ascent(
    criterion: Criterion, U: SignalSet, start: np.ndarray, lower: np.ndarray, upper: np.ndarray, *, steps: int = 1000
) -> Exchange:
    """Descent-ascent on the energy ball: x by power steps on its sphere, w by steps of falling length along its gradient.

    Plain and slow, a reference for the exchange; the best weights seen are kept.
    """
    w = feasible(start, lower, upper)
    bound, relaxed = relaxed_bound(criterion, U, w)
    best, x = (bound, w), relaxed.moments[0]
    low, high = interval(w, lower, upper)
    with few_threads(w.size):
        for k in range(steps):
            B = criterion.operator(w)
            for _ in range(3):
                image = B.T @ (B @ x)
                length = float(np.linalg.norm(image))
                x = U.radius * image / length if length > 0 else x
            _, gradient = criterion.smooth_maximum([x])(w)
            size = float(np.linalg.norm(gradient)) or 1.0
            w = np.clip(w - 0.2 / np.sqrt(k + 1) * np.linalg.norm(w) * gradient / size, low, high)
            if k % 10 == 9:
                best = min(best, (relaxed_bound(criterion, U, w)[0], w), key=lambda pair: pair[0])
    return Exchange(best[1], best[0], steps, False, False)


def bound_program(
    white: Problem, U: SignalSet, c: np.ndarray, lower: np.ndarray, solver: str, *, criterion: str
) -> tuple[Solved, np.ndarray]:
    """The certified bound minimised as an SDP: over Omega for "prony", over a PSD filter H for "mse".

    ``white`` is the problem in the coordinates ``C^1/2 x``, c the data term that led there and ``lower`` the bound on
    ``Omega_ii`` there. Returns the solved program and its matrix.
    """
    n = white.n_nodes
    if n > BOUND_NODES:
        raise TooLargeError(
            f"solver='sdp' on {n} nodes would take hours (a matrix inequality of {2 * n + 1} rows, limit {BOUND_NODES} "
            "nodes): use solver='first-order'."
        )
    if solver == "sdp":
        solver = "clarabel" if n <= CLARABEL_BOUND_NODES else "scs"
    cp = _cvxpy()
    T = np.sqrt(c)[:, None] * U.columns.toarray()
    size = T.shape[1]
    # one scale for every problem, so that solver tolerances mean the same
    unit = float(np.linalg.norm(T, 2)) or 1.0
    X = cp.Variable((n, n), PSD=True)
    constraints = []
    if criterion == "prony":
        norm = float(np.linalg.norm(white.L, 2)) or 1.0
        strength = norm * float(lower.max())
        M = cp.multiply(white.L / norm, X) @ (T / unit)
        constraints.append(cp.diag(X) >= lower / lower.max())
        variance = 0.0
    else:
        strength = 1.0
        M = (X - np.eye(n)) @ (T / unit)
        variance = cp.sum_squares(X @ _half(white.Sigma_matrix / unit**2))
    if U.name == "ball":
        largest = cp.Variable()
        corner, cost = largest * np.eye(size), largest
    else:
        d = cp.Variable(size)
        corner, cost = cp.diag(d), cp.sum(d)
        if size > 1:
            constraints.append(d[:-1] >= 0)
        if U.name == "smooth-box":
            Q = U.roughness.toarray() if sp.issparse(U.roughness) else U.roughness
            mu = cp.Variable(nonneg=True)
            corner, cost = corner + mu * (Q / U.smoothness), cost + mu
    block = cp.bmat([[corner, M.T], [M, np.eye(n)]])
    constraints.append((block + block.T) / 2 >> 0)
    solved = run(cp.Problem(cp.Minimize(cost + variance), constraints), X, solver, n, (strength * unit) ** 2)
    return solved, solved.omega * (lower.max() if criterion == "prony" else 1.0)
