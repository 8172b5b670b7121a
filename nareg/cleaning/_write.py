"""The cleaned tables as files, each of which is written whole or not at all.

CSV has labels as in the input and a column per station, Parquet typed times. netCDF is one file with the stations' places.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nareg.io import write_bytes, write_rows

if TYPE_CHECKING:
    import pandas as pd

    from nareg.cleaning._results import Cleaned

#: Digits that a standard deviation has in CSV files; the estimate has as many decimals.
DIGITS = 4
TABLES = ("clean", "std", "flags")
REPORT = "report.html"
FORMATS = ("csv", "parquet", "netcdf")


def files(form: str) -> tuple[str, ...]:
    """Names of the files of one of :data:`FORMATS`."""
    return ("clean.nc", REPORT) if form == "netcdf" else (*(f"{name}.{form}" for name in TABLES), REPORT)


def parts(cleaned: Cleaned, form: str) -> dict[str, Callable[[Path], object]]:
    """Name of each of the :func:`files`, and the function that writes it."""
    if form == "netcdf":
        return {"clean.nc": lambda path: _netcdf(path, cleaned), REPORT: cleaned.report}
    if form == "parquet":
        frames = zip(files(form), (cleaned.x, cleaned.std, cleaned.flags), strict=False)
        return {name: lambda path, frame=frame: _parquet(path, frame) for name, frame in frames} | {REPORT: cleaned.report}
    places = decimals(cleaned.std.to_numpy())
    return {
        "clean.csv": lambda path: table(path, cleaned, np.round(cleaned.x.to_numpy(), places)),
        "std.csv": lambda path: table(path, cleaned, np.round(cleaned.std.to_numpy(), places)),
        "flags.csv": lambda path: table(path, cleaned, cleaned.flags.to_numpy()),
        REPORT: cleaned.report,
    }


def _parquet(path: Path, frame: pd.DataFrame) -> None:
    write_bytes(path, frame.to_parquet, "pandas", "pyarrow")


def _netcdf(path: Path, cleaned: Cleaned) -> None:
    """Variables as in :meth:`Cleaned.to_xarray`, compressed."""
    packed = {"zlib": True, "complevel": 4}

    def write(draft: Path) -> None:
        dataset = cleaned.to_xarray()
        dataset.to_netcdf(draft, engine="h5netcdf", encoding={str(name): packed for name in dataset.data_vars})

    write_bytes(path, write, "xarray", "h5netcdf")


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
