"""The convex programs of the paper, built once with cvxpy and swept over their parameters.

Only the entries of Omega on the support of L enter ``S = Omega o L``. With ``z`` those entries (N diagonal,
M off-diagonal) and ``E_k`` the symmetric matrices ``S = sum_k z_k E_k``, both criteria are quadratics

    Prony (25)   tr(S R S)                        = z^T G(R) z
    fit   (30)   2 ||H (I + S) - I||_F^2          = 2 (z^T G(H^2) z + 2 b^T z) + const
    G(P)_kl = tr(E_k P E_l),   b_k = tr(E_k (H^2 - H))

so that the program has N + M quadratic variables and one PSD cone, instead of products of N x N matrices.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg import _checks
from nareg.errors import MissingDependencyError, SolverError, TooLargeError
from nareg.results import Status

#: Interior-point (Clarabel) up to this many nodes, first-order (SCS) above.
CLARABEL_NODES = 100
#: An SDP over an N x N matrix variable takes minutes at 150 nodes and hours beyond this.
SDP_NODES = 400
SOLVERS = ("sdp", "clarabel", "scs")
SETTINGS: dict[str, dict[str, Any]] = {
    "clarabel": {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9},
    "scs": {"eps_abs": 1e-7, "eps_rel": 1e-7, "max_iters": 20_000},
}


def support(L: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of every unknown: the N diagonal entries, then the edges (i < j)."""
    n = len(L)
    i, j = np.nonzero(np.triu(L, 1))
    diagonal = np.arange(n)
    return np.concatenate([diagonal, i]), np.concatenate([diagonal, j])


def _amplitude(L: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """``a`` with ``E_k = a_k (e_i e_j^T + e_j e_i^T)``; half of L_ii on the diagonal, where both terms meet."""
    return np.where(i == j, 0.5, 1.0) * L[i, j]


def gram(L: np.ndarray, P: np.ndarray) -> np.ndarray:
    """``G(P)_kl = tr(E_k P E_l)`` over the support of L, (N + M, N + M)."""
    i, j = support(L)
    a = _amplitude(L, i, j)
    p, q = i[None], j[None]
    r, s = i[:, None], j[:, None]
    total = P[np.ix_(j, i)] * (q == r) + P[np.ix_(j, j)] * (p == r) + P[np.ix_(i, i)] * (q == s) + P[np.ix_(i, j)] * (p == s)
    total *= a[:, None] * a[None]
    return (total + total.T) / 2


def linear(L: np.ndarray, P: np.ndarray) -> np.ndarray:
    """``b_k = tr(E_k P)`` for symmetric P."""
    i, j = support(L)
    return 2 * _amplitude(L, i, j) * P[i, j]


def image(L: np.ndarray, x: np.ndarray) -> sp.csr_array:
    """The sparse (N, N + M) matrix B with ``S x = B z``."""
    i, j = support(L)
    off = i != j
    k = np.arange(len(i))
    rows = np.concatenate([i, j[off]])
    cols = np.concatenate([k, k[off]])
    values = np.concatenate([L[i, j] * x[j], (L[i, j] * x[i])[off]])
    return sp.csr_array((values, (rows, cols)), shape=(len(L), len(i)))


def half(P: np.ndarray) -> np.ndarray:
    """F with ``F F^T = P`` for PSD P; one column of zeros where P is zero."""
    F = root(P).T
    return F if F.shape[1] else np.zeros((len(P), 1))


def root(G: np.ndarray) -> np.ndarray:
    """F with ``F^T F = G`` for PSD G, without its null directions."""
    values, vectors = np.linalg.eigh(G)
    positive = values > 1e-14 * max(values[-1], 1e-300)
    return np.sqrt(values[positive])[:, None] * vectors[:, positive].T


@dataclass(frozen=True)
class Solved:
    """A solved program: Omega, its optimal value and how the solver judged it."""

    omega: np.ndarray
    value: float
    solver: str
    solver_status: str
    seconds: float
    status: Status


class SupportProgram:
    """``min f(z)`` over PSD Omega with ``Omega_ii >= lower``, ``z`` its entries on the support of L.

    Objectives are the quadratic ``||F z||^2 + 2 b^T z``, or the largest of several ``||B_k z||^2``. The bound is
    a parameter: :meth:`solve` again with another does not build the program again. As in the paper there is no
    upper bound (values near 10^8 would spoil the solvers' scaling); it is kept by the rounding, and the optimum
    without it is still a lower bound.
    """

    def __init__(
        self, L: np.ndarray, *, quadratic: np.ndarray | None = None, slope: np.ndarray | None = None,
        worst_of: list[sp.csr_array] | None = None,
    ) -> None:  # fmt: skip
        n = len(L)
        if n > SDP_NODES:
            raise TooLargeError(
                f"solver='sdp' on {n} nodes would take hours ({n * (n + 1) // 2} matrix unknowns, limit {SDP_NODES} "
                "nodes): use solver='auto', the exact design, or a part of the network (graph.subgraph)."
            )
        cp = _cvxpy()
        started = time.perf_counter()
        i, j = support(L)
        self.omega = cp.Variable((n, n), PSD=True)
        self.lower = cp.Parameter(n, nonneg=True)
        z = self.omega[i, j]
        # one scale for every problem, so that solver tolerances mean the same
        if worst_of is not None:
            self.scale = max(float(abs(B).max()) for B in worst_of) ** 2 or 1.0
            # the largest of the squared norms: the epigraph of the corner program
            cost = cp.max(cp.hstack([cp.sum_squares((B / np.sqrt(self.scale)) @ z) for B in worst_of]))
        else:
            assert quadratic is not None
            F = root(quadratic)
            self.scale = float(np.abs(quadratic).max()) or 1.0
            cost = cp.sum_squares((F / np.sqrt(self.scale)) @ z)
            if slope is not None:
                cost = cost + 2 * (slope / self.scale) @ z
        self.problem = cp.Problem(cp.Minimize(cost), [cp.diag(self.omega) >= self.lower])
        self.build_seconds = time.perf_counter() - started

    def solve(self, lower: np.ndarray, solver: str) -> Solved:
        """Solve for this lower bound on ``Omega_ii``."""
        self.lower.value = lower
        return run(self.problem, self.omega, solver, len(lower), self.scale)


def run(problem: Any, omega: Any, solver: str, n: int, scale: float = 1.0) -> Solved:
    """Solve a cvxpy problem with a pinned solver and settings, and translate its status."""
    cp = _cvxpy()
    name = _checks.choice("solver", solver, SOLVERS)
    if name == "sdp":
        name = "clarabel" if n <= CLARABEL_NODES else "scs"
    if name.upper() not in cp.installed_solvers():
        raise MissingDependencyError(f"solver={name!r} is not installed: pip install {name}.")
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            # "solution may be inaccurate" is reported in the status instead
            warnings.simplefilter("ignore", UserWarning)
            problem.solve(solver=name.upper(), **SETTINGS[name])
    except cp.SolverError as error:
        raise SolverError(
            f"solver={name!r} failed ({error}): try solver={'scs' if name == 'clarabel' else 'clarabel'!r}."
        ) from None
    seconds = time.perf_counter() - started
    if omega.value is None:
        raise SolverError(f"solver={name!r} found no point (status {problem.status}): check that lower is below upper.")
    version = __import__(name).__version__
    status = Status.CONVERGED if problem.status == cp.OPTIMAL else Status.INACCURATE
    matrix = (omega.value + omega.value.T) / 2
    return Solved(
        matrix, float(problem.value) * scale, f"{name} {version} (cvxpy {cp.__version__})", problem.status, seconds, status
    )


def _cvxpy() -> Any:
    import cvxpy  # half a second to import: only when an SDP is asked for

    return cvxpy
