"""Stations that drift and readings that spike must not pull their neighbors: a robust data term.

Every reading is compared with what the other stations say about it, the leave-one-out prediction of the filter
itself. A station whose differences are larger than expected gets a smaller weight in the data term, and the
predictions are made again, until the weights recovered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import erf, exp1

from nareg._core import checks
from nareg._core.arrays import MAD_TO_STD, briefly_shown, robust_std
from nareg._solvers.system import Penalty, build, data_term, filter_matrix, penalty
from nareg.design._node.selection import Sampling
from nareg.design._risk.checked import data_weights
from nareg.design._risk.sampled import probes
from nareg.errors import InputError, SolverError
from nareg.filters.apply import denoise
from nareg.io import takes_tables
from nareg.results import Status
from nareg.typing import ArrayLike, GraphLike, WeightsLike

#: Up to here the diagonals are exact, from a dense filter; beyond, from probes.
DENSE_NODES = 500
#: The rounds end when no reliability, and no reading in units of its scale, moves by more.
CHANGE = 0.01
#: Later rounds go half the way (in the logarithm): two stations may accuse each other in turn.
UNDAMPED = 10
#: A station whose own reading makes up more than this share of its estimate has no neighbors to judge it by.
ALONE = 1 - 1e-6
#: Standard error of the scale from the median absolute value of T normal numbers is this over sqrt(T).
SCALE_ERROR = 1.167
#: A station's scale counts as raised from so many standard errors above one.
STANDARD_ERRORS = 3.0
#: and from so many (robust) standard deviations of the logarithm over stations.
UNUSUAL = 3.0
#: Readings are moved to so many thresholds from their prediction: at 2.7 standard deviations 0.7 % of good ones are.
READING_LIMIT = 2.0
#: Spikes of single readings start at most so many (robust) standard deviations of their station away from its median,
GROSS = 10.0
#: where it has this many readings.
FEWEST_TIMES = 5
#: Arrays of one number per node and column that are held at once: right-hand sides, solutions, the solver's own.
ARRAYS = 7
#: Relative residual of the solves.
TOL = 1e-7
#: Random probes, unless the caller names a number.
PROBES = 64


@briefly_shown
@dataclass(frozen=True)
class RobustFit:
    """What :func:`robust_fit` says about stations and readings.

    Attributes
    ----------
    data_weight : (N,) array
        Data term times reliability: pass it as ``data_weight=`` to designs and to :func:`nareg.filters.denoise`.
    noise : (N,) array
        Noise variance, and for stations with a reliability below one what their differences have beyond the
        expected power: pass it as ``noise=`` to designs, which would otherwise bend the filter towards readings that
        are worse than they are said to be.
    reliability : (N,) array
        In (0, 1]; one where nothing is suspicious, or where nothing can be judged (not observed, no neighbors).
    scale : (N,) array
        Robust size over time of a station's differences from its prediction, one where as expected.
    readings : (N, T) array
        The readings; with ``per_reading=True`` the spikes are moved to the edge of what is credible.
    estimate : (N, T) array
        Denoised ``readings``, with ``data_weight`` and the weights that were given.
    rounds : int
    status : Status
        ``CONVERGED``, or ``MAX_ITERATIONS`` where the reliabilities still moved.
    """

    data_weight: np.ndarray
    noise: np.ndarray
    reliability: np.ndarray
    scale: np.ndarray
    readings: np.ndarray
    estimate: np.ndarray
    rounds: int
    status: Status

    def suspects(self, threshold: float = 0.5) -> np.ndarray:
        """Indices of the stations whose reliability is below the threshold, the worst first."""
        below = np.flatnonzero(self.reliability < checks.number("threshold", threshold, low=0, high=1))
        return below[np.argsort(self.reliability[below], kind="stable")]


@takes_tables("measurements")
def robust_fit(
    graph: GraphLike,
    weights: WeightsLike,
    measurements: ArrayLike,
    *,
    noise: ArrayLike,
    data_weight: ArrayLike | Literal["noise"] | None = None,
    threshold: float = 1.345,
    loss: Literal["scale", "huber"] = "scale",
    per_reading: bool = False,
    max_rounds: int = 30,
    sampling: Sampling | None = None,
) -> RobustFit:
    """Find unreliable stations by leave-one-out prediction, and the data term that trusts them less.

    Provisional: no experiment uses it yet; arguments and results may change.

    Parameters
    ----------
    graph : Graph or (N, N) operator
    weights : (N,) array, number, WeightDesign or (N, N) sparse S
        Of the filter that predicts stations from each other. A first design from the same readings will do;
        design again with the data weight and the noise that come back, because bad stations spoil that one too.
    measurements : (N,) or (N, T) array
        Noisy readings. A drift shows over time: a few dozen readings are wanted.
    noise : number or (N,) array
        Noise variance(s) of good readings.
    data_weight : None, "noise" or (N,) array
        Data term to start from. Default: a design's own, else ones.
    threshold : float
        From how many times the expected size on a difference counts as suspicious.
    loss : {"scale", "huber"}
        ``"scale"``: a station whose differences have R times the expected size (median absolute value over
        time) is weighed by ``(threshold / R)^2``, the inverse of its variance, as soon as R is above the
        threshold. ``"huber"``: by the mean over time of Huber's weights ``min(1, threshold / |r|)``, over what
        they are on average for normal numbers; milder.
    per_reading : bool
        Also move single readings that lie far from their prediction to ``2 threshold`` standard deviations from
        it (Huber's pseudo-observations), for spikes; see ``readings``.
    max_rounds : int
    sampling : Sampling, optional
        Number and generator of the random probes for the filter's diagonal above 500 nodes. Default: 64 probes.

    Returns
    -------
    RobustFit

    Notes
    -----
    With ``H = K^-1 C`` the prediction of station i from all others misses its reading by
    ``e_i = (y_i - x_hat_i) / (1 - H_ii)``. Noise explains a variance of
    ``v_i = sigma_i^2 + sum_{j != i} H_ij^2 sigma_j^2 / (1 - H_ii)^2`` of it. The rest is signal that neighbors
    cannot predict, taken as ``tau p_i`` with ``p_i = (H_ii / c_i) / (1 - H_ii)``, the prediction variance if S were
    the precision matrix of the signal, and tau such that the median of ``|e| / sqrt(v + tau p)`` over all stations
    and times is that of a normal number: less than half of the readings may be bad. An offset that is large
    against all this cannot be told from a place that is unlike its surroundings. A place that is like no other is
    not accused for that as long as others are similarly odd: the threshold rises with the spread of R over stations.

    Judge with one weight for all nodes (:func:`nareg.design.node_invariant`) and design node weights afterwards: they
    would have learned the bad stations, by cutting them off.

    References
    ----------
    Huber, "Robust Statistics", Wiley 1981, chapter 7 (weights and pseudo-observations in regression).

    Examples
    --------
    >>> import numpy as np, nareg
    >>> rng = np.random.default_rng(0)
    >>> g = nareg.graphs.grid((6, 6))
    >>> y = np.sin(np.arange(50)) + 0.5 * rng.standard_normal((36, 50))
    >>> y[14] += np.linspace(0, 5, 50)
    >>> judged = nareg.design.robust_fit(g, 1.0, y, noise=0.25)
    >>> judged.suspects()
    array([14])
    """
    base = penalty(graph)
    n = base.n_nodes
    Y = checks.signals("measurements", measurements, n).astype(float).reshape(n, -1)
    if np.ndim(noise) == 2:
        raise InputError("noise is a covariance: stations are judged with independent noise; pass variances, a number or (N,).")
    variance = checks.noise("noise", noise, n)
    if (variance <= 0).any():
        i = int(np.argmin(variance))
        raise InputError(
            f"noise[{i}] is {variance[i]:g}: differences are divided by it; give every station a positive variance."
        )
    c = data_weights(data_weight, variance, n) if isinstance(data_weight, str) else data_term(data_weight, weights, n)
    limit = checks.number("threshold", threshold, low=0, strict=True)
    checks.choice("loss", loss, ("scale", "huber"))
    max_rounds = checks.integer("max_rounds", max_rounds, low=1)
    sampling = (sampling or Sampling(n_probes=PROBES)).started()
    if n > DENSE_NODES:
        checks.memory(
            "robust_fit",
            8 * n * (Y.shape[1] + 2 * sampling.n_probes) * ARRAYS,
            alternative="pass fewer measurements or probes",
        )
    build(base, weights, c)  # refuses what cannot be solved before any work is done
    Z = None if n <= DENSE_NODES else probes(base.L, sampling.n_probes, sampling.generator)
    return _Rounds(base, weights, variance, c, Y, limit, loss, per_reading, Z).run(max_rounds)


@dataclass(frozen=True)
class _Rounds:
    """The reweighting: stations are judged, weighed, and judged again by the others' new weights."""

    base: Penalty
    weights: Any
    variance: np.ndarray
    c: np.ndarray
    Y: np.ndarray
    threshold: float
    loss: str
    per_reading: bool
    Z: np.ndarray | None

    def run(self, max_rounds: int) -> RobustFit:
        rho, scale = np.ones(self.c.size), np.ones(self.c.size)
        readings = self.without_gross() if self.per_reading else self.Y
        status, done = Status.MAX_ITERATIONS, 0
        while status is not Status.CONVERGED and done < max_rounds:
            done += 1
            prediction, expected = self.predict(self.c * rho, readings)
            ratio = (self.Y - prediction) / expected[:, None]
            before, rho, scale = rho, self.reliability(ratio), _robust_scale(ratio)
            if done > UNDAMPED:
                rho = np.sqrt(rho * before)
            change = float(np.abs(rho - before).max())
            if self.per_reading:
                # a station known for its spread may deviate in proportion
                room = READING_LIMIT * self.threshold * np.maximum(scale, 1.0)[:, None]
                old, readings = readings, prediction + expected[:, None] * np.clip(ratio, -room, room)
                change = max(change, float((np.abs(readings - old) / expected[:, None]).max()))
            if change <= CHANGE:
                status = Status.CONVERGED
        estimate = self.solve(self.c * rho, readings)
        # what the expectation leaves of a suspicious station's power
        excess = np.mean((readings - prediction) ** 2, axis=1) - expected**2
        noise = self.variance + np.where(rho < 1, np.maximum(excess, 0.0), 0.0)
        return RobustFit(self.c * rho, noise, rho, scale, readings, estimate, done, status)

    def without_gross(self) -> np.ndarray:
        """Readings to begin with: a spike of a thousand would take many rounds to shrink, and its neighbors with it."""
        if self.Y.shape[1] < FEWEST_TIMES:
            return self.Y
        middle = np.median(self.Y, axis=1, keepdims=True)
        spread = MAD_TO_STD * np.median(np.abs(self.Y - middle), axis=1, keepdims=True)
        room = GROSS * np.maximum(spread, np.sqrt(self.variance)[:, None])
        return middle + np.clip(self.Y - middle, -room, room)

    def predict(self, c: np.ndarray, readings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Leave-one-out predictions, and the standard deviation expected of the differences from them."""
        estimate, own, spread = self.filtered(c, readings)
        known = (c > 0) & (own < ALONE)
        if not known.any():
            raise InputError("weights leave every station without neighbors: none can be judged; pass weights that are not 0.")
        others = np.where(known, 1.0 - own, 1.0)
        miss = np.where(known[:, None], (readings - estimate) / others[:, None], 0.0)
        prediction = readings - miss
        v = self.variance + np.maximum(spread - own**2 * self.variance, 0.0) / others**2
        p = np.divide(own, c * others, out=np.zeros_like(c), where=known)
        tau = _unpredictable((self.Y - prediction)[known], v[known], p[known])
        prediction[~known] = self.Y[~known]
        return prediction, np.sqrt(v + tau * p)

    def filtered(self, c: np.ndarray, readings: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Estimate, ``H_ii`` and ``(H Sigma H^T)_ii``."""
        if self.Z is None:
            H = filter_matrix(build(self.base, self.weights, c), what="robust_fit")
            return H @ readings, np.diag(H).copy(), (H**2) @ self.variance
        T, P = readings.shape[1], self.Z.shape[1]
        # K^-1 Z, because the diagonal of H is lost in its row where c_i is small
        unit = np.divide(self.Z, c[:, None], out=np.zeros_like(self.Z), where=c[:, None] > 0)
        noise = np.sqrt(self.variance)[:, None] * self.Z
        answer = self.solve(c, np.hstack([readings, unit, noise]))
        own = c * np.einsum("ip,ip->i", answer[:, T : T + P], self.Z) / P
        return answer[:, :T], np.clip(own, 0.0, 1.0), np.mean(answer[:, T + P :] ** 2, axis=1)

    def solve(self, c: np.ndarray, columns: np.ndarray) -> np.ndarray:
        solution = denoise(self.base, self.weights, columns, data_weight=c, tol=TOL)
        if not solution.status.ok:
            raise SolverError(f"robust_fit: a solve ended {solution.status.name}: take smaller weights.")
        return solution.x

    def reliability(self, ratio: np.ndarray) -> np.ndarray:
        """Weight of every station from its standardized differences."""
        if self.loss == "scale":
            scale = _robust_scale(ratio)
            accepted = max(self.threshold, _usual_limit(scale, ratio.shape[1]))
            return np.minimum(1.0, accepted / np.maximum(scale, accepted)) ** 2
        size = np.maximum(np.abs(ratio), self.threshold)
        return np.minimum(1.0, np.mean(self.threshold / size, axis=1) / _mean_huber_weight(self.threshold))


def _robust_scale(ratio: np.ndarray) -> np.ndarray:
    """Standard deviation about zero of each row, from its median absolute value."""
    return MAD_TO_STD * np.median(np.abs(ratio), axis=1)


def _usual_limit(scale: np.ndarray, n_readings: int) -> float:
    """The largest scale of a good station: few readings show a larger one by chance, and places differ."""
    chance = float(1.0 + STANDARD_ERRORS * SCALE_ERROR / np.sqrt(n_readings))
    log = np.log(scale[scale > 0])  # zero where a station is not judged
    if not log.size:
        return chance
    middle = np.median(log)
    return max(chance, float(np.exp(middle + UNUSUAL * robust_std(log))))


def _mean_huber_weight(k: float) -> float:
    """``E min(1, k / |r|)`` of a standard normal number: ``erf(k / sqrt 2) + k E_1(k^2 / 2) / sqrt(2 pi)``."""
    return float(erf(k / np.sqrt(2)) + k * exp1(k * k / 2) / np.sqrt(2 * np.pi))


def _unpredictable(miss: np.ndarray, v: np.ndarray, p: np.ndarray) -> float:
    """The smallest ``tau >= 0`` for which the median of ``|miss| / sqrt(v + tau p)`` is a normal number's."""

    def excess(tau: float) -> float:
        return float(MAD_TO_STD * np.median(np.abs(miss) / np.sqrt(v + tau * p)[:, None])) - 1.0

    if excess(0.0) <= 0 or not p.any():
        return 0.0
    high = float(np.median(v) / np.median(p[p > 0]))
    while excess(high) > 0:
        high *= 4.0
    return float(brentq(excess, 0.0, high, xtol=1e-12 * high, rtol=1e-9))
