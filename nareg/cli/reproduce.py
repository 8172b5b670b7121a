"""``nareg reproduce``: the experiments of a checkout."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import TimeRemainingColumn

from nareg._core.imports import find, load_package
from nareg.cli import inputs
from nareg.cli.inputs import console, errors, progress_bar
from nareg.errors import InputError

#: Of a finding; the others are yellow.
COLORS = {"reproduced": "green", "met": "green", "not reproduced": "red", "not met": "red"}


def reproduce(
    figures: Annotated[
        list[str], typer.Argument(help="fig1, gnn-noise, ...; or groups: node-adaptive, gnn, herta, unlearning, time, all.")
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer graphs and draws: a rough answer in a fraction of the time.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(help="Worker processes; results do not depend on their number.", min=1)] = None,
    device: Annotated[
        str | None, typer.Option(help="Torch device of gnn, herta and unlearning experiments: cpu, cuda, cuda:1.")
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            help="Compute on the workers of a dask scheduler, by its address; local: on --jobs worker processes here."
        ),
    ] = None,
    report: Annotated[bool, typer.Option("--report", help="Write one HTML page with all figures.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for pictures, CSV files and verdicts.")] = Path("nareg-reproduction"),
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting, snr_db=-5,0,5; of one of several figures: fig1.snr_db=-5,0,5. May be repeated."),
    ] = None,
) -> None:
    """Reproduce published figures: picture, numbers, and a verdict on every claim.

    An interrupted run continues where it stopped.
    """
    import joblib

    main_ = experiment("_main", command="reproduce")
    names = main_.wanted(figures)
    if device is not None:
        main_.check_device(device)
        idle = [name for name in names if name in main_.WITHOUT_DEVICE]
        if idle:
            errors.print(f"--device {device} is not used by {', '.join(idle)}: NumPy only.", soft_wrap=True, markup=False)
    inputs.folder(out)
    with progress_bar(TimeRemainingColumn(elapsed_when_finished=True)) as bar:
        lines = {name: bar.add_task(name, total=None, start=False) for name in names}

        def progress(name: str, done: int, total: int) -> None:
            bar.start_task(lines[name])
            bar.update(lines[name], completed=done, total=total)

        try:
            done, failed = main_.reproduce(
                names, out, quick=quick, jobs=jobs or joblib.cpu_count(), device=device, dask=dask,
                assignments=assignments or (), progress=progress,
            )  # fmt: skip
        except KeyboardInterrupt:
            errors.print(
                f"interrupted: finished figures are in {escape(str(out))}; run it again to continue",
                soft_wrap=True,
            )
            raise typer.Exit(130) from None
    for d in done:
        console.print(f"[bold]{d.figure.name}[/]: {escape(d.figure.title)}", soft_wrap=True)
        for v in d.verdicts:
            color = COLORS.get(v.finding, "yellow")
            console.print(f"  [{color}]{v.stated}[/] {escape(v.claim)}: {escape(v.measured)}", soft_wrap=True)
        console.print(f"  written: {escape(str(d.picture))}, {escape(str(d.table))}", soft_wrap=True)
    if report and done:
        console.print(f"report: {escape(str(main_.page(done, failed, out)))}", soft_wrap=True)
    for name, error in failed.items():
        errors.print(f"[red]not run:[/] {name}: {escape(str(error))}", soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def experiment(module: str, *, command: str) -> Any:
    """A module of the experiments of a checkout: beside the package, or in the current folder."""
    folder = find("experiments")
    if folder is None or not (folder / f"{module}.py").is_file():
        raise InputError(
            f"the experiments are not part of an installed nareg: run `nareg {command}` in a checkout of its repository."
        )
    load_package("experiments", folder)
    return importlib.import_module(f"experiments.{module}")
