"""NGC's filter, truncated or exact, and polynomials in A~; arguments are trusted here (see propagation.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from nareg._linear import conjugate_gradients
from nareg.gnn import _operators, _recurrences, series
from nareg.gnn._operators import Operator
from nareg.gnn.adjacency import Adjacency


def linear(x: Any, M: Operator, recurrence: Any) -> Any:
    """A fixed polynomial of an operator applied to features, with the transposed one as its gradient."""
    if isinstance(x, np.ndarray):
        return recurrence(M, x)
    from nareg.gnn._autograd import Linear

    return Linear.apply(x, lambda X: recurrence(M, X), lambda X: recurrence(M.transposed, X))


def ngc(x: Any, adjacency: Adjacency, *, lam: float, order: int, solver: str, tol: float) -> Any:
    """``(I + lam (I - A~))^-1 x`` or its truncated Neumann series."""
    M = _operators.of(adjacency, x)
    if solver == "neumann":
        return linear(x, M, lambda op, X: _recurrences.neumann(op, X, lam=lam, order=order))
    if solver == "chebyshev":  # for "rw" too: similar to the symmetric matrix, and a polynomial asks for no more
        coefficients = series.chebyshev_coefficients(lam, tol).tolist()
        return linear(x, M, lambda op, X: _recurrences.clenshaw(op, X, coefficients))
    if adjacency.is_symmetric:
        return linear(x, M, lambda op, X: conjugate_gradients.solve(system(op, lam), X, tol=tol)[0])
    # D~^-1 (A + I) = D~^-1/2 A~ D~^1/2: solve with the symmetric A~
    half = _column(np.sqrt(adjacency.degrees), x)
    symmetric = _operators.of(adjacency.symmetric, x)
    return linear(x * half, symmetric, lambda op, X: conjugate_gradients.solve(system(op, lam), X, tol=tol)[0]) / half


def system(M: Operator, lam: float) -> conjugate_gradients.Product:
    """``K = (1 + lam) I - lam M``."""
    return lambda P, out: M.multiply_add(P, P, -lam, 1 + lam, out)


def polynomial(x: Any, adjacency: Adjacency, weights: Any) -> Any:
    """``sum_s weights[s] A~^s x`` for a list of numbers, or a tensor that requires a gradient."""
    M = _operators.of(adjacency, x)
    if isinstance(weights, list):
        return linear(x, M, lambda op, X: _recurrences.horner(op, X, weights))
    from nareg.gnn._autograd import Weighted

    return Weighted.apply(x, weights, M)


def _column(values: np.ndarray, like: Any) -> Any:
    if isinstance(like, np.ndarray):
        return values[:, None].astype(like.dtype)
    import torch

    return torch.as_tensor(values[:, None], dtype=like.dtype, device=like.device)
