"""The training problem ``min_W loss(J W) + weight_decay/2 ||W||^2``: values, gradients and Hessian products, counted.

Losses of outputs Z (n, C) at the training nodes have the derivatives that second-order methods need:

mse   1/2 ||Z - Y||_F^2                          (HERTA 4.2)
ce    sum_i logsumexp(O_i) - O_i[y_i]            softmax cross-entropy, natural logarithm, summed over nodes

The map ``J V = M H^-1 X V`` has two forms: by solves (no array larger than N x C), or with ``F = M H^-1 X``, (n_train, F),
formed once instead of solving.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import torch

from nareg.herta._features import Features, tall_product, tall_transposed_product
from nareg.herta._preconditioner import inverse_or_one
from nareg.herta._system import System

LOSSES = ("mse", "ce")
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


class SquaredError:
    """``1/2 ||Z - Y||_F^2``."""

    name = "mse"

    def __init__(self, Y: torch.Tensor) -> None:
        self.Y, self.n_outputs = Y, int(Y.shape[1])

    def value(self, Z: torch.Tensor) -> float:
        """The loss, a sum over nodes."""
        return 0.5 * float(((Z - self.Y) ** 2).sum())

    def gradient(self, Z: torch.Tensor) -> torch.Tensor:
        """Its gradient in the outputs, (n, C)."""
        return Z - self.Y

    def hessian(self, Z: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
        """Second derivative at Z in direction V, (n, C)."""
        return V

    def curvature(self, Z: torch.Tensor) -> torch.Tensor:
        """Second derivative of every output by itself, (n, C)."""
        return torch.ones_like(Z)

    def separated(self, Z: torch.Tensor) -> bool:
        """Whether growing multiples of Z take the loss to zero: never, there is a minimum."""
        return False


class CrossEntropy:
    """``sum_i logsumexp(O_i) - O_i[y_i]``."""

    name = "ce"

    def __init__(self, labels: torch.Tensor, n_classes: int) -> None:
        self.labels, self.n_outputs = labels[:, None], n_classes

    def value(self, Z: torch.Tensor) -> float:
        """The loss, a sum over nodes."""
        return float((torch.logsumexp(Z, dim=1) - Z.gather(1, self.labels)[:, 0]).sum())

    def gradient(self, Z: torch.Tensor) -> torch.Tensor:
        """Its gradient in the outputs, (n, C)."""
        return torch.softmax(Z, dim=1).scatter_add_(1, self.labels, Z.new_full(self.labels.shape, -1.0))

    def hessian(self, Z: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
        """Second derivative at Z in direction V, (n, C)."""
        p = torch.softmax(Z, dim=1)
        pV = p * V
        return pV - p * pV.sum(dim=1, keepdim=True)

    def curvature(self, Z: torch.Tensor) -> torch.Tensor:
        """Second derivative of every output by itself, (n, C)."""
        p = torch.softmax(Z, dim=1)
        return p * (1 - p)

    def separated(self, Z: torch.Tensor) -> bool:
        """Whether growing multiples of Z take the loss to zero: every node's own class has its largest output."""
        own = Z.gather(1, self.labels)
        return bool((own > Z).sum(dim=1).eq(self.n_outputs - 1).all())


#: A convex function of the outputs, with its targets.
TrainingLoss: TypeAlias = SquaredError | CrossEntropy


class TrainingProblem:
    """Value, gradient and Hessian product for the optimizers.

    Attributes
    ----------
    tol : float
        Accuracy of the inner solves.
    evaluations, hessian_products : int
        Number of values with gradients, and of products with the Hessian. Each takes two inner solves where J is not formed.
    """

    def __init__(
        self, model: Implicit | Formed, loss: TrainingLoss, features: Features, *, weight_decay: float, tol: float
    ) -> None:
        self.model, self.loss, self.n_features = model, loss, features.shape[1]
        self._inverse_lengths = inverse_or_one(features.lengths())[:, None]
        self.weight_decay, self.tol = weight_decay, tol
        self.evaluations = self.hessian_products = 0

    def scaled_norm(self, gradient: torch.Tensor) -> float:
        """Norm of a gradient in units in which the features' columns have length one."""
        return float(self.scaled_length(gradient))

    def scaled_length(self, gradient: torch.Tensor) -> torch.Tensor:
        """The same on the gradient's device."""
        return (self._inverse_lengths * gradient).norm()

    def zeros(self, like: torch.Tensor) -> torch.Tensor:
        """The start, W = 0."""
        return torch.zeros((self.n_features, self.loss.n_outputs), dtype=like.dtype, device=like.device)

    def evaluate(self, W: torch.Tensor) -> tuple[float, torch.Tensor, torch.Tensor]:
        """Value, gradient (F, C), and outputs at the training nodes (n_train, C)."""
        value, Z = self.value(W)
        gradient = self.model.adjoint(self.loss.gradient(Z), self.tol, warm_start=True)
        return value, gradient + self.weight_decay * W, Z

    def value(self, W: torch.Tensor) -> tuple[float, torch.Tensor]:
        """Value, and outputs at the training nodes (n_train, C)."""
        self.evaluations += 1
        Z = self.model.apply(W, self.tol, warm_start=True)
        decay = 0.5 * self.weight_decay * float((W * W).sum()) if self.weight_decay else 0.0
        return self.loss.value(Z) + decay, Z

    def hessian(self, Z: torch.Tensor, V: torch.Tensor, tol: float | None = None) -> torch.Tensor:
        """``J^T loss''(Z) J V + weight_decay V``."""
        self.hessian_products += 1
        tol = self.tol if tol is None else tol
        return self.model.adjoint(self.loss.hessian(Z, self.model.apply(V, tol)), tol) + self.weight_decay * V
