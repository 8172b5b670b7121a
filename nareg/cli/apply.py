"""``nareg denoise`` and ``nareg interpolate``: designed weights applied to readings, also on all ranks of ``mpiexec``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, get_args

import numpy as np
import typer
from rich.markup import escape

from nareg._storage.folders import is_folder
from nareg.cli import inputs
from nareg.cli.inputs import (
    NEIGHBORS,
    AllowUnlike,
    Center,
    Columns,
    OwnCentering,
    OwnNeighbors,
    ReadingsFile,
    StationsFile,
    Strict,
    console,
    errors,
    grouped,
    output,
    print_message,
    progress_bar,
)
from nareg.errors import AmplificationWarning, InputError
from nareg.progress import Progress

if TYPE_CHECKING:
    from nareg.graph import Graph
    from nareg.io import Readings
    from nareg.typing import WeightsLike


Backend = Literal["auto", "scipy", "torch", "petsc"]
Partition = Literal["none", "ptscotch", "parmetis"]
BackendChoice = Annotated[
    Backend, typer.Option("--backend", help="Library that solves; petsc also under mpiexec, on all ranks together.")
]
PartitionChoice = Annotated[
    Partition,
    typer.Option("--partition", help="With --backend petsc and a .graph folder: move nodes for fewer edges between ranks."),
]


@contextmanager
def one_speaks(backend: str) -> Iterator[bool]:
    """Silence all ranks but the first; yields whether this is it. An unforeseen error on one rank ends all."""
    if backend != "petsc":
        yield True
        return
    from nareg._solvers._petsc.ranks import load, together

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


def checking(backend: Backend) -> AbstractContextManager[object]:
    """Where files are read and checked: what fails on one rank fails on all."""
    from nareg._solvers import backends

    return backends.checking(backend)


class _Data(NamedTuple):
    """What the files say, checked."""

    graph: Graph
    names: tuple[str, ...]
    table: Readings
    weights: WeightsLike
    data_weight: np.ndarray | None
    mean: np.ndarray


@dataclass(frozen=True)
class FilterInputs:
    """Readings, the weights that filter them, and how both are read."""

    stations: StationsFile
    readings: ReadingsFile
    weights: Annotated[Path, typer.Option(help="weights.csv or design.npz from `nareg design`.")]
    neighbors: OwnNeighbors = None
    center: OwnCentering = None
    strict: Strict = False
    allow_unlike: AllowUnlike = False

    def read(self, out: Path, columns: Columns, *, fill: bool) -> _Data:
        """Read and check all files."""
        from nareg import io
        from nareg._core import checks
        from nareg.cli import plausibility
        from nareg.results import load_design

        stations, readings, weights, center = self.stations, self.readings, self.weights, self.center
        inputs.output(out, (".csv", ".npz"), stations, readings, weights, *columns.files)
        filter_weights: WeightsLike
        data_weight, settings = None, {}
        if weights.suffix.lower() == ".npz":
            filter_weights = load_design(weights)
            settings = filter_weights.settings
            for option, value, symbol in (("neighbors", self.neighbors, "k"), ("center", center, "center")):
                stored = settings.get(option)
                if value is not None and stored is not None and stored != value:
                    raise InputError(f"--{option} {value}: {weights} uses {symbol} = {stored}: omit --{option} or redesign.")
        k = settings.get("neighbors", NEIGHBORS if self.neighbors is None else self.neighbors)
        graph, names, table, _ = inputs.network(
            stations, readings, k, strict=self.strict, recipe=columns.of_one(), designed=settings.get("names")
        )
        if weights.suffix.lower() == ".npz":
            if list(names) != settings.get("names", list(names)):
                raise InputError(
                    f"{weights} was designed for other stations than {stations}, or in another order: design again."
                )
        else:
            filter_weights, data_weight = io.read_weights(weights, names), io.read_data_weight(weights, names)
        observed = table.observed
        if not observed.any(axis=0).all():
            t = table.times[int(np.flatnonzero(~observed.any(axis=0))[0])]
            raise InputError(f"{readings}: no station has a reading at {t!r}; drop that row.")
        if not fill and not observed.all():
            i, t = np.argwhere(~observed)[0]
            raise InputError(
                f"{readings}: station {names[i]!r} has no reading at {table.times[t]!r} ({int((~observed).sum())} missing in "
                "all): use `nareg interpolate`."
            )
        if settings:
            stored = settings.get("readings")
            plausibility.compare_with_design(readings, weights, stored, names, table.values, observed, self.allow_unlike)
        if settings.get("mean"):
            mean = np.array(settings["mean"])[:, None]
        else:
            how = checks.choice("center", settings.get("center", center or "global"), get_args(Center))
            mean = inputs.mean(np.where(observed, table.values, np.nan), how)
        return _Data(graph, names, table, filter_weights, data_weight, mean)


@grouped
def denoise(
    files: FilterInputs,
    columns: Columns,
    out: Annotated[Path, typer.Option(help="Denoised readings, CSV or NPZ.")] = Path("denoised.csv"),
    backend: BackendChoice = "auto",
    partition: PartitionChoice = "none",
) -> None:
    """Denoise readings with designed weights. For readings with gaps use `nareg interpolate`.

    A .graph folder with .npy readings and weights is read in parts, and is never all in memory; with --backend petsc each rank
    of mpiexec reads its rows.
    """
    with one_speaks(backend) as first:
        if is_folder(files.stations) and files.readings.suffix.lower() == ".npy":  # both are read in parts
            if columns != Columns():
                raise InputError("options of columns are for tables, but the readings are an .npy file: omit them.")
            denoise_on_disk(files.stations, files.readings, files.weights, out, backend, partition)
            return
        with checking(backend):
            data = files.read(out, columns, fill=False)
        _apply(data, out, backend, first, fill=False)


@grouped
def interpolate(
    files: FilterInputs,
    columns: Columns,
    out: Annotated[Path, typer.Option(help="Denoised and filled readings, CSV or NPZ.")] = Path("filled.csv"),
    backend: BackendChoice = "auto",
) -> None:
    """Denoise readings and fill in the missing ones."""
    with one_speaks(backend) as first:
        with checking(backend):
            data = files.read(out, columns, fill=True)
        _apply(data, out, backend, first, fill=True)


def _apply(data: _Data, out: Path, backend: Backend, writes: bool, *, fill: bool) -> None:
    """Filter, and write what came out; with several ranks only the first ``writes``."""
    from nareg import filters, io

    table, observed = data.table, data.table.observed
    centered = table.values - data.mean
    if fill:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            solution = filters.interpolate(
                data.graph, data.weights, centered, observed, data_weight=data.data_weight, backend=backend
            )
        for warning in caught:
            _warn(warning, data.names)
    else:
        solution = filters.denoise(data.graph, data.weights, centered, data_weight=data.data_weight, backend=backend)
    filled = f", {int((~observed).sum())} missing readings filled in" if fill else ""
    outcome = f"{solution.method}: {solution.status.value}; relative residual {solution.residual:.1e}{filled}"
    console.print(escape(outcome), soft_wrap=True)
    if not solution.status.ok:
        print_message("error", "nothing was written")
        raise typer.Exit(1)
    with checking(backend):
        if writes:
            io.write_readings(out, io.Readings(data.names, table.times, solution.x + data.mean, table.timestamps))
    console.print(f"written: {escape(str(out))}", soft_wrap=True)


def _warn(warning: warnings.WarningMessage, names: tuple[str, ...]) -> None:
    """Show an amplification warning with the station's name, and other warnings as Python does."""
    if not isinstance(warning.message, AmplificationWarning):
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        return
    amplified = warning.message
    print_message(
        "warning",
        f"with these weights the filled-in values of station {names[amplified.node]!r} could be {amplified.amplification:.3g} "
        f"times the largest reading; {amplified.outcome}.",
    )


def denoise_on_disk(graph: Path, signals: Path, weights: Path, out: Path, backend: str, partition: Partition) -> None:
    """Denoise signals, (nodes, signals), as they are: no mean is removed; with PETSc by all ranks."""
    from nareg import filters
    from nareg._solvers.backends import Disk, Petsc

    if weights.suffix.lower() != ".npy":
        raise InputError(f"--weights {weights}: with a graph folder and .npy signals the weights are an .npy file, too.")
    output(out, (".npy",), signals, weights)
    with progress_bar() as bar:
        line = bar.add_task("opening", total=None)

        def show(report: Progress) -> None:
            bar.update(line, completed=report.step, description=f"solving, residual {report.values['residual']:.1e}")

        options = Petsc(partition) if backend == "petsc" else Disk()
        solution = filters.denoise(graph, weights, signals, out=out, backend=options, progress=show)
    outcome = f"{solution.method}: {solution.status.value}; relative residual {solution.residual:.1e}"
    console.print(escape(outcome), soft_wrap=True)
    console.print(f"written: {escape(str(out))}", soft_wrap=True)
    if not solution.status.ok:
        print_message("error", f"{out} holds the last iterate, not a solution")
        raise typer.Exit(1)
