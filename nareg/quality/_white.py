"""Filters that turn stationary series into white noise, from the first step to the last.

An autoregression of high order predicts each value from those before it (Durbin and Levinson); the first values, which have
fewer before them, have shorter predictors of their own. What is left has unit variance and counts as independent, so that
evidence is a sum over steps, however slowly a series changes. The infinite record's precision would not do: cut to a record,
it takes the series for zero outside, and finds a fault at both ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

#: Orders of the autoregressions: at most so many, and this share of the record.
HIGHEST, SHARE = 48, 0.1


@dataclass(frozen=True, eq=False)
class Whitener:
    """One filter per series.

    Attributes
    ----------
    first : (p, p, N) array
        ``first[t, k]`` weighs the value ``k`` steps before step t, for the first p steps.
    filter : (p + 1, N) array
        The same for all later steps.
    """

    first: np.ndarray
    filter: np.ndarray

    @classmethod
    def of(cls, covariance: np.ndarray) -> Whitener:
        """From autocovariances (T, N); a series without variance gets a filter of zeros."""
        T, N = covariance.shape
        order = max(min(HIGHEST, int(SHARE * T)), 1)
        live = covariance[0] > 0
        c = np.where(live, covariance / np.where(live, covariance[0], 1.0), 0.0)
        first, weights = np.zeros((order, order, N)), np.zeros((order + 1, N))
        variance = np.ones(N)
        predictor = np.zeros((0, N))  # of the value after, from the nearest value before it on
        for t in range(order + 1):
            row = np.concatenate([np.ones((1, N)), -predictor]) / np.sqrt(variance)
            if t < order:
                first[t, : t + 1] = row
            else:
                weights = row
                break
            reflection = (c[t + 1] - (predictor * c[t:0:-1]).sum(axis=0)) / variance if t + 1 < T else np.zeros(N)
            predictor = np.concatenate([predictor - reflection * predictor[::-1], reflection[None]])
            variance = np.maximum(variance * (1 - reflection**2), 1e-12)
        scale = np.where(live, 1 / np.sqrt(np.where(live, covariance[0], 1.0)), 0.0)
        return cls(first * scale, weights * scale)

    @property
    def order(self) -> int:
        return len(self.first)

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Values (T, N) as white noise."""
        T, p = len(values), min(self.order, len(values))
        n = next_fast_len(T + self.order, real=True)
        result: np.ndarray = irfft(rfft(self.filter, n, axis=0) * rfft(values, n, axis=0), n, axis=0)[:T]
        for t in range(p):
            result[t] = (self.first[t, : t + 1] * values[t::-1]).sum(axis=0)
        return result

    def adjoint(self, white: np.ndarray) -> np.ndarray:
        """The transpose of :meth:`apply`: applied to white noise, the precision times the values."""
        T, p = len(white), min(self.order, len(white))
        n = next_fast_len(T + self.order, real=True)
        later = white.copy()
        later[:p] = 0.0
        result: np.ndarray = irfft(rfft(self.filter, n, axis=0).conj() * rfft(later, n, axis=0), n, axis=0)[:T]
        for t in range(p):
            result[t::-1] += self.first[t, : t + 1] * white[t]
        return result
