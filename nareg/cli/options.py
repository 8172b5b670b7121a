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
    Path,
    typer.Argument(help="CSV: time, then one column per station; or time, station, value. Empty = missing. Or NPZ."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Fail where a file format is ambiguous.")]
#: Default number of nearest neighbors.
NEIGHBORS = 7
Neighbors = Annotated[int, typer.Option("-k", "--neighbors", help="Nearest neighbors per station.")]
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
