"""Solves with ``H = I + lam L`` by conjugate gradients, preconditioned by H's diagonal or by an approximate Cholesky factor.

With the diagonal the number of iterations grows with sqrt(lam) on graphs with bottlenecks, such as grids and citation graphs,
and hardly at all on random graphs. With the factor it grows on neither (to 1e-6, lam from 1e2 to 1e5: a grid 86 to 804 and 17
to 22, Pubmed 66 to 126 and 10 to 12, a preferential attachment graph 23 to 31 and 11 to 11). But an iteration with the factor
takes three to six times as long.

The factor is of ``diag(v) H diag(v)`` for a v > 0 that makes it diagonally dominant. H itself is not (errata), but
``D^1/2 H D^1/2 = D + lam (D - A)`` is, for the augmented Laplacian.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._linear.approximate_cholesky import ApproximateCholesky
from nareg.errors import SolverError
from nareg.filters import cg
from nareg.results import Status

#: Columns per block.
BLOCK = 16
#: Iterations with the diagonal, per unit of ``log(2 / tol)``, that take as long as a solve with the factor.
PATIENCE = 4.5
#: Iterations with the factor, per unit of ``log(2 / tol)``, about, and how many products each takes as long as.
STEPS, WORTH = 1.2, 6.0
MAX_ITERATIONS = 100_000


class Iterative:
    """``H^-1 B`` for float64 arrays.

    ``how`` is "cg" (the diagonal), "cholesky" (the factor), or "auto": the diagonal, until a block of columns takes longer with
    it than with the factor. ``scale`` is v, and ``excess`` the row sums of ``diag(v) H diag(v)``; "cg" needs neither.
    """

    def __init__(self, H: sp.csr_array, how: str, *, scale: np.ndarray, excess: np.ndarray | None) -> None:
        self.H, self.how = H, how
        self._scale, self._excess = scale, excess

    @cached_property
    def factor(self) -> ApproximateCholesky:
        """Made at the first solve that needs it, and kept."""
        assert self._excess is not None
        return ApproximateCholesky.of(self.H, self._scale, self._excess, rng=np.random.default_rng(0))

    def solve(self, B: np.ndarray, tol: float, *, quick: int | None = None) -> tuple[np.ndarray | None, int]:
        """The solution to a residual of ``tol`` times the length of every column, and the products of H with one column.

        No solution where a block of columns takes more than ``quick`` iterations with the diagonal.
        """
        X, products = np.empty_like(B), 0
        for first in range(0, B.shape[1], BLOCK):
            columns = slice(first, first + BLOCK)
            peak = abs(B[:, columns]).max(axis=0, initial=0.0)
            peak[peak == 0] = 1.0  # squares of very small or large columns would leave float64
            solved, count = self._solve_block(np.ascontiguousarray(B[:, columns] / peak), tol, quick)
            products += count
            if solved is None:
                return None, products
            X[:, columns] = solved * peak
        return X, products

    def _solve_block(self, B: np.ndarray, tol: float, quick: int | None) -> tuple[np.ndarray | None, int]:
        """The same for few columns. It is repeated for what is left where rounding has led the recurred residual astray."""
        size = np.linalg.norm(B, axis=0)
        X, R, goal, products, worst = np.zeros_like(B), B, tol, 0, math.inf
        while True:
            step, iterations = self._descend(R, goal, quick)
            products += iterations * B.shape[1]
            if step is None:
                return None, products
            X += step
            R = B - self.H @ X
            products += B.shape[1]
            left = np.linalg.norm(R, axis=0) / np.where(size > 0, size, 1.0)
            residual = float(left.max(initial=0.0))
            if residual <= 1.5 * tol:
                return X, products
            if not residual < 0.5 * worst:
                raise SolverError(
                    f"conjugate gradients reached a residual of {residual:.1e} instead of tol = {tol:g}: take a larger tol, "
                    "or a smaller lam."
                )
            worst, goal = residual, tol / residual

    def _descend(self, B: np.ndarray, tol: float, quick: int | None) -> tuple[np.ndarray | None, int]:
        """One run of conjugate gradients, and its iterations; nothing where it was to be quick and was not."""
        start, before = None, 0
        if self.how == "auto" or quick is not None:
            patience = math.ceil(PATIENCE * math.log(2 / tol)) if quick is None else quick
            first = cg.solve_in_order(self.H, B, tol=tol, max_iterations=patience)
            if first.status is not Status.MAX_ITERATIONS:
                return first.x, first.iterations
            if quick is not None:
                return None, first.iterations
            self.how, start, before = "cholesky", first.x, first.iterations + 1  # one product for the residual at the start
        options: dict[str, Any] = {"tol": tol, "max_iterations": MAX_ITERATIONS, "x0": start}
        if self.how == "cholesky":
            options["precondition"] = self.factor.solve
        result = cg.solve_in_order(self.H, B, **options)
        return result.x, before + result.iterations
