"""Denoising and propagation of files by all ranks."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from nareg._core import checks
from nareg._solvers._petsc.choice import METHODS, Methods
from nareg._solvers._petsc.factor import dense
from nareg._solvers._petsc.matrices import from_adjacency, from_rows, local_range, with_diagonal
from nareg._solvers._petsc.ranks import agreed, load, together
from nareg._solvers._petsc.rows import parallel_writer, vector_rows
from nareg._solvers.backends import Petsc
from nareg._solvers.engines import allowed
from nareg._solvers.iterate import Callback
from nareg._storage.array_files import map_npy
from nareg._storage.graph_files import StoredGraph
from nareg._storage.signals import SignalFile, refuse_output
from nareg.errors import InputError, SingularSystemError, SolverError
from nareg.progress import Progress, ProgressCallback
from nareg.results import Solution, Status


def denoise(
    graph: StoredGraph | str | os.PathLike[str], weights: Any, y: Any, out: str | os.PathLike[str], *, data_weight: Any,
    method: str, options: Petsc, tol: float, max_iterations: int | None, callback: Callback | None,
) -> Solution:  # fmt: skip
    """What :func:`nareg.filters.denoise` does with a graph on disk by all ranks: each reads and writes its rows."""
    started = time.perf_counter()
    comm = load().comm
    with together(comm):
        with agreed(comm) as compared:
            method = options.named(method)
            checks.choice("method", method, METHODS)
            tol = checks.number("tol", tol, low=0, strict=True)
            if max_iterations is not None:
                max_iterations = checks.integer("max_iterations", max_iterations, low=1)
            stored = graph if isinstance(graph, StoredGraph) else StoredGraph(graph)
            n = stored.n_nodes
            refuse_output(out, y, weights, data_weight)
            source = SignalFile("y", y, n)
            compared["graph"] = (n, stored.n_edges)
            compared["y"] = (source.shape, source.dtype.str)
            compared["method, backend, tol or max_iterations"] = (method, options, tol, max_iterations)
        first, last = local_range(n)
        place = slice(first, last)
        with agreed(comm):
            w = vector_rows("weights", weights, n, place)
            c = np.ones(last - first) if data_weight is None else vector_rows("data_weight", data_weight, n, place)
            if (c <= 0).any():
                i = int((c <= 0).argmax())
                raise SingularSystemError(
                    f"data_weight[{first + i}] is {c[i]:g}: in files every node needs a data term above 0."
                )
            readings = source.rows(place, slice(0, source.n_columns)).astype(np.float64)
            rhs = c[:, None] * readings
            del readings
        layout = NodeLayout(adjacency(stored), options.partition)
        cut = layout.cut() if comm.size > 1 else 0.0
        rhs = layout.to_solve(rhs)
        vectors = []
        for values in (w, c):
            vectors.append(layout.A.createVecRight())
            vectors[-1].array[:] = layout.to_solve(values[:, None])[:, 0]
        methods = Methods(from_adjacency(layout.A, *vectors))
        result, label = methods.run(method, rhs, tol=tol, max_iterations=max_iterations, callback=callback)
        level = allowed(tol)
        plain, scaled = methods.system.residuals(result.x, rhs, level)
        if result.status is Status.CONVERGED and not (plain <= level and scaled <= level):
            result.status = Status.STALLED
        with parallel_writer(out, source.shape, source.dtype) as write:
            write(first, layout.to_file(result.x))
        if comm.size > 1:
            label = label.replace("PETSc", f"PETSc on {comm.size} ranks, {100 * cut:.3g} % of edges between them")
        return Solution(
            x=map_npy(out),
            status=result.status,
            method=label + (f" [{result.note}]" if result.note else ""),
            iterations=result.iterations,
            residuals=np.array(result.residuals),
            residual=plain,
            timings={"total": time.perf_counter() - started},
        )


def adjacency(stored: StoredGraph) -> Any:
    """The adjacency, each rank reading its own rows."""
    comm = load().comm
    n = stored.n_nodes
    first, last = local_range(n)
    with agreed(comm):
        if n < comm.size:
            raise InputError(f"{stored.path} has {n} nodes, fewer than the {comm.size} ranks: take fewer.")
        rows = stored.rows(first, last)
        whole = with_diagonal(first, rows.indptr, rows.indices, rows.weights)
        del rows
    return from_rows(n, *whole)


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
        return map_npy(out)


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


class NodeLayout:
    """Rows of this rank in the file's order, and where the nodes go for the solve.

    Parameters
    ----------
    A : Mat
        The adjacency in the file's order.
    partition : {"none", "ptscotch", "parmetis"}

    Attributes
    ----------
    A : Mat
        The adjacency in the order of the solve.
    """

    def __init__(self, A: Any, partition: str) -> None:
        self.A = A
        self._exchange: Any = None
        if partition == "none" or load().comm.size == 1:
            return
        own = _nodes_of_this_rank(A, partition)
        moved = A.createSubMatrix(own, own)
        self._natural, self._solving = A.createVecRight(), moved.createVecRight()
        # entry own[i] of the file's order is entry i of this rank
        self._exchange = load().PETSc.Scatter().create(self._natural, own, self._solving, None)
        A.destroy()
        self.A = moved

    def to_solve(self, rows: np.ndarray) -> np.ndarray:
        """Rows (n, T) of this rank in the file's order, as rows in the order of the solve."""
        return rows if self._exchange is None else self._move(rows, self._natural, self._solving, "forward")

    def to_file(self, rows: np.ndarray) -> np.ndarray:
        """The way back."""
        return rows if self._exchange is None else self._move(rows, self._solving, self._natural, "reverse")

    def _move(self, rows: np.ndarray, source: Any, target: Any, mode: str) -> np.ndarray:
        moved = np.empty((target.getLocalSize(), rows.shape[1]))
        for t in range(rows.shape[1]):
            source.array[:] = rows[:, t]
            self._exchange.scatter(source, target, mode=mode)
            moved[:, t] = target.array
        return moved

    def cut(self) -> float:
        """Share of the edges that join nodes of different ranks."""
        comm = load().comm
        first, last = self.A.getOwnershipRange()
        counts = np.zeros(2)
        _, columns, values = self.A.getValuesCSR()
        edges = values != 0
        counts[:] = (edges & ((columns < first) | (columns >= last))).sum(), edges.sum()
        across, total = comm.allreduce(counts)
        return float(across / max(total, 1))


def _nodes_of_this_rank(A: Any, partition: str) -> Any:
    """The index set of the nodes that a partitioner gives to this rank."""
    library = load()
    PETSc = library.PETSc
    if not PETSc.Sys.hasExternalPackage(partition):
        raise InputError(
            f"this PETSc was built without {partition}: take partition='none', or another of 'ptscotch', 'parmetis'."
        )
    partitioner = PETSc.MatPartitioning().create(library.comm)
    try:
        neighbors = A.convert("mpiadj", PETSc.Mat())
        partitioner.setAdjacency(neighbors)
        partitioner.setType(partition)
        target = PETSc.IS()
        partitioner.apply(target)
        own = target.buildTwoSided()
    except PETSc.Error as error:
        raise SolverError(f"PETSc's {partition} cannot partition this graph ({error}): take partition='none'.") from None
    own.sort()
    return own
