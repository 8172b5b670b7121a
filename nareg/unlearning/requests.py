"""What users ask for, checked: each function returns a request that can be carried out."""

from __future__ import annotations

from typing import Any

import numpy as np

from nareg.errors import InputError
from nareg.unlearning import _arguments
from nareg.unlearning.data import Data, Request
from nareg.unlearning.propagation.base import Change


def remove_edges(data: Data, edges: Any) -> Request:
    """Edges that are there."""
    pairs = data.graph.checked_pairs("edges", edges, present=True)
    return Request({"request": "remove_edges", "edges": pairs.tolist()}, len(pairs), Change(removed=pairs))


def add_edges(data: Data, edges: Any) -> Request:
    """Edges that are not there, between nodes that were not removed."""
    pairs = data.graph.checked_pairs("edges", edges, present=False)
    _refuse_gone(data, "edges", pairs.ravel())
    return Request({"request": "add_edges", "edges": pairs.tolist()}, len(pairs), Change(added=pairs))


def remove_nodes(data: Data, nodes: Any) -> Request:
    """Edges, features and labels of nodes."""
    index = _nodes(data, nodes)
    joined = [np.stack([np.full(data.graph.live[u], u), data.graph.neighbors_of(u)], axis=1) for u in index]
    edges = np.unique(np.sort(np.concatenate(joined).astype(np.int64), axis=1), axis=0)
    _refuse_last(data, index)
    change = Change(removed=edges, nodes=index, features=np.zeros((index.size, data.n_features)))
    return Request({"request": "remove_nodes", "nodes": index.tolist()}, index.size, change, unlabeled=index, gone=index)


def remove_features(data: Data, nodes: Any, *, labels: Any) -> Request:
    """Features of nodes, and their labels if that is asked for."""
    if not isinstance(labels, (bool, np.bool_)):
        raise InputError(f"labels is {labels!r}: True or False is expected.")
    index = _nodes(data, nodes)
    told = {"request": "remove_features", "nodes": index.tolist(), "labels": bool(labels)}
    change = Change(nodes=index, features=np.zeros((index.size, data.n_features)))
    if not labels:
        return Request(told, index.size, change)
    _refuse_last(data, index)
    return Request(told, index.size, change, unlabeled=index)


def add_nodes(data: Data, new: Any, labels: Any) -> Request:
    """Nodes without edges, with labels of known classes or none."""
    X = _arguments.features("features", new, None)
    if len(X) == 0:
        raise InputError("features has no rows: give one a node.")
    if X.shape[1] != data.n_features:
        raise InputError(f"features has {X.shape[1]} columns but the model was fitted to {data.n_features}.")
    y = np.full(len(X), -1) if labels is None else _arguments.whole("labels", labels, len(X))
    unknown = np.setdiff1d(y, [*data.classes, -1])
    if unknown.size:
        raise InputError(f"labels holds {unknown[0]}, which the model was not fitted to: {data.classes.tolist()}, or -1.")
    told = {"request": "add_nodes", "features": X.tolist(), "labels": y.tolist()}
    change = Change(nodes=np.arange(data.n_nodes, data.n_nodes + len(X)), features=X)
    return Request(told, len(X), change, new_labels=y)


def _nodes(data: Data, value: Any) -> np.ndarray:
    """Nodes that a removal names."""
    index = np.sort(_arguments.numbers("nodes", value, data.n_nodes))
    if index.size == 0:
        raise InputError("nodes is empty: name at least one.")
    _refuse_gone(data, "nodes", index)
    return index


def _refuse_gone(data: Data, name: str, nodes: np.ndarray) -> None:
    if data.gone[nodes].any():
        raise InputError(f"{name} holds {int(nodes[data.gone[nodes]][0])}, which was removed before.")


def _refuse_last(data: Data, nodes: np.ndarray) -> None:
    """The last training node of a class stays, unless the classes were told beforehand: else it would show."""
    leaving = nodes[data.propagation.trains(nodes)]
    left = np.setdiff1d(data.train, leaving)
    if left.size == 0:
        raise InputError("nodes holds all training nodes: nothing would be left to train on.")
    lost = np.setdiff1d(data.labels[leaving], data.labels[left])
    if lost.size and not data.told:
        raise InputError(
            f"nodes holds the last training node of class {lost[0]}, which would show that it was there: fit with classes= "
            "told beforehand, or anew without the class."
        )
