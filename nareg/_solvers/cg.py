"""Conjugate gradients on many columns at once (Algorithm 1 of the node-adaptive paper, preconditioned): the one loop.

The published algorithm is the case without preconditioner. Dividing by the diagonal of K (Jacobi) costs
nothing and takes the spread of the weights out of the condition number: with weights over three decades on a
grid of 10^6 nodes about 34 iterations instead of 715.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._core.arrays import dots, empty_like, ratio
from nareg._solvers.iterate import Callback, Iterates, Monitor, in_blocks
from nareg._solvers.passes import CompiledPasses, Passes
from nareg._solvers.system import FilterSystem
from nareg.errors import SolverError
from nareg.results import Status

Preconditioner = Callable[[Any], Any]

#: Asked after each iteration of the first block, with the largest relative residual of each so far: whether to give up.
Watch = Callable[[list[float]], bool]


def descend(
    passes: Passes, X: Any, R: Any, P: Any, Q: Any, monitor: Monitor, *, max_iterations: int,
    precondition: Preconditioner | None = None, natural: bool = False, inner: Callable[[Any, Any], Any] = dots,
    watch: Watch | None = None,
) -> None:  # fmt: skip
    """Move X until the monitor ends it; R is its residual, P is zero, Q is spare. All four are changed in place.

    Each column has its own step lengths, and a column that is done takes none. Jacobi preconditioning, by the passes' diagonal,
    unless another is passed, for arrays with these ``inner`` products. ``natural`` judges by its norm ``R^T M^-1 R``.
    """

    def turn(squares: Any, before: Any = None) -> Any:
        """Record the residual and turn the direction to it; ``R^T M^-1 R``, which ``before`` was the last time."""
        nonlocal P
        Z = None if precondition is None else precondition(R)
        rz = squares[0] if Z is None else inner(R, Z)
        monitor.record(rz[None] if natural else squares[1:])
        beta = 0 * rz if before is None else ratio(rz, before, monitor.active)
        if Z is None:
            passes.turn(R, P, beta)
        else:
            P *= beta
            P += Z
        return rz

    rz = turn(passes.squares(R))
    for iteration in range(max_iterations + 1):
        if monitor.ended(iteration, max_iterations):
            return
        if watch is not None and iteration and watch(monitor.records):
            monitor.status = Status.MAX_ITERATIONS
            return
        curvature = passes.product(P, Q)
        monitor.fail(~(curvature > 0))
        # the condition keeps 0 / 0 out of columns that are done, and of those that are zero
        rz = turn(passes.step(X, R, P, Q, ratio(rz, curvature, monitor.active)), rz)


def solve_block(
    passes: Passes, B: Any, *, tol: float, max_iterations: int, callback: Callback | None = None, x0: Any = None,
    precondition: Preconditioner | None = None, watch: Watch | None = None,
) -> Iterates:  # fmt: skip
    """Solve ``K X = B`` for one block of columns, from ``x0`` or zero."""
    P, Q = B * 0.0, empty_like(B)
    if x0 is None:
        X, R = B * 0.0, B * 1.0
    else:
        X = x0 * 1.0
        passes.product(X, Q)
        R = B - Q
    monitor = Monitor(passes.squares(B)[1:] ** 0.5, tol, callback)
    descend(passes, X, R, P, Q, monitor, max_iterations=max_iterations, precondition=precondition, watch=watch)
    return monitor.iterates(X)


def solve(
    system: FilterSystem, rhs: np.ndarray, *, precondition: Preconditioner | None = None, max_iterations: int = 10_000,
    **options: Any,
) -> Iterates:  # fmt: skip
    """Solve ``K x = rhs`` for (N, T) ``rhs``; Jacobi preconditioning unless another is passed.

    Stops when every column has ``||rhs - K x|| <= tol ||rhs||``, also after scaling by the diagonal of K. Options are those of
    :func:`solve_in_order`.
    """
    order = system.order if precondition is None else None
    K = system.K if order is None else system.ordered_K
    return solve_in_order(K, rhs, order=order, precondition=precondition, max_iterations=max_iterations, **options)


def solve_in_order(
    K: sp.csr_array, rhs: np.ndarray, *, x0: np.ndarray | None = None, order: np.ndarray | None = None,
    watch: Watch | None = None, **options: Any,
) -> Iterates:  # fmt: skip
    """The same for a matrix whose nodes are in this order (None: as those of the signals).

    Options are those of :func:`solve_block`. Where ``watch`` gives up, signals beyond the first block are left at ``x0``, or
    zero.
    """
    diagonal = K.diagonal()
    if (diagonal <= 0).any():
        return Iterates(np.zeros_like(rhs), 0, [1.0], Status.INDEFINITE)
    passes = CompiledPasses(K, 1.0 / diagonal)
    watches = iter([watch])  # the first block alone is watched

    def solve_one(B: np.ndarray, start: np.ndarray | None) -> Iterates:
        return solve_block(passes, B, x0=start, watch=next(watches, None), **options)

    return in_blocks(rhs, solve_one, order=order, x0=x0, first_only=watch is not None)


def solve_exactly(
    passes: Passes, B: Any, *, tol: float, max_products: int = 2000, check_every: int | None = None
) -> tuple[Any, int]:
    """Solve ``K X = B`` for (N, F) B, NumPy or torch, until the residual of X itself is small in every column.

    Columns are scaled to one first: squares of very small or large ones would leave float32. Where the recurred residual has
    drifted away from that of X, which is ``B - K X``, the iteration starts again there. ``check_every``: see :class:`Monitor`;
    X does not depend on it. A column that is not finite gives NaN, and the others what they give without it.

    Returns
    -------
    X, products : array, int
        The solution, and how many products it took.

    Raises
    ------
    SolverError
        If the residual stays above the tolerance, or K is not positive definite in this precision.
    """
    if B.shape[1] == 0:
        return B * 1.0, 0
    peak = abs(B).max(0) if isinstance(B, np.ndarray) else B.abs().amax(0)
    peak = peak + (peak == 0)
    B = B / peak
    norms = passes.squares(B)[1:] ** 0.5
    X, R, spare, products, worst = B * 0.0, B * 1.0, empty_like(B), 0, np.inf
    while True:
        monitor = Monitor(norms, tol, every=check_every)
        descend(passes, X, R, B * 0.0, spare, monitor, max_iterations=max_products - products)
        if monitor.status is Status.INDEFINITE:
            raise SolverError("the system is not positive definite in this precision: pass float64 features, or a larger tol.")
        passes.product(X, spare)
        R = B - spare
        products += monitor.iterations + 1
        residual = float(ratio(passes.squares(R)[1:] ** 0.5, norms).max())
        if residual <= 1.5 * tol:
            X *= peak
            return X, products
        if products >= max_products or not residual < 0.5 * worst:
            raise SolverError(
                f"conjugate gradients reached a residual of {residual:.1e} instead of tol = {tol:g} in {products} products: "
                "take a larger tol, smaller weights (lam), or float64."
            )
        worst = residual
