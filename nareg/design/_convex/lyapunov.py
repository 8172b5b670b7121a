"""Step one of the relaxation: the filter H of (29), by eigenvalues, and of low rank where the signals are few.

    (R + Sigma) H + H (R + Sigma) = 2 R

For ``Sigma = s^2 I`` and ``R = U diag(lam) U^T`` that is ``H = U diag(h) U^T``, ``h = lam / (lam + s^2)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nareg.design._risk.problem import DesignProblem

#: Eigenvalues of H below this part of the largest are rounding, which large weights would blow up in (30).
NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class StepOne:
    """``H = U diag(h) U^T`` on the nodes that have neighbors (others keep ``H_ii = 1``), and its squared error."""

    U: np.ndarray
    h: np.ndarray
    value: float
    connected: np.ndarray

    @property
    def columns(self) -> np.ndarray:
        """A with ``A A^T = H^2``."""
        return self.U * self.h

    @property
    def matrix(self) -> np.ndarray:
        """Dense H."""
        H = (self.U * self.h) @ self.U.T
        alone = np.flatnonzero(~self.connected)
        H[alone, alone] = 1.0
        return H

    @property
    def constant(self) -> float:
        """``||H - I||_F^2``."""
        return float(np.sum((1 - self.h) ** 2)) + float(self.connected.sum() - self.h.size)


def factor(H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvectors and eigenvalues of a symmetric PSD matrix, without those that are rounding."""
    values, Q = np.linalg.eigh((H + H.T) / 2)
    retained = values > NEGLIGIBLE * max(values[-1], 0.0) if values.size else np.zeros(0, bool)
    return Q[:, retained], values[retained]


def lyapunov_factor(R: np.ndarray, Sigma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Solve ``(R + Sigma) H + H (R + Sigma) = 2 R`` for ``H = U diag(h) U^T``; the least-norm H where R + Sigma is singular."""
    variance = np.diagonal(Sigma)
    if variance.size and np.array_equal(Sigma, variance[0] * np.eye(len(Sigma))):
        values, Q = np.linalg.eigh(R)
        return _wiener(Q, values, float(variance[0]))
    values, Q = np.linalg.eigh(R + Sigma)
    pair = values[:, None] + values[None]
    rotated = 2 * (Q.T @ R @ Q)
    retained = pair > 1e-12 * max(pair.max(initial=0.0), 1e-300)
    # H is PSD, and of low rank where R is
    return factor(Q @ np.where(retained, rotated / np.where(retained, pair, 1.0), 0.0) @ Q.T)


def _wiener(U: np.ndarray, lam: np.ndarray, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """``h = lam / (lam + s^2)`` for the eigenvalues of R that are not rounding."""
    retained = lam > 1e-12 * lam.max(initial=0.0)
    h = lam[retained] / (lam[retained] + variance)
    retained[retained] = h > NEGLIGIBLE * h.max(initial=0.0)
    return U[:, retained], lam[retained] / (lam[retained] + variance)


def dense_step_one(task: DesignProblem) -> StepOne:
    """H of a problem with any second moment and noise covariance."""
    connected = task.L.diagonal() > 0
    index = np.ix_(connected, connected)
    inside, h = lyapunov_factor(task.R[index], task.Sigma_matrix[index])
    U = np.zeros((task.n_nodes, h.size))
    U[connected] = inside
    step = StepOne(U, h, 0.0, connected)
    H = step.matrix
    error = H - np.eye(len(H))
    value = float(np.sum((error @ task.R) * error) + np.sum((H @ task.Sigma_matrix) * H))
    return StepOne(U, h, value, connected)


def low_rank_step_one(A: np.ndarray, variance: float, connected: np.ndarray) -> StepOne:
    """H for ``R = A A^T`` with few columns and noise of the same variance everywhere."""
    inside, s, _ = np.linalg.svd(A[connected], full_matrices=False)
    lam = s**2
    basis, h = _wiener(inside, lam, variance)
    U = np.zeros((len(A), h.size))
    U[connected] = basis
    # sum over all directions of lam (1 - h)^2 + s^2 h^2 = lam s^2 / (lam + s^2), and the untouched noise of lone nodes
    total = lam + variance
    value = float(np.sum(np.divide(lam * variance, total, out=np.zeros_like(lam), where=total > 0)))
    return StepOne(U, h, value + variance * float((~connected).sum()), connected)


def lyapunov(R: np.ndarray, Sigma: np.ndarray) -> np.ndarray:
    """Solve ``(R + Sigma) H + H (R + Sigma) = 2 R``; the least-norm H where R + Sigma is singular."""
    U, h = lyapunov_factor(R, Sigma)
    return (U * h) @ U.T
