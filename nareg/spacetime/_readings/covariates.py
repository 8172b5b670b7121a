"""What is known of stations beside their places, such as their height, and how means and cycles follow it.

A coefficient of a station (its mean, a wave of its cycle) is a common value, plus slopes times the covariates, plus a field
over the network. Slopes have normal priors, whose variances are those of largest likelihood. A covariate is used where it
lowers the error at stations that are left out, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from nareg._core import checks
from nareg.errors import InputError
from nareg.spacetime._readings.holdout import improvement, robust_scale

#: Stations that read, at least, where a covariate is used.
FEWEST_STATIONS = 6
#: Standard errors, and share, by which the squared error has to fall: of 60 covariates drawn at random one made it fall by 1.5
#: standard errors, and 13 by one.
CLEAR, LEAST = 1.5, 0.02
#: Prior variances that a slope may have, as shares of the coefficients' own variance.
SLOPES = (0.0, 0.03, 0.3, 3.0)
#: A covariate that varies by less than this share of its size is constant.
CONSTANT = 1e-9


@dataclass(frozen=True, eq=False)
class Covariates:
    """Values at the stations; ``center`` and ``scale`` bring them to mean zero and variance one."""

    names: tuple[str, ...]
    values: np.ndarray  # (N, C) as given
    center: np.ndarray  # (C,)
    scale: np.ndarray  # (C,)

    @classmethod
    def of(cls, given: Mapping[str, ArrayLike], reads: np.ndarray) -> Covariates:
        """Checked covariates of N stations, of which some have readings, ``reads`` (N,)."""
        names = tuple(map(str, given.keys()))
        values = np.empty((reads.size, len(names)))
        for column, name in zip(values.T, given.keys(), strict=True):
            column[:] = checks.node_vector(f"covariates[{name!r}]", given[name], reads.size)
        some = values[reads] if reads.any() else values
        center, spread = some.mean(axis=0), some.std(axis=0)
        varies = spread > CONSTANT * np.abs(some).max(axis=0, initial=0.0)
        return cls(names, values, center, np.where(varies, spread, 1.0))

    @property
    def standard(self) -> np.ndarray:
        """(N, C) values of mean zero and variance one."""
        return (self.values - self.center) / self.scale

    def at_places(self, given: Mapping[str, ArrayLike] | None, count: int, needed: np.ndarray) -> np.ndarray:
        """(M, C) standard values at further places; 0, the stations' mean, where a covariate is not ``needed`` (C,)."""
        given = {} if given is None else given
        unknown = [name for name in given if name not in self.names]
        if unknown:
            raise InputError(
                f"covariates names {unknown[0]!r}, but the model has {', '.join(map(repr, self.names))}: pass those."
            )
        z = np.zeros((count, len(self.names)))
        for c, name in enumerate(self.names):
            if name in given:
                z[:, c] = (checks.node_vector(f"covariates[{name!r}]", given[name], count) - self.center[c]) / self.scale[c]
            elif needed[c]:
                raise InputError(
                    f"covariates lacks {name!r}, which the model's means follow: pass covariates={{{name!r}: ...}} with one "
                    "value per place."
                )
        return z

    def of_stations(self, stations: np.ndarray) -> Covariates:
        """Those of some of the stations."""
        return replace(self, values=self.values[stations])

    def extended(self, z: np.ndarray) -> Covariates:
        """With standard values (M, C) at further stations."""
        return replace(self, values=np.vstack([self.values, self.center + self.scale * z]))


@dataclass(frozen=True, eq=False)
class Regression:
    """How coefficients of means and cycles follow the covariates."""

    covariates: Covariates
    slopes: np.ndarray  # (K, C) change of each coefficient per standard deviation of each covariate
    variances: np.ndarray  # (K, C) prior variances of the slopes; 0: it is not used
    gains: np.ndarray  # (C,) by what share each lowers the squared error at stations that are left out; 0: it does not

    @property
    def used(self) -> np.ndarray:
        """(C,) covariates that coefficients follow."""
        return self.gains > 0

    def arrays(self) -> dict[str, np.ndarray]:
        """All its numbers by name."""
        c = self.covariates
        parts = {"values": c.values, "center": c.center, "scale": c.scale}
        return parts | {"slopes": self.slopes, "variances": self.variances, "gains": self.gains}

    def lines(self, unit: float | None) -> tuple[str, ...]:
        """What each covariate does, and the mean's slope in the readings' unit where one ``unit`` of the model is that much."""
        said = []
        for c, name in enumerate(self.covariates.names):
            if not self.used[c]:
                said.append(f"{name} is not used: it does not help at stations that are left out")
                continue
            per = 10.0 ** np.ceil(np.log10(self.covariates.scale[c]))
            slope = ""
            if unit is not None:
                size = float(f"{unit * self.slopes[0, c] / self.covariates.scale[c] * per:.2g}")  # 1e+02 is 100
                slope = f", by {size:,.12g} per {per:,.12g}"
            said.append(
                f"means and cycles follow {name}{slope}: their squared error at stations that are left out is "
                f"{100 * self.gains[c]:.0f} % lower"
            )
        return tuple(said)

    def of_stations(self, stations: np.ndarray) -> Regression:
        """With the covariates of some of the stations."""
        return replace(self, covariates=self.covariates.of_stations(stations))

    def extended(self, z: np.ndarray) -> Regression:
        """With further stations, where standard covariates are ``z`` (M, C)."""
        return replace(self, covariates=self.covariates.extended(z))


def likeliest_slopes(products: np.ndarray, some: Sequence[int], total: float) -> tuple[float, np.ndarray]:
    """Prior variances of slopes by ``some`` covariates, and twice their negative log-likelihood, without a determinant.

    ``products`` (2 + C, 2 + C) are those of ones, coefficients and covariates in the inverse covariance of field and errors,
    and ``total`` the coefficients' variance.
    """
    rows = [0, 1, *(2 + c for c in some)]
    G, priors = products[np.ix_(rows, rows)], np.zeros(len(some))
    score = _score(G, priors)
    for c in range(len(some)):
        for share in SLOPES[1:]:
            tried = priors.copy()
            tried[c] = share * total
            if (new := _score(G, tried)) < score:
                score, priors = new, tried
    return score, priors


def _score(G: np.ndarray, priors: np.ndarray) -> float:
    used = np.flatnonzero(priors)
    inner, score = G[:2, :2], 0.0
    if used.size:
        cross = G[:2, 2 + used]
        M = np.diag(1 / priors[used]) + G[np.ix_(2 + used, 2 + used)]
        inner = inner - cross @ np.linalg.solve(M, cross.T)
        score = float(np.linalg.slogdet(M)[1] + np.log(priors[used]).sum())
    return score + float(inner[1, 1] - inner[0, 1] ** 2 / inner[0, 0] + np.log(inner[0, 0]))


def helpful(left_out: Callable[[list[int]], np.ndarray], weights: np.ndarray, count: int) -> dict[int, float]:
    """Which of so many covariates lower the error at stations that are left out, and by what share of its square.

    ``left_out`` gives, for some covariates, errors (K, n) of the coefficients of n stations, each estimated from the others.
    Products of coefficients count with ``weights`` (K, K). One covariate after the other is added, the best first, while that
    lowers the error by more than :data:`CLEAR` standard errors and by the share :data:`LEAST`.
    """

    def sizes(some: list[int]) -> np.ndarray:
        errors = left_out(some)
        return np.sqrt(np.maximum(np.einsum("ki,kl,li->i", errors, weights, errors), 0.0))

    gains: dict[int, float] = {}
    before = sizes([])
    scale = robust_scale(before)
    while len(gains) < count:
        tried = {c: sizes([*gains, c]) for c in range(count) if c not in gains}
        changes = {c: improvement(before, after, scale) for c, after in tried.items()}
        best = max(changes, key=lambda c: changes[c][0])
        gain, error = changes[best]
        if not gain > max(CLEAR * error, LEAST):
            break
        gains[best], before = gain, tried[best]
    return gains
