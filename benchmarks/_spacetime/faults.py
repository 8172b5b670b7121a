"""Faults put into five real networks: how well a score per reading ranks the bad readings first.

Area under the precision-recall curve over all readings. Spikes of 5 sigma in 1 % of a station's readings, a sensor stuck for
12 hours (12 steps where readings are daily), drift of 3 sigma per week for four weeks, stations swapped in pairs. Sigma is the
scale of the change from one reading to the next at the station. One station in twenty is hit, three at least (four for pairs).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from rich.table import Table

from _spacetime import library, networks
from _spacetime.points import Protocol, Row, distinct, mean, name, select, table
from nareg import baselines
from nareg.baselines._simple import median
from nareg.datasets import SensorNetwork, inject

KINDS = ("spikes", "stuck", "drift", "swapped")
#: Windows of the median filter in time: short ones find spikes, long ones what lasts.
WINDOWS = (3, 7, 13)
WEEK = 7 * 24.0


def faulty(dataset: str, kind: str, seed: int) -> tuple[SensorNetwork, np.ndarray, np.ndarray]:
    """The network, its readings with faults, the bad ones."""
    network, rng = networks.load(dataset), np.random.default_rng([seed, KINDS.index(kind)])
    step = networks.step_hours(dataset)
    readings = network.signals.copy()
    usable = np.flatnonzero(network.observed.mean(axis=1) > 0.5)
    count = max(3, round(usable.size / 20))
    stations = rng.choice(usable, count + count % 2 if kind == "swapped" else count, replace=False)
    duration = {"stuck": max(12.0, 12 * step), "drift": 4 * WEEK}.get(kind)
    changed, bad = inject(readings, kind, stations, rng=rng, step_hours=step, duration_hours=duration)
    return network, changed, bad


def _scaled(residual: np.ndarray) -> np.ndarray:
    """Size of a residual over its station's median absolute deviation; at least the network's hundredth."""
    center = median(residual, axis=1)[:, None]
    deviation = median(np.abs(residual - center), axis=1)
    floor = 0.01 * float(np.nanmedian(deviation)) or 1e-12
    score = np.abs(residual - center) / np.fmax(deviation, floor)[:, None]
    return np.where(np.isnan(score), 0.0, score)


def neighbor_test(network: SensorNetwork, readings: np.ndarray) -> np.ndarray:
    return _scaled(readings - baselines.neighbor_median(network.graph, readings))


def neighbor_difference(network: SensorNetwork, readings: np.ndarray) -> np.ndarray:
    """Plain difference to the neighbors' median: finds a level that is wrong throughout, and every hill."""
    return np.nan_to_num(np.abs(readings - baselines.neighbor_median(network.graph, readings, centered=False)))


def median_filter(window: int) -> Callable[[SensorNetwork, np.ndarray], np.ndarray]:
    def score(network: SensorNetwork, readings: np.ndarray) -> np.ndarray:
        del network
        padded = np.pad(readings, ((0, 0), (window // 2, window // 2)), constant_values=np.nan)
        return _scaled(readings - median(np.lib.stride_tricks.sliding_window_view(padded, window, axis=1), axis=2))

    return score


def quality(network: SensorNetwork, readings: np.ndarray) -> np.ndarray:
    return library.quality(network.graph, readings, networks.times(network))


METHODS: dict[str, Callable[[SensorNetwork, np.ndarray], np.ndarray]] = {
    "neighbor test": neighbor_test,
    "neighbor difference": neighbor_difference,
    **{f"median of {window}": median_filter(window) for window in WINDOWS},
    "nareg.quality": quality,
}


def average_precision(bad: np.ndarray, score: np.ndarray) -> float:
    """Area under the precision-recall curve by steps; readings of one score enter together."""
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(bad[order])
    last = np.append(np.flatnonzero(np.diff(score[order]) != 0), order.size - 1)
    recall, precision = hits[last] / hits[-1], hits[last] / (last + 1)
    return float(np.sum(np.diff(recall, prepend=0.0) * precision))


def points(options: argparse.Namespace) -> list[Row]:
    return [
        {"dataset": dataset, "kind": kind, "method": method, "seed": seed}
        for dataset in networks.FIVE
        for kind in KINDS
        for method in options.methods or METHODS
        for seed in range(options.seeds or 5)
    ]


def compute(point: Row) -> list[Row]:
    network, readings, bad = faulty(point["dataset"], point["kind"], point["seed"])
    start = time.perf_counter()
    score = METHODS[point["method"]](network, readings)
    seconds = time.perf_counter() - start
    there = np.isfinite(readings)
    area = average_precision(bad[there], np.nan_to_num(score[there]))
    return [{"area": area, "share bad": float(bad[there].mean()), "seconds": seconds}]


def show(rows: list[Row]) -> list[Table | str]:
    methods = distinct(rows, "method")
    lines = []
    for kind in KINDS:
        for dataset in distinct(rows, "dataset"):
            of = select(rows, kind=kind, dataset=dataset)
            areas = [mean(select(of, method=method), "area") for method in methods]
            lines.append([f"{kind}, {dataset.removesuffix('-temperature')}", *areas, mean(of, "share bad")])
    every = [mean(select(rows, method=method), "area") for method in methods]
    lines.append(["all", *every, mean(rows, "share bad")])
    header = ["fault", *(name(rows, method) for method in methods), "by chance"]
    result: list[Table | str] = [table("Area under the precision-recall curve of a score per reading", header, lines)]
    ours = dict(zip(methods, every, strict=True)).pop("nareg.quality", float("nan"))
    if ours == ours and len(methods) > 1:
        better = [mine > max(others) for *others, mine, _ in (line[1:] for line in lines[:-1])]
        result.append(f"nareg.quality is better than every other score in {sum(better)} of {len(better)} cases")
    return result


PROTOCOL = Protocol("faults", tuple(METHODS), points, compute, show)
