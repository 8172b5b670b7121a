"""The corner program (32) by duality: a mixture of the two corners, whose program is Prony's of rank two.

    min_Omega max_k ||S x_k||^2  =  max_theta min_Omega tr(S R(theta) S),   R = theta x_l x_l^T + (1 - theta) x_u x_u^T

with ``S = Omega o L``: the left side is convex in Omega and linear in the mixture, so the order may be exchanged. The inner
problem is Prony's (25), which a low-rank factor solves with a proven lower bound (:mod:`nareg.design._convex.low_rank`); the
bound of any mixture is one of the corner program. The outer problem has one unknown: by Danskin's theorem the slope in theta
is ``||S x_l||^2 - ||S x_u||^2``, which falls as theta grows and is zero where the corners balance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from nareg.design._convex import low_rank
from nareg.design._convex.low_rank import GAP, SOLVED, LowRank
from nareg.design._convex.quadratic import SupportQuadratic
from nareg.design._risk.groups import Groups
from nareg.design._risk.problem import STATIONARY
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, Status

#: Most mixtures tried.
ROUNDS = 30
#: Limits of ``log(theta / (1 - theta))``: a corner with a smaller share has no say.
EXTREME = 14.0
#: Largest step of that logarithm.
STEP = 3.0


@dataclass
class CornerSolution:
    """The factor V (a row per group) with the smallest larger corner, that value, and the proven bound."""

    V: np.ndarray
    value: float = np.inf
    #: Greatest bound of all mixtures.
    bound: float = -np.inf
    theta: float = 0.5
    rounds: int = 0
    steps: int = 0
    products: int = 0
    interrupted: bool = False
    inner: LowRank | None = field(default=None, repr=False)

    @property
    def gap(self) -> float:
        """Distance of value and bound, over the value."""
        return (self.value - self.bound) / max(self.value, 1e-300)

    @property
    def status(self) -> Status:
        """Solved if the gap is closed, or the corners balance where the mixture's gradient is small."""
        if self.interrupted:
            return Status.INTERRUPTED
        inner = self.inner
        stationary = inner is not None and inner.gradient_norm <= STATIONARY and self.value <= (1 + SOLVED) * inner.value
        return Status.CONVERGED if self.gap <= SOLVED or stationary else Status.INACCURATE

    def details(self) -> DesignDetails:
        """Details of the program for a certificate."""
        inner = {} if self.inner is None else self.inner.details()
        bounded = np.isfinite(self.bound)
        return {
            **inner,
            "low_rank_objective": self.value,
            "dual_bound": self.bound if bounded else None,
            "gap": self.gap if bounded else None,
            "corner_weights": [self.theta, 1 - self.theta],
            "newton_steps": self.steps,
            "hessian_products": self.products,
        }


def minimize_worst_corner(
    L: sp.csr_array, extremes: np.ndarray, low: np.ndarray, high: np.ndarray, groups: Groups, start: np.ndarray, *,
    mesh_like: bool, progress: ProgressCallback | None,
) -> CornerSolution:  # fmt: skip
    """Solve the corner program in the groups' rows of V, from ``start``, with a proven lower bound."""
    solution = CornerSolution(start)
    warm = start

    def excess(t: float) -> float:
        """``log(||S x_l||^2 / ||S x_u||^2)`` at the optimum of a mixture: falls with t."""
        nonlocal warm
        theta, quadratic = mixture(L, extremes, t, groups)
        inner = low_rank.minimize(quadratic, low, high, warm, mesh_like=mesh_like, progress=progress)
        warm = inner.V
        values = corner_values(quadratic, extremes, inner.V)
        solution.rounds += 1
        solution.steps += inner.steps
        solution.products += inner.products
        if inner.bound is not None:
            solution.bound = max(solution.bound, inner.bound)
        if values.max() < solution.value or solution.inner is None:
            solution.V, solution.value, solution.theta, solution.inner = inner.V, float(values.max()), theta, inner
        solution.interrupted = inner.interrupted
        return log_ratio(values)

    find_zero(excess, 0.0, done=lambda: solution.interrupted or solution.gap <= GAP)
    return solution


def mixture(L: sp.csr_array, extremes: np.ndarray, t: float, groups: Groups) -> tuple[float, SupportQuadratic]:
    """The share theta of the first corner, ``t = log(theta / (1 - theta))``, and Prony's objective of the mixture."""
    theta = 1.0 / (1.0 + np.exp(-t))
    return theta, SupportQuadratic(L, extremes * np.sqrt([theta, 1.0 - theta]), groups)


def corner_values(quadratic: SupportQuadratic, extremes: np.ndarray, V: np.ndarray) -> np.ndarray:
    """``||S x_k||^2`` of both corners, ``S = V V^T o L``."""
    L = quadratic.L
    S = sp.csr_array((quadratic.entries(V, V) / 2, L.indices, L.indptr), shape=L.shape)
    return np.asarray(np.sum((S @ extremes) ** 2, axis=0))


def log_ratio(values: np.ndarray) -> float:
    """The logarithm of their ratio; a value that vanishes beside the other one counts as tiny."""
    tiny = max(1e-12 * float(values.max()), 1e-300)
    first, second = np.log(np.maximum(values, tiny))
    return float(first - second)


def find_zero(function: Callable[[float], float], t: float, *, done: Callable[[], bool], accuracy: float = 1e-7) -> None:
    """Call a falling function at points that approach its zero, until it is that near or ``done``.

    The first step takes the slope for -1. Then secants, kept inside the bracket once there is one.
    """
    above = below = previous = None  # (t, value) nearest to the zero on either side
    for _ in range(ROUNDS):
        value = function(t)
        if done() or abs(value) <= accuracy:
            return
        here = (t, value)
        above, below = (here, below) if value > 0 else (above, here)
        if above is not None and below is not None:
            share = above[1] / (above[1] - below[1])
            t = above[0] + float(np.clip(share, 0.05, 0.95)) * (below[0] - above[0])
            if abs(below[0] - above[0]) < accuracy:
                return
        else:
            slope = -1.0 if previous is None else (value - previous[1]) / (t - previous[0])
            # a little beyond, so that the zero is enclosed; far where the secant is nearly flat
            step = 1.05 * value / max(-slope, 1e-2)
            t = float(np.clip(t + np.clip(step, -STEP, STEP), -EXTREME, EXTREME))
            if t == here[0]:
                return
        previous = here
