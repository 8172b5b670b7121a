"""The training problem ``min_W loss(J W) + weight_decay/2 ||W||^2``: values, gradients and Hessian products, counted."""

from __future__ import annotations

import torch

from nareg.herta._model.features import Features
from nareg.herta._model.losses import TrainingLoss
from nareg.herta._model.unfolded import Formed, Implicit
from nareg.herta._precondition.preconditioner import inverse_or_one


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
