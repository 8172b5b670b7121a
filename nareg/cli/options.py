"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nareg.cli.inputs import Center

StationsFile = Annotated[
    Path, typer.Argument(help="CSV: station, latitude, longitude (or x, y); or a MatrixMarket graph (.mtx).")
]
ReadingsFile = Annotated[
    Path, typer.Argument(help="CSV: time, then one column per station; or time, station, value. Empty = missing. Or NPZ.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse to guess at the files' format.")]
#: Nearest neighbors, where nothing else is said.
NEIGHBORS = 7
Neighbors = Annotated[int, typer.Option("-k", "--neighbors", help="Nearest neighbors per station.")]
Centering = Annotated[
    Center, typer.Option("--center", help="Mean to remove first and add back: over everything, per station, none.")
]
#: Where weights are applied: a design.npz knows its own.
OwnNeighbors = Annotated[
    int | None, typer.Option("-k", "--neighbors", help="Of weights.csv, if they were designed with other than 7.")
]
OwnCentering = Annotated[
    Center | None, typer.Option("--center", help="Of weights.csv, if they were designed with other than global.")
]


AllowUnlike = Annotated[
    bool, typer.Option("--allow-unlike", help="Go on where level or spread of the readings are unlike the design's.")
]
