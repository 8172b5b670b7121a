"""Solves with ``H = I + lam L`` that are not polynomials in H: with an approximate Cholesky factor, or by conjugate gradients.

The factor is of ``diag(v) H diag(v)`` for a v > 0 that makes it diagonally dominant. H itself is not (errata), but
``D^1/2 H D^1/2 = D + lam (D - A)`` is, for the augmented Laplacian. With it a Chebyshev iteration of a fixed number of steps is
a linear map, as the theory of the outer iteration assumes: features of deficient rank, propagated, are of that rank. Conjugate
gradients leave noise in the missing directions, which a training may fit.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from nareg._solvers import cg, lanczos
from nareg._solvers.approximate_cholesky import ApproximateCholesky
from nareg._solvers.passes import CompiledPasses
from nareg.errors import SolverError

#: Columns per block.
BLOCK = 16
#: Steps of the Lanczos iteration for the ends of the preconditioned spectrum, and the margin on them.
LANCZOS, MARGIN = 20, 1.1
#: Condition number of the preconditioned system that is expected before it is known, and what a step takes, in products.
TYPICAL, WORTH = 10.0, 5.0
#: How often the ends of the spectrum are moved apart before a solve is given up.
WIDENED = 8
MAX_PRODUCTS = 100_000


def steps(condition: float, tol: float) -> int:
    """Chebyshev steps to an error of ``tol``: ``2 q^k <= tol`` with ``q = (sqrt(c) - 1) / (sqrt(c) + 1)``."""
    root = math.sqrt(condition)
    return max(1, math.ceil(math.log(2 / tol) / math.log((root + 1) / (root - 1)))) if root > 1 else 1


class FactorIteration:
    """``H^-1 B`` for float64 arrays by a preconditioned Chebyshev iteration.

    ``scale`` is v, and ``excess`` the row sums of ``diag(v) H diag(v)``. The ends of the preconditioned spectrum are estimated
    once. Every solve checks its error, and moves them apart if they were wrong.
    """

    def __init__(self, H: sp.csr_array, *, scale: np.ndarray, excess: np.ndarray) -> None:
        self.H = H
        self.factor = ApproximateCholesky.of(H, scale, excess, rng=np.random.default_rng(0))
        self._low, self._high = self._ends()
        #: Whether the bound of an error exceeded its tolerance, as it may the error by the root of the condition number.
        self._exceeded = False

    @property
    def condition(self) -> float:
        """Bound of the condition number of the preconditioned system."""
        return self._high / self._low

    def _ends(self) -> tuple[float, float]:
        """Of the spectrum of ``M^-1 H``, with a margin: Lanczos in the metric of H from a random start."""
        n = self.H.shape[0]
        start = np.random.default_rng(0).standard_normal((n, 1))
        values = lanczos.ritz_values(self.factor.solve, start, min(LANCZOS, n), metric=lambda v: self.H @ v)
        return float(values[0]) / MARGIN, float(values[-1]) * MARGIN

    def solve(self, B: np.ndarray, tol: float) -> tuple[np.ndarray, int]:
        """The solution to an error of ``tol`` times the length of every column, and the products of H with one column."""
        X, products = np.empty_like(B), 0
        for _ in range(WIDENED):
            taken = steps(self.condition, tol / math.sqrt(self.condition) if self._exceeded else tol)
            products += taken * B.shape[1]
            for first in range(0, B.shape[1], BLOCK):
                columns = slice(first, first + BLOCK)
                X[:, columns], error = self._iterate(np.ascontiguousarray(B[:, columns]), taken)
                if not error <= tol:
                    break
            else:
                return X, products
            if self._exceeded:
                self._low, self._high = self._low / 1.5, self._high * 1.2
            self._exceeded = True
        raise SolverError(
            f"the factor's iteration did not reach tol = {tol:g}: take a larger tol, a smaller lam, or solver='cg'."
        )

    def _iterate(self, B: np.ndarray, taken: int) -> tuple[np.ndarray, float]:
        """So many steps from zero, and a bound of the largest error over the length of its column.

        With ``R = H E`` the error's length is at most ``||E||_H``, of which ``R^T M^-1 R / low`` is a bound of the square.
        """
        middle, half = (self._high + self._low) / 2, (self._high - self._low) / 2
        X, R = np.zeros_like(B), B.copy()
        D = self.factor.solve(R) / middle
        ratio = half / middle
        for step in range(taken):
            X += D
            R -= self.H @ D
            Z = self.factor.solve(R)
            if step < taken - 1:
                following = 1 / (2 * middle / half - ratio)
                D *= following * ratio
                D += Z * (2 * following / half)
                ratio = following
        size, left = np.linalg.norm(B, axis=0), np.einsum("it,it->t", R, Z)
        return X, float((np.sqrt(np.maximum(left, 0.0) / self._low) / np.where(size > 0, size, 1.0)).max(initial=0.0))


class DiagonalIteration:
    """``H^-1 B`` for float64 arrays, with H's diagonal for a preconditioner."""

    def __init__(self, H: sp.csr_array) -> None:
        self._passes = CompiledPasses(H, 1.0 / H.diagonal())

    def solve(self, B: np.ndarray, tol: float) -> tuple[np.ndarray, int]:
        """The solution to a residual of ``tol`` times the length of every column, and the products of H with one column."""
        X, products = np.empty_like(B), 0
        for first in range(0, B.shape[1], BLOCK):
            columns = slice(first, first + BLOCK)
            block = np.ascontiguousarray(B[:, columns])
            X[:, columns], count = cg.solve_exactly(self._passes, block, tol=tol, max_products=MAX_PRODUCTS)
            products += count * block.shape[1]
        return X, products
