"""Node-adaptive denoising of files by all ranks."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nareg._core import checks
from nareg._storage.graph_files import StoredGraph
from nareg.cluster._files import parallel_writer, vector_rows
from nareg.cluster._layout import NodeLayout, Partition
from nareg.errors import InputError, SingularSystemError
from nareg.filters._engines import allowed
from nareg.filters.backends._petsc.choice import METHODS, Methods
from nareg.filters.backends._petsc.library import load
from nareg.filters.backends._petsc.matrices import from_adjacency, from_rows, local_range, with_diagonal
from nareg.filters.backends._petsc.ranks import agreed, together
from nareg.outofcore._signals import SignalFile, refuse_output
from nareg.progress import Progress, ProgressCallback
from nareg.results import Solution, Status

if TYPE_CHECKING:
    from nareg.typing import ArrayLike

PARTITIONS = ("none", "ptscotch", "parmetis")


def denoise(
    graph: StoredGraph | str | os.PathLike[str],
    weights: ArrayLike | str | os.PathLike[str],
    y: Any,
    out: str | os.PathLike[str],
    *,
    fit: ArrayLike | str | os.PathLike[str] | None = None,
    method: Literal["auto", "cg", "gamg", "hypre", "direct"] = "auto",
    partition: Partition = "none",
    tol: float = 1e-8,
    max_iterations: int | None = None,
    progress: ProgressCallback | None = None,
) -> Solution:
    """Denoise signals in files with all ranks: solve ``(C + S) x = C y`` with ``S = diag(w) L diag(w)``.

    All ranks call it with the same arguments. Each reads its rows of graph, weights and readings and writes its rows of the
    estimate, in the order of the file. The same estimate as :func:`nareg.filters.denoise`, and the same rule for when to stop.

    Parameters
    ----------
    graph : StoredGraph or path
        A folder that ``nareg convert`` or :meth:`nareg.Graph.save` wrote.
    weights : path of an ``.npy`` file, (N,) array, or number
        Node weights w, or one weight for all nodes.
    y : path of an ``.npy`` file, or array
        Readings (N,) or (N, T), float32 or float64, finite.
    out : path
        ``.npy`` file for the estimate, in the dtype of y. It appears whole or not at all.
    fit : path or (N,) array, optional
        Data-term weights c above 0. Default: ones.
    method : {"auto", "cg", "gamg", "hypre", "direct"}
        ``"auto"`` is ``"cg"`` with Jacobi preconditioning, and ``"gamg"`` where that has not converged after 150 iterations on
        a mesh-like graph. ``"gamg"`` and ``"hypre"`` are algebraic multigrid; ``"direct"`` is MUMPS.
    partition : {"none", "ptscotch", "parmetis"}
        ``"none"`` gives each rank an even piece of the nodes in the file's order. The others move nodes between ranks for fewer
        edges between them, which pays where the file's order is scattered.
    tol : float
        Relative residual ``||c y - K x|| / ||c y||`` of every signal (float64). ``CONVERGED`` guarantees twice this, before the
        estimate is rounded to the dtype of y.
    max_iterations : int, optional
        Default: 10,000 for ``"cg"``, 500 for multigrid.
    progress : callable, optional
        Receives a :class:`nareg.progress.Progress` for every iteration, on each rank that passes it.

    Returns
    -------
    Solution
        Its ``x`` is the file ``out``, memory-mapped for reading. ``method`` tells the share of edges between ranks.

    Raises
    ------
    InputError
        If graph, weights and signals do not fit, a file is damaged, or PETSc lacks what was asked for; on all ranks.
    MissingDependencyError
        If PETSc is not installed.

    Examples
    --------
    >>> import pathlib, tempfile, numpy as np, nareg
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> nareg.graphs.grid((2, 2)).save(folder / "grid.graph")
    >>> y = np.array([1.0, 0.0, 0.0, 1.0])
    >>> nareg.cluster.denoise(folder / "grid.graph", 1.0, y, folder / "x.npy").x.round(3)  # doctest: +SKIP
    array([0.6, 0.4, 0.4, 0.6])
    """
    started = time.perf_counter()
    comm = load().comm
    with together(comm):
        with agreed(comm) as compared:
            checks.choice("method", method, METHODS)
            checks.choice("partition", partition, PARTITIONS)
            tol = checks.number("tol", tol, low=0, strict=True)
            if max_iterations is not None:
                max_iterations = checks.integer("max_iterations", max_iterations, low=1)
            stored = graph if isinstance(graph, StoredGraph) else StoredGraph(graph)
            n = stored.n_nodes
            refuse_output(out, y, weights, fit)
            source = SignalFile("y", y, n)
            compared["graph"] = (n, stored.n_edges)
            compared["y"] = (source.shape, source.dtype.str)
            compared["method, partition, tol or max_iterations"] = (method, partition, tol, max_iterations)
        first, last = local_range(n)
        place = slice(first, last)
        with agreed(comm):
            w = vector_rows("weights", weights, n, place)
            c = np.ones(last - first) if fit is None else vector_rows("fit", fit, n, place)
            if (c <= 0).any():
                i = int((c <= 0).argmax())
                raise SingularSystemError(f"fit[{first + i}] is {c[i]:g}: in files every node needs a data term above 0.")
            readings = source.rows(place, slice(0, source.n_columns)).astype(np.float64)
            rhs = c[:, None] * readings
            del readings
        layout = NodeLayout(adjacency(stored), partition)
        cut = layout.cut() if comm.size > 1 else 0.0
        rhs = layout.to_solve(rhs)
        vectors = []
        for values in (w, c):
            vectors.append(layout.A.createVecRight())
            vectors[-1].array[:] = layout.to_solve(values[:, None])[:, 0]
        methods = Methods(from_adjacency(layout.A, *vectors))
        callback = None if progress is None else lambda step, r: progress(Progress("solving", step, values={"residual": r}))
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
            x=np.load(out, mmap_mode="r"),
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
