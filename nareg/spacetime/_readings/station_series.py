"""What is known at every station over time, such as a reanalysis at its place, and how readings follow it.

Such a series has two parts: its mean over the stations, and what each station has beside that. Readings follow each part with
one slope for all stations, estimated beside a mean and cycles of each station's own. A part is used where it lowers the error
in stretches of the record that are left out, one at a time: errors of a series' own at each station do not enter by the mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from nareg.errors import InputError
from nareg.spacetime._readings.covariates import CONSTANT
from nareg.spacetime._readings.series import FEWEST, STRETCHES, filled, gains_over_time, refuse_beyond

#: Added to normal equations, per time: a part that is constant gets no slope.
RIDGE = 1e-9


@dataclass(frozen=True, eq=False)
class StationSeries:
    """Values per station and time; ``center`` and ``scale`` bring those of the fit to mean zero and variance one."""

    names: tuple[str, ...]
    seconds: np.ndarray  # (S,) rising, as TimeGrid.seconds has them
    own: np.ndarray  # (S, N, C) standard values, without the mean over stations
    shared: np.ndarray  # (S, C) that mean
    center: np.ndarray  # (N, C)
    scale: np.ndarray  # (C,)
    slopes: np.ndarray  # (2, C) of the mean, and of what a station has beside it
    gains: np.ndarray  # (2, C) by what share each lowers the squared error in stretches that are left out; 0: it is not used

    @classmethod
    def of(cls, given: Mapping[str, ArrayLike], seconds: np.ndarray) -> StationSeries:
        """Checked series (N, T) at the times of the readings. Gaps are filled by straight lines."""
        names = tuple(map(str, given))
        values = np.stack([_filled(name, given[name], seconds) for name in given], axis=2)
        center = values.mean(axis=0)
        spread = (values - center).std(axis=(0, 1))
        scale = np.where(spread > CONSTANT * np.abs(values).max(axis=(0, 1)), spread, 1.0)
        standard = (values - center) / scale
        shared, none = standard.mean(axis=1), np.zeros((2, len(names)))
        return cls(names, seconds, standard - shared[:, None], shared, center, scale, none, none)

    @property
    def used(self) -> tuple[str, ...]:
        """Names of those that readings follow."""
        return tuple(name for name, gains in zip(self.names, self.gains.T, strict=True) if gains.any())

    @cached_property
    def _followed(self) -> np.ndarray:
        """(S, N) what readings follow, at the times of the series."""
        return (self.shared @ self.slopes[0])[:, None] + self.own @ self.slopes[1]

    def at(self, seconds: np.ndarray) -> np.ndarray:
        """(T, N) what readings follow."""
        if not self.used:
            return np.zeros((seconds.size, self.own.shape[1]))
        refuse_beyond(self.used[0], self.seconds, seconds)
        return _between(self._followed, self.seconds, seconds)

    def of_stations(self, stations: np.ndarray) -> StationSeries:
        """Those of some of the stations."""
        return replace(self, own=self.own[:, stations], center=self.center[stations])

    def chosen(self, y: np.ndarray, seconds: np.ndarray, waves: np.ndarray) -> StationSeries:
        """With the slopes of the parts that help readings (T, N) beside functions of time (T, K), their ``waves``.

        What a station has beside the mean is judged by changes from a time to the next: what a series errs there from time to
        time would be taken for noise of the readings, and the bands would not have it.
        """
        shared, own = (_between(part, self.seconds, seconds) for part in (self.shared, self.own))
        slopes, gains = _pooled(y, waves, np.repeat(shared[:, None], y.shape[1], axis=1))
        changes = (np.diff(part, axis=0) for part in (y - (shared @ slopes)[:, None], waves[:, 1:], own))
        others, lower = _pooled(*changes)
        return replace(self, slopes=np.array([slopes, others]), gains=np.array([gains, lower]))

    def continued(self, given: Mapping[str, ArrayLike], seconds: np.ndarray) -> StationSeries:
        """With values (N, S) at further times, in the place of those that it has there."""
        absent = [name for name in self.used if name not in given]
        if absent:
            raise InputError(f"covariates lacks {absent[0]!r}, which the estimate follows: pass its values.")
        new = np.zeros((seconds.size, *self.center.shape))
        for c, name in enumerate(self.names):
            if name not in given:
                continue
            if np.ndim(given[name]) != 2 or len(np.asarray(given[name])) != len(self.center):
                raise InputError(
                    f"covariates[{name!r}] has shape {np.shape(given[name])}, but the model follows it at each station: pass "
                    f"shape ({len(self.center)}, {seconds.size}), a row per station."
                )
            new[..., c] = (_filled(name, given[name], seconds) - self.center[:, c]) / self.scale[c]
        shared = new.mean(axis=1)
        both, index = np.unique(np.concatenate([seconds, self.seconds]), return_index=True)
        own, shared = np.concatenate([new - shared[:, None], self.own]), np.concatenate([shared, self.shared])
        return replace(self, seconds=both, own=own[index], shared=shared[index])

    def lines(self, unit: float | None) -> tuple[str, ...]:
        """What each series does, where one ``unit`` of the model is that much in the readings'."""
        said = []
        for name, slopes, gains, scale in zip(self.names, self.slopes.T, self.gains.T, self.scale, strict=True):
            if not gains.any():
                said.append(f"{name} is not used: it does not help in stretches of time that are left out")
                continue
            whats = ("their mean", "what each has beside it"), ("mean and cycles", "changes")
            parts = [
                f"{what}{'' if unit is None else f', {unit * slope / scale:.2g} per unit'}: the squared error of {of} in "
                f"stretches of time that are left out is {100 * gain:.0f} % lower"
                for what, of, slope, gain in zip(*whats, slopes, gains, strict=True)
                if gain
            ]
            said.append(f"estimates follow {name} at the stations, {'; and '.join(parts)}")
        return tuple(said)


def _filled(name: str, given: ArrayLike, seconds: np.ndarray) -> np.ndarray:
    """Values (T, N) of a series that was given as (N, T)."""
    return np.column_stack([filled(f"covariates[{name!r}][{i}]", row, seconds) for i, row in enumerate(np.asarray(given))])


def _between(values: np.ndarray, known: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Values (S, ...) at ``known`` seconds at others, by straight lines."""
    return np.apply_along_axis(lambda column: np.interp(seconds, known, column), 0, values)


def _pooled(y: np.ndarray, waves: np.ndarray, given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slopes (D,) of readings (T, N) by those of D series (T, N, D) that help beside ``waves`` (T, K), and their gains (D,)."""
    observed, K, D = np.isfinite(y), waves.shape[1], given.shape[2]
    slopes, gains, m = np.zeros(D), np.zeros(D), K + D
    stations = observed.sum(axis=0) >= FEWEST * m
    y, observed, given = np.where(observed, y, 0.0)[:, stations], observed[:, stations], given[:, stations]
    rows = [part for part in np.array_split(np.arange(len(y)), STRETCHES) if observed[part].any()]
    if len(rows) < 2:
        return slopes, gains
    normal, right = np.empty((len(rows), y.shape[1], m, m)), np.empty((len(rows), y.shape[1], m))
    for P, r, part in zip(normal, right, rows, strict=True):
        X = np.concatenate([np.repeat(waves[None, part], y.shape[1], axis=0), given[part].transpose(1, 0, 2)], axis=2)
        X *= observed[part].T[..., None]
        P[:] = X.transpose(0, 2, 1) @ X
        r[:] = np.einsum("ntm,tn->nm", X, y[part])
    ridge = RIDGE * len(y)
    gains = gains_over_time(y, observed, rows, normal, right, K, lambda P, r: _coefficients(P, r, K, ridge))
    some = np.flatnonzero(gains)
    on = [*range(K), *(K + some)]
    slopes[some] = _coefficients(normal.sum(axis=0)[..., on, :][..., on], right.sum(axis=0)[..., on], K, ridge)[0, K:]
    return slopes, gains


def _coefficients(normal: np.ndarray, right: np.ndarray, K: int, ridge: float) -> np.ndarray:
    """Coefficients (..., N, K + D) of normal equations (..., N, K + D, K + D): K per station, then D that all share."""
    cross, size = normal[..., :K, K:], normal.shape[-1] - K
    solved = np.linalg.solve(normal[..., :K, :K] + ridge * np.eye(K), np.concatenate([cross, right[..., :K, None]], axis=-1))
    rest = cross.swapaxes(-1, -2) @ solved
    inner = (normal[..., K:, K:] - rest[..., :-1]).sum(axis=-3) + ridge * np.eye(size)
    shared = np.linalg.solve(inner, (right[..., K:] - rest[..., -1]).sum(axis=-2)[..., None])
    own = solved[..., -1] - (solved[..., :-1] @ shared[..., None, :, :])[..., 0]
    each = np.broadcast_to(shared[..., None, :, 0], (*own.shape[:-1], size))
    return np.concatenate([own, each], axis=-1)
