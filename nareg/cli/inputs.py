"""Arguments and options that several commands share, checked inputs from files, and the consoles."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_type_hints

import numpy as np
import typer
from rich.console import Console, ConsoleDimensions
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from nareg._storage.folders import is_folder
from nareg.errors import InputError
from nareg.progress import ProgressCallback

if TYPE_CHECKING:
    from nareg.graph import Graph
    from nareg.io import Readings, Recipe
    from nareg.quality import Quality

#: Lines of suspects that a command prints.
MAX_SUSPECTS = 12
#: Of the first word of a message.
COLORS = {"note": "cyan", "warning": "yellow", "error": "bold red"}
#: Columns of a pipe or a file, which need no folding.
UNFOLDED = 10_000


class UnfoldedConsole(Console):
    """A console that folds text and tables only where a terminal, or ``COLUMNS``, sets a width."""

    @property
    def size(self) -> ConsoleDimensions:
        """Columns and rows."""
        size = super().size
        return size if self.is_terminal or self._width is not None else ConsoleDimensions(UNFOLDED, size.height)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size


console = UnfoldedConsole()
errors = UnfoldedConsole(stderr=True)


def print_line(text: str) -> None:
    """Print plain text, in one line however narrow the terminal is."""
    console.print(escape(text), soft_wrap=True, highlight=False)


def print_suspects(quality: Quality, rest: str) -> None:
    """Print a line per suspect station and kind of fault, the longest first; ``rest`` names where the others are."""
    from nareg.quality import events

    suspects = events(quality.suspects)
    for suspect in suspects[:MAX_SUSPECTS]:
        print_line(f"suspect {suspect.name}, {suspect.kind}: {suspect.evidence}")
    if len(suspects) > MAX_SUSPECTS:
        print_line(f"{len(suspects) - MAX_SUSPECTS} more suspects: see {rest}")
    for suspect in events(quality.dismissed):
        print_line(f"dismissed {suspect.name}, {suspect.kind}: {suspect.evidence}")


class SensorInputs(NamedTuple):
    """A graph, its nodes' names and readings in the same order, and all names in the station file."""

    graph: Graph
    names: tuple[str, ...]
    readings: Readings
    stations: tuple[str, ...]


def network(
    stations: Path, readings: Path, neighbors: int, *, strict: bool, recipe: Recipe, designed: list[str] | None = None
) -> SensorInputs:
    """Stations and their readings; prints what the readers guessed.

    Stations without a column of readings are left out, unless the weights were designed for them: ``designed``.
    """
    from nareg import io
    from nareg.graph import Graph

    if stations.suffix.lower() == ".mtx" or is_folder(stations):
        graph = Graph.load(stations) if is_folder(stations) else Graph(io.read_adjacency(stations))
        names = graph.names or tuple(str(i) for i in range(graph.n_nodes))
        table = io.read_readings(readings, names, strict=strict, recipe=recipe)
        if table.names != names:
            absent = next(name for name in names if name not in set(table.names))
            raise InputError(f"{readings}: no column for station {absent!r}: every node of {stations} needs one.")
        print_notes(table.notes)
        return SensorInputs(graph, names, table, names)
    places = io.read_stations(stations, strict=strict, recipe=recipe)
    print_notes(places.notes)
    rows = {name: i for i, name in enumerate(places.names)}
    wanted = places.names
    if designed is not None and [name for name in places.names if name in set(designed)] == designed:
        wanted = tuple(designed)
    table = io.read_readings(readings, wanted, strict=strict, keep_absent=wanted == tuple(designed or ()), recipe=recipe)
    print_notes(table.notes)
    coordinates = places.coordinates[[rows[name] for name in table.names]]
    return SensorInputs(
        Graph.from_knn(coordinates, neighbors, metric=places.metric, names=table.names), table.names, table, places.names
    )


def print_message(kind: Literal["note", "warning", "error"], text: str) -> None:
    """Print a line of some kind to the error stream."""
    errors.print(f"[{COLORS[kind]}]{kind}:[/] {escape(text)}", soft_wrap=True)


def print_notes(notes: Iterable[str]) -> None:
    """Print a line for each note to the error stream."""
    for note in notes:
        print_message("note", note)


def mean(values: np.ndarray, center: str) -> np.ndarray:
    """The mean to remove, (1, 1) or (N, 1), over the readings that are not NaN."""
    from nareg.design import station_levels

    if center == "none":
        return np.zeros((1, 1))
    if center == "global":
        return np.full((1, 1), np.nanmean(values))
    return station_levels(values, np.isfinite(values))[:, None]


def in_folders(paths: list[Path]) -> list[Path]:
    """The files that are named, and those of folders, by name."""
    files: list[Path] = []
    for path in paths:
        inside = (
            sorted(one for one in path.iterdir() if one.is_file() and not one.name.startswith(".")) if path.is_dir() else [path]
        )
        recipes = [one for one in inside if path.is_dir() and one.suffix.lower() == ".toml"]
        print_notes(f"{one} is a recipe or settings, not a table, and is left out." for one in recipes)
        inside = [one for one in inside if one not in recipes]
        if not inside:
            what = "has recipes alone" if recipes else "is an empty folder"
            raise InputError(f"{path} {what}: name the files of readings.")
        files += inside
    return files


def tables(first: Path, others: list[Path] | None) -> tuple[list[Path], Path | None]:
    """The files of readings, and the table of stations: none where the first file stands alone or is like the second."""
    from nareg import io

    if not others or (first.is_dir() and first.suffix != ".graph") or io.alike(first, others[0]):
        return in_folders([first, *(others or [])]), None
    last = others[-1]
    exchanged = len(others) == 1 and not _is_read(io.read_stations, first) and _is_read(io.read_stations, last)
    if exchanged and not _is_read(io.read_readings, last):
        print_notes([f"{last} has the places and no times: it is taken as the table of stations."])
        return [first], last
    return [file for file in in_folders(others) if file != first], first


def _is_read(read: Callable[..., Any], file: Path) -> bool:
    try:
        read(file)
    except InputError:
        return False
    return True


def noise_variance(
    noise: str | None, noise_std: str | None, names: tuple[str, ...], stations: tuple[str, ...]
) -> np.ndarray | None:
    """The variance of each name from ``--noise`` or ``--noise-std``; None where neither is given.

    A file may also hold the variances of other stations.
    """
    if noise is not None and noise_std is not None:
        raise InputError("--noise is a variance and --noise-std a standard deviation: give one of them.")
    if noise is not None:
        return _per_station(noise, names, stations, "--noise", "variance")
    return None if noise_std is None else _per_station(noise_std, names, stations, "--noise-std", "std") ** 2


def _per_station(value: str, names: tuple[str, ...], stations: tuple[str, ...], option: str, column: str) -> np.ndarray:
    from nareg import io

    try:
        number = float(value)
    except ValueError:
        if not is_file(value):
            raise InputError(
                f"{option} {value!r} is neither a number nor a CSV file with the columns station, {column}."
            ) from None
        numbers = io.read_column(value, names, column, others=stations)
        if (numbers < 0).any():
            i = int(numbers.argmin())
            raise InputError(
                f"{value}: the {column} of station {names[i]!r} is {numbers[i]:g}, which is negative: correct it."
            ) from None
        if not numbers.any():
            raise InputError(f"{value}: the {column} is zero everywhere: write the noise of the readings.") from None
        return numbers
    if not (np.isfinite(number) and number >= 0):
        raise InputError(f"{option} is {number:g}: it must be a finite number above 0.")
    if number == 0:
        raise InputError(
            f"{option} is 0, so there is no noise to remove: give the noise of the readings, or omit the option to estimate it "
            "(nareg clean, or nareg design --method blind or sure)."
        )
    return np.full(len(names), number)


def is_file(name: str) -> bool:
    """Whether a text names a file."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # too long for a name
        return False


def output(path: Path, allowed: tuple[str, ...], *inputs: Path) -> None:
    """Refuse an output of another type, or one that would overwrite an input."""
    if path.suffix.lower() not in allowed:
        raise InputError(f"--out {path}: the name must end in {' or '.join(allowed)}.")
    for source in inputs:
        if path.exists() and source.exists() and path.samefile(source):
            raise InputError(f"--out {path} would overwrite the input {source}: name another file.")


def folder(path: Path) -> None:
    """Make the output folder before any work starts."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"--out {path} is a file, or inside one: name a folder.") from None
    except OSError as error:
        raise InputError(f"--out {path} cannot be created ({error.strerror}): name another folder.") from None


def progress_bar(*more: ProgressColumn) -> Progress:
    """One line per task: steps done, steps in total, and the time."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        *more,
        console=errors,
        disable=not errors.is_terminal,
    )


@contextmanager
def stage_bar() -> Iterator[ProgressCallback]:
    """A bar with the stage, the share that is done, and the time left."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    left = TextColumn("left:"), TimeRemainingColumn()
    with Progress(*columns, *left, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        line = bar.add_task("reading", total=1.0)
        yield lambda now: bar.update(line, completed=now.fraction, description=now.stage)


StationsFile = Annotated[
    Path,
    typer.Argument(
        help="CSV: station, latitude, longitude (or x, y); or a graph: MatrixMarket (.mtx), or a folder from `nareg convert`."
    ),
]
ReadingsFile = Annotated[
    Path,
    typer.Argument(help="CSV: time, then one column per station; or time, station, value. Empty = missing. Or NPZ."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Fail where a file format is ambiguous.")]
#: Default number of nearest neighbors.
NEIGHBORS = 7
Neighbors = Annotated[int, typer.Option("-k", "--neighbors", help="Nearest neighbors per station.")]
#: Mean that is removed before a design or a filter, and added back after it.
Center = Literal["global", "station", "none"]
Centering = Annotated[
    Center,
    typer.Option("--center", help="Mean to remove before and add back after: of all readings, per station, or none."),
]
#: Where weights are applied: design.npz stores its own.
OwnNeighbors = Annotated[
    int | None,
    typer.Option("-k", "--neighbors", help="Neighbors per station that weights.csv was designed with; default 7."),
]
OwnCentering = Annotated[
    Center | None,
    typer.Option("--center", help="Centering that weights.csv was designed with; default global."),
]
AllowUnlike = Annotated[
    bool,
    typer.Option("--allow-unlike", help="Accept readings whose level or spread is far from the design's."),
]


@dataclass(frozen=True)
class Columns:
    """What the columns of untidy tables mean."""

    recipe_file: Annotated[
        Path | None, typer.Option("--recipe", help="Recipe of `nareg inspect`: names of columns. Options go before it.")
    ] = None
    station_column: Annotated[
        list[str] | None, typer.Option(help="Column of the station names; again where it differs in the other table.")
    ] = None
    time_column: Annotated[
        list[str] | None, typer.Option(help="Column of the times; again for one of the time of day, or year, month, day, hour.")
    ] = None
    value: Annotated[
        list[str] | None, typer.Option(help="Column of the readings, where a table has several; again for more quantities.")
    ] = None
    latitude_column: Annotated[str | None, typer.Option(help="Column of the latitudes.")] = None
    longitude_column: Annotated[str | None, typer.Option(help="Column of the longitudes.")] = None
    altitude_column: Annotated[str | None, typer.Option(help="Column of the altitudes.")] = None
    covariate: Annotated[
        list[str] | None,
        typer.Option(help="Column of the stations that means and cycles may follow, such as a distance; again for more."),
    ] = None
    series: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            help="Table of what all stations share over time, or of a series at each, as of a reanalysis; again for more.",
        ),
    ] = None
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="What the quantity is: number, nonnegative, bounded (0 to 100) or direction; or 'wind direction: direction' "
            "of one of several, again for more. Default: directions are recognized."
        ),
    ] = None
    missing: Annotated[
        list[str] | None, typer.Option(help="A cell that means that there is no reading, such as -99 or M; again for more.")
    ] = None

    zone: Annotated[
        str | None, typer.Option(help="Zone of times without an offset, such as Europe/Brussels or +01:00; they become UTC.")
    ] = None
    dates: Annotated[
        str | None, typer.Option(help="day-first or month-first, for dates such as 3/4/2024. Default: what the file shows.")
    ] = None
    step: Annotated[
        str | None,
        typer.Option(help="Common step of the times, such as 10min; none keeps all. Default: where times jitter."),
    ] = None
    start: Annotated[
        str | None, typer.Option(help="Time of the first row of a table without times, such as 2012-03-01; with --step.")
    ] = None
    header: Annotated[str | None, typer.Option(help="Columns of files without a header, such as time,A,B.")] = None
    decimal: Annotated[str | None, typer.Option(help="Decimal mark, a comma or a point; the other separates thousands.")] = None
    flag_column: Annotated[
        str | None, typer.Option(help="Column that marks the quality of readings, where its name does not say so.")
    ] = None
    bad: Annotated[list[str] | None, typer.Option(help="A mark of a bad reading there, such as 4 or E; again for more.")] = None
    use_flags: Annotated[
        bool | None,
        typer.Option(
            "--use-flags/--ignore-flags",
            help="Leave out readings with any mark but a good one, or none. Default: those known as bad.",
        ),
    ] = None
    query: Annotated[
        str | None, typer.Option(help="What to read of an SQLite or DuckDB file: 'select time, station, value from t'.")
    ] = None
    crs: Annotated[
        str | None, typer.Option(help="Reference system of x and y, such as EPSG:28992; they become latitude and longitude.")
    ] = None

    @property
    def files(self) -> list[Path]:
        """Those that options name."""
        return [*(self.series or ()), *([] if self.recipe_file is None else [self.recipe_file])]

    def recipes(self) -> list[Recipe]:
        """A recipe per quantity that is named, or one: with what options say in the place of the file's entries."""
        from nareg.io import Recipe
        from nareg.quality import Rules

        said = {
            "station": tuple(self.station_column or ()), "time": tuple(self.time_column or ()),
            "latitude": self.latitude_column, "longitude": self.longitude_column, "altitude": self.altitude_column,
            "covariates": tuple(self.covariate or ()), "series": tuple(map(str, self.series or ())),
            "kind": tuple(self.kind or ()), "missing": tuple(self.missing or ()), "zone": self.zone, "dates": self.dates,
            "step": self.step, "start": self.start, "header": self.header, "decimal": self.decimal,
            "flag": self.flag_column, "bad": tuple(self.bad or ()), "use_flags": self.use_flags, "query": self.query,
            "crs": self.crs,
        }  # fmt: skip
        of_file = Recipe() if self.recipe_file is None else Recipe.load(self.recipe_file)
        given = {name: value for name, value in said.items() if value not in (None, (), "")}
        one = replace(of_file, **given)  # type: ignore[arg-type]
        if one.quality is not None:
            Rules.of(one.quality)  # raises for what it does not know
        return [replace(one, value=value) for value in self.value] if self.value else [one]

    def of_one(self, remedy: str = "a model or design is of one: run the command for each") -> Recipe:
        """The recipe of one quantity."""
        recipes = self.recipes()
        if len(recipes) > 1:
            raise InputError(f"--value names several quantities, and {remedy}.")
        return recipes[0]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters of a dataclass type become one argument or option per field."""
    hints = _hints_of(command)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            parameters.append(parameter.replace(annotation=hints[name]))
            continue
        types = _hints_of(groups[name])
        for part in fields(groups[name]):
            default = inspect.Parameter.empty if part.default is MISSING else part.default
            parameters.append(parameter.replace(name=part.name, default=default, annotation=types[part.name]))

    @wraps(command)
    def flat(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{f.name: values.pop(f.name) for f in fields(group)})
        command(**values)

    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


@cache  # commands share their groups
def _hints_of(subject: Any) -> dict[str, Any]:
    return get_type_hints(subject, include_extras=True)
