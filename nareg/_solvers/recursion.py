"""Distributed recursions: in every round each node receives one number per signal from each neighbor.

* ``jacobi``: ``x_i <- (c_i y_i + w_i sum_j A_ij w_j x_j) / (c_i + w_i^2 d_i)``. Converges for every w and
  every solvable data term on a graph Laplacian.
* ``published``: recursion (19), ``x <- y - S x``. Converges only if ``||S|| < 1``, which designed weights
  rarely meet; refused otherwise.
* ``chebyshev``: the semi-iteration on ``D^-1 K``, with bounds that each node can compute from its own numbers.

For ``K = C + W L W`` with a graph Laplacian L and D the diagonal of K, every eigenvalue of ``D^-1 K`` lies in

    [ min_i c_i / (c_i + w_i^2 d_i),  2 ]

because ``u^T L u <= 2 u^T diag(d) u``: one minimum over the network, no eigenvalue solver. Scaling by D keeps
the interval short when the data-term weights differ, where the unscaled bound [min c, max c + 2 w^2 d]
multiplies both spreads. With an unobserved node the lower end is zero; it is then estimated by Lanczos, which
is not a local computation (Jacobi is).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._solvers.eigenvalues import extreme_eigenvalue
from nareg._solvers.iterate import Callback, Iterates, Monitor, in_blocks
from nareg._solvers.passes import CompiledPasses, RoundPasses
from nareg._solvers.system import FilterSystem
from nareg.errors import DivergentMethodError
from nareg.results import Status


def jacobi(system: FilterSystem, rhs: np.ndarray, **options: Any) -> Iterates:
    """Jacobi rounds on ``K x = rhs``; options of :func:`rounds`, as for the others."""
    refuse_jacobi(system)
    return stationary(system, rhs, **options)


def refuse_jacobi(system: FilterSystem) -> None:
    """Refuse a system on which Jacobi diverges."""
    if not system.sdd:
        smallest, largest = scaled_extreme(system, "SA"), scaled_extreme(system, "LA")
        if not (smallest > 0 and largest < 2):
            raise DivergentMethodError(
                f"method='jacobi' diverges on this S (the eigenvalues of D^-1 K reach from {smallest:.4g} to {largest:.4g}, "
                "they must lie between 0 and 2): use method='cg' or 'chebyshev' if S is positive definite."
            )


def published(system: FilterSystem, rhs: np.ndarray, **options: Any) -> Iterates:
    """Recursion (19) as published."""
    refuse_published(system)
    return stationary(system, rhs, scaled=False, **options)


def refuse_published(system: FilterSystem) -> None:
    """Refuse a system that recursion (19) does not describe, or on which it diverges."""
    if not np.array_equal(system.c, np.ones_like(system.c)):
        raise DivergentMethodError(
            "method='recursion' is equation (19), which has no data-term weights and no missing nodes: "
            "use method='jacobi' or 'chebyshev'."
        )
    norm = spectral_norm(system.S)
    if norm >= 1:
        raise DivergentMethodError(
            f"method='recursion' (equation 19) diverges for these weights: ||S|| = {norm:.4g}, it must be below 1; "
            + (
                "use method='jacobi' or 'chebyshev', which send the same messages and always converge."
                if system.sdd
                else "use method='chebyshev', which sends the same messages."
            )
        )


def stationary(system: FilterSystem, rhs: np.ndarray, **options: Any) -> Iterates:
    """:func:`rounds` on blocks of columns."""
    order = system.order
    diagonal = system.diagonal if order is None else system.diagonal[order]
    passes = CompiledPasses(system.K if order is None else system.ordered_K, 1.0 / diagonal)
    return in_blocks(rhs, lambda B, _start: rounds(passes, B, **options), order=order)


def rounds(
    passes: RoundPasses, B: Any, *, tol: float, max_iterations: int, callback: Callback | None, x0: Any = None,
    interval: tuple[float, float] | None = None, scaled: bool = True,
) -> Iterates:  # fmt: skip
    """``x <- x + beta (x - x_before) + alpha D^-1 (rhs - K x)`` on one block of columns; D = I unless ``scaled``.

    Without ``interval`` alpha = 1 and beta = 0 (a stationary iteration); with one that holds the spectrum of ``D^-1 K``, the
    Chebyshev semi-iteration. Coefficients depend on the interval alone, so that the host waits for a device only to see
    whether all columns are done.
    """
    X = B * 0.0 if x0 is None else x0 * 1.0
    before = X * 1.0
    monitor = Monitor(passes.squares(B)[1:] ** 0.5, tol, callback, frozen=False)
    alpha, beta, center, half, rho = 1.0, 0.0, 1.0, 0.0, 0.0
    if interval is not None:
        center, half = sum(interval) / 2, (interval[1] - interval[0]) / 2
        alpha, rho = 1.0 / center, half / center
    for round_ in range(max_iterations + 1):
        monitor.record(passes.relax(B, X, before, alpha, beta, scaled=scaled)[1:])
        # the residual of X is known once the round has computed it: X itself is the answer, not the new point
        if monitor.ended(round_, max_iterations):
            break
        X, before = before, X
        if interval is not None:
            rho_new = 1.0 / (2 * center / half - rho)
            alpha, beta, rho = 2 * rho_new / half, rho_new * rho, rho_new
    result = monitor.iterates(X)
    result.rounds = result.iterations
    return result


def spectral_norm(S: sp.csr_array) -> float:
    """Largest absolute eigenvalue of a symmetric S; Gershgorin's bound where that is below one."""
    bound = float(np.max(abs(S).sum(axis=1), initial=0.0))
    if bound < 1:
        return bound
    return abs(_extreme(S, "LM"))


def scaled_extreme(system: FilterSystem, which: str) -> float:
    """Extreme eigenvalue of ``D^-1/2 K D^-1/2``: largest (``"LA"``) or smallest (``"SA"``)."""
    if (system.diagonal <= 0).any():
        return -np.inf if which == "SA" else np.inf
    half = sp.diags_array(1.0 / np.sqrt(system.diagonal))
    return _extreme(sp.csr_array(half @ system.K @ half), which)


def _extreme(matrix: sp.csr_array, which: str) -> float:
    value = extreme_eigenvalue(matrix, which)
    if value is None:
        raise DivergentMethodError("the spectrum of this system could not be estimated: use method='cg'.")
    return value


def interval(system: FilterSystem) -> tuple[float, float]:
    """An interval that holds the spectrum of ``D^-1 K`` (lower end estimated where no bound is known)."""
    high = 2.0 if system.sdd else 1.01 * scaled_extreme(system, "LA")
    local = float(np.min(system.c / system.diagonal))
    if local > 0 and system.w is not None:  # S is PSD, so x^T K x >= x^T C x
        return local, high
    return 0.9 * scaled_extreme(system, "SA"), high


def chebyshev(system: FilterSystem, rhs: np.ndarray, **options: Any) -> Iterates:
    """Chebyshev semi-iteration on ``K x = rhs``."""
    low, high = interval(system)
    if low <= 0:
        return Iterates(np.zeros_like(rhs), 0, [1.0], Status.INDEFINITE)
    # an interval of one point (all weights zero) would divide by zero
    return stationary(system, rhs, interval=(low, max(high, low * (1 + 1e-12))), **options)
