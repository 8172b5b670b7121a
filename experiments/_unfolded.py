"""The unfolded network of Yang et al. 2021 (TWIRLS, also called IRLS): gradient steps on a graph energy as layers.

    min_Y ||Y - f(X; W)||_F^2 + lam sum_edges a_ij rho(||y_i - y_j||^2)

Preconditioned by ``D~ = lam D + I`` a step of length alpha is ``Y <- (1-alpha) Y + alpha D~^-1 (lam A Y + f)``; without
attention (rho the identity) the limit is ``(I + lam (D - A))^-1 f``. With attention the edges are reweighted by rho' half way:
one while the ends are within tau, ``(z / tau)^(p-2)`` beyond, nothing beyond ``cut``.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from nareg._core import checks
from nareg._solvers._torch._device import Linear
from nareg.gnn._last_graph import LastGraph
from nareg.gnn._operators import TorchSparse
from nareg.gnn.adjacency import Adjacency, GraphInput, csr_tensor


class Unfolded(torch.nn.Module):
    """Propagation steps of TWIRLS on the predictions of a base model.

    Parameters
    ----------
    steps : int
    lam, alpha : float
        Strength, and length of a step (1: the preconditioned fixed-point iteration).
    attention : bool
        Reweight edges after the first half of the steps.
    p, tau, cut : float
        Power of the penalty (1: robust), the distance at which it begins, and the distance at which an edge is dropped.
    """

    def __init__(
        self,
        steps: int = 16,
        *,
        lam: float = 1.0,
        alpha: float = 1.0,
        attention: bool = False,
        p: float = 1.0,
        tau: float = 0.1,
        cut: float = float("inf"),
    ) -> None:
        super().__init__()
        self.steps = checks.integer("steps", steps, low=0)
        self.lam = checks.number("lam", lam, low=0)
        self.alpha = checks.number("alpha", alpha, low=0, high=1, strict=True)
        self.attention = bool(attention)
        self.p = checks.number("p", p)
        self.tau = checks.number("tau", tau, low=0, strict=True)
        self.cut = cut if cut == float("inf") else checks.number("cut", cut, low=0, strict=True)
        self._last = LastGraph()

    def forward(self, x: torch.Tensor, edge_index: GraphInput) -> torch.Tensor:
        """(N, C) predictions -> (N, C) smoothed ones."""
        adjacency = self._last.get(edge_index, None, x.shape[0], "sym")
        before = self.steps // 2 if self.attention else self.steps
        Y = self._plain(x, adjacency, before)
        return self._reweighted(x, Y, adjacency, self.steps - before) if self.attention else Y

    def _plain(self, x: torch.Tensor, adjacency: Adjacency, steps: int) -> torch.Tensor:
        """The steps without attention: a fixed linear map of x."""
        key, derived = ("plain", self.lam, self.alpha, x.dtype, x.device), self._last.derived(adjacency)
        if key not in derived:
            A = sp.csr_array(adjacency.raw - sp.diags_array(adjacency.raw.diagonal()))
            inverse = 1 / (1 + self.lam * np.asarray(A.sum(axis=1)).ravel())
            step = (1 - self.alpha) * sp.eye_array(x.shape[0]) + self.alpha * self.lam * sp.diags_array(inverse) @ A
            column = torch.as_tensor(self.alpha * inverse[:, None], dtype=x.dtype, device=x.device)
            matrices = csr_tensor(step, x.dtype, x.device), csr_tensor(step.T, x.dtype, x.device)
            derived[key] = (TorchSparse(*matrices), column)
        M, column = derived[key]

        def iterate(f: torch.Tensor) -> torch.Tensor:
            """Y_0 = f, Y_{k+1} = M Y_k + c f."""
            Y, constant = f, f * column
            for _ in range(steps):
                Y = M.multiply_add(Y, constant, 1.0, 1.0, torch.empty_like(Y))
            return Y

        def transposed(gradient: torch.Tensor) -> torch.Tensor:
            """``(M^T)^K g + c sum_{k<K} (M^T)^k g``."""
            G, total = gradient, torch.zeros_like(gradient)
            for _ in range(steps):
                total += G
                G = M.transposed.multiply_add(G, G, 1.0, 0.0, torch.empty_like(G))
            return G + total * column

        propagated: torch.Tensor = Linear.apply(x, iterate, transposed)
        return propagated

    def _reweighted(self, x: torch.Tensor, Y: torch.Tensor, adjacency: Adjacency, steps: int) -> torch.Tensor:
        """Steps with edges weighted by how far their ends are apart at the start."""
        key, derived = ("edges", x.dtype, x.device), self._last.derived(adjacency)
        if key not in derived:
            coo = (adjacency.raw - sp.diags_array(adjacency.raw.diagonal())).tocoo()
            i, j = (torch.as_tensor(part, dtype=torch.int64, device=x.device) for part in coo.coords)
            derived[key] = (i, j, torch.as_tensor(coo.data, dtype=x.dtype, device=x.device))
        i, j, a = derived[key]
        far = (Y[i] - Y[j]).pow(2).sum(1).clamp_min(1e-12).sqrt()
        weight = a * torch.where(far < self.tau, torch.ones_like(far), (far / self.tau) ** (self.p - 2)) * (far < self.cut)
        degree = torch.zeros(x.shape[0], dtype=x.dtype, device=x.device).index_add_(0, i, weight)
        inverse = 1 / (1 + self.lam * degree)[:, None]
        for _ in range(steps):
            gathered = torch.zeros_like(Y).index_add_(0, i, weight[:, None] * Y[j])
            Y = (1 - self.alpha) * Y + self.alpha * inverse * (self.lam * gathered + x)
        return Y
