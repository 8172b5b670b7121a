"""Station means and smooth cycles, shrunk with covariances of all stations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from nareg.spacetime._readings.covariates import FEWEST_STATIONS, Covariates, helpful, likeliest_slopes
from nareg.spacetime._readings.cycle_errors import DRAWS
from nareg.spacetime._readings.cycles import (
    FEWEST_TOGETHER,
    LARGEST_EDGES,
    OWN,
    RANGES,
    SHARES,
    UNSURE,
    Cycles,
    Shrunk,
    shrunk_cycles,
)  # fmt: skip
from nareg.spacetime._readings.holdout import station_order
from nareg.spacetime._readings.series import Series
from nareg.spacetime._readings.space import JITTER, Space

#: Shares of a coefficient's variance that every station may have for itself, a sensor on a wall or in a hollow. On a graph,
#: where the sparse engine says the same, none.
STATIONS_OWN = (0.0, 0.1, 0.4, 0.8)


def fit(
    y: np.ndarray, seconds: np.ndarray, step: float, dated: bool, space: Space, wanted: str | tuple[str, ...],
    covariates: Covariates | None = None, series: Series | None = None,
) -> Cycles:  # fmt: skip
    """Means and cycles of readings (T, N), NaN where missing, which follow covariates and series that help."""
    shrinkage = DenseShrinkage(space, station_order(y), None if covariates is None else covariates.standard)
    return shrunk_cycles(y, seconds, step, dated, wanted, shrinkage, draws=DRAWS, covariates=covariates, series=series)


@dataclass(frozen=True, eq=False)
class DenseShrinkage:
    """Shrinks towards fields of the first family of a space, and slopes by ``z`` (N, C), covariates of mean 0 and variance 1.

    Numbers are drawn in an ``order`` (N,) of the stations. ``some`` of the covariates are used.
    """

    space: Space
    order: np.ndarray
    z: np.ndarray | None = None
    some: tuple[int, ...] = ()

    def error_model(self, unit: np.ndarray, comparable: np.ndarray) -> np.ndarray:
        """(N, N) covariance of errors ``unit`` (N, J) of variance about one, of largest likelihood.

        Slow weather moves the coefficients of neighbors together: their difference is known far better than either. That holds
        for stations that read at the same times, ``comparable`` (N,); errors of others are their own.
        """
        space, unit = self.space, unit.T
        family, result = space.families[0], np.eye(unit.shape[1])
        some = np.flatnonzero(comparable & unit.any(axis=0))
        if some.size < FEWEST_TOGETHER:
            return result
        largest = (float(space.distances.max()) or 1.0) if family != "graph" else LARGEST_EDGES
        best = np.inf
        for reach in RANGES:
            values, U = np.linalg.eigh(space.correlation(family, reach * largest)[np.ix_(some, some)])
            squares = ((unit[:, some] @ U) ** 2).mean(axis=0)
            for own in OWN:
                spectrum = (1 - own) * np.maximum(values, 0.0) + own
                size = float(np.mean(squares / spectrum))
                score = float(np.log(spectrum).sum()) + some.size * np.log(max(size, 1e-300))
                if score < best:
                    best = score
                    result[np.ix_(some, some)] = (U * (size * spectrum)) @ U.T
        return result

    def choose(
        self, coefficients: np.ndarray, errors: np.ndarray, error_model: np.ndarray, weights: np.ndarray
    ) -> tuple[DenseShrinkage, dict[int, float]]:
        """The same with the covariates that help, and what each gains, as :func:`helpful` has it.

        ``coefficients`` and ``errors`` (K, N) are as in a call, and ``weights`` (K, K) those of their products.
        """
        assert self.z is not None
        noisy = [NoisyCoefficient(self.space, b, v, error_model, self.z) for b, v in zip(coefficients, errors, strict=True)]
        if min(c.known.size for c in noisy) < FEWEST_STATIONS:
            return self, {}
        gains = helpful(lambda some: np.array([c.left_out(some) for c in noisy]), weights, self.z.shape[1])
        return replace(self, some=tuple(gains)), gains

    def __call__(
        self, b: np.ndarray, error: np.ndarray, error_model: np.ndarray, unit: np.ndarray, rng: np.random.Generator
    ) -> Shrunk:
        """Coefficients at all stations from noisy ones at some, by the field and the slopes of largest likelihood.

        ``error`` (N,) are variances of the noisy ones, ``error_model`` (N, N) is the covariance of their errors over the roots
        of these. Draws are the errors of fields and slopes of this kind, estimated from coefficients with errors ``unit``
        (N, J) times their size.
        """
        N = b.size
        z = np.empty((N, 0)) if self.z is None else self.z
        coefficient, some = NoisyCoefficient(self.space, b, error, error_model, z), list(self.some)
        dual, slopes, variances = np.zeros(N), np.zeros(z.shape[1]), np.zeros(z.shape[1])
        known, v = coefficient.known, coefficient.errors
        if known.size == 0:
            return Shrunk(np.zeros(N), 0.0, np.zeros(N), np.zeros((N, DRAWS)), slopes=slopes, slope_variances=variances)
        if coefficient.trivial:
            level = np.full(N, coefficient.center)
            level[known] += coefficient.values
            spread = np.full(N, float(v.mean()))
            spread[known] = v
            errors = unit * np.sqrt(spread)[:, None]
            return Shrunk(level, coefficient.center, spread, errors, slopes=slopes, slope_variances=variances)
        reach, own, signal, priors = coefficient.likeliest(some)
        correlation, z = coefficient.correlation(reach, own), z[:, some]
        whole = signal * correlation + (z * priors) @ z.T
        cross = whole[:, known]
        S = cross[known] + coefficient.noise
        S.flat[:: known.size + 1] += JITTER * signal
        factor = cho_factor(S, lower=True)
        ones = cho_solve(factor, np.ones(known.size))
        common = float(ones @ coefficient.values / ones.sum())
        alpha = cho_solve(factor, coefficient.values - common)
        dual[known], slopes[some], variances[some] = (1 - own) * signal * alpha, priors * (z[known].T @ alpha), priors
        # of the field given the coefficients, and of the network's own, which is estimated with them
        spread = (
            whole.diagonal() - np.einsum("ij,ji->i", cross, cho_solve(factor, cross.T)) + (1 - cross @ ones) ** 2 / ones.sum()
        )
        white = np.empty((N, DRAWS))
        white[self.order] = rng.standard_normal((N, DRAWS))
        fields = np.sqrt(signal) * _symmetric_root(correlation) @ white
        if some:
            fields += (z * np.sqrt(priors)) @ rng.standard_normal((len(some), DRAWS))
        noisy = fields[known] + np.sqrt(v)[:, None] * unit[known]
        middle = ones @ noisy / ones.sum()
        errors = fields - middle - cross @ cho_solve(factor, noisy - middle)
        level = coefficient.center + common + cross @ alpha
        return Shrunk(
            level, coefficient.center + common, np.maximum(spread, 0.0), errors, reach if signal else 0.0, signal, dual, slopes,
            variances, own if signal else 0.0,
        )  # fmt: skip


class NoisyCoefficient:
    """A coefficient at some stations, with errors, and the fields and slopes that it may come from."""

    def __init__(self, space: Space, b: np.ndarray, error: np.ndarray, error_model: np.ndarray, z: np.ndarray) -> None:
        self.space, self.z = space, z
        self.known = known = np.flatnonzero(np.isfinite(b))
        if known.size == 0:
            self.values = self.errors = np.empty(0)
            return
        # relative to how they differ: a level far from zero is no error
        self.errors = v = np.maximum(error[known], max(1e-12 * float(np.var(b[known])), 1e-300))
        # a station that knows next to nothing of its coefficient sets neither the scale of the errors nor that of the field
        trust, self.typical = v.min() / v, float(np.median(v))
        self.center = float(np.average(b[known], weights=trust))
        self.values = b[known] - self.center
        self.total = float(np.average(self.values**2, weights=trust))
        self.noise = error_model[np.ix_(known, known)] * np.sqrt(np.outer(v, v))

    @property
    def trivial(self) -> bool:
        """Whether there is nothing to shrink: two stations, or one value."""
        return self.known.size < 3 or self.total == 0

    def correlation(self, reach: float, own: float) -> np.ndarray:
        """(N, N) of the field, of which every station has a share for itself."""
        whole = (1 - own) * self.space.correlation(self.space.families[0], reach)
        whole.flat[:: len(whole) + 1] += own
        return whole

    @cached_property
    def _fields(self) -> list[tuple[float, float, float, float, np.ndarray]]:
        """Reach, own share and variance of every field, log determinant, and products of ones, values and covariates by it."""
        sure = np.flatnonzero(self.errors <= UNSURE * self.typical)
        stations = self.known[sure]
        sides = np.column_stack([np.ones(sure.size), self.values[sure], self.z[stations]])
        result = []
        for reach, own, whole in self._correlations():
            for share in SHARES:
                signal = share / (1 - share) * self.typical if share < SHARES[-1] else max(self.total, 30 * self.typical)
                S = signal * whole[np.ix_(stations, stations)] + self.noise[np.ix_(sure, sure)]
                S.flat[:: sure.size + 1] += JITTER * signal
                factor = cho_factor(S, lower=True)
                determinant = 2 * float(np.log(np.diag(factor[0])).sum())
                result.append((reach, own, signal, determinant, sides.T @ cho_solve(factor, sides)))
        return result

    def _correlations(self) -> Iterator[tuple[float, float, np.ndarray]]:
        far = self.space.families[0] != "graph"
        largest, shares = (float(self.space.distances.max()), STATIONS_OWN) if far else (LARGEST_EDGES, STATIONS_OWN[:1])
        for reach in (share * (largest or 1.0) for share in RANGES):
            yield from ((reach, own, self.correlation(reach, own)) for own in shares)

    def likeliest(self, some: Sequence[int]) -> tuple[float, float, float, np.ndarray]:
        """Reach, own share and variance of the field, and prior variances of slopes by ``some`` covariates: the likeliest."""
        best, result = np.inf, (0.0, 0.0, 0.0, np.zeros(len(some)))
        for reach, own, signal, determinant, products in self._fields:
            score, priors = likeliest_slopes(products, some, self.total)
            if determinant + score < best:
                best, result = determinant + score, (reach, own, signal, priors)
        return result

    def left_out(self, some: Sequence[int]) -> np.ndarray:
        """(N,) coefficients minus what the other stations say of them, by ``some`` covariates; 0 where nothing is known."""
        errors = np.zeros(len(self.z))
        if self.known.size == 0 or self.trivial:
            return errors
        reach, own, signal, priors = self.likeliest(some)
        z = self.z[self.known][:, some]
        S = signal * self.correlation(reach, own)[np.ix_(self.known, self.known)] + self.noise + (z * priors) @ z.T
        S.flat[:: self.known.size + 1] += JITTER * signal
        inverse = np.linalg.inv(S)
        ones = inverse.sum(axis=0)
        inverse -= np.outer(ones, ones) / ones.sum()  # the common value is estimated
        errors[self.known] = (inverse @ self.values) / inverse.diagonal()
        return errors


def _symmetric_root(whole: np.ndarray) -> np.ndarray:
    """Root of a correlation matrix, which permutes with its rows."""
    values, U = np.linalg.eigh(whole)
    root: np.ndarray = (U * np.sqrt(np.maximum(values, 0.0) + JITTER)) @ U.T
    return root
