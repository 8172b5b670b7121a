"""Gradients of propagation that cost a propagation, not an unrolled graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from nareg.gnn import _cg, _recurrences
from nareg.gnn._operators import Operator, empty_like

Apply = Callable[[torch.Tensor], torch.Tensor]
#: ``bilinear(Y, Z, *parameters)``: ``<Y, M(parameters) Z>`` up to what does not depend on the parameters.
Bilinear = Callable[..., torch.Tensor]


class Linear(torch.autograd.Function):
    """A fixed linear map of x; its backward is the transposed map."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, apply: Apply, transposed: Apply) -> torch.Tensor:
        ctx.transposed = transposed
        return apply(x.contiguous())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return ctx.transposed(gradient.contiguous()), None, None


class Weighted(torch.autograd.Function):
    """``sum_s weights[s] M^s x`` with a gradient in the weights as well, for as many products again."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weights: torch.Tensor, M: Operator) -> torch.Tensor:
        ctx.M = M
        ctx.save_for_backward(x, weights)
        return _recurrences.horner(M, x.contiguous(), weights.tolist())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x, weights = ctx.saved_tensors
        gradient = gradient.contiguous()
        of_x = _recurrences.horner(ctx.M.transposed, gradient, weights.tolist()) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return of_x, None, None
        Z, spare, inner = x.contiguous(), empty_like(x), []
        for _ in weights:
            inner.append((gradient * Z).sum())
            following = ctx.M.multiply_add(Z, Z, 1.0, 0.0, spare)
            Z, spare = following, empty_like(x) if Z is x else Z
        return of_x, torch.stack(inner).to(weights), None


class PerturbedSeries(torch.autograd.Function):
    """Truncated Neumann series in an operator that depends on parameters (RNGC: on the features).

    The iterates are kept only if the gradient in the parameters is asked for: with Z_0 = x, Z_k = x + c M Z_{k-1} and the
    adjoints Y_S = g, Y_{k-1} = c M^T Y_k, it is ``c sum_k d<Y_k, M Z_{k-1}>``.
    """

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, M: Operator, bilinear: Bilinear, lam: float, order: int, *parameters: torch.Tensor
    ) -> torch.Tensor:
        needed = any(ctx.needs_input_grad[5:])
        kept: list[torch.Tensor] | None = [] if needed else None
        Z = _recurrences.neumann(M, x.contiguous(), lam=lam, order=order, keep=kept)
        ctx.M, ctx.bilinear, ctx.lam, ctx.order, ctx.n_kept = M, bilinear, lam, order, len(kept or ())
        ctx.save_for_backward(*parameters, *(kept or ()))
        return Z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        M, lam = ctx.M.transposed, ctx.lam
        if not ctx.n_kept:
            of_x = _recurrences.neumann(M, gradient.contiguous(), lam=lam, order=ctx.order)
            return of_x, None, None, None, None, *(None for _ in ctx.saved_tensors)
        parameters, kept = ctx.saved_tensors[: -ctx.n_kept], ctx.saved_tensors[-ctx.n_kept :]
        c = lam / (lam + 1)
        Y = gradient / (lam + 1)
        of_x = Y.clone()
        leaves = [p.detach().requires_grad_() for p in parameters]
        sums = [torch.zeros_like(p) for p in parameters]
        for Z in reversed(kept):
            with torch.enable_grad():
                found = torch.autograd.grad(c * ctx.bilinear(Y, Z, *leaves), leaves)
            for total, part in zip(sums, found, strict=True):
                total += part
            Y = M.multiply_add(Y, Y, c, 0.0, empty_like(Y))
            of_x += Y
        return of_x, None, None, None, None, *sums


class Solve(torch.autograd.Function):
    """``K(parameters)^-1 b`` for symmetric positive definite K; the backward is a solve with K.

    With Y = K^-1 g the gradient is Y in b and that of ``-<Y, K Z>`` in the parameters: one solve and one product.
    """

    @staticmethod
    def forward(
        ctx: Any, b: torch.Tensor, product: _cg.Product, bilinear: Bilinear, tol: float, scale: Any, *parameters: torch.Tensor
    ) -> torch.Tensor:
        Z, _ = _cg.solve(product, b.contiguous(), tol=tol, inverse_diagonal=scale)
        ctx.product, ctx.bilinear, ctx.tol, ctx.scale = product, bilinear, tol, scale
        ctx.save_for_backward(Z, *parameters)
        return Z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        Z, *parameters = ctx.saved_tensors
        Y, _ = _cg.solve(ctx.product, gradient.contiguous(), tol=ctx.tol, inverse_diagonal=ctx.scale)
        found: list[torch.Tensor | None] = [None] * len(parameters)
        if any(ctx.needs_input_grad[5:]):
            leaves = [p.detach().requires_grad_() for p in parameters]
            with torch.enable_grad():
                found = list(torch.autograd.grad(-ctx.bilinear(Y, Z, *leaves), leaves))
        return Y, None, None, None, None, *found
