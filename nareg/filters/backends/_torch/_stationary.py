"""Jacobi rounds, recursion (19), and the Chebyshev semi-iteration on a device: ``x <- x + P``, ``P = alpha D^-1 r + beta P``.

The rounds of :func:`nareg.filters.recursion.stationary`. Their coefficients depend on the interval of the spectrum alone, so
that the host waits only to see whether all columns have converged.
"""

from __future__ import annotations

import torch

from nareg.filters._iterate import Callback
from nareg.filters.backends._torch._monitor import Monitor, Reached
from nareg.results import Status


def solve(
    K: torch.Tensor,
    inverse_diagonal: torch.Tensor,
    B: torch.Tensor,
    *,
    tol: float,
    max_iterations: int,
    callback: Callback | None = None,
    x0: torch.Tensor | None = None,
    interval: tuple[float, float] | None = None,
    scaled: bool = True,
) -> Reached:
    """Solve ``K X = B``; Chebyshev where the interval of the spectrum of ``D^-1 K`` is given; D = I unless ``scaled``."""
    X = torch.zeros_like(B) if x0 is None else x0.clone()
    P, R, scratch = torch.zeros_like(B), torch.empty_like(B), torch.empty_like(B)
    monitor = Monitor(inverse_diagonal, B, tol, callback)
    d = inverse_diagonal[:, None] if scaled else torch.ones_like(inverse_diagonal)[:, None]
    alpha, beta, center, half, rho = 1.0, 0.0, 1.0, 0.0, 0.0
    if interval is not None:
        center, half = sum(interval) / 2, (interval[1] - interval[0]) / 2
        alpha, rho = 1.0 / center, half / center
    for round_ in range(max_iterations + 1):
        torch.addmm(B, K, X, alpha=-1, out=R)
        monitor.residual(R, scratch)
        # the residual of X is known now: X itself is the answer, not the next point
        if (monitor.due(round_) or round_ == max_iterations) and monitor.finished():
            break
        if round_ == max_iterations:
            break
        torch.mul(R, d * alpha, out=scratch)
        torch.add(scratch, P, alpha=beta, out=P)
        X += P
        if interval is not None:
            rho_new = 1.0 / (2 * center / half - rho)
            alpha, beta, rho = 2 * rho_new / half, rho_new * rho, rho_new
    status = Status.CONVERGED if monitor.done else Status.MAX_ITERATIONS
    return Reached(X, monitor.iterations, monitor.history(), status)
