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
        from nareg.design._risk import kernels  # numba: imported when first needed

        B, s = np.ascontiguousarray(columns.inputs), self.support
        return np.concatenate([np.einsum("it,it->i", B, B), kernels.edge_products(s.i, s.j, B, B)])

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
        from nareg.design._risk import kernels  # numba: imported when first needed

        L.sort_indices()
        Z = kernels.selected_inverse(L.indptr, L.indices, L.data, pivots)
        diagonal = Z[L.indptr[:-1]][order]  # unit diagonal first in every column
        s = self.support
        first, second = np.minimum(order[s.i], order[s.j]), np.maximum(order[s.i], order[s.j])
        between = kernels.stored_entries(L.indptr, L.indices, Z, first, second)
        return np.concatenate([diagonal, diagonal[s.i] + diagonal[s.j] - 2 * between])
