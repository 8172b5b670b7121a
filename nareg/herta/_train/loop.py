"""Run an optimizer's steps: keep the curve, decide when to stop, keep the best weights."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from nareg.herta._train.method import Method
from nareg.herta._train.optimizers import Step
from nareg.herta._train.remaining_gap import SAFETY
from nareg.progress import Progress, ProgressCallback
from nareg.results import Status

#: Steps over which the loss must fall by more than ``tol`` times itself, where nothing better is known.
WINDOW = 4
#: Fall of the gradient after which the gap is looked at again, at most.
LEAST = 0.3
#: Optimizers whose loss falls with every step.
MONOTONE = ("direct", "pcg", "lbfgs")
#: Outputs are equal to targets to within so many times the accuracy of the inner solves.
REACHED = 5.0


@dataclass
class Curve:
    """What a run has seen so far."""

    W: torch.Tensor
    status: Status = Status.MAX_ITERATIONS
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    validation: list[float] | None = None
    W_is_last: bool = True
    first_gradient: float = 0.0
    next_proof: float = math.inf  # gradients above this are not worth another look at the gap
    taken: list[float] = field(default_factory=list)  # losses of steps that moved W


def run(
    method: Method, *, validation: Callable[[torch.Tensor], float] | None, clock: float, progress: ProgressCallback | None
) -> Curve:
    """Take steps until one of the reasons to stop holds; Ctrl-C is one of them.

    With validation the weights of the best accuracy are kept; else those of the lowest loss, or the last where the loss falls
    with every step or is stochastic.
    """
    steps, options = method.steps(), method.options
    last_is_best = method.stochastic or method.plan.optimizer in MONOTONE
    step = next(steps)
    curve = Curve(step.W, validation=None if validation is None else [], first_gradient=step.gradient)
    best, best_accuracy, since = math.inf, -math.inf, 0
    try:
        while True:
            seconds, finite = time.perf_counter() - clock, math.isfinite(step.loss)
            accuracy = validation(step.W) if validation is not None and finite else 0.0
            curve.losses.append(step.loss)
            curve.seconds.append(seconds)
            if curve.validation is not None:
                curve.validation.append(accuracy)
            if progress is not None:
                progress(Progress("training", len(curve.losses) - 1, options.max_iterations, values={"loss": step.loss}))
            if not finite:
                curve.status, curve.W_is_last = Status.DIVERGED, False
                return curve
            if curve.validation is not None:
                since = 0 if accuracy > best_accuracy else since + 1
                if accuracy > best_accuracy:
                    best_accuracy, curve.W = accuracy, step.W
                curve.W_is_last = curve.W is step.W
                if since >= options.patience:
                    curve.status = Status.STOPPED_EARLY
                    return curve
            elif step.trial:
                pass
            elif last_is_best or step.loss < best:
                best, curve.W, curve.W_is_last = min(best, step.loss), step.W, True
            else:
                curve.W_is_last = False
            if not step.trial:
                curve.taken.append(step.loss)
                status = _reason(step, curve, method)
                if status is not None:
                    curve.status = status
                    return curve
            if len(curve.losses) > options.max_iterations:
                return curve
            step = next(steps)
    except StopIteration:  # nothing left to gain, as far as the method can tell
        curve.next_proof = math.inf
        curve.status = _ended(step, curve, method.accuracy.tol) or Status.STALLED
    except KeyboardInterrupt:
        if not curve.losses:
            raise
        curve.status, curve.W_is_last = Status.INTERRUPTED, False  # it may have come before the last W was kept
    return curve


def _reason(step: Step, curve: Curve, method: Method) -> Status | None:
    """Why to stop here, if there is a reason."""
    task, tol, losses, loss = method.task, method.accuracy.tol, curve.taken, step.loss
    stop_below, zero = method.options.stop_below, max(tol, REACHED * method.accuracy.inner_tol)
    if stop_below is not None and loss <= stop_below:
        return Status.TARGET_REACHED
    if task.loss.name == "mse" and loss <= zero**2 * losses[0]:
        return Status.ZERO_LOSS
    # all nodes told apart, and nothing that bounds W: a growing multiple of it takes cross-entropy to zero
    far = task.weight_decay == 0 and step.outputs is not None and loss <= tol * losses[0]
    if far and step.outputs is not None and task.loss.separated(step.outputs):
        return Status.SEPARABLE
    if method.stochastic:
        return None
    settled = step.gap is not None or (len(losses) > WINDOW and abs(losses[-1 - WINDOW] - loss) <= tol * abs(loss))
    return _ended(step, curve, tol) if settled else None


def _ended(step: Step, curve: Curve, tol: float) -> Status | None:
    """Whether what is left to gain is small; where the gradient is, and nothing tells what is left, that it is not known."""
    bound = tol * abs(step.loss) / SAFETY
    if step.gap is not None:
        if step.gap <= bound and step.confirmed is not None:
            gap = step.confirmed()
            return Status.CONVERGED if gap is not None and gap <= bound else None
        return Status.CONVERGED if step.gap <= bound else None
    if not small_gradient(step.gradient, curve.first_gradient, tol) or step.gradient > curve.next_proof:
        return None
    gap = None if step.confirmed is None else step.confirmed()
    if gap is None:
        return Status.UNPROVED
    if gap <= bound:
        return Status.CONVERGED
    # gaps go with the gradient's square
    curve.next_proof = step.gradient * max(math.sqrt(bound / gap), LEAST)
    return None


def small_gradient(gradient: float, first: float, tol: float) -> bool:
    """Whether a gradient counts as zero beside the first: losses go with its square."""
    return gradient <= math.sqrt(tol) * first
