"""Jacobi- or multigrid-preconditioned conjugate gradients on a device, all columns at once.

The recurrences of :mod:`nareg.filters.cg`. Convergence flags, step lengths and the residual history stay on the device. The
host reads one number every ``check_every`` iterations; a column that has converged in between is frozen, so that it stays as
it was.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from nareg.filters._iterate import Callback
from nareg.filters.backends._torch._monitor import Monitor, Reached
from nareg.results import Status

Preconditioner = Callable[[torch.Tensor], torch.Tensor]


def solve(
    K: torch.Tensor,
    inverse_diagonal: torch.Tensor,
    B: torch.Tensor,
    *,
    tol: float,
    max_iterations: int,
    callback: Callback | None = None,
    x0: torch.Tensor | None = None,
    precondition: Preconditioner | None = None,
) -> Reached:
    """Solve ``K X = B`` for (N, T) B; Jacobi preconditioning with (N,) ``inverse_diagonal`` unless another is passed.

    Stops when every column has ``||B - K X|| <= tol ||B||``, also after scaling by the diagonal.
    """
    d = inverse_diagonal[:, None]
    X = torch.zeros_like(B) if x0 is None else x0.clone()
    R = B.clone() if x0 is None else torch.addmm(B, K, X, alpha=-1)
    Q, scratch = torch.empty_like(B), torch.empty_like(B)
    monitor = Monitor(inverse_diagonal, B, tol, callback)
    rz = monitor.residual(R, scratch)
    if precondition is None:
        P = R * d
    else:
        P = precondition(R).clone()
        rz = torch.mul(R, P, out=scratch).sum(0)
    failed = torch.zeros_like(monitor.active)
    for iteration in range(max_iterations + 1):
        if monitor.due(iteration) and monitor.finished(failed):
            break
        if iteration == max_iterations:
            monitor.finished(failed, last=True)
            break
        torch.mm(K, P, out=Q)
        curvature = torch.mul(P, Q, out=scratch).sum(0)
        failed |= monitor.active & ~(curvature > 0)
        monitor.active &= ~failed
        # a frozen column has step 0; the guards keep 0 / 0 out of converged and zero columns
        alpha = torch.where(monitor.active, rz / curvature, 0.0)
        X.addcmul_(P, alpha)
        R.addcmul_(Q, alpha, value=-1)
        rz_new = monitor.residual(R, scratch)
        if precondition is None:
            torch.mul(R, d, out=scratch)
            Z = scratch
        else:
            Z = precondition(R)
            rz_new = torch.mul(R, Z, out=scratch).sum(0)
        beta = torch.where(monitor.active, rz_new / rz, 0.0)
        torch.addcmul(Z, P, beta, out=P)
        rz = rz_new
    status = Status.INDEFINITE if monitor.failed else Status.CONVERGED if monitor.done else Status.MAX_ITERATIONS
    return Reached(X, monitor.iterations, monitor.history(), status)
