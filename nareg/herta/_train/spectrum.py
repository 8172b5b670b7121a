"""Estimated eigenvalues of the preconditioned Hessian ``P^-1 Hessian``."""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
import torch

from nareg.herta._precondition.preconditioner import Preconditioner
from nareg.herta._train.objective import TrainingProblem

#: Steps of the Lanczos iteration for the ends of a spectrum.
LANCZOS = 12
#: Eigenvalues below this share of the largest are zero: features of deficient rank, or equal shifts of all softmax outputs.
FLAT = {torch.float64: 1e-6, torch.float32: 1e-3}


class Ritz:
    """Ends of the spectrum of ``P^-1 Hessian`` from the step lengths of conjugate gradients, at no cost."""

    def __init__(self) -> None:
        self._alphas: list[torch.Tensor] = []
        self._betas: list[torch.Tensor] = []
        self._longest: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])

    def add(self, alpha: torch.Tensor, beta: torch.Tensor) -> None:
        """Step lengths and updates of all outputs in one iteration."""
        self._alphas.append(alpha)
        self._betas.append(beta)

    def restart(self) -> None:
        """Start a new sequence of steps; the longest one counts."""
        if len(self._alphas) > len(self._longest[0]):
            self._longest = self._alphas, self._betas
        self._alphas, self._betas = [], []

    def condition(self) -> float | None:
        """Largest over smallest Ritz value of all outputs; None before the first iteration."""
        self.restart()
        alphas, betas = self._longest
        by_output = [torch.stack(part, 1).tolist() if part else [] for part in (alphas, betas)]  # off their device at once
        values = []
        for k in range(alphas[0].numel() if alphas else 0):
            alpha = by_output[0][k]
            steps = next((i for i, a in enumerate(alpha) if a <= 0), len(alpha))
            if steps == 0:
                continue
            beta = by_output[1][k][: steps - 1]
            diagonal = [1 / alpha[0]] + [1 / alpha[i] + beta[i - 1] / alpha[i - 1] for i in range(1, steps)]
            off = [math.sqrt(b) / a for a, b in zip(alpha, beta, strict=False)]
            values.append(scipy.linalg.eigvalsh_tridiagonal(diagonal, off))
        return float(np.concatenate(values).max() / np.concatenate(values).min()) if values else None


def spectrum(
    problem: TrainingProblem, Z: torch.Tensor, preconditioner: Preconditioner, *, generator: torch.Generator
) -> torch.Tensor:
    """Ritz values of ``R^T Hessian R`` above zero, after Lanczos steps from a random start, reorthogonalized."""
    shape = (problem.n_features, problem.loss.n_outputs)
    v = torch.randn(shape, generator=generator, dtype=torch.float64, device=generator.device).to(Z.device)
    basis: list[torch.Tensor] = []
    diagonal: list[torch.Tensor] = []
    beside: list[torch.Tensor] = []
    v = v / v.norm()
    for _ in range(min(LANCZOS, v.numel())):
        basis.append(v)
        u = preconditioner.root_transposed(problem.hessian(Z, preconditioner.root(v).to(Z.dtype)).double())
        diagonal.append((u * v).sum())
        for _again in range(2):
            for b in basis:
                u = u - (u * b).sum() * b
        beside.append(u.norm())
        v = u / beside[-1].clamp(min=torch.finfo(u.dtype).tiny)
    alphas, betas = torch.stack((torch.stack(diagonal), torch.stack(beside))).cpu()
    # what follows a vanishing one is noise: the space of the first vectors is invariant
    vanishing = (betas <= 1e-10 * abs(alphas[0])).tolist()
    last = vanishing.index(True) + 1 if True in vanishing else len(vanishing)
    alphas, off = alphas[:last], betas[: last - 1]
    values = torch.linalg.eigvalsh(torch.diag(alphas) + off.diag(1) + off.diag(-1))
    return values[values > FLAT[Z.dtype] * values.max()]
