"""Node classification data of PyTorch Geometric and OGB, in and out."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._core import checks, sparse_checks
from nareg._core.adjacency import undirected
from nareg._core.arrays import as_numpy, is_tensor
from nareg._core.imports import needed
from nareg.errors import InputError
from nareg.graph import Graph

#: Indices of the nodes that train, validate and test.
Split = tuple[np.ndarray, np.ndarray, np.ndarray]


def fields_of_pyg(data: Any) -> dict[str, Any]:
    """Graph, features, labels, number of classes and splits of a ``Data``."""
    if not hasattr(data, "x") or not hasattr(data, "y") or hasattr(data, "edge_types"):
        raise InputError(f"data is a {type(data).__name__}: a torch_geometric Data with x, y and edge_index is expected.")
    for name in ("x", "y"):
        if getattr(data, name) is None:
            raise InputError(f"data has no {name}: features x, classes y and edge_index are needed.")
    if getattr(data, "edge_weight", None) is not None:
        raise InputError("data has edge_weight, which a NodeClassification does not hold: set data.edge_weight = None.")
    edges = getattr(data, "edge_index", None)
    if edges is None and (adjacency := getattr(data, "adj_t", None)) is not None:
        edges = adjacency if not is_tensor(adjacency) else np.stack(sp.coo_array(as_numpy(adjacency)).coords)
    if edges is None:
        raise InputError("data has no edges: it needs edge_index or adj_t.")
    features = _features(data.x)
    labels = _labels(data.y, features.shape[0])
    masks = [getattr(data, f"{part}_mask", None) for part in ("train", "val", "test")]
    return {
        "graph": _graph(edges, features.shape[0]),
        "features": features,
        "labels": labels,
        "n_classes": _n_classes(labels),
        "splits": _splits(masks, features.shape[0]),
    }


def fields_of_ogb(dataset: Any) -> dict[str, Any]:
    """The same of a ``NodePropPredDataset``, with its name."""
    if not hasattr(dataset, "get_idx_split") or not hasattr(dataset, "__getitem__"):
        raise InputError(f"dataset is a {type(dataset).__name__}: an ogb.nodeproppred.NodePropPredDataset is expected.")
    item = dataset[0]
    if not (isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], dict)):
        raise InputError(
            "dataset[0] is not a graph dictionary and labels: pass a NodePropPredDataset; for a PygNodePropPredDataset use "
            "NodeClassification.from_pyg(dataset[0])."
        )
    graph, raw = item
    if graph.get("node_feat") is None or graph.get("edge_index") is None:
        raise InputError("the graph has no node_feat or no edge_index: features and edges are needed.")
    features = _features(graph["node_feat"])
    labels = _labels(raw, features.shape[0])
    split = dataset.get_idx_split()
    return {
        "name": str(getattr(dataset, "name", "ogb")),
        "graph": _graph(graph["edge_index"], features.shape[0]),
        "features": features,
        "labels": labels,
        "n_classes": max(_n_classes(labels), int(getattr(dataset, "num_classes", 0) or 0)),
        "splits": (tuple(_indices(part, split[part], features.shape[0]) for part in ("train", "valid", "test")),),
    }


def to_data(features: np.ndarray, graph: Graph, labels: np.ndarray, splits: tuple[Split, ...]) -> Any:
    """A ``torch_geometric.data.Data``; masks are (N,) for one split and (N, S) for several."""
    with needed("torch torch_geometric", "to_pyg needs PyTorch Geometric", extra="pyg"):
        import torch
        from torch_geometric.data import Data
    data = Data(
        x=torch.from_numpy(features), edge_index=torch.from_numpy(graph.to_edge_index()[0]), y=torch.from_numpy(labels.copy())
    )
    for k, part in enumerate(("train", "val", "test")):
        if not splits:
            break
        mask = np.zeros((labels.size, len(splits)), dtype=bool)
        for column, split in enumerate(splits):
            mask[split[k], column] = True
        data[f"{part}_mask"] = torch.from_numpy(mask[:, 0].copy() if len(splits) == 1 else mask)
    return data


def _features(value: Any) -> sp.csr_array | np.ndarray:
    array = value.to_torch_sparse_csr_tensor() if hasattr(value, "to_torch_sparse_csr_tensor") else value
    array = as_numpy(array)
    if sp.issparse(array):
        sparse_checks.whole_sparse("x", array)
        matrix = sp.csr_array(array).astype(np.float32)
        checks.floats("the entries of x", matrix.data, ndim=(1,))
        return matrix
    return checks.floats("x", array, ndim=(2,)).astype(np.float32)


def _labels(value: Any, n_nodes: int) -> np.ndarray:
    """Classes (N,) int64, -1 where they are NaN or negative."""
    array = checks.array_of("y", as_numpy(value))
    if array.shape not in ((n_nodes,), (n_nodes, 1)) or array.dtype.kind not in "iuf":
        raise InputError(f"y has shape {array.shape} and dtype {array.dtype}: one class per node ({n_nodes},) is expected.")
    array = array.ravel()
    known = array >= 0  # not where NaN
    if (array[known] != np.floor(array[known])).any():
        raise InputError("y holds a number that is not an integer: classes from 0 are expected.")
    labels = np.full(n_nodes, -1, dtype=np.int64)
    labels[known] = array[known].astype(np.int64)
    return labels


def _n_classes(labels: np.ndarray) -> int:
    return int(labels.max(initial=-1)) + 1


def _graph(edge_index: Any, n_nodes: int) -> Graph:
    """Simple and undirected: i and j are joined where either points at the other, self-loops are left out."""
    index, _ = sparse_checks.edge_index(as_numpy(edge_index), n_nodes)
    return Graph(undirected(index[:, index[0] != index[1]], n_nodes))


def _splits(masks: list[Any], n_nodes: int) -> tuple[Split, ...]:
    """Splits of (N,) or (N, S) masks, or none."""
    if any(mask is None for mask in masks):
        return ()
    arrays = []
    for part, mask in zip(("train", "val", "test"), masks, strict=True):
        array = checks.array_of(f"{part}_mask", as_numpy(mask))
        if array.dtype != bool or array.ndim not in (1, 2) or array.shape[0] != n_nodes:
            raise InputError(f"{part}_mask has shape {array.shape} and dtype {array.dtype}: a boolean per node is expected.")
        arrays.append(array.reshape(n_nodes, -1))
    # some sources have one test set for all splits
    count = max(array.shape[1] for array in arrays)
    if any(array.shape[1] not in (1, count) for array in arrays):
        raise InputError(f"the masks have {[array.shape[1] for array in arrays]} columns: one per split is expected.")
    return splits_of_masks(*(np.broadcast_to(array, (n_nodes, count)).T for array in arrays))


def splits_of_masks(train: np.ndarray, val: np.ndarray, test: np.ndarray) -> tuple[Split, ...]:
    """Splits of boolean masks (S, N)."""
    return tuple((np.flatnonzero(a), np.flatnonzero(b), np.flatnonzero(c)) for a, b, c in zip(train, val, test, strict=True))


def _indices(name: str, value: Any, n_nodes: int) -> np.ndarray:
    index = checks.array_of(name, as_numpy(value))
    if index.ndim != 1 or index.dtype.kind not in "iu" or (index.size and (index.min() < 0 or index.max() >= n_nodes)):
        raise InputError(f"the {name} part of the split is not an array of nodes 0 to {n_nodes - 1}: pass indices.")
    return index.astype(np.int64)
