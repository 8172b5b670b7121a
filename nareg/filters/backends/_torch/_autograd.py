"""Gradients of filters: each costs one more solve with the same system.

With ``x = K^-1 b`` and ``K = diag(c) + diag(w) L diag(w)``, and ``g = K^-1 grad``:

    grad_b = g,   grad_c = -sum_t g * x,   grad_w = -sum_t (g * (L W x) + x * (L W g)).

The filter is ``b = c * y``, which torch differentiates itself. All is written in differentiable operations, the solve for g
included, so that second derivatives follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Solve = Callable[[torch.Tensor], torch.Tensor]


class Inverse(torch.autograd.Function):
    """``K^-1 b`` for (N, T) b; ``forward_solve`` is called once, ``backward_solve`` for every gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        b: torch.Tensor,
        w: torch.Tensor | None,
        c: torch.Tensor | None,
        L: Callable[[], torch.Tensor],
        forward_solve: Solve,
        backward_solve: Solve,
    ) -> torch.Tensor:
        x = forward_solve(b)
        ctx.save_for_backward(x, w, c)
        ctx.L, ctx.solve = L, backward_solve
        return x

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        x, w, c = ctx.saved_tensors
        solve = ctx.solve
        g: torch.Tensor = Inverse.apply(gradients[0], w, c, ctx.L, solve, solve)
        of_w = of_c = None
        if w is not None and ctx.needs_input_grad[1]:
            L, column = ctx.L(), w[:, None]
            of_w = -(g * Symmetric.apply(column * x, L) + x * Symmetric.apply(column * g, L)).sum(1)
        if c is not None and ctx.needs_input_grad[2]:
            of_c = -(g * x).sum(1)
        return g, of_w, of_c, None, None, None


class Symmetric(torch.autograd.Function):
    """``L v`` for a symmetric sparse matrix L that asks for no gradient."""

    @staticmethod
    def forward(ctx: Any, v: torch.Tensor, L: torch.Tensor) -> torch.Tensor:
        ctx.L = L
        return torch.mm(L, v.contiguous())

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return Symmetric.apply(gradients[0], ctx.L), None
