"""Parts that the converters of graphs share: the simple undirected graph of edges, and matrices as arrays of a file."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

Arrays = dict[str, np.ndarray]


def simple(edges: np.ndarray, n_nodes: int) -> sp.csr_array:
    """Adjacency (N, N) of ones: i and j are joined where a row (i, j) or (j, i) of edges (E, 2) joins them; no self-loops."""
    if edges.ndim != 2 or edges.shape[1] != 2 or (edges.size and not 0 <= edges.min() <= edges.max() < n_nodes):
        raise ValueError(f"an edge of shape {edges.shape[1:]} or beyond the {n_nodes} nodes")
    i, j = edges[edges[:, 0] != edges[:, 1]].T
    one_way = sp.csr_array((np.ones(i.size, np.uint8), (i, j)), shape=(n_nodes, n_nodes))
    one_way.data[:] = 1  # edges that are listed twice were added
    return one_way.maximum(one_way.T)


def parts(name: str, matrix: Any, dtype: Any) -> Arrays:
    """A matrix as the arrays ``name_data, name_indices, name_indptr, name_shape``, rows in order, without stored zeros."""
    matrix = sp.csr_array(matrix)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return {
        f"{name}_data": matrix.data.astype(dtype),
        f"{name}_indices": matrix.indices.astype(np.int32),
        f"{name}_indptr": matrix.indptr.astype(np.int32),
        f"{name}_shape": np.array(matrix.shape, dtype=np.int64),
    }


def smallest(values: np.ndarray) -> Any:
    """The type that counts are stored in: uint8 where it holds them all, else float32."""
    fits = values.size == 0 or (values.min() >= 0 and values.max() <= 255 and (values == np.round(values)).all())
    return np.uint8 if fits else np.float32


def counted(labels: np.ndarray) -> np.ndarray:
    """Number of classes, as a file stores it."""
    return np.array(int(labels.max()) + 1, dtype=np.int64)
