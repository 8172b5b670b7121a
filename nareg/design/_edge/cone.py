"""Dense edge design: risk and likelihood as functions of a number for every node and edge.

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

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from scipy.linalg import lapack

from nareg._solvers.lbfgs import MEMORY, Pair, two_loop
from nareg.design._edge.support import Support
from nareg.design._risk.checked import STATIONARY
from nareg.design._risk.descent import DescentResult
from nareg.design._risk.newton import NewtonObjective, NewtonPoint
from nareg.results import Status

#: Smallest pivot of a Cholesky factor over the largest: condition numbers to about 10^10 leave the risk six digits.
SMALLEST_PIVOT = 1e-5


@dataclass(frozen=True)
class ConePoint(NewtonPoint):
    """Unknowns inside the cone, with ``K^-1``."""

    P: np.ndarray


class ConeObjective(NewtonObjective[ConePoint], Protocol):
    """A function of u, finite where K is positive definite.

    The sizes of its curvatures are those of the positive semidefinite (Gauss-Newton) part of the Hessian.
    """

    @property
    def support(self) -> Support: ...

    def gauss_newton(self, point: ConePoint) -> np.ndarray:
        """That part, lower triangle."""


@dataclass(frozen=True)
class RiskObjective:
    """``tr(P B P) - 2 tr(P D) + constant``."""

    support: Support
    c: np.ndarray
    B: np.ndarray
    D: np.ndarray
    constant: float

    def at(self, u: np.ndarray) -> ConePoint | None:
        K = self.support.matrix(u)
        K[np.diag_indices_from(K)] += self.c
        factored = inverse(K)
        if factored is None:
            return None
        P = factored[0]
        value = float(np.sum((P @ self.B) * P) - 2 * np.sum(P * self.D)) + self.constant
        return ConePoint(u, value, abs(value), P)

    def _products(self, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``P B P`` and G."""
        PBP = P @ self.B @ P
        half = P @ (PBP - self.D @ P)
        return PBP, half + half.T

    def slope(self, point: ConePoint) -> np.ndarray:
        return -self.support.gather(self._products(point.P)[1])

    def curvature(self, point: ConePoint) -> tuple[np.ndarray, np.ndarray]:
        P = point.P
        PBP, G = self._products(P)
        square = P @ P
        stiffness = 2 * self.support.product_diagonal(PBP, square)
        return stiffness, self.support.products((2 * PBP, square), (2 * P, G))

    def gauss_newton(self, point: ConePoint) -> np.ndarray:
        """First part of the Hessian, lower triangle."""
        P = point.P
        return self.support.products((2 * P @ self.B @ P, P @ P))


@dataclass(frozen=True)
class LikelihoodObjective:
    """``tr(Theta R) - log det Theta``, convex: twice the negative log-likelihood of a signal, without constants."""

    support: Support
    R: np.ndarray

    def at(self, u: np.ndarray) -> ConePoint | None:
        factored = inverse(self.support.matrix(u))
        if factored is None:
            return None
        trace = float(u @ self.support.gather(self.R))
        return ConePoint(u, trace - factored[1], abs(trace), factored[0])

    def slope(self, point: ConePoint) -> np.ndarray:
        return self.support.gather(self.R - point.P)

    def curvature(self, point: ConePoint) -> tuple[np.ndarray, np.ndarray]:
        hessian = self.gauss_newton(point)
        return np.diagonal(hessian), hessian

    def gauss_newton(self, point: ConePoint) -> np.ndarray:
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

    def at(self, u: np.ndarray) -> ConePoint | None:
        point = self.base.at(u)
        if point is None:
            return None
        away = 0.5 * float(self.h @ (u - self.center) ** 2)
        return replace(point, value=point.value + away, size=point.size + away)

    def slope(self, point: ConePoint) -> np.ndarray:
        return self.base.slope(point) + self.h * (point.u - self.center)

    def curvature(self, point: ConePoint) -> tuple[np.ndarray, np.ndarray]:
        stiffness, hessian = self.base.curvature(point)
        stiffness = stiffness + self.h
        hessian[np.diag_indices_from(hessian)] += self.h
        return stiffness, hessian

    def gauss_newton(self, point: ConePoint) -> np.ndarray:
        """That of the base and h."""
        matrix = self.base.gauss_newton(point)
        matrix[np.diag_indices_from(matrix)] += self.h
        return matrix


def cone_status(end: DescentResult) -> Status:
    """How a descent of edge weights ended."""
    if end.message == "interrupted":
        return Status.INTERRUPTED
    if end.gradient_norm < STATIONARY:
        return Status.CONVERGED
    return Status.STALLED if end.message == "no further decrease" else Status.MAX_ITERATIONS


def cone_floor(nonnegative: bool) -> float:
    """The lower bound of the unknowns."""
    return 0.0 if nonnegative else -np.inf


def inverse(K: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Inverse and log-determinant; None where K is not positive definite, or not safely so in float64."""
    factor, failed = lapack.dpotrf(K, lower=True)
    pivots = np.diagonal(factor)
    if failed or not pivots.min() > SMALLEST_PIVOT * pivots.max():
        return None
    P, _ = lapack.dpotri(factor, lower=True)
    P = np.tril(P)
    return P + np.tril(P, -1).T, 2 * float(np.log(pivots).sum())


#: A step is too long where the slope at its end is this many times as steep upward: next to the boundary of the cone.
OVERSHOOT = 10.0
#: A change of the value below this part of it is rounding.
ROUNDING = 8 * np.finfo(float).eps


@dataclass
class ConeDescent:
    """State of L-BFGS with a diagonal first metric: point, value, gradient and remembered pairs."""

    function: Callable[[np.ndarray], tuple[float, np.ndarray]]
    u: np.ndarray
    stiffness: np.ndarray
    #: Lower bounds of the unknowns, or None.
    floor: np.ndarray | None = None
    #: What a gradient is relative to; None: the value.
    size: float | None = None
    pairs: list[Pair] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.value, self.gradient = self.function(self.u)

    @property
    def relative_gradient(self) -> float:
        """``||projected gradient|| ||u|| / size``."""
        size = abs(self.value) if self.size is None else self.size
        return self._norm(self.u, self.gradient) * float(np.linalg.norm(self.u)) / (size or 1.0)

    def _free(self, u: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Unknowns that are not pushed against their lower bound."""
        return np.ones(u.size, dtype=bool) if self.floor is None else (u > self.floor) | (gradient < 0)

    def _norm(self, u: np.ndarray, gradient: np.ndarray) -> float:
        """Of the projected gradient."""
        return float(np.linalg.norm(gradient[self._free(u, gradient)]))

    def step(self) -> bool:
        """Take one step with backtracking; False where none lowers the value."""
        direction = self._direction()
        slope = float(self.gradient @ direction)
        if slope >= 0:
            self.pairs.clear()
            direction = -self.gradient / self.stiffness * self._free(self.u, self.gradient)
            slope = float(self.gradient @ direction)
        length = 1.0
        while length > 1e-10:
            u = self.u + length * direction
            if self.floor is not None:
                u = np.maximum(u, self.floor)
            value, gradient = self.function(u)
            promised = length * slope if self.floor is None else float(self.gradient @ (u - self.u))
            overshoots = float(gradient @ (u - self.u)) > OVERSHOOT * abs(length * slope)
            if self._lowers(u, value, gradient, promised) and not overshoots:
                pair = self._pair(u - self.u, gradient - self.gradient)
                if pair is not None:
                    self.pairs = [*self.pairs[-MEMORY + 1 :], pair]
                self.u, self.value, self.gradient = u, value, gradient
                return True
            # half a step where K is no longer positive definite, else the minimum of the parabola through what is known
            bend = value - self.value - length * slope
            length *= 0.5 if overshoots or not np.isfinite(value) else float(np.clip(-0.5 * slope * length / bend, 0.1, 0.5))
        return False

    def _lowers(self, u: np.ndarray, value: float, gradient: np.ndarray, promised: float) -> bool:
        """Whether a step pays; one that promises less than a rounding is judged by the gradient, which must fall."""
        rounding = ROUNDING * (abs(self.value) + (self.size or 0.0))
        if promised < -rounding:
            return value <= self.value + 1e-4 * promised
        return bool(value <= self.value + rounding and self._norm(u, gradient) < self._norm(self.u, self.gradient))

    def _pair(self, step: np.ndarray, change: np.ndarray) -> Pair | None:
        """The pair to remember; None of negative curvature, which a risk that is not convex may have."""
        curvature = float(step @ change)
        size = np.sqrt((step @ (self.stiffness * step)) * (change @ (change / self.stiffness)))
        return Pair(step, change, curvature) if curvature > 1e-10 * size else None

    def _direction(self) -> np.ndarray:
        """Minus the approximate inverse Hessian times the gradient, in the unknowns that are free to move."""
        metric = 1.0
        if self.pairs:
            last = self.pairs[-1]
            metric = last.curvature / float(last.change @ (last.change / self.stiffness))
        free = self._free(self.u, self.gradient)
        if self.floor is None:
            return -two_loop(self.gradient, self.pairs, lambda q: q * (metric / self.stiffness))
        # pairs as the free unknowns see them: the others stay where they are
        seen = (Pair(p.step * free, p.change * free, float((p.step * free) @ p.change)) for p in self.pairs)
        pairs = [p for p in seen if p.curvature > 0]
        return -two_loop(self.gradient * free, pairs, lambda q: q * (metric / self.stiffness)) * free
