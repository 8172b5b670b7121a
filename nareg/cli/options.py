"""Arguments and options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from nareg.cli.inputs import Center

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


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters of a dataclass type become one argument or option per field."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            parameters.append(parameter.replace(annotation=hints[name]))
            continue
        types = get_type_hints(groups[name], include_extras=True)
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
