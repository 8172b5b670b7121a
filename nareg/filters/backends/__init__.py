"""The library that solves a filter system: SciPy with our compiled loops, torch, or PETSc.

Each other backend is a private package beside this file, imported only when it is named.
"""

from __future__ import annotations

from typing import Literal, get_args

from nareg import _checks
from nareg._operator import FilterSystem
from nareg.filters._engines import Backend, Engines

BackendName = Literal["auto", "scipy"]
BACKENDS = get_args(BackendName)


def open_backend(name: BackendName, system: FilterSystem, *, many: bool) -> Backend:
    """The system in the hands of the library of this name; ``many`` says that many solves follow."""
    _checks.choice("backend", name, BACKENDS)
    return Engines(system, many=many)
