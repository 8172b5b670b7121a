"""What a cleaning gives: tables, and what is said about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from nareg.cleaning._network import StationNetwork
from nareg.cleaning._words import number, plural
from nareg.quality import Flag, Quality
from nareg.results import WeightDesign
from nareg.spacetime import Bounds, Smoothed, SpaceTimeModel, SparseSpaceTimeModel, dataset_of

if TYPE_CHECKING:
    import pandas as pd
    import xarray


#: Where stations are not checked one by one, those with more than this share of bad readings are suspect, and those whose noise
#: variance is so many times the median station's.
SUSPECT, NOISY = 0.02, 6.0


@dataclass(frozen=True, eq=False)
class CleanedTables:
    """The data of :class:`Cleaned`."""

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
    drift: np.ndarray = field(repr=False)  # (N, T) how far drifting stations are off
    bounds: Bounds = field(repr=False)  # what the quantity can be
    replaced: np.ndarray = field(repr=False)  # (N, T) True where the estimate is another method's, or the reading
    reasons: tuple[tuple[str, str], ...] = field(repr=False)
    timings: dict[str, float] = field(default_factory=dict, repr=False)
    kind: str = "number"

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
        reach = float(ndtri(0.5 + level / 2))
        x, half = self.x.to_numpy().T, reach * self.std.to_numpy().T
        low, high = x - half, x + half
        if self.smoothed is not None:
            off = reach * self.drift
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
            parts.append(f"hidden readings predicted to ±{number(float(self.errors.loc[self.method, 'rmse']))}{unit}")
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
