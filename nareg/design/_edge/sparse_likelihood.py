"""The Gaussian likelihood of edge weights on large networks: sparse factors, exact gradients without the inverse.

    f(u) = tr(Theta R) - log det Theta,   Theta = S(u),   df/du_k = v_k^T (R - Theta^-1) v_k

asks for the inverse between neighbors alone. Takahashi's recursion computes these entries from the sparse factor
``Theta = L D L^T``: ``Z_ij = delta_ij / d_i - sum_(k > i) L_ki Z_kj`` on the pattern of L, which holds every edge.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from nareg._compiled import serial
from nareg._linear.factorization import is_cholesky, superlu
from nareg._operator import Penalty
from nareg.design._edge.newton import Support
from nareg.design._risk.sampled import ColumnRisk, SampleColumns
from nareg.results import symmetric_from_entries

#: Equal summands into which the log-determinant, which all signals share, is split beside those of the signals.
SHARED = 32


class EdgeLikelihood(ColumnRisk):
    """``tr(Theta R) - log det Theta`` of columns with ``R = B B^T``, and its gradient in u."""

    factorizes = True

    def __init__(self, base: Penalty, edges: tuple[np.ndarray, np.ndarray]) -> None:
        self.base, self.support = base, Support(base.n_nodes, *edges)

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

    def factored(self, u: np.ndarray) -> tuple[float, Callable[[], np.ndarray]] | None:
        """Log-determinant, and a function for ``v_k^T Theta^-1 v_k``; None outside the cone."""
        lu = superlu(self.matrix(u)) if np.isfinite(u).all() else None
        if lu is None or not is_cholesky(lu):
            return None
        pivots = lu.U.diagonal()
        return float(np.log(pivots).sum()), lambda: self._inverse_products(lu.L.tocsc(), pivots, lu.perm_c)

    def value_and_gradient(self, u: np.ndarray, moments: np.ndarray) -> tuple[float, np.ndarray]:
        """``u . moments - log det Theta`` and its gradient; moments are ``v_k^T R v_k``. Infinite outside the cone."""
        factored = self.factored(u)
        if factored is None:
            return np.inf, np.zeros_like(u)
        return float(u @ moments) - factored[0], moments - factored[1]()

    def moments(self, columns: SampleColumns) -> np.ndarray:
        """``v_k^T R v_k`` for every node and edge."""
        B, s = columns.inputs, self.support
        power = np.einsum("it,it->i", B, B)
        edge = np.array([float(np.sum((B[i] - B[j]) ** 2)) for i, j in zip(s.i, s.j, strict=True)])
        return np.concatenate([power, edge])

    @cached_property
    def laplacian(self) -> np.ndarray:
        """Unknowns of the operator itself."""
        L, s = self.base.L, self.support
        return s.unknowns(np.concatenate([L.diagonal(), np.asarray(L[s.i, s.j]).ravel()]))

    def best_two(self, moments: np.ndarray) -> np.ndarray:
        """Unknowns of the best precision of the form ``kappa I + beta L``."""
        n = self.support.n
        unit, span = float(moments[:n].mean()), float(self.base.L.diagonal().max()) * 2

        def unknowns(logs: np.ndarray) -> np.ndarray:
            u = np.exp(logs[1]) / span * self.laplacian
            u[:n] += np.exp(logs[0])
            return u / unit

        def fitted(logs: np.ndarray) -> tuple[float, np.ndarray]:
            u = unknowns(logs)
            value, gradient = self.value_and_gradient(u, moments)
            only = np.exp(logs[0]) / unit
            first = float(gradient[:n].sum()) * only
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
        return factored[1]()

    def _inverse_products(self, L: sp.csc_array, pivots: np.ndarray, order: np.ndarray) -> np.ndarray:
        L.sort_indices()
        Z = _selected_inverse(L.indptr, L.indices, L.data, pivots)
        diagonal = Z[L.indptr[:-1]][order]  # unit diagonal first in every column
        s = self.support
        first, second = np.minimum(order[s.i], order[s.j]), np.maximum(order[s.i], order[s.j])
        between = _entries(L.indptr, L.indices, Z, first, second)
        return np.concatenate([diagonal, diagonal[s.i] + diagonal[s.j] - 2 * between])


@serial
def _selected_inverse(indptr, indices, data, pivots):  # type: ignore[no-untyped-def]
    """Entries of ``(L D L^T)^-1`` on the pattern of the unit lower triangular L (CSC, sorted)."""
    n = pivots.size
    Z = np.zeros(data.size)
    place = np.full(n, -1)
    sums = np.zeros(n)
    for i in range(n - 1, -1, -1):
        start, end = indptr[i] + 1, indptr[i + 1]
        for p in range(start, end):
            place[indices[p]] = p
            sums[indices[p]] = 0.0
        for p in range(start, end):
            k = indices[p]
            for q in range(indptr[k], indptr[k + 1]):
                r = indices[q]
                if place[r] >= 0:
                    sums[r] += data[p] * Z[q]
                    if r != k:
                        sums[k] += data[place[r]] * Z[q]
        total = 1.0 / pivots[i]
        for p in range(start, end):
            Z[p] = -sums[indices[p]]
            total -= data[p] * Z[p]
            place[indices[p]] = -1
        Z[indptr[i]] = total
    return Z


@serial
def _entries(indptr, indices, Z, columns, rows):  # type: ignore[no-untyped-def]
    """Entries (row, column) of a matrix in sorted CSC; every one must be stored."""
    out = np.empty(rows.size)
    for e in range(rows.size):
        start, end = indptr[columns[e]], indptr[columns[e] + 1]
        p = start + np.searchsorted(indices[start:end], rows[e])
        out[e] = Z[p] if p < end and indices[p] == rows[e] else np.nan
    return out
