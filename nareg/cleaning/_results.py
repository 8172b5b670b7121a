"""Result of :func:`nareg.clean`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from nareg._core import checks
from nareg.cleaning._network import StationNetwork
from nareg.cleaning._words import number, plural
from nareg.quality import Flag, Quality
from nareg.results import WeightDesign
from nareg.spacetime import Smoothed, SpaceTimeModel, SparseSpaceTimeModel
from nareg.spacetime._model.results import dataset_of
from nareg.spacetime._readings.repeats import Bounds

if TYPE_CHECKING:
    import pandas as pd
    import xarray
    from matplotlib.figure import Figure


#: Where stations are not checked one by one, those with more than this share of bad readings are suspect, and those whose noise
#: variance is so many times the median station's.
SUSPECT, NOISY = 0.02, 6.0


@dataclass(frozen=True, eq=False)
class Cleaned:
    """A cleaned network: frames with a row per time and a column per station, labeled as the readings are.

    Attributes
    ----------
    x : DataFrame
        The estimate, gaps filled.
    std : DataFrame
        Its standard deviation. Where a station drifts, it includes how far the station is off: the estimate there follows
        the readings.
    flags : DataFrame
        QARTOD codes: 1 good, 2 not evaluated, 3 suspect, 4 bad, 9 missing.
    model : SpaceTimeModel, SparseSpaceTimeModel or None
        None where no fit is possible; ``notes`` has the reason.
    edges : WeightDesign or None
        Weights that filter each time in space, for readings in the model's unit without means and cycles; None where they were
        not designed.
    quality : Quality or None
        Suspect stations with their evidence; None above 500 stations, or without a model.
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
    timings : dict of seconds
        ``"fit"`` (with the check of the readings), ``"compare"``, ``"smooth"`` and ``"total"``.
    """

    x: pd.DataFrame
    std: pd.DataFrame
    flags: pd.DataFrame
    model: SpaceTimeModel | SparseSpaceTimeModel | None
    edges: WeightDesign | None
    quality: Quality | None
    errors: pd.DataFrame
    method: str
    notes: tuple[str, ...]
    reading_error: float
    clean_error: float
    coverage: pd.DataFrame
    unit: str | None
    network: StationNetwork = field(repr=False)
    hidden: np.ndarray = field(repr=False)
    smoothed: Smoothed | None = field(repr=False)
    doubts: np.ndarray = field(repr=False)  # (N, T) how far drifting stations are off
    bounds: Bounds = field(repr=False)  # what the quantity can be
    replaced: np.ndarray = field(repr=False)  # (N, T) True where the estimate is another method's, or the reading
    reasons: tuple[tuple[str, str], ...] = field(repr=False)
    timings: dict[str, float] = field(default_factory=dict, repr=False)

    @property
    def suspects(self) -> tuple[str, ...]:
        """Names of the stations that look faulty."""
        if self.quality is not None:
            return tuple(dict.fromkeys(suspect.name for suspect in self.quality.suspects))
        flags = self.flags.to_numpy()
        bad = (flags == Flag.BAD).sum(axis=0)
        # single wild readings make no station suspect
        many = (bad > 1) & (bad > SUSPECT * (flags != Flag.MISSING).sum(axis=0))
        wrong = np.isin(flags, (Flag.BAD, Flag.MISSING)).all(axis=0) | many
        if self.model is not None:
            wrong |= self.model.unit_noise > NOISY * np.median(self.model.unit_noise)
        return tuple(name for name, bad in zip(self.network.readings.names, wrong, strict=True) if bad)

    def band(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end (N, T) of the band that holds the field with this probability."""
        from scipy.stats import norm

        reach = float(norm.ppf(0.5 + level / 2))
        x, half = self.x.to_numpy().T, reach * self.std.to_numpy().T
        low, high = x - half, x + half
        if self.smoothed is not None:
            off = reach * self.doubts
            ends = self.smoothed.interval(level)
            inner = (np.where(off > 0, x + side * np.hypot(x - end, off), end) for side, end in zip((-1, 1), ends, strict=True))
            low, high = (np.where(self.replaced, own, end) for own, end in zip((low, high), inner, strict=True))
        return self.bounds.clip(low), self.bounds.clip(high)

    def headline(self) -> str:
        """One line: errors of readings and estimate, and the number of suspect stations."""
        unit = f" {self.unit}" if self.unit else ""
        parts = []
        if np.isfinite(self.reading_error):
            parts.append(f"readings ±{number(self.reading_error)}{unit}, cleaned ±{number(self.clean_error)}{unit}")
            parts[-1] += " (hidden readings)" if len(self.errors) else ""
        elif len(self.errors):
            parts.append(f"hidden readings predicted to ±{number(float(self.errors['rmse'].iloc[0]))}{unit}")
        else:
            parts.append("error unknown (too few readings to hide some)")
        parts.append(plural(len(self.suspects), "suspect station"))
        return ", ".join(parts)

    def summary(self) -> str:
        """A few lines: choices, errors at hidden readings, and the :meth:`headline`."""
        lines = [f"{name}: {text}" for name, text in self.reasons]
        if len(self.errors):
            unit = f" ({self.unit})" if self.unit else ""
            lines.append(f"error at {int(self.hidden.sum()):,} hidden readings{unit}, RMSE: single, in gaps")
            width = max(map(len, self.errors.index))
            for name, row in self.errors.iterrows():
                lines.append(f"  {name:<{width}}  {number(row['rmse_single'], 3):>8}  {number(row['rmse_gaps'], 3):>8}")
        return "\n".join([*lines, self.headline()])

    def figures(self) -> dict[str, Figure]:
        """The report's pictures as matplotlib figures, where there are data for them: map, series, errors, calibration."""
        from nareg.cleaning._pictures import draw

        return draw(self)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write a self-contained HTML page: map, suspects, series, errors, calibration, choices, notes."""
        from nareg.cleaning._report import write

        return write(self, Path(path))

    def to_xarray(self, level: float = 0.9) -> xarray.Dataset:
        """Everything as one data set, stations with their places and times as coordinates.

        ``estimate``, ``std``, ``lower`` and ``upper`` of the band with this probability, ``flags``, and ``reading`` as it was.
        Times with a zone are in UTC.
        """
        lower, upper = self.band(level)
        readings = self.network.readings
        tables = {"estimate": self.x, "std": self.std, "flags": self.flags}
        arrays = {name: frame.to_numpy().T for name, frame in tables.items()}
        arrays |= {"lower": lower, "upper": upper, "reading": readings.values}
        times = np.array(readings.times) if readings.timestamps is None else readings.timestamps
        dataset = dataset_of(arrays, times, self.network.graph, readings.names)
        for name in arrays.keys() - {"flags"}:
            dataset[name].attrs |= {} if self.unit is None else {"units": self.unit}
        for name in ("lower", "upper"):
            dataset[name].attrs["level"] = level
        meanings = " ".join(flag.name.lower() for flag in Flag)
        dataset["flags"].attrs |= {"flag_values": np.array(list(Flag), dtype=np.int8), "flag_meanings": meanings}
        return dataset

    def save(self, folder: str | os.PathLike[str], *, format: Literal["csv", "parquet", "netcdf"] = "csv") -> Path:
        """Write the tables and ``report.html`` into a folder, and return it.

        Parameters
        ----------
        folder : path
        format : {"csv", "parquet", "netcdf"}
            ``clean``, ``std`` and ``flags`` as ``.csv`` or ``.parquet``; or all of :meth:`to_xarray` as ``clean.nc``.
        """
        from nareg.cleaning._write import FORMATS, parts

        form = checks.choice("format", format, FORMATS)
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        for name, write in parts(self, form).items():
            write(target / name)
        return target
