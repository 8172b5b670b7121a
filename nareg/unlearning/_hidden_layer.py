"""A frozen hidden layer: how and on what it is trained, its rows, and how far rounding may move them.

With the layer's weights W and biases b, a node's row is ``h = p(relu(W^T z + b))``. Here ``p(h) = h / max(1, ||h||)`` is
the projection on the unit ball. Neither relu nor p moves two points apart, so ``||h - h'|| <= ||W||_2 ||z - z'||``. Division by
the length alone has no such bound near zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch

from nareg._solvers.threads import product_threads
from nareg.graph import Graph
from nareg.progress import Progress, ProgressCallback
from nareg.unlearning.data import Data
from nareg.unlearning.objective import spectral_norm_bound
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
        scores: torch.Tensor = self.layers(Z)
        return scores

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
