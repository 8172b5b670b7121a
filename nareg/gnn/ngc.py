"""NGC's filter, truncated or exact, and polynomials in A~; arguments are trusted here (see propagation.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from nareg._core.arrays import differentiated, namespace, refuse_transform
from nareg._solvers import cg
from nareg._solvers.passes import ProductPasses
from nareg.errors import InputError
from nareg.gnn import _operators, series
from nareg.gnn._operators import Operator, adjacency_operator
from nareg.gnn.adjacency import Adjacency
from nareg.gnn.solvers import Chebyshev, Neumann, Solver


def linear(x: Any, M: Operator, recurrence: Any) -> Any:
    """A fixed polynomial of an operator applied to features, with the transposed one as its gradient."""
    if isinstance(x, np.ndarray):
        return recurrence(M, x)
    from nareg._solvers._torch._device import Linear

    return Linear.apply(x, lambda X: recurrence(M, X), lambda X: recurrence(M.transposed, X))


def ngc(adjacency: Adjacency, x: Any, *, lam: float, solver: Solver) -> Any:
    """``(I + lam (I - A~))^-1 x`` or its truncated Neumann series."""
    return (_learned if differentiable(adjacency) else _fixed)(adjacency, x, lam=lam, solver=solver)


def differentiable(adjacency: Any, parameter: Any = None) -> bool:
    """Whether a gradient may be asked for in a learned adjacency or a parameter: without one, iterates need no memory."""
    if not (adjacency.is_learned or differentiated(parameter)):
        return False
    import torch
    from torch.autograd import forward_ad

    return torch.is_grad_enabled() or forward_ad._current_level >= 0  # tangents take no notice of no_grad


def _fixed(adjacency: Adjacency, x: Any, *, lam: float, solver: Solver) -> Any:
    """The filter with a gradient in x."""
    M = adjacency_operator(adjacency, x)
    if isinstance(solver, Neumann):
        return linear(x, M, lambda op, X: _operators.neumann(op, X, lam=lam, order=solver.order))
    if isinstance(solver, Chebyshev):  # for "rw" too: similar to the symmetric matrix, and a polynomial asks for no more
        if lam * namespace(x).finfo(x.dtype).eps > 1:  # nothing else notices in a series
            raise InputError(
                f"lam is {lam:g}: rounding in {x.dtype} destroys the filter; take a smaller lam, or float64 features."
            )
        coefficients = series.chebyshev_coefficients(lam, solver.tol).tolist()
        return linear(x, M, lambda op, X: _operators.clenshaw(op, X, coefficients))

    def solved(op: Operator, X: Any) -> Any:
        return cg.solve_exactly(system(op, lam), X, tol=solver.tol)[0]

    if adjacency.is_symmetric:
        return linear(x, M, solved)
    # D~^-1 (A + I) = D~^-1/2 A~ D~^1/2: solve with the symmetric A~
    half = _column(np.sqrt(adjacency.degrees), x)
    return linear(x * half, adjacency_operator(adjacency.symmetric, x), solved) / half


def ngc_transposed(adjacency: Adjacency, x: Any, *, lam: float, solver: Solver) -> Any:
    """The transposed filter: ``D~ H D~^-1`` for a random walk."""
    if adjacency.is_symmetric:
        return _fixed(adjacency, x, lam=lam, solver=solver)
    degrees = _column(adjacency.degrees, x)
    return _fixed(adjacency, x / degrees, lam=lam, solver=solver) * degrees


def _learned(adjacency: Any, x: Any, *, lam: float, solver: Solver) -> Any:
    """The filter with a gradient in the entries of A~ as well."""
    from nareg.gnn._autograd import PerturbedSeries, Solve

    entries = adjacency.entries(adjacency.normalization, x)
    if isinstance(solver, Neumann):
        M = adjacency_operator(adjacency, x)
        return PerturbedSeries.apply(x, M, (adjacency.slope,), lam, solver.order, entries)
    return Solve.apply(
        x,
        lambda B: _fixed(adjacency, B, lam=lam, solver=solver),
        lambda B: ngc_transposed(adjacency, B, lam=lam, solver=solver),
        (lambda Y, Z, values: -lam * adjacency.slope(Y, Z, values),),
        entries,
    )


def system(M: Operator, lam: float) -> ProductPasses:
    """``K = (1 + lam) I - lam M``."""
    return ProductPasses(lambda P, out: M.multiply_add(P, P, -lam, 1 + lam, out))


def polynomial(adjacency: Adjacency, x: Any, weights: Any) -> Any:
    """``sum_s weights[s] A~^s x`` for a list of numbers, or a tensor that requires a gradient."""
    M = adjacency_operator(adjacency, x)
    if isinstance(weights, list):
        return linear(x, M, lambda op, X: _operators.horner(op, X, weights))
    from nareg.gnn._autograd import WeightedPropagation

    refuse_transform("a polynomial in its weights")
    return WeightedPropagation.apply(x, weights, M)


def _column(values: np.ndarray, like: Any) -> Any:
    return namespace(like).asarray(values[:, None], dtype=like.dtype, device=like.device)
