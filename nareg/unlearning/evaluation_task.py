"""What is to be forgotten, the data that it is part of, and what a model says of every node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from nareg._core import checks
from nareg._core.arrays import briefly_shown
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.typing import ArrayLike, GraphLike, Sparse
from nareg.unlearning import _arguments


@dataclass(frozen=True, eq=False)
class UnlearningTask:
    """A graph with labels, and the training nodes that are to be forgotten.

    Attributes
    ----------
    graph : Graph or (N, N) adjacency matrix
    features : (N, F) array or sparse array
    labels : (N,) integer array
        Class of every node; -1 for none, which no test or removed node may have.
    train, test : indices or (N,) masks
        Disjoint.
    removed : indices or (N,) mask
        Training nodes; two test nodes are needed at least.

    Raises
    ------
    InputError
        If shapes do not match, or a node is in the wrong part.

    Examples
    --------
    >>> import nareg, numpy as np
    >>> from nareg.unlearning import UnlearningTask
    >>> data = nareg.datasets.node_classification.synthetic(300, 3, rng=np.random.default_rng(0))
    >>> task = UnlearningTask(data.graph, data.features, data.labels, np.arange(200), np.arange(200, 300), [5, 7])
    >>> graph, features, labels, train = task.remaining()
    >>> train.size, labels[[5, 7]], graph.degrees[[5, 7]]
    (198, array([-1, -1]), array([0., 0.]))
    """

    graph: GraphLike
    features: ArrayLike | Sparse
    labels: ArrayLike
    train: ArrayLike
    test: ArrayLike
    removed: ArrayLike

    def __post_init__(self) -> None:
        graph = self.graph if isinstance(self.graph, Graph) else Graph(self.graph)
        n = graph.n_nodes
        parts = {name: np.sort(_arguments.node_numbers(name, getattr(self, name), n)) for name in ("train", "test", "removed")}
        labels = _arguments.integers("labels", self.labels, n)
        both = np.intersect1d(parts["train"], parts["test"])
        if both.size:
            raise InputError(f"node {both[0]} is in train and in test: leave it out of one.")
        if parts["test"].size < 2 or parts["removed"].size < 1:
            raise InputError(
                f"test has {parts['test'].size} nodes and removed {parts['removed'].size}: at least two and one are needed."
            )
        strangers = np.setdiff1d(parts["removed"], parts["train"])
        if strangers.size:
            raise InputError(f"removed holds node {strangers[0]}, which is not trained on: pass training nodes.")
        unlabeled = [int(v) for name in ("train", "test") for v in parts[name] if labels[v] < 0]
        if unlabeled:
            raise InputError(f"node {unlabeled[0]} has no label: leave it out of train and test.")
        checked = {"graph": graph, "features": _arguments.features("features", self.features, n), "labels": labels, **parts}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def classes(self) -> np.ndarray:
        """Classes of the labels, (C,)."""
        labels = np.asarray(self.labels)
        return np.unique(labels[labels >= 0])

    def remaining(self) -> tuple[Graph, np.ndarray, np.ndarray, np.ndarray]:
        """Graph, features, labels and training nodes without the removed ones, which keep their numbers.

        They have no edges, zero features and the label -1.
        """
        assert isinstance(self.graph, Graph)
        present = np.ones(self.graph.n_nodes)
        removed = np.asarray(self.removed)
        present[removed] = 0
        mask = sp.diags_array(present)
        adjacency = sp.csr_array(mask @ self.graph.adjacency @ mask)
        adjacency.eliminate_zeros()
        labels = np.asarray(self.labels).copy()
        labels[removed] = -1
        features = np.asarray(self.features) * present[:, None]
        return Graph(adjacency), features, labels, np.setdiff1d(np.asarray(self.train), removed)


@briefly_shown
@dataclass(frozen=True, eq=False)
class ModelScores:
    """Logits and weights of a model.

    Attributes
    ----------
    remaining : (N, C) array
        Logits on the data without what was removed. One column, of two classes, becomes two.
    original : (N, C) array
        Logits of the same model on the data before: what it says to an attacker who knows the removed nodes.
    weights : array, optional
        All weights of the model.

    Raises
    ------
    InputError
        If shapes do not match, or a value is not finite.
    """

    remaining: np.ndarray
    original: np.ndarray
    weights: np.ndarray | None = None

    def __post_init__(self) -> None:
        shapes = []
        for name in ("remaining", "original"):
            logits = np.asarray(checks.floats(name, getattr(self, name), ndim=(2,)), dtype=np.float64)
            object.__setattr__(self, name, two_columns(logits))
            shapes.append(getattr(self, name).shape)
        if shapes[0] != shapes[1]:
            raise InputError(
                f"remaining has shape {shapes[0]} and original {shapes[1]}: logits of the same nodes are expected."
            )
        if self.weights is not None:
            weights = np.asarray(checks.floats("weights", np.ravel(self.weights), ndim=(1,)), dtype=np.float64)
            object.__setattr__(self, "weights", weights)

    @property
    def probabilities(self) -> np.ndarray:
        """Softmax of the logits on the data before, (N, C)."""
        return softmax(self.original, axis=1)


def scores_of(model: Any, task: UnlearningTask) -> ModelScores:
    """The scores of a model on the remaining data of a task and on those before.

    Raises
    ------
    InputError
        If the model cannot be asked.
    """
    if isinstance(model, ModelScores):
        return model
    if not (hasattr(model, "decision_on") and hasattr(model, "weights_vector")):
        raise InputError(f"the model is a {type(model).__name__}, which cannot be asked about other data: pass a ModelScores.")
    graph, features, *_ = task.remaining()
    remaining, original = model.decision_on(graph, features), model.decision_on(task.graph, np.asarray(task.features))
    return ModelScores(remaining, original, model.weights_vector())


def two_columns(logits: np.ndarray) -> np.ndarray:
    """Logits with a column per class: the score s of the second of two classes becomes (-s / 2, s / 2)."""
    return np.concatenate([-logits / 2, logits / 2], axis=1) if logits.shape[1] == 1 else logits
