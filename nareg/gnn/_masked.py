"""RNGC's perturbation with inner products of features on the entries of A~ only, as masked attention takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg.gnn._operators import NumpySparse, Operator, TorchSparse
from nareg.gnn.adjacency import Adjacency, csr_tensor

#: Entries whose rows are gathered at a time.
ENTRIES = 2**16


def masked_operator(adjacency: Adjacency, U: Any, eps: float) -> tuple[Operator, Any]:
    """``A~ - eps P / ||P||_F``, P the entries of ``U U^T`` where A~ has one; and its bilinear form, differentiable in U."""
    pattern = adjacency.csr(np.float64)
    rows = np.repeat(np.arange(adjacency.n_nodes), np.diff(pattern.indptr))
    columns = pattern.indices
    products = np.empty(columns.size)
    take = _rows(U)
    for first in range(0, columns.size, ENTRIES):
        part = slice(first, first + ENTRIES)
        products[part] = (take(rows[part]) * take(columns[part])).sum(1)
    size = float(np.sqrt(np.sum(products**2))) or 1.0
    values = pattern.data - eps / size * products
    matrix = sp.csr_array((values, columns, pattern.indptr), shape=pattern.shape)
    return _as_operator(matrix, U), _bilinear(rows, columns, eps)


def _rows(U: Any) -> Any:
    if isinstance(U, np.ndarray):
        return lambda index: U[index]
    import torch

    return lambda index: U[torch.as_tensor(index, device=U.device, dtype=torch.int64)].cpu().numpy()


def _as_operator(matrix: sp.csr_array, U: Any) -> Operator:
    if isinstance(U, np.ndarray):
        typed = matrix.astype(U.dtype)
        return NumpySparse(typed, sp.csr_array(typed.T))
    return TorchSparse(csr_tensor(matrix, U.dtype, U.device), csr_tensor(matrix.T, U.dtype, U.device))


def _bilinear(rows: np.ndarray, columns: np.ndarray, eps: float) -> Any:
    def form(Y: Any, Z: Any, V: Any) -> Any:
        import torch

        i, j = (torch.as_tensor(index, device=V.device, dtype=torch.int64) for index in (rows, columns))
        products = (V[i] * V[j]).sum(1)
        return -eps * (products * (Y[i] * Z[j]).sum(1)).sum() / products.norm()

    return form
