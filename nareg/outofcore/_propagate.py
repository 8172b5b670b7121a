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
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nareg._core import checks
from nareg._storage.graph_files import StoredGraph
from nareg.errors import InputError
from nareg.outofcore._signals import ColumnBlock, SignalFile, refuse_output, signal_writer
from nareg.outofcore._streaming import EdgeStream, NodeVectors, column_blocks
from nareg.progress import Progress, ProgressCallback

if TYPE_CHECKING:
    from nareg.typing import ArrayLike


def propagate(
    graph: StoredGraph | str | os.PathLike[str],
    x: Any,
    out: str | os.PathLike[str],
    *,
    weights: ArrayLike,
    normalization: Literal["augmented", "normalized"] = "augmented",
    memory: int | None = None,
    progress: ProgressCallback | None = None,
) -> np.ndarray:
    """Propagate features on disk: ``sum_k weights[k] A~^k X``, with edges read in parts and never all in memory.

    The same numbers as :func:`nareg.gnn.propagate` with ``weights=``, to rounding. :func:`nareg.gnn.series.neumann_weights`,
    ``pagerank_weights`` and ``heat_weights`` give coefficients.

    Parameters
    ----------
    graph : StoredGraph or path
        A folder that ``nareg convert`` or :meth:`nareg.Graph.save` wrote.
    x : path of an ``.npy`` file, or array
        Features (N, F), float32 or float64, finite.
    out : path
        ``.npy`` file for the result, in the dtype of x. It appears whole or not at all.
    weights : (K + 1,) array
        Coefficients of the powers of A~, from the zeroth.
    normalization : {"augmented", "normalized"}
        ``A~ = (D + I)^-1/2 (A + I) (D + I)^-1/2``, or ``D^-1/2 A D^-1/2`` with a one for isolated nodes: I minus the
        Laplacian of that name.
    memory : int, optional
        Bytes for arrays. More columns are then worked on at a time and the edges read less often. Default: two fifths of
        the bytes of graph and features.
    progress : callable, optional
        Receives a :class:`nareg.progress.Progress` for every product.

    Returns
    -------
    (N, F) array
        The file ``out``, memory-mapped for reading.

    Raises
    ------
    InputError
        If graph, features and weights do not fit, or a file is damaged.
    TooLargeError
        If two columns of one number per node do not fit into ``memory``.

    Examples
    --------
    >>> import pathlib, tempfile, numpy as np, nareg
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> nareg.graphs.grid((3,)).save(folder / "path.graph")
    >>> x = np.array([[1.0], [0.0], [0.0]])
    >>> result = propagate(folder / "path.graph", x, folder / "z.npy", weights=[0.5, 0.25, 0.125])
    >>> result.ravel().round(3)
    array([0.677, 0.145, 0.021])
    """
    stored = graph if isinstance(graph, StoredGraph) else StoredGraph(graph)
    refuse_output(out, x)
    source = SignalFile("x", x, stored.n_nodes)
    coefficients, loops = checked_polynomial(weights, normalization)
    column = source.dtype.itemsize * stored.n_nodes
    blocks, on_disk = column_blocks(
        source.n_columns, in_memory=2 * column, on_disk=column, fixed=8 * stored.n_nodes, data=stored.n_bytes + source.n_bytes,
        memory=memory,
    )  # fmt: skip
    folder = Path(out).resolve().parent if on_disk else None
    edges = EdgeStream(stored)
    degrees = edges.degrees()
    with signal_writer(out, source.shape, source.dtype, by_columns=len(blocks) > 1) as write:
        for b, columns in enumerate(blocks):
            shape = stored.n_nodes, columns.stop - columns.start
            report = _reporter(progress, b, len(blocks))
            with closing(ColumnBlock(source, columns, folder)) as X, closing(NodeVectors(shape, source.dtype, folder)) as other:
                V = _horner(edges, degrees, X, coefficients, loops, other, report)
                for place in other.pieces():
                    root = np.sqrt(_with_loops(degrees[place], loops)[0])[:, None]
                    write(place, columns, V[place] * root.astype(V.dtype))
                del V
    return np.load(out, mmap_mode="r")


def checked_polynomial(weights: ArrayLike, normalization: str) -> tuple[np.ndarray, bool]:
    """The coefficients in float64, and whether every node has a self-loop."""
    coefficients = checks.floats("weights", weights, ndim=(1,)).astype(np.float64)
    if coefficients.size == 0:
        raise InputError("weights is empty: give one weight per power of A~, from the zeroth.")
    return coefficients, checks.choice("normalization", normalization, ("augmented", "normalized")) == "augmented"


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
