"""The message passing of AirGNN (Liu et al. 2021): a residual per node, smaller where a node is unlike its neighbors.

    min_X lam sum_i ||x_i - f_i|| + (1 - lam) tr(X^T (I - A~) X)

A proximal gradient step of length ``1 / (2 (1 - lam))`` propagates, ``Y = A~ X``, and draws every row towards its input:
``x_i = f_i + beta_i (y_i - f_i)`` with ``beta_i = max(1 - lam / (2 (1 - lam) ||y_i - f_i||), 0)``.
"""

from __future__ import annotations

import torch

from nareg._core import checks
from nareg.gnn._last_graph import LastGraph
from nareg.gnn.adjacency import GraphInput
from nareg.gnn.ngc import polynomial


class AdaptiveResidual(torch.nn.Module):
    """Propagation steps of AirGNN on the predictions of a base model.

    Parameters
    ----------
    steps : int
    lam : float
        Weight of the distance to the input against smoothness: 0 propagates alone (``A~^steps``), 1 returns the input.

    References
    ----------
    Liu et al., "Graph Neural Networks with Adaptive Residual", NeurIPS 2021, adaptive message passing.

    Examples
    --------
    A step leaves a node alone that is near its neighbors' mean, and moves one that is far from it:

    >>> import torch, nareg
    >>> from experiments import _gnn_peers as peers
    >>> x = torch.tensor([[1.0], [1.0], [9.0], [9.0]])
    >>> peers.AdaptiveResidual(1, lam=0.5)(x, nareg.graphs.grid((4,))).ravel()
    tensor([1.0000, 3.2416, 7.5076, 8.6742])
    """

    def __init__(self, steps: int = 10, *, lam: float = 0.5) -> None:
        super().__init__()
        self.steps = checks.integer("steps", steps, low=0)
        self.lam = checks.number("lam", lam, low=0, high=1)
        self._last = LastGraph()

    def forward(self, x: torch.Tensor, edge_index: GraphInput) -> torch.Tensor:
        """(N, C) predictions -> (N, C) smoothed ones."""
        adjacency = self._last.get(edge_index, None, x.shape[0], "sym").symmetric
        shrunk = self.lam / (2 * (1 - self.lam)) if self.lam < 1 else float("inf")
        X = x
        for _ in range(self.steps):
            gap = polynomial(adjacency, X, [0.0, 1.0]) - x
            # the smallest square whose root has a finite derivative
            size = gap.square().sum(1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny).sqrt()
            X = x + (size - shrunk).relu() / size * gap
        return X
