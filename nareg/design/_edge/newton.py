"""Dense edge design: risk and likelihood as functions of a number for every node and edge, and a damped Newton method.

With ``S = sum_k u_k v_k v_k^T`` (:mod:`nareg.design._edge.support`), ``K = C + S``, ``P = K^-1`` and ``H = P C``
the risk is

    f = tr(P B P) - 2 tr(P D) + tr R,      B = C (R + Sigma) C,   D = sym(C R)
    df/du_k = -v_k^T G v_k,                G = P (B P + P B - 2 D) P
    d2f/du_k du_l = 2 (v_k^T P B P v_l) (v_k^T P^2 v_l) + 2 (v_k^T P v_l) (v_k^T G v_l)

so that a Hessian is two entrywise products of matrices ``V^T M V``. The first is the Gauss-Newton part, positive
semidefinite. Two stations next to each other want an edge weight far above all others: in these unknowns that
leaves the rest alone, whereas the entries of S would have to move together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.linalg import blas, cho_solve, lapack

from nareg.design._edge.support import Support
from nareg.design._risk.descent import report
from nareg.errors import SolverError
from nareg.progress import ProgressCallback

#: A step is taken if the value falls by this part of what the quadratic model promised.
ACCEPTED = 1e-4
#: Largest damping, relative to the diagonal of the Gauss-Newton matrix: steps are then of rounding size.
LARGEST_DAMPING = 1e12
#: Smallest pivot of a Cholesky factor over the largest: condition numbers to about 10^10 leave the risk six digits.
SMALLEST_PIVOT = 1e-5


@dataclass(frozen=True)
class NewtonPoint:
    """Unknowns inside the cone, the value there, ``K^-1``, and the size against which a change of the value is small.

    The size of a risk is the risk. A likelihood has a logarithm in it, which another unit of the readings shifts: its
    size is ``tr(Theta R)``, N at the minimum.
    """

    u: np.ndarray
    value: float
    P: np.ndarray
    size: float


class ConeObjective(Protocol):
    """A function of u, finite where K is positive definite."""

    @property
    def support(self) -> Support: ...

    def at(self, u: np.ndarray) -> NewtonPoint | None:
        """Value and inverse, or None outside the cone."""

    def slope(self, point: NewtonPoint) -> np.ndarray:
        """Gradient."""

    def curvature(self, point: NewtonPoint) -> tuple[np.ndarray, np.ndarray]:
        """Diagonal of the positive semidefinite (Gauss-Newton) part of the Hessian; lower triangle of the Hessian."""

    def gauss_newton(self, point: NewtonPoint) -> np.ndarray:
        """That part, lower triangle."""


@dataclass(frozen=True)
class RiskObjective:
    """``tr(P B P) - 2 tr(P D) + constant``."""

    support: Support
    c: np.ndarray
    B: np.ndarray
    D: np.ndarray
    constant: float

    def at(self, u: np.ndarray) -> NewtonPoint | None:
        K = self.support.matrix(u)
        K[np.diag_indices_from(K)] += self.c
        factored = inverse(K)
        if factored is None:
            return None
        P = factored[0]
        value = float(np.sum((P @ self.B) * P) - 2 * np.sum(P * self.D)) + self.constant
        return NewtonPoint(u, value, P, abs(value))

    def _products(self, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``P B P`` and G."""
        PBP = P @ self.B @ P
        half = P @ (PBP - self.D @ P)
        return PBP, half + half.T

    def slope(self, point: NewtonPoint) -> np.ndarray:
        return -self.support.gather(self._products(point.P)[1])

    def curvature(self, point: NewtonPoint) -> tuple[np.ndarray, np.ndarray]:
        P = point.P
        PBP, G = self._products(P)
        square = P @ P
        stiffness = 2 * self.support.product_diagonal(PBP, square)
        return stiffness, self.support.products((2 * PBP, square), (2 * P, G))

    def gauss_newton(self, point: NewtonPoint) -> np.ndarray:
        """First part of the Hessian, lower triangle."""
        P = point.P
        return self.support.products((2 * P @ self.B @ P, P @ P))


@dataclass(frozen=True)
class LikelihoodObjective:
    """``tr(Theta R) - log det Theta``, convex: twice the negative log-likelihood of a signal, without constants."""

    support: Support
    R: np.ndarray

    def at(self, u: np.ndarray) -> NewtonPoint | None:
        factored = inverse(self.support.matrix(u))
        if factored is None:
            return None
        trace = float(u @ self.support.gather(self.R))
        return NewtonPoint(u, trace - factored[1], factored[0], abs(trace))

    def slope(self, point: NewtonPoint) -> np.ndarray:
        return self.support.gather(self.R - point.P)

    def curvature(self, point: NewtonPoint) -> tuple[np.ndarray, np.ndarray]:
        hessian = self.gauss_newton(point)
        return np.diagonal(hessian), hessian

    def gauss_newton(self, point: NewtonPoint) -> np.ndarray:
        """The Hessian itself."""
        return self.support.products((point.P, point.P))


@dataclass(frozen=True)
class Proximal:
    """An objective plus ``1/2 sum_k h_k (u_k - center_k)^2``."""

    base: ConeObjective
    h: np.ndarray
    center: np.ndarray

    @property
    def support(self) -> Support:
        return self.base.support

    def at(self, u: np.ndarray) -> NewtonPoint | None:
        point = self.base.at(u)
        if point is None:
            return None
        away = 0.5 * float(self.h @ (u - self.center) ** 2)
        return replace(point, value=point.value + away, size=point.size + away)

    def slope(self, point: NewtonPoint) -> np.ndarray:
        return self.base.slope(point) + self.h * (point.u - self.center)

    def curvature(self, point: NewtonPoint) -> tuple[np.ndarray, np.ndarray]:
        stiffness, hessian = self.base.curvature(point)
        stiffness = stiffness + self.h
        hessian[np.diag_indices_from(hessian)] += self.h
        return stiffness, hessian

    def gauss_newton(self, point: NewtonPoint) -> np.ndarray:
        """That of the base and h."""
        matrix = self.base.gauss_newton(point)
        matrix[np.diag_indices_from(matrix)] += self.h
        return matrix


def inverse(K: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Inverse and log-determinant; None where K is not positive definite, or not safely so in float64."""
    factor, failed = lapack.dpotrf(K, lower=True)
    pivots = np.diagonal(factor)
    if failed or not pivots.min() > SMALLEST_PIVOT * pivots.max():
        return None
    P, _ = lapack.dpotri(factor, lower=True)
    P = np.tril(P)
    return P + np.tril(P, -1).T, 2 * float(np.log(pivots).sum())


@dataclass(frozen=True)
class Reached:
    """Where the Newton method ended; ``gradient_norm`` is relative: ``||projected gradient|| ||u|| / size``."""

    point: NewtonPoint
    gradient_norm: float
    iterations: int
    message: str


def newton(
    objective: ConeObjective,
    start: np.ndarray,
    *,
    nonnegative: bool = False,
    tolerance: float = 1e-6,
    enough: float = 0.0,
    max_iterations: int = 200,
    progress: ProgressCallback | None = None,
) -> Reached:
    """Levenberg-damped (projected) Newton from a start inside the cone; every step taken lowers the value.

    Stops where the relative gradient is below ``tolerance`` or a step of little damping gained less than ``enough``
    of its size. Ctrl-C keeps the point reached.
    """
    point = objective.at(start)
    if point is None:
        raise SolverError("the design's start makes C + S singular in float64: check that noise and fit are not extreme.")
    damping, norm, count, message = 1e-3, np.inf, 0, "iteration limit"
    try:
        while True:
            gradient = objective.slope(point)
            free = (point.u > 0) | (gradient < 0) if nonnegative else np.ones(gradient.size, dtype=bool)
            norm = float(np.linalg.norm(gradient[free]) * np.linalg.norm(point.u)) / (point.size or 1.0)
            if count:
                report(progress, count, point.value, norm)
            if norm <= tolerance:
                message = "gradient below tolerance"
                break
            if count == max_iterations:
                break
            taken, damping = _damped_step(objective, point, gradient, free, nonnegative, damping)
            if taken is None:
                message = "no further decrease"
                break
            gained, point, count = point.value - taken.value, taken, count + 1
            if gained < enough * point.size and damping < 1.0:
                message = "little left to gain"
                break
    except KeyboardInterrupt:
        message = "interrupted"
    return Reached(point, norm, count, message)


def _damped_step(
    objective: ConeObjective, point: NewtonPoint, gradient: np.ndarray, free: np.ndarray, nonnegative: bool, damping: float
) -> tuple[NewtonPoint | None, float]:
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
        if nonnegative:
            u = np.maximum(u, 0.0)
            step = u[free] - point.u[free]
        promised = float(-gradient[free] @ step - 0.5 * step @ blas.dsymv(1.0, hessian.T, step))
        trial = objective.at(u) if promised > 0 else None
        gain = -np.inf if trial is None else (point.value - trial.value) / promised
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
