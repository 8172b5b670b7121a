"""PETSc and MPI, imported when first needed and checked: installed, of real numbers, and started by their own launcher."""

from __future__ import annotations

import os
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from nareg.errors import InputError, MissingDependencyError

#: How launchers tell their processes how many there are: MPICH and Intel MPI, Open MPI.
COUNTS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")


class Library(NamedTuple):
    """The modules ``mpi4py.MPI`` and ``petsc4py.PETSc``, and all ranks."""

    MPI: Any
    PETSc: Any
    comm: Any


@cache
def load() -> Library:
    """PETSc on all ranks.

    Raises
    ------
    MissingDependencyError
        If petsc4py or mpi4py is not installed, or does not find its libraries.
    InputError
        If PETSc has complex scalars, or ranks were started by another MPI's ``mpiexec``.
    """
    try:
        from mpi4py import MPI  # before petsc4py: it opens the MPI library that both use

        import petsc4py  # isort: skip

        petsc4py.init(["nareg"])
        from petsc4py import PETSc
    except (ImportError, RuntimeError, OSError) as error:
        raise MissingDependencyError(
            f"backend='petsc' needs petsc4py and mpi4py ({error}): on Python 3.12 or later pip install 'nareg[petsc]', or "
            "install petsc4py built with your cluster's MPI."
        ) from None
    refuse_complex(np.dtype(PETSc.ScalarType))
    comm = MPI.COMM_WORLD
    if (started := started_processes()) > 1 and comm.size == 1:
        raise InputError(
            f"mpiexec started {started} processes, but each has an MPI of its own ({MPI.get_vendor()[0]}) and would run alone: "
            "use the mpiexec of the MPI that mpi4py was built with (the wheels' one lies beside python)."
        )
    return Library(MPI, PETSc, comm)


def started_processes() -> int:
    """Processes that the launcher says it started; one without a launcher."""
    counts = [os.environ.get(name, "") for name in COUNTS]
    return max([int(count) for count in counts if count.isdecimal()], default=1)


def refuse_complex(scalars: np.dtype[Any]) -> None:
    """Refuse a PETSc that does not compute in float64."""
    if scalars != np.float64:
        raise InputError(
            f"petsc4py was built for {scalars.name} scalars, float64 is needed: install a PETSc with real scalars "
            "(PETSC_ARCH chooses where there are several)."
        )
