"""Edge design on large networks: sparse factors, sample columns for signals and noise, L-BFGS.

The risk needs probes of the noise (:mod:`nareg.design._edge.sparse_risk`), the likelihood none
(:mod:`nareg.design._edge.sparse_likelihood`).

How far a likelihood is from its minimum at most: the value of a dual point against that of the primal one.

With ``W`` any positive definite matrix and ``w_k = tr(W S_k)``, ``log det S <= tr(W S) - log det W - N`` bounds

    f(u) = sum_k m_k u_k + h_k/2 (u_k - c_k)^2 - log det S(u)
         >= log det W + N + sum_k min_(v >= floor) (m_k - w_k) v + h_k/2 (v - c_k)^2.

At ``W = Theta^-1`` the gap is a sum over unknowns of what each would gain alone in the quadratic model of curvature h.
Without h the minima are finite only where ``w_k <= m_k``: W is scaled down until that holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._linear.held_out import standard_error, worthwhile
from nareg._linear.threads import one_blas_thread
from nareg._operator import FilterSystem, Penalty, refuse_singular
from nareg.design._edge.lbfgs import ConeDescent
from nareg.design._edge.result import EdgeOutcome
from nareg.design._edge.shrinkage import PROXIMAL, data_scale
from nareg.design._edge.sparse_likelihood import SHARED, EdgeLikelihood
from nareg.design._edge.sparse_risk import EdgeRisk
from nareg.design._edge.support import Support
from nareg.design._risk.descent import report
from nareg.design._risk.line_search import minimize_between
from nareg.design._risk.problem import STANDARD_ERRORS, STATIONARY, fit_weights, moment
from nareg.design._risk.sampled import ColumnRisk, SampleColumns, clean_and_noise
from nareg.design._risk.support import probes
from nareg.errors import InputError
from nareg.filters.backends import SolverBackend
from nareg.progress import ProgressCallback
from nareg.results import Status


def duality_gap(
    u: np.ndarray, gradient: np.ndarray, h: np.ndarray, floor: np.ndarray | None, n: int, products: Callable[[], np.ndarray]
) -> float | None:
    """``f(u)`` minus a proven lower bound of its minimum; None where no bound is at hand (no h and no floor).

    ``products`` computes ``tr(Theta^-1 S_k)``; it is called where h is zero.
    """
    if h.min() > 0:
        best = u - gradient / h
        step = (best if floor is None else np.maximum(best, floor)) - u
        return -float(gradient @ step + 0.5 * (h * step) @ step)
    if floor is None or h.any():
        return None
    inverse = products()
    moments = gradient + inverse
    scale = min(1.0, float((moments / inverse).min()))
    if scale <= 0:
        return None
    return float(u @ moments - (moments - scale * inverse) @ floor - n * np.log(scale)) - n


#: Random probes of the noise, and as many others on the held-out side.
PROBES = 32
#: Part of the signals held out to stop the descent.
HELD_OUT = 0.25
#: The descent ends after this many steps without a smaller held-out risk.
PATIENCE = 8
MAX_ITERATIONS = 300
#: A step of the likelihood is cheap, and a design with little shrinkage takes many.
LIKELIHOOD_ITERATIONS = 3000
#: Proven distance from the smallest likelihood, per node, that counts as converged.
GAP = 1e-7
#: What an ending means.
ENDINGS = {
    "held-out risk rises": Status.STOPPED_EARLY,
    "gradient below tolerance": Status.CONVERGED,
    "duality gap below tolerance": Status.CONVERGED,
    "iteration limit": Status.MAX_ITERATIONS,
    "no further decrease": Status.STALLED,
    "interrupted": Status.INTERRUPTED,
    "the best single weight is kept": Status.NO_IMPROVEMENT,
}
#: Fewer training signals than this are not worth splitting: the single weight is kept.
FEWEST = 8
#: Shrinkage during a descent that held-out signals stop: it makes the point where that happens better.
EARLY_SHRINK = 0.3
#: Smallest edge weight of a Laplacian structure, relative to the smallest of the single weight: zero but for the pattern.
FLOOR = 1e-9


@dataclass(frozen=True)
class Samples:
    """The source of columns: the graph, signals, the noise covariance's root, the data term, a generator."""

    L: sp.csr_array
    X: np.ndarray
    root: np.ndarray | None  # (N,), (N, N), or None: no probes of the noise
    c: np.ndarray
    rng: np.random.Generator

    def columns(self, which: np.ndarray) -> SampleColumns:
        """SampleColumns for some of the signals, with probes of their own."""
        if self.root is None:
            clean = self.X[:, which] / np.sqrt(which.size)
            return SampleColumns(clean, clean, which.size)
        Z = self.probes()
        noise = (self.root[:, None] * Z if self.root.ndim == 1 else self.root @ Z) / np.sqrt(PROBES)
        return clean_and_noise(self.X[:, which], noise)

    def probes(self) -> np.ndarray:
        """Fresh probes."""
        return probes(self.L, PROBES, self.rng)


@one_blas_thread
def design(
    base: Penalty,
    support: Support,
    *,
    signals: Any,
    second_moment: Any,
    noise: Any,
    fit: Any,
    by_risk: bool,
    nonnegative: bool,
    shrink: float | None,
    rng: np.random.Generator,
    backend: SolverBackend,
    progress: ProgressCallback | None,
) -> tuple[EdgeOutcome, np.ndarray, np.ndarray | None]:
    """Outcome, data term, and the data term as the design stores it."""
    n = base.n_nodes
    X, Sigma = _signal_columns(signals, second_moment, n), None if noise is None else checks.noise("noise", noise, n)
    checks.memory("the edge design", 80 * n * (X.shape[1] + 2 * PROBES), alternative="pass fewer signals")
    c = fit_weights(fit, Sigma, n)
    refuse_singular(FilterSystem(S=base.L, c=c, w=np.ones(n), penalty=base))
    if not X.any():
        raise InputError("signals (or second_moment) are zero everywhere: there is no signal to design for.")
    root = None if Sigma is None or not by_risk else np.sqrt(Sigma) if Sigma.ndim == 1 else _root(Sigma)
    samples = Samples(base.L, X, root, c, rng)
    held_out: np.ndarray | None = None
    if shrink is None and signals is not None:
        held_out = np.sort(rng.permutation(X.shape[1])[: int(np.ceil(HELD_OUT * X.shape[1]))])
    amount = shrink if shrink is not None else 0.0 if held_out is None else EARLY_SHRINK
    if by_risk:
        outcome = _descend(
            RiskModel(EdgeRisk(base, support, c, backend), samples), samples, held_out, amount, nonnegative, progress
        )
    else:
        outcome = _descend(
            LikelihoodModel(EdgeLikelihood(base, support), samples), samples, held_out, amount, nonnegative, progress
        )
        scale = 1.0 if Sigma is None else data_scale(c, Sigma if Sigma.ndim == 1 else np.diag(Sigma))
        outcome = replace(outcome, entries=scale * outcome.entries)
    return outcome, c, None if fit is None else c


class Model(Protocol):
    """A criterion on sample columns: where its descent starts, and its objective blended with the model of that start."""

    @property
    def columns(self) -> ColumnRisk:
        """The objective as a sum over columns."""

    @property
    def support(self) -> Support: ...

    @property
    def factorizes(self) -> bool: ...

    @property
    def shared(self) -> int:
        """Number of trailing summands that are no signals'."""

    def start(self, columns: SampleColumns) -> np.ndarray:
        """The best single weight, or the best precision of two parameters."""

    def stiffness(self, u: np.ndarray, columns: SampleColumns) -> np.ndarray:
        """Diagonal of the Hessian's positive semidefinite part."""

    def blended(
        self, columns: SampleColumns, start: np.ndarray, amount: float
    ) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        """``(1 - amount)`` times the objective, and the rest one whose optimum is the start."""

    def size(self) -> float | None:
        """What a gradient is relative to; None: the value."""

    def gap(self, descent: ConeDescent, h: np.ndarray) -> float | None:
        """What the blended objective with a proximal term of weights h may still fall by; None where that is not known."""

    @property
    def max_iterations(self) -> int: ...


@dataclass(frozen=True)
class RiskModel:
    """The mean squared error."""

    columns: EdgeRisk
    samples: Samples
    shared: int = PROBES
    max_iterations: int = MAX_ITERATIONS

    @property
    def support(self) -> Support:
        return self.columns.support

    @property
    def factorizes(self) -> bool:
        return self.columns.systems.factorizes

    def start(self, columns: SampleColumns) -> np.ndarray:
        return best_scalar(self.columns, columns)

    def stiffness(self, u: np.ndarray, columns: SampleColumns) -> np.ndarray:
        return self.columns.stiffness(u, columns, self.samples.probes())

    def blended(
        self, columns: SampleColumns, start: np.ndarray, amount: float
    ) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        # (1 - a) ||U - G||^2 + a ||U - U0||^2 is ||U - (1 - a) G - a U0||^2 up to a constant
        risk, target = self.columns, self.columns.towards(start, columns, amount)
        return lambda u: risk.value_and_gradient(u, target)

    def size(self) -> float | None:
        return None

    def gap(self, descent: ConeDescent, h: np.ndarray) -> float | None:
        return None


@dataclass(frozen=True)
class LikelihoodModel:
    """Twice the negative log-likelihood per signal."""

    columns: EdgeLikelihood
    samples: Samples
    shared: int = SHARED
    max_iterations: int = LIKELIHOOD_ITERATIONS

    @property
    def support(self) -> Support:
        return self.columns.support

    @property
    def factorizes(self) -> bool:
        return True

    def start(self, columns: SampleColumns) -> np.ndarray:
        return self.columns.best_two(self.columns.moments(columns))

    def stiffness(self, u: np.ndarray, columns: SampleColumns) -> np.ndarray:
        return self.columns.stiffness(u, self.samples.probes)

    def blended(
        self, columns: SampleColumns, start: np.ndarray, amount: float
    ) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        # R and Theta_0^-1, whose likelihood is largest at Theta_0
        moments = (1 - amount) * self.columns.moments(columns) + amount * self.columns.inverse_products(start)
        return lambda u: self.columns.value_and_gradient(u, moments)

    def size(self) -> float | None:
        return float(self.support.n)  # tr(Theta R) at the minimum: the value changes with the unit of the signals

    def gap(self, descent: ConeDescent, h: np.ndarray) -> float | None:
        u = descent.u
        return duality_gap(u, descent.gradient, h, descent.floor, self.support.n, lambda: self.columns.inverse_products(u))


def _descend(
    model: Model, samples: Samples, held_out: np.ndarray | None, amount: float, nonnegative: bool,
    progress: ProgressCallback | None,
) -> EdgeOutcome:  # fmt: skip
    """From the best single weight down, to the smallest held-out risk where signals are held out."""
    risk = model.columns
    everything = np.arange(samples.X.shape[1])
    too_few = held_out is not None and everything.size < FEWEST
    train = samples.columns(everything if held_out is None or too_few else np.setdiff1d(everything, held_out))
    judge = None if held_out is None or too_few else samples.columns(held_out)
    start = model.start(train)
    stiffness = model.stiffness(start, train)
    stiffness = np.maximum(stiffness, 1e-6 * np.median(stiffness))
    of_edges = 1.0 - model.support.identity
    # edges stay in the factor's pattern
    floor = FLOOR * np.abs(start[of_edges > 0]).min() * of_edges if nonnegative else None
    h = amount * PROXIMAL * stiffness
    function = _proximal(model.blended(train, start, amount), start, h)
    descent = ConeDescent(function, start, stiffness, floor, model.size())
    scalar = risk.value(start, train)
    watch = None if judge is None else Watch(risk, judge, start, model.shared)
    message = "the best single weight is kept" if too_few or amount == 1.0 else ""
    iterations, gradient = 0, descent.relative_gradient
    try:
        while not message:
            if descent.relative_gradient < 0.1 * STATIONARY:
                message = "gradient below tolerance"
            elif amount and (gap := model.gap(descent, h)) is not None and gap <= GAP * model.support.n:
                message = "duality gap below tolerance"
            elif iterations == model.max_iterations:
                message = "iteration limit"
            elif not descent.step():
                message = "no further decrease"
            else:
                iterations += 1
                report(progress, iterations, descent.value, descent.relative_gradient)
                if watch is not None and watch.stop(descent.u):
                    message = "held-out risk rises"
                if watch is None or watch.since == 0:
                    gradient = descent.relative_gradient
    except KeyboardInterrupt:
        message = "interrupted"
    u = descent.u if watch is None else watch.u
    objective = risk.value(u, train)
    single = too_few or amount == 1.0 or objective > scalar or (watch is not None and not watch.worthwhile)
    if single:
        u, objective = start, scalar
    if single and message != "interrupted":
        message = "the best single weight is kept"
    status = ENDINGS[message]
    if message == "no further decrease" and gradient < STATIONARY:
        status = Status.CONVERGED
    elif (
        watch is not None and status is Status.CONVERGED and gradient >= STATIONARY
    ):  # converged after held-out risk had begun to rise
        status = Status.STOPPED_EARLY
    if watch is not None:  # where held-out risk was smallest: another point than the last one, on all signals
        everywhere = samples.columns(everything)
        objective, scalar = risk.value(u, everywhere), risk.value(start, everywhere)
    return EdgeOutcome(
        entries=model.support.entries(u),
        objective=objective,
        status=status,
        solver=("projected " if nonnegative else "")
        + "L-BFGS, "
        + ("sparse factors" if model.factorizes else "conjugate gradients")
        + (model.columns.systems.label if isinstance(model, RiskModel) else ""),
        message=message,
        gradient_norm=None if single else gradient,
        details={
            "shrink": 1.0 if single else amount,
            "held_out_risk": None if watch is None else float(watch.best.sum()),
            "held_out_scalar_risk": None if watch is None else float(watch.scalar.sum()),
            "held_out_error": None if watch is None else watch.error,
            "degrees_of_freedom": u.size,
            "effective_degrees_of_freedom": None,
            "iterations": iterations,
            "gap": None if single or watch is not None else model.gap(descent, h),
            **({"best_scalar_risk": scalar, "n_probes": PROBES} if isinstance(model, RiskModel) else {}),
            **({} if isinstance(model, RiskModel) else {"best_two_parameter_likelihood": scalar}),
        },
    )


class Watch:
    """Held-out risk along a descent, and where it was smallest."""

    def __init__(self, risk: ColumnRisk, columns: SampleColumns, start: np.ndarray, shared: int) -> None:
        self.risk, self.columns, self.u, self.since, self.shared = risk, columns, start, 0, shared
        values = risk.column_values(start, columns)
        assert values is not None
        self.scalar = self.best = values

    def stop(self, u: np.ndarray) -> bool:
        """Whether the held-out risk has not fallen for some time."""
        each = self.risk.column_values(u, self.columns)
        self.since += 1
        if each is not None and each.sum() < self.best.sum():
            self.u, self.best, self.since = u, each, 0
        return self.since >= PATIENCE

    @property
    def error(self) -> float:
        """Standard error of the gain over signals; that of the probes is smaller by an order of magnitude."""
        return standard_error((self.scalar - self.best)[: -self.shared])

    @property
    def worthwhile(self) -> bool:
        """Whether the held-out gain exceeds its error."""
        return worthwhile(self.scalar - self.best, standard_errors=STANDARD_ERRORS, scattered=slice(-self.shared))


def _proximal(
    function: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray, h: np.ndarray
) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """The function plus ``1/2 sum_k h_k (u_k - start_k)^2``."""

    def with_pull(u: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = function(u)
        away = u - start
        return value + 0.5 * float(h @ away**2), gradient + h * away

    return with_pull


def best_scalar(risk: EdgeRisk, columns: SampleColumns) -> np.ndarray:
    """Unknowns of ``strength L`` with the strength, one for all edges, of the smallest risk on these columns."""
    L = risk.base.L
    weights = risk.support.of_operator(L)
    unit = float(risk.c.mean() / L.diagonal().mean())
    at, _ = minimize_between(lambda t: risk.value(unit * np.exp(t) * weights, columns), -10, 10, accuracy=1e-2)
    return unit * np.exp(at) * weights


def _signal_columns(signals: Any, second_moment: Any, n: int) -> np.ndarray:
    """Training signals, or columns with the given second moment."""
    if signals is None or second_moment is not None:
        return _root(moment(signals, second_moment, n, needs="edge")) * np.sqrt(n)
    return checks.signals("signals", signals, n).astype(np.float64).reshape(n, -1)


def _root(covariance: np.ndarray) -> np.ndarray:
    """A square matrix F with ``F F^T`` the covariance."""
    values, vectors = np.linalg.eigh(covariance)
    root: np.ndarray = vectors * np.sqrt(np.maximum(values, 0.0))
    return root
