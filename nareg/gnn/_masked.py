"""RNGC's perturbation with inner products of features on the entries of A~ only, as masked attention takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg.gnn._operators import NumpySparse, Operator, TorchSparse
from nareg.gnn.adjacency import Adjacency, csr_like

#: Numbers gathered at once from each side: so many stay in the cache of a CPU, and so many fill a GPU.
CHUNK, DEVICE_CHUNK = 2**20, 2**25


def masked_operator(adjacency: Adjacency, U: Any, eps: float) -> tuple[Operator, Any]:
    """``A~ - eps P / ||P||_F``, P the entries of ``U U^T`` where A~ has one; and the gradient of its bilinear form in U.

    With p the entries of P and s those of ``Y Z^T`` in the same places, ``<Y, M Z>`` is ``-eps p.s / |p|`` up to a constant,
    and its gradient ``(G + G^T) U``, where G has the entries ``-eps (s / |p| - p (p.s) / |p|^3)``. All of it is computed where
    U is: entries are numbers on the pattern of A~, which is symmetric.
    """
    pattern: NumpyPattern | TorchPattern = NumpyPattern(adjacency) if isinstance(U, np.ndarray) else TorchPattern(adjacency, U)
    p = inner_products(U, U, pattern.rows, pattern.columns)
    # a learned weight can be zero: no entry, as where it is not listed
    present = pattern.values != 0 if adjacency.is_learned else None
    if present is not None:
        p = p * present
    size = (p * p).sum() ** 0.5
    size = size + (size == 0)

    def slope(Y: Any, Z: Any, V: Any) -> Any:
        s = inner_products(Y, Z, pattern.rows, pattern.columns)
        if present is not None:
            s = s * present
        g = -eps * (s / size - p * ((p * s).sum() / size**3))
        return pattern.matrix(g + g[pattern.mirror], V) @ V

    values = pattern.values - (eps / size) * p
    mirrored = values if adjacency.is_symmetric else values[pattern.mirror]
    return pattern.operator(pattern.matrix(values, U), pattern.matrix(mirrored, U)), slope


def inner_products(Y: Any, Z: Any, rows: Any, columns: Any) -> Any:
    """``Y_i . Z_j`` for pairs (i, j) in double precision, slice by slice."""
    if isinstance(Y, np.ndarray):
        products: Any = np.empty(rows.size)
        count, chunk = rows.size, CHUNK
        left, right = (lambda _, index: Y[index]), (lambda _, index: Z[index])
    else:
        import torch

        # three times as fast on a CPU as Y[rows]
        left, right = Y.detach().index_select, Z.detach().index_select
        products = torch.empty(rows.shape, dtype=torch.float64, device=Y.device)
        count, chunk = rows.numel(), CHUNK if Y.device.type == "cpu" else DEVICE_CHUNK
    entries = max(1, chunk // Y.shape[1])
    for first in range(0, count, entries):
        part = slice(first, first + entries)
        products[part] = (left(0, rows[part]) * right(0, columns[part])).sum(1)
    return products


class NumpyPattern:
    """Places and values of A~ as arrays; ``mirror`` is the place of entry (j, i) for each (i, j)."""

    def __init__(self, adjacency: Adjacency) -> None:
        self._matrix = adjacency.csr(np.float64)
        self.rows, self.columns, self.mirror = adjacency.places
        self.values = self._matrix.data

    def matrix(self, values: np.ndarray, like: np.ndarray) -> sp.csr_array:
        """These values in the places of A~."""
        matrix = self._matrix
        return sp.csr_array((values.astype(like.dtype), matrix.indices, matrix.indptr), shape=matrix.shape)

    operator = staticmethod(NumpySparse)


class TorchPattern:
    """The same as tensors on the device of features, copied there once per graph."""

    def __init__(self, adjacency: Adjacency, like: Any) -> None:
        import torch

        self._matrix = adjacency.tensor(torch.float64, like.device)
        self.rows, self.columns, self.mirror = adjacency.places_on(like.device)
        self.values = self._matrix.values()

    def matrix(self, values: Any, like: Any) -> Any:
        """These values in the places of A~."""
        return csr_like(self._matrix, values.to(like.dtype))

    operator = staticmethod(TorchSparse)
