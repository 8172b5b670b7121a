"""Operators M on node features, the same few methods for NumPy and for torch, and polynomials in them.

``multiply_add(Z, X, alpha, beta, out)`` writes ``alpha M Z + beta X`` to ``out``, which may be X but not Z. All recurrences
are written once over it and work in place: in Horner's and Clenshaw's form, two extra arrays and one product per degree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from nareg._core.arrays import empty_like, outside_transforms
from nareg.gnn.adjacency import Adjacency

#: Rows of a low-rank product that NumPy, which has no ``C += A B``, forms at a time.
ROWS = 8192
#: A weight of a polynomial is small against the largest one below this share of it.
SMALL_WEIGHT = 1e-4


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

    def made() -> Operator:
        return TorchSparse(adjacency.tensor(x.dtype, x.device), adjacency.tensor(x.dtype, x.device, transposed=True))

    return outside_transforms(made)  # which would wrap its matrices


def neumann(M: Operator, X: Any, *, lam: float, order: int, iterates: list[Any] | None = None) -> Any:
    """``1/(lam+1) sum_{s=0}^{order} (c M)^s X`` with ``c = lam / (lam+1)``: Z <- X + c M Z, from Z = X.

    ``iterates``, if a list, receives the Z of every step before it is multiplied, for a backward pass.
    """
    if order == 0:
        return X / (lam + 1)
    c = lam / (lam + 1)
    spare = [empty_like(X) for _ in range(min(order, 2))]
    Z = X
    for step in range(order):
        if iterates is not None:
            iterates.append(Z)
        out = spare[step % 2] if iterates is None else empty_like(X)
        Z = M.multiply_add(Z, X, c, 1.0, out)
    Z *= 1 / (lam + 1)
    return Z


def horner(M: Operator, X: Any, weights: Sequence[float]) -> Any:
    """``sum_s weights[s] M^s X``, from the last weight down.

    The partial sum is ``size Z``, with the last weight as size where that is no small one: Z <- X + size / weight M Z. On a GPU
    adding X costs a third of what adding a multiple of it does.
    """
    *rest, last = weights
    small = SMALL_WEIGHT * max(abs(weight) for weight in weights)
    size, Z = (last, X) if abs(last) > small else (1.0, X * last)
    spare = [empty_like(X) for _ in rest[:2]]
    for step, weight in enumerate(reversed(rest)):
        if abs(weight) > small:
            Z, size = M.multiply_add(Z, X, size / weight, 1.0, spare[step % 2]), weight
        else:
            Z = M.multiply_add(Z, X, 1.0, weight / size, spare[step % 2])
    if Z is X:
        return X * size
    Z *= size
    return Z


def clenshaw(M: Operator, X: Any, coefficients: Sequence[float]) -> Any:
    """``sum_k coefficients[k] T_k(M) X`` for M with its spectrum in [-1, 1].

    b_k = c_k X + 2 M b_{k+1} - b_{k+2}, and at the end c_0 X + M b_1 - b_2.
    """
    *rest, last = coefficients
    newer, older = X * last, X * 0.0
    for k, coefficient in reversed(list(enumerate(rest))):
        M.multiply_add(newer, older, 2.0 if k else 1.0, -1.0, older)
        add_scaled(older, X, coefficient)
        newer, older = older, newer
    return newer
