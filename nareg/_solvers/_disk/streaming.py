"""Rows of a stored graph in order, the next ones read while the current ones are worked on; and polynomials in it.

With s = D~^-1/2 and V = s Z, Horner's step ``Z <- a_k X + A~ Z`` of a polynomial in the normalized adjacency reads

    V <- a_k s X + s^2 (A V + V),

which gathers neighbors' rows of V and nothing else. V is in memory, for some columns at a time; its successor, edges and
features are read and written in order, once per step.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from nareg._core import checks
from nareg._solvers._disk import kernels
from nareg._storage.array_files import map_npy
from nareg._storage.graph_files import Rows, StoredGraph
from nareg._storage.signals import ColumnBlock, NodeVectors, SignalFile, refuse_output, signal_writer
from nareg.errors import TooLargeError
from nareg.progress import Progress, ProgressCallback

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


def propagate(
    graph: StoredGraph, x: Any, out: str | os.PathLike[str], coefficients: np.ndarray, *, loops: bool, memory: int | None,
    progress: ProgressCallback | None,
) -> np.ndarray:  # fmt: skip
    """What :func:`nareg.gnn.propagate` does with a graph on disk: edges are read in parts and never all in memory."""
    refuse_output(out, x)
    source = SignalFile("x", x, graph.n_nodes)
    column = source.dtype.itemsize * graph.n_nodes
    blocks, on_disk = column_blocks(
        source.n_columns, in_memory=2 * column, on_disk=column, fixed=8 * graph.n_nodes, data=graph.n_bytes + source.n_bytes,
        memory=memory,
    )  # fmt: skip
    folder = Path(out).resolve().parent if on_disk else None
    edges = EdgeStream(graph)
    degrees = edges.degrees()
    with signal_writer(out, source.shape, source.dtype, by_columns=len(blocks) > 1) as write:
        for b, columns in enumerate(blocks):
            shape = graph.n_nodes, columns.stop - columns.start
            report = _reporter(progress, b, len(blocks))
            with closing(ColumnBlock(source, columns, folder)) as X, closing(NodeVectors(shape, source.dtype, folder)) as other:
                V = _horner(edges, degrees, X, coefficients, loops, other, report)
                for place in other.pieces():
                    root = np.sqrt(_with_loops(degrees[place], loops)[0])[:, None]
                    write(place, columns, V[place] * root.astype(V.dtype))
                del V
    return map_npy(out)


def _horner(
    edges: EdgeStream, degrees: np.ndarray, X: ColumnBlock, coefficients: np.ndarray, loops: bool, other: NodeVectors,
    report: Callable[[int, int], None],
) -> np.ndarray:  # fmt: skip
    """``V = s sum_k coefficients[k] A~^k X`` for some columns."""
    V = np.empty(other.shape, other.dtype)
    for place, x in X.pieces():
        s = 1 / np.sqrt(_with_loops(degrees[place], loops)[0])
        V[place] = (coefficients[-1] * s).astype(V.dtype)[:, None] * x
    for k in range(coefficients.size - 2, -1, -1):
        report(coefficients.size - 1 - k, coefficients.size - 1)
        for place, sums in edges.products(V):
            d, loop = _with_loops(degrees[place], loops)
            sums += V[place] if loops else loop.astype(V.dtype)[:, None] * V[place]
            sums *= (1 / d).astype(V.dtype)[:, None]
            sums += (coefficients[k] / np.sqrt(d)).astype(V.dtype)[:, None] * X.rows(place)
            other.store(place, sums)
        if other.array is not None:
            V, other.array = other.array, V
        else:
            for place in other.pieces():
                V[place] = other.rows(place)
    return V


def _with_loops(degrees: np.ndarray, loops: bool) -> tuple[np.ndarray, np.ndarray]:
    """Diagonal of D~, and weights of the self-loops: at all nodes, or at isolated ones only."""
    loop = np.ones_like(degrees) if loops else (degrees == 0).astype(degrees.dtype)
    return degrees + loop, loop


def _reporter(progress: ProgressCallback | None, block: int, n_blocks: int) -> Callable[[int, int], None]:
    def report(step: int, total: int) -> None:
        if progress is not None:
            done = block * total + step
            progress(Progress("products", done, n_blocks * total, done / (n_blocks * total)))

    return report
