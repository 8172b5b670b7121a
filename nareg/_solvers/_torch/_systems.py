"""``K(w) = C + diag(w) L diag(w)`` for one w after another on a device: the systems of a descent over node weights.

The pattern of K stays on the device and its values are computed there, as are right-hand sides, solutions, inner products
and derivatives: w goes in, and one number per column and per node comes out.
"""

from __future__ import annotations

import numpy as np
import torch

from nareg._solvers import multigrid
from nareg._solvers._torch._device import on_device
from nareg._solvers._torch._matrix import ChangingMatrix, dots
from nareg._solvers._torch._multigrid import Cycle
from nareg._solvers.backends import Torch
from nareg._solvers.iterate import Iterates
from nareg._solvers.level_sequence import LevelSequence
from nareg._solvers.system import FilterSystem, Penalty, scale_symmetric


class TorchSystems(LevelSequence):
    """The systems of an operator with a stored diagonal, whose nodes are in an order that suits memory.

    Columns are float64 tensors on the device.
    """

    def __init__(self, base: Penalty, c: np.ndarray, options: Torch, *, mesh_like: bool, tol: float) -> None:
        super().__init__(may_cycle=base.is_laplacian and mesh_like, tol=tol)
        self._base, self._host_c = base, c
        self._K = ChangingMatrix(base.L, options)
        self.label = self._K.label
        self._c = self.keep(c)
        self._cycles: dict[torch.dtype, Cycle] = {}
        self._host_w = np.ones_like(c)
        self.update(self._host_w)

    def keep(self, columns: np.ndarray) -> torch.Tensor:
        """Columns on the device; on the CPU they share their memory."""
        return on_device(columns, self._K.device)

    def update(self, w: np.ndarray) -> None:
        """Set the weights."""
        if not np.array_equal(w != 0, self._host_w != 0):
            self.forget()  # levels leave out nodes without a weight
        K, self._host_w, self._w = self._K, w, self.keep(w)
        values = K.pattern.values() * self._w[K.row] * self._w[K.column]
        values[K.diagonal] += self._c
        K.set_values(values)
        self._fresh = False
        for cycle in self._cycles.values() if self._levels else ():
            cycle.reweigh(self._w, K.inverse_diagonal)

    def solve(self, rhs: torch.Tensor, x0: torch.Tensor | None = None) -> torch.Tensor:
        """``K^-1 rhs``, from ``x0`` if given; SolverError where the residual stays above the tolerance."""
        self.columns += rhs.shape[1]
        return self._K.solve(rhs, x0, self._solve)

    def filtered(self, y: torch.Tensor, x0: torch.Tensor | None = None) -> torch.Tensor:
        """``K^-1 C y``."""
        return self.solve(self._c[:, None] * y, x0)

    def dots(self, A: torch.Tensor, B: torch.Tensor) -> np.ndarray:
        """The inner product of every pair of columns, (T,)."""
        return dots(A, B)

    def derivative(self, A: torch.Tensor, B: torch.Tensor) -> np.ndarray:
        """``sum over columns d (a^T K(w) b) / dw``, which is ``a * (L W b) + b * (L W a)``."""
        L, W, total = self._K.pattern, self._w[:, None], torch.zeros_like(self._w)
        for block in self._K.blocks(A.shape[1]):
            a, b = A[:, block], B[:, block]
            total += (a * torch.mm(L, W * b) + b * torch.mm(L, W * a)).sum(1)
        out: np.ndarray = total.cpu().numpy()
        return out

    def _run(self, rhs: torch.Tensor, x0: torch.Tensor | None, limit: int) -> Iterates:
        reached = self._K.run(rhs, x0, tol=self.tol, limit=limit, precondition=self._cycle)
        self.iterations += reached.iterations * rhs.shape[1]
        return reached

    def _make_levels(self) -> None:
        """Levels of the present w, by pyamg on the host."""
        w, L = self._host_w, self._base.L
        self._hierarchy = multigrid.Hierarchy(FilterSystem(S=scale_symmetric(L, w), c=self._host_c, w=w, penalty=self._base))
        self._cycles = {}

    def _cycle(self, dtype: torch.dtype) -> Cycle | None:
        """The V-cycle, scaled to the present w; None before there are levels."""
        if not self._levels:
            return None
        if dtype not in self._cycles:
            self._cycles[dtype] = Cycle(self._hierarchy, self._K.device, dtype, self._K.generator)
            self._cycles[dtype].reweigh(self._w, self._K.inverse_diagonal)
        return self._cycles[dtype]
