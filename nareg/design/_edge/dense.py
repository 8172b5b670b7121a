"""Edge design with a Hessian: choose the shrinkage, descend by Newton's method, judge the result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from nareg.design._edge.newton import ConePoint, LikelihoodObjective, cone_status
from nareg.design._edge.rate_cone import RateCone, newton_at_rate
from nareg.design._edge.result import EdgeOutcome
from nareg.design._edge.shrinkage import (
    Choice,
    Family,
    Plain,
    choose,
    degrees_of_freedom,
    likelihood_family,
    likelihood_scale,
    risk_family,
    risk_of,
)
from nareg.design._edge.support import Support
from nareg.design._risk.descent import DescentResult
from nareg.design._risk.problem import STATIONARY, DesignProblem
from nareg.progress import Progress, ProgressCallback
from nareg.results import DesignDetails, Status

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
        details = outcome.details.copy()
        for name in CRITERION_VALUES:
            if name in details and (value := details[name]) is not None:
                details[name] = self._given(value, unit)
        if self.by_risk and details["held_out_error"] is not None:
            details["held_out_error"] *= unit
        # a filter's S has no unit; where there is no noise, S is the precision matrix
        factor = 1.0 if self.by_risk else likelihood_scale(self.task) / (unit * likelihood_scale(task))
        return replace(
            outcome, entries=factor * outcome.entries, objective=self._given(outcome.objective, unit), details=details
        )

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
        return EdgeOutcome(
            entries=scale * self.support.entries(point.u),
            objective=point.value,
            status=status,
            solver="damped Newton" + (", projected" if self.nonnegative else ""),
            message=message,
            gradient_norm=None if keeps_single else reached.gradient_norm,
            details=self._details(family, choice, point, scalar, reached, keeps_single),
        )

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


def _moment(X: np.ndarray) -> np.ndarray:
    """``X X^T / T``."""
    moment: np.ndarray = X @ X.T / X.shape[1]
    return moment
