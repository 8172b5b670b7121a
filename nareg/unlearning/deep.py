"""A perceptron on a lazily propagated embedding, with a certificate.

A non-convex model has no unique optimum, and no theorem says how much of the removed data more epochs leave. A hidden layer
that never saw them holds nothing of them, and the last layer is convex. Needs torch (``pip install 'nareg[torch]'``).
"""

from __future__ import annotations

import time

import numpy as np
import torch

from nareg._core import checks
from nareg._core.interrupts import interrupts_deferred
from nareg._core.process import Noise
from nareg.errors import SolverError
from nareg.io import takes_tables
from nareg.progress import ProgressCallback
from nareg.typing import ArrayLike, GraphLike, Sparse
from nareg.unlearning._last_layer import EmbeddingPerceptron, HiddenLayer, LastLayer, Trainer, checked_hidden_nodes, train
from nareg.unlearning._locking import reading, request, training
from nareg.unlearning.calibration import checked_guarantee
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.data import Data, Request
from nareg.unlearning.forgetting import Forgetting, checked_weights
from nareg.unlearning.propagation.base import Change


class DeepGPR(Forgetting[Certificate]):
    """Generalized PageRank and a perceptron, whose hidden layer is frozen and whose last layer is certified.

    The hidden layer is trained on some training nodes. The last layer is the convex head of
    :class:`~nareg.unlearning.CertifiedGPR` on its units. Each request returns a :class:`~nareg.unlearning.Certificate` for the
    whole model.

    Parameters
    ----------
    weights
        As in :class:`~nareg.unlearning.CertifiedGPR`.
    hidden : int
        Units of the hidden layer.
    dropout, learning_rate, weight_decay : float
    epochs : int
        Full-batch steps of Adam in the training of the hidden layer.
    eps, delta : float
        Of the certificates, as in :class:`~nareg.unlearning.CertifiedGPR`.
    device : str, optional
        A torch device for Adam; the CPU by default.
    rng : numpy.random.Generator, optional
        The operating system seeds the default, as for :class:`~nareg.unlearning.CertifiedGPR`: who knows the seed knows the
        noise term.

    Attributes
    ----------
    hidden_nodes : array
        Training nodes whose data the hidden layer holds.

    Notes
    -----
    - **Hidden layer.** It is trained on features and labels of the hidden nodes M and on the edges within M. No other data
      reach it, not even by propagation or rounding.
    - **Last layer.** It is trained on all training nodes, on rows ``relu(W^T z + b)``, z from the whole graph. Rows longer than
      one are divided by their length. This is a projection: it does not enlarge the rounding error ``||W||_2 ||z - z_hat||``.
      Ridge and noise are those for rows of length one (``FeatureScale(norm=1.0)``).
    - **Requests.** One that leaves features and labels of M and the edges within M as they are takes Newton steps on the last
      layer. Any other trains both layers from nothing on what remains, with new random numbers; its certificate says
      ``retrained``. New nodes do not join M.
    - **What is certified.** Both layers together are (eps, delta)-indistinguishable from those that ``fit`` makes of the
      remaining data and what remains of M. In the first case ``fit`` makes the same hidden layer. Given that layer, the last
      one solves a convex problem (Guo et al. 2020, Theorem 3). The default draws M by coins that do not depend on the data:
      after removals the statement then holds for ``fit`` with the default, too.
    - **What is not.** Choices that you make by looking at the data: M, units, epochs, order, features scaled by statistics of
      all nodes. The number of training nodes at ``fit``, which is in ``alpha``. Several published versions of a model that
      share a noise term: call :meth:`renew` before each. That a request retrained shows that it touched M.

    Examples
    --------
    >>> import nareg, numpy as np
    >>> from nareg.unlearning import DeepGPR
    >>> data = nareg.datasets.node_classification.synthetic(300, 3, rng=np.random.default_rng(0))
    >>> model = DeepGPR(rng=np.random.default_rng(1))
    >>> model = model.fit(data.graph, data.features, data.labels, np.arange(200), hidden_nodes=np.arange(100))
    >>> certificate = model.remove_nodes([150, 250])
    >>> certificate.spent <= certificate.budget, certificate.retrained, model.remove_nodes([3]).retrained
    (True, False, True)
    """

    def __init__(
        self,
        *,
        weights: int | ArrayLike = 2,
        hidden: int = 64,
        dropout: float = 0.5,
        learning_rate: float = 1e-2,
        weight_decay: float = 5e-4,
        epochs: int = 200,
        eps: float = 1.0,
        delta: float = 1e-4,
        device: str | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        from nareg._solvers._torch._device import resolve

        super().__init__()
        self.weights = checked_weights(weights)
        self.hidden, self.epochs = checks.integer("hidden", hidden, low=1), checks.integer("epochs", epochs, low=1)
        self.dropout = checks.number("dropout", dropout, low=0, high=1)
        self.learning_rate = checks.number("learning_rate", learning_rate, low=0, strict=True)
        self.weight_decay = checks.number("weight_decay", weight_decay, low=0)
        self.eps, self.delta = checked_guarantee(eps, delta)
        self.device = resolve("cpu" if device is None else device)
        self._noise_source = Noise(None if rng is None else checks.generator(rng))

    @training
    @takes_tables(rows=("features",))
    def fit(
        self, graph: GraphLike, features: ArrayLike | Sparse, labels: ArrayLike, train: ArrayLike, *,
        classes: ArrayLike | None = None, hidden_nodes: ArrayLike | None = None, progress: ProgressCallback | None = None,
    ) -> DeepGPR:  # fmt: skip
        """Propagate and train: see :meth:`nareg.unlearning.CertifiedGPR.fit`.

        ``hidden_nodes`` (indices or a mask) are the training nodes that train the hidden layer. By default each is one with
        probability 1/2. Without any the units stay random. ``progress`` is called with a :class:`~nareg.progress.Progress` per
        epoch.
        """
        data = self._read(graph, features, labels, train, classes)
        nodes = checked_hidden_nodes(hidden_nodes, data.train, data.n_nodes, self._rng)
        trainer = self._trainer(data, progress)
        last_layer = LastLayer.fitted(data, nodes, trainer, eps=self.eps, delta=self.delta, rng=self._rng)
        with self._lock.mutex, interrupts_deferred():
            self._data, self._last_layer = data, last_layer
        return self

    @property
    @reading
    def hidden_nodes(self) -> np.ndarray:
        """Training nodes whose data the hidden layer holds, in ascending order."""
        return self._last_layer.hidden_nodes(self._data)

    def _do(self, request: Request) -> Certificate:
        start, data, before = time.perf_counter(), self._data, self._last_layer
        retrain = before.holds(request, data)
        with data.changed(request) as commit:
            propagated = time.perf_counter()
            after = before.updated(data, self._trainer(data), self._rng, retrain=retrain, renew=request.retrain)
            timings = {"propagation": propagated - start, "training": time.perf_counter() - propagated}
            name, retrained = request.details["request"], after.head.B is not before.head.B
            certificate = after.training.certificate(data, after.head, name, request.count, timings, retrained=retrained)
            assert certificate is not None
            with interrupts_deferred():
                self._last_layer = after
                commit()
        return certificate

    @request
    def renew(self) -> Certificate:
        """Train the last layer with a new noise term. Do so before you publish another version of the model.

        A noise term that two versions share cancels between their gradients and reveals what was removed. The hidden layer
        stays, which holds nothing of that.
        """
        return self._do(Request({"request": "renew"}, self.remaining.size, Change(), retrain=True))

    @reading
    def decision(self, nodes: ArrayLike | None = None) -> np.ndarray:
        """Scores (K, C) of these nodes, or all; one column for two classes."""
        return self._last_layer.decision(self._data.propagation.embedding(self._index(nodes)))

    @reading
    def decision_on(self, graph: GraphLike, features: ArrayLike | Sparse) -> np.ndarray:
        """Scores (N, C) of the nodes of another graph, with the features of this one; columns as in :meth:`decision`."""
        return self._last_layer.decision(self._elsewhere(graph, features).embedding())

    @reading
    def weights_vector(self) -> np.ndarray:
        """Weights of all layers in one vector, (P,)."""
        return np.concatenate([part.ravel() for part in self._last_layer.parameters()])

    def _trainer(self, data: Data, progress: ProgressCallback | None = None) -> Trainer:
        """A function that trains a hidden layer on embeddings and labels, from nothing."""

        def trained(Z: np.ndarray, labels: np.ndarray) -> HiddenLayer:
            inputs = torch.as_tensor(Z, dtype=torch.float32, device=self.device)
            targets = torch.as_tensor(np.searchsorted(data.classes, labels), device=self.device)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self._seed())
                network = EmbeddingPerceptron(inputs.shape[1], self.hidden, data.classes.size, self.dropout)
            network.to(self.device)
            optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay)
            train(network, optimizer, inputs, targets, self.epochs if len(targets) else 0, self._seed(), progress)
            layer = network.hidden_layer()
            if not (np.isfinite(layer.weights).all() and np.isfinite(layer.biases).all()):
                raise SolverError(
                    f"training diverged at learning_rate {self.learning_rate:g}: pass a smaller one, or smaller features."
                )
            return layer

        return trained

    def _seed(self) -> int:
        return int(self._rng.integers(2**63 - 1))
