"""Edge design with a Hessian: choose the shrinkage, descend by Newton's method, judge the result.

Shrink an edge design towards one weight for all nodes, by an amount chosen on held-out signals.

N + M numbers fit the sampling noise of a few training signals. The risk is therefore blended with that of a model
for which the best single weight, ``S0 = tau L``, is the optimum:

    f_a(S) = (1 - a) tr((H - I) R (H - I)^T + H Sigma H^T) + a tr((H - H0) Q0 (H - H0)^T),   H0 = (C + S0)^-1 C
    R0 = mean(c sigma^2) (tau L)^+ + power measured in the null space of L,                     Q0 = R0 + Sigma

With ``C`` proportional to ``1 / Sigma`` H0 is the Wiener filter of R0, and f_a, up to a constant, the risk under the
second moment ``(1 - a) R + a R0``. A proximal term ``a / 200 sum_k h_k (u_k - u0_k)^2``, h the diagonal of the
Gauss-Newton matrix at S0, keeps weights finite that the risk alone would send to infinity (a node that should take
the mean of its neighbors). ``a = 1`` is the best single weight, ``a = 0`` the plain design.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from nareg._core import checks
from nareg._solvers.held_out import standard_error
from nareg._solvers.system import Penalty
from nareg.design._edge.cone import (
    ConeObjective,
    ConePoint,
    LikelihoodObjective,
    Proximal,
    RiskObjective,
    cone_floor,
    cone_status,
)
from nareg.design._edge.rate_cone import INSIDE, LOOSE, RateCone, barrier, newton_at_rate
from nareg.design._edge.result import EdgeOptions, EdgeOutcome
from nareg.design._edge.support import Support
from nareg.design._risk.checked import STANDARD_ERRORS, STATIONARY, DesignEnd
from nareg.design._risk.descent import DescentResult
from nareg.design._risk.newton import Limits, newton
from nareg.design._risk.problem import DesignProblem, problem
from nareg.design._risk.rate import NodeRate
from nareg.errors import InputError
from nareg.progress import Progress, ProgressCallback
from nareg.results import DesignDetails, Status

#: Amounts tried, from much to little: the risk is flat enough around its minimum for steps this wide.
AMOUNTS = (0.4, 0.1, 0.01)
#: Weight of the proximal term relative to a.
PROXIMAL = 0.01
#: Folds of consecutive signals held out in turn.
FOLDS = 2
#: The folds take turns at so many blocks of consecutive signals: each sees every season, neighboring days stay together.
BLOCKS = 10
#: A fold's design need not be exact: held-out risk moves little once a step gains less than this part.
ROUGH = 3e-3
ROUGH_ITERATIONS = 40

Plain = RiskObjective | LikelihoodObjective


@dataclass(frozen=True)
class Family:
    """Objectives for every amount of shrinkage: the training data's, and the model's with optimum ``start``."""

    data: Plain
    prior: Plain
    start: np.ndarray
    #: A convex relative whose minimum, times the factor, is a good start; the risk of S is not convex.
    relative: Callable[[float], LikelihoodObjective] | None = None
    factor: float = 1.0
    #: Where a rate keeps the unknowns, or None.
    cone: RateCone | None = None

    def at(self, amount: float) -> ConeObjective:
        """The objective blended by this amount."""
        blended = blend(self.data, self.prior, amount)
        if amount == 0:
            return blended
        point = self.prior.at(self.start)
        assert point is not None
        h, _ = self.prior.curvature(point)
        return Proximal(blended, PROXIMAL * amount * h, self.start)

    def first(self, amount: float, *, nonnegative: bool) -> np.ndarray:
        """The start: the single weight, or the minimum of the convex relative if that is better."""
        if self.relative is None:
            return self.start
        objective, relative = self.at(amount), self.relative(amount)
        ridge = relative.support.identity / float(np.diagonal(relative.R).mean())  # L alone is singular
        start = self.start / self.factor + ridge
        u = _rough(relative, None, start, nonnegative) * self.factor
        if self.cone is not None:
            u = self.start + self.cone.share(u - self.start, self.start) * (u - self.start)
        trial, plain = objective.at(u), objective.at(self.start)
        assert plain is not None
        return trial.u if trial is not None and trial.value < plain.value else self.start


def blend(data: Plain, prior: Plain, a: float) -> Plain:
    """``(1 - a) data + a prior`` for two risks or two likelihoods."""
    names = ("R",) if isinstance(data, LikelihoodObjective) else ("B", "D", "constant")
    changed: dict[str, Any] = {name: (1 - a) * getattr(data, name) + a * getattr(prior, name) for name in names}
    return replace(data, **changed)


@dataclass(frozen=True)
class Choice:
    """The amount of shrinkage, the losses that chose it, and a start near the design."""

    amount: float
    start: np.ndarray
    interrupted: bool = False
    held_out: float | None = None
    held_out_scalar: float | None = None
    error: float | None = None

    @property
    def worthwhile(self) -> bool:
        """Whether the held-out gain over one weight exceeds its error."""
        if self.held_out is None or self.held_out_scalar is None or self.error is None:
            return True
        return self.held_out_scalar - self.held_out > STANDARD_ERRORS * self.error


def risk_of(task: DesignProblem, support: Support) -> RiskObjective:
    """The mean squared error (11) as a function of u."""
    R, c = task.R, task.c
    cross = c[:, None] * R
    B = c[:, None] * (R + task.Sigma_matrix) * c
    return RiskObjective(support, c, B, (cross + cross.T) / 2, float(np.trace(R)))


def likelihood_scale(task: DesignProblem) -> float:
    """:func:`data_scale` of a problem; 1 without noise."""
    return 1.0 if task.Sigma is None else data_scale(task.c, np.diag(task.Sigma_matrix))


def data_scale(c: np.ndarray, variance: np.ndarray) -> float:
    """Mean of ``c sigma^2`` over the nodes with a data term; 1 where they have no noise.

    ``S = scale * Theta`` is the optimal filter's where ``C = scale / Sigma``.
    """
    return float(np.mean((c * variance)[c > 0])) or 1.0


def risk_family(task: DesignProblem, support: Support, L_unknowns: np.ndarray, cone: RateCone | None) -> Family:
    """Risks for a training second moment."""
    low, high = task.squared_bounds(None, None, default_lower=None)
    promise = None if cone is None else NodeRate(task.base, task.c, INSIDE * cone.rate, low, high)
    w = task.best_scalar(low, high, np.inf if promise is None else promise.largest_single)
    strength = float(np.min(w)) ** 2
    values, vectors = task.spectrum
    null = values <= 1e-9 * values[-1]
    power = np.einsum("ni,nm,mi->i", vectors, task.R, vectors)
    scale = likelihood_scale(task)
    model = np.where(null, power, scale / (strength * np.where(null, 1.0, values)))
    R0 = (vectors * model) @ vectors.T
    c = task.c
    H0 = np.linalg.solve(np.diag(c) + strength * task.L, np.diag(c))
    Q0 = R0 + task.Sigma_matrix
    cross = c[:, None] * Q0 @ H0.T
    B = c[:, None] * Q0 * c
    data = risk_of(task, support)
    prior = RiskObjective(support, c, B, (cross + cross.T) / 2, float(np.sum((H0 @ Q0) * H0)))
    Sigma = np.diag(task.Sigma_matrix)
    likely = np.ptp(c * Sigma) <= 1e-6 * np.max(c * Sigma) and np.max(Sigma) > 0

    def relative(amount: float) -> LikelihoodObjective:
        a = max(amount, AMOUNTS[-1])  # with fewer signals than nodes the likelihood has no maximum without a model
        return LikelihoodObjective(support, (1 - a) * task.R + a * R0)

    return Family(data, prior, strength * L_unknowns, relative if likely else None, scale, cone)


def likelihood_family(task: DesignProblem, support: Support, L_unknowns: np.ndarray) -> Family:
    """Likelihoods, shrunk to the best precision of the form ``kappa I + beta L``."""
    values, vectors = task.spectrum
    power = np.einsum("ni,nm,mi->i", vectors, task.R, vectors)
    unit, span = float(power.mean()), float(values[-1])

    def fitted(logs: np.ndarray) -> float:
        precision = np.exp(logs[0]) + np.exp(logs[1]) * values / span
        return float(np.sum(precision * power / unit - np.log(precision)))

    # bounds: a condition number below 10^8
    solution = minimize(fitted, [0.0, 0.0], method="L-BFGS-B", bounds=[(-9, 9)] * 2, options={"ftol": 1e-14, "gtol": 1e-9})
    kappa, beta = np.exp(solution.x) / unit
    start = (beta / span) * L_unknowns + kappa * support.identity
    R0 = (vectors / (kappa + beta * values / span)) @ vectors.T
    return Family(LikelihoodObjective(support, task.R), LikelihoodObjective(support, R0), start)


def choose(
    signals: np.ndarray,
    family_of: Callable[[np.ndarray], Family],
    held_out_of: Callable[[np.ndarray], Plain],
    *,
    nonnegative: bool,
) -> Choice:
    """The amount with the smallest mean held-out objective over folds, each made of blocks of consecutive signals.

    Both designs of a fold, with edge weights and with one weight, are judged on the signals that neither saw. The
    error is the standard error of the gain over all signals, each held out once.
    """
    blocks = np.array_split(np.arange(signals.shape[1]), BLOCKS)
    folds = [np.concatenate(blocks[first::FOLDS]) for first in range(FOLDS)]
    families = [family_of(np.delete(signals, fold, axis=1)) for fold in folds]
    judges = [held_out_of(signals[:, fold]) for fold in folds]
    scalar = np.array([_value(judge, family.start) for judge, family in zip(judges, families, strict=True)])
    points = [family.first(AMOUNTS[0], nonnegative=nonnegative) for family in families]
    best: tuple[float, float, np.ndarray, list[np.ndarray]] | None = None
    for amount in AMOUNTS:
        points = [_rough(family.at(amount), family.cone, u, nonnegative) for family, u in zip(families, points, strict=True)]
        values = np.array([_value(judge, u) for judge, u in zip(judges, points, strict=True)])
        if best is not None and values.mean() >= best[0]:
            break
        best = float(values.mean()), amount, values, points
    assert best is not None
    held_out, amount, values, points = best
    gain = np.concatenate(
        [
            _scatter(judge, family.start, signals[:, fold]) - _scatter(judge, u, signals[:, fold])
            for judge, family, u, fold in zip(judges, families, points, folds, strict=True)
        ]
    )
    error = standard_error(gain) / gain.size
    # the mean of positive definite K is positive definite, and near the design for all signals
    return Choice(amount, np.mean(points, axis=0), False, held_out, float(scalar.mean()), error)


def _rough(objective: ConeObjective, cone: RateCone | None, start: np.ndarray, nonnegative: bool) -> np.ndarray:
    """A point near the minimum; Ctrl-C is raised again."""
    if cone is not None:
        objective = barrier(objective, cone, start, LOOSE)
    reached = newton(objective, start, Limits(cone_floor(nonnegative), np.inf, 1e-4, ROUGH, ROUGH_ITERATIONS))
    if reached.message == "interrupted":
        raise KeyboardInterrupt
    return reached.w


def _value(objective: ConeObjective, u: np.ndarray) -> float:
    point = objective.at(u)
    return np.inf if point is None else point.value


def _scatter(objective: Plain, u: np.ndarray, X: np.ndarray) -> np.ndarray:
    """The objective of every signal, without what all signals share (the noise's part, the log-determinant)."""
    if isinstance(objective, LikelihoodObjective):
        return np.einsum("nt,nt->t", X, objective.support.matrix(u) @ X)
    point = objective.at(u)
    assert point is not None
    error = point.P @ (objective.c[:, None] * X) - X
    return np.einsum("nt,nt->t", error, error)


def degrees_of_freedom(family: Family, amount: float, point: ConePoint, *, nonnegative: bool) -> float:
    """Effective number of parameters: the trace of the data's share in the Gauss-Newton matrix.

    ``tr((1 - a) G_data G_a^-1)``, with G_a that of the blended objective; weights at the bound zero do not count.
    """
    free = point.u > 0 if nonnegative else np.ones(point.u.size, dtype=bool)
    if amount == 0 or not free.any():
        return float(free.sum())
    total = family.at(amount).gauss_newton(point)[np.ix_(free, free)]
    total[np.diag_indices_from(total)] *= 1 + 1e-9  # directions that no signal and no noise reach are singular
    share = family.data.gauss_newton(point)[np.ix_(free, free)]
    share = share + np.tril(share, -1).T
    try:
        solved = cho_solve(cho_factor(total, lower=True), share)
    except np.linalg.LinAlgError:  # singular beyond that: the data tell nothing of stations that are never observed
        solved = np.linalg.pinv(np.tril(total) + np.tril(total, -1).T, rcond=1e-10, hermitian=True) @ share
    return float((1 - amount) * np.trace(solved))


#: Fewer training signals than this are not worth splitting: the single weight is kept.
FEWEST = 4
#: The descent goes this far below the gradient that counts as converged.
TOLERANCE = 0.1 * STATIONARY
MAX_ITERATIONS = 300
#: Part of the signal and noise power below which nothing is left to gain: the risk is a difference of such terms.
NEGLIGIBLE = 1e-9
#: Values of the criterion among the details: they change with the unit of the signals.
CRITERION_VALUES: Final = ("held_out_risk", "held_out_scalar_risk", "best_scalar_risk", "best_two_parameter_likelihood")


@dataclass(frozen=True)
class DenseDesign:
    """Criterion and structure of a design on a small network."""

    task: DesignProblem
    support: Support
    by_risk: bool
    nonnegative: bool
    rate: float | None = None

    def family(self, R: np.ndarray) -> Family:
        """Objectives for a training second moment and every amount of shrinkage."""
        task, L = replace(self.task, R=R), self.support.of_operator(self.task.base.L)
        if not self.by_risk:
            return likelihood_family(task, self.support, L)
        cone = None if self.rate is None else RateCone(self.support, task.c, self.rate)
        return risk_family(task, self.support, L, cone)

    def judge(self, R: np.ndarray) -> Plain:
        """The plain objective for a second moment."""
        return risk_of(replace(self.task, R=R), self.support) if self.by_risk else LikelihoodObjective(self.support, R)

    def choice(self, X: np.ndarray | None, family: Family, amount: float | None) -> Choice:
        """The amount of shrinkage (None: chosen on held-out signals), and the start."""
        if amount is None and X is None:
            amount = 0.0  # nothing to hold out
        if amount is not None:
            return Choice(amount, family.first(amount, nonnegative=self.nonnegative))
        assert X is not None
        if X.shape[1] < FEWEST:
            return Choice(1.0, family.start)
        return choose(
            X, lambda part: self.family(_moment(part)), lambda part: self.judge(_moment(part)), nonnegative=self.nonnegative
        )

    def solve(self, X: np.ndarray | None, amount: float | None, progress: ProgressCallback | None) -> EdgeOutcome:
        """The design for a given shrinkage; None chooses it on signals X.

        Solved in the unit in which the signals' mean power is one: whatever is rounded or stopped early, readings in
        another unit get the same design.
        """
        unit = float(np.trace(self.task.R)) / self.support.n
        Sigma = self.task.Sigma
        task = replace(self.task, R=self.task.R / unit, Sigma=None if Sigma is None else Sigma / unit)

        def in_given_unit(now: Progress) -> None:
            assert progress is not None
            progress(replace(now, values={**now.values, "objective": self._given(now.values["objective"], unit)}))

        outcome = replace(self, task=task)._solve(
            None if X is None else X / np.sqrt(unit), amount, None if progress is None else in_given_unit
        )
        details = outcome.end.details.copy()
        for name in CRITERION_VALUES:
            if name in details and (value := details[name]) is not None:
                details[name] = self._given(value, unit)
        if self.by_risk and details["held_out_error"] is not None:
            details["held_out_error"] *= unit
        # a filter's S has no unit; where there is no noise, S is the precision matrix
        factor = 1.0 if self.by_risk else likelihood_scale(self.task) / (unit * likelihood_scale(task))
        return replace(outcome, objective=self._given(outcome.objective, unit)).reported(details, factor=factor)

    def _given(self, value: float, unit: float) -> float:
        """A value of the criterion in the unit of the signals as they were given."""
        return value * unit if self.by_risk else value + self.support.n * float(np.log(unit))

    def _solve(self, X: np.ndarray | None, amount: float | None, progress: ProgressCallback | None) -> EdgeOutcome:
        family = self.family(self.task.R)
        scalar = family.data.at(family.start)
        assert scalar is not None
        try:
            choice = self.choice(X, family, amount)
        except KeyboardInterrupt:
            choice = Choice(1.0, family.start, interrupted=True)
        descends = choice.worthwhile and choice.amount < 1.0
        reached = newton_at_rate(
            family.at(choice.amount),
            family.cone,
            choice.start if descends else family.start,
            nonnegative=self.nonnegative,
            tolerance=TOLERANCE,
            max_iterations=MAX_ITERATIONS if descends else 0,
            progress=progress,
        )
        point = family.data.at(reached.w)
        assert point is not None
        status, message = self._status(reached, point.value), reached.message
        keeps_single = not descends or point.value > scalar.value
        if keeps_single:
            point, message = scalar, f"the best {'single weight' if self.by_risk else 'kappa I + beta L'} is kept"
            status = Status.INTERRUPTED if status is Status.INTERRUPTED else Status.NO_IMPROVEMENT
        if choice.interrupted:
            status = Status.INTERRUPTED
        scale = 1.0 if self.by_risk else likelihood_scale(self.task)
        solver = "damped Newton" + (", projected" if self.nonnegative else "")
        gradient = None if keeps_single else reached.gradient_norm
        details = self._details(family, choice, point, scalar, reached, keeps_single)
        end = DesignEnd(status, solver, message, gradient, details)
        return EdgeOutcome(scale * self.support.entries(point.u), point.value, end)

    def _status(self, reached: DescentResult, value: float) -> Status:
        """How the descent ended."""
        # a gradient is small against what there is to lose: a risk this small is a minimum whatever rounding leaves
        negligible = self.by_risk and value <= NEGLIGIBLE * (float(np.trace(self.task.R)) + self.task.noise_power)
        return cone_status(replace(reached, gradient_norm=0.0) if negligible else reached)

    def _details(
        self, family: Family, choice: Choice, point: ConePoint, scalar: ConePoint, reached: DescentResult, keeps_single: bool
    ) -> DesignDetails:
        amount = 1.0 if keeps_single else choice.amount
        single = 1.0 if self.by_risk else 2.0
        effective = single if keeps_single else degrees_of_freedom(family, amount, point, nonnegative=self.nonnegative)
        details: DesignDetails = {
            "shrink": amount,
            "held_out_risk": choice.held_out,
            "held_out_scalar_risk": choice.held_out_scalar,
            "held_out_error": choice.error,
            "degrees_of_freedom": point.u.size,
            "effective_degrees_of_freedom": effective,
            "iterations": reached.iterations,
        }
        details["best_scalar_risk" if self.by_risk else "best_two_parameter_likelihood"] = scalar.value
        return details


def design(
    base: Penalty, support: Support, *, signals: Any, second_moment: Any, noise: Any, data_weight: Any, options: EdgeOptions
) -> tuple[EdgeOutcome, np.ndarray]:
    """Outcome and data term."""
    task = problem(base, signals=signals, second_moment=second_moment, noise=noise, data_weight=data_weight, needs="edge")
    if not np.trace(task.R) > 0:
        raise InputError("signals (or second_moment) are zero everywhere: there is no signal to design for.")
    X = None if signals is None else checks.signals("signals", signals, base.n_nodes).astype(float).reshape(base.n_nodes, -1)
    dense = DenseDesign(task, support, options.by_risk, options.nonnegative, options.rate)
    outcome = dense.solve(X, options.shrink, options.progress)
    if options.rate is not None:
        outcome = outcome.reported(RateCone(support, task.c, options.rate).certified(outcome.entries))
    return outcome, task.c


def _moment(X: np.ndarray) -> np.ndarray:
    """``X X^T / T``."""
    return X @ X.T / X.shape[1]
