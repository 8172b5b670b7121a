"""Local descent in the node weights: L-BFGS-B with the bounds on ``w_i^2`` kept by the sign of the start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from nareg._linear.threads import few_threads
from nareg.errors import SolverError
from nareg.progress import Progress, ProgressCallback

#: How SciPy's L-BFGS-B ended, by its status.
ENDINGS = {0: "the objective no longer falls", 1: "the iteration limit was reached", 2: "the line search found no lower point"}

ValueAndGradient = Callable[[np.ndarray], tuple[float, np.ndarray]]


@dataclass(frozen=True)
class DescentResult:
    """Where a descent ended. ``gradient_norm`` is the projected gradient's norm times ``||w||`` over the value."""

    w: np.ndarray
    value: float
    gradient_norm: float
    iterations: int
    message: str


@dataclass(frozen=True)
class Stationary:
    """Where a descent may end: the projected gradient's norm times ``length``, over the value, is below ``below``."""

    length: float
    below: float


def interval(start: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds on w that keep ``lower <= w_i^2 <= upper``: on the start's side of zero where lower > 0."""
    root_low, root_high = np.sqrt(lower), np.sqrt(upper)
    positive, negative = start >= 0, start < 0
    low = np.where((lower > 0) & positive, root_low, -root_high)
    high = np.where((lower > 0) & negative, -root_low, root_high)
    return low, high


def feasible(w: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Nearest weights with ``lower <= w_i^2 <= upper``, signs kept (a zero counts as positive)."""
    return np.where(w < 0, -1.0, 1.0) * np.clip(np.abs(w), np.sqrt(lower), np.sqrt(upper))


def descend(
    function: ValueAndGradient,
    start: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    *,
    max_iterations: int = 2000,
    tolerance: float = 1e-9,
    progress: ProgressCallback | None = None,
) -> DescentResult:
    """Minimize over weights from ``start`` (made feasible first). Ctrl-C keeps the best point reached."""
    start = feasible(start, lower, upper)
    low, high = interval(start, lower, upper)
    unit = float(np.abs(start).max()) or 1.0
    return descend_between(
        function, start, (low, high), unit=unit, max_iterations=max_iterations, tolerance=tolerance, progress=progress
    )


def descend_between(
    function: ValueAndGradient,
    start: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
    *,
    unit: float,
    stationary: Stationary | None = None,
    max_iterations: int,
    tolerance: float = 1e-9,
    progress: ProgressCallback | None = None,
) -> DescentResult:
    """L-BFGS-B between bounds from a point between them. Ctrl-C keeps the best point reached.

    ``unit`` is the length of the first step. Without ``stationary`` the gradient's norm counts times the norm of the
    unknowns over the value, and ends no descent.
    """
    low, high = bounds
    length = None if stationary is None else stationary.length
    function = _LastCall(function)
    first, _ = function(start)
    # value and unknowns of size one: the tolerances mean the same in every unit
    scale = abs(first) or 1.0
    best_value, best = first, start
    last = start
    count, reason = 0, ""

    def scaled(v: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best_value, best
        point = unit * v
        value, gradient = function(point)
        if not np.isfinite(value):
            raise SolverError(
                f"the objective became {value} at unknowns up to {np.abs(point).max():.3g}: pass a smaller upper bound."
            )
        if value < best_value:
            best_value, best = value, point
        return value / scale, gradient * (unit / scale)

    def record(v: np.ndarray) -> None:
        nonlocal count, last
        count, last = count + 1, unit * v
        if progress is not None or stationary is not None:
            norm = relative_gradient(last, *function(last), low, high, length)
            report(progress, count, best_value, norm)
            if stationary is not None and norm < stationary.below:
                stop("the projected gradient is small")

    def stop(why: str) -> None:
        nonlocal reason
        reason = why
        raise StopIteration  # how scipy is told to stop

    try:
        with few_threads(start.size):
            result = minimize(
                scaled,
                start / unit,
                jac=True,
                method="L-BFGS-B",
                bounds=np.column_stack([low, high]) / unit,
                callback=record,
                options={
                    "maxiter": max_iterations,
                    "maxfun": 4 * max_iterations,
                    "ftol": tolerance * 1e-3,
                    "gtol": tolerance,
                    "maxcor": 20,
                },
            )
        message = reason or ENDINGS[result.status]
    except KeyboardInterrupt:
        message = "interrupted"
    best = np.clip(best, low, high)  # scaling back may miss a bound by a rounding
    norm = relative_gradient(best, *function(best), low, high, length)
    return DescentResult(best, best_value, norm, count, message)


def report(progress: ProgressCallback | None, step: int, objective: float, gradient_norm: float) -> None:
    """Tell a step of a descent, with the norm of its gradient relative to the objective."""
    if progress is not None:
        progress(Progress("descent", step, values={"objective": objective, "gradient_norm": gradient_norm}))


class _LastCall:
    """The function, which remembers its last answer: callbacks ask again for the point just evaluated."""

    def __init__(self, function: ValueAndGradient) -> None:
        self.function = function
        self.w: np.ndarray | None = None
        self.answer: tuple[float, np.ndarray]

    def __call__(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        if self.w is None or not np.array_equal(w, self.w):
            self.w, self.answer = w.copy(), self.function(w)
        return self.answer


def relative_gradient(
    w: np.ndarray, value: float, gradient: np.ndarray, low: np.ndarray, high: np.ndarray, length: float | None = None
) -> float:
    """Norm of the gradient's part that points into the box, times ``||w||`` (or ``length``), over the value."""
    blocked = ((w <= low) & (gradient > 0)) | ((w >= high) & (gradient < 0))
    size = float(np.linalg.norm(w)) if length is None else length
    return float(np.linalg.norm(np.where(blocked, 0.0, gradient)) * size / (abs(value) or 1.0))
