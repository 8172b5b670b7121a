"""Tables out: CSV and NPZ, whole or not at all."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from nareg.io._tables import Readings
from nareg.results import atomic_write


def write_readings(path: str | os.PathLike[str], table: Readings) -> None:
    """Write readings as CSV or NPZ, by the file's suffix; whole or not at all."""
    if Path(path).suffix.lower() == ".npz":
        with atomic_write(path) as handle:
            np.savez_compressed(
                handle, allow_pickle=False, values=table.values, names=np.array(table.names), times=np.array(table.times)
            )
        return
    rows = ([time, *(_cell(v) for v in column)] for time, column in zip(table.times, table.values.T.tolist(), strict=True))
    write_rows(path, ["time", *table.names], rows)


def write_rows(path: str | os.PathLike[str], header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """A CSV file, whole or not at all."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    with atomic_write(path) as handle:
        handle.write(text.getvalue().encode())


def _cell(value: float) -> str:
    return "" if value != value else repr(float(value))
