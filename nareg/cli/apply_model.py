"""``nareg apply``: clean further readings with the model of ``nareg clean``."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nareg.cli import inputs
from nareg.cli.inputs import Columns, Strict, console, grouped, print_line, print_notes, stage_bar
from nareg.cli.judging import Judging
from nareg.errors import InputError, NaregError

if TYPE_CHECKING:
    from nareg.cleaning import Applied
    from nareg.io import Recipe

#: What of a recipe holds for later readings too. Series and the time of the first row are others, and places are known.
LASTING = (
    "station",
    "time",
    "value",
    "kind",
    "missing",
    "zone",
    "dates",
    "step",
    "header",
    "decimal",
    "flag",
    "bad",
    "use_flags",
    "query",
)


def remember(recipe: Recipe, model: Path) -> None:
    """Write beside a model how its readings were read, also where nothing was said of them."""
    from nareg.cleaning import folder_name
    from nareg.io import Recipe

    entries = {name: getattr(recipe, name) for name in LASTING}
    flags = (recipe.quality or {}).get("flags", "qartod")
    entries |= {} if flags == "qartod" else {"quality": {"flags": flags}}
    if recipe.value is not None and folder_name(recipe.value) == model.resolve().parent.name:
        del entries["value"]  # one of several: the folder says it, and a later table may have this one alone
    Recipe(**entries).save(model.with_suffix(".toml"))


def remembered(recipe: Recipe, model: Path) -> Recipe:
    """The recipe, with what :func:`remember` wrote for entries that it does not have."""
    from nareg.io import Recipe

    path = model.with_suffix(".toml")
    if not path.is_file():
        print_notes([f"{path} is absent: pass options such as --zone and --step again, if the model's own readings had any."])
        return recipe
    before = Recipe.load(path)
    marks = ("bad", "use_flags") if recipe.bad or recipe.use_flags is not None else ()  # they may exclude each other
    unsaid = [name for name in LASTING if getattr(recipe, name) in (None, ()) and name not in marks]
    entries = {name: value for name in unsaid if (value := getattr(before, name)) not in (None, ())}
    flags = {name: form for name, form in (before.quality or {}).items() if name not in (recipe.quality or {})}
    if recipe.zone is not None and before.zone is None:
        print_notes([f"{path} has no zone: the model's times without an offset count as UTC, the new ones as {recipe.zone}."])
    if entries or flags:
        said = "; ".join(f"{name} {', '.join(v) if isinstance(v, tuple) else v}" for name, v in (entries | flags).items())
        print_notes([f"Read as the model's own readings were, as {path} says: {said}."])
    return replace(recipe, **entries, quality={**(recipe.quality or {}), **flags} or None)


@grouped
def apply(
    model: Annotated[
        Path, typer.Argument(help="model.npz, which `nareg clean` wrote, or its folder, also that of several quantities.")
    ],
    readings: Annotated[list[Path], typer.Argument(help="Readings of later times, in any form that `nareg clean` reads.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder whose clean.csv, std.csv and flags.csv get the new rows. Default: the model's.")
    ] = None,
    lower: Annotated[float | None, typer.Option(help="Lower bound of the quantity. Default: from the readings.")] = None,
    upper: Annotated[float | None, typer.Option(help="Upper bound of the quantity.")] = None,
    speed: Annotated[
        str | None, typer.Option(help="Column of the wind's speed. Default: that of the first run, if it had one.")
    ] = None,
    *,
    columns: Columns,
    judging: Judging,
    strict: Strict = False,
) -> None:
    """Clean tomorrow's readings with a learned model, and add them to its tables. Nothing is learned anew.

    Run it as often as new readings come: rows of the same times are written anew. Of several quantities that one is read whose
    folder the model is in. With the folder of all of them each is read, and their common clean.csv gets the rows, too.
    """
    from nareg import cleaning
    from nareg.io import Recipe

    files = inputs.in_folders(readings)
    asked = columns.of_one()
    (recipe,) = judging.added([asked])
    if judging.flags is None and "flags" not in (asked.quality or {}):  # those of the first run
        recipe = replace(recipe, quality={name: rule for name, rule in (recipe.quality or {}).items() if name != "flags"})
    folder = model if model.is_dir() else model.parent
    path = folder / "model.npz" if model.is_dir() else model
    several = _of_quantities(folder) if model.is_dir() and not path.exists() else []
    own_folder = folder if out is None else out
    one = partial(_apply_one, files, recipe=recipe, bounds=(lower, upper), speed=speed, strict=strict)
    if not several:
        one(path, own_folder)
        return
    if recipe.value is not None or (lower, upper) != (None, None):
        raise InputError(f"{model} has several quantities: omit --value, --lower and --upper, or name the model of one.")
    done: dict[str, Applied] = {}
    for own in several:
        name = own.parent.name
        console.print(f"[bold]{escape(name)}[/]", soft_wrap=True, highlight=False)
        try:
            applied = one(own, own_folder / name, quantity=name)
        except NaregError as error:
            inputs.print_message("error", str(error))
        else:
            done[str(applied.readings.quantity)] = applied
    if not done:
        raise typer.Exit(2)
    joint, memories = own_folder / "clean.csv", (own.with_suffix(".toml") for own in several)
    lasting = next((Recipe.load(path) for path in memories if path.is_file()), recipe)
    cleaning.append_several(joint, done, recipe.zone or lasting.zone)
    print_line(f"{len(done)} of {len(several)} quantities: {joint}")


def _apply_one(
    files: list[Path], model: Path, folder: Path, *, recipe: Recipe, bounds: tuple[float | None, float | None],
    speed: str | None, strict: bool, quantity: str | None = None,
) -> Applied:  # fmt: skip
    """Clean readings with a model, and add the rows to the tables of a folder; of no other quantity than that of a folder."""
    from nareg import cleaning, spacetime
    from nareg.io import SeveralQuantities
    from nareg.quality import events

    if not model.exists():
        _say_why_absent(model)
    fitted = spacetime.load_any(model)
    if speed is not None and isinstance(fitted, spacetime.DirectionModels) and fitted.speeds is not None:
        fitted = replace(fitted, speed_column=speed)
    recipe = remembered(recipe, model)
    if not folder.is_dir():
        inputs.folder(folder)
    with stage_bar() as progress:
        run = partial(
            cleaning.apply, fitted, files[0] if len(files) == 1 else files, bounds=bounds, strict=strict, progress=progress
        )
        try:
            applied = run(recipe=recipe)
        except SeveralQuantities as several:
            own = [name for name in several.names if cleaning.folder_name(name) == model.resolve().parent.name]
            if len(own) != 1 and quantity is None:
                raise
            if len(own) != 1:
                raise _none_of(quantity, several.names) from None
            applied = run(recipe=replace(recipe, value=own[0]))
        read = applied.readings.quantity or ""
        if quantity is not None and cleaning.folder_name(read) != quantity:
            raise _none_of(quantity, [read])
        applied.append(folder)
    print_notes(applied.notes)
    for word, suspects in (("suspect", applied.suspects), ("dismissed", applied.dismissed)):
        for suspect in events(suspects):
            print_line(f"{word} {suspect.name}, {suspect.kind}: {suspect.evidence}")
    times = applied.readings.times
    print_line(
        f"{len(times):,} times of {len(applied.readings.names):,} stations, {times[0]} to {times[-1]}, added in {folder}"
    )
    return applied


def _none_of(quantity: str | None, names: Sequence[str]) -> InputError:
    there = ", ".join(filter(None, names)) or "one without a name"
    return InputError(f"no column of the readings is {quantity}, the quantity of the folder: they have {there}.")


def _of_quantities(folder: Path) -> list[Path]:
    """Models of the quantities of a folder, also of those that were cleaned without; none where all were.

    Those of an earlier run, which the common table does not have, are left out with a note.
    """
    from nareg.cleaning import folder_name
    from nareg.io import unshield

    results = sorted(page.with_name("model.npz") for page in folder.glob("*/report.html"))
    joint = folder / "clean.csv"
    if results and joint.is_file():
        with joint.open(newline="", encoding="utf-8") as handle:
            columns = {folder_name(unshield(name)) for name in next(csv.reader(handle), [])}
        older = [path.parent for path in results if path.parent.name not in columns]
        if len(older) < len(results):  # else it is not the table of these
            results = [path for path in results if path.parent not in older]
            print_notes([f"{one} is left out: {joint} has no such quantity." for one in older])
    return results if any(path.exists() for path in results) else []


def _say_why_absent(model: Path) -> None:
    """Raise an error that says why a folder of ``nareg clean`` has no model, where it is one."""
    several = _of_quantities(model.parent)
    if several:
        raise InputError(
            f"{model} does not exist: name the folder of all quantities, {model.parent}, or the model of one, such as "
            f"{several[0]}."
        )
    if (model.parent / "report.html").exists():
        raise InputError(
            f"{model} does not exist: its readings were cleaned without a model, as all with --effort fast are, and too few "
            "for a fit: clean the earlier and the new readings together with nareg clean."
        )
