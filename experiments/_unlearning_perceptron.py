"""A perceptron that requests train further, as ScaleGUN's deep models: it certifies nothing.

A non-convex model has no unique optimum, and no theorem says how much of the removed data more epochs leave. Beside it
:class:`nareg.unlearning.DeepGPR` has a certificate.
"""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.polynomial import chebyshev

from experiments._gauss_newton import Objective, Parameters, inner, length, over, step
from nareg._core import checks
from nareg._core.interrupts import interrupts_deferred
from nareg._core.process import Noise
from nareg._solvers._torch._device import resolve
from nareg.errors import InputError
from nareg.progress import ProgressCallback
from nareg.typing import ArrayLike, GraphLike, Sparse
from nareg.unlearning._last_layer import EmbeddingPerceptron, train
from nareg.unlearning._locking import reading, training
from nareg.unlearning.data import Data, Request
from nareg.unlearning.forgetting import Forgetting, checked_weights
from nareg.unlearning.propagation.base import Embedding
from nareg.unlearning.propagation.exact import Propagation

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


class TrainedFurther(Forgetting[DeepUpdate]):
    """Generalized PageRank, or Chebyshev polynomials with learned weights (ChebNetII), and a perceptron.

    Requests train all layers further, and certify nothing.

    Parameters
    ----------
    weights
        As in :class:`~nareg.unlearning.CertifiedGPR`; with ``basis="chebyshev"`` only their number.
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
    alpha : float
        Standard deviation of the entries of B in a noise term ``<B, parameters> / n_t``, as the paper adds to deep models.
        ``fit`` draws B, and requests keep it. **It certifies nothing**; 0 by default.
    device : str, optional
        A torch device for Adam; the CPU by default.
    rng : numpy.random.Generator, optional
        ``numpy.random.default_rng(0)`` by default; with ``alpha`` above 0 the operating system seeds the default.
    """

    def __init__(
        self,
        *,
        weights: int | ArrayLike = 2,
        basis: str = "gpr",
        hidden: int = 64,
        dropout: float = 0.5,
        learning_rate: float = 1e-2,
        weight_decay: float = 5e-4,
        update: str = "epochs",
        epochs: int = 200,
        update_epochs: int = 20,
        alpha: float = 0.0,
        device: str | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        super().__init__()
        self.basis = checks.choice("basis", basis, BASES)
        if basis == "chebyshev" and np.ndim(weights):
            raise InputError('weights are given, but basis="chebyshev" learns them: pass their number of steps instead.')
        self.update = checks.choice("update", update, UPDATES)
        self.weights = checked_weights(weights)
        self.hidden, self.epochs = checks.integer("hidden", hidden, low=1), checks.integer("epochs", epochs, low=1)
        self.update_epochs = checks.integer("update_epochs", update_epochs, low=0)
        self.dropout = checks.number("dropout", dropout, low=0, high=1)
        self.learning_rate = checks.number("learning_rate", learning_rate, low=0, strict=True)
        self.weight_decay = checks.number("weight_decay", weight_decay, low=0)
        self.alpha = checks.number("alpha", alpha, low=0)
        self.device = resolve("cpu" if device is None else device)
        self._noise_source = Noise(None if rng is None and self.alpha else checks.generator(rng))

    @training
    def fit(
        self, graph: GraphLike, features: ArrayLike | Sparse, labels: ArrayLike, train: ArrayLike, *,
        classes: ArrayLike | None = None, progress: ProgressCallback | None = None,
    ) -> TrainedFurther:  # fmt: skip
        """Propagate and train: see :meth:`nareg.unlearning.CertifiedGPR.fit`. ``progress`` is called per epoch."""
        data = self._read(graph, features, labels, train, classes)
        network, optimizer, noise = self._trained(*self._task(data), data.classes.size, progress)
        with self._lock.mutex, interrupts_deferred():
            self._data, self._network, self._optimizer, self._noise = data, network, optimizer, noise
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
                self._train(network, optimizer, *self._task(data), self.update_epochs, noise=self._noise)
            after = self._residual(network, data)
            with interrupts_deferred():
                self._network, self._optimizer = network, optimizer
                commit()
        timings = {"propagation": propagated - start, "training": time.perf_counter() - propagated}
        return DeepUpdate(request.details["request"], request.count, before, after, timings)

    @reading
    def decision(self, nodes: ArrayLike | None = None) -> np.ndarray:
        """Scores (K, C) of these nodes, or all."""
        return self._scores(self._data.propagation, self._index(nodes))

    @reading
    def decision_on(self, graph: GraphLike, features: ArrayLike | Sparse) -> np.ndarray:
        """Scores (N, C) of the nodes of another graph, with the features of this one."""
        return self._scores(self._elsewhere(graph, features), slice(None))

    @reading
    def weights_vector(self) -> np.ndarray:
        """Weights of all layers in one vector, (P,)."""
        return np.concatenate([part.detach().cpu().numpy().ravel() for part in self._network.parameters()]).astype(np.float64)

    def _scores(self, propagation: Embedding, nodes: np.ndarray | slice) -> np.ndarray:
        self._network.eval()
        with torch.no_grad():
            scores: np.ndarray = self._network(self._inputs(propagation, nodes)).cpu().numpy()
        return scores

    def _trained(
        self, inputs: torch.Tensor, targets: torch.Tensor, n_classes: int, progress: ProgressCallback | None
    ) -> tuple[PolynomialPerceptron, torch.optim.Optimizer, Parameters]:
        """A perceptron, trained from nothing, and its B."""
        mixing = chebyshev_mixing(self.weights.size) if self.basis == "chebyshev" else None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed())
            network = PolynomialPerceptron(inputs.shape[2], self.hidden, n_classes, self.dropout, mixing)
        network.to(self.device)
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay)
        noise = self._drawn(network)
        self._train(network, optimizer, inputs, targets, self.epochs, progress, noise=noise)
        return network, optimizer, noise

    def _train(
        self, network: torch.nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, targets: torch.Tensor,
        epochs: int, progress: ProgressCallback | None = None, *, noise: Parameters,
    ) -> None:  # fmt: skip
        parameters, slope = dict(network.named_parameters()), over(noise, len(targets))
        train(network, optimizer, inputs, targets, epochs, self._seed(), progress, lambda: inner(slope, parameters))

    def _drawn(self, network: torch.nn.Module) -> Parameters:
        """Normal numbers for every parameter; zeros for alpha 0, which takes none from the generator."""
        parameters = dict(network.named_parameters())
        if not self.alpha:
            return {name: torch.zeros_like(p) for name, p in parameters.items()}
        draws = {name: torch.as_tensor(self._rng.standard_normal(p.shape)).to(p) for name, p in parameters.items()}
        return {name: self.alpha * part for name, part in draws.items()}

    def _seed(self) -> int:
        return int(self._rng.integers(2**63 - 1))

    def _objective(self, network: PolynomialPerceptron, data: Data) -> Objective:
        network.eval()  # no dropout
        return Objective(network, *self._task(data), self.weight_decay, over(self._noise, data.train.size))

    def _residual(self, network: PolynomialPerceptron, data: Data) -> float:
        parameters = {name: p.detach() for name, p in network.named_parameters()}
        return length(self._objective(network, data).gradient(parameters))

    def _newton_step(self, network: PolynomialPerceptron, data: Data) -> None:
        parameters = {name: p.detach() for name, p in network.named_parameters()}
        network.load_state_dict(step(self._objective(network, data), parameters), strict=False)

    def _inputs(self, propagation: Embedding, nodes: np.ndarray | slice) -> torch.Tensor:
        """Z as (1, K, F); for Chebyshev polynomials the powers as (L + 1, K, F)."""
        if self.basis == "gpr":
            rows = propagation.embedding(nodes)[None]
        else:
            assert isinstance(propagation, Propagation)
            rows = propagation.powers(nodes)
        return torch.as_tensor(rows, dtype=torch.float32, device=self.device)

    def _task(self, data: Data) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs of the training nodes, and the numbers of their classes."""
        targets = torch.as_tensor(np.searchsorted(data.classes, data.labels[data.train]), device=self.device)
        return self._inputs(data.propagation, data.train), targets


class PolynomialPerceptron(EmbeddingPerceptron):
    """A perceptron on the embedding, or on a learned polynomial of the powers of P."""

    def __init__(self, n_features: int, hidden: int, n_classes: int, dropout: float, mixing: torch.Tensor | None) -> None:
        super().__init__(n_features, hidden, n_classes, dropout)
        self.gamma = None if mixing is None else torch.nn.Parameter(torch.ones(len(mixing)))
        self.register_buffer("mixing", mixing)

    def forward(self, powers: torch.Tensor) -> torch.Tensor:
        """(L + 1 or 1, K, F) -> (K, C)."""
        if self.gamma is None:
            return super().forward(powers[0])
        mixing = self.mixing
        assert isinstance(mixing, torch.Tensor)
        return super().forward(torch.einsum("l,lkf->kf", mixing @ self.gamma.relu(), powers))


def chebyshev_mixing(count: int) -> torch.Tensor:
    """The (L + 1, L + 1) matrix from gamma to the weights of the powers of P."""
    nodes = np.cos((np.arange(count) + 0.5) * np.pi / count)
    to_powers = np.zeros((count, count))
    for k in range(count):
        series = np.eye(count)[k] * (1 if k == 0 else 2) / count
        values = chebyshev.chebvander(nodes, count - 1)[:, k]  # T_k(x_j)
        powers = chebyshev.cheb2poly(series) * (-1.0) ** np.arange(chebyshev.cheb2poly(series).size)  # T_k(-P)
        to_powers[: powers.size] += np.outer(powers, values)
    return torch.as_tensor(to_powers, dtype=torch.float32)
