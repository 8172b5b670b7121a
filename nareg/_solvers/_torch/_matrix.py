"""A sparse symmetric matrix whose values change while its pattern stays on a device, and conjugate gradients with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp
import torch

from nareg._core.arrays import ratio
from nareg._solvers import cg
from nareg._solvers._torch import _device as on
from nareg._solvers._torch._passes import DevicePasses, HostPasses, passes_of
from nareg._solvers._torch._solver import in_single
from nareg._solvers.backends import Torch
from nareg._solvers.cg import Preconditioner
from nareg._solvers.iterate import Iterates
from nareg.results import Status

#: The preconditioner for solves of this dtype; None: Jacobi.
Preconditioners = Callable[[torch.dtype], Preconditioner | None]


class ChangingMatrix:
    """The pattern of a matrix with a stored diagonal, and its present values."""

    def __init__(self, pattern: sp.csr_array, options: Torch) -> None:
        self.device = on.resolve(options.device)
        self._dtype = on.floating(options.dtype) or torch.float64
        self.label = f" [torch, {self.device}{'' if self._dtype is torch.float64 else ', float32 corrected by float64'}]"
        #: The matrix of the pattern's own values.
        self.pattern = on.csr(pattern, self.device)
        rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
        self.row, self.column = on.on_device(rows, self.device), self.pattern.col_indices().long()
        self.diagonal = on.on_device(np.flatnonzero(rows == pattern.indices), self.device)

    def set_values(self, values: torch.Tensor) -> None:
        """The values of all stored entries."""
        shape = int(self.pattern.shape[0]), int(self.pattern.shape[1])
        self.matrix = on.csr_of(self.pattern.crow_indices(), self.pattern.col_indices(), values, shape)
        diagonal = values[self.diagonal]
        self.positive = bool(((diagonal > 0) & torch.isfinite(diagonal)).all())
        self.inverse_diagonal = 1.0 / diagonal
        self._passes: dict[torch.dtype, DevicePasses | HostPasses] = {}

    def blocks(self, n_columns: int) -> Iterator[slice]:
        """Columns that are worked on together: few for the caches of a CPU, else all."""
        width = on.BLOCK if self.device.type == "cpu" else n_columns
        return (slice(first, first + width) for first in range(0, n_columns, width))

    def solve(
        self, rhs: torch.Tensor, x0: torch.Tensor | None, one: Callable[[torch.Tensor, torch.Tensor | None], torch.Tensor]
    ) -> torch.Tensor:
        """The solutions that ``one(rhs, x0)`` finds for each block of columns, side by side."""
        n, count = rhs.shape
        width = min(count, on.BLOCK) if self.device.type == "cpu" else count
        with torch.no_grad(), on.enough_memory(self.device, on.columns_bytes(n, width)):
            parts = [one(rhs[:, k].contiguous(), None if x0 is None else x0[:, k].contiguous()) for k in self.blocks(count)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

    def run(
        self, B: torch.Tensor, x0: torch.Tensor | None, *, tol: float, limit: int, precondition: Preconditioners
    ) -> Iterates:
        """CG in float64, or in float32 on what is left over in float64 until that meets the tolerance."""
        if not self.positive:
            return Iterates(torch.zeros_like(B), 0, [1.0], Status.INDEFINITE)
        steps = 0
        if self._dtype is torch.float32:
            reached = self._corrected(B, x0, tol, limit, precondition)
            if reached.status is not Status.STALLED:
                return reached
            x0, steps = reached.x if bool(torch.isfinite(reached.x).all()) else x0, reached.iterations
        last = self._iterate(B, x0, torch.float64, tol, limit, precondition)
        last.iterations += steps
        return last

    def _iterate(
        self,
        B: torch.Tensor,
        x0: torch.Tensor | None,
        dtype: torch.dtype,
        tol: float,
        limit: int,
        precondition: Preconditioners,
    ) -> Iterates:
        if dtype not in self._passes:
            self._passes[dtype] = passes_of(on.as_dtype(self.matrix, dtype), self.inverse_diagonal.to(dtype))
        return cg.solve_block(self._passes[dtype], B, tol=tol, max_iterations=limit, x0=x0, precondition=precondition(dtype))

    def _corrected(
        self, B: torch.Tensor, x0: torch.Tensor | None, tol: float, limit: int, precondition: Preconditioners
    ) -> Iterates:
        """In float32 as far as that helps."""
        d = self.inverse_diagonal[:, None]
        norms = torch.stack([B, d * B]).norm(dim=1)

        def residual(x: torch.Tensor) -> tuple[torch.Tensor, float, float]:
            R = torch.addmm(B, self.matrix, x, alpha=-1)
            plain, scaled = ratio(torch.stack([R, d * R]).norm(dim=1), norms).amax(1).tolist()
            return R, plain, scaled

        def solve(R: torch.Tensor, goal: float, most: int) -> Iterates:
            return self._iterate(R, None, torch.float32, goal, most, precondition)

        return in_single(solve, residual, torch.zeros_like(B) if x0 is None else x0, tol=tol, limit=limit)


def dots(A: torch.Tensor, B: torch.Tensor) -> np.ndarray:
    """The inner product of every pair of columns, (T,)."""
    return (A * B).sum(0).cpu().numpy()
