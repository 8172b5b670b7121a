"""The linear map from weights to outputs at the training nodes, ``J V = M H^-1 X V``, and its transpose.

Two forms: by solves (no array larger than N x C), or with ``F = M H^-1 X`` formed once, (n_train, F), after which no solve is
needed any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from nareg.herta._model import tall_products
from nareg.herta._model.features import Features
from nareg.herta._model.system import System

#: Columns that are solved for at a time: enough for the sparse product, few enough for the cache.
BLOCK = 64


class Implicit:
    """J by solves with H: two for a gradient."""

    def __init__(self, system: System, features: Features, train: torch.Tensor) -> None:
        self.system, self.features, self.train = system, features, train
        self._last: dict[str, torch.Tensor] = {}

    def apply(self, V: torch.Tensor, tol: float, *, again: bool = False) -> torch.Tensor:
        """``J V``; ``again`` where V is near the one before, whose solution is then the first guess."""
        return self._solve("forward", self.features.times(V), tol, again)[self.train]

    def adjoint(self, R: torch.Tensor, tol: float, *, again: bool = False) -> torch.Tensor:
        """``J^T R``."""
        B = R.new_zeros((self.system.n_nodes, R.shape[1]))
        B[self.train] = R
        return self.features.transposed_times(self._solve("backward", B, tol, again))

    def _solve(self, way: str, B: torch.Tensor, tol: float, again: bool) -> torch.Tensor:
        if not again:
            return self.system.solve(B, tol=tol)
        result = self.system.solve(B, tol=tol, start=self._last.get(way))
        self._last[way] = result
        return result


class Dropped(Implicit):
    """J with some features dropped anew at every value, the same in its gradient."""

    def __init__(self, model: Implicit, rate: float, generator: torch.Generator) -> None:
        super().__init__(model.system, model.features, model.train)
        self._whole, self._rate, self._generator = model.features, rate, generator

    def apply(self, V: torch.Tensor, tol: float, *, again: bool = False) -> torch.Tensor:
        """``J V`` with new dropped features."""
        self.features = self._whole.dropped(self._rate, self._generator)
        return super().apply(V, tol, again=again)


class Formed:
    """J as a dense matrix."""

    def __init__(self, F: torch.Tensor) -> None:
        self.F = F

    def apply(self, V: torch.Tensor, tol: float, *, again: bool = False) -> torch.Tensor:
        """``F V``."""
        return tall_products.times(self.F, V)

    def adjoint(self, R: torch.Tensor, tol: float, *, again: bool = False) -> torch.Tensor:
        """``F^T R``."""
        return tall_products.transposed_times(self.F, R)


def form(system: System, features: Features, train: torch.Tensor, *, tol: float) -> torch.Tensor:
    """``F = M H^-1 X``, (n_train, F), from as many solves as it has columns or rows, whichever are fewer."""
    n_train, d = train.numel(), features.shape[1]
    F = torch.empty((n_train, d), dtype=features.dtype, device=features.device)
    if d <= n_train:
        for first, last, solved in _solved(system, features, tol):
            F[:, first:last] = solved[train]
        return F
    for first in range(0, n_train, BLOCK):
        part = train[first : first + BLOCK]
        B = torch.zeros((system.n_nodes, part.numel()), dtype=features.dtype, device=features.device)
        B[part, torch.arange(part.numel(), device=B.device)] = 1
        F[first : first + BLOCK] = features.transposed_times(system.solve(B, tol=tol)).T
    return F


def sketched(
    system: System,
    features: Features,
    train: torch.Tensor,
    sketch: Callable[[torch.Tensor], torch.Tensor],
    *,
    tol: float,
) -> torch.Tensor:
    """``sketch(M H^-1 X)``, some columns at a time, so that F itself is never held."""
    parts: list[Any] = [sketch(solved[train].contiguous()) for _, _, solved in _solved(system, features, tol)]
    return torch.cat(parts, dim=1)


def _solved(system: System, features: Features, tol: float) -> Iterator[tuple[int, int, torch.Tensor]]:
    d = features.shape[1]
    for first in range(0, d, BLOCK):
        last = min(first + BLOCK, d)
        yield first, last, system.solve(features.columns(first, last), tol=tol)
