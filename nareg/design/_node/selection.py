"""How exact and blind designs draw probes and hold out data, on dense matrices or from sample columns.

With sample columns nothing is N x N, on networks of any size. On dense matrices noise and gaps may be of any kind.
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
from nareg.design._risk.checked import CheckedProblem, DesignEnd, checked_data_weight
from nareg.design._risk.descent import Groups, ValueAndGradient
from nareg.design._risk.problem import DesignProblem
from nareg.design._risk.rate import NodeRate
from nareg.design._risk.sampled import SampleColumns, SampledRisk, probes, squares
from nareg.errors import InputError
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, WeightDesign

#: Fewer signals or readings than this are not worth holding some out.
FEWEST = 8


@dataclass(frozen=True)
class Sampling:
    """How :func:`exact`, :func:`blind`, :func:`redesign` and :func:`robust_fit` draw probes, and what the first three hold out.

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

#: Folds where the caller names no number. On networks of the sampled solver's size one judges as well as four
#: (``python benchmarks/selection.py``), and takes a third of the time.
DENSE_FOLDS, SAMPLED_FOLDS = 4, 1
#: Relative residual of the solves in the final fit: with looser ones line searches end above that gradient.
FINAL_TOL = 1e-8
#: Arrays of one number per node and column that are in memory at once: columns, targets, both solutions, CG's own.
ARRAYS = 7


@dataclass(frozen=True)
class NodeOptions:
    """How a design of node weights is made, whatever its data."""

    lower: Any
    upper: Any
    groups: Groups
    sampling: Sampling
    progress: ProgressCallback | None
    backend: SolverBackend = "scipy"
    rate: float | None = None
    warm: Warm | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """What a design reports of them."""
        return {} if self.rate is None else {"rate": self.rate}


@dataclass(frozen=True)
class PathRisk:
    """The risk on all data, the best single weight between bounds and up to a largest one, and what computes them."""

    value: Callable[[np.ndarray], float]
    value_and_gradient: ValueAndGradient
    best_single: Callable[[np.ndarray, np.ndarray, float], np.ndarray]
    solver: str


def dense_risk(task: DesignProblem) -> PathRisk:
    """That of N x N matrices."""
    return PathRisk(task.mse, task.mse_and_gradient, task.best_scalar, "L-BFGS-B (scipy)")


def signal_fold(
    train: DesignProblem, held_out: np.ndarray, noise_part: Callable[[np.ndarray], float], constant: float = 0.0
) -> Fold:
    """Signals or readings (N, T) held out: the distance of each from its filtered self, and the noise's part of the risk."""

    def values(w: np.ndarray) -> np.ndarray:
        H = train.filter_matrix(w)[1]
        return np.append(squares(H @ held_out - held_out) / held_out.shape[1], noise_part(H))

    return Fold(train.mse_and_gradient, values, held_out.shape[1] + 1, held_out.shape[1], constant)


def moment_fold(train: DesignProblem, held_out: DesignProblem) -> Fold:
    """A second moment held out: one number per fold."""
    return Fold(train.mse_and_gradient, lambda w: np.array([held_out.mse(w)]), 1, 1)


def chosen_solver(solver: Solver, backend: SolverBackend) -> Solver:
    """The solver that was asked for: with sample columns wherever a library was, as the others have no solves."""
    checks.choice("solver", solver, get_args(Solver))
    name = check_solver_backend(backend)
    if name == "scipy":
        return solver
    if solver == "dense":
        raise InputError(f"solver='dense' is NumPy's, and backend is {name!r}: pass solver='sampled', or backend='scipy'.")
    return "sampled"


def checked_problem(base: Penalty, variance: np.ndarray, data_weight: Any, sampling: Sampling, n_times: int) -> CheckedProblem:
    """The problem, after a look at the memory that the columns take."""
    n = base.n_nodes
    if variance.ndim == 2:
        raise InputError(f"noise has shape {variance.shape}: sampled designs need variances, a number or ({n},).")
    folds = sampling.folds or SAMPLED_FOLDS
    columns = (1 + folds) * n_times + (1 + 2 * folds) * sampling.n_probes
    less = "pass fewer signals, fewer probes or folds (Sampling(n_probes=..., folds=1)), or a part of the network"
    checks.memory("this design", 8 * n * columns * ARRAYS, alternative=less)
    c = checked_data_weight(base, data_weight, variance)
    return CheckedProblem(base, variance, c, None if data_weight is None else c)


def design_on_path(
    method: str, problem: CheckedProblem, risk: PathRisk, folds: list[Fold] | None, options: NodeOptions,
    details: Callable[[], DesignDetails], settings: dict[str, Any] | None = None,
) -> WeightDesign:  # fmt: skip
    """Best single weight, search for the penalty on held-out data, fit on all."""
    groups, rate, warm = options.groups, options.rate, options.warm
    low, high = problem.squared_bounds(options.lower, options.upper, default_lower=None)
    # nodes that share a weight share its bounds, and start together
    low, high = (groups.expand(bound) for bound in groups.bounds(low, high))
    clock = [time.perf_counter()]
    promise = None if rate is None else NodeRate(problem.base, problem.c, rate, low, high)
    start = risk.best_single(low, high, np.inf if promise is None else promise.largest_single)
    coordinates = log_weights(start, low, high, groups, promise)
    path = PenaltyPath(problem.base.L, coordinates, start, risk.value(start), groups, options.progress)
    clock.append(time.perf_counter())
    end = path.follow(risk.value_and_gradient, folds, warm)
    w, promised = (end.w, DesignDetails()) if promise is None else promise.certified(end.w, risk.value)
    clock.append(time.perf_counter())
    reported: DesignDetails = {**path.details(), **promised, **details()}
    return problem.pack(
        method, w, risk.value(w), (low, high), DesignEnd(end.status, risk.solver, end.message, end.gradient_norm, reported),
        timings={"single weight": clock[1] - clock[0], "descent": clock[2] - clock[1]},
        settings={**(settings or {}), **options.settings},
    )  # fmt: skip


@one_blas_thread
def design_sampled(
    method: str, problem: CheckedProblem, columns_of: Callable[[np.ndarray, np.ndarray], SampleColumns], n_times: int,
    options: NodeOptions, *, hold_out: bool = True, details: DesignDetails | None = None,
) -> WeightDesign:  # fmt: skip
    """The design from sample columns: of any of the times and probes. Not held out: the risk of all is minimized as it is."""
    base, sampling, warm = problem.base, options.sampling, options.warm
    risk = SampledRisk(base, problem.c, options.backend)
    systems = risk.systems
    Z = probes(base.L, sampling.n_probes, sampling.generator)
    parts = sampling.split(n_times, SAMPLED_FOLDS) if hold_out else []
    others = probes(base.L, sampling.n_probes, sampling.generator) if parts else Z
    folds = [
        _sampled_fold(risk, risk.arranged(columns_of(trained, Z)), risk.arranged(columns_of(left_out, others)))
        for trained, left_out in parts
    ]
    columns = risk.arranged(columns_of(np.arange(n_times), Z))

    def all_columns(w: np.ndarray) -> tuple[float, np.ndarray]:
        systems.tol = FINAL_TOL
        return risk.value_and_gradient(w, columns)

    def best_single(low: np.ndarray, high: np.ndarray, largest: float) -> np.ndarray:
        if warm is not None:
            return risk.carried_single(columns, low, high, warm.scalar)
        return risk.best_single(columns, low, high, largest)

    def reported() -> DesignDetails:
        solves: dict[str, float] = {
            "columns": systems.columns,
            "iterations per column": systems.iterations / max(systems.columns, 1),
            "factorizations": systems.factorizations,
            "tolerance": systems.tol,
        }
        return {"solves": solves, **(details or {})}

    solver = "L-BFGS-B (scipy) on sampled risk" + systems.label
    path_risk = PathRisk(partial(risk.value, columns=columns), all_columns, best_single, solver)
    settings = {"solver": "sampled", "n_probes": sampling.n_probes}
    return design_on_path(method, problem, path_risk, folds if hold_out else None, options, reported, settings)


def _sampled_fold(risk: SampledRisk, train: SampleColumns, held_out: SampleColumns) -> Fold:
    """Columns to train on and held out, for other probes."""
    n_summands = held_out.inputs.shape[1] + (0 if held_out.sure is None else held_out.sure.shape[1])
    return Fold(
        partial(risk.value_and_gradient, columns=train), partial(risk.column_values, columns=held_out),
        n_summands, held_out.n_signals, held_out.constant,
    )  # fmt: skip
