"""A graph from signals that are smooth on it (Kalofolias 2016), by Newton's method on the dual.

With z_e the squared distance of the signals of edge e's ends, S the (N, M) incidence and w the weights, both models read

    minimize 2 z^T w + ||w||^2 + g(S w)  over w >= 0,

with ``g(d) = -sum log d`` (``"log"``) or ``g(d) = a / 2 ||d||^2`` and ``sum d = N`` (``"l2"``). The dual has a number per node:

    minimize sum_e w_e(l)^2 + g*(-l),  w_e(l) = max(0, l_i + l_j - 2 z_e) / 2,

which is smooth and convex. The edges with positive weight make its Hessian: ``S_A S_A^T / 2`` plus the curvature of g*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg

from nareg.results import Status

#: Up to here a Newton step takes a dense factor, beyond conjugate gradients.
DENSE = 1500
#: Armijo's share of the predicted decrease, and the largest share of the way to the boundary.
ARMIJO = 1e-4
BOUNDARY = 0.99


@dataclass(frozen=True)
class DegreeTerm:
    """``g`` by its value, and ``g*(-l)`` by value, gradient and Hessian ``diag(h) - shift 1 1^T``."""

    value: Callable[[np.ndarray], float]
    conjugate: Callable[[np.ndarray], float]
    gradient: Callable[[np.ndarray], np.ndarray]
    curvature: Callable[[np.ndarray], tuple[np.ndarray, float]]
    positive: bool


def log_degrees(n: int) -> DegreeTerm:
    """``g(d) = -sum log d``."""
    return DegreeTerm(
        value=lambda d: np.inf if (d <= 0).any() else -float(np.log(d).sum()),
        conjugate=lambda dual: -float(np.log(dual).sum()) - n,
        gradient=lambda dual: -1 / dual,
        curvature=lambda dual: (dual**-2, 0.0),
        positive=True,
    )


def squared_degrees(n: int, a: float) -> DegreeTerm:
    """``g(d) = a / 2 ||d||^2`` where ``sum d = n``."""
    return DegreeTerm(
        value=lambda d: a / 2 * float(d @ d),
        conjugate=lambda dual: float(np.sum((dual - dual.mean()) ** 2) / (2 * a) - dual.sum()) - a * n / 2,
        gradient=lambda dual: (dual - dual.mean()) / a - 1,
        curvature=lambda dual: (np.full(n, 1 / a), 1 / (a * n)),
        positive=False,
    )


@dataclass
class Answer:
    """Weights, the value they reach, how far above the least value it may be, and how the search ended."""

    weights: np.ndarray
    objective: float
    gap: float
    iterations: int
    status: Status


class Problem:
    """One of the models on candidate edges ``(i, j)`` with distances ``z``."""

    def __init__(self, i: np.ndarray, j: np.ndarray, z: np.ndarray, n: int, model: DegreeTerm) -> None:
        self.i, self.j, self.z, self.n, self.model = i, j, z, n, model

    def weights(self, dual: np.ndarray) -> np.ndarray:
        """``w(l)``, (M,)."""
        return np.maximum(dual[self.i] + dual[self.j] - 2 * self.z, 0) / 2

    def degrees(self, w: np.ndarray) -> np.ndarray:
        """``S w``, (N,)."""
        return np.bincount(self.i, w, self.n) + np.bincount(self.j, w, self.n)

    def loss(self, dual: np.ndarray) -> float:
        """The dual's value, which is minimized."""
        if self.model.positive and (dual <= 0).any():
            return np.inf
        w = self.weights(dual)
        return float(w @ w) + self.model.conjugate(dual)

    def objective(self, w: np.ndarray) -> float:
        """The primal's value."""
        return float(2 * self.z @ w + w @ w) + self.model.value(self.degrees(w))

    def feasible(self, w: np.ndarray, dual: np.ndarray) -> np.ndarray:
        """Weights whose degrees the model allows: scaled to the sum N, or an edge to the nearest node where there is none."""
        if not self.model.positive:
            total = 2 * float(w.sum())
            return w * (self.n / total) if total > 0 else w
        lonely = np.flatnonzero(self.degrees(w) <= 0)
        if not lonely.size:
            return w
        given = w.copy()
        np.maximum.at(given, self.nearest[lonely], 1 / dual[lonely])
        return given

    @cached_property
    def nearest(self) -> np.ndarray:
        """The shortest edge of each node, (N,)."""
        order = np.argsort(-self.z, kind="stable")  # of several assignments the last holds
        edge = np.zeros(self.n, dtype=np.int64)
        edge[np.c_[self.i, self.j][order].ravel()] = np.repeat(order, 2)
        return edge

    def start(self) -> np.ndarray:
        """The same number for every node, at which the derivative along the ones is zero."""

        def slope(c: float) -> float:
            dual = np.full(self.n, c)
            return float(2 * self.weights(dual).sum() + self.model.gradient(dual).sum())

        high = 1.0
        while slope(high) < 0:
            high *= 2
        low = high / 2
        while self.model.positive and slope(low) > 0:
            low /= 2
        low = low if self.model.positive else 0.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) < 0 else (low, middle)
        return np.full(self.n, high)

    def step(self, dual: np.ndarray, w: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Newton's step: minus the inverse Hessian times the gradient."""
        diagonal, shift = self.model.curvature(dual)
        active = w > 0
        i, j = self.i[active], self.j[active]
        half = sp.csr_array((np.full(i.size, 0.5), (i, j)), shape=(self.n, self.n))
        edges = half + half.T
        diagonal = diagonal + np.asarray(edges.sum(axis=1)).ravel()
        if self.n <= DENSE:
            H = edges.toarray() - shift
            H[np.diag_indices(self.n)] += diagonal * (1 + 1e-14)
            return -cho_solve(cho_factor(H, lower=True), gradient)
        product = LinearOperator((self.n, self.n), matvec=lambda v: edges @ v + diagonal * v - shift * v.sum(), dtype=float)
        inverse = LinearOperator((self.n, self.n), matvec=lambda v: v / diagonal, dtype=float)
        size = float(np.linalg.norm(gradient))
        return -cg(product, gradient, rtol=max(min(1e-2, size), 1e-10), maxiter=2000, M=inverse)[0]


def solve(problem: Problem, *, tol: float, max_iterations: int, report: Callable[[int, float], None]) -> Answer:
    """Newton's method until the duality gap is below ``tol`` times the size of the objective."""
    best = Answer(np.zeros(problem.z.size), np.inf, np.inf, 0, Status.MAX_ITERATIONS)
    try:
        dual = problem.start()
        loss = problem.loss(dual)
        for iteration in range(max_iterations + 1):
            w = problem.weights(dual)
            given = problem.feasible(w, dual)
            objective = problem.objective(given)
            gap = objective + loss
            if gap < best.gap:
                best = Answer(given, objective, gap, iteration, Status.MAX_ITERATIONS)
            report(iteration, gap)
            if gap <= tol * max(abs(objective), problem.n):
                best.status = Status.CONVERGED
                return best
            gradient = problem.degrees(w) + problem.model.gradient(dual)
            step = problem.step(dual, w, gradient)
            slope = float(gradient @ step)
            length = 1.0
            down = step < 0
            if problem.model.positive and down.any():
                length = min(1.0, BOUNDARY * float((-dual[down] / step[down]).min()))
            while (new := problem.loss(dual + length * step)) > loss + ARMIJO * length * slope:
                length /= 2
                if length < 1e-10:
                    best.status = Status.STALLED
                    return best
            dual, loss = dual + length * step, new
    except KeyboardInterrupt:
        best.status = Status.INTERRUPTED
    return best
