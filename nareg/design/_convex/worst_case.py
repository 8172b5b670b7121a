"""The worst signal of a set for given weights: local search finds one, and a proven bound limits all.

The error of a filter at a signal is ``||B x||^2`` (plus a variance that does not depend on x), with
``B = C^-1/2 S`` for Prony's modified error and ``B = H - I`` for the bias. Its maximum over a box is at a vertex
and NP-hard to find. Write the box as ``x = m + diag(h) e``, ``|e_i| <= 1``, and put the center behind one more
coordinate: ``x = T e~`` with ``T = [diag(h), m]`` and ``e~`` in ``[-1, 1]^(N + 1)``. Then

    max_x ||B x||^2 = max e~^T A e~ <= sum(d)   for every diagonal d with diag(d) >= A = (B T)^T (B T)

in the Loewner order: the S-procedure, one multiplier for each side of the box. The smallest such bound is the
MaxCut relaxation, ``max tr(A V V^T)`` over matrices V with unit rows, and ``d_i = v_i . (A V)_i`` there. With the
smoothness limit ``x^T L x <= kappa`` every ``mu >= 0`` gives the bound of ``A - mu T^T L T`` plus ``mu kappa``. That
matrix is indefinite: its maximum may be inside the box, so rows of V may be shorter than one and d must be >= 0
(but for the last coordinate, which is one).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._core.arrays import briefly_shown
from nareg._solvers import direct
from nareg._solvers.eigenvalues import as_dense, extreme_eigenvalue
from nareg._solvers.factorization import factorize
from nareg._solvers.system import FilterSystem, Penalty, build, filter_matrix, penalty
from nareg._solvers.threads import few_threads
from nareg.design._convex.signal_sets import (
    Ball,
    Matrix,
    Product,
    SignalSet,
    SmoothBox,
    affine,
    bounded_minimum,
    checked_uncertainty,
    gram,
    quadratic_form,
    signal_set,
)
from nareg.design._convex.upper_bound import DENSE_EIGENVALUES, Relaxed, relax
from nareg.design._risk.checked import data_weights, positive_data_weight
from nareg.errors import InputError, TooLargeError
from nareg.io import takes_tables
from nareg.results import WeightDesign
from nareg.typing import ArrayLike, GraphLike, WeightsLike

#: Random projections that the search begins with.
STARTS = 8


def search(B: Matrix, U: SignalSet, relaxed: Relaxed, rng: np.random.Generator | None) -> tuple[float, np.ndarray]:
    """The worst signal that local search finds, from random projections of the relaxed moment, and its value."""
    if U.name == "ball":
        return relaxed.value, relaxed.moments[0][:, 0]
    rng = checks.generator(rng)
    A = gram(B @ U.columns)
    V = relaxed.V
    projected = V @ rng.standard_normal((V.shape[1], STARTS))
    projected *= np.where(projected[-1] < 0, -1.0, 1.0)
    if U.name == "box":
        vertices = [_flips(A, np.where(p < 0, -1.0, 1.0)) for p in projected.T]
        signals = [U.signal(e[:-1] * e[-1]) for e in vertices]
    else:
        inside = [np.clip(p[:-1] / max(p[-1], 1e-3), -1, 1) for p in projected.T]
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


#: Largest network whose filter matrix is formed for the worst bias.
FILTER_NODES = 1000


@briefly_shown
@dataclass(frozen=True)
class WorstCase:
    """Bounds on the largest error of a filter over a set of signals.

    Attributes
    ----------
    lower : float
        The error at ``signal``, the worst signal found.
    upper : float
        Proven: no signal of the set has a larger error.
    signal : (N,) array
    variance : float
        The part of both that comes from the noise.
    multiplier : float
        ``mu`` of the smoothness limit in the upper bound; 0 for the other sets.
    """

    lower: float
    upper: float
    signal: np.ndarray
    variance: float
    multiplier: float


@takes_tables()
def worst_case(
    graph: GraphLike,
    weights: WeightsLike,
    *,
    uncertainty: Literal["box"] | SmoothBox | Ball,
    criterion: Literal["prony", "mse"] = "mse",
    signal_low: ArrayLike | None = None,
    signal_high: ArrayLike | None = None,
    noise: ArrayLike | None = None,
    data_weight: ArrayLike | Literal["noise"] | None = None,
    rng: np.random.Generator | None = None,
) -> WorstCase:
    """Largest error of a filter over a set of signals, between two bounds.

    Parameters
    ----------
    graph : Graph or (N, N) operator
    weights : WeightDesign, number, (N,) array or sparse (N, N) S
    uncertainty : "box", SmoothBox or Ball
        ``signal_low <= x <= signal_high``; ``SmoothBox(smoothness)``, the same with ``x^T L x <= smoothness``;
        ``Ball(radius)``, ``||x|| <= radius``.
    criterion : {"mse", "prony"}
        ``||(H - I) x||^2 + tr(H Sigma H^T)``, or the modified error ``||C^-1/2 S x||^2``.
    signal_low, signal_high : number or (N,) array
        Lowest and highest value of the signal at each node; not for a :class:`Ball`.
    noise : number, (N,) or (N, N) array
        Noise variance(s) or covariance, for ``"mse"``.
    data_weight : None, "noise" or (N,) array
        Data term; by default that of the design.
    rng : numpy Generator, optional
        For the starts of the local search; a fixed seed by default.

    Returns
    -------
    WorstCase

    Examples
    --------
    >>> import nareg
    >>> grid = nareg.graphs.grid((3, 3))
    >>> worst = nareg.design.worst_case(grid, 1.0, uncertainty=nareg.design.Ball(2.0), noise=0.1)
    >>> bool(worst.lower <= worst.upper)
    True
    """
    base = penalty(graph)
    n = base.n_nodes
    checks.choice("criterion", criterion, ("prony", "mse"))
    if criterion == "mse" and noise is None:
        raise InputError("noise is None: criterion='mse' needs its variance; pass it, or use criterion='prony'.")
    U = signal_set(checked_uncertainty(uncertainty, corners=False), base.L, signal_low=signal_low, signal_high=signal_high)
    Sigma = None if noise is None else checks.noise("noise", noise, n)
    if data_weight is None:
        data_weight = weights.data_weight if isinstance(weights, WeightDesign) else None
    system = build(base, weights, data_weights(data_weight, Sigma, n))
    if criterion == "prony":
        scale = positive_data_weight(system.c, "criterion='prony'") ** -0.5
        return examine(sp.csr_array(sp.diags_array(scale) @ system.S), U, rng=rng)
    filter_size(n)
    assert Sigma is not None
    H = filter_matrix(system, what="the worst case")
    variance = float(np.sum((H * Sigma if Sigma.ndim == 1 else H @ Sigma) * H))
    return examine(H - np.eye(n), U, variance=variance, rng=rng)


def filter_size(n: int) -> None:
    """Refuse to form the filter matrix of a large network."""
    if n > FILTER_NODES:
        raise TooLargeError(
            f"criterion='mse' on {n} nodes needs the dense filter matrix at every step (limit {FILTER_NODES} nodes): use "
            "criterion='prony', or a part of the network (graph.subgraph)."
        )


def examine(B: Matrix, U: SignalSet, *, variance: float = 0.0, rng: np.random.Generator | None = None) -> WorstCase:
    """Worst case of ``||B x||^2 + variance``."""
    with few_threads(B.shape[0]):
        relaxed = relax(B, U)
        value, x = search(B, U, relaxed, rng)
        upper = max(certify(B, U, relaxed), value)
    return WorstCase(value + variance, upper + variance, x, variance, relaxed.multiplier)


def certify(B: Matrix, U: SignalSet, relaxed: Relaxed) -> float:
    """A bound that holds: ``sum(d) + mu kappa`` after d is raised until ``diag(d) >= A - mu T^T L T``."""
    A = gram(B @ U.columns)
    if U.name == "ball":
        return largest_eigenvalue(A)
    if relaxed.multiplier > 0:
        A = A - relaxed.multiplier * U.roughness
    d = relaxed.d.copy()
    d[:-1] = np.maximum(d[:-1], 0.0)
    size = np.maximum(np.abs(d), np.abs(A.diagonal()))
    top = float(size.max(initial=0.0))
    if top == 0:
        return 0.0
    # raised in proportion to itself: entries of d may differ by many orders of magnitude
    weight = np.maximum(size, 1e-9 * top)
    half = weight**-0.5
    gap = A - (sp.diags_array(d) if sp.issparse(A) else np.diag(d))
    scaled = sp.csr_array(sp.diags_array(half) @ gap @ sp.diags_array(half)) if sp.issparse(A) else half[:, None] * gap * half
    bound = float(d.sum()) + max(largest_eigenvalue(scaled), 0.0) * float(weight.sum())
    return bound + (relaxed.multiplier * U.smoothness if relaxed.multiplier > 0 else 0.0)


def largest_eigenvalue(M: Matrix) -> float:
    """An upper bound on the largest eigenvalue of a symmetric matrix, tight and safe against rounding."""
    n = M.shape[0]
    norm = float(abs(M).sum(axis=1).max())
    rounding = 4 * n * float(np.finfo(float).eps) * norm
    if n <= DENSE_EIGENVALUES:
        return float(np.linalg.eigvalsh(as_dense(M))[-1]) + rounding
    estimate = extreme_eigenvalue(M, "LA")
    if estimate is None:
        return norm
    for margin in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1.0):
        bound = estimate + margin * max(abs(estimate), 1e-3 * norm)
        if _is_positive_definite(sp.csr_array(bound * sp.eye_array(n) - M)):
            return bound + rounding
    return norm


def _is_positive_definite(M: sp.csr_array) -> bool:
    """Whether a factorization without row exchanges has positive pivots."""
    n = M.shape[0]
    system = FilterSystem(S=M, c=np.zeros(n), w=None, penalty=Penalty(M, False, lambda i: f"node {i}"))
    if direct.refusal(system) is not None:
        raise TooLargeError(
            f"the worst case over {n} nodes that are not a mesh cannot be proven in memory: pass a part (graph.subgraph)."
        )
    return factorize(M) is not None
