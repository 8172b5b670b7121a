"""A graph convolutional network with the calls of models that unlearn, and its retraining. It certifies nothing.

Needs torch (``pip install 'nareg[torch]'``).
"""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._core.interrupts import interrupts_deferred
from nareg._core.process import Noise
from nareg.errors import MissingDependencyError, SolverError
from nareg.gnn.adjacency import csr_tensor
from nareg.graph import Graph
from nareg.progress import Progress, ProgressCallback
from nareg.typing import ArrayLike, GraphLike, Sparse
from nareg.unlearning import _arguments
from nareg.unlearning._locking import reading, training
from nareg.unlearning.data import Data, Request
from nareg.unlearning.forgetting import Forgetting

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise MissingDependencyError("the peers need torch: pip install 'nareg[torch]'.") from None

#: Two weight matrices and two biases.
Weights = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class NetworkUpdate:
    """Name of a request, number of edges or nodes in it, and seconds per stage. No certificate."""

    request: str
    count: int
    timings: dict[str, float]


@dataclass(frozen=True, eq=False)
class NetworkInputs:
    """What a network computes from: ``P = D^-1/2 (A + I) D^-1/2`` and ``P X``, each with its transpose."""

    P: torch.Tensor
    PX: torch.Tensor
    PX_transposed: torch.Tensor

    def __deepcopy__(self, memo: object) -> NetworkInputs:
        """Itself, for it never changes; and torch cannot copy CSR matrices."""
        return self

    @classmethod
    def of(cls, adjacency: sp.csr_array, features: np.ndarray) -> NetworkInputs:
        """Propagate the features."""
        loops = sp.csr_array(adjacency) + sp.eye_array(len(features), format="csr")
        scale = sp.diags_array(loops.sum(axis=1) ** -0.5)
        P = sp.csr_array(scale @ loops @ scale)
        PX = sp.csr_array(P @ sp.csr_array(features))
        return cls(_csr(P), _csr(PX), _csr(sp.csr_array(PX.T)))


class _Product(torch.autograd.Function):
    """Sparse times dense, differentiable in the dense factor as often as one likes."""

    @staticmethod
    def forward(ctx, A, A_transposed, dense):  # type: ignore[no-untyped-def]
        ctx.matrices = A, A_transposed
        return A @ dense

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def,override]
        A, A_transposed = ctx.matrices
        return None, None, _Product.apply(A_transposed, A, gradient)


def logits(inputs: NetworkInputs, weights: Weights, keep: torch.Tensor | None = None) -> torch.Tensor:
    """``P relu(P X W1 + b1) W2 + b2``, (N, C); ``keep`` is a dropout mask of the hidden layer, (N, H)."""
    W1, b1, W2, b2 = weights
    hidden = torch.relu(_Product.apply(inputs.PX, inputs.PX_transposed, W1) + b1)
    if keep is not None:
        hidden = hidden * keep
    scores: torch.Tensor = _Product.apply(inputs.P, inputs.P, hidden @ W2) + b2
    return scores


def loss_sum(inputs: NetworkInputs, weights: Weights, nodes: np.ndarray, targets: torch.Tensor) -> torch.Tensor:
    """Sum of the cross-entropies of nodes (K,), without dropout; ``targets`` (N,)."""
    index = torch.as_tensor(nodes)
    return torch.nn.functional.cross_entropy(logits(inputs, weights)[index], targets[index], reduction="sum")


class GraphNetwork(Forgetting[NetworkUpdate]):
    """Two-layer GCN (Kipf, Welling 2017), trained by Adam on the mean cross-entropy. A request changes its weights.

    Parameters
    ----------
    hidden : int
        Units of the hidden layer.
    dropout : float
        Of the hidden layer in training; the inputs have none.
    learning_rate, weight_decay : float
        Of Adam; weight decay applies to all weights.
    epochs : int
        Full-batch steps of training.
    rng : numpy.random.Generator, optional
        ``numpy.random.default_rng(0)`` by default. Training from nothing after a request starts from the same weights again.
    """

    def __init__(
        self,
        *,
        hidden: int = 16,
        dropout: float = 0.5,
        learning_rate: float = 1e-2,
        weight_decay: float = 5e-4,
        epochs: int = 200,
        rng: np.random.Generator | None = None,
    ) -> None:
        super().__init__()
        self.hidden, self.epochs = checks.integer("hidden", hidden, low=1), checks.integer("epochs", epochs, low=1)
        self.dropout = checks.number("dropout", dropout, low=0, high=0.99)
        self.learning_rate = checks.number("learning_rate", learning_rate, low=0, strict=True)
        self.weight_decay = checks.number("weight_decay", weight_decay, low=0)
        self._noise_source = Noise(checks.generator(rng))
        self._seed = int(self._rng.integers(2**63 - 1))
        self.weights = np.ones(1)  # of the embedding, which is X itself: the network propagates

    @training
    def fit(
        self, graph: GraphLike, features: ArrayLike | Sparse, labels: ArrayLike, train: ArrayLike, *,
        classes: ArrayLike | None = None, progress: ProgressCallback | None = None,
    ) -> GraphNetwork:  # fmt: skip
        """Train: see :meth:`nareg.unlearning.CertifiedGPR.fit`. ``progress`` is called per epoch."""
        data = self._read(graph, features, labels, train, classes)
        inputs = _inputs(data)
        weights = self._trained(inputs, data, progress)
        with self._lock.mutex, interrupts_deferred():
            self._data, self._inputs, self._weights = data, inputs, weights
        return self

    @reading
    def decision(self, nodes: ArrayLike | None = None) -> np.ndarray:
        """Logits (K, C) of these nodes, or all."""
        with torch.no_grad():
            scores: np.ndarray = logits(self._inputs, self._weights).numpy()[self._index(nodes)]
        return scores

    @reading
    def class_of(self, scores: np.ndarray) -> np.ndarray:
        """Class of every row of logits."""
        classes: np.ndarray = self.classes[scores.argmax(axis=1)]
        return classes

    @reading
    def decision_on(self, graph: GraphLike, features: ArrayLike | Sparse) -> np.ndarray:
        """Logits (N, C) of the nodes of another graph."""
        other = graph if isinstance(graph, Graph) else Graph(graph)
        with torch.no_grad():
            X = _arguments.features("features", features, other.n_nodes)
            scores: np.ndarray = logits(NetworkInputs.of(other.adjacency, X), self._weights).numpy()
        return scores

    @reading
    def weights_vector(self) -> np.ndarray:
        """All weights in one vector, (P,)."""
        return np.concatenate([value.numpy().ravel() for value in self._weights])

    @abstractmethod
    def _unlearned(self, before: _State, inputs: NetworkInputs, data: Data, request: Request) -> Weights:
        """The weights after a request, whose data and inputs are given."""

    def _do(self, request: Request) -> NetworkUpdate:
        start, data = time.perf_counter(), self._data
        before = _State(self._inputs, self._weights, data.train.copy(), _targets(data), data.propagation.features[request.gone])
        with data.changed(request) as commit:
            inputs = _inputs(data)
            propagated = time.perf_counter()
            weights = self._unlearned(before, inputs, data, request)
            if not all(bool(torch.isfinite(value).all()) for value in weights):
                raise SolverError(f"{type(self).__name__} diverged, and nothing was changed: take fewer or smaller steps.")
            with interrupts_deferred():
                self._inputs, self._weights = inputs, weights
                commit()
        timings = {"propagation": propagated - start, "training": time.perf_counter() - propagated}
        return NetworkUpdate(request.details["request"], request.count, timings)

    def _trained(self, inputs: NetworkInputs, data: Data, progress: ProgressCallback | None = None) -> Weights:
        """Train from nothing."""
        random = torch.Generator().manual_seed(self._seed)
        n_features, classes = data.n_features, data.classes.size
        weights = (
            _glorot(n_features, self.hidden, random),
            torch.zeros(self.hidden, dtype=torch.float64),
            _glorot(self.hidden, classes, random),
            torch.zeros(classes, dtype=torch.float64),
        )
        for value in weights:
            value.requires_grad_(True)
        optimizer = torch.optim.Adam(weights, lr=self.learning_rate, weight_decay=self.weight_decay)
        index, targets, keep = torch.as_tensor(data.train), _targets(data), None
        for epoch in range(1, self.epochs + 1):
            optimizer.zero_grad()
            if self.dropout:
                uniform = torch.rand((data.n_nodes, self.hidden), generator=random, dtype=torch.float64)
                keep = (uniform >= self.dropout) / (1 - self.dropout)
            loss = torch.nn.functional.cross_entropy(logits(inputs, weights, keep)[index], targets[index])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if progress is not None:
                progress(Progress("training", epoch, self.epochs, epoch / self.epochs, {"loss": float(loss)}))
        return tuple(value.detach() for value in weights)


class RetrainedGCN(GraphNetwork):
    """Trains from nothing at every request, from the same first weights: the reference of the other networks.

    The parameters are those of :class:`GraphNetwork`.

    Examples
    --------
    >>> import nareg, numpy as np
    >>> from experiments._unlearning_network import RetrainedGCN
    >>> data = nareg.datasets.node_classification.synthetic(300, 3, rng=np.random.default_rng(0))
    >>> model = RetrainedGCN(rng=np.random.default_rng(1)).fit(data.graph, data.features, data.labels, np.arange(200))
    >>> model.remove_nodes([3, 4]).count
    2
    """

    def _unlearned(self, before: _State, inputs: NetworkInputs, data: Data, request: Request) -> Weights:
        return self._trained(inputs, data)


@dataclass(frozen=True, eq=False)
class _State:
    """Inputs, weights, training nodes, targets (N,), and features of the nodes that leave, before a request."""

    inputs: NetworkInputs
    weights: Weights
    train: np.ndarray
    targets: torch.Tensor
    leaving: np.ndarray


def _inputs(data: Data) -> NetworkInputs:
    return NetworkInputs.of(data.graph.adjacency(), data.propagation.features)


def _targets(data: Data) -> torch.Tensor:
    """Numbers of the classes (N,); what they are at nodes without a label does not matter."""
    return torch.as_tensor(np.clip(np.searchsorted(data.classes, data.labels), 0, data.classes.size - 1))


def _glorot(rows: int, columns: int, random: torch.Generator) -> torch.Tensor:
    bound = (6 / (rows + columns)) ** 0.5
    return bound * (2 * torch.rand((rows, columns), generator=random, dtype=torch.float64) - 1)


def _csr(matrix: sp.csr_array) -> torch.Tensor:
    return csr_tensor(matrix, torch.float64, torch.device("cpu"))
