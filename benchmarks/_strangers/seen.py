"""What one cleaning of a case's files gave, beside the readings and the truth."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

import nareg
from nareg.cleaning import Cleaned
from nareg.quality import Flag


class RefusedError(Exception):
    """The files were refused where they should have been cleaned."""


@dataclass(frozen=True)
class Seen:
    """A cleaned pair of files, or the sentence that refused them.

    Tables are of shape (times, stations). Readings that the file's own table has as text are NaN in ``raw``.
    """

    folder: Path
    result: Cleaned | None
    error: str | None
    readings: str

    @property
    def cleaned(self) -> Cleaned:
        if self.result is None:
            raise RefusedError(self.error)
        return self.result

    @cached_property
    def truth(self) -> pd.DataFrame:
        return pd.read_csv(self.folder / "truth.csv", index_col=0)

    @cached_property
    def raw(self) -> pd.DataFrame:
        """The readings as the file has them."""
        table = pd.read_csv(self.folder / self.readings)
        table = table.pivot(index="time", columns="station", values="value") if "value" in table else table.set_index("time")
        return table[list(self.truth)].apply(pd.to_numeric, errors="coerce")

    def _numbers(self, frame: pd.DataFrame) -> np.ndarray:
        return frame[list(self.truth)].to_numpy()

    @property
    def x(self) -> np.ndarray:
        return self._numbers(self.cleaned.x)

    @property
    def std(self) -> np.ndarray:
        return self._numbers(self.cleaned.std)

    @property
    def flags(self) -> np.ndarray:
        return self._numbers(self.cleaned.flags)

    @property
    def t(self) -> np.ndarray:
        return self.truth.to_numpy()

    @property
    def y(self) -> np.ndarray:
        return self.raw.to_numpy()

    @property
    def observed(self) -> np.ndarray:
        return np.isfinite(self.y)

    def column(self, station: str) -> int:
        return list(self.truth).index(station)

    def at(self, station: str, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Mask of a station's cells from one time on to before another."""
        mask = np.zeros(self.t.shape, bool)
        mask[start:stop, self.column(station)] = True
        return mask

    def share(self, flags: tuple[Flag, ...], where: np.ndarray) -> float:
        """Share of some cells that has one of these flags."""
        return float(np.isin(self.flags[where], flags).mean())

    def rmse(self, values: np.ndarray, where: np.ndarray) -> float:
        return float(np.sqrt(np.mean((values - self.t)[where] ** 2)))

    @cached_property
    def band(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the 90 % bands."""
        names = list(self.cleaned.x)
        order = [names.index(name) for name in self.truth]
        low, high = self.cleaned.band(0.9)
        return low[order].T, high[order].T

    def coverage(self, where: np.ndarray) -> float:
        low, high = self.band
        return float(((self.t >= low) & (self.t <= high))[where].mean())

    @property
    def suspects(self) -> tuple[str, ...]:
        return self.cleaned.suspects

    def says(self, pattern: str) -> str | None:
        """The first note, choice or refusal that has a pattern, whatever its case."""
        texts = [self.error or ""]
        if self.result is not None:
            texts = [*self.result.notes, *(text for _, text in self.result.reasons), self.result.headline()]
        return next((text for text in texts if re.search(pattern, text, re.IGNORECASE)), None)


def clean(folder: Path, stations: str = "stations.csv", readings: str = "readings.csv", hidden: float = 0.08) -> Seen:
    """Clean two files as ``nareg clean`` does without options."""
    try:
        return Seen(folder, nareg.clean(folder / readings, folder / stations, hidden=hidden), None, readings)
    except nareg.errors.NaregError as error:
        return Seen(folder, None, str(error), readings)
