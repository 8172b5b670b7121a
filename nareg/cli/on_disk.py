"""``nareg denoise`` for a graph's folder and signals in ``.npy`` files, neither of which has to fit into memory."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.markup import escape

from nareg._storage.folders import is_folder
from nareg.cli.inputs import console, errors, output, progress_bar
from nareg.errors import InputError


def are_on_disk(graph: Path, signals: Path) -> bool:
    """Whether the graph and signals are of the kinds that are read in parts."""
    return is_folder(graph) and signals.suffix.lower() == ".npy"


def denoise_on_disk(graph: Path, signals: Path, weights: Path, out: Path, backend: str, partition: str) -> None:
    """Denoise signals, (nodes, signals), as they are: no mean is removed; with PETSc by all ranks."""
    from nareg import filters
    from nareg.filters.backends import Disk, Petsc

    if weights.suffix.lower() != ".npy":
        raise InputError(f"--weights {weights}: with a graph folder and .npy signals the weights are an .npy file, too.")
    output(out, (".npy",), signals, weights)
    with progress_bar() as bar:
        line = bar.add_task("opening", total=None)

        def show(step: int, residual: float) -> None:
            bar.update(line, completed=step, description=f"solving, residual {residual:.1e}")

        options = Petsc(partition) if backend == "petsc" else Disk()  # type: ignore[arg-type]
        solution = filters.denoise(graph, weights, signals, out=out, backend=options, callback=show)
    outcome = f"{solution.method}: {solution.status.value}; relative residual {solution.residual:.1e}"
    console.print(escape(outcome), soft_wrap=True)
    console.print(f"written: {escape(str(out))}", soft_wrap=True)
    if not solution.status.ok:
        errors.print(f"[bold red]error:[/] {escape(str(out))} holds the last iterate, not a solution", soft_wrap=True)
        raise typer.Exit(1)
