"""Propagation through the whole graph into files, for some columns of the features at a time.

The loops and the order of sums are those of the propagation in memory: numbers are the same to the last bit. Neighbors' rows
are wanted in any order, and would come from the disk one by one: so they are in memory, for as many columns as fit. Files are
read and written in order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nareg._core import checks
from nareg.progress import Progress, ProgressCallback
from nareg.unlearning.propagation import kernels
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.store.table import Table

#: Bytes of rows that are read or written at a time.
PIECE = 2**25
#: Arrays (N, B) of the B columns at a time: a level, the next one, and the sum of all.
ARRAYS = 3
#: Share of the tables' bytes that is used as memory by default, and the least.
SHARE, LEAST = 0.4, 2**28


def allowed(tables: list[Table], n_nodes: int, memory: int | None) -> float:
    """Bytes of memory that may be used: two fifths of those of the tables, at least 256 MiB, or what the user says."""
    return max(SHARE * n_nodes * sum(table.row_bytes for table in tables), LEAST) if memory is None else float(memory)


def propagate(
    graph: LiveGraph,
    tables: list[Table],
    row: np.ndarray,
    weights: np.ndarray,
    memory: int | None,
    *,
    first: int = 1,
    progress: ProgressCallback | None = None,
) -> None:
    """Write ``q_l = D^1/2 P^l X`` for first <= l < L, and ``S = sum_l w_l q_l`` with the row of a node where ``row`` says.

    Parameters
    ----------
    graph : LiveGraph
    tables : list of tables
        X, the reserves level by level, and S. There may be spare rows.
    row : (N,) array
    weights : (L + 1,) array
    memory : int or None
        As in :func:`allowed`.
    first : int
        Levels below are up to date.
    progress : callable, optional
        Receives a :class:`nareg.progress.Progress` for every level of some columns.
    """
    degrees, features, reserves, total = graph.degrees, tables[0], tables[1:-1], tables[-1]
    n, width = degrees.size, features.row_shape[0]
    step = _step(tables, n, memory)
    for start in range(0, width, step):
        block = slice(start, min(start + step, width))
        below, sums = _read(features, n, block), np.zeros((n, block.stop - block.start))
        if weights[0]:
            for place in _pieces(n, features.row_bytes):
                kernels.add_rows(row[place], below[place] * np.sqrt(degrees[place])[:, None], weights[0], sums)
        for level, table in enumerate(reserves, start=1):
            below = _level(graph, degrees, below, level) if level >= first else _read(table, n, block)
            if weights[level]:
                kernels.add_rows(row, below, weights[level], sums)
            if level >= first:
                _write(table, below, block)
            _report(progress, start, level, width, step, weights.size - 1)
        order = weights.size - 1
        if order and weights[-1]:
            kernels.gather(*graph.rows, below, _scale(degrees, order), row, weights[-1], sums)
        _write(total, sums, block)
        _report(progress, start, order, width, step, order)


def rows_of_sum(
    graph: LiveGraph, tables: list[Table], nodes: np.ndarray, weights: np.ndarray, memory: int | None
) -> np.ndarray:
    """(K, F): the rows of these nodes in S, from graph and features alone; nothing is written."""
    degrees, features = graph.degrees, tables[0]
    n, width = degrees.size, features.row_shape[0]
    rows, step = np.empty((nodes.size, width)), _step(tables, n, memory)
    for start in range(0, width, step):
        block = slice(start, min(start + step, width))
        below = _read(features, n, block)
        rows[:, block] = weights[0] * np.sqrt(degrees[nodes])[:, None] * below[nodes]
        for level in range(1, weights.size):
            below = _level(graph, degrees, below, level)
            rows[:, block] += weights[level] * below[nodes]
    return rows


def _step(tables: list[Table], n: int, memory: int | None) -> int:
    """Columns at a time."""
    width = tables[0].row_shape[0]
    checks.memory("one column of the embedding", 8 * ARRAYS * n, alternative="use a machine with more memory")
    columns = max(int(allowed(tables, n, memory) // (8 * ARRAYS * n)), 1)
    return -(-width // -(-width // columns))


def _report(progress: ProgressCallback | None, start: int, level: int, width: int, step: int, order: int) -> None:
    if progress is not None:
        done, total = start // step * max(order, 1) + max(level, 1), -(-width // step) * max(order, 1)
        progress(Progress("propagation", done, total, done / total))


def _level(graph: LiveGraph, degrees: np.ndarray, below: np.ndarray, level: int) -> np.ndarray:
    """``q_l`` from the level below, X for the first one."""
    reserve = np.zeros_like(below)
    kernels.gather(*graph.rows, below, _scale(degrees, level), np.arange(degrees.size), 1.0, reserve)
    return reserve


def _scale(degrees: np.ndarray, level: int) -> np.ndarray:
    return degrees**-0.5 if level == 1 else 1 / degrees


def _read(table: Table, n: int, block: slice) -> np.ndarray:
    columns = np.empty((n, block.stop - block.start))
    for place in _pieces(n, table.row_bytes):
        columns[place] = table.read(place.start, place.stop)[:, block]
    return columns


def _write(table: Table, columns: np.ndarray, block: slice) -> None:
    for place in _pieces(len(columns), table.row_bytes):
        table.write(place.start, columns[place], block)


def _pieces(n: int, row_bytes: int) -> Iterator[slice]:
    step = max(PIECE // row_bytes, 1)
    for first in range(0, n, step):
        yield slice(first, min(first + step, n))
