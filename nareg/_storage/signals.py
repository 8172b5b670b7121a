"""Signals on disk, (N, T) in NumPy's format, read and written by rows and columns with plain reads and writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from nareg._core import checks
from nareg._storage import array_files
from nareg._storage.files import atomic_write
from nareg._storage.graph_files import read_at, write_all
from nareg.errors import InputError

#: Bytes of signals that are read at a time.
PIECE = 2**23
#: Rows of vectors that are worked on at a time.
ROWS = 2**16


class NodeVectors:
    """A few numbers per node, (N, B), in memory or (with ``folder``) in a scratch file that goes with this object."""

    def __init__(self, shape: tuple[int, int], dtype: Any, folder: Path | None) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        #: None where they are on disk.
        self.array: np.ndarray | None = np.empty(shape, dtype) if folder is None else None
        self._file = None if folder is None else TemporaryFile(dir=folder, prefix=".nareg-", buffering=0)  # noqa: SIM115

    def rows(self, place: slice) -> np.ndarray:
        """Some rows: a view of those in memory, or a copy of those on disk."""
        if self.array is not None:
            return self.array[place]
        rows = np.empty((min(place.stop, self.shape[0]) - place.start, self.shape[1]), self.dtype)
        if read_at(self._file, place.start * self.shape[1] * self.dtype.itemsize, rows) < rows.nbytes:
            raise OSError("a scratch file is shorter than what was written to it")
        return rows

    def store(self, place: slice, rows: np.ndarray) -> None:
        """Write some rows; nothing is left to do for a view that :meth:`rows` gave."""
        if self.array is not None:
            if not np.may_share_memory(rows, self.array):
                self.array[place] = rows
            return
        assert self._file is not None
        self._file.seek(place.start * self.shape[1] * self.dtype.itemsize)
        write_all(self._file, np.ascontiguousarray(rows, self.dtype))

    def pieces(self) -> Iterator[slice]:
        """Places of all rows, in pieces."""
        for first in range(0, self.shape[0], ROWS):
            yield slice(first, min(first + ROWS, self.shape[0]))

    def close(self) -> None:
        """Give memory or file back."""
        self.array = None
        if self._file is not None:
            self._file.close()


class SignalFile:
    """Signals in an ``.npy`` file, or in an array, (N,) or (N, T), float32 or float64 (integers count as float64).

    A file is read in pieces by plain reads: mapped pages would count as memory of this process.
    """

    def __init__(self, name: str, signals: Any, n_nodes: int) -> None:
        if isinstance(signals, (str, os.PathLike)):
            self._name = str(signals)
            array: np.ndarray = array_files.map_npy(existing(name, signals))
        else:
            self._name, array = name, checks.array_of(name, signals)
        #: None for an array in memory, and for a part of a file.
        self._path: Path | None = None
        if isinstance(array, np.memmap) and _is_whole(array):
            self._path, self._offset = Path(str(array.filename)), array.offset
        if array.ndim not in (1, 2) or array.dtype.kind not in "fiu":
            raise InputError(
                f"{self._name} has shape {array.shape} and dtype {array.dtype}: numbers ({n_nodes}, T) are expected."
            )
        if array.shape[0] != n_nodes or array.size == 0:
            raise InputError(
                f"{self._name} has shape {array.shape} but the graph has {n_nodes} nodes: one row per node is expected."
            )
        self.shape: tuple[int, ...] = array.shape
        self.n_columns = 1 if array.ndim == 1 else array.shape[1]
        self.dtype = np.dtype(np.float32) if array.dtype == np.float32 else np.dtype(np.float64)
        self.n_bytes = int(array.nbytes)
        #: Whether it is a file in which the columns of a row lie side by side.
        self.stores_rows = self._path is not None and array.flags.c_contiguous
        self._array = array

    def rows(self, place: slice, columns: slice) -> np.ndarray:
        """Some rows of some columns, (rows, columns), finite."""
        whole = self._path is None
        part = self._array[place].reshape(-1, self.n_columns)[:, columns] if whole else self._read(place, columns)
        # a sum is finite only if its terms are
        if part.dtype.kind == "f" and not np.isfinite(part.sum(dtype=np.float64)):
            bad = np.argwhere(~np.isfinite(part))
            if bad.size:
                i, t = bad[0]
                raise InputError(
                    f"{self._name}[{place.start + i}, {columns.start + t}] is {part[i, t]}: values must be finite; fill or "
                    "drop what is missing."
                )
        return part

    def pieces(self, columns: slice) -> Iterator[tuple[slice, np.ndarray]]:
        """All rows of some columns in order, in pieces, with their place."""
        n = self.shape[0]
        count = max(PIECE * n // self.n_bytes, 1)
        for first in range(0, n, count):
            place = slice(first, min(first + count, n))
            yield place, self.rows(place, columns)

    def _read(self, place: slice, columns: slice) -> np.ndarray:
        array, n = self._array, self.shape[0]
        size = array.dtype.itemsize
        if array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous:
            part = np.empty((columns.stop - columns.start, place.stop - place.start), array.dtype)
            for row, column in zip(part, range(columns.start, columns.stop), strict=True):
                self._fill(size * (column * n + place.start), row)
            return part.T
        part = np.empty((place.stop - place.start, self.n_columns), array.dtype)
        self._fill(size * self.n_columns * place.start, part)
        return part[:, columns]

    def _fill(self, offset: int, numbers: np.ndarray) -> None:
        assert self._path is not None
        with open(self._path, "rb", buffering=0) as handle:
            if read_at(handle, self._offset + offset, numbers) < numbers.nbytes:
                raise InputError(f"{self._path} is shorter than when it was opened: write it again.")


class ColumnBlock:
    """Some columns of signals, read in pieces as often as needed.

    Few columns of a file in row order would take the whole file each time: they are copied to a scratch file in ``folder``.
    """

    def __init__(self, source: SignalFile, columns: slice, folder: Path | None) -> None:
        self._source, self._columns, self._copy = source, columns, None
        if source.stores_rows and columns.stop - columns.start < source.n_columns:
            copy = NodeVectors((source.shape[0], columns.stop - columns.start), source.dtype, folder)
            for place, rows in source.pieces(columns):
                copy.store(place, rows)
            self._copy = copy

    def rows(self, place: slice) -> np.ndarray:
        """Some rows, (rows, columns)."""
        return self._source.rows(place, self._columns) if self._copy is None else self._copy.rows(place)

    def pieces(self) -> Iterator[tuple[slice, np.ndarray]]:
        """All rows in order, in pieces, with their place."""
        if self._copy is None:
            yield from self._source.pieces(self._columns)
        else:
            yield from ((place, self._copy.rows(place)) for place in self._copy.pieces())

    def close(self) -> None:
        """Give the scratch file back."""
        if self._copy is not None:
            self._copy.close()


def _is_whole(array: np.memmap[Any, Any]) -> bool:
    """Whether a memory map is one as NumPy opened it, not a part of it."""
    return isinstance(array.filename, (str, os.PathLike)) and not isinstance(array.base, np.ndarray) and array.dtype.isnative


def existing(name: str, path: str | os.PathLike[str]) -> Path:
    """The path of a file that an argument names; refused if there is none."""
    if not Path(path).is_file():
        raise InputError(f"{name} is {str(path)!r}, which is no file: pass an .npy file or an array.")
    return Path(path)


def refuse_output(out: str | os.PathLike[str], *inputs: Any) -> None:
    """Refuse an output that is no ``.npy`` file or would overwrite an input, before any work is done."""
    path = Path(out)
    if path.suffix != ".npy":
        raise InputError(f"out is {str(out)!r}: its name must end in .npy.")
    if path.is_dir():
        raise InputError(f"out is {str(out)!r}, which is a folder: name a file.")
    for source in inputs:
        if isinstance(source, np.memmap):
            source = source.filename
        if isinstance(source, (str, os.PathLike)) and path.exists() and Path(source).exists() and path.samefile(source):
            raise InputError(f"out is {str(out)!r}, which is an input too: name another file.")


@contextmanager
def signal_writer(
    path: str | os.PathLike[str], shape: tuple[int, ...], dtype: np.dtype[Any], *, by_columns: bool
) -> Iterator[Callable[[slice, slice, np.ndarray], None]]:
    """An ``.npy`` file that appears whole or not at all; the function writes some rows of some columns.

    ``by_columns`` stores columns one after another: then a few columns at a time are written without reading others.
    """
    size, columns_all = dtype.itemsize, shape[1] if len(shape) == 2 else 1
    with atomic_write(path) as handle:
        handle.write(array_files.npy_header(dtype, shape, by_columns=by_columns))

        def write(place: slice, columns: slice, values: np.ndarray) -> None:
            values = values.astype(dtype, copy=False)
            if by_columns:
                for k, column in enumerate(range(columns.start, columns.stop)):
                    handle.seek(array_files.NPY_HEADER + size * (column * shape[0] + place.start))
                    handle.write(np.ascontiguousarray(values[:, k]).data)
            else:
                assert values.shape[1] == columns_all
                handle.seek(array_files.NPY_HEADER + size * columns_all * place.start)
                handle.write(np.ascontiguousarray(values).data)

        yield write
