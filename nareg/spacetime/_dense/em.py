"""Expectation maximization from the parametric fit on: free process noise and dynamics, shrunk towards where they start.

The penalized likelihood that every iteration raises is::

    log p(y | A, Q, r, s) - nu/2 (log det Q + tr Q^-1 Q0) - kappa/2 tr Q^-1 (A - A0) P0 (A - A0)'
        - mu/2 sum_i (log r_i + r0_i / r_i) - sum_t ((df/2 + 1) log s_t + df / (2 s_t))

so Q is drawn to the parametric Q0 as if by nu steps, A to the parametric A0 as if by kappa steps, a station's noise variance
as if by mu readings, and with ``df`` the step into time t has a variance of its own (a Student t process, mode over s).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

import numpy as np
from scipy.linalg import cho_solve
from scipy.sparse.linalg import LinearOperator, cg

from nareg.errors import SolverError
from nareg.spacetime._dense.filter import Dynamics, factor
from nareg.spacetime._dense.parametric import Expected, gather
from nareg.spacetime._dense.smoother import Pass, Record, filter_each, moments_each

#: Names that a user may pass, and ``"auto"``.
DynamicsName: TypeAlias = Literal["auto", "scalar", "diagonal", "modes", "graph", "full"]
DYNAMICS = ("scalar", "diagonal", "modes", "graph", "full")
#: The penalized likelihood may fall by this share of its size through rounding.
ROUNDING = 1e-9
#: Length of an iteration, relative to EM's own, which changes little at a time what the readings tell least of: seven of this
#: length come as far as twelve.
LENGTH = 1.7
#: Where a step towards dynamics that grow is shorter than this, none is taken.
SMALLEST_WAY = 0.05
#: Pseudo-readings that hold a station's noise variance.
MU = 20.0


@dataclass(frozen=True)
class Refinement:
    """Form of the dynamics that EM may change, and strength of the priors."""

    dynamics: str  # one of DYNAMICS
    nu: float  # steps that the parametric Q counts for
    kappa: float  # steps that the parametric A counts for
    df: float | None = None  # degrees of freedom of the steps' Student t; None is Gaussian

    def describe(self) -> str:
        tails = f", Student t steps ({self.df:g} degrees of freedom)" if self.df else ""
        return f"{self.dynamics} dynamics, free process noise{tails}"


@dataclass
class Estimate:
    """Dynamics, noise variances and step variances, and how the penalized likelihood rose.

    ``gradient`` is its natural gradient: what an iteration still changes, relative to what is changed.
    """

    dynamics: Dynamics
    r: np.ndarray
    scales: list[np.ndarray]
    objective: list[float] = field(default_factory=list)
    log_likelihood: float = -np.inf
    gradient: float = np.inf
    iterations: int = 0
    converged: bool = False


@dataclass(frozen=True, eq=False)
class Prior:
    """The parametric model that the estimate is drawn to, and what may change."""

    A: np.ndarray  # (N, pN) dynamics
    Q: np.ndarray  # (N, N) process noise
    P0: np.ndarray  # (pN, pN) covariance of the first state
    r: np.ndarray  # (N,) noise variances
    refinement: Refinement
    fixed_noise: bool  # keep the noise variances as they are
    least: np.ndarray  # (N,) what they are at least
    basis: np.ndarray | None  # (N, N) orthonormal modes, for "modes"
    support: np.ndarray | None  # (N, N) boolean mask, for "graph"


#: Called in every expectation step with smoothed means, and the estimate that they were made with; True ends the iterations.
Watch = Callable[[list[np.ndarray], Estimate], bool]


def refine(
    windows: Sequence[np.ndarray], start: Dynamics, r0: np.ndarray, refinement: Refinement, *, iterations: int,
    fixed_noise: bool, least: np.ndarray | None = None, basis: np.ndarray | None = None,
    support: np.ndarray | None = None, begin: Estimate | None = None, known: list[Pass] | None = None, tol: float = 1e-3,
    watch: Watch | None = None, tick: Callable[[float], None] | None = None,
) -> Estimate:  # fmt: skip
    """At most ``iterations`` of EM; ``basis`` (N, N) orthonormal for "modes", ``support`` (N, N) boolean for "graph".

    Noise variances stay at ``least`` these (N,). The first iteration begins with the estimate ``begin``, by default ``start``,
    whose passes with moments may be ``known``.
    """
    lowest = np.zeros(r0.size) if least is None else np.minimum(least, r0)
    prior = Prior(start.matrix(), start.Q, start.P0, r0, refinement, fixed_noise, lowest, basis, support)
    now = Estimate(start, r0, [np.ones(len(y)) for y in windows]) if begin is None else begin
    length, own = LENGTH, None  # where EM's own step leads to, if a longer one was taken
    for iteration in range(iterations + 1):
        done = known if iteration == 0 else None
        options = {"means": watch is not None, "smooth": iteration < iterations or watch is not None}
        try:
            begun, value = _expect(windows, now, prior, done, **options)
        except SolverError:
            if own is None:
                raise
            value = -np.inf
        if own is not None and value < now.objective[-1]:
            length, (now.dynamics, now.r) = 1.0, own
            begun = []  # makes room
            begun, value = _expect(windows, now, prior, None, **options)
        if now.objective and value < now.objective[-1] - ROUNDING * abs(value) - 1e-6:
            raise SolverError(
                f"the penalized likelihood fell from {now.objective[-1]:.9g} to {value:.9g}: look for huge readings."
            )
        now.objective.append(value)
        if tick is not None:
            tick(value)
        enough = watch is not None and watch([part.x for part in begun], now)
        if enough or iteration == iterations or now.converged:
            break
        passes = done or moments_each(cast("list[Record]", begun), refinement.df)
        begun = []
        before = now.dynamics, now.r
        _improve(now, gather(windows, passes), passes, prior)
        own = (now.dynamics, now.r) if length > 1 else None
        if length > 1:
            _lengthen(now, before, length, prior)
        now.iterations = iteration + 1
        now.converged = now.gradient <= tol
    return now


def _expect(
    windows: Sequence[np.ndarray], now: Estimate, prior: Prior, known: list[Pass] | None, *, smooth: bool, means: bool
) -> tuple[Sequence[Pass | Record], float]:
    """Passes over the windows, half done unless they are known, and the penalized likelihood."""
    begun = known or filter_each(windows, now.dynamics, now.r, now.scales, smooth=smooth, means=means)
    now.log_likelihood = sum(part.log_likelihood for part in begun)
    return begun, now.log_likelihood + _log_prior(now, prior)


def _log_prior(now: Estimate, prior: Prior) -> float:
    """The penalty of the module's docstring."""
    how = prior.refinement
    L = factor(now.dynamics.Q, "the process noise")
    gap = now.dynamics.matrix() - prior.A
    inverse = cho_solve((L, True), np.column_stack([prior.Q, gap @ prior.P0 @ gap.T]))
    n = L.shape[0]
    value = -0.5 * how.nu * (2 * float(np.log(np.diag(L)).sum()) + float(np.trace(inverse[:, :n])))
    value -= 0.5 * how.kappa * float(np.trace(inverse[:, n:]))
    if not prior.fixed_noise:
        value -= 0.5 * MU * float(np.sum(np.log(now.r) + prior.r / now.r))
    if how.df:
        for s in now.scales:
            value -= float(np.sum((how.df / 2 + 1) * np.log(s[1:]) + how.df / (2 * s[1:])))
    return value


def _improve(now: Estimate, expected: Expected, passes: list[Pass], prior: Prior) -> None:
    """One maximization: s (done by the pass), then A, Q and r; none lowers the expected penalized likelihood."""
    old, how, P0 = now.dynamics, prior.refinement, prior.P0
    n = old.n
    L = factor(old.Q, "the process noise")
    precision = cho_solve((L, True), np.eye(n))
    S = expected.S00 + how.kappa * P0
    B = expected.S10 + how.kappa * prior.A @ P0
    A = _stable(old.matrix(), _best_dynamics(prior, old.matrix(), precision, S, B))
    cross = A @ expected.S10.T
    gap = A - prior.A
    M = expected.S11 - cross - cross.T + A @ expected.S00 @ A.T + how.kappa * gap @ P0 @ gap.T
    Q = (M + how.nu * prior.Q) / (expected.steps + how.nu)
    Q = 0.5 * (Q + Q.T)
    change = A - old.matrix()
    changes = [float(np.sqrt(max(0.0, np.sum(precision * (change @ S @ change.T))) / (n * max(expected.steps, 1))))]
    triangle = np.tril(L)
    half = np.linalg.solve(triangle, np.linalg.solve(triangle, Q).T)
    changes.append(float(np.linalg.norm(half - np.eye(n)) / np.sqrt(n)))
    if not prior.fixed_noise:
        r = np.maximum((expected.squares + MU * prior.r) / (expected.counts + MU), prior.least)
        changes.append(float(np.abs(np.log(r / now.r)).max()))
        now.r = r
    now.scales = [done.scale for done in passes]
    now.dynamics = Dynamics(_blocks_of(A, n, how.dynamics), Q, P0)
    now.gradient = max(changes)


def _lengthen(now: Estimate, before: tuple[Dynamics, np.ndarray], length: float, prior: Prior) -> None:
    """Go on where an iteration went to from ``before``: along a line of A, and a geodesic of the covariances."""
    old, r = before
    L = np.tril(factor(old.Q, "the process noise"))
    half = np.linalg.solve(L, np.linalg.solve(L, now.dynamics.Q).T)
    values, vectors = np.linalg.eigh(0.5 * (half + half.T))
    root = L @ (vectors * np.maximum(values, 0.0) ** (length / 2))
    A = _stable(now.dynamics.matrix(), old.matrix() + length * (now.dynamics.matrix() - old.matrix()))
    now.dynamics = Dynamics(_blocks_of(A, old.n, prior.refinement.dynamics), root @ root.T, prior.P0)
    if not prior.fixed_noise:
        now.r = np.maximum(r * (now.r / r) ** length, prior.least)


def _stable(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """New dynamics, or as much of the way to them from stable old ones as is stable.

    What grows has all of its size where nothing is read, and would be learned from there again.
    """
    way = 1.0
    while way > SMALLEST_WAY:
        A = old + way * (new - old)
        if _radius(A) < 1:
            return A
        way /= 2
    return old


def _radius(A: np.ndarray) -> float:
    """Spectral radius of the step of a state, from ``[A_1 ... A_p]``."""
    F = np.eye(A.shape[1], k=-A.shape[0])
    F[: len(A)] = A
    return float(np.abs(np.linalg.eigvals(F)).max())


def _blocks_of(A: np.ndarray, n: int, dynamics: str) -> tuple[np.ndarray, ...]:
    """``[A_1 ... A_p]`` as the smallest arrays that hold it."""
    blocks = [A[:, k : k + n] for k in range(0, A.shape[1], n)]
    if dynamics == "scalar":
        return tuple(np.asarray(block[0, 0]) for block in blocks)
    return tuple(block.diagonal().copy() if dynamics == "diagonal" else block for block in blocks)


def _best_dynamics(prior: Prior, old: np.ndarray, precision: np.ndarray, S: np.ndarray, B: np.ndarray) -> np.ndarray:
    """``argmin_A tr Q^-1 (A S A' - 2 B A')`` over the matrices of a kind, ``precision`` being Q^-1."""
    kind, n = prior.refinement.dynamics, old.shape[0]
    p = old.shape[1] // n
    if kind == "full":
        return np.linalg.solve(S, B.T).T
    if kind == "graph":
        assert prior.support is not None
        return _on_support(np.tile(prior.support, (1, p)), old, precision, S, B)
    U = prior.basis if kind == "modes" and prior.basis is not None else np.eye(n)
    weight = U.T @ precision @ U
    blocks = S.reshape(p, n, p, n)
    turned = np.einsum("ai,kalb,bj->kilj", U, blocks, U, optimize=True)
    right = np.concatenate([np.diag(weight @ U.T @ B[:, k * n : (k + 1) * n] @ U) for k in range(p)])
    H = (weight[None, :, None, :] * turned).reshape(p * n, p * n)
    if kind == "scalar":
        H = H.reshape(p, n, p, n).sum(axis=(1, 3))
        a = np.repeat(np.linalg.solve(H, right.reshape(p, n).sum(axis=1)), n)
    else:
        a = np.linalg.solve(H, right)
    return np.hstack([(U * a[k * n : (k + 1) * n]) @ U.T for k in range(p)])


def _on_support(mask: np.ndarray, old: np.ndarray, precision: np.ndarray, S: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Conjugate gradients over the entries of A on the graph's edges, from the A before."""
    where = np.flatnonzero(mask.ravel())

    def product(values: np.ndarray) -> np.ndarray:
        A = np.zeros(mask.size)
        A[where] = values
        return (precision @ A.reshape(mask.shape) @ S).ravel()[where]

    operator = LinearOperator((where.size, where.size), matvec=product, dtype=float)
    scale = 1 / np.outer(np.diag(precision), np.diag(S)).ravel()[where]
    jacobi = LinearOperator((where.size, where.size), matvec=lambda v: scale * v, dtype=float)
    values, _ = cg(operator, (precision @ B).ravel()[where], x0=old.ravel()[where], rtol=1e-8, maxiter=200, M=jacobi)
    A = np.zeros(mask.size)
    A[where] = values
    return A.reshape(mask.shape)
