"""Exact design: the node weights that minimise the true mean squared error.

Not in the paper, which relaxes the problem because (22) is not convex. With N unknowns and the analytic
gradient it is nonetheless minimised in seconds from a few starts, and on real networks it beats the relaxed
designs. No lower bound w0 by default: with it the design is worse than the best single weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nareg import _checks
from nareg.design._local import Descent, Progress, descend, feasible
from nareg.design._problem import STATIONARY, Problem, extreme_frequencies, minimise_scale, problem
from nareg.errors import InputError
from nareg.results import Status, WeightDesign


def exact(
    graph: Any,
    *,
    signals: Any = None,
    second_moment: Any = None,
    noise: Any,
    lower: Any = None,
    upper: Any = None,
    fit: Any = None,
    starts: Any = None,
    progress: Progress | None = None,
) -> WeightDesign:
    """Minimise the mean squared error (11) over node weights by L-BFGS from several starts.

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
        Further starting weights, for example those of other designs.
    progress : callable, optional
        ``progress(iteration, objective, relative gradient norm)``. Ctrl-C keeps the best weights so far.

    Returns
    -------
    WeightDesign
        ``objective`` is the mean squared error summed over nodes. ``certificate.details["starts"]`` holds
        the value reached from every start: the problem is not convex, and the best is returned.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((4, 4))
    >>> x = np.r_[np.zeros(8), np.ones(8)]
    >>> one = nareg.design.node_invariant(g, rule="oracle", signals=x, noise=0.5)
    >>> d = nareg.design.exact(g, signals=x, noise=0.5)
    >>> bool(d.objective < one.objective)
    True
    """
    data = {"signals": signals, "second_moment": second_moment, "noise": noise, "fit": fit}
    task = problem(graph, **data, needs="exact", noise_required=True)
    low, high = task.squared_bounds(lower, upper, default_lower=None)
    extra = _checked_starts(starts, task.n_nodes)
    w_scalar, scalar_mse = best_scalar(task, low, high)
    candidates = {"best scalar": w_scalar, "inverse principal signal": inverse_signal(task, high)}
    candidates |= {f"given {i}": start for i, start in enumerate(extra)}
    reached: dict[str, Descent] = {}
    for name, start in candidates.items():
        reached[name] = descend(task.mse_and_gradient, start, low, high, progress=progress)
        if reached[name].message == "interrupted":
            break
    best = min(reached.values(), key=lambda d: d.value)
    # a gradient is small against what there is to lose: an MSE of zero is a minimum whatever rounding leaves
    negligible = best.value <= 1e-14 * (float(np.trace(task.R)) + task.noise_power)
    status = Status.CONVERGED if negligible or best.gradient_norm < STATIONARY else Status.MAX_ITERATIONS
    if any(d.message == "interrupted" for d in reached.values()):
        status = Status.INTERRUPTED
    return task.pack(
        "exact",
        best.w,
        task.mse(best.w),
        status,
        lower=low,
        upper=high,
        solver="L-BFGS-B (scipy)",
        solver_status=best.message,
        gradient_norm=best.gradient_norm,
        details={
            "starts": {name: d.value for name, d in reached.items()},
            "iterations": {name: d.iterations for name, d in reached.items()},
            "best_scalar_mse": scalar_mse,
        },
    )


def best_scalar(task: Problem, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, float]:
    """The single weight with the smallest risk, moved into the bounds node by node, and the risk of that."""
    first, last = extreme_frequencies(task.spectrum[0])
    typical = float(np.mean(task.c))
    ones = np.ones(task.n_nodes)
    w, _ = minimise_scale(task.mse_along(ones), np.sqrt(1e-4 * typical / last), np.sqrt(1e4 * typical / first))
    found = feasible(w * ones, low, high)
    return found, task.mse(found)


def inverse_signal(task: Problem, high: np.ndarray) -> np.ndarray:
    """``w = s / u`` with u the principal direction of R: makes ``S u = 0``, the best scale s by the risk.

    For a single known signal on a connected graph this is a global minimiser of Prony's criterion.
    """
    u = np.linalg.eigh(task.R)[1][:, -1]
    size = np.maximum(np.abs(u), 1e-6 * np.abs(u).max())  # no division by zero
    direction = np.where(u < 0, -1.0, 1.0) * size.max() / size
    most = float(np.sqrt(np.min(high / direction**2)))
    if most == 0:
        return np.zeros_like(u)
    s, _ = minimise_scale(task.mse_along(direction), most * 1e-6, most)
    return s * direction


def _checked_starts(starts: Any, n: int) -> np.ndarray:
    if starts is None:
        return np.empty((0, n))
    array = np.atleast_2d(_checks.floats("starts", starts, ndim=(1, 2)).astype(np.float64))
    if array.shape[1] != n or not np.isfinite(array).all():
        raise InputError(f"starts has shape {array.shape}, finite weights of shape (k, {n}) are expected.")
    return array
