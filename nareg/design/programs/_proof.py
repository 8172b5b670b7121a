"""A lower bound on a program's optimum that trusts no solver: from the dual values, recomputed, and eigenvalues.

See :mod:`nareg.design._convex.dual_bound`, which has the same bound for a low-rank factor.
"""

from __future__ import annotations

import numpy as np


def proven_bound(
    value: float, slope: np.ndarray, omega: np.ndarray, multiplier: np.ndarray, low: np.ndarray, high: np.ndarray
) -> float | None:
    """``q(Omega) - <Y, Omega> + sum_i lam_i low_i``, with lam lowered until ``Y - diag(lam)`` is PSD.

    ``slope`` is Y, the gradient of the convex q in Omega at ``omega``, and ``multiplier`` the solver's dual values of
    ``Omega_ii >= low_i``. None where the bound says nothing.
    """
    size = np.sqrt(np.maximum(np.diagonal(omega), 1e-300))
    Z = size[:, None] * (slope - np.diag(multiplier)) * size
    rounding = 4 * len(Z) * np.finfo(float).eps * float(np.abs(Z).sum(axis=1).max(initial=0.0))
    lam = multiplier - max(rounding - float(np.linalg.eigvalsh(Z)[0]), rounding) / size**2
    ends = np.where(lam > 0, low, high)
    bound = value - float(np.sum(slope * omega)) + float(lam @ ends)
    return bound if np.isfinite(bound) and bound > 0 else None
