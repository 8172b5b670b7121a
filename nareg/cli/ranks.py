"""Commands under ``mpiexec``: one rank speaks and writes, and all end together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from typing import Annotated

import typer

from nareg.cli.inputs import console, errors


class BackendOption(StrEnum):
    """The library that solves."""

    auto = "auto"
    scipy = "scipy"
    torch = "torch"
    petsc = "petsc"


class PartitionOption(StrEnum):
    """How a graph's folder is spread over ranks."""

    none = "none"
    ptscotch = "ptscotch"
    parmetis = "parmetis"


BackendChoice = Annotated[
    BackendOption, typer.Option("--backend", help="Library that solves; petsc also under mpiexec, on all ranks together.")
]
PartitionChoice = Annotated[
    PartitionOption,
    typer.Option("--partition", help="With --backend petsc and a .graph folder: move nodes for fewer edges between ranks."),
]


@contextmanager
def one_speaks(backend: str) -> Iterator[bool]:
    """Silence all ranks but the first; yields whether this is it. An unforeseen error on one rank ends all."""
    if backend != "petsc":
        yield True
        return
    from nareg._solvers.backends._petsc.library import load
    from nareg._solvers.backends._petsc.ranks import together

    comm = load().comm
    console.quiet = errors.quiet = comm.rank > 0
    ended = None
    with together(comm):
        try:
            yield comm.rank == 0
        except typer.Exit as exit_:  # of all ranks
            ended = exit_
    if ended is not None:
        raise ended


def checking(backend: BackendOption) -> AbstractContextManager[object]:
    """Where files are read and checked: what fails on one rank fails on all."""
    from nareg._solvers import backends

    return backends.checking(backend.value)
