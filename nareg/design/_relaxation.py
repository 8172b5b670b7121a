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
from typing import Any, Literal

import numpy as np

from nareg._core import checks
from nareg._solvers.system import Penalty, penalty
from nareg._solvers.threads import few_threads
from nareg.design import programs
from nareg.design._convex.filter_fit import dense_step_one, fit_dense, fit_low_rank, low_rank_step_one
from nareg.design._convex.solving import solver_name
from nareg.design._risk.checked import with_details
from nareg.design._risk.descent import Groups
from nareg.design._risk.problem import problem
from nareg.design._risk.sparse_problem import SparseProblem, principal_direction, sparse_problem
from nareg.errors import InputError, TooLargeError
from nareg.io import takes_tables
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, WeightDesign
from nareg.typing import ArrayLike, GraphLike

#: Without N x N matrices above this size, where H has low rank.
DENSE_NODES = 500
OWN_SOLVERS = ("auto", "closed-form", "sdp")


@takes_tables("signals")
def relaxation(
    graph: GraphLike,
    *,
    signals: ArrayLike | None = None,
    second_moment: ArrayLike | None = None,
    noise: ArrayLike,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    data_weight: ArrayLike | Literal["noise"] | None = None,
    groups: ArrayLike | None = None,
    solver: str = "auto",
    progress: ProgressCallback | None = None,
) -> WeightDesign:
    """Node weights by the paper's semidefinite relaxation ("SDR").

    Parameters
    ----------
    graph : Graph or (N, N) operator
    signals, second_moment, noise, lower, upper, groups, progress
        As in :func:`prony`; the noise is needed.
    data_weight : None, "noise" or (N,) array
        Data term c for which to design. The relaxation is then done in the coordinates ``C^1/2 x``.
    solver : {"auto", "closed-form", "sdp"} or a solver of cvxpy
        ``"closed-form"`` (and ``"auto"``): step one by eigenvalues, then (30) by a low-rank factor of Omega with a
        proven lower bound, rounded, and refined at rank one from several starts. Networks of any size where there are
        fewer signals than nodes and the noise is the same everywhere or ``data_weight="noise"``; else up to 3,000 nodes.
        ``"sdp"``: (30) by :func:`nareg.design.programs.fit` with Clarabel, or by the solver named, such as ``"SCS"``. Step one
        is in closed form here, too, and the optimum of (29): the matrix inequality never binds, for Omega may grow without
        bound, and what is left is a Lyapunov equation. As a program it is :func:`nareg.design.programs.filter_step`.

    Returns
    -------
    WeightDesign
        ``objective`` is that of (30) at the weights; ``certificate.details["symmetric_limit"]`` the value of step
        one: the smallest MSE of any symmetric filter (with ``data_weight``: in the coordinates ``C^1/2 x``).
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
    solver = solver_name(solver, own=OWN_SOLVERS)
    reference = solver not in ("auto", "closed-form")
    base = penalty(graph)
    tied = Groups(groups, base.n_nodes)
    if reference and groups is not None:
        raise InputError(f"solver={solver!r} gives every node its own weight and cannot take groups: use solver='closed-form'.")
    data: dict[str, Any] = {"signals": signals, "second_moment": second_moment, "noise": noise, "data_weight": data_weight}
    task = None if reference else _low_rank_task(base, data)
    if task is not None:
        return _by_low_rank(task, task.published_bounds(lower, upper), tied, solver, progress)
    dense = problem(base, **data, needs="relaxation", noise_required=True)
    dense.refuse_extreme("relaxation")
    bounds = dense.published_bounds(lower, upper)
    started = time.perf_counter()
    with few_threads(dense.n_nodes):
        step = dense_step_one(dense.whitened())
    details: DesignDetails = {"symmetric_limit": step.value}
    timings = {"step one": time.perf_counter() - started}
    if reference:  # step one is not the solver's, for (30) magnifies what an SDP solver leaves in H
        program = programs.fit(base.L, target=step.matrix, **data, lower=lower, upper=upper)
        design = program.solve(None if solver == "sdp" else solver, progress=progress)
        return with_details(design, details, timings=timings)
    design = fit_dense(dense, step, bounds, tied, progress)
    return with_details(design, details, timings=timings, settings={"solver": solver})


def _by_low_rank(
    task: SparseProblem, bounds: tuple[np.ndarray, np.ndarray], groups: Groups, solver: str, progress: ProgressCallback | None
) -> WeightDesign:
    """Both steps without N x N matrices."""
    started, half = time.perf_counter(), np.sqrt(task.c)
    L, A = task.white
    assert task.Sigma is not None
    step = low_rank_step_one(A, float(task.c[0] * task.Sigma[0]), L.diagonal() > 0)
    timings = {"step one": time.perf_counter() - started}
    u = principal_direction(A)
    inverse = np.where(u < 0, -1.0, 1.0) / np.maximum(np.abs(u), 1e-6 * np.abs(u).max())  # no division by zero
    candidates = {"inverse principal signal": inverse, "best scalar": task.best_scalar(*bounds) / half}
    design = fit_low_rank(task, step, candidates, lambda w: task.mse_along(half * w), bounds, groups, progress)
    return with_details(design, {"symmetric_limit": step.value}, timings=timings, settings={"solver": solver})


def _low_rank_task(base: Penalty, data: dict[str, Any]) -> SparseProblem | None:
    """The problem without N x N matrices, where H has low rank; None where it needs them."""
    n, X, noise = base.n_nodes, data["signals"], data["noise"]
    if n <= DENSE_NODES or X is None or data["second_moment"] is not None or noise is None or np.ndim(noise) > 1:
        return None
    task = sparse_problem(base, signals=X, noise=noise, data_weight=data["data_weight"], needs="relaxation")
    white_noise = task.c * task.Sigma
    remedy = None
    if np.ptp(white_noise) > 1e-12 * white_noise.max():
        remedy = "noise differs between nodes, so that its filter H is a dense matrix: pass data_weight='noise'"
    elif task.X.shape[1] >= n:
        remedy = f"signals are not fewer than nodes ({task.X.shape[1]}), so that its filter H is a dense matrix: pass fewer"
    if remedy is None:
        task.refuse_extreme("relaxation")
        return task
    if n > checks.DENSE_LIMIT:
        raise TooLargeError(
            f"relaxation on {n} nodes needs dense matrices beyond the limit of {checks.DENSE_LIMIT} nodes because {remedy}."
        )
    return None
