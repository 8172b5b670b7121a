"""Arrays on disk whose changes stay in memory until a journal has them.

A table is mapped copy on write: a request changes pages of its own, which no other process and no crash can see. To undo it
the file is mapped anew. To carry it out, the changed rows go to a journal, and from there to the file. Rows are checked
against their checksums before a request relies on them, so that bits that flip on the disk are found.

The checksum of a block adds up one number per word of 8 bytes, ``mixed(word) (2 i + 1)`` modulo 2^64 for the i-th. Mixing is
one to one, and so is multiplication by an odd number: a change within one word always changes the sum, and any other change
with all but a chance of about 2^-64. Zeros count nothing, so a file that grows by zeros keeps its sums. They are no protection
against whoever means to change the files, and can write new sums.
"""

from __future__ import annotations

import functools
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np

from nareg._core.compiled import parallel
from nareg._storage.array_files import NPY_HEADER, header_of, npy_header
from nareg._storage.files import own_file, sync
from nareg._storage.graph_files import read_at, write_all
from nareg.errors import UNREADABLE, brief
from nareg.unlearning.store.state import damaged

#: Spare rows of a table that grows, as a share of its rows. They take no room on disk until they are used.
SPARE = 0.25
#: Bytes of rows that are read at a time to add them up.
PIECE = 2**24
#: Bytes of a block, about: a page of memory, which is read as a whole anyway.
BLOCK = 4096
#: Bytes of a word.
WORD = 8
_FACTOR, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


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
    sums : (B,) uint64 array or None
        Checksums of its blocks; of those behind them the sum is 0. None while there are none.

    Raises
    ------
    LedgerError
        If the file is missing, cut off or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sums: np.ndarray | None = None
        try:
            with self._open() as handle:
                header = header_of(handle, os.fstat(handle.fileno()).st_size, str(path), more=True)
                start = handle.tell()
        except UNREADABLE as error:
            raise damaged(path, f"cannot be read ({brief(error)})") from None
        if header.by_columns or not header.shape or start != NPY_HEADER:
            raise damaged(path, "is damaged")
        self.dtype, self.row_shape, self.capacity = header.dtype, header.shape[1:], header.shape[0]
        #: Bytes of a row.
        self.row_bytes = int(self.dtype.itemsize * np.prod(self.row_shape, dtype=np.int64))
        self.per_block = rows_per_block(self.row_bytes)
        self.attach()

    @classmethod
    def create(cls, path: Path, dtype: Any, shape: tuple[int, ...]) -> Table:
        """A new table of zeros, which take no room on disk."""
        kind = np.dtype(dtype)
        with open(path, "xb") as handle:
            handle.write(npy_header(kind, shape))
            handle.truncate(NPY_HEADER + kind.itemsize * int(np.prod(shape, dtype=np.int64)))
        return cls(path)

    def _open(self, flags: int = os.O_RDONLY) -> Any:
        return os.fdopen(own_file(self.path, flags), "r+b" if flags else "rb", buffering=0)

    @property
    def n_blocks(self) -> int:
        """Blocks that have a checksum."""
        return -(-self.capacity // self.per_block)

    def attach(self) -> None:
        """Map the file as it is now: changes that were not written are gone. Views of the array before keep it alive."""
        with self._open() as handle:
            self.array = np.ndarray((self.capacity, *self.row_shape), self.dtype, _private(handle.fileno()), NPY_HEADER)
        self._noted: list[np.ndarray] = []
        self.forget_checks()

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
        with self._open(os.O_RDWR) as handle:  # a header that is still the old one leaves the new rows out
            handle.truncate(NPY_HEADER + self.capacity * self.row_bytes)
            handle.write(npy_header(self.dtype, (self.capacity, *self.row_shape)))
        self.sync()  # the journal of the request needs them
        self.attach()
        self.array[noted] = before[noted]
        self.note(noted)

    def read(self, first: int, last: int) -> np.ndarray:
        """A copy of some rows by plain reads, with the changes of noted ones: mapped pages would count as memory."""
        begin = first // self.per_block * self.per_block
        rows = self._block_rows(begin, -(-last // self.per_block))
        if self.sums is not None:
            self._compare(np.arange(begin // self.per_block, -(-last // self.per_block)), self._summed(rows))
        rows = rows[first - begin : last - begin]
        noted = self.noted()
        noted = noted[slice(*np.searchsorted(noted, (first, last)))]
        rows[noted - first] = self.array[noted]
        return rows

    def write(self, first: int, rows: np.ndarray, columns: slice = slice(None)) -> None:
        """Write rows to the file, or some of their columns; they are not seen here before the next :meth:`attach`."""
        width = self.row_shape[0] if self.row_shape else 1
        if columns.indices(width) == (0, width, 1):
            with self._open(os.O_RDWR) as handle:
                handle.seek(NPY_HEADER + first * self.row_bytes)
                write_all(handle, np.ascontiguousarray(rows, self.dtype))
            return
        shape, start = (len(rows), width), NPY_HEADER + first * self.row_bytes
        with self._open(os.O_RDWR) as handle:
            part: np.ndarray = np.memmap(handle, self.dtype, "r+", start, shape)
        part[:, columns] = rows

    def forget_checks(self) -> None:
        """Begin a request: no block was compared with its checksum yet."""
        self._checked = np.zeros(self.n_blocks, dtype=bool)

    def check(self, rows: np.ndarray) -> None:
        """Compare blocks that have these rows with their checksums, before the rows change. Each is compared once per request.

        Raises
        ------
        LedgerError
            If one is damaged.
        """
        wanted = np.zeros(self.n_blocks, dtype=bool)
        wanted[rows // self.per_block] = True
        self._check(np.flatnonzero(wanted & ~self._checked))

    def check_runs(self, first: np.ndarray, count: np.ndarray) -> None:
        """The same for runs of rows, ``count[i]`` of them from ``first[i]`` on."""
        some = count > 0
        begin, end = first[some] // self.per_block, (first[some] + count[some] - 1) // self.per_block
        steps = np.zeros(self.n_blocks + 1, dtype=np.int64)
        np.add.at(steps, begin, 1)
        np.add.at(steps, end + 1, -1)
        self._check(np.flatnonzero((np.cumsum(steps[:-1]) > 0) & ~self._checked))

    def check_first(self, count: int) -> None:
        """The same for the first rows."""
        self._check(np.flatnonzero(~self._checked[: -(-count // self.per_block)]))

    def check_file(self) -> None:
        """Compare the whole file with its checksums by plain reads, whatever was compared before."""
        for begin, end in self._block_pieces():
            self._compare(np.arange(begin, end), self._summed(self._block_rows(begin * self.per_block, end)))

    def new_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Blocks whose rows were noted, and their new checksums; those that were not checked yet are compared in the file."""
        blocks = np.unique(self.noted() // self.per_block)
        self._check(blocks[~self._checked[blocks]])
        return blocks, checksums(self._bytes(self.array), blocks, self.per_block * self.row_bytes)

    def file_sums(self) -> np.ndarray:
        """Checksums of all blocks as the file has them."""
        parts = (self._summed(self._block_rows(begin * self.per_block, end)) for begin, end in self._block_pieces())
        return np.concatenate([np.empty(0, np.uint64), *parts])

    def _block_pieces(self) -> Iterator[tuple[int, int]]:
        step = max(PIECE // (self.per_block * self.row_bytes), 1)
        for begin in range(0, self.n_blocks, step):
            yield begin, min(begin + step, self.n_blocks)

    def _block_rows(self, first: int, end: int) -> np.ndarray:
        """Rows from the first one to the end of the block before ``end``, by plain reads."""
        rows = np.empty((min(end * self.per_block, self.capacity) - first, *self.row_shape), self.dtype)
        with self._open() as handle:
            if read_at(handle, NPY_HEADER + first * self.row_bytes, rows) < rows.nbytes:
                raise damaged(self.path, "is shorter than when it was opened")
        return rows

    def _summed(self, rows: np.ndarray) -> np.ndarray:
        return checksums(self._bytes(rows), np.arange(-(-len(rows) // self.per_block)), self.per_block * self.row_bytes)

    def _bytes(self, rows: np.ndarray) -> np.ndarray:
        return rows.reshape(-1).view(np.uint8)

    def _check(self, blocks: np.ndarray) -> None:
        """Compare blocks with their checksums: in memory, or in the file where rows of theirs may have changed since."""
        if not blocks.size or self.sums is None:
            return
        changed = np.isin(blocks, self.noted() // self.per_block) if self._noted else np.zeros(blocks.size, dtype=bool)
        same = blocks[~changed]
        self._compare(same, checksums(self._bytes(self.array), same, self.per_block * self.row_bytes))
        for block in blocks[changed].tolist():
            self._compare(np.array([block]), self._summed(self._block_rows(block * self.per_block, block + 1)))
        self._checked[blocks] = True

    def _compare(self, blocks: np.ndarray, computed: np.ndarray) -> None:
        assert self.sums is not None
        stated = np.zeros(blocks.size, np.uint64)
        there = blocks < self.sums.size
        stated[there] = self.sums[blocks[there]]
        if (stated != computed).any():
            first = int(blocks[stated != computed][0]) * self.per_block
            last = min(first + self.per_block, self.capacity) - 1
            raise damaged(f"{self.path}:", f"rows {first} to {last} are damaged, they do not have their checksum")

    def sync(self) -> None:
        """Wait until everything that was written is on the disk."""
        sync(self.path)


def _private(file: int) -> mmap.mmap:
    """The file, mapped so that changes are seen here alone."""
    if hasattr(mmap, "MAP_PRIVATE"):  # nothing is reserved for pages that are never changed
        flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0)
        return mmap.mmap(file, 0, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    return mmap.mmap(file, 0, access=mmap.ACCESS_COPY)


def rows_per_block(row_bytes: int) -> int:
    """So many that a block has whole words.

    Examples
    --------
    >>> rows_per_block(8), rows_per_block(10_000), rows_per_block(12)
    (512, 1, 336)
    """
    rows = max(BLOCK // max(row_bytes, 1), 1)
    return rows if row_bytes % WORD == 0 else max(rows // WORD * WORD, WORD)


def checksums(data: np.ndarray, blocks: np.ndarray, block_bytes: int) -> np.ndarray:
    """Sums of these blocks of some bytes; where the bytes end, zeros follow.

    Examples
    --------
    >>> data = np.zeros(8192, np.uint8)
    >>> data[5000] = 1
    >>> [bool(one) for one in checksums(data, np.arange(2), 4096)]
    [False, True]
    """
    whole = data.size // WORD
    sums = np.zeros(blocks.size, np.uint64)
    _add_up(data[: whole * WORD].view(np.uint64), blocks, block_bytes // WORD, sums)
    if data.size % WORD:
        last = np.zeros(WORD, np.uint8)
        last[: data.size - whole * WORD] = data[whole * WORD :]
        block, place = divmod(whole, block_bytes // WORD)
        sums[blocks == block] += _mixed(last.view(np.uint64)) * np.uint64(2 * place + 1)
    return sums


def _mixed(word: np.ndarray) -> np.ndarray:
    word = word * _FACTOR
    return word ^ (word >> _HALF)


@functools.partial(parallel, size=lambda words, blocks, per_block, sums: blocks.size * per_block)
def _add_up(words: np.ndarray, blocks: np.ndarray, per_block: int, sums: np.ndarray) -> None:
    for k in numba.prange(blocks.size):
        first = blocks[k] * per_block
        part = words[first : min(first + per_block, words.size)]
        total = np.uint64(0)
        for i in range(part.size):  # in lanes, as sums of integers may be taken in any order
            word = part[i] * _FACTOR
            total += (word ^ (word >> _HALF)) * np.uint64(2 * i + 1)
        sums[k] = total
