"""Jacobi- or multigrid-preconditioned conjugate gradients on a device, all columns at once.

The recurrences of :mod:`nareg._solvers.cg`. Convergence flags, step lengths and the residual history stay on the device. The
host reads one number every ``check_every`` iterations; a column that has converged in between is frozen, so that it stays as
it was.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from nareg._solvers.backends._torch._monitor import DeviceIterates, DeviceMonitor
from nareg._solvers.backends._torch._passes import Passes
from nareg._solvers.iterate import Callback
from nareg.results import Status

Preconditioner = Callable[[torch.Tensor], torch.Tensor]


def solve(
    passes: Passes,
    B: torch.Tensor,
    *,
    tol: float,
    max_iterations: int,
    callback: Callback | None = None,
    x0: torch.Tensor | None = None,
    precondition: Preconditioner | None = None,
) -> DeviceIterates:
    """Solve ``K X = B`` for (N, T) B; Jacobi preconditioning unless another is passed.

    Stops when every column has ``||B - K X|| <= tol ||B||``, also after scaling by the diagonal.
    """
    X = torch.zeros_like(B) if x0 is None else x0.clone()
    R = B.clone() if x0 is None else torch.addmm(B, passes.K, X, alpha=-1)
    P = R * passes.inverse_diagonal if precondition is None else precondition(R).clone()
    Q = torch.empty_like(B)
    monitor = DeviceMonitor(passes.squares(B)[1:], tol, callback, frozen=True)
    squares = passes.squares(R)
    monitor.record(squares[1:])
    rz = squares[0] if precondition is None else (R * P).sum(0)
    failed = torch.zeros_like(monitor.active)
    for iteration in range(max_iterations + 1):
        last = iteration == max_iterations
        if (last or monitor.due(iteration)) and (monitor.ended(failed) or last):
            break
        curvature = passes.product(P, Q)
        failed |= monitor.active & ~(curvature > 0)
        monitor.active &= ~failed
        # a frozen column has step 0; the guards keep 0 / 0 out of converged and zero columns
        squares = passes.step(X, R, P, Q, torch.where(monitor.active, rz / curvature, 0.0))
        monitor.record(squares[1:])
        if precondition is None:
            before, rz = rz, squares[0]
            passes.turn(R, P, torch.where(monitor.active, rz / before, 0.0))
        else:
            Z = precondition(R)
            before, rz = rz, torch.mul(R, Z, out=Q).sum(0)
            torch.addcmul(Z, P, torch.where(monitor.active, rz / before, 0.0), out=P)
    status = Status.INDEFINITE if monitor.failed else Status.CONVERGED if monitor.done else Status.MAX_ITERATIONS
    return DeviceIterates(X, monitor.iterations, monitor.history(), status)
