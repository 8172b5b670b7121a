"""Semidefinite programs over a diagonal bound by a low-rank factor: ``min q(S)``, ``S = (V V^T) o L``.

A row of V for every node (or group of nodes), ``low_i <= ||v_i||^2 <= high_i``, by a Newton method
(:mod:`nareg.design._convex.row_newton`). The factor hides no local minimum once its rank is large enough: the dual
certificate (:mod:`nareg.design._convex.dual_bound`) shows whether it is, and gives the directions to add where it is not.

q is minimized with a tiny reward ``- sum_i eps_i ||v_i||^2``. It costs at most ``sum_i eps_i (Omega_ii - low_i)``,
some hundred thousandths of the value, and at its optimum the dual point is strictly feasible by just that margin: the
lower bound then needs no bound on Omega.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from nareg._solvers.system import scale_symmetric
from nareg._solvers.threads import ONE_THREAD, one_blas_thread
from nareg.design._convex.dual_bound import DualCertificate
from nareg.design._convex.quadratic import SupportQuadratic
from nareg.design._convex.row_newton import MAX_STEPS, RowNewton
from nareg.design._risk.checked import STATIONARY, DesignEnd
from nareg.design._risk.descent import DescentResult, Groups, ValueAndGradient, descend, feasible, interval, relative_gradient
from nareg.design._risk.problem import SignalProblem
from nareg.design._risk.sparse_problem import principal_direction
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, Status, WeightDesign

#: What finds the factor, and the weights.
LOW_RANK = "low-rank factor, Newton; L-BFGS-B (scipy)"
#: Omega is N x N: formed up to here.
OMEGA_NODES = 3000


def rank_one(omega: np.ndarray) -> tuple[np.ndarray, float]:
    """Leading eigenvector times the root of its eigenvalue, and the share of the trace that it carries."""
    values, vectors = np.linalg.eigh(omega)
    w = np.sqrt(max(values[-1], 0.0)) * vectors[:, -1]
    w *= np.sign(w[np.argmax(np.abs(w))]) or 1.0
    return w, float(values[-1] / max(values.clip(0).sum(), 1e-300))


def round_and_refine(
    omega: np.ndarray, objective: ValueAndGradient, lower: np.ndarray, upper: np.ndarray, *,
    also: dict[str, np.ndarray] | None = None, progress: ProgressCallback | None = None,
) -> tuple[DescentResult, DesignDetails]:  # fmt: skip
    """Weights from Omega refined by descent, or from another start (``also``) if that ends lower.

    Returns the descent, and the objective of the rounded weights and of every start's end.
    """
    w, share = rank_one(omega)
    starts = {"rounded": feasible(w, lower, upper), **(also or {})}
    reached = {name: descend(objective, start, lower, upper, progress=progress) for name, start in starts.items()}
    details: DesignDetails = {
        "rank_one_share": share,
        "rounded_objective": float(objective(starts["rounded"])[0]),
        "starts": {name: d.value for name, d in reached.items()},
    }
    return min(reached.values(), key=lambda d: d.value), details


def bound_starts(A: np.ndarray, low: np.ndarray, high: np.ndarray) -> dict[str, np.ndarray]:
    """Feasible weights to descend from, beside the rounded ones: Omega need not be near rank one.

    The bound itself, with the signs of the principal signal u as well, and ``s / u`` with small entries of u raised.
    """
    u = principal_direction(A)
    sign = np.where(u < 0, -1.0, 1.0)
    smallest = np.sqrt(low)
    starts = {"bound": feasible(smallest, low, high)}
    if (sign < 0).any():
        starts["bound, signs of the principal signal"] = feasible(sign * smallest, low, high)
    size = np.maximum(np.abs(u), 1e-3 * np.abs(u).max())
    if size.max() > 0:
        starts["inverse principal signal"] = feasible(sign * np.sqrt(np.max(low * size**2)) / size, low, high)
    return starts


def scaled_by_mse(
    task: SignalProblem, w: np.ndarray, low: np.ndarray, high: np.ndarray, scale: str
) -> tuple[np.ndarray, float]:
    """``s w`` with the feasible s that minimizes the MSE, and s; unchanged without noise or with "bound"."""
    w = feasible(w, low, high)
    if scale == "bound" or task.Sigma is None or not w.any():
        return w, 1.0
    square = np.maximum(w**2, 1e-300)
    least = float(np.sqrt(np.max(low / square)))
    largest = float(np.sqrt(np.min(high / square)))
    least = max(least, 1e-12)
    factor = task.best_factor(w, least, largest) if largest > least else least
    return feasible(factor * w, low, high), factor


@dataclass(frozen=True)
class ProgramEnd:
    """Weights that a program's low-rank factor V led to, both in units of ``half``, before they are scaled."""

    w: np.ndarray
    V: np.ndarray
    end: DesignEnd
    timings: dict[str, float] = field(default_factory=dict)

    def scaled_design(
        self, method: str, task: SignalProblem, criterion: Callable[[np.ndarray], float], half: np.ndarray,
        bounds: tuple[np.ndarray, np.ndarray], settings: dict[str, str],
    ) -> WeightDesign:  # fmt: skip
        """The design at ``w * half``, which may be scaled by the MSE within ``bounds`` on ``w_i^2``."""
        w, factor = scaled_by_mse(task, self.w * half, *bounds, settings["scale"])
        details: DesignDetails = {
            **self.end.details, "scale_factor": factor, "objective_before_scaling": criterion(self.w),
        }  # fmt: skip
        omega, end = dense_omega(half[:, None] * self.V), replace(self.end, details=details)
        return task.pack(method, w, criterion(w / half), bounds, end, omega=omega, timings=self.timings, settings=settings)


def dense_omega(V: np.ndarray) -> np.ndarray | None:
    """``V V^T`` where an N x N matrix is no burden."""
    return V @ V.T if len(V) <= OMEGA_NODES else None


def zero_level(L: sp.csr_array, A: np.ndarray, w: np.ndarray) -> float:
    """Value of ``tr(S R S)`` that is zero within rounding."""
    size = float(np.abs(scale_symmetric(L, w).data).max(initial=0.0))
    return 1e-20 * size**2 * float(np.einsum("ir,ir->", A, A)) * w.size


#: Columns of V at the start, on networks up to 500 nodes and on larger ones: more of them cost more and curve less.
RANKS = (6, 12)
#: What the reward may cost, relative to the value.
REWARD = 5e-5
#: Strict feasibility that the reward buys, relative to what it may cost were all of it paid at rows above their bound.
MARGIN = 2.0
#: Relative projected gradient at which the Newton method stops, and the smallest one that a certificate may ask for. The first
#: is for up to :data:`REFERENCE_NODES` rows: the proof looks at the worst place, and of a norm over more rows each has less.
TOL = (1e-5, 1e-8)
REFERENCE_NODES = 1000
#: Gap, relative to the part of the value that S decides, at which the search ends on networks up to REFERENCE_NODES.
GAP = 5e-4
#: Largest relative gap that counts as solved, and ends the search on larger networks: on 10,000 nodes a smaller one takes
#: four times the Hessian products, for a value that is 2e-5 smaller.
SOLVED = 1e-3
MAX_ESCAPES = 60
#: Newton steps between an escape and the next certificate: on a large network there are many places to escape from.
ESCAPE_STEPS = 10
#: Relative projected gradient of the weights above which Newton steps follow the descent.
POLISHED = 1e-5
#: Share of the rows' length across the weights' direction, where V starts near weights.
AWAY = 0.3
#: Directions of V shorter than this times the longest are no starts.
UNUSED_DIRECTION = 1e-2


@dataclass
class LowRank:
    """The factor V of Omega (a row per group), the value of q there, and the proven bound."""

    V: np.ndarray
    value: float = np.inf
    scale: float = 1.0
    least: float = 0.0
    gradient_norm: float = np.inf
    certificate: DualCertificate | None = None
    #: Greatest bound of all certificates.
    proven: float = -np.inf
    steps: int = 0
    products: int = 0
    escapes: int = 0
    interrupted: bool = False

    @property
    def rank(self) -> int:
        """Singular values of V above a thousandth of the largest."""
        values = np.linalg.svd(self.V, compute_uv=False)
        return int((values > 1e-3 * values[0]).sum())

    @property
    def bound(self) -> float | None:
        """Proven lower bound on q, if there is one."""
        return max(self.proven, self.least) if np.isfinite(self.proven) or self.least > 0 else None

    @property
    def status(self) -> Status:
        """Solved if the projected gradient is small or the gap is closed; details hold both."""
        if self.interrupted:
            return Status.INTERRUPTED
        gap = np.inf if self.bound is None else (self.value - self.bound) / max(abs(self.value), self.scale)
        return Status.CONVERGED if self.gradient_norm <= STATIONARY or gap <= SOLVED else Status.INACCURATE

    def details(self, factor: float = 1.0) -> DesignDetails:
        """Details of the program for a certificate, for an objective ``factor`` times q."""
        bound = self.bound
        gap = None if bound is None else (self.value - bound) / max(abs(self.value), 1e-9 * self.scale)
        return {
            "low_rank_objective": factor * self.value,
            "dual_bound": None if bound is None else factor * bound,
            "gap": gap,
            "dual_proof": "interrupted" if self.certificate is None else self.certificate.reason,
            "rank": self.rank,
            "gradient_norm": self.gradient_norm,
            "newton_steps": self.steps,
            "hessian_products": self.products,
        }


@one_blas_thread
def minimize(
    quadratic: SupportQuadratic,
    low: np.ndarray,
    high: np.ndarray,
    start: np.ndarray,
    *,
    mesh_like: bool = True,
    interrupted: bool = False,
    progress: ProgressCallback | None = None,
) -> LowRank:
    """Minimize q over the rows of V, from ``start`` (G, k), and prove a lower bound; nothing more if ``interrupted``."""
    newton = RowNewton(quadratic, low, high, progress)
    solution = LowRank(start, least=quadratic.least, interrupted=interrupted)
    newton.begin(start)
    try:
        if not interrupted:
            _search(newton, solution, mesh_like)
    except KeyboardInterrupt:
        solution.interrupted = True
    solution.V, solution.value, solution.scale = newton.point.V, newton.point.value, newton.scale
    solution.gradient_norm = newton.gradient_norm()
    solution.steps, solution.products = newton.steps, newton.products
    return solution


def _search(newton: RowNewton, solution: LowRank, mesh_like: bool) -> None:
    # roughly first, to know what size value and rows have
    newton.run(1e-3)
    newton.compress()
    size = np.linalg.norm(newton.point.V, axis=1)
    size = np.maximum(size, 1e-3 * size[newton.free].max(initial=1e-300))
    # the reward costs something at rows above their bound only, few of them on large networks
    rows = max(int(newton.free.sum()), 1)
    small = REWARD * newton.scale / rows
    margin = MARGIN * small * rows / (int((newton.free & ~newton.active).sum()) + 0.01 * rows)
    newton.set_reward(np.where(newton.free, margin / size**2, 0.0))
    tolerance = TOL[0] * min(1.0, np.sqrt(REFERENCE_NODES / rows))
    enough = (GAP if rows <= REFERENCE_NODES else 0.9 * SOLVED) * newton.scale
    while True:
        newton.run(tolerance, newton.steps + ESCAPE_STEPS if solution.escapes else MAX_STEPS)
        solution.certificate = certificate = newton.certificate(size, margin, small, mesh_like)
        solution.proven = max(solution.proven, -np.inf if certificate.bound is None else certificate.bound)
        if solution.bound is not None and newton.point.value - solution.bound <= enough:
            return
        if certificate.directions is not None and solution.escapes < MAX_ESCAPES and newton.escape(certificate.directions):
            solution.escapes += 1
            tolerance = max(min(tolerance, 0.3 * newton.gradient_norm()), TOL[1])
        elif tolerance > TOL[1] and newton.steps < MAX_STEPS:
            tolerance /= 3
        else:
            return


def spread(first: np.ndarray, rank: int | None = None) -> np.ndarray:
    """A start (G, rank) with these rows' sizes, in directions around one."""
    rank = min(rank or RANKS[first.size > ONE_THREAD], first.size)
    V = 0.3 * np.random.default_rng(0).standard_normal((first.size, rank))
    V[:, 0] += 1.0
    return first[:, None] * V


def around(w: np.ndarray) -> np.ndarray:
    """A start (G, rank) near the weights w: rows of their size, whose directions differ a little."""
    rank = min(RANKS[w.size > ONE_THREAD], w.size)
    directions = np.random.default_rng(0).standard_normal((w.size, rank)) * (AWAY / np.sqrt(max(rank - 1, 1)))
    directions[:, 0] = np.sqrt(1 - AWAY**2)
    return w[:, None] * directions


def coordinates(L: sp.csr_array, c: np.ndarray, groups: Groups) -> tuple[sp.csr_array, np.ndarray]:
    """L and the unit u of weights ``w / u`` for the program in the coordinates ``C^1/2 x``: ``S' = C^-1/2 S C^-1/2``.

    ``u = sqrt(c)`` takes C into the weights, which makes the program independent of the signals' unit. Nodes that are to
    share a weight would then share ``w / u``: C goes into L instead.
    """
    if groups.index is None:
        return L, np.sqrt(c)
    return scale_symmetric(L, c**-0.5), np.ones(c.size)


def directions(V: np.ndarray) -> tuple[np.ndarray, float]:
    """Eigenvectors of ``V V^T`` times the roots of their eigenvalues, leading one first, and its share of the trace.

    Where the optimum has a rank above one it is not unique, and rounding decides which point is returned. The
    leading direction alone is then a matter of chance: all of them are starts on small networks, the leading one beyond.
    """
    U, s, _ = np.linalg.svd(V, full_matrices=False)
    count = int((s > UNUSED_DIRECTION * s[0]).sum()) if len(V) <= ONE_THREAD else 1
    W = U[:, : max(count, 1)] * s[: max(count, 1)]
    largest = W[np.argmax(np.abs(W), axis=0), np.arange(W.shape[1])]
    return W * np.where(largest < 0, -1.0, 1.0), float(s[0] ** 2 / max(np.sum(s**2), 1e-300))


def named(W: np.ndarray) -> dict[str, np.ndarray]:
    """The directions by the names that certificates give to the weights made from them."""
    return {"rounded" if k == 0 else f"rounded {k + 1}": w for k, w in enumerate(W.T)}


def neighbor_order(L: sp.csr_array) -> np.ndarray:
    """Nodes in an order that brings neighbors together in memory: products on 30,000 nodes take half as long."""
    if L.shape[0] <= ONE_THREAD:
        return np.arange(L.shape[0])
    return np.asarray(reverse_cuthill_mckee(sp.csr_matrix(L), symmetric_mode=True), dtype=np.intp)


@one_blas_thread
def refine(
    quadratic: SupportQuadratic,
    starts: Mapping[str, np.ndarray],
    low: np.ndarray,
    high: np.ndarray,
    *,
    interrupted: bool,
    progress: ProgressCallback | None,
) -> dict[str, DescentResult]:
    """The ends of descents on q at rank one, in the groups' weights, from starts that are weights of nodes."""
    objective, groups = quadratic.weights_criterion, quadratic.groups
    bounds = groups.bounds(low, high)
    reached: dict[str, DescentResult] = {}
    for name, start in starts.items():
        v = feasible(groups.reduce_start(start), *bounds)
        if interrupted:
            return {name: _ended(quadratic, v, *bounds, "interrupted")}
        reached[name] = descend(objective, v, *bounds, progress=progress)
        if reached[name].message != "interrupted" and reached[name].gradient_norm > POLISHED:
            polished = _polish(quadratic, reached[name].w, *bounds, progress)
            # Newton never rises: where it does not fall the two values differ by rounding
            if polished.message == "interrupted" or polished.gradient_norm < reached[name].gradient_norm:
                reached[name] = polished
        if reached[name].message == "interrupted":
            break
    return reached


def _polish(
    quadratic: SupportQuadratic, v: np.ndarray, low: np.ndarray, high: np.ndarray, progress: ProgressCallback | None
) -> DescentResult:
    """Newton steps at rank one: on large networks L-BFGS-B ends early."""
    newton = RowNewton(quadratic, low, high, progress)
    newton.begin(v[:, None])
    message = "Newton steps after L-BFGS-B"
    try:
        newton.run(1e-3 * POLISHED)
    except KeyboardInterrupt:
        message = "interrupted"
    return _ended(quadratic, newton.point.V[:, 0], low, high, message)


def _ended(quadratic: SupportQuadratic, v: np.ndarray, low: np.ndarray, high: np.ndarray, message: str) -> DescentResult:
    value, gradient = quadratic.weights_criterion(v)
    return DescentResult(v, value, relative_gradient(v, value, gradient, *_interval(v, low, high)), 0, message)


def _interval(v: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds on v's side of zero, with a rounding's room: rows on their sphere are on the bound within rounding."""
    left, right = interval(v, low, high)
    room = 1e-12 * np.abs(v)
    return left + room, right - room


def best(reached: Mapping[str, DescentResult]) -> DescentResult:
    """The lowest end; it reports an interruption of any descent."""
    lowest = min(reached.values(), key=lambda d: d.value)
    if any(d.message == "interrupted" for d in reached.values()):
        return replace(lowest, message="interrupted")
    return lowest
