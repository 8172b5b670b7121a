"""A perceptron on a lazily propagated embedding: without a certificate, or with one for what its last layer holds.

A non-convex model has no unique optimum, and no theorem says how much of the removed data more epochs leave. A hidden layer
that never saw them holds nothing of them, and the last layer is convex. Needs torch (``pip install 'nareg[torch]'``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch

from nareg._core import checks
from nareg.errors import InputError, SolverError
from nareg.graph import Graph
from nareg.progress import ProgressCallback
from nareg.typing import ArrayLike, GraphLike, Sparse
from nareg.unlearning import _arguments
from nareg.unlearning._gauss_newton import Objective, Parameters, length, over, step
from nareg.unlearning._hidden_layer import HiddenLayer
from nareg.unlearning._interrupts import interrupts_deferred
from nareg.unlearning._last_layer import LastLayer, checked_hidden_nodes
from nareg.unlearning._locking import reading, request, training
from nareg.unlearning._noise import Noise
from nareg.unlearning._perceptron import EmbeddingPerceptron, chebyshev_mixing, train
from nareg.unlearning.calibration import checked_guarantee
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.data import Data, Request
from nareg.unlearning.forgetting import Forgetting, checked_weights
from nareg.unlearning.propagation.base import Change, Embedding
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.propagation.exact import Propagation

BASES = ("gpr", "chebyshev")
UPDATES = ("epochs", "newton")
HEADS = ("all", "last-layer")


@dataclass(frozen=True)
class DeepUpdate:
    """What a request did with ``head="all"``. No certificate.

    Attributes
    ----------
    request : str
    count : int
        Edges or nodes in it.
    residual_before, residual : float
        Length of the gradient, on what remains, of the mean cross-entropy without dropout plus
        ``weight_decay / 2 ||parameters||^2`` and the noise term: after propagation, and after the update. At an optimum it is
        0. Unlike with a convex head no theorem turns it into what the parameters still hold of the removed data.
    timings : dict of seconds
        ``"propagation"`` and ``"training"``.
    """

    request: str
    count: int
    residual_before: float
    residual: float
    timings: dict[str, float]


class DeepGPR(Forgetting[DeepUpdate | Certificate]):
    """Generalized PageRank, or Chebyshev polynomials with learned weights (ChebNetII), and a perceptron.

    Requests train all layers further, and certify nothing. With ``head="last-layer"`` the hidden layer is trained on some
    training nodes, and frozen. The last layer is the convex head of :class:`~nareg.unlearning.CertifiedGPR` on its units, and
    each request returns a :class:`~nareg.unlearning.Certificate` for the whole model.

    Parameters
    ----------
    order, weights
        As in :class:`~nareg.unlearning.CertifiedGPR`; with ``basis="chebyshev"`` only the order.
    basis : {"gpr", "chebyshev"}
        "chebyshev" is ``sum_k w_k T_k(-P) X``, the polynomial with the learned values gamma at the Chebyshev nodes (He et al.
        2022): ``w_k = 2 / (L + 1) sum_j gamma_j T_k(x_j)``, half of that for k = 0.
    hidden : int
        Units of the hidden layer.
    head : {"all", "last-layer"}
        What a request trains. **Only "last-layer" certifies.**
    dropout, learning_rate, weight_decay : float
    update : {"epochs", "newton"}
        What a request does with ``head="all"``: more epochs, or one step of Newton's method, as the paper's program. As the
        objective is not convex, it is a damped Gauss-Newton step, taken only if it lowers objective and gradient.
    epochs, update_epochs : int
        Full-batch steps of Adam in training, and after a request with ``update="epochs"``.
    alpha : float
        With ``head="all"``: standard deviation of the entries of B in a noise term ``<B, parameters> / n_t``, as the paper adds
        to deep models. ``fit`` draws B, and requests keep it. **It certifies nothing**; 0 by default.
    eps, delta : float
        Of the certificates, as in :class:`~nareg.unlearning.CertifiedGPR`.
    device : str, optional
        A torch device for Adam; the CPU by default.
    rng : numpy.random.Generator, optional
        ``numpy.random.default_rng(0)`` by default. With a noise term (``head="last-layer"``, or ``alpha`` above 0) the
        operating system seeds the default, as for :class:`~nareg.unlearning.CertifiedGPR`: who knows the seed knows the term.

    Attributes
    ----------
    hidden_nodes : array
        Training nodes whose data the hidden layer holds.

    Notes
    -----
    With ``head="last-layer"``:

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
    >>> from nareg.unlearning.deep import DeepGPR
    >>> data = nareg.datasets.node_classification.synthetic(300, 3, rng=np.random.default_rng(0))
    >>> model = DeepGPR(head="last-layer", rng=np.random.default_rng(1))
    >>> model = model.fit(data.graph, data.features, data.labels, np.arange(200), hidden_nodes=np.arange(100))
    >>> certificate = model.remove_nodes([150, 250])
    >>> certificate.spent <= certificate.budget, certificate.retrained, model.remove_nodes([3]).retrained
    (True, False, True)
    """

    def __init__(
        self,
        *,
        order: int = 2,
        weights: ArrayLike | None = None,
        basis: str = "gpr",
        hidden: int = 64,
        head: str = "all",
        dropout: float = 0.5,
        learning_rate: float = 1e-2,
        weight_decay: float = 5e-4,
        update: str = "epochs",
        epochs: int = 200,
        update_epochs: int = 20,
        alpha: float = 0.0,
        eps: float = 1.0,
        delta: float = 1e-4,
        device: str | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        from nareg.gnn.training import checked_device

        super().__init__()
        self.basis, self.head = checks.choice("basis", basis, BASES), checks.choice("head", head, HEADS)
        if basis == "chebyshev" and weights is not None:
            raise InputError('weights are given, but basis="chebyshev" learns them: pass order instead.')
        if basis == "chebyshev" and head == "last-layer":
            raise InputError('head is "last-layer", but basis="chebyshev" learns weights from all nodes: pass basis="gpr".')
        self.update = checks.choice("update", update, UPDATES)
        self.weights = checked_weights(order, weights)
        self.hidden, self.epochs = checks.integer("hidden", hidden, low=1), checks.integer("epochs", epochs, low=1)
        self.update_epochs = checks.integer("update_epochs", update_epochs, low=0)
        self.dropout = checks.number("dropout", dropout, low=0, high=1)
        self.learning_rate = checks.number("learning_rate", learning_rate, low=0, strict=True)
        self.weight_decay = checks.number("weight_decay", weight_decay, low=0)
        self.alpha = checks.number("alpha", alpha, low=0)
        if self.alpha and head == "last-layer":
            raise InputError(f'alpha is {self.alpha:g}, but with head="last-layer" fit chooses it: leave it out.')
        self.eps, self.delta = checked_guarantee(eps, delta)
        self.device = checked_device("cpu" if device is None else device)
        secret = rng is None and (head == "last-layer" or self.alpha > 0)
        self._noise_source = Noise(None if secret else checks.generator(rng))

    @training
    def fit(
        self,
        graph: GraphLike,
        features: ArrayLike | Sparse,
        labels: ArrayLike,
        train: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        hidden_nodes: ArrayLike | None = None,
        progress: ProgressCallback | None = None,
    ) -> DeepGPR:
        """Propagate and train: see :meth:`nareg.unlearning.CertifiedGPR.fit`.

        ``hidden_nodes`` (indices or a mask, with ``head="last-layer"``) are the training nodes that train the hidden layer. By
        default each is one with probability 1/2. Without any the units stay random. ``progress`` is called with a
        :class:`~nareg.progress.Progress` per epoch.
        """
        if hidden_nodes is not None and self.head == "all":
            raise InputError('hidden_nodes is given, but head="all" trains on all nodes: pass head="last-layer".')
        data = self._read(graph, features, labels, train, classes)
        if self.head == "last-layer":
            nodes = checked_hidden_nodes(hidden_nodes, data.train, data.n_nodes, self._rng)
            trainer = self._trainer(data, progress)
            last_layer = LastLayer.fitted(data, nodes, trainer, eps=self.eps, delta=self.delta, rng=self._rng)
            with self._lock.mutex, interrupts_deferred():
                self._data, self._last_layer = data, last_layer
            return self
        network, optimizer, noise = self._trained(*self._task(data), data.classes.size, progress, alpha=self.alpha)
        with self._lock.mutex, interrupts_deferred():
            self._data, self._network, self._optimizer, self._noise = data, network, optimizer, noise
        return self

    @property
    @reading
    def hidden_nodes(self) -> np.ndarray:
        """Training nodes whose data the hidden layer holds, in ascending order."""
        return self.train if self.head == "all" else self._last_layer.hidden_nodes(self._data)

    def _do(self, request: Request) -> DeepUpdate | Certificate:
        return self._train_further(request) if self.head == "all" else self._certify(request)

    def _certify(self, request: Request) -> Certificate:
        start, data, before = time.perf_counter(), self._data, self._last_layer
        retrain = before.holds(request, data)
        with data.changed(request) as commit:
            propagated = time.perf_counter()
            after = before.updated(data, self._trainer(data), self._rng, retrain=retrain, renew=request.retrain)
            timings = {"propagation": propagated - start, "training": time.perf_counter() - propagated}
            certificate = after.certificate(data, request, timings, retrained=after.head.B is not before.head.B)
            with interrupts_deferred():
                self._last_layer = after
                commit()
        return certificate

    @request
    def renew(self) -> Certificate:
        """Train the last layer with a new noise term. Do so before you publish another version of the model.

        A noise term that two versions share cancels between their gradients and reveals what was removed. The hidden layer
        stays, which holds nothing of that. For ``head="last-layer"``.
        """
        if self.head == "all":
            raise InputError('renew needs a noise term, which head="all" has not: pass head="last-layer".')
        return self._certify(Request({"request": "renew"}, self.remaining.size, Change(), retrain=True))

    def _train_further(self, request: Request) -> DeepUpdate:
        start, data = time.perf_counter(), self._data
        with data.changed(request) as commit:
            propagated = time.perf_counter()
            network, optimizer = deepcopy((self._network, self._optimizer))
            before = self._residual(network, data)
            if self.update == "newton":
                self._newton_step(network, data)
            else:
                train(network, optimizer, *self._task(data), self.update_epochs, self._seed(), slope=self._slope(data))
            after = self._residual(network, data)
            with interrupts_deferred():
                self._network, self._optimizer = network, optimizer
                commit()
        timings = {"propagation": propagated - start, "training": time.perf_counter() - propagated}
        return DeepUpdate(request.details["request"], request.count, before, after, timings)

    @reading
    def decision(self, nodes: ArrayLike | None = None) -> np.ndarray:
        """Scores (K, C) of these nodes, or all; one column for two classes with ``head="last-layer"``."""
        return self._scores(self._data.propagation, self._index(nodes))

    @reading
    def decision_on(self, graph: GraphLike, features: ArrayLike | Sparse) -> np.ndarray:
        """Scores (N, C) of the nodes of another graph, with the features of this one; columns as in :meth:`decision`."""
        other = LiveGraph(graph if isinstance(graph, Graph) else Graph(graph))
        X = _arguments.features("features", features, other.n_nodes)
        if X.shape[1] != self._data.n_features:
            raise InputError(
                f"features has {X.shape[1]} columns but the model was fitted to {self._data.n_features}: pass as many."
            )
        return self._scores(Propagation(other, X, self.weights, np.arange(1)), slice(None))

    @reading
    def weights_vector(self) -> np.ndarray:
        """Weights of all layers in one vector, (P,)."""
        if self.head == "last-layer":
            return np.concatenate([part.ravel() for part in self._last_layer.parameters()])
        return np.concatenate([part.detach().cpu().numpy().ravel() for part in self._network.parameters()]).astype(np.float64)

    def _scores(self, propagation: Embedding, nodes: np.ndarray | slice) -> np.ndarray:
        if self.head == "last-layer":
            return self._last_layer.decision(propagation.embedding(nodes))
        self._network.eval()
        with torch.no_grad():
            scores: np.ndarray = self._network(self._inputs(propagation, nodes)).cpu().numpy()
        return scores

    def _trained(
        self, inputs: torch.Tensor, targets: torch.Tensor, n_classes: int, progress: ProgressCallback | None, *, alpha: float
    ) -> tuple[EmbeddingPerceptron, torch.optim.Optimizer, Parameters]:
        """A perceptron, trained from nothing, and its B; a random one without targets."""
        mixing = chebyshev_mixing(self.weights.size) if self.basis == "chebyshev" else None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed())
            network = EmbeddingPerceptron(inputs.shape[2], self.hidden, n_classes, self.dropout, mixing)
        network.to(self.device)
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay)
        noise = self._drawn(network, alpha)
        epochs, slope = self.epochs if len(targets) else 0, over(noise, max(len(targets), 1))
        train(network, optimizer, inputs, targets, epochs, self._seed(), progress, slope=slope)
        return network, optimizer, noise

    def _drawn(self, network: EmbeddingPerceptron, alpha: float) -> Parameters:
        """Normal numbers for every parameter; zeros for alpha 0, which takes none from the generator."""
        parameters = dict(network.named_parameters())
        if not alpha:
            return {name: torch.zeros_like(p) for name, p in parameters.items()}
        return {name: alpha * torch.as_tensor(self._rng.standard_normal(p.shape)).to(p) for name, p in parameters.items()}

    def _trainer(self, data: Data, progress: ProgressCallback | None = None) -> Callable[[np.ndarray, np.ndarray], HiddenLayer]:
        """A function that trains a hidden layer on embeddings and labels."""

        def trained(Z: np.ndarray, labels: np.ndarray) -> HiddenLayer:
            targets = torch.as_tensor(np.searchsorted(data.classes, labels), device=self.device)
            network, *_ = self._trained(self._tensor(Z[None]), targets, data.classes.size, progress, alpha=0.0)
            layer = HiddenLayer(*network.hidden_layer())
            if not (np.isfinite(layer.weights).all() and np.isfinite(layer.biases).all()):
                raise SolverError(
                    f"training diverged at learning_rate {self.learning_rate:g}: pass a smaller one, or smaller features."
                )
            return layer

        return trained

    def _seed(self) -> int:
        return int(self._rng.integers(2**63 - 1))

    def _objective(self, network: EmbeddingPerceptron, data: Data) -> Objective:
        network.eval()  # no dropout
        return Objective(network, *self._task(data), self.weight_decay, self._slope(data))

    def _slope(self, data: Data) -> Parameters:
        """Gradient of the noise term."""
        return over(self._noise, data.train.size)

    def _residual(self, network: EmbeddingPerceptron, data: Data) -> float:
        parameters = {name: p.detach() for name, p in network.named_parameters()}
        return length(self._objective(network, data).gradient(parameters))

    def _newton_step(self, network: EmbeddingPerceptron, data: Data) -> None:
        parameters = {name: p.detach() for name, p in network.named_parameters()}
        network.load_state_dict(step(self._objective(network, data), parameters), strict=False)

    def _inputs(self, propagation: Embedding, nodes: np.ndarray | slice) -> torch.Tensor:
        """Z as (1, K, F); for Chebyshev polynomials the powers as (L + 1, K, F)."""
        if self.basis == "gpr":
            rows = propagation.embedding(nodes)[None]
        else:
            assert isinstance(propagation, Propagation)
            rows = propagation.powers(nodes)
        return self._tensor(rows)

    def _task(self, data: Data) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs of the training nodes, and the numbers of their classes."""
        targets = torch.as_tensor(np.searchsorted(data.classes, data.labels[data.train]), device=self.device)
        return self._inputs(data.propagation, data.train), targets

    def _tensor(self, rows: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(rows, dtype=torch.float32, device=self.device)
