"""The library that solves a filter system: SciPy with our compiled loops, torch, or PETSc.

Each other backend is a private package beside this file, imported only when it is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, get_args

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._operator import FilterSystem, Penalty
from nareg.errors import MissingDependencyError
from nareg.filters._engines import Backend, Engines
from nareg.filters.backends._options import Torch
from nareg.results import WeightDesign

if TYPE_CHECKING:
    from nareg.filters.backends._petsc.systems import PetscSystems
    from nareg.filters.backends._torch import TorchEngines
    from nareg.filters.backends._torch._edges import TorchEdges
    from nareg.filters.backends._torch._systems import TorchSystems
    from nareg.filters.backends._torch._time_system import TimeSystem

__all__ = [
    "BACKENDS", "BackendLike", "BackendName", "SolverBackend", "Torch", "alike_on_all_ranks", "check_solver_backend",
    "checking", "checking_in_step", "open_backend", "open_systems", "open_torch", "open_torch_edges", "open_torch_time",
]  # fmt: skip

P = ParamSpec("P")
Design = TypeVar("Design", bound=WeightDesign)

BackendName = Literal["auto", "scipy", "torch", "petsc"]
BACKENDS = get_args(BackendName)
BackendLike = BackendName | Torch
#: Designs have no tensors to tell a library from: it is named.
SolverBackend = Literal["scipy", "torch", "petsc"] | Torch


def open_backend(backend: BackendLike, system: FilterSystem, *, many: bool) -> Backend:
    """The system in the hands of the library of this name; ``many`` says that many solves follow."""
    if isinstance(backend, Torch):
        return open_torch(backend, Engines(system, many=many))
    checks.choice("backend", backend, BACKENDS)
    if backend == "torch":
        return open_torch(Torch(), Engines(system, many=many))
    if backend == "petsc":
        from nareg.filters.backends._petsc.engines import PetscEngines

        return PetscEngines(system)
    return Engines(system, many=many)


def open_torch(options: Torch, host: Engines, weights: object = None, fit: object = None) -> TorchEngines:
    """The system on torch; ``host`` solves on the CPU. Tensors among ``weights`` and ``fit`` may ask for gradients."""
    with _torch_needed():
        from nareg.filters.backends._torch import TorchEngines
    return TorchEngines(host, options, weights=weights, fit=fit)


def open_systems(
    backend: Literal["torch", "petsc"] | Torch, base: Penalty, c: np.ndarray, *, mesh_like: bool, tol: float
) -> TorchSystems | PetscSystems:
    """``C + diag(w) L diag(w)`` for one w after another, as descents need it; the diagonal of L is stored."""
    if backend == "petsc":
        from nareg.filters.backends._petsc.systems import PetscSystems

        return PetscSystems(base, c, mesh_like=mesh_like, tol=tol)
    with _torch_needed():
        from nareg.filters.backends._torch._systems import TorchSystems
    options = Torch() if isinstance(backend, str) else backend
    return TorchSystems(base, c, options, mesh_like=mesh_like, tol=tol)


def open_torch_edges(
    c: np.ndarray, i: np.ndarray, j: np.ndarray, order: np.ndarray | None, options: Torch, *, tol: float
) -> TorchEdges:
    """``C + S`` for the weights of these edges, one after another, on torch."""
    with _torch_needed():
        from nareg.filters.backends._torch._edges import TorchEdges
    return TorchEdges(c, i, j, order, options, tol=tol)


def open_torch_time(
    K: sp.csr_array, C: np.ndarray, ends: float, middle: float, beside: float, eigenvalues: np.ndarray, options: Torch
) -> TimeSystem:
    """The space-time system of a large network on torch."""
    with _torch_needed():
        from nareg.filters.backends._torch._time_system import TimeSystem
    return TimeSystem(K, C, ends, middle, beside, eigenvalues, options)


@contextmanager
def _torch_needed() -> Iterator[None]:
    """Where torch is imported: says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingDependencyError("backend='torch' needs torch: pip install 'nareg[torch]'.") from None


def check_solver_backend(backend: SolverBackend) -> str:
    """The name of a design's library."""
    if isinstance(backend, Torch):
        return "torch"
    checks.choice("backend", backend, get_args(get_args(SolverBackend)[0]))
    return backend


def alike_on_all_ranks(design: Callable[P, Design]) -> Callable[P, Design]:
    """Decorator of designs that take ``backend``: with PETSc all ranks fail, stop and end together, with the same weights."""

    @wraps(design)
    def call(*arguments: P.args, **options: P.kwargs) -> Design:
        with checking_in_step(options.get("backend")) as compared:
            result = design(*arguments, **options)
            compared["the weights of the design"] = result.weights
        return result

    return call


def checking_in_step(backend: object) -> AbstractContextManager[dict[str, Any]]:
    """Long work that all ranks of PETSc's do alike: what fails on one, or Ctrl-C there, ends it on all.

    What is put into the dictionary is compared between ranks at the end.
    """
    if backend != "petsc":
        return nullcontext({})
    from nareg.filters.backends._petsc.library import load
    from nareg.filters.backends._petsc.steps import in_step

    return in_step(load().comm)


def checking(backend: BackendLike) -> AbstractContextManager[dict[str, Any]]:
    """Where a user's input is checked: what fails on one rank of PETSc's fails on all, so that none waits for it.

    What is put into the dictionary is compared between ranks afterwards.
    """
    if backend != "petsc":
        return nullcontext({})
    from nareg.filters.backends._petsc.library import load
    from nareg.filters.backends._petsc.ranks import agreed

    return agreed(load().comm)
