"""Passes over K and blocks of columns: torch operations or fused kernels on an accelerator, compiled loops on the CPU.

All write the same arrays and return the same sums. On the CPU each torch operation would read and write its arrays anew, where
one loop does the work of several: conjugate gradients on a grid of 90,000 nodes took up to 1.8 times as long.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import scipy.sparse as sp
import torch

from nareg._solvers.passes import CompiledPasses

#: Nodes from which on kernels are compiled for an accelerator, which takes a second or two once.
MANY = 20_000


class DevicePasses:
    """One torch operation at a time, with the sums of :class:`CompiledPasses`."""

    def __init__(self, K: torch.Tensor, inverse_diagonal: torch.Tensor) -> None:
        self.K, self.inverse_diagonal = K, inverse_diagonal[:, None]
        self._weights = torch.stack([inverse_diagonal, torch.ones_like(inverse_diagonal), inverse_diagonal**2])
        self._spare: torch.Tensor | None = None

    def squares(self, V: torch.Tensor) -> torch.Tensor:
        return torch.mm(self._weights, torch.mul(V, V, out=self._scratch(V)))

    def product(self, P: torch.Tensor, Q: torch.Tensor) -> torch.Tensor:
        torch.addmm(Q, self.K, P, beta=0, out=Q)  # torch.mm would fill Q with zeros first
        return torch.mul(P, Q, out=self._scratch(P)).sum(0)

    def step(self, X: torch.Tensor, R: torch.Tensor, P: torch.Tensor, Q: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
        X.addcmul_(P, alpha)
        R.addcmul_(Q, alpha, value=-1)
        return torch.mm(self._weights, torch.mul(R, R, out=Q))

    def turn(self, R: torch.Tensor, P: torch.Tensor, beta: torch.Tensor) -> None:
        torch.addcmul(torch.mul(R, self.inverse_diagonal, out=self._scratch(R)), P, beta, out=P)

    def relax(
        self, B: torch.Tensor, X: torch.Tensor, before: torch.Tensor, alpha: float, beta: float, *, scaled: bool
    ) -> torch.Tensor:
        left = torch.addmm(B, self.K, X, alpha=-1, out=self._scratch(B))
        torch.lerp(before, X, 1 + beta, out=before)
        before.addcmul_(left, self.inverse_diagonal * alpha) if scaled else before.add_(left, alpha=alpha)
        return torch.mm(self._weights, left.mul_(left))

    def _scratch(self, V: torch.Tensor) -> torch.Tensor:
        if self._spare is None or self._spare.shape != V.shape:
            self._spare = torch.empty_like(V)
        return self._spare


class HostPasses:
    """Compiled loops on the tensors' own memory."""

    def __init__(self, K: torch.Tensor, inverse_diagonal: torch.Tensor) -> None:
        n = K.shape[0]
        parts = K.values().numpy(), K.col_indices().numpy(), K.crow_indices().numpy()
        self._host = CompiledPasses(sp.csr_array(parts, shape=(n, n)), inverse_diagonal.numpy())

    def squares(self, V: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(self._host.squares(V.numpy()))

    def product(self, P: torch.Tensor, Q: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(self._host.product(P.numpy(), Q.numpy()))

    def step(self, X: torch.Tensor, R: torch.Tensor, P: torch.Tensor, Q: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(self._host.step(*(V.numpy() for V in (X, R, P, Q, alpha))))

    def turn(self, R: torch.Tensor, P: torch.Tensor, beta: torch.Tensor) -> None:
        self._host.turn(R.numpy(), P.numpy(), beta.numpy())

    def relax(
        self, B: torch.Tensor, X: torch.Tensor, before: torch.Tensor, alpha: float, beta: float, *, scaled: bool
    ) -> torch.Tensor:
        return torch.from_numpy(self._host.relax(B.numpy(), X.numpy(), before.numpy(), alpha, beta, scaled=scaled))


def passes_of(K: torch.Tensor, inverse_diagonal: torch.Tensor) -> DevicePasses | HostPasses:
    """The passes for the device of K."""
    if K.device.type == "cpu":
        return HostPasses(K, inverse_diagonal)
    kind = DevicePasses if K.shape[0] < MANY else _passes_on(K.device)
    return kind(K, inverse_diagonal)


@cache
def _passes_on(device: torch.device) -> type[DevicePasses]:
    """Fused kernels where they compile."""
    if find_spec("triton") is None:
        return DevicePasses
    from nareg._solvers._torch import _fused

    return _fused.FusedPasses if _fused.compiles(device) else DevicePasses
