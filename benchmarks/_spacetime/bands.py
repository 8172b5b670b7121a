"""How often bands of 50, 90 and 99 % hold a hidden reading: five networks and AQI-36, a tenth hidden at random or in blocks.

A band is for a reading: it counts the noise around the field. AQI-36 also has the literature's held-out readings. Stations
count apart by thirds: those whose readings change least from time to time, and most.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from rich.table import Table
from scipy.stats import norm

from _spacetime import library, networks
from _spacetime.networks import Hidden
from _spacetime.points import Protocol, Row, distinct, mean, name, select, table
from nareg import baselines

LEVELS = (0.5, 0.9, 0.99)
#: Thirds of the stations, by how much their readings change from time to time.
THIRDS = ("calm", "middle", "restless")
#: Lower and upper end of a band (hidden cells in row order, as ``hidden.cells`` picks them), and the estimate, per level.
Bands = dict[float, tuple[np.ndarray, np.ndarray]]


def gaussian(center: np.ndarray, std: np.ndarray) -> Bands:
    """Bands of a normal distribution."""
    reach = {level: float(norm.ppf(0.5 + level / 2)) for level in LEVELS}
    return {level: (center - z * std, center + z * std) for level, z in reach.items()}


def kriging(hidden: Hidden) -> tuple[np.ndarray, Bands]:
    kriged = baselines.kriging(hidden.network.coordinates, hidden.readings, metric="haversine")
    return kriged.x[hidden.cells], gaussian(kriged.x[hidden.cells], np.sqrt(kriged.std**2 + kriged.noise)[hidden.cells])


def spacetime(hidden: Hidden) -> tuple[np.ndarray, Bands]:
    estimate = library.spacetime(hidden.network.graph, hidden.readings, hidden.times)
    bands = {}
    for level in LEVELS:
        low, high = library.reading_band(estimate, level)
        bands[level] = low[hidden.cells], high[hidden.cells]
    return estimate.x[hidden.cells], bands


def linear(hidden: Hidden) -> tuple[np.ndarray, Bands]:
    x = baselines.interpolate_in_time(hidden.readings)
    return np.where(np.isnan(x), np.nanmean(hidden.readings), x)[hidden.cells], {}


def neighbors(hidden: Hidden) -> tuple[np.ndarray, Bands]:
    x = baselines.neighbor_median(hidden.network.graph, hidden.readings)
    level = np.nanmedian(hidden.readings, axis=1, keepdims=True)
    return np.where(np.isnan(x), level, x)[hidden.cells], {}


METHODS: dict[str, Callable[[Hidden], tuple[np.ndarray, Bands]]] = {
    "linear in time": linear,
    "neighbors' median": neighbors,
    "kriging": kriging,
    "nareg.spacetime": spacetime,
}


def thirds(hidden: Hidden) -> np.ndarray:
    """Of every hidden cell, the third that its station belongs to."""
    change = np.nanstd(np.diff(hidden.readings, axis=1), axis=1)
    third = np.argsort(np.argsort(change)) * len(THIRDS) // change.size
    return np.broadcast_to(third[:, None], hidden.cells.shape)[hidden.cells]


def points(options: argparse.Namespace) -> list[Row]:
    cases = [(dataset, pattern) for dataset in (*networks.FIVE, "aqi36") for pattern in ("random", "blocks")]
    return [
        {"dataset": dataset, "pattern": pattern, "method": method, "seed": seed}
        for dataset, pattern in [*cases, ("aqi36", "literature")]
        for method in options.methods or METHODS
        for seed in range(1 if pattern == "literature" else options.seeds or 1)
    ]


def compute(point: Row) -> list[Row]:
    hidden = networks.hide(point["dataset"], point["pattern"], point["seed"])
    truth, of = networks.truth(hidden), thirds(hidden)
    start = time.perf_counter()
    x, bands = METHODS[point["method"]](hidden)
    row: Row = {"readings": int(truth.size), "rmse": float(np.sqrt(np.mean((x - truth) ** 2)))}
    for level, (low, high) in bands.items():
        inside = (truth >= low) & (truth <= high)
        row[f"covers {level:g}"] = float(np.mean(inside))
        row |= {f"covers {level:g}, {third}": float(np.mean(inside[of == k])) for k, third in enumerate(THIRDS)}
        row[f"width {level:g}"] = float(np.mean(high - low))
    return [{**row, "seconds": time.perf_counter() - start}]


def show(rows: list[Row]) -> list[Table | str]:
    lines, outside = [], []
    for dataset in distinct(rows, "dataset"):
        for pattern in distinct(select(rows, dataset=dataset), "pattern"):
            for method in distinct(rows, "method"):
                of = select(rows, dataset=dataset, pattern=pattern, method=method)
                covers = [mean(of, f"covers {level:g}") for level in LEVELS]
                lines.append(
                    [f"{dataset}, {pattern}", name(of, method), *(f"{100 * c:.1f}" if c == c else "-" for c in covers)]
                )
                apart = [mean(of, f"covers 0.9, {third}") for third in THIRDS]
                lines[-1] += [" / ".join(f"{100 * c:.1f}" for c in apart) if covers[1] == covers[1] else "-"]
                lines[-1] += [mean(of, "width 0.9"), mean(of, "rmse"), mean(of, "seconds")]
                if method == "nareg.spacetime" and covers[1] == covers[1] and not 0.87 <= covers[1] <= 0.93:
                    outside.append(f"{dataset}, {pattern} ({100 * covers[1]:.1f} %)")
    apart = f"90 %: {', '.join(THIRDS)}"
    header = ["hidden", "method", "50 % covers", "90 %", "99 %", apart, "width of 90 %", "RMSE", "seconds"]
    result: list[Table | str] = [table("Hidden readings that a band covers (%)", header, lines)]
    if any("covers 0.9" in row for row in select(rows, method="nareg.spacetime")):
        result.append(f"nareg.spacetime, 90 % outside 87 to 93 %: {', '.join(outside) or 'nowhere'}")
    return result


PROTOCOL = Protocol("bands", tuple(METHODS), points, compute, show)
