"""RNGC's perturbation with inner products of features on the entries of A~ only, as masked attention takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._arrays import as_numpy
from nareg.gnn._operators import NumpySparse, Operator, TorchSparse
from nareg.gnn.adjacency import Adjacency, csr_tensor

#: Numbers gathered at once from each side, so that they stay in the cache.
CHUNK = 2**20


def masked_operator(adjacency: Adjacency, U: Any, eps: float) -> tuple[Operator, Any]:
    """``A~ - eps P / ||P||_F``, P the entries of ``U U^T`` where A~ has one; and the gradient of its bilinear form in U.

    With p the entries of P and s those of ``Y Z^T`` in the same places, ``<Y, M Z>`` is ``-eps p.s / |p|`` up to a constant,
    and its gradient ``(G + G^T) U``, where G has the entries ``-eps (s / |p| - p (p.s) / |p|^3)``.
    """
    pattern = adjacency.csr(np.float64)
    rows = np.repeat(np.arange(adjacency.n_nodes), np.diff(pattern.indptr))

    def on_pattern(values: np.ndarray) -> sp.csr_array:
        return sp.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)

    p = _inner_products(U, U, rows, pattern.indices)
    size = float(np.sqrt(np.sum(p**2))) or 1.0

    def slope(Y: Any, Z: Any, V: Any) -> Any:
        s = _inner_products(Y, Z, rows, pattern.indices)
        G = on_pattern(-eps * (s / size - p * (p @ s) / size**3))
        return csr_tensor(G + G.T, V.dtype, V.device) @ V

    return _as_operator(on_pattern(pattern.data - eps / size * p), U, adjacency.is_symmetric), slope


def _inner_products(Y: Any, Z: Any, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """``Y_i . Z_j`` for pairs (i, j), slice by slice."""
    products = np.empty(rows.size)
    left, right = _rows(Y), _rows(Z)
    entries = max(1, CHUNK // Y.shape[1])
    for first in range(0, rows.size, entries):
        part = slice(first, first + entries)
        products[part] = as_numpy((left(rows[part]) * right(columns[part])).sum(1))
    return products


def _rows(U: Any) -> Any:
    if isinstance(U, np.ndarray):
        return lambda index: U[index]
    import torch

    return lambda index: U.detach()[torch.as_tensor(index, device=U.device, dtype=torch.int64)]


def _as_operator(matrix: sp.csr_array, U: Any, symmetric: bool) -> Operator:
    if isinstance(U, np.ndarray):
        typed = matrix.astype(U.dtype)
        return NumpySparse(typed, typed if symmetric else sp.csr_array(typed.T))
    tensor = csr_tensor(matrix, U.dtype, U.device)
    return TorchSparse(tensor, tensor if symmetric else csr_tensor(matrix.T, U.dtype, U.device))
