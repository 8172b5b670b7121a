"""The library that solves a filter system: SciPy with our compiled loops, torch, or PETSc.

Each other backend is a private package beside this file, imported only when it is named.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, get_args

from nareg import _checks
from nareg._operator import FilterSystem
from nareg.errors import MissingDependencyError
from nareg.filters._engines import Backend, Engines
from nareg.filters.backends._options import Torch

if TYPE_CHECKING:
    from nareg.filters.backends._torch import TorchEngines

__all__ = ["BACKENDS", "BackendLike", "BackendName", "Torch", "checking", "open_backend", "open_torch"]

BackendName = Literal["auto", "scipy", "torch", "petsc"]
BACKENDS = get_args(BackendName)
BackendLike = BackendName | Torch


def open_backend(backend: BackendLike, system: FilterSystem, *, many: bool) -> Backend:
    """The system in the hands of the library of this name; ``many`` says that many solves follow."""
    if isinstance(backend, Torch):
        return open_torch(backend, Engines(system, many=many))
    _checks.choice("backend", backend, BACKENDS)
    if backend == "torch":
        return open_torch(Torch(), Engines(system, many=many))
    if backend == "petsc":
        from nareg.filters.backends._petsc.engines import PetscEngines

        return PetscEngines(system)
    return Engines(system, many=many)


def open_torch(options: Torch, host: Engines, weights: object = None, fit: object = None) -> TorchEngines:
    """The system on torch; ``host`` solves on the CPU. Tensors among ``weights`` and ``fit`` may ask for gradients."""
    try:
        from nareg.filters.backends._torch import TorchEngines
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingDependencyError("backend='torch' needs torch: pip install 'nareg[torch]'.") from None
    return TorchEngines(host, options, weights=weights, fit=fit)


def checking(backend: BackendLike) -> AbstractContextManager[dict[str, Any]]:
    """Where a user's input is checked: what fails on one rank of PETSc's fails on all, so that none waits for it.

    What is put into the dictionary is compared between ranks afterwards.
    """
    if backend != "petsc":
        return nullcontext({})
    from nareg.filters.backends._petsc.library import load
    from nareg.filters.backends._petsc.ranks import agreed

    return agreed(load().comm)
