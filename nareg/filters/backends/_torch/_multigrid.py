"""A V-cycle on a device, for all columns at once: the levels of pyamg, Chebyshev smoothers, a dense inverse on the coarsest.

A polynomial in ``D^-1 A`` needs only products, which a device does well where Gauss-Seidel has to go row by row. The same
polynomial before and after the coarse correction makes the cycle symmetric, as conjugate gradients need.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from nareg.filters import multigrid
from nareg.filters.backends._torch import _lanczos
from nareg.filters.backends._torch._device import csr, on_device

#: Products per smoothing, and the part of the spectrum that it damps, which is what the coarse levels cannot see.
DEGREE = 3
LOWEST = 1 / 8
#: Above the estimate of the largest eigenvalue, which comes from below.
MARGIN = 1.1
STEPS = 15
#: Largest coarsest level with a dense inverse (200 MB); pyamg stops at 500 where coarsening goes on.
DENSE = 5_000


@dataclass
class _Level:
    """One matrix with its smoother's interval, and the transfers to the next."""

    A: torch.Tensor
    inverse_diagonal: torch.Tensor
    interval: tuple[float, float]
    P: torch.Tensor | None = None
    R: torch.Tensor | None = None

    @cached_property
    def spare(self) -> dict[int, list[torch.Tensor]]:
        """Scratch for each number of columns."""
        return {}

    def scratch(self, B: torch.Tensor) -> list[torch.Tensor]:
        """Three arrays like B that are used again."""
        if B.shape[1] not in self.spare:
            self.spare.clear()
            self.spare[B.shape[1]] = [torch.empty_like(B) for _ in range(3)]
        return self.spare[B.shape[1]]

    def smooth(self, B: torch.Tensor, X: torch.Tensor | None) -> torch.Tensor:
        """Chebyshev steps for ``A X = B``, from zero without X; overwrites X."""
        R, step, spare = self.scratch(B)
        d = self.inverse_diagonal
        center, half = sum(self.interval) / 2, (self.interval[1] - self.interval[0]) / 2
        rho = half / center
        if X is None:
            torch.mul(B, d / center, out=step)
            X = step.clone()
        else:
            torch.addmm(B, self.A, X, alpha=-1, out=R)
            torch.mul(R, d / center, out=step)
            X += step
        for _ in range(DEGREE - 1):
            torch.addmm(B, self.A, X, alpha=-1, out=R)
            rho_new = 1.0 / (2 * center / half - rho)
            torch.mul(R, d * (2 * rho_new / half), out=spare)
            torch.add(spare, step, alpha=rho_new * rho, out=step)
            X += step
            rho = rho_new
        return X


class Cycle:
    """One V-cycle of ``M = diag(c / w^2) + L``, scaled back to K; made from pyamg's levels on the host."""

    def __init__(
        self, hierarchy: multigrid.Hierarchy, device: torch.device, dtype: torch.dtype, generator: torch.Generator | None
    ) -> None:
        system = hierarchy.system
        assert system.w is not None
        matrices = hierarchy.levels.levels
        self.note = f"{len(matrices)} levels, operator complexity {hierarchy.levels.operator_complexity():.2f}"
        self._levels = [_level(level, device, dtype, generator) for level in matrices]
        coarsest = matrices[-1].A
        self._coarse: torch.Tensor | None = None
        if coarsest.shape[0] <= DENSE:
            inverse = np.linalg.pinv(coarsest.toarray(), hermitian=True)
            self._coarse = on_device((inverse + inverse.T) / 2, device, dtype)
        coupled = system.w != 0
        self._coupled = None if coupled.all() else on_device(np.flatnonzero(coupled), device)
        self._inverse_w = on_device(1.0 / system.w[coupled], device, dtype)[:, None]
        self._inverse_diagonal = on_device(1.0 / system.diagonal, device, dtype)[:, None]

    def __call__(self, R: torch.Tensor) -> torch.Tensor:
        """``diag(1/w) M^-1 diag(1/w) R``, approximately; a node with ``w_i = 0`` is decoupled and solved exactly."""
        if self._coupled is None:
            return self._descend(0, R * self._inverse_w).mul_(self._inverse_w)
        out = R * self._inverse_diagonal
        part = self._descend(0, R[self._coupled] * self._inverse_w).mul_(self._inverse_w)
        return out.index_copy_(0, self._coupled, part)

    def _descend(self, depth: int, B: torch.Tensor) -> torch.Tensor:
        level = self._levels[depth]
        if level.P is None or level.R is None:
            return level.smooth(B, None) if self._coarse is None else self._coarse @ B
        X = level.smooth(B, None)
        R = torch.addmm(B, level.A, X, alpha=-1, out=level.scratch(B)[0])
        X = torch.addmm(X, level.P, self._descend(depth + 1, level.R @ R), out=X)
        return level.smooth(B, X)


def _level(level: Any, device: torch.device, dtype: torch.dtype, generator: torch.Generator | None) -> _Level:
    matrix = sp.csr_array(level.A)
    matrix.sort_indices()
    diagonal = matrix.diagonal()
    half = sp.diags_array(1.0 / np.sqrt(diagonal))
    bound = float(np.asarray(abs(half @ matrix @ half).sum(axis=1)).max())
    A, inverse = csr(matrix, device, dtype), on_device(1.0 / diagonal, device, dtype)[:, None]
    root = inverse.sqrt()
    estimate = _lanczos.extremes(lambda v: root * (A @ (root * v)), root, STEPS, generator)[1]
    largest = min(bound, MARGIN * estimate)
    transfers = ()
    if hasattr(level, "P"):
        P = sp.csr_array(level.P)
        transfers = csr(P, device, dtype), csr(sp.csr_array(P.T), device, dtype)
    return _Level(A, inverse, (LOWEST * largest, largest), *transfers)
