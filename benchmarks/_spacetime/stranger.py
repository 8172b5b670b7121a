"""A stranger's file: 60 stations, 432 ten-minute readings, noise of 1.5 °C, gaps, one dead, one stuck, one spiking sensor.

RMSE against the truth at readings and at gaps of the healthy stations. Nobody knows the noise or the faults.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from rich.table import Table

import nareg
from _spacetime import library
from _spacetime.library import Estimate
from _spacetime.points import Protocol, Row, distinct, mean, name, select, table
from nareg import baselines
from nareg.datasets import SimulatedNetwork

WINDOW = 13
#: Suspects may be so many more than the faults in this share of files; their kinds are right in that one.
MORE, FEW, RIGHT = 1, 0.95, 0.9


def rolling(network: SimulatedNetwork) -> Estimate:
    """Rolling mean; what the window leaves empty by a straight line in time."""
    return Estimate(baselines.interpolate_in_time(baselines.rolling_mean(network.readings, WINDOW), times=network.times))


def rolling_then_blind(network: SimulatedNetwork) -> Estimate:
    """A blind design on the rolling means of the stations that read, whose means are removed and put back.

    The noise comes from what the rolling mean took away; empty windows are filled by a straight line in time, as in
    :func:`rolling` (``filters.interpolate`` with a blind design amplifies at some nodes, and is worse in the mean).
    """
    rolled = baselines.rolling_mean(network.readings, WINDOW)
    filled = baselines.interpolate_in_time(rolled, times=network.times)
    reads = np.isfinite(filled).all(axis=1)
    graph = nareg.Graph.from_knn(network.coordinates[reads], 7, metric="haversine")
    level = filled[reads].mean(axis=1, keepdims=True)
    taken = np.nanmean((network.readings - rolled)[reads] ** 2, axis=1)
    noise = float(np.median(taken)) / (WINDOW - 1)
    design = nareg.design.blind(graph, measurements=filled[reads] - level, noise=noise)
    x = np.full_like(rolled, np.nan)
    x[reads] = level + nareg.filters.denoise(graph, design, filled[reads] - level).x
    return Estimate(x)


def neighbors(network: SimulatedNetwork) -> Estimate:
    return Estimate(baselines.neighbor_median(network.graph(), network.readings))


def kriging(network: SimulatedNetwork) -> Estimate:
    kriged = baselines.kriging(network.coordinates, network.readings, metric="haversine")
    return Estimate(kriged.x, kriged.std)


def spacetime(network: SimulatedNetwork) -> Estimate:
    return library.spacetime(network.graph(), network.readings, network.times)


def clean(network: SimulatedNetwork) -> Estimate:
    return library.clean(network.readings, network.names, network.coordinates, network.times, network.altitude)


SIMPLE = ("rolling mean of 13", "rolling, then blind", "kriging with station means")
METHODS: dict[str, Callable[[SimulatedNetwork], Estimate]] = {
    "readings": lambda network: Estimate(network.readings),
    "neighbors' median": neighbors,
    "rolling mean of 13": rolling,
    "rolling, then blind": rolling_then_blind,
    "kriging with station means": kriging,
    "nareg.spacetime": spacetime,
    "nareg.clean": clean,
}


def points(options: argparse.Namespace) -> list[Row]:
    methods = options.methods or list(METHODS)
    return [{"seed": seed, "method": method} for method in methods for seed in range(options.seeds or 10)]


def compute(point: Row) -> list[Row]:
    network = nareg.datasets.simulated(rng=np.random.default_rng(point["seed"]))
    start = time.perf_counter()
    estimate = METHODS[point["method"]](network)
    seconds = estimate.seconds or time.perf_counter() - start
    error = estimate.x - network.truth
    healthy = np.broadcast_to(network.healthy[:, None], error.shape)
    row: Row = {
        "readings": _rms(error[healthy & network.observed]),
        "gaps": _rms(error[healthy & ~network.observed]) if point["method"] != "readings" else None,
        "seconds": seconds,
    }
    if estimate.std is not None:
        row["band90"] = float(np.mean(np.abs(error[healthy]) <= 1.645 * estimate.std[healthy]))
    if estimate.flags is not None:
        row |= flagged(network, estimate.flags)
        faults = {(station, "spikes" if kind == "spiking" else kind) for station, kind in network.faults.items()}
        row["few suspects"] = float(len(estimate.suspects) <= len(faults) + MORE)
        row["kinds right"] = float(faults <= estimate.suspects)
    return [row]


def _rms(error: np.ndarray) -> float:
    return float(np.sqrt(np.mean(error**2)))


def flagged(network: SimulatedNetwork, flags: np.ndarray) -> Row:
    """Whether each faulty sensor is flagged, and the share of healthy station-days with a reading flagged bad.

    Stuck or spiking: at least half of the readings that the fault changed have flag 3 or 4. Dead: flag 9 (or 4) throughout.
    """
    row: Row = {}
    for station, kind in network.faults.items():
        i = network.names.index(station)
        wrong = flags[i][network.bad[i] & network.observed[i]]
        hit = np.isin(flags[i], (4, 9)).all() if kind == "dead" else np.isin(wrong, (3, 4)).mean() >= 0.5
        row[f"{kind} flagged"] = float(hit)
    day = network.times.astype("datetime64[D]")
    days = np.stack([(flags[network.healthy][:, day == d] == 4).any(axis=1) for d in np.unique(day)])
    row["healthy station-days flagged bad"] = float(days.mean())
    return row


def show(rows: list[Row]) -> list[Table | str]:
    columns = ("readings", "gaps", "band90", "seconds")
    result: list[Table | str] = [
        table(
            "RMSE at healthy stations (°C), mean over the files",
            ["method", "at readings", "at gaps", "90 % band covers", "seconds"],
            (
                [name(rows, method), *(mean(select(rows, method=method), c) for c in columns)]
                for method in distinct(rows, "method")
            ),
        )
    ]
    simple = [row for method in SIMPLE for row in select(rows, method=method) if "readings" in row]
    for ours in ("nareg.spacetime", "nareg.clean"):
        of = [row for row in select(rows, method=ours) if "readings" in row]
        for where, bar in (("readings", 0.75), ("gaps", 0.5)):
            pairs = [(row[where], [other[where] for other in select(simple, seed=row["seed"])]) for row in of]
            ratios = [mine / min(others) for mine, others in pairs if others]
            if ratios:
                text = f"{ours} at {where}: {np.mean(ratios):.3f} times the best of {', '.join(SIMPLE)}"
                result.append(f"{text}; largest of {len(ratios)} files {max(ratios):.3f} (bar {bar:.2f})")
        for kind in ("dead flagged", "stuck flagged", "spiking flagged", "healthy station-days flagged bad"):
            if of and kind in of[0]:
                result.append(f"{ours}: {kind} in {mean(of, kind):.4f} of {len(of)} files")
        for what, bar in (("few suspects", FEW), ("kinds right", RIGHT)):
            if of and what in of[0]:
                result.append(f"{ours}: {what} in {mean(of, what):.3f} of {len(of)} files (bar {bar:.2f})")
    return result


PROTOCOL = Protocol("stranger", tuple(METHODS), points, compute, show)
