"""Prony's design (25): minimize the modified error ``e' = y - (I + S) x``, that is ``tr(S R S)``.

* The objective of (25) is homogeneous: without a lower bound ``Omega = 0`` is optimal, and with one known
  signal ``w = s / x`` is optimal (value zero) for every scale s. The scale is therefore not identified by
  (25); where the noise is known it is chosen by the MSE (11).
* With training data R has full rank, the optimum is not rank one, and the weights are rounded and refined.
"""

from __future__ import annotations

import time
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._solvers.system import penalty
from nareg.design import programs
from nareg.design._convex import low_rank
from nareg.design._convex.criteria import square_criterion
from nareg.design._convex.low_rank import LOW_RANK, ProgramEnd, bound_starts, zero_level
from nareg.design._convex.quadratic import SupportQuadratic
from nareg.design._convex.solving import solver_name
from nareg.design._risk.checked import DesignEnd, local_status, with_details
from nareg.design._risk.descent import Groups, feasible
from nareg.design._risk.problem import DesignProblem, SignalProblem, problem
from nareg.design._risk.rate import NodeRate, checked_rate
from nareg.design._risk.sparse_problem import principal_direction, sparse_problem
from nareg.design.programs._program import SCALES
from nareg.errors import InputError
from nareg.io import takes_tables
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, Status, WeightDesign
from nareg.typing import ArrayLike, GraphLike

#: Without N x N matrices above this size, where signals and independent noise are given.
DENSE_NODES = 500
OWN_SOLVERS = ("auto", "low-rank", "sdp")
#: The default lower bound is at most so much of the largest single weight at a rate: the scale is chosen by the error.
BELOW_SINGLE = 0.2
#: The norms of the criterion's gradient square the signals' power.
LARGEST_POWER = 1e100


@takes_tables("signals")
def prony(
    graph: GraphLike,
    *,
    signals: ArrayLike | None = None,
    second_moment: ArrayLike | None = None,
    noise: ArrayLike | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    data_weight: ArrayLike | Literal["noise"] | None = None,
    groups: ArrayLike | None = None,
    solver: str = "auto",
    scale: str = "mse",
    rate: float | None = None,
    progress: ProgressCallback | None = None,
) -> WeightDesign:
    """Prony's design of node weights, equation (25), a semidefinite program.

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
    data_weight : None, "noise" or (N,) array
        Data term c for which to design; the criterion is then ``tr(S C^-1 S R)``, which weighs the modified
        error by ``C^-1``.
    groups : (N,) array of labels, optional
        Nodes with the same label share a weight (not for the SDP solvers).
    solver : {"auto", "low-rank", "sdp"} or a solver of cvxpy
        ``"low-rank"`` factors Omega and proves by duality how close the value is to the program's optimum; networks of
        any size. ``"sdp"`` solves :func:`nareg.design.programs.prony` by Clarabel, a name such as ``"SCS"`` by that solver:
        seconds at 140 nodes. ``"auto"`` is low-rank unless a single known signal makes ``w = s / x`` optimal, which
        needs no solver.
    scale : {"mse", "bound"}
        Multiply the solution of (25) by the factor that minimizes the MSE within the bounds (needs noise), or leave it at
        the bound as published.
    rate : number between 0 and 1, optional
        Weights for which every Jacobi round leaves at most this part of the error, by :func:`nareg.design.programs.jacobi`. The
        default lower bound is then no larger than the largest single weight that keeps the rate.
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per step. Ctrl-C keeps the best weights so far.

    Returns
    -------
    WeightDesign
        ``objective`` is ``tr(S R S)`` (with ``data_weight``: in the coordinates ``C^1/2 x``) at the weights;
        ``certificate.relaxed_objective`` a lower bound on it for every feasible weights before scaling: the proven
        dual bound of the low-rank solver (None if there is no proof, ``details["dual_proof"]`` says why), or the value
        that an SDP solver reports; ``certificate.details`` the scale factor, the objective before scaling, rank, gap
        and rounding. ``omega`` is kept up to 3,000 nodes.

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
    solver = solver_name(solver, own=OWN_SOLVERS)
    checks.choice("scale", scale, SCALES)
    rate = checked_rate(rate)
    base = penalty(graph)
    tied = Groups(groups, base.n_nodes)
    reference = solver not in ("auto", "low-rank")
    if reference and groups is not None:
        raise InputError(f"solver={solver!r} gives every node its own weight and cannot take groups: use solver='low-rank'.")
    sparse = signals is not None and second_moment is None and (noise is None or np.ndim(noise) < 2)
    task: SignalProblem
    if sparse and not reference and base.n_nodes > DENSE_NODES:
        task = sparse_problem(base, signals=signals, noise=noise, data_weight=data_weight, needs="prony")
    else:
        task = problem(base, signals=signals, second_moment=second_moment, noise=noise, data_weight=data_weight, needs="prony")
    task.refuse_extreme("prony", largest=LARGEST_POWER)
    low, high = task.published_bounds(lower, upper)
    if rate is not None:
        if groups is not None:
            raise InputError("groups: rate gives every node its own weight: leave one of them out.")
        task = problem(base, signals=signals, second_moment=second_moment, noise=noise, data_weight=data_weight, needs="prony")
        return _at_rate(task, rate, lower is None, low, high, solver, scale, progress)
    if not low.any():
        return _nothing_to_do(task, low, high)
    if reference:
        data: dict[str, Any] = {"signals": signals, "second_moment": second_moment, "noise": noise, "data_weight": data_weight}
        program = programs.prony(graph, **data, lower=lower, upper=upper)
        return program.solve(None if solver == "sdp" else solver, scale=scale, progress=progress)
    return _by_low_rank(task, low, high, tied, solver, scale, progress)


def _at_rate(
    task: DesignProblem, rate: float, default_lower: bool, low: np.ndarray, high: np.ndarray, solver: str, scale: str,
    progress: ProgressCallback | None,
) -> WeightDesign:  # fmt: skip
    """The program with the inequalities of the rate, its weights brought to the rate exactly, and the promise checked."""
    if default_lower:
        single = NodeRate(task.base, task.c, rate, np.zeros_like(low), high).largest_single
        low = np.minimum(low, (BELOW_SINGLE * single) ** 2)
    promise = NodeRate(task.base, task.c, rate, low, high)
    data: dict[str, Any] = {"second_moment": task.R, "noise": task.Sigma, "data_weight": task.data_weight}
    program = programs.prony(task.base.L, **data, lower=low, upper=None)
    program.add(*programs.jacobi(program, rate))
    design = program.solve(None if solver in OWN_SOLVERS else solver, scale=scale, progress=progress)
    criterion = program.objective()
    half = np.sqrt(task.c)
    error = task.mse if scale == "mse" and task.Sigma is not None else lambda w: criterion(w / half)[0]
    w, promised = promise.certified(design.weights, error)
    details: DesignDetails = {**promised, "constraint_violation": 0.0}
    return with_details(design, details, weights=w, objective=criterion(w / half)[0], settings={"rate": rate})


def _by_low_rank(
    task: SignalProblem, low: np.ndarray, high: np.ndarray, groups: Groups, solver: str, scale: str,
    progress: ProgressCallback | None,
) -> WeightDesign:  # fmt: skip
    L, A = task.white
    inverse = feasible_inverse(A, low / task.c, high / task.c)
    L, half = low_rank.coordinates(L, task.c, groups)
    if inverse is not None:
        inverse = inverse * np.sqrt(task.c) / half
    criterion = square_criterion(L, A)
    single = solver == "auto" and groups.index is None
    if single and inverse is not None and criterion(inverse)[0] <= zero_level(L, A, inverse):
        closed = DesignEnd(Status.CONVERGED, "closed form", "S x = 0", details={"rank_one_share": 1.0}, relaxed_objective=0.0)
        end = ProgramEnd(inverse, inverse[:, None], closed)
    else:
        end = _solve(L, A, low / half**2, high / half**2, groups, inverse, task.mesh_like, progress)
    settings = {"solver": solver, "scale": scale}
    return end.scaled_design("prony", task, lambda w: criterion(w)[0], half, (low, high), settings)


def _solve(
    L: sp.csr_array, A: np.ndarray, low: np.ndarray, high: np.ndarray, groups: Groups, inverse: np.ndarray | None,
    mesh_like_graph: bool, progress: ProgressCallback | None,
) -> ProgramEnd:  # fmt: skip
    """Weights at rank one, the convex program from the best of them, and weights from its optimum."""
    order = low_rank.neighbor_order(L)
    L, A, low, high, groups = sp.csr_array(L[order][:, order]), A[order], low[order], high[order], groups.ordered(order)
    clock = [time.perf_counter()]
    bounds = groups.bounds(low, high)
    quadratic = SupportQuadratic(L, A, groups)
    starts = bound_starts(A, low, high) | ({} if inverse is None else {"inverse principal signal": inverse[order]})
    reached = low_rank.refine(quadratic, starts, low, high, interrupted=False, progress=progress)
    first = low_rank.best(reached)
    # a weight of zero would keep its row there
    start = np.where(first.w == 0, np.sqrt(bounds[0][bounds[0] > 0].mean()), first.w)
    clock.append(time.perf_counter())
    omega = low_rank.minimize(
        quadratic, *bounds, low_rank.around(start), mesh_like=mesh_like_graph,
        interrupted=first.message == "interrupted", progress=progress,
    )  # fmt: skip
    clock.append(time.perf_counter())
    V = groups.expand(omega.V)
    W, share = low_rank.directions(V)
    rounded = {name: feasible(w, low, high) for name, w in low_rank.named(W).items()}
    reached |= low_rank.refine(quadratic, rounded, low, high, interrupted=omega.interrupted, progress=progress)
    result = low_rank.best(reached)
    spent = np.diff([*clock, time.perf_counter()])
    details: DesignDetails = {
        **omega.details(),
        "degrees_of_freedom": groups.count,
        "rank_one_share": share,
        "rounded_objective": quadratic.weights_criterion(groups.reduce_start(rounded["rounded"]))[0],
        "starts": {name: d.value for name, d in reached.items()},
    }
    timings = {"low rank": float(spent[1]), "refinement": float(spent[0] + spent[2])}
    place = np.argsort(order)
    end = DesignEnd(local_status(result, omega.status), LOW_RANK, result.message, result.gradient_norm, details, omega.bound)
    return ProgramEnd(groups.expand(result.w)[place], V[place], end, timings)


def feasible_inverse(A: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray | None:
    """``s / u`` at the smallest s that meets the lower bound, u the principal direction of ``R = A A^T``.

    None where u vanishes at a node or the upper bound would be exceeded.
    """
    u = principal_direction(A)
    if (np.abs(u) < 1e-12).any():
        return None
    w = np.sqrt(np.max(low * u**2)) / u
    return w if (w**2 <= high).all() else None


def _nothing_to_do(task: SignalProblem, low: np.ndarray, high: np.ndarray) -> WeightDesign:
    """Zero weights, which solve (25) without a lower bound: the filter that returns its input."""
    if task.Sigma is None and task.base.L.nnz == 0:
        raise InputError("graph has no edges: there is nothing to smooth over; connect it first.")
    return task.pack(
        "prony",
        np.zeros(task.n_nodes),
        0.0,
        (low, high),
        DesignEnd(
            Status.ZERO_WEIGHTS,
            "closed form",
            "without a lower bound zero weights are optimal in (25)",
            details={"scale_factor": 1.0},
        ),
    )
