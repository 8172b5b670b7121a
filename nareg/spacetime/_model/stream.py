"""Streams: Kalman filters that take in new readings time by time. Large ones keep covariances on a sparse factor's pattern."""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from nareg._core import checks
from nareg._core.process import StateLock
from nareg._solvers.threads import one_thread
from nareg.errors import BusyError, InputError
from nareg.graph import Graph
from nareg.io import as_series, distinct
from nareg.spacetime._dense.filter import Correction, correct, innovate, is_steady
from nareg.spacetime._model import store
from nareg.spacetime._model.base import BaseModel
from nareg.spacetime._model.results import Update
from nareg.spacetime._readings.times import LONGEST_JUMP, Time
from nareg.spacetime._sparse.markov import POWERS, MarkovFilter, Separators

if TYPE_CHECKING:
    import pandas as pd

    from nareg.spacetime._model.dense import SpaceTimeModel
    from nareg.spacetime._model.sparse import SparseSpaceTimeModel

#: A station whose readings were out of bounds so many times in a row is set aside until they are credible again.
PATIENCE = 3
#: More steps than this are taken at once.
MOST_SINGLE_STEPS = 50


P = ParamSpec("P")
R = TypeVar("R")


def exclusive(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method that changes or saves a stream: other threads wait for it, so that no update is lost."""

    @functools.wraps(method)
    def call(self: Any, /, *arguments: P.args, **options: P.kwargs) -> R:
        lock = self._lock
        with lock.mutex:
            if lock.changing or lock.torn:
                raise BusyError(
                    f"{method.__name__} was called in the middle of an update of this stream: "
                    + ("this process was forked then; load the stream again." if lock.torn else "call it again after that.")
                )
            try:
                lock.changing = True
                return method(self, *arguments, **options)
            finally:
                lock.changing = False

    return call


class BaseStream(ABC):
    """A filter that takes in readings time by time; how it predicts and corrects depends on the size.

    Threads may share one: each update is done as a whole, in the order of the calls. A copy of a stream, or one in a forked
    process, goes on by itself.
    """

    #: Of its files.
    format: ClassVar[str]
    model: BaseModel[Any]

    def __init__(self, model: BaseModel[Any], row: int, robust: float | None):
        self.model, self._lock = model, StateLock()
        self._row, self._robust = row, robust
        self._strikes = np.zeros(model.n_nodes, dtype=int)

    @property
    def time(self) -> np.datetime64 | float:
        """Time of the last step."""
        return self.model.time_of(self._row)

    @exclusive
    def update(self, y: ArrayLike | Mapping[str, float] | pd.Series, *, time: Time | None = None) -> Update:
        """Correct the estimate by the readings of one time.

        Parameters
        ----------
        y : (N,) array, mapping, pandas Series or xarray DataArray
            Readings, NaN where there is none; or names of stations with their readings, in any order. A Series goes by its
            index, an xarray array by its coordinate, where the model's stations have names.
        time : datetime64, str or number, optional
            Default: one step after the last.

        Raises
        ------
        InputError
            If the number of stations differs, a station is unknown or appears twice, a reading is infinite, or the time is
            not after the last one.
        BusyError
            If it is called in the middle of another update, by a signal's handler say.
        """
        model = self.model
        if isinstance(y, Mapping):
            y = _by_name(model.graph, y)
        elif model.graph.names is not None and (series := as_series(y)) is not None:
            y = _by_name(model.graph, series)
        y = _checked_update(y, model.n_nodes)
        row = self._row + 1 if time is None else _checked_row(model, time, self._row)
        values = model.to_unit(y)
        self._advance(row - self._row)
        self._row = row
        offset = model.offset_at(row)
        now = values - offset
        expected, var = self._field()
        F = var + model.unit_noise + self._offset_variance(var)
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
        x, var = self._field()
        var = model.seen_variance(var, self._offset_variance(var), np.isfinite(now))
        mean, std = model.to_mean(x + offset, var)
        return Update(model.bounds.clip(mean), std, y - predicted, scores, clipped, log_likelihood)

    @exclusive
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the stream and its model, whole or not at all; :func:`load_stream` continues it bit by bit."""
        arrays, facts = self.model.to_arrays()
        state, own = self._state()
        own |= {"row": self._row, "robust": self._robust}
        state |= {"strikes": self._strikes}
        stored = {f"stream_{name}": array for name, array in state.items()}
        store.write(path, arrays | stored, facts | {"format": self.format, "stream": own})

    @classmethod
    def from_arrays(cls, model: BaseModel[Any], a: dict[str, np.ndarray], facts: dict[str, Any]) -> Self:
        """A stream of a model from what :meth:`save` wrote, checked."""
        own, state = facts["stream"], {name.removeprefix("stream_"): a[name] for name in a if name.startswith("stream_")}
        robust = None if own["robust"] is None else store.number(own, "robust")
        store.need(type(own["row"]) is int and own["row"] >= 0, "its row is not valid")
        store.need(robust is None or robust > 0, "its bound for outliers is not positive")
        strikes = state["strikes"]
        counts = strikes.shape == (model.n_nodes,) and strikes.dtype.kind == "i" and bool((strikes >= 0).all())
        store.need(counts, "strikes are not counts")
        stream = cls._restored(model, own["row"], robust, state, own)
        stream._strikes = strikes
        return stream

    @classmethod
    @abstractmethod
    def _restored(cls, model: Any, row: int, robust: float | None, state: dict[str, np.ndarray], facts: dict[str, Any]) -> Self:
        """A stream from its checked :meth:`_state`."""

    @abstractmethod
    def _state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """What the filter knows: arrays, and plain facts."""

    @abstractmethod
    def _advance(self, steps: int) -> None:
        """Predict ``steps`` steps ahead."""

    @abstractmethod
    def _field(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (N,) of the field now, in the model's unit without mean and cycles."""

    @abstractmethod
    def _offset_variance(self, var: np.ndarray) -> np.ndarray:
        """Variance (N,) that errors of mean and cycles add now to the field's, ``var`` (N,)."""

    @abstractmethod
    def _correct(self, y: np.ndarray) -> float:
        """Correct by readings (N,), NaN where there is none; their log-likelihood."""


def _by_name(graph: Graph, readings: Mapping[str, float] | pd.Series) -> np.ndarray:
    """(N,) readings of one time in the order of the stations, NaN where there is none."""
    names = graph.names
    if names is None:
        raise InputError("y is a mapping but the model's stations have no names: pass an array with one reading per station.")
    rows = {name: i for i, name in enumerate(names)}
    entries = [(str(name), value) for name, value in readings.items()]
    distinct("y", [name for name, _ in entries])
    unknown = [name for name, _ in entries if name not in rows]
    if unknown:
        raise InputError(
            f"y has a reading of station {unknown[0]!r}, which the model does not know: add it first with "
            "add_station, or omit it."
        )
    y = np.full(graph.n_nodes, np.nan)
    for name, value in entries:
        y[rows[name]] = checks.number(f"y[{name!r}]", value) if value == value else np.nan
    return y


def _checked_update(y: ArrayLike, n_nodes: int) -> np.ndarray:
    """Readings (N,) of one time, NaN where missing."""
    y = checks.floats("y", y, ndim=(1,), finite=False).astype(float)
    if y.shape != (n_nodes,):
        raise InputError(
            f"y has {y.size} readings but the model has {n_nodes} stations: pass one per station, NaN if missing, or a mapping "
            "of their names; a new station needs add_station, or in a large network another fit."
        )
    if np.isinf(y).any():
        raise InputError(f"y[{int(np.flatnonzero(np.isinf(y))[0])}] is infinite: pass NaN for a missing reading.")
    return y


def _checked_row(model: BaseModel[Any], time: Time, last: int) -> int:
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


class Stream(BaseStream):
    """A Kalman filter that continues after a model's readings; :meth:`SpaceTimeModel.stream` makes it.

    Attributes
    ----------
    model : SpaceTimeModel
    """

    format = "nareg-spacetime-stream-3"
    model: SpaceTimeModel

    def __init__(self, model: SpaceTimeModel, state: np.ndarray, covariance: np.ndarray, row: int, robust: float | None):
        super().__init__(model, row, robust)
        # mean of the state; beside it, what the filter has taken of draws of the errors of mean and cycles
        self._z, self._P = state, covariance
        self._correction: Correction | None = None
        self._prior: np.ndarray | None = None  # what the last correction corrected
        self._steady = False

    def _field(self) -> tuple[np.ndarray, np.ndarray]:
        n = self.model.n_nodes
        return self._z[:n, 0], self._P.diagonal()[:n]

    def _offset_variance(self, var: np.ndarray) -> np.ndarray:
        return self.model.offset_errors_at(self._row).left(self._z[None, : self.model.n_nodes, 1:])[0]

    @exclusive
    def add_station(self, name: str | None, coordinates: ArrayLike, covariates: Mapping[str, float] | None = None) -> None:
        """Add a station at the end; it starts from its kriging estimate from the others.

        Parameters
        ----------
        name : str or None
            None where the model's graph has no names.
        coordinates : (d,) array
            Latitude and longitude in degrees, or a position, as in the graph.
        covariates : mapping from names to numbers, optional
            As for :meth:`SpaceTimeModel.interpolate_at`.

        Raises
        ------
        InputError
            If the graph has no coordinates, the name is missing or in use, or a covariate is missing.
        """
        model = self.model
        points = model.checked_places(checks.floats("coordinates", coordinates, ndim=(1,))[None])
        names = model.graph.names
        if names is not None and (not isinstance(name, str) or name in names):
            why = "which another station has" if isinstance(name, str) else "not a text"
            raise InputError(f"name is {name!r}, {why}: pass a new name.")
        if names is None and name is not None:
            raise InputError(f"name is {name!r} but the model's stations have no names: pass None.")
        extension = model.extension(points, model.cycles.covariates_at(covariates, 1))
        self.model = model.extended(points, None if name is None else [name], covariates)
        self._z, self._P = extension.state(self._z), extension.covariance(self._P)
        self._strikes = np.append(self._strikes, 0)
        self._forget()

    @exclusive
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

    def _state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = {"state": self._z, "covariance": self._P}
        if self._prior is not None and self._correction is not None:
            arrays |= {"prior": self._prior, "corrected": self._correction.stations}
        return arrays, {"steady": self._steady}

    @classmethod
    def _restored(
        cls, model: SpaceTimeModel, row: int, robust: float | None, state: dict[str, np.ndarray], facts: dict[str, Any]
    ) -> Stream:
        m = model.dynamics.P0.shape[0]
        store.array(state, "state", (m, 1 + model.cycles.errors.shape[-1]))
        store.need(type(facts["steady"]) is bool, "steady is not a fact")
        stream = cls(model, state["state"], store.covariance(state, "covariance", m, definite=False), row, robust)
        if "prior" in state:
            stream._prior, stations = store.covariance(state, "prior", m), state["corrected"]
            increasing = (
                stations.ndim == 1 and stations.dtype.kind == "i" and stations.size > 0 and (np.diff(stations) > 0).all()
            )
            store.need(increasing and stations[0] >= 0 and stations[-1] < model.n_nodes, "corrected does not list stations")
            stream._steady = facts["steady"]
            stream._correction = correct(stream._prior, stations, model.unit_noise[stations])
        return stream

    def _forget(self) -> None:
        """Drop covariances of the past, which no longer apply."""
        self._correction, self._prior, self._steady = None, None, False

    def _advance(self, steps: int) -> None:
        """Predict. A covariance that no longer changes stays the same object, by which the next correction knows it."""
        dynamics = self.model.dynamics
        if steps > MOST_SINGLE_STEPS:
            self._z, self._P = dynamics.state_after(self._z, self._P, steps)
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


class SparseStream(BaseStream):
    """A filter that continues after a large model's readings; :meth:`SparseSpaceTimeModel.stream` makes it.

    An update takes a sparse factor and entries of its inverse; memory stays the same. Means and standard deviations are those
    of a Kalman filter within a few percent, through gaps, outages and new stations.

    Attributes
    ----------
    model : SparseSpaceTimeModel
    """

    format = "nareg-spacetime-sparse-stream-3"
    model: SparseSpaceTimeModel

    def __init__(
        self, model: SparseSpaceTimeModel, row: int, robust: float | None, order: np.ndarray | None = None,
        power: int | None = None,
    ):  # fmt: skip
        super().__init__(model, row, robust)
        self.filter = MarkovFilter.prior(model.process, Separators(model.graph.adjacency, order, power))

    def _advance(self, steps: int) -> None:
        self.filter.predict(steps)

    def _field(self) -> tuple[np.ndarray, np.ndarray]:
        return self.filter.mean, self.filter.variance

    def _offset_variance(self, var: np.ndarray) -> np.ndarray:
        model = self.model
        return model.offset_variance(var[None], model.grid.seconds_of(np.array([self._row])))[0]

    def _correct(self, y: np.ndarray) -> float:
        with one_thread():
            return self.filter.correct(y, np.isfinite(y) / self.model.process.noise)

    def _state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        state, pattern = self.filter, self.filter.pattern
        arrays = {"mean": state.mean, "covariance": state.covariance, "order": pattern.elimination.order}
        return arrays, {"power": pattern.power}

    @classmethod
    def _restored(
        cls, model: SparseSpaceTimeModel, row: int, robust: float | None, state: dict[str, np.ndarray], facts: dict[str, Any]
    ) -> SparseStream:
        power, order, n = facts["power"], state["order"], model.n_nodes
        store.need(type(power) is int and POWERS[0] <= power <= POWERS[1], "its power of the graph is not valid")
        store.need(order.shape == (n,) and order.dtype.kind == "i", "order has a wrong shape")
        store.need(np.array_equal(np.sort(order), np.arange(n)), "order is no order of its stations")
        stream = cls(model, row, robust, order, power)
        store.array(state, "mean", (n,))
        store.array(state, "covariance", stream.filter.covariance.shape)
        stream.filter.mean, stream.filter.covariance = state["mean"], state["covariance"]
        store.need(bool((stream.filter.variance > 0).all()), "a variance is not positive")
        return stream
