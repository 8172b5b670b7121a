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
from nareg.design._risk.selection import DENSE_NODES

#: No weight goes below this share of the single one.
SMALLEST = 1e-8
#: y stays this close to the first one: x over 17 decades.
REACH = 20.0


@dataclass(frozen=True)
class Steps:
    """Descent steps for each penalty of a search, for the fit with the chosen one, and for one without a penalty."""

    search: int
    final: int
    free: int


class Coordinates(Protocol):
    """Unknowns u, and the weights ``start * exp(spread(u))`` that they stand for."""

    @property
    def steps(self) -> Steps:
        """How many steps of a descent these unknowns take."""

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
    steps: Steps = Steps(search=8, final=200, free=500)

    @property
    def first(self) -> np.ndarray:
        return np.zeros(self.groups.count)

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds on u; a node whose weight must be zero does not bound its group."""
        groups, free = self.groups, self.start != 0
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


def log_weights(start: np.ndarray, low: np.ndarray, high: np.ndarray, groups: Groups, promise: NodeRate | None) -> Coordinates:
    """Coordinates around the start, in which a rate that was promised is kept."""
    free = LogWeights(start, low, high, groups)
    return free if promise is None else LimitedLogWeights.of(free, promise)


@dataclass(frozen=True)
class LimitedLogWeights:
    """``u = (log(v / start), y)`` with the wanted weights v of :class:`RateLimit`: the weights keep the rate at every u."""

    free: LogWeights
    limit: RateLimit

    @property
    def steps(self) -> Steps:
        final = 1500 if self.free.start.size <= DENSE_NODES else 150  # a step on a large network takes seconds
        return Steps(search=24, final=final, free=final)

    @classmethod
    def of(cls, free: LogWeights, promise: NodeRate) -> LimitedLogWeights:
        """Around a start with the rate, of any signs."""
        return cls(free, RateLimit(promise, free.groups, free.groups.bounds(promise.low, promise.high)[0]))

    @cached_property
    def _start(self) -> np.ndarray:
        """The groups' starts, ones where zero."""
        start = self.free.groups.reduce_start(self.free.start)
        return np.where(start != 0, start, 1.0)

    @cached_property
    def first(self) -> np.ndarray:
        count, start = self.free.groups.count, self.free.groups.reduce_start(self.free.start)
        v = self.limit.unknowns(start)
        low, high = self.free.bounds
        spread = np.log(np.where(start != 0, v[:count] / self._start, 1.0))
        return np.concatenate([np.clip(spread, low, high), v[count:]])

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Those of the wanted weights, and y near the first one."""
        y = self.first[self.free.groups.count :]
        low, high = self.free.bounds
        return np.concatenate([low, y - REACH]), np.concatenate([high, y + REACH])

    def spread(self, u: np.ndarray) -> np.ndarray:
        return self._spread(self.limit.weights(self._wanted(u)))

    def of_unknowns(self, function: ValueAndGradient) -> ValueAndGradient:
        groups, free = self.free.groups, self.free.start != 0

        def of_weights(w: np.ndarray) -> tuple[float, np.ndarray]:
            value, by_spread = function(self._spread(w))
            each = groups.expand(w)
            return value, groups.reduce(np.divide(by_spread, each, out=np.zeros_like(each), where=free))

        limited = self.limit.limited(of_weights)

        def of_logarithms(u: np.ndarray) -> tuple[float, np.ndarray]:
            v = self._wanted(u)
            value, gradient = limited(v)
            gradient[: groups.count] *= v[: groups.count]
            return value, gradient

        return of_logarithms

    def _spread(self, w: np.ndarray) -> np.ndarray:
        """Logarithm of the nodes' over the start, from the groups' weights."""
        return np.where(self.free.start != 0, np.log(self.free.groups.expand(w / self._start)), 0.0)

    def _wanted(self, u: np.ndarray) -> np.ndarray:
        count = self.free.groups.count
        return np.concatenate([self._start * np.exp(u[:count]), u[count:]])
