"""Chebyshev semi-iteration on ``D^-1 K`` with bounds that each node can compute from its own numbers.

For ``K = C + W L W`` with a graph Laplacian L and D the diagonal of K, every eigenvalue of ``D^-1 K`` lies in

    [ min_i c_i / (c_i + w_i^2 d_i),  2 ]

because ``u^T L u <= 2 u^T diag(d) u``: one minimum over the network, no eigenvalue solver. Scaling by D keeps
the interval short when the data-term weights differ, where the unscaled bound [min c, max c + 2 w^2 d]
multiplies both spreads. With an unobserved node the lower end is zero; it is then estimated by Lanczos, which
is not a local computation (Jacobi is).
"""

from __future__ import annotations

import numpy as np

from nareg._solvers.iterate import Callback, Iterates
from nareg._solvers.recursion import scaled_extreme, stationary
from nareg._solvers.system import FilterSystem
from nareg.results import Status


def interval(system: FilterSystem) -> tuple[float, float]:
    """An interval that holds the spectrum of ``D^-1 K`` (lower end estimated where no bound is known)."""
    high = 2.0 if system.sdd else 1.01 * scaled_extreme(system, "LA")
    local = float(np.min(system.c / system.diagonal))
    if local > 0 and system.w is not None:  # S is PSD, so x^T K x >= x^T C x
        return local, high
    return 0.9 * scaled_extreme(system, "SA"), high


def solve(system: FilterSystem, rhs: np.ndarray, *, tol: float, max_iterations: int, callback: Callback | None) -> Iterates:
    """Chebyshev rounds on ``K x = rhs``."""
    low, high = interval(system)
    if low <= 0:
        return Iterates(np.zeros_like(rhs), 0, [1.0], Status.INDEFINITE)
    # an interval of one point (all weights zero) would divide by zero
    return stationary(
        system,
        rhs,
        tol=tol,
        max_iterations=max_iterations,
        callback=callback,
        interval=(low, max(high, low * (1 + 1e-12))),
    )
