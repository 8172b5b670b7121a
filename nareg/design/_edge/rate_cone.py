"""Edge designs at a rate: the cone of S in which a Jacobi round has a factor of at most that, and its barrier.

With ``D = C + diag(S)`` and M the off-diagonal part of S the two matrices

    G_- = rate D - M,    G_+ = rate D + M

are linear in S, and both are positive definite exactly where the spectral radius of ``D^-1/2 M D^-1/2`` is below the rate
(:mod:`nareg.design._risk.rate`). A descent minimizes the objective plus nu times the barrier

    2 log det(rate D) - log det G_- - log det G_+ >= 0,

which does not change with the scale of ``C + S``; nu falls in steps. With ``Z = G^-1`` and a change E of G the derivatives of
``-log det G`` are ``-tr(Z E)`` and ``tr(Z E Z E')``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from nareg._solvers.system import EPSILON
from nareg.design._edge.cone import ConeObjective, ConePoint, cone_floor, inverse
from nareg.design._edge.support import Support
from nareg.design._risk.descent import DescentResult
from nareg.design._risk.newton import Limits, newton
from nareg.design._risk.rate import promised
from nareg.errors import SolverError
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, symmetric_from_entries

#: Part of the objective that the barrier may cost: while designs are compared, and in the last descents, one after another.
LOOSE, TIGHT = 1e-2, (1e-2, 1e-3, 1e-4, 1e-5)
#: A start has this part of the rate: inside the cone.
INSIDE = 1 - 1e-4


@dataclass(frozen=True)
class RateCone:
    """Matrices S on the support for which ``C + S`` keeps the rate."""

    support: Support
    c: np.ndarray
    rate: float

    def entries(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Diagonal of ``rate D``, and the entries of M on the edges."""
        entries = self.support.entries(u)
        return self.rate * (self.c + entries[: self.support.n]), entries[self.support.n :]

    def inverses(self, u: np.ndarray) -> tuple[float, tuple[np.ndarray, np.ndarray]] | None:
        """The barrier and both inverses, dense; None outside the cone."""
        diagonal, edge = self.entries(u)
        if not (diagonal > 0).all():
            return None
        i, j = self.support.i, self.support.j
        root = np.sqrt(diagonal)
        value, inverses = 0.0, []
        for sign in (-1.0, 1.0):
            scaled = np.eye(root.size)
            scaled[i, j] = scaled[j, i] = sign * edge / (root[i] * root[j])
            factored = inverse(scaled)
            if factored is None:
                return None
            value -= factored[1]
            inverses.append(factored[0] / root[:, None] / root)
        return value, (inverses[0], inverses[1])

    def slope(self, u: np.ndarray, inverses: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Gradient in u of the barrier."""
        i, j = self.support.i, self.support.j
        minus, plus = inverses
        own = self.rate * (2.0 / self.entries(u)[0] - np.diagonal(minus) - np.diagonal(plus))
        both = np.concatenate([own, minus[i, j] - plus[i, j]])
        return self.support.reduce(self.support.differences(both))

    @cached_property
    def _diagonal_by_unknowns(self) -> sp.csr_array:
        """The linear map from the numbers of nodes and edges to D."""
        n, i, j = self.support.n, self.support.i, self.support.j
        edges, nodes = n + np.arange(i.size), np.arange(n)
        rows, columns = np.concatenate([nodes, i, j]), np.concatenate([nodes, edges, edges])
        return sp.csr_array((np.ones(rows.size), (rows, columns)), shape=(n, n + i.size))

    def hessian(self, u: np.ndarray, inverses: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Hessian in u of the barrier, lower triangle, and the diagonal of its part without ``log D``."""
        from nareg.design._risk import kernels  # numba: imported when first needed

        n = self.support.n
        size = n + self.support.i.size
        total = np.zeros((size, size))
        for sign, Z in zip((1.0, -1.0), inverses, strict=True):  # an edge's number is -S_ij
            padded = np.zeros((n + 1, n + 1))  # the zero row stands for the missing end of a node
            padded[:-1, :-1] = Z
            total += kernels.two_by_two_products(*self.support.ends, padded, self.rate, sign)
        convex = self.support.reduced_products(total)
        by_u = self._diagonal_by_unknowns
        D = self.entries(u)[0] / self.rate
        bend = sp.csr_array(by_u.T @ sp.diags_array(-2.0 / D**2) @ by_u)
        return convex + self.support.reduced_products(np.tril(bend.toarray())), np.diagonal(convex)

    def share(self, moving: np.ndarray, fixed: np.ndarray) -> float:
        """The largest ``s <= 1`` for which ``fixed + s moving`` is inside the cone; ``fixed`` is."""
        tighter = replace(self, rate=INSIDE * self.rate)
        if tighter.inverses(fixed + moving) is not None:
            return 1.0
        low, high = 0.0, 1.0
        while high - low > 1e-4 * high and high > 1e-12:
            middle = (low + high) / 2
            low, high = (middle, high) if tighter.inverses(fixed + middle * moving) is not None else (low, middle)
        return low

    def certified(self, entries: np.ndarray) -> DesignDetails:
        """What the certificate says of the entries of S, computed from these."""
        D = self.c + entries[: self.support.n]
        root = 1.0 / np.sqrt(D)
        M = symmetric_from_entries(
            np.concatenate([np.zeros_like(D), entries[self.support.n :]]), self.support.i, self.support.j
        )
        B = root[:, None] * M.toarray() * root
        factor = float(np.abs(np.linalg.eigvalsh(B)).max() * (1.0 + D.size * EPSILON))
        if not factor <= self.rate:
            raise SolverError(f"rate is {self.rate:g}: the designed S has the factor {factor:.9g}; pass a larger rate.")
        return promised(factor, D[np.abs(B).sum(axis=1) > 0])


@dataclass(frozen=True)
class PointAtRate(ConePoint):
    """A point of the objective, and the inverses of both matrices of the cone there."""

    inner: ConePoint
    inverses: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Barrier:
    """An objective plus nu times the barrier of a cone."""

    base: ConeObjective
    cone: RateCone
    nu: float

    @property
    def support(self) -> Support:
        return self.base.support

    def at(self, u: np.ndarray) -> PointAtRate | None:
        sides = self.cone.inverses(u)
        inner = None if sides is None else self.base.at(u)
        if sides is None or inner is None:
            return None
        return PointAtRate(u, inner.value + self.nu * sides[0], inner.size, inner.P, inner, sides[1])

    def slope(self, point: ConePoint) -> np.ndarray:
        assert isinstance(point, PointAtRate)
        return self.base.slope(point.inner) + self.nu * self.cone.slope(point.u, point.inverses)

    def curvature(self, point: ConePoint) -> tuple[np.ndarray, np.ndarray]:
        assert isinstance(point, PointAtRate)
        stiffness, hessian = self.base.curvature(point.inner)
        bend, convex = self.cone.hessian(point.u, point.inverses)
        return stiffness + self.nu * convex, hessian + self.nu * bend

    def gauss_newton(self, point: ConePoint) -> np.ndarray:
        assert isinstance(point, PointAtRate)
        return self.base.gauss_newton(point.inner) + self.nu * self.cone.hessian(point.u, point.inverses)[0]


def barrier(objective: ConeObjective, cone: RateCone, start: np.ndarray, part: float) -> Barrier:
    """The objective with a barrier that costs about this part of its size at the start."""
    point = objective.at(start)
    if point is None:
        raise SolverError(
            "the design's start makes C + S singular in float64: check that noise and data_weight are not extreme."
        )
    return Barrier(objective, cone, part * point.size / (2 * cone.support.n))


def newton_at_rate(
    objective: ConeObjective, cone: RateCone | None, start: np.ndarray, *, nonnegative: bool, tolerance: float,
    max_iterations: int, progress: ProgressCallback | None = None,
) -> DescentResult:  # fmt: skip
    """:func:`newton` in the cone (None: anywhere), with barriers that cost less and less."""
    limits = Limits(cone_floor(nonnegative), tolerance=tolerance, max_iterations=max_iterations)
    if cone is None:
        return newton(objective, start, limits, progress)
    u, steps = start, 0
    for part in TIGHT:
        reached = newton(barrier(objective, cone, u, part), u, limits, progress)
        u, steps = reached.w, steps + reached.iterations
        if reached.message == "interrupted":
            break
    return replace(reached, iterations=steps)
