"""One sparse factor of K, and a check that it is accurate.

Where float64 cannot hold K well enough (huge weights, or edges over many decades) it is scaled and refined: with weights of
1e6 the entries of ``K = C + S`` are 1e12 times the data term. Rounding them loses it, and rounding x to float64 alone leaves a
residual of 1e-4. So with ``u = w x`` the system ``(diag(c / w^2) + L) u = c y / w`` is solved, in which neither is lost; u is
a sum of two float64 arrays, and its residuals are those of that sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from nareg._solvers.factorization import Factor, Solve, factorize, fill_order, is_cholesky, superlu
from nareg._solvers.iterate import Iterates
from nareg._solvers.system import FilterSystem
from nareg.errors import TooLargeError
from nareg.results import Status

#: Up to here even a completely filled factor fits (1.6 GB at 20,000 nodes).
WORST_CASE_NODES = 20_000
#: A two- or three-dimensional mesh of this size fills about 10 GB.
MESH_NODES = 2_000_000
#: A factor of K is enough where neither a residual nor the bound on the error is larger.
ACCURATE = 1e-10
#: Multiplications in the compiled elimination (about a minute); a complete graph of 5,000 nodes takes 4e10.
MAX_WORK = 1e11
#: Refinement stops below this residual, or after so many steps in a row that did not halve it.
ENOUGH = 1e-14
PATIENCE = 2
STEPS = 60


def refusal(system: FilterSystem) -> str | None:
    """Why a factorization might not fit, or None."""
    n = system.n_nodes
    if n <= WORST_CASE_NODES or (n <= MESH_NODES and system.mesh_like):
        return None
    return (
        f"method='direct' could fill {n**2 / 2 * 8 / 2**30:.0f} GiB on this graph ({n} nodes"
        + ("" if system.mesh_like else ", not mesh-like")
        + "): use method='cg'."
    )


class Factored:
    """A system and its factor, which is made at the first solve and kept."""

    def __init__(self, system: FilterSystem) -> None:
        self.system = system

    def __getstate__(self) -> dict[str, FilterSystem]:
        # SciPy's factor cannot be sent to another process, and is made again there
        return {"system": self.system}

    @cached_property
    def factor(self) -> Factor | None:
        """Of K; None where a pivot is not positive in float64."""
        return factorize(self.system.K)

    def solve(self, rhs: np.ndarray, tol: float = 1e-8) -> Iterates:
        """Solve ``K x = rhs`` for (N, T) ``rhs``: by the factor of K where that is enough, else scaled and refined."""
        system = self.system
        reason = refusal(system)
        if reason is not None:
            raise TooLargeError(reason)
        if not system.sdd and (system.diagonal <= 0).any():
            return Iterates(np.zeros_like(rhs), 0, [1.0], Status.INDEFINITE)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not accepted
            factor = self.factor
            if factor is not None:
                x = factor.solve(rhs)
                x += factor.solve(rhs - system.K @ x)
                enough = min(tol, ACCURATE)
                plain, scaled = (float(r.max(initial=0.0)) for r in system.residuals(x, rhs, tol))
                if plain <= enough and scaled <= enough and _error_bound(system, factor.solve, x) <= ACCURATE:
                    return Iterates(x, 0, [plain], note=factor.library, reached=(plain, scaled))
            return refined(system, rhs, tol)


def _error_bound(system: FilterSystem, apply_inverse: Solve, x: np.ndarray) -> float:
    """Largest error of an entry that rounding K and the residual can cause, over the largest entry of its column.

    To first order it is ``eps |K^-1| |K| |x|``, and ``|K^-1|`` is ``K^-1`` but for the signs of w: one more column to
    solve for. For a matrix of which nothing is known random signs give an estimate.
    """
    size = np.abs(x).max(axis=0, initial=0.0)
    largest = np.max(np.abs(x) / np.where(size > 0, size, 1.0), axis=1, initial=0.0)
    if system.sdd:
        assert system.w is not None
        signs = np.where(system.w < 0, -1.0, 1.0)
    else:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], system.n_nodes)
    spread = apply_inverse((signs * (abs(system.K) @ largest))[:, None])
    return float(np.finfo(float).eps * np.abs(spread).max(initial=0.0))


@dataclass(frozen=True)
class _Scaled:
    """``(diag(d) + P) u = g``, P by its entries off the diagonal and its row sums, on the nodes with a weight."""

    coupled: np.ndarray
    w: np.ndarray
    d: np.ndarray
    P: sp.csr_array
    excess: np.ndarray
    excess_low: np.ndarray

    @property
    def diagonal(self) -> np.ndarray:
        """Of K on these nodes."""
        off = self.P - sp.diags_array(self.P.diagonal())
        return self.w**2 * (self.d + (self.excess - np.asarray(off.sum(axis=1)).ravel()))


def refined(system: FilterSystem, rhs: np.ndarray, tol: float) -> Iterates:
    """Solve for (N, T) ``rhs``; ``INDEFINITE`` if no factor with positive pivots exists in float64."""
    from nareg._solvers import twofold  # numba: imported when the first such solve needs it

    scaled = _scaled(system)
    apply_inverse, note = _without_subtraction(scaled) if system.sdd else (None, "")
    if apply_inverse is None:
        apply_inverse, note = _equilibrated(scaled), "SuperLU, scaled"
    if apply_inverse is None:
        return Iterates(np.zeros_like(rhs), 0, [1.0], Status.INDEFINITE)
    on = scaled.coupled
    G = np.ascontiguousarray(rhs[on] / scaled.w[:, None])
    U, V, R = np.zeros_like(G), np.zeros_like(G), G.copy()
    inverse = np.where(system.diagonal > 0, 1.0 / system.diagonal, 1.0)
    inverse[on] = 1.0 / scaled.diagonal
    sizes = np.stack([np.linalg.norm(rhs, axis=0), np.linalg.norm(rhs * inverse[:, None], axis=0)])
    best, reached, slow = (U, V), np.array([np.inf, np.inf]), 0
    P, ones = scaled.P, np.ones(len(G))
    for _ in range(STEPS):
        twofold.add(U, V, apply_inverse(R))
        parts = P.indptr, P.indices, P.data, scaled.excess, scaled.excess_low
        twofold.residual(*parts, ones, scaled.d, G, U, V, U, V, R)
        left = R * scaled.w[:, None]
        norms = np.stack([np.linalg.norm(left, axis=0), np.linalg.norm(left * inverse[on, None], axis=0)])
        now = np.divide(norms, sizes, out=np.zeros_like(norms), where=sizes > 0).max(axis=1, initial=0.0)
        slow = 0 if now.max() <= 0.5 * reached.max() else slow + 1
        if now.max() < reached.max():
            best, reached = (U.copy(), V.copy()), now
        # the error of the level and that within a component fall in turn: every second step shows progress
        if slow > PATIENCE or not np.isfinite(now).all() or reached.max() <= ENOUGH:
            break
    x = np.zeros_like(rhs)
    x[on] = (best[0] + best[1]) / scaled.w[:, None]
    x[~on] = rhs[~on] / system.c[~on, None]
    status = Status.CONVERGED if reached.max() <= max(2 * tol, 1e-12) else Status.STALLED
    plain, divided = (float(value) for value in reached)
    return Iterates(x, 0, [plain], status, note=note, reached=(plain, divided))


def _scaled(system: FilterSystem) -> _Scaled:
    from nareg._solvers import twofold

    P, w = system.coupling, system.coupling_weights
    on = w != 0
    high, low = system.coupling_sums
    if not on.all():
        dropped = sp.csr_array(P[on][:, ~on])
        P = sp.csr_array(P[on][:, on])
        if system.sdd:
            high, low = high[on] - np.asarray(dropped.sum(axis=1)).ravel(), low[on]
        else:
            high, low = twofold.row_sums(P.indptr, P.data)
    with np.errstate(over="ignore", under="ignore"):
        d = system.c[on] / w[on] / w[on]
    return _Scaled(on, w[on], d, P, high, low)


def _without_subtraction(scaled: _Scaled) -> tuple[Solve | None, str]:
    """The factor that is right whatever the condition number, unless it takes too much work."""
    from nareg._solvers import twofold
    from nareg._solvers.approximate_cholesky import substitute

    P = scaled.P
    off = sp.csc_matrix(abs(P - sp.diags_array(P.diagonal())))
    off.eliminate_zeros()
    order = fill_order(off)
    A = sp.csr_array(off[order][:, order])
    counts, parent = twofold.column_counts(A.indptr, A.indices)
    if (counts.astype(float) ** 2).sum() / 2 > MAX_WORK:
        return None, ""
    total = np.maximum(scaled.excess, 0.0) + scaled.d
    factor = twofold.eliminate(A.indptr, A.indices, A.data, total[order], counts, parent)
    if not (factor[3] > 0).all():
        return None, ""

    def apply_inverse(R: np.ndarray) -> np.ndarray:
        B = np.ascontiguousarray(R[order])
        substitute(*factor, B)
        out = np.empty_like(B)
        out[order] = B
        return out

    return apply_inverse, "elimination without subtraction"


def _equilibrated(scaled: _Scaled) -> Solve | None:
    """A factor of the system with ones on its diagonal, None if a pivot is not positive."""
    M = scaled.P + sp.diags_array(scaled.d)
    diagonal = M.diagonal()
    if not (diagonal > 0).all():
        return None
    s = 1.0 / np.sqrt(diagonal)
    half = sp.diags_array(s)
    lu = superlu(sp.csc_array(half @ M @ half))
    if lu is None or not is_cholesky(lu):
        return None
    return lambda R: s[:, None] * lu.solve(s[:, None] * R)
