"""Gradients of propagation that cost a propagation, not an unrolled graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import torch

from nareg._core.arrays import empty_like, refuse_nested_tangents
from nareg._solvers._torch._device import Apply, full_precision, side_by_side
from nareg.errors import InputError
from nareg.gnn import _operators
from nareg.gnn._operators import Operator, adjacency_operator
from nareg.gnn.ngc import ngc_transposed
from nareg.gnn.propagation import filtered
from nareg.gnn.robust import Memo, perturbed_matrix
from nareg.gnn.solvers import ConjugateGradients, Neumann, Solver

#: ``slope(Y, Z, parameter)``: the gradient of ``<Y, M(parameter) Z>`` in the parameter.
Slope = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


class _Gradients(torch.autograd.Function):
    """``function(*tensors)``, gradients that have no derivative in the tensors."""

    @staticmethod
    def forward(function: Callable[..., tuple[Any, ...]], *tensors: torch.Tensor) -> tuple[Any, ...]:
        return function(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        raise InputError(
            "create_graph=True asks for second derivatives, which a filter with learned weights, or perturbed by features that "
            "require a gradient (RNGC), does not have: detach these weights or features, or omit create_graph."
        )

    jvp = backward

    @staticmethod
    def vmap(info: Any, in_dims: Any, function: Any, *tensors: torch.Tensor) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        def of_member(k: int) -> tuple[Any, ...]:
            own = (t if dim is None else t.select(dim, k) for t, dim in zip(tensors, in_dims[1:], strict=True))
            return _Gradients.apply(function, *own)

        parts = [
            None if part[0] is None else torch.stack(part) for part in zip(*map(of_member, range(info.batch_size)), strict=True)
        ]
        return tuple(parts), tuple(None if part is None else 0 for part in parts)


def _in_full_precision(backward: Callable[..., Any]) -> Callable[[Any, torch.Tensor | None], Any]:
    """A backward pass, of the gradient and the saved tensors, that has no derivative and is not rounded by autocast."""

    @wraps(backward)
    def computed(ctx: Any, gradient: torch.Tensor | None) -> Any:
        if gradient is None:
            return (None,) * len(ctx.needs_input_grad)
        with full_precision(gradient):
            return _Gradients.apply(partial(backward, ctx), gradient, *ctx.saved_tensors)

    return computed


class WeightedPropagation(torch.autograd.Function):
    """``sum_s weights[s] M^s x`` with a gradient in the weights as well, for as many products again."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weights: torch.Tensor, M: Operator) -> torch.Tensor:
        ctx.M, ctx.numbers = M, weights.tolist()  # off their device once, for both passes
        ctx.save_for_backward(x, weights)
        return _operators.horner(M, x.contiguous(), ctx.numbers)

    @staticmethod
    @_in_full_precision
    def backward(ctx: Any, gradient: torch.Tensor, x: torch.Tensor, weights: torch.Tensor) -> Any:
        gradient = gradient.contiguous()
        of_x = _operators.horner(ctx.M.transposed, gradient, ctx.numbers) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return of_x, None, None
        Z, spare, inner = x.contiguous(), empty_like(x), []
        for _ in weights:
            inner.append((gradient * Z).sum())
            following = ctx.M.multiply_add(Z, Z, 1.0, 0.0, spare)
            Z, spare = following, empty_like(x) if Z is x else Z
        return of_x, torch.stack(inner).to(weights), None


def series_gradients(
    transposed: Operator,
    gradient: torch.Tensor,
    iterates: Sequence[torch.Tensor],
    parameters: Sequence[torch.Tensor],
    slopes: Sequence[Slope],
    needed: Sequence[bool],
    lam: float,
) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
    """Gradients of a truncated series in x and in the parameters that need one, see :class:`PerturbedSeries`."""
    c = lam / (lam + 1)
    Y = gradient / (lam + 1)
    of_x, of_parameters = Y.clone(), [torch.zeros_like(p) if n else None for p, n in zip(parameters, needed, strict=True)]
    for Z in reversed(iterates):
        for slope, parameter, total in zip(slopes, parameters, of_parameters, strict=True):
            if total is not None:
                total.add_(slope(Y, Z, parameter), alpha=c)
        Y = transposed.multiply_add(Y, Y, c, 0.0, empty_like(Y))
        of_x += Y
    return of_x, of_parameters


class PerturbedSeries(torch.autograd.Function):
    """Truncated Neumann series in an operator that depends on parameters (features in RNGC, learned edge weights).

    For parameters of which one requires a gradient: the iterates are stored. With Z_0 = x, Z_k = x + c M Z_{k-1} and the
    adjoints Y_S = g, Y_{k-1} = c M^T Y_k, that gradient is ``c sum_k d<Y_k, M Z_{k-1}>``. There is a slope per parameter.
    """

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, M: Operator, slopes: Sequence[Slope], lam: float, order: int, *parameters: torch.Tensor
    ) -> torch.Tensor:
        iterates: list[torch.Tensor] = []
        Z = _operators.neumann(M, x.contiguous(), lam=lam, order=order, iterates=iterates)
        ctx.M, ctx.slopes, ctx.lam = M, slopes, lam
        ctx.save_for_backward(x, *parameters, *iterates)
        return Z

    @staticmethod
    @_in_full_precision
    def backward(ctx: Any, gradient: torch.Tensor, x: torch.Tensor, *saved: torch.Tensor) -> Any:
        M, lam, needed = ctx.M.transposed, ctx.lam, ctx.needs_input_grad[5:]
        parameters, iterates = saved[: len(needed)], saved[len(needed) :]
        of_x, of_parameters = series_gradients(M, gradient.contiguous(), iterates, parameters, ctx.slopes, needed, lam)
        return of_x, *[None] * 4, *of_parameters


class Solve(torch.autograd.Function):
    """``K(parameters)^-1 b``; the backward is a solve with the transposed K.

    With Y = K^-T g the gradient is Y in b and that of ``-<Y, K Z>`` in a parameter: one solve, and what the slopes (of K)
    cost.
    """

    @staticmethod
    def forward(
        b: torch.Tensor, solve: Apply, transposed: Apply, slopes: Sequence[Slope], *parameters: torch.Tensor
    ) -> torch.Tensor:
        return solve(b.contiguous())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.set_materialize_grads(False)  # so that parameters without a tangent are known
        _, *ctx.settings, ctx.slopes, parameters = *inputs[:4], inputs[4:]
        ctx.save_for_backward(output, *parameters)
        ctx.save_for_forward(*parameters)

    @staticmethod
    @_in_full_precision
    def backward(ctx: Any, gradient: torch.Tensor, Z: torch.Tensor, *parameters: torch.Tensor) -> Any:
        _, transposed = ctx.settings
        Y = transposed(gradient.contiguous())
        needed = ctx.needs_input_grad[4:]
        of_parameters = (
            -slope(Y, Z, parameter) if need else None
            for slope, parameter, need in zip(ctx.slopes, parameters, needed, strict=True)
        )
        return Y, *[None] * 3, *of_parameters

    @staticmethod
    def jvp(ctx: Any, of_b: torch.Tensor | None, *of_others: Any) -> torch.Tensor:
        if of_b is None or any(tangent is not None for tangent in of_others):
            raise InputError(
                "a filter has no forward derivative (jvp, jacfwd) in learned weights, or in features that perturb it (RNGC): "
                "take torch.func.grad, or backward()."
            )
        refuse_nested_tangents("a learned filter")
        out: torch.Tensor = Solve.apply(of_b, *ctx.settings, ctx.slopes, *ctx.saved_tensors)
        return out

    @staticmethod
    def vmap(info: Any, in_dims: Any, b: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, int]:
        # no parameter is batched: their values were needed before
        return side_by_side(lambda v: Solve.apply(v, *rest), b.movedim(in_dims[0], 1)), 1


def filter_gradients(
    adjacency: Any,
    gradient: torch.Tensor,
    x: torch.Tensor,
    U: torch.Tensor,
    *,
    lam: float,
    solver: Solver,
    eps: float,
    masked: bool,
    memo: Memo,
    factor_needs_it: bool,
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """Gradients in x, in RNGC's factor U, and in the entries of a learned A~.

    The filter itself is ``K^-1`` with ``K = (1 + lam) I - lam M``: of ``Y = K^-T g`` and ``Z = K^-1 x``, the gradient in a
    parameter of M is that of ``lam <Y, M Z>``. A truncated series is computed again, with its iterates.
    """
    if isinstance(solver, Neumann) and solver.unit_gain:
        gradient, solver = gradient * solver.factor(lam), Neumann(solver.order)
    perturbed = eps != 0 and lam != 0
    settings: dict[str, Any] = {"lam": lam, "solver": solver, "eps": eps, "masked": masked, "factor": U, "memo": memo}

    def transposed(Y: torch.Tensor) -> torch.Tensor:
        return filtered(adjacency, Y, **settings) if perturbed else ngc_transposed(adjacency, Y, lam=lam, solver=solver)

    exact = not isinstance(solver, Neumann)
    needed = [factor_needs_it and perturbed, adjacency.is_learned]
    if not any(needed) and (exact or not perturbed or adjacency.is_symmetric):
        return transposed(gradient), None, None
    M = adjacency_operator(adjacency, x)
    slopes: list[Slope] = [lambda Y, Z, p: torch.zeros_like(p), getattr(adjacency, "slope", lambda Y, Z, p: p)]
    if perturbed:
        # the spectrum of the filter itself was checked as that of a solve, whichever way it is computed
        way = ConjugateGradients(solver.tol) if not isinstance(solver, Neumann) else solver
        matrix = perturbed_matrix(adjacency, U, lam, way, eps, masked, memo)
        M, slopes[0] = matrix.operator, matrix.slope
    entries = adjacency.entries(adjacency.normalization, x).detach() if needed[1] else x.new_empty(0)
    parameters = (U, entries)
    if not isinstance(solver, Neumann):
        Y, Z = transposed(gradient), filtered(adjacency, x, **settings)
        of_U, of_entries = (
            lam * slope(Y, Z, p) if need else None for slope, p, need in zip(slopes, parameters, needed, strict=True)
        )
        return Y, of_U, of_entries
    iterates: list[torch.Tensor] = []
    _operators.neumann(M, x, lam=lam, order=solver.order, iterates=iterates)
    of_x, (of_U, of_entries) = series_gradients(M.transposed, gradient, iterates, parameters, slopes, needed, lam)
    return of_x, of_U, of_entries
