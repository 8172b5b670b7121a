"""The training problem ``min_W loss(J W) + weight_decay/2 ||W||^2``: values, gradients and Hessian products, counted."""

from __future__ import annotations

from typing import Any

import torch

from nareg.herta.losses import Loss
from nareg.herta.preconditioner import Preconditioner
from nareg.herta.unfolded import Formed, Implicit

#: Steps of the Lanczos iteration behind the estimated ends of a spectrum.
LANCZOS = 12
#: Eigenvalues below this share of the largest are flat directions: features of deficient rank, a softmax' outputs moved alike.
FLAT = 1e-6


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


def spectrum(
    problem: Problem, Z: torch.Tensor, preconditioner: Preconditioner, *, generator: torch.Generator, steps: int = LANCZOS
) -> torch.Tensor:
    """Ritz values of ``R^T Hessian R`` after some Lanczos steps from a random start, reorthogonalised."""
    shape = (problem.n_features, problem.loss.n_outputs)
    v = torch.randn(shape, generator=generator, dtype=Z.dtype, device=generator.device).to(Z.device)
    basis: list[torch.Tensor] = []
    alphas: list[float] = []
    betas: list[float] = []
    v = v / v.norm()
    for _ in range(min(steps, v.numel())):
        basis.append(v)
        u = preconditioner.root_transposed(problem.hessian(Z, preconditioner.root(v)))
        alphas.append(float((u * v).sum()))
        for _again in range(2):
            for b in basis:
                u = u - (u * b).sum() * b
        beta = float(u.norm())
        if beta <= 1e-10 * abs(alphas[0]):
            break
        betas.append(beta)
        v = u / beta
    T: Any = torch.diag(torch.tensor(alphas, dtype=torch.float64))
    for i, beta in enumerate(betas[: len(alphas) - 1]):
        T[i, i + 1] = T[i + 1, i] = beta
    return torch.linalg.eigvalsh(T)
