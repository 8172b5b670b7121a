"""The perceptron of :class:`~nareg.unlearning.deep.DeepGPR`, and its training by Adam."""

from __future__ import annotations

import numpy as np
import torch
from numpy.polynomial import chebyshev

from nareg.progress import Progress, ProgressCallback
from nareg.unlearning._gauss_newton import Parameters, inner


class EmbeddingPerceptron(torch.nn.Module):
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

    def hidden_layer(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights (F, units) and biases (units,) of the hidden layer, in float64."""
        linear = self.layers[1]
        assert isinstance(linear, torch.nn.Linear)
        weights, biases = (part.detach().cpu().double().numpy() for part in (linear.weight, linear.bias))
        return weights.T.copy(), biases.copy()


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


def train(
    network: EmbeddingPerceptron,
    optimizer: torch.optim.Optimizer,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    epochs: int,
    seed: int,
    progress: ProgressCallback | None = None,
    *,
    slope: Parameters,
) -> None:
    """Full-batch steps on the mean cross-entropy plus ``<slope, parameters>``; torch's global random state is left alone."""
    network.train()
    parameters = dict(network.named_parameters())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for epoch in range(1, epochs + 1):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(network(inputs), targets) + inner(slope, parameters)
            loss.backward()
            optimizer.step()
            if progress is not None:
                progress(Progress("training", epoch, epochs, epoch / epochs, {"loss": float(loss)}))
