"""Station means and smooth cycles, shrunk with covariances of all stations; and once more by a model of what they leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dtrtri

from nareg.spacetime._readings.coefficients import (
    FEWEST_TOGETHER,
    LARGEST_EDGES,
    OWN,
    RANGES,
    NoisyCoefficient,
    Shrinkage,
    Shrunk,
)
from nareg.spacetime._readings.cycle_errors import DRAWS
from nareg.spacetime._readings.cycles import Cycles
from nareg.spacetime._readings.space import JITTER, Space

#: Shares of a coefficient's variance that every station may have for itself, a sensor on a wall or in a hollow. On a graph,
#: where the sparse engine says the same, none.
STATIONS_OWN = (0.0, 0.1, 0.4, 0.8)
#: Standard deviation, in the readings', of what nothing is known of before: the network's mean, and its other coefficients,
#: by which functions of time are no larger than the readings where these are of the same four hours every day.
FAR, WIDE = 100.0, 1.0
#: Variance of what no functions of time tell of a coefficient: of exact readings, they would tell more than float64 holds.
LEAST = 1e-8
#: Steps of EM for the sizes of the coefficients' fields; and the variance from which a coefficient begins to be each station's.
STEPS, SMALL = 10, 0.01


class DenseShrinkage(Shrinkage):
    """Towards fields of the first family of a space. Numbers are drawn in an ``order`` (N,) of the stations."""

    draws = DRAWS

    def __init__(self, space: Space, order: np.ndarray, z: np.ndarray | None = None) -> None:
        self.space, self.order, self.z = space, order, np.empty((order.size, 0)) if z is None else z

    def error_model(self, unit: np.ndarray, comparable: np.ndarray) -> np.ndarray:
        """Covariance (N, N)."""
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

    def noisy(self, b: np.ndarray, error: np.ndarray, error_model: np.ndarray) -> DenseCoefficient:
        """``error_model`` (N, N) is the covariance of the errors over the roots of their variances."""
        return DenseCoefficient(self, b, error, error_model)


class DenseCoefficient(NoisyCoefficient):
    """Of up to a few hundred stations, by their covariance."""

    def __init__(self, shrinkage: DenseShrinkage, b: np.ndarray, error: np.ndarray, error_model: np.ndarray) -> None:
        super().__init__(b, error, shrinkage.z)
        self.space, self.order = shrinkage.space, shrinkage.order
        self.noise = error_model * np.sqrt(np.outer(self.errors, self.errors))

    def correlation(self, reach: float, own: float) -> np.ndarray:
        """(N, N) of the field, of which every station has a share for itself."""
        whole = (1 - own) * self.space.correlation(self.space.families[0], reach)
        whole.flat[:: len(whole) + 1] += own
        return whole

    @cached_property
    def fields(self) -> list[tuple[tuple[float, float, float], float, np.ndarray]]:
        at = np.ix_(self.sure, self.sure)
        sides = np.column_stack([np.ones(len(self.z)), self.values, self.z])[self.sure]
        result = []
        for reach, own, whole in self._correlations():
            for variance in self.variances:
                S = variance * whole[at] + self.noise[at]
                S.flat[:: len(S) + 1] += JITTER * variance
                factor = cho_factor(S, lower=True)
                determinant = 2 * float(np.log(np.diag(factor[0])).sum())
                result.append(((reach, variance, own), determinant, sides.T @ cho_solve(factor, sides)))
        return result

    def _correlations(self) -> Iterator[tuple[float, float, np.ndarray]]:
        far = self.space.families[0] != "graph"
        largest, shares = (float(self.space.distances.max()), STATIONS_OWN) if far else (LARGEST_EDGES, STATIONS_OWN[:1])
        for reach in (share * (largest or 1.0) for share in RANGES):
            yield from ((reach, own, self.correlation(reach, own)) for own in shares)

    def left_out(self, some: Sequence[int]) -> np.ndarray:
        (reach, variance, own), priors = self.likeliest(some)
        z = self.z[self.known][:, some]
        at = np.ix_(self.known, self.known)
        S = variance * self.correlation(reach, own)[at] + self.noise[at] + (z * priors) @ z.T
        S.flat[:: len(S) + 1] += JITTER * variance
        inverse = np.linalg.inv(S)
        ones = inverse.sum(axis=0)
        inverse -= np.outer(ones, ones) / ones.sum()  # the common value is estimated
        errors = np.zeros(len(self.z))
        errors[self.known] = (inverse @ self.values[self.known]) / inverse.diagonal()
        return errors

    def estimate(self, some: Sequence[int], unit: np.ndarray, rng: np.random.Generator) -> Shrunk:
        known, values, some, N = self.known, self.values[self.known], list(some), len(self.z)
        dual, slopes, variances = np.zeros(N), np.zeros(self.z.shape[1]), np.zeros(self.z.shape[1])
        (reach, variance, own), priors = self.likeliest(some)
        correlation, z = self.correlation(reach, own), self.z[:, some]
        whole = variance * correlation + (z * priors) @ z.T
        cross = whole[:, known]
        S = cross[known] + self.noise[np.ix_(known, known)]
        S.flat[:: len(S) + 1] += JITTER * variance
        factor = cho_factor(S, lower=True)
        ones = cho_solve(factor, np.ones(len(S)))
        common = float(ones @ values / ones.sum())
        alpha = cho_solve(factor, values - common)
        dual[known], slopes[some], variances[some] = (1 - own) * variance * alpha, priors * (z[known].T @ alpha), priors
        # of the field given the coefficients, and of the network's own, which is estimated with them
        spread = (
            whole.diagonal() - np.einsum("ij,ji->i", cross, cho_solve(factor, cross.T)) + (1 - cross @ ones) ** 2 / ones.sum()
        )
        white = np.empty((N, DRAWS))
        white[self.order] = rng.standard_normal((N, DRAWS))
        fields = np.sqrt(variance) * _symmetric_root(correlation) @ white
        if some:
            fields += (z * np.sqrt(priors)) @ rng.standard_normal((len(some), DRAWS))
        noisy = (fields + np.sqrt(self.errors)[:, None] * unit)[known]
        middle = ones @ noisy / ones.sum()
        errors = fields - middle - cross @ cho_solve(factor, noisy - middle)
        common += self.center
        level = common + cross @ alpha
        if not variance:
            reach = own = 0.0
        return Shrunk(level, common, np.maximum(spread, 0.0), errors, slopes, variances, reach, variance, dual, own)


def regressed(
    cycles: Cycles, space: Space, order: np.ndarray, A: np.ndarray, b: np.ndarray
) -> tuple[Cycles, float]:  # fmt: skip
    """Means and cycles by generalized least squares, and by how much they raise the log-likelihood.

    Slow weather moves least squares: a front in one station's gap, or storms on three of ten afternoons, look like a mean or a
    cycle. A model of the weather knows how much of it. ``A`` and ``b`` are its normal equations for changes of the levels, of
    all functions of the first station, the second, ...; fields and slopes have their likeliest sizes. What has neither may
    differ from station to station, as what all shared or what fewer than three stations showed.
    """
    K, N = cycles.level.shape
    alone = np.array([not cycles.covariance(space, k)[1] for k in range(K)])
    apart = np.maximum(((cycles.level - cycles.common[:, None]) ** 2).mean(axis=1), SMALL)
    cycles = replace(
        cycles, ranges=np.where(alone, 1.0, cycles.ranges), variance=np.where(alone, apart, cycles.variance),
        own=np.where(alone, 1.0, [cycles.own_share(k) for k in range(K)]),
    )  # fmt: skip
    roots = [np.linalg.cholesky(cycles.covariance(space, k)[0]) for k in range(K)]
    center = np.zeros(K)
    center[0] = cycles.common[0]
    around = (cycles.level - center[:, None]).T.ravel()
    G, w, root, sizes = _likeliest(roots, A, b + A @ around)
    P = root @ root.T
    white = np.empty((N, K, DRAWS))
    white[order] = np.random.default_rng(0).standard_normal((N, K, DRAWS))
    values, U = np.linalg.eigh(P)
    errors = ((U * np.sqrt(np.maximum(values, 0.0))) @ (U.T @ white.reshape(N * K, DRAWS))).reshape(N, K, DRAWS)
    change = G @ w - around
    dual, regression = np.zeros_like(cycles.dual), cycles.regression
    if regression is not None:
        regression = replace(
            regression, slopes=np.zeros_like(regression.slopes), variances=regression.variances * sizes[:, None]
        )
    for k in range(K):
        alpha = np.linalg.solve(roots[k].T, w[K:].reshape(K, N)[k]) / np.sqrt(sizes[k])
        dual[k] = (1 - cycles.own_share(k)) * cycles.variance[k] * sizes[k] * alpha
        if regression is not None:
            regression.slopes[k] = regression.variances[k] * (regression.covariates.standard.T @ alpha)
    changed = replace(
        cycles, level=cycles.level + change.reshape(N, K).T, common=center + _priors(K) * w[:K], dual=dual,
        variance=cycles.variance * sizes, spread=np.maximum(P.diagonal(), 0.0).reshape(N, K).T,
        errors=errors.transpose(1, 0, 2), regression=regression,
    )  # fmt: skip
    return changed, float(change @ b - 0.5 * change @ A @ change)


def _likeliest(roots: list[np.ndarray], A: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Levels ``G w`` of largest posterior density, a root of their covariance, and the factors by which fields became larger.

    The first K elements of w are the network's own, the others of fields with such ``roots`` (N, N) of their covariances, of
    which EM takes the sizes.
    """
    K, N = len(roots), len(roots[0])
    parts = np.zeros((N, K, K + K * N))
    for k, root in enumerate(roots):
        parts[:, k, k] = _priors(K)[k]
        parts[:, k, K + k * N : K + (k + 1) * N] = root
    G, sizes = parts.reshape(N * K, -1), np.ones(K)
    known = np.linalg.solve(np.eye(N * K) + LEAST * A, np.column_stack([A, b]))
    H, h, eye = G.T @ known[:, :-1] @ G, G.T @ known[:, -1], np.eye(G.shape[1])
    H = 0.5 * (H + H.T)
    for step in range(STEPS + 1):
        larger = np.append(np.ones(K), np.repeat(np.sqrt(sizes), N))
        root, _ = dtrtri(np.linalg.cholesky(larger[:, None] * H * larger + eye), lower=1)
        w = root.T @ (root @ (larger * h))
        if step < STEPS:
            sizes = sizes * (w**2 + (root**2).sum(axis=0))[K:].reshape(K, N).mean(axis=1)
    return G * larger, w, G * larger @ root.T, sizes


def _priors(K: int) -> np.ndarray:
    """Standard deviations of the network's own coefficients."""
    return np.where(np.arange(K) > 0, WIDE, FAR)


def _symmetric_root(whole: np.ndarray) -> np.ndarray:
    """Root of a correlation matrix, which permutes with its rows."""
    values, U = np.linalg.eigh(whole)
    root: np.ndarray = (U * np.sqrt(np.maximum(values, 0.0) + JITTER)) @ U.T
    return root
