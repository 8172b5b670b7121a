"""What the readers of named formats share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nareg.io._notes import count

if TYPE_CHECKING:
    import pandas as pd


def tidy(table: dict[str, Any], units: dict[str, str], *notes: str) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(table)
    frame.attrs = {"units": {name: unit for name, unit in units.items() if name in frame}, "notes": [n for n in notes if n]}
    return frame


def left_out(number: int, why: str) -> str:
    return f"{count(number, 'reading')} {why} {'is' if number == 1 else 'are'} left out" if number else ""


def as_numbers(cells: Any) -> Any:
    import pandas as pd

    return pd.to_numeric(cells, errors="coerce")
