"""Weights that keep a rate by construction: the descent's coordinates for :mod:`nareg.design._risk.rate`.

With ``theta_i = w_i^2 d_i / (c_i + w_i^2 d_i)`` and ``P = diag(1 / d) A`` the factor is the spectral radius of
``diag(theta) P``. It is at most the rate exactly where some x > 0 has ``theta_i (P x)_i <= rate x_i`` at every node: with
``r_i(x) = (P x)_i / x_i``

    w_i^2 <= cap_i(x) = (c_i / d_i) / max(r_i(x) / rate - 1, 0).

The unknowns are ``y = log x`` and a share s_i of every node, ``w_i^2 = low_i + s_i^2 (cap_i - low_i)``: a box, in which
the factor never has to be computed. All that limits the rate at once, say in far apart regions, is one smooth function of y.
Where a node has no data (c_i = 0), ``theta_i = 1`` and x is the solution of ``P x = rate x`` at these nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import SuperLU, splu

from nareg.design._risk.descent import ValueAndGradient
from nareg.design._risk.groups import Groups
from nareg.design._risk.rate import NodeRate

#: The corner of the maximum is rounded over this part of ``1 / rate - 1``: it costs weights some 1e-4 of their size.
ROUNDED = 0.03
#: The caps of a group's nodes join in a norm of this power.
JOINED = 32
#: y stays this close to the first one: x over 17 decades.
REACH = 20.0
#: The first weights are this part of those that keep the rate, at most: inside the box.
INSIDE = 0.97
#: Cost of caps below ``lower``, times the size of the objective.
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


@dataclass(frozen=True)
class RateLimit:
    """Shares s of groups (count,) and y of nodes (N,), as one vector v, and the weights that they stand for.

    ``low`` and ``high`` bound the groups' ``w^2``.
    """

    promise: NodeRate
    groups: Groups
    low: np.ndarray
    high: np.ndarray

    @cached_property
    def P(self) -> sp.csr_array:
        d = self.promise.degrees
        inverse = np.divide(1.0, d, out=np.zeros_like(d), where=d > 0)
        return sp.csr_array(sp.diags_array(inverse) @ self.promise.A)

    @cached_property
    def _observed(self) -> np.ndarray:
        return self.promise.c > 0

    @cached_property
    def _without_data(self) -> SuperLU | None:
        """Factor of ``rate I - P`` at nodes without data; None where all have some."""
        hidden = ~self._observed
        if not hidden.any():
            return None
        return splu(sp.csc_array(self.promise.rate * sp.eye_array(int(hidden.sum())) - self.P[hidden][:, hidden]))

    def _vector(self, y: np.ndarray) -> np.ndarray:
        """``x = exp(y)``, solved for where there are no data."""
        x = np.exp(y)
        if self._without_data is not None:
            seen = self._observed
            x[~seen] = np.maximum(self._without_data.solve(self.P[~seen][:, seen] @ x[seen]), 1e-300)
        return x

    def caps(self, y: np.ndarray) -> Caps:
        """Largest ``w^2`` of every group that y proves to keep the rate, at most ``high``."""
        rate, c, d, seen = self.promise.rate, self.promise.c, self.promise.degrees, self._observed
        x = self._vector(y)
        ratios = (self.P @ x) / x
        unit = np.divide(d, c, out=np.zeros_like(d), where=seen)
        limit = 1.0 / np.maximum(self.groups.expand(self.high), 1e-300)
        away = unit * (ratios / rate - 1.0) - limit
        corner = np.hypot(away, unit * ROUNDED * (1.0 / rate - 1.0))
        inverse = limit + (away + corner) / 2
        slopes = np.divide(unit * (1.0 + away / np.where(corner > 0, corner, 1.0)), 2 * rate)
        index = self.groups.index
        if index is not None:
            largest = np.zeros(self.groups.count)
            np.maximum.at(largest, index, inverse)
            share = inverse / largest[index]
            total = np.bincount(index, share**JOINED, self.groups.count)
            slopes = slopes * share ** (JOINED - 1) * total[index] ** (1.0 / JOINED - 1.0)
            inverse = largest * total ** (1.0 / JOINED)
        return Caps(1.0 / inverse, x, ratios, slopes)

    def _by_y(self, caps: Caps, by_inverse: np.ndarray) -> np.ndarray:
        """Gradient in y from that in the groups' 1 / cap."""
        by_ratio = self.groups.expand(by_inverse) * caps.slopes
        x, seen = caps.x, self._observed
        by_x = (self.P.T @ (by_ratio / x)) - by_ratio * caps.ratios / x
        if self._without_data is not None:
            by_x[seen] += self.P[~seen][:, seen].T @ self._without_data.solve(by_x[~seen], trans="T")
            by_x[~seen] = 0.0
        return by_x * x

    def weights(self, v: np.ndarray) -> np.ndarray:
        """The groups' weights, with the signs of s."""
        s, caps = v[: self.groups.count], self.caps(v[self.groups.count :])
        return np.where(s < 0, -1.0, 1.0) * np.sqrt(self.low + s**2 * np.maximum(caps.values - self.low, 0.0))

    def gradient(self, v: np.ndarray, by_weight: np.ndarray) -> np.ndarray:
        """Gradient in v from that in the groups' weights."""
        s, caps = v[: self.groups.count], self.caps(v[self.groups.count :])
        room = np.maximum(caps.values - self.low, 0.0)
        size = np.sqrt(self.low + s**2 * room)
        # |s| / |w|, which has a limit where both vanish
        share = np.divide(np.abs(s), size, out=np.zeros_like(s), where=size > 0)
        share = np.where((size == 0) & (room > 0), 1.0 / np.sqrt(np.maximum(room, 1e-300)), share)
        by_inverse = -by_weight * np.sign(s) * np.where(room > 0, 0.5 * share * np.abs(s), 0.0) * caps.values**2
        return np.concatenate([by_weight * share * room, self._by_y(caps, by_inverse)])

    def limited(self, function: ValueAndGradient) -> ValueAndGradient:
        """A function of the groups' weights as one of v; caps below ``low`` cost."""
        unit: list[float] = []

        def of_unknowns(v: np.ndarray) -> tuple[float, np.ndarray]:
            value, by_weight = function(self.weights(v))
            unit.append(abs(value) if not unit else unit[0])
            cost, by_v = self.crossed(v)
            return value + unit[0] * cost, self.gradient(v, by_weight) + unit[0] * by_v

        return of_unknowns

    def crossed(self, v: np.ndarray) -> tuple[float, np.ndarray]:
        """The cost of caps below ``low``, and its gradient."""
        if not self.low.any():
            return 0.0, np.zeros_like(v)
        caps = self.caps(v[self.groups.count :])
        excess = np.maximum(self.low / caps.values - 1.0, 0.0)
        by_inverse = 2 * CROSSED * excess * self.low
        return CROSSED * float(excess @ excess), np.concatenate(
            [np.zeros(self.groups.count), self._by_y(caps, by_inverse)]
        )

    def unknowns(self, w: np.ndarray) -> np.ndarray:
        """V of the groups' weights, made a little smaller where they are at the rate."""
        near = self.promise.bring(self.groups.expand(w)) * INSIDE
        D = self.promise.diagonal(near)
        theta = np.divide(near**2 * self.promise.degrees, D, out=np.zeros_like(D), where=D > 0)
        theta[~self._observed] = 1.0
        # (rate I - theta P) x = 1: positive, and every node has room
        x = np.ones_like(D)
        for _ in range(SWEEPS):
            x, before = (theta * (self.P @ x) + 1.0) / self.promise.rate, x
            if (x <= 1.001 * before).all():
                break
        y = np.log(x)
        caps = self.caps(y)
        reduced = self.groups.reduce_start(near)
        room = np.maximum(caps.values - self.low, 1e-300)
        s = np.sqrt(np.clip((reduced**2 - self.low) / room, 0.0, 1.0))
        return np.concatenate([np.where(w < 0, -s, s), y])

    def bounds(self, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The box around the first v: s on the side of zero where it begins if ``low`` is above zero."""
        s, y = first[: self.groups.count], first[self.groups.count :]
        least = np.where((self.low > 0) & (s >= 0), 0.0, -1.0)
        most = np.where((self.low > 0) & (s < 0), 0.0, 1.0)
        return np.concatenate([least, y - REACH]), np.concatenate([most, y + REACH])
