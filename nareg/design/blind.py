"""Blind design: the exact design from noisy readings alone.

With the noise covariance known, ``Y Y^T / T - Sigma`` is an unbiased estimate of R, and the risk computed from
it is Stein's unbiased risk estimate (SURE). Minimising N weights over few readings fits their noise, so some
readings are held out: the descent on the others stops at the weights whose SURE on the held-out ones is
smallest. The best single weight is among the candidates, so that the design falls back to it when the
readings do not support more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nareg import _checks
from nareg.design._local import Progress, descend
from nareg.design._problem import Problem, fit_weights
from nareg.design.exact import best_scalar
from nareg.design.noise import estimate_noise
from nareg.errors import InputError
from nareg.filters._system import FilterSystem, penalty, refuse_singular
from nareg.results import Status, WeightDesign

#: Fewer readings than this are not worth splitting: the single weight is kept.
FEWEST = 8
#: A validation descent ends after this many steps without a smaller held-out SURE.
PATIENCE = 15


def blind(
    graph: Any,
    *,
    measurements: Any,
    noise: Any = None,
    lower: Any = None,
    upper: Any = None,
    fit: Any = None,
    folds: int = 4,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> WeightDesign:
    """Minimise Stein's unbiased risk estimate over node weights, stopped early on held-out readings.

    Parameters
    ----------
    graph : Graph or (N, N) operator
    measurements : (N,) or (N, T) array
        Noisy readings; no clean signal is needed.
    noise : number, (N,) or (N, N) array, optional
        Noise variance(s) or covariance. Default: estimated per station by
        :func:`nareg.design.estimate_noise`, and reported.
    lower, upper : number or (N,) array, optional
        Bounds on ``w_i^2``. Default: none below, ``1e8 / lambda_max(L)`` above.
    fit : None, "noise" or (N,) array
        Data term for which to design.
    folds : int
        The readings are dealt to this many folds; each in turn is held out to find how many descent steps
        pay, and the final descent on all readings takes the number that was best on average.
    rng : numpy.random.Generator, optional
        Deals the readings to folds.
    progress : callable, optional
        ``progress(iteration, objective, relative gradient norm)``.

    Returns
    -------
    WeightDesign
        ``objective`` is SURE at the weights, on all readings. ``certificate.details`` reports ``steps``,
        ``held_out_sure`` (mean over the folds at that number of steps, for the noise covariance used; the
        choice of the number makes it slightly optimistic), ``held_out_error`` (its standard error over folds)
        and ``optimism`` (held-out minus in-sample).

    Examples
    --------
    >>> import numpy as np, nareg
    >>> rng = np.random.default_rng(0)
    >>> g = nareg.graphs.grid((5, 5))
    >>> y = 10 + rng.standard_normal((25, 40))
    >>> d = nareg.design.blind(g, measurements=y, noise=1.0)
    >>> bool(d.certificate.details["held_out_sure"] < 25.0)  # the noise power
    True
    """
    base = penalty(graph)
    n = base.n_nodes
    _checks.dense_size("the blind design", n, copies=6, alternative="design on a part of the network (graph.subgraph)")
    Y = _checks.signals("measurements", measurements, n).astype(float).reshape(n, -1)
    estimated = noise is None
    Sigma = estimate_noise(graph, Y) if estimated else _checks.noise("noise", noise, n)
    c = fit_weights(fit, Sigma, n)
    folds = _checks.integer("folds", folds, low=2)
    generator = np.random.default_rng(0) if rng is None else _checks.generator(rng)

    def task_for(columns: np.ndarray) -> Problem:
        part = Y[:, columns]
        R = part @ part.T / part.shape[1] - _checks.covariance(Sigma)
        return Problem(base=base, R=R, Sigma=Sigma, c=c, fit=None if fit is None else c)

    everything = np.arange(Y.shape[1])
    task = task_for(everything)
    low, high = task.squared_bounds(lower, upper, default_lower=None)
    if np.trace(task.R) <= 0:
        raise InputError("measurements have no more power than noise: no signal is left to fit; check the variance.")
    refuse_singular(FilterSystem(S=base.L, c=c, w=np.ones(n), penalty=base))
    steps, held_out, error = 0, np.nan, np.nan
    if Y.shape[1] >= FEWEST:
        deal = np.array_split(generator.permutation(everything), min(folds, Y.shape[1] // 2))
        curves = [_validation_curve(task_for(np.setdiff1d(everything, fold)), task_for(fold), low, high) for fold in deal]
        length = max(map(len, curves))
        # a descent that ended early stays where it ended
        table = np.array([np.pad(curve, (0, length - len(curve)), mode="edge") for curve in curves])
        steps = int(np.argmin(table.mean(axis=0)))
        gain = table[:, 0] - table[:, steps]
        # the folds' common noise cancels in the gain; keep the single weight unless the gain exceeds its error
        if gain.mean() <= gain.std(ddof=1) / np.sqrt(len(deal)):
            steps = 0
        held_out = float(table[:, steps].mean())
        error = float(table[:, steps].std(ddof=1) / np.sqrt(len(deal)))
    start, _ = best_scalar(task, low, high)
    if steps:
        result = descend(task.mse_and_gradient, start, low, high, max_iterations=steps, progress=progress)
        w, message, gradient = result.last, result.message, result.gradient_norm
        status = Status.INTERRUPTED if message == "interrupted" else Status.STOPPED_EARLY
    else:
        w, message, gradient, status = start, "the best single weight is kept", None, Status.NO_IMPROVEMENT
    objective = task.mse(w)
    return task.pack(
        "blind",
        w,
        objective,
        status,
        lower=low,
        upper=high,
        solver="L-BFGS-B (scipy), stopped on held-out SURE",
        solver_status=message,
        gradient_norm=gradient,
        details={
            "steps": steps,
            "held_out_sure": held_out,
            "held_out_error": error,
            "optimism": held_out - objective,
            "noise_estimated": estimated,
            "noise_power": task.noise_power,
        },
    )


def _validation_curve(train: Problem, held_out: Problem, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """SURE on held-out readings after each step of the descent on the others; entry 0 is the best scalar."""
    curve: list[float] = []

    def watch(w: np.ndarray) -> bool:
        curve.append(held_out.mse(w))
        return len(curve) - 1 - int(np.argmin(curve)) >= PATIENCE

    start, _ = best_scalar(train, low, high)
    descend(train.mse_and_gradient, start, low, high, max_iterations=200, watch=watch)
    return np.array(curve)
