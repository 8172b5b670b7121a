"""Local descent in the node weights: L-BFGS-B with the bounds on ``w_i^2`` kept by the sign of the start.

Minima of a function of one positive number, a weight or a scale: every design's one-dimensional searches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from nareg._core import checks
from nareg._solvers.threads import few_threads
from nareg.errors import InputError, SolverError
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


Function = Callable[[float], float]


def minimize_between(of_logarithm: Function, low: float, high: float, *, accuracy: float) -> tuple[float, float]:
    """Minimum of a function of a logarithm between two ends, by Brent's bounded method, and the value there."""
    from scipy.optimize import minimize_scalar

    minimum = minimize_scalar(of_logarithm, bounds=(low, high), method="bounded", options={"xatol": accuracy})
    return float(minimum.x), float(minimum.fun)


def minimize_scale(function: Function, low: float, high: float) -> tuple[float, float]:
    """Smallest value of a one-dimensional function on ``[low, high]``, low > 0: grid in log, then golden section."""
    if not high > low:
        return low, function(low)
    grid = np.geomspace(low, high, 61)
    values = [function(s) for s in grid]
    best = int(np.argmin(values))
    left, right = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    at, value = minimize_between(lambda t: function(float(np.exp(t))), np.log(left), np.log(right), accuracy=1e-6)
    return (float(np.exp(at)), value) if value < values[best] else (float(grid[best]), values[best])


def minimize_widely(function: Callable[[float], float], low: float, high: float) -> tuple[float, float, bool]:
    """:func:`minimize_scale` of a function of the size of a weight, further out while that pays.

    Also whether the minimum lies at an end: it was looked for until three decades lowered the value by less than 1e-9 of
    it, or until 1e-30 of the first lower end and 1e12 of the first upper one.
    """
    first, last = low * 1e-30, high * 1e12
    at, value = minimize_scale(function, low, high)
    while at <= 1.01 * low or at >= high / 1.01:
        down = at <= 1.01 * low
        if (down and low <= first) or (not down and high >= last):
            return at, value, True
        low, high = (low * 1e-3, low) if down else (high, high * 1e3)
        further, lower = minimize_scale(function, low, high)
        if not lower < value - 1e-9 * abs(value):
            return at, value, True
        at, value = further, lower
    return at, value, False


def descend_in_steps(
    of_logarithm: Function, start: float, low: float, high: float, *, accuracy: float, both_ways: bool = True
) -> float:
    """Logarithm at the first minimum downhill from ``start``, upwards only unless ``both_ways``.

    In steps of a factor of two until the value rises: large weights are the costly ones, and are met only if they pay.
    """
    step = float(np.log(2.0))
    at, value = start, of_logarithm(start)
    following = min(at + step, high)
    ahead = of_logarithm(following) if following != at else np.inf
    if both_ways and ahead > value:
        step = -step
        following = max(at + step, low)
        ahead = of_logarithm(following)
    while ahead < value:
        at, value = following, ahead
        following = min(max(at + step, low), high)
        if following == at:
            break
        ahead = of_logarithm(following)
    best, smallest = minimize_between(of_logarithm, max(at - abs(step), low), min(at + abs(step), high), accuracy=accuracy)
    return best if smallest < value else at


class Groups:
    """A map from node weights to the weights of their groups; without labels every node is its own."""

    def __init__(self, labels: Any, n_nodes: int) -> None:
        if labels is None:
            self.index, self.count = None, n_nodes
            return
        array = checks.array_of("groups", labels)
        if array.shape != (n_nodes,):
            raise InputError(f"groups has shape {array.shape}, expected ({n_nodes},), one label per node.")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(f"groups[{int(np.argmin(np.isfinite(array)))}] is not finite: give every node a label.")
        names, index = np.unique(array, return_inverse=True)
        self.index, self.count = index.ravel(), names.size

    def ordered(self, order: np.ndarray) -> Groups:
        """The same groups of nodes in another order."""
        return self if self.index is None else Groups(self.index[order], order.size)

    def expand(self, v: np.ndarray) -> np.ndarray:
        """Weight of every node."""
        return v if self.index is None else v[self.index]

    def reduce(self, rows: np.ndarray) -> np.ndarray:
        """Gradient in the groups' weights, or other rows: sums over their nodes."""
        if self.index is None:
            return rows
        sums = np.zeros((self.count, *rows.shape[1:]))
        np.add.at(sums, self.index, rows)
        return sums

    def reduce_start(self, w: np.ndarray) -> np.ndarray:
        """Start for the groups' weights: means over their nodes."""
        return w if self.index is None else np.bincount(self.index, w, self.count) / np.bincount(self.index)

    def bounds(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds that hold for every node of a group."""
        if self.index is None:
            return lower, upper
        low, high = np.full(self.count, -np.inf), np.full(self.count, np.inf)
        np.maximum.at(low, self.index, lower)
        np.minimum.at(high, self.index, upper)
        if (low > high).any():
            raise InputError("lower and upper cross within a group: nodes that share a weight must allow a common one.")
        return low, high

    def tied(self, function: ValueAndGradient) -> ValueAndGradient:
        """The function of node weights as one of the groups' weights."""
        if self.index is None:
            return function

        def of_groups(v: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = function(self.expand(v))
            return value, self.reduce(gradient)

        return of_groups
