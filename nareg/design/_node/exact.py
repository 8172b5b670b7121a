"""Exact design: the node weights that minimize the true mean squared error.

Not in the paper, which relaxes the problem because (22) is not convex. With N unknowns and the analytic
gradient it is nonetheless minimized in seconds from a few starts, and on real networks it beats the relaxed
designs. No lower bound by default: with the paper's w0* the design is worse than the best single weight.

Up to some hundreds of nodes risk and gradient are computed with dense matrices; beyond, from solves with the
training signals and random probes for the noise, which needs memory and time in proportion to nodes and edges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from nareg._core import checks
from nareg._solvers.backends import SolverBackend, alike_on_all_ranks
from nareg._solvers.system import Penalty, penalty
from nareg.design._node.log_weights import SMALLEST, LimitedLogWeights, LogWeights
from nareg.design._node.selection import (
    DENSE_FOLDS,
    FEWEST,
    NodeOptions,
    Sampling,
    checked_problem,
    chosen_solver,
    dense_risk,
    design_on_path,
    design_sampled,
    signal_fold,
)  # fmt: skip
from nareg.design._risk.checked import DENSE_NODES, STATIONARY, DesignEnd
from nareg.design._risk.descent import DescentResult, Groups, Stationary, descend, descend_between
from nareg.design._risk.newton import polish
from nareg.design._risk.problem import DesignProblem, problem
from nareg.design._risk.rate import MARGIN, NodeRate, checked_rate
from nareg.design._risk.sampled import SampleColumns, oracle_columns
from nareg.errors import InputError
from nareg.io import takes_tables
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, Status, WeightDesign
from nareg.typing import ArrayLike, GraphLike

#: Relative projected gradient of a descent above which Newton steps follow.
POLISHED = 1e-6
#: At a rate: steps of each descent, and the norm of the gradient in the coordinates that keep it, times sqrt(N), over the risk,
#: at which a descent has converged, and at which it ends.
RATE_ITERATIONS, RATE_STATIONARY, RATE_ENOUGH = 2000, 1e-3, 3e-4


@takes_tables("signals")
@alike_on_all_ranks
def exact(
    graph: GraphLike,
    *,
    signals: ArrayLike | None = None,
    second_moment: ArrayLike | None = None,
    noise: ArrayLike,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    data_weight: ArrayLike | Literal["noise"] | None = None,
    starts: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    rate: float | None = None,
    solver: Literal["auto", "dense", "sampled"] = "auto",
    sampling: Sampling | None = None,
    backend: SolverBackend = "scipy",
    progress: ProgressCallback | None = None,
) -> WeightDesign:
    """Minimize the mean squared error (11) over node weights by L-BFGS, and Newton steps where that crawls.

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
        Bounds on ``w_i^2``. Default: none below, ``1e8 / lambda_max(L)`` above.
    data_weight : None, "noise" or (N,) array
        Data term for which to design; entries may be zero (unobserved nodes).
    starts : (k, N) array, optional
        Further starting weights, for example those of other designs (dense solver).
    groups : (N,) array of labels, optional
        Nodes with the same label share a weight: fewer unknowns where there are few training signals.
    rate : number between 0 and 1, optional
        Limit of the factor by which a round of ``denoise(method="jacobi")`` reduces the residual. See Notes.
    solver : {"auto", "dense", "sampled"}
        ``"dense"`` forms N x N matrices (N up to 3,000, time like N^3) and starts also from the inverse of the
        principal signal; ``"sampled"`` needs signals and independent noise, and has no N x N matrix. Auto: dense
        up to 500 nodes.
    sampling : Sampling, optional
        Probes of the noise, signals to hold out, and the random generator.
    backend : {"scipy", "torch", "petsc"} or Torch
        The library of the sampled solver's systems; another than SciPy implies that solver. torch keeps graph, columns and
        solutions on its device (:class:`nareg.filters.Torch` names it). With ``"petsc"`` all ranks of MPI call with
        the same arguments, and get the same weights.
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per step. Ctrl-C keeps the best weights so far.

    Returns
    -------
    WeightDesign
        ``objective`` is the mean squared error summed over nodes. Where signals were held out, ``certificate.details``
        has the ``penalty`` that they prefer, ``held_out_risk`` and ``held_out_error`` (:func:`nareg.design.blind`).
        Elsewhere ``"starts"`` holds the value reached from every start: the problem is not convex, and the best is returned.

    Notes
    -----
    With ``rate`` the spectral radius of ``D^-1/2 M D^-1/2`` is at most the rate, where D is the diagonal of ``C + S`` and M the
    rest of it. Neighbors then compute the filter in a number of rounds that is known beforehand.
    ``certificate.details["jacobi_factor"]`` is a proven bound on that radius. ``["jacobi_rounds"]`` has the rounds after which
    the relative residual is below 1e-3, 1e-6 and 1e-8 (the ``tol`` of :func:`nareg.filters.denoise`), whatever the readings.
    Where ``data_weight`` of ``denoise`` is another than the design's, or readings are missing, the promise does not hold.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((4, 4))
    >>> x = np.r_[np.zeros(8), np.ones(8)]
    >>> one = nareg.design.node_invariant(g, rule="oracle", signals=x, noise=0.5)
    >>> d = nareg.design.exact(g, signals=x, noise=0.5)
    >>> bool(d.objective < one.objective)
    True
    >>> quick = nareg.design.exact(g, signals=x, noise=0.5, rate=0.5)
    >>> solution = nareg.filters.denoise(g, quick, x, method="jacobi")
    >>> solution.rounds <= quick.certificate.details["jacobi_rounds"]["1e-08"]
    True
    """
    base = penalty(graph)
    n = base.n_nodes
    rate, solver = checked_rate(rate), chosen_solver(solver, backend)
    options = NodeOptions(lower, upper, Groups(groups, n), (sampling or Sampling()).started(), progress, backend, rate)
    columns = signals is not None and second_moment is None and noise is not None and np.ndim(noise) < 2
    if solver == "sampled" and not columns:
        raise InputError(
            "solver='sampled' needs signals and noise variances (a number or (N,)): use solver='dense' and backend='scipy'."
        )
    if solver == "sampled" or (solver == "auto" and columns and n > DENSE_NODES and starts is None):
        if starts is not None:
            raise InputError("starts are for solver='dense': the sampled descent starts at the best single weight.")
        return exact_sampled(base, signals, noise, data_weight, options)
    data: dict[str, Any] = {"signals": signals, "second_moment": second_moment, "noise": noise, "data_weight": data_weight}
    task = problem(
        base, **data, needs="exact", noise_required=True, alternative="pass signals and noise variances (solver='sampled')"
    )
    given = _checked_starts(starts, n)
    X = None if signals is None else np.asarray(signals, dtype=float).reshape(n, -1)
    if not _holds_out(options.sampling.hold_out, X, n):
        return _from_starts(task, given, options)
    assert X is not None
    folds = [
        signal_fold(replace(task, R=X[:, trained] @ X[:, trained].T / trained.size), X[:, left_out], task.variance)
        for trained, left_out in options.sampling.split(X.shape[1], DENSE_FOLDS)
    ]
    return design_on_path("exact", task, dense_risk(task), folds, options, DesignDetails)


def _from_starts(task: DesignProblem, given: dict[str, np.ndarray], options: NodeOptions) -> WeightDesign:
    """The best end of descents from several starts, on dense matrices."""
    groups, progress = options.groups, options.progress
    low, high = task.squared_bounds(options.lower, options.upper, default_lower=None)
    objective, bounds = groups.tied(task.mse_and_gradient), groups.bounds(low, high)
    scalar = task.best_scalar(low, high)

    def descent(start: np.ndarray) -> DescentResult:
        end = descend(objective, start, *bounds, progress=progress)
        if end.message != "interrupted" and end.gradient_norm > POLISHED:
            end = polish(task, objective, end, *bounds, groups, progress)
        return end

    starts = {"best scalar": scalar, "inverse principal signal": task.inverse_signal(high), **given}
    reached = _ends(descent, {name: groups.reduce_start(start) for name, start in starts.items()})
    best = min(reached.values(), key=lambda d: d.value)
    # a gradient is small against what there is to lose: an MSE of zero is a minimum whatever rounding leaves
    negligible = best.value <= 1e-14 * (float(np.trace(task.R)) + task.noise_power)
    converged = negligible or best.gradient_norm < STATIONARY
    interrupted = any(d.message == "interrupted" for d in reached.values())
    w, promised = groups.expand(best.w), DesignDetails()
    if options.rate is not None:
        # the design without a rate is the answer where it has the rate already
        promise = NodeRate(task.base, task.c, options.rate, *map(groups.expand, bounds))
        scalar = task.best_scalar(promise.low, promise.high, promise.largest_single)
        starts = {"best scalar": groups.reduce_start(scalar), "design without a rate": best.w}
        starts |= {name: groups.reduce_start(start) for name, start in given.items()}
        reached = {"design without a rate": best}
        if interrupted or promise.estimate(w) > promise.rate * (1 - MARGIN):
            reached = {"best scalar kept": DescentResult(starts["best scalar"], task.mse(scalar), np.inf, 0, "it is the best")}
            if not interrupted:
                reached |= _ends(lambda start: _descend_at_rate(task, promise, groups, start, progress), starts)
            best = min(reached.values(), key=lambda d: d.value)
            converged = best.gradient_norm < RATE_STATIONARY
            interrupted = interrupted or any(d.message == "interrupted" for d in reached.values())
        w, promised = promise.certified(groups.expand(best.w), task.mse)
    details: DesignDetails = {
        "starts": {name: d.value for name, d in reached.items()},
        "iterations": sum(d.iterations for d in reached.values()),
        "degrees_of_freedom": groups.count,
        "best_scalar_risk": task.mse(scalar),
        **promised,
    }
    status = Status.INTERRUPTED if interrupted else Status.CONVERGED if converged else Status.MAX_ITERATIONS
    end = DesignEnd(status, "L-BFGS-B (scipy), Newton", best.message, best.gradient_norm, details)
    return task.pack("exact", w, task.mse(w), (low, high), end, settings=options.settings)


def _ends(descent: Callable[[np.ndarray], DescentResult], starts: dict[str, np.ndarray]) -> dict[str, DescentResult]:
    """Where the descent from each start ended, up to one that was interrupted."""
    reached: dict[str, DescentResult] = {}
    for name, start in starts.items():
        reached[name] = descent(start)
        if reached[name].message == "interrupted":
            break
    return reached


def _descend_at_rate(
    task: DesignProblem, promise: NodeRate, groups: Groups, start: np.ndarray, progress: ProgressCallback | None
) -> DescentResult:
    """Descend in coordinates that keep the rate; the result has the groups' weights in place of these."""
    w = promise.bring(groups.expand(start))
    w = np.where(w == 0, SMALLEST * np.abs(w).max(), w)  # logarithms keep signs
    coordinates = LimitedLogWeights(LogWeights(w, promise.low, promise.high, groups), promise)

    def of_spread(spread: np.ndarray) -> tuple[float, np.ndarray]:
        reached = w * np.exp(spread)
        value, gradient = task.mse_and_gradient(reached)
        return value, gradient * reached

    end = descend_between(
        coordinates.of_unknowns(of_spread), coordinates.first, coordinates.bounds,
        unit=1.0, stationary=Stationary(float(np.sqrt(w.size)), RATE_ENOUGH), max_iterations=RATE_ITERATIONS, progress=progress,
    )  # fmt: skip
    w = w * np.exp(coordinates.spread(end.w))
    return replace(end, w=groups.reduce_start(w), value=task.mse(w))


def _holds_out(wanted: bool | None, X: np.ndarray | None, n: int) -> bool:
    """Whether signals are to be held out; None decides by their number."""
    if wanted is None:
        return X is not None and FEWEST <= X.shape[1] < n
    if wanted and (X is None or X.shape[1] < FEWEST):
        raise InputError(
            f"hold_out is True: it needs at least {FEWEST} training signals; pass more, or Sampling(hold_out=False)."
        )
    return wanted


def exact_sampled(base: Penalty, signals: Any, noise: Any, data_weight: Any, options: NodeOptions) -> WeightDesign:
    """The design from sample columns."""
    n = base.n_nodes
    X = checks.signals("signals", signals, n).astype(np.float64, copy=False).reshape(n, -1)
    variance = checks.noise("noise", noise, n)
    task = checked_problem(base, variance, data_weight, options.sampling, X.shape[1])
    if not X.any():
        raise InputError("signals are zero everywhere: there is no signal to design for.")

    def columns(times: np.ndarray, Z: np.ndarray) -> SampleColumns:
        return oracle_columns(X[:, times], variance, Z)

    hold_out = _holds_out(options.sampling.hold_out, X, n)
    return design_sampled("exact", task, columns, X.shape[1], options, hold_out=hold_out)


def _checked_starts(starts: Any, n: int) -> dict[str, np.ndarray]:
    if starts is None:
        return {}
    array = np.atleast_2d(checks.floats("starts", starts, ndim=(1, 2)).astype(np.float64))
    if array.shape[1] != n or not np.isfinite(array).all():
        raise InputError(f"starts has shape {array.shape}, finite weights of shape (k, {n}) are expected.")
    return {f"given {i}": start for i, start in enumerate(array)}
