"""A V-cycle on a device, for all columns at once: the levels of pyamg, Chebyshev smoothers, a dense inverse on the coarsest.

A polynomial in ``D^-1 A`` needs only products, which a device does well where Gauss-Seidel has to go row by row. The same
polynomial before and after the coarse correction makes the cycle symmetric, as conjugate gradients need.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch

from nareg._solvers import lanczos, multigrid
from nareg._solvers._torch._device import csr, on_device

#: Products per smoothing, and the part of the spectrum that it damps, which is what the coarse levels cannot see.
DEGREE = 3
LOWEST = 1 / 8
#: Above the estimate of the largest eigenvalue, which comes from below.
MARGIN = 1.1


@dataclass
class _Level:
    """One matrix with its smoother's interval, and the transfers to the next."""

    A: torch.Tensor
    inverse_diagonal: torch.Tensor
    interval: tuple[float, float]
    P: torch.Tensor
    R: torch.Tensor

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

    def __init__(self, hierarchy: multigrid.Hierarchy, device: torch.device, dtype: torch.dtype) -> None:
        system, levels, coupled = hierarchy.system, hierarchy.levels, hierarchy.coupled
        self.note = f"{len(levels)} levels, operator complexity {levels.operator_complexity:.2f}"
        self._levels = [_level(level, device, dtype) for level in levels.levels]
        inverse = levels.coarse_inverse
        self._coarse = on_device((inverse + inverse.T) / 2, device, dtype)
        all_in_order = np.array_equal(coupled, np.arange(system.n_nodes))
        self._coupled = None if all_in_order else on_device(coupled.astype(np.int64), device)
        self._inverse_w = on_device(hierarchy.inverse_w, device, dtype)
        self._inverse_diagonal = on_device(1.0 / system.diagonal, device, dtype)[:, None]

    def reweigh(self, w: torch.Tensor, inverse_diagonal: torch.Tensor) -> None:
        """The same levels for a K with other weights, zero at the same nodes."""
        w = w if self._coupled is None else w[self._coupled]
        self._inverse_w = (1.0 / w).to(self._inverse_w.dtype)[:, None]
        self._inverse_diagonal = inverse_diagonal.to(self._inverse_w.dtype)[:, None]

    def __call__(self, R: torch.Tensor) -> torch.Tensor:
        """``diag(1/w) M^-1 diag(1/w) R``, approximately; a node with ``w_i = 0`` is decoupled and solved exactly."""
        if self._coupled is None:
            return self._descend(0, R * self._inverse_w).mul_(self._inverse_w)
        out = R * self._inverse_diagonal
        part = self._descend(0, R[self._coupled] * self._inverse_w).mul_(self._inverse_w)
        return out.index_copy_(0, self._coupled, part)

    def _descend(self, depth: int, B: torch.Tensor) -> torch.Tensor:
        if depth == len(self._levels):
            return self._coarse @ B
        level = self._levels[depth]
        X = level.smooth(B, None)
        R = torch.addmm(B, level.A, X, alpha=-1, out=level.scratch(B)[0])
        X = torch.addmm(X, level.P, self._descend(depth + 1, level.R @ R), out=X)
        return level.smooth(B, X)


def _level(level: multigrid.Level, device: torch.device, dtype: torch.dtype) -> _Level:
    diagonal = level.A.diagonal()
    half = sp.diags_array(1.0 / np.sqrt(diagonal))
    bound = float(np.asarray(abs(half @ level.A @ half).sum(axis=1)).max())
    A, inverse = csr(level.A, device, dtype), on_device(1.0 / diagonal, device, dtype)[:, None]
    root = inverse.sqrt()
    # any residual will do: a few steps
    estimate = lanczos.extreme_eigenvalue(lambda v: root * (A @ (root * v)), root, "LA", tol=np.inf)
    largest = min(bound, MARGIN * estimate)
    P, R = csr(level.P, device, dtype), csr(level.restriction, device, dtype)
    return _Level(A, inverse, (LOWEST * largest, largest), P, R)
