"""Sites for the next sensor: what the model expects of each against what a sensor there does to the true error.

Noise is added to a network's complete stations (10 dB as in the US protocol), and the readings of ten stations are hidden.
The model is fitted to the others, with the noise variance known, and ranks the ten sites. Then the noisy readings of each one in
turn are given to the smoother of that same model (three draws of its noise), and the fall of the mean squared error against
the truth over all stations and times is what was realized.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from rich.table import Table
from scipy.stats import spearmanr

import nareg
from _spacetime.points import Protocol, Row, distinct, mean, name, select, table

NETWORKS = ("us-weather", "molene")
SNR_DB, HIDDEN, DRAWS = 10.0, 10, 3


def points(options: argparse.Namespace) -> list[Row]:
    return [
        {"method": network, "network": network, "seed": seed}
        for network in options.methods or NETWORKS
        for seed in range(options.seeds or 5)
    ]


def compute(point: Row) -> list[Row]:
    network = nareg.datasets.load(point["network"]).complete()
    rng = np.random.default_rng(point["seed"])
    truth = network.signals
    noise = float(np.mean((truth - truth.mean()) ** 2)) / 10 ** (SNR_DB / 10)
    hidden = np.sort(rng.choice(network.n_nodes, HIDDEN, replace=False))
    readings = truth + np.sqrt(noise) * rng.standard_normal(truth.shape)
    readings[hidden] = np.nan
    model = nareg.spacetime.fit(network.graph, readings, times=network.times, noise=noise)
    start = time.perf_counter()
    ranking = nareg.spacetime.placement(model)
    seconds = time.perf_counter() - start
    before = _error(model, readings, truth)
    realized = np.zeros(HIDDEN)
    for k, i in enumerate(hidden):
        for _ in range(DRAWS):
            more = readings.copy()
            more[i] = truth[i] + np.sqrt(noise) * rng.standard_normal(truth.shape[1])
            realized[k] += (before - _error(model, more, truth)) / DRAWS
    return [
        {
            "rank correlation": float(spearmanr(ranking.reduction, realized).statistic),
            "expected mse": ranking.mse,
            "mse": before,
            "expected fall %": float(np.mean(ranking.percent)),
            "fall %": float(100 * np.mean(realized) / before),
            "fall % at the best site": float(100 * realized[ranking.order[0]] / before),
            "largest fall %": float(100 * realized.max() / before),
            "seconds": seconds,
        }
    ]


def _error(model: nareg.spacetime.SpaceTimeModel, readings: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean((model.smooth(readings).x - truth) ** 2))


def show(rows: list[Row]) -> list[Table | str]:
    columns = (
        "rank correlation", "expected mse", "mse", "expected fall %", "fall %", "fall % at the best site", "largest fall %", "seconds",
    )  # fmt: skip
    lines = []
    for method in distinct(rows, "method"):
        of = select(rows, method=method)
        correlations = ", ".join(f"{row['rank correlation']:.2f}" for row in of)
        lines.append([name(rows, method), *(mean(of, column) for column in columns), correlations])
    title = f"{HIDDEN} sites of the next sensor, {SNR_DB:g} dB: what the model expects and what the truth says"
    return [table(title, ["network", *columns, "rank correlation per draw"], lines)]


PROTOCOL = Protocol("placement", NETWORKS, points, compute, show)
