"""The second moment of readings with gaps, as if there were none.

``moment`` replaces what is missing by its distribution given the other readings (EM for a Gaussian second moment),

    M = (1/T) sum_t E[y_t y_t^T | what was read at t],

which without gaps is ``Y Y^T / T`` exactly, is positive semidefinite, and tends to the full second moment as T
grows where readings are missing at random. A conjugate prior stands for the first few times: the model of the best
single weight, scaled to each station's own readings. It is used to fill, and is no part of M. Designs descend on M.

``shared_moment`` averages over the times that two stations share. It assumes no distribution and has no bias, but its
entries come from different times and it can be indefinite: designs are judged by it on held-out readings, no more. On
140 weather stations with half of the readings missing, descents on it lost 2 to 11 % to descents on M, and judging
by M let the descent go 4 % beyond the single weight at 0 dB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, eigh
from scipy.optimize import brentq

from nareg.design._node.gap_patterns import Pattern, patterns
from nareg.design._node.node_invariant import ScalarCriteria
from nareg.design._risk.descent import minimize_scale
from nareg.design._risk.problem import extreme_frequencies

#: The prior counts as so many times, per node.
PRIOR = 0.3
#: EM ends when M changes by less than this share in an iteration, or after so many.
CHANGE, ITERATIONS = 1e-3, 30
#: Fewer iterations, but at least so many, where one takes more than so many operations (a minute or two on one core).
WORK, FEWEST_ITERATIONS = 1e12, 3
#: A station's power is its own over this many readings, and the network's below.
OWN_READINGS = 5.0


class Completion:
    """Readings (N, T) with gaps, every station read at least once, and the distribution of what is missing."""

    def __init__(self, L: np.ndarray, Y: np.ndarray, seen: np.ndarray, rng: np.random.Generator) -> None:
        some = seen.any(axis=0)  # a time without any reading says nothing
        self.Y, self.seen = np.where(seen, Y, 0.0)[:, some], seen[:, some]
        self.L, self.rng = L, rng

    @cached_property
    def prior(self) -> np.ndarray:
        """Second moment of the readings under the model of one weight."""
        return _prior(self.L, self.Y, self.seen, self.rng)

    @property
    def n_times(self) -> int:
        """Times with a reading."""
        return int(self.Y.shape[1])

    def moment(self, columns: np.ndarray | None = None) -> np.ndarray:
        """``M`` from these times alone (all by default)."""
        return self._fitted(np.arange(self.n_times) if columns is None else columns)[0]

    def shared_moment(self, columns: np.ndarray) -> np.ndarray:
        """Moments over the times that two stations share; ``M`` where they share none.

        From ``E y_i^2`` over all readings of i and ``E (y_i - y_j)^2`` over shared times: neighbors that read alike have
        the small difference that they have at each time.
        """
        Y, seen = self.Y[:, columns], self.seen[:, columns].astype(float)
        power, shared = Y**2 @ seen.T, seen @ seen.T
        own = np.divide(np.diag(power), np.diag(shared), out=np.zeros(len(Y)), where=np.diag(shared) > 0)
        difference = np.divide(power + power.T - 2 * Y @ Y.T, shared, out=np.zeros_like(shared), where=shared > 0)
        M = (own[:, None] + own - difference) / 2
        return M if shared.all() else np.where(shared > 0, M, self.moment(columns))

    def draw(self, rng: np.random.Generator, columns: np.ndarray | None = None) -> np.ndarray:
        """Readings of these times (all by default) without gaps: what is missing is drawn given what was read."""
        columns = np.arange(self.n_times) if columns is None else columns
        Y, model = self.Y[:, columns], self._fitted(columns)[1]
        filled = Y.copy()
        for times, missing, mean, covariance in _missing(model, Y, patterns(self.seen[:, columns])):
            covariance[np.diag_indices_from(covariance)] *= 1 + 1e-12
            root = cholesky((covariance + covariance.T) / 2, lower=True)
            filled[np.ix_(missing, times)] = mean + root @ rng.standard_normal(mean.shape)
        return filled

    def _fitted(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``M``, and the model of the last filling."""
        Y, parts = self.Y[:, columns], list(patterns(self.seen[:, columns]))
        n, prior_times = Y.shape[0], PRIOR * Y.shape[0]
        smaller = np.array([min(part.seen.sum(), n - part.seen.sum()) for part in parts])
        work = float(n) ** 3 + float(np.sum(smaller.astype(float) ** 2 * (smaller + n)))
        model = self.prior
        last: np.ndarray | None = None
        for _ in range(int(np.clip(WORK / work, FEWEST_ITERATIONS, ITERATIONS))):
            M = _expected(model, Y, parts)
            if last is not None and np.linalg.norm(M - last) <= CHANGE * np.linalg.norm(M):
                break
            last = M
            model = (Y.shape[1] * M + prior_times * self.prior) / (Y.shape[1] + prior_times)
        return M, model


def _expected(model: np.ndarray, Y: np.ndarray, parts: list[Pattern]) -> np.ndarray:
    """``E[y y^T | what was read]`` under a second moment of the readings, averaged over times."""
    filled, total = Y.copy(), np.zeros_like(model)
    for times, missing, mean, covariance in _missing(model, Y, parts):
        filled[np.ix_(missing, times)] = mean
        total[np.ix_(missing, missing)] += times.size * covariance
    moment = (filled @ filled.T + total) / Y.shape[1]
    return (moment + moment.T) / 2


def _missing(
    model: np.ndarray, Y: np.ndarray, parts: Iterable[Pattern]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """For each pattern with gaps: its times, the missing stations, and mean and covariance of what they would read."""
    precision = _inverse(model)
    for pattern in parts:
        if not pattern.seen.all():
            yield pattern.columns, ~pattern.seen, *_conditional(model, precision, pattern.seen, Y[:, pattern.columns])


def _conditional(model: np.ndarray, precision: np.ndarray, seen: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the missing readings given the others, from the smaller of the two blocks."""
    missing = ~seen
    if missing.sum() <= seen.sum():
        covariance = _inverse(precision[np.ix_(missing, missing)])
        return -covariance @ (precision[np.ix_(missing, seen)] @ Y[seen]), covariance
    factor = cho_factor(model[np.ix_(seen, seen)], lower=True)
    across = model[np.ix_(missing, seen)]
    gain = cho_solve(factor, across.T).T
    return gain @ Y[seen], model[np.ix_(missing, missing)] - gain @ across.T


def _inverse(matrix: np.ndarray) -> np.ndarray:
    return cho_solve(cho_factor(matrix, lower=True), np.eye(len(matrix)))


def _prior(L: np.ndarray, Y: np.ndarray, seen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Second moment of readings under the model that makes the best single weight optimal.

    ``x ~ N(0, s (tau L + d I)^-1)`` and noise of variance s: tau by cross-validation, s from its residuals, d from the
    power of the readings. Its correlations are kept; each station has the power of its own readings.
    """
    n = L.shape[0]
    values, vectors = eigh(L)
    values = np.maximum(values, 0.0)
    first, last = extreme_frequencies(values)
    scalar = ScalarCriteria(L, np.ones(n), Y, seen, None, rng)
    strength, _ = minimize_scale(scalar.gcv, 1e-4 / last, 1e4 / first)
    residual, trace = scalar.sums(strength)
    count = seen.sum(axis=1)
    typical = float(np.sum(Y[seen] ** 2) / seen.sum())
    noise = min(max(residual / max(scalar.readings - trace, 1e-12), 1e-9 * typical), 0.99 * typical)

    def missing_power(log_d: float) -> float:
        return float(np.mean(1.0 / (strength * values + np.exp(log_d)))) - (typical / noise - 1.0)

    # the mean of 1 / (tau lam + d) lies between its largest term over n and 1 / d
    target = typical / noise - 1.0
    d = np.exp(brentq(missing_power, np.log(0.5 / (n * target)), np.log(2.0 / target)))
    model = (vectors * (1.0 / (strength * values + d) + 1.0)) @ vectors.T
    own = np.sum(Y**2, axis=1)
    power = (own + OWN_READINGS * typical) / (count + OWN_READINGS)
    scale = np.sqrt(power / np.diag(model))
    prior = scale[:, None] * model * scale
    return (prior + prior.T) / 2
