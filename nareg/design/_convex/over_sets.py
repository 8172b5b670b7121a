"""Min-max designs over a whole set of signals: the box, the smooth box, the ball.

First order by an exchange, or the same certified bound as a semidefinite program
and then the exchange from its rounded weights.

The bound is jointly convex in (Omega, d, mu). With T, the box coordinates,

    min sum(d) + mu kappa   such that   [[diag(d) + mu T^T L T, T^T S], [S T, I]] >= 0,   S = Omega o L

which is the S-procedure for ``||S x||^2 <= t`` over the box, scaled so that every side has length two.

First-order min-max: an exchange of worst second moments.

The inner maximum is taken over second moments, ``max tr(B X B^T)`` over the relaxed set of
:mod:`nareg.design._convex.worst_case`, whose value is the certified bound; every worst moment ``X = F F^T`` becomes a scenario,
and the weights descend on the smooth maximum over the scenarios. A moment holds many worst signals at once, so that a few
rounds do what single vertices would need hundreds for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._solvers.threads import few_threads
from nareg.design._convex.criteria import SHARPNESS, Criterion, MinmaxOptions, mse_criterion, prony_criterion
from nareg.design._convex.filter_fit import fit_weights_to
from nareg.design._convex.low_rank import rank_one, scaled_by_mse
from nareg.design._convex.signal_sets import SignalSet
from nareg.design._convex.solving import Optimum, run
from nareg.design._convex.upper_bound import Relaxed, relax, spread_moment
from nareg.design._convex.worst_case import WorstCase, examine
from nareg.design._risk.checked import DesignEnd, with_details
from nareg.design._risk.descent import Groups, descend, feasible, minimize_scale
from nareg.design._risk.problem import DesignProblem, half
from nareg.errors import TooLargeError
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, Status, WeightDesign

#: The exchange ends when the worst signal exceeds the worst scenario by less than this fraction.
CLOSED = 0.01
#: Most rounds of the exchange.
ROUNDS = 60
#: Up to here every start gets an exchange of its own; above only the best.
ALL_STARTS = 60


@dataclass(frozen=True)
class ExchangeResult:
    """The end of an exchange: the best weights seen, their bound, and whether the worst signal adds nothing."""

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

    def description(self) -> str:
        """A sentence on how it ended."""
        if self.rounds == 0:
            return "no rounds needed"
        return f"{self.rounds} rounds, " + (f"within {CLOSED:.0%} of the worst scenario" if self.closed else "not closed")


def exchange(
    criterion: Criterion, U: SignalSet, start: np.ndarray, lower: np.ndarray, upper: np.ndarray, groups: Groups, *,
    progress: ProgressCallback | None = None,
) -> ExchangeResult:  # fmt: skip
    """Minimize the certified worst case over w: descend on the scenarios, add the worst moment, repeat."""
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
    return ExchangeResult(best[1], best[0], rounds, closed, interrupted)


def relaxed_bound(criterion: Criterion, U: SignalSet, w: np.ndarray, *, start: Relaxed | None = None) -> tuple[float, Relaxed]:
    """The worst case over the relaxed set, which the certificate then proves within a thousandth or so."""
    with few_threads(w.size):
        relaxed = relax(criterion.operator(w), U, start=start)
    return relaxed.value + criterion.variance(w), relaxed


def exchanges(
    criterion: Criterion, U: SignalSet, starts: dict[str, np.ndarray], lower: np.ndarray, upper: np.ndarray, groups: Groups,
    progress: ProgressCallback | None,
) -> dict[str, ExchangeResult]:  # fmt: skip
    """An exchange from every start, or on larger networks from the best one."""
    if lower.size > ALL_STARTS:
        best = min(starts, key=lambda name: relaxed_bound(criterion, U, starts[name])[0])
        starts = {best: starts[best]}
    reached: dict[str, ExchangeResult] = {}
    for name, start in starts.items():
        reached[name] = exchange(criterion, U, start, lower, upper, groups, progress=progress)
        if reached[name].interrupted:
            break
    return reached


#: The bound as an SDP has a matrix inequality of 2 N + 1 rows: with Clarabel 9 s at 40 nodes and minutes at 60,
#: with SCS two minutes at 70.
CLARABEL_BOUND_NODES, BOUND_NODES = 50, 120


def bound_program(
    white: DesignProblem, U: SignalSet, c: np.ndarray, lower: np.ndarray, solver: str, *, criterion: str
) -> Optimum:
    """The certified bound minimized as an SDP: over Omega for "prony", over a PSD filter H for "mse".

    ``white`` is the problem in the coordinates ``C^1/2 x``, c the data term that led there and ``lower`` the bound on
    ``Omega_ii`` there.
    """
    n = white.n_nodes
    if n > BOUND_NODES:
        raise TooLargeError(
            f"solver='sdp' on {n} nodes would take hours (a matrix inequality of {2 * n + 1} rows, limit {BOUND_NODES} "
            "nodes): use solver='first-order'."
        )
    if solver == "sdp":
        solver = "CLARABEL" if n <= CLARABEL_BOUND_NODES else "SCS"
    import cvxpy as cp  # half a second to import

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
        variance = cp.sum_squares(X @ half(white.Sigma_matrix / unit**2))
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
    problem = cp.Problem(cp.Minimize(cost + variance), constraints)
    ending = run(problem, solver, {})
    matrix = (X.value + X.value.T) / 2
    value = float(problem.value) * (strength * unit) ** 2
    return Optimum(matrix * lower.max(), value, ending) if criterion == "prony" else Optimum(matrix, value, ending, matrix)


EXCHANGE = "exchange of worst moments, L-BFGS-B (scipy)"
#: Up to here "prony" solves the program by default.
AUTO_NODES = 40
#: Largest network whose worst signal is kept in the certificate.
SHOWN_NODES = 1000


def prony_over_set(
    task: DesignProblem, U: SignalSet, lower: np.ndarray, upper: np.ndarray, options: MinmaxOptions
) -> WeightDesign:
    """Weights with the smallest certified ``max ||S x||^2`` over the set, in the coordinates ``C^1/2 x``."""
    criterion, white, root = prony_criterion(task), task.whitened(), np.sqrt(task.c)
    groups, solver, scale = options.groups, options.solver, options.scale
    timings: dict[str, float] = {}
    omega = relaxed_objective = None
    solved_by, message, solved_status = EXCHANGE, "", Status.CONVERGED
    if solver == "auto":
        small = task.n_nodes <= AUTO_NODES and groups.index is None
        solver = "closed-form" if grows_with_weights(U) else "sdp" if small else "first-order"
    if solver == "closed-form":
        smallest = groups.expand(np.sqrt(groups.bounds(lower, upper)[0]))
        solved_by, message = "closed form", "the smallest weights allowed, "
        reached = {"bound": ExchangeResult(smallest, relaxed_bound(criterion, U, smallest)[0], 0, True, False)}
    else:
        starts = starting_weights(task, U, lower, upper, scaled=False)
        if solver != "first-order":
            optimum = bound_program(white, U, task.c, lower / task.c, solver, criterion="prony")
            ending = optimum.ending
            relaxed_objective, solved_status = optimum.value, ending.status
            solved_by, message, timings["sdp"] = ending.solver, ending.solver_status + ", ", ending.seconds
            omega = root[:, None] * optimum.omega * root
            starts = {"rounded": feasible(rank_one(omega)[0], lower, upper), **starts}
        reached = exchanges(criterion, U, starts, lower, upper, options.groups, options.progress)
    solution = min(reached.values(), key=lambda e: e.bound)
    w, factor = scaled_by_mse(task, solution.w, lower, upper, scale)
    worst = examine(criterion.operator(w), U)
    details: DesignDetails = {
        **_shared_details(worst, groups, reached), "scale_factor": factor, "objective_before_scaling": solution.bound,
    }  # fmt: skip
    status, message = solution.status(solved_status), message + solution.description()
    end = DesignEnd(status, solved_by, message, details=details, relaxed_objective=relaxed_objective)
    settings = {"solver": solver, "scale": scale, **set_settings(U)}
    method = f"min-max ({U.name}, prony)"
    return task.pack(method, w, worst.upper, (lower, upper), end, omega=omega, timings=timings, settings=settings)


def mse_over_set(
    task: DesignProblem, U: SignalSet, lower: np.ndarray, upper: np.ndarray, options: MinmaxOptions
) -> WeightDesign:
    """Weights with the smallest certified ``max ||(H - I) x||^2 + tr(H Sigma H^T)`` over the set."""
    criterion, solver, method = mse_criterion(task), options.solver, f"min-max ({U.name}, mse)"
    if solver not in ("auto", "first-order"):
        optimum = bound_program(task.whitened(), U, task.c, lower / task.c, solver, criterion="mse")
        assert optimum.H is not None
        ending = optimum.ending
        details: DesignDetails = {"worst_mse": optimum.value, "sdp_status": ending.solver_status}
        design = fit_weights_to(task, optimum.H, (lower, upper), options.progress)
        worst = examine(criterion.operator(design.weights), U, variance=criterion.variance(design.weights))
        return with_details(
            design, {**details, **worst_details(worst)}, method=method, timings={"sdp": ending.seconds},
            settings={"solver": solver, **set_settings(U)}, status=design.status if ending.status.ok else ending.status,
        )  # fmt: skip
    starts = starting_weights(task, U, lower, upper, scaled=True)
    reached = exchanges(criterion, U, starts, lower, upper, options.groups, options.progress)
    solution = min(reached.values(), key=lambda e: e.bound)
    worst = examine(criterion.operator(solution.w), U, variance=criterion.variance(solution.w))
    end = DesignEnd(
        solution.status(), EXCHANGE, solution.description(), details=_shared_details(worst, options.groups, reached)
    )
    settings = {"solver": solver, **set_settings(U)}
    return task.pack(method, solution.w, worst.upper, (lower, upper), end, settings=settings)


def _shared_details(worst: WorstCase, groups: Groups, reached: dict[str, ExchangeResult]) -> DesignDetails:
    """The proven worst case, the degrees of freedom, and what every start reached."""
    rounds = min(reached.values(), key=lambda e: e.bound).rounds
    starts = {name: e.bound for name, e in reached.items()}
    return {**worst_details(worst), "degrees_of_freedom": groups.count, "rounds": rounds, "starts": starts}


def worst_details(worst: WorstCase) -> DesignDetails:
    """Details of a certificate on the worst case."""
    details: DesignDetails = {"worst_case_lower": worst.lower, "worst_case_upper": worst.upper}
    if worst.signal.size <= SHOWN_NODES:
        details["worst_signal"] = worst.signal.tolist()
    return details


def set_settings(U: SignalSet) -> dict[str, Any]:
    """The set's name and its one number."""
    numbers = {"smooth-box": {"smoothness": U.smoothness}, "ball": {"radius": U.radius}}
    return {"uncertainty": U.name, **numbers.get(U.name, {})}


def grows_with_weights(U: SignalSet) -> bool:
    """Whether ``max ||S x||`` can only grow with every ``|w_i|``, so that the lower bound itself is optimal.

    ``||C^-1/2 W L W x||`` grows with the outer W, row by row. The inner one stretches the set: for a box or a ball
    with its center at zero the stretched set contains the old one, whatever the signs of w.
    """
    return U.name == "ball" or (U.name == "box" and np.array_equal(U.low, -U.high))


def starting_weights(
    task: DesignProblem, U: SignalSet, lower: np.ndarray, upper: np.ndarray, *, scaled: bool
) -> dict[str, np.ndarray]:
    """The lower bound, one weight for all, and the inverse of the center (smooth after weighting).

    At the smallest scale allowed, or (``scaled``) at that of the smallest mean MSE over the set.
    """
    n = task.n_nodes
    F = spread_moment(U)
    average = replace(task, R=F @ F.T)
    directions = {"one weight": np.ones(n)}
    if U.name != "ball":
        center = (U.low + U.high) / 2
        size = np.abs(center)
        if size.max() > 0:
            inverse = 1 / np.maximum(size, 0.05 * size.max())
            directions["inverse center"] = np.where(center < 0, -1.0, 1.0) * inverse / inverse.max()
    starts = {}
    for name, direction in directions.items():
        smallest = float(np.sqrt(np.max(lower / direction**2)))
        largest = float(np.sqrt(np.max(upper / direction**2)))
        if not scaled or smallest >= largest:
            scale = smallest
        else:  # node by node into the bounds: a node that must not be smoothed does not keep the others from it

            def mse(s: float, direction: np.ndarray = direction) -> float:
                return sum(average.risk_parts(feasible(s * direction, lower, upper)))

            scale = minimize_scale(mse, max(smallest, 1e-6 * largest), largest)[0]
        starts[name] = feasible(scale * direction, lower, upper)
    if lower.any() and not np.allclose(starts["one weight"] ** 2, lower):
        starts["bound"] = np.sqrt(lower)
    return starts
