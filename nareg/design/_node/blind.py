"""Blind design: the exact design from noisy readings alone.

With the noise covariance known, ``Y Y^T / T - Sigma`` is an unbiased estimate of R, and the risk computed from
it is Stein's unbiased risk estimate (SURE). Minimizing N weights over few readings fits their noise, so that
readings are held out to choose a penalty on differences between weights (:mod:`nareg.design._node.penalty_path`).
The design falls back to the best single weight when the readings do not support more.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from nareg._core import checks
from nareg._solvers.backends import SolverBackend, alike_on_all_ranks
from nareg._solvers.system import Penalty, penalty
from nareg.design._node.completion import Completion
from nareg.design._node.estimate_noise import estimate_noise
from nareg.design._node.gap_patterns import checked_per_node, gap_details, without_silent
from nareg.design._node.penalty_path import Fold
from nareg.design._node.selection import (
    DENSE_FOLDS,
    NodeOptions,
    Sampling,
    checked_problem,
    chosen_solver,
    dense_risk,
    design_on_path,
    design_sampled,
    moment_fold,
    signal_fold,
)  # fmt: skip
from nareg.design._risk.checked import DENSE_NODES, checked_data_weight
from nareg.design._risk.descent import Groups
from nareg.design._risk.problem import DesignProblem
from nareg.design._risk.rate import checked_rate
from nareg.design._risk.sampled import SampleColumns, blind_columns
from nareg.errors import InputError
from nareg.io import takes_tables
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, WeightDesign
from nareg.typing import ArrayLike, GraphLike


@takes_tables("measurements", "observed", observed="observed")
@alike_on_all_ranks
def blind(
    graph: GraphLike,
    *,
    measurements: ArrayLike,
    observed: ArrayLike | None = None,
    noise: ArrayLike | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    data_weight: ArrayLike | Literal["noise"] | None = None,
    groups: ArrayLike | None = None,
    rate: float | None = None,
    solver: Literal["auto", "dense", "sampled"] = "auto",
    sampling: Sampling | None = None,
    backend: SolverBackend = "scipy",
    progress: ProgressCallback | None = None,
) -> WeightDesign:
    """Minimize Stein's unbiased risk estimate over node weights, penalized as held-out readings prefer.

    Parameters
    ----------
    graph : Graph or (N, N) operator
    measurements : (N,) or (N, T) array
        Noisy readings; no clean signal is needed.
    observed : bool array, (N,) or the shape of measurements, optional
        True where a reading was taken; measurements may hold anything elsewhere. Default: everywhere. See Notes.
    noise : number, (N,) or (N, N) array, optional
        Noise variance(s) or covariance. Default: estimated per station by
        :func:`nareg.design.estimate_noise`, and reported.
    lower, upper, data_weight, groups, backend, progress
        As in :func:`exact`.
    rate : number between 0 and 1, optional
        As in :func:`exact`; it holds where all readings are there.
    solver : {"auto", "dense", "sampled"}
        ``"dense"`` forms N x N matrices (N up to 3,000, time like N^3); ``"sampled"`` needs independent noise, and
        has no N x N matrix. Auto: dense up to 500 nodes.
    sampling : Sampling, optional
        Probes of the noise, folds of held-out readings, and the random generator, which with gaps also draws what the
        sampled solver fills in.

    Returns
    -------
    WeightDesign
        ``objective`` is SURE at the weights, on all readings. ``certificate.details`` reports the ``penalty`` on
        differences between weights, ``held_out_risk`` (SURE on held-out readings, the mean over folds; the choice of
        the penalty makes it slightly optimistic), ``held_out_scalar_risk`` of the single weight there, ``held_out_gain``
        and its standard error ``held_out_error``.

    Notes
    -----
    With gaps the second moment of the readings is their expected one given what was read, under a Gaussian model fitted to
    all readings (EM, started from and shrunk to the model of one weight). It is ``Y Y^T / T`` without gaps and tends to that
    of the full readings as T grows, if readings are missing at random. The penalty is chosen by moments over the
    times that two stations share, which rest on no model. The sampled solver draws what is missing from the same model. With
    gaps N may be up to 3,000.

    A station without any reading is left out of the design (``certificate.details["left_out"]`` names it). It gets an
    average of its neighbors' weights, with which :func:`nareg.filters.interpolate` estimates it as an average of them.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> rng = np.random.default_rng(0)
    >>> g = nareg.graphs.grid((5, 5))
    >>> y = 10 + rng.standard_normal((25, 40))
    >>> d = nareg.design.blind(g, measurements=y, noise=1.0)
    >>> bool(d.certificate.details["held_out_risk"] < 25.0)  # the noise power
    True
    """
    base = penalty(graph)
    n = base.n_nodes
    rate, solver = checked_rate(rate), chosen_solver(solver, backend)
    sampling = (sampling or Sampling()).started()
    options = NodeOptions(lower, upper, Groups(groups, n), sampling, progress, backend, rate)
    Y, seen = checks.measurements(measurements, observed, n)
    if seen is not None:
        checks.dense_size("the blind design with gaps", n, copies=6, alternative="pass times at which all stations read")
        live = seen.any(axis=1)
        if not live.all():
            if rate is not None:
                raise InputError(
                    f"rate is {rate:g} and {int((~live).sum())} stations have no reading at all: leave them out "
                    "(graph.subgraph), or pass rate=None."
                )
            given = checked_per_node(n, noise=noise, data_weight=data_weight, lower=lower, upper=upper, groups=groups)
            same = {"solver": solver, "sampling": sampling, "backend": backend, "progress": progress}
            return without_silent(blind, base, Y, seen, given, same)
    independent = noise is None or np.ndim(noise) < 2
    if solver == "sampled" and not independent:
        raise InputError(
            "solver='sampled' needs noise variances (a number or (N,)), not a covariance: use solver='dense' and "
            "backend='scipy'."
        )
    sampled = solver == "sampled" or (solver == "auto" and independent and n > DENSE_NODES)
    if not sampled:
        checks.dense_size("the blind design", n, copies=6, alternative="pass noise variances and solver='sampled'")
    estimated = noise is None
    Sigma = estimate_noise(base, Y, observed=seen) if estimated else checks.noise("noise", noise, n)
    power = float(Sigma.sum() if Sigma.ndim == 1 else np.trace(Sigma))
    if float(np.sum(Y**2)) <= _expected_noise(Sigma, seen, Y.shape[1]):
        raise InputError("measurements have no more power than noise: no signal is left to fit; check the variance.")
    details: DesignDetails = {"noise_estimated": estimated, "noise_power": power}
    completion = None if seen is None else Completion(base.L.toarray(), Y, seen, sampling.generator)
    if seen is not None:
        details |= gap_details(base, seen)
    if sampled:
        return blind_sampled(base, Y, Sigma, data_weight, options, details, completion)
    c = checked_data_weight(base, data_weight, Sigma)

    def task_for(R: np.ndarray) -> DesignProblem:
        return DesignProblem(
            base=base, R=R - checks.covariance(Sigma), Sigma=Sigma, c=c, data_weight=None if data_weight is None else c
        )

    def moment(columns: np.ndarray) -> np.ndarray:
        return Y[:, columns] @ Y[:, columns].T / columns.size if completion is None else completion.moment(columns)

    T = Y.shape[1] if completion is None else completion.n_times
    task = task_for(moment(np.arange(T)))

    def fold(trained: np.ndarray, left_out: np.ndarray) -> Fold:
        train = task_for(moment(trained))
        if completion is not None:
            return moment_fold(train, task_for(completion.shared_moment(left_out)))
        return signal_fold(train, Y[:, left_out], task.covariance_with_filtered, constant=-power)

    folds = [fold(*parts) for parts in sampling.split(T, DENSE_FOLDS)]
    return design_on_path("blind", task, dense_risk(task), folds, options, lambda: details)


def _expected_noise(Sigma: np.ndarray, seen: np.ndarray | None, n_times: int) -> float:
    """Sum of the noise variances over all readings."""
    variance = Sigma if Sigma.ndim == 1 else np.diag(Sigma)
    return float(variance.sum() * n_times if seen is None else variance @ seen.sum(axis=1))


def blind_sampled(
    base: Penalty, Y: np.ndarray, variance: np.ndarray, data_weight: Any, options: NodeOptions, details: DesignDetails,
    completion: Completion | None = None,
) -> WeightDesign:  # fmt: skip
    """The design from sample columns."""
    T = Y.shape[1] if completion is None else completion.n_times
    task = checked_problem(base, variance, data_weight, options.sampling, T)

    def columns(times: np.ndarray, Z: np.ndarray) -> SampleColumns:
        readings = Y[:, times] if completion is None else completion.draw(options.sampling.generator, times)
        return blind_columns(readings, variance, task.c, Z)

    return design_sampled("blind", task, columns, T, options, details=details)
