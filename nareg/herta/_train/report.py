"""Report a training: loss, gradient and gap of the returned weights by accurate solves, and the status that these allow."""

from __future__ import annotations

import time

import numpy as np

from nareg.herta._model.unfolded import Implicit
from nareg.herta._train.loop import Curve
from nareg.herta._train.method import Method
from nareg.herta._train.result import TrainingResult
from nareg.results import Status

#: A converged run whose gap, by accurate solves, is above so many times its tolerance was stopped by its inner solves.
UNNOTICED = 10.0


def report(method: Method, curve: Curve, timings: dict[str, float]) -> TrainingResult:
    """The result of a run; computed in double precision, whatever the training was in."""
    began = time.perf_counter()
    task, plan, problem, proof, P = method.task, method.plan, method.problem, method.proof, method.preconditioner
    system, features, W = task.system.doubled(), task.features.doubled(), curve.W.double()
    before, tight = system.products, max(problem.tol * 1e-2, system.floor)
    Z = system.solve(features.times(W), tol=tight)
    outputs = Z[task.train]
    value = task.loss.value(outputs) + 0.5 * task.weight_decay * float((W**2).sum())
    pulled = Implicit(system, features, task.train).adjoint(task.loss.gradient(outputs), tight)
    gradient = pulled + task.weight_decay * W
    rank = None if plan.given or task.weight_decay or plan.optimizer.startswith("algorithm-1") else P.rank
    if method.refresh is not None:
        P = method.refresh.anew(outputs.to(curve.W.dtype))
    known = bool(P.factors) and not plan.given
    estimate = P.gap(gradient) if known else None
    if not known and curve.status is Status.CONVERGED:
        estimate = proof.gap(outputs.to(curve.W.dtype), gradient, method.accuracy.tol * value)
    gap = None if estimate is None else min(estimate, value)  # no loss is below zero
    status, judged = curve.status, not method.stochastic and (curve.W_is_last or curve.validation is None)
    if judged and not _holds(method, curve, value, gap, task.loss.separated(outputs)):
        status = Status.STALLED
    elsewhere = problem.elsewhere + (system.products - before if system is not task.system else 0)
    timings["outputs"] = time.perf_counter() - began
    losses = np.array(curve.losses)
    if curve.W_is_last:
        losses[-1] = value
    return TrainingResult(
        weights=task.returned(curve.W),
        outputs=task.returned(Z.to(curve.W.dtype)),
        loss=value,
        losses=losses,
        seconds=np.array(curve.seconds),
        status=status,
        optimizer=plan.optimizer,
        preconditioner=plan.preconditioner,
        reason=plan.reason + ("; then the exact one, because the gradient said too little" if proof.taken else ""),
        condition=method.condition(),
        gap=gap,
        gradient_norm=float(gradient.norm()),
        rank=rank,
        evaluations=problem.evaluations,
        hessian_products=problem.hessian_products,
        products=task.system.products + elsewhere,
        validation=None if curve.validation is None else np.array(curve.validation),
        lam=task.system.lam,
        timings=timings,
    )


def _holds(method: Method, curve: Curve, value: float, gap: float | None, separated: bool) -> bool:
    """Whether accurate solves say what the status says."""
    tol, stop_below = method.accuracy.tol, method.options.stop_below
    if curve.status is Status.ZERO_LOSS:
        return value <= tol * curve.losses[0]
    if curve.status is Status.SEPARABLE:
        return separated and value <= UNNOTICED * tol * curve.losses[0]
    if curve.status is Status.TARGET_REACHED and stop_below is not None:
        return value <= stop_below + UNNOTICED * tol * abs(value)
    return curve.status is not Status.CONVERGED or (gap is not None and gap <= UNNOTICED * tol * value)
