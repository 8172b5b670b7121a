"""A fitted graph state-space model: smooth, forecast, simulate, interpolate, stream."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike

from nareg._core import checks
from nareg._solvers.backends import SolverBackend, check_solver_backend
from nareg.errors import InputError
from nareg.progress import ProgressCallback
from nareg.spacetime._dense.filter import Dynamics
from nareg.spacetime._dense.parametric import Parameters
from nareg.spacetime._dense.smoother import robust_pass, run
from nareg.spacetime._model import estimates as _estimates
from nareg.spacetime._model import stations as _stations
from nareg.spacetime._model.base import BaseModel, GridReadings, on_grid
from nareg.spacetime._model.results import Smoothed
from nareg.spacetime._model.stream import Stream
from nareg.spacetime._readings.repeats import intermittent
from nareg.spacetime._readings.space import Space


@dataclass(frozen=True, eq=False, kw_only=True)
class SpaceTimeModel(BaseModel):
    """A graph state-space model, made by :func:`fit`.

    The field moves by ``x_t = A_1 x_{t-1} + ... + e_t``, and readings are ``y_t = x_t + v_t``.

    Attributes
    ----------
    graph : Graph
    transform : Transform
        Transform of the readings.
    unit : float
        Divisor of the transformed readings.
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

    dynamics: Dynamics
    parameters: Parameters
    df: float | None

    @cached_property
    def space(self) -> Space:
        """Distances and correlations of the stations."""
        return Space.of(self.graph)

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
        backend : {"scipy"}
            Other libraries solve for a :class:`SparseSpaceTimeModel` only.
        progress : callable, optional
            Called with a :class:`~nareg.progress.Progress` per step: its stage, and the fraction that is done.

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
        if (library := check_solver_backend(backend)) != "scipy":
            raise InputError(
                f"backend={library!r} solves for models of the sparse engine only: fit with engine='sparse', or omit backend."
            )
        given = on_grid(self, readings, times, observed, exclude=robust)
        robust = robust and readings is not None and not intermittent(given.values.T)
        return _estimates.smooth(self, given, robust=robust, progress=progress, started=started)

    def _forecast(self, steps: int, given: GridReadings, started: float) -> Smoothed:
        return _estimates.forecast(self, steps, given, started)

    def _draw(self, n_times: int, rng: np.random.Generator) -> np.ndarray:
        return _estimates.draw(self.dynamics, n_times, rng)

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
            One row per place.
        """
        started = perf_counter()
        points = self.checked_places(coordinates)
        given = on_grid(self, readings, times, exclude=True)
        return _estimates.interpolate(self, points, given, robust=readings is not None, started=started)

    def extended(self, coordinates: ArrayLike, names: Sequence[str] | None = None) -> SpaceTimeModel:
        """The model with further stations, which have no reading yet.

        A new station is its kriging estimate from the others plus a field of its own with the same autoregression.
        """
        return _stations.extended(self, self.checked_places(coordinates), names)

    def without(self, stations: Sequence[str | int] | str | int) -> SpaceTimeModel:
        """The model without some of its stations, named or numbered.

        Where a removed station acts on the next values of the others, its expectation given these takes its place. Scalar and
        diagonal dynamics have no such effect, and the result is exact.
        """
        listed = [stations] if isinstance(stations, (str, int, np.integer)) else list(stations)
        return _stations.without(self, [self.station_index(station) for station in listed])

    def stream(
        self, *, readings: ArrayLike | None = None, times: ArrayLike | None = None, robust: float | None = 4.0
    ) -> Stream:
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
        errors = self.cycles.errors_at(given.grid.seconds).draws
        done = run(given.rows - given.offset, self.dynamics, self.unit_noise, smooth=False, errors=errors)
        first = round(float(self.grid.row_of(given.grid.values[:1])[0])) if readings is not None else 0
        return Stream(self, done.state, done.covariance, first + given.grid.length - 1, robust)

    def scores(self, readings: ArrayLike | None = None, *, times: ArrayLike | None = None) -> np.ndarray:
        """Readings minus their predictions from all others, in standard deviations, (N, T); NaN where there is no reading."""
        given = on_grid(self, readings, times, exclude=False)
        _, scores = robust_pass(given.rows - given.offset, self.dynamics, self.unit_noise, self.df)
        return scores[given.grid.rows].T

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model and its readings to an .npz file, whole or not at all; :func:`load` reads it."""
        from nareg.spacetime._model.store import save

        save(self, path)

    def checked_places(self, coordinates: ArrayLike) -> np.ndarray:
        """(M, d) coordinates of further places, checked against the graph's."""
        return _stations.checked_places(self.graph, coordinates)
