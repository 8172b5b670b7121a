"""Streams: a Kalman filter that takes in new readings time by time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nareg._core import checks
from nareg.errors import InputError
from nareg.spacetime._dense.filter import Correction, correct, innovate, is_steady, leap
from nareg.spacetime._model.base_stream import BaseStream, alone
from nareg.spacetime._model.stations import Extension

if TYPE_CHECKING:
    from nareg.spacetime._model.dense import SpaceTimeModel

#: More steps than this are taken at once.
LEAP = 50


class Stream(BaseStream):
    """A Kalman filter that continues after a model's readings; :meth:`SpaceTimeModel.stream` makes it.

    Attributes
    ----------
    model : SpaceTimeModel
    """

    model: SpaceTimeModel

    def __init__(self, model: SpaceTimeModel, state: np.ndarray, covariance: np.ndarray, row: int, robust: float | None):
        super().__init__(model, row, robust)
        # mean of the state; beside it, what the filter has taken of draws of the errors of mean and cycles
        self._z, self._P = state, covariance
        self._correction: Correction | None = None
        self._prior: np.ndarray | None = None  # what the last correction corrected
        self._steady = False

    def _expected(self) -> tuple[np.ndarray, np.ndarray]:
        n = self.model.n_nodes
        return self._z[:n, 0], self._P.diagonal()[:n]

    def _corrected(self) -> tuple[np.ndarray, np.ndarray]:
        return self._expected()

    def _offset_variance(self, var: np.ndarray) -> np.ndarray:
        return self.model.offset_errors_at(self._row).left(self._z[None, : self.model.n_nodes, 1:])[0]

    @alone
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
        points = model.checked_places(checks.floats("coordinates", coordinates, ndim=(1,))[None])
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

    @alone
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
        keep = np.flatnonzero(np.arange(len(self._z)) % n != gone)
        self.model = smaller
        self._z, self._P = self._z[keep], self._P[np.ix_(keep, keep)]
        self._strikes = np.delete(self._strikes, gone)
        self._forget()

    @alone
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the stream and its model, whole or not at all; :func:`load_stream` continues it bit by bit."""
        from nareg.spacetime._model.store import save_stream

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
        columns = np.column_stack([y, self.model.offset_errors_at(self._row).draws[0]])
        self._z, _, log_likelihood = innovate(self._z, columns[stations], known)
        self._P = known.covariance
        return log_likelihood
