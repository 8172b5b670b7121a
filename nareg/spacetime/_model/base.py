"""What fitted models of every size share: checked readings on a grid, units, times, stations, and what they estimate."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from nareg._core import checks
from nareg._solvers.backends import SolverBackend
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.io import count, takes_tables
from nareg.progress import ProgressCallback
from nareg.results import Status
from nareg.spacetime._dense.parametric import noise_allowance
from nareg.spacetime._model import store
from nareg.spacetime._model.results import Bands, FitDetails, Smoothed
from nareg.spacetime._readings import times as _times
from nareg.spacetime._readings.cycle_errors import OffsetErrors, with_offsets
from nareg.spacetime._readings.cycles import Cycles
from nareg.spacetime._readings.engine import FieldEstimate
from nareg.spacetime._readings.repeats import Bounds
from nareg.spacetime._readings.times import LONGEST_JUMP, Time, TimeGrid
from nareg.spacetime._readings.transforms import Transform

#: The kind of stream that a kind of model starts.
StreamType = TypeVar("StreamType")
ModelType = TypeVar("ModelType", bound="BaseModel[Any]")
#: Readings beyond this, or all below its inverse, have squares that overflow or vanish.
LARGEST_READING = 1e100
#: A time is at a row of a grid if it is this near, in steps.
NEAR = 1e-6


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
    rows: np.ndarray  # (R, N) readings on the grid, in the model's unit, without mean and cycles
    offset: np.ndarray  # (R, N) mean and cycles on the grid, in the model's unit
    noise: np.ndarray  # (N,) or (R, N) noise variances in the model's unit


@takes_tables("readings", "observed", times="times")
def on_grid(
    model: BaseModel[Any], readings: ArrayLike | None, times: ArrayLike | None, observed: ArrayLike | None = None, *,
    exclude: bool,
) -> GridReadings:  # fmt: skip
    """Checked readings, by default those of the fit; with ``exclude`` these are without what the fit left out."""
    if readings is None:
        y, grid = model.readings, model.grid
        if times is not None:
            raise InputError("times is given without readings: pass both, or neither for the readings of the fit.")
    else:
        y = checked_readings(readings, model.n_nodes)
        grid = model.grid
        if times is not None:
            grid = _times.on_steps(_times_of_kind(model, times, y.shape[1]), grid.step)
        elif y.shape[1] != model.readings.shape[1]:
            raise InputError(
                f"readings has {y.shape[1]} columns but the fit had {model.readings.shape[1]}: pass times as well."
            )
    y = masked(y, observed)
    values = model.to_unit(y)
    if readings is None and exclude:
        values[model.excluded] = np.nan
    offset = model.cycles.at(grid.seconds)
    return GridReadings(y, grid, grid.on_rows(values.T) - offset, offset, model.noise_at(grid))


def _times_of_kind(model: BaseModel[Any], times: ArrayLike, n_times: int) -> np.ndarray:
    """Checked times, dates or numbers as the model's are."""
    values = _times.checked(times, n_times)
    if (values.dtype.kind == "M") != model.grid.dated:
        raise InputError(
            f"times are {'dates' if values.dtype.kind == 'M' else 'numbers'}, the model's are not: pass the same kind."
        )
    return values


@dataclass(frozen=True, eq=False, kw_only=True)
class BaseModel(ABC, Generic[StreamType]):
    """Readings of a network, and what every model of them knows. Dense and sparse ones differ in what is abstract here."""

    #: Of its files.
    format: ClassVar[str]

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
    #: (N, T) noise variance of each reading as a multiple of its station's, where readings are means of unlike many
    noise_shares: np.ndarray | None = field(default=None, repr=False)
    #: What the quantity can be: estimates and bands stay inside.
    bounds: Bounds = field(default=Bounds(), repr=False)
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

    def noise_at(self, grid: TimeGrid) -> np.ndarray:
        """Noise variances in the model's unit, (N,), or (R, N) on a grid where readings of the fit differ in theirs."""
        if self.noise_shares is None:
            return self.unit_noise
        at = grid.row_of(self.times)
        rows = np.rint(at).astype(np.int64)
        there = (np.abs(at - rows) < NEAR) & (rows >= 0) & (rows < grid.length)
        result = np.tile(self.unit_noise, (grid.length, 1))
        result[rows[there]] *= self.noise_shares.T[there]
        return result

    @property
    def times(self) -> np.ndarray:
        """(T,) times of the readings that the model was fitted to."""
        return self.grid.values

    @property
    def covariate_lines(self) -> tuple[str, ...]:
        """What each covariate does, in a line; none without covariates."""
        unit, cycles = self.unit if self.transform.linear else None, self.cycles
        of_stations = () if cycles.regression is None else cycles.regression.lines(unit)
        series = cycles.series
        shared = () if series is None else series.lines(cycles.level[-series.used.sum() :], unit)
        return (*of_stations, *shared, *(() if cycles.local is None else cycles.local.lines(unit)))

    def with_covariates(self: ModelType, covariates: Mapping[str, ArrayLike], times: ArrayLike) -> ModelType:
        """The model with values at further times of what it follows over time, such as a forecast of the weather.

        Parameters
        ----------
        covariates : mapping from names to (S,) or (N, S) arrays
            Those over time that were given to the fit: of all stations, or a row per station.
        times : (S,) array
            Increasing, of the kind of the model's.
        """
        series, local = self.cycles.series, self.cycles.local
        if series is None and local is None:
            raise InputError("covariates are given, but the model follows none over time: omit them.")
        values = _times_of_kind(self, times, np.size(times))
        seconds = self.grid.seconds_of(self.grid.row_of(values))
        series = None if series is None else series.continued(covariates, seconds)
        local = None if local is None else local.continued(covariates, seconds)
        return replace(self, cycles=replace(self.cycles, series=series, local=local))

    def __repr__(self) -> str:
        size = f"{count(self.n_nodes, 'station')}, {count(self.readings.shape[1], 'time')}"
        return f"{type(self).__name__}({size}, {self.details.chosen})"

    def summary(self) -> str:
        """Size, choices, noise, likelihood and status, in a few lines."""
        lines = [
            f"space-time model of {self.n_nodes} stations, {self.readings.shape[1]} times",
            f"  {self.details.chosen}",
            f"  transform {self.transform.name}, cycles removed: {', '.join(self.cycles.names) or 'none'}",
            *(f"  {line}" for line in self.covariate_lines),
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
        return total + noise_allowance(self.noise_error, self.unit_noise, var / self.unit_noise, seen)

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
        names = self.graph.names
        if isinstance(station, str):
            if names is None or station not in names:
                known = "has no names: pass positions" if names is None else f"has {', '.join(names[:5])}, ..."
                raise InputError(f"station {station!r} is not in the model, which {known}.")
            return names.index(station)
        index = checks.integer("station", station, low=0)
        if index >= self.n_nodes:
            raise InputError(f"station is {index} but the model has {self.n_nodes} stations: pass 0 to {self.n_nodes - 1}.")
        return index

    def station_indices(self, stations: Sequence[str | int] | str | int) -> list[int]:
        """Positions of stations, or of one."""
        each = [stations] if isinstance(stations, (str, int, np.integer)) else stations
        return [self.station_index(station) for station in each]

    def smooth(
        self, readings: ArrayLike | None = None, *, times: ArrayLike | None = None, observed: ArrayLike | None = None,
        robust: bool = True, backend: SolverBackend = "scipy", progress: ProgressCallback | None = None,
    ) -> Smoothed:  # fmt: skip
        """Estimate the field at every station and time from all readings before and after.

        Parameters
        ----------
        readings : (N, T) array, optional
            NaN where missing. Default: the readings that the model was fitted to.
        times : (T,) array, optional
            Needed for readings at other times than those of the fit.
        observed : (N, T) bool array, optional
            False marks a reading as missing.
        robust : bool
            Ignore readings more than five standard deviations from their prediction by all others.
        backend : {"scipy", "torch", "petsc"} or Torch
            Library that solves for a :class:`SparseSpaceTimeModel`. ``"torch"`` solves for the mean, on CUDA where there is
            one; a :class:`~nareg.filters.Torch` has a device and a precision. ``"petsc"`` solves for all on the ranks of
            ``mpiexec``, which pass the same model and readings, and get the same results.
        progress : callable, optional
            Called with a :class:`~nareg.progress.Progress` per step: its stage, and the fraction that is done.

        Examples
        --------
        >>> import numpy as np, nareg
        >>> rng = np.random.default_rng(0)
        >>> g = nareg.graphs.grid((6, 6))
        >>> truth = np.cumsum(0.1 * rng.standard_normal(100)) + np.zeros((36, 1))
        >>> readings = truth + 0.5 * rng.standard_normal((36, 100))
        >>> readings[4, 30:40] = np.nan
        >>> for engine in ("dense", "sparse"):
        ...     smoothed = nareg.spacetime.fit(g, readings, rng=rng, engine=engine).smooth()
        ...     print(bool(np.sqrt(np.mean((smoothed.x - truth) ** 2)) < 0.15), bool(np.isfinite(smoothed.x).all()))
        True True
        True True
        """
        started = perf_counter()
        with self._solving(backend) as solver:
            given = on_grid(self, readings, times, observed, exclude=robust)
            done = self._smoothed(given, solver, search=robust and readings is not None, progress=progress)
        rows = given.grid.rows
        var = self.seen_variance(done.var[rows], done.offsets[rows], done.used[rows])
        return self._result(done.x[rows] + given.offset[rows], var, given.grid.values, given, done, started)

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
        given = on_grid(self, readings, times, exclude=True)
        rows = len(given.rows) + np.arange(steps)
        seconds = given.grid.seconds_of(rows)
        done = self._ahead(given, seconds)
        ahead = np.array([given.grid.time_of(row) for row in rows.tolist()])
        return self._result(done.x + self.cycles.at(seconds), done.var + done.offsets, ahead, given, done, started)

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
        inside = self.bounds.clip
        return inside(self.to_readings(field)).T, inside(self.to_readings(noisy)).T

    def stream(
        self, *, readings: ArrayLike | None = None, times: ArrayLike | None = None, robust: float | None = 4.0
    ) -> StreamType:
        """Start a Kalman filter that takes in new readings after the last of the model's.

        Parameters
        ----------
        readings, times
            Readings to start from; default those of the fit.
        robust : float or None
            Readings further than ``robust`` standard deviations from their prediction are moved to that distance. After four
            such readings in a row a station is ignored until it reads near its prediction again. None takes every reading as
            it is.
        """
        if robust is not None:
            robust = checks.number("robust", robust, low=0, strict=True)
        given = on_grid(self, readings, times, exclude=robust is not None)
        first = round(float(self.grid.row_of(given.grid.values[:1])[0])) if readings is not None else 0
        return self._stream(given, first + given.grid.length - 1, robust)

    def scores(self, readings: ArrayLike | None = None, *, times: ArrayLike | None = None) -> np.ndarray:
        """Readings minus their predictions from all others, in standard deviations, (N, T); NaN where there is no reading."""
        given = on_grid(self, readings, times, exclude=False)
        return self._scores(given)[given.grid.rows].T

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model and its readings to an .npz file, whole or not at all; :func:`load` reads it."""
        store.write(path, *self.to_arrays())

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain facts, from which ``from_arrays`` makes the model again."""
        arrays, facts = self._own_arrays()
        shared_arrays, shared_facts = store.shared_arrays(self)
        return shared_arrays | arrays, shared_facts | facts | {"format": self.format}

    def _result(
        self, x: np.ndarray, var: np.ndarray, times: np.ndarray, given: GridReadings, done: FieldEstimate, started: float
    ) -> Smoothed:
        """Mean and variance (T, N) in the model's unit, from readings that are ``given``, as a result in the readings' unit."""
        x, var = x.T, var.T
        mean, std = self.to_mean(x, var)
        mean = self.bounds.clip(mean)
        used = given.values[done.used[given.grid.rows].T]  # readings that were left out have no likelihood
        value = done.log_likelihood + float(self.transform.log_slope(used).sum()) - used.size * float(np.log(self.unit))
        return Smoothed(
            mean, std, self.status, value, times, self.unit_noise * self.unit**2, x * self.unit, var * self.unit**2,
            self.transform, self.bands, self.bounds, self.graph, {"total": perf_counter() - started},
        )  # fmt: skip

    @abstractmethod
    def _solving(self, backend: SolverBackend) -> AbstractContextManager[Any]:
        """What solves for the estimates; where ranks work together, an error of one ends the work of all."""

    @abstractmethod
    def _smoothed(self, given: GridReadings, solver: Any, *, search: bool, progress: ProgressCallback | None) -> FieldEstimate:
        """The field at all rows, without gross outliers where these are to be searched."""

    @abstractmethod
    def _ahead(self, given: GridReadings, seconds: np.ndarray) -> FieldEstimate:
        """The field at the next steps, at these seconds, after the last row; ``used`` are the rows' readings."""

    @abstractmethod
    def _scores(self, given: GridReadings) -> np.ndarray:
        """Deletion scores (T, N) of readings on the grid."""

    @abstractmethod
    def _stream(self, given: GridReadings, row: int, robust: float | None) -> StreamType:
        """A filter after readings whose last is in this row of the model's grid."""

    @abstractmethod
    def _draw(self, n_times: int, rng: np.random.Generator) -> np.ndarray:
        """A field (T, N) in the model's unit, without mean and cycles."""

    @abstractmethod
    def _own_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain facts of this kind of model."""
