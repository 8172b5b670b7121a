"""The worst second moment of a set of signals: the MaxCut relaxation by a low-rank factor.

``max tr(A V V^T)`` over matrices V with unit rows bounds ``max e^T A e`` over vertices e; its multipliers
``d_i = v_i . (A V)_i`` are what :mod:`nareg.design._convex.worst_case` proves the bound with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from scipy.optimize import minimize

from nareg._solvers.eigenvalues import as_dense, extreme_eigenvectors
from nareg.design._convex.signal_sets import Matrix, Product, SignalSet, gram, roughness_of
from nareg.errors import SolverError

#: Up to here eigenvalues come from a dense decomposition; above, bounds are proven by a sparse factorization.
DENSE_EIGENVALUES = 1500
#: Largest rank of V. Above the root of 2 (N + 1) no spurious maximum is left; 16 loses nothing measurable at 10^4 nodes.
RANK = 16


@dataclass(frozen=True)
class Relaxed:
    """The worst second moments ``F F^T`` of the relaxation and the multipliers that bound the worst case.

    ``value`` is ``||B F||_F^2`` of the first; a ball has further ones (its next directions). ``V`` (unit rows) and
    ``multiplier`` are a start for nearby weights.
    """

    moments: list[np.ndarray]
    value: float
    d: np.ndarray
    multiplier: float
    V: np.ndarray


def relax(B: Matrix, U: SignalSet, *, start: Relaxed | None = None) -> Relaxed:
    """Solve the MaxCut relaxation (box, smooth-box), or find the leading singular vector (ball)."""
    if U.name == "ball":
        value, vectors = _leading(B, min(8, B.shape[1] - 1) or 1)
        moments = [U.radius * v[:, None] for v in vectors.T]
        return Relaxed(moments, U.radius**2 * value, np.empty(0), 0.0, vectors)
    A = gram(B @ U.columns)
    size = A.shape[0]
    rng = np.random.default_rng(0)
    if start is not None:
        V = start.V
    else:
        rank = min(size, RANK, max(8, int(np.ceil(np.sqrt(2 * size)))))
        V = _unit_rows(rng.standard_normal((size, rank)))
    mu, parts = 0.0, []
    if start is None or start.multiplier == 0:
        V, d = _factor_maximum(lambda X: A @ X, V, rng)
        parts = [V]
    if U.name == "smooth-box" and (not parts or roughness_of(U.roughness, V) > U.smoothness):
        mu, V, d, parts = _with_smoothness(A, U, V, start.multiplier if start else 0.0, rng)
    F = _compressed(U.columns @ np.hstack(parts))
    return Relaxed([F], float(np.sum((B @ F) ** 2)), d, mu, V)


def spread_moment(U: SignalSet) -> np.ndarray:
    """A moment of the set without a preferred signal: random vertices (shifted towards the smoothest), or directions."""
    T = U.columns
    V = np.random.default_rng(0).standard_normal((T.shape[1], RANK))
    if U.name == "ball":
        return U.radius * V / np.linalg.norm(V)
    V = _unit_rows(V)
    if U.name == "box":
        return T @ V
    e = np.append(U.smoothest[0], 1.0)[:, None]
    q, least = roughness_of(U.roughness, V), U.smoothest[1]
    theta = 1.0 if q <= U.smoothness else (U.smoothness - least) / (q - least)
    return T @ np.hstack([np.sqrt(theta) * V, np.sqrt(1 - theta) * e])


def _with_smoothness(
    A: Matrix, U: SignalSet, V: np.ndarray, guess: float, rng: np.random.Generator
) -> tuple[float, np.ndarray, np.ndarray, list[np.ndarray]]:
    """The multiplier at which the worst moment just meets the limit: mu, V, d and the parts of the moment.

    The bound is convex in mu with slope ``kappa - tr(T^T L T V V^T)``, which is found to be zero by regula falsi in
    the logarithms. Where V jumps across the limit, the mixture of both sides meets it.
    """
    Q, kappa = U.roughness, U.smoothness
    first = mu = guess or roughness_of(A, V) / max(roughness_of(Q, V), kappa)
    # (mu, roughness, V) nearest to the limit on either side
    rough_side: tuple[float, float, np.ndarray] | None = None
    smooth_side: tuple[float, float, np.ndarray] | None = None
    best: tuple[float, float, np.ndarray, np.ndarray] | None = None
    for _ in range(40):
        V, d = _factor_maximum(_penalized(A, Q, mu), V, rng, slack=True)
        q, value = roughness_of(Q, V), float(d.sum()) + mu * kappa
        if best is None or value < best[0]:
            best = (value, mu, V, d)
        if q > kappa:
            rough_side = (mu, q, V)
        else:
            smooth_side = (mu, q, V)
        if abs(q - kappa) < 1e-3 * kappa or mu < 1e-9 * first:
            break
        if rough_side is None or smooth_side is None:
            # a warm guess is near: step past the limit, not far
            ratio = np.clip(max(q / kappa, 1e-12) ** 2, 0.4, 2.5)
            mu *= float(max(ratio, 1.02) if q > kappa else min(ratio, 0.98))
            continue
        ends = np.log([rough_side[0], smooth_side[0]])
        if abs(ends[1] - ends[0]) < 1e-3:
            break
        heights = np.log([rough_side[1] / kappa, max(smooth_side[1] / kappa, 1e-12)])
        share = heights[0] / (heights[0] - heights[1])
        mu = float(np.exp(ends[0] + np.clip(share, 0.15, 0.85) * (ends[1] - ends[0])))
    assert best is not None
    _, mu, V, d = best
    if rough_side is None or smooth_side is None:
        return mu, V, d, [V]
    theta = (kappa - smooth_side[1]) / max(rough_side[1] - smooth_side[1], 1e-300)
    return mu, V, d, [np.sqrt(theta) * rough_side[2], np.sqrt(1 - theta) * smooth_side[2]]


def _penalized(A: Matrix, Q: Matrix, mu: float) -> Product:
    return lambda V: A @ V - mu * (Q @ V)


def _factor_maximum(
    product: Product, V: np.ndarray, rng: np.random.Generator, *, slack: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Maximize ``tr(V^T A V)`` over V with unit rows by L-BFGS, and ``d_i = v_i . (A V)_i`` there.

    With ``slack`` all rows but the last may be shorter: what they lack is one more number in each, outside A.
    """
    size, rank = V.shape
    missing = np.sqrt(np.maximum(1 - np.sum(V**2, axis=1, keepdims=True), 0.0))
    W = np.hstack([V, missing]) if slack else V
    # a warm start of low rank is stationary in all other directions: leave it a little
    W = W + 0.02 / np.sqrt(rank) * rng.standard_normal(W.shape)
    scale = float(np.linalg.norm(product(V))) * np.sqrt(size) or 1.0
    free = np.ones_like(W)
    free[-1, rank:] = 0.0

    def unit(W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        length = np.maximum(np.linalg.norm(W * free, axis=1, keepdims=True), 1e-300)
        return W * free / length, length

    def negative(flat: np.ndarray) -> tuple[float, np.ndarray]:
        rows, length = unit(flat.reshape(W.shape))
        slope = np.zeros_like(rows)
        slope[:, :rank] = product(rows[:, :rank])
        along = np.sum(rows * slope, axis=1, keepdims=True)
        return -float(along.sum()) / scale, (-2 / scale * free * (slope - along * rows) / length).ravel()

    options = {"maxiter": 500, "maxfun": 1000, "ftol": 1e-9, "gtol": 1e-8, "maxcor": 10}
    solution = minimize(negative, W.ravel(), jac=True, method="L-BFGS-B", options=options)
    V = unit(solution.x.reshape(W.shape))[0][:, :rank]
    return V, np.sum(V * product(V), axis=1)


def _leading(B: Matrix, k: int) -> tuple[float, np.ndarray]:
    """Largest eigenvalue of ``B^T B``, and its k leading eigenvectors from the first on."""
    n = B.shape[1]
    if n <= DENSE_EIGENVALUES:
        values, vectors = eigh(as_dense(gram(B)), subset_by_index=[n - k, n - 1])
    else:
        pairs = extreme_eigenvectors(sp.csr_array(B.T @ B), k, "LM", tol=0.0)
        if pairs is None:
            raise SolverError("the largest error over the ball was not found: Lanczos did not converge; take smaller weights.")
        values, vectors = pairs
    return max(float(values[-1]), 0.0), vectors[:, ::-1]


def _unit_rows(V: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(V, axis=1, keepdims=True)
    return V / np.where(length > 0, length, 1.0)


def _compressed(F: np.ndarray) -> np.ndarray:
    """A factor of ``F F^T`` without its negligible directions."""
    left, values, _ = np.linalg.svd(F, full_matrices=False)
    significant = values > 1e-6 * max(values.max(initial=0.0), 1e-300)
    return left[:, significant] * values[significant]
