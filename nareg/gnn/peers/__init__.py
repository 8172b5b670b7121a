"""Peers of NGC and RNGC, each as a network for :func:`nareg.gnn.training.fit`.

The convolutions are PyTorch Geometric's with ``layers="pyg"``; with ``layers="nareg"`` they are nareg's own, which compute the
same (tests compare them) without a dependency and faster on a CPU. ``layers="auto"`` takes PyTorch Geometric's if installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Literal, TypeAlias

from torch.nn import functional as F

from nareg._core import checks
from nareg.errors import MissingDependencyError
from nareg.gnn.networks import Convolutional, FilteredNetwork, Network, Perceptron, PredictThenPropagate
from nareg.gnn.peers import convolutions
from nareg.gnn.peers.defenses import LowRankGCN, RobustGCN, cosine, jaccard, similarity_weighted
from nareg.gnn.peers.residual import AdaptiveResidual
from nareg.gnn.peers.unfolded import Unfolded

#: Whose convolutions to use.
Layers: TypeAlias = Literal["auto", "nareg", "pyg"]

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


def layers_of(layers: Layers) -> ModuleType:
    """The module whose convolutions are used: "nareg", "pyg", or "auto"."""
    checks.choice("layers", layers, ("auto", "nareg", "pyg"))
    if layers == "nareg":
        return convolutions
    try:
        from nareg.gnn.peers import pyg
    except ModuleNotFoundError as error:
        if error.name != "torch_geometric":
            raise
        if layers == "auto":
            return convolutions
        raise MissingDependencyError("layers='pyg' needs PyTorch Geometric: pip install 'nareg[pyg]'.") from None
    return pyg


def _reach(module: ModuleType) -> int | None:
    """Two steps; PyTorch Geometric's layers compute the degrees themselves and need the whole graph for that."""
    return 2 if module is convolutions else None


def mlp(in_channels: int, out_channels: int, *, hidden: int = 16, dropout: float = 0.5) -> Network:
    """Two layers, no graph."""
    return FilteredNetwork(in_channels, out_channels, hidden=(hidden,), dropout=dropout)


def gcn(in_channels: int, out_channels: int, *, hidden: int = 16, dropout: float = 0.5, layers: Layers = "auto") -> Network:
    """Two graph convolutions (Kipf, Welling 2017)."""
    module = layers_of(layers)
    first, second = module.GCNConv(in_channels, hidden), module.GCNConv(hidden, out_channels)
    return Convolutional(first, second, dropout=dropout, reach=_reach(module))


def gat(
    in_channels: int,
    out_channels: int,
    *,
    hidden: int = 8,
    heads: int = 8,
    out_heads: int = 1,
    dropout: float = 0.6,
    layers: Layers = "auto",
) -> Network:
    """Two layers of attention (Velickovic et al. 2018)."""
    module = layers_of(layers)
    first = module.GATConv(in_channels, hidden, heads=heads, dropout=dropout)
    second = module.GATConv(hidden * heads, out_channels, heads=out_heads, concat=False, dropout=dropout)
    return Convolutional(first, second, activation=F.elu, dropout=dropout, decay_all=True, reach=_reach(module))


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
    layers: Layers = "auto",
) -> Network:
    """Predict, then propagate by personalized PageRank (Gasteiger et al. 2019)."""
    module = layers_of(layers)
    predictor = Perceptron(in_channels, out_channels, (hidden,), dropout)
    return PredictThenPropagate(predictor, module.APPNP(K=order, alpha=alpha))


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
