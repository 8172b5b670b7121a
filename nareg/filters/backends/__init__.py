"""The library that solves a filter system: SciPy with our compiled loops, torch, or PETSc.

Each other backend is a private package beside this file, imported only when it is named.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, get_args

from nareg import _checks
from nareg._operator import FilterSystem
from nareg.filters._engines import Backend, Engines

BackendName = Literal["auto", "scipy", "petsc"]
BACKENDS = get_args(BackendName)


def open_backend(name: BackendName, system: FilterSystem, *, many: bool) -> Backend:
    """The system in the hands of the library of this name; ``many`` says that many solves follow."""
    _checks.choice("backend", name, BACKENDS)
    if name == "petsc":
        from nareg.filters.backends._petsc.engines import PetscEngines

        return PetscEngines(system)
    return Engines(system, many=many)


def checking(name: BackendName) -> AbstractContextManager[dict[str, Any]]:
    """Where a user's input is checked: what fails on one rank of PETSc's fails on all, so that none waits for it.

    What is put into the dictionary is compared between ranks afterwards.
    """
    if name != "petsc":
        return nullcontext({})
    from nareg.filters.backends._petsc.library import load
    from nareg.filters.backends._petsc.ranks import agreed

    return agreed(load().comm)
