"""The worst signal of a set, for given weights: found by local search, and bounded from above with proof.

The error of a filter at a signal is ``||B x||^2`` (plus a variance that does not depend on x), with
``B = C^-1/2 S`` for Prony's modified error and ``B = H - I`` for the bias. Its maximum over a box is at a vertex
and NP-hard to find. Write the box as ``x = m + diag(h) e``, ``|e_i| <= 1``, and put the centre behind one more
coordinate: ``x = T e~`` with ``T = [diag(h), m]`` and ``e~`` in ``[-1, 1]^(N + 1)``. Then

    max_x ||B x||^2 = max e~^T A e~ <= sum(d)   for every diagonal d with diag(d) >= A = (B T)^T (B T)

in the Loewner order: the S-procedure, one multiplier for each side of the box. The smallest such bound is the
MaxCut relaxation, ``max tr(A V V^T)`` over matrices V with unit rows, and ``d_i = v_i . (A V)_i`` there. With the
smoothness limit ``x^T L x <= kappa`` every ``mu >= 0`` gives the bound of ``A - mu T^T L T`` plus ``mu kappa``. That
matrix is indefinite: its maximum may be inside the box, so rows of V may be shorter than one and d must be >= 0
(but for the last coordinate, which is one).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from scipy.optimize import minimize
from scipy.sparse.linalg import eigsh

from nareg import _checks
from nareg.design._local import few_threads
from nareg.design._problem import fit_weights
from nareg.errors import InputError, TooLargeError
from nareg.filters import direct
from nareg.filters._system import FilterSystem, Penalty, build, filter_matrix, penalty
from nareg.results import Status

#: The sets that :func:`worst_case` knows.
SETS = ("box", "smooth-box", "ball")
#: Largest network whose filter matrix is formed for the worst bias.
FILTER_NODES = 1000
#: Below this size products with a dense A are faster than with a sparse one.
SMALL = 300
#: Up to here eigenvalues come from a dense decomposition; above, bounds are proven by a sparse factorisation.
DENSE_EIGENVALUES = 1500
#: Largest rank of V. Above the root of 2 (N + 1) no spurious maximum is left; 16 loses nothing measurable at 10^4 nodes.
RANK = 16

Matrix = Any  # a dense array or a sparse one
Product = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class SignalSet:
    """A box, a box with a limit on ``x^T L x``, or a ball of signals (checked by :func:`signal_set`)."""

    name: str
    L: sp.csr_array
    low: np.ndarray
    high: np.ndarray
    smoothness: float = np.inf
    radius: float = np.inf

    @cached_property
    def columns(self) -> sp.csr_array:
        """T. Nodes whose value is known (no width) have no coordinate of their own."""
        n = self.low.size
        if self.name == "ball":
            return sp.csr_array(self.radius * sp.eye_array(n))
        half = (self.high - self.low) / 2
        wide = np.flatnonzero(half > 0)
        widths = sp.csr_array((half[wide], (wide, np.arange(wide.size))), shape=(n, wide.size))
        return sp.csr_array(sp.hstack([widths, ((self.low + self.high) / 2)[:, None]]))

    @cached_property
    def roughness(self) -> Matrix:
        """``T^T L T``: ``x^T L x`` in the coordinates of the box."""
        return _gram(self.columns, self.L)

    @cached_property
    def smoothest(self) -> tuple[np.ndarray, float]:
        """Coordinates of the smoothest signal of the box, and its ``x^T L x``."""
        size = self.columns.shape[1] - 1
        scale = float(np.abs(self.roughness.diagonal()).max(initial=0.0)) or 1.0
        y = _bounded_minimum(lambda y: 2 * _affine(self.roughness, y) / scale, np.zeros(size))
        return y, _form(self.roughness, y)

    def signal(self, y: np.ndarray) -> np.ndarray:
        """The signal at coordinates y in [-1, 1] (box), kept inside in spite of rounding."""
        return np.clip(self.columns @ np.append(y, 1.0), self.low, self.high)

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Coordinates in the box of the signal x."""
        half = (self.high - self.low) / 2
        wide = half > 0
        return np.clip(((x - (self.low + self.high) / 2)[wide]) / half[wide], -1.0, 1.0)


def signal_set(name: str, L: sp.csr_array, *, low: Any, high: Any, smoothness: Any, radius: Any) -> SignalSet:
    """Check what describes a set of signals; bounds that a set does not use must not be given."""
    _checks.choice("uncertainty", name, SETS)
    n = L.shape[0]
    wanted = {"box": ("low", "high"), "smooth-box": ("low", "high", "smoothness"), "ball": ("radius",)}[name]
    for argument, value in (("low", low), ("high", high), ("smoothness", smoothness), ("radius", radius)):
        if (value is None) == (argument in wanted):
            raise InputError(
                f"{argument} is {'None' if value is None else 'given'}: uncertainty={name!r} needs {' and '.join(wanted)}"
                + ("." if value is None else f" only; leave {argument} out.")
            )
    if name == "ball":
        radius = _checks.number("radius", radius, low=0.0, strict=True)
        free = np.full(n, np.inf)
        return SignalSet(name, L, -free, free, radius=radius)
    x_low, x_high = box_bounds(low, high, n)
    if name == "box":
        return SignalSet(name, L, x_low, x_high)
    limit = _checks.number("smoothness", smoothness, low=0.0, strict=True)
    U = SignalSet(name, L, x_low, x_high, smoothness=limit)
    least = U.smoothest[1]
    if least > limit:
        raise InputError(
            f"smoothness is {limit:g} but the smoothest signal between low and high has x^T L x = {least:g}: "
            "raise it, for example to the largest x^T L x of training signals."
        )
    return U


def box_bounds(low: Any, high: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Checked lowest and highest values."""
    x_low, x_high = _checks.node_vector("low", low, n), _checks.node_vector("high", high, n)
    if (x_low > x_high).any():
        i = int(np.flatnonzero(x_low > x_high)[0])
        raise InputError(f"low[{i}] = {x_low[i]:g} is above high[{i}] = {x_high[i]:g}: swap them.")
    return x_low, x_high


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


def worst_case(
    graph: Any,
    weights: Any,
    *,
    uncertainty: str,
    criterion: str = "mse",
    low: Any = None,
    high: Any = None,
    smoothness: Any = None,
    radius: Any = None,
    noise: Any = None,
    fit: Any = None,
    rng: np.random.Generator | None = None,
) -> WorstCase:
    """Largest error of a filter over a set of signals, between two bounds.

    Parameters
    ----------
    graph : Graph or (N, N) operator
    weights : WeightDesign, number, (N,) array or sparse (N, N) S
    uncertainty : {"box", "smooth-box", "ball"}
        ``low <= x <= high``; the same with ``x^T L x <= smoothness``; ``||x|| <= radius``.
    criterion : {"mse", "prony"}
        ``||(H - I) x||^2 + tr(H Sigma H^T)``, or the modified error ``||C^-1/2 S x||^2``.
    low, high, smoothness, radius
        What the set needs.
    noise : number, (N,) or (N, N) array
        Noise variance(s) or covariance, for ``"mse"``.
    fit : None, "noise" or (N,) array
        Data term; by default that of the design.
    rng : numpy Generator, optional
        For the starts of the local search; a fixed seed by default.

    Returns
    -------
    WorstCase

    Examples
    --------
    >>> import nareg
    >>> from nareg.design._worst_case import worst_case
    >>> found = worst_case(nareg.graphs.grid((3, 3)), 1.0, uncertainty="ball", radius=2.0, noise=0.1)
    >>> bool(found.lower <= found.upper)
    True
    """
    base = penalty(graph)
    n = base.n_nodes
    _checks.choice("criterion", criterion, ("prony", "mse"))
    if criterion == "mse" and noise is None:
        raise InputError("noise is None: criterion='mse' needs its variance; pass it, or use criterion='prony'.")
    U = signal_set(uncertainty, base.L, low=low, high=high, smoothness=smoothness, radius=radius)
    Sigma = None if noise is None else _checks.noise("noise", noise, n)
    if fit is None:
        fit = getattr(weights, "fit", None)
    system = build(base, weights, fit_weights(fit, Sigma, n))
    if criterion == "prony":
        if (system.c <= 0).any():
            i = int(np.argmin(system.c))
            raise InputError(f"fit[{i}] is {system.c[i]:g}: criterion='prony' needs a positive data term at every node.")
        return examine(sp.csr_array(sp.diags_array(system.c**-0.5) @ system.S), U, rng=rng)
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


def examine(
    B: Matrix,
    U: SignalSet,
    *,
    variance: float = 0.0,
    also: np.ndarray | None = None,
    start: Relaxed | None = None,
    rng: np.random.Generator | None = None,
) -> WorstCase:
    """Worst case of ``||B x||^2 + variance``; ``also`` (N, K) are further signals of the set to start from."""
    with few_threads(B.shape[0]):
        relaxed = relax(B, U, start=start)
        value, x = search(B, U, relaxed, also=also, rng=rng)
        upper = max(certify(B, U, relaxed), value)
    return WorstCase(value + variance, upper + variance, x, variance, relaxed.multiplier)


# -- the relaxation ---------------------------------------------------------------------------------------


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
    A = _gram(B @ U.columns)
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
    if U.name == "smooth-box" and (not parts or _rough(U.roughness, V) > U.smoothness):
        mu, V, d, parts = _with_smoothness(A, U, V, start.multiplier if start else 0.0, rng)
    F = _compressed(U.columns @ np.hstack(parts))
    return Relaxed([F], float(np.sum((B @ F) ** 2)), d, mu, V)


def spread_moment(U: SignalSet) -> np.ndarray:
    """A moment of the set without a preferred signal: random vertices (pulled towards the smoothest), or directions."""
    T = U.columns
    V = np.random.default_rng(0).standard_normal((T.shape[1], RANK))
    if U.name == "ball":
        return U.radius * V / np.linalg.norm(V)
    V = _unit_rows(V)
    if U.name == "box":
        return T @ V
    e = np.append(U.smoothest[0], 1.0)[:, None]
    q, least = _rough(U.roughness, V), U.smoothest[1]
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
    first = mu = guess or _rough(A, V) / max(_rough(Q, V), kappa)
    # (mu, roughness, V) nearest to the limit on either side
    rough_side: tuple[float, float, np.ndarray] | None = None
    smooth_side: tuple[float, float, np.ndarray] | None = None
    best: tuple[float, float, np.ndarray, np.ndarray] | None = None
    for _ in range(40):
        V, d = _factor_maximum(_penalised(A, Q, mu), V, rng, slack=True)
        q, value = _rough(Q, V), float(d.sum()) + mu * kappa
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


def _penalised(A: Matrix, Q: Matrix, mu: float) -> Product:
    return lambda V: A @ V - mu * (Q @ V)


def _factor_maximum(
    product: Product, V: np.ndarray, rng: np.random.Generator, *, slack: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Maximise ``tr(V^T A V)`` over V with unit rows by L-BFGS, and ``d_i = v_i . (A V)_i`` there.

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
    found = minimize(negative, W.ravel(), jac=True, method="L-BFGS-B", options=options)
    V = unit(found.x.reshape(W.shape))[0][:, :rank]
    return V, np.sum(V * product(V), axis=1)


def _leading(B: Matrix, k: int) -> tuple[float, np.ndarray]:
    """Largest eigenvalue of ``B^T B``, and its k leading eigenvectors from the first on."""
    n = B.shape[1]
    if n <= DENSE_EIGENVALUES:
        gram = _gram(B)
        values, vectors = eigh(gram.toarray() if sp.issparse(gram) else gram, subset_by_index=[n - k, n - 1])
    else:
        values, vectors = eigsh(sp.csr_array(B.T @ B), k=k, v0=np.random.default_rng(0).standard_normal(n))
    return max(float(values[-1]), 0.0), vectors[:, ::-1]


# -- the certified upper bound ----------------------------------------------------------------------------


def certify(B: Matrix, U: SignalSet, relaxed: Relaxed) -> float:
    """A bound that holds: ``sum(d) + mu kappa`` after d is raised until ``diag(d) >= A - mu T^T L T``."""
    A = _gram(B @ U.columns)
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
        dense = M.toarray() if sp.issparse(M) else M
        return float(np.linalg.eigvalsh(dense)[-1]) + rounding
    estimate = float(
        eigsh(M, k=1, which="LA", return_eigenvectors=False, tol=1e-6, v0=np.random.default_rng(0).standard_normal(n))[0]
    )
    for margin in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1.0):
        bound = estimate + margin * max(abs(estimate), 1e-3 * norm)
        if _is_positive_definite(sp.csr_array(bound * sp.eye_array(n) - M)):
            return bound + rounding
    return norm


def _is_positive_definite(M: sp.csr_array) -> bool:
    """Whether a factorisation without row exchanges has positive pivots."""
    n = M.shape[0]
    system = FilterSystem(S=M, c=np.zeros(n), w=None, penalty=Penalty(M, False, lambda i: f"node {i}"))
    if direct.refusal(system) is not None:
        raise TooLargeError(
            f"the worst case over {n} nodes that are not a mesh cannot be proven in memory: take a part of them."
        )
    return direct.solve(system, np.ones((n, 1))).status is not Status.INDEFINITE


# -- the worst signal -------------------------------------------------------------------------------------


def search(
    B: Matrix,
    U: SignalSet,
    relaxed: Relaxed,
    *,
    also: np.ndarray | None = None,
    rng: np.random.Generator | None = None,
    n_starts: int = 8,
) -> tuple[float, np.ndarray]:
    """The worst signal that local search finds, from random projections of the relaxed moment, and its value."""
    if U.name == "ball":
        return relaxed.value, relaxed.moments[0][:, 0]
    rng = np.random.default_rng(0) if rng is None else rng
    A = _gram(B @ U.columns)
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
        end = _bounded_minimum(lambda y: -2 / scale * (_affine(A, y) - mu * _affine(Q, y)), y)
        ends.append(_pulled_inside(U, end))
    best = max(ends, key=lambda y: _form(A, y))
    for _ in range(20):
        # the error is convex: the signal furthest along its gradient is at least as bad
        step = _pulled_inside(U, _furthest(_affine(A, best), U, mu, best))
        if _form(A, step) <= _form(A, best) * (1 + 1e-5):
            break
        best = step
    return [U.signal(best)]


def _furthest(gradient: np.ndarray, U: SignalSet, mu: float, y: np.ndarray) -> np.ndarray:
    """Maximise a linear function over the smooth box, by bisection on the multiplier of the limit."""
    Q, kappa = U.roughness, U.smoothness
    scale = float(np.abs(gradient).max(initial=0.0)) or 1.0
    vertex = np.where(gradient < 0, -1.0, 1.0)
    if _form(Q, vertex) <= kappa:
        return vertex
    mu = mu or float(np.abs(gradient).sum()) / kappa
    low, high = 0.0, np.inf
    for _ in range(25):
        y = _bounded_minimum(_tilted(Q, mu / scale, gradient / scale), y)
        q = _form(Q, y)
        if 0.999 * kappa <= q <= kappa:
            break
        low, high = (mu, high) if q > kappa else (low, mu)
        mu = mu * 4 if np.isinf(high) else mu / 4 if low == 0 else float(np.sqrt(low * high))
    return y


def _tilted(Q: Matrix, mu: float, slope: np.ndarray) -> Product:
    return lambda y: mu * _affine(Q, y) - slope


def _pulled_inside(U: SignalSet, y: np.ndarray) -> np.ndarray:
    """The last point within the smoothness limit on the way from the smoothest signal to y."""
    Q, kappa = U.roughness, U.smoothness
    if _form(Q, y) <= kappa:
        return y
    start, least = U.smoothest
    along = np.append(y - start, 0.0)
    image = Q @ along
    a, b, c = float(along @ image), float(np.append(start, 1.0) @ image), kappa - least
    # a s^2 + 2 b s = c, a hair inside
    s = (np.sqrt(b * b + a * max(c, 0.0)) - b) / a if a > 0 else 0.0
    return start + (1 - 1e-12) * min(max(s, 0.0), 1.0) * (y - start)


def _bounded_minimum(gradient: Product, y: np.ndarray) -> np.ndarray:
    """Minimise over [-1, 1] a function given by its gradient, affine in y: values follow from gradients."""
    if y.size == 0:
        return y
    at_zero = gradient(np.zeros_like(y))

    def function(y: np.ndarray) -> tuple[float, np.ndarray]:
        g = gradient(y)
        return float(0.5 * y @ (g + at_zero)), g

    bounds = np.tile([-1.0, 1.0], (y.size, 1))
    options = {"maxiter": 300, "ftol": 1e-12, "gtol": 1e-8}
    return np.clip(minimize(function, y, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x, -1.0, 1.0)


# -- small helpers ----------------------------------------------------------------------------------------


def _gram(M: Matrix, middle: sp.csr_array | None = None) -> Matrix:
    """``M^T M``, or ``M^T middle M``: dense where small or where M is."""
    product = M.T @ (M if middle is None else middle @ M)
    if sp.issparse(product):
        return product.toarray() if product.shape[0] <= SMALL else sp.csr_array(product)
    return (product + product.T) / 2


def _affine(A: Matrix, y: np.ndarray) -> np.ndarray:
    """Half the gradient of ``[y, 1]^T A [y, 1]`` in y."""
    return (A @ np.append(y, 1.0))[:-1]


def _form(A: Matrix, y: np.ndarray) -> float:
    e = np.append(y, 1.0)
    return float(e @ (A @ e))


def _rough(Q: Matrix, V: np.ndarray) -> float:
    """``tr(Q V V^T)``."""
    return float(np.sum(V * (Q @ V)))


def _unit_rows(V: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(V, axis=1, keepdims=True)
    return V / np.where(length > 0, length, 1.0)


def _compressed(F: np.ndarray) -> np.ndarray:
    """A factor of ``F F^T`` without its negligible directions."""
    left, values, _ = np.linalg.svd(F, full_matrices=False)
    keep = values > 1e-6 * max(values.max(initial=0.0), 1e-300)
    return left[:, keep] * values[keep]
