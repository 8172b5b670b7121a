"""A bar for computations that report their stage and the fraction that is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from nareg.cli.inputs import errors
from nareg.progress import ProgressCallback


@contextmanager
def stage_bar() -> Iterator[ProgressCallback]:
    """A bar with the stage, the share that is done, and the time left."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    left = TextColumn("left:"), TimeRemainingColumn()
    with Progress(*columns, *left, console=errors, transient=True) as bar:
        line = bar.add_task("reading", total=1.0)
        yield lambda now: bar.update(line, completed=now.fraction, description=now.stage)
