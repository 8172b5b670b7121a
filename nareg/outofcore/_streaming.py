"""Rows of a stored graph in order, the next ones read while the current ones are worked on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from nareg import _checks
from nareg._graph_files import Rows, StoredGraph
from nareg.errors import TooLargeError
from nareg.outofcore import _kernels

#: Bytes of entries that are read at a time: few enough that the sums over their neighbors stay in a cache.
CHUNK = 2**23
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

    def products(self, V: np.ndarray, out: np.ndarray | None = None) -> Iterator[tuple[slice, np.ndarray]]:
        """Rows of ``A V`` in pieces, with their place; in ``out`` if that is given, else in memory of one piece."""
        for part in self.rows():
            place = slice(part.first, part.last)
            sums = np.empty((part.last - part.first, V.shape[1]), V.dtype) if out is None else out[place]
            _kernels.neighbor_sums(part.indptr, part.indices, _weights(part), V, sums)
            yield place, sums

    def degrees(self) -> np.ndarray:
        """Weighted degrees ``A 1``, (N,) float64."""
        degrees = np.empty(self.graph.n_nodes)
        for part in self.rows():
            _kernels.weighted_degrees(part.indptr, _weights(part), degrees[part.first : part.last])
        return degrees


def _weights(part: Rows) -> np.ndarray:
    return np.empty(0, np.float32) if part.weights is None else part.weights


def column_blocks(n_columns: int, *, per_column: int, fixed: int, data: int, memory: int | None) -> tuple[list[slice], int]:
    """Columns that are worked on at a time, about equally many, and the bytes that this takes.

    Parameters
    ----------
    n_columns : int
    per_column, fixed : int
        Bytes that each column takes, and those for any number of columns.
    data : int
        Bytes of the graph and the signals: a third of it is used by default.
    memory : int or None
        Bytes that may be used.
    """
    fixed += 8 * CHUNK
    least = fixed + per_column
    allowed = max(data // 3, LEAST, least) if memory is None else _checks.integer("memory", memory, low=1)
    if least > allowed:
        raise TooLargeError(f"memory is {allowed} bytes, but vectors of one number per node take {least}: allow as many.")
    _checks.memory("one signal at a time", least, alternative="use a machine with more memory, or several")
    blocks = -(-n_columns // max((allowed - fixed) // per_column, 1))
    width = -(-n_columns // blocks)
    starts = range(0, n_columns, width)
    return [slice(first, min(first + width, n_columns)) for first in starts], fixed + width * per_column
