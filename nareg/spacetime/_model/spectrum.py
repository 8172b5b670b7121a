"""The smoother's error per frequency, and what one more or one less sensor changes in it.

With readings at all times, past and future, the error of the smoother is stationary. Its spectral density is::

    E(w) = (D(w)* Q^-1 D(w) + W)^-1,    D(w) = I - A_1 e^-iw - ... - A_p e^-ipw

where ``W = diag(1 / r_i)`` at stations that read. The mean of E over the frequencies is the covariance that the Riccati
equations of filter and smoother converge to (Kailath, Sayed, Hassibi, Linear Estimation, 2000, chapters 7 and 8). A sensor
changes one entry of W, and so E by rank one at every frequency (Sherman, Morrison): one inverse per frequency serves all
candidates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve
from scipy.linalg.lapack import zpotrf, zpotri

from nareg._core import checks
from nareg.errors import InputError, SolverError
from nareg.spacetime._dense.filter import Dynamics, factor

#: Frequencies are added until no mean changes by more than this share of the largest. The rule converges geometrically, so
#: the error that is left is far smaller.
TOLERANCE = 1e-8
#: Intervals of the half circle that the rule begins with, and the most.
FEWEST, MOST = 16, 2**14
#: The information of stations with gaps, itself an approximation, takes at most so many rounds, to this share of the largest.
ROUNDS, SETTLED = 10, 1e-3


@dataclass(frozen=True, eq=False)
class SensorChange:
    """Sensors that come or go at M nodes, one at a time, and how much the error of each node counts."""

    nodes: np.ndarray  # (M,)
    information: np.ndarray  # (M,) what each adds to W; negative where it goes
    importance: np.ndarray  # (N,)

    def gains(self, columns: np.ndarray) -> np.ndarray:
        """By how much each change lowers the error, (M,), from the columns (N, M) of E at the nodes."""
        return self.importance @ (columns.real**2 + columns.imag**2) * self.steps(columns)

    def steps(self, columns: np.ndarray) -> np.ndarray:
        """``1 / (1 / information + E_jj)``, which is zero without information."""
        own = columns[self.nodes, np.arange(self.nodes.size)].real
        return self.information / (1.0 + self.information * own)


@dataclass(frozen=True, eq=False)
class ErrorSpectrum:
    """Mean squared errors, gains of each change alone, and E at the nodes of the change for the greedy choice of several."""

    errors: np.ndarray  # (N,)
    gains: np.ndarray  # (M,)
    weights: np.ndarray  # (F,) of the frequencies
    columns: list[np.ndarray]  # F arrays (N, M)

    @classmethod
    def of(
        cls, dynamics: Dynamics, W: np.ndarray, change: SensorChange, tick: Callable[[int, int], None] | None = None,
        tolerance: float = TOLERANCE,
    ) -> ErrorSpectrum:  # fmt: skip
        """Average over the frequencies, with ever more of them until the means stay; ``tick`` is called with done and total.

        The trapezoidal rule on the circle converges geometrically. Its points are moved by the Mobius map that brings the
        poles of E, which lie between zero and the largest of the dynamics, as far from the circle as possible.
        """
        radius = spectral_radius(dynamics)
        if radius >= 1:
            raise InputError(
                f"the model's dynamics grow by {radius:.6g} per step, so its error has no steady state: {_remedy(dynamics)}."
            )
        warp = np.sqrt((1 - radius) / (1 + radius))
        precision = _Precision.of(dynamics)
        total = np.zeros(W.size + change.nodes.size)
        weights: list[float] = []
        columns: list[np.ndarray] = []
        intervals, before = FEWEST, None
        while intervals <= MOST:
            checks.memory(
                f"ranking {change.nodes.size} sites in a model of {W.size} nodes",
                16.0 * (intervals + 1) * W.size * change.nodes.size, alternative="pass fewer candidates",
            )  # fmt: skip
            for k in range(intervals + 1) if before is None else range(1, intervals, 2):
                half = 0.5 * np.pi * k / intervals
                sine, cosine = warp * np.sin(half), np.cos(half)
                weights.append((1.0 if k in (0, intervals) else 2.0) * warp / (cosine**2 + sine**2))
                E = _inverse(precision.at(2 * np.arctan2(sine, cosine)), W, _remedy(dynamics))
                columns.append(E[:, change.nodes])
                total += weights[-1] * np.concatenate([E.diagonal().real, change.gains(columns[-1])])
                if tick is not None:
                    tick(len(columns), intervals + 1)
            now = total / (2 * intervals)
            if before is not None and np.abs(now - before).max() <= tolerance * now[: W.size].max():
                return cls(now[: W.size], now[W.size :], np.array(weights) / (2 * intervals), columns)
            before, intervals = now, 2 * intervals
        raise SolverError(f"{MOST:,} frequencies do not resolve how slowly the field changes: {_remedy(dynamics)}.")


def greedy(spectrum: ErrorSpectrum, change: SensorChange, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The change that lowers the error most, given it the next one, and so on; what each gains, given those before.

    Uses up the spectrum's columns. The gains of one round are exact and cost one pass over these, less than the bookkeeping of
    a lazy greedy search would save; and the reduction is not submodular, so that bounds from earlier rounds would not hold.
    """
    free = np.ones(change.nodes.size, dtype=bool)
    order, gains = np.empty(count, dtype=int), np.empty(count)
    now = spectrum.gains
    for k in range(count):
        j = int(np.argmax(np.where(free, now, -np.inf)))
        order[k], gains[k], free[j] = j, now[j], False
        now = np.zeros_like(now)
        for weight, columns in zip(spectrum.weights, spectrum.columns, strict=True):
            step = change.steps(columns)[j]
            columns -= step * np.outer(columns[:, j], columns[change.nodes, j].conj())
            now += weight * change.gains(columns)
    return order, gains


def mean_information(dynamics: Dynamics, shares: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Information (N,) of stations that read at random shares of the times, as if they always read.

    With the variance c of the field there given all other readings, the mean variance over times with and without a reading is
    that of the information ``share / (r + (1 - share) c)``. c follows from the errors that this information leads to. The
    rounds end where the information hardly changes; at shares 0 and 1 there is nothing to find.
    """
    information: np.ndarray = shares / r
    if np.isin(shares, (0.0, 1.0)).all():
        return information
    nothing = SensorChange(np.empty(0, dtype=int), np.empty(0), np.zeros(r.size))
    for _ in range(ROUNDS):
        before = information
        errors = ErrorSpectrum.of(dynamics, before, nothing, tolerance=SETTLED).errors
        others = 1.0 / np.maximum(1.0 / errors - before, np.finfo(float).tiny)
        information = np.where(shares == 1.0, 1.0 / r, shares / (r + (1 - shares) * others))
        if np.abs(information - before).max() <= SETTLED * information.max():
            break
    return information


def _remedy(dynamics: Dynamics) -> str:
    """What helps where there is no steady state, or hardly one: EM may let even a single number grow on a short record."""
    single = all(A.ndim == 0 for A in dynamics.blocks)
    return "fit the model to a longer record" if single else "fit the model with dynamics='scalar'"


def spectral_radius(dynamics: Dynamics) -> float:
    """Largest size of an eigenvalue of the dynamics: by how much the slowest part of the state shrinks per step."""
    p, n = dynamics.order, dynamics.n
    if all(A.ndim < 2 for A in dynamics.blocks):  # every station by itself
        companion = np.zeros((n, p, p))
        companion[:, 0] = np.column_stack([np.broadcast_to(A, n) for A in dynamics.blocks])
        companion[:, np.arange(1, p), np.arange(p - 1)] = 1.0
    else:
        companion = np.eye(p * n, k=-n)[None]
        companion[0, :n] = dynamics.matrix()
    return float(np.abs(np.linalg.eigvals(companion)).max())


@dataclass(frozen=True, eq=False)
class _Precision:
    """``D(w)* Q^-1 D(w) = C_0 + sum_d (C_d e^iwd + C_d' e^-iwd)``."""

    coefficients: list[np.ndarray]  # C_0 .. C_p

    @classmethod
    def of(cls, dynamics: Dynamics) -> _Precision:
        n, p = dynamics.n, dynamics.order
        L = factor(dynamics.Q, "the process noise")
        matrix = dynamics.matrix()
        B = [np.eye(n), *(-matrix[:, k * n : (k + 1) * n] for k in range(p))]
        weighted = [cho_solve((L, True), part) for part in B]
        return cls([sum((B[k + d].T @ weighted[k] for k in range(p + 1 - d)), np.zeros((n, n))) for d in range(p + 1)])

    def at(self, frequency: float) -> np.ndarray:
        result = self.coefficients[0].astype(complex)
        for d, C in enumerate(self.coefficients[1:], 1):
            turned = np.exp(1j * d * frequency) * C
            result += turned + turned.conj().T
        return result


def _inverse(matrix: np.ndarray, W: np.ndarray, remedy: str) -> np.ndarray:
    """Inverse of ``matrix + diag(W)``, Hermitian and positive definite."""
    matrix.flat[:: W.size + 1] += W
    L, info = zpotrf(matrix, lower=1)
    if not info:
        L, info = zpotri(L, lower=1)
    if info:
        raise SolverError(f"the precision of the errors is not positive definite in float64: {remedy}.")
    lower = np.tril(L, -1)
    inverse: np.ndarray = lower + lower.conj().T
    inverse.flat[:: W.size + 1] = L.diagonal().real
    return inverse
