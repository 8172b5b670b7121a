"""Step two of the relaxation, (30): the weights whose filter comes closest to a given H.

``min 2 ||H (I + S(w)) - I||_F^2`` with the lower bound that (30) drops put back. The relaxation and the min-max designs
for the true error end with it.

Step one of the relaxation: the filter H of (29), by eigenvalues, and of low rank where the signals are few.

    (R + Sigma) H + H (R + Sigma) = 2 R

For ``Sigma = s^2 I`` and ``R = U diag(lam) U^T`` that is ``H = U diag(h) U^T``, ``h = lam / (lam + s^2)``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from nareg._solvers.threads import few_threads
from nareg.design._convex import low_rank
from nareg.design._convex.low_rank import LOW_RANK, dense_omega
from nareg.design._convex.quadratic import SupportQuadratic
from nareg.design._risk.checked import DesignEnd, local_status
from nareg.design._risk.descent import Groups, ValueAndGradient, feasible
from nareg.design._risk.problem import DesignProblem, SignalProblem
from nareg.design._risk.sampled import pair_products
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, WeightDesign

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


def fit_weights_to(
    task: DesignProblem, H: np.ndarray, limits: tuple[np.ndarray, np.ndarray], progress: ProgressCallback | None = None,
    groups: Groups | None = None,
) -> WeightDesign:  # fmt: skip
    """Step two, (30): weights whose filter is closest to a dense H, within ``limits`` on ``w_i^2``."""
    step = StepOne(*factor(H), 0.0, np.ones(len(H), dtype=bool))
    return fit_dense(task, step, limits, Groups(None, len(H)) if groups is None else groups, progress)


def fit_dense(
    task: DesignProblem, step: StepOne, limits: tuple[np.ndarray, np.ndarray], groups: Groups,
    progress: ProgressCallback | None,
) -> WeightDesign:  # fmt: skip
    """(30) for a problem with dense matrices: starts and scale by the exact risk."""
    white = task.whitened()
    low, high = (limit / task.c for limit in limits)
    with few_threads(task.n_nodes):
        candidates = {"inverse principal signal": white.inverse_signal(high), "best scalar": white.best_scalar(low, high)}
    return fit_low_rank(task, step, candidates, white.mse_along, limits, groups, progress)


def fit_low_rank(
    task: SignalProblem, step: StepOne, candidates: dict[str, np.ndarray],
    along: Callable[[np.ndarray], Callable[[float], float]], limits: tuple[np.ndarray, np.ndarray], groups: Groups,
    progress: ProgressCallback | None,
) -> WeightDesign:  # fmt: skip
    """(30) by a low-rank factor with its dual bound, then at rank one from several starts, the best kept."""
    started = time.perf_counter()
    L, half = low_rank.coordinates(task.base.L, task.c, groups)
    low_white, high_white = (limit / half**2 for limit in limits)
    to_white = half / np.sqrt(task.c)
    quadratic = fit_quadratic(L, step, groups)
    bounds = groups.bounds(low_white, high_white)
    first = low_rank.spread(groups.reduce_start(1 / np.sqrt(np.where(L.diagonal() > 0, L.diagonal(), L.diagonal().max()))))
    start = quadratic.best_multiple(first)
    omega = low_rank.minimize(quadratic, *bounds, start, mesh_like=task.mesh_like, progress=progress)
    spent = time.perf_counter()
    V = groups.expand(omega.V)
    W, share = low_rank.directions(V)
    rounded = W[:, 0]
    objective = doubled(quadratic)
    # (30) at rank one has local minima: several starts, the best kept
    starts = {
        name: groups.expand(_best_scale(objective, groups.reduce_start(w / to_white), *bounds))
        for name, w in candidates.items()
    }
    starts = {"low rank": feasible(rounded, low_white, high_white), **starts}
    reached = low_rank.refine(quadratic, starts, low_white, high_white, interrupted=omega.interrupted, progress=progress)
    result = low_rank.best(reached)
    refined = groups.expand(result.w)
    scale = open_scale(
        lambda d: along(to_white * d), lambda w: objective(groups.reduce_start(w)), refined, low_white, high_white
    )
    w = feasible(scale * refined, low_white, high_white)
    details: DesignDetails = {
        "degrees_of_freedom": groups.count,
        **omega.details(2.0),
        "rank_one_share": share,
        "starts": {name: 2 * d.value for name, d in reached.items()},
        "scale_factor": scale,
    }
    end = DesignEnd(
        local_status(result, omega.status), f"eigenvalues; {LOW_RANK}", result.message, result.gradient_norm, details,
        None if omega.bound is None else 2 * omega.bound,
    )  # fmt: skip
    return task.pack(
        "relaxation", feasible(w * half, *limits), objective(groups.reduce_start(w))[0], limits, end,
        omega=dense_omega(half[:, None] * V),
        timings={"low rank": spent - started, "refinement": time.perf_counter() - spent},
        settings={"solver": "auto"},
    )  # fmt: skip


def fit_quadratic(L: sp.csr_array, step: StepOne, groups: Groups) -> SupportQuadratic:
    """Half of (30), ``||H (I + S) - I||_F^2 = ||H S||_F^2 + 2 <H^2 - H, S> + ||H - I||_F^2``."""
    quadratic = SupportQuadratic(L, step.columns, groups, constant=step.constant)
    quadratic.slope = pair_products(quadratic.L, step.U * (step.h**2 - step.h), step.U) / 2
    # H (I + S) has at most the rank of H, which leaves this much of the identity
    quadratic.least = float(step.connected.sum() - step.h.size)
    return quadratic


def doubled(quadratic: SupportQuadratic) -> ValueAndGradient:
    """(30) itself at rank one."""

    def value_and_gradient(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = quadratic.weights_criterion(v)
        return 2 * value, 2 * gradient

    return value_and_gradient


def fit_criterion(L: np.ndarray, H: np.ndarray) -> ValueAndGradient:
    """(30) at rank one, ``2 ||H (I + S(w)) - I||_F^2``, and its gradient in w, with dense matrices."""
    identity = np.eye(len(H))

    def value_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
        E = H @ (identity + (w[:, None] * L) * w) - identity
        slope = 2 * H.T @ E
        return 2 * float(np.sum(E**2)), 2 * ((slope + slope.T) * L) @ w

    return value_and_gradient


def _best_scale(objective: ValueAndGradient, start: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The start at the smallest scale whose criterion is within a thousandth of the best.

    Where the direction makes ``S x = 0`` the criterion hardly depends on the scale, and large weights only
    spoil the conditioning.
    """
    unit = start / (np.abs(start).max() or 1.0)
    scales = float(np.sqrt(high.max())) * np.geomspace(1e-8, 1.0, 81)
    values = np.array([objective(feasible(s * unit, low, high))[0] for s in scales])
    good = values <= values.min() + 1e-3 * (values[0] - values.min())
    return feasible(scales[np.argmax(good)] * unit, low, high)


def open_scale(
    along: Callable[[np.ndarray], Callable[[float], float]], objective: ValueAndGradient, w: np.ndarray, low: np.ndarray,
    high: np.ndarray,
) -> float:  # fmt: skip
    """The factor with the smallest MSE among those that leave (30) as it is within one part in a million.

    With one known signal the best weights at rank one make ``S x = 0`` at any scale, and (30) cannot choose.
    """
    # (30) along s is a + b s^2 + d s^4: three values give it all
    first, second, third = (objective(s * w)[0] for s in (0.0, 1.0, np.sqrt(2.0)))
    d = (third - 2 * second + first) / 2
    b = second - first - d
    scales = np.geomspace(1e-4, 1e4, 161)
    square = np.outer(scales**2, w**2)
    allowed = (square >= low).all(axis=1) & (square <= high).all(axis=1)
    allowed &= first + b * scales**2 + d * scales**4 <= second * (1 + 1e-6)
    choices = scales[allowed].tolist() or [1.0]
    return choices[0] if len(choices) == 1 else min(choices, key=along(w))
