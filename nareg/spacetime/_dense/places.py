"""The covariance by which the field is carried to places without a station, and stations that are added or taken away.

The likelihood of a model says how readings at the same stations follow each other, more than how they carry to other places.
The covariance for that is chosen by the errors at stations that are left out, one at a time: readings at some times are kriged
from those of all other stations. It may have slopes by the covariates, too, which move as the field does: a lapse rate that
changes from hour to hour.

A new station is its kriging estimate from the others, plus a field of its own. With ``x_n = W x + u``, W from a
covariance and u independent of x with the same autoregression, the joint process is again of the model's form. One that
leaves is replaced by its expectation given the others: with scalar and diagonal dynamics, where no station acts on another,
that changes nothing for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.lapack import dpotri, dpotrs

from nareg.errors import SolverError
from nareg.spacetime._dense.filter import Dynamics, factor
from nareg.spacetime._dense.parametric import Parameters
from nareg.spacetime._readings.holdout import robust_scale, winsorized_squares
from nareg.spacetime._readings.space import JITTER, Space

#: Times, and different sets of stations that read at them, by which a covariance is chosen, and the products that it may take.
TIMES, SETS, PRODUCTS = 200, 40, 4e8
#: Fewest stations at a time.
FEWEST = 6
#: What is tried: families, factors of the reach, shares of a station's own field, and variances of slopes.
DISTANCES, FACTORS, OWN, SLOPES = (
    ("exponential", "matern"), (0.25, 0.5, 1.0, 2.0, 4.0), (0.003, 0.01, 0.03, 0.1, 0.3), (0.0, 0.003, 0.01, 0.03, 0.1, 0.3)
)  # fmt: skip
#: Rounds of the search, and the largest reach in largest distances.
ROUNDS, FARTHEST = 2, 4.0
#: The variance may differ from that of the likelihood by this factor.
MOST = 4.0


@dataclass(frozen=True)
class PlaceKernel:
    """Covariance of the field at stations and at places."""

    family: str
    reach: float
    own: float  # share of the variance that every place has for itself
    variance: float
    slopes: tuple[float, ...] = ()  # variance of a slope by each standard covariate, in shares of the variance

    @classmethod
    def of(cls, parameters: Parameters, covariates: int) -> PlaceKernel:
        """That of the process, without slopes by so many covariates."""
        own = float(1 / (1 + np.exp(-parameters.logit_eta)))
        variance, reach = float(np.exp(parameters.log_variance)), float(np.exp(parameters.log_reach))
        return cls(parameters.family, reach, own, variance, (0.0,) * covariates)

    def at_stations(self, space: Space, z: np.ndarray) -> np.ndarray:
        """(N, N) at the stations, where standard covariates are ``z`` (N, C)."""
        return self._whole(space.correlation(self.family, self.reach), z)

    def joint(self, space: Space, points: np.ndarray, z: np.ndarray) -> np.ndarray:
        """(N + M, N + M) at the stations and M places, where standard covariates are ``z`` (N + M, C)."""
        return self._whole(space.joint_correlation(self.family, self.reach, points), z)

    def _whole(self, correlation: np.ndarray, z: np.ndarray) -> np.ndarray:
        C = (1 - self.own) * correlation
        C.flat[:: len(C) + 1] += self.own + JITTER
        if any(self.slopes):
            C += (z * np.array(self.slopes)) @ z.T
        return self.variance * C


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Readings at some times, and what a covariance says of each from those of the other stations at its time."""

    space: Space
    z: np.ndarray  # (N, C) standard covariates
    noise: np.ndarray  # (N,) variances
    sets: list[tuple[np.ndarray, np.ndarray]]  # stations (n,), and their readings (n, T) at the times when only these read

    @classmethod
    def of(cls, rows: np.ndarray, noise: np.ndarray, space: Space, z: np.ndarray) -> LeftOut:
        """Of readings (T, N), mean and cycles removed, NaN where missing: times with many readings, spread over all."""
        seen = np.isfinite(rows)
        counts = seen.sum(axis=1)
        many = np.flatnonzero((counts >= FEWEST) & (2 * counts >= counts.max(initial=0)))
        some = many[np.unique(np.linspace(0, many.size - 1, min(TIMES, many.size)).astype(int))] if many.size else many
        most = int(np.clip(PRODUCTS / max(space.n, 1) ** 3, 2, SETS))
        masks, which = np.unique(seen[some], axis=0, return_inverse=True)
        if len(masks) > most:
            some = some[np.linspace(0, some.size - 1, most).astype(int)]
            masks, which = np.unique(seen[some], axis=0, return_inverse=True)
        sets = [(np.flatnonzero(mask), rows[some[which.ravel() == k]][:, mask].T) for k, mask in enumerate(masks)]
        return cls(space, z, noise, sets)

    def errors(self, kernel: PlaceKernel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Errors of all these readings, the variances that are expected of them, and the noise's part of these."""
        whole = kernel.at_stations(self.space, self.z)
        errors, variances, noises = [], [], []
        for stations, y in self.sets:
            L = factor(whole[np.ix_(stations, stations)] + np.diag(self.noise[stations]), "the covariance of readings")
            diagonal = dpotri(L, lower=1)[0].diagonal()  # of the inverse
            errors.append((dpotrs(L, y, lower=1)[0] / diagonal[:, None]).ravel())
            variances.append(np.repeat(1 / diagonal, y.shape[1]))
            noises.append(np.repeat(self.noise[stations], y.shape[1]))
        return np.concatenate(errors), np.concatenate(variances), np.concatenate(noises)


def best_kernel(
    start: PlaceKernel, rows: np.ndarray, noise: np.ndarray, space: Space, z: np.ndarray, used: np.ndarray
) -> PlaceKernel:
    """The covariance that has the smallest squared errors at stations that are left out, from a ``start``.

    ``rows`` (T, N) are readings without mean and cycles, NaN where missing, ``noise`` (N,) their variances. There may be slopes
    by the standard covariates ``z`` (N, C) that are ``used`` (C,).
    """
    readings = LeftOut.of(rows, noise, space, z)
    if not readings.sets:
        return start
    scale = robust_scale(readings.errors(start)[0])
    losses: dict[PlaceKernel, float] = {}

    def loss(kernel: PlaceKernel) -> float:
        if kernel not in losses:
            try:
                losses[kernel] = float(winsorized_squares(readings.errors(kernel)[0], scale).mean())
            except SolverError:  # around a globe, distances along it make no covariance of every family and reach
                losses[kernel] = np.inf
        return losses[kernel]

    best = start
    for _ in range(ROUNDS):
        before = best
        for kind in range(3):
            best = min([best, *_others(best, kind, space, used)], key=loss)
        if best is before:
            break
    errors, variances, noises = readings.errors(best)
    field = float((variances - noises).sum())
    squares = float((winsorized_squares(errors, scale) - noises).sum())
    return replace(best, variance=best.variance * float(np.clip(squares / field, 1 / MOST, MOST))) if field > 0 else best


def _others(kernel: PlaceKernel, kind: int, space: Space, used: np.ndarray) -> Iterator[PlaceKernel]:
    """Kernels that differ in the family and the reach, in the share of every place's own, or in a slope."""
    if kind == 0:
        farthest = FARTHEST * (float(space.distances.max()) or 1.0)
        for family in DISTANCES:
            reach = space.typical_range(family) if kernel.family == "graph" else kernel.reach
            yield from (replace(kernel, family=family, reach=min(factor * reach, farthest)) for factor in FACTORS)
    elif kind == 1:
        yield from (replace(kernel, own=own) for own in OWN)
    else:
        for c in np.flatnonzero(used):
            yield from (replace(kernel, slopes=(*kernel.slopes[:c], share, *kernel.slopes[c + 1 :])) for share in SLOPES)


@dataclass(frozen=True, eq=False)
class Extension:
    """How M new stations follow from N old ones."""

    W: np.ndarray  # (M, N)
    own: np.ndarray  # (M, M) covariance of u at one time
    a: np.ndarray  # (p,) autoregression of u
    gamma: np.ndarray  # (p, p) its autocovariances at variance one
    q: float  # its innovation variance at variance one

    @classmethod
    def of(cls, dynamics: Dynamics, parameters: Parameters, joint: np.ndarray) -> Extension:
        """From the covariance (N + M, N + M) of the field at the stations and at the new ones, at one time."""
        n = dynamics.n
        W = np.linalg.solve(joint[:n, :n], joint[:n, n:]).T
        own = joint[n:, n:] - W @ joint[:n, n:]
        # scalar dynamics were refined: u then follows these
        if all(A.ndim == 0 for A in dynamics.blocks):
            parameters = parameters.with_coefficients(np.array([float(A) for A in dynamics.blocks]))
        a, gamma, q = parameters.autoregression()
        return cls(W, 0.5 * (own + own.T), a, gamma, q)

    def covariance(self, P: np.ndarray) -> np.ndarray:
        """Covariance of a state (pN, pN) with the new stations in it, u being stationary."""
        n, p = self.W.shape[1], self.a.size
        blocks = [
            [_bordered(P[k * n : (k + 1) * n, m * n : (m + 1) * n], self.W, self.gamma[k, m] * self.own) for m in range(p)]
            for k in range(p)
        ]
        return np.block(blocks)

    def state(self, z: np.ndarray) -> np.ndarray:
        """Mean (pN, ...) of a state with the new stations in it."""
        n, p = self.W.shape[1], self.a.size
        return np.concatenate([np.concatenate([part, self.W @ part]) for part in z.reshape(p, n, *z.shape[1:])])

    def dynamics(self, old: Dynamics) -> Dynamics:
        """Dynamics with the new stations in them."""
        n, m = self.W.shape[1], self.W.shape[0]
        blocks = []
        for A, a in zip(old.blocks, self.a, strict=True):
            if A.ndim == 0:
                blocks.append(A)
                continue
            full = A if A.ndim == 2 else np.diag(A)
            blocks.append(np.block([[full, np.zeros((n, m))], [self.W @ full - a * self.W, a * np.eye(m)]]))
        return Dynamics(tuple(blocks), _bordered(old.Q, self.W, self.q * self.own), self.covariance(old.P0))


def restricted(old: Dynamics, stations: np.ndarray) -> Dynamics:
    """Dynamics of some of the stations, the others replaced by their regression on these in the first state's covariance."""
    n, p = old.n, old.order
    retained = np.concatenate([k * n + stations for k in range(p)])
    P0 = old.P0[np.ix_(retained, retained)]
    Q = old.Q[np.ix_(stations, stations)]
    if all(A.ndim < 2 for A in old.blocks):
        return Dynamics(tuple(A if A.ndim == 0 else A[stations] for A in old.blocks), Q, P0)
    gone = np.setdiff1d(np.arange(p * n), retained)
    A = old.matrix()[stations]
    G = np.linalg.solve(P0, old.P0[np.ix_(retained, gone)]).T
    left = old.P0[np.ix_(gone, gone)] - G @ old.P0[np.ix_(retained, gone)]
    whole = A[:, retained] + A[:, gone] @ G
    spread = A[:, gone] @ left @ A[:, gone].T
    m = stations.size
    return Dynamics(tuple(whole[:, k * m : (k + 1) * m] for k in range(p)), Q + 0.5 * (spread + spread.T), P0)


def _bordered(P: np.ndarray, W: np.ndarray, own: np.ndarray) -> np.ndarray:
    WP = W @ P
    return np.block([[P, P @ W.T], [WP, WP @ W.T + own]])
