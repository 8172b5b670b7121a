"""``nareg inspect``: how a table of readings is understood, and a recipe to correct."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from nareg.cli import inputs
from nareg.cli.inputs import Columns, Strict, console, grouped, print_line, print_notes
from nareg.errors import InputError

if TYPE_CHECKING:
    from nareg.io import Recipe

#: The recipe, where no other file is named.
DEFAULT = Path("recipe.toml")
#: How a table shows kinds of quantities.
KINDS = {"number": "number", "nonnegative": "nonnegative", "bounded": "0 to 100", "direction": "direction"}


@grouped
def inspect(
    stations: Annotated[
        Path, typer.Argument(help="CSV of stations; left out where the readings have the positions, or nothing has.")
    ],
    readings: Annotated[
        list[Path] | None,
        typer.Argument(
            help="CSV of readings, wide or long, of one quantity or several. Several files, or a folder, are joined."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Recipe to write, for nareg clean --recipe. Default: recipe.toml, unless there is another."),
    ] = None,
    *,
    columns: Columns,
    strict: Strict = False,
) -> None:
    """Say how a table is understood: stations, times, quantities, guesses. Nothing is computed or written but the recipe."""
    from nareg import io

    files, places = inputs.tables(stations, readings)
    if out is not None:
        inputs.output(out, (".toml",), stations, *files)
    recipe = columns.of_one("a recipe has one: omit it here, and name them for nareg clean --recipe")
    seen = io.inspect(files, places, recipe=recipe, strict=strict)
    print_notes(seen.notes)
    for line in seen.lines():
        print_line(line)
    shown = Table("quantity")
    for heading in ("unit", "kind", "stations", "readings", "missing", "lowest", "median", "highest", "in steps of"):
        shown.add_column(heading, justify="left" if heading in ("unit", "kind") else "right")
    for name, row in seen.quantities.iterrows():
        numbers = (row[key] for key in ("low", "median", "high", "resolution"))
        range_ = (f"{number:.6g}" if np.isfinite(number) else "-" for number in numbers)
        cells = (f"{row['stations']:,}", f"{row['readings']:,}", f"{100 * row['missing']:.1f} %", *range_)
        kind = f"{KINDS[row['kind']]} (by {row['shown_by']})"
        shown.add_row(escape(str(name)), escape(str(row["unit"])), kind, *cells)
    console.print(shown)
    for name, counts in seen.counts.items():
        if len(seen.counts) == 1 or not counts.all_used:
            print_line(f"{name}: {counts.sentence()}")
    if len(seen.quantities) > 1:
        print_line(f"nareg clean cleans each; name some by --value, such as --value {str(seen.quantities.index[0])!r}")
    if out is not None:
        seen.recipe.save(out)
        print_line(f"written: {out}")
    else:
        _write_by_default(seen.recipe)


def _write_by_default(recipe: Recipe) -> None:
    """Write recipe.toml to the current folder, unless one is there that says something else."""
    from nareg.io import Recipe

    try:
        if not DEFAULT.exists():
            recipe.save(DEFAULT)
        if Recipe.load(DEFAULT) != recipe:
            raise InputError(f"{DEFAULT} says something else.")
    except InputError as error:  # also in a folder of others' files: what was said above is worth it
        print_notes([f"The recipe is not written ({str(error).rstrip('.')}): name another file by --out."])
    else:
        print_line(f"recipe, for nareg clean --recipe: {DEFAULT}")
