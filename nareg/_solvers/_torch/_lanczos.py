"""Extreme eigenvalues by Lanczos steps that stay on the device."""

from __future__ import annotations

from collections.abc import Callable

import torch

Product = Callable[[torch.Tensor], torch.Tensor]


def extremes(product: Product, like: torch.Tensor, steps: int, generator: torch.Generator | None) -> tuple[float, float]:
    """Smallest and largest Ritz value of a symmetric operator on vectors like this one: both lie inside the spectrum.

    Lost orthogonality repeats eigenvalues that have converged, and moves none out of the spectrum. The recurrence
    coefficients are read once, at the end.
    """
    steps = min(steps, like.shape[0])
    where = like.device if generator is None else generator.device
    if generator is None:
        generator = torch.Generator(where).manual_seed(0)
    v = torch.randn(like.shape, generator=generator, device=where, dtype=like.dtype).to(like.device)
    v /= torch.linalg.vector_norm(v)
    before, beta = torch.zeros_like(v), torch.zeros((), device=like.device, dtype=like.dtype)
    alphas, betas = [], []
    for _ in range(steps):
        q = product(v) - beta * before
        alpha = torch.sum(q * v)
        q -= alpha * v
        beta = torch.linalg.vector_norm(q)
        alphas.append(alpha)
        betas.append(beta)
        before, v = v, q / torch.where(beta > 0, beta, 1.0)
    on, off = torch.stack(alphas).cpu().double(), torch.stack(betas).cpu().double()
    # a vanishing coefficient ends the recurrence: what follows belongs to no Krylov space
    end = torch.nonzero(off <= 1e-10 * on.abs().max())
    size = steps if not len(end) else int(end[0]) + 1
    on, off = on[:size], off[: size - 1]
    values = torch.linalg.eigvalsh(torch.diag(on) + torch.diag(off, 1) + torch.diag(off, -1))
    return float(values[0]), float(values[-1])
