"""Early stopping by cross-validation, for designs on dense matrices.

Minimizing N weights over few signals or readings fits their accidents. The columns are split into folds; each in
turn is held out while a descent runs on the rest, and the number of steps that is best on average is the number
that the final descent on all columns takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nareg._linear.held_out import worthwhile
from nareg.design._risk.descent import descend
from nareg.design._risk.groups import Groups
from nareg.design._risk.problem import DesignProblem
from nareg.design._risk.selection import STANDARD_ERRORS
from nareg.design._risk.starts import best_scalar
from nareg.progress import ProgressCallback
from nareg.results import Status, WeightDesign

#: Fewer columns than this are not worth splitting.
FEWEST = 8
#: A validation descent ends after this many steps without a smaller held-out risk.
PATIENCE = 15
MAX_STEPS = 200


@dataclass(frozen=True)
class Steps:
    """How many steps pay, the mean held-out risk there, and its standard error over folds."""

    count: int
    held_out: float
    error: float


#: Take no step: keep the best single weight.
KEEP = Steps(0, np.nan, np.nan)


def split(n_columns: int, folds: int, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and held-out columns of every fold."""
    everything = np.arange(n_columns)
    parts = np.array_split(rng.permutation(everything), min(folds, n_columns // 2))
    return [(np.setdiff1d(everything, part), part) for part in parts]


def choose_steps(pairs: list[tuple[DesignProblem, DesignProblem]], low: np.ndarray, high: np.ndarray, groups: Groups) -> Steps:
    """The number of descent steps with the smallest mean risk on held-out columns; 0 unless it pays."""
    curves = [_validation_curve(train, held_out, low, high, groups) for train, held_out in pairs]
    length = max(map(len, curves))
    # a descent that ended early stays where it ended
    table = np.array([np.pad(curve, (0, length - len(curve)), mode="edge") for curve in curves])
    steps = int(np.argmin(table.mean(axis=0)))
    gain = table[:, 0] - table[:, steps]
    # the folds' common noise cancels in the gain; keep the single weight unless the gain exceeds its error
    if not worthwhile(gain, standard_errors=STANDARD_ERRORS):
        steps = 0
    held_out = table[:, steps]
    return Steps(steps, float(held_out.mean()), float(held_out.std(ddof=1) / np.sqrt(len(pairs))))


def _validation_curve(
    train: DesignProblem, held_out: DesignProblem, low: np.ndarray, high: np.ndarray, groups: Groups
) -> np.ndarray:
    """Risk on held-out columns after each step of the descent on the others; entry 0 is the best scalar."""
    curve: list[float] = []

    def watch(w: np.ndarray) -> bool:
        curve.append(held_out.mse(w))
        return len(curve) - 1 - int(np.argmin(curve)) >= PATIENCE

    start = groups.reduce_start(best_scalar(train, low, high)[0])
    objective = groups.tied(train.mse_and_gradient)
    descend(objective, start, *groups.bounds(low, high), max_iterations=MAX_STEPS, watch=groups.watched(watch))
    return np.array(curve)


def finish(
    method: str,
    task: DesignProblem,
    steps: Steps,
    low: np.ndarray,
    high: np.ndarray,
    groups: Groups,
    *,
    progress: ProgressCallback | None,
    solver: str,
    names: tuple[str, str],
    details: dict[str, Any] | None = None,
) -> WeightDesign:
    """Take so many steps on all columns, and pack what came out."""
    start, scalar = best_scalar(task, low, high)
    gradient: float | None
    if steps.count:
        tied = groups.tied(task.mse_and_gradient)
        begin, bounds = groups.reduce_start(start), groups.bounds(low, high)
        result = descend(tied, begin, *bounds, max_iterations=steps.count, progress=progress)
        w, message, gradient = groups.expand(result.last), result.message, result.gradient_norm
        status = Status.INTERRUPTED if message == "interrupted" else Status.STOPPED_EARLY
    else:
        w, message, gradient, status = start, "the best single weight is kept", None, Status.NO_IMPROVEMENT
    objective = task.mse(w)
    return task.pack(
        method,
        w,
        objective,
        status,
        lower=low,
        upper=high,
        solver=solver,
        solver_status=message,
        gradient_norm=gradient,
        details={
            "steps": steps.count,
            names[0]: steps.held_out,
            names[1]: steps.error,
            "optimism": steps.held_out - objective,
            "best_scalar_mse": scalar,
            "degrees_of_freedom": groups.count,
            **(details or {}),
        },
    )
