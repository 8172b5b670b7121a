"""A fitted graph state-space model: smooth, forecast, simulate, interpolate, stream."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike

from nareg import _checks
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.progress import Progress, ProgressCallback
from nareg.results import Status
from nareg.spacetime import _times
from nareg.spacetime._bands import Bands
from nareg.spacetime._cycles import Cycles
from nareg.spacetime._dynamics import Dynamics
from nareg.spacetime._extend import Extension, restricted
from nareg.spacetime._inputs import checked_readings, masked
from nareg.spacetime._parametric import Parameters
from nareg.spacetime._results import FitDetails, Smoothed
from nareg.spacetime._smoother import Pass, run
from nareg.spacetime._space import Space
from nareg.spacetime._stream import LONGEST_JUMP, Stream
from nareg.spacetime._tails import PASSES, ROUNDS, heavy_tailed_pass, robust_pass
from nareg.spacetime._times import Time, TimeGrid
from nareg.spacetime._transforms import Transform

#: Places whose weights are computed at once.
PLACES = 256


@dataclass(frozen=True, eq=False)
class SpaceTimeModel:
    """A graph state-space model ``x_t = A_1 x_{t-1} + ... + e_t``, ``y_t = x_t + v_t``, made by :func:`fit`.

    Attributes
    ----------
    graph : Graph
    transform : Transform
        Transform of the readings.
    unit : float
        Transformed readings are divided by it.
    cycles : Cycles
        Station means, daily and yearly cycle, in the model's unit.
    dynamics : Dynamics
        A, Q and the covariance of the first state, in the model's unit.
    unit_noise : (N,) array
        Noise variances in the model's unit.
    parameters : Parameters
        The parametric model that the fit started from.
    df : float or None
        Degrees of freedom of heavy-tailed steps.
    grid : TimeGrid
        Regular grid of the readings' times.
    bands : Bands
        Factors for the width of Gaussian bands, per level and size of the standard deviation.
    status : Status
    log_likelihood : float
        Log-likelihood of the readings, in their unit.
    details : FitDetails
        How the model was chosen.
    timings : dict of seconds
        What each stage of the fit took, and ``"total"``.
    """

    graph: Graph
    transform: Transform
    unit: float
    cycles: Cycles
    dynamics: Dynamics
    unit_noise: np.ndarray
    parameters: Parameters
    df: float | None
    grid: TimeGrid
    bands: Bands
    status: Status
    log_likelihood: float
    readings: np.ndarray = field(repr=False)
    excluded: np.ndarray = field(repr=False)
    details: FitDetails = field(default=FitDetails(), repr=False)
    timings: dict[str, float] = field(default_factory=dict, repr=False)

    # -- facts --------------------------------------------------------------------------------------

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

    @cached_property
    def space(self) -> Space:
        """Distances and correlations of the stations."""
        return Space.of(self.graph)

    def summary(self) -> str:
        """A few lines: size, choices, noise, likelihood, status."""
        lines = [
            f"space-time model of {self.n_nodes} stations, {self.readings.shape[1]} times",
            f"  {self.details.chosen}",
            f"  transform {self.transform.name}, cycles removed: {', '.join(self.cycles.names) or 'none'}",
            f"  noise standard deviation: median {np.sqrt(np.median(self.noise)):.3g}",
            f"  log-likelihood {self.log_likelihood:.6g}; {self.status.value}",
        ]
        if self.excluded.any():
            lines.append(f"  {int(self.excluded.sum())} readings left out of the fit as gross outliers")
        return "\n".join(lines)

    # -- units and times ----------------------------------------------------------------------------

    def to_unit(self, y: np.ndarray) -> np.ndarray:
        """Readings in the model's unit, with mean and cycles."""
        with np.errstate(all="ignore"):
            values = np.asarray(self.transform.forward(y)) / self.unit
        bad = np.isfinite(y) & ~np.isfinite(values)
        if bad.any():
            raise InputError(f"the model's transform makes no finite number of the reading {y[bad][0]:g}: set it to NaN.")
        return values

    def to_readings(self, x: np.ndarray) -> np.ndarray:
        """Median in the unit of the readings."""
        return np.asarray(self.transform.backward(x * self.unit))

    def to_mean(self, x: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation in the unit of the readings."""
        return self.transform.mean(x * self.unit, np.maximum(var, 0.0) * self.unit**2)

    def offset_at(self, row: int) -> np.ndarray:
        """(N,) mean and cycles in a row of the grid."""
        return self.cycles.at(self.grid.seconds_of(np.array([row])))[0]

    def time_of(self, row: int) -> np.datetime64 | float:
        """Time of a row of the grid."""
        return self.grid.time_of(row)

    def row_at(self, time: Time) -> int:
        """Row of the grid nearest to a time."""
        value = _times.checked([time], 1)
        if (value.dtype.kind == "M") != self.grid.dated:
            raise InputError(
                f"time is {time!r} but the model's times are {'dates' if self.grid.dated else 'numbers'}: pass the same."
            )
        return int(np.rint(self.grid.row_of(value)[0]))

    # -- estimates ----------------------------------------------------------------------------------

    def smooth(
        self, readings: ArrayLike | None = None, *, times: ArrayLike | None = None, observed: ArrayLike | None = None,
        robust: bool = True, progress: ProgressCallback | None = None,
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
            Leave out readings more than five standard deviations from their prediction by all others.
        progress : callable, optional
            Called with a :class:`~nareg.progress.Progress` per step: its stage, and the fraction that is done.

        Returns
        -------
        Smoothed

        Examples
        --------
        >>> import numpy as np, nareg
        >>> rng = np.random.default_rng(0)
        >>> g = nareg.graphs.grid((3, 3))
        >>> truth = np.cumsum(0.1 * rng.standard_normal(300)) + np.zeros((9, 1))
        >>> readings = truth + 0.5 * rng.standard_normal((9, 300))
        >>> readings[4, 100:120] = np.nan
        >>> smoothed = nareg.spacetime.fit(g, readings, rng=rng).smooth()
        >>> bool(np.sqrt(np.mean((smoothed.x - truth) ** 2)) < 0.15), bool(np.isfinite(smoothed.x).all())
        (True, True)
        """
        started = perf_counter()
        y, grid = self._checked(readings, times, observed)
        rows, offset = self._rows(y, grid)
        if readings is None and robust:
            rows = np.where(_spread(self.excluded.T, grid), np.nan, rows)
        done = self._pass(rows - offset, robust=robust and readings is not None, progress=progress)
        x, var = done.x[grid.rows] + offset[grid.rows], done.var[grid.rows]
        return self._smoothed(x.T, var.T, grid.values, done, y, grid, started)

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
            With ``steps`` columns.
        """
        started = perf_counter()
        steps = _checks.integer("steps", steps, low=1)
        if steps > LONGEST_JUMP:
            raise InputError(
                f"steps is {steps}, more than {LONGEST_JUMP:,}: forecast fewer; the field returns to its mean long before."
            )
        y, grid = self._checked(readings, times, None)
        rows, _ = self._rows(y, grid)
        if readings is None:
            rows = np.where(_spread(self.excluded.T, grid), np.nan, rows)
        longer = np.vstack([rows, np.full((steps, self.n_nodes), np.nan)])
        offset = self.cycles.at(grid.seconds_of(np.arange(len(longer))))
        done = self._pass(longer - offset, robust=False, smooth=False)
        ahead = slice(len(rows), None)
        when = np.array([grid.time_of(len(rows) + k) for k in range(steps)])
        return self._smoothed((done.x + offset)[ahead].T, done.var[ahead].T, when, done, y, grid, started)

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
        rng = _checks.generator(rng)
        T = self.grid.length if n_times is None else _checks.integer("n_times", n_times, low=1)
        root, start = np.linalg.cholesky(self.dynamics.Q), np.linalg.cholesky(self.dynamics.P0)
        z = start @ rng.standard_normal(start.shape[0])
        states = np.empty((T, self.n_nodes))
        for t in range(T):
            if t:
                z = self.dynamics.mean_after(z)
                z[: self.n_nodes] += root @ rng.standard_normal(self.n_nodes)
            states[t] = z[: self.n_nodes]
        field = states + self.cycles.at(self.grid.seconds_of(np.arange(T)))
        noisy = field + np.sqrt(self.unit_noise) * rng.standard_normal(field.shape)
        return self.to_readings(field).T, self.to_readings(noisy).T

    def interpolate_at(
        self, coordinates: ArrayLike, *, readings: ArrayLike | None = None, times: ArrayLike | None = None
    ) -> Smoothed:
        """Estimate the field, with its uncertainty, at places without a station.

        Parameters
        ----------
        coordinates : (M, d) array
            Latitude and longitude in degrees, or positions, as in the graph.
        readings, times
            Default: those of the fit.

        Returns
        -------
        Smoothed
            With M rows.
        """
        started = perf_counter()
        W, own, level = self._weights(self.checked_places(coordinates))
        y, grid = self._checked(readings, times, None)
        rows, offset = self._rows(y, grid)
        if readings is None:
            rows = np.where(_spread(self.excluded.T, grid), np.nan, rows)
        done = self._pass(rows - offset, robust=readings is not None, W=W)
        assert done.points is not None
        assert done.point_variances is not None
        functions = self.cycles.basis(grid.seconds_of(grid.rows))
        smoothed = self._smoothed(
            (done.points[grid.rows] + functions @ level).T,
            (done.point_variances[grid.rows] + own).T,
            grid.values,
            done,
            y,
            grid,
            started,
        )
        noise = np.full(own.size, float(np.median(self.unit_noise)) * self.unit**2)
        return replace(smoothed, noise=noise)

    def _weights(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the field at M places: weights (M, N) of the stations, variance (M,) of what they do not tell, mean and cycles."""
        graphs = self.parameters.family == "graph"  # a place is its own node there: no other one may change the graph
        parts = [points[k : k + (1 if graphs else PLACES)] for k in range(0, len(points), 1 if graphs else PLACES)]
        extensions = [Extension.of(self.dynamics, self.parameters, self.space, part) for part in parts]
        levels = [self.cycles.at_points(self.space, part) for part in parts]
        return np.vstack([e.W for e in extensions]), np.concatenate([e.own.diagonal() for e in extensions]), np.hstack(levels)

    def extended(self, coordinates: ArrayLike, names: Sequence[str] | None = None) -> SpaceTimeModel:
        """The model with further stations that have no reading yet.

        A new station is its kriging estimate from the others plus a field of its own with the same autoregression.
        """
        points = self.checked_places(coordinates)
        extension = Extension.of(self.dynamics, self.parameters, self.space, points)
        level = self.cycles.at_points(self.space, points)
        M = points.shape[0]
        known = self.graph.names
        if names is not None and (known is None or len(names) != M):
            raise InputError(
                f"names has {len(names)} entries for {M} places"
                + (
                    ", and the model's other stations have no names: leave it out."
                    if known is None
                    else ": pass one per place."
                )
            )
        if known is not None:
            names = [*known, *(names or [f"place {k + 1}" for k in range(M)])]
        places = np.concatenate([self.graph.coordinates, points])
        joined = Graph(self.space.extended(points), coordinates=places, names=names, metric=self.graph.metric)
        cycles = replace(
            self.cycles, level=np.hstack([self.cycles.level, level]),
            dual=np.hstack([self.cycles.dual, np.zeros((level.shape[0], M))]),
        )  # fmt: skip
        noise = np.concatenate([self.unit_noise, np.full(M, np.median(self.unit_noise))])
        log_noise = np.concatenate([self.parameters.log_noise, np.full(M, np.median(self.parameters.log_noise))])
        empty = np.full((M, self.readings.shape[1]), np.nan)
        return replace(
            self, graph=joined, dynamics=extension.dynamics(self.dynamics), cycles=cycles, unit_noise=noise,
            readings=np.vstack([self.readings, empty]), excluded=np.vstack([self.excluded, np.zeros(empty.shape, dtype=bool)]),
            parameters=replace(self.parameters, log_noise=log_noise),
        )  # fmt: skip

    def without(self, stations: Sequence[str | int] | str | int) -> SpaceTimeModel:
        """The model without some of its stations, named or numbered.

        The effect of a removed station on the next values of the others is replaced by its expectation given these. That is
        exact for scalar and diagonal dynamics, where there is no such effect.
        """
        listed = [stations] if isinstance(stations, (str, int, np.integer)) else list(stations)
        gone = [self.station_index(station) for station in listed]
        keep = np.setdiff1d(np.arange(self.n_nodes), gone)
        if keep.size == 0:
            raise InputError("stations has all stations of the model: keep at least one.")
        graph = self.graph.subgraph(keep)
        return replace(
            self, graph=graph, cycles=self.cycles.restricted(Space.of(graph), keep), dynamics=restricted(self.dynamics, keep),
            unit_noise=self.unit_noise[keep], parameters=replace(self.parameters, log_noise=self.parameters.log_noise[keep]),
            readings=self.readings[keep], excluded=self.excluded[keep],
        )  # fmt: skip

    def station_index(self, station: str | int) -> int:
        """Position of a station, by its name or its position."""
        names = self.graph.names
        if isinstance(station, str):
            if names is None or station not in names:
                known = "has no names: pass positions" if names is None else f"has {', '.join(names[:5])}, ..."
                raise InputError(f"station {station!r} is not in the model, which {known}.")
            return names.index(station)
        index = _checks.integer("station", station, low=0)
        if index >= self.n_nodes:
            raise InputError(f"station is {index} but the model has {self.n_nodes} stations: pass 0 to {self.n_nodes - 1}.")
        return index

    def stream(
        self, *, readings: ArrayLike | None = None, times: ArrayLike | None = None, robust: float | None = 4.0
    ) -> Stream:
        """A Kalman filter that takes in new readings after the last of the model's.

        Parameters
        ----------
        readings, times
            Readings to start from; default those of the fit.
        robust : float or None
            Readings further than ``robust`` standard deviations from their prediction are moved to that distance. A station
            that is out four times in a row is ignored until its readings are near their prediction again. None takes every
            reading as it is.

        Returns
        -------
        Stream
        """
        if robust is not None:
            robust = _checks.number("robust", robust, low=0, strict=True)
        y, grid = self._checked(readings, times, None)
        rows, offset = self._rows(y, grid)
        if readings is None and robust is not None:
            rows = np.where(_spread(self.excluded.T, grid), np.nan, rows)
        done = run(rows - offset, self.dynamics, self.unit_noise, smooth=False)
        first = round(float(self.grid.row_of(grid.values[:1])[0])) if readings is not None else 0
        return Stream(self, done.state, done.covariance, first + grid.length - 1, robust)

    def scores(self, readings: ArrayLike | None = None, *, times: ArrayLike | None = None) -> np.ndarray:
        """Readings minus their predictions from all others, in standard deviations, (N, T); NaN where there is no reading."""
        y, grid = self._checked(readings, times, None)
        rows, offset = self._rows(y, grid)
        _, scores = robust_pass(rows - offset, self.dynamics, self.unit_noise, self.df)
        return scores[grid.rows].T

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model and its readings to an .npz file of plain arrays, whole or not at all; :func:`load` reads it."""
        from nareg.spacetime._store import save

        save(self, path)

    def checked_places(self, coordinates: ArrayLike) -> np.ndarray:
        """(M, d) coordinates of further places, checked against the graph's."""
        points = _checks.floats("coordinates", coordinates, ndim=(2,)).astype(float)
        if self.graph.coordinates is None:
            raise InputError("the model's graph has no coordinates: build it with Graph.from_knn to add places.")
        if points.shape[1] != self.graph.coordinates.shape[1] or points.shape[0] == 0:
            raise InputError(
                f"coordinates has shape {points.shape}: pass one row per place, {self.graph.coordinates.shape[1]} columns each."
            )
        if self.graph.metric == "haversine" and (np.abs(points[:, 0]) > 90).any():
            i = int(np.argmax(np.abs(points[:, 0])))
            raise InputError(
                f"coordinates[{i}] has latitude {points[i, 0]:g}, outside -90 to 90: pass latitude, then longitude, in degrees."
            )
        return points

    # -- passes -------------------------------------------------------------------------------------

    def _checked(
        self, readings: ArrayLike | None, times: ArrayLike | None, observed: ArrayLike | None
    ) -> tuple[np.ndarray, TimeGrid]:
        if readings is None:
            y, grid = self.readings, self.grid
            if times is not None:
                raise InputError("times is given without readings: pass both, or neither for the readings of the fit.")
        else:
            y = checked_readings(readings, self.n_nodes)
            same = times is None and y.shape[1] == self.readings.shape[1]
            grid = self.grid if same else self._grid_of(times, y.shape[1])
        return masked(y, observed), grid

    def _grid_of(self, times: ArrayLike | None, n_times: int) -> TimeGrid:
        if times is None:
            raise InputError(f"readings has {n_times} columns, the fit had {self.readings.shape[1]}: pass times as well.")
        values = _times.checked(times, n_times)
        if (values.dtype.kind == "M") != self.grid.dated:
            raise InputError(
                f"times are {'dates' if values.dtype.kind == 'M' else 'numbers'}, the model's are not: pass the same kind."
            )
        return _times.on_steps(values, self.grid.step)

    def _rows(self, y: np.ndarray, grid: TimeGrid) -> tuple[np.ndarray, np.ndarray]:
        """Readings on the grid (rows, N) in the model's unit, and mean and cycles there."""
        rows = np.full((grid.length, self.n_nodes), np.nan)
        rows[grid.rows] = self.to_unit(y).T
        return rows, self.cycles.at(grid.seconds_of(np.arange(grid.length)))

    def _pass(
        self, y: np.ndarray, *, robust: bool, smooth: bool = True, progress: ProgressCallback | None = None,
        W: np.ndarray | None = None,
    ) -> Pass:  # fmt: skip
        tick = None
        if progress is not None:
            total = len(y) * (PASSES if self.df and smooth else 1) * (ROUNDS if robust else 1)
            rows = itertools.count(1)
            tick = lambda _: progress(Progress("smoothing", fraction=next(rows) / total))  # noqa: E731
        if robust:
            return robust_pass(y, self.dynamics, self.unit_noise, self.df, W=W, tick=tick)[0]
        return heavy_tailed_pass(y, self.dynamics, self.unit_noise, self.df, smooth=smooth, W=W, tick=tick)

    def _smoothed(
        self, x: np.ndarray, var: np.ndarray, times: np.ndarray, done: Pass, y: np.ndarray, grid: TimeGrid, started: float
    ) -> Smoothed:
        mean, std = self.to_mean(x, var)
        seen = y[np.isfinite(done.innovations[grid.rows].T)]  # readings that were left out have no likelihood
        slope = float(self.transform.log_slope(seen).sum()) - seen.size * np.log(self.unit)
        return Smoothed(
            mean, std, self.status, done.log_likelihood + slope, times, self.unit_noise * self.unit**2,
            x * self.unit, var * self.unit**2, self.transform, self.bands, {"total": perf_counter() - started},
        )  # fmt: skip


def _spread(values: np.ndarray, grid: TimeGrid) -> np.ndarray:
    """(T, N) values on the rows of the grid, False elsewhere."""
    rows = np.zeros((grid.length, values.shape[1]), dtype=bool)
    rows[grid.rows] = values
    return rows
