"""A graph on disk, of which any range of rows is read by itself."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._storage import array_files, folders
from nareg._storage.graph_layout import GraphLayout, opened
from nareg.errors import InputError

#: Held while an open file is read, on systems that cannot read from a place without seeking it.
_SEEKING = threading.Lock()
#: Bytes of entries that are read at a time.
CHUNK = 2**25


class Rows(NamedTuple):
    """Rows ``first`` to ``last`` of the adjacency: row ``first + i`` has the entries ``indptr[i]`` to ``indptr[i + 1]``.

    ``weights`` is None where all are one.
    """

    first: int
    last: int
    indptr: np.ndarray
    indices: np.ndarray
    weights: np.ndarray | None


class StoredGraph:
    """A graph in a folder that ``nareg convert`` or :meth:`nareg.Graph.save` wrote, opened without reading its edges.

    Parameters
    ----------
    path : path
        The folder, ``NAME.graph``.

    Attributes
    ----------
    path : pathlib.Path
    n_nodes, n_edges : int
        Nodes, and undirected edges.
    n_bytes : int
        Bytes of all its files.

    Raises
    ------
    InputError
        If a file is missing, cut off or inconsistent; the message names it.

    Examples
    --------
    >>> import pathlib, tempfile, nareg
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "grid.graph"
    >>> nareg.graphs.grid((2, 2)).save(folder)
    >>> stored = nareg.io.StoredGraph(folder)
    >>> stored
    StoredGraph(n_nodes=4, n_edges=4)
    >>> stored.rows(1, 3).indices
    array([0, 3, 0, 3], dtype=int32)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._layout, self._files = _opened(self.path)
        weakref.finalize(self, _close, list(self._files.values()))
        self.n_nodes, self.n_edges = self._layout.n_nodes, self._layout.n_edges
        self.n_bytes = sum(self._layout.sizes.values())
        ends = self.indptr[0], self.indptr[-1]
        if ends != (0, self._layout.n_entries):
            raise self._refusal("indptr", f"runs from {ends[0]} to {ends[1]}, 0 to {self._layout.n_entries} is expected")

    @property
    def indptr(self) -> np.ndarray:
        """Row starts, (N + 1,) int64, memory-mapped."""
        return self._mapped("indptr")

    @property
    def indices(self) -> np.ndarray:
        """Columns, (2M,) int32 or int64, memory-mapped."""
        return self._mapped("indices")

    @property
    def weights(self) -> np.ndarray | None:
        """Edge weights, (2M,) float32 or float64, memory-mapped; None where all are one."""
        return None if self._layout.weights is None else self._mapped("weights")

    @property
    def coordinates(self) -> np.ndarray | None:
        """(N, d) positions, or None."""
        return self._read_more("coordinates")

    @property
    def names(self) -> tuple[str, ...] | None:
        """Node names, or None."""
        names = self._read_more("names")
        return None if names is None else tuple(map(str, names.tolist()))

    @property
    def metric(self) -> str:
        """Distance between positions."""
        return self._layout.metric

    def rows(self, first: int, last: int) -> Rows:
        """Some rows, read into memory and checked: columns are within the graph.

        Raises
        ------
        InputError
            If the file is cut off or damaged there.
        """
        starts = self._numbers("indptr", first, last + 1)
        begin, end = int(starts[0]), int(starts[-1])
        if not 0 <= begin <= end <= self._layout.n_entries or (np.diff(starts) < 0).any():
            raise self._refusal("indptr", f"does not rise in rows {first} to {last}")
        indices = self._numbers("indices", begin, end)
        if indices.size and not (indices.min() >= 0 and indices.max() < self.n_nodes):
            bad = int(indices.min()) if indices.min() < 0 else int(indices.max())
            raise self._refusal("indices", f"names node {bad} of {self.n_nodes} in rows {first} to {last}")
        weights = None if self._layout.weights is None else self._numbers("weights", begin, end)
        starts -= begin
        return Rows(first, last, starts, indices, weights)

    def row_ranges(self, n_bytes: int = CHUNK) -> Iterator[tuple[int, int]]:
        """Consecutive ranges of rows that cover the graph, each with entries of about so many bytes (one row at least)."""
        per_entry = sum(kind.itemsize for name, (kind, _) in self._layout.arrays.items() if name != "indptr")
        per_row = 8 + per_entry * self._layout.n_entries / self.n_nodes
        most = max(int(n_bytes / 8), 1)  # row starts are looked at a piece at a time
        first = 0
        while first < self.n_nodes:
            last = min(first + min(max(int(2 * n_bytes / per_row), 1), most), self.n_nodes)
            starts = self._numbers("indptr", first, last + 1)
            cost = per_entry * (starts[1:] - starts[0]) + 8 * np.arange(1, starts.size)
            last = first + max(int(np.searchsorted(cost, n_bytes, side="right")), 1)
            yield first, last
            first = last

    def adjacency(self) -> sp.csr_array:
        """The whole adjacency in memory, (N, N) CSR, with the weights as stored (float64 ones where there are none)."""
        checks.memory(f"the graph {self.path}", self.n_bytes, alternative="pass the folder to filters.denoise")
        parts = self.rows(0, self.n_nodes)
        weights = np.ones(parts.indices.size) if parts.weights is None else parts.weights
        return sp.csr_array((weights, parts.indices, parts.indptr), shape=(self.n_nodes, self.n_nodes))

    def __reduce__(self) -> tuple[type[StoredGraph], tuple[Path]]:
        return StoredGraph, (self.path,)

    def __repr__(self) -> str:
        return f"StoredGraph(n_nodes={self.n_nodes}, n_edges={self.n_edges})"

    def _mapped(self, name: str) -> np.ndarray:
        kind, count = self._layout.arrays[name]
        if count == 0:  # nothing to map
            return np.zeros(0, kind)
        return np.memmap(self._files[name], dtype=kind, mode="r", offset=array_files.NPY_HEADER, shape=(count,))

    def _numbers(self, name: str, first: int, last: int) -> np.ndarray:
        """Part of an array by plain reads: mapped pages would count as memory of this process."""
        kind, _ = self._layout.arrays[name]
        numbers = np.empty(last - first, kind)
        if read_at(self._files[name], array_files.NPY_HEADER + kind.itemsize * first, numbers) < numbers.nbytes:
            raise self._refusal(name, "is shorter than when it was opened")
        return numbers

    def _read_more(self, name: str) -> Any:
        if f"{name}.npy" not in self._layout.more:
            return None
        array = array_files.read_npy(self.path / f"{name}.npy", self._files[name])
        if len(array) != self.n_nodes:
            raise self._refusal(name, f"has {len(array)} rows for {self.n_nodes} nodes")
        return array

    def _refusal(self, name: str, why: str) -> InputError:
        return InputError(f"{self.path / name}.npy {why}: it is damaged, convert again.")


def _opened(path: Path) -> tuple[GraphLayout, dict[str, Any]]:
    """The files of the graph that is there, or that takes its place while they are being opened."""
    while True:
        folder = folders.whole_folder(path)
        with _in_use(folder) as before:
            try:
                return opened(folder)
            except InputError:
                if before == _number(folders.whole_folder(path)):
                    raise


def _close(files: list[Any]) -> None:
    for file in files:
        file.close()


@contextmanager
def _in_use(folder: Path) -> Iterator[tuple[int, int] | None]:
    """The number of the folder that has this path now. While it is open, no later folder can have that number."""
    try:
        handle = os.open(folder, os.O_RDONLY) if os.open in os.supports_dir_fd else None
    except OSError:
        handle = None
    try:
        yield _number(folder if handle is None else handle)
    finally:
        if handle is not None:
            os.close(handle)


def _number(folder: Path | int) -> tuple[int, int] | None:
    """Of the folder that has this path now, or of an open one."""
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def read_at(handle: Any, offset: int, numbers: np.ndarray) -> int:
    """Fill an array from an open file, which other threads may read meanwhile; returns the bytes read, fewer at its end."""
    view = numbers.reshape(-1).data.cast("B") if numbers.size else memoryview(b"")
    done = 0
    while done < len(view):
        part = view[done : done + 2**30]
        if hasattr(os, "preadv"):
            count = os.preadv(handle.fileno(), [part], offset + done)
        else:
            with _SEEKING:
                handle.seek(offset + done)
                count = handle.readinto(part)
        if not count:
            break
        done += count
    return done


def write_all(handle: Any, array: np.ndarray) -> None:
    """Write an array to an unbuffered file, which may take a part at a time."""
    view, done = array.reshape(-1).view(np.uint8).data if array.size else memoryview(b""), 0
    while done < len(view):
        done += handle.write(view[done:])
