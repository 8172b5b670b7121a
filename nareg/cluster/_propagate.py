"""Polynomials in the normalized adjacency by all ranks: products of a distributed sparse with a dense matrix."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nareg._core import checks
from nareg._storage.graph_files import StoredGraph
from nareg.cluster._denoise import PARTITIONS, adjacency
from nareg.cluster._files import parallel_writer
from nareg.cluster._layout import NodeLayout, Partition
from nareg.filters.backends._petsc.factor import dense
from nareg.filters.backends._petsc.library import load
from nareg.filters.backends._petsc.matrices import local_range
from nareg.filters.backends._petsc.ranks import agreed, together
from nareg.outofcore._propagate import checked_polynomial
from nareg.outofcore._signals import SignalFile, refuse_output
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
    partition: Partition = "none",
    progress: ProgressCallback | None = None,
) -> np.ndarray:
    """Propagate features in files with all ranks: ``sum_k weights[k] A~^k X``.

    The same numbers as :func:`nareg.outofcore.propagate` and :func:`nareg.gnn.propagate`, to rounding. All ranks call it with
    the same arguments.

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
    partition : {"none", "ptscotch", "parmetis"}
        As in :func:`denoise`.
    progress : callable, optional
        Receives a :class:`nareg.progress.Progress` for every product.

    Returns
    -------
    (N, F) array
        The file ``out``, memory-mapped for reading.

    Raises
    ------
    InputError
        If graph, features and weights do not fit, or a file is damaged; on all ranks.
    MissingDependencyError
        If PETSc is not installed.
    """
    comm = load().comm
    with together(comm):
        with agreed(comm) as compared:
            checks.choice("partition", partition, PARTITIONS)
            stored = graph if isinstance(graph, StoredGraph) else StoredGraph(graph)
            refuse_output(out, x)
            source = SignalFile("x", x, stored.n_nodes)
            coefficients, loops = checked_polynomial(weights, normalization)
            compared["graph"] = (stored.n_nodes, stored.n_edges)
            compared["x"] = (source.shape, source.dtype.str)
            compared["weights, normalization or partition"] = (coefficients, loops, partition)
        first, last = local_range(stored.n_nodes)
        with agreed(comm):
            features = source.rows(slice(first, last), slice(0, source.n_columns)).astype(np.float64)
        layout = NodeLayout(adjacency(stored), partition)
        A = normalized(layout.A, loops)
        X = layout.to_solve(features)
        Z = dense(coefficients[-1] * X, stored.n_nodes)
        product = None
        for k, a in enumerate(coefficients[-2::-1], start=1):
            product = A.matMult(Z, result=product)  # Horner's step: Z <- A~ Z + a X
            Z.getDenseArray()[:] = product.getDenseArray() + a * X
            Z.assemble()
            if progress is not None:
                progress(Progress("products", k, coefficients.size - 1, k / (coefficients.size - 1)))
        with parallel_writer(out, source.shape, source.dtype) as write:
            write(first, layout.to_file(np.array(Z.getDenseArray())))
        return np.load(out, mmap_mode="r")


def normalized(A: Any, loops: bool) -> Any:
    """``A~`` from the adjacency with a stored zero diagonal, in its place."""
    degrees = A.getRowSum()
    loop = degrees.copy()
    loop.array[:] = 1.0 if loops else degrees.array == 0
    degrees.axpy(1.0, loop)
    A.setDiagonal(loop)
    degrees.array[:] = 1.0 / np.sqrt(degrees.array)
    A.diagonalScale(degrees, degrees)
    return A
