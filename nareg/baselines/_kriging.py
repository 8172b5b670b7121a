"""Kriging: a Gaussian process over space, fitted at each time separately, as in geostatistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack

from nareg._core import checks
from nareg._core.arrays import briefly_shown
from nareg._core.neighbors import EARTH_RADIUS_KM, great_circle_km
from nareg._solvers.threads import few_threads
from nareg.baselines._masks import patterns, series
from nareg.errors import InputError, TooLargeError
from nareg.graph import Graph
from nareg.io import takes_tables
from nareg.typing import ArrayLike

#: Largest number of stations: every pattern of gaps is factored densely.
LIMIT = 1000
#: How many different patterns of gaps a likelihood pools: at most this many, and at most so many operations.
_PATTERNS = 100
_BUDGET = 4e9
#: Of so many patterns or more, one of four shows which start leads to the best maximum, near which all are pooled. The searches
#: from there end where a step gains less than this share.
FEWEST_GROUPS, SHARE, NEAR = 40, 4, 1e-4

KERNELS = ("exponential", "matern32")


@briefly_shown
@dataclass(frozen=True, eq=False)
class Kriging:
    """Result of :func:`kriging`.

    Attributes
    ----------
    x : (N, T) float64 array
        Estimate of the field.
    std : (N, T) float64 array
        Its standard deviation; that of a new reading is ``sqrt(std^2 + noise)``.
    noise : float
        Nugget: variance of a reading around the field.
    variance : float
        Variance of the field around its mean.
    length : float
        Length scale of the covariance, in kilometers or the coordinates' unit.
    log_likelihood : float
        Restricted log-likelihood of the times that were pooled, in units of the readings' standard deviation.
    """

    x: np.ndarray
    std: np.ndarray
    noise: float
    variance: float
    length: float
    log_likelihood: float


@takes_tables("y", "observed", observed="observed")
def kriging(
    graph: Graph | ArrayLike,
    y: ArrayLike,
    observed: ArrayLike | None = None,
    *,
    metric: str = "euclidean",
    kernel: str = "exponential",
    station_means: bool = True,
    parameters: tuple[float, float, float] | None = None,
    max_times: int | None = None,
) -> Kriging:
    """Ordinary kriging at each time separately: it uses space alone.

    A reading is ``m_i + c_t + f_t(i) + e``: the station's mean, an unknown constant per time (generalized least squares),
    a Gaussian field with covariance ``variance * k(distance / length)`` and white noise. The three parameters maximize the
    restricted marginal likelihood, pooled over times. Nothing is taken from one time to another but these and the means.

    Parameters
    ----------
    graph : Graph with coordinates, or (N, d) array of coordinates
        At most 1,000 stations.
    y : (N, T) array
        NaN where missing.
    observed : (N, T) or (N,) bool array, optional
        Default: where ``y`` is not NaN.
    metric : {"euclidean", "haversine"}
        As in :meth:`Graph.from_knn`. With ``"haversine"`` distances are in kilometers, along the sphere for the
        exponential kernel and through it for ``"matern32"``, which is no covariance along the sphere.
    kernel : {"exponential", "matern32"}
        ``exp(-r)`` or ``(1 + sqrt(3) r) exp(-sqrt(3) r)`` with ``r = distance / length``.
    station_means : bool
        Remove each station's mean over time and put it back. A station without a reading gets a mean kriged from the others'.
    parameters : (noise, variance, length), optional
        Given parameters, instead of those of maximum likelihood.
    max_times : int, optional
        Times that the likelihood pools, evenly spread, where there are more patterns of gaps than this. Default: 100, fewer
        above 300 stations, so that 1,000 stations take about two minutes.

    Returns
    -------
    Kriging

    Raises
    ------
    TooLargeError
        For more than 1,000 stations.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> places = np.array([[0.0], [1.0], [2.0]])
    >>> y = np.array([[0.0, 0.0], [np.nan, 3.0], [2.0, 4.0]])
    >>> result = nareg.baselines.kriging(places, y, parameters=(1e-9, 1.0, 2.0), station_means=False)
    >>> result.x.round(2)
    array([[0., 0.],
           [1., 3.],
           [2., 4.]])
    """
    values = series(y, observed)
    checks.squares("y", values)
    n = values.shape[0]
    kernel = checks.choice("kernel", kernel, KERNELS)
    distance = _distances(graph, n, checks.choice("metric", metric, ("euclidean", "haversine")), kernel)
    if not np.isfinite(values).any():
        raise InputError("y has no reading: pass at least one.")
    with few_threads(n):  # the inverse of 144 stations' covariance takes 30 times as long in two threads
        return _kriged(values, distance, kernel, station_means, parameters, max_times)


def _kriged(
    values: np.ndarray, distance: np.ndarray, kernel: str, station_means: bool,
    parameters: tuple[float, float, float] | None, max_times: int | None,
) -> Kriging:  # fmt: skip
    n, scale = len(values), float(np.nanstd(values)) or 1.0
    level, level_variance = np.zeros(n), np.zeros(n)
    if station_means:
        level, level_variance = _station_levels(values, distance, kernel)
    relative = (values - level[:, None]) / scale
    seen = np.isfinite(relative)
    if parameters is None:
        noise, variance, length, log_likelihood = _fit(relative, distance, kernel, max_times)
    else:
        given = [checks.number(f"parameters[{k}]", p, low=0, strict=k == 2) for k, p in enumerate(parameters)]
        noise, variance, length = given[0] / scale**2, given[1] / scale**2, given[2]
        groups = _groups(relative, np.arange(values.shape[1]))
        theta = np.log(np.maximum([noise, variance, length], 1e-300))
        log_likelihood = -_negative_log_likelihood(theta, groups, distance, kernel)[0]
    x, std = np.zeros(values.shape), np.zeros(values.shape)
    silent = np.zeros(values.shape[1], dtype=bool)
    covariance = variance * _correlation(distance / length, kernel)[0]
    constants = np.zeros(values.shape[1])
    for mask, times in patterns(seen):
        if not mask.any():
            silent[times] = True
            continue
        stations = np.flatnonzero(mask)
        cross = covariance[:, stations]
        K = cross[stations]
        K.flat[:: stations.size + 1] += noise
        K.flat[:: stations.size + 1] += 1e-12 * np.trace(K) / stations.size
        factor, failed = lapack.dpotrf(K.T, lower=True, overwrite_a=True)
        if failed:
            raise np.linalg.LinAlgError("the covariance of readings is not positive definite")
        solved = lapack.dpotrs(factor, np.vstack([np.ones(stations.size), cross]).T, lower=True, overwrite_b=True)[0]
        solved_ones, half = solved[:, 0], solved[:, 1:]
        total = float(solved_ones.sum())
        columns = relative[np.ix_(stations, times)]
        mean = solved_ones @ columns / total
        x[:, times] = mean + half.T @ (columns - mean)
        short = 1 - cross @ solved_ones
        spread = variance - np.einsum("ij,ji->i", cross, half) + short**2 / total
        std[:, times] = np.sqrt(np.maximum(spread, 0.0))[:, None]
        constants[times] = mean
    if silent.any():  # nothing but the stations' means is known at such a time
        usual = constants[~silent]
        x[:, silent], std[:, silent] = usual.mean(), np.sqrt(variance + usual.var())
    return Kriging(
        x=level[:, None] + scale * x,
        std=np.sqrt((scale * std) ** 2 + level_variance[:, None]),
        noise=noise * scale**2,
        variance=variance * scale**2,
        length=length,
        log_likelihood=log_likelihood,
    )


def _distances(graph: Graph | ArrayLike, n: int, metric: str, kernel: str) -> np.ndarray:
    if isinstance(graph, Graph):
        if graph.coordinates is None:
            raise InputError("graph has no coordinates: pass Graph(..., coordinates=...) or the coordinates themselves.")
        points = np.asarray(graph.coordinates)
    else:
        points = checks.floats("graph", graph, ndim=(2,)).astype(np.float64)
    if points.shape[0] != n:
        raise InputError(f"y has {n} rows but there are coordinates of {points.shape[0]} stations: rows are stations.")
    if n > LIMIT:
        raise TooLargeError(
            f"kriging factors a dense {n} x {n} covariance per pattern of gaps, more than the limit of {LIMIT}: use a part of "
            "the network, or filters.interpolate."
        )
    if metric == "euclidean":
        return np.linalg.norm(points[:, None] - points[None], axis=-1)
    if points.shape[1] != 2 or (np.abs(points[:, 0]) > 90).any():
        raise InputError(
            "coordinates are not latitude and longitude in degrees: metric='haversine' needs (N, 2), latitude first."
        )
    arc = great_circle_km(points[:, 0], points[:, 1])
    return arc if kernel == "exponential" else 2 * EARTH_RADIUS_KM * np.sin(arc / (2 * EARTH_RADIUS_KM))


def _correlation(r: np.ndarray, kernel: str) -> tuple[np.ndarray, np.ndarray]:
    """Correlation at scaled distances, and its derivative by the logarithm of the length."""
    if kernel == "exponential":
        k = np.exp(-r)
        return k, r * k
    s = np.sqrt(3.0) * r
    e = np.exp(-s)
    return (1 + s) * e, s * s * e


def _station_levels(values: np.ndarray, distance: np.ndarray, kernel: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean over time per station; stations that never read by kriging of the means, with its variance."""
    seen = np.isfinite(values)
    counts = seen.sum(axis=1)
    level = np.where(seen, values, 0.0).sum(axis=1) / np.maximum(counts, 1)
    variance = np.zeros(level.size)
    silent = counts == 0
    if not silent.any():
        return level, variance
    reads = ~silent
    scale = float(level[reads].std())
    if reads.sum() < 4 or scale == 0:
        level[silent], variance[silent] = level[reads].mean(), scale**2
        return level, variance
    column = np.where(reads, level / scale, np.nan)[:, None]
    noise, field, length, _ = _fit(column, distance, kernel, None)
    C = field * _correlation(distance / length, kernel)[0]
    K = C[np.ix_(reads, reads)] + (noise + 1e-10) * np.eye(int(reads.sum()))
    ones = np.ones(len(K))
    weights = np.linalg.solve(K, np.column_stack([ones, column[reads, 0], C[reads]]))
    total = ones @ weights[:, 0]
    mean = ones @ weights[:, 1] / total
    cross = C[np.ix_(silent, reads)]
    level[silent] = scale * (mean + cross @ (weights[:, 1] - mean * weights[:, 0]))
    spread = field + noise - np.einsum("ij,ji->i", cross, weights[:, 2:][:, silent]) + (1 - cross @ weights[:, 0]) ** 2 / total
    variance[silent] = scale**2 * np.maximum(spread, 0.0)
    return level, variance


#: Times that share a pattern of gaps: the stations that read, columns (S, at most S) with the products y y' of their readings,
#: which are all that a likelihood asks for, and how many times.
_Group = tuple[np.ndarray, np.ndarray, int]


def _groups(relative: np.ndarray, times: np.ndarray) -> list[_Group]:
    chosen = relative[:, times]
    groups: list[_Group] = []
    for mask, of in patterns(np.isfinite(chosen)):
        stations, columns = np.flatnonzero(mask), chosen[np.ix_(mask, of)]
        if stations.size >= 2:
            few = columns if len(of) <= stations.size else np.linalg.qr(columns.T).R.T
            groups.append((stations, few, len(of)))
    return groups


def _fit(relative: np.ndarray, distance: np.ndarray, kernel: str, max_times: int | None) -> tuple[float, float, float, float]:
    """Noise, variance, length and log-likelihood at its maximum, from three starts."""
    from scipy.optimize import minimize  # imported when first needed

    n = len(distance)
    useful = np.flatnonzero(np.isfinite(relative).sum(axis=0) >= 2)
    positive = distance[distance > 0]
    if useful.size == 0 or positive.size == 0:
        raise InputError(
            "y never has two readings at one time from different places: add readings, or use interpolate_in_time."
        )
    limit = max(4, min(_PATTERNS, int(_BUDGET / n**3))) if max_times is None else checks.integer("max_times", max_times, low=1)
    whole = _groups(relative, useful)
    if len(whole) > limit:  # times are many and their gaps differ: an even sample of them
        useful = useful[np.unique(np.linspace(0, useful.size - 1, limit).round().astype(int))]
        whole = _groups(relative, useful)
    short, long = float(positive.min()), float(positive.max())
    power = float(np.mean([np.sum(columns**2) / (stations.size * count) for stations, columns, count in whole])) or 1.0
    bounds = [
        (np.log(1e-8 * power), np.log(10 * power)),
        (np.log(1e-8 * power), np.log(1e4 * power)),
        (np.log(short / 10), np.log(100 * long)),
    ]

    def fitted(start: np.ndarray, groups: list[_Group], **options: float) -> Any:
        given = groups, distance, kernel
        return minimize(_negative_log_likelihood, start, given, jac=True, bounds=bounds, method="L-BFGS-B", options=options)

    starts = [np.log([0.3 * power, power, max(share * float(np.median(positive)), short)]) for share in (0.1, 0.4, 1.0)]
    some = whole[::SHARE] if len(whole) >= FEWEST_GROUPS else whole
    near = {} if some is whole else {"ftol": NEAR}
    best = min((fitted(start, some, **near) for start in starts), key=lambda fit: float(fit.fun))
    if some is not whole:
        best = fitted(best.x, whole)
    noise, variance, length = np.exp(best.x)
    return float(noise), float(variance), float(length), -float(best.fun)


def _negative_log_likelihood(
    theta: np.ndarray, groups: list[_Group], distance: np.ndarray, kernel: str
) -> tuple[float, np.ndarray]:
    """Restricted (an unknown constant per time is integrated out), with its gradient by the logarithms of the parameters."""
    noise, variance, length = np.exp(theta)
    k, slope = _correlation(distance / length, kernel)
    value, gradient, nugget = 0.0, np.zeros(3), noise + 1e-12 * (noise + variance)
    for stations, columns, count in groups:
        size = stations.size
        K, rates = (part.take(stations, axis=0).take(stations, axis=1) for part in (k, slope))
        K *= variance
        K.flat[:: size + 1] += nugget
        factor, failed = lapack.dpotrf(K.T, lower=True, overwrite_a=True)  # zeros above the diagonal, below also the inverse
        if failed:
            raise np.linalg.LinAlgError("the covariance of readings is not positive definite")
        solved = lapack.dpotrs(factor, np.column_stack([np.ones(size), columns]), lower=True)[0]
        row = solved[:, 0]
        total = row.sum()
        # P y, where P is the inverse K^-1 without the constant: P = K^-1 - row row' / total
        Py = solved[:, 1:] - np.outer(row, row @ columns / total)
        square = float(np.sum(columns * Py))
        log_det = 2 * np.log(np.diag(factor)).sum() + np.log(total) + (size - 1) * np.log(2 * np.pi)
        value += 0.5 * (count * log_det + square)
        # sums of D = count P - P y y' P times a matrix; P K P = P gives that of K
        lower = lapack.dpotri(factor, lower=True, overwrite_c=True)[0]
        own = np.diag(lower)
        trace = count * (own.sum() - row @ row / total) - np.sum(Py**2)
        by_length = 2 * np.vdot(lower.T, rates) - own @ np.diag(rates) - row @ (rates @ row) / total
        by_length = count * by_length - np.sum(Py * (rates @ Py))
        by_variance = count * (size - 1) - square - nugget * trace
        gradient += 0.5 * np.array([noise * trace, by_variance, variance * by_length])
    return float(value), gradient
