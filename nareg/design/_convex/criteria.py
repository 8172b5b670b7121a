"""Criteria of min-max designs: Prony's modified error, or the true error, over second moments and over two corners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from nareg.design._convex.filter_fit import lyapunov
from nareg.design._convex.low_rank import bound_starts, zero_level
from nareg.design._convex.signal_sets import Matrix
from nareg.design._risk.checked import local_status
from nareg.design._risk.descent import DescentResult, Groups, ValueAndGradient, feasible
from nareg.design._risk.problem import DesignProblem, SignalProblem
from nareg.progress import ProgressCallback
from nareg.results import Status

#: Exponent of the smooth maximum over the scenarios.
SHARPNESS = 400.0
#: The same for the two corners: it exceeds their maximum by less than ``2^(1 / 200) - 1``.
CORNER_SHARPNESS = 200.0


@dataclass(frozen=True)
class MinmaxOptions:
    """How a min-max design is made: by the true error or Prony's criterion, and at what ``scale``."""

    by_mse: bool
    groups: Groups
    solver: str
    scale: str
    progress: ProgressCallback | None

    @property
    def program_solver(self) -> str | None:
        """The solver of a program: cvxpy's of that name, or its default one."""
        return None if self.solver == "sdp" else self.solver


@dataclass(frozen=True)
class Criterion:
    """The error to maximize over signals, ``||B(w) x||^2 + variance(w)``, and its smooth maximum over moments."""

    operator: Callable[[np.ndarray], Matrix]
    variance: Callable[[np.ndarray], float]
    smooth_maximum: Callable[[list[np.ndarray]], ValueAndGradient]


def prony_criterion(task: SignalProblem) -> Criterion:
    """``B = C^-1/2 S``: ``||S x||^2`` in the coordinates ``C^1/2 x``."""
    L, root = task.base.L, np.sqrt(task.c)

    def operator(w: np.ndarray) -> sp.csr_array:
        return sp.csr_array(sp.diags_array(w / root) @ L @ sp.diags_array(w))

    return Criterion(operator, lambda w: 0.0, lambda moments: _smooth_square(L, *_stacked(moments), task.c, SHARPNESS))


def mse_criterion(task: DesignProblem) -> Criterion:
    """``B = H - I`` and the variance ``tr(H Sigma H^T)``."""
    assert task.Sigma is not None
    Sigma = task.Sigma

    def operator(w: np.ndarray) -> np.ndarray:
        return task.filter_matrix(w)[1] - np.eye(task.n_nodes)

    def smooth_maximum(moments: list[np.ndarray]) -> ValueAndGradient:
        F, groups = _stacked(moments)

        def value_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
            inverse, H = task.filter_matrix(w)
            error = H @ F - F
            value, share = _power_mean(np.add.reduceat(np.sum(error**2, axis=0), groups[:-1]))
            H_Sigma = H * Sigma if Sigma.ndim == 1 else H @ Sigma
            # as the gradient of the MSE (see DesignProblem.mse_and_gradient), R the mixture of the moments
            mixed = (error * np.repeat(share, np.diff(groups))) @ F.T
            slope = -2.0 * inverse @ (mixed + H_Sigma) @ H.T
            return value + float(np.sum(H_Sigma * H)), ((slope + slope.T) * task.L) @ w

        return value_and_gradient

    return Criterion(operator, lambda w: task.risk_parts(w)[1], smooth_maximum)


def _smooth_square(L: Matrix, F: np.ndarray, groups: np.ndarray, c: np.ndarray, sharpness: float) -> ValueAndGradient:
    """The smooth maximum of ``||C^-1/2 S F_k||^2`` over the groups of F's columns."""

    def value_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
        image = L @ (w[:, None] * F)
        error = (w / c)[:, None] * image
        columns = np.sum(error * (w[:, None] * image), axis=0)
        value, share = _power_mean(np.add.reduceat(columns, groups[:-1]), sharpness)
        # d ||C^-1/2 S x||^2 / dw_i = 2 (C^-1 S x)_i (L (w x))_i + 2 x_i (L (w C^-1 S x))_i
        gradient = 2 * error * image + 2 * F * (L @ (w[:, None] * error))
        return value, gradient @ np.repeat(share, np.diff(groups))

    return value_and_gradient


def _stacked(moments: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The factors side by side, and where each begins (and the last ends)."""
    return np.hstack(moments), np.concatenate([[0], np.cumsum([F.shape[1] for F in moments])])


def _power_mean(values: np.ndarray, sharpness: float = SHARPNESS) -> tuple[float, np.ndarray]:
    """The ``sharpness``-norm of K values and its gradient: at most ``K^(1/sharpness)`` times the largest."""
    top = float(values.max())
    if top <= 0:
        return 0.0, np.zeros_like(values)
    norm = np.sum((values / top) ** sharpness) ** (1 / sharpness)
    return float(top * norm), (values / top / norm) ** (sharpness - 1)


def worst_corner(L: Matrix, extremes: np.ndarray, w: np.ndarray) -> float:
    """``max_k ||S(w) x_k||^2``."""
    return float(np.max(np.sum((w[:, None] * (L @ (w[:, None] * extremes))) ** 2, axis=0)))


def smooth_worst(L: Matrix, extremes: np.ndarray) -> ValueAndGradient:
    """A differentiable stand-in for the larger of the corners' values: it exceeds the maximum by less than 0.35 %."""
    return _smooth_square(L, extremes, np.arange(3), np.ones(len(extremes)), CORNER_SHARPNESS)


def square_criterion(L: Matrix, A: np.ndarray) -> ValueAndGradient:
    """``tr(S R S)`` with ``R = A A^T`` and its gradient: a sum of squares, which cannot round below zero."""
    return _smooth_square(L, A, np.array([0, A.shape[1]]), np.ones(len(A)), 1.0)


def corner_starts(extremes: np.ndarray, low: np.ndarray, high: np.ndarray) -> dict[str, np.ndarray]:
    """Weights to descend from: those of the bound, and the inverse of each corner and of their mean."""
    starts = bound_starts(extremes, low, high)
    for name, x in {"first corner": extremes[:, 0], "second corner": extremes[:, 1], "center": extremes.mean(axis=1)}.items():
        if (np.abs(x) > 1e-3 * np.abs(x).max()).all():
            starts[f"inverse {name}"] = feasible(np.sqrt(np.max(low * x**2)) / x, low, high)
    return starts


def both_vanish(L: Matrix, extremes: np.ndarray, w: np.ndarray) -> bool:
    """Whether ``S(w) x`` is zero within rounding at both corners."""
    return worst_corner(L, extremes, w) <= zero_level(L, extremes, w)


def corner_status(L: Matrix, extremes: np.ndarray, result: DescentResult, solved: Status) -> Status:
    """Status of a descent; a value of zero within rounding is a minimum, whatever its gradient over it."""
    if both_vanish(L, extremes, result.w):
        return local_status(replace(result, gradient_norm=0.0), Status.CONVERGED)
    return local_status(result, solved)


def saddle_point(task: DesignProblem, extremes: np.ndarray) -> tuple[np.ndarray, float, float]:
    """``min_H max_k ||(H - I) x_k||^2 + tr(H^2 Sigma)``: H, the weight of the first corner, and the value.

    The objective is convex in H and linear in the mixture ``R = theta x_l x_l^T + (1 - theta) x_u x_u^T`` of
    the corners, so the order may be exchanged: a concave function of theta alone, whose value at each theta
    is one Lyapunov equation.
    """
    connected = task.L.diagonal() > 0
    index = np.ix_(connected, connected)
    identity = np.eye(task.n_nodes)

    def best_response(theta: float) -> tuple[np.ndarray, np.ndarray]:
        R = (extremes * [theta, 1 - theta]) @ extremes.T
        H = identity.copy()
        H[index] = lyapunov(R[index], task.Sigma_matrix[index])
        noise = float(np.sum((H @ task.Sigma_matrix) * H))
        return H, np.sum(((H - identity) @ extremes) ** 2, axis=0) + noise

    def negative_dual(theta: float) -> float:
        values = best_response(theta)[1]
        return -float(theta * values[0] + (1 - theta) * values[1])

    theta = float(minimize_scalar(negative_dual, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10}).x)
    H, values = best_response(theta)
    return H, theta, float(values.max())
