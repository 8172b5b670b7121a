"""Jacobi rounds, recursion (19), and the Chebyshev semi-iteration on a device.

The rounds of :func:`nareg.filters.recursion.stationary`, with ``x - x_before`` in the place of P: one array less to move. Their
coefficients depend on the interval of the spectrum alone, so that the host waits only to see whether all columns have
converged.
"""

from __future__ import annotations

import torch

from nareg.filters._iterate import Callback
from nareg.filters.backends._torch._monitor import DeviceIterates, DeviceMonitor
from nareg.filters.backends._torch._rows import RowBlocks, added
from nareg.results import Status


def solve(
    rows: RowBlocks,
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
    b, x, x_before = (rows.split(V) for V in (B, X, before))
    weights = [part[1:] for part in rows.weights]  # D^-1 is of use to conjugate gradients only
    left, square = rows.scratch(B), rows.scratch(B)
    d = rows.inverse_diagonal if scaled else torch.ones_like(rows.inverse_diagonal)
    monitor = DeviceMonitor(rows.squares(B)[1:], tol, callback)
    alpha, beta, center, half, rho = 1.0, 0.0, 1.0, 0.0, 0.0
    if interval is not None:
        center, half = sum(interval) / 2, (interval[1] - interval[0]) / 2
        alpha, rho = 1.0 / center, half / center
    for round_ in range(max_iterations + 1):
        shares = []
        factors = rows.split(d * alpha)
        for k, K in enumerate(rows.parts):
            torch.addmm(b[k], K, X, alpha=-1, out=left[k])
            shares.append(torch.mm(weights[k], torch.mul(left[k], left[k], out=square[k])))
            # the next point takes the place of the one before: x + beta (x - x_before) + alpha D^-1 (b - K x)
            torch.lerp(x_before[k], x[k], 1 + beta, out=x_before[k]).addcmul_(left[k], factors[k])
        monitor.record(added(shares))
        # the residual of X is known once the round has computed it: X itself is the answer, not the new point
        last = round_ == max_iterations
        if (last or monitor.due(round_)) and (monitor.ended() or last):
            break
        X, before, x, x_before = before, X, x_before, x
        if interval is not None:
            rho_new = 1.0 / (2 * center / half - rho)
            alpha, beta, rho = 2 * rho_new / half, rho_new * rho, rho_new
    status = Status.CONVERGED if monitor.done else Status.MAX_ITERATIONS
    return DeviceIterates(X, monitor.iterations, monitor.history(), status)
