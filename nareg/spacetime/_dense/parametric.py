"""Maximum likelihood in a handful of parameters: one autoregression for all stations, a correlation in space, noise.

The covariance of the process noise is ``q ((1 - eta) C(reach) + eta I)`` and the field is stationary. The gradient of the
likelihood is in closed form, by what the smoother's recursion leaves (Koopman and Shephard 1992): rounding, which differences
would enlarge, moves no step. The information of a stationary process says how far a step goes, and how well readings tell
noise from field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from nareg._solvers.lbfgs import Pair, two_loop
from nareg.errors import SolverError
from nareg.spacetime._dense.filter import Dynamics
from nareg.spacetime._dense.smoother import Pass, Slopes, slopes_each
from nareg.spacetime._readings.space import JITTER, Space

#: Called with the log-likelihood after every evaluation.
Tick = Callable[[float], None]
#: Partial autocorrelations are ``tanh`` of a parameter within these bounds, noise variances within these shares of the
#: readings'.
STEEPEST, NOISE_RANGE = (4.5, 2.5), (1e-7, 1e2)
#: Standard deviation of a station's log noise variance around the network's.
NOISE_SPREAD = 0.7
#: Weak normal priors (center, standard deviation): logit of eta, and log of the reach around the typical one.
ETA_PRIOR, REACH_PRIOR = (-4.0, 3.0), 2.0
#: Variance that constant readings are taken to have, in the model's unit.
SMALLEST = 1e-12
#: A search adds this to the information, takes no longer steps, and ends where one more would raise the log-likelihood by less.
DAMPED, LONGEST, ENOUGH = 0.04, 2.0, 1e-3
#: Steps that promise less than this, or come after so many, tell by how the gradient changes where the curvature is not the
#: information: near the top, and where readings are not those of a stationary process at all.
NEAR, LATE = 10.0, 10
#: The share of what the gradient promises that a step has to give, how often it is shortened until it does, and to what shares.
ARMIJO, SHORTER, SHORTENED = 1e-4, 8, (0.1, 0.5)


@dataclass(frozen=True, eq=False)
class Parameters:
    """What is estimated, in the coordinates of the optimizer."""

    family: str  # of the correlation in space
    log_variance: float
    log_reach: float
    logit_eta: float
    partials: np.ndarray  # (p,) inverse hyperbolic tangents of the partial autocorrelations
    log_noise: np.ndarray  # (N,)

    @property
    def order(self) -> int:
        return int(self.partials.size)

    def autoregression(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Coefficients (p,), autocovariances of a stationary unit process (p, p), and its innovation variance."""
        phi = np.tanh(self.partials)
        if phi.size == 1:
            return phi, np.ones((1, 1)), float(1 - phi[0] ** 2)
        a = np.array([phi[0] * (1 - phi[1]), phi[1]])
        return a, np.array([[1.0, phi[0]], [phi[0], 1.0]]), float((1 - phi[0] ** 2) * (1 - phi[1] ** 2))

    def turn(self) -> float:
        """Share of an oscillation that is left after one turn; 0 without an oscillation."""
        a = self.autoregression()[0]
        roots = np.roots([1.0, *-a])
        angle = float(np.abs(np.angle(roots[0]))) if np.iscomplexobj(roots) else 0.0
        return float(np.abs(roots[0]) ** (2 * np.pi / angle)) if angle else 0.0

    def covariance(self, space: Space) -> np.ndarray:
        """Covariance of the field at one time, (N, N)."""
        eta = 1 / (1 + np.exp(-self.logit_eta))
        C = (1 - eta) * space.correlation(self.family, float(np.exp(self.log_reach)))
        C.flat[:: space.n + 1] += eta + JITTER
        return np.exp(self.log_variance) * C

    def covariance_slopes(self, space: Space) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of :meth:`covariance` by the log of the reach and by the logit of eta."""
        eta, variance = 1 / (1 + np.exp(-self.logit_eta)), np.exp(self.log_variance)
        C, slope = space.correlation_and_slope(self.family, float(np.exp(self.log_reach)))
        return variance * (1 - eta) * slope, variance * eta * (1 - eta) * (np.eye(space.n) - C)

    def autoregression_slopes(self) -> list[tuple[np.ndarray, np.ndarray, float]]:
        """Derivatives of :meth:`autoregression` by each of the ``partials``."""
        phi = np.tanh(self.partials)
        if phi.size == 1:
            slopes = [(np.ones(1), np.zeros((1, 1)), -2 * phi[0])]
        else:
            (f, g), off = phi, np.array([[0.0, 1.0], [1.0, 0.0]])
            slopes = [
                (np.array([1 - g, 0.0]), off, -2 * f * (1 - g**2)), (np.array([-f, 1.0]), 0 * off, -2 * g * (1 - f**2)),
            ]  # fmt: skip
        return [(rate * da, rate * dgamma, rate * dq) for rate, (da, dgamma, dq) in zip(1 - phi**2, slopes, strict=True)]

    def dynamics(self, space: Space) -> Dynamics:
        a, gamma, q = self.autoregression()
        K = self.covariance(space)
        return Dynamics(tuple(np.asarray(c) for c in a), q * K, np.kron(gamma, K))

    @property
    def noise(self) -> np.ndarray:
        return np.exp(self.log_noise)

    def with_coefficients(self, a: np.ndarray) -> Parameters:
        """The same field with other coefficients of the autoregression, which have to be stationary."""
        phi = a if a.size == 1 else np.array([a[0] / (1 - a[1]), a[1]])
        return replace(self, partials=np.arctanh(np.clip(phi, -1 + 1e-9, 1 - 1e-9)))

    def moved_to(self, family: str, space: Space) -> Parameters:
        """The same process with another correlation, at that family's typical range."""
        return replace(self, family=family, log_reach=float(np.log(space.typical_range(family))))

    def spread_to(self, n: int, stations: np.ndarray, noise: np.ndarray | None) -> Parameters:
        """For all n stations: those that were not looked at begin with the median noise."""
        log_noise = np.full(n, float(np.median(self.log_noise))) if noise is None else np.log(noise)
        log_noise[stations] = self.log_noise
        return replace(self, log_noise=log_noise)


@dataclass(frozen=True)
class Expected:
    """What the expected complete-data likelihood needs of the readings, over all their windows."""

    S11: np.ndarray
    S10: np.ndarray
    S00: np.ndarray
    steps: int
    counts: np.ndarray
    squares: np.ndarray


def gather(windows: Sequence[np.ndarray], passes: Sequence[Pass]) -> Expected:
    """Sums over windows; ``squares`` is the expected sum of squared noise per station."""
    moments = [p.moments for p in passes]
    observed = [np.isfinite(y) for y in windows]
    squares = sum(
        np.where(o, (np.where(o, y, 0.0) - p.x) ** 2 + p.var, 0.0).sum(axis=0)
        for o, y, p in zip(observed, windows, passes, strict=True)
    )
    S11, S10, S00 = (np.sum([getattr(m, name) for m in moments], axis=0) for name in ("S11", "S10", "S00"))
    counts = np.sum([o.sum(axis=0) for o in observed], axis=0)
    return Expected(S11, S10, S00, sum(len(y) - 1 for y in windows), counts, np.asarray(squares))


def _blocks(matrix: np.ndarray, n: int) -> np.ndarray:
    """(pN, pN) as (p, p, N, N)."""
    p = matrix.shape[0] // n
    return matrix.reshape(p, n, p, n).swapaxes(1, 2)


def slopes(parameters: Parameters, space: Space, parts: Sequence[Slopes]) -> np.ndarray:
    """Derivatives of the log-likelihood by the parameters but those of the noise, from those by what the model is made of."""
    _, gamma, q = parameters.autoregression()
    by_Q, by_P0, by_a = (np.sum([getattr(part, name) for part in parts], axis=0) for name in ("Q", "P0", "a"))
    first, K = _blocks(by_P0, space.n), parameters.covariance(space)
    by_K = q * by_Q + np.einsum("kl,klij->ij", gamma, first)
    gradient = [float(np.sum(by_K * step)) for step in (K, *parameters.covariance_slopes(space))]
    for da, dgamma, dq in parameters.autoregression_slopes():
        by_gamma = np.einsum("klij,ij->kl", first, K)
        gradient.append(float(da @ by_a + dq * np.sum(by_Q * K) + np.sum(dgamma * by_gamma)))
    return np.array(gradient)


@dataclass(frozen=True)
class Fitted:
    """Parameters of the largest penalized likelihood, that likelihood, its scaled gradient, and how it rose."""

    parameters: Parameters
    objective: float
    log_likelihood: float
    gradient: float
    history: list[float]


class Penalized:
    """The penalized log-likelihood of windows, as a function of what the optimizer moves: ``theta``, within bounds.

    ``theta`` is that of a start: variance, reach, share of the stations' own part, autoregression, and unless it is fixed, the
    noise of every station.
    """

    def __init__(
        self, windows: Sequence[np.ndarray], space: Space, start: Parameters, *, fixed_noise: bool,
        least: np.ndarray | None = None, tick: Tick | None = None,
    ) -> None:  # fmt: skip
        self.windows, self.space, self.start, self.tick = windows, space, start, tick
        self.counts = np.sum([np.isfinite(y).sum(axis=0) for y in windows], axis=0)
        level = max(float(np.nanvar(np.concatenate(windows))), SMALLEST)
        typical = float(np.log(space.typical_range(start.family)))
        p, self.shape, noises = start.order, 3 + start.order, 0 if fixed_noise else space.n
        theta = np.array([start.log_variance, start.log_reach, start.logit_eta, *start.partials])
        self.theta = theta if fixed_noise else np.concatenate([theta, start.log_noise])
        lowest, highest = np.log(level * np.array(NOISE_RANGE))
        self.lower = np.array([-np.inf, typical - 5, -14.0, *(-limit for limit in STEEPEST[:p]), *[lowest] * noises])
        self.upper = np.array([np.inf, typical + 5, 5.0, *STEEPEST[:p], *[highest] * noises])
        if not fixed_noise and least is not None:
            self.lower[self.shape :] = np.clip(np.log(np.maximum(least, 1e-300)), lowest, highest)
        self.center = np.array([0.0, typical, ETA_PRIOR[0], *[0.0] * (p + noises)])
        self.precision = np.diag([0.0, REACH_PRIOR**-2, ETA_PRIOR[1] ** -2, *[0.0] * (p + noises)])
        self.precision[self.shape :, self.shape :] = (np.eye(noises) - 1 / max(noises, 1)) / NOISE_SPREAD**2

    def parameters(self, theta: np.ndarray) -> Parameters:
        """What ``theta`` stands for."""
        variance, reach, eta = map(float, theta[:3])
        noise = theta[self.shape :] if theta.size > self.shape else self.start.log_noise
        return Parameters(self.start.family, variance, reach, eta, theta[3 : self.shape].copy(), noise.copy())

    def evaluate(self, theta: np.ndarray) -> tuple[float, float, np.ndarray]:
        """The penalized log-likelihood, what it is without the penalty, and its gradient."""
        now = self.parameters(theta)
        parts = slopes_each(self.windows, now.dynamics(self.space), now.noise)
        log_likelihood, apart = sum(part.log_likelihood for part in parts), self.precision @ (theta - self.center)
        gradient = np.concatenate([slopes(now, self.space, parts), now.noise * np.sum([part.r for part in parts], axis=0)])
        value = log_likelihood - 0.5 * float(apart @ (theta - self.center))
        if self.tick is not None:
            self.tick(value)
        return value, log_likelihood, gradient[: theta.size] - apart

    def curvature(self, theta: np.ndarray) -> np.ndarray:
        """The information in the readings and the priors."""
        of_readings = information(self.parameters(theta), self.space, self.counts)[: theta.size, : theta.size]
        return of_readings + self.precision + DAMPED * np.eye(theta.size)


def maximize(function: Penalized, iterations: int) -> Fitted:
    """Climb from the start by Fisher's scoring, within the bounds: no step goes down.

    The information of a stationary process stands for the curvature. It knows how variance, memory and noise make up for each
    other, so that a few steps do for any number of stations.
    """
    theta = np.clip(function.theta, function.lower, function.upper)
    value, log_likelihood, gradient = function.evaluate(theta)
    history = [value]
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(iterations):
        free = ~(((theta <= function.lower) & (gradient < 0)) | ((theta >= function.upper) & (gradient > 0)))
        step = np.zeros_like(theta)
        factor = cho_factor(function.curvature(theta)[np.ix_(free, free)])
        near = [Pair(s[free], c[free], float(s[free] @ c[free])) for s, c in pairs]
        near = [pair for pair in near if pair.curvature > 0]
        step[free] = two_loop(gradient[free], near, partial(cho_solve, factor))
        if 0.5 * float(step @ gradient) < ENOUGH:
            break
        step *= min(1.0, LONGEST / float(np.abs(step).max()))
        for _ in range(SHORTER):
            there = np.clip(theta + step, function.lower, function.upper)
            promised = float(gradient @ (there - theta))
            try:
                new = function.evaluate(there)
            except SolverError:  # a wall: the search turns back
                new = -np.inf, -np.inf, gradient
            if new[0] > value + ARMIJO * max(promised, 0.0):
                break
            step *= np.clip(promised / (2 * (promised + value - new[0])), *SHORTENED)  # the top of a parabola
        else:
            break
        if promised < NEAR or len(history) > LATE:
            pairs.append((there - theta, gradient - new[2]))
        theta, (value, log_likelihood, gradient) = there, new
        history.append(value)
    scaled = float(np.abs(gradient).max()) * function.space.n / max(1, int(function.counts.sum()))
    return Fitted(function.parameters(theta), value, log_likelihood, scaled, history)


def _spectra(parameters: Parameters) -> list[np.ndarray]:
    """Spectrum (frequencies,) of the autoregression with unit variance, and its derivatives by the ``partials``."""
    waves = np.exp(-1j * np.pi * (np.arange(FREQUENCIES) + 0.5) / FREQUENCIES)
    a, _, q = parameters.autoregression()
    powers = np.array([waves ** (k + 1) for k in range(a.size)])
    transfer = 1 - a @ powers
    gain = 1 / np.abs(transfer) ** 2
    slopes = [(dq + 2 * q * np.real(da @ powers / transfer)) * gain for da, _, dq in parameters.autoregression_slopes()]
    return [q * gain, *slopes]


def information(parameters: Parameters, space: Space, counts: np.ndarray) -> np.ndarray:
    """Information (3 + p + N, 3 + p + N) of a stationary process (Whittle 1953) in what :class:`Penalized` moves.

    As if the readings were complete, and then by the share of them that there is: ``counts`` (N,) of every station.
    """
    n, shape = space.n, 3 + parameters.order
    spectrum, *by_partials = _spectra(parameters)
    white = np.exp(-0.5 * parameters.log_noise)  # in whose units noise is 1
    white = np.multiply.outer(white, white)
    values, U = np.linalg.eigh(parameters.covariance(space) * white)
    by_reach, by_eta = (U.T @ (slope * white) @ U for slope in parameters.covariance_slopes(space))
    values = np.maximum(values, 0.0)
    D = 1 / (spectrum[:, None] * values + 1)  # (frequencies, N) eigenvalues of the inverse
    result = np.zeros((shape + n, shape + n))
    # the variance and the autoregression change eigenvalues alone
    diagonal = {i: s[:, None] * values for i, s in zip([0, *range(3, shape)], [spectrum, *by_partials], strict=True)}
    for i, one in diagonal.items():
        for j, other in diagonal.items():
            result[i, j] = np.sum(D**2 * one * other)
        for j, slope in ((1, by_reach), (2, by_eta)):
            result[i, j] = result[j, i] = spectrum @ (D**2 * one) @ slope.diagonal()
        result[i, shape:] = result[shape:, i] = U**2 @ np.sum(D**2 * one, axis=0)
    of_spectrum, of_square = (D.T @ (spectrum[:, None] ** k * D) for k in (1, 2))
    result[1, 1], result[2, 2] = np.sum(of_square * by_reach**2), np.sum(of_square * by_eta**2)
    result[1, 2] = result[2, 1] = np.sum(of_square * by_reach * by_eta)
    for j, slope in ((1, by_reach), (2, by_eta)):
        result[j, shape:] = result[shape:, j] = np.sum(U * (U @ (of_spectrum * slope)), axis=1)
    _, sizes, modes = np.linalg.svd(D, full_matrices=False)  # a handful of which sum squares of all frequencies
    for size, mode in zip(sizes, modes, strict=True):
        if size > TINY * sizes[0]:
            result[shape:, shape:] += ((U * (size * mode)) @ U.T) ** 2
    shares = np.sqrt(np.append(np.full(shape, counts.mean()), counts))
    return result * np.multiply.outer(shares, shares) / (2 * FREQUENCIES)


#: Frequencies that the information is summed over, and the share of the largest size that modes of them have at least.
FREQUENCIES, TINY = 128, 1e-7
#: Readings per station below which a record is short.
SHORT = 60
#: Share of the modes in space and time where the field is least.
LEAST = 0.05
#: Rounds in which a noise that is hardly known is looked at where it may be larger.
ROUNDS = 3
#: An error of less than this share, on either side, cancels over stations and files: an estimate owes it nothing.
USUAL = 0.2
#: A note says where the noise variance is known to no better than the first share; beyond the second it may as well be larger.
NOTED, HARDLY_KNOWN = 0.3, 0.5


def noise_errors(parameters: Parameters, space: Space, counts: np.ndarray) -> np.ndarray:
    """By how much noise variances may be lower and higher, (2, N), from ``counts`` (N,) readings of every station.

    By the :func:`information` in the variance, the reach, the autoregression, the stations' own part and the noise; a station's
    own deviation from the network's noise has its prior.
    """
    n, typical = space.n, float(np.exp(parameters.log_noise.mean()))
    here = np.outer(np.linalg.eigvalsh(parameters.covariance(space)).clip(0.0), _spectra(parameters)[0])
    # readings show field and noise together: where the field is least, there is no more that may be noise
    most = float(np.quantile(here, LEAST))
    together = np.eye(4 + parameters.order)[[*range(3 + parameters.order), *[-1] * n]]  # one noise of all stations
    even = np.full(n, counts.mean())  # shares that differ would part that noise from a field which looks the same

    def relative(noise: float) -> np.ndarray:
        """Errors as a share of ``typical``, where the noise variance is this."""
        one = together.T @ information(replace(parameters, log_noise=np.full(n, np.log(noise))), space, even) @ together
        one[[1, 2], [1, 2]] += REACH_PRIOR**-2, ETA_PRIOR[1] ** -2
        shared = float(np.linalg.pinv(one, hermitian=True)[-1, -1])
        own = one[-1, -1] * counts / max(float(counts.sum()), 1.0)
        return np.sqrt(shared + 1 / (own + NOISE_SPREAD**-2)) * noise / typical

    error = relative(typical)
    # estimates that follow the past show in their innovations where noise was taken for too large, unless the record is short
    low = np.minimum(error, 1.0) if np.median(counts[counts > 0]) < SHORT else np.zeros(counts.size)
    high = np.minimum(error, most / typical)
    for _ in range(ROUNDS if np.median(high) > HARDLY_KNOWN else 0):
        # little noise is sharply told from less, but not from more: as sharply as at the end of what is likely
        high = np.clip(relative(typical * (1 + float(np.median(high)))), high, most / typical)
    result: np.ndarray = parameters.noise * np.array([low, high])
    return result


def noise_allowance(error: np.ndarray | None, noise: np.ndarray, share: np.ndarray, seen: np.ndarray) -> np.ndarray | float:
    """What estimates (..., N) owe to what the noise may be off by, ``error`` (2, N): variances, where readings are ``seen``.

    Where a smoother gives a reading the weight g, and its noise variance is r, the estimate has the variance g r. If the noise
    is r + d instead and the field as much calmer, it has ``(2 g - 1) d`` more: an estimate that follows its readings is worse
    for more noise, one that does not for less. ``share`` is the field's variance over the noise's, the weight g.
    """
    if error is None:
        return 0.0
    g, (low, high) = np.clip(share, 0.0, 1.0), np.maximum(error - USUAL * noise, 0.0)
    return np.where(seen, np.where(g > 0.5, (2 * g - 1) * high, (1 - 2 * g) * low), 0.0)
