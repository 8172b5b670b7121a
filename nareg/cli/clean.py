"""``nareg clean``: two files in, the cleaned tables and a report out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from nareg.cli import inputs
from nareg.cli.apply_model import remember
from nareg.cli.inputs import MAX_SUSPECTS, Columns, Strict, console, errors, grouped, print_line, print_suspects, stage_bar
from nareg.cli.judging import Judging, own_dismissals
from nareg.errors import InputError, NaregError

if TYPE_CHECKING:
    from nareg.cleaning import Cleaned, CleanSettings, Kind, StationNetwork
    from nareg.io import Recipe

#: What has the readings, and the table of stations or None.
Tables = tuple["Path | list[Path]", "Path | None"]


@dataclass(frozen=True)
class CleanOptions:
    """What is known of the readings, and how the model is chosen."""

    unit: Annotated[str | None, typer.Option(help="Unit of the readings, shown in texts and pictures, such as °C.")] = None
    lower: Annotated[
        float | None,
        typer.Option(help="Lower bound of the quantity, which estimates keep. Default: from the readings."),
    ] = None
    upper: Annotated[float | None, typer.Option(help="Upper bound of the quantity, such as 100 for humidity.")] = None
    speed: Annotated[
        str | None, typer.Option(help="Column of the wind's speed: directions are cleaned as vectors of that length.")
    ] = None
    noise: Annotated[
        str | None, typer.Option(help="Known noise variance: a number, or a CSV with columns station, variance.")
    ] = None
    noise_std: Annotated[
        str | None, typer.Option(help="Known noise standard deviation: a number, or a CSV with columns station, std.")
    ] = None
    transform: Annotated[
        Literal["auto", "none", "sqrt", "log"],
        typer.Option(help="Transform applied to the readings before the fit; auto compares all."),
    ] = "auto"
    dynamics: Annotated[
        Literal["auto", "scalar", "diagonal", "modes", "graph", "full"],
        typer.Option(help="Dynamics of the model; auto chooses by the error at hidden readings."),
    ] = "auto"
    neighbors: Annotated[int, typer.Option("-k", "--neighbors", help="Nearest neighbors per station.", min=1)] = 7
    hidden: Annotated[float, typer.Option(help="Share of readings hidden to compare methods.", min=0, max=0.5)] = 0.08
    correct: Annotated[
        bool | None,
        typer.Option(help="Use the corrected readings of sensors that drift or have a wrong unit. Default: as a recipe says."),
    ] = None
    effort: Annotated[
        Literal["normal", "fast", "thorough"],
        typer.Option(
            help="fast: the best of three quick methods, no model, no checks; thorough: all checks above 500 stations."
        ),
    ] = "normal"
    seed: Annotated[int, typer.Option(help="Random seed for the choice of hidden readings.", min=0)] = 0

    @property
    def files(self) -> list[Path]:
        """Those that options name."""
        return [Path(value) for value in (self.noise, self.noise_std) if value is not None and inputs.is_file(value)]

    def settings(self, network: StationNetwork, recipe: Recipe) -> CleanSettings:
        """The settings for a network."""
        from nareg.cleaning import CleanSettings
        from nareg.cli.plausibility import noise_line
        from nareg.quality import Rules

        rules = Rules.of(recipe.quality)
        variance = inputs.noise_variance(self.noise, self.noise_std, network.readings.names, network.stations)
        if variance is not None:
            noise_line(variance, "given")
        return CleanSettings(
            noise=variance,
            transform=None if self.transform == "none" else self.transform,
            dynamics=self.dynamics,
            hidden=self.hidden,
            unit=network.readings.unit if self.unit is None else self.unit,
            bounds=(self.lower, self.upper),
            kind=cast("Kind", recipe.kind_of([recipe.value, *network.quantity]) or "auto"),
            rng=np.random.default_rng(self.seed),
            quality=replace(rules, correct=rules.correct if self.correct is None else self.correct),
            effort=self.effort,
        )


@grouped
def clean(
    stations: Annotated[
        Path,
        typer.Argument(
            help="CSV with station, latitude, longitude (or x, y), or a MatrixMarket graph (.mtx). Left out where the rows of "
            "readings have the positions, or nothing has."
        ),
    ],
    readings: Annotated[
        list[Path] | None,
        typer.Argument(
            help="CSV: time, then one column per station; or time, station, value. Empty = missing. Or NPZ. Several files, or "
            "a folder of them, are joined: one per station, or per month."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Output folder for clean.csv, std.csv, flags.csv and report.html.")] = Path("clean"),
    form: Annotated[
        Literal["csv", "parquet", "netcdf"],
        typer.Option("--format", help="Format of the tables. netcdf is one file, clean.nc."),
    ] = "csv",
    *,
    options: CleanOptions,
    columns: Columns,
    judging: Judging,
    strict: Strict = False,
) -> None:
    """Denoise readings, fill their gaps and flag bad ones. No option is needed.

    Writes the estimate, its standard deviation and QARTOD flags (1 good, 3 suspect, 4 bad, 9 missing), each in the shape of
    the readings. Writes a report with the error of every method at hidden readings.
    """
    from nareg.cleaning import assemble
    from nareg.cleaning import files as files_of
    from nareg.io import SeveralQuantities

    files, places = inputs.tables(stations, readings)
    tables: Tables = (files[0] if len(files) == 1 else files, places)
    recipes = judging.added(columns.recipes())
    given = (stations, *files, *options.files, *columns.files)

    @cache
    def read_one(recipe: Recipe) -> StationNetwork:
        return assemble(*tables, strict=strict, neighbors=options.neighbors, recipe=recipe)

    said: set[str] = set()

    def read(recipe: Recipe) -> StationNetwork:
        network = read_one(replace(recipe, quality=None))  # the tables are the same, whatever is no fault
        inputs.print_notes(note for note in network.notes if note not in said)  # of several quantities most are the same
        said.update(network.notes)
        return network

    def clean_one(recipe: Recipe, folder: Path) -> Cleaned:
        return _clean_one(tables, partial(read, recipe), recipe, folder, form, options, given, strict)

    if len(recipes) > 1:
        recipes = own_dismissals(read, recipes)
        if _clean_each(recipes, out, form, clean_one, given):
            raise typer.Exit(2)
        return
    try:
        clean_one(recipes[0], out)
        _say_what_is_older(out, files_of(form))
    except SeveralQuantities as error:
        if strict or not error.names:
            raise
        many = f"There are {len(error.names)} quantities: each is cleaned, with a report of its own."
        inputs.print_message("note", f"{many} To choose, name some by --value.")
        recipes = own_dismissals(read, [replace(recipes[0], value=name) for name in error.names])
        if _clean_each(recipes, out, form, clean_one, given) == len(recipes):
            raise typer.Exit(2) from None


def _clean_each(
    recipes: list[Recipe], out: Path, form: str, clean_one: Callable[[Recipe, Path], Cleaned], given: tuple[Path, ...]
) -> int:
    """Clean several quantities, each into a folder of its own, and all into one table; how many could not be cleaned.

    Those without any reading are left out, unless all are.
    """
    from nareg import cleaning
    from nareg.io import NeverRead

    recipes = _own_kinds(recipes)
    folders = [out / cleaning.folder_name(str(recipe.value)) for recipe in recipes]
    if len(set(folders)) < len(folders):
        raise InputError("--value names a quantity twice, or two whose folders would have one name: clean them one by one.")
    for name in cleaning.several_files(form):
        inputs.output(out / name, (".csv", ".parquet", ".nc", ".html"), *given)
    done: dict[str, Cleaned] = {}
    empty = 0
    for recipe, folder in zip(recipes, folders, strict=True):
        console.print(f"[bold]{escape(str(recipe.value))}[/]", soft_wrap=True, highlight=False)
        try:
            done[str(recipe.value)] = clean_one(recipe, folder)
        except NeverRead:
            empty += 1
            inputs.print_notes([f"{recipe.value} has no reading and is left out."])
        except NaregError as error:
            inputs.print_message("error", str(error))
    if done:
        places = {str(recipe.value): folder.name for recipe, folder in zip(recipes, folders, strict=True)}
        for name, write in cleaning.several_parts(done, places, form).items():
            write(out / name)
        for name in ("model.npz", "model.toml"):  # of an earlier run, of one quantity
            (out / name).unlink(missing_ok=True)
        share = "all" if len(done) == len(recipes) else f"{len(done)} of"
        joint = cleaning.several_files(form)
        print_line(f"{share} {len(recipes)} quantities: {', '.join(str(out / name) for name in joint)}")
        _say_what_is_older(out, [*joint, *(places[name] for name in done)])
    if empty == len(recipes):
        raise InputError("readings contains no reading of any quantity: check the table and its marks for missing readings.")
    return len(recipes) - len(done) - (empty if done else 0)


def _say_what_is_older(out: Path, written: Sequence[str]) -> None:
    """Name the results in a folder that this run did not write."""
    from nareg import cleaning

    older = cleaning.of_other_runs(out, written)
    if older:
        inputs.print_notes(
            [f"{out} has results that this run did not write: {', '.join(older)}. Remove them, if they are old."]
        )


def _own_kinds(recipes: list[Recipe]) -> list[Recipe]:
    """Recipes of several quantities, each with what is said of its own kind."""
    from nareg.cleaning import unused_kinds

    names, entries = [str(recipe.value) for recipe in recipes], recipes[0].kind
    inputs.print_notes(unused_kinds(entries, names))
    one = replace(recipes[0], kind=entries).kind_of([])
    if one is not None:
        raise InputError(f"kind is {one!r}, and there are {len(names)} quantities: name it, such as '{names[0]}: {one}'.")
    kinds = [recipe.kind_of([recipe.value]) for recipe in recipes]
    return [replace(recipe, kind=() if kind is None else (kind,)) for recipe, kind in zip(recipes, kinds, strict=True)]


def _clean_one(
    tables: Tables, read: Callable[[], StationNetwork], recipe: Recipe, out: Path, form: str, options: CleanOptions,
    given: tuple[Path, ...], strict: bool,
) -> Cleaned:  # fmt: skip
    """Clean one quantity, and write its files to a folder."""
    from nareg import cleaning

    for name in (*cleaning.files(form), "model.toml"):
        inputs.output(out / name, (".csv", ".parquet", ".nc", ".html", ".npz", ".toml"), *given)
    written: list[str] = []
    try:
        network = read()
        inputs.print_notes(cleaning.unused_kinds(recipe.kind, [recipe.value or "", *network.quantity]))
        settings = options.settings(network, recipe)
        if options.speed is not None and cleaning.directions(network, settings.kind, settings.unit):
            speeds = cleaning.read_known(
                tables[0], network.readings.names, strict, replace(recipe, value=options.speed, kind=())
            )
            settings = replace(settings, kind=cleaning.Wind(speeds))
        inputs.folder(out)
        with stage_bar() as progress:
            cleaned = cleaning.run(network, settings, progress)
            if cleaned.directed is not None and cleaned.directed.speeds is not None:
                cleaned = replace(cleaned, directed=replace(cleaned.directed, speed_column=options.speed))
            for name, write in cleaning.parts(cleaned, form).items():
                write(out / name)
                written.append(name)
        if (out / "model.npz").exists():
            remember(recipe, out / "model.npz")
        else:
            (out / "model.toml").unlink(missing_ok=True)
    except KeyboardInterrupt:
        complete = f"these files in {out} are complete: {', '.join(written)}" if written else "nothing was written"
        errors.print(f"interrupted: {escape(complete)}", soft_wrap=True)
        raise typer.Exit(130) from None
    inputs.print_notes(cleaned.notes[len(network.notes) :])
    for name, text in cleaned.reasons:
        console.print(f"[bold]{escape(name)}:[/] {escape(text)}", soft_wrap=True, highlight=False)
    if len(cleaned.errors):
        unit = f", {cleaned.unit}" if cleaned.unit else ""
        print_line(f"errors at {int(cleaned.hidden.sum()):,} readings that were hidden from every method{unit}:")
        console.print(_table(cleaned))
    if cleaned.quality is not None:
        print_suspects(cleaned.quality, "the report")
    elif cleaned.suspects:
        more = f" and {len(cleaned.suspects) - MAX_SUSPECTS} more" if len(cleaned.suspects) > MAX_SUSPECTS else ""
        print_line(f"suspect, for many bad readings or much noise: {', '.join(cleaned.suspects[:MAX_SUSPECTS])}{more}")
    print_line(f"{cleaned.headline()}, report in {out / 'report.html'}")
    return cleaned


def _table(cleaned: Cleaned) -> Table:
    from nareg.cleaning import number

    table = Table("method")
    for heading in ("RMSE", "single", "in gaps", "with flagged", "MAE"):
        table.add_column(heading, justify="right")
    for name, row in cleaned.errors.iterrows():
        cells = (number(row[key], 3) for key in ("rmse", "rmse_single", "rmse_gaps", "rmse_with_flagged", "mae"))
        table.add_row(escape(str(name)), *cells, style="bold" if name == cleaned.method else None)
    return table
