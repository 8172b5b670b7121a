"""``nareg explore``: one HTML page to explore a network, from two files or a data set's name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from nareg.cli import inputs
from nareg.cli.inputs import NEIGHBORS, Neighbors, Strict, errors, print_line, print_notes, print_suspects, stage_bar
from nareg.errors import InputError


def explore(
    stations: Annotated[
        str, typer.Argument(help="CSV with station, latitude, longitude (or x, y); or a network's name, such as us-weather.")
    ],
    readings: Annotated[
        Path | None, typer.Argument(help="CSV with time and a column per station, or time, station, value; or NPZ.")
    ] = None,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("explore.html"),
    unit: Annotated[str | None, typer.Option(help="Unit of the readings, such as °C.")] = None,
    neighbors: Neighbors = NEIGHBORS,
    seed: Annotated[int, typer.Option(help="Random seed for the choice of hidden readings.", min=0)] = 0,
    strict: Strict = False,
) -> None:
    """Write one HTML page to explore a network in a browser. The page works offline.

    It shows map, series, estimate and suspect stations. In the page you can silence stations, add noise, hide readings and
    change the method.
    """
    from nareg.cleaning import CleanSettings, portion, run
    from nareg.explorer._explore import CLEANED, write_page
    from nareg.explorer._source import Scene, assembled

    if readings is None and Path(stations).suffix:
        raise InputError(
            f"{stations} is one table and there is no second: pass stations.csv and readings.csv, or a network's name."
        )
    files = [] if readings is None else [Path(stations), readings]
    inputs.output(out, (".html", ".htm"), *files)
    try:
        unclean = assembled(
            stations if readings is None else readings, None if readings is None else stations, unit=unit, strict=strict,
            neighbors=neighbors,
        )  # fmt: skip
        print_notes(unclean.network.notes)
        with stage_bar() as progress:
            settings = CleanSettings(unit=unclean.unit, rng=np.random.default_rng(seed))
            cleaned = run(unclean.network, settings, portion(progress, 0.0, CLEANED))
            scene = Scene(cleaned, unclean.title, unclean.truth, unclean.record, unclean.source)
            write_page(scene, out, portion(progress, CLEANED, 1.0))
    except KeyboardInterrupt:
        errors.print("interrupted: nothing was written")
        raise typer.Exit(130) from None
    print_notes(cleaned.notes[len(unclean.network.notes) :])
    if cleaned.quality is not None:
        print_suspects(cleaned.quality, "the page")
    print_line(f"{cleaned.headline()}, page in {out}: open it in a browser")
