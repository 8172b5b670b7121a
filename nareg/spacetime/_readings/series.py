"""What all stations share over time, such as a reference station or a reanalysis, and how readings follow it.

A series is one more function of time beside the mean and the waves of the cycles: every station has a coefficient, which is
shrunk like theirs. A series is used where it lowers the error in stretches of the record that are left out, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nareg._core import checks
from nareg.errors import InputError
from nareg.spacetime._readings.covariates import CONSTANT, helpful

#: Stretches of the record, each of which is left out once.
STRETCHES = 20
#: Readings per function of time that a station needs to have a say.
FEWEST = 3
#: A straight line goes over gaps of so many steps: what is beyond, only the series knows.
LONGEST = 4
#: Shifts in time of a series that tell what a coefficient is where there is nothing to follow.
SHIFTS = 8


@dataclass(frozen=True, eq=False)
class Series:
    """Values over time; ``center`` and ``scale`` bring those of the fit to mean zero and variance one."""

    names: tuple[str, ...]
    seconds: np.ndarray  # (S,) rising, as TimeGrid.seconds has them
    values: np.ndarray  # (S, C) as given
    center: np.ndarray  # (C,)
    scale: np.ndarray  # (C,)
    gains: np.ndarray  # (C,) by what share each lowers the squared error in stretches that are left out; 0: it is not used

    @classmethod
    def of(cls, given: Mapping[str, ArrayLike], seconds: np.ndarray) -> Series:
        """Checked series (1, T) at the times of the readings. Gaps are filled by straight lines."""
        names = tuple(map(str, given))
        values = np.column_stack([filled(f"covariates[{name!r}]", given[name], seconds) for name in given])
        center, spread = values.mean(axis=0), values.std(axis=0)
        varies = spread > CONSTANT * np.abs(values).max(axis=0, initial=0.0)
        return cls(names, seconds, values, center, np.where(varies, spread, 1.0), np.zeros(len(names)))

    @property
    def used(self) -> np.ndarray:
        """(C,) series that readings follow."""
        return self.gains > 0

    def at(self, seconds: np.ndarray) -> np.ndarray:
        """(T, C) standard values of those that are used."""
        return self._standard(seconds)[:, self.used]

    def _standard(self, seconds: np.ndarray) -> np.ndarray:
        if self.used.any():
            refuse_beyond(self.names[int(np.argmax(self.used))], self.seconds, seconds)
        at = [np.interp(seconds, self.seconds, column) for column in self.values.T]
        return (np.column_stack(at) - self.center) / self.scale

    def chosen(self, y: np.ndarray, seconds: np.ndarray, waves: np.ndarray) -> Series:
        """Those that help readings (T, N) beside functions of time (T, K), their ``waves``."""
        X = np.column_stack([waves, self._standard(seconds)])
        rows = [part for part in np.array_split(np.arange(len(y)), min(STRETCHES, len(y))) if np.isfinite(y[part]).any()]
        observed = np.isfinite(y)
        m, K = X.shape[1], waves.shape[1]
        y, observed = (part[:, observed.sum(axis=0) >= FEWEST * m] for part in (y, observed))
        if not y.shape[1] or len(rows) < 2:
            return self
        y = np.where(observed, y - np.nanmean(np.where(observed, y, np.nan), axis=0), 0.0)
        first, second = np.triu_indices(m)
        pairs, normal = X[:, first] * X[:, second], np.empty((len(rows), y.shape[1], m, m))
        for P, part in zip(normal, rows, strict=True):
            P[:, first, second] = P[:, second, first] = (pairs[part].T @ observed[part].astype(float)).T
        right = np.array([(X[part].T @ y[part]).T for part in rows])

        def estimate(P: np.ndarray, r: np.ndarray) -> np.ndarray:
            P[..., range(P.shape[-1]), range(P.shape[-1])] += 1e-9 * len(pairs)
            return np.linalg.solve(P, r[..., None])[..., 0]

        return replace(self, gains=gains_over_time(y, observed, rows, normal, right, K, estimate))

    def powers(self, rest: np.ndarray, seconds: np.ndarray, waves: np.ndarray) -> np.ndarray:
        """Of what readings leave, (T, N), at the frequencies of each series that is used: what it makes of shifts in time."""
        observed, x = np.isfinite(rest), self.at(seconds)
        shifts = [len(x) * (s + 1) // (SHIFTS + 1) for s in range(SHIFTS)]
        powers = []
        for column in x.T:
            shifted = np.column_stack([np.roll(column, shift) for shift in shifts])
            shifted -= waves @ np.linalg.lstsq(waves, shifted, rcond=None)[0]
            size = (shifted**2).T @ observed.astype(float)
            squares = (shifted.T @ np.where(observed, rest, 0.0)) ** 2 / np.where(size > 0, size, 1.0)
            powers.append(float(np.median(squares.mean(axis=0))))
        return np.array(powers)

    def continued(self, given: Mapping[str, ArrayLike], seconds: np.ndarray) -> Series:
        """With values at further times, in the place of those that it has there."""
        absent = [name for name, used in zip(self.names, self.used, strict=True) if used and name not in given]
        if absent:
            raise InputError(f"covariates lacks {absent[0]!r}, which the estimate follows: pass its values.")
        new = np.column_stack([
            filled(f"covariates[{name!r}]", given[name], seconds) if name in given else np.full(seconds.size, self.center[c])
            for c, name in enumerate(self.names)
        ])  # fmt: skip
        both, index = np.unique(np.concatenate([seconds, self.seconds]), return_index=True)
        return replace(self, seconds=both, values=np.concatenate([new, self.values])[index])

    def lines(self, level: np.ndarray, unit: float | None) -> tuple[str, ...]:
        """What each series does; ``level`` (C, N) are the coefficients of those used, and one ``unit`` is in the readings'."""
        said, own = [], iter(level)
        for c, name in enumerate(self.names):
            if not self.used[c]:
                said.append(f"{name} is not used: it does not help in stretches of time that are left out")
                continue
            slope = float(np.median(next(own))) / self.scale[c]
            per = "" if unit is None else f", {unit * slope:.2g} per unit at the median station"
            said.append(
                f"estimates follow {name}{per}: the squared error of mean and cycles in stretches of time that are left out is "
                f"{100 * self.gains[c]:.0f} % lower"
            )
        return tuple(said)


def gains_over_time(
    y: np.ndarray, observed: np.ndarray, rows: list[np.ndarray], normal: np.ndarray, right: np.ndarray, K: int,
    estimate: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:  # fmt: skip
    """By what share each of D series lowers the squared error of readings (T, N) in stretches, ``rows``, that are left out.

    Normal equations are those of each stretch, ``K`` functions of time first; ``estimate`` solves those of all others.
    """
    squares, counts = (np.array([values[part].sum() for part in rows]) for values in (y**2, observed))

    def left_out(some: list[int]) -> np.ndarray:
        on = [*range(K), *(K + c for c in some)]
        P, r = normal[..., on, :][..., on], right[..., on]
        b = estimate(P.sum(axis=0) - P, r.sum(axis=0) - r)
        error = squares + np.einsum("sni,snij,snj->s", b, P, b) - 2 * np.einsum("sni,sni->s", b, r)
        return np.sqrt(np.maximum(error, 0.0) / counts)[None]

    D = normal.shape[-1] - K
    gains = helpful(left_out, np.eye(1), D)
    return np.array([gains.get(c, 0.0) for c in range(D)])


def refuse_beyond(name: str, known: np.ndarray, seconds: np.ndarray) -> None:
    """Refuse times before or after all at which a series of this name has values."""
    slack = float(np.median(np.diff(known))) / 2
    if seconds.size and (seconds.min() < known[0] - slack or seconds.max() > known[-1] + slack):
        raise InputError(
            f"covariates: {name!r}, which the estimate follows, has no value at some of these times: pass its values "
            "there, as --with, or to with_covariates of the model."
        )


def filled(what: str, given: ArrayLike, seconds: np.ndarray) -> np.ndarray:
    """Values (T,) of a series that was given as (1, T) or (T,), gaps between them filled by straight lines."""
    values = checks.floats(what, given, ndim=(1, 2), finite=False).astype(float).ravel()
    if values.size != seconds.size:
        raise InputError(f"{what} has {values.size} values for {seconds.size} times: pass one per time.")
    known = np.isfinite(values)
    if np.isinf(values).any() or known.sum() < 2:
        raise InputError(f"{what} is infinite, or has less than two values: pass numbers, or omit it.")
    first, last = np.flatnonzero(known)[[0, -1]]
    if first > 0 or last < values.size - 1:
        raise InputError(
            f"{what} has no value at the first {first} and the last {values.size - 1 - last} of {values.size} "
            f"times: fill it in, pass readings of [:, {first}:{last + 1}] alone, or omit it."
        )
    longest = max(LONGEST * float(np.median(np.diff(seconds))), float(np.diff(seconds).max()))
    return straight(what, values, seconds, seconds, range(seconds.size), longest)


def straight(what: str, row: np.ndarray, own: np.ndarray, at: np.ndarray, names: Sequence[Any], longest: float) -> np.ndarray:
    """Straight lines between the values that a row (T,) has at its ``own`` times; gaps beyond the ``longest`` are refused."""
    known = np.flatnonzero(np.isfinite(row))
    gaps = np.diff(own[known], append=own[known[-1]])
    k = int(np.argmax(gaps))
    if gaps[k] > longest:
        raise InputError(
            f"{what} has no value between the times {names[known[k]]} and {names[known[k + 1]]}: fill it in, or leave the "
            "series out. A straight line there would be taken for what it says."
        )
    return np.interp(at, own[known], row[known])
