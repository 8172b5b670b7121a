"""Polynomials in the normalized adjacency by all ranks: products of a distributed sparse with a dense matrix."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from nareg._solvers.backends._petsc.factor import dense
from nareg._solvers.backends._petsc.files import parallel_writer
from nareg._solvers.backends._petsc.layout import NodeLayout
from nareg._solvers.backends._petsc.library import load
from nareg._solvers.backends._petsc.matrices import local_range
from nareg._solvers.backends._petsc.ranks import agreed, together
from nareg._solvers.backends._petsc.stored import adjacency
from nareg._solvers.backends.options import Petsc
from nareg._storage.graph_files import StoredGraph
from nareg._storage.signals import SignalFile, refuse_output
from nareg.progress import Progress, ProgressCallback


def propagate(
    graph: StoredGraph | str | os.PathLike[str], x: Any, out: str | os.PathLike[str], coefficients: np.ndarray, *, loops: bool,
    options: Petsc, progress: ProgressCallback | None,
) -> np.ndarray:  # fmt: skip
    """What :func:`nareg.gnn.propagate` does with a graph on disk by all ranks."""
    comm = load().comm
    with together(comm):
        with agreed(comm) as compared:
            stored = graph if isinstance(graph, StoredGraph) else StoredGraph(graph)
            refuse_output(out, x)
            source = SignalFile("x", x, stored.n_nodes)
            compared["graph"] = (stored.n_nodes, stored.n_edges)
            compared["x"] = (source.shape, source.dtype.str)
            compared["weights, normalization or backend"] = (coefficients, loops, options)
        first, last = local_range(stored.n_nodes)
        with agreed(comm):
            features = source.rows(slice(first, last), slice(0, source.n_columns)).astype(np.float64)
        layout = NodeLayout(adjacency(stored), options.partition)
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
