"""Conjugate gradients for many columns at once on ``K = (1 + lam) I - lam M`` or any SPD operator, NumPy or torch.

Every eigenvalue of K is at least one here, so that a residual of ``tol ||b||`` means an error of at most that. Columns are
scaled to one first: squares of very small or large ones would leave float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nareg._core.arrays import empty_like
from nareg.errors import SolverError

#: ``product(P, out)`` writes ``K P`` to ``out``.
Product = Callable[[Any, Any], Any]
#: Steps after which the host looks whether columns are left: to look takes nothing here, and on a device it waits for all work.
HOST, DEVICE = 1, 8


def solve(
    product: Product,
    B: Any,
    *,
    tol: float,
    inverse_diagonal: Any = None,
    max_products: int = 2000,
    check_every: int | None = None,
) -> tuple[Any, int]:
    """Solve ``K X = B`` for (N, F) B until every column has ``||B - K X|| <= tol ||B||``; X and the number of products.

    What counts is the residual of X itself: where the recurred one has drifted away from it the iteration starts again there.
    ``inverse_diagonal``, (N, 1), is the Jacobi preconditioner. ``check_every`` is the number of steps from one look at the
    columns that are left to the next (default: 1, for tensors on a device 8). X does not depend on it: a column that is done
    takes no more steps.
    """
    if check_every is None:
        check_every = HOST if isinstance(B, np.ndarray) or B.device.type == "cpu" else DEVICE
    peak = abs(B).max(0) if isinstance(B, np.ndarray) else B.abs().amax(0)
    peak = peak + (peak == 0)
    B = B / peak
    size = (B * B).sum(0) ** 0.5
    X, R, spare, products = B * 0.0, B * 1.0, empty_like(B), 0
    worst = np.inf
    while True:
        products += _descend(product, X, R, tol * size, inverse_diagonal, spare, max_products - products, check_every)
        R = B - product(X, spare)
        products += 1
        residual = float(((R * R).sum(0) ** 0.5 / (size + (size == 0))).max()) if B.shape[1] else 0.0
        if residual <= 1.5 * tol:
            X *= peak
            return X, products
        if products >= max_products or not residual < 0.5 * worst:
            raise SolverError(
                f"conjugate gradients reached a residual of {residual:.1e} instead of tol = {tol:g} in {products} products: "
                "take a larger tol, smaller weights, or float64."
            )
        worst = residual


def _descend(
    product: Product, X: Any, R: Any, goal: Any, inverse_diagonal: Any, Q: Any, max_products: int, check_every: int
) -> int:
    """Iterate on X and its residual R, in place, until the recurred residual is small; the number of products.

    Which columns are left, and whether one met a direction of no positive curvature, stays where the columns are.
    """
    P = R * 1.0 if inverse_diagonal is None else R * inverse_diagonal
    rz = (R * P).sum(0)
    active = (R * R).sum(0) ** 0.5 > goal
    indefinite = active & False
    for products in range(max_products):
        if products % check_every == 0 and not _left(active, indefinite):
            return products
        product(P, Q)
        curvature = (P * Q).sum(0)
        indefinite = indefinite | (active & ~(curvature > 0))
        active = active & ~indefinite
        # a finished column takes no more steps; adding one there keeps 0 / 0 out of it
        step = rz * active / (curvature * active + ~active)
        X += P * step
        R -= Q * step
        Z = R if inverse_diagonal is None else R * inverse_diagonal
        new = (R * Z).sum(0)
        P *= new * active / (rz + (rz == 0))
        P += Z
        rz = new
        active = active & ((R * R).sum(0) ** 0.5 > goal)
    _left(active, indefinite)
    return max_products


def _left(active: Any, indefinite: Any) -> bool:
    """Whether columns are left; refuses a system that is not positive definite."""
    seen = int(active.any() + 2 * indefinite.any())  # one number, so that a device is waited for once
    if seen >= 2:
        raise SolverError("the system is not positive definite in this precision: pass float64 features, or a larger tol.")
    return seen == 1
