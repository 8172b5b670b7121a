"""Readings as NPZ: ``values`` (N, T), ``names`` (N,) and ``times`` (T,)."""

from __future__ import annotations

import os

import numpy as np

from nareg._storage import array_files
from nareg.errors import UNREADABLE, InputError
from nareg.io._names import distinct
from nareg.io._notes import Notes, count


def read_npz(path: str | os.PathLike[str], notes: Notes) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Names, labels of the times, and values (N, T)."""
    try:
        arrays = array_files.read_npz(path)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except InputError:
        raise
    except (*UNREADABLE, MemoryError):
        raise InputError(f"{path} is not an NPZ file of plain arrays: write it again.") from None
    for needed in ("values", "names", "times"):
        if needed not in arrays:
            raise InputError(f"{path}: no array {needed!r}; it has {', '.join(arrays) or 'none'}.")
    values, names, times = (arrays[key] for key in ("values", "names", "times"))
    if names.ndim != 1 or times.ndim != 1 or names.dtype.kind not in "Uiu" or times.dtype.kind not in "UiufM":
        raise InputError(f"{path}: names and times have shapes {names.shape} and {times.shape}: write lists of texts.")
    if values.shape != (names.size, times.size) or values.dtype.kind not in "fiu":
        raise InputError(f"{path}: values has shape {values.shape} and dtype {values.dtype}: write numbers (names, times).")
    if not values.size:
        raise InputError(f"{path}: values is empty: write at least one reading.")
    with np.errstate(over="ignore"):
        values = values.astype(float)
    infinite = np.isinf(values)
    if infinite.any():
        if notes.strict:
            raise InputError(f"{path}: values contains an infinite reading: write NaN where a reading is missing.")
        values[infinite] = np.nan
        notes.fact(f"{count(int(infinite.sum()), 'reading is', 'readings are')} infinite and taken as missing")
    listed = tuple(map(str, names.tolist()))
    distinct(str(path), listed)
    labels = times.astype(str) if times.dtype.kind == "M" else [str(time) for time in times.tolist()]
    return listed, np.array(list(labels), dtype=object), values
