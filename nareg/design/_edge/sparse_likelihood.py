"""The Gaussian likelihood of edge weights on large networks: sparse factors, exact gradients without the inverse.

    f(u) = tr(Theta R) - log det Theta,   Theta = S(u),   df/du_k = v_k^T (R - Theta^-1) v_k

asks for the inverse between neighbors alone. Takahashi's recursion computes these entries from the sparse factor
``Theta = L D L^T``: ``Z_ij = delta_ij / d_i - sum_(k > i) L_ki Z_kj`` on the pattern of L, which holds every edge.

How far a likelihood is from its minimum at most: the value of a dual point against that of the primal one.

With ``W`` any positive definite matrix and ``w_k = tr(W S_k)``, ``log det S <= tr(W S) - log det W - N`` bounds

    f(u) = sum_k m_k u_k + h_k/2 (u_k - c_k)^2 - log det S(u)
         >= log det W + N + sum_k min_(v >= floor) (m_k - w_k) v + h_k/2 (v - c_k)^2.

At ``W = Theta^-1`` the gap is a sum over unknowns of what each would gain alone in the quadratic model of curvature h.
Without h the minima are finite only where ``w_k <= m_k``: W is scaled down until that holds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from nareg._solvers.factorization import factorize, fill_order, superlu
from nareg._solvers.system import Penalty
from nareg.design._edge.cone import ConeDescent
from nareg.design._edge.support import Sketch, Support
from nareg.design._risk.descent import ValueAndGradient
from nareg.design._risk.sampled import ColumnRisk, SampleColumns
from nareg.results import DesignDetails, symmetric_from_entries


class Elimination:
    """Pattern of L for a matrix with a diagonal and the entries ``(i, j)``, and where its entries are in L.

    The order of elimination is SuperLU's, unless it is given.
    """

    def __init__(self, n: int, i: np.ndarray, j: np.ndarray, order: np.ndarray | None = None) -> None:
        if order is None:
            order = fill_order(symmetric_from_entries(np.ones(n + i.size), i, j))
        self.order = order
        rank = np.empty(n, dtype=np.int64)
        rank[order] = np.arange(n)
        # diagonally dominant: eliminated as it stands, nothing cancels
        degrees = np.bincount(i, minlength=n) + np.bincount(j, minlength=n)
        ordered = symmetric_from_entries(np.concatenate([degrees[order] + 1.0, -np.ones(i.size)]), rank[i], rank[j])
        lu = superlu(ordered, natural=True)
        assert lu is not None
        L = lu.L.tocsc()
        L.sort_indices()
        #: Where each node is in the order of elimination.
        self.rank = rank
        self.indptr, self.indices = L.indptr.astype(np.int64), L.indices.astype(np.int64)
        stored = np.repeat(np.arange(n), np.diff(self.indptr)) * n + self.indices  # sorted: columns, then rows
        wanted = np.minimum(rank[i], rank[j]) * n + np.maximum(rank[i], rank[j])
        self.positions = np.concatenate([self.indptr[rank], np.searchsorted(stored, wanted)])

    def factor(self, entries: np.ndarray) -> tuple[float, np.ndarray] | None:
        """Log-determinant and factor (D on its diagonal); None where a pivot is not positive.

        ``entries`` are the N diagonal ones, then those of ``(i, j)``.
        """
        from nareg.design._risk import kernels  # numba: imported when first needed

        data = np.zeros(self.indices.size)
        data[self.positions] = entries
        if not kernels.eliminate(self.indptr, self.indices, data):
            return None
        return float(np.log(data[self.indptr[:-1]]).sum()), data

    def inverse(self, data: np.ndarray) -> np.ndarray:
        """Entries of the inverse on the pattern of L."""
        from nareg.design._risk import kernels  # numba: imported when first needed

        return kernels.selected_inverse(self.indptr, self.indices, data)

    def inverse_entries(self, data: np.ndarray) -> np.ndarray:
        """Entries of the inverse: N diagonal ones, then those at ``(i, j)``."""
        return self.inverse(data)[self.positions]


#: Equal summands into which the log-determinant, which all signals share, is split beside those of the signals.
SHARED = 32


def duality_gap(
    u: np.ndarray, gradient: np.ndarray, h: np.ndarray, floor: np.ndarray | None, n: int, products: Callable[[], np.ndarray]
) -> float | None:
    """``f(u)`` minus a proven lower bound of its minimum; None where no bound is at hand (no h and no floor).

    ``products`` computes ``tr(Theta^-1 S_k)``; it is called where h is zero.
    """
    if h.min() > 0:
        best = u - gradient / h
        step = (best if floor is None else np.maximum(best, floor)) - u
        return -float(gradient @ step + 0.5 * (h * step) @ step)
    if floor is None or h.any():
        return None
    inverse = products()
    moments = gradient + inverse
    scale = min(1.0, float((moments / inverse).min()))
    if scale <= 0:
        return None
    return float(u @ moments - (moments - scale * inverse) @ floor - n * np.log(scale)) - n


class EdgeLikelihood(ColumnRisk):
    """``tr(Theta R) - log det Theta`` of columns with ``R = B B^T``, and its gradient in u."""

    #: Trailing summands that are no signals', and what solves. A step is cheap, and a design with little shrinkage takes many.
    shared, method, max_iterations = SHARED, "sparse factors", 3000

    def __init__(self, base: Penalty, support: Support) -> None:
        self.base, self.support = base, support
        self._last: tuple[np.ndarray, tuple[float, np.ndarray] | None] | None = None

    def column_values(self, u: np.ndarray, columns: SampleColumns) -> np.ndarray | None:
        """``x^T Theta x`` of every signal, then the log-determinant in equal parts."""
        factored = self.factored(u)
        if factored is None:
            return None
        S = self.matrix(u)
        each = np.einsum("it,it->t", columns.inputs, S @ columns.inputs)
        return np.concatenate([each, np.full(SHARED, -factored[0] / SHARED)])

    def matrix(self, u: np.ndarray) -> sp.csr_array:
        """``Theta``."""
        return symmetric_from_entries(self.support.entries(u), self.support.i, self.support.j)

    @cached_property
    def elimination(self) -> Elimination:
        return Elimination(self.support.n, self.support.i, self.support.j)

    def factored(self, u: np.ndarray) -> tuple[float, np.ndarray] | None:
        """Log-determinant and factor; None outside the cone. Those of the last u are remembered."""
        if self._last is None or not np.array_equal(self._last[0], u):
            self._last = u.copy(), self.elimination.factor(self.support.entries(u)) if np.isfinite(u).all() else None
        return self._last[1]

    def value_and_gradient(self, u: np.ndarray, moments: np.ndarray) -> tuple[float, np.ndarray]:
        """``u . moments - log det Theta`` and its gradient; moments are ``v_k^T R v_k``. Infinite outside the cone."""
        factored = self.factored(u)
        if factored is None:
            return np.inf, np.zeros_like(u)
        return float(u @ moments) - factored[0], moments - self.support.reduce(self._inverse_products(factored[1]))

    def moments(self, columns: SampleColumns) -> np.ndarray:
        """``v_k^T R v_k`` for every node and edge."""
        return self.support.column_products(columns.inputs, columns.inputs)

    @cached_property
    def laplacian(self) -> np.ndarray:
        """Unknowns of the operator itself."""
        return self.support.of_operator(self.base.L)

    def best_two(self, moments: np.ndarray) -> np.ndarray:
        """Unknowns of the best precision of the form ``kappa I + beta L``."""
        n, identity = self.support.n, self.support.identity
        unit, span = float(identity @ moments) / n, float(self.base.L.diagonal().max()) * 2

        def unknowns(logs: np.ndarray) -> np.ndarray:
            return (np.exp(logs[1]) / span * self.laplacian + np.exp(logs[0]) * identity) / unit

        def fitted(logs: np.ndarray) -> tuple[float, np.ndarray]:
            u = unknowns(logs)
            value, gradient = self.value_and_gradient(u, moments)
            only = np.exp(logs[0]) / unit
            first = float(identity @ gradient) * only
            return value / n, np.array([first, float(gradient @ u) - first]) / n

        # bounds: a condition number below 10^8
        solution = minimize(
            fitted, [0.0, 0.0], jac=True, method="L-BFGS-B", bounds=[(-9, 9)] * 2, options={"ftol": 1e-14, "gtol": 1e-9}
        )
        return unknowns(solution.x)

    def inverse_products(self, u: np.ndarray) -> np.ndarray:
        """``v_k^T Theta^-1 v_k`` at a point inside the cone."""
        factored = self.factored(u)
        assert factored is not None
        return self.support.reduce(self._inverse_products(factored[1]))

    @property
    def size(self) -> float:
        """What a gradient is relative to, ``tr(Theta R)`` at the minimum: the value changes with the unit of the signals."""
        return float(self.support.n)

    def start(self, columns: SampleColumns) -> np.ndarray:
        """The best precision of two parameters."""
        return self.best_two(self.moments(columns))

    def start_details(self, value: float) -> DesignDetails:
        """What a certificate says of the start."""
        return {"best_two_parameter_likelihood": value}

    def blended(self, columns: SampleColumns, start: np.ndarray, amount: float) -> ValueAndGradient:
        """The likelihood for R blended with ``Theta_0^-1``, whose likelihood is largest at the start."""
        moments = (1 - amount) * self.moments(columns) + amount * self.inverse_products(start)
        return lambda u: self.value_and_gradient(u, moments)

    def gap(self, descent: ConeDescent, h: np.ndarray) -> float | None:
        """What the blended likelihood with a proximal term of weights h may still fall by; None where that is not known."""
        u = descent.u
        return duality_gap(u, descent.gradient, h, descent.floor, self.support.n, lambda: self.inverse_products(u))

    def stiffness(self, u: np.ndarray, columns: SampleColumns | None, probes: Callable[[], np.ndarray]) -> np.ndarray:
        """Diagonal of the Hessian, ``tr(Theta^-1 S_k Theta^-1 S_k)`` with ``S_k`` what an unknown multiplies."""

        def sketch() -> Sketch:
            factor = factorize(self.matrix(u))
            assert factor is not None
            first, second = (Z / np.sqrt(Z.shape[1]) for Z in (probes(), probes()))
            return (factor.solve(first), first), (factor.solve(second), second)

        factored = self.factored(u)
        assert factored is not None
        return self.support.squared_diagonal(self._inverse_products(factored[1]), sketch)

    def _inverse_products(self, factor: np.ndarray) -> np.ndarray:
        """``v_k^T Theta^-1 v_k`` of every node and edge."""
        return self.support.differences(self.elimination.inverse_entries(factor))
