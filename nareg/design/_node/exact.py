"""Exact design: the node weights that minimize the true mean squared error.

Not in the paper, which relaxes the problem because (22) is not convex. With N unknowns and the analytic
gradient it is nonetheless minimized in seconds from a few starts, and on real networks it beats the relaxed
designs. No lower bound by default: with the paper's w0* the design is worse than the best single weight.

Up to some hundreds of nodes risk and gradient are computed with dense matrices; beyond, from solves with the
training signals and random probes for the noise, which needs memory and time in proportion to nodes and edges.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from nareg._core import checks
from nareg._solvers.backends import SolverBackend, alike_on_all_ranks
from nareg._solvers.system import Penalty, penalty
from nareg.design._node.dense_path import DENSE_FOLDS, at_rate, design_dense, signal_fold
from nareg.design._node.sampled_path import (
    FEWEST,
    SampledOptions,
    SampledTask,
    Sampling,
    checked_problem,
    chosen_solver,
    design_sampled,
)
from nareg.design._risk.descent import DescentResult, descend
from nareg.design._risk.groups import Groups
from nareg.design._risk.newton import polish
from nareg.design._risk.problem import DENSE_NODES, STATIONARY, DesignEnd, problem
from nareg.design._risk.rate import NodeRate, checked_rate
from nareg.design._risk.sampled import SampleColumns, oracle_columns
from nareg.design._risk.starts import best_scalar, inverse_signal
from nareg.errors import InputError
from nareg.io import takes_tables
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, Status, WeightDesign
from nareg.typing import ArrayLike, GraphLike

#: Relative projected gradient of a descent above which Newton steps follow.
POLISHED = 1e-6


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
    fit: ArrayLike | Literal["noise"] | None = None,
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
    fit : None, "noise" or (N,) array
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
    Where ``fit`` of ``denoise`` is another than the design's, or readings are missing, the promise does not hold.

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
    rate = checked_rate(rate)
    n = base.n_nodes
    solver = chosen_solver(solver, backend)
    sampling = (sampling or Sampling()).started()
    tied = Groups(groups, n)
    columns = signals is not None and second_moment is None and noise is not None and np.ndim(noise) < 2
    if solver == "sampled" and not columns:
        raise InputError(
            "solver='sampled' needs signals and noise variances (a number or (N,)): use solver='dense' and backend='scipy'."
        )
    if solver == "sampled" or (solver == "auto" and columns and n > DENSE_NODES and starts is None):
        if starts is not None:
            raise InputError("starts are for solver='dense': the sampled descent starts at the best single weight.")
        options = SampledOptions(lower, upper, tied, sampling, progress, backend, rate)
        return exact_sampled(base, signals, noise, fit, options)
    data: dict[str, Any] = {"signals": signals, "second_moment": second_moment, "noise": noise, "fit": fit}
    task = problem(
        base, **data, needs="exact", noise_required=True, alternative="pass signals and noise variances (solver='sampled')"
    )
    low, high = task.squared_bounds(lower, upper, default_lower=None)
    extra = _checked_starts(starts, n)
    X = None if signals is None else np.asarray(signals, dtype=float).reshape(n, -1)
    if _holds_out(sampling.hold_out, X, n):
        assert X is not None
        folds = [
            signal_fold(replace(task, R=_moment(X[:, trained])), X[:, left_out], task.variance)
            for trained, left_out in sampling.split(X.shape[1], DENSE_FOLDS)
        ]
        return design_dense("exact", task, folds, (low, high), tied, progress=progress, rate=rate)
    w_scalar, scalar_risk = best_scalar(task, low, high)
    candidates = {"best scalar": w_scalar, "inverse principal signal": inverse_signal(task, high)}
    candidates |= {f"given {i}": start for i, start in enumerate(extra)}
    reached: dict[str, DescentResult] = {}
    objective, bounds = tied.tied(task.mse_and_gradient), tied.bounds(low, high)
    for name, start in candidates.items():
        reached[name] = descend(objective, tied.reduce_start(start), *bounds, progress=progress)
        if reached[name].message != "interrupted" and reached[name].gradient_norm > POLISHED:
            reached[name] = polish(task, objective, reached[name], *bounds, tied, progress)
        if reached[name].message == "interrupted":
            break
    best = min(reached.values(), key=lambda d: d.value)
    # a gradient is small against what there is to lose: an MSE of zero is a minimum whatever rounding leaves
    negligible = best.value <= 1e-14 * (float(np.trace(task.R)) + task.noise_power)
    status = Status.CONVERGED if negligible or best.gradient_norm < STATIONARY else Status.MAX_ITERATIONS
    if any(d.message == "interrupted" for d in reached.values()):
        status = Status.INTERRUPTED
    w, details = tied.expand(best.w), DesignDetails(best_scalar_risk=scalar_risk)
    if rate is not None:
        promise = NodeRate(task.base, task.c, rate, *map(tied.expand, bounds))
        end = at_rate(task, promise, tied, best, status, extra, progress)
        w, best, reached, status, details = end.w, end.best, end.reached, end.status, end.details
    return task.pack(
        "exact",
        w,
        task.mse(w),
        (low, high),
        DesignEnd(
            status,
            "L-BFGS-B (scipy), Newton",
            best.message,
            best.gradient_norm,
            {
                "starts": {name: d.value for name, d in reached.items()},
                "iterations": sum(d.iterations for d in reached.values()),
                "degrees_of_freedom": tied.count,
                **details,
            },
        ),
        settings={} if rate is None else {"rate": rate},
    )


def _holds_out(wanted: bool | None, X: np.ndarray | None, n: int) -> bool:
    """Whether signals are to be held out; None decides by their number."""
    if wanted is None:
        return X is not None and FEWEST <= X.shape[1] < n
    if wanted and (X is None or X.shape[1] < FEWEST):
        raise InputError(
            f"hold_out is True: it needs at least {FEWEST} training signals; pass more, or Sampling(hold_out=False)."
        )
    return wanted


def _moment(X: np.ndarray) -> np.ndarray:
    return X @ X.T / X.shape[1]


def exact_sampled(base: Penalty, signals: Any, noise: Any, fit: Any, options: SampledOptions) -> WeightDesign:
    """The design from sample columns."""
    n = base.n_nodes
    X = checks.signals("signals", signals, n).astype(np.float64, copy=False).reshape(n, -1)
    variance = checks.noise("noise", noise, n)
    task = checked_problem(base, variance, fit, options.sampling, X.shape[1])
    if not X.any():
        raise InputError("signals are zero everywhere: there is no signal to design for.")

    def columns(times: np.ndarray, Z: np.ndarray) -> SampleColumns:
        return oracle_columns(X[:, times], variance, Z)

    hold_out = _holds_out(options.sampling.hold_out, X, n)
    return design_sampled("exact", SampledTask(task, columns, X.shape[1], hold_out, options))


def _checked_starts(starts: Any, n: int) -> np.ndarray:
    if starts is None:
        return np.empty((0, n))
    array = np.atleast_2d(checks.floats("starts", starts, ndim=(1, 2)).astype(np.float64))
    if array.shape[1] != n or not np.isfinite(array).all():
        raise InputError(f"starts has shape {array.shape}, finite weights of shape (k, {n}) are expected.")
    return array
