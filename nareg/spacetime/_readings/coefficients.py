"""A coefficient of every station, its mean or a wave of its cycle, from noisy ones of some of them.

It is a common value, plus slopes times covariates, plus a field over the network. Field and slopes are those of largest
likelihood. The engines differ in how they solve with the field's covariance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from nareg.spacetime._readings.covariates import FEWEST_STATIONS, helpful, likeliest_slopes

#: Ranges that the field of a coefficient may have, as a share of the largest distance.
RANGES = (0.05, 0.15, 0.5, 1.5)
#: What stands for the largest distance where a range counts edges.
LARGEST_EDGES = 8.0
#: Shares of the coefficients' errors that a station has of its own.
OWN = (0.02, 0.04, 0.08, 0.15, 0.22, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
#: Signal-to-total ratios that the field of a coefficient may have.
SHARES = (0.0, 0.1, 0.3, 0.6, 0.85, 0.97)
#: A station whose coefficient has so many times the median station's error variance has no say in the field's reach and size.
UNSURE = 30.0
#: Stations whose errors tell how alike they are.
FEWEST_TOGETHER = 3


@dataclass(frozen=True, eq=False)
class Shrunk:
    """A coefficient at all stations (N,), from noisy ones of some."""

    level: np.ndarray
    common: float  # the network's own
    spread: np.ndarray  # (N,) variances
    errors: np.ndarray  # (N, J) draws of their errors
    slopes: np.ndarray  # (C,) by the covariates, and their prior variances
    slope_variances: np.ndarray
    reach: float = 0.0  # range of the coefficient's field; 0: all stations share one coefficient
    variance: float = 0.0  # of the field around common
    dual: np.ndarray | None = None  # (N,) as in Cycles
    own: float = 0.0  # as in Cycles


class NoisyCoefficient(ABC):
    """A coefficient at ``known`` (N,) stations, with errors, and fields and slopes by ``z`` (N, C) that it may come from."""

    def __init__(self, b: np.ndarray, error: np.ndarray, z: np.ndarray) -> None:
        self.z, self.known = z, np.isfinite(b)
        self.values, self.errors, self.center, self.total = np.zeros(b.size), np.ones(b.size), 0.0, 0.0
        if not self.known.any():
            return
        b = b[self.known]
        # relative to how they differ: a level far from zero is no error
        v = np.maximum(error[self.known], max(1e-12 * float(np.var(b)), 1e-300))
        # a station that knows next to nothing of its coefficient sets neither the scale of the errors nor that of the field
        trust, self.typical = v.min() / v, float(np.median(v))
        self.center = float(np.average(b, weights=trust))
        self.values[self.known], self.errors[self.known] = b - self.center, v
        self.total = float(np.average(self.values[self.known] ** 2, weights=trust))

    @property
    def trivial(self) -> bool:
        """Whether there is nothing to shrink: two stations, or one value."""
        return bool(self.known.sum() < FEWEST_TOGETHER or self.total == 0)

    @property
    def sure(self) -> np.ndarray:
        """(N,) stations that choose among fields."""
        return self.known & (self.errors <= UNSURE * self.typical)

    @property
    def variances(self) -> list[float]:
        """Those that the field may have."""
        return [share / (1 - share) * self.typical for share in SHARES[:-1]] + [max(self.total, 30 * self.typical)]

    @property
    @abstractmethod
    def fields(self) -> list[tuple[tuple[float, float, float], float, np.ndarray]]:
        """Reach, variance and own share of every field, log determinant, and products of ones, values and z in its inverse."""

    def likeliest(self, some: Sequence[int]) -> tuple[tuple[float, float, float], np.ndarray]:
        """Reach, variance and own share of the field, and prior variances of slopes by ``some`` covariates: the likeliest."""
        best, result = np.inf, ((0.0, 0.0, 0.0), np.zeros(len(some)))
        for field, determinant, products in self.fields:
            score, priors = likeliest_slopes(products, some, self.total)
            if determinant + score < best:
                best, result = determinant + score, (field, priors)
        return result

    @abstractmethod
    def left_out(self, some: Sequence[int]) -> np.ndarray:
        """(N,) coefficients minus what the other stations say of them, by ``some`` covariates; 0 where nothing is known."""

    @abstractmethod
    def estimate(self, some: Sequence[int], unit: np.ndarray, rng: np.random.Generator) -> Shrunk:
        """Coefficients at all stations by the likeliest field and slopes by ``some`` covariates, as of a :class:`Shrinkage`."""


class Shrinkage(ABC):
    """Draws coefficients towards fields over the network, and slopes by ``some`` of the covariates ``z`` (N, C).

    These have mean 0 and variance 1.
    """

    z: np.ndarray
    some: tuple[int, ...] = ()
    #: Draws of the coefficients' errors.
    draws: int

    @abstractmethod
    def error_model(self, unit: np.ndarray, comparable: np.ndarray) -> Any:
        """Covariance of errors ``unit`` (N, J) of variance about one, of largest likelihood.

        Slow weather moves the coefficients of neighbors together: their difference is known far better than either. That holds
        for stations that read at the same times, ``comparable`` (N,); errors of others are their own.
        """

    @abstractmethod
    def noisy(self, b: np.ndarray, error: np.ndarray, error_model: Any) -> NoisyCoefficient:
        """A coefficient: ``b`` (N,) are NaN where nothing is known, ``error`` (N,) their errors' variances."""

    def choose(
        self, coefficients: np.ndarray, errors: np.ndarray, error_model: Any, weights: np.ndarray
    ) -> tuple[Self, dict[int, float]]:
        """The same with slopes by the covariates that help, and what each gains, as :func:`helpful` has it.

        ``coefficients`` and ``errors`` (K, N) are as in a call, and ``weights`` (K, K) those of their products.
        """
        noisy = [self.noisy(b, v, error_model) for b, v in zip(coefficients, errors, strict=True)]
        if min(int(c.known.sum()) for c in noisy) < FEWEST_STATIONS:
            return self, {}

        def left_out(some: Sequence[int]) -> np.ndarray:
            return np.array([c.values if c.trivial else c.left_out(some) for c in noisy])

        gains = helpful(left_out, weights, self.z.shape[1])
        chosen = copy(self)
        chosen.some = tuple(gains)
        return chosen, gains

    def __call__(
        self, b: np.ndarray, error: np.ndarray, error_model: Any, unit: np.ndarray, rng: np.random.Generator
    ) -> Shrunk:
        """By the likeliest field and slopes; ``b``, ``error`` and ``error_model`` are as of :meth:`noisy`.

        Draws are the errors of fields and slopes of this kind, estimated from coefficients with errors ``unit`` (N, J) times
        their size.
        """
        coefficient = self.noisy(b, error, error_model)
        if not coefficient.trivial:
            return coefficient.estimate(self.some, unit, rng)
        center, known, v, zero = coefficient.center, coefficient.known, coefficient.errors, np.zeros(self.z.shape[1])
        spread = np.where(known, v, v[known].mean() if known.any() else 0.0)
        return Shrunk(center + coefficient.values, center, spread, unit * np.sqrt(spread)[:, None], zero, zero)
