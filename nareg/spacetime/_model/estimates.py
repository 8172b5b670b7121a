"""What a fitted model estimates: the field at every time, ahead of the readings, and at places without a station."""

from __future__ import annotations

import itertools
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from nareg.progress import Progress, ProgressCallback
from nareg.spacetime._dense.filter import Dynamics
from nareg.spacetime._dense.smoother import PASSES, ROUNDS, Pass, heavy_tailed_pass, robust_pass
from nareg.spacetime._model.base import GridReadings
from nareg.spacetime._model.results import Smoothed
from nareg.spacetime._model.stations import Extension
from nareg.spacetime._readings.cycle_errors import OffsetErrors

if TYPE_CHECKING:
    from nareg.spacetime._model.dense import SpaceTimeModel

#: Places whose weights are computed at once.
PLACES = 256


def smoothing_pass(
    model: SpaceTimeModel, y: np.ndarray, *, robust: bool, smooth: bool = True, progress: ProgressCallback | None = None,
    W: np.ndarray | None = None, errors: OffsetErrors | None = None,
) -> Pass:  # fmt: skip
    """One pass over readings (T, N) in the model's unit, without mean and cycles, and over draws of the errors of these."""
    tick, draws = None, None if errors is None else errors.draws
    if progress is not None:
        total = len(y) * (PASSES if model.df and smooth else 1) * (ROUNDS if robust else 1)
        rows = itertools.count(1)
        tick = lambda _: progress(Progress("smoothing", fraction=next(rows) / total))  # noqa: E731
    if robust:
        return robust_pass(y, model.dynamics, model.unit_noise, model.df, W=W, tick=tick, errors=draws)[0]
    return heavy_tailed_pass(y, model.dynamics, model.unit_noise, model.df, smooth=smooth, W=W, tick=tick, errors=draws)


def smoothed(
    model: SpaceTimeModel, x: np.ndarray, var: np.ndarray, times: np.ndarray, done: Pass, given: GridReadings, started: float
) -> Smoothed:
    """Mean and variance (T, N) in the model's unit as a result in the unit of the readings."""
    x, var = x.T, var.T
    mean, std = model.to_mean(x, var)
    # readings that were left out have no likelihood
    seen = given.values[np.isfinite(done.innovations[given.grid.rows].T)]
    slope = float(model.transform.log_slope(seen).sum()) - seen.size * np.log(model.unit)
    return Smoothed(
        mean, std, model.status, done.log_likelihood + slope, times, model.unit_noise * model.unit**2,
        x * model.unit, var * model.unit**2, model.transform, model.bands, model.graph, {"total": perf_counter() - started},
    )  # fmt: skip


def smooth(
    model: SpaceTimeModel, given: GridReadings, *, robust: bool, progress: ProgressCallback | None, started: float
) -> Smoothed:
    """The field at the times of the readings."""
    errors = model.cycles.errors_at(given.grid.seconds)
    done = smoothing_pass(model, given.rows - given.offset, robust=robust, progress=progress, errors=errors)
    seen = given.grid.rows
    offsets = errors.left(done.taken)[seen]
    var = model.seen_variance(done.var[seen], offsets, np.isfinite(done.innovations[seen]))
    return smoothed(model, done.x[seen] + given.offset[seen], var, given.grid.values, done, given, started)


def forecast(model: SpaceTimeModel, steps: int, given: GridReadings, started: float) -> Smoothed:
    """The field at the next steps of the grid."""
    grid, last = given.grid, len(given.rows)
    longer = np.vstack([given.rows, np.full((steps, model.n_nodes), np.nan)])
    seconds = grid.seconds_of(np.arange(len(longer)))
    offset, errors = model.cycles.at(seconds), model.cycles.errors_at(seconds)
    done = smoothing_pass(model, longer - offset, robust=False, smooth=False, errors=errors)
    times = np.array([grid.time_of(last + k) for k in range(steps)])
    var = (done.var + errors.left(done.taken))[last:]
    return smoothed(model, (done.x + offset)[last:], var, times, done, given, started)


def draw(dynamics: Dynamics, n_times: int, rng: np.random.Generator) -> np.ndarray:
    """A field (T, N) of these dynamics."""
    n = dynamics.n
    root, start = np.linalg.cholesky(dynamics.Q), np.linalg.cholesky(dynamics.P0)
    z = start @ rng.standard_normal(start.shape[0])
    states = np.empty((n_times, n))
    for t in range(n_times):
        if t:
            z = dynamics.mean_after(z)
            z[:n] += root @ rng.standard_normal(n)
        states[t] = z[:n]
    return states


def interpolate(model: SpaceTimeModel, points: np.ndarray, given: GridReadings, *, robust: bool, started: float) -> Smoothed:
    """The field at places (M, d) without a station."""
    W, own, level, spread = _weights(model, points)
    done = smoothing_pass(model, given.rows - given.offset, robust=robust, W=W)
    assert done.points is not None
    assert done.point_variances is not None
    seen = given.grid.rows
    basis = model.cycles.basis(given.grid.seconds_of(seen))
    var = done.point_variances[seen] + own + basis**2 @ spread
    result = smoothed(model, done.points[seen] + basis @ level, var, given.grid.values, done, given, started)
    return replace(result, noise=np.full(own.size, float(np.median(model.unit_noise)) * model.unit**2))


def _weights(model: SpaceTimeModel, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of the field at M places: weights (M, N) of the stations, variance (M,) of what they do not tell, mean and cycles.

    The last are coefficients (K, M) and their variances.
    """
    # a place is its own node in the graph family: no other one may change the graph
    size = 1 if model.parameters.family == "graph" else PLACES
    parts = [points[k : k + size] for k in range(0, len(points), size)]
    extensions = [Extension.of(model.dynamics, model.parameters, model.space, part) for part in parts]
    levels = [model.cycles.at_points(model.space, part) for part in parts]
    spreads = [model.cycles.spread_at_points(model.space, part) for part in parts]
    own = np.concatenate([e.own.diagonal() for e in extensions])
    return np.vstack([e.W for e in extensions]), own, np.hstack(levels), np.hstack(spreads)
