"""The risk of edge weights on large networks: a sum of squares over columns that stand for signals and noise.

    f = ||K^-1 F - G||_F^2,   F = C [X / sqrt(T), Sigma^(1/2) Z / sqrt(p)],   G = [X / sqrt(T), 0]

with random probes Z, the same ones throughout, so that a descent sees one smooth function. With the columns
``U = K^-1 F`` and ``A = K^-1 (U - G)`` the derivative by the weight of ``v v^T`` is ``-2 sum over columns (v^T a)(v^T u)``.
Positive pivots of a factor prove that K is positive definite.

The systems of a descent over edge weights, in the hands of SciPy or torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from nareg._solvers import cg
from nareg._solvers.backends import SolverBackend, Torch, open_torch_edges
from nareg._solvers.factorization import factorize
from nareg._solvers.system import FilterSystem, Penalty
from nareg.design._edge.cone import ConeDescent
from nareg.design._edge.result import FACTOR_NODES
from nareg.design._edge.support import Support
from nareg.design._risk.checked import bare_system
from nareg.design._risk.descent import ValueAndGradient, minimize_between
from nareg.design._risk.sampled import ColumnRisk, ColumnSystems, SampleColumns, ScipyColumns
from nareg.errors import SolverError
from nareg.results import DesignDetails, Status, symmetric_from_entries

#: Relative residual of iterative solves: with 1e-6 descents end at gradients ten times those that count as converged.
TOL = 1e-8
#: Random probes of the noise, and as many others on the held-out side.
PROBES = 32
#: ``solve(rhs, x0)``; None where K is seen not to be positive definite.
EdgeSolve = Callable[..., Any]


class EdgeSystems(ColumnSystems, Protocol):
    """``K(u) = C + S(u)`` for one u after another, a number per node and edge."""

    #: Whether sparse factors solve, whose positive pivots prove that K is positive definite.
    factorizes: bool

    def given_back(self, columns: Any) -> np.ndarray:
        """The same as a NumPy array."""

    def scaled(self, y: Any) -> Any:
        """``C y``."""

    def inverse(self, u: np.ndarray) -> EdgeSolve | None:
        """Solver with ``K(u)``, or None where K is seen not to be positive definite."""

    def residual(self, rhs: Any, x: Any) -> Any:
        """``rhs - K x`` for the last u; None where factors solve, which leave nothing over."""

    def products(self, A: Any, U: Any) -> np.ndarray:
        """``sum over columns (v^T a)(v^T u)`` for every node and edge."""


class ScipyEdges(ScipyColumns):
    """Those of SciPy: sparse factors where they stay sparse, else conjugate gradients."""

    def __init__(self, base: Penalty, support: Support, c: np.ndarray) -> None:
        self.base, self.c = base, c
        self.support = Support(support.n, support.i, support.j)
        self.factorizes = base.n_nodes <= FACTOR_NODES and bare_system(base, c).mesh_like

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

    def products(self, A: np.ndarray, U: np.ndarray) -> np.ndarray:
        return self.support.column_products(A, U)


def edge_systems(backend: SolverBackend, base: Penalty, support: Support, c: np.ndarray) -> EdgeSystems:
    """The systems of these edges in the hands of the library of this name."""
    if backend == "scipy":
        return ScipyEdges(base, support, c)
    options = backend if isinstance(backend, Torch) else Torch()
    return open_torch_edges(c, support.i, support.j, bare_system(base, c).order, options, tol=TOL)


def _iterate(system: FilterSystem, rhs: np.ndarray, x0: np.ndarray | None) -> np.ndarray | None:
    """Solution by conjugate gradients; None where they meet negative curvature or do not converge."""
    solution = cg.solve(system, np.ascontiguousarray(rhs), tol=TOL, max_iterations=2000, x0=x0)
    return solution.x if solution.status is Status.CONVERGED else None


class EdgeRisk(ColumnRisk):
    """``||K(u)^-1 F - G||^2`` and its gradient in u."""

    systems: EdgeSystems
    #: Trailing summands that are no signals', most steps of a descent, and what its gradient is relative to (the value).
    shared, max_iterations, size = PROBES, 300, None

    def __init__(self, base: Penalty, support: Support, c: np.ndarray, backend: SolverBackend = "scipy") -> None:
        self.base, self.support, self.c = base, support, c
        self.systems = edge_systems(backend, base, support, c)

    def column_values(self, u: np.ndarray, columns: SampleColumns) -> np.ndarray | None:
        solve = self.systems.inverse(self.support.numbers(u))
        U = None if solve is None else self.filtered(solve, columns)
        return None if U is None else self._squares(U - self.placed(columns)["targets"])

    def filtered(self, solve: EdgeSolve, columns: SampleColumns) -> Any:
        """``K^-1 C B``, or None."""
        U = solve(self._right_hand_sides(columns), columns.last.get("forward"))
        if U is not None:
            columns.last["forward"] = U
        return U

    def value_and_gradient(self, u: np.ndarray, columns: SampleColumns) -> tuple[float, np.ndarray]:
        """The risk and its gradient; infinite value outside the cone."""
        solve = self.systems.inverse(self.support.numbers(u))
        U = None if solve is None else self.filtered(solve, columns)
        error = None if U is None else U - self.placed(columns)["targets"]
        A = None if error is None or solve is None else solve(error, columns.last.get("adjoint"))
        if error is None or A is None:
            return np.inf, np.zeros_like(u)
        columns.last["adjoint"] = A
        value = float(self._squares(error).sum())
        left = self.systems.residual(self._right_hand_sides(columns), U)
        if left is not None:
            # U is short of K^-1 F by K^-1 left, which changes the value by 2 <K^-1 error, left>, up to its square
            value += 2.0 * float(self.systems.dots(A, left).sum())
        return value, -2.0 * self.support.reduce(self.systems.products(A, U))

    def _right_hand_sides(self, columns: SampleColumns) -> Any:
        """``F`` of ``K^-1 F``."""
        return self.systems.scaled(self.placed(columns)["inputs"])

    def towards(self, u: np.ndarray, columns: SampleColumns, amount: float) -> SampleColumns:
        """The columns with targets moved towards what ``K(u)`` makes of them."""
        solve = self.systems.inverse(self.support.numbers(u))
        U = None if solve is None or amount == 0 else self.filtered(solve, columns)
        if U is None:
            return columns
        placed = self.placed(columns)
        return replace(columns, last={}, placed={**placed, "targets": (1 - amount) * placed["targets"] + amount * U})

    @property
    def method(self) -> str:
        """What solves, for reports."""
        return ("sparse factors" if self.systems.factorizes else "conjugate gradients") + self.systems.label

    def start(self, columns: SampleColumns) -> np.ndarray:
        """Unknowns of ``strength L`` with the strength, one for all edges, of the smallest risk on these columns."""
        L = self.base.L
        weights = self.support.of_operator(L)
        unit = float(self.c.mean() / L.diagonal().mean())
        at, _ = minimize_between(lambda t: self.value(unit * np.exp(t) * weights, columns), -10, 10, accuracy=1e-2)
        return unit * np.exp(at) * weights

    def start_details(self, value: float) -> DesignDetails:
        """What a certificate says of the start."""
        return {"best_scalar_risk": value, "n_probes": PROBES}

    def blended(self, columns: SampleColumns, start: np.ndarray, amount: float) -> ValueAndGradient:
        """``(1 - amount)`` times the risk, and the rest one whose optimum is the start.

        ``(1 - a) ||U - G||^2 + a ||U - U0||^2`` is ``||U - (1 - a) G - a U0||^2`` up to a constant.
        """
        target = self.towards(start, columns, amount)
        return lambda u: self.value_and_gradient(u, target)

    def gap(self, descent: ConeDescent, h: np.ndarray) -> float | None:
        """What the blended risk may still fall by is not known."""
        return None

    def stiffness(self, u: np.ndarray, columns: SampleColumns, probes: Callable[[], np.ndarray]) -> np.ndarray:
        """Diagonal of the Gauss-Newton matrix, ``2 (v^T U U^T v) (v^T P^2 v)``, P^2 by probes."""
        Z = probes()
        solve = self.systems.inverse(self.support.numbers(u))
        U = V = None
        if solve is not None:
            U, V = self.filtered(solve, columns), solve(self.systems.keep(Z / np.sqrt(Z.shape[1])))
        if U is None or V is None:
            raise SolverError("the best single weight's system cannot be solved accurately: check data_weight and noise.")
        U, V = self.systems.given_back(U), self.systems.given_back(V)
        return 2.0 * self.support.column_product_diagonal(U, V)

    def _squares(self, error: Any) -> np.ndarray:
        return self.systems.dots(error, error)
