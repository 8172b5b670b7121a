"""Checks of readings and masks."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from nareg import _checks
from nareg.errors import InputError

#: Readings beyond this, or all below its inverse, have squares that overflow or vanish.
LARGEST_READING = 1e100


def masked(y: np.ndarray, observed: ArrayLike | None) -> np.ndarray:
    """Readings (N, T), NaN where ``observed`` is False; a time may have no reading."""
    if observed is None:
        return y
    mask = _checks.array_of("observed", observed)
    if mask.dtype != bool or mask.shape not in (y.shape, y.shape[:1]):
        raise InputError(
            f"observed has shape {mask.shape} and dtype {mask.dtype}: pass a boolean mask {y.shape}, True where measured."
        )
    return np.where(mask if mask.ndim == 2 else mask[:, None], y, np.nan)


def checked_readings(readings: ArrayLike, n_nodes: int) -> np.ndarray:
    """Readings (N, T) as float64, NaN where missing, never infinite."""
    y = _checks.floats("readings", readings, ndim=(1, 2), finite=False).astype(float)
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
            "or take another unit."
        )
    return y
