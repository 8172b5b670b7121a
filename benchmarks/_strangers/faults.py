"""Faults put into healthy records, and which of them ``nareg.clean`` names.

Dead, stuck and spiking sensors are those of ``nareg.datasets.simulated``: 95 of 100 must be suspects of the right kind. Drift,
wrong unit, exchanged stations and wrong clocks are put into hourly records; their counts are shown, and have no bar.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

import nareg
from _strangers import records

FAULTS = ("dead", "stuck", "spiking")
#: What a suspect may be called.
NAMES = {"spiking": {"spikes", "noisy"}, "swapped": {"swapped", "unit", "drift"}}
FILES = 34
SLOW = ("drift", "unit", "swapped", "clock")
SEEDS = 6
LEAST = 0.95


@dataclass(frozen=True)
class Found:
    """Whether one fault was named, and how many other stations were."""

    fault: str
    right: bool
    others: int


def tasks(quick: bool) -> list[tuple[object, ...]]:
    files = [("file", seed) for seed in range(6 if quick else FILES)]
    return [*files, *((kind, seed) for kind in SLOW for seed in range(1 if quick else SEEDS))]


def find(kind: str, seed: int) -> list[Found]:
    """Clean one record with faults."""
    if kind == "file":
        network = nareg.datasets.simulated(14, 300, rng=np.random.default_rng([5, seed]))
        record = records.Record(network.coordinates, network.times, network.truth, network.readings)
        faults = {record.names[network.names.index(name)]: fault for name, fault in network.faults.items()}
    else:
        record, stations = faulty(records.draw("cycle", 60, 12, 720, 300 + seed), kind, seed)
        faults = dict.fromkeys(stations, kind)
    suspects = nareg.clean(*record.frames()).quality.suspects
    others = len({s.name for s in suspects} - set(faults))
    results = []
    for name, fault in faults.items():
        kinds = {s.kind for s in suspects if s.name == name}
        results.append(Found(fault, bool(kinds & NAMES.get(fault, {fault})), others))
    return results


def faulty(record: records.Record, kind: str, seed: int) -> tuple[records.Record, list[str]]:
    """A fault in the second half of the record: drift to 6 degrees, °F, a pair exchanged, a clock 3 h ahead."""
    rng = np.random.default_rng([9, seed])
    y, half = record.readings.copy(), record.times.size // 2
    i, j = rng.choice(len(y), 2, replace=False)
    if kind == "drift":
        y[i, half:] += rng.choice([-1, 1]) * np.linspace(0, 6, y.shape[1] - half)
    elif kind == "unit":
        y[i, half:] = 1.8 * y[i, half:] + 32
    elif kind == "swapped":
        y[[i, j], half:] = y[[j, i], half:]
    else:
        y[i, half:-3] = y[i, half + 3 :]
    return replace(record, readings=y), [record.names[k] for k in ((i, j) if kind == "swapped" else (i,))]


def table(results: list[list[Found]]) -> Iterator[tuple[str, bool]]:
    """A line per fault, and one for the three that have a bar."""
    every = [one for record in results for one in record]
    for fault in (*FAULTS, *SLOW):
        of = [one for one in every if one.fault == fault]
        yield (
            f"{fault:10} found {sum(one.right for one in of):3} of {len(of):3}, other suspects {sum(one.others for one in of)}",
            True,
        )
    quick = [one for one in every if one.fault in FAULTS]
    right = sum(one.right for one in quick)
    yield f"dead, stuck, spiking: {right} of {len(quick)}, at least 95 of 100", right >= LEAST * len(quick)
