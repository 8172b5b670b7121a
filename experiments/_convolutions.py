"""The peers' convolutions, with the arguments and the results of PyTorch Geometric's, on nareg's propagation.

They stand in for PyTorch Geometric where it is not installed, and are faster on a CPU (one sparse product instead of a gather
and a scatter per edge). Tests compare them with it, weights copied.
"""

from __future__ import annotations

from typing import Any

import torch

from nareg.gnn import series
from nareg.gnn._last_graph import LastGraph
from nareg.gnn.adjacency import Adjacency, GraphInput
from nareg.gnn.networks import dropout
from nareg.gnn.ngc import polynomial


class GCNConv(torch.nn.Module):
    """``A~ X W + b`` (Kipf, Welling 2017)."""

    def __init__(self, in_channels: int, out_channels: int, bias: bool = True) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(in_channels, out_channels, bias=False)
        self.bias = torch.nn.Parameter(torch.zeros(out_channels)) if bias else None
        torch.nn.init.xavier_uniform_(self.lin.weight)
        self._last = LastGraph()

    def forward(self, x: torch.Tensor, edge_index: GraphInput, edge_weight: torch.Tensor | None = None) -> torch.Tensor:
        """(N, in_channels) -> (N, out_channels)."""
        adjacency = self._last.get(edge_index, edge_weight, x.shape[0], "sym")
        out = polynomial(adjacency, self.lin(x), [0.0, 1.0])
        return out if self.bias is None else out + self.bias


class SGConv(torch.nn.Module):
    """``A~^K X W + b`` (Wu et al. 2019)."""

    def __init__(self, in_channels: int, out_channels: int, K: int = 1, bias: bool = True) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(in_channels, out_channels, bias=bias)
        self.weights = [0.0] * K + [1.0]
        self._last = LastGraph()

    def forward(self, x: torch.Tensor, edge_index: GraphInput, edge_weight: torch.Tensor | None = None) -> torch.Tensor:
        """(N, in_channels) -> (N, out_channels)."""
        out: torch.Tensor = self.lin(self.filtered(x, edge_index, edge_weight))
        return out

    def filtered(self, x: torch.Tensor, edge_index: GraphInput, edge_weight: torch.Tensor | None = None) -> torch.Tensor:
        """The features behind the filter."""
        return polynomial(self._last.get(edge_index, edge_weight, x.shape[0], "sym"), x, self.weights)


class SSGConv(SGConv):
    """``(alpha X + (1-alpha)/K sum_{k=1}^K A~^k X) W + b`` (Zhu, Koniusz 2021)."""

    def __init__(self, in_channels: int, out_channels: int, alpha: float, K: int = 1, bias: bool = True) -> None:
        super().__init__(in_channels, out_channels, K, bias)
        self.weights = [alpha] + [(1 - alpha) / K] * K


class APPNP(torch.nn.Module):
    """``Z <- (1-alpha) A~ Z + alpha X``, K times (Gasteiger et al. 2019)."""

    def __init__(self, K: int, alpha: float) -> None:
        super().__init__()
        self.weights = series.pagerank_weights(alpha, K).tolist()
        self._last = LastGraph()

    def forward(self, x: torch.Tensor, edge_index: GraphInput, edge_weight: torch.Tensor | None = None) -> torch.Tensor:
        """(N, F) -> (N, F)."""
        return polynomial(self._last.get(edge_index, edge_weight, x.shape[0], "sym"), x, self.weights)


class GATConv(torch.nn.Module):
    """Attention over neighbors and the node itself (Velickovic et al. 2018).

    ``alpha_ij = softmax_j LeakyReLU(a_src . W x_j + a_dst . W x_i)`` for every head; heads are joined or averaged.
    """

    def __init__(
        self, in_channels: int, out_channels: int, heads: int = 1, concat: bool = True, dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        self.heads, self.out_channels, self.concat, self.dropout = heads, out_channels, concat, dropout
        self.lin = torch.nn.Linear(in_channels, heads * out_channels, bias=False)
        self.att_src = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self.bias = torch.nn.Parameter(torch.zeros(heads * out_channels if concat else out_channels)) if bias else None
        for parameter in (self.lin.weight, self.att_src, self.att_dst):
            torch.nn.init.xavier_uniform_(parameter)
        self._last = LastGraph()

    def forward(self, x: torch.Tensor, edge_index: GraphInput, edge_weight: torch.Tensor | None = None) -> torch.Tensor:
        """(N, in_channels) -> (N, heads * out_channels) or (N, out_channels); weights of edges do not enter."""
        adjacency = self._last.get(edge_index, None, x.shape[0], "sym")
        rows, columns = _pattern(adjacency, x.device, self._last.derived(adjacency))
        H = self.lin(x).view(-1, self.heads, self.out_channels)
        source, target = (H * self.att_src).sum(-1), (H * self.att_dst).sum(-1)
        score = torch.nn.functional.leaky_relu(source[columns] + target[rows], 0.2)
        attention = dropout(_softmax(score, rows, x.shape[0]), self.dropout, self.training)
        out = torch.zeros_like(H).index_add_(0, rows, H[columns] * attention[:, :, None])
        joined = out.flatten(1) if self.concat else out.mean(1)
        return joined if self.bias is None else joined + self.bias


def _pattern(adjacency: Adjacency, device: torch.device, derived: dict[Any, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Row and column of every entry of A~, rows in order."""
    if device not in derived:
        coo = adjacency.matrix.tocoo()
        derived[device] = tuple(torch.as_tensor(part, dtype=torch.int64, device=device) for part in coo.coords)
    pattern: tuple[torch.Tensor, torch.Tensor] = derived[device]
    return pattern


def _softmax(score: torch.Tensor, rows: torch.Tensor, n: int) -> torch.Tensor:
    """Softmax over the entries of a row."""
    index = rows[:, None].expand_as(score)
    with torch.no_grad():
        peak = torch.full((n, score.shape[1]), -torch.inf, dtype=score.dtype, device=score.device)
        peak.scatter_reduce_(0, index, score, "amax")
    power = (score - peak[rows]).exp()
    total = torch.zeros_like(peak).index_add_(0, rows, power)
    return power / total[rows]
