"""Run an optimiser's steps: keep the curve, decide when to stop, keep the best weights."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

from nareg.herta.optimizers import Step
from nareg.herta.training import TrainingStatus

#: Steps over which the loss must fall by more than ``tol`` times itself, where nothing better is known.
WINDOW = 4
#: Ratio of the true gap to its estimate with a preconditioner, at most: the smallest preconditioned eigenvalue is above 0.1.
SAFETY = 10.0


@dataclass
class Curve:
    """What a run has seen so far."""

    W: torch.Tensor
    status: TrainingStatus = TrainingStatus.MAX_ITERATIONS
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    validation: list[float] | None = None
    W_is_last: bool = True
    taken: list[float] = field(default_factory=list)  # losses of steps that moved W


def drive(
    steps: Iterator[Step],
    *,
    tol: float,
    most: int,
    stop_below: float | None,
    watched: Callable[[torch.Tensor], float] | None,
    patience: int,
    clock: float,
    progress: Callable[[int, float], None] | None,
    separable: bool,
    monotone: bool,
    random: bool,
) -> Curve:
    """Take steps until one of the reasons to stop holds; Ctrl-C is one of them.

    ``monotone`` methods return their last weights and stop when the loss does no longer fall; the others run on and
    return their best, or where the loss is ``random`` their last. With validation the weights of the best accuracy are
    returned.
    """
    step = next(steps)
    curve = Curve(step.W, validation=None if watched is None else [])
    best, best_accuracy, since = math.inf, -math.inf, 0
    try:
        while True:
            curve.losses.append(step.loss)
            curve.seconds.append(time.perf_counter() - clock)
            if progress is not None:
                progress(len(curve.losses) - 1, step.loss)
            if not math.isfinite(step.loss):
                curve.status, curve.W_is_last = TrainingStatus.DIVERGED, False
                return curve
            if watched is not None and curve.validation is not None:
                accuracy = watched(step.W)
                curve.validation.append(accuracy)
                since = 0 if accuracy > best_accuracy else since + 1
                if accuracy > best_accuracy:
                    best_accuracy, curve.W = accuracy, step.W
                curve.W_is_last = curve.W is step.W
                if since >= patience:
                    curve.status = TrainingStatus.EARLY_STOP
                    return curve
            elif step.trial:
                pass
            elif monotone or random or step.loss < best:
                best, curve.W, curve.W_is_last = min(best, step.loss), step.W, True
            else:
                curve.W_is_last = False
            if not step.trial:
                curve.taken.append(step.loss)
            status = None if step.trial else _reason(curve.taken, step.gap, tol, stop_below, separable, monotone)
            if status is not None:
                curve.status = status
                return curve
            if len(curve.losses) > most:
                return curve
            step = next(steps)
    except StopIteration:  # nothing left to gain, as far as the method can tell
        done = step.gap is None or SAFETY * step.gap <= tol * abs(step.loss)
        curve.status = TrainingStatus.CONVERGED if done else TrainingStatus.STALLED
    except KeyboardInterrupt:
        curve.status = TrainingStatus.INTERRUPTED
    return curve


def _reason(
    losses: list[float], gap: float | None, tol: float, stop_below: float | None, separable: bool, monotone: bool
) -> TrainingStatus | None:
    """Why to stop here, if there is a reason."""
    loss = losses[-1]
    if stop_below is not None and loss <= stop_below:
        return TrainingStatus.TARGET
    if loss <= tol * losses[0]:
        return TrainingStatus.SEPARABLE if separable and losses[0] > 0 else TrainingStatus.ZERO_LOSS
    if gap is not None:
        return TrainingStatus.CONVERGED if SAFETY * gap <= tol * abs(loss) else None
    if monotone and len(losses) > WINDOW and losses[-1 - WINDOW] - loss <= tol * abs(loss):
        return TrainingStatus.CONVERGED
    return None
