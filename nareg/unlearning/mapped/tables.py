"""Arrays on disk whose changes stay in memory until a journal has them.

A table is mapped copy on write: a request changes pages of its own, which no other process and no crash can see. To undo it
the file is mapped anew. To carry it out, the changed rows go to a journal, and from there to the file.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

from nareg._array_files import NPY_HEADER, header_of, npy_header
from nareg._graph_files.reader import read_into
from nareg.errors import UNREADABLE, LedgerError, brief

#: Spare rows of a table that grows, as a share of its rows. They take no room on disk until they are used.
SPARE = 0.25


class Table:
    """Rows of one size in an ``.npy`` file.

    Parameters
    ----------
    path : path
        A file that :meth:`create` wrote.

    Attributes
    ----------
    array : array
        All rows, spare ones among them. Changes are lost unless they are noted and written.

    Raises
    ------
    LedgerError
        If the file is missing, cut off or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open(path, "rb") as handle:
                header = header_of(handle, os.fstat(handle.fileno()).st_size, str(path), more=True)
                start = handle.tell()
        except UNREADABLE as error:
            raise LedgerError(f"{path} cannot be read ({brief(error)}): restore the folder from a copy.") from None
        if header.by_columns or not header.shape or start != NPY_HEADER:
            raise LedgerError(f"{path} is damaged: restore the folder from a copy.")
        self.dtype, self.row_shape, self.capacity = header.dtype, header.shape[1:], header.shape[0]
        self.attach()

    @classmethod
    def create(cls, path: Path, dtype: Any, shape: tuple[int, ...]) -> Table:
        """A new table of zeros, which take no room on disk."""
        kind = np.dtype(dtype)
        with open(path, "xb") as handle:
            handle.write(npy_header(kind, shape))
            handle.truncate(NPY_HEADER + kind.itemsize * int(np.prod(shape, dtype=np.int64)))
        return cls(path)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return int(self.dtype.itemsize * np.prod(self.row_shape, dtype=np.int64))

    def attach(self) -> None:
        """Map the file as it is now: changes that were not written are gone. Views of the array before keep it alive."""
        with open(self.path, "rb") as handle:
            self.array = np.ndarray((self.capacity, *self.row_shape), self.dtype, _private(handle.fileno()), NPY_HEADER)
        self._noted: list[np.ndarray] = []

    def note(self, rows: np.ndarray) -> None:
        """Note that rows change, or may change."""
        self._noted.append(np.array(rows, dtype=np.int64).ravel())

    def noted(self) -> np.ndarray:
        """Rows that were noted, in rising order."""
        return np.unique(np.concatenate(self._noted)) if self._noted else np.empty(0, dtype=np.int64)

    def grow(self, rows: int) -> None:
        """Make room for so many rows, and some to spare. Noted rows keep their changes; views have to be taken again."""
        if rows <= self.capacity:
            return
        before, noted = self.array, self.noted()
        self.capacity = rows + int(SPARE * rows)
        with open(self.path, "r+b") as handle:  # a header that is still the old one leaves the new rows out
            handle.truncate(NPY_HEADER + self.capacity * self.row_bytes)
            handle.write(npy_header(self.dtype, (self.capacity, *self.row_shape)))
        self.attach()
        self.array[noted] = before[noted]
        self.note(noted)

    def read(self, first: int, last: int) -> np.ndarray:
        """A copy of some rows by plain reads, with the changes of noted ones: mapped pages would count as memory."""
        rows = np.empty((last - first, *self.row_shape), self.dtype)
        if read_into(self.path, NPY_HEADER + first * self.row_bytes, rows) < rows.nbytes:
            raise LedgerError(f"{self.path} is shorter than when it was opened: restore the folder from a copy.")
        noted = self.noted()
        noted = noted[slice(*np.searchsorted(noted, (first, last)))]
        rows[noted - first] = self.array[noted]
        return rows

    def write(self, first: int, rows: np.ndarray, columns: slice = slice(None)) -> None:
        """Write rows to the file, or some of their columns; they are not seen here before the next :meth:`attach`."""
        width = self.row_shape[0] if self.row_shape else 1
        if columns.indices(width) == (0, width, 1):
            with open(self.path, "r+b", buffering=0) as handle:
                handle.seek(NPY_HEADER + first * self.row_bytes)
                write_all(handle, np.ascontiguousarray(rows, self.dtype))
            return
        shape, start = (len(rows), width), NPY_HEADER + first * self.row_bytes
        part: np.ndarray = np.memmap(self.path, self.dtype, "r+", start, shape)
        part[:, columns] = rows

    def sync(self) -> None:
        """Wait until everything that was written is on the disk."""
        sync(self.path)


def _private(file: int) -> mmap.mmap:
    """The file, mapped so that changes are seen here alone."""
    if hasattr(mmap, "MAP_PRIVATE"):  # nothing is reserved for pages that are never changed
        flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0)
        mapped = mmap.mmap(file, 0, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    else:
        mapped = mmap.mmap(file, 0, access=mmap.ACCESS_COPY)
    return mapped


def write_all(handle: Any, array: np.ndarray) -> None:
    """Write an array to an unbuffered file, which may take a part at a time."""
    view, done = array.reshape(-1).view(np.uint8).data if array.size else memoryview(b""), 0
    while done < len(view):
        done += handle.write(view[done:])


def sync(path: Path) -> None:
    """Wait until a file or a folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
