"""Share of the true values in the 90 % bands of ``nareg.clean``, at readings and at hidden ones: 87 to 93 %."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

import nareg
from _strangers import records

#: Group, kind of field, minutes, stations, times; every row with :data:`SEEDS` records. The last row has no bar: what one
#: station alone shows at one time counts as noise, so where a day says little of the next, bands at readings are too wide.
PLAN = (
    ("rounded", "tenths", 60, 8, 400), ("rounded", "whole", 60, 8, 400), ("rounded", "tenths", 10, 6, 720),
    ("few stations", "smooth", 60, 4, 400), ("few stations", "cycle", 60, 5, 400), ("few stations", "smooth", 60, 6, 400),
    ("5 minutes", "smooth", 5, 5, 1440), ("5 minutes", "cycle", 5, 6, 1440), ("5 minutes", "tenths", 5, 5, 1440),
    ("local weather", "tenths", 1440, 12, 365),
)  # fmt: skip
SEEDS = 6
LOW, HIGH = 0.87, 0.93
#: For one row of :data:`PLAN`, so that too narrow bands in one do not hide too wide ones in another.
ROW_LOW, ROW_HIGH = 0.8, 0.97


@dataclass(frozen=True)
class Share:
    """Shares of one record."""

    group: str
    row: str
    at_readings: float
    hidden: float


def tasks(quick: bool) -> list[tuple[object, ...]]:
    return [(*row, 100 + seed) for row in PLAN for seed in range(2 if quick else SEEDS)]


def share(group: str, kind: str, minutes: int, stations: int, times: int, seed: int) -> Share:
    """Hide a tenth of a record, half of it alone and half in runs of six; clean the rest."""
    record = records.draw(kind, minutes, stations, times, seed)
    rng = np.random.default_rng(seed)
    there = np.isfinite(record.readings)
    hidden = rng.random(there.shape) < 0.05
    for first in np.argwhere(rng.random(there.shape) < 0.05 / 6):
        hidden[first[0], first[1] : first[1] + 6] = True
    hidden &= there
    left = replace(record, readings=np.where(hidden, np.nan, record.readings))
    low, high = nareg.clean(*left.frames()).band(0.9)
    inside = (record.truth >= low) & (record.truth <= high)
    return Share(
        group,
        f"{kind}, {minutes} minutes, {stations} stations",
        float(inside[there & ~hidden].mean()),
        float(inside[hidden].mean()),
    )


def table(shares: list[Share]) -> Iterator[tuple[str, bool]]:
    """A line per kind of record and per group, with the standard error over records; the bar is for groups."""
    for row in dict.fromkeys(one.row for one in shares):
        of = [one for one in shares if one.row == row]
        text, right = line(f"  {row}", of, ROW_LOW, ROW_HIGH)
        yield text, right or of[0].group == "local weather"
    for group in dict.fromkeys(one.group for one in shares if one.group != "local weather"):
        yield line(group, [one for one in shares if one.group == group], LOW, HIGH)


def line(row: str, shares: list[Share], low: float, high: float) -> tuple[str, bool]:
    texts, right = [], True
    for what, values in (("readings", [one.at_readings for one in shares]), ("hidden", [one.hidden for one in shares])):
        mean, error = (
            float(np.mean(values)),
            float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan,
        )
        texts.append(f"{what} {mean:6.1%} ± {error:.1%}")
        right &= low <= mean <= high
    return f"{row:38} {len(shares):3} records   {'   '.join(texts)}", right
