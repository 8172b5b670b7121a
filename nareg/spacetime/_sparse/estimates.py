"""Estimates of a large network's field, and who solves for them.

This process does, with threads or on torch's device, or all ranks of PETSc do together.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from nareg._solvers.backends import SolverBackend, Torch, check_solver_backend, checking_in_step, open_torch_time
from nareg.graph import Graph
from nareg.spacetime._sparse.learning import Memory, Window, posterior
from nareg.spacetime._sparse.system import Process, SpaceTimeSystem, log_likelihood
from nareg.spacetime._sparse.variances import Chains

if TYPE_CHECKING:
    from nareg.spacetime._sparse.ranks import Ranks

#: Threads: each solves for some of the frequencies in time.
THREADS = min(4, os.cpu_count() or 1)


def estimate(
    y: np.ndarray, process: Process, graph: Graph, pool: ThreadPoolExecutor, tol: float, backend: Torch | None = None,
    memory: Memory | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Mean and variance (T, N) of the field given readings (T, N); ``backend`` solves for the mean."""
    x = mean_of(y, process, pool, tol, memory) if backend is None else on_torch(process, y.T, tol, backend).T
    weights = (np.isfinite(y) / process.noise).T
    var = Chains.of(process, weights.mean(axis=1), graph.adjacency).smoothed(weights)
    return x, var.T


def mean_of(y: np.ndarray, process: Process, pool: ThreadPoolExecutor, tol: float, memory: Memory | None = None) -> np.ndarray:
    """Mean (T, N) of the field given readings (T, N); a ``memory`` keeps the answer and the factors for the next call."""
    return posterior(process, Window(np.ascontiguousarray(y.T), 0), 0, tol, memory, pool)[0][:, 0].T


def on_torch(process: Process, y: np.ndarray, tol: float, options: Torch) -> np.ndarray:
    """Mean (N, T) of the field given readings (N, T), solved on a device."""
    observed, rho, T = np.isfinite(y), process.rho, y.shape[1]
    weights = observed / process.noise[:, None]
    unit = 1 / (1 - rho**2) if T > 1 else 1.0
    system = open_torch_time(
        process.field.precision() / process.variance, weights, unit, (1 + rho**2) * unit, -rho * unit, process.eigenvalues(T),
        options,
    )  # fmt: skip
    # its preconditioner knows less of the system, and so does the norm of its residuals
    return system.solve(weights * np.where(observed, y, 0.0), 0.1 * tol)


class Local:
    """One process; torch, if asked, solves for the mean that is returned."""

    def __init__(self, process: Process, graph: Graph, pool: ThreadPoolExecutor, options: Torch | None = None) -> None:
        self._process, self._graph, self._pool, self._options = process, graph, pool, options

    def compare(self, **values: Any) -> None:
        """There is no other rank."""

    def estimate(self, y: np.ndarray, tol: float) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (T, N) of the field given readings (T, N)."""
        return estimate(y, self._process, self._graph, self._pool, tol)

    def smooth(self, y: np.ndarray, tol: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Mean, variance, and the log-likelihood of the readings."""
        memory = Memory()
        x, var = estimate(y, self._process, self._graph, self._pool, tol, self._options, memory)
        system = SpaceTimeSystem(self._process, np.isfinite(y.T), memory.preconditioner)
        return x, var, log_likelihood(y.T, x.T, self._process, self._pool, system)


#: Estimates of one model, by one process or by all ranks.
FieldSolver: TypeAlias = "Local | Ranks"


@contextmanager
def open_solver(backend: SolverBackend, process: Process, graph: Graph, threads: int = THREADS) -> Iterator[FieldSolver]:
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
