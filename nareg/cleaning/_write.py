"""The cleaned tables as files: labels as in the input, a column per station. Each file is written whole or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nareg.io import write_rows

if TYPE_CHECKING:
    from nareg.cleaning._results import Cleaned

#: Digits that a standard deviation has in the files; the estimate has as many decimals.
DIGITS = 4
FILES = ("clean.csv", "std.csv", "flags.csv", "report.html")


def parts(cleaned: Cleaned) -> dict[str, Callable[[Path], object]]:
    """Name of each of :data:`FILES`, and the function that writes it."""
    places = decimals(cleaned.std.to_numpy())
    return {
        "clean.csv": lambda path: table(path, cleaned, np.round(cleaned.x.to_numpy(), places)),
        "std.csv": lambda path: table(path, cleaned, np.round(cleaned.std.to_numpy(), places)),
        "flags.csv": lambda path: table(path, cleaned, cleaned.flags.to_numpy()),
        "report.html": cleaned.report,
    }


def decimals(std: np.ndarray) -> int:
    """Decimals that give the middle one of the standard deviations :data:`DIGITS` digits; 15 where all are zero."""
    positive = std[std > 0]
    middle = float(np.median(positive)) if positive.size else 0.0
    return max(DIGITS - 1 - math.floor(math.log10(middle)), 0) if middle > 1e-12 else 15


def table(path: Path, cleaned: Cleaned, values: np.ndarray) -> None:
    """One table of numbers (T, N), NaN as an empty cell."""
    readings = cleaned.network.readings
    rows: Any = (
        [time, *("" if value != value else value for value in row)]
        for time, row in zip(readings.times, values.tolist(), strict=True)
    )
    write_rows(path, ["time", *readings.names], rows)
