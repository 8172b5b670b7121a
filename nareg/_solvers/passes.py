"""The passes over a matrix and over blocks of signals that iterations are made of.

An iteration asks for nothing else, so that one loop serves arrays in memory, tensors on a device and vectors on disk: what a
vector is, only its passes know. Sums over rows come back as arrays of the device, one number per column.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from nareg._core.arrays import dots, namespace

#: ``product(P, out)`` writes ``K P`` to ``out``.
Product = Callable[[Any, Any], Any]


class Passes(Protocol):
    """Passes of conjugate gradients for ``K`` with the diagonal D.

    ``squares`` are ``V^T D^-1 V`` of each column and then those sums by which convergence is judged: (1 + k, T).
    """

    def squares(self, V: Any) -> Any:
        """Of V."""

    def product(self, P: Any, Q: Any) -> Any:
        """``Q = K P``; returns the columns' ``P^T Q``."""

    def step(self, X: Any, R: Any, P: Any, Q: Any, alpha: Any) -> Any:
        """``X += alpha P``, ``R -= alpha Q``; returns the squares of R. May overwrite Q."""

    def turn(self, R: Any, P: Any, beta: Any) -> None:
        """``P = D^-1 R + beta P``."""


class RoundPasses(Passes, Protocol):
    """Those of stationary and Chebyshev iterations too."""

    def relax(self, B: Any, X: Any, before: Any, alpha: float, beta: float, *, scaled: bool) -> Any:
        """``before = X + beta (X - before) + alpha D^-1 (B - K X)``, the next point; returns the squares of ``B - K X``.

        D = I unless ``scaled``. The first square may be left out.
        """


class ProductPasses:
    """For any symmetric positive definite product, on NumPy arrays or torch tensors (N, T), by their own operations.

    ``inverse_diagonal``, (N, 1), is the Jacobi preconditioner. Convergence is judged by ``V^T V`` alone.
    """

    def __init__(self, product: Product, inverse_diagonal: Any = None) -> None:
        self._product, self._inverse_diagonal = product, inverse_diagonal

    def squares(self, V: Any) -> Any:
        squared = V * V
        plain = squared.sum(0)
        scaled = plain if self._inverse_diagonal is None else (squared * self._inverse_diagonal).sum(0)
        return namespace(V).stack([scaled, plain])

    def product(self, P: Any, Q: Any) -> Any:
        self._product(P, Q)
        return dots(P, Q)

    def step(self, X: Any, R: Any, P: Any, Q: Any, alpha: Any) -> Any:
        X += P * alpha
        R -= Q * alpha
        return self.squares(R)

    def turn(self, R: Any, P: Any, beta: Any) -> None:
        P *= beta
        P += R if self._inverse_diagonal is None else R * self._inverse_diagonal


class CompiledPasses:
    """For a sparse matrix and C-ordered NumPy arrays (N, T): one compiled loop where array operations would be several.

    ``squares`` are ``V^T D^-1 V``, ``V^T V`` and ``V^T D^-2 V``.
    """

    def __init__(self, K: sp.csr_array, inverse_diagonal: np.ndarray) -> None:
        self._K, self._d = (K.indptr, K.indices, K.data), inverse_diagonal

    def squares(self, V: np.ndarray) -> np.ndarray:
        return _kernels().norms(V, self._d)

    def product(self, P: np.ndarray, Q: np.ndarray) -> np.ndarray:
        return _kernels().product_and_dot(*self._K, P, Q)

    def step(self, X: np.ndarray, R: np.ndarray, P: np.ndarray, Q: np.ndarray, alpha: np.ndarray) -> np.ndarray:
        return _kernels().step_and_norms(X, R, P, Q, self._d, alpha)

    def turn(self, R: np.ndarray, P: np.ndarray, beta: np.ndarray) -> None:
        _kernels().new_direction(R, P, self._d, beta)

    def relax(self, B: np.ndarray, X: np.ndarray, before: np.ndarray, alpha: float, beta: float, *, scaled: bool) -> np.ndarray:
        d = self._d if scaled else np.ones_like(self._d)
        return _kernels().relax(*self._K, d, self._d, B, X, before, alpha, beta)


def _kernels() -> ModuleType:
    from nareg._solvers import kernels  # numba: imported when the first iterative solve needs it

    return kernels
