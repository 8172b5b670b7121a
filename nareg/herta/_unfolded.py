"""The linear map from weights to outputs at the training nodes, ``J V = M H^-1 X V``, and its transpose.

Two forms: by solves (no array larger than N x C), or with ``F = M H^-1 X``, (n_train, F), formed once instead of solving.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from nareg.herta._features import Features, tall_product, tall_transposed_product
from nareg.herta._system import System

#: Columns per solve: enough for the sparse product, few enough for the cache.
BLOCK = 64


class Implicit:
    """J by solves with H, two per gradient."""

    def __init__(self, system: System, features: Features, train: torch.Tensor) -> None:
        self.system, self.features, self.train = system, features, train
        self._last: dict[str, torch.Tensor] = {}

    def apply(self, V: torch.Tensor, tol: float, *, warm_start: bool = False) -> torch.Tensor:
        """``J V``; ``warm_start`` takes the solution of the last such call as first guess."""
        return self._solve("forward", self.features.times(V), tol, warm_start)[self.train]

    def adjoint(self, R: torch.Tensor, tol: float, *, warm_start: bool = False) -> torch.Tensor:
        """``J^T R``."""
        B = R.new_zeros((self.system.n_nodes, R.shape[1]))
        B[self.train] = R
        return self.features.transposed_times(self._solve("backward", B, tol, warm_start))

    def _solve(self, direction: str, B: torch.Tensor, tol: float, warm_start: bool) -> torch.Tensor:
        if not warm_start:
            return self.system.solve(B, tol=tol)
        result = self.system.solve(B, tol=tol, start=self._last.get(direction))
        self._last[direction] = result
        return result


class Dropped(Implicit):
    """J with features dropped at random at every value, and the same ones in its gradient."""

    def __init__(self, model: Implicit, rate: float, generator: torch.Generator) -> None:
        super().__init__(model.system, model.features, model.train)
        self._whole, self._rate, self._generator = model.features, rate, generator

    def apply(self, V: torch.Tensor, tol: float, *, warm_start: bool = False) -> torch.Tensor:
        """``J V`` with new dropped features."""
        self.features = self._whole.dropped(self._rate, self._generator)
        return super().apply(V, tol, warm_start=warm_start)


class Formed:
    """J as a dense matrix."""

    def __init__(self, F: torch.Tensor) -> None:
        self.F = F

    def apply(self, V: torch.Tensor, tol: float, *, warm_start: bool = False) -> torch.Tensor:
        """``F V``."""
        return tall_product(self.F, V)

    def adjoint(self, R: torch.Tensor, tol: float, *, warm_start: bool = False) -> torch.Tensor:
        """``F^T R``."""
        return tall_transposed_product(self.F, R)


def form(system: System, features: Features, train: torch.Tensor, *, tol: float) -> torch.Tensor:
    """``F = M H^-1 X``, (n_train, F), from one solve per column or per row, whichever are fewer."""
    n_train, d = train.numel(), features.shape[1]
    F = torch.empty((n_train, d), dtype=features.dtype, device=features.device)
    if d <= n_train:
        for first, last, solved in _solved_blocks(system, features, tol):
            F[:, first:last] = solved[train]
        return F
    for first in range(0, n_train, BLOCK):
        part = train[first : first + BLOCK]
        B = torch.zeros((system.n_nodes, part.numel()), dtype=features.dtype, device=features.device)
        B[part, torch.arange(part.numel(), device=B.device)] = 1
        F[first : first + BLOCK] = features.transposed_times(system.solve(B, tol=tol)).T
    return F


def sketched(
    system: System, features: Features, train: torch.Tensor, sketch: Callable[[torch.Tensor], torch.Tensor], *, tol: float
) -> torch.Tensor:
    """``sketch(M H^-1 X)``, block by block of columns, so that F is never stored."""
    return torch.cat([sketch(solved[train].contiguous()) for _, _, solved in _solved_blocks(system, features, tol)], dim=1)


def _solved_blocks(system: System, features: Features, tol: float) -> Iterator[tuple[int, int, torch.Tensor]]:
    d = features.shape[1]
    for first in range(0, d, BLOCK):
        last = min(first + BLOCK, d)
        yield first, last, system.solve(features.columns(first, last), tol=tol)
