"""What a cleaning gives: tables, and what is said about them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from nareg.cleaning._kinds import turn
from nareg.cleaning._learn import corrections
from nareg.cleaning._network import StationNetwork
from nareg.cleaning._words import number, plural
from nareg.io import Readings
from nareg.quality import KINDS, Flag, FlagScheme, Quality, Rules, Suspect, events
from nareg.results import WeightDesign
from nareg.spacetime import Bounds, DirectionModels, Smoothed, SpaceTimeModel, SparseSpaceTimeModel, dataset_of

if TYPE_CHECKING:
    import pandas as pd
    import xarray


#: Where stations are not checked one by one, those with more than this share of bad readings are suspect, and those whose noise
#: variance is so many times the median station's.
SUSPECT, NOISY = 0.02, 6.0
#: Digits that a standard deviation has in CSV files; the estimate has as many decimals.
DIGITS = 4
#: Meanings of flags that are 0 or 1.
BINARY = {"good_or_not_checked": 0, "suspect_or_bad": 1}
#: Kinds of faults whose readings are bad.
BAD_KINDS = ("stuck", "range", "unit", "level", "swapped", "spikes")


def in_scheme(flags: pd.DataFrame, suspects: Iterable[Suspect] | None, scheme: FlagScheme) -> pd.DataFrame:
    """Flags (T, N) as codes, as 0 and 1, or as words with the kind of fault, where one was looked for."""
    codes = flags.to_numpy()
    if scheme == "qartod":
        return flags
    if scheme == "binary":
        return flags.isin((Flag.SUSPECT, Flag.BAD)).astype("int8")
    words = np.full(codes.shape, "ok", dtype=object)
    words[codes == Flag.UNKNOWN] = "not checked"
    words[codes == Flag.SUSPECT] = "suspect"
    words[codes == Flag.BAD] = "outlier" if suspects is None else "spikes outlier"
    words[codes == Flag.MISSING] = "gap"
    for s in sorted(suspects or (), key=lambda s: KINDS.index(s.kind), reverse=True):
        own = codes[s.columns, s.station]
        # a bad reading of a drifting sensor is bad for itself
        for flag, word, kinds in ((Flag.SUSPECT, "suspect", KINDS), (Flag.BAD, "outlier", BAD_KINDS)):
            if s.kind in kinds:
                words[s.columns[own == flag], s.station] = f"{s.kind} {word}"
    return flags.astype(object).mask(np.ones(codes.shape, dtype=bool), words)


def decimals(std: pd.DataFrame) -> int:
    """Decimals that give the middle one of the standard deviations :data:`DIGITS` digits; 15 where all are zero."""
    values = std.to_numpy()
    middle = float(np.nan_to_num(np.median(values[values > 0]))) if (values > 0).any() else 0.0
    return max(DIGITS - 1 - math.floor(math.log10(middle)), 0) if middle > 1e-12 else 15


def rounded(x: pd.DataFrame, std: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Estimates and standard deviations with the decimals of tables."""
    digits = decimals(std)
    return np.round(x.to_numpy(), digits), np.round(std.to_numpy(), digits)


def written_in(cells: set[object], scheme: FlagScheme) -> bool:
    """Whether cells of a table of flags can be of a scheme."""
    if scheme == "labels":
        return all(isinstance(cell, str) for cell in cells)
    return cells <= (set(Flag) if scheme == "qartod" else {0, 1})


def at_own_times(
    before: Readings | None, steps: np.ndarray | None, x: pd.DataFrame, std: pd.DataFrame, flags: np.ndarray, kind: str
) -> pd.DataFrame:
    """A row per reading ``before`` some were moved to steps of time, with the estimate at its own time, from those of steps.

    Where ``flags`` have fewer rows (T, N) than the estimates, readings of the first steps are left out.
    """
    import pandas as pd

    columns = ["time", "station", "reading", "estimate", "std", "flag"]
    if before is None or before.timestamps is None or steps is None:
        return pd.DataFrame(columns=columns)
    own, at = (stamps.astype("datetime64[ns]").astype(float) for stamps in (before.timestamps, steps))
    values = np.unwrap(x, axis=0, period=360) if kind == "direction" else x.to_numpy()
    estimate, spread = (np.array([np.interp(own, at, line) for line in part.T]) for part in (values, std.to_numpy()))
    if kind == "direction":
        estimate = turn(estimate, 0.0) if (x < 0).any(axis=None) else estimate % 360
    row = np.searchsorted((at[1:] + at[:-1]) / 2, own, side="right") - (len(at) - len(flags))
    t, station = np.nonzero(before.observed.T & (row >= 0)[:, None])
    labels, names = np.array(before.times, dtype=object)[t], np.array(before.names, dtype=object)[station]
    cells = (labels, names, before.values[station, t], estimate[station, t], spread[station, t], flags[row[t], station])
    return pd.DataFrame(dict(zip(columns, cells, strict=True)))


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
    corrected: tuple[Suspect, ...] = field(default=(), repr=False)  # whose corrected readings are used
    rules: Rules = field(default_factory=Rules, repr=False)
    directed: DirectionModels | None = field(default=None, repr=False)  # in the place of a model

    @property
    def readings(self) -> np.ndarray:
        """(N, T) readings that are used, corrected ones in the place of the others."""
        return corrections(self.corrected, self.network.readings.values)[0]

    @property
    def corrections(self) -> pd.DataFrame:
        """A row per reading of a sensor that drifts, is off or has a wrong unit, corrected, with the correction's ``std``."""
        import pandas as pd

        suspects = () if self.quality is None else self.quality.suspects
        readings = self.network.readings
        tables = [
            pd.DataFrame({
                "time": [readings.times[t] for t in s.columns], "station": s.name, "kind": s.kind,
                "reading": readings.values[s.station, s.columns], "corrected": s.corrected, "std": s.corrected_std,
            })
            for s in (self.corrected or suspects) if s.corrected is not None
        ]  # fmt: skip
        columns = ["time", "station", "kind", "reading", "corrected", "std"]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)

    @property
    def own_times(self) -> pd.DataFrame:
        """A row per reading, where some were moved to a step of time, with the estimate at its own time."""
        table = self.network.readings
        return at_own_times(table.before, table.timestamps, self.x, self.std, self.written_flags.to_numpy(), self.kind)

    @property
    def written_flags(self) -> pd.DataFrame:
        """The flags as the rules want them written."""
        return in_scheme(self.flags, None if self.quality is None else self.quality.suspects, self.rules.flags)

    @property
    def written(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Estimates, standard deviations and flags (T, N) as tables have them."""
        return *rounded(self.x, self.std), self.written_flags.to_numpy()

    @property
    def suspects(self) -> tuple[str, ...]:
        """Names of the stations that look faulty; what the whole network has is no fault of theirs."""
        if self.quality is not None:
            return tuple(dict.fromkeys(suspect.name for suspect in self.quality.suspects if not suspect.shared))
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
            parts[-1] += "" if self.clean_error < self.reading_error else ": of use in gaps, no better where there is a reading"
        elif len(self.errors):
            parts.append(f"hidden readings predicted to ±{number(float(self.errors.loc[self.method, 'rmse']))}{unit}")
        else:
            parts.append("error unknown (too few readings to hide some)")
        parts.append(plural(len(self.suspects), "suspect station"))
        shared = [] if self.quality is None else [event for event in events(self.quality.suspects) if event.shared]
        parts += [plural(len(shared), "fault") + " of the whole network"] if shared else []
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

        ``estimate``, ``std``, ``lower`` and ``upper`` of the band with this probability, ``flags`` as the rules want them
        written, and ``reading`` as it was. Times with a zone are in UTC.
        """
        lower, upper = self.band(level)
        readings = self.network.readings
        tables = {"estimate": self.x, "std": self.std, "flags": self.written_flags}
        arrays = {name: frame.to_numpy().T for name, frame in tables.items()}
        arrays |= {"lower": lower, "upper": upper, "reading": readings.values}
        times = np.array(readings.times) if readings.timestamps is None else readings.timestamps
        dataset = dataset_of(arrays, times, self.network.graph, readings.names)
        for name in arrays.keys() - {"flags"}:
            dataset[name].attrs |= {} if self.unit is None else {"units": self.unit}
        for name in ("lower", "upper"):
            dataset[name].attrs["level"] = level
        if self.rules.flags != "labels":  # words have their meaning
            codes = {flag.name.lower(): flag for flag in Flag} if self.rules.flags == "qartod" else BINARY
            values = np.array(list(codes.values()), dtype=np.int8)
            dataset["flags"].attrs |= {"flag_values": values, "flag_meanings": " ".join(codes)}
        return dataset
