"""Node-adaptive denoising of signals on disk: conjugate gradients in float32 inside a correction in float64.

The system is ``I - diag(s) A diag(s)`` (see ``_system``). Directions are stored as ``P = s p``, so that a product gathers
neighbors' rows of P and nothing else; the estimate is built up as ``U = s v`` in float64 in a scratch file. After each solve
the residual of U is computed in float64, and the next solve reduces that. Four float32 numbers per node and column are in
memory: increment, residual, direction and product, and in between two of them hold U.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from nareg import _checks
from nareg._graph_files import StoredGraph
from nareg.outofcore import _kernels
from nareg.outofcore._signals import SignalFile, signal_writer
from nareg.outofcore._streaming import column_blocks
from nareg.outofcore._system import StoredSystem, system
from nareg.progress import Progress, ProgressCallback
from nareg.results import Solution, Status

if TYPE_CHECKING:
    from nareg.typing import ArrayLike

#: Takes the residual after each product.
Report = Callable[[float], None]
#: Reduction of the residual that one float32 solve is asked for.
REDUCTION = 1e-5
#: A correction that leaves more than this share of the residual is the last.
PROGRESS = 0.3
#: Rows of vectors that are worked on at a time.
ROWS = 2**16


def denoise(
    graph: StoredGraph | str | os.PathLike[str],
    weights: ArrayLike | str | os.PathLike[str],
    y: Any,
    out: str | os.PathLike[str],
    *,
    fit: ArrayLike | str | os.PathLike[str] | None = None,
    tol: float = 1e-8,
    max_iterations: int = 10_000,
    memory: int | None = None,
    progress: ProgressCallback | None = None,
) -> Solution:
    """Denoise signals on disk: solve ``(C + S) x = C y`` with ``S = diag(w) L diag(w)``, edges never all in memory.

    The same estimate as :func:`nareg.filters.denoise` with ``method="cg"``, and the same rule for when to stop. Neither S nor K
    is stored: products are computed from the adjacency, the degrees and w.

    Parameters
    ----------
    graph : StoredGraph or path
        A folder that ``nareg convert`` or :meth:`nareg.Graph.save` wrote.
    weights : (N,) array, number, or path of an ``.npy`` file
        Node weights w, or one weight for all nodes.
    y : path of an ``.npy`` file, or array
        Readings (N,) or (N, T), float32 or float64, finite.
    out : path
        ``.npy`` file for the estimate, in the dtype of y. It appears whole or not at all.
    fit : (N,) array or path, optional
        Data-term weights c above 0. Default: ones.
    tol : float
        Relative residual ``||c y - K x|| / ||c y||`` of every signal (float64). ``CONVERGED`` guarantees twice this, before the
        estimate is rounded to the dtype of y.
    max_iterations : int
        Products with K per block of columns, at most.
    memory : int, optional
        Bytes for arrays. More columns are then worked on at a time and the edges read less often. Default: a third of the
        bytes of graph and signals.
    progress : callable, optional
        Receives a :class:`nareg.progress.Progress` for every product.

    Returns
    -------
    Solution
        Its ``x`` is the file ``out``, memory-mapped for reading; ``iterations`` are those of the slowest block of columns.

    Raises
    ------
    InputError
        If graph, weights and signals do not fit, or a file is damaged.
    TooLargeError
        If one column does not fit into ``memory``.

    Examples
    --------
    >>> import pathlib, tempfile, numpy as np, nareg
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> nareg.graphs.grid((2, 2)).save(folder / "grid.graph")
    >>> solution = denoise(folder / "grid.graph", 1.0, np.array([1.0, 0.0, 0.0, 1.0]), folder / "x.npy")
    >>> solution.x.round(3)
    array([0.6, 0.4, 0.4, 0.6])
    >>> solution.status.name
    'CONVERGED'
    """
    started = time.perf_counter()
    stored = graph if isinstance(graph, StoredGraph) else StoredGraph(graph)
    n = stored.n_nodes
    source = SignalFile("y", y, n)
    tol = _checks.number("tol", tol, low=0, strict=True)
    max_iterations = _checks.integer("max_iterations", max_iterations, low=1)
    blocks, _ = column_blocks(
        source.n_columns,
        per_column=16 * n,
        fixed=(16 if fit is None else 24) * n,
        data=stored.n_bytes + 2 * source.n_bytes,
        memory=memory,
    )
    checked = system(stored, weights, fit)
    results = []
    with signal_writer(out, source.shape, source.dtype, by_columns=len(blocks) > 1) as write:
        for b, columns in enumerate(blocks):
            with TemporaryFile(dir=Path(out).resolve().parent, prefix=".nareg-") as scratch:
                block = _Block(checked, source, columns, scratch, _reporter(progress, b, len(blocks)))
                results.append(block.solve(tol, max_iterations))
                for place, x in block.estimate():
                    write(place, columns, x)
                del block
    slowest = max(results, key=lambda result: result[0])
    worst = next((status for _, _, status, _ in results if status is not Status.CONVERGED), Status.CONVERGED)
    return Solution(
        x=np.load(out, mmap_mode="r"),
        status=worst,
        method=f"cg on disk ({len(blocks)} blocks of columns)",
        iterations=slowest[0],
        residuals=np.array(slowest[1]),
        residual=max(residual for *_, residual in results),
        timings={"total": time.perf_counter() - started},
    )


class _Block:
    """The solve of some columns."""

    def __init__(self, system: StoredSystem, source: SignalFile, columns: slice, scratch: IO[bytes], report: Report) -> None:
        self._system, self._source, self._columns, self._scratch, self._report = system, source, columns, scratch, report
        n, width = system.n_nodes, columns.stop - columns.start
        memory = np.zeros(4 * n * width, np.float32)
        # P and Q lie beside each other: between two solves they hold U in float64
        self._increment, self._R, self._P, self._Q = memory.reshape(4, n, width)
        self._U = memory[2 * n * width :].view(np.float64).reshape(n, width)

    def solve(self, tol: float, max_iterations: int) -> tuple[int, list[float], Status, float]:
        """Iterations, history of the residual, status, and the residual of the estimate in float64."""
        unit = self._start()
        s, diagonal = self._system.s, self._system.diagonal
        norms = _kernels.norms(self._R, diagonal)
        sizes = np.sqrt(norms[1:]) * unit
        self._R[s == 0] = 0.0  # solved: see estimate()
        relative = _ratio(np.sqrt(_kernels.norms(self._R, diagonal)[1:]) * unit, sizes)
        history, iterations, previous = [float(relative[0].max())], 0, np.inf
        while tol < relative.max() <= PROGRESS * previous and iterations < max_iterations:
            previous = float(relative.max())
            targets = np.maximum(0.5 * tol, REDUCTION * relative)
            residuals = self._conjugate_gradients(_ratio(unit, sizes), targets, max_iterations - iterations)
            history += residuals
            iterations += len(residuals)
            self._add_increment(unit)
            self._residual(unit)
            norms = _kernels.norms(self._R, diagonal)
            relative = _ratio(np.sqrt(norms[1:]) * unit, sizes)
            # what is left becomes the right-hand side of the next solve, of unit size
            factor = np.where(norms[0] > 0, np.sqrt(norms[0]), 1.0)
            self._R /= factor.astype(np.float32)
            unit = unit * factor
        reached = float(relative.max())
        if reached <= max(2 * tol, 1e-12):
            status = Status.CONVERGED
        else:
            status = Status.MAX_ITERATIONS if iterations >= max_iterations else Status.STALLED
        return iterations, history, status, float(relative[0].max())

    def estimate(self) -> Iterator[tuple[slice, np.ndarray]]:
        """``x = D^-1/2 v`` in pieces; ``c y / D`` where no neighbor matters."""
        system = self._system
        for place, y in self._source.pieces(self._columns):
            s, diagonal = system.s[place, None], system.diagonal[place, None]
            alone = system.c[place, None] * y / diagonal
            yield place, np.divide(self._stored(place), s * np.sqrt(diagonal), out=alone, where=s != 0)

    def _start(self) -> np.ndarray:
        """Put the right-hand side ``b = D^-1/2 c y`` into R, columns divided by their peaks, which are returned; U is zero."""
        peak = np.zeros(self._R.shape[1])
        for _, b in self._right_sides():
            np.maximum(peak, np.abs(b).max(axis=0), out=peak)
        unit = np.where(peak > 0, peak, 1.0)
        for place, b in self._right_sides():
            self._R[place] = b / unit
            self._store(place, np.zeros(b.shape))
        return unit

    def _right_sides(self) -> Iterator[tuple[slice, np.ndarray]]:
        for place, y in self._source.pieces(self._columns):
            yield place, (self._system.c[place] / np.sqrt(self._system.diagonal[place]))[:, None] * y

    def _conjugate_gradients(self, scale: np.ndarray, targets: np.ndarray, max_iterations: int) -> list[float]:
        """Solve for the increment with R as right-hand side, in float32; returns the residuals after each iteration.

        ``scale`` makes norms of R relative to those of the right-hand side; a column ends when both are below ``targets``.
        """
        s, diagonal, edges = self._system.s, self._system.diagonal, self._system.edges
        U, R, P, Q = self._increment, self._R, self._P, self._Q
        U[:], P[:] = 0.0, 0.0
        norms = _kernels.norms(R, diagonal)
        active = (np.sqrt(norms[1:]) * scale > targets).any(axis=0)
        _kernels.direction(s, R, P, np.zeros(R.shape[1]))
        history: list[float] = []
        while active.any() and len(history) < max_iterations:
            curvature = np.zeros(R.shape[1])
            for place, sums in edges.products(P, out=Q):
                curvature += _kernels.finish_product(s[place], P[place], sums)
            active &= curvature > 0  # else rounding is all that is left
            squared = norms[0]
            # a column that has ended takes no step; the guards keep 0 / 0 out of it
            alpha = np.divide(squared, curvature, out=np.zeros_like(squared), where=active)
            norms = _kernels.step(U, R, P, Q, diagonal, alpha)
            relative = np.sqrt(norms[1:]) * scale
            history.append(float(relative[0].max()))
            self._report(history[-1])
            active &= (relative > targets).any(axis=0)
            _kernels.direction(s, R, P, np.divide(norms[0], squared, out=np.zeros_like(squared), where=active))
        return history

    def _add_increment(self, unit: np.ndarray) -> None:
        """``U += unit increment`` in the scratch file, and all of U into memory."""
        for first in range(0, self._system.n_nodes, ROWS):
            place = slice(first, first + ROWS)
            total = self._stored(place) + unit * self._increment[place]
            self._store(place, total)
            self._U[place] = total

    def _residual(self, unit: np.ndarray) -> None:
        """``R = (b - (I - diag(s) A diag(s)) v) / unit`` from U in memory, computed in float64."""
        system = self._system
        for place, sums in system.edges.products(self._U):
            s = system.s[place, None]
            y = self._source.rows(place, self._columns)
            b = (system.c[place] / np.sqrt(system.diagonal[place]))[:, None] * y
            v = np.divide(self._U[place], s, out=b.copy(), where=s != 0)
            self._R[place] = (b - v + s * sums) / unit

    def _stored(self, place: slice) -> np.ndarray:
        """Rows of U from the scratch file."""
        width = self._U.shape[1]
        rows = np.empty((min(place.stop, self._system.n_nodes) - place.start, width))
        self._scratch.seek(8 * width * place.start)
        self._scratch.readinto(memoryview(rows).cast("B"))  # type: ignore[attr-defined]
        return rows

    def _store(self, place: slice, rows: np.ndarray) -> None:
        self._scratch.seek(8 * self._U.shape[1] * place.start)
        self._scratch.write(np.ascontiguousarray(rows).data)


def _ratio(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Left over right, zero where right is."""
    return np.divide(left, right, out=np.zeros_like(right), where=right > 0)


def _reporter(progress: ProgressCallback | None, block: int, n_blocks: int) -> Report:
    step = 0

    def report(residual: float) -> None:
        nonlocal step
        step += 1
        if progress is not None:
            progress(Progress(f"block {block + 1} of {n_blocks}", step, values={"residual": residual}))

    return report
