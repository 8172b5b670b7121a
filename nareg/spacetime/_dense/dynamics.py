"""The state-space model: how the field moves from one time to the next.

The state stacks the field at the last p times, ``z_t = (x_t, ..., x_{t-p+1})`` with p = 1 or 2::

    x_t = A_1 x_{t-1} + ... + A_p x_{t-p} + e_t,    e_t ~ N(0, s_t Q)
    y_t = x_t + v_t where there is a reading,         v_t ~ N(0, diag(r_t))

Rows are times in this package's inner modules.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf

from nareg.errors import SolverError


@dataclass(frozen=True)
class Dynamics:
    """``A_1 .. A_p`` as numbers, (N,) diagonals or (N, N) matrices, and the covariances that belong to them."""

    blocks: tuple[np.ndarray, ...]  # A_1 .. A_p
    Q: np.ndarray  # (N, N) covariance of the process noise per step
    P0: np.ndarray  # (pN, pN) covariance of the first state, whose mean is zero

    @property
    def order(self) -> int:
        return len(self.blocks)

    @property
    def n(self) -> int:
        return int(self.Q.shape[0])

    def matrix(self) -> np.ndarray:
        """``[A_1 ... A_p]``, (N, pN)."""
        eye = np.eye(self.n)
        return np.hstack([A if A.ndim == 2 else A * eye for A in self.blocks])

    def product(self, state: np.ndarray) -> np.ndarray:
        """``[A_1 ... A_p] state`` for a state (pN,) or (pN, k)."""
        if len(self.blocks) == 1:
            return _times(self.blocks[0], state)
        n = self.n
        return _times(self.blocks[0], state[:n]) + _times(self.blocks[1], state[n:])

    def mean_after(self, z: np.ndarray) -> np.ndarray:
        """Mean of the next state."""
        return np.concatenate([self.product(z), z[: len(z) - self.n]])

    def covariance_after(self, P: np.ndarray, scale: float) -> np.ndarray:
        """Covariance of the next state."""
        n, m = self.n, P.shape[0]
        if m == n and self.blocks[0].ndim == 0:
            return self.blocks[0] ** 2 * P + (self.Q if scale == 1 else scale * self.Q)
        AP = self.product(P)
        top = self.product(AP.T)
        top = 0.5 * (top + top.T) + scale * self.Q
        if m == n:
            return top
        result = np.empty_like(P)
        result[:n, :n] = top
        result[:n, n:] = AP[:, : m - n]
        result[n:, :n] = result[:n, n:].T
        result[n:, n:] = P[: m - n, : m - n]
        return result


def _times(A: np.ndarray, part: np.ndarray) -> np.ndarray:
    if A.ndim == 2:
        return A @ part
    return (A if part.ndim == 1 or A.ndim == 0 else A[:, None]) * part


def leap(dynamics: Dynamics, z: np.ndarray, P: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the state after ``steps`` without a reading, by doubling: log2(steps) products of matrices."""
    n, m = dynamics.n, P.shape[0]
    F, Q = np.eye(m, k=-n), np.zeros((m, m))
    F[:n], Q[:n, :n] = dynamics.matrix(), dynamics.Q
    while steps:
        if steps & 1:
            z, P = F @ z, F @ P @ F.T + Q
        steps >>= 1
        if steps:
            F, Q = F @ F, F @ Q @ F.T + Q
    return z, 0.5 * (P + P.T)


def factor(matrix: np.ndarray, what: str) -> np.ndarray:
    """Lower Cholesky factor (what stands above the diagonal is not zero), or an error that says of what."""
    L, info = dpotrf(matrix, lower=1, clean=0)
    if info:
        raise SolverError(f"{what} is not positive definite in float64: the noise or the process noise is too small.")
    return L
