"""The command line: ``nareg clean | demo | design | denoise | interpolate | datasets | reproduce | unlearn``.

A problem with the input ends with one sentence on standard error and exit status 2.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from typer.core import TyperGroup

from nareg._version import __version__
from nareg.cli import inputs, plausibility
from nareg.cli.clean import clean
from nareg.cli.datasets import datasets_app
from nareg.cli.inputs import Centre, console, errors, progress_bar
from nareg.cli.time_left import TimeLeft, duration
from nareg.cli.unlearn import unlearn_app
from nareg.errors import AmplificationWarning, InputError, NaregError


class _Group(TyperGroup):
    """Turns errors raised on purpose into one line and exit status 2."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except NaregError as error:
            errors.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
            raise typer.Exit(2) from None


app = typer.Typer(
    cls=_Group, no_args_is_help=True, rich_markup_mode="rich", add_completion=False,
    help="Design and apply graph filters for noisy signals on networks.",
)  # fmt: skip
app.command(epilog="Example: nareg clean stations.csv readings.csv --out clean/")(clean)
app.add_typer(datasets_app, name="datasets")
app.add_typer(unlearn_app, name="unlearn")


class Method(StrEnum):
    """Designs that the command line offers."""

    blind = "blind"
    exact = "exact"
    edge = "edge"
    relaxation = "relaxation"
    prony = "prony"
    minmax = "minmax"
    gcv = "gcv"
    sure = "sure"
    oracle = "oracle"
    chen_liu = "chen-liu"


StationsFile = Annotated[
    Path, typer.Argument(help="CSV: station, latitude, longitude (or x, y); or a MatrixMarket graph (.mtx).")
]
ReadingsFile = Annotated[
    Path, typer.Argument(help="CSV: time, then one column per station; or time, station, value. Empty = missing. Or NPZ.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse to guess at the files' format.")]
#: Nearest neighbours, where nothing else is said.
NEIGHBOURS = 7
Neighbours = Annotated[int, typer.Option("-k", "--neighbours", help="Nearest neighbours per station.")]
Centring = Annotated[
    Centre, typer.Option("--centre", help="Mean to remove first and add back: over everything, per station, none.")
]
#: Where weights are applied: a design.npz knows its own.
OwnNeighbours = Annotated[
    int | None, typer.Option("-k", "--neighbours", help="Of weights.csv, if they were designed with other than 7.")
]
OwnCentring = Annotated[
    Centre | None, typer.Option("--centre", help="Of weights.csv, if they were designed with other than global.")
]


AllowUnlike = Annotated[
    bool, typer.Option("--allow-unlike", help="Go on where level or spread of the readings are unlike the design's.")
]


@app.callback(invoke_without_command=True)
def main(version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    """Design and apply graph filters for noisy signals on networks."""
    if version:
        console.print(f"nareg {__version__}")
        raise typer.Exit


@app.command(epilog="Example: nareg demo --out my-report")
def demo(
    all_: Annotated[bool, typer.Option("--all", help="Add the designs by semidefinite programming (several minutes).")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the report and its pictures.")] = Path("nareg-demo"),
    seed: Annotated[int, typer.Option(help="Seed of the split and the noise.", min=0)] = 0,
) -> None:
    """Denoise 140 US weather stations with every design and write a report."""
    from nareg.demo import protocol as demonstration
    from nareg.demo import report

    inputs.folder(out)
    settings = demonstration.Settings(sdp=all_, seed=seed)
    with progress_bar() as bar:
        line = bar.add_task("loading", total=None)
        outcome = demonstration.run(
            settings, progress=lambda done, total, what: bar.update(line, completed=done, total=total, description=what)
        )
        bar.update(line, description="drawing")
        page = report.write(outcome, out)
    for noise, title in (("equal", "equal noise at every station"), ("unequal", "unequal noise, two decades")):
        table = Table(
            title=f"{outcome.network.n_nodes} stations, SNR {settings.reference_db:g} dB, {title}", title_justify="left"
        )
        for heading in ("method", "NMSE", "of best single", "noise removed", "seconds", "needs to know"):
            table.add_column(heading, justify="left" if heading in ("method", "needs to know") else "right")
        for s in report.table(outcome, noise):
            gain = f"{s.gain:.3f} ± {s.gain_error:.3f}"
            cells = (f"{s.nmse:.4f}", gain, f"{100 * s.removed:.1f} %", f"{s.seconds:.2f}")
            table.add_row(s.method, *cells, s.needs)
        console.print(table)
        console.print(f"no linear filter can go below NMSE {outcome.lmmse[noise, 'random days', settings.reference_db]:.4f}\n")
    console.print(f"report: {escape(str(page))} ({outcome.seconds:.0f} s)", soft_wrap=True)


@app.command(epilog="Example: nareg reproduce fig1 fig2 --quick --report")
def reproduce(
    figures: Annotated[list[str], typer.Argument(help="fig1, gnn-noise, ...; node-adaptive, gnn, herta, unlearning or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer graphs and draws: minutes, not tens of minutes.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Worker processes; the numbers do not depend on it.", min=1)] = None,
    report: Annotated[bool, typer.Option("--report", help="Write one HTML page over all figures.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for pictures, CSVs and verdicts.")] = Path("nareg-reproduction"),
    assignments: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of one figure: dataset=noaa-hourly, snr_db=-5,0,5. Repeatable.")
    ] = None,
) -> None:
    """Reproduce published figures: picture, numbers, and a verdict on every claim.

    A run that was interrupted goes on where it stood.
    """
    import joblib

    main_ = _experiments()
    names = main_.wanted(figures)
    inputs.folder(out)
    with progress_bar(TimeRemainingColumn(elapsed_when_finished=True)) as bar:
        lines = {name: bar.add_task(name, total=None, start=False) for name in names}

        def progress(name: str, done: int, total: int) -> None:
            bar.start_task(lines[name])
            bar.update(lines[name], completed=done, total=total)

        try:
            done, failed = main_.reproduce(
                names, out, quick=quick, jobs=jobs or joblib.cpu_count(), assignments=assignments or (), progress=progress
            )
        except KeyboardInterrupt:
            errors.print(f"interrupted: what is done is kept in {escape(str(out))}, the same command goes on", soft_wrap=True)
            raise typer.Exit(130) from None
    for d in done:
        console.print(f"[bold]{d.figure.name}[/]: {escape(d.figure.title)}", soft_wrap=True)
        for v in d.verdicts:
            colour = {"reproduced": "green", "not reproduced": "red"}.get(v.finding, "yellow")
            console.print(f"  [{colour}]{v.finding}[/] {escape(v.claim)}: {escape(v.measured)}", soft_wrap=True)
        console.print(f"  written: {escape(str(d.picture))}, {escape(str(d.table))}", soft_wrap=True)
    if report and done:
        console.print(f"report: {escape(str(main_.page(done, failed, out)))}", soft_wrap=True)
    for name, error in failed.items():
        errors.print(f"[red]not run:[/] {name}: {escape(str(error))}", soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _experiments() -> Any:
    """The experiments of a checkout: beside the package, or in the folder where the command runs."""
    for place in (Path(__file__).resolve().parents[1], Path.cwd()):
        if (place / "experiments" / "_main.py").is_file():
            sys.path.append(str(place))  # last: the nareg that runs stays the one that is imported
            return importlib.import_module("experiments._main")
    raise InputError(
        "the experiments are not part of an installed nareg: run `nareg reproduce` in a checkout of its repository."
    )


@app.command(epilog="Example: nareg design stations.csv readings.csv --noise 0.25 --out weights.csv")
def design(
    stations: StationsFile,
    readings: ReadingsFile,
    out: Annotated[Path, typer.Option(help="weights.csv (station, weight) or design.npz (everything).")] = Path("design.npz"),
    method: Annotated[
        Method, typer.Option(help="blind, gcv and sure need only noisy readings; the others a clean history.")
    ] = Method.blind,
    noise: Annotated[
        str | None, typer.Option(help="Noise variance: a number, or a CSV with columns station, variance.")
    ] = None,
    noise_std: Annotated[
        str | None,
        typer.Option("--noise-std", help="Noise standard deviation instead: a number, or a CSV with columns station, std."),
    ] = None,
    noise_fit: Annotated[
        bool, typer.Option("--noise-fit", help="Weigh each station's data by 1 / variance (unequal sensors).")
    ] = False,
    neighbours: Neighbours = NEIGHBOURS,
    centre: Centring = Centre.overall,
    strict: Strict = False,
) -> None:
    """Design one weight per station from readings.

    Gaps are used: every reading counts. A station without any is left out and estimated from its neighbors later. For blind
    and sure without --noise the variance is estimated per station; the others need it, for a clean history does not show it.
    """
    from nareg import design as designs
    from nareg import io

    used = tuple(Path(value) for value in (noise, noise_std) if value is not None and inputs.is_file(value))
    inputs.output(out, (".csv", ".npz"), stations, readings, *used)
    from_noisy = method in (Method.blind, Method.gcv, Method.sure)
    if noise is None and noise_std is None and not from_noisy:
        raise InputError(
            f"--method {method} designs from a clean history, which does not show the noise to come: give its variance with "
            "--noise (or --noise-std), or take --method blind with noisy readings."
        )
    if method is Method.edge and out.suffix.lower() == ".csv":
        raise InputError(
            f"--out {out}: an edge design has a weight for every edge, which a CSV of stations cannot hold; use .npz."
        )
    graph, names, table, all_names = inputs.network(stations, readings, neighbours, strict=strict)
    seen = table.observed
    if not seen.any():
        raise InputError(f"{readings}: there is no reading in it; a design needs some.")
    plausibility.look_over(readings, names, table.values, seen)
    mean = inputs.mean(table.values, centre)
    X = np.where(seen, table.values - mean, 0.0)
    variance = inputs.noise_variance(noise, noise_std, names, all_names)
    if variance is not None:
        plausibility.noise_line(variance, "given")
        if from_noisy:
            plausibility.refuse_more_noise_than_readings(variance, table.values, seen)
    elif method is not Method.gcv:
        variance = designs.estimate_noise(graph, X, observed=seen)
        plausibility.noise_line(variance, "estimated")
    fit = "noise" if noise_fit else None
    data: dict[str, Any] = {"measurements": X, "observed": seen, "noise": variance, "fit": fit}
    noisy: dict[Method, Any] = {
        Method.blind: lambda p: designs.blind(graph, **data, progress=p),
        Method.gcv: lambda p: designs.node_invariant(graph, rule="gcv", **data),
        Method.sure: lambda p: designs.node_invariant(graph, rule="sure", **data),
    }
    clean: dict[Method, Any] = {
        Method.exact: lambda p, g, x, v: designs.exact(g, signals=x, noise=v, fit=fit, progress=p),
        Method.edge: lambda p, g, x, v: designs.edge(g, signals=x, noise=v, fit=fit, progress=p),
        Method.relaxation: lambda p, g, x, v: designs.relaxation(g, signals=x, noise=v, fit=fit, progress=p),
        Method.prony: lambda p, g, x, v: designs.prony(g, signals=x, noise=v, fit=fit, progress=p),
        Method.minmax: lambda p, g, x, v: designs.minmax(
            g, low=x.min(axis=1), high=x.max(axis=1), noise=v, fit=fit, progress=p
        ),
        Method.oracle: lambda p, g, x, v: designs.node_invariant(g, rule="oracle", signals=x, noise=v, fit=fit),
        Method.chen_liu: lambda p, g, x, v: designs.node_invariant(g, rule="chen-liu", signals=x, noise=v, fit=fit),
    }
    with _steps(f"{method} design") as progress:
        if from_noisy:
            found = noisy[method](progress)
        else:
            way = partial(clean[method], progress)
            found = plausibility.from_history(way, graph, X, seen, variance, names, per_edge=method is Method.edge)
    found.settings.update(centre=str(centre), mean=np.ravel(mean).tolist(), names=list(names), neighbours=neighbours)
    found.settings.update(readings=plausibility.facts(table.values, seen))
    console.print(escape(found.summary()))
    if out.suffix.lower() == ".csv":
        io.write_weights(out, names, found.weights, found.fit)
        console.print("a CSV holds no mean and no graph: apply it with the same -k and --centre, or write an .npz")
    else:
        found.save(out)
    console.print(f"written: {escape(str(out))}", soft_wrap=True)


@app.command(epilog="Example: nareg denoise stations.csv readings.csv --weights weights.csv --out clean.csv")
def denoise(
    stations: StationsFile,
    readings: ReadingsFile,
    weights: Annotated[Path, typer.Option(help="weights.csv or design.npz from `nareg design`.")],
    out: Annotated[Path, typer.Option(help="Denoised readings, CSV or NPZ.")] = Path("denoised.csv"),
    neighbours: OwnNeighbours = None,
    centre: OwnCentring = None,
    strict: Strict = False,
    allow_unlike: AllowUnlike = False,
) -> None:
    """Denoise readings with designed weights; every reading must be there."""
    _apply(stations, readings, weights, out, neighbours, centre, strict=strict, allow_unlike=allow_unlike, fill=False)


@app.command(epilog="Example: nareg interpolate stations.csv readings.csv --weights design.npz --out filled.csv")
def interpolate(
    stations: StationsFile,
    readings: ReadingsFile,
    weights: Annotated[Path, typer.Option(help="weights.csv or design.npz from `nareg design`.")],
    out: Annotated[Path, typer.Option(help="Denoised and filled readings, CSV or NPZ.")] = Path("filled.csv"),
    neighbours: OwnNeighbours = None,
    centre: OwnCentring = None,
    strict: Strict = False,
    allow_unlike: AllowUnlike = False,
) -> None:
    """Denoise readings and fill in the missing ones."""
    _apply(stations, readings, weights, out, neighbours, centre, strict=strict, allow_unlike=allow_unlike, fill=True)


def _apply(
    stations: Path, readings: Path, weights: Path, out: Path, neighbours: int | None, centre: Centre | None,
    *, strict: bool, allow_unlike: bool, fill: bool,
) -> None:  # fmt: skip
    from nareg import filters, io
    from nareg.results import load_design

    inputs.output(out, (".csv", ".npz"), stations, readings, weights)
    found: Any
    fit = None
    own: dict[str, Any] = {
        "neighbours": NEIGHBOURS if neighbours is None else neighbours,
        "centre": Centre.overall if centre is None else centre,
    }
    if weights.suffix.lower() == ".npz":
        found = load_design(weights)
        for option, told in (("neighbours", neighbours), ("centre", centre)):
            stored = found.settings.get(option)
            if told is not None and stored is not None and stored != told:
                raise InputError(f"--{option} {told}: {weights} was designed with {stored}, which is taken; leave it out.")
        own |= {option: found.settings[option] for option in own if option in found.settings}
        graph, names, table, _ = inputs.network(
            stations, readings, own["neighbours"], strict=strict, designed=found.settings.get("names")
        )
        if list(names) != found.settings.get("names", list(names)):
            raise InputError(f"{weights} was designed for other stations, or in another order, than {stations}: design again.")
    else:
        graph, names, table, _ = inputs.network(stations, readings, own["neighbours"], strict=strict)
        found, fit = io.read_weights(weights, names), io.read_fit(weights, names)
    seen = table.observed
    if not seen.any(axis=0).all():
        t = table.times[int(np.flatnonzero(~seen.any(axis=0))[0])]
        raise InputError(f"{readings}: no station has a reading at {t!r}; drop that row.")
    if not fill and not seen.all():
        i, t = np.argwhere(~seen)[0]
        raise InputError(
            f"{readings}: station {names[i]!r} has no reading at {table.times[t]!r} ({int((~seen).sum())} missing in all): "
            "use `nareg interpolate`."
        )
    stored = None if not hasattr(found, "settings") else found.settings.get("mean")
    if hasattr(found, "settings"):
        past = found.settings.get("readings")
        plausibility.compare_with_design(readings, weights, past, names, table.values, seen, allow_unlike)
    mean = np.array(stored)[:, None] if stored else inputs.mean(np.where(seen, table.values, np.nan), Centre(own["centre"]))
    centred = table.values - mean
    if fill:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            solution = filters.interpolate(graph, found, centred, seen, fit=fit)
        for warning in caught:
            _warn(warning, names)
    else:
        solution = filters.denoise(graph, found, centred, fit=fit)
    filled = f", {int((~seen).sum())} missing readings filled in" if fill else ""
    outcome = f"{solution.method}: {solution.status.value}; relative residual {solution.residual:.1e}{filled}"
    console.print(escape(outcome), soft_wrap=True)
    if not solution.status.ok:
        errors.print("[bold red]error:[/] nothing was written", soft_wrap=True)
        raise typer.Exit(1)
    io.write_readings(out, io.Readings(names, table.times, solution.x + mean, table.timestamps))
    console.print(f"written: {escape(str(out))}", soft_wrap=True)


def _warn(warning: warnings.WarningMessage, names: tuple[str, ...]) -> None:
    """What the library warns of in terms of stations; other warnings as Python shows them."""
    if not isinstance(warning.message, AmplificationWarning):
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        return
    told = warning.message
    errors.print(
        f"[yellow]warning:[/] with these weights filled-in values of station {escape(repr(names[told.node]))} could be "
        f"{told.amplification:.3g} times the largest reading: its weight is small beside its neighbors'. Used instead: "
        f"{told.done}.",
        soft_wrap=True,
    )


@contextmanager
def _steps(title: str) -> Iterator[Any]:
    """A spinner with step, objective, gradient norm and time left; Ctrl-C in the design keeps the best weights so far."""
    left = TimeLeft()
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=errors, transient=True
    ) as bar:
        line = bar.add_task(title, total=None)

        def progress(iteration: int, objective: float, gradient: float) -> None:
            told = f"step {iteration}, objective {objective:.6g}, gradient {gradient:.1e}, {duration(left.step(gradient))}"
            bar.update(line, description=f"{title}: {told}")

        yield progress


def run() -> None:
    """Entry point."""
    try:
        app()
    except KeyboardInterrupt:
        errors.print("interrupted")
        sys.exit(130)
