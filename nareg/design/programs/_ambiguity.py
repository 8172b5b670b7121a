"""The worst second moment in a ball around the sample's, for an error that is linear in it: ``max <X, R>`` for PSD X."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

BALLS = ("frobenius", "wasserstein")


def worst_moment(X: np.ndarray, R: np.ndarray, radius: float, ball: str) -> tuple[np.ndarray, float]:
    """The worst moment, and the dual value, which no moment in the ball exceeds.

    Frobenius, ``||R' - R||_F <= radius``: the ball's point in the direction of X, with value ``<X, R> + radius ||X||_F``.
    Wasserstein, for Gaussian signals of mean zero: with gamma above every eigenvalue of X

        max <X, R'> = min_gamma  gamma (radius^2 - tr R) + gamma^2 tr(R (gamma I - X)^-1)
                    = min_gamma  gamma radius^2 + tr(R X) + tr(R X (gamma I - X)^-1 X)

    (Nguyen, Shafieezadeh-Abadeh, Kuhn, Mohajerin Esfahani 2023), attained by ``M R M``, ``M = gamma (gamma I - X)^-1``.
    """
    if radius == 0:
        return R, float(np.sum(X * R))
    if ball == "frobenius":
        size = float(np.linalg.norm(X))
        return R + radius * X / max(size, 1e-300), float(np.sum(X * R)) + radius * size
    x, Q = np.linalg.eigh(X)
    x = x.clip(0)
    if x[-1] == 0:
        return R, 0.0
    r = np.einsum("ik,ij,jk->k", Q, R, Q).clip(0)

    def slope(excess: float) -> float:
        """Derivative of the dual in gamma over ``gamma = x_max (1 + excess)``: it rises."""
        return radius**2 - float(np.sum(r * (x / (x[-1] * (1 + excess) - x)) ** 2))

    low, high = 1e-12, 1.0
    while slope(high) < 0:
        high *= 4
    excess = brentq(slope, low, high, xtol=1e-15, rtol=1e-12) if slope(low) < 0 else low
    gamma = float(x[-1]) * (1 + excess)
    M = (Q * (gamma / (gamma - x))) @ Q.T
    return M @ R @ M, gamma * radius**2 + float(np.sum(r * gamma * x / (gamma - x)))
