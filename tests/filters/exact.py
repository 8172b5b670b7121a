"""Filter systems in rational arithmetic: what an engine says of its answer is compared with what is so."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from nareg.results import Solution, Status

Rows = list[list[Fraction]]


def rational_solve(K: Rows, B: Rows) -> Rows:
    """``K^-1 B``."""
    n = len(B)
    K, B = [list(row) for row in K], [list(row) for row in B]
    for k in range(n):
        for i in range(k + 1, n):
            factor = K[i][k] / K[k][k]
            if factor:
                K[i] = [a - factor * b for a, b in zip(K[i], K[k], strict=True)]
                B[i] = [a - factor * b for a, b in zip(B[i], B[k], strict=True)]
    for k in reversed(range(n)):
        B[k] = [b / K[k][k] for b in B[k]]
        for i in range(k):
            B[i] = [a - K[i][k] * b for a, b in zip(B[i], B[k], strict=True)]
    return B


@dataclass(frozen=True)
class ExactSystem:
    """``(C + diag(w) L diag(w)) x = C y`` of float64 numbers, L the exact Laplacian of the adjacency A."""

    A: np.ndarray
    w: np.ndarray
    c: np.ndarray
    y: np.ndarray

    @cached_property
    def K(self) -> Rows:
        a = [[Fraction(float(v)) for v in row] for row in self.A]
        w, c = [Fraction(float(v)) for v in self.w], [Fraction(float(v)) for v in self.c]
        K = [[-w[i] * w[j] * a[i][j] for j in range(len(a))] for i in range(len(a))]
        for i, row in enumerate(a):
            K[i][i] = c[i] + w[i] ** 2 * sum(row)
        return K

    @cached_property
    def rhs(self) -> list[Fraction]:
        return [Fraction(float(c)) * Fraction(float(y)) for c, y in zip(self.c, self.y, strict=True)]

    @cached_property
    def x(self) -> np.ndarray:
        """The right answer."""
        return np.array([float(row[0]) for row in rational_solve(self.K, [[b] for b in self.rhs])])

    @cached_property
    def inverse_norm(self) -> float:
        n = len(self.K)
        identity = [[Fraction(i == j) for j in range(n)] for i in range(n)]
        return float(np.linalg.norm([[float(v) for v in row] for row in rational_solve(self.K, identity)]))

    def residuals(self, x: np.ndarray) -> tuple[float, float]:
        """``||C y - K x|| / ||C y||``, and both over the diagonal of K."""
        values = [Fraction(float(v)) for v in x]
        left = [b - sum(k * v for k, v in zip(row, values, strict=True)) for b, row in zip(self.rhs, self.K, strict=True)]
        over = [(r / row[i], b / row[i]) for i, (r, b, row) in enumerate(zip(left, self.rhs, self.K, strict=True))]
        return _ratio(left, self.rhs), _ratio(*zip(*over, strict=True))

    def judge(self, solution: Solution, tol: float, *, rounded: bool) -> None:
        """What CONVERGED promises, and that the residual is that of x; ``rounded``: x was rounded after it was computed."""
        x = np.asarray(solution.x, dtype=float)
        if solution.status is Status.CONVERGED:
            size = float(np.linalg.norm([float(b) for b in self.rhs]))
            allowed = 2.2 * tol * self.inverse_norm * size + 1e-13 * np.abs(self.x).max()
            assert np.linalg.norm(x - self.x) <= allowed, (solution, self)
            assert solution.residual <= 2 * tol
        if not rounded and solution.status is not Status.INDEFINITE and np.isfinite(x).all():
            plain, scaled = self.residuals(x)
            assert abs(solution.residual - plain) <= 0.1 * plain + 0.2 * tol, (solution, plain, self)
            if solution.status is Status.CONVERGED:
                assert max(plain, scaled) <= 2.2 * tol, (solution, plain, scaled, self)


def _ratio(left: object, right: object) -> float:
    above, below = (float(sum(v * v for v in side)) for side in (left, right))  # type: ignore[attr-defined]
    return float(np.sqrt(above / below)) if below else 0.0


def graded_systems(count: int) -> list[ExactSystem]:
    """Trees with a few more edges; weights over up to 18 decades, some zero; data terms over 8, some zero."""
    systems = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 7))
        A = np.zeros((n, n))
        for i in range(1, n):
            A[i, rng.integers(i)] = 10 ** rng.uniform(-1, 2)
        A = A + A.T + np.triu(rng.random((n, n)) < 0.2, 1) * 3.0
        A = np.triu(A, 1) + np.triu(A, 1).T
        decades = rng.uniform(0, 9)
        w = 10 ** rng.uniform(-decades, decades, n) * rng.choice([-1.0, 1.0], n)
        if seed % 3 == 0:
            w = np.full(n, 10**decades)
        c = 10 ** rng.uniform(-6, 2, n) * (rng.random(n) < 0.6)
        c[rng.integers(n)] = 18.2
        if seed % 5 == 1:
            w[rng.integers(n)], c = 0.0, np.maximum(c, 1e-6)
        systems.append(ExactSystem(A, w, c, rng.standard_normal(n) + 1))
    return systems


#: The data term lies below the rounding of ``w^2 d + c``; then a coupling that is nothing to one node, and all to the next.
STAR = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0.0]])
LOST = [
    ExactSystem(STAR, np.full(3, w), np.array([18.2, 0, 0]), np.array([1.0, 0, 0])) for w in (1e5, 1e6, 1e7, 3e7, 1e8, 2.07e8)
] + [
    ExactSystem(
        np.array([[0, 20, 0], [20, 0, 2], [0, 2, 0.0]]), np.array([1e-9, v, v]), np.array([13, c, c]), np.array([1.0, 0, 0])
    )
    for v, c in ((1.0, 1e-6), (1e-9, 0.0), (1e-9, 1e-20), (1e9, 1e-6), (1e-30, 0.0))
]  # fmt: skip
