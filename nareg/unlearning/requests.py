"""Checked requests: each function returns a request that can be carried out."""

from __future__ import annotations

import numpy as np

from nareg.errors import InputError
from nareg.typing import ArrayLike, Sparse
from nareg.unlearning import _arguments
from nareg.unlearning.data import Data, Request
from nareg.unlearning.propagation.base import Change
from nareg.unlearning.store.entries import RequestDetails


def remove_edges(data: Data, edges: ArrayLike) -> Request:
    """Remove edges of the graph."""
    pairs = data.graph.checked_pairs("edges", edges, present=True)
    return Request({"request": "remove_edges", "edges": pairs.tolist()}, len(pairs), Change(removed=pairs))


def add_edges(data: Data, edges: ArrayLike) -> Request:
    """Add edges between nodes that were not removed."""
    pairs = data.graph.checked_pairs("edges", edges, present=False)
    _refuse_gone(data, "edges", pairs.ravel())
    return Request({"request": "add_edges", "edges": pairs.tolist()}, len(pairs), Change(added=pairs))


def remove_nodes(data: Data, nodes: ArrayLike) -> Request:
    """Remove nodes: their edges, features and labels."""
    index = _nodes(data, nodes)
    joined = [np.stack([np.full(data.graph.live[u], u), data.graph.neighbors_of(u)], axis=1) for u in index]
    edges = np.unique(np.sort(np.concatenate(joined).astype(np.int64), axis=1), axis=0)
    _refuse_last(data, index)
    change = Change(removed=edges, nodes=index, features=np.zeros((index.size, data.n_features)))
    return Request({"request": "remove_nodes", "nodes": index.tolist()}, index.size, change, unlabeled=index, gone=index)


def remove_features(data: Data, nodes: ArrayLike, *, labels: bool) -> Request:
    """Remove features of nodes, and with ``labels`` their labels."""
    if not isinstance(labels, (bool, np.bool_)):
        raise InputError(f"labels is {labels!r}: True or False is expected.")
    index = _nodes(data, nodes)
    details: RequestDetails = {"request": "remove_features", "nodes": index.tolist(), "labels": bool(labels)}
    change = Change(nodes=index, features=np.zeros((index.size, data.n_features)))
    if not labels:
        return Request(details, index.size, change)
    _refuse_last(data, index)
    return Request(details, index.size, change, unlabeled=index)


def add_nodes(data: Data, new: ArrayLike | Sparse, labels: ArrayLike | None) -> Request:
    """Add nodes without edges, with labels of known classes or none."""
    X = _arguments.features("features", new, None)
    if len(X) == 0:
        raise InputError("features has no rows: pass one row per new node.")
    if X.shape[1] != data.n_features:
        raise InputError(f"features has {X.shape[1]} columns but the model was fitted to {data.n_features}: pass as many.")
    y = np.full(len(X), -1) if labels is None else _arguments.integers("labels", labels, len(X))
    unknown = np.setdiff1d(y, [*data.classes, -1])
    if unknown.size:
        raise InputError(f"labels holds {unknown[0]}, not a class of the model: pass one of {data.classes.tolist()}, or -1.")
    details: RequestDetails = {"request": "add_nodes", "features": X.tolist(), "labels": y.tolist()}
    change = Change(nodes=np.arange(data.n_nodes, data.n_nodes + len(X)), features=X)
    return Request(details, len(X), change, new_labels=y)


def _nodes(data: Data, value: ArrayLike) -> np.ndarray:
    """Nodes that a removal names."""
    index = np.sort(_arguments.node_numbers("nodes", value, data.n_nodes))
    if index.size == 0:
        raise InputError("nodes is empty: name at least one.")
    _refuse_gone(data, "nodes", index)
    return index


def _refuse_gone(data: Data, name: str, nodes: np.ndarray) -> None:
    if data.gone[nodes].any():
        raise InputError(f"{name} holds {int(nodes[data.gone[nodes]][0])}, which was removed before: leave it out.")


def _refuse_last(data: Data, nodes: np.ndarray) -> None:
    """Refuse to remove the last training node of a class, unless the user named the classes: its absence would show."""
    leaving = nodes[data.propagation.trains(nodes)]
    left = np.setdiff1d(data.train, leaving)
    if left.size == 0:
        raise InputError("nodes holds all training nodes: keep at least one to train on.")
    lost = np.setdiff1d(data.labels[leaving], data.labels[left])
    if lost.size and not data.classes_given:
        raise InputError(
            f"nodes holds the last training node of class {lost[0]}, which would show that it was there: fit with classes=, "
            "or fit again without the class."
        )
