"""The unknowns of a path of penalties: logarithms of weights over a start, free or kept to a rate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from nareg.design._risk.descent import ValueAndGradient
from nareg.design._risk.groups import Groups
from nareg.design._risk.rate import NodeRate
from nareg.design._risk.rate_limit import RateLimit

#: No weight goes below this share of the single one.
SMALLEST = 1e-8


class Coordinates(Protocol):
    """Unknowns u, and the weights ``start * exp(spread(u))`` that they stand for."""

    @property
    def first(self) -> np.ndarray:
        """Unknowns of the start, or next to it."""

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]: ...

    def spread(self, u: np.ndarray) -> np.ndarray:
        """Logarithm of every node's weight over the start."""

    def of_unknowns(self, function: ValueAndGradient) -> ValueAndGradient:
        """A function of the spread as one of u."""


@dataclass(frozen=True)
class LogWeights:
    """``u = log(w / start)``, one per group; ``low`` and ``high`` bound ``w_i^2`` of every node."""

    start: np.ndarray
    low: np.ndarray
    high: np.ndarray
    groups: Groups

    @property
    def first(self) -> np.ndarray:
        return np.zeros(self.groups.count)

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds on u; a node whose weight must be zero does not bound its group."""
        groups, free = self.groups, self.start > 0
        square = np.where(free, self.start, 1.0) ** 2
        smallest = np.where(free, 0.5 * np.log(np.maximum(self.low / square, SMALLEST**2)), -np.inf)
        largest = np.where(free, 0.5 * np.log(np.maximum(self.high, 1e-300) / square), np.inf)
        if groups.index is None:
            return smallest, largest
        below, above = np.full(groups.count, -np.inf), np.full(groups.count, np.inf)
        np.maximum.at(below, groups.index, smallest)
        np.minimum.at(above, groups.index, largest)
        groups.refuse_crossed(below, above)
        return below, above

    def spread(self, u: np.ndarray) -> np.ndarray:
        return self.groups.expand(u)

    def of_unknowns(self, function: ValueAndGradient) -> ValueAndGradient:
        return self.groups.tied(function)


def log_weights(
    start: np.ndarray, low: np.ndarray, high: np.ndarray, groups: Groups, promise: NodeRate | None
) -> Coordinates:
    """Coordinates around the start, in which a rate that was promised is kept."""
    return LogWeights(start, low, high, groups) if promise is None else LimitedLogWeights.of(start, promise, groups)


@dataclass(frozen=True)
class LimitedLogWeights:
    """``u = (log s, y)`` of :class:`RateLimit`, which keeps the rate at every u."""

    start: np.ndarray
    limit: RateLimit

    @classmethod
    def of(cls, start: np.ndarray, promise: NodeRate, groups: Groups) -> LimitedLogWeights:
        """Around a start with the rate."""
        low, high = groups.bounds(np.maximum(promise.low, (SMALLEST * start) ** 2), promise.high)
        return cls(start, RateLimit(promise, groups, np.minimum(low, high), high))

    @cached_property
    def first(self) -> np.ndarray:
        v = self.limit.unknowns(self.limit.groups.reduce_start(self.start))
        return self._logarithms(v)

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        low, high = self.limit.bounds(self._shares(self.first))
        return self._logarithms(low), self._logarithms(high)

    def spread(self, u: np.ndarray) -> np.ndarray:
        return self._spread(self.limit.weights(self._shares(u)))

    def of_unknowns(self, function: ValueAndGradient) -> ValueAndGradient:
        groups, count = self.limit.groups, self.limit.groups.count

        def of_weights(w: np.ndarray) -> tuple[float, np.ndarray]:
            value, by_spread = function(self._spread(w))
            each = groups.expand(w)
            return value, groups.reduce(np.divide(by_spread, each, out=np.zeros_like(each), where=self.start > 0))

        limited = self.limit.limited(of_weights)

        def of_logarithms(u: np.ndarray) -> tuple[float, np.ndarray]:
            v = self._shares(u)
            value, gradient = limited(v)
            gradient[:count] *= v[:count]
            return value, gradient

        return of_logarithms

    def _spread(self, w: np.ndarray) -> np.ndarray:
        """Logarithm of the nodes' over the start, from the groups' weights."""
        free = self.start > 0
        return np.log(np.where(free, self.limit.groups.expand(w), 1.0) / np.where(free, self.start, 1.0))

    def _shares(self, u: np.ndarray) -> np.ndarray:
        count = self.limit.groups.count
        return np.concatenate([np.exp(u[:count]), u[count:]])

    def _logarithms(self, v: np.ndarray) -> np.ndarray:
        count = self.limit.groups.count
        return np.concatenate([np.log(np.maximum(v[:count], SMALLEST)), v[count:]])
