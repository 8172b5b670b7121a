"""US network, 140 complete stations, or NOAA's normals at 109: a year of noisy readings and nothing else.

Signal-to-noise ratio as in the README's demonstration: the mean over all stations and days is removed, the noise variance is
the mean square of what remains over ``10^(SNR / 10)``. NMSE is the squared error over all days, divided by their mean square.
"Best single weight" and "snapshot Wiener" know the truth of these very days. ``blind`` and edge weights are given the noise
variance; all others see the noisy readings alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from experiments import _peers
from experiments._figure import Row
from nareg import baselines, datasets, design, filters, spacetime

BEST, WIENER = "best single weight", "snapshot Wiener"
GCV, BLIND, EDGE, KRIGING = "one weight, GCV", "blind", "edge from readings", "kriging"
KALMAN, GP, OURS, TWO_MODES = "dense Kalman, EM", "separable GP", "nareg.spacetime", "two modes"
#: What a method is told beside the noisy readings.
NEEDS = {
    BEST: "the truth", WIENER: "the truth", GCV: "nothing", BLIND: "noise", EDGE: "noise", KRIGING: "coordinates",
    "rolling mean of 3": "nothing", "rolling mean of 7": "nothing", KALMAN: "nothing", GP: "coordinates", OURS: "coordinates",
    TWO_MODES: "the rank",
}  # fmt: skip
PARTS: dict[str, Any] = {"helpers": ("_us", "_peers"), "apart_from": ("gnn", "quality")}


@dataclass(frozen=True)
class Task:
    """Truth and noisy readings (N, T), their mean removed; the noise variance; first day."""

    network: datasets.SensorNetwork
    truth: np.ndarray
    noisy: np.ndarray
    noise: float
    mean: float

    @property
    def times(self) -> np.ndarray:
        return np.asarray(self.network.times, dtype="datetime64[D]")

    def nmse(self, x: np.ndarray, days: slice = slice(None)) -> float:
        return float(np.sum((x - self.truth)[:, days] ** 2) / np.sum(self.truth[:, days] ** 2))

    def some(self, first: int, days: int) -> Task:
        """Consecutive days of it."""
        part = slice(first, first + days)
        network = replace(
            self.network, signals=self.network.signals[:, part], observed=self.network.observed[:, part],
            times=self.network.times[part],
        )  # fmt: skip
        return replace(self, network=network, truth=self.truth[:, part], noisy=self.noisy[:, part])


@cache
def _network(name: str) -> datasets.SensorNetwork:
    network = datasets.load(name).complete()
    if name != "noaa-109":
        return network
    noon = slice(12, None, 24)  # of 365 days
    days = np.datetime64("2010-01-01") + np.arange(365)
    return replace(network, signals=network.signals[:, noon], observed=network.observed[:, noon], times=days)


def task(snr_db: float, draw: int, name: str = "us-weather") -> Task:
    network = _network(name)
    level = float(network.signals.mean())
    truth = network.signals - level
    noise = float(np.mean(truth**2)) / 10 ** (snr_db / 10)
    noisy = truth + np.sqrt(noise) * np.random.default_rng(draw).standard_normal(truth.shape)
    return Task(network, truth, noisy, noise, level)


def _designed(weights: Any, t: Task) -> tuple[np.ndarray, Row]:
    return filters.denoise(t.network.graph, weights, t.noisy).x, {}


def best_single_weight(t: Task) -> tuple[np.ndarray, Row]:
    return _designed(design.node_invariant(t.network.graph, rule="oracle", signals=t.truth, noise=t.noise), t)


def gcv(t: Task) -> tuple[np.ndarray, Row]:
    return _designed(design.node_invariant(t.network.graph, rule="gcv", measurements=t.noisy), t)


def blind(t: Task) -> tuple[np.ndarray, Row]:
    return _designed(design.blind(t.network.graph, measurements=t.noisy, noise=t.noise), t)


def edge(t: Task) -> tuple[np.ndarray, Row]:
    """Station means are removed, with their share of the noise, as the design asks, and put back."""
    level = t.noisy.mean(axis=1, keepdims=True)
    rest, noise = t.noisy - level, t.noise * (1 - 1 / t.noisy.shape[1])
    if float(np.mean(rest**2)) <= noise:  # the design refuses: the readings show no field around the means
        return np.broadcast_to(level, rest.shape), {}
    weights = design.edge(t.network.graph, measurements=rest, noise=noise)
    return level + filters.denoise(t.network.graph, weights, rest).x, {}


def wiener(t: Task) -> tuple[np.ndarray, Row]:
    return baselines.lmmse(t.network.graph, t.noisy, signals=t.truth, noise=t.noise), {}


def kriging(t: Task) -> tuple[np.ndarray, Row]:
    kriged = baselines.kriging(t.network.coordinates, t.noisy, metric="haversine")
    return kriged.x, {"noise_ratio": kriged.noise / t.noise}


def rolling(window: int) -> Callable[[Task], tuple[np.ndarray, Row]]:
    return lambda t: (baselines.rolling_mean(t.noisy, window), {})


def kalman(t: Task) -> tuple[np.ndarray, Row]:
    dense = _peers.kalman_em(t.noisy)
    return dense.x, {"noise_ratio": dense.noise / t.noise}


def gp(t: Task) -> tuple[np.ndarray, Row]:
    dense = _peers.separable_gp(t.network.coordinates, t.noisy)
    return dense.x, {"noise_ratio": dense.noise / t.noise}


def two_modes(t: Task) -> tuple[np.ndarray, Row]:
    """The two largest singular values of the noisy readings and their vectors: no graph, no places, no times."""
    U, d, V = np.linalg.svd(t.noisy, full_matrices=False)
    return (U[:, :2] * d[:2]) @ V[:2], {}


def ours(t: Task) -> tuple[np.ndarray, Row]:
    model = spacetime.fit(t.network.graph, t.noisy + t.mean, times=t.times)
    smoothed = model.smooth()
    x = smoothed.x - t.mean
    low, high = smoothed.interval(0.9)
    covered = float(np.mean((low <= t.truth + t.mean) & (t.truth + t.mean <= high)))
    return x, {"noise_ratio": float(np.mean(model.noise)) / t.noise, "band90": covered}


METHODS: dict[str, Callable[[Task], tuple[np.ndarray, Row]]] = {
    BEST: best_single_weight,
    GCV: gcv,
    BLIND: blind,
    EDGE: edge,
    KRIGING: kriging,
    "rolling mean of 3": rolling(3),
    "rolling mean of 7": rolling(7),
    WIENER: wiener,
    KALMAN: kalman,
    GP: gp,
    OURS: ours,
}
#: Further ones, for fields that are hardly more than a few modes.
LOW_RANK: dict[str, Callable[[Task], tuple[np.ndarray, Row]]] = {TWO_MODES: two_modes}
