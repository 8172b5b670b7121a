"""A damped Newton method with dense matrices, and the mean squared error of node weights for it: where L-BFGS crawls.

Where the best weights differ by orders of magnitude the risk has long, flat and curved valleys. L-BFGS follows them for
thousands of iterations; the Hessian is a dozen N x N products, what four or five gradients cost. With ``P = K^-1``,
``B = C (R + Sigma) C``, ``D = sym(C R)`` and ``G = P (B P + P B - 2 D) P`` the MSE (11) as a function of S has

    f'[T]     = -<G, T>
    f''[T, U] = 2 <T P B P U, P^2> + 2 <T P U, G>       for symmetric T and U,

and ``S = diag(w) L diag(w)`` moves along ``T = E A + A^T E``, ``E = diag(e)``, ``A = L diag(w)``, with the second derivative
``2 E L E``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np
from scipy.linalg import blas, cho_solve, lapack

from nareg._solvers.threads import few_threads
from nareg.design._risk.descent import DescentResult, Groups, ValueAndGradient, interval, report
from nareg.design._risk.problem import DesignProblem
from nareg.errors import NaregError, SolverError
from nareg.progress import ProgressCallback

#: Relative projected gradient of node weights at which the steps end; rounding may end them before.
TOLERANCE = 1e-7
MAX_STEPS = 200
#: A step is taken if the value falls by this part of what the quadratic model promised.
ACCEPTED = 1e-4
#: Largest damping, relative to the sizes of the curvatures: steps are then of rounding size.
LARGEST_DAMPING = 1e12


@dataclass(frozen=True)
class NewtonPoint:
    """Unknowns, the value there, and the size against which a change of the value is small.

    The size of a risk is the risk. A likelihood has a logarithm in it, which another unit of the readings shifts: its
    size is ``tr(Theta R)``, N at the minimum.
    """

    u: np.ndarray
    value: float
    size: float


PointT = TypeVar("PointT", bound=NewtonPoint)


class NewtonObjective(Protocol[PointT]):
    """A function of u, which need not be finite everywhere."""

    def at(self, u: np.ndarray) -> PointT | None:
        """The point, or None where the function is not finite."""

    def slope(self, point: PointT) -> np.ndarray:
        """Gradient."""

    def curvature(self, point: PointT) -> tuple[np.ndarray, np.ndarray]:
        """Sizes of the curvatures, which scale the damping; lower triangle of the Hessian."""


@dataclass(frozen=True)
class Limits:
    """Bounds on the unknowns, and when the steps end: also where one of little damping gained less than ``enough`` of its size.

    A step that promises less than ``rounding`` of the value is judged by the gradient, which must fall.
    """

    low: np.ndarray | float = -np.inf
    high: np.ndarray | float = np.inf
    tolerance: float = 1e-6
    enough: float = 0.0
    max_iterations: int = MAX_STEPS
    rounding: float = 0.0

    def free(self, u: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Unknowns that are not pushed against a bound."""
        return ~(((u <= self.low) & (gradient > 0)) | ((u >= self.high) & (gradient < 0)))


def newton(
    objective: NewtonObjective[PointT], start: np.ndarray, limits: Limits, progress: ProgressCallback | None = None,
    steps_before: int = 0,
) -> DescentResult:  # fmt: skip
    """Levenberg-damped projected Newton from a start where the objective is finite; every step taken lowers the value.

    Ctrl-C keeps the point reached. The gradient's norm is relative: ``||projected gradient|| ||u|| / size``.
    """
    point = objective.at(start)
    if point is None:
        raise SolverError(
            "the design's start makes C + S singular in float64: check that noise and data_weight are not extreme."
        )
    damping, norm, count, message = 1e-3, np.inf, 0, "iteration limit"
    try:
        while True:
            gradient = objective.slope(point)
            free = limits.free(point.u, gradient)
            norm = float(np.linalg.norm(gradient[free]) * np.linalg.norm(point.u)) / (point.size or 1.0)
            if count:
                report(progress, steps_before + count, point.value, norm)
            if norm <= limits.tolerance:
                message = "gradient below tolerance"
                break
            if count == limits.max_iterations:
                break
            taken, damping = _damped_step(objective, point, gradient, free, limits, damping)
            if taken is None:
                message = "no further decrease"
                break
            gained, point, count = point.value - taken.value, taken, count + 1
            if gained < limits.enough * point.size and damping < 1.0:
                message = "little left to gain"
                break
    except KeyboardInterrupt:
        message = "interrupted"
    return DescentResult(point.u, point.value, norm, count, message)


def _damped_step(
    objective: NewtonObjective[PointT], point: PointT, gradient: np.ndarray, free: np.ndarray, limits: Limits, damping: float
) -> tuple[PointT | None, float]:
    """The next point and damping; None where no step lowers the value."""
    stiffness, hessian = objective.curvature(point)
    stiffness = stiffness[free]
    stiffness = np.maximum(stiffness, 1e-12 * stiffness.max(initial=0.0))
    if not free.all():
        hessian = hessian[np.ix_(free, free)]
    least = 0.3  # how much the damping may fall after a good step: where this much is needed, not below
    while damping < LARGEST_DAMPING:
        step = _solve(hessian, stiffness * damping, gradient[free])
        if step is None:
            damping, least = damping * 4, 0.35
            continue
        u = point.u.copy()
        u[free] += step
        u = np.clip(u, limits.low, limits.high)
        step = u[free] - point.u[free]
        promised = float(-gradient[free] @ step - 0.5 * step @ blas.dsymv(1.0, hessian.T, step))
        trial = objective.at(u) if promised > 0 else None
        if trial is None:
            gain = -np.inf
        elif promised < limits.rounding * abs(point.value):
            falls = np.linalg.norm(objective.slope(trial)[free]) < 0.5 * np.linalg.norm(gradient[free])
            gain = 1.0 if falls and trial.value <= point.value + limits.rounding * abs(point.value) else -np.inf
        else:
            gain = (point.value - trial.value) / promised
        if trial is not None and gain > ACCEPTED:
            factor = least if gain > 0.75 else 1.0 if gain > 0.25 else 3.0
            return trial, max(damping * factor, 1e-12)
        damping *= 4
    return None, damping


def _solve(hessian: np.ndarray, shift: np.ndarray, gradient: np.ndarray) -> np.ndarray | None:
    """``-(hessian + diag(shift))^-1 gradient``; None where that matrix is not positive definite."""
    damped = hessian.copy()
    damped[np.diag_indices_from(damped)] += shift
    # its transpose is in the column order of LAPACK: no copy, and the lower triangle becomes the upper
    factor, failed = lapack.dpotrf(damped.T, lower=False, clean=False, overwrite_a=True)
    if failed or not np.isfinite(factor[-1, -1]):
        return None
    return -cho_solve((factor, False), gradient, check_finite=False)


@dataclass(frozen=True)
class WeightsPoint(NewtonPoint):
    """Weights of groups, and the gradient there."""

    gradient: np.ndarray


@dataclass(frozen=True)
class WeightsObjective:
    """The MSE of groups' weights, whose value and gradient ``function`` has."""

    task: DesignProblem
    function: ValueAndGradient
    groups: Groups

    def at(self, u: np.ndarray) -> WeightsPoint | None:
        try:
            value, gradient = self.function(u)
        except NaregError:  # singular in float64: too far
            return None
        return WeightsPoint(u, value, abs(value), gradient)

    def slope(self, point: WeightsPoint) -> np.ndarray:
        return point.gradient

    def curvature(self, point: WeightsPoint) -> tuple[np.ndarray, np.ndarray]:
        hessian = mse_hessian(self.task, self.groups.expand(point.u))
        hessian = self.groups.reduce(self.groups.reduce(hessian).T)
        return np.abs(np.diagonal(hessian)), hessian


def polish(
    task: DesignProblem, function: ValueAndGradient, end: DescentResult, low: np.ndarray, high: np.ndarray, groups: Groups,
    progress: ProgressCallback | None,
) -> DescentResult:  # fmt: skip
    """Newton steps from the end of a descent; bounds on ``w_i^2``. Ctrl-C keeps the best."""
    limits = Limits(*interval(end.w, low, high), TOLERANCE, rounding=8 * np.finfo(float).eps)
    with few_threads(task.n_nodes):
        reached = newton(WeightsObjective(task, function, groups), end.w, limits, progress, end.iterations)
    return replace(reached, iterations=end.iterations + reached.iterations)


def mse_hessian(task: DesignProblem, w: np.ndarray) -> np.ndarray:
    """Hessian of the MSE (11) in the weights, (N, N)."""
    L, c = task.L, task.c
    P = task.filter_matrix(w)[0]
    B = c[:, None] * (task.R + task.Sigma_matrix) * c
    cross = c[:, None] * task.R
    X, Q = P @ B @ P, P @ P
    half = P @ (X - (cross + cross.T) / 2 @ P)
    G = half + half.T
    A = L * w
    total = -2.0 * G * L
    for first, second in ((X, Q), (P, G)):
        AX, AY = A @ first, A @ second
        mixed = AX * AY.T
        total += 2.0 * (mixed + mixed.T + (AX @ A.T) * second + first * (AY @ A.T))
    return (total + total.T) / 2
