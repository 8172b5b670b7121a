"""What fitted models of every size share: checked readings on a grid, units, times, cycles, and how they were chosen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike

from nareg._core import checks
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.io import takes_tables
from nareg.results import Status
from nareg.spacetime import _times
from nareg.spacetime._learn.cycle_errors import OffsetErrors, with_offsets
from nareg.spacetime._learn.cycles import Cycles
from nareg.spacetime._learn.identifiability import with_doubt
from nareg.spacetime._model import stations as _stations
from nareg.spacetime._model.bands import Bands
from nareg.spacetime._model.results import FitDetails, Smoothed
from nareg.spacetime._times import LONGEST_JUMP, Time, TimeGrid
from nareg.spacetime._transforms import Transform

#: Readings beyond this, or all below its inverse, have squares that overflow or vanish.
LARGEST_READING = 1e100


def masked(y: np.ndarray, observed: ArrayLike | None) -> np.ndarray:
    """Readings (N, T), NaN where ``observed`` is False; a time may have no reading."""
    if observed is None:
        return y
    mask = checks.array_of("observed", observed)
    if mask.dtype != bool or mask.shape not in (y.shape, y.shape[:1]):
        raise InputError(
            f"observed has shape {mask.shape} and dtype {mask.dtype}: pass a boolean mask {y.shape}, True where measured."
        )
    return np.where(mask if mask.ndim == 2 else mask[:, None], y, np.nan)


def checked_readings(readings: ArrayLike, n_nodes: int) -> np.ndarray:
    """Readings (N, T) as float64, NaN where missing, never infinite."""
    y = checks.floats("readings", readings, ndim=(1, 2), finite=False).astype(float)
    if y.ndim == 1:
        y = y[:, None]
    if y.shape[0] != n_nodes or y.shape[1] == 0:
        hint = " it looks transposed: pass readings.T" if y.shape[1] == n_nodes else " rows are stations, columns are times"
        raise InputError(f"readings has shape {y.shape} but the graph has {n_nodes} nodes:{hint}.")
    if np.isinf(y).any():
        i, t = np.argwhere(np.isinf(y))[0]
        raise InputError(f"readings[{i}, {t}] is infinite: set it to NaN if it is missing.")
    sizes = np.abs(y[np.isfinite(y)])
    if sizes.size and (sizes.max() > LARGEST_READING or 0 < sizes.max() < 1 / LARGEST_READING):
        i, t = np.argwhere(np.abs(y) == sizes.max())[0]
        raise InputError(
            f"readings[{i}, {t}] is {y[i, t]:g}, whose square leaves the range of float64: set it to NaN if it is missing, "
            "or pass another unit."
        )
    return y


@dataclass(frozen=True, eq=False)
class GridReadings:
    """Readings on a regular grid of a model's steps."""

    values: np.ndarray  # (N, T) readings as given, NaN where missing
    grid: TimeGrid
    rows: np.ndarray  # (R, N) readings on the grid, in the model's unit
    offset: np.ndarray  # (R, N) mean and cycles on the grid, in the model's unit


@takes_tables("readings", "observed", times="times")
def on_grid(
    model: BaseModel, readings: ArrayLike | None, times: ArrayLike | None, observed: ArrayLike | None = None, *,
    exclude: bool,
) -> GridReadings:  # fmt: skip
    """Checked readings, by default those of the fit; with ``exclude`` these are without what the fit left out."""
    if readings is None:
        y, grid = model.readings, model.grid
        if times is not None:
            raise InputError("times is given without readings: pass both, or neither for the readings of the fit.")
    else:
        y = checked_readings(readings, model.n_nodes)
        same = times is None and y.shape[1] == model.readings.shape[1]
        grid = model.grid if same else _grid_of(model, times, y.shape[1])
    y = masked(y, observed)
    values = model.to_unit(y)
    if readings is None and exclude:
        values[model.excluded] = np.nan
    return GridReadings(y, grid, grid.on_rows(values.T), model.cycles.at(grid.seconds))


def _grid_of(model: BaseModel, times: ArrayLike | None, n_times: int) -> TimeGrid:
    """The grid of other times, with the model's step."""
    if times is None:
        raise InputError(f"readings has {n_times} columns but the fit had {model.readings.shape[1]}: pass times as well.")
    values = _times.checked(times, n_times)
    if (values.dtype.kind == "M") != model.grid.dated:
        raise InputError(
            f"times are {'dates' if values.dtype.kind == 'M' else 'numbers'}, the model's are not: pass the same kind."
        )
    return _times.on_steps(values, model.grid.step)


@dataclass(frozen=True, eq=False, kw_only=True)
class BaseModel(ABC):
    """Readings of a network, and what every model of them knows."""

    graph: Graph
    transform: Transform
    unit: float
    cycles: Cycles
    unit_noise: np.ndarray
    grid: TimeGrid
    bands: Bands
    status: Status
    log_likelihood: float
    readings: np.ndarray = field(repr=False)
    excluded: np.ndarray = field(repr=False)
    #: (2, N) by how much ``unit_noise`` may be lower and higher; None where that is not known
    noise_error: np.ndarray | None = field(default=None, repr=False)
    details: FitDetails = field(default=FitDetails(), repr=False)
    timings: dict[str, float] = field(default_factory=dict, repr=False)

    @property
    def n_nodes(self) -> int:
        """Number of stations N."""
        return self.graph.n_nodes

    @property
    def noise(self) -> np.ndarray:
        """(N,) noise variance of every station, in the squared unit of the readings (with a transform: at its median)."""
        std = np.sqrt(self.unit_noise) * self.unit
        if self.transform.linear:
            return std**2
        center = self.cycles.level[0] * self.unit
        up, down = (np.asarray(self.transform.backward(center + sign * std)) for sign in (1, -1))
        return ((up - down) / 2) ** 2

    @property
    def times(self) -> np.ndarray:
        """(T,) times of the readings that the model was fitted to."""
        return self.grid.values

    def summary(self) -> str:
        """Size, choices, noise, likelihood and status, in a few lines."""
        lines = [
            f"space-time model of {self.n_nodes} stations, {self.readings.shape[1]} times",
            f"  {self.details.chosen}",
            f"  transform {self.transform.name}, cycles removed: {', '.join(self.cycles.names) or 'none'}",
            f"  noise standard deviation: median {np.sqrt(np.median(self.noise)):.3g}",
            f"  log-likelihood {self.log_likelihood:.6g}; {self.status.value}",
        ]
        if self.excluded.any():
            lines.append(f"  {int(self.excluded.sum())} readings left out of the fit as gross outliers")
        return "\n".join([*lines, *(f"  {note}" for note in self.details.notes)])

    def to_unit(self, y: np.ndarray) -> np.ndarray:
        """Readings in the model's unit, with mean and cycles."""
        with np.errstate(all="ignore"):
            values = np.asarray(self.transform.forward(y)) / self.unit
        bad = np.isfinite(y) & ~np.isfinite(values)
        if bad.any():
            raise InputError(f"the model's transform is not finite at the reading {y[bad][0]:g}: set it to NaN.")
        return values

    def seen_variance(self, var: np.ndarray, offsets: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """Variances (..., N) of estimates from those of the field and of its ``offsets``, where readings are ``seen``."""
        total = with_offsets(var, offsets, self.unit_noise, seen)
        return with_doubt(total, self.noise_error, self.unit_noise, var / self.unit_noise, seen)

    def to_readings(self, x: np.ndarray) -> np.ndarray:
        """Values in the unit of the readings: the median of the field."""
        return np.asarray(self.transform.backward(x * self.unit))

    def to_mean(self, x: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation in the unit of the readings."""
        return self.transform.mean(x * self.unit, np.maximum(var, 0.0) * self.unit**2)

    def offset_at(self, row: int) -> np.ndarray:
        """(N,) mean and cycles in a row of the grid."""
        return self.cycles.at(self.grid.seconds_of(np.array([row])))[0]

    def offset_errors_at(self, row: int) -> OffsetErrors:
        """Its errors, (1, N)."""
        return self.cycles.errors_at(self.grid.seconds_of(np.array([row])))

    def time_of(self, row: int) -> np.datetime64 | float:
        """Time of a row of the grid."""
        return self.grid.time_of(row)

    def row_at(self, time: Time) -> int:
        """Row of the grid nearest to a time."""
        value = _times.checked([time], 1)
        if (value.dtype.kind == "M") != self.grid.dated:
            raise InputError(
                f"time is {time!r} but the model's times are {'dates' if self.grid.dated else 'numbers'}: pass the same kind."
            )
        return int(np.rint(self.grid.row_of(value)[0]))

    def station_index(self, station: str | int) -> int:
        """Position of a station, by its name or its position."""
        return _stations.position(self.graph, station)

    def forecast(self, steps: int, *, readings: ArrayLike | None = None, times: ArrayLike | None = None) -> Smoothed:
        """Forecast the field at the next ``steps`` steps of the grid after the last reading.

        Parameters
        ----------
        steps : int
        readings, times
            Readings to start from; default those of the fit.

        Returns
        -------
        Smoothed
            One column per step.
        """
        started = perf_counter()
        steps = checks.integer("steps", steps, low=1)
        if steps > LONGEST_JUMP:
            raise InputError(
                f"steps is {steps}: pass at most {LONGEST_JUMP:,}, by which the field has long returned to its mean."
            )
        return self._forecast(steps, on_grid(self, readings, times, exclude=True), started)

    def simulate(self, rng: np.random.Generator, *, n_times: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Draw a field and readings of it from the model.

        Parameters
        ----------
        rng : numpy.random.Generator
        n_times : int, optional
            Default: as many steps as the grid of the fit has.

        Returns
        -------
        field, readings : (N, T) arrays
            In the unit of the readings. With a transform the field is its median.
        """
        rng = checks.generator(rng)
        T = self.grid.length if n_times is None else checks.integer("n_times", n_times, low=1)
        field = self._draw(T, rng) + self.cycles.at(self.grid.seconds_of(np.arange(T)))
        noisy = field + np.sqrt(self.unit_noise) * rng.standard_normal(field.shape)
        return self.to_readings(field).T, self.to_readings(noisy).T

    @abstractmethod
    def _forecast(self, steps: int, given: GridReadings, started: float) -> Smoothed:
        """The field at the next steps after readings on the grid."""

    @abstractmethod
    def _draw(self, n_times: int, rng: np.random.Generator) -> np.ndarray:
        """A field (T, N) in the model's unit, without mean and cycles."""
