"""The training problem ``min_W loss(J W) + weight_decay/2 ||W||^2``: values, gradients and Hessian products, counted."""

from __future__ import annotations

import torch

from nareg.herta.losses import Loss
from nareg.herta.unfolded import Formed, Implicit


class Problem:
    """What every optimiser sees.

    Attributes
    ----------
    tol : float
        Accuracy of the inner solves.
    evaluations, hessian_products : int
        Values with gradients, and products with the Hessian: two inner solves each where J is not formed.
    """

    def __init__(self, model: Implicit | Formed, loss: Loss, n_features: int, *, weight_decay: float, tol: float) -> None:
        self.model, self.loss, self.n_features = model, loss, n_features
        self.weight_decay, self.tol = weight_decay, tol
        self.evaluations = self.hessian_products = 0

    def zeros(self, like: torch.Tensor) -> torch.Tensor:
        """The start, W = 0."""
        return torch.zeros((self.n_features, self.loss.n_outputs), dtype=like.dtype, device=like.device)

    def evaluate(self, W: torch.Tensor) -> tuple[float, torch.Tensor, torch.Tensor]:
        """Value, gradient (F, C), and outputs at the training nodes (n_train, C)."""
        self.evaluations += 1
        Z = self.model.apply(W, self.tol, again=True)
        value = self.loss.value(Z) + 0.5 * self.weight_decay * float((W * W).sum())
        return value, self.model.adjoint(self.loss.gradient(Z), self.tol, again=True) + self.weight_decay * W, Z

    def hessian(self, Z: torch.Tensor, V: torch.Tensor, tol: float | None = None) -> torch.Tensor:
        """``J^T loss''(Z) J V + weight_decay V``."""
        self.hessian_products += 1
        tol = self.tol if tol is None else tol
        return self.model.adjoint(self.loss.hessian(Z, self.model.apply(V, tol)), tol) + self.weight_decay * V
