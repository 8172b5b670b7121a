"""Peers of NGC and RNGC, each as a network for :func:`nareg.gnn.training.fit`.

The convolutions compute what PyTorch Geometric's compute (tests compare them), without a dependency and faster on a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch.nn import functional as F

from experiments._convolutions import APPNP, GATConv, GCNConv
from experiments._defenses import LowRankGCN, RobustGCN, cosine, jaccard
from experiments._residual import AdaptiveResidual
from experiments._unfolded import Unfolded
from nareg._core import checks
from nareg.gnn.adjacency import Adjacency
from nareg.gnn.networks import FilteredNetwork, Network, Perceptron, Rows, dropout
from nareg.gnn.similarity import similarity_weighted

__all__ = [
    "AdaptiveResidual",
    "LowRankGCN",
    "RobustGCN",
    "Unfolded",
    "airgnn",
    "appnp",
    "cosine",
    "gat",
    "gcn",
    "glp",
    "jaccard",
    "mlp",
    "sgc",
    "similarity_weighted",
    "ssgc",
    "twirls",
]


class Neighborhood(Adjacency):
    """Rows and columns of A~ that belong to some nodes, divided by the degrees in the whole graph: for products only."""

    def __init__(self, whole: Adjacency, nodes: np.ndarray) -> None:
        self.normalization, self.degrees, self._formats = whole.normalization, whole.degrees[nodes], {}
        self.raw, self.matrix = (sp.csr_array(m[nodes][:, nodes]) for m in (whole.raw, whole.matrix))


def within(adjacency: Adjacency, nodes: np.ndarray, hops: int) -> np.ndarray:
    """Nodes within so many steps of the given ones, in order: those that as many products with A~ use."""
    reached = np.zeros(adjacency.n_nodes, dtype=bool)
    reached[nodes] = True
    for _ in range(hops):
        reached |= adjacency.matrix @ reached > 0
    return np.flatnonzero(reached)


class Convolutional(Network):
    """Two convolutions with an activation and dropout between: GCN, GAT.

    ``reach`` is the number of steps along edges that an output depends on, if it is small: training then looks at the
    neighborhood of each part alone, which changes nothing but the time.
    """

    def __init__(
        self,
        first: torch.nn.Module,
        second: torch.nn.Module,
        *,
        activation: Any = F.relu,
        dropout: float = 0.5,
        decay_all: bool = False,
        reach: int | None = None,
    ) -> None:
        super().__init__()
        self.first, self.second, self.activation = first, second, activation
        self.dropout = checks.number("dropout", dropout, low=0, high=1)
        self.decay_all, self.reach = decay_all, reach

    def forward(self, inputs: Any, rows: Rows) -> torch.Tensor:
        """Outputs of these nodes."""
        x, graph = inputs
        hidden = self.activation(self.first(dropout(x, self.dropout, self.training), graph))
        out: torch.Tensor = self.second(dropout(hidden, self.dropout, self.training), graph)
        return out[rows]

    def views(self, adjacency: Adjacency, x: torch.Tensor, parts: Sequence[np.ndarray]) -> list[tuple[Any, Rows]]:
        """The neighborhood of each part, where the network does not reach far."""
        if self.reach is None:
            return super().views(adjacency, x, parts)
        views: list[tuple[Any, Rows]] = []
        for nodes in parts:
            near = within(adjacency, nodes, self.reach)
            inputs = self.prepare(Neighborhood(adjacency, near), x[torch.as_tensor(near, device=x.device)])
            views.append((inputs, torch.as_tensor(np.searchsorted(near, nodes), device=x.device)))
        return views

    def decayed(self) -> Sequence[torch.nn.Parameter]:
        """The first layer (Kipf, Welling 2017), or all."""
        return list((self if self.decay_all else self.first).parameters())


class PredictThenPropagate(Network):
    """A perceptron, then a graph filter of its outputs: APPNP, unfolded networks, node-adaptive ones."""

    def __init__(self, predictor: Perceptron, filter_: torch.nn.Module, *, decay_all: bool = False) -> None:
        super().__init__()
        self.predictor, self.filter, self.decay_all = predictor, filter_, decay_all

    def forward(self, inputs: Any, rows: Rows) -> torch.Tensor:
        """Outputs of these nodes."""
        x, graph = inputs
        out: torch.Tensor = self.filter(self.predictor(x), graph)
        return out[rows]

    def decayed(self) -> Sequence[torch.nn.Parameter]:
        """The first layer, or the whole predictor; never the filter's own weights."""
        return list((self.predictor if self.decay_all else self.predictor.layers[0]).parameters())


def mlp(in_channels: int, out_channels: int, *, hidden: int = 16, dropout: float = 0.5) -> Network:
    """Two layers, no graph."""
    return FilteredNetwork(in_channels, out_channels, hidden=(hidden,), dropout=dropout)


def gcn(in_channels: int, out_channels: int, *, hidden: int = 16, dropout: float = 0.5) -> Network:
    """Two graph convolutions (Kipf, Welling 2017)."""
    first, second = GCNConv(in_channels, hidden), GCNConv(hidden, out_channels)
    return Convolutional(first, second, dropout=dropout, reach=2)


def gat(
    in_channels: int,
    out_channels: int,
    *,
    hidden: int = 8,
    heads: int = 8,
    out_heads: int = 1,
    dropout: float = 0.6,
) -> Network:
    """Two layers of attention (Velickovic et al. 2018)."""
    first = GATConv(in_channels, hidden, heads=heads, dropout=dropout)
    second = GATConv(hidden * heads, out_channels, heads=out_heads, concat=False, dropout=dropout)
    return Convolutional(first, second, activation=F.elu, dropout=dropout, decay_all=True, reach=2)


def sgc(in_channels: int, out_channels: int, *, order: int = 2) -> Network:
    """A linear classifier behind ``A~^K`` (Wu et al. 2019)."""
    order = checks.integer("order", order, low=0)
    return FilteredNetwork(in_channels, out_channels, weights=[0.0] * order + [1.0])


def ssgc(in_channels: int, out_channels: int, *, order: int = 16, alpha: float = 0.05) -> Network:
    """A linear classifier behind the mean of the powers of A~, and alpha of the features themselves (Zhu, Koniusz 2021)."""
    order, alpha = checks.integer("order", order, low=1), checks.number("alpha", alpha, low=0, high=1)
    return FilteredNetwork(in_channels, out_channels, weights=[alpha] + [(1 - alpha) / order] * order)


def appnp(
    in_channels: int,
    out_channels: int,
    *,
    order: int = 10,
    alpha: float = 0.1,
    hidden: int = 64,
    dropout: float = 0.5,
) -> Network:
    """Predict, then propagate by personalized PageRank (Gasteiger et al. 2019)."""
    predictor = Perceptron(in_channels, out_channels, (hidden,), dropout)
    return PredictThenPropagate(predictor, APPNP(K=order, alpha=alpha))


def airgnn(
    in_channels: int,
    out_channels: int,
    *,
    steps: int = 10,
    lam: float = 0.5,
    hidden: int = 64,
    dropout: float = 0.8,
) -> Network:
    """AirGNN (Liu et al. 2021): predict, then the steps of :class:`AdaptiveResidual`."""
    predictor = Perceptron(in_channels, out_channels, (hidden,), dropout)
    return PredictThenPropagate(predictor, AdaptiveResidual(steps, lam=lam), decay_all=True)


def glp(in_channels: int, out_channels: int, *, lam: float = 10.0, hidden: int = 16, dropout: float = 0.5) -> Network:
    """A perceptron behind the auto-regressive filter ``(I + lam L~)^-1`` (Li et al. 2019): NGC's filter without truncation."""
    return FilteredNetwork(in_channels, out_channels, hidden=(hidden,), dropout=dropout, lam=lam, solver="chebyshev")


def twirls(
    in_channels: int, out_channels: int, *, hidden: Sequence[int] = (), dropout: float = 0.8, **settings: Any
) -> Network:
    """TWIRLS / IRLS (Yang et al. 2021): predict, then the unfolded steps of :class:`Unfolded`, which takes the settings."""
    predictor = Perceptron(in_channels, out_channels, hidden, dropout)
    return PredictThenPropagate(predictor, Unfolded(**settings), decay_all=True)
