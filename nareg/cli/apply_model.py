"""``nareg apply``: clean further readings with the model of ``nareg clean``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from nareg.cli import inputs
from nareg.cli.inputs import Columns, Strict, grouped, print_line, print_notes, stage_bar
from nareg.cli.judging import Judging


@grouped
def apply(
    model: Annotated[Path, typer.Argument(help="model.npz, which `nareg clean` wrote.")],
    readings: Annotated[list[Path], typer.Argument(help="Readings of later times, in any form that `nareg clean` reads.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder whose clean.csv, std.csv and flags.csv get the new rows. Default: the model's.")
    ] = None,
    lower: Annotated[float | None, typer.Option(help="Lower bound of the quantity. Default: from the readings.")] = None,
    upper: Annotated[float | None, typer.Option(help="Upper bound of the quantity.")] = None,
    *,
    columns: Columns,
    judging: Judging,
    strict: Strict = False,
) -> None:
    """Clean tomorrow's readings with a learned model, and add them to its tables. Nothing is learned anew.

    Run it as often as new readings come: rows of the same times are written anew. Of several quantities that one is read whose
    folder the model is in.
    """
    from nareg import cleaning, spacetime
    from nareg.io import SeveralQuantities
    from nareg.quality import events

    folder = model.parent if out is None else out
    files = inputs.in_folders(readings)
    (recipe,) = judging.added([columns.of_one()])
    fitted = spacetime.load(model)
    if not folder.is_dir():
        inputs.folder(folder)
    with stage_bar() as progress:
        run = partial(
            cleaning.apply, fitted, files[0] if len(files) == 1 else files, bounds=(lower, upper), strict=strict,
            progress=progress,
        )  # fmt: skip
        try:
            applied = run(recipe=recipe)
        except SeveralQuantities as several:
            own = [name for name in several.names if cleaning.folder_name(name) == model.resolve().parent.name]
            if len(own) != 1:
                raise
            applied = run(recipe=replace(recipe, value=own[0]))
        applied.append(folder)
    print_notes(applied.notes)
    for word, suspects in (("suspect", applied.suspects), ("dismissed", applied.dismissed)):
        for suspect in events(suspects):
            print_line(f"{word} {suspect.name}, {suspect.kind}: {suspect.evidence}")
    times = applied.readings.times
    print_line(
        f"{len(times):,} times of {len(applied.readings.names):,} stations, {times[0]} to {times[-1]}, added in {folder}"
    )
