"""Node features X as a torch matrix, sparse where most entries are zero; types that the signatures of this part share."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, DTypeLike

from nareg._core import checks
from nareg._core.arrays import as_numpy, as_tensor
from nareg._core.sparse_checks import whole_sparse
from nareg.errors import InputError
from nareg.gnn.adjacency import csr_tensor
from nareg.typing import Sparse

#: Features (N, F), targets (N,) or (N, C).
Matrix: TypeAlias = Sparse | ArrayLike | torch.Tensor
#: Node indices (n,), or a mask (N,).
Nodes: TypeAlias = ArrayLike | torch.Tensor
Device: TypeAlias = str | torch.device
Precision: TypeAlias = DTypeLike | torch.dtype


#: Number of columns from which ``(B^T A^T)^T`` is faster than ``A B``. BLAS is fast at products of a large matrix with a few
#: columns in one of two orders. One thread, float64, six columns, A 2,650 x 3,703: ``A^T B`` 110 ms, as ``(B^T A)^T`` 30;
#: forty columns, ``A B`` 70 ms, as ``(B^T A^T)^T`` 30. (A is read in 15.) With a single column, both ways are one.
FEW = 8


def tall_product(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """``A B`` for a large A and a few columns, contiguous."""
    return A @ B if B.shape[1] < FEW else (B.T @ A.T).T.contiguous()


def tall_transposed_product(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """``A^T B``, contiguous."""
    return (B.T @ A).T.contiguous()


#: Share of non-zeros above which a dense product is the faster one.
DENSE = 0.1


class Features:
    """X, (N, F), with the products ``X V`` and ``X^T R``."""

    def __init__(self, X: sp.csr_array | np.ndarray | torch.Tensor, *, dtype: torch.dtype, device: Device) -> None:
        self.shape: tuple[int, int] = (int(X.shape[0]), int(X.shape[1]))
        self.dtype, self.device = dtype, torch.device(device)
        if sp.issparse(X):
            self._X, self._T = csr_tensor(X, dtype, self.device), csr_tensor(sp.csr_array(X.T), dtype, self.device)
            self._by_columns = sp.csc_array(X)
        else:
            self._X = as_tensor(X, dtype=dtype, device=self.device).contiguous()

    @classmethod
    def read(cls, value: Matrix, *, dtype: torch.dtype, device: Device) -> Features:
        """A user's (N, F) features, checked: SciPy sparse, NumPy array or torch tensor, finite."""
        value = as_numpy(value)
        if sp.issparse(value):
            whole_sparse("features", value)
            matrix = sp.csr_array(value)
            if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
                raise InputError(f"features have shape {matrix.shape} and dtype {matrix.dtype}: pass real (N, F) numbers.")
            matrix = matrix.astype(np.float64)
            matrix.sum_duplicates()
            if not np.isfinite(matrix.data).all():
                at = int(np.argmin(np.isfinite(matrix.data)))
                node, column = int(np.searchsorted(matrix.indptr, at, side="right")) - 1, int(matrix.indices[at])
                raise InputError(f"features[{node}, {column}] is {matrix.data[at]}: replace or drop missing values.")
        else:
            matrix = checks.floats("features", value, ndim=(2,), remedy="replace or drop missing values")
        if 0 in matrix.shape:
            raise InputError(f"features have shape {matrix.shape}: at least one node and one feature are needed.")
        in_range("features", float(abs(matrix).max()), matrix.shape[0], dtype)
        zeros = 1 - (matrix.nnz if sp.issparse(matrix) else np.count_nonzero(matrix)) / (matrix.shape[0] * matrix.shape[1])
        if zeros > 1 - DENSE:
            return cls(sp.csr_array(matrix), dtype=dtype, device=device)
        return cls(matrix.toarray() if sp.issparse(matrix) else matrix, dtype=dtype, device=device)

    @property
    def itemsize(self) -> int:
        """Bytes per number."""
        return torch.finfo(self.dtype).bits // 8

    @property
    def nonzeros(self) -> int:
        """Number of entries that a product reads."""
        return int(self._by_columns.nnz) if self.is_sparse else self.shape[0] * self.shape[1]

    @property
    def is_sparse(self) -> bool:
        """Whether X is stored sparse."""
        return self._X.layout == torch.sparse_csr

    def in_double(self) -> Features:
        """The same in double precision."""
        if self.dtype == torch.float64:
            return self
        if self.is_sparse:  # as rounded for the training
            return Features(sp.csr_array(self._by_columns.astype(np.float32)), dtype=torch.float64, device=self.device)
        return Features(self._X, dtype=torch.float64, device=self.device)

    def times(self, V: torch.Tensor) -> torch.Tensor:
        """``X V``, (N, C)."""
        return self._X @ V if self.is_sparse else tall_product(self._X, V)

    def transposed_times(self, R: torch.Tensor) -> torch.Tensor:
        """``X^T R``, (F, C)."""
        return self._T @ R if self.is_sparse else tall_transposed_product(self._X, R)

    def columns(self, first: int, last: int) -> torch.Tensor:
        """Columns ``first`` to ``last - 1`` as a dense contiguous tensor."""
        if not self.is_sparse:
            return self._X[:, first:last].contiguous()
        return torch.as_tensor(self._by_columns[:, first:last].toarray(), dtype=self.dtype, device=self.device)

    def lengths(self) -> torch.Tensor:
        """Euclidean lengths of the columns, (F,)."""
        if not self.is_sparse:
            return self._X.norm(dim=0)
        squares = np.asarray(self._by_columns.power(2).sum(axis=0)).ravel()
        return torch.as_tensor(np.sqrt(squares), dtype=self.dtype, device=self.device)

    def dropped(self, rate: float, generator: torch.Generator) -> Features:
        """X with every entry zero with probability ``rate``, the others divided by ``1 - rate``."""
        other = object.__new__(Features)
        other.shape, other.dtype, other.device = self.shape, self.dtype, self.device
        if not self.is_sparse:
            other._X = self._X * self._mask(self._X, rate, generator)
            return other
        retained = sp.csr_array(self._by_columns)
        retained.data = retained.data * as_numpy(self._mask(torch.as_tensor(retained.data), rate, generator))
        other._by_columns = sp.csc_array(retained)
        other._X, other._T = (csr_tensor(sp.csr_array(m), self.dtype, self.device) for m in (retained, retained.T))
        return other

    @staticmethod
    def _mask(like: torch.Tensor, rate: float, generator: torch.Generator) -> torch.Tensor:
        chance = torch.rand(like.shape, generator=generator, dtype=like.dtype, device=generator.device).to(like.device)
        return (chance >= rate).to(like.dtype) / (1 - rate)


def in_range(name: str, largest: float, n: int, dtype: torch.dtype) -> None:
    """Refuse numbers whose squares, summed over nodes, are outside the range of a dtype."""
    limits = torch.finfo(dtype)
    if largest > 0 and not math.sqrt(limits.tiny / limits.eps) < largest < math.sqrt(limits.max * limits.eps / n):
        raise InputError(f"{name} hold {largest:.3g}, whose square is outside the range of {dtype}: choose another unit.")
