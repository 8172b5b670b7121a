"""Checks of readings and masks, and readings on the grid of a fitted model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from nareg._core import checks
from nareg.errors import InputError
from nareg.io._labeled import takes_tables
from nareg.spacetime import _times
from nareg.spacetime._times import TimeGrid

if TYPE_CHECKING:
    from nareg.spacetime._model.base import BaseModel

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
