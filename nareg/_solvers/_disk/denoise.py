"""Node-adaptive denoising of signals on disk: conjugate gradients in float32 inside a correction in float64.

The system is ``I - diag(s) A diag(s)`` (see ``system``). Directions are stored as ``P = s p``, so that a product gathers
neighbors' rows of P and nothing else; the estimate is built up as ``U = s v = w x`` in float64. After each solve the residual
is computed in float64 from the parts, ``c y - c U / w - w (L U)``, with L U a sum of differences. The rounding of ``K`` or of
``s``, which may hide the data term, has no part in it. The next solve reduces this residual. Only P is in memory for certain;
increment, residual, product and U are read and written in order, and go to scratch files where they do not fit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from nareg._core.arrays import ratio
from nareg._solvers import cg
from nareg._solvers._disk import kernels
from nareg._solvers._disk.streaming import column_blocks
from nareg._solvers._disk.system import SMALLEST, StoredSystem, system
from nareg._solvers.iterate import Callback, Monitor
from nareg._storage.array_files import map_npy
from nareg._storage.graph_files import StoredGraph
from nareg._storage.signals import ColumnBlock, NodeVectors, SignalFile, refuse_output, signal_writer
from nareg.results import Solution, Status

#: Takes the residual after each product.
Report = Callable[[float], None]
#: Reduction of the residual that one float32 solve is asked for.
REDUCTION = 1e-5
#: A correction that leaves more than this share of the residual is the last.
PROGRESS = 0.3


def denoise(
    graph: StoredGraph, weights: Any, y: Any, out: str | os.PathLike[str], *, data_weight: Any, tol: float,
    max_iterations: int, memory: int | None, callback: Callback | None,
) -> Solution:  # fmt: skip
    """What :func:`nareg.filters.denoise` does with a graph on disk, for ``method="cg"``: edges are never all in memory."""
    started = time.perf_counter()
    n = graph.n_nodes
    refuse_output(out, y, weights, data_weight)
    source = SignalFile("y", y, n)
    blocks, on_disk = column_blocks(
        source.n_columns, in_memory=24 * n, on_disk=4 * n, fixed=(20 if data_weight is None else 28) * n,
        data=graph.n_bytes + source.n_bytes, memory=memory,
    )  # fmt: skip
    folder = Path(out).resolve().parent if on_disk else None
    checked = system(graph, weights, data_weight)
    results, steps = [], count(1)

    def report(residual: float) -> None:
        if callback is not None:
            callback(next(steps), residual)

    with signal_writer(out, source.shape, source.dtype, by_columns=len(blocks) > 1) as write:
        for columns in blocks:
            with closing(_Block(checked, source, columns, folder, report)) as block:
                results.append(block.solve(tol, max_iterations))
                for place, x in block.estimate():
                    write(place, columns, x)
    slowest = max(results, key=lambda result: result[0])
    worst = next((status for _, _, status, _ in results if status is not Status.CONVERGED), Status.CONVERGED)
    return Solution(
        x=map_npy(out),
        status=worst,
        method=f"cg on disk, {len(blocks)} block{'s' if len(blocks) > 1 else ''} of columns",
        iterations=slowest[0],
        residuals=np.array(slowest[1]),
        residual=max(residual for *_, residual in results),
        timings={"total": time.perf_counter() - started},
    )


class _Block:
    """The solve of some columns."""

    def __init__(self, system: StoredSystem, source: SignalFile, columns: slice, folder: Path | None, report: Report) -> None:
        self._system, self._report = system, report
        self._y = ColumnBlock(source, columns, folder)
        shape = system.n_nodes, columns.stop - columns.start
        self._increment, self._R, self._Q = (NodeVectors(shape, np.float32, folder) for _ in range(3))
        self._U = NodeVectors(shape, np.float64, folder)
        # where U is on disk, half of its columns take the place of P in between
        self._memory = np.zeros(shape[0] * max(shape[1], 2), np.float32)
        self._P = self._memory[: shape[0] * shape[1]].reshape(shape)

    def solve(self, tol: float, max_iterations: int) -> tuple[int, list[float], Status, float]:
        """Iterations, history of the residual, status, and the residual of the estimate in float64."""
        unit = self._start()
        sizes = np.sqrt(_DiskPasses(self._system).squares(self._R)[1:]) * unit
        if self._system.leaves_some:
            self._residual(unit)
        norms = _DiskPasses(self._system).squares(self._R)
        relative = ratio(np.sqrt(norms[1:]) * unit, sizes)
        history, iterations, previous = [float(relative[0].max())], 0, np.inf
        while tol < relative.max() <= PROGRESS * previous and iterations < max_iterations:
            previous = float(relative.max())
            # what is left becomes the right-hand side, of unit size
            factor = np.where(norms[0] > 0, np.sqrt(norms[0]), 1.0)
            for place in self._R.pieces():
                R = (self._R.rows(place) / factor).astype(np.float32)
                R[self._system.is_left(place)] = 0.0
                self._R.store(place, R)
            unit = unit * factor
            targets = np.maximum(0.5 * tol, REDUCTION * relative)
            residuals = self._conjugate_gradients(ratio(unit, sizes), targets, max_iterations - iterations)
            history += residuals
            iterations += len(residuals)
            for place in self._U.pieces():
                self._U.store(place, self._U.rows(place) + unit * self._increment.rows(place))
            self._residual(unit)
            norms = _DiskPasses(self._system).squares(self._R)
            relative = ratio(np.sqrt(norms[1:]) * unit, sizes)
        reached = float(relative.max())
        if reached <= max(2 * tol, 1e-12):
            status = Status.CONVERGED
        else:
            status = Status.MAX_ITERATIONS if iterations >= max_iterations else Status.STALLED
        return iterations, history, status, float(relative[0].max())

    def estimate(self) -> Iterator[tuple[slice, np.ndarray]]:
        """``x = U / w`` in pieces."""
        for place, y in self._y.pieces():
            yield place, self._x(place, y, self._U.rows(place))

    def _x(self, place: slice, y: np.ndarray, U: np.ndarray) -> np.ndarray:
        """Some rows of ``U / w``; ``c y / D`` where the iteration leaves a node."""
        system = self._system
        alone = system.c[place, None] * y / system.diagonal[place, None]
        w = (system.s[place] * np.sqrt(system.diagonal[place]))[:, None]
        return np.divide(U, w, out=alone, where=~system.is_left(place)[:, None])

    def close(self) -> None:
        """Give memory and scratch files back."""
        for vectors in (self._y, self._increment, self._R, self._Q, self._U):
            vectors.close()
        self._memory = self._P = np.zeros((0, 0), np.float32)

    def _start(self) -> np.ndarray:
        """Put the right-hand side ``b = D^-1/2 c y`` into R, columns divided by their peaks, which are returned.

        U is zero where the iteration finds it.
        """
        peak = np.zeros(self._P.shape[1])
        for _, b in self._right_sides():
            np.maximum(peak, np.abs(b).max(axis=0), out=peak)
        unit = np.where(peak > 0, peak, 1.0)
        for place, b in self._right_sides():
            self._R.store(place, (b / unit).astype(np.float32))
            left = self._system.is_left(place)
            self._U.store(place, np.where(left[:, None], self._system.s[place, None] * b, 0.0))
        return unit

    def _right_sides(self) -> Iterator[tuple[slice, np.ndarray]]:
        for place, y in self._y.pieces():
            yield place, (self._system.c[place] / np.sqrt(self._system.diagonal[place]))[:, None] * y

    def _conjugate_gradients(self, scale: np.ndarray, targets: np.ndarray, max_iterations: int) -> list[float]:
        """Solve for the increment with R as right-hand side, in float32; returns the residuals after each iteration.

        ``scale`` makes norms of R relative to those of the right-hand side; a column ends when both are below ``targets``.
        """
        self._P[:] = 0.0
        for place in self._increment.pieces():
            self._increment.store(place, np.zeros(self._P[place].shape, np.float32))
        monitor = _SinglePrecision(ratio(1.0, scale), targets, self._reported)
        passes = _DiskPasses(self._system)
        cg.descend(passes, self._increment, self._R, self._P, self._Q, monitor, max_iterations=max_iterations)
        return monitor.history(1)

    def _reported(self, step: int, residual: float) -> None:
        if step:  # the first is the last of before
            self._report(residual)

    def _residual(self, unit: np.ndarray) -> None:
        """``R = D^-1/2 (c y - c U / w - w L U) / unit``, computed in float64."""
        system, (n, width) = self._system, self._P.shape
        count = width if self._U.array is not None else max(width // 2, 1)
        for first in range(0, width, count):
            some = slice(first, min(first + count, width))
            if self._U.array is not None:
                wide = self._U.array
            else:
                size = n * (some.stop - some.start)
                wide = self._memory[: 2 * size].view(np.float64).reshape(n, -1)
                for place in self._U.pieces():
                    wide[place] = self._U.rows(place)[:, some]
            for place, sums in system.edges.differences(wide):
                y = self._y.rows(place)[:, some]
                left = system.c[place, None] * (y - self._x(place, y, wide[place]))
                left /= np.sqrt(system.diagonal[place, None])
                left -= system.s[place, None] * sums
                left[system.s[place] == 0] = 0.0  # solved: what is left of it is rounding
                R = self._R.rows(place)
                R[:, some] = left / unit[some]
                self._R.store(place, R)


class _SinglePrecision(Monitor):
    """A column that meets no positive curvature ends: rounding is all that is left there."""

    def fail(self, columns: np.ndarray) -> None:
        self.active &= ~columns


class _DiskPasses:
    """Of :func:`cg.descend` over vectors in pieces, with P in memory; ``squares`` as ``kernels.norms`` has them."""

    def __init__(self, system: StoredSystem) -> None:
        self._system = system

    def squares(self, R: NodeVectors) -> np.ndarray:
        return sum(kernels.norms(R.rows(place), self._system.diagonal[place]) for place in R.pieces())  # type: ignore[return-value]

    def product(self, P: np.ndarray, Q: NodeVectors) -> np.ndarray:
        dots = np.zeros(P.shape[1])
        for place, rows in self._system.edges.products(P):
            dots += kernels.finish_product(self._system.s[place], SMALLEST, P[place], rows)
            Q.store(place, rows)
        return dots

    def step(self, X: NodeVectors, R: NodeVectors, P: np.ndarray, Q: NodeVectors, alpha: np.ndarray) -> np.ndarray:
        squares = np.zeros((3, alpha.size))
        for place in R.pieces():
            x, r = X.rows(place), R.rows(place)
            squares += kernels.step(x, r, P[place], Q.rows(place), self._system.diagonal[place], alpha)
            X.store(place, x)
            R.store(place, r)
        return squares

    def turn(self, R: NodeVectors, P: np.ndarray, beta: np.ndarray) -> None:
        for place in R.pieces():
            kernels.direction(self._system.s[place], R.rows(place), P[place], beta)
