"""Result of :func:`nareg.clean`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nareg._core import checks
from nareg.cleaning._report import FORMATS, parts, write
from nareg.cleaning._results import CleanedTables
from nareg.cleaning._station_table import station_table
from nareg.cleaning._words import plural

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Cleaned(CleanedTables):
    """A cleaned network: frames with a row per time and a column per station, labeled as the readings are.

    Attributes
    ----------
    x : DataFrame
        The estimate, gaps filled.
    std : DataFrame
        Its standard deviation, as wide as the band of 90 %: half the width is 1.645 of it. Where a station drifts, it includes
        how far the station is off: the estimate there follows the readings.
    flags : DataFrame
        QARTOD codes: 1 good, 2 not evaluated, 3 suspect, 4 bad, 9 missing.
    model : SpaceTimeModel, SparseSpaceTimeModel or None
        None where no fit is possible, ``notes`` has the reason, and for directions, whose two components have one each.
    directed : DirectionModels or None
        Those of directions, for :func:`nareg.cleaning.apply`; None with speeds, which it does not know.
    edges : WeightDesign or None
        Weights that filter each time in space, for readings in the model's unit without means and cycles; None where they were
        not designed.
    quality : Quality or None
        Suspect stations with their evidence; None above 500 stations without effort thorough, or without a model.
    errors : DataFrame
        RMSE and MAE of every method at readings that were hidden from all of them: ``rmse`` and ``mae`` over all,
        ``_single`` where the readings before and after were there, ``_gaps`` elsewhere; ``_with_flagged`` counts those that are
        flagged bad, too. Best first.
    method : str
        The method that gave ``x``.
    notes : tuple of str
        Guesses about the tables, stations that were left out, decisions.
    reading_error, clean_error : float
        Standard deviation of the noise, and root mean square of ``std`` where there is a reading: medians over the stations
        that are not suspect. ``reading_error`` is NaN where the model is not used.
    coverage : DataFrame
        Nominal level and share of the hidden readings that the bands hold; empty without a model.
    unit : str or None
        Unit of the readings, if it was given.
    kind : str
        "number", or "direction": ``x`` is then an angle in degrees, errors are turns, and bands may pass 360.
    stations : DataFrame
        A row per station: ``readings``, share ``missing``, ``longest_gap`` in times; ``resolution``, in which readings are
        written; ``noise``, the standard deviation that the model gives it; ``above_neighbors``, the median of its readings
        less their mean; readings flagged ``suspect`` and ``bad``; kinds of ``faults``; and its nearest ``neighbors``.
    corrections : DataFrame
        A row per reading of a sensor that drifts, is off or has a wrong unit: ``reading``, ``corrected``, and the correction's
        ``std``. They are used where ``correct`` of :class:`nareg.quality.Rules` is true.
    own_times : DataFrame
        A row per reading, where a common step moved some: the ``reading``, and ``estimate`` and ``std`` at its own ``time``, on
        the straight line between those of the steps; ``flag`` is that of its step.
    timings : dict of seconds
        ``"fit"`` (with the check of the readings), ``"compare"``, ``"smooth"`` and ``"total"``.
    """

    def __repr__(self) -> str:
        stations, times = self.network.readings.values.shape
        return f"Cleaned({plural(stations, 'station')}, {plural(times, 'time')}, {self.method}: {self.headline()})"

    @cached_property
    def stations(self) -> pd.DataFrame:
        """Gaps, noise, resolution, level beside the neighbors, and faults of each station."""
        return station_table(self)

    def figures(self) -> dict[str, Figure]:
        """The report's pictures as matplotlib figures, where there are data for them: map, series, errors, calibration."""
        from nareg.cleaning._pictures import draw  # matplotlib: imported when first needed

        return draw(self)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write a self-contained HTML page: map, suspects, series, errors, calibration, choices, notes."""
        return write(self, Path(path))

    def save(self, folder: str | os.PathLike[str], *, format: Literal["csv", "parquet", "netcdf"] = "csv") -> Path:
        """Write the tables and ``report.html`` into a folder, and return it.

        Parameters
        ----------
        folder : path
        format : {"csv", "parquet", "netcdf"}
            ``clean``, ``std`` and ``flags`` as ``.csv`` or ``.parquet``; or all of :meth:`to_xarray` as ``clean.nc``.
        """
        form = checks.choice("format", format, FORMATS)
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        for name, write_part in parts(self, form).items():
            write_part(target / name)
        return target
