"""Report a training: loss, gradient and gap of the returned weights by accurate solves, and the status that these allow."""

from __future__ import annotations

import time

import numpy as np
import torch

from nareg.herta._model.losses import SquaredError
from nareg.herta._model.unfolded import Implicit
from nareg.herta._train.loop import Curve
from nareg.herta._train.method import TrainingMethod
from nareg.herta._train.remaining_gap import newton_decrement
from nareg.herta._train.result import TrainingResult
from nareg.results import Status

#: Multiple of the tolerance above which a gap by accurate solves says that loose inner solves stopped the run.
STALLED_ABOVE = 10.0
#: Accuracy of the inner solves of a gap, of which two digits are enough.
GAP_TOL = 1e-4
#: The end of the reason of a run without a preconditioner that continued with one.
CONTINUED = "; then the exact one, because a small gradient proves too little"


def report(method: TrainingMethod, curve: Curve, timings: dict[str, float]) -> TrainingResult:
    """The result of a run, computed in double precision whatever the dtype of the training."""
    began = time.perf_counter()
    task, plan, problem, P = method.task, method.plan, method.problem, method.preconditioner
    system, features, W = task.system.in_double(), task.features.in_double(), curve.W.double()
    before, tight = system.products, max(problem.tol * 1e-2, system.floor)
    Z = system.solve(features.times(W), tol=tight)
    outputs = Z[task.train]
    value = task.loss.value(outputs) + 0.5 * task.weight_decay * float((W**2).sum())
    model = Implicit(system, features, task.train)
    pulled = model.adjoint(task.loss.gradient(outputs), tight)
    gradient = pulled + task.weight_decay * W
    rank = None if plan.given or task.weight_decay else P.rank
    if method.refresh is not None:
        P = method.refresh.up_to_date(outputs.to(curve.W.dtype))
    known = bool(P.factors) and not plan.given
    estimate = P.gap(gradient) if known else None
    if known and not isinstance(task.loss, SquaredError):

        def hessian(V: torch.Tensor) -> torch.Tensor:
            curved = task.loss.hessian(outputs, model.apply(V, GAP_TOL))
            return model.adjoint(curved, GAP_TOL) + task.weight_decay * V

        estimate = newton_decrement(gradient, P, hessian)
    if not known and curve.status is Status.CONVERGED:
        estimate = method.gap_estimator.gap(outputs.to(curve.W.dtype), gradient, method.accuracy.tol * value)
    gap = None if estimate is None else min(estimate, value)  # no loss is below zero
    status, judged = curve.status, not method.stochastic and (curve.last_returned or curve.validation is None)
    if judged and not _holds(method, curve, value, gap, task.loss.separated(outputs)):
        status = Status.STALLED
    other_products = system.products - before if system is not task.system else 0
    timings["outputs"] = time.perf_counter() - began
    losses = np.array(curve.losses)
    if curve.last_returned:
        losses[-1] = value
    return TrainingResult(
        weights=task.returned(curve.W), outputs=task.returned(Z.to(curve.W.dtype)), loss=value, losses=losses,
        seconds=np.array(curve.seconds), status=status, optimizer=plan.optimizer, preconditioner=plan.preconditioner,
        reason=plan.reason + (CONTINUED if method.gap_estimator.used else ""), condition=method.condition(), gap=gap,
        gradient_norm=float(gradient.norm()), rank=rank, evaluations=problem.evaluations,
        hessian_products=problem.hessian_products, products=task.system.products + other_products,
        validation=None if curve.validation is None else np.array(curve.validation), lam=task.system.lam, timings=timings,
    )  # fmt: skip


def _holds(method: TrainingMethod, curve: Curve, value: float, gap: float | None, separated: bool) -> bool:
    """Whether accurate solves confirm the status."""
    tol, stop_below = method.accuracy.tol, method.options.stop_below
    if curve.status is Status.ZERO_LOSS:
        return value <= tol * curve.losses[0]
    if curve.status is Status.SEPARABLE:
        return separated and value <= STALLED_ABOVE * tol * curve.losses[0]
    if curve.status is Status.TARGET_REACHED and stop_below is not None:
        return value <= stop_below + STALLED_ABOVE * tol * abs(value)
    return curve.status is not Status.CONVERGED or (gap is not None and gap <= STALLED_ABOVE * tol * value)
