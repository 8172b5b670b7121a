"""Run an optimizer's steps: record the curve, decide when to stop, choose the weights to return."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from nareg.herta._curvature import SAFETY
from nareg.herta._method import TrainingMethod
from nareg.herta._optimizers import Step
from nareg.progress import Progress, ProgressCallback
from nareg.results import Status

#: Steps over which the loss must fall by more than ``tol`` times itself, where no gap is known.
PLATEAU = 4
#: Fall of the gradient, at most, after which the gap is computed again.
LEAST_FALL = 0.3
#: Optimizers whose loss falls with every step.
MONOTONE = ("direct", "pcg", "lbfgs")
#: Outputs count as equal to targets within this multiple of the accuracy of the inner solves.
TARGET_MARGIN = 5.0


@dataclass
class Curve:
    """The course of a run, and the weights to return."""

    W: torch.Tensor
    status: Status = Status.MAX_ITERATIONS
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    validation: list[float] | None = None
    last_returned: bool = True  # W is that of the last step
    first_gradient: float = 0.0
    gap_check_below: float = math.inf  # larger gradients are not worth another gap
    accepted: list[float] = field(default_factory=list)  # losses of steps that moved W


def run(
    method: TrainingMethod, *, validation: Callable[[torch.Tensor], float] | None, clock: float,
    progress: ProgressCallback | None,
) -> Curve:  # fmt: skip
    """Take steps until a stopping rule holds, or Ctrl-C.

    With validation the weights of the best accuracy are returned. Otherwise those of the lowest loss, or the last ones where
    the loss falls with every step or is stochastic.
    """
    steps, options = method.steps(), method.options
    last_is_best = method.stochastic or method.plan.optimizer in MONOTONE
    step = next(steps)
    curve = Curve(step.W, validation=None if validation is None else [], first_gradient=step.gradient)
    best, best_accuracy, steps_since_best = math.inf, -math.inf, 0
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
                curve.status, curve.last_returned = Status.DIVERGED, False
                return curve
            if curve.validation is not None:
                steps_since_best = 0 if accuracy > best_accuracy else steps_since_best + 1
                if accuracy > best_accuracy:
                    best_accuracy, curve.W = accuracy, step.W
                curve.last_returned = curve.W is step.W
                if steps_since_best >= options.patience:
                    curve.status = Status.STOPPED_EARLY
                    return curve
            elif step.trial:
                pass
            elif last_is_best or step.loss < best:
                best, curve.W, curve.last_returned = min(best, step.loss), step.W, True
            else:
                curve.last_returned = False
            if not step.trial:
                curve.accepted.append(step.loss)
                status = _stopping_status(step, curve, method)
                if status is not None:
                    curve.status = status
                    return curve
            if len(curve.losses) > options.max_iterations:
                return curve
            step = next(steps)
    except StopIteration:  # the method has no step that lowers the loss
        curve.gap_check_below = math.inf
        curve.status = _convergence(step, curve, method.accuracy.tol) or Status.STALLED
    except KeyboardInterrupt:
        if not curve.losses:
            raise
        curve.status, curve.last_returned = Status.INTERRUPTED, False  # perhaps before the last W was recorded
    return curve


def _stopping_status(step: Step, curve: Curve, method: TrainingMethod) -> Status | None:
    """The status to stop with after this step, if a rule holds."""
    task, tol, losses, loss = method.task, method.accuracy.tol, curve.accepted, step.loss
    stop_below, zero = method.options.stop_below, max(tol, TARGET_MARGIN * method.accuracy.inner_tol)
    if stop_below is not None and loss <= stop_below:
        return Status.TARGET_REACHED
    if task.loss.name == "mse" and loss <= zero**2 * losses[0]:
        return Status.ZERO_LOSS
    # classes separated, and nothing bounds W: growing multiples of it take cross-entropy to zero
    if task.weight_decay == 0 and step.outputs is not None and loss <= tol * losses[0] and task.loss.separated(step.outputs):
        return Status.SEPARABLE
    if method.stochastic:
        return None
    plateau = len(losses) > PLATEAU and abs(losses[-1 - PLATEAU] - loss) <= tol * abs(loss)
    return _convergence(step, curve, tol) if step.gap is not None or plateau else None


def _convergence(step: Step, curve: Curve, tol: float) -> Status | None:
    """CONVERGED where the gap is small; UNPROVED where the gradient is small and no gap can be computed."""
    bound = tol * abs(step.loss) / SAFETY
    if step.gap is None:  # losses and gaps go with the gradient's square
        candidate = step.gradient <= math.sqrt(tol) * curve.first_gradient and not step.gradient > curve.gap_check_below
    else:
        candidate = step.gap <= bound
    if not candidate:
        return None
    gap = step.gap if step.accurate_gap is None else step.accurate_gap()
    if gap is not None and gap <= bound:
        return Status.CONVERGED
    if step.gap is None:
        if gap is None:
            return Status.UNPROVED
        curve.gap_check_below = step.gradient * max(math.sqrt(bound / gap), LEAST_FALL)
    return None
