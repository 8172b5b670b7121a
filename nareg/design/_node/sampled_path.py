"""Exact and blind designs from sample columns, on networks of any size: nothing here is N x N.

How designs draw random probes and hold out data.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from nareg._core import checks
from nareg._solvers.backends import SolverBackend, check_solver_backend
from nareg._solvers.system import Penalty
from nareg._solvers.threads import one_blas_thread
from nareg.design._node.log_weights import log_weights
from nareg.design._node.penalty_path import Fold, PenaltyPath, Warm
from nareg.design._risk.descent import Groups
from nareg.design._risk.problem import CheckedProblem, DesignEnd, checked_fit
from nareg.design._risk.rate import NodeRate
from nareg.design._risk.sampled import SampleColumns, SampledRisk
from nareg.design._risk.support import probes
from nareg.errors import InputError
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, WeightDesign

#: Fewer signals or readings than this are not worth holding some out.
FEWEST = 8


@dataclass(frozen=True)
class Sampling:
    """How :func:`exact`, :func:`blind` and :func:`redesign` draw probes of the noise and hold out data.

    Attributes
    ----------
    n_probes : int
        Random probes for the noise term of the sampled solver, the same ones at every step; at least 2.
    hold_out : bool, optional
        For exact designs: hold out signals to find the penalty on differences between weights, or minimize the risk of all
        signals without one. Default: hold out where there are at least 8 signals but fewer than nodes, so that R is
        singular and its minimizer fits accidents.
    folds : int, optional
        Each fold of the signals or readings in turn is held out while a design is fitted to the others. The penalty that
        is best on average is the one of the final fit to all of them. One fold is a quarter, held out once. Default: 4
        on dense matrices, 1 for the sampled solver, where a network has more numbers to judge by.
    rng : numpy.random.Generator, optional
        Draws the probes and what is held out; default ``numpy.random.default_rng(0)``.

    Raises
    ------
    InputError
        If a number is too small, or rng is not a Generator.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> sampling = nareg.design.Sampling(n_probes=48, rng=np.random.default_rng(1))
    >>> g = nareg.graphs.grid((4, 4))
    >>> nareg.design.exact(g, signals=np.ones(16), noise=1.0, sampling=sampling).n_nodes
    16
    """

    n_probes: int = 24
    hold_out: bool | None = None
    folds: int | None = None
    rng: np.random.Generator | None = None

    def __post_init__(self) -> None:
        checks.integer("n_probes", self.n_probes, low=2)
        if self.folds is not None:
            checks.integer("folds", self.folds, low=1)
        checks.generator(self.rng)

    def started(self) -> Sampling:
        """The same with a generator, from which draws may begin."""
        return replace(self, rng=checks.generator(self.rng))

    def split(self, n_columns: int, default_folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Training and held-out columns of every fold; none where there are too few columns."""
        if n_columns < FEWEST:
            return []
        order, folds = self.generator.permutation(n_columns), self.folds or default_folds
        if folds == 1:
            return [(order[n_columns // 4 :], order[: n_columns // 4])]
        parts = np.array_split(order, min(folds, n_columns // 2))
        return [(np.setdiff1d(order, part), part) for part in parts]

    @property
    def generator(self) -> np.random.Generator:
        """The generator of a started sampling."""
        assert self.rng is not None
        return self.rng


Solver = Literal["auto", "dense", "sampled"]

#: Folds where the caller names no number: on networks of this solver's size one judges as well as four
#: (``python benchmarks/selection.py``), and takes a third of the time.
SAMPLED_FOLDS = 1
#: Relative residual of the solves in the final fit: with looser ones line searches end above that gradient.
FINAL_TOL = 1e-8
#: Arrays of one number per node and column that are in memory at once: columns, targets, both solutions, CG's own.
ARRAYS = 7


@dataclass(frozen=True)
class SampledOptions:
    """How a design from sample columns is made, whatever its data."""

    lower: Any
    upper: Any
    groups: Groups
    sampling: Sampling
    progress: ProgressCallback | None
    backend: SolverBackend = "scipy"
    rate: float | None = None
    warm: Warm | None = None


@dataclass(frozen=True)
class SampledTask:
    """A checked problem, and the columns of its risk for any of the times and probes."""

    problem: CheckedProblem
    columns: Callable[[np.ndarray, np.ndarray], SampleColumns]
    n_times: int
    #: False: the risk of all columns is minimized, without a penalty.
    hold_out: bool
    options: SampledOptions


def chosen_solver(solver: Solver, backend: SolverBackend) -> Solver:
    """The solver that was asked for: with sample columns wherever a library was, as the others have no solves."""
    checks.choice("solver", solver, get_args(Solver))
    name = check_solver_backend(backend)
    if name == "scipy":
        return solver
    if solver == "dense":
        raise InputError(f"solver='dense' is NumPy's, and backend is {name!r}: pass solver='sampled', or backend='scipy'.")
    return "sampled"


def checked_problem(base: Penalty, variance: np.ndarray, fit: Any, sampling: Sampling, n_times: int) -> CheckedProblem:
    """The problem, after a look at the memory that the columns take."""
    n = base.n_nodes
    if variance.ndim == 2:
        raise InputError(f"noise has shape {variance.shape}: sampled designs need variances, a number or ({n},).")
    folds = sampling.folds or SAMPLED_FOLDS
    columns = (1 + folds) * n_times + (1 + 2 * folds) * sampling.n_probes
    less = "pass fewer signals, fewer probes or folds (Sampling(n_probes=..., folds=1)), or a part of the network"
    checks.memory("this design", 8 * n * columns * ARRAYS, alternative=less)
    c = checked_fit(base, fit, variance)
    return CheckedProblem(base, variance, c, None if fit is None else c)


@one_blas_thread
def design_sampled(method: str, task: SampledTask, details: DesignDetails | None = None) -> WeightDesign:
    """Best single weight, search on held-out columns, fit on all."""
    options, base, c = task.options, task.problem.base, task.problem.c
    groups, sampling, warm, rate = options.groups, options.sampling, options.warm, options.rate
    low, high = task.problem.squared_bounds(options.lower, options.upper, default_lower=None)
    # nodes that share a weight share its bounds, and start together
    low, high = (groups.expand(bound) for bound in groups.bounds(low, high))
    risk = SampledRisk(base, c, options.backend)
    Z = probes(base.L, sampling.n_probes, sampling.generator)
    folds = _folds(task, risk, Z) if task.hold_out else None
    columns = risk.arranged(task.columns(np.arange(task.n_times), Z))
    clock = [time.perf_counter()]
    promise = None if rate is None else NodeRate(base, c, rate, low, high)
    if warm is None:
        start = risk.best_single(columns, low, high, np.inf if promise is None else promise.largest_single)
    else:
        start = risk.carried_single(columns, low, high, warm.scalar)
    coordinates = log_weights(start, low, high, groups, promise)
    path = PenaltyPath(base.L, coordinates, start, risk.value(start, columns), groups, options.progress)
    clock.append(time.perf_counter())

    def all_columns(w: np.ndarray) -> tuple[float, np.ndarray]:
        risk.systems.tol = FINAL_TOL
        return risk.value_and_gradient(w, columns)

    end = path.follow(all_columns, folds, warm)
    w, promised = end.w, DesignDetails()
    if promise is not None:
        w, promised = promise.certified(w, partial(risk.value, columns=columns))
    clock.append(time.perf_counter())
    solves: dict[str, float] = {
        "columns": risk.systems.columns,
        "iterations per column": risk.systems.iterations / max(risk.systems.columns, 1),
        "factorizations": risk.systems.factorizations,
        "tolerance": risk.systems.tol,
    }
    details = {**path.details(), **promised, "solves": solves, **(details or {})}
    solver = "L-BFGS-B (scipy) on sampled risk" + risk.systems.label
    return task.problem.pack(
        method,
        w,
        risk.value(w, columns),
        (low, high),
        DesignEnd(end.status, solver, end.message, end.gradient_norm, details),
        timings={"single weight": clock[1] - clock[0], "descent": clock[2] - clock[1]},
        settings={"solver": "sampled", "n_probes": sampling.n_probes, **({} if rate is None else {"rate": rate})},
    )


def _folds(task: SampledTask, risk: SampledRisk, Z: np.ndarray) -> list[Fold]:
    """Columns to train on and held out, for other probes."""
    sampling = task.options.sampling
    parts = sampling.split(task.n_times, SAMPLED_FOLDS)
    if not parts:
        return []
    others = probes(task.problem.base.L, sampling.n_probes, sampling.generator)
    folds = []
    for trained, left_out in parts:
        train, held_out = risk.arranged(task.columns(trained, Z)), risk.arranged(task.columns(left_out, others))
        n_summands = held_out.inputs.shape[1] + (0 if held_out.sure is None else held_out.sure.shape[1])
        folds.append(
            Fold(
                partial(risk.value_and_gradient, columns=train),
                partial(risk.column_values, columns=held_out),
                n_summands,
                held_out.n_signals,
                held_out.constant,
            )
        )
    return folds
