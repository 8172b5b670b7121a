"""What streams of every size share: checks, units, and readings that are too far off."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from nareg._core import checks
from nareg._core.process import StateLock
from nareg.errors import BusyError, InputError
from nareg.io import as_series
from nareg.spacetime._model import stations as _stations
from nareg.spacetime._model.base import BaseModel
from nareg.spacetime._model.results import Update
from nareg.spacetime._times import LONGEST_JUMP, Time

if TYPE_CHECKING:
    import pandas as pd

#: A station whose readings were out of bounds so many times in a row is set aside until they are credible again.
PATIENCE = 3


P = ParamSpec("P")
R = TypeVar("R")


def alone(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
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

    model: BaseModel

    def __init__(self, model: BaseModel, row: int, robust: float | None):
        self.model, self._lock = model, StateLock()
        self._row, self._robust = row, robust
        self._strikes = np.zeros(model.n_nodes, dtype=int)

    @property
    def time(self) -> np.datetime64 | float:
        """Time of the last step."""
        return self.model.time_of(self._row)

    @alone
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
            y = _stations.by_name(model.graph, y)
        elif model.graph.names is not None and (series := as_series(y)) is not None:
            y = _stations.by_name(model.graph, series)
        y = checked_update(y, model.n_nodes)
        row = self._row + 1 if time is None else checked_row(model, time, self._row)
        values = model.to_unit(y)
        self._advance(row - self._row)
        self._row = row
        offset = model.offset_at(row)
        now = values - offset
        expected, var = self._expected()
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
        x, var = self._corrected()
        var = model.seen_variance(var, self._offset_variance(var), np.isfinite(now))
        mean, std = model.to_mean(x + offset, var)
        return Update(mean, std, y - predicted, scores, clipped, log_likelihood)

    @abstractmethod
    def _advance(self, steps: int) -> None:
        """Predict ``steps`` steps ahead."""

    @abstractmethod
    def _expected(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (N,) of the field before the readings, in the model's unit without mean and cycles."""

    @abstractmethod
    def _offset_variance(self, var: np.ndarray) -> np.ndarray:
        """Variance (N,) that errors of mean and cycles add now to the field's, ``var`` (N,)."""

    @abstractmethod
    def _correct(self, y: np.ndarray) -> float:
        """Correct by readings (N,), NaN where there is none; their log-likelihood."""

    @abstractmethod
    def _corrected(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (N,) after them."""


def checked_update(y: ArrayLike, n_nodes: int) -> np.ndarray:
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
