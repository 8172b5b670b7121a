"""AQI-36: hourly PM2.5 in Beijing; mean absolute error on the 20,434 held-out readings of March, June, September, December.

Only ``pm25_missing`` is seen. Absolute errors are scored, so the space-time model answers with its median.
The published errors are copied from the papers: all of these train neural networks on GPUs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from rich.table import Table

import nareg
from _spacetime import library
from _spacetime.points import Protocol, Row, distinct, name, select, table
from nareg import baselines
from nareg.datasets import SensorNetwork

#: Mean absolute errors as published: GRIN (ICLR 2022), CoSTI, CSDI (NeurIPS 2021), PriSTI (ICDE 2023).
PUBLISHED = {"GRIN": 12.08, "CoSTI": 10.13, "CSDI": 9.51, "PriSTI": 9.03, "PriSTI, rerun in another paper": 9.84}
BARS = {"nareg.spacetime": 10.2, "nareg.spacetime, parameters from the other months": 10.8}


@dataclass(frozen=True)
class Found:
    """Estimate and, where there is one, the standard deviation of the field and of the noise around it."""

    x: np.ndarray
    std: np.ndarray | None = None


@cache
def network() -> SensorNetwork:
    return nareg.datasets.load("aqi36")


def _times() -> np.ndarray:
    return network().times.astype("datetime64[m]")


def _network_mean() -> np.ndarray:
    readings = network().signals
    mean = baselines.network_mean(readings)
    return np.where(np.isnan(mean), np.nanmean(readings), mean)


def _kriging() -> Found:
    kriged = baselines.kriging(network().coordinates, network().signals, metric="haversine")
    return Found(kriged.x, np.sqrt(kriged.std**2 + kriged.noise))


def _spacetime(**options: Any) -> Found:
    estimate = library.spacetime(network().graph, network().signals, _times(), **options)
    return Found(estimate.smoothed.median, estimate.std)


def _other_months() -> Found:
    """Parameters from the months that are not scored; the smoother then reads the whole year."""
    month = network().times.astype("datetime64[M]").astype(int) % 12 + 1
    other = ~np.isin(month, (3, 6, 9, 12))
    estimate = library.spacetime(network().graph, network().signals[:, other], _times()[other])
    smoothed = estimate.model.smooth(network().signals, times=_times())
    return Found(smoothed.median, smoothed.std)


def _clean() -> Found:
    data = network()
    cleaned = library.clean(data.signals, data.names, data.coordinates, _times())
    return Found(cleaned.x, cleaned.std)


METHODS: dict[str, Callable[[], Found]] = {
    "linear interpolation in time": lambda: Found(baselines.interpolate_in_time(network().signals)),
    "network mean (global mean where none reads)": lambda: Found(_network_mean()),
    "network mean, interpolated in time": lambda: Found(
        baselines.interpolate_in_time(baselines.network_mean(network().signals))
    ),
    "neighbors' median, then linear in time": lambda: Found(
        baselines.interpolate_in_time(baselines.neighbor_median(network().graph, network().signals))
    ),
    "kriging": _kriging,
    "nareg.spacetime": _spacetime,
    "nareg.spacetime, square root, full": lambda: _spacetime(transform="sqrt", dynamics="full"),
    "nareg.spacetime, parameters from the other months": _other_months,
    "nareg.clean": _clean,
}


def points(options: argparse.Namespace) -> list[Row]:
    return [{"method": method} for method in options.methods or METHODS]


def compute(point: Row) -> list[Row]:
    start = time.perf_counter()
    answer = METHODS[point["method"]]()
    seconds = time.perf_counter() - start
    hidden, reference = network().held_out, network().reference
    error = (answer.x - reference)[hidden]
    row: Row = {"mae": float(np.abs(error).mean()), "rmse": float(np.sqrt(np.mean(error**2))), "seconds": seconds}
    return [row]


def show(rows: list[Row]) -> list[Table | str]:
    lines: list[list[Any]] = []
    for method in distinct(rows, "method"):
        row = select(rows, method=method)[0]
        lines.append([name(rows, method), row.get("mae"), row.get("rmse"), row.get("seconds"), BARS.get(method)])
    lines += [[f"published: {method}", mae, None, None, None] for method, mae in PUBLISHED.items()]
    return [table("AQI-36: error on 20,434 held-out readings (µg/m³)", ["method", "MAE", "RMSE", "seconds", "bar"], lines)]


PROTOCOL = Protocol("aqi36", tuple(METHODS), points, compute, show)
