"""The risk of edge weights on large networks: a sum of squares over columns that stand for signals and noise.

    f = ||K^-1 F - G||_F^2,   F = C [X / sqrt(T), Sigma^(1/2) Z / sqrt(p)],   G = [X / sqrt(T), 0]

with random probes Z, the same ones throughout, so that a descent sees one smooth function. With the columns
``U = K^-1 F`` and ``A = K^-1 (U - G)`` the derivative by the weight of ``v v^T`` is ``-2 sum over columns (v^T a)(v^T u)``.
Positive pivots of a factor prove that K is positive definite.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nareg._operator import Penalty
from nareg.design._edge.support import Support
from nareg.design._edge.systems import EdgeSolve, edge_systems
from nareg.design._risk.sampled import ColumnRisk, SampleColumns
from nareg.errors import SolverError
from nareg.filters.backends import SolverBackend


class EdgeRisk(ColumnRisk):
    """``||K(u)^-1 F - G||^2`` and its gradient in u."""

    def __init__(self, base: Penalty, support: Support, c: np.ndarray, backend: SolverBackend = "scipy") -> None:
        self.base, self.support, self.c = base, support, c
        self.systems = edge_systems(backend, base, support, c)

    def column_values(self, u: np.ndarray, columns: SampleColumns) -> np.ndarray | None:
        solve = self.systems.inverse(self.support.numbers(u))
        U = None if solve is None else self.filtered(solve, columns)
        return None if U is None else self._squares(U - self._placed(columns)["targets"])

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
        error = None if U is None else U - self._placed(columns)["targets"]
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
        return self.systems.scaled(self._placed(columns)["inputs"])

    def towards(self, u: np.ndarray, columns: SampleColumns, amount: float) -> SampleColumns:
        """The columns with targets moved towards what ``K(u)`` makes of them."""
        solve = self.systems.inverse(self.support.numbers(u))
        U = None if solve is None or amount == 0 else self.filtered(solve, columns)
        if U is None:
            return columns
        placed = self._placed(columns)
        return replace(columns, last={}, placed={**placed, "targets": (1 - amount) * placed["targets"] + amount * U})

    def stiffness(self, u: np.ndarray, columns: SampleColumns, Z: np.ndarray) -> np.ndarray:
        """Diagonal of the Gauss-Newton matrix, ``2 (v^T U U^T v) (v^T P^2 v)``, P^2 by probes."""
        solve = self.systems.inverse(self.support.numbers(u))
        U = V = None
        if solve is not None:
            U, V = self.filtered(solve, columns), solve(self.systems.keep(Z / np.sqrt(Z.shape[1])))
        if U is None or V is None:
            raise SolverError("the best single weight's system cannot be solved accurately: check fit and noise.")
        U, V = self.systems.given_back(U), self.systems.given_back(V)
        return 2.0 * self.support.column_product_diagonal(U, V)

    def _squares(self, error: Any) -> np.ndarray:
        return self.systems.dots(error, error)

    def _placed(self, columns: SampleColumns) -> dict[str, Any]:
        """The columns where the systems are solved."""
        if not columns.placed:
            columns.placed.update(inputs=self.systems.keep(columns.inputs), targets=self.systems.keep(columns.targets))
        return columns.placed
