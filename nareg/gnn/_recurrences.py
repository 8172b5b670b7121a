"""Polynomials in an operator, in Horner's and Clenshaw's form: two extra arrays, one product per degree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nareg._core.arrays import empty_like
from nareg.gnn._operators import Operator, add_scaled


def neumann(M: Operator, X: Any, *, lam: float, order: int, iterates: list[Any] | None = None) -> Any:
    """``1/(lam+1) sum_{s=0}^{order} (c M)^s X`` with ``c = lam / (lam+1)``: Z <- X + c M Z, from Z = X.

    ``iterates``, if a list, receives the Z of every step before it is multiplied, for a backward pass.
    """
    if order == 0:
        return X / (lam + 1)
    c = lam / (lam + 1)
    spare = [empty_like(X) for _ in range(min(order, 2))]
    Z = X
    for step in range(order):
        if iterates is not None:
            iterates.append(Z)
        out = spare[step % 2] if iterates is None else empty_like(X)
        Z = M.multiply_add(Z, X, c, 1.0, out)
    Z *= 1 / (lam + 1)
    return Z


def horner(M: Operator, X: Any, weights: Sequence[float]) -> Any:
    """``sum_s weights[s] M^s X``: Z <- weights[s] X + M Z, from the last weight down."""
    *rest, last = weights
    Z, spare = X * last, empty_like(X) if rest else None
    for weight in reversed(rest):
        M.multiply_add(Z, X, 1.0, weight, spare)
        Z, spare = spare, Z
    return Z


def clenshaw(M: Operator, X: Any, coefficients: Sequence[float]) -> Any:
    """``sum_k coefficients[k] T_k(M) X`` for M with its spectrum in [-1, 1].

    b_k = c_k X + 2 M b_{k+1} - b_{k+2}, and at the end c_0 X + M b_1 - b_2.
    """
    *rest, last = coefficients
    newer, older = X * last, X * 0.0
    for k, coefficient in reversed(list(enumerate(rest))):
        M.multiply_add(newer, older, 2.0 if k else 1.0, -1.0, older)
        add_scaled(older, X, coefficient)
        newer, older = older, newer
    return newer
