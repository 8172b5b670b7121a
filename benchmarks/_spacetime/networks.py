"""The five sensor networks and AQI-36 as the protocols use them: steps in hours, what may be hidden."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

import nareg
from nareg.datasets import SensorNetwork

FIVE = ("us-weather", "au-weather", "molene", "sea-surface-temperature", "pm25-california")
#: Hours from one time to the next; two sources have no time stamps, their steps count as days.
STEP_HOURS = {"molene": 1.0, "aqi36": 1.0}
DAY = 24.0


@dataclass(frozen=True)
class Hidden:
    """Readings that are left, the hidden cells, the times."""

    network: SensorNetwork
    readings: np.ndarray
    cells: np.ndarray
    times: np.ndarray | None


@cache
def load(dataset: str) -> SensorNetwork:
    return nareg.datasets.load(dataset)


def step_hours(dataset: str) -> float:
    return STEP_HOURS.get(dataset, DAY)


def times(network: SensorNetwork) -> np.ndarray | None:
    """Time stamps as datetime64, or None where the source has none."""
    return None if network.times.dtype.kind in "iu" else np.array([str(t) for t in network.times], dtype="datetime64[s]")


def hide(dataset: str, pattern: str, seed: int, share: float = 0.1) -> Hidden:
    """Hide a share of the readings: at ``"random"``, in ``"blocks"`` of a station's readings, or as the ``"literature"`` does.

    A block is a day of hourly readings or 12 others. Every station keeps at least half of its readings.
    """
    network = load(dataset)
    observed, rng = network.observed, np.random.default_rng(seed)
    cells = np.zeros(observed.shape, dtype=bool)
    if pattern == "literature":
        cells = network.held_out
        readings = network.signals.copy()
    elif pattern == "random":
        cells = observed & (rng.random(observed.shape) < share)
    else:
        length, wanted = 24 if step_hours(dataset) == 1 else 12, share * observed.sum()
        while cells.sum() < wanted:
            i, first = int(rng.integers(observed.shape[0])), int(rng.integers(observed.shape[1]))
            block = observed[i].copy()
            block[:first] = block[first + length :] = False
            if 2 * (cells[i] | block).sum() <= observed[i].sum():
                cells[i] |= block
    if pattern != "literature":
        readings = np.where(cells, np.nan, network.signals)
    return Hidden(network, readings, cells, times(network))


def truth(hidden: Hidden) -> np.ndarray:
    """What the hidden cells read."""
    network = hidden.network
    return (network.signals if network.reference is None else network.reference)[hidden.cells]
