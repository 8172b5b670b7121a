"""``nareg apply``: clean further readings with the model of ``nareg clean``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nareg.cli import inputs
from nareg.cli.inputs import Columns, Strict, grouped, print_line, print_notes, stage_bar
from nareg.cli.judging import Judging
from nareg.errors import InputError

if TYPE_CHECKING:
    from nareg.io import Recipe

#: What of a recipe holds for later readings too. Series and the time of the first row are others, and places are known.
LASTING = ("station", "time", "value", "kind", "missing", "zone", "step", "decimal", "flag", "bad", "use_flags", "query")


def remember(recipe: Recipe, model: Path) -> None:
    """Write beside a model how its readings were read; where nothing was said of them, remove what an earlier run wrote."""
    from nareg.cleaning import folder_name
    from nareg.io import Recipe

    entries = {name: getattr(recipe, name) for name in LASTING}
    if recipe.value is not None and folder_name(recipe.value) == model.resolve().parent.name:
        del entries["value"]  # one of several: the folder says it, and a later table may have this one alone
    path, lasting = model.with_suffix(".toml"), Recipe(**entries)
    if lasting == Recipe():
        path.unlink(missing_ok=True)
    else:
        lasting.save(path)


def remembered(recipe: Recipe, model: Path) -> Recipe:
    """The recipe, with what :func:`remember` wrote for entries that it does not have."""
    from nareg.io import Recipe

    path = model.with_suffix(".toml")
    if not path.is_file():
        return recipe
    before = Recipe.load(path)
    marks = ("bad", "use_flags") if recipe.bad or recipe.use_flags is not None else ()  # they may exclude each other
    unsaid = [name for name in LASTING if getattr(recipe, name) in (None, ()) and name not in marks]
    entries = {name: value for name in unsaid if (value := getattr(before, name)) not in (None, ())}
    if entries:
        said = "; ".join(f"{name} {', '.join(v) if isinstance(v, tuple) else v}" for name, v in entries.items())
        print_notes([f"Read as the model's own readings were, as {path} says: {said}."])
    return replace(recipe, **entries)


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
    if not model.exists():
        _say_why_absent(model)
    fitted = spacetime.load(model)
    recipe = remembered(recipe, model)
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


def _say_why_absent(model: Path) -> None:
    """Raise an error that says why a folder of ``nareg clean`` has no model, where it is one."""
    several = sorted(model.parent.glob(f"*/{model.name}"))
    if several:
        raise InputError(f"{model} does not exist: name the model of one quantity, such as {several[0]}.")
    if (model.parent / "report.html").exists():
        raise InputError(
            f"{model} does not exist: its readings were cleaned without a model, as directions are, all with --effort fast, "
            "and too few for a fit: clean the earlier and the new readings together with nareg clean."
        )
