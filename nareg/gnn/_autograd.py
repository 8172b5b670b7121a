"""Gradients of propagation that cost a propagation, not an unrolled graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from nareg._arrays import empty_like
from nareg._linear import conjugate_gradients
from nareg._linear.conjugate_gradients import Product
from nareg.gnn import _recurrences
from nareg.gnn._operators import Operator

Apply = Callable[[torch.Tensor], torch.Tensor]
#: ``slope(Y, Z, parameter)``: the gradient of ``<Y, M(parameter) Z>`` in the parameter.
Slope = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


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


class WeightedPropagation(torch.autograd.Function):
    """``sum_s weights[s] M^s x`` with a gradient in the weights as well, for as many products again."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weights: torch.Tensor, M: Operator) -> torch.Tensor:
        ctx.M, ctx.numbers = M, weights.tolist()  # off their device once, for both passes
        ctx.save_for_backward(x, weights)
        return _recurrences.horner(M, x.contiguous(), ctx.numbers)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x, weights = ctx.saved_tensors
        gradient = gradient.contiguous()
        of_x = _recurrences.horner(ctx.M.transposed, gradient, ctx.numbers) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return of_x, None, None
        Z, spare, inner = x.contiguous(), empty_like(x), []
        for _ in weights:
            inner.append((gradient * Z).sum())
            following = ctx.M.multiply_add(Z, Z, 1.0, 0.0, spare)
            Z, spare = following, empty_like(x) if Z is x else Z
        return of_x, torch.stack(inner).to(weights), None


class PerturbedSeries(torch.autograd.Function):
    """Truncated Neumann series in an operator that depends on a parameter (RNGC: on the features).

    The iterates are stored only if the gradient in the parameter is asked for. With Z_0 = x, Z_k = x + c M Z_{k-1} and the
    adjoints Y_S = g, Y_{k-1} = c M^T Y_k, that gradient is ``c sum_k d<Y_k, M Z_{k-1}>``.
    """

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, parameter: torch.Tensor, M: Operator, slope: Slope, lam: float, order: int
    ) -> torch.Tensor:
        iterates: list[torch.Tensor] | None = [] if ctx.needs_input_grad[1] else None
        Z = _recurrences.neumann(M, x.contiguous(), lam=lam, order=order, iterates=iterates)
        ctx.M, ctx.slope, ctx.lam, ctx.order = M, slope, lam, order
        ctx.save_for_backward(parameter, *(iterates or ()))
        return Z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        M, lam = ctx.M.transposed, ctx.lam
        parameter, *iterates = ctx.saved_tensors
        if not ctx.needs_input_grad[1]:
            return _recurrences.neumann(M, gradient.contiguous(), lam=lam, order=ctx.order), *[None] * 5
        c = lam / (lam + 1)
        Y = gradient / (lam + 1)
        of_x, of_parameter = Y.clone(), torch.zeros_like(parameter)
        for Z in reversed(iterates):
            of_parameter.add_(ctx.slope(Y, Z, parameter), alpha=c)
            Y = M.multiply_add(Y, Y, c, 0.0, empty_like(Y))
            of_x += Y
        return of_x, of_parameter, *[None] * 4


class Solve(torch.autograd.Function):
    """``K(parameter)^-1 b`` for symmetric positive definite K; the backward is a solve with K.

    With Y = K^-1 g the gradient is Y in b and that of ``-<Y, K Z>`` in the parameter: one solve, and what ``slope`` (of K)
    costs.
    """

    @staticmethod
    def forward(
        ctx: Any,
        b: torch.Tensor,
        parameter: torch.Tensor,
        product: Product,
        slope: Slope,
        tol: float,
        scale: Any,
    ) -> torch.Tensor:
        Z, _ = conjugate_gradients.solve(product, b.contiguous(), tol=tol, inverse_diagonal=scale)
        ctx.product, ctx.slope, ctx.tol, ctx.scale = product, slope, tol, scale
        ctx.save_for_backward(Z, parameter)
        return Z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        Z, parameter = ctx.saved_tensors
        Y, _ = conjugate_gradients.solve(ctx.product, gradient.contiguous(), tol=ctx.tol, inverse_diagonal=ctx.scale)
        of_parameter = -ctx.slope(Y, Z, parameter) if ctx.needs_input_grad[1] else None
        return Y, of_parameter, *[None] * 4
