"""Checked requests, and the data that they change, completely or not at all: graph, features, labels and embedding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nareg._core.interrupts import interrupts_deferred
from nareg.errors import InputError, LedgerError
from nareg.typing import ArrayLike, Sparse
from nareg.unlearning import _arguments
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.head import Head
from nareg.unlearning.propagation.base import Change, Embedding, no_nodes
from nareg.unlearning.propagation.device import Device
from nareg.unlearning.propagation.dynamic_graph import LiveGraph, extended
from nareg.unlearning.propagation.exact import Propagation
from nareg.unlearning.propagation.residual import ApproximatePropagation
from nareg.unlearning.store.entries import Entry, RequestDetails, StoredSettings
from nareg.unlearning.store.ledger import Ledger


@dataclass(frozen=True, eq=False)
class Request:
    """A checked request.

    Attributes
    ----------
    details : RequestDetails
        The request; a ledger stores its hash.
    count : int
        Number of edges or nodes in it.
    change : Change
    unlabeled : (K,) array
        Nodes whose labels are removed.
    gone : (K,) array
        Nodes that are removed.
    new_labels : (K,) array or None
        Labels of nodes that are added behind all others with the features of ``change``; -1 for none.
    retrain : bool
        Whether the model is trained from nothing, with a new noise term.
    """

    details: RequestDetails
    count: int
    change: Change
    unlabeled: np.ndarray = field(default_factory=no_nodes)
    gone: np.ndarray = field(default_factory=no_nodes)
    new_labels: np.ndarray | None = None
    retrain: bool = False


@dataclass(frozen=True, eq=False)
class Labeling:
    """Checked labels.

    Attributes
    ----------
    labels : (N,) int64 array
        -1 where there is none.
    train : (n_t,) int64 array
        In rising order.
    classes : (C,) array
    classes_given : bool
        Whether the user named the classes; else they are those of the training labels.
    """

    labels: np.ndarray
    train: np.ndarray
    classes: np.ndarray
    classes_given: bool


class Data:
    """Graph, features, labels, embedding, and the store that requests are recorded in.

    Parameters
    ----------
    graph : LiveGraph
    features : (N, F) float64 array
    labeling : Labeling
    weights : (L + 1,) float64 array
    r_max : float
    gone : (N,) boolean array, optional
    device : Device, optional
    """

    #: The settings of the model, to be kept with the data.
    settings: StoredSettings
    #: Of data in memory, if the model was saved.
    store: Ledger | None = None
    #: The store that was closed last.
    closed: Path | None = None

    def __init__(
        self, graph: LiveGraph, features: np.ndarray, labeling: Labeling, weights: np.ndarray, r_max: float, *,
        gone: np.ndarray | None = None, device: Device | None = None,
    ) -> None:  # fmt: skip
        self.labels, self.classes, self.classes_given = labeling.labels, labeling.classes, labeling.classes_given
        #: Whether a request is in progress, or failed and could not be undone.
        self.broken = False
        self.gone = np.zeros(graph.n_nodes, dtype=bool) if gone is None else gone
        self.propagation: Embedding = (
            ApproximatePropagation(graph, features, weights, labeling.train, r_max=r_max)
            if r_max
            else Propagation(graph, features, weights, labeling.train, device=device)
        )

    @property
    def path(self) -> Path | None:
        """Where requests are recorded; None if nowhere."""
        return None if self.store is None else self.store.path

    @property
    def is_torn(self) -> bool:
        """Whether a request is only partly in the files: loading them again completes it."""
        return self.store is not None and self.store.is_torn

    @property
    def graph(self) -> LiveGraph:
        """The graph."""
        return self.propagation.graph

    @property
    def n_nodes(self) -> int:
        """Number of nodes, removed ones among them."""
        return self.graph.n_nodes

    @property
    def n_features(self) -> int:
        """Number of features F."""
        return int(self.propagation.features.shape[1])

    @property
    def train(self) -> np.ndarray:
        """Nodes that are trained on, in the order of :meth:`targets`."""
        return self.propagation.train

    @property
    def columns(self) -> int:
        """Columns of the head: one for two classes."""
        return 1 if self.classes.size == 2 else self.classes.size

    def targets(self) -> np.ndarray:
        """(n_t, C) array of -1 and 1: each class against the rest."""
        return np.where(self.labels[self.train][:, None] == self.classes[-self.columns :], 1.0, -1.0)

    @contextmanager
    def changed(self, request: Request, *, fully: bool = False) -> Iterator[Callable[[], None]]:
        """The data after a request; as they were before if the block raises, also on Ctrl-C.

        The block gets a function ``commit``: after its call nothing is undone. Call it while interrupts are deferred, together
        with everything that must happen along with it. ``fully`` propagates through the whole graph.

        Raises
        ------
        LedgerError
            If the store is closed: it would still have what is removed from memory.
        """
        if self.store is None and self.closed is not None:
            raise LedgerError(
                f"{self.closed} is closed, so that the request would not be in it: load it, or save() the model elsewhere."
            )
        committed = False

        def commit() -> None:
            nonlocal committed
            committed, self.broken = True, False

        undo = self._undo(request)
        try:
            with interrupts_deferred():
                self.broken = True  # until the request is committed or undone
                self._apply(request, fully=fully)
            yield commit
        except BaseException:
            if not committed and not self.is_torn:
                with interrupts_deferred():
                    undo()
            raise

    def entry(self, details: RequestDetails, change: Change, result: Head, certificate: Certificate | None) -> Entry:
        """What a store records of a request that was carried out."""
        nodes = change.nodes
        return Entry(
            details=details, removed=change.removed, added=change.added, nodes=nodes,
            features=self.propagation.features[nodes], labels=self.labels[nodes], trained=self.propagation.trains(nodes),
            gone=self.gone[nodes], coefficients=result.W, term=result.B, certificate=certificate,
        )  # fmt: skip

    def record(self, request: Request | None, result: Head, certificate: Certificate | None) -> None:
        """Make the request in progress, or training, durable with the head and the certificate that it leads to.

        Raises
        ------
        LedgerError
            If it cannot be written.
        """
        if self.store is not None and request is not None:
            self.store.record(self.entry(request.details, request.change, result, certificate))

    def refuse_elsewhere(self) -> None:
        """Raise if the data change under another process's hands: those in memory do not."""

    def check(self) -> None:
        """Raise if a request could not be recorded, or if what it relies on is damaged: files could be."""
        if self.store is not None:
            self.store.refuse_elsewhere()

    def close(self) -> None:
        """Release what the data hold besides memory."""
        if self.store is not None:
            self.closed = self.store.path
            self.store.close()
        self.store = None

    def _apply(self, request: Request, *, fully: bool) -> None:
        """Change everything that a request changes."""
        propagation = self.propagation
        leaving = request.unlabeled[propagation.trains(request.unlabeled)]
        if request.new_labels is not None:
            self._add(request)
        elif fully:
            propagation.update_fully(request.change)
        else:
            propagation.update(request.change, request.gone)
        propagation.leave(leaving)
        self.labels[request.unlabeled] = -1
        self.gone[request.gone] = True

    def _undo(self, request: Request) -> Callable[[], None]:
        """A function that undoes the request, even if it was interrupted."""
        change, propagation, before = request.change, self.propagation, self.n_nodes
        leaving = request.unlabeled[propagation.trains(request.unlabeled)]
        labels = self.labels[request.unlabeled]
        features = propagation.features[change.nodes] if request.new_labels is None else np.empty(0)

        def undo() -> None:
            self.labels, self.gone = self.labels[:before], self.gone[:before]
            self.labels[request.unlabeled] = labels
            self.gone[request.gone] = False
            if request.new_labels is not None:
                propagation.drop_nodes(before)
            else:
                propagation.join(leaving)
                propagation.restore(change, features)
            self.broken = False

        return undo

    def _add(self, request: Request) -> None:
        assert request.new_labels is not None
        assert request.change.features is not None
        self.propagation.add_nodes(request.change.features)
        self.propagation.join(request.change.nodes[request.new_labels >= 0])
        self.labels = extended(self.labels, request.new_labels)
        self.gone = extended(self.gone, np.zeros(request.new_labels.size, dtype=bool))


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
