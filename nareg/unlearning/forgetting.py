"""The base of all models that unlearn: fitting, requests and reads."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from copy import deepcopy
from typing import Generic, Self, TypeVar

import numpy as np

from nareg._core import checks
from nareg._core.process import Noise
from nareg.errors import InputError, SolverError
from nareg.graph import Graph
from nareg.typing import ArrayLike, GraphLike, Sparse
from nareg.unlearning import _arguments
from nareg.unlearning._locking import ModelLock, reading, request
from nareg.unlearning.data import Data, Labeling, Request, add_edges, add_nodes, remove_edges, remove_features, remove_nodes
from nareg.unlearning.propagation.device import Device
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.propagation.exact import Propagation

#: Means of columns, in standard errors, that are too small for chance.
CENTERED = 0.01

#: What a request returns.
Answer = TypeVar("Answer")


class Forgetting(ABC, Generic[Answer]):
    """Checks requests and passes them to :meth:`_do`, one at a time: others are refused meanwhile, and reads wait."""

    weights: np.ndarray
    r_max: float = 0.0
    _device: Device | None = None

    _fitted: Data | None = None
    _noise_source: Noise

    def __init__(self) -> None:
        self._lock = ModelLock()

    def __copy__(self) -> Self:
        """A deep copy: two models must not change the same data."""
        return deepcopy(self)

    @property
    def _rng(self) -> np.random.Generator:
        """The generator of this copy of the model, in this process."""
        return self._noise_source.generator

    def _before_request(self) -> None:
        """Raise if a request would write to what another process has open, or rely on what is damaged."""
        if self._fitted is not None:
            self._fitted.check()

    @property
    def _data(self) -> Data:
        if self._fitted is None:
            raise InputError("the model is not fitted: call fit(graph, features, labels, train) or load a store first.")
        if self._fitted.broken:
            raise SolverError(
                "the model is inconsistent: a request is running, or one failed and could not be undone, perhaps out of "
                "memory; load the store, or fit again."
            )
        self._fitted.refuse_elsewhere()
        return self._fitted

    @_data.setter
    def _data(self, data: Data) -> None:
        self._fitted = data

    @abstractmethod
    def _do(self, request: Request) -> Answer:
        """Carry out a request on data and model, both or neither."""

    @request
    def remove_edges(self, edges: ArrayLike) -> Answer:
        """Remove edges.

        Parameters
        ----------
        edges : (E, 2) pairs of nodes
            In either direction.

        Raises
        ------
        BusyError
            If another request is in progress. This and the errors below hold for all requests.
        InputError
            If a pair is not an edge.
        CertificateError
            If the gradient that is left exceeds the budget.
        LedgerError
            If the request cannot be written to the store.
        """
        return self._do(remove_edges(self._data, edges))

    @request
    def remove_nodes(self, nodes: ArrayLike) -> Answer:
        """Remove nodes with their edges, features and labels. Their numbers are not used again; their scores are zero."""
        return self._do(remove_nodes(self._data, nodes))

    @request
    def remove_features(self, nodes: ArrayLike, *, labels: bool = False) -> Answer:
        """Remove the features of nodes, and with ``labels`` their labels (the paper's feature unlearning)."""
        return self._do(remove_features(self._data, nodes, labels=labels))

    @request
    def add_edges(self, edges: ArrayLike) -> Answer:
        """Add edges, (E, 2) pairs of nodes."""
        return self._do(add_edges(self._data, edges))

    @request
    def add_nodes(self, features: ArrayLike | Sparse, *, labels: ArrayLike | None = None) -> Answer:
        """Add nodes without edges, numbered from ``n_nodes``; those with a label other than -1 are trained on.

        ``features`` is (K, F), ``labels`` (K,) integers.
        """
        return self._do(add_nodes(self._data, features, labels))

    @property
    @reading
    def n_nodes(self) -> int:
        """Number of nodes, removed ones among them: they keep their numbers."""
        return self._data.n_nodes

    @property
    @reading
    def remaining(self) -> np.ndarray:
        """Nodes that were not removed, in ascending order."""
        return np.flatnonzero(~self._data.gone)

    @property
    @reading
    def classes(self) -> np.ndarray:
        """Classes, in ascending order."""
        return self._data.classes

    @property
    @reading
    def labels(self) -> np.ndarray:
        """Labels (N,); -1 where there is none or it was removed."""
        return self._data.labels.copy()

    @property
    @reading
    def train(self) -> np.ndarray:
        """Training nodes, in ascending order."""
        return np.sort(self._data.train)

    @reading
    def embedding(self) -> np.ndarray:
        """The embedding Z, a new (N, F) array."""
        return self._data.propagation.embedding()

    @abstractmethod
    def decision(self, nodes: ArrayLike | None = None) -> np.ndarray:
        """Scores (K, C) of these nodes, or all; one column for two classes."""

    @reading
    def predict(self, nodes: ArrayLike | None = None) -> np.ndarray:
        """Classes (K,) of these nodes, or all: removed ones, which ``remaining`` lacks, have that of a row of zeros."""
        return self.class_of(self.decision(nodes))

    @reading
    def class_of(self, scores: np.ndarray) -> np.ndarray:
        """Class of every row of scores from :meth:`decision`."""
        best = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return self.classes[best]

    def _elsewhere(self, graph: GraphLike, features: ArrayLike | Sparse) -> Propagation:
        """The embedding of another graph, with the features of this one.

        Raises
        ------
        InputError
            If their number is another one.
        """
        other = LiveGraph(graph if isinstance(graph, Graph) else Graph(graph))
        X = _arguments.features("features", features, other.n_nodes)
        expected = self._data.n_features
        if X.shape[1] != expected:
            raise InputError(f"features has {X.shape[1]} columns but the model was fitted to {expected}: pass as many.")
        return Propagation(other, X, self.weights, np.arange(1))

    def _index(self, nodes: ArrayLike | None) -> np.ndarray | slice:
        return slice(None) if nodes is None else _arguments.node_numbers("nodes", nodes, self.n_nodes)

    def _read(
        self, graph: GraphLike, features: ArrayLike | Sparse, labels: ArrayLike, train: ArrayLike, classes: ArrayLike | None
    ) -> Data:
        """Check the data and propagate them."""
        live = LiveGraph(graph if isinstance(graph, Graph) else Graph(graph))
        n = live.n_nodes
        X = _arguments.features("features", features, n)
        warn_of_centered(X.mean(axis=0), X.std(axis=0), n)
        labeling = checked_labels(labels, train, classes, n)
        return Data(live, X, labeling, self.weights, self.r_max, device=self._device)


def checked_weights(weights: int | ArrayLike) -> np.ndarray:
    """``w_l``, l = 0..L; of a number L ``w_L = 1`` alone."""
    if np.ndim(weights) == 0:
        last = np.zeros(checks.integer("weights", weights, low=0) + 1)
        last[-1] = 1
        return last
    array = checks.floats("weights", weights, ndim=(1,)).astype(np.float64)
    if array.size == 0 or not 0 < np.abs(array).sum() <= 1 + 1e-12:
        raise InputError(
            f"weights have {array.size} values whose absolute values sum to {np.abs(array).sum():g}: at least one value and a "
            "sum above zero and at most one are expected; divide by the sum."
        )
    return array


def checked_labels(labels: ArrayLike, train: ArrayLike, classes: ArrayLike | None, n: int) -> Labeling:
    """Labels of n nodes, from those of a user."""
    y, nodes = _arguments.integers("labels", labels, n), np.sort(_arguments.node_numbers("train", train, n))
    if nodes.size == 0:
        raise InputError("train is empty: name at least one node of every class.")
    if (y[nodes] < 0).any():
        node = int(nodes[y[nodes] < 0][0])
        raise InputError(f"labels[{node}] is {y[node]}, not a class, but node {node} is trained on: leave it out of train.")
    return Labeling(np.where(y < 0, -1, y), nodes, _classes(y[nodes], classes), classes is not None)


def warn_of_centered(means: np.ndarray, deviations: np.ndarray, n: int, *, stacklevel: int = 6) -> None:
    """Warn of columns of mean zero: standardization or PCA over all nodes may have subtracted the mean."""
    varied = deviations > 0
    centered = np.count_nonzero((np.abs(means) * np.sqrt(n) <= CENTERED * deviations) & varied)
    if 2 * centered > np.count_nonzero(varied):
        warnings.warn(
            f"{centered} of {means.size} columns of features have mean zero over all nodes: if statistics of all nodes scaled "
            "them, removed data stay in them; scale each node separately, or with constants that do not depend on the data.",
            stacklevel=stacklevel,  # by default fit, and its wrappers for tables and the lock
        )


def _classes(labels: np.ndarray, given: ArrayLike | None) -> np.ndarray:
    """Two classes or more: those that the user named, if any, else those of the labels."""
    classes = np.unique(labels)
    if given is not None:
        array = np.unique(checks.array_of("classes", given))
        if array.dtype.kind not in "iu" or (array < 0).any() or array.size < 2:
            raise InputError(f"classes is {given!r}: two or more integers of at least 0 are expected.")
        unknown = np.setdiff1d(classes, array)
        if unknown.size:
            raise InputError(f"labels of training nodes hold class {unknown[0]}, which is not among classes: add it.")
        classes = array
    if classes.size < 2:
        raise InputError(f"labels of the training nodes are all {classes[0]}: at least two classes are needed.")
    return classes
