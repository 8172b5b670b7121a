"""One number per station: weights, data-term weights, variances."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from nareg.errors import InputError
from nareg.io._file import FileTable
from nareg.io._notes import Notes
from nareg.io._vocabulary import distinct
from nareg.io._write import write_rows


def read_column(
    path: str | os.PathLike[str], stations: Sequence[str], column: str, *, others: Sequence[str] = ()
) -> np.ndarray:
    r"""Read one number per station, in the given order, from a CSV with the columns ``station`` and ``column``.

    Parameters
    ----------
    path : path
        The file, read without guesses.
    stations : sequence of str
        Stations that the file must have.
    column : str
        Name of the column of numbers.
    others : sequence of str
        Stations that the file may also have. Any other is refused: the file may belong to another network.

    Returns
    -------
    ndarray (N,)
        The numbers.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "noise.csv"
    >>> _ = path.write_text("station,variance\nA,1.5\nB,2\n")
    >>> read_column(path, ["B", "A"], "variance")
    array([2. , 1.5])
    """
    table = FileTable(path, Notes(str(path), strict=True))
    lowered = [name.lower() for name in table.header]
    for needed in ("station", column):
        if needed not in lowered:
            raise InputError(f"{path}: no column {needed!r}; it has {', '.join(table.header)}.")
        if lowered.count(needed) > 1:
            raise InputError(f"{path}: column {needed!r} appears twice.")
    (names,), values = table.load([lowered.index("station")], [lowered.index(column)], finite=True)
    distinct(str(path), list(names))
    numbers = dict(zip(names, values[:, 0].tolist(), strict=True))
    absent = [name for name in stations if np.isnan(numbers.get(name, np.nan))]
    if absent:
        raise InputError(f"{path}: no {column} for station {absent[0]!r}: every station in the station file needs one.")
    known = {*stations, *others}
    unknown = [name for name in numbers if name not in known]
    if unknown:
        raise InputError(f"{path}: {unknown[0]!r} is not in the station file: pass the {column} of this network.")
    return np.array([numbers[name] for name in stations])


def read_weights(path: str | os.PathLike[str], stations: Sequence[str]) -> np.ndarray:
    """Read weights written by :func:`write_weights`.

    Parameters
    ----------
    path : path
        A CSV file with the columns ``station`` and ``weight``.
    stations : sequence of str
        The stations, in the order of the result.

    Returns
    -------
    ndarray (N,)

    Examples
    --------
    See :func:`write_weights`.
    """
    return read_column(path, stations, "weight")


def read_data_weight(path: str | os.PathLike[str], stations: Sequence[str]) -> np.ndarray | None:
    """Read the ``data_weight`` column of a weights file: the weights of the data term.

    Parameters
    ----------
    path : path
        A CSV file with the column ``station``.
    stations : sequence of str
        The stations, in the order of the result.

    Returns
    -------
    ndarray (N,) or None
        None if the file has no such column.

    Examples
    --------
    See :func:`write_weights`.
    """
    header = FileTable(path, Notes(str(path), strict=True)).header
    return read_column(path, stations, "data_weight") if "data_weight" in [name.lower() for name in header] else None


def write_weights(
    path: str | os.PathLike[str], stations: Sequence[str], weights: np.ndarray, data_weight: np.ndarray | None = None
) -> None:
    """Write one weight per station as CSV, with the data-term weights where the design has them.

    Parameters
    ----------
    path : path
    stations : sequence of str
    weights : (N,) array
    data_weight : (N,) array, optional
        Weights of the data term.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "weights.csv"
    >>> write_weights(path, ["A", "B"], np.array([1.0, 2.0]))
    >>> read_weights(path, ["B", "A"])
    array([2., 1.])
    >>> read_data_weight(path, ["A", "B"]) is None
    True
    """
    columns = [weights] if data_weight is None else [weights, data_weight]
    rows = ([s, *(repr(float(v)) for v in values)] for s, *values in zip(stations, *columns, strict=True))
    write_rows(path, ["station", "weight", "data_weight"][: 1 + len(columns)], rows)
