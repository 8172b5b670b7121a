"""``nareg denoise`` and ``nareg interpolate``: designed weights applied to readings."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from nareg.cli import inputs, plausibility
from nareg.cli.inputs import Center, console, errors
from nareg.cli.options import NEIGHBORS, AllowUnlike, OwnCentering, OwnNeighbors, ReadingsFile, StationsFile, Strict
from nareg.errors import AmplificationWarning, InputError


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
    """Denoise readings with designed weights; every reading must be there."""
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
    found: Any
    fit = None
    own: dict[str, Any] = {
        "neighbors": NEIGHBORS if neighbors is None else neighbors,
        "center": Center.overall if center is None else center,
    }
    if weights.suffix.lower() == ".npz":
        found = load_design(weights)
        for option, told in (("neighbors", neighbors), ("center", center)):
            stored = found.settings.get(option)
            if told is not None and stored is not None and stored != told:
                raise InputError(f"--{option} {told}: {weights} was designed with {stored}, which is taken; leave it out.")
        own |= {option: found.settings[option] for option in own if option in found.settings}
        graph, names, table, _ = inputs.network(
            stations, readings, own["neighbors"], strict=strict, designed=found.settings.get("names")
        )
        if list(names) != found.settings.get("names", list(names)):
            raise InputError(f"{weights} was designed for other stations, or in another order, than {stations}: design again.")
    else:
        graph, names, table, _ = inputs.network(stations, readings, own["neighbors"], strict=strict)
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
    mean = np.array(stored)[:, None] if stored else inputs.mean(np.where(seen, table.values, np.nan), Center(own["center"]))
    centered = table.values - mean
    if fill:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            solution = filters.interpolate(graph, found, centered, seen, fit=fit)
        for warning in caught:
            _warn(warning, names)
    else:
        solution = filters.denoise(graph, found, centered, fit=fit)
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
