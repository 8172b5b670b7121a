"""What a model says of every node, on the remaining data and on the data before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.special import softmax

from nareg._core import checks
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.typing import GraphLike
from nareg.unlearning.evaluation.task import UnlearningTask
from nareg.unlearning.model import CertifiedGPR
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.propagation.exact import Propagation


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
        values: np.ndarray = softmax(self.original, axis=1)
        return values


@runtime_checkable
class ScoresElsewhere(Protocol):
    """A model that can be asked about data other than its own, as the peers can."""

    def decision_on(self, graph: GraphLike, features: np.ndarray) -> np.ndarray:
        """Logits (N, C)."""

    def weights_vector(self) -> np.ndarray:
        """All weights, (P,)."""


def scores_of(model: Any, task: UnlearningTask) -> ModelScores:
    """The scores of a model on the remaining data of a task and on those before.

    Raises
    ------
    InputError
        If the model cannot be asked.
    """
    if isinstance(model, ModelScores):
        return model
    if isinstance(model, CertifiedGPR):
        W = model.coefficients
        remaining, original = (_embedding(graph, X, model.weights) @ W for graph, X in _both(task))
        return ModelScores(remaining, original, W.ravel())
    if isinstance(model, ScoresElsewhere):
        remaining, original = (model.decision_on(graph, X) for graph, X in _both(task))
        return ModelScores(remaining, original, model.weights_vector())
    raise InputError(f"the model is a {type(model).__name__}, which cannot be asked about other data: pass a ModelScores.")


def _both(task: UnlearningTask) -> list[tuple[Graph, np.ndarray]]:
    assert isinstance(task.graph, Graph)
    graph, features, *_ = task.remaining()
    return [(graph, features), (task.graph, np.asarray(task.features))]


def _embedding(graph: Graph, features: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return Propagation(LiveGraph(graph), features.copy(), weights, np.arange(1)).embedding()


def two_columns(logits: np.ndarray) -> np.ndarray:
    """Logits with a column per class: the score s of the second of two classes becomes (-s / 2, s / 2)."""
    return np.concatenate([-logits / 2, logits / 2], axis=1) if logits.shape[1] == 1 else logits
