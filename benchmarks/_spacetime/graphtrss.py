"""GraphTRSS's protocol: PM2.5 in California and sea-surface temperature, random samples, error at what was not sampled.

The first 220 and 600 times; at every time the same number of stations is sampled at random among those with a valid value,
without noise. Valid are PM2.5 values above zero, as in the authors' code. The published numbers are means over 100 masks
whose methods' parameters were chosen by the true error; here no parameter sees it. The authors' own masks are not published:
ours come from the stated seeds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from rich.table import Table

import nareg
from _spacetime import library
from _spacetime.points import Protocol, Row, distinct, mean, name, select, table
from nareg import baselines
from nareg.datasets import SensorNetwork

#: Times, and the bar on the mean ratio and from which density on every one is below one.
SETS = {"pm25-california": (220, 0.92, 0.0), "sea-surface-temperature": (600, 0.80, 0.2)}
PEERS = ("natural-neighbor", "Tikhonov", "Qiu et al.", "GraphTRSS")


@cache
def published() -> dict[str, Any]:
    path = nareg.datasets.data_root() / "graph_trss" / "published.json"
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def network(dataset: str) -> SensorNetwork:
    return nareg.datasets.load(dataset)


def sampled(dataset: str, density: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Truth (N, T), the sampled cells and the scored ones: of the valid cells, ``density * N`` per time are sampled."""
    truth = network(dataset).signals[:, : SETS[dataset][0]]
    n, t = truth.shape
    rng = np.random.default_rng([seed, round(1000 * density)])
    valid = np.isfinite(truth) & (truth > 0 if dataset == "pm25-california" else True)
    order = np.where(valid, rng.random((n, t)), np.inf)
    mask = valid & (np.argsort(np.argsort(order, axis=0), axis=0) < round(density * n))
    return truth, mask, valid & ~mask


def _kriging(data: SensorNetwork, readings: np.ndarray) -> np.ndarray:
    return baselines.kriging(data.coordinates, readings, metric="haversine").x


def _spacetime(**options: Any) -> Callable[[SensorNetwork, np.ndarray], np.ndarray]:
    return lambda data, readings: library.spacetime(data.graph, readings, **options).x


METHODS: dict[str, Callable[[SensorNetwork, np.ndarray], np.ndarray]] = {
    "linear interpolation in time": lambda data, readings: baselines.interpolate_in_time(readings),
    "kriging": _kriging,
    "nareg.spacetime": _spacetime(),
}


def points(options: argparse.Namespace) -> list[Row]:
    return [
        {"dataset": dataset, "method": method, "density": density, "seed": seed}
        for dataset in SETS
        for method in options.methods or METHODS
        for density in published()[dataset]["reconstruction"]["grid"]
        for seed in range(options.seeds or 10)
    ]


def compute(point: Row) -> list[Row]:
    truth, seen, scored = sampled(point["dataset"], point["density"], point["seed"])
    start = time.perf_counter()
    x = METHODS[point["method"]](network(point["dataset"]), np.where(seen, truth, np.nan))
    seconds = time.perf_counter() - start
    x = np.where(np.isnan(x), np.nanmean(truth[seen]), x)  # a station that was never sampled
    error = (x - truth)[scored]
    return [{"rmse": float(np.sqrt(np.mean(error**2))), "mae": float(np.abs(error).mean()), "seconds": seconds}]


def show(rows: list[Row]) -> list[Table | str]:
    result: list[Table | str] = []
    for dataset in distinct(rows, "dataset"):
        of, known = select(rows, dataset=dataset), published()[dataset]["reconstruction"]
        grid = known["grid"]
        lines = [[f"published: {peer}", *known[peer]["RMSE"], None, None] for peer in PEERS]
        sentences = []
        for method in distinct(of, "method"):
            mine = select(of, method=method)
            errors = np.array([mean(select(mine, density=density), "rmse") for density in grid])
            ratios = errors / np.array(known["GraphTRSS"]["RMSE"])
            lines.append([name(of, method), *errors.tolist(), float(ratios.mean()), mean(mine, "seconds")])
            if method.startswith("nareg.") and np.isfinite(ratios).all():
                _, bar, start = SETS[dataset]
                from_start = ratios[np.array(grid) >= start]
                sentences.append(
                    f"{method}: {ratios.mean():.3f} times GraphTRSS in the mean (bar {bar:.2f}); ratios "
                    f"{', '.join(f'{r:.3f}' for r in ratios)}; largest from density {start:g} on {from_start.max():.3f} (bar 1)"
                )
        header = ["method", *(f"{density:g}" for density in grid), "mean ratio", "seconds"]
        result += [table(f"{dataset}: RMSE at what was not sampled, by density", header, lines), *sentences]
    return result


PROTOCOL = Protocol("graphtrss", tuple(METHODS), points, compute, show)
