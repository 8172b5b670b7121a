"""Rows of a stored graph in order, the next ones read while the current ones are worked on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from nareg._core import checks
from nareg._solvers._disk import kernels
from nareg._storage.graph_files import Rows, StoredGraph
from nareg.errors import TooLargeError

#: Bytes of entries that are read at a time: few enough that the sums over their neighbors stay in a cache.
CHUNK = 2**23
#: Share of the data's bytes that is used as memory by default.
SHARE = 0.4
#: Least memory that is used by default.
LEAST = 2**28


class EdgeStream:
    """Passes over the rows of a graph; each of them reads all its edges."""

    def __init__(self, graph: StoredGraph) -> None:
        self.graph = graph
        self._ranges = list(graph.row_ranges(CHUNK))

    def rows(self) -> Iterator[Rows]:
        """All rows in order, in pieces."""
        with ThreadPoolExecutor(1) as reader:
            following = reader.submit(self.graph.rows, *self._ranges[0])
            for k in range(len(self._ranges)):
                current = following.result()
                if k + 1 < len(self._ranges):
                    following = reader.submit(self.graph.rows, *self._ranges[k + 1])
                yield current

    def products(self, V: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Rows of ``A V`` in pieces, with their place."""
        for part in self.rows():
            place = slice(part.first, part.last)
            sums = np.empty((part.last - part.first, V.shape[1]), V.dtype)
            kernels.neighbor_sums(part.indptr, part.indices, _weights(part), V, sums)
            yield place, sums

    def differences(self, V: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Rows of ``L V`` in pieces, with their place: no number is the sum of a degree and another."""
        for part in self.rows():
            place = slice(part.first, part.last)
            sums = np.empty((part.last - part.first, V.shape[1]), V.dtype)
            kernels.neighbor_differences(part.indptr, part.indices, _weights(part), V, part.first, sums)
            yield place, sums

    def degrees(self) -> np.ndarray:
        """Weighted degrees ``A 1``, (N,) float64."""
        degrees = np.empty(self.graph.n_nodes)
        for part in self.rows():
            kernels.weighted_degrees(part.indptr, _weights(part), degrees[part.first : part.last])
        return degrees


def _weights(part: Rows) -> np.ndarray:
    return np.empty(0, np.float32) if part.weights is None else part.weights


def column_blocks(
    n_columns: int, *, in_memory: int, on_disk: int, fixed: int, data: int, memory: int | None
) -> tuple[list[slice], bool]:
    """Columns that are worked on at a time, about equally many, and whether vectors that are read in order go to disk.

    Parameters
    ----------
    n_columns : int
    in_memory, on_disk, fixed : int
        Bytes of memory per column with all vectors in memory, and with some on disk; and those for any number of columns.
    data : int
        Bytes of the graph and the signals: :data:`SHARE` of them is used by default.
    memory : int or None
        Bytes that may be used.
    """
    fixed += 4 * CHUNK
    allowed = checks.integer("memory", memory, low=1) if memory is not None else max(int(SHARE * data), LEAST, fixed + on_disk)
    if fixed + on_disk > allowed:
        raise TooLargeError(f"memory is {allowed} bytes, but one column at a time needs {fixed + on_disk}: allow as many.")
    checks.memory("one column of numbers per node", fixed + on_disk, alternative="use a machine with more memory, or several")
    if fixed + n_columns * in_memory <= allowed:
        return [slice(0, n_columns)], False
    blocks = -(-n_columns // ((allowed - fixed) // on_disk))
    width = -(-n_columns // blocks)
    return [slice(first, min(first + width, n_columns)) for first in range(0, n_columns, width)], True
