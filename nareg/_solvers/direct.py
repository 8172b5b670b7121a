"""One sparse factor of K, and a check that it is accurate.

Where float64 cannot hold K well enough (huge weights, or edges over many decades) :mod:`.refine` takes over.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from nareg._solvers import refine
from nareg._solvers.factorization import Factor, Solve, factorize
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
            return refine.solve(system, rhs, tol)


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
