"""Local descent in the node weights: L-BFGS-B with the bounds on ``w_i^2`` kept by the sign of the start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from nareg.errors import SolverError

#: Below this many unknowns matrix products are too small to share among threads: one thread is twice as fast.
ONE_THREAD = 500

ValueAndGradient = Callable[[np.ndarray], tuple[float, np.ndarray]]
#: ``progress(iteration, objective, relative gradient norm)``
Progress = Callable[[int, float, float], None]


def few_threads(size: int) -> threadpool_limits:
    """Context in which the linear algebra of small problems runs in one thread."""
    return threadpool_limits(limits=1 if size < ONE_THREAD else None, user_api="blas")


@dataclass(frozen=True)
class Descent:
    """Where a descent ended. ``gradient_norm`` is the projected gradient's norm times ``||w||`` over the value."""

    w: np.ndarray
    value: float
    gradient_norm: float
    iterations: int
    message: str
    last: np.ndarray


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
    watch: Callable[[np.ndarray], bool] | None = None,
    progress: Progress | None = None,
) -> Descent:
    """Minimise from ``start`` (made feasible first). Ctrl-C keeps the best point reached.

    ``watch(w)`` sees the start and every iterate and may return True to stop there.
    """
    start = feasible(start, lower, upper)
    low, high = interval(start, lower, upper)
    first, _ = function(start)
    # value and unknowns of size one: the tolerances mean the same in every unit
    scale = abs(first) or 1.0
    unit = float(np.abs(start).max()) or 1.0
    best_value, best_w = first, start
    last = start
    count = 0

    def scaled(v: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best_value, best_w
        w = unit * v
        value, gradient = function(w)
        if not np.isfinite(value):
            raise SolverError(f"the objective became {value} at |w| up to {np.abs(w).max():.3g}: pass a smaller upper bound.")
        if value < best_value:
            best_value, best_w = value, w
        return value / scale, gradient * (unit / scale)

    def record(v: np.ndarray) -> None:
        nonlocal count, last
        count, last = count + 1, unit * v
        if progress is not None:
            progress(count, best_value, _relative_gradient(last, *function(last), low, high))
        if watch is not None and watch(last):
            raise StopIteration  # how scipy is told to stop

    if watch is not None:
        watch(start)
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
        message = result.message
    except KeyboardInterrupt:
        message = "interrupted"
    best_w = np.clip(best_w, low, high)  # scaling back may miss a bound by a rounding
    norm = _relative_gradient(best_w, *function(best_w), low, high)
    return Descent(best_w, best_value, norm, count, str(message), last)


def _relative_gradient(w: np.ndarray, value: float, gradient: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """Norm of the gradient's part that points into the box, times ``||w||``, over the value."""
    blocked = ((w <= low) & (gradient > 0)) | ((w >= high) & (gradient < 0))
    return float(np.linalg.norm(np.where(blocked, 0.0, gradient)) * np.linalg.norm(w) / (abs(value) or 1.0))
