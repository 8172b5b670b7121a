"""``nareg denoise`` and ``nareg interpolate``: designed weights applied to readings."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape

from nareg.cli import inputs, plausibility
from nareg.cli.inputs import Center, console, errors
from nareg.cli.on_disk import are_on_disk, denoise_on_disk
from nareg.cli.options import NEIGHBORS, AllowUnlike, OwnCentering, OwnNeighbors, ReadingsFile, StationsFile, Strict
from nareg.errors import AmplificationWarning, InputError
from nareg.typing import WeightsLike


def denoise(
    stations: StationsFile,
    readings: ReadingsFile,
    weights: Annotated[Path, typer.Option(help="weights.csv or design.npz from `nareg design`.")],
    out: Annotated[Path, typer.Option(help="Denoised readings, CSV or NPZ.")] = Path("denoised.csv"),
    neighbors: OwnNeighbors = None,
    center: OwnCentering = None,
    strict: Strict = False,
    allow_unlike: AllowUnlike = False,
) -> None:
    """Denoise readings with designed weights. For readings with gaps use `nareg interpolate`.

    A .graph folder with .npy readings and weights is read in parts, and is never all in memory.
    """
    if are_on_disk(stations, readings):
        denoise_on_disk(stations, readings, weights, out)
        return
    _apply(stations, readings, weights, out, neighbors, center, strict=strict, allow_unlike=allow_unlike, fill=False)


def interpolate(
    stations: StationsFile,
    readings: ReadingsFile,
    weights: Annotated[Path, typer.Option(help="weights.csv or design.npz from `nareg design`.")],
    out: Annotated[Path, typer.Option(help="Denoised and filled readings, CSV or NPZ.")] = Path("filled.csv"),
    neighbors: OwnNeighbors = None,
    center: OwnCentering = None,
    strict: Strict = False,
    allow_unlike: AllowUnlike = False,
) -> None:
    """Denoise readings and fill in the missing ones."""
    _apply(stations, readings, weights, out, neighbors, center, strict=strict, allow_unlike=allow_unlike, fill=True)


def _apply(
    stations: Path, readings: Path, weights: Path, out: Path, neighbors: int | None, center: Center | None,
    *, strict: bool, allow_unlike: bool, fill: bool,
) -> None:  # fmt: skip
    from nareg import filters, io
    from nareg.results import load_design

    inputs.output(out, (".csv", ".npz"), stations, readings, weights)
    filter_weights: WeightsLike
    fit, settings = None, {}
    if weights.suffix.lower() == ".npz":
        filter_weights = load_design(weights)
        settings = filter_weights.settings
        for option, value, symbol in (("neighbors", neighbors, "k"), ("center", center, "center")):
            stored = settings.get(option)
            if value is not None and stored is not None and stored != value:
                raise InputError(f"--{option} {value}: {weights} uses {symbol} = {stored}: omit --{option} or redesign.")
    k = settings.get("neighbors", NEIGHBORS if neighbors is None else neighbors)
    graph, names, table, _ = inputs.network(stations, readings, k, strict=strict, designed=settings.get("names"))
    if weights.suffix.lower() == ".npz":
        if list(names) != settings.get("names", list(names)):
            raise InputError(f"{weights} was designed for other stations than {stations}, or in another order: design again.")
    else:
        filter_weights, fit = io.read_weights(weights, names), io.read_fit(weights, names)
    observed = table.observed
    if not observed.any(axis=0).all():
        t = table.times[int(np.flatnonzero(~observed.any(axis=0))[0])]
        raise InputError(f"{readings}: no station has a reading at {t!r}; drop that row.")
    if not fill and not observed.all():
        i, t = np.argwhere(~observed)[0]
        raise InputError(
            f"{readings}: station {names[i]!r} has no reading at {table.times[t]!r} ({int((~observed).sum())} missing in all): "
            "use `nareg interpolate`."
        )
    if settings:
        stored = settings.get("readings")
        plausibility.compare_with_design(readings, weights, stored, names, table.values, observed, allow_unlike)
    if settings.get("mean"):
        mean = np.array(settings["mean"])[:, None]
    else:
        how = Center(settings.get("center", Center.overall if center is None else center))
        mean = inputs.mean(np.where(observed, table.values, np.nan), how)
    centered = table.values - mean
    if fill:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            solution = filters.interpolate(graph, filter_weights, centered, observed, fit=fit)
        for warning in caught:
            _warn(warning, names)
    else:
        solution = filters.denoise(graph, filter_weights, centered, fit=fit)
    filled = f", {int((~observed).sum())} missing readings filled in" if fill else ""
    outcome = f"{solution.method}: {solution.status.value}; relative residual {solution.residual:.1e}{filled}"
    console.print(escape(outcome), soft_wrap=True)
    if not solution.status.ok:
        errors.print("[bold red]error:[/] nothing was written", soft_wrap=True)
        raise typer.Exit(1)
    io.write_readings(out, io.Readings(names, table.times, solution.x + mean, table.timestamps))
    console.print(f"written: {escape(str(out))}", soft_wrap=True)


def _warn(warning: warnings.WarningMessage, names: tuple[str, ...]) -> None:
    """Show an amplification warning with the station's name, and other warnings as Python does."""
    if not isinstance(warning.message, AmplificationWarning):
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        return
    amplified = warning.message
    errors.print(
        f"[yellow]warning:[/] with these weights the filled-in values of station {escape(repr(names[amplified.node]))} could "
        f"be {amplified.amplification:.3g} times the largest reading, because its weight is much smaller than its neighbors'. "
        f"Used instead: {amplified.done}.",
        soft_wrap=True,
    )
