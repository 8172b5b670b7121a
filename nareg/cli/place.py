"""``nareg place``: sites for the next sensor, from a saved model of the network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from nareg.cli.inputs import console, output, print_line, print_notes, progress_bar
from nareg.errors import InputError

if TYPE_CHECKING:
    from nareg.io import Stations

#: Sites that are shown; the table has all.
SHOWN = 10


def place(
    model: Annotated[Path, typer.Argument(help="Model that `SpaceTimeModel.save` wrote (.npz).")],
    sites: Annotated[
        Path | None,
        typer.Option(
            help="CSV of places for a sensor: station, latitude, longitude (or x, y). Default: stations without a reading."
        ),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Rank the stations that may stop reading.")] = False,
    count: Annotated[int, typer.Option(help="Number of sensors to choose one after the other.", min=1)] = 1,
    noise_std: Annotated[
        float | None, typer.Option(help="Noise standard deviation of a new sensor. Default: the median of the model's.")
    ] = None,
    out: Annotated[Path, typer.Option(help="CSV with a line per site, the best first.")] = Path("sites.csv"),
    picture: Annotated[Path | None, typer.Option(help="PNG with a map of the sites.")] = None,
    unit: Annotated[str, typer.Option(help="Unit of the readings, shown in texts and pictures, such as °C.")] = "",
) -> None:
    """Rank sites for a new sensor by how much each lowers the expected error, or stations by how little they are missed."""
    from nareg import io, spacetime

    read = [path for path in (model, sites) if path is not None]
    output(out, (".csv",), *read)
    if picture is not None and picture.suffix.lower() != ".png":
        raise InputError(f"--picture {picture}: the name must end in .png.")
    if remove and (sites is not None or noise_std is not None):
        raise InputError("--remove ranks stations of the model: omit --sites and --noise-std.")
    if noise_std is not None and not (np.isfinite(noise_std) and noise_std > 0):
        raise InputError(f"--noise-std is {noise_std:g}: it must be a finite number above 0.")
    fitted = spacetime.load(model)
    follows = fitted.cycles.follows
    named = tuple(name for name in follows if name != "altitude")
    places = None if sites is None else io.read_stations(sites, recipe=io.Recipe(covariates=named))
    if places is not None and places.metric != fitted.graph.metric:
        wanted = "latitude and longitude" if fitted.graph.metric == "haversine" else "x and y"
        raise InputError(f"--sites {sites} has another kind of coordinates than the model: write columns {wanted}.")
    print_notes(places.notes if places is not None else ())
    with progress_bar() as bar:
        line = bar.add_task("ranking sites", total=None)
        progress = lambda p: bar.update(line, completed=p.step, total=p.total)  # noqa: E731
        if remove:
            ranking = spacetime.removal(fitted, count=count, progress=progress)
        else:
            ranking = spacetime.placement(
                fitted, coordinates=None if places is None else places.coordinates,
                covariates=None if places is None else _covariates(places, follows, f"--sites {sites}"),
                names=None if places is None else places.names, count=count,
                noise=None if noise_std is None else noise_std**2, progress=progress,
            )  # fmt: skip
    ranking.to_csv(out)
    best = np.argsort(ranking.rank)[:SHOWN]
    print_line(f"expected root mean squared error today: {np.sqrt(ranking.mse):.4g} {unit}".rstrip())
    table = Table("station" if remove else "site", *(("goes",) if remove else ("chosen",)))
    chosen = {int(i): str(k) for k, i in enumerate(ranking.order, 1)}
    table.add_column("mean squared error", justify="right")
    for i in best:
        table.add_row(escape(ranking.names[i]), chosen.get(int(i), ""), f"{-ranking.percent[i]:+.2f} %")
    console.print(table)
    written = [out]
    if picture is not None:
        from nareg import plotting

        axes = plotting.ranking(ranking, unit=unit)
        plotting.save(axes.figure, picture)  # type: ignore[arg-type]
        written.append(picture)
    after = 100 * (ranking.mse_after[-1] / ranking.mse - 1)
    what = "without" if remove else "with"
    print_line(f"{what} {', '.join(ranking.names[i] for i in ranking.order)}: mean squared error {after:+.2f} %")
    print_line(f"written: {', '.join(map(str, written))}")


def _covariates(places: Stations, follows: tuple[str, ...], source: str) -> dict[str, np.ndarray]:
    """What the table of places has of the covariates that the model follows."""
    values = dict(places.covariates)
    if "altitude" in follows:
        if places.altitude is None or np.isnan(places.altitude).any():
            raise InputError(f"{source} has not the altitude of every place, which the model's means follow: fill in a column.")
        values["altitude"] = places.altitude
    return values
