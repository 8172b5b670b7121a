"""Commands under ``mpiexec``: one rank speaks and writes, and all end together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nareg.cli.inputs import console, errors, output, progress_bar
from nareg.errors import InputError


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
    from nareg.filters.backends._petsc.library import load
    from nareg.filters.backends._petsc.ranks import together

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
    from nareg.filters import backends

    return backends.checking(backend.value)


def denoise_files(graph: Path, signals: Path, weights: Path, out: Path, partition: str) -> None:
    """Denoise a graph's folder and ``.npy`` files by all ranks."""
    from nareg import cluster

    if weights.suffix.lower() != ".npy":
        raise InputError(f"--weights {weights}: with a graph folder and .npy signals the weights are an .npy file, too.")
    output(out, (".npy",), signals, weights)
    with progress_bar() as bar:
        line = bar.add_task("solving", total=None)
        solution = cluster.denoise(
            graph, weights, signals, out, partition=partition,  # type: ignore[arg-type]
            progress=lambda p: bar.update(line, completed=p.step, description=f"solving, residual {p.values['residual']:.1e}"),
        )  # fmt: skip
    outcome = f"{solution.method}: {solution.status.value}; relative residual {solution.residual:.1e}"
    console.print(escape(outcome), soft_wrap=True)
    console.print(f"written: {escape(str(out))}", soft_wrap=True)
    if not solution.status.ok:
        errors.print(f"[bold red]error:[/] {escape(str(out))} holds the last iterate, not a solution", soft_wrap=True)
        raise typer.Exit(1)
