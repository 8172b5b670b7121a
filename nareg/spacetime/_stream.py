"""Streams: a Kalman filter that takes in new readings time by time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nareg import _checks
from nareg.errors import InputError
from nareg.spacetime import _stations
from nareg.spacetime._cycles import with_offsets
from nareg.spacetime._dynamics import leap
from nareg.spacetime._extend import Extension
from nareg.spacetime._filter import Correction, correct, innovate, is_steady
from nareg.spacetime._results import Update
from nareg.spacetime._times import Time

if TYPE_CHECKING:
    from nareg.spacetime._base import BaseModel
    from nareg.spacetime._model import SpaceTimeModel

#: A station whose readings were out of bounds so many times in a row is set aside until they are credible again.
PATIENCE = 3
#: Longest jump in time, in steps: the state then has long returned to its mean.
LONGEST_JUMP = 100_000
#: More steps than this are taken at once.
LEAP = 50


class Stream:
    """A Kalman filter that continues after a model's readings; :meth:`SpaceTimeModel.stream` makes it.

    Attributes
    ----------
    model : SpaceTimeModel
    """

    def __init__(self, model: SpaceTimeModel, state: np.ndarray, covariance: np.ndarray, row: int, robust: float | None):
        self.model = model
        self._z, self._P = state, covariance
        self._row = row
        self._robust = robust
        self._strikes = np.zeros(model.n_nodes, dtype=int)
        self._correction: Correction | None = None
        self._prior: np.ndarray | None = None  # what the last correction corrected
        self._steady = False

    @property
    def time(self) -> np.datetime64 | float:
        """Time of the last step."""
        return self.model.time_of(self._row)

    def update(self, y: ArrayLike | Mapping[str, float], *, time: Time | None = None) -> Update:
        """Correct the estimate by the readings of one time.

        Parameters
        ----------
        y : (N,) array or mapping
            Readings, NaN where there is none; or names of stations with their readings.
        time : datetime64, str or number, optional
            Default: one step after the last.

        Raises
        ------
        InputError
            If the number of stations differs, a station is unknown, a reading is infinite, or the time is not after the
            last one.
        """
        model = self.model
        if isinstance(y, Mapping):
            y = _stations.by_name(model.graph, y)
        y = checked_update(y, model.n_nodes)
        row = self._row + 1 if time is None else checked_row(model, time, self._row)
        values = model.to_unit(y)
        self._advance(row - self._row)
        self._row = row
        offset = model.offset_at(row)
        now = values - offset
        expected = self._z[: model.n_nodes]
        F = self._P.diagonal()[: model.n_nodes] + model.unit_noise
        scores = (now - expected) / np.sqrt(F)
        clipped = np.zeros(y.size, dtype=bool)
        predicted = model.to_readings(expected + offset)
        if self._robust is not None:
            with np.errstate(invalid="ignore"):
                clipped = np.abs(scores) > self._robust
            self._strikes = np.where(clipped, self._strikes + 1, np.where(np.isfinite(y), 0, self._strikes))
            now = np.where(clipped, expected + np.sign(scores) * self._robust * np.sqrt(F), now)
            now[self._strikes > PATIENCE] = np.nan
        log_likelihood = self._correct(now)
        var = with_offsets(
            self._P.diagonal()[: model.n_nodes], model.offset_variance_at(row), model.unit_noise, np.isfinite(now)
        )
        mean, std = model.to_mean(self._z[: model.n_nodes] + offset, var)
        return Update(mean, std, y - predicted, scores, clipped, log_likelihood)

    def add_station(self, name: str | None, coordinates: ArrayLike) -> None:
        """Add a station at the end; it starts from its kriging estimate from the others.

        Parameters
        ----------
        name : str or None
            None where the model's graph has no names.
        coordinates : (d,) array
            Latitude and longitude in degrees, or a position, as in the graph.

        Raises
        ------
        InputError
            If the graph has no coordinates, or the name is missing or in use.
        """
        model = self.model
        points = model.checked_places(_checks.floats("coordinates", coordinates, ndim=(1,))[None])
        names = model.graph.names
        if names is not None and (not isinstance(name, str) or name in names):
            why = "which another station has" if isinstance(name, str) else "not a text"
            raise InputError(f"name is {name!r}, {why}: pass a new name.")
        if names is None and name is not None:
            raise InputError(f"name is {name!r} but the model's stations have no names: pass None.")
        extension = Extension.of(model.dynamics, model.parameters, model.space, points)
        self.model = model.extended(points, None if name is None else [name])
        self._z, self._P = extension.state(self._z), extension.covariance(self._P)
        self._strikes = np.append(self._strikes, 0)
        self._forget()

    def remove_station(self, station: str | int) -> None:
        """Remove a station, by its name or position; its past readings still count.

        Raises
        ------
        InputError
            If the model has no such station, or no other one.
        """
        gone = self.model.station_index(station)
        smaller = self.model.without(gone)
        n = self.model.n_nodes
        keep = np.flatnonzero(np.arange(self._z.size) % n != gone)
        self.model = smaller
        self._z, self._P = self._z[keep], self._P[np.ix_(keep, keep)]
        self._strikes = np.delete(self._strikes, gone)
        self._forget()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the stream and its model, whole or not at all; :func:`load_stream` continues it bit by bit."""
        from nareg.spacetime._store import save_stream

        save_stream(self, path)

    def snapshot(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """State of the stream beside its model: arrays, and plain facts."""
        arrays = {"state": self._z, "covariance": self._P, "strikes": self._strikes}
        if self._prior is not None and self._correction is not None:
            arrays |= {"prior": self._prior, "corrected": self._correction.stations}
        return arrays, {"row": self._row, "robust": self._robust, "steady": self._steady}

    def restore(self, arrays: dict[str, np.ndarray], steady: bool) -> None:
        """Restore the rest of a :meth:`snapshot`, beyond the constructor's arguments."""
        self._strikes = arrays["strikes"]
        if "prior" in arrays:
            stations = arrays["corrected"]
            self._prior, self._steady = arrays["prior"], steady
            self._correction = correct(self._prior, stations, self.model.unit_noise[stations])

    def _forget(self) -> None:
        """Drop covariances of the past, which no longer apply."""
        self._correction, self._prior, self._steady = None, None, False

    def _advance(self, steps: int) -> None:
        """Predict. A covariance that no longer changes stays the same object, by which the next correction knows it."""
        dynamics = self.model.dynamics
        if steps > LEAP:
            self._z, self._P = leap(dynamics, self._z, self._P, steps)
            return
        steady = False
        for step in range(steps):
            self._z = dynamics.mean_after(self._z)
            if steady:
                continue
            if step == 0 and self._steady and self._prior is not None:
                self._P = self._prior
                continue
            following = dynamics.covariance_after(self._P, 1.0)
            steady = step > 0 and is_steady(following, self._P)
            again = step == 0 and self._prior is not None and is_steady(following, self._prior)
            self._P = self._prior if again and self._prior is not None else following

    def _correct(self, y: np.ndarray) -> float:
        stations = np.flatnonzero(np.isfinite(y))
        if stations.size == 0:
            self._forget()
            return 0.0
        known = self._correction
        self._steady = known is not None and self._P is self._prior and np.array_equal(known.stations, stations)
        if not self._steady or known is None:
            self._prior = self._P
            known = self._correction = correct(self._P, stations, self.model.unit_noise[stations])
        self._z, _, log_likelihood = innovate(self._z, y[stations], known)
        self._P = known.covariance
        return log_likelihood


def checked_update(y: ArrayLike, n_nodes: int) -> np.ndarray:
    """Readings (N,) of one time, NaN where missing."""
    y = _checks.floats("y", y, ndim=(1,), finite=False).astype(float)
    if y.shape != (n_nodes,):
        raise InputError(
            f"y has {y.size} readings but the model has {n_nodes} stations: pass one per station, NaN if missing, or a mapping "
            "of their names; a new station needs add_station, or in a large network another fit."
        )
    if np.isinf(y).any():
        raise InputError(f"y[{int(np.flatnonzero(np.isinf(y))[0])}] is infinite: pass NaN for a missing reading.")
    return y


def checked_row(model: BaseModel, time: Time, last: int) -> int:
    """Row of a time after the row ``last``."""
    row = model.row_at(time)
    if row == last:
        raise InputError(
            f"time is {time}, in the same step as the last readings at {model.time_of(last)}: merge the readings of one step."
        )
    if row < last:
        raise InputError(
            f"time is {time}, not after the last step at {model.time_of(last)}: pass readings in the order of their times."
        )
    if row - last > LONGEST_JUMP:
        raise InputError(
            f"time is {time}, more than 100,000 steps after {model.time_of(last)}: check the unit of time, or fit the model "
            "again."
        )
    return row
