"""A perceptron on a lazily propagated embedding; a request trains it further or takes a Newton step. It certifies nothing.

To compare with :class:`~nareg.unlearning.CertifiedGPR`: a non-convex model has no unique optimum, and no theorem says how much
of the removed data more epochs leave. Needs torch (``pip install 'nareg[torch]'``).
"""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev

from nareg import _checks
from nareg.errors import InputError, MissingDependencyError
from nareg.progress import Progress, ProgressCallback
from nareg.typing import ArrayLike, GraphLike, Sparse
from nareg.unlearning._interrupts import interrupts_deferred
from nareg.unlearning._locking import reading, training
from nareg.unlearning.data import Data, Request
from nareg.unlearning.forgetting import Forgetting, checked_weights
from nareg.unlearning.propagation.exact import Propagation

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise MissingDependencyError("nareg.unlearning.peers.deep needs torch: pip install 'nareg[torch]'.") from None
from nareg.unlearning.peers._gauss_newton import Objective, length, step

BASES = ("gpr", "chebyshev")
UPDATES = ("epochs", "newton")


@dataclass(frozen=True)
class DeepUpdate:
    """What a request did. No certificate.

    Attributes
    ----------
    request : str
    count : int
        Edges or nodes in it.
    residual_before, residual : float
        Length of the gradient, on what remains, of the mean cross-entropy without dropout plus
        ``weight_decay / 2 ||parameters||^2``: after propagation, and after the update. At an optimum it is 0. Unlike with a
        convex head no theorem turns it into what the parameters still hold of the removed data.
    timings : dict of seconds
        ``"propagation"`` and ``"training"``.
    """

    request: str
    count: int
    residual_before: float
    residual: float
    timings: dict[str, float]


class DeepGPR(Forgetting[DeepUpdate]):
    """Generalized PageRank, or Chebyshev polynomials with learned weights (ChebNetII), and a perceptron. **No certificate.**

    Parameters
    ----------
    order, weights
        As in :class:`~nareg.unlearning.CertifiedGPR`; with ``basis="chebyshev"`` only the order.
    basis : {"gpr", "chebyshev"}
        "chebyshev" is ``sum_k w_k T_k(-P) X``, the polynomial with the learned values gamma at the Chebyshev nodes (He et al.
        2022): ``w_k = 2 / (L + 1) sum_j gamma_j T_k(x_j)``, half of that for k = 0.
    hidden : int
        Units of the hidden layer.
    dropout, learning_rate, weight_decay : float
    update : {"epochs", "newton"}
        What a request does: more epochs, or one step of Newton's method, as the paper's program. As the objective is not
        convex, it is a damped Gauss-Newton step, taken only if it lowers objective and gradient.
    epochs, update_epochs : int
        Full-batch steps of Adam in training, and after a request with ``update="epochs"``.
    device : str, optional
        A torch device; the CPU by default.
    rng : numpy.random.Generator, optional
        ``numpy.random.default_rng(0)`` by default.

    Examples
    --------
    >>> import nareg, numpy as np
    >>> from nareg.unlearning.peers import DeepGPR
    >>> data = nareg.datasets.node_classification.synthetic(300, 3, rng=np.random.default_rng(0))
    >>> model = DeepGPR(rng=np.random.default_rng(1)).fit(data.graph, data.features, data.labels, np.arange(200))
    >>> model.remove_nodes([3, 4]).count
    2
    """

    def __init__(
        self,
        *,
        order: int = 2,
        weights: ArrayLike | None = None,
        basis: str = "gpr",
        hidden: int = 64,
        dropout: float = 0.5,
        learning_rate: float = 1e-2,
        weight_decay: float = 5e-4,
        update: str = "epochs",
        epochs: int = 200,
        update_epochs: int = 20,
        device: str | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        from nareg.gnn.training import checked_device

        super().__init__()
        self.basis = _checks.choice("basis", basis, BASES)
        if basis == "chebyshev" and weights is not None:
            raise InputError('weights are given, but basis="chebyshev" learns them: pass order instead.')
        self.update = _checks.choice("update", update, UPDATES)
        self.weights = checked_weights(order, weights)
        self.hidden, self.epochs = _checks.integer("hidden", hidden, low=1), _checks.integer("epochs", epochs, low=1)
        self.update_epochs = _checks.integer("update_epochs", update_epochs, low=0)
        self.dropout = _checks.number("dropout", dropout, low=0, high=1)
        self.learning_rate = _checks.number("learning_rate", learning_rate, low=0, strict=True)
        self.weight_decay = _checks.number("weight_decay", weight_decay, low=0)
        self.device = checked_device("cpu" if device is None else device)
        self._rng = _checks.generator(rng)

    @training
    def fit(
        self,
        graph: GraphLike,
        features: ArrayLike | Sparse,
        labels: ArrayLike,
        train: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        progress: ProgressCallback | None = None,
    ) -> DeepGPR:
        """Propagate and train: see :meth:`nareg.unlearning.CertifiedGPR.fit`.

        ``progress`` is called with a :class:`~nareg.progress.Progress` per epoch.
        """
        data = self._read(graph, features, labels, train, classes)
        seed = int(self._rng.integers(2**63 - 1))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = _Perceptron(data.n_features, self.hidden, data.classes.size, self.dropout, self._mixing())
        network.to(self.device)
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay)
        self._train(network, optimizer, data, self.epochs, progress)
        with self._lock.mutex, interrupts_deferred():
            self._data, self._network, self._optimizer = data, network, optimizer
        return self

    def _do(self, request: Request) -> DeepUpdate:
        start, data = time.perf_counter(), self._data
        with data.changed(request) as commit:
            propagated = time.perf_counter()
            network, optimizer = deepcopy((self._network, self._optimizer))
            before = self._residual(network, data)
            if self.update == "newton":
                self._newton_step(network, data)
            else:
                self._train(network, optimizer, data, self.update_epochs)
            after = self._residual(network, data)
            with interrupts_deferred():
                self._network, self._optimizer = network, optimizer
                commit()
        timings = {"propagation": propagated - start, "training": time.perf_counter() - propagated}
        return DeepUpdate(request.details["request"], request.count, before, after, timings)

    @reading
    def decision(self, nodes: ArrayLike | None = None) -> np.ndarray:
        """Scores (K, C) of these nodes, or all."""
        inputs = self._inputs(self._data, self._index(nodes))
        self._network.eval()
        with torch.no_grad():
            scores: np.ndarray = self._network(inputs).cpu().numpy()
        return scores

    def _train(
        self,
        network: _Perceptron,
        optimizer: torch.optim.Optimizer,
        data: Data,
        epochs: int,
        progress: ProgressCallback | None = None,
    ) -> None:
        nodes = data.train
        inputs = self._inputs(data, nodes)
        targets = torch.as_tensor(np.searchsorted(data.classes, data.labels[nodes]), device=self.device)
        network.train()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(self._rng.integers(2**63 - 1)))
            for epoch in range(1, epochs + 1):
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(network(inputs), targets)
                loss.backward()
                optimizer.step()
                if progress is not None:
                    progress(Progress("training", epoch, epochs, epoch / epochs, {"loss": float(loss)}))

    def _objective(self, network: _Perceptron, data: Data) -> Objective:
        nodes = data.train
        targets = torch.as_tensor(np.searchsorted(data.classes, data.labels[nodes]), device=self.device)
        network.eval()  # no dropout
        return Objective(network, self._inputs(data, nodes), targets, self.weight_decay)

    def _residual(self, network: _Perceptron, data: Data) -> float:
        parameters = {name: p.detach() for name, p in network.named_parameters()}
        return length(self._objective(network, data).gradient(parameters))

    def _newton_step(self, network: _Perceptron, data: Data) -> None:
        parameters = {name: p.detach() for name, p in network.named_parameters()}
        network.load_state_dict(step(self._objective(network, data), parameters), strict=False)

    def _inputs(self, data: Data, nodes: np.ndarray | slice) -> torch.Tensor:
        """Z as (1, K, F); for Chebyshev polynomials the powers as (L + 1, K, F)."""
        propagation = data.propagation
        if self.basis == "gpr":
            rows = propagation.embedding(nodes)[None]
        else:
            assert isinstance(propagation, Propagation)
            rows = propagation.powers(nodes)
        return torch.as_tensor(rows, dtype=torch.float32, device=self.device)

    def _mixing(self) -> torch.Tensor | None:
        """The (L + 1, L + 1) matrix from gamma to the weights of the powers of P."""
        if self.basis == "gpr":
            return None
        count = self.weights.size
        nodes = np.cos((np.arange(count) + 0.5) * np.pi / count)
        to_powers = np.zeros((count, count))
        for k in range(count):
            series = np.eye(count)[k] * (1 if k == 0 else 2) / count
            values = chebyshev.chebvander(nodes, count - 1)[:, k]  # T_k(x_j)
            powers = chebyshev.cheb2poly(series) * (-1.0) ** np.arange(chebyshev.cheb2poly(series).size)  # T_k(-P)
            to_powers[: powers.size] += np.outer(powers, values)
        return torch.as_tensor(to_powers, dtype=torch.float32)


class _Perceptron(torch.nn.Module):
    """Dropout, a hidden layer, dropout, classes; with ``mixing`` a learned polynomial before it."""

    def __init__(self, n_features: int, hidden: int, n_classes: int, dropout: float, mixing: torch.Tensor | None) -> None:
        super().__init__()
        self.gamma = None if mixing is None else torch.nn.Parameter(torch.ones(len(mixing)))
        self.register_buffer("mixing", mixing)
        self.layers = torch.nn.Sequential(
            torch.nn.Dropout(dropout), torch.nn.Linear(n_features, hidden), torch.nn.ReLU(), torch.nn.Dropout(dropout),
            torch.nn.Linear(hidden, n_classes),
        )  # fmt: skip

    def forward(self, powers: torch.Tensor) -> torch.Tensor:
        """(L + 1 or 1, K, F) -> (K, C)."""
        if self.gamma is None:
            Z = powers[0]
        else:
            mixing = self.mixing
            assert isinstance(mixing, torch.Tensor)
            Z = torch.einsum("l,lkf->kf", mixing @ self.gamma.relu(), powers)
        scores: torch.Tensor = self.layers(Z)
        return scores
