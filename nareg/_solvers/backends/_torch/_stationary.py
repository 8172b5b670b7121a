"""Jacobi rounds, recursion (19), and the Chebyshev semi-iteration on a device.

The rounds of :func:`nareg._solvers.recursion.stationary`. Their coefficients depend on the interval of the spectrum alone, so
that the host waits only to see whether all columns have converged.
"""

from __future__ import annotations

import torch

from nareg._solvers.backends._torch._monitor import DeviceIterates, DeviceMonitor
from nareg._solvers.backends._torch._passes import Passes
from nareg._solvers.iterate import Callback
from nareg.results import Status


def solve(
    passes: Passes,
    B: torch.Tensor,
    *,
    tol: float,
    max_iterations: int,
    callback: Callback | None = None,
    x0: torch.Tensor | None = None,
    interval: tuple[float, float] | None = None,
    scaled: bool = True,
) -> DeviceIterates:
    """Solve ``K X = B``; Chebyshev where the interval of the spectrum of ``D^-1 K`` is given; D = I unless ``scaled``."""
    X = torch.zeros_like(B) if x0 is None else x0.clone()
    before = X.clone()
    monitor = DeviceMonitor(passes.squares(B)[1:], tol, callback, frozen=False)
    alpha, beta, center, half, rho = 1.0, 0.0, 1.0, 0.0, 0.0
    if interval is not None:
        center, half = sum(interval) / 2, (interval[1] - interval[0]) / 2
        alpha, rho = 1.0 / center, half / center
    for round_ in range(max_iterations + 1):
        monitor.record(passes.relax(B, X, before, alpha, beta, scaled=scaled)[1:])
        # the residual of X is known once the round has computed it: X itself is the answer, not the new point
        last = round_ == max_iterations
        if (last or monitor.due(round_)) and (monitor.ended() or last):
            break
        X, before = before, X
        if interval is not None:
            rho_new = 1.0 / (2 * center / half - rho)
            alpha, beta, rho = 2 * rho_new / half, rho_new * rho, rho_new
    status = Status.CONVERGED if monitor.done else Status.MAX_ITERATIONS
    return DeviceIterates(X, monitor.iterations, monitor.history(), status)
