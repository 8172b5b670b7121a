"""The worse of the two corners of a box: Prony's criterion with its smooth stand-in, and the optimal filter of (29)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from nareg.design._convex.lyapunov import lyapunov
from nareg.design._risk.problem import DesignProblem

#: A dense array or a sparse one.
Matrix = Any


def worst_corner(L: Matrix, extremes: np.ndarray, w: np.ndarray) -> float:
    """``max_k ||S(w) x_k||^2``."""
    return float(np.max(np.sum((w[:, None] * (L @ (w[:, None] * extremes))) ** 2, axis=0)))


def smooth_worst(L: Matrix, extremes: np.ndarray, sharpness: float = 200.0) -> Any:
    """A differentiable stand-in for the larger of the corners' values: their ``sharpness``-norm.

    It exceeds the maximum by less than ``2^(1 / sharpness) - 1`` = 0.35 %.
    """

    def value_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
        image_ = L @ (w[:, None] * extremes)
        Sx = w[:, None] * image_
        values = np.sum(Sx**2, axis=0)
        top = values.max()
        if top == 0:
            return 0.0, np.zeros_like(w)
        norm = np.sum((values / top) ** sharpness) ** (1 / sharpness)
        share = (values / top / norm) ** (sharpness - 1)
        # d ||S x||^2 / dw_i = 2 (Sx)_i (L (w x))_i + 2 x_i (L (w Sx))_i
        gradient = 2 * Sx * image_ + 2 * extremes * (L @ (w[:, None] * Sx))
        return float(top * norm), gradient @ share

    return value_and_gradient


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
