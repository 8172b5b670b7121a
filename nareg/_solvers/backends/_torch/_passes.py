"""Passes over K and blocks of columns: torch operations or fused kernels on an accelerator, compiled loops on the CPU.

All write the same arrays and return the same sums. On the CPU each torch operation would read and write its arrays anew, where
one loop does the work of several: conjugate gradients on a grid of 90,000 nodes took up to 1.8 times as long.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Protocol

import numpy as np
import torch

#: Nodes from which on kernels are compiled for an accelerator, which takes a second or two once.
MANY = 20_000


class Passes(Protocol):
    """``K``, its inverse diagonal (N, 1) as ``D^-1``, and the passes that iterations are made of.

    ``squares`` are ``V^T D^-1 V``, ``V^T V`` and ``V^T D^-2 V`` of each column, (3, T).
    """

    K: torch.Tensor
    inverse_diagonal: torch.Tensor

    def squares(self, V: torch.Tensor) -> torch.Tensor:
        """Of V."""

    def product(self, P: torch.Tensor, Q: torch.Tensor) -> torch.Tensor:
        """``Q = K P``; returns the columns' ``P^T Q``."""

    def step(self, X: torch.Tensor, R: torch.Tensor, P: torch.Tensor, Q: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
        """``X += alpha P``, ``R -= alpha Q``; returns the squares of R. Overwrites Q."""

    def turn(self, R: torch.Tensor, P: torch.Tensor, beta: torch.Tensor) -> None:
        """``P = D^-1 R + beta P``."""

    def relax(
        self, B: torch.Tensor, X: torch.Tensor, before: torch.Tensor, alpha: float, beta: float, *, scaled: bool
    ) -> torch.Tensor:
        """``before = X + beta (X - before) + alpha D^-1 (B - K X)``, the next point; returns the squares of ``B - K X``.

        D = I unless ``scaled``. The first square may be left out.
        """


class DevicePasses:
    """One torch operation at a time."""

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
        self.K, self.inverse_diagonal = K, inverse_diagonal[:, None]
        self._matrix = K.crow_indices().numpy(), K.col_indices().numpy(), K.values().numpy()
        self._d = inverse_diagonal.numpy()

    def squares(self, V: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(_kernels().norms(V.numpy(), self._d))

    def product(self, P: torch.Tensor, Q: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(_kernels().product_and_dot(*self._matrix, P.numpy(), Q.numpy()))

    def step(self, X: torch.Tensor, R: torch.Tensor, P: torch.Tensor, Q: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
        arrays = (V.numpy() for V in (X, R, P, Q))
        return torch.from_numpy(_kernels().step_and_norms(*arrays, self._d, alpha.numpy()))

    def turn(self, R: torch.Tensor, P: torch.Tensor, beta: torch.Tensor) -> None:
        _kernels().new_direction(R.numpy(), P.numpy(), self._d, beta.numpy())

    def relax(
        self, B: torch.Tensor, X: torch.Tensor, before: torch.Tensor, alpha: float, beta: float, *, scaled: bool
    ) -> torch.Tensor:
        d = self._d if scaled else np.ones_like(self._d)
        arrays = (V.numpy() for V in (B, X, before))
        return torch.from_numpy(_kernels().relax(*self._matrix, d, self._d, *arrays, alpha, beta))


def passes_of(K: torch.Tensor, inverse_diagonal: torch.Tensor) -> Passes:
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
    from nareg._solvers.backends._torch import _fused

    return _fused.FusedPasses if _fused.compiles(device) else DevicePasses


def _kernels() -> ModuleType:
    from nareg._solvers import kernels  # numba: imported when the first iterative solve needs it

    return kernels
