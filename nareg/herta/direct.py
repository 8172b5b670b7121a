"""The squared error's optimum from ``F = M H^-1 X`` at once: the baseline that every iteration has to beat.

    n_train >= d    (F^T F + weight_decay I) W = F^T Y
    n_train <  d    W = F^T (F F^T + weight_decay I)^-1 Y,        the shortest of all optimal W

A trace of a ridge lets Cholesky pass where F is rank-deficient; iterated refinement takes it out again.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nareg.herta.optimizers import Step

#: Refinements at most; each takes a product with F and one with F^T.
REFINEMENTS = 3
#: The ridge in multiples of ``d eps ||G||``.
SAFETY = 4.0


def solve(F: torch.Tensor, Y: torch.Tensor, *, weight_decay: float) -> Iterator[Step]:
    """Steps from W = 0: the solution, then its refinements while they gain anything."""
    n, d = F.shape
    W = F.new_zeros((d, Y.shape[1]))
    loss = 0.5 * float((Y * Y).sum())
    yield Step(W, loss)
    primal = n >= d
    G = F.T @ F if primal else F @ F.T
    size = float(G.norm())
    if size == 0:
        return
    G.diagonal().add_(weight_decay + SAFETY * G.shape[0] * torch.finfo(F.dtype).eps * size)
    L = torch.linalg.cholesky(G)
    A = torch.zeros_like(Y)
    for _ in range(REFINEMENTS):
        residual = Y - F @ W
        if primal:
            W = W + torch.cholesky_solve(F.T @ residual - weight_decay * W, L)
        else:
            # W = F^T A throughout; the negative gradient is F^T (residual - weight_decay A)
            A = A + torch.cholesky_solve(residual - weight_decay * A, L)
            W = F.T @ A
        before, loss = loss, 0.5 * float(((Y - F @ W) ** 2).sum()) + 0.5 * weight_decay * float((W * W).sum())
        if not loss < before:
            return
        yield Step(W, loss)
