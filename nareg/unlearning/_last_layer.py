"""The certified last layer of a perceptron, behind a hidden layer that holds the data of some nodes only.

**Claim.** M are the hidden nodes, D the data, and D[M] the features and labels of M and the edges within M. ``fit`` draws
random numbers r, makes the hidden layer ``h = T(D[M], r)``, draws a noise term B, and solves the convex problem of the training
nodes' rows. A request turns D into D'.

- If D'[M] = D[M], then ``fit`` makes the same h of D' and r, to the last bit. Given h, rows are a fixed map of the data, and B
  does not depend on them. The gradient that is left is within the budget, so Theorem 3 of Guo et al. 2020 holds for the last
  layer given h. Its mean over r is the claim for both layers together.
- Otherwise both layers are trained from nothing on D' alone, with new r and B.

**Which nodes train the last layer.** All training nodes. To the proof a hidden node is a row like any other, and more rows make
a better model: 0.1 to 1.0 points of accuracy on Cora, at four lengths of the features' rows.

**The hidden layer.** With its weights W and biases b, a node's row is ``h = p(relu(W^T z + b))``. Here
``p(h) = h / max(1, ||h||)`` is the projection on the unit ball. Neither relu nor p moves two points apart, so
``||h - h'|| <= ||W||_2 ||z - z'||``. Division by the length alone has no such bound near zero.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch

from nareg._solvers.threads import product_threads
from nareg.errors import CertificateError, InputError
from nareg.graph import Graph
from nareg.progress import Progress, ProgressCallback
from nareg.typing import ArrayLike
from nareg.unlearning import _arguments
from nareg.unlearning.calibration import AUTO, Calibration, FeatureScale
from nareg.unlearning.data import Data, Request
from nareg.unlearning.head import CertifiedTraining, Head
from nareg.unlearning.objective import LOSSES, spectral_norm_bound
from nareg.unlearning.propagation.base import Embedding
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.propagation.exact import Propagation

#: Twice the unit roundoff: n operations one after the other have a relative error of at most n times this.
ROUNDOFF = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class HiddenLayer:
    """Weights (F, units) and biases (units,), in float64."""

    weights: np.ndarray
    biases: np.ndarray

    def rows(self, Z: np.ndarray) -> np.ndarray:
        """(K, units): ``relu(Z W + b)``, rows longer than one divided by their length."""
        with product_threads(Z.size * self.biases.size):
            H: np.ndarray = Z @ self.weights
        H += self.biases
        np.maximum(H, 0, out=H)
        H /= np.maximum(np.sqrt(np.einsum("ij,ij->i", H, H)), 1)[:, None]
        return H

    def error(self, Z: np.ndarray, error: float) -> float:
        """Bound of ``||H - H_hat||_F``, H_hat the computed rows of Z and H the exact ones of a Z that is ``error`` away.

        A computed sum of F + 1 terms is off by at most F + 1 roundoffs of the sum of their sizes. For a row of ``Z W + b`` the
        sums of sizes have at most the length ``||W||_F ||z|| + ||b||``. The projection does not lengthen the error, and adds
        ``units + 4`` roundoffs of a row of length one at most.
        """
        F, units = self.weights.shape
        root = np.sqrt(len(Z))
        size = np.linalg.norm(self.weights) * np.linalg.norm(Z) + root * np.linalg.norm(self.biases)
        rounding = (F + 1) * size + (units + 4) * root
        return spectral_norm_bound(self.weights) * error + ROUNDOFF * float(rounding)


class HiddenRows:
    """The layer's rows of the training nodes, as a head is trained on them (:class:`~nareg.unlearning.head.TrainingRows`)."""

    exact = True

    def __init__(self, layer: HiddenLayer, propagation: Embedding) -> None:
        Z = propagation.embedding(propagation.train)
        self._rows, self._error = layer.rows(Z), layer.error(Z, propagation.errors())

    def trained(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows, and ones."""
        return self._rows, np.ones(len(self._rows))

    def errors(self, W: np.ndarray | None = None) -> float:
        """Bound of ``||(H - H_hat) W||_F``, without W of ``||H - H_hat||_F``."""
        return self._error if W is None else self._error * float(np.linalg.norm(W))

    def column_errors(self) -> np.ndarray:
        """(units,) bounds of the columns of ``|H - H_hat|`` summed over the training nodes."""
        n, units = self._rows.shape
        return np.full(units, np.sqrt(n) * self._error)


def induced_embedding(data: Data, nodes: np.ndarray) -> np.ndarray:
    """(K, F) embedding of the graph that these nodes, in rising order, and the edges among them are.

    It is computed in an order that depends on these alone: other nodes do not even change its rounding.
    """
    if not nodes.size:
        return np.empty((0, data.n_features))
    ends, neighbors = data.graph.rows_of(nodes)
    adjacency = sp.csr_array((np.ones(neighbors.size), neighbors, ends), shape=(nodes.size, data.n_nodes))[:, nodes]
    adjacency.sort_indices()
    propagation = data.propagation
    features = propagation.features[nodes]
    return Propagation(LiveGraph(Graph(adjacency)), features, propagation.weights, np.arange(nodes.size)).embedding()


class EmbeddingPerceptron(torch.nn.Module):
    """Dropout, a hidden layer, dropout, classes."""

    def __init__(self, n_features: int, hidden: int, n_classes: int, dropout: float) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Dropout(dropout), torch.nn.Linear(n_features, hidden), torch.nn.ReLU(), torch.nn.Dropout(dropout),
            torch.nn.Linear(hidden, n_classes),
        )  # fmt: skip

    def forward(self, Z: torch.Tensor) -> torch.Tensor:
        """(K, F) -> (K, C)."""
        return self.layers(Z)

    def hidden_layer(self) -> HiddenLayer:
        """The hidden layer as it is, in float64."""
        linear = self.layers[1]
        assert isinstance(linear, torch.nn.Linear)
        weights, biases = (part.detach().cpu().double().numpy() for part in (linear.weight, linear.bias))
        return HiddenLayer(weights.T.copy(), biases.copy())


def train(
    network: torch.nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, targets: torch.Tensor, epochs: int,
    seed: int, progress: ProgressCallback | None = None, penalty: Callable[[], torch.Tensor] | None = None,
) -> None:  # fmt: skip
    """Full-batch steps on the mean cross-entropy and a penalty; torch's global random state is left alone."""
    network.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for epoch in range(1, epochs + 1):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(network(inputs), targets)
            if penalty is not None:
                loss = loss + penalty()
            loss.backward()
            optimizer.step()
            if progress is not None:
                progress(Progress("training", epoch, epochs, epoch / epochs, {"loss": float(loss)}))


#: Embedding (K, F) and labels (K,) of the hidden nodes -> a layer, trained from nothing.
Trainer = Callable[[np.ndarray, np.ndarray], HiddenLayer]


@dataclass(frozen=True, eq=False)
class LastLayer:
    """A frozen hidden layer and the certified head behind it.

    Attributes
    ----------
    nodes : (K,) array
        Hidden nodes of ``fit``, in rising order.
    training : CertifiedTraining
    layer : HiddenLayer
    head : Head
    """

    nodes: np.ndarray
    training: CertifiedTraining
    layer: HiddenLayer
    head: Head

    @classmethod
    def fitted(
        cls, data: Data, nodes: np.ndarray, trainer: Trainer, *, eps: float, delta: float, rng: np.random.Generator
    ) -> LastLayer:
        """Both layers, trained from nothing; ridge and noise for rows of length one."""
        calibration = Calibration.checked(FeatureScale(norm=1.0), AUTO)
        numbers = calibration.calibrated(data.propagation.features, data.train.size, rng)
        training = CertifiedTraining(LOSSES["logistic"], numbers.lam, numbers.alpha, eps, delta)
        layer = _trained(data, nodes, trainer)
        return cls(nodes, training, layer, training.retrained(data, rng, HiddenRows(layer, data.propagation)))

    def hidden_nodes(self, data: Data) -> np.ndarray:
        """Those that are still trained on."""
        return self.nodes[data.propagation.trains(self.nodes)]

    def holds(self, request: Request, data: Data) -> bool:
        """Whether the hidden layer holds what a request on these data changes: features, labels, or edges among its nodes."""
        nodes, change = self.hidden_nodes(data), request.change
        return bool(
            np.isin(change.nodes, nodes).any()
            or np.isin(request.unlabeled, nodes).any()
            or np.isin(change.edges, nodes).all(axis=1).any()
        )

    def updated(self, data: Data, trainer: Trainer, rng: np.random.Generator, *, retrain: bool, renew: bool) -> LastLayer:
        """The model of the remaining data: Newton steps on the last layer, or with ``retrain`` both layers from nothing.

        With ``renew``, or if the steps exceed the budget, the last layer is trained from nothing with a new noise term.
        """
        training, layer = self.training, self.layer
        if retrain:
            layer = _trained(data, self.hidden_nodes(data), trainer)
        elif not renew:
            rows = HiddenRows(layer, data.propagation)
            with suppress(CertificateError):
                return replace(self, head=training.adjusted(data, self.head.B, self.head.W, rows))
        try:
            return replace(self, layer=layer, head=training.retrained(data, rng, HiddenRows(layer, data.propagation)))
        except CertificateError as error:
            raise CertificateError(f"{error} Nothing was changed.") from None

    def decision(self, Z: np.ndarray) -> np.ndarray:
        """Scores (K, C) of rows of the embedding; one column for two classes."""
        return self.layer.rows(Z) @ self.head.W

    def parameters(self) -> list[np.ndarray]:
        """Weights and biases of the hidden layer, and the last layer's weights."""
        return [self.layer.weights, self.layer.biases, self.head.W]


def checked_hidden_nodes(value: ArrayLike | None, train: np.ndarray, n_nodes: int, rng: np.random.Generator) -> np.ndarray:
    """Hidden nodes in rising order; by default a coin is tossed for every node number, whatever the data."""
    if value is None:
        return train[rng.random(n_nodes)[train] < 0.5]
    nodes = np.sort(_arguments.node_numbers("hidden_nodes", value, n_nodes))
    others = np.setdiff1d(nodes, train)
    if others.size:
        raise InputError(f"hidden_nodes holds {others[0]}, which is not in train: name training nodes only.")
    return nodes


def _trained(data: Data, nodes: np.ndarray, trainer: Trainer) -> HiddenLayer:
    return trainer(induced_embedding(data, nodes), data.labels[nodes])
