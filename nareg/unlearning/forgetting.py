"""What all models that forget have in common: they are fitted to a graph, and asked to take things back."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np

from nareg import _checks
from nareg.errors import InputError, SolverError
from nareg.graph import Graph
from nareg.unlearning import _arguments, requests
from nareg.unlearning._locking import Turns, reading, request
from nareg.unlearning.data import Data, Request
from nareg.unlearning.propagation.device import Device
from nareg.unlearning.propagation.dynamic_graph import LiveGraph

#: Means of columns, in standard errors, that are no chance.
CENTERED = 0.01

#: What a request returns.
Answer = TypeVar("Answer")


class Forgetting(ABC, Generic[Answer]):
    """Requests, checked and passed on to :meth:`_do`, one at a time: others are refused meanwhile, and reads wait."""

    weights: np.ndarray
    r_max: float = 0.0
    _device: Device | None = None

    _fitted: Data | None = None

    def __init__(self) -> None:
        self._turns = Turns()

    @property
    def _data(self) -> Data:
        if self._fitted is None:
            raise InputError("the model is not fitted: call fit(graph, features, labels, train) first, or load a store.")
        if self._fitted.broken:
            raise SolverError(
                "the model is in the middle of a request, or one failed and could not be undone, for want of memory perhaps: "
                "load the store, or fit anew."
            )
        return self._fitted

    @_data.setter
    def _data(self, data: Data) -> None:
        self._fitted = data

    @abstractmethod
    def _do(self, request: Request) -> Answer:
        """Carry out a request: the data and the model, both or none."""

    @request
    def remove_edges(self, edges: Any) -> Answer:
        """Forget that nodes were joined.

        Parameters
        ----------
        edges : (E, 2) pairs of nodes
            In whichever direction.

        Raises
        ------
        BusyError
            If another thread's request is under way; true of all requests.
        InputError
            For what is no edge, or not any more.
        CertificateError
            If the budget cannot be met.
        LedgerError
            If the request cannot be written to the store.
        """
        return self._do(requests.remove_edges(self._data, edges))

    @request
    def remove_nodes(self, nodes: Any) -> Answer:
        """Forget nodes: their edges, features and labels. Their numbers are not used again; their scores are zeros."""
        return self._do(requests.remove_nodes(self._data, nodes))

    @request
    def remove_features(self, nodes: Any, *, labels: bool = False) -> Answer:
        """Forget nodes' features; with ``labels`` their labels as well (what the paper calls feature unlearning)."""
        return self._do(requests.remove_features(self._data, nodes, labels=labels))

    @request
    def add_edges(self, edges: Any) -> Answer:
        """Join nodes that are not."""
        return self._do(requests.add_edges(self._data, edges))

    @request
    def add_nodes(self, features: Any, *, labels: Any = None) -> Answer:
        """Nodes without edges, numbered from ``n_nodes``; those with a label that is not -1 are trained on."""
        return self._do(requests.add_nodes(self._data, features, labels))

    @property
    @reading
    def n_nodes(self) -> int:
        """Number of nodes, removed ones among them: they keep their numbers."""
        return self._data.n_nodes

    @property
    @reading
    def remaining(self) -> np.ndarray:
        """Nodes that were not removed."""
        return np.flatnonzero(~self._data.gone)

    @property
    @reading
    def classes(self) -> np.ndarray:
        """Classes, in rising order."""
        return self._data.classes

    @property
    @reading
    def labels(self) -> np.ndarray:
        """(N,), -1 where there is none, or none any more."""
        return self._data.labels.copy()

    @property
    @reading
    def train(self) -> np.ndarray:
        """Nodes that are trained on."""
        return np.sort(self._data.train)

    @reading
    def embedding(self) -> np.ndarray:
        """(N, F) array Z, new."""
        return self._data.propagation.embedding()

    @abstractmethod
    def decision(self, nodes: Any = None) -> np.ndarray:
        """Scores of some nodes, or all: (K, C), one column for two classes."""

    @reading
    def predict(self, nodes: Any = None) -> np.ndarray:
        """Class of some nodes, or all."""
        return self.class_of(self.decision(nodes))

    @reading
    def class_of(self, scores: np.ndarray) -> np.ndarray:
        """Class of every row of scores, as :meth:`decision` gives them."""
        best = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        found: np.ndarray = self.classes[best]
        return found

    def _index(self, nodes: Any) -> Any:
        return slice(None) if nodes is None else _arguments.numbers("nodes", nodes, self.n_nodes)

    def _read(self, graph: Any, features: Any, labels: Any, train: Any, classes: Any) -> Data:
        """Checked, and propagated."""
        live = LiveGraph(graph if isinstance(graph, Graph) else Graph(graph))
        n = live.n_nodes
        X, y = _arguments.features("features", features, n), _arguments.whole("labels", labels, n)
        _warn_of_centered(X)
        nodes = np.sort(_arguments.numbers("train", train, n))
        if nodes.size == 0:
            raise InputError("train is empty: name at least one node of every class.")
        if (y[nodes] < 0).any():
            node = int(nodes[y[nodes] < 0][0])
            raise InputError(f"labels[{node}] is {y[node]}, no class, but node {node} is trained on: leave it out of train.")
        found = _classes(y[nodes], classes)
        y = np.where(y < 0, -1, y)
        told: dict[str, Any] = {"weights": self.weights, "r_max": self.r_max, "device": self._device}
        return Data(live, X, y, nodes, found, told=classes is not None, **told)


def checked_weights(order: Any, weights: Any) -> np.ndarray:
    """``w_l``, l = 0..L; without any ``w_L = 1``."""
    if weights is None:
        found = np.zeros(_checks.integer("order", order, low=0) + 1)
        found[-1] = 1
        return found
    found = _checks.floats("weights", weights, ndim=(1,)).astype(np.float64)
    if found.size == 0 or not 0 < np.abs(found).sum() <= 1 + 1e-12:
        raise InputError(
            f"weights have {found.size} values whose absolute values sum to {np.abs(found).sum():g}: at least one value and a "
            "sum above zero and at most one are expected; divide by the sum."
        )
    return found


def _warn_of_centered(X: np.ndarray) -> None:
    """Columns whose means are zero may have had them taken off, by standardizing or principal components: of all nodes."""
    deviations = X.std(axis=0)
    varied = deviations > 0
    centered = np.count_nonzero((np.abs(X.mean(axis=0)) * np.sqrt(len(X)) <= CENTERED * deviations) & varied)
    if 2 * centered > np.count_nonzero(varied):
        warnings.warn(
            f"features have {centered} columns of mean zero over all nodes, of {X.shape[1]}: if they were scaled with what may "
            "have to be forgotten, it stays in them; scale every node by itself, or with constants that know nothing of the "
            "data.",
            stacklevel=5,  # fit, and the wrapper that takes its turn
        )


def _classes(labels: np.ndarray, told: Any) -> np.ndarray:
    """At least two; those that were told, if any were."""
    found = np.unique(labels)
    if told is not None:
        array = np.unique(_checks.array_of("classes", told))
        if array.dtype.kind not in "iu" or (array < 0).any() or array.size < 2:
            raise InputError(f"classes is {told!r}: two or more whole numbers from 0 are expected.")
        unknown = np.setdiff1d(found, array)
        if unknown.size:
            raise InputError(f"labels of training nodes hold class {unknown[0]}, which is not among classes.")
        found = array
    if found.size < 2:
        raise InputError(f"labels of the training nodes are all {found[0]}: there is nothing to tell apart.")
    return found
