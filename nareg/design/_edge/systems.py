"""The systems of a descent over edge weights, in the hands of SciPy or torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from nareg._linear.factorization import factorize
from nareg._operator import FilterSystem, Penalty
from nareg.design._edge.result import FACTOR_NODES
from nareg.design._edge.support import Support
from nareg.filters import cg
from nareg.filters.backends import SolverBackend, Torch, open_torch_edges
from nareg.results import Status, symmetric_from_entries

#: Relative residual of iterative solves: with 1e-6 descents end at gradients ten times those that count as converged.
TOL = 1e-8
#: ``solve(rhs, x0)``; None where K is seen not to be positive definite.
EdgeSolve = Callable[..., Any]


class EdgeSystems(Protocol):
    """``K(u) = C + S(u)`` for one u after another, a number per node and edge. Columns are arrays of the library's own kind."""

    label: str
    #: Whether sparse factors solve, whose positive pivots prove that K is positive definite.
    factorizes: bool

    def keep(self, columns: np.ndarray) -> Any:
        """(N, T) columns where this library solves."""

    def given_back(self, columns: Any) -> np.ndarray:
        """The same as a NumPy array."""

    def scaled(self, y: Any) -> Any:
        """``C y``."""

    def inverse(self, u: np.ndarray) -> EdgeSolve | None:
        """Solver with ``K(u)``, or None where K is seen not to be positive definite."""

    def residual(self, rhs: Any, x: Any) -> Any:
        """``rhs - K x`` for the last u; None where factors solve, which leave nothing over."""

    def dots(self, A: Any, B: Any) -> np.ndarray:
        """The inner product of every pair of columns, (T,)."""

    def products(self, A: Any, U: Any) -> np.ndarray:
        """``sum over columns (v^T a)(v^T u)`` for every node and edge."""


class ScipyEdges:
    """Those of SciPy: sparse factors where they stay sparse, else conjugate gradients."""

    label = ""

    def __init__(self, base: Penalty, support: Support, c: np.ndarray) -> None:
        self.base, self.c = base, c
        self.support = Support(support.n, support.i, support.j)
        self.factorizes = base.n_nodes <= FACTOR_NODES and _bare(base, c).mesh_like

    def keep(self, columns: np.ndarray) -> np.ndarray:
        return columns

    def given_back(self, columns: np.ndarray) -> np.ndarray:
        return columns

    def scaled(self, y: np.ndarray) -> np.ndarray:
        return self.c[:, None] * y

    def inverse(self, u: np.ndarray) -> EdgeSolve | None:
        S = symmetric_from_entries(self.support.entries(u), self.support.i, self.support.j)
        system = FilterSystem(S=S, c=self.c, w=None, penalty=self.base)
        if not np.isfinite(u).all() or (system.diagonal <= 0).any():
            return None
        self._system = system
        if not self.factorizes:
            return lambda rhs, x0=None: _iterate(system, rhs, x0)
        factor = factorize(system.K)
        return None if factor is None else lambda rhs, x0=None: factor.solve(rhs)

    def residual(self, rhs: np.ndarray, x: np.ndarray) -> np.ndarray | None:
        return None if self.factorizes else rhs - self._system.K @ x

    def dots(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.einsum("it,it->t", A, B)

    def products(self, A: np.ndarray, U: np.ndarray) -> np.ndarray:
        return self.support.column_products(A, U)


def edge_systems(backend: SolverBackend, base: Penalty, support: Support, c: np.ndarray) -> EdgeSystems:
    """The systems of these edges in the hands of the library of this name."""
    if backend == "scipy":
        return ScipyEdges(base, support, c)
    options = backend if isinstance(backend, Torch) else Torch()
    return open_torch_edges(c, support.i, support.j, _bare(base, c).order, options, tol=TOL)


def _bare(base: Penalty, c: np.ndarray) -> FilterSystem:
    return FilterSystem(S=base.L, c=c, w=np.ones(c.size), penalty=base)


def _iterate(system: FilterSystem, rhs: np.ndarray, x0: np.ndarray | None) -> np.ndarray | None:
    """Solution by conjugate gradients; None where they meet negative curvature or do not converge."""
    solution = cg.solve(system, np.ascontiguousarray(rhs), tol=TOL, max_iterations=2000, x0=x0)
    return solution.x if solution.status is Status.CONVERGED else None
