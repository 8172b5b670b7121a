"""PyTorch Geometric's convolutions, taking a prepared adjacency; imported only when they are asked for."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric import nn

from nareg.errors import InputError
from nareg.gnn.adjacency import Adjacency


class _OnAdjacency(torch.nn.Module):
    """A convolution of PyTorch Geometric that is given ``edge_index`` and, where it takes them, the weights of the edges."""

    def __init__(self, convolution: torch.nn.Module, *, weighted: bool = True) -> None:
        super().__init__()
        self.convolution, self.weighted = convolution, weighted

    def forward(self, x: torch.Tensor, adjacency: Adjacency) -> torch.Tensor:
        """(N, in_channels) -> (N, out_channels)."""
        if not adjacency.is_symmetric:
            raise InputError("layers='pyg' normalize A~ symmetrically: prepare the adjacency with normalization='sym'.")
        index, weight = adjacency.edge_index(x.dtype, x.device)
        out: torch.Tensor = self.convolution(x, index, weight) if self.weighted else self.convolution(x, index)
        return out


def GCNConv(*arguments: Any, **options: Any) -> _OnAdjacency:
    """Graph convolution."""
    return _OnAdjacency(nn.GCNConv(*arguments, **options))


def GATConv(*arguments: Any, **options: Any) -> _OnAdjacency:
    """Attention; weights of edges do not enter."""
    return _OnAdjacency(nn.GATConv(*arguments, **options), weighted=False)


def APPNP(*arguments: Any, **options: Any) -> _OnAdjacency:
    """Personalized PageRank."""
    return _OnAdjacency(nn.APPNP(*arguments, **options))
