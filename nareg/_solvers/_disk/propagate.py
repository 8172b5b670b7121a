"""Polynomials in the normalized adjacency for graphs and features on disk.

With s = D~^-1/2 and V = s Z, Horner's step ``Z <- a_k X + A~ Z`` reads

    V <- a_k s X + s^2 (A V + V),

which gathers neighbors' rows of V and nothing else. V is in memory, for some columns at a time; its successor, edges and
features are read and written in order, once per step.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from nareg._solvers._disk.streaming import EdgeStream, column_blocks
from nareg._storage.graph_files import StoredGraph
from nareg._storage.signals import ColumnBlock, NodeVectors, SignalFile, refuse_output, signal_writer
from nareg.progress import Progress, ProgressCallback


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
    return np.load(out, mmap_mode="r")


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
