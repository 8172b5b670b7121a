"""The promise of a rate: after so many rounds in which neighbors exchange a number, the filter is computed.

Jacobi's recursion on ``K x = C y`` with ``K = D + M``, D its diagonal, leaves after k rounds the residual
``(-M D^-1)^k C y``. With the factor

    rho = max |eigenvalue of D^-1/2 M D^-1/2|

its norms, of itself and over the diagonal, are at most ``rho^k (max D / min D)^(1/2)`` times those of ``C y``.

For node weights ``D^-1/2 M D^-1/2`` is, up to signs, ``B = diag(u) A diag(u)`` with ``u_i = |w_i| / D_i^(1/2)`` and A the
sizes of L's off-diagonal entries. B has no negative entry: every v > 0 proves ``rho <= max_i (B v)_i / v_i`` (Collatz and
Wielandt). All ``|w_i|`` that fall lower rho, so that one scale factor brings any weights to a rate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import brentq
from scipy.sparse.linalg import LinearOperator, cg

from nareg._core import checks
from nareg._solvers.eigenvalues import extreme_eigenvalue
from nareg._solvers.system import EPSILON, Penalty, scale_symmetric
from nareg.design._risk.descent import feasible
from nareg.errors import InputError, SolverError
from nareg.results import DesignDetails

#: Relative residuals for which the number of rounds is promised; the last is that of :func:`nareg.filters.denoise`.
ACCURACIES = (1e-3, 1e-6, 1e-8)
#: Weights are brought to the rate less this part of it: what the estimate of a factor may miss.
MARGIN = 1e-6
#: Further parts of the weights to give up where an estimate missed more.
RETREATS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2)
#: So much larger weights are looked at in the end, as far as the rate allows.
FURTHER = 1.2
#: Largest single weight tried, times the one that weighs a node's data and its edges alike.
LARGEST_SINGLE = 1e4


def checked_rate(rate: Any) -> float | None:
    """The rate, None for none."""
    return None if rate is None else required_rate(rate)


def required_rate(rate: Any) -> float:
    """The rate, between 0 and 1."""
    number = checks.number("rate", rate)
    if not 0 < number < 1:
        raise InputError(
            f"rate is {number:g}: the factor of a round lies between 0 and 1; pass say 0.9, which takes 200 rounds to 1e-8."
        )
    return number


def promised(factor: float, diagonal: np.ndarray) -> DesignDetails:
    """What a certificate says: the factor, and rounds for some accuracies; ``diagonal`` has D of the nodes with neighbors."""
    spread = float(np.sqrt(diagonal.max() / diagonal.min())) if diagonal.size else 1.0
    rounds = {f"{accuracy:g}": rounds_to(accuracy, factor, spread) for accuracy in ACCURACIES}
    return {"jacobi_factor": factor, "jacobi_rounds": rounds}


def rounds_to(accuracy: float, factor: float, spread: float) -> int:
    """Rounds after which both relative residuals are below the accuracy: ``factor^k spread <= accuracy``."""
    if factor == 0:
        return 1  # nothing is coupled
    return max(int(np.ceil(np.log(accuracy / spread) / np.log(factor))), 1)


@dataclass(frozen=True)
class NodeRate:
    """Node weights whose factor is at most ``rate``; bounds on ``w_i^2``, one per node."""

    base: Penalty
    c: np.ndarray
    rate: float
    low: np.ndarray
    high: np.ndarray

    def __post_init__(self) -> None:
        # a node without data weighs its neighbors alone, whatever its weight
        least = self.estimate(np.where(self.c > 0, np.sqrt(self.low), 1.0))
        if least <= self.rate * (1 - 2 * MARGIN):
            return
        without_data = self.estimate(np.where(self.c > 0, 0.0, 1.0))
        if without_data > self.rate * (1 - 2 * MARGIN):
            raise InputError(
                f"rate is {self.rate:g}: nodes without a data term (data_weight = 0) have the factor {without_data:.6g} "
                "whatever the weights; pass a larger rate, or a data term at more nodes."
            )
        raise InputError(
            f"rate is {self.rate:g}: the smallest weights that lower allows have the factor {least:.6g}; pass a larger rate, "
            f"or a smaller lower (it is {self.low.min():g} to {self.low.max():g})."
        )

    @cached_property
    def A(self) -> sp.csr_array:
        """Sizes of the off-diagonal entries of L."""
        off = sp.csr_array(abs(self.base.L - sp.diags_array(self.base.L.diagonal())))
        off.eliminate_zeros()
        return off

    @cached_property
    def degrees(self) -> np.ndarray:
        """Diagonal of L."""
        return self.base.L.diagonal()

    def diagonal(self, w: np.ndarray) -> np.ndarray:
        """``D = C + diag(S)``."""
        return self.c + w**2 * self.degrees

    def coupling(self, w: np.ndarray) -> sp.csr_array:
        """``B = diag(u) A diag(u)``."""
        D = self.diagonal(w)
        return scale_symmetric(self.A, np.divide(np.abs(w), np.sqrt(D), out=np.zeros_like(D), where=D > 0))

    def estimate(self, w: np.ndarray) -> float:
        """The factor, to about 1e-7 of it."""
        B = self.coupling(w)
        value = extreme_eigenvalue(B, "LA", tol=1e-7, start=np.ones(w.size)) if B.data.any() else 0.0
        if value is None:
            raise SolverError("the Jacobi factor of these weights did not converge: pass rate=None, or design on a part.")
        return max(value, 0.0)

    def scale(self, w: np.ndarray) -> float:
        """The largest ``s <= 1`` for which ``s w``, moved into the bounds node by node, has the rate."""
        target = self.rate * (1 - MARGIN)

        def excess(log_s: float) -> float:
            factor = self.estimate(feasible(np.exp(log_s) * w, self.low, self.high))
            return float(np.log(max(factor, 1e-300) / target))

        if excess(0.0) <= 0:
            return 1.0
        first = -0.5
        while excess(first) > 0:
            first *= 2  # ends: the smallest weights are below the rate
        return float(np.exp(brentq(excess, first, 0.0, xtol=MARGIN / 10)))

    def bring(self, w: np.ndarray) -> np.ndarray:
        """The weights between their bounds, scaled down to the rate where they are above it."""
        return feasible(self.scale(w) * w, self.low, self.high)

    @cached_property
    def largest_single(self) -> float:
        """The largest single weight that has the rate, moved into the bounds node by node."""
        top = LARGEST_SINGLE * float(np.sqrt(self.c.mean() / max(self.degrees.mean(), 1e-300)))
        return top * self.scale(np.full(self.c.size, top))

    def certified(self, w: np.ndarray, value: Callable[[np.ndarray], float]) -> tuple[np.ndarray, DesignDetails]:
        """Weights with the rate, a multiple of these that has at most their value, and what the certificate says."""
        w = self.bring(w)
        larger = self.bring(FURTHER * w)
        w = larger if value(larger) < value(w) else w
        for part in RETREATS:
            trial = feasible((1 - part) * w, self.low, self.high)
            factor = self.proven(trial)
            if factor <= self.rate:
                joined = np.asarray(self.coupling(trial).sum(axis=1)).ravel() > 0
                return trial, promised(factor, self.diagonal(trial)[joined])
        raise SolverError(f"rate is {self.rate:g}: no proof of it was found for the designed weights; pass a larger rate.")

    def proven(self, w: np.ndarray) -> float:
        """An upper bound on the factor, from ``v`` with ``(sigma I - B) v`` near ones; infinite where v is not positive."""
        B = self.coupling(w)
        estimate = self.estimate(w)
        if estimate == 0:
            return 0.0
        sigma = min(self.rate, estimate * (1 + 1e-3)) if estimate < self.rate else estimate * (1 + 1e-3)
        n = w.size
        shifted = LinearOperator((n, n), matvec=lambda v: sigma * v - B @ v, dtype=np.float64)
        v, _ = cg(shifted, np.ones(n), rtol=0.3 / np.sqrt(n), maxiter=20_000)
        if not (v > 0).all():
            return np.inf
        return float(np.max((B @ v) / v)) * (1 + EPSILON * (int(np.diff(B.indptr).max(initial=0)) + 4))
