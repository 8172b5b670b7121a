"""What the readers of named formats share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nareg.io._notes import count, verb

if TYPE_CHECKING:
    import pandas as pd


def tidy(
    table: dict[str, Any], units: dict[str, str], *notes: str, failed: Mapping[str, int] | None = None, why: str = ""
) -> pd.DataFrame:
    """A frame with what is known of its columns; so many readings of some have ``failed`` and are empty, and ``why``."""
    import pandas as pd

    lost = {name: number for name, number in (failed or {}).items() if number}
    number = sum(lost.values())
    said = f"{count(number, 'reading')} {why} {verb(number)} left out" if number else ""
    frame = pd.DataFrame(table)
    known = {name: unit for name, unit in units.items() if name in frame}
    frame.attrs = {"units": known, "failed": lost, "notes": [note for note in (said, *notes) if note]}
    return frame


def as_numbers(cells: Any) -> Any:
    import pandas as pd

    return pd.to_numeric(cells, errors="coerce")
