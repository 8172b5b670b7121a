"""The unknowns of a path of penalties: logarithms of weights over a start, free or kept to a rate.

Weights that keep a rate by construction: the descent's coordinates for :mod:`nareg.design._risk.rate`.

With ``theta_i = w_i^2 d_i / (c_i + w_i^2 d_i)`` and ``P = diag(1 / d) A`` the factor is the spectral radius of
``diag(theta) P``. It is at most the rate exactly where some x > 0 has ``theta_i (P x)_i <= rate x_i`` at every node: with
``r_i(x) = (P x)_i / x_i``

    w_i^2 <= cap_i(x) = (c_i / d_i) / max(r_i(x) / rate - 1, 0).

The unknowns are ``y = log x`` and a wanted weight of every node, of which the smaller of it and the cap is taken, with the
corner rounded: the factor never has to be computed. All that limits the rate at once, say in far apart regions, is one smooth
function of y. Where a node has no data (c_i = 0), ``theta_i = 1`` and x is the solution of ``P x = rate x`` at these nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from nareg._solvers.factorization import Factor, factorize
from nareg.design._risk.checked import DENSE_NODES
from nareg.design._risk.descent import Groups, ValueAndGradient
from nareg.design._risk.rate import NodeRate

#: The corner of the maximum is rounded over this part of ``1 / rate - 1``: it costs weights some 1e-4 of their size.
ROUNDED = 0.03
#: Powers of the norms that stand for maxima: of a wanted weight and its cap, and of the caps of a group's nodes.
JOINED, SHARED = 4, 32
#: The first weights are this part of those that keep the rate, at most: inside the box.
INSIDE = 0.97
#: Cost of caps below ``low``, times the size of the objective.
CROSSED = 1e3
#: Sweeps for the first x.
SWEEPS = 2000


@dataclass(frozen=True)
class Caps:
    """Caps per group, with what their derivative needs."""

    values: np.ndarray  # (count,)
    x: np.ndarray
    ratios: np.ndarray
    #: Derivative of 1 / cap of the group by the ratio of each of its nodes.
    slopes: np.ndarray


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


@dataclass(frozen=True)
class LogWeights:
    """``u = log(w / start)``, one per group: weights are ``start * exp(spread(u))``.

    ``low`` and ``high`` bound ``w_i^2`` of every node; ``steps`` says how many steps of a descent these unknowns take.
    """

    start: np.ndarray
    low: np.ndarray
    high: np.ndarray
    groups: Groups
    steps: Steps = Steps(search=8, final=200, free=500)

    @property
    def first(self) -> np.ndarray:
        """Unknowns of the start, or next to it."""
        return np.zeros(self.groups.count)

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds on u; a node whose weight must be zero does not bound its group."""
        free = self.start != 0
        square = np.where(free, self.start, 1.0) ** 2
        smallest = np.where(free, 0.5 * np.log(np.maximum(self.low / square, SMALLEST**2)), -np.inf)
        largest = np.where(free, 0.5 * np.log(np.maximum(self.high, 1e-300) / square), np.inf)
        return self.groups.bounds(smallest, largest)

    def spread(self, u: np.ndarray) -> np.ndarray:
        """Logarithm of every node's weight over the start."""
        return self.groups.expand(u)

    def of_unknowns(self, function: ValueAndGradient) -> ValueAndGradient:
        """A function of the spread as one of u."""
        return self.groups.tied(function)


@dataclass(frozen=True)
class LimitedLogWeights:
    """``u = (log(v / start), y)`` with wanted weights v of groups and y of nodes: the weights keep the rate at every u.

    The start has the rate, and weights of any signs.
    """

    free: LogWeights
    promise: NodeRate

    @property
    def steps(self) -> Steps:
        final = 1500 if self.free.start.size <= DENSE_NODES else 150  # a step on a large network takes seconds
        return Steps(search=24, final=final, free=final)

    @cached_property
    def first(self) -> np.ndarray:
        """Those of the start, made a little smaller where it is at the rate."""
        groups, promise = self.free.groups, self.promise
        start = groups.reduce_start(self.free.start)
        near = promise.bring(groups.expand(start)) * INSIDE
        D = promise.diagonal(near)
        theta = np.divide(near**2 * promise.degrees, D, out=np.zeros_like(D), where=D > 0)
        theta[~self._observed] = 1.0
        # (rate I - theta P) x = 1: positive, and every node has room
        x = np.ones_like(D)
        for _ in range(SWEEPS):
            x, before = (theta * (self.P @ x) + 1.0) / promise.rate, x
            if (x <= 1.001 * before).all():
                break
        y = np.log(x)
        reduced = groups.reduce_start(near)
        excess = np.minimum((reduced**2 / self.caps(y).values) ** JOINED, INSIDE)
        wanted = reduced * (1.0 - excess) ** (-0.5 / JOINED)
        spread = np.log(np.where(start != 0, wanted / self._start, 1.0))
        return np.concatenate([np.clip(spread, *self.free.bounds), y])

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Those of the wanted weights, and y near the first one."""
        y = self.first[self.free.groups.count :]
        low, high = self.free.bounds
        return np.concatenate([low, y - REACH]), np.concatenate([high, y + REACH])

    def spread(self, u: np.ndarray) -> np.ndarray:
        wanted, caps = self._wanted(u)
        return self._spread(wanted * (1.0 + (wanted**2 / caps.values) ** JOINED) ** (-0.5 / JOINED))

    def of_unknowns(self, function: ValueAndGradient) -> ValueAndGradient:
        """Caps below ``low`` cost."""
        groups, free, unit = self.free.groups, self.free.start != 0, list[float]()
        low = groups.bounds(self.promise.low, self.promise.high)[0]

        def of_unknowns(u: np.ndarray) -> tuple[float, np.ndarray]:
            wanted, caps = self._wanted(u)
            excess = (wanted**2 / caps.values) ** JOINED
            share = (1.0 + excess) ** (-0.5 / JOINED)
            w = wanted * share
            value, by_spread = function(self._spread(w))
            each = groups.expand(w)
            by_weight = groups.reduce(np.divide(by_spread, each, out=np.zeros_like(each), where=free))
            unit.append(abs(value))
            crossed = CROSSED * unit[0] * np.maximum(low / caps.values - 1.0, 0.0)
            by_inverse = 2.0 * crossed * low - 0.5 * by_weight * w * excess / (1.0 + excess) * caps.values
            cost = float(crossed @ crossed) / (CROSSED * unit[0] or 1.0)
            by_wanted = by_weight * share / (1.0 + excess)
            return value + cost, np.concatenate([by_wanted * wanted, self._by_y(caps, by_inverse)])

        return of_unknowns

    def caps(self, y: np.ndarray) -> Caps:
        """Largest ``w^2`` of every group that y proves to keep the rate."""
        rate, c, d, seen = self.promise.rate, self.promise.c, self.promise.degrees, self._observed
        x = self._vector(y)
        ratios = (self.P @ x) / x
        unit = np.divide(d, c, out=np.zeros_like(d), where=seen)
        away = ratios / rate - 1.0
        corner = np.hypot(away, ROUNDED * (1.0 / rate - 1.0))
        inverse = np.maximum(unit * (away + corner) / 2, 1e-100)  # isolated nodes and those without data have no cap
        slopes = unit * (1.0 + away / corner) / (2 * rate)
        index, count = self.free.groups.index, self.free.groups.count
        if index is not None:
            largest = np.zeros(count)
            np.maximum.at(largest, index, inverse)
            share = inverse / largest[index]
            total = np.bincount(index, share**SHARED, count)
            slopes = slopes * share ** (SHARED - 1) * total[index] ** (1.0 / SHARED - 1.0)
            inverse = largest * total ** (1.0 / SHARED)
        return Caps(1.0 / inverse, x, ratios, slopes)

    def _by_y(self, caps: Caps, by_inverse: np.ndarray) -> np.ndarray:
        """Gradient in y from that in the groups' 1 / cap."""
        by_ratio = self.free.groups.expand(by_inverse) * caps.slopes
        x, seen = caps.x, self._observed
        by_x = (self.P.T @ (by_ratio / x)) - by_ratio * caps.ratios / x
        if self._without_data is not None:
            by_x[seen] += self._data_beside.T @ self._without_data.solve(by_x[~seen])
            by_x[~seen] = 0.0
        return by_x * x

    @cached_property
    def P(self) -> sp.csr_array:
        d = self.promise.degrees
        inverse = np.divide(1.0, d, out=np.zeros_like(d), where=d > 0)
        return sp.csr_array(sp.diags_array(inverse) @ self.promise.A)

    @cached_property
    def _observed(self) -> np.ndarray:
        return self.promise.c > 0

    @cached_property
    def _without_data(self) -> Factor | None:
        """Factor of ``rate diag(d) - A`` at nodes without data; None where all have some."""
        hidden, promise = ~self._observed, self.promise
        if not hidden.any():
            return None
        return factorize(sp.csr_array(sp.diags_array(promise.rate * promise.degrees[hidden]) - promise.A[hidden][:, hidden]))

    @cached_property
    def _data_beside(self) -> sp.csr_array:
        """Rows of A of the nodes without data, columns of those with."""
        return self.promise.A[~self._observed][:, self._observed]

    def _vector(self, y: np.ndarray) -> np.ndarray:
        """``x = exp(y)``, solved for where there are no data."""
        x = np.exp(y)
        if self._without_data is not None:
            seen = self._observed
            x[~seen] = np.maximum(self._without_data.solve(self._data_beside @ x[seen]), 1e-300)
        return x

    @cached_property
    def _start(self) -> np.ndarray:
        """The groups' starts, ones where zero."""
        start = self.free.groups.reduce_start(self.free.start)
        return np.where(start != 0, start, 1.0)

    def _spread(self, w: np.ndarray) -> np.ndarray:
        """Logarithm of the nodes' over the start, from the groups' weights."""
        return np.where(self.free.start != 0, np.log(self.free.groups.expand(w / self._start)), 0.0)

    def _wanted(self, u: np.ndarray) -> tuple[np.ndarray, Caps]:
        """The groups' wanted weights, and their caps."""
        count = self.free.groups.count
        return self._start * np.exp(u[:count]), self.caps(u[count:])


Coordinates = LogWeights | LimitedLogWeights


def log_weights(start: np.ndarray, low: np.ndarray, high: np.ndarray, groups: Groups, promise: NodeRate | None) -> Coordinates:
    """Coordinates around the start, in which a rate that was promised is kept."""
    free = LogWeights(start, low, high, groups)
    return free if promise is None else LimitedLogWeights(free, promise)
