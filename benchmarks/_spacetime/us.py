"""US network, 140 complete stations: a year of noisy readings and nothing else.

Signal-to-noise ratio as in the README's demonstration: the mean over all stations and days is removed, the noise variance is
the mean square of what remains over ``10^(SNR / 10)``. NMSE is the squared error over all days, divided by that mean square.
"Best single weight" and "snapshot Wiener" know the truth of these very days; all others see the noisy readings alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from rich.table import Table

import nareg
from _spacetime import library
from _spacetime.points import Protocol, Row, distinct, mean, name, select, table
from nareg import baselines, design, filters

SNR_DB = (-10, 0, 10)
BARS = {-10: 0.19, 0: 0.080, 10: 0.0255}


@dataclass(frozen=True)
class Task:
    """Truth and noisy readings, mean removed; the noise variance."""

    network: nareg.datasets.SensorNetwork
    truth: np.ndarray
    noisy: np.ndarray
    noise: float
    mean: float


@cache
def _network() -> nareg.datasets.SensorNetwork:
    return nareg.datasets.load("us-weather").complete()


def task(snr_db: float, seed: int) -> Task:
    network = _network()
    level = float(network.signals.mean())
    truth = network.signals - level
    noise = float(np.mean(truth**2)) / 10 ** (snr_db / 10)
    noisy = truth + np.sqrt(noise) * np.random.default_rng(seed).standard_normal(truth.shape)
    return Task(network, truth, noisy, noise, level)


def _designed(weights: design.WeightDesign, t: Task) -> tuple[np.ndarray, Row]:
    return filters.denoise(t.network.graph, weights, t.noisy).x, {}


def best_single_weight(t: Task) -> tuple[np.ndarray, Row]:
    return _designed(design.node_invariant(t.network.graph, rule="oracle", signals=t.truth, noise=t.noise), t)


def gcv(t: Task) -> tuple[np.ndarray, Row]:
    return _designed(design.node_invariant(t.network.graph, rule="gcv", measurements=t.noisy), t)


def blind(t: Task) -> tuple[np.ndarray, Row]:
    return _designed(design.blind(t.network.graph, measurements=t.noisy, noise=t.noise), t)


def wiener(t: Task) -> tuple[np.ndarray, Row]:
    return baselines.lmmse(t.network.graph, t.noisy, signals=t.truth, noise=t.noise), {}


def kriging(t: Task) -> tuple[np.ndarray, Row]:
    kriged = baselines.kriging(t.network.coordinates, t.noisy, metric="haversine")
    return kriged.x, {"noise found": kriged.noise / t.noise}


def rolling(window: int) -> Callable[[Task], tuple[np.ndarray, Row]]:
    return lambda t: (baselines.rolling_mean(t.noisy, window), {})


def spacetime(t: Task) -> tuple[np.ndarray, Row]:
    estimate = library.spacetime(t.network.graph, t.noisy + t.mean, np.asarray(t.network.times, dtype="datetime64[D]"))
    covered = (
        float(np.mean(np.abs(estimate.x - t.mean - t.truth) <= 1.645 * estimate.std)) if estimate.std is not None else None
    )
    return estimate.x - t.mean, {"noise found": float(np.mean(estimate.model.noise)) / t.noise, "band90": covered}


METHODS: dict[str, Callable[[Task], tuple[np.ndarray, Row]]] = {
    "best single weight": best_single_weight,
    "one weight, GCV": gcv,
    "blind": blind,
    "kriging": kriging,
    "rolling mean of 3": rolling(3),
    "rolling mean of 7": rolling(7),
    "snapshot Wiener": wiener,
    "nareg.spacetime": spacetime,
}


def points(options: argparse.Namespace) -> list[Row]:
    methods, draws = options.methods or list(METHODS), range(options.seeds or 3)
    return [{"method": method, "snr_db": snr, "seed": seed} for method in methods for snr in SNR_DB for seed in draws]


def compute(point: Row) -> list[Row]:
    t = task(point["snr_db"], point["seed"])
    start = time.perf_counter()
    estimate, more = METHODS[point["method"]](t)
    seconds = time.perf_counter() - start
    nmse = float(np.sum((estimate - t.truth) ** 2) / np.sum(t.truth**2))
    return [{"nmse": nmse, "seconds": seconds, **more}]


def show(rows: list[Row]) -> list[Table | str]:
    lines = []
    for method in distinct(rows, "method"):
        of = select(rows, method=method)
        at = [select(of, snr_db=snr) for snr in SNR_DB]
        lines.append(
            [name(rows, method), *(mean(part, c) for c in ("nmse", "noise found") for part in at), mean(of, "seconds")]
        )
    lines.append(["bar for nareg.spacetime", *BARS.values(), *[None] * 4])
    header = ["method", *(f"{snr} dB" for snr in SNR_DB), *(f"noise found, {snr} dB" for snr in SNR_DB), "seconds"]
    return [
        table("US network, a year of noisy readings: NMSE over all days; noise variance found over the true one", header, lines)
    ]


PROTOCOL = Protocol("us", tuple(METHODS), points, compute, show)
