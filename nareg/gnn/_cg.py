"""Conjugate gradients for many columns at once on ``K = (1 + lam) I - lam M`` or any SPD operator, NumPy or torch.

Every eigenvalue of K is at least one here, so that a residual of ``tol ||b||`` means an error of at most that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nareg.errors import SolverError
from nareg.gnn._operators import empty_like

#: ``product(P, out)`` writes ``K P`` to ``out``.
Product = Callable[[Any, Any], Any]


def solve(product: Product, B: Any, *, tol: float, inverse_diagonal: Any = None, most: int = 2000) -> tuple[Any, int]:
    """Solve ``K X = B`` for (N, F) B until every column has ``||B - K X|| <= tol ||B||``; X and the number of products.

    ``inverse_diagonal``, (N, 1), is the Jacobi preconditioner.
    """
    tiny = float(np.finfo(B.dtype if isinstance(B, np.ndarray) else str(B.dtype).removeprefix("torch.")).tiny)
    X, R, Q = B * 0.0, B * 1.0, empty_like(B)
    P = R * 1.0 if inverse_diagonal is None else R * inverse_diagonal
    rz = (R * P).sum(0)
    goal = tol * (B * B).sum(0) ** 0.5
    active = (R * R).sum(0) ** 0.5 > goal
    for products in range(most + 1):
        if not active.any():
            return X, products
        product(P, Q)
        curvature = (P * Q).sum(0)
        if (active & ~(curvature > 0)).any():
            raise SolverError("the system is not positive definite in this precision: pass float64 features, or a larger tol.")
        # a finished column takes no more steps; adding tiny keeps 0 / 0 out of it
        step = rz / (curvature + tiny) * active
        X += P * step
        R -= Q * step
        Z = R if inverse_diagonal is None else R * inverse_diagonal
        new = (R * Z).sum(0)
        active = active & ((R * R).sum(0) ** 0.5 > goal)
        P *= new / (rz + tiny) * active
        P += Z
        rz = new
    raise SolverError(f"conjugate gradients did not reach tol = {tol:g} in {most} products: take a larger tol, or float64.")
