"""Run a protocol point by point: what is done is on disk, and a run that was killed goes on where it stood.

A point is a dictionary that JSON can write. Its rows are stored under a hash of the protocol's name, the point and the source
of all that computes it, so that a changed method is computed again. The tables are put together in the order of the points.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

import nareg
from nareg.results import atomic_write

Row = dict[str, Any]
#: Parts of the library that no protocol computes with.
APART = ("unlearning/", "herta/", "gnn/", "cli", "_cli", "plotting", "report", "demo", "io")


class NotThere(Exception):
    """A method that this version of the library does not have."""


@dataclass(frozen=True)
class Protocol:
    """``points(options)`` lists what is computed, ``compute(point)`` its rows, ``show(rows)`` the printed tables."""

    name: str
    methods: tuple[str, ...]
    points: Callable[[Any], list[Row]]
    compute: Callable[[Row], list[Row]]
    show: Callable[[list[Row]], list[Table | str]]


def run(protocol: Protocol, options: Any, folder: Path) -> list[Row]:
    """All rows of a protocol; writes ``<folder>/<name>.csv`` and prints the tables."""
    console = Console(width=150 if not Console().is_terminal else None)
    store = folder / "points" / protocol.name
    store.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    points = protocol.points(options)
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(protocol.name, total=len(points))
        for point in points:
            bar.update(task, description=f"{protocol.name}: {', '.join(str(v) for v in point.values())}")
            rows += _rows(protocol, point, store, fresh=options.fresh)
            bar.advance(task)
    write_csv(rows, folder / f"{protocol.name}.csv")
    for part in protocol.show(rows):
        console.print(part)
    console.print(f"rows in {folder / f'{protocol.name}.csv'}")
    return rows


def _rows(protocol: Protocol, point: Row, store: Path, *, fresh: bool) -> list[Row]:
    mark = json.dumps([protocol.name, point, sources(str(point.get("method", "")).startswith("nareg."))], sort_keys=True)
    file = store / f"{hashlib.sha256(mark.encode()).hexdigest()[:20]}.json"
    if file.is_file() and not fresh:
        return json.loads(file.read_text())
    try:
        rows = [{**point, **row} for row in protocol.compute(point)]
    except NotThere as error:
        return [{**point, "note": f"not there: {error}"}]
    with atomic_write(file) as handle:
        handle.write(json.dumps(rows, default=_plain).encode())
    return json.loads(file.read_text())


@cache
def sources(whole: bool) -> str:
    """Hash of the protocols, and of the library: all that filters (``whole``), or baselines, designs and data sets alone."""
    package, here = Path(nareg.__file__).parent, Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted(here.glob("*.py")):
        digest.update(file.read_bytes())
    for file in sorted(package.rglob("*.py")):
        inside = file.relative_to(package).as_posix()
        used = not inside.startswith(APART) if whole else inside.startswith(("baselines/", "datasets/", "design/", "filters/"))
        if used:
            digest.update(inside.encode() + file.read_bytes())
    return digest.hexdigest()


def write_csv(rows: list[Row], path: Path) -> None:
    """Rows as a CSV, whole or not at all."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: f"{v:.8g}" if isinstance(v, float) else v for key, v in row.items()} for row in rows)
    with atomic_write(path) as handle:
        handle.write(text.getvalue().encode())


def table(title: str, header: Iterable[str], lines: Iterable[Iterable[Any]]) -> Table:
    """A table of numbers."""
    result = Table(title=title, title_justify="left")
    for k, name in enumerate(header):
        result.add_column(name, justify="left" if k == 0 else "right")
    for line in lines:
        result.add_row(*(_text(cell) for cell in line))
    return result


def select(rows: list[Row], **keys: Any) -> list[Row]:
    """Rows with these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in keys.items())]


def mean(rows: list[Row], column: str) -> float:
    """Mean of a column over the rows that have a number there; NaN where none has."""
    values = [row[column] for row in rows if isinstance(row.get(column), (int, float)) and np.isfinite(row[column])]
    return float(np.mean(values)) if values else float("nan")


def distinct(rows: list[Row], column: str) -> list[Any]:
    """Values of a column in the order of their first appearance."""
    return list(dict.fromkeys(row[column] for row in rows if column in row))


def name(rows: list[Row], method: str) -> str:
    """The method's name, with a note where this version of the library does not have it."""
    notes = distinct(select(rows, method=method), "note")
    return method if not notes else f"{method} ({notes[0].split(':')[0]})"


def _text(cell: Any) -> str:
    if not isinstance(cell, float):
        return "-" if cell is None else str(cell)
    return "-" if np.isnan(cell) else f"{cell:.3g}" if abs(cell) < 10 else f"{cell:.4g}"


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} in a row")
