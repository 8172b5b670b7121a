"""Tables out: CSV and NPZ, whole or not at all."""

from __future__ import annotations

import csv
import importlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from nareg.errors import MissingDependencyError
from nareg.io._tables import Readings
from nareg.io._text import shield
from nareg.results import atomic_write


def write_readings(path: str | os.PathLike[str], table: Readings) -> None:
    """Write readings as CSV or NPZ, by the file's suffix; whole or not at all.

    Parameters
    ----------
    path : path
        ``.npz`` or, by any other suffix, CSV: one row per time, one column per station, empty where missing.
    table : Readings

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "readings.csv"
    >>> write_readings(path, Readings(("A", "B"), ("0", "1"), np.array([[1.5, 2.5], [np.nan, 4.0]])))
    >>> print(path.read_text())
    time,A,B
    0,1.5,
    1,2.5,4.0
    <BLANKLINE>
    """
    if Path(path).suffix.lower() == ".npz":
        with atomic_write(path) as handle:
            np.savez_compressed(
                handle, allow_pickle=False, values=table.values, names=np.array(table.names), times=np.array(table.times)
            )
        return
    rows = ([time, *(_cell(v) for v in column)] for time, column in zip(table.times, table.values.T.tolist(), strict=True))
    write_rows(path, ["time", *table.names], rows)


def write_rows(path: str | os.PathLike[str], header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a CSV file, whole or not at all. A spreadsheet runs none of its texts as a formula.

    Parameters
    ----------
    path : path
    header : sequence of str
    rows : iterable of rows
        Cells of each row. A text such as ``=SUM(A1)`` gets an apostrophe, which nareg's readers take away again.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "edges.csv"
    >>> write_rows(path, ["u", "v"], [(3, 5)])
    >>> print(path.read_text())
    u,v
    3,5
    <BLANKLINE>
    """
    with atomic_write(path) as handle:
        handle.write("".join(as_lines(chain([header], rows))).encode())


def as_lines(rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """Rows as lines of a CSV file, none of whose texts a spreadsheet runs as a formula."""
    writer = csv.writer(SimpleNamespace(write=str), lineterminator="\n")
    for row in rows:
        yield writer.writerow([shield(cell) if isinstance(cell, str) else cell for cell in row])


def write_bytes(path: str | os.PathLike[str], write: Callable[[Path], object], library: str, engine: str) -> None:
    """Let a library write a file, which appears whole or not at all. ``write`` receives the path of a file to make."""
    try:
        importlib.import_module(library)
        importlib.import_module(engine)
    except ImportError:
        raise MissingDependencyError(f"{path} needs {library} and {engine}: pip install 'nareg[tables]'.") from None
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / Path(path).name
        write(draft)
        with atomic_write(path) as handle, draft.open("rb") as made:
            shutil.copyfileobj(made, handle)


def _cell(value: float) -> str:
    return "" if value != value else repr(float(value))
