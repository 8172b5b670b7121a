"""Propagation through the whole graph into files, for some columns of the features at a time.

The loops and the order of sums are those of the propagation in memory: numbers are the same to the last bit. Neighbors' rows
are wanted in any order, and would come from the disk one by one: so they are in memory, for as many columns as fit. Files are
read and written in order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nareg import _checks
from nareg.unlearning.mapped.tables import Table
from nareg.unlearning.propagation import kernels
from nareg.unlearning.propagation.dynamic_graph import LiveGraph

#: Bytes of rows that are read or written at a time.
PIECE = 2**25
#: Arrays (N, B) of the B columns at a time: a level, the next one, and the sum of all.
ARRAYS = 3
#: Share of the data's bytes that is used as memory by default, and the least.
SHARE, LEAST = 0.4, 2**28


def propagate(
    graph: LiveGraph, features: Table, row: np.ndarray, weights: np.ndarray, reserves: list[Table], total: Table,
    memory: int | None,
) -> None:  # fmt: skip
    """Write ``q_l = D^1/2 P^l X`` for 0 < l < L, and ``S = sum_l w_l q_l`` with the row of a node where ``row`` says.

    Parameters
    ----------
    graph : LiveGraph
    features : Table
        X, and spare rows.
    row : (N,) array
    weights : (L + 1,) array
    reserves : list of L - 1 tables
    total : Table
    memory : int or None
        Bytes that may be used; by default two fifths of those of the tables, and at least 256 MiB.
    """
    degrees = graph.degrees
    n, width = degrees.size, features.row_shape[0]
    tables = [features, *reserves, total]
    allowed = max(SHARE * n * sum(table.row_bytes for table in tables), LEAST) if memory is None else memory
    columns = max(int(allowed // (8 * ARRAYS * n)), 1)
    blocks = -(-width // columns)
    step = -(-width // blocks)
    _checks.memory("one column of the embedding", 8 * ARRAYS * n, alternative="use a machine with more memory")
    for first in range(0, width, step):
        block = slice(first, min(first + step, width))
        below = np.empty((n, block.stop - block.start))
        for place in _pieces(n, features.row_bytes):
            below[place] = features.read(place.start, place.stop)[:, block]
        _levels(graph, degrees, below, block, row, weights, reserves, total)


def _levels(
    graph: LiveGraph, degrees: np.ndarray, below: np.ndarray, block: slice, row: np.ndarray, weights: np.ndarray,
    reserves: list[Table], total: Table,
) -> None:  # fmt: skip
    """All levels of some columns of the features."""
    order, itself, sums = weights.size - 1, np.arange(degrees.size), np.zeros_like(below)
    if weights[0]:
        for place in _pieces(len(below), 8 * below.shape[1]):
            kernels.add_rows(row[place], below[place] * np.sqrt(degrees[place])[:, None], weights[0], sums)
    for level in range(1, order + 1):
        scale = degrees**-0.5 if level == 1 else 1 / degrees
        if level == order:
            if weights[-1]:
                kernels.gather(*graph.rows, below, scale, row, weights[-1], sums)
            break
        reserve = np.zeros_like(below)
        kernels.gather(*graph.rows, below, scale, itself, 1.0, reserve)
        if weights[level]:
            kernels.add_rows(row, reserve, weights[level], sums)
        _write(reserves[level - 1], reserve, block)
        below = reserve
    _write(total, sums, block)


def _write(table: Table, columns: np.ndarray, block: slice) -> None:
    for place in _pieces(len(columns), table.row_bytes):
        table.write(place.start, columns[place], block)


def _pieces(n: int, row_bytes: int) -> Iterator[slice]:
    step = max(PIECE // row_bytes, 1)
    for first in range(0, n, step):
        yield slice(first, min(first + step, n))
