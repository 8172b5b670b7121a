"""False suspects of ``nareg.clean`` on healthy records, simulated and real: at most 1 per 100 station-months."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from _spacetime import networks

import nareg
from _strangers import records
from _strangers.records import Record
from nareg.quality import Flag

#: Minutes between readings, stations, times and records of each kind of field.
PLAN = (
    ("smooth", 5, 5, 2016, 4), ("smooth", 5, 12, 2016, 2), ("fronts", 5, 8, 2016, 3), ("cycle", 5, 6, 2016, 3),
    ("tenths", 5, 4, 2016, 3),
    ("gate", 10, 8, 2016, 4),
    ("smooth", 10, 4, 1440, 4), ("fronts", 10, 16, 1440, 2), ("cycle", 10, 10, 1440, 3), ("humidity", 10, 8, 1440, 3),
    ("irradiance", 10, 8, 1440, 3), ("whole", 10, 6, 1440, 3),
    ("smooth", 60, 4, 720, 6), ("smooth", 60, 40, 720, 2), ("fronts", 60, 20, 720, 24), ("cycle", 60, 12, 720, 4),
    ("humidity", 60, 10, 720, 4), ("irradiance", 60, 8, 720, 4), ("rain", 60, 12, 720, 4), ("flood", 60, 7, 720, 4),
    ("tenths", 60, 6, 720, 4), ("whole", 60, 10, 720, 4), ("showers", 60, 16, 1440, 4), ("catchments", 60, 10, 1440, 4),
    ("smooth", 1440, 4, 365, 4), ("smooth", 1440, 30, 365, 3), ("smooth", 1440, 144, 365, 1), ("rain", 1440, 15, 365, 4),
    ("rain", 1440, 50, 365, 2), ("tenths", 1440, 8, 365, 4),
    ("quake", 1440, 14, 730, 4),
)  # fmt: skip
#: With --quick: one record each, of networks up to this size.
SMALL = 12
STEPS = {5: "5 minutes", 10: "10 minutes", 60: "hourly", 1440: "daily"}


@dataclass(frozen=True)
class Count:
    """Suspects of one record."""

    row: str
    station_months: float
    suspects: int
    readings: int
    bad: int
    kinds: tuple[str, ...]


def tasks(quick: bool) -> list[tuple[object, ...]]:
    """Arguments of :func:`count`, the long ones first."""
    plan = [(*row[:4], seed) for row in PLAN for seed in range(1 if quick else row[4]) if not quick or row[2] <= SMALL]
    plan.sort(key=lambda row: -(row[2] ** 2) * row[3])
    return [*(() if quick else ((name,) for name in networks.FIVE)), *plan]


def count(*task: object) -> Count:
    """Clean one record and count its suspects."""
    if len(task) == 1:
        name, record = str(task[0]), real(str(task[0]))
    else:
        kind, minutes, stations, times, seed = task
        record = records.draw(kind, minutes, stations, times, seed)  # type: ignore[arg-type]
        name = f"{STEPS[minutes]:10} {kind}, {stations} stations"  # type: ignore[index]
    cleaned = nareg.clean(*record.frames())
    # a station of a real network that ends early is silent indeed
    silent = {s.name for s in cleaned.quality.suspects if s.kind == "dead"} if cleaned.quality is not None else set()
    suspects = [station for station in cleaned.suspects if station not in silent or len(task) > 1]
    kinds = () if cleaned.quality is None else tuple(s.kind for s in cleaned.quality.suspects if s.name in suspects)
    bad = int((cleaned.flags.to_numpy() == Flag.BAD).sum())
    return Count(name, record.station_months, len(suspects), int(np.isfinite(record.readings).sum()), bad, kinds)


def real(name: str) -> Record:
    """A real network; steps count as days where the source has no time stamps."""
    network = networks.load(name)
    times = networks.times(network)
    if times is None:
        times = records.START + np.arange(network.signals.shape[1]) * np.timedelta64(86_400, "s")
    coordinates = np.asarray(network.graph.coordinates)
    return Record(coordinates, times, network.signals, network.signals)


def table(counts: list[Count]) -> Iterator[tuple[str, bool]]:
    """A line per kind of record, per step and for all, and whether it keeps the bar."""
    groups: dict[str, list[Count]] = {}
    for one in counts:
        groups.setdefault(one.row, []).append(one)
    for row in sorted(groups):
        yield line(row, groups[row])
    for title, group in (*((step, (f"{step:10} ",)) for step in STEPS.values()), ("real networks", networks.FIVE)):
        of = [one for one in counts if one.row.startswith(group)]
        if of:
            yield line(f"all {title}", of)
    yield line("all", counts)


def line(row: str, counts: list[Count]) -> tuple[str, bool]:
    months, suspects = sum(one.station_months for one in counts), sum(one.suspects for one in counts)
    bad = sum(one.bad for one in counts) / sum(one.readings for one in counts)
    kinds = Counter(kind for one in counts for kind in one.kinds)
    text = f"{row:34} {len(counts):3} records {months:8.1f} station-months {suspects:4} suspects"
    text += f" {100 * suspects / months:7.1f} per 100"
    named = ", ".join(f"{kind} {number}" for kind, number in kinds.most_common())
    # one is no evidence against a rate that allows less than one
    return f"{text}   {bad:.2%} bad   {named}", suspects <= math.ceil(months / 100)
