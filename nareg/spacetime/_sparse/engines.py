"""Who solves for a smoother: this process, with threads or on torch's device, or all ranks of PETSc together."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from nareg._solvers.backends import SolverBackend, Torch, check_solver_backend, checking_in_step
from nareg.graph import Graph
from nareg.spacetime._sparse.fitting import estimate
from nareg.spacetime._sparse.learning import Memory
from nareg.spacetime._sparse.system import Process, SpaceTimeSystem, log_likelihood


class Engine(Protocol):
    """Estimates of one model."""

    def compare(self, **values: Any) -> None:
        """Refuse values that differ between ranks."""

    def estimate(self, y: np.ndarray, tol: float) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (T, N) of the field given readings (T, N)."""
        ...

    def smooth(self, y: np.ndarray, tol: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Mean, variance, and the log-likelihood of the readings."""
        ...


class Local:
    """One process; torch, if asked, solves for the mean that is returned."""

    def __init__(self, process: Process, graph: Graph, pool: ThreadPoolExecutor, options: Torch | None = None) -> None:
        self._process, self._graph, self._pool, self._options = process, graph, pool, options

    def compare(self, **values: Any) -> None:
        """There is no other rank."""

    def estimate(self, y: np.ndarray, tol: float) -> tuple[np.ndarray, np.ndarray]:
        return estimate(y, self._process, self._graph, self._pool, tol)

    def smooth(self, y: np.ndarray, tol: float) -> tuple[np.ndarray, np.ndarray, float]:
        memory = Memory()
        x, var = estimate(y, self._process, self._graph, self._pool, tol, self._options, memory)
        system = SpaceTimeSystem(self._process, np.isfinite(y.T), memory.preconditioner)
        return x, var, log_likelihood(y.T, x.T, self._process, self._pool, system)


@contextmanager
def open_engine(backend: SolverBackend, process: Process, graph: Graph, threads: int) -> Iterator[Engine]:
    """Who solves; with PETSc what fails on one rank ends the work on all."""
    name = check_solver_backend(backend)
    with checking_in_step(backend):
        if name == "petsc":
            from nareg.spacetime._sparse.ranks import Ranks

            yield Ranks(process, graph)
            return
        options = backend if isinstance(backend, Torch) else Torch() if name == "torch" else None
        with ThreadPoolExecutor(threads) as pool:
            yield Local(process, graph, pool, options)
