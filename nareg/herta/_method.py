"""Build a method of training: the map from weights to outputs, its preconditioner, and the optimizer's steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch

from nareg.herta import _build as build
from nareg.herta import _optimizers as optimizers
from nareg.herta._curvature import SAFETY, GapEstimator, Ritz, spectrum
from nareg.herta._inputs import TrainingInputs
from nareg.herta._objective import Dropped, Formed, Implicit, SquaredError, TrainingProblem, form
from nareg.herta._optimizers import Refresh, Step
from nareg.herta._options import Optimizer
from nareg.herta._plan import Accuracy, Plan
from nareg.herta._preconditioner import GramFactor, Preconditioner

#: Default learning rates: Adam's in W', plain Adam's, and gradient descent's as a share of 2 / (L + mu).
ADAM, PLAIN_ADAM, RATE_MARGIN = 0.1, 0.01, 0.95
#: Directions in which a formed F is shorter than this times eps are rounding.
ROUNDING = 100.0


class TrainingMethod:
    """A plan carried out: everything that training needs, built.

    Attributes
    ----------
    task, plan, accuracy, options
        As passed.
    problem : TrainingProblem
    preconditioner : Preconditioner
        At the start.
    refresh : WeightedGram or None
        Renews it as the outputs change.
    gap_estimator : GapEstimator
        Computes the gap where the optimizer does not know it.
    stochastic : bool
        The loss is random (dropout), so that convergence cannot be judged.
    condition : callable
        Condition number of the preconditioned Hessian, or None.
    """

    def __init__(
        self, task: TrainingInputs, plan: Plan, accuracy: Accuracy, options: Optimizer,
        preconditioner: str | Preconditioner, *, rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self.task, self.plan, self.accuracy, self.options, self._rng = task, plan, accuracy, options, rng
        self.refresh: build.WeightedGram | None = None
        self.condition: Callable[[], float | None] = lambda: None
        self.stochastic = options.dropout > 0
        self._prepare(preconditioner)
        self.gap_estimator = GapEstimator(task, accuracy.rows, accuracy.inner_tol, continues=preconditioner == "auto", rng=rng)

    def _prepare(self, preconditioner: str | Preconditioner) -> None:
        """Build problem and preconditioner."""
        task, model = self.task, Implicit(self.task.system, self.task.features, self.task.train)
        mapped: Implicit | Formed = model
        if isinstance(preconditioner, Preconditioner):
            self.preconditioner = preconditioner
        else:
            mapped, self.preconditioner = self._build(model)
        if self.stochastic and isinstance(mapped, Implicit):
            mapped = Dropped(mapped, self.options.dropout, self._generator())
        tol = self.accuracy.inner_tol
        self.problem = TrainingProblem(mapped, task.loss, task.features, weight_decay=task.weight_decay, tol=tol)

    def _generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(int(self._rng.integers(2**63 - 1)))

    def _build(self, model: Implicit | Formed) -> tuple[Implicit | Formed, Preconditioner]:
        """The map J and the preconditioner at the start."""
        task, plan, tol = self.task, self.plan, self.accuracy.inner_tol
        if plan.preconditioner == "none" and not plan.formed:
            return model, Preconditioner()
        n_train, decay = task.train.numel(), task.weight_decay
        rows = min(self.accuracy.rows, n_train) if plan.preconditioner == "sketched" else n_train
        if plan.optimizer == "direct":
            F = form(task.system, task.features, task.train, tol=tol)
            # conjugate gradients with a nearly exact preconditioner: one step, and refinement of the ridge's error
            factor = GramFactor(F, ridge=(ROUNDING * torch.finfo(F.dtype).eps) ** 2, weight_decay=decay)
            return Formed(F), Preconditioner([factor], "none", F.shape[0], in_row_space=True)
        if isinstance(task.loss, SquaredError):
            sketched = self.accuracy.rows if plan.preconditioner == "sketched" else None
            return model, build.squared(
                task.system, task.features, task.train, rows=sketched, tight=tol, weight_decay=decay, rng=self._rng
            )
        part = torch.as_tensor(np.sort(self._rng.choice(n_train, rows, replace=False)), device=task.train.device)
        if plan.formed:
            F = form(task.system, task.features, task.train, tol=tol)
        else:
            F = build.propagated(task.system, task.features, task.train[part], tight=tol)
            build.check_sketch(task.system, task.features, task.train, F, rng=self._rng)
        self.refresh = build.WeightedGram(
            F, part, n_train, task.loss, weight_decay=decay, kind=plan.preconditioner, by_output=plan.by_output
        )
        P = self.refresh(torch.zeros((n_train, task.loss.n_outputs), dtype=F.dtype, device=F.device))
        return Formed(F) if plan.formed else model, P

    def steps(self) -> Iterator[Step]:
        """The optimizer's steps, each with its gap or a way to compute it."""
        return map(self._with_gap, self._steps())

    def _with_gap(self, step: Step) -> Step:
        if step.gap is not None and not self.plan.given:
            return step

        def accurate_gap() -> float | None:
            loss, gradient, Z = self.problem.evaluate(step.W)
            return self.gap_estimator.gap(Z, gradient, self.accuracy.tol * loss / SAFETY)

        return replace(step, gap=None, accurate_gap=accurate_gap)

    def _steps(self) -> Iterator[Step]:
        task, problem, P, optimizer = self.task, self.problem, self.preconditioner, self.plan.optimizer
        W, rate = problem.zeros(task.like), self.options.learning_rate
        plain = self.plan.preconditioner == "none" and optimizer == "lbfgs"
        refresh: Refresh | None = self.gap_estimator if plain else self.refresh
        if self.stochastic:  # outputs without some features do not have the curvature at W
            refresh = None
        if optimizer in ("pcg", "direct"):
            ritz = Ritz()
            if optimizer == "pcg":
                self.condition = ritz.condition
            return optimizers.conjugate_gradients(problem, P, W, ritz, fresh=optimizer == "direct")
        if optimizer == "lbfgs":
            return optimizers.lbfgs(problem, P, W, refresh=refresh)
        if optimizer == "adam":
            return optimizers.adam(problem, P, W, lr=rate or (ADAM if P.factors else PLAIN_ADAM), refresh=refresh)
        if rate is None and refresh is not None:
            return optimizers.searched_descent(problem, P, W, refresh=refresh)
        return optimizers.gradient_descent(problem, P, W, step=rate or self._safe_rate(), refresh=refresh)

    def _safe_rate(self) -> float:
        """Learning rate of gradient descent from the ends of the spectrum."""
        like, n_outputs = self.task.like, self.task.loss.n_outputs
        Z = torch.zeros((self.task.train.numel(), n_outputs), dtype=like.dtype, device=like.device)
        values = spectrum(self.problem, Z, self.preconditioner, generator=self._generator())
        if values.size == 0:  # features that propagate to zero: any step does
            return 1.0
        low, high = float(values.min()), float(values.max())
        self.condition = lambda: high / low
        if isinstance(self.task.loss, SquaredError):
            return RATE_MARGIN * 2 / (low + high)
        # cross-entropy's second derivative is (I - 1 1^T / C) / C at W = 0 and never above (I - 1 1^T / C) / 2 (Bohning 1992)
        return RATE_MARGIN * 2 / (n_outputs * high)
