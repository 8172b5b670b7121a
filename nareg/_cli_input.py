"""What the command line reads from files and options, checked; and the consoles it writes to."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

from nareg.errors import InputError

console = Console()
errors = Console(stderr=True)


class Centre(StrEnum):
    """Which mean is removed before designing and filtering, and added back."""

    overall = "global"
    station = "station"
    none = "none"


def graph(path: Path, neighbours: int) -> tuple[Any, tuple[str, ...]]:
    from nareg import io
    from nareg.graph import Graph

    if path.suffix.lower() == ".mtx":
        graph = Graph(io.read_adjacency(path))
        return graph, tuple(str(i) for i in range(graph.n_nodes))
    table = io.read_stations(path)
    return Graph.from_knn(table.coordinates, neighbours, metric=table.metric, names=table.names), table.names


def mean(values: np.ndarray, centre: Centre) -> np.ndarray:
    """The mean to remove, (1, 1) or (N, 1), over what was read."""
    if centre is Centre.none:
        return np.zeros((1, 1))
    if centre is Centre.overall:
        return np.full((1, 1), np.nanmean(values))
    if np.isnan(values).all(axis=1).any():
        raise InputError("--centre station: a station has no reading at all; use --centre global.")
    return np.nanmean(values, axis=1, keepdims=True)


def variance(value: str, names: tuple[str, ...]) -> np.ndarray:
    from nareg import io

    try:
        number = float(value)
    except ValueError:
        if not is_file(value):
            raise InputError(
                f"--noise {value!r} is neither a number nor a CSV file with the columns station, variance."
            ) from None
        found = io.read_column(value, names, "variance")
        if (found < 0).any():
            worst = int(found.argmin())
            raise InputError(
                f"{value}: the variance of station {names[worst]!r} is {found[worst]:g}, which is negative."
            ) from None
        return found
    return np.full(len(names), _positive(number))


def _positive(value: float) -> float:
    if not (np.isfinite(value) and value >= 0):
        raise InputError(f"--noise is {value:g}: a variance is a finite number of at least 0.")
    return value


def is_file(name: str) -> bool:
    """Whether a text names a file."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # too long for a name
        return False


def output(path: Path, allowed: tuple[str, ...], *inputs: Path) -> None:
    """Refuse another ending, and to write over what is read."""
    if path.suffix.lower() not in allowed:
        raise InputError(f"--out {path}: the name must end in {' or '.join(allowed)}.")
    for held in inputs:
        if path.exists() and held.exists() and path.samefile(held):
            raise InputError(f"--out {path} is {held}, which would be lost: name another file.")


def folder(path: Path) -> None:
    """Make it before anything that takes time is begun."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"--out {path} is a file, or in one; a folder is expected.") from None
    except OSError as error:
        raise InputError(f"--out {path} cannot be made ({error.strerror}): name another folder.") from None


def progress_bar(*more: ProgressColumn) -> Progress:
    """A line a task: what is done of how much, and the time it took."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        *more,
        console=errors,
    )
