"""Losses of outputs Z (n, C) at the training nodes, with the derivatives that second-order methods need.

mse   1/2 ||Z - Y||_F^2                          (HERTA 4.2)
ce    sum_i logsumexp(O_i) - O_i[y_i]            softmax cross-entropy, natural logarithm, summed over nodes
"""

from __future__ import annotations

from typing import TypeAlias

import torch

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
