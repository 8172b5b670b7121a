"""The two tables that every command reads, as Python sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from nareg._core.arrays import briefly_shown
from nareg.io._counts import CellCounts


@briefly_shown
@dataclass(frozen=True)
class Stations:
    """Station names, coordinates and the metric that fits them.

    Attributes
    ----------
    names : tuple of str
        N names, all different.
    coordinates : (N, 2) float64
        Latitude and longitude in degrees, or x and y.
    metric : str
        ``"haversine"`` for degrees, ``"euclidean"`` for x and y.
    altitude : (N,) float64, optional
        In the unit of the table, NaN where it has none; None without such a column.
    notes : tuple of str
        What was guessed or left out while reading, one sentence each.
    covariates : mapping from names to (N,) arrays
        Further columns, which were asked for, NaN where a cell is empty.
    """

    names: tuple[str, ...]
    coordinates: np.ndarray
    metric: str
    altitude: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    covariates: Mapping[str, np.ndarray] = field(default_factory=dict)


@briefly_shown
@dataclass(frozen=True)
class Readings:
    """Readings with station names and times; NaN where a reading is missing.

    Attributes
    ----------
    names : tuple of str
        N station names.
    times : tuple of str
        T labels, as they stand in the table.
    values : (N, T) float64
        The readings.
    timestamps : (T,) datetime64[ns] or float64, optional
        The same times to compute with, increasing; numbers where the labels are numbers. None if the labels are not times.
    zone : str, optional
        ``"UTC"`` where the table has a time zone, to which ``timestamps`` are converted; None where it has none.
    notes : tuple of str
        What was guessed or left out while reading, one sentence each.
    unit : str, optional
        Unit of the readings, where the table states one.
    quantity : str, optional
        What is read, by the name of a long table's column of readings or of a variable.
    counts : CellCounts, optional
        What became of the cells of the table, where these are from a file or a frame.
    averaged : (N, T) int, optional
        Of how many readings each is the mean, where several of a step are one.
    before : Readings, optional
        The same at their own times, where a step moved them.
    tidy : bool
        Whether the table had a row per time and station, not a column per station.
    """

    names: tuple[str, ...]
    times: tuple[str, ...]
    values: np.ndarray
    timestamps: np.ndarray | None = None
    zone: str | None = None
    notes: tuple[str, ...] = ()
    unit: str | None = None
    quantity: str | None = None
    counts: CellCounts | None = None
    averaged: np.ndarray | None = None
    before: Readings | None = None
    tidy: bool = False

    @property
    def observed(self) -> np.ndarray:
        """(N, T) True where there is a reading."""
        return np.isfinite(self.values)
