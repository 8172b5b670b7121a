"""A graph in any form that a user may pass, as a checked CSR matrix."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._core.arrays import as_numpy, differentiated, is_tensor
from nareg._core.sparse_checks import edge_list, whole_sparse
from nareg.errors import InputError
from nareg.graph import Graph


def unwrapped(graph: Any, edge_weight: Any) -> tuple[Any, Any]:
    """Edges and weights of PyTorch Geometric's ``Data``, or of the one relation of a ``HeteroData``; others as they are."""
    data = sys.modules.get("torch_geometric.data")
    if data is None or not isinstance(graph, (data.Data, data.HeteroData, data.storage.EdgeStorage)):
        return graph, edge_weight
    if edge_weight is not None:
        raise InputError("edge_weight goes with edge_index only: put it into the data object, as data.edge_weight.")
    if isinstance(graph, data.HeteroData):
        relations = graph.edge_types
        if len(relations) != 1:
            raise InputError(f"graph is a HeteroData with {len(relations)} relations: pass one, say data['a', 'to', 'a'].")
        graph = graph[relations[0]]
    _refuse_two_types(graph)
    edges = graph.get("edge_index") if "edge_index" in graph else graph.get("adj_t")
    if edges is None:
        raise InputError(f"graph is a {type(graph).__name__} without edges: it needs edge_index or adj_t.")
    return edges, graph.get("edge_weight")


def _refuse_two_types(graph: Any) -> None:
    """Refuse a relation between two types of nodes."""
    relation = getattr(graph, "_key", None)
    if isinstance(relation, tuple) and relation[0] != relation[-1]:
        raise InputError(
            f"graph is the relation {relation} between two types of nodes: a filter needs edges from one type to itself, as in "
            "HeteroConv beside another layer for this relation."
        )


def read(graph: Any, edge_weight: Any, n_nodes: int | None) -> sp.csr_array:
    """A as CSR float64 from what a user may pass; checked, duplicates refused."""
    for name, value in (("graph", graph), ("edge_weight", edge_weight)):
        if is_tensor(value) and value.device.type == "meta":
            raise InputError(f"{name} is a meta tensor, which holds no numbers: pass one on a device.")
    if isinstance(graph, Graph):
        matrix = sp.csr_array(graph.adjacency)
    elif sp.issparse(graph):
        whole_sparse("graph", graph)
        matrix = sp.csr_array(graph)
    elif is_tensor(graph) and str(graph.layout) != "torch.strided":
        checks.refuse_gradient("graph", graph)
        matrix = sp.csr_array(as_numpy(graph))
    else:
        return _from_edge_index(graph, edge_weight, n_nodes)
    if edge_weight is not None:
        raise InputError("edge_weight goes with edge_index only: a sparse matrix has its own weights.")
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"graph has shape {matrix.shape}: a square adjacency matrix is expected.")
    if n_nodes is not None and matrix.shape[0] != n_nodes:
        raise InputError(f"graph has {matrix.shape[0]} nodes but x has {n_nodes} rows: one row per node is expected.")
    if matrix.dtype.kind not in "fiub":
        raise InputError(f"graph has dtype {matrix.dtype}: real weights are expected.")
    matrix = matrix.astype(np.float64)
    matrix.sum_duplicates()
    return _weights_checked(matrix)


def without_nodes(graph: Any, edge_weight: Any, n_nodes: int) -> bool:
    """Whether there is nothing to filter; a graph that has nodes then is refused."""
    if n_nodes:
        return False
    read(*unwrapped(graph, None if edge_weight is None else edge_weight.detach()), 0)
    return True


def _weights_checked(matrix: sp.csr_array) -> sp.csr_array:
    if not np.isfinite(matrix.data).all():
        raise InputError(f"graph has an edge of weight {matrix.data[~np.isfinite(matrix.data)][0]}: weights must be finite.")
    if (matrix.data < 0).any():
        raise InputError(f"graph has an edge of weight {matrix.data.min():g}: weights must not be negative.")
    matrix.eliminate_zeros()
    return matrix


def _from_edge_index(graph: Any, edge_weight: Any, n_nodes: int | None) -> sp.csr_array:
    if differentiated(edge_weight):
        raise InputError(
            "edge_weight requires a gradient, which only layers compute: pass edge_weight to a layer, or edge_weight.detach()."
        )
    return _weights_checked(edge_list(as_numpy(graph), n_nodes, edge_weight))
