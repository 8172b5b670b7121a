"""The worst signal of a set that local search finds: a lower bound on the worst case, with the signal that attains it."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg.design._convex.signal_sets import Matrix, Product, SignalSet, affine, bounded_minimum, gram, quadratic_form
from nareg.design._convex.upper_bound import Relaxed


def search(
    B: Matrix, U: SignalSet, relaxed: Relaxed, *, also: np.ndarray | None = None, rng: np.random.Generator | None = None,
    n_starts: int = 8,
) -> tuple[float, np.ndarray]:  # fmt: skip
    """The worst signal that local search finds, from random projections of the relaxed moment, and its value."""
    if U.name == "ball":
        return relaxed.value, relaxed.moments[0][:, 0]
    rng = checks.generator(rng)
    A = gram(B @ U.columns)
    V = relaxed.V
    projected = V @ rng.standard_normal((V.shape[1], n_starts))
    projected *= np.where(projected[-1] < 0, -1.0, 1.0)
    if U.name == "box":
        starts = [np.where(p < 0, -1.0, 1.0) for p in projected.T]
        starts += [] if also is None else [np.append(np.where(U.coordinates(x) < 0, -1.0, 1.0), 1.0) for x in also.T]
        vertices = [_flips(A, e) for e in starts]
        signals = [U.signal(e[:-1] * e[-1]) for e in vertices]
    else:
        inside = [np.clip(p[:-1] / max(p[-1], 1e-3), -1, 1) for p in projected.T]
        inside += [] if also is None else [U.coordinates(x) for x in also.T]
        signals = _smooth_search(A, U, relaxed.multiplier, inside)
    errors = [float(np.sum((B @ x) ** 2)) for x in signals]
    best = int(np.argmax(errors))
    return errors[best], signals[best]


def _flips(A: Matrix, e: np.ndarray) -> np.ndarray:
    """Ascent over vertices: to the vertex of the gradient while that helps (A is PSD), then one flip at a time."""
    value = float(e @ (A @ e))
    for _ in range(100):
        other = np.where(A @ e < 0, -1.0, 1.0)
        reached = float(other @ (A @ other))
        if reached <= value * (1 + 1e-12):
            break
        e, value = other, reached
    e = e.copy()
    diagonal = A.diagonal()
    field = A @ e
    threshold = 1e-12 * max(float(np.abs(field).max()), 1e-300)
    while True:
        gain = diagonal - e * field  # a quarter of what flipping each one adds
        i = int(np.argmax(gain))
        if gain[i] <= threshold:
            return e
        if sp.issparse(A):
            part = slice(A.indptr[i], A.indptr[i + 1])
            field[A.indices[part]] -= 2 * e[i] * A.data[part]
        else:
            field -= 2 * e[i] * A[i]
        e[i] = -e[i]


def _smooth_search(A: Matrix, U: SignalSet, mu: float, starts: list[np.ndarray]) -> list[np.ndarray]:
    """Signals of the smooth box: ascent of the Lagrangian from every start, then of the error itself from the best."""
    Q = U.roughness
    scale = max(float(A.diagonal().max()), 1e-300)
    ends = []
    for y in starts:
        end = bounded_minimum(lambda y: -2 / scale * (affine(A, y) - mu * affine(Q, y)), y)
        ends.append(_pulled_inside(U, end))
    best = max(ends, key=lambda y: quadratic_form(A, y))
    for _ in range(20):
        # the error is convex: the signal furthest along its gradient is at least as bad
        step = _pulled_inside(U, _furthest(affine(A, best), U, mu, best))
        if quadratic_form(A, step) <= quadratic_form(A, best) * (1 + 1e-5):
            break
        best = step
    return [U.signal(best)]


def _furthest(gradient: np.ndarray, U: SignalSet, mu: float, y: np.ndarray) -> np.ndarray:
    """Maximize a linear function over the smooth box, by bisection on the multiplier of the limit."""
    Q, kappa = U.roughness, U.smoothness
    scale = float(np.abs(gradient).max(initial=0.0)) or 1.0
    vertex = np.where(gradient < 0, -1.0, 1.0)
    if quadratic_form(Q, vertex) <= kappa:
        return vertex
    mu = mu or float(np.abs(gradient).sum()) / kappa
    low, high = 0.0, np.inf
    for _ in range(25):
        y = bounded_minimum(_tilted(Q, mu / scale, gradient / scale), y)
        q = quadratic_form(Q, y)
        if 0.999 * kappa <= q <= kappa:
            break
        low, high = (mu, high) if q > kappa else (low, mu)
        mu = mu * 4 if np.isinf(high) else mu / 4 if low == 0 else float(np.sqrt(low * high))
    return y


def _tilted(Q: Matrix, mu: float, slope: np.ndarray) -> Product:
    return lambda y: mu * affine(Q, y) - slope


def _pulled_inside(U: SignalSet, y: np.ndarray) -> np.ndarray:
    """The last point within the smoothness limit on the way from the smoothest signal to y."""
    Q, kappa = U.roughness, U.smoothness
    if quadratic_form(Q, y) <= kappa:
        return y
    start, least = U.smoothest
    along = np.append(y - start, 0.0)
    image = Q @ along
    a, b, c = float(along @ image), float(np.append(start, 1.0) @ image), kappa - least
    # a s^2 + 2 b s = c, a hair inside
    s = (np.sqrt(b * b + a * max(c, 0.0)) - b) / a if a > 0 else 0.0
    return start + (1 - 1e-12) * min(max(s, 0.0), 1.0) * (y - start)
