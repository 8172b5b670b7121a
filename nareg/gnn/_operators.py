"""Operators M on node features, the same few methods for NumPy and for torch.

``multiply_add(Z, X, alpha, beta, out)`` writes ``alpha M Z + beta X`` to ``out``, which may be X but not Z. All recurrences
are written once over it and work in place.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from nareg.gnn.adjacency import Adjacency

#: Rows of a low-rank product that NumPy, which has no ``C += A B``, forms at a time.
ROWS = 8192


class Operator(Protocol):
    """The interface that the recurrences need."""

    def multiply_add(self, Z: Any, X: Any, alpha: float, beta: float, out: Any) -> Any: ...

    @property
    def transposed(self) -> Operator: ...


class NumpySparse:
    """A SciPy CSR matrix."""

    def __init__(self, matrix: sp.csr_array, transposed: sp.csr_array) -> None:
        self.matrix, self._transposed = matrix, transposed

    def multiply_add(self, Z: Any, X: Any, alpha: float, beta: float, out: Any) -> Any:
        from nareg.gnn import _kernels

        a, b = _kernels.scalar(alpha, out), _kernels.scalar(beta, out)
        _kernels.multiply_add(self.matrix.indptr, self.matrix.indices, self.matrix.data, Z, X, a, b, out)
        return out

    @property
    def transposed(self) -> NumpySparse:
        return NumpySparse(self._transposed, self.matrix)


class TorchSparse:
    """A torch CSR tensor; ``torch.addmm`` with ``out`` neither allocates nor passes over the result twice."""

    def __init__(self, matrix: Any, transposed: Any) -> None:
        self.matrix, self._transposed = matrix, transposed

    def multiply_add(self, Z: Any, X: Any, alpha: float, beta: float, out: Any) -> Any:
        import torch

        return torch.addmm(X, self.matrix, Z, beta=beta, alpha=alpha, out=out)

    @property
    def transposed(self) -> TorchSparse:
        return TorchSparse(self._transposed, self.matrix)


class Perturbed:
    """``M - scale U U^T``, the second term never formed where that costs more.

    ``(U U^T) Z = U (U^T Z)`` takes 4 N F floating-point operations per column of Z, the Gram matrix 2 N^2: with few nodes and
    many features the Gram matrix is formed once.
    """

    def __init__(self, base: Operator, U: Any, scale: float) -> None:
        self.base, self.U, self.scale = base, U, scale
        n, F = U.shape
        self.gram = U @ U.T if n < 2 * F and n <= 2**13 else None

    def multiply_add(self, Z: Any, X: Any, alpha: float, beta: float, out: Any) -> Any:
        self.base.multiply_add(Z, X, alpha, beta, out)
        left, right = (self.U, self.U.T @ Z) if self.gram is None else (self.gram, Z)
        return add_product(out, left, right, -alpha * self.scale)

    @property
    def transposed(self) -> Perturbed:
        other = object.__new__(Perturbed)
        other.base, other.U, other.scale, other.gram = self.base.transposed, self.U, self.scale, self.gram
        return other


def add_product(out: Any, left: Any, right: Any, alpha: float) -> Any:
    """``out += alpha left right`` in place."""
    if not isinstance(out, np.ndarray):
        return out.addmm_(left, right, alpha=alpha)
    scaled = right * out.dtype.type(alpha)
    for first in range(0, out.shape[0], ROWS):
        out[first : first + ROWS] += left[first : first + ROWS] @ scaled
    return out


def add_scaled(out: Any, X: Any, alpha: float) -> Any:
    """``out += alpha X`` in place."""
    if not isinstance(out, np.ndarray):
        return out.add_(X, alpha=alpha)
    for first in range(0, out.shape[0], ROWS):
        out[first : first + ROWS] += X[first : first + ROWS] * out.dtype.type(alpha)
    return out


def adjacency_operator(adjacency: Adjacency, x: Any) -> Operator:
    """A~ in the library and dtype of x, on its device."""
    if isinstance(x, np.ndarray):
        return NumpySparse(adjacency.csr(x.dtype), adjacency.csr(x.dtype, transposed=True))
    return TorchSparse(adjacency.tensor(x.dtype, x.device), adjacency.tensor(x.dtype, x.device, transposed=True))
