"""How far a likelihood is from its minimum at most: the value of a dual point against that of the primal one.

With ``W`` any positive definite matrix and ``w_k = tr(W S_k)``, ``log det S <= tr(W S) - log det W - N`` bounds

    f(u) = sum_k m_k u_k + h_k/2 (u_k - c_k)^2 - log det S(u)
         >= log det W + N + sum_k min_(v >= floor) (m_k - w_k) v + h_k/2 (v - c_k)^2.

At ``W = Theta^-1`` the gap is a sum over unknowns of what each would gain alone in the quadratic model of curvature h.
Without h the minima are finite only where ``w_k <= m_k``: W is scaled down until that holds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def duality_gap(
    u: np.ndarray, gradient: np.ndarray, h: np.ndarray, floor: np.ndarray | None, n: int, products: Callable[[], np.ndarray]
) -> float | None:
    """``f(u)`` minus a proven lower bound of its minimum; None where no bound is at hand (no h and no floor).

    ``products`` computes ``tr(Theta^-1 S_k)``; it is called where h is zero.
    """
    if h.min() > 0:
        best = u - gradient / h
        step = (best if floor is None else np.maximum(best, floor)) - u
        return -float(gradient @ step + 0.5 * (h * step) @ step)
    if floor is None or h.any():
        return None
    inverse = products()
    moments = gradient + inverse
    scale = min(1.0, float((moments / inverse).min()))
    if scale <= 0:
        return None
    return float(u @ moments - (moments - scale * inverse) @ floor - n * np.log(scale)) - n
