"""Defenses against changed edges: two that clean the graph before a GCN, and two robust GCNs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import svds
from torch.nn import functional as F

from nareg._core import checks
from nareg.errors import InputError
from nareg.gnn._operators import TorchSparse
from nareg.gnn.adjacency import Adjacency, csr_tensor
from nareg.gnn.networks import Network, Rows, dropout, reset
from nareg.gnn.ngc import linear
from nareg.gnn.similarity import edge_products, feature_matrix
from nareg.graph import Graph
from nareg.typing import ArrayLike, Sparse


def jaccard(graph: Graph, features: ArrayLike | Sparse, threshold: float = 0.01) -> Graph:
    """The graph without the edges whose ends have a Jaccard similarity below ``threshold`` (Wu et al. 2019).

    Parameters
    ----------
    graph : Graph
    features : (N, F) array or sparse array
        Non-zero features count as present.
    threshold : float
    """
    present = (feature_matrix(graph, features) != 0).astype(np.float64)
    return _pruned(graph, present, lambda common, a, b: common / np.maximum(a + b - common, 1.0), threshold)


def cosine(graph: Graph, features: ArrayLike | Sparse, threshold: float) -> Graph:
    """The graph without the edges whose ends have a cosine similarity below ``threshold``: for features that are not binary."""
    values = feature_matrix(graph, features)
    return _pruned(graph, values, lambda common, a, b: common / np.maximum(np.sqrt(a * b), 1e-300), threshold)


def _pruned(graph: Graph, values: sp.csr_array, similarity: Any, threshold: float) -> Graph:
    threshold = checks.number("threshold", threshold, low=0, high=1)
    rows, columns, common, size = edge_products(graph, values)
    similar = similarity(common, size[rows], size[columns]) >= threshold
    data = graph.adjacency.tocoo().data[similar]
    pruned = sp.csr_array((data, (rows[similar], columns[similar])), shape=graph.adjacency.shape)
    return Graph(pruned, coordinates=graph.coordinates, names=graph.names)


class LowRankGCN(Network):
    """GCN-SVD (Entezari et al. 2020): a GCN on the best approximation of A of a given rank, kept as factors.

    ``D~^-1/2 (U diag(s) V^T + I) D~^-1/2`` with the row sums of the approximation, not below zero, in D~ - I.
    """

    def __init__(self, in_channels: int, out_channels: int, *, rank: int = 10, hidden: int = 16, dropout: float = 0.5) -> None:
        super().__init__()
        self.rank, self.dropout = checks.integer("rank", rank, low=1), dropout
        self.first = torch.nn.Linear(in_channels, hidden)
        self.second = torch.nn.Linear(hidden, out_channels)
        for parameter in self.parameters():
            reset(parameter)

    def prepare(self, adjacency: Adjacency, x: torch.Tensor) -> Any:
        """Features and the factors."""
        if self.rank >= adjacency.n_nodes:
            raise InputError(f"rank is {self.rank} for {adjacency.n_nodes} nodes: it must be smaller.")
        start = np.random.default_rng(0).standard_normal(adjacency.n_nodes)
        U, s, Vt = svds(adjacency.raw, k=self.rank, v0=start)
        degrees = 1 + np.maximum(U @ (s * Vt.sum(axis=1)), 0)
        half = 1 / np.sqrt(degrees)[:, None]
        factors = (half * U * s, half * Vt.T, half**2)
        return x, tuple(torch.as_tensor(f, dtype=x.dtype, device=x.device) for f in factors)

    def forward(self, inputs: Any, rows: Rows) -> torch.Tensor:
        """Outputs of these nodes."""
        x, (left, right, diagonal) = inputs

        def filtered(X: torch.Tensor) -> torch.Tensor:
            return left @ (right.T @ X) + diagonal * X

        hidden = torch.relu(filtered(self.first(dropout(x, self.dropout, self.training))))
        return filtered(self.second(dropout(hidden, self.dropout, self.training)))[rows]

    def decayed(self) -> Sequence[torch.nn.Parameter]:
        """The first layer."""
        return list(self.first.parameters())


class RobustGCN(Network):
    """RobustGCN (Zhu et al. 2019): nodes are Gaussians, and those of large variance get little attention.

    Means go through ``D~^-1/2 (A + I) D~^-1/2``, variances through ``D~^-1 (A + I) D~^-1``, both damped by ``exp(-variance)``;
    outputs are drawn in training, and the first layer is drawn towards the standard normal.
    """

    def __init__(
        self, in_channels: int, out_channels: int, *, hidden: int = 16, dropout: float = 0.6, pull: float = 5e-4
    ) -> None:
        super().__init__()
        self.dropout, self.pull = dropout, pull
        sizes = ((in_channels, hidden), (hidden, out_channels))
        self.means = torch.nn.ModuleList(torch.nn.Linear(a, b, bias=False) for a, b in sizes)
        self.variances = torch.nn.ModuleList(torch.nn.Linear(a, b, bias=False) for a, b in sizes)
        for parameter in self.parameters():
            reset(parameter)
        self._pull: torch.Tensor | float = 0.0

    def prepare(self, adjacency: Adjacency, x: torch.Tensor) -> Any:
        """Features and the two matrices."""
        A = adjacency.symmetric.matrix
        root = sp.diags_array(1 / np.sqrt(adjacency.degrees))
        matrices = (csr_tensor(A, x.dtype, x.device), csr_tensor(root @ A @ root, x.dtype, x.device))
        return x, tuple(TorchSparse(matrix, matrix) for matrix in matrices)

    def forward(self, inputs: Any, rows: Rows) -> torch.Tensor:
        """Outputs of these nodes."""
        x, (by_mean, by_variance) = inputs
        x = dropout(x, self.dropout, self.training)
        mean, variance = F.elu(self.means[0](x)), torch.relu(self.variances[0](x))
        if self.training:
            self._pull = 0.5 * (mean.square() + variance - torch.log(variance + 1e-8) - 1).sum(1).mean()
        mean, variance = self._spread(mean, variance, by_mean, by_variance)
        mean = dropout(mean, self.dropout, self.training)
        variance = dropout(variance, self.dropout, self.training)
        mean, variance = F.elu(self.means[1](mean)), torch.relu(self.variances[1](variance))
        mean, variance = self._spread(mean, variance, by_mean, by_variance)
        drawn = mean + torch.randn_like(mean) * (variance + 1e-8).sqrt() if self.training else mean
        return drawn[rows]

    @staticmethod
    def _spread(
        mean: torch.Tensor, variance: torch.Tensor, by_mean: Any, by_variance: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        attention = torch.exp(-variance)

        def times(op: TorchSparse, X: torch.Tensor) -> torch.Tensor:
            product: torch.Tensor = linear(X, op, lambda M, Z: M.multiply_add(Z, Z, 1.0, 0.0, torch.empty_like(Z)))
            return product

        return times(by_mean, mean * attention), times(by_variance, variance * attention * attention)

    def decayed(self) -> Sequence[torch.nn.Parameter]:
        """The first layer."""
        return [*self.means[0].parameters(), *self.variances[0].parameters()]

    def penalty(self) -> torch.Tensor | float:
        """Divergence of the first layer's Gaussians from the standard one, of the last forward pass in training."""
        pull, self._pull = self._pull, 0.0
        return self.pull * pull
