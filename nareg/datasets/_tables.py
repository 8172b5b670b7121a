"""Write a network as two tables: stations.csv and readings.csv."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from nareg.io import write_rows


def shortest(value: float) -> str:
    """The fewest digits that give the value back; those of single precision where it came from there."""
    single = np.float32(value)
    return str(single) if float(single) == value else repr(float(value))


def write_tables(
    folder: str | os.PathLike[str],
    names: tuple[str, ...],
    columns: dict[str, list[str]],
    times: list[str],
    readings: np.ndarray,
    number: Callable[[float], str] = shortest,
) -> Path:
    """Write both tables; ``columns`` are those of the stations beside their names, an empty cell is a missing reading."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    write_rows(target / "stations.csv", ["station", *columns], zip(names, *columns.values(), strict=True))
    rows = (
        [time, *("" if np.isnan(value) else number(value) for value in column)]
        for time, column in zip(times, readings.T, strict=True)
    )
    write_rows(target / "readings.csv", ["time", *names], rows)
    return target
