"""The training problem ``min_W loss(J W) + weight_decay/2 ||W||^2``: values, gradients and Hessian products, counted.

Losses of outputs Z (n, C) at the training nodes have the derivatives that second-order methods need:

mse   1/2 ||Z - Y||_F^2                          (HERTA 4.2)
ce    sum_i logsumexp(O_i) - O_i[y_i]            softmax cross-entropy, natural logarithm, summed over nodes
"""

from __future__ import annotations

from typing import TypeAlias

import torch

from nareg.herta._features import Features
from nareg.herta._preconditioner import inverse_or_one
from nareg.herta._unfolded import Formed, Implicit

LOSSES = ("mse", "ce")


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
