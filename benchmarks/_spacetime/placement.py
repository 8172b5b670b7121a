"""Sites for the next sensor: what the model expects of each against what a sensor there does to the true error.

Noise is added to a network's complete stations (10 dB as in the US protocol), and the readings of ten stations are hidden.
The model is fitted to the others, with the noise variance known, and ranks the ten sites. Then the noisy readings of each one
in turn are given to the smoother of that same model: the fall of the mean squared error against the truth, over all stations
and times, is what was realized. A site's own mean is not known before it reads, and no model of fluctuations can rank by it:
so the errors around every station's mean error are ranked, too. The distance to the nearest station that reads is the rule
that anybody would use.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from rich.table import Table
from scipy.stats import spearmanr

import nareg
from _spacetime.points import Protocol, Row, distinct, mean, name, select, table
from nareg.spacetime._space import between

NETWORKS = ("us-weather", "molene")
SNR_DB, HIDDEN = 10.0, 10


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
    before = _errors(model, readings, truth)
    after = np.array([_errors(model, _with(readings, i, truth, noise, rng), truth) for i in hidden])
    realized, around = (before - after).T
    distances = between(network.coordinates[hidden], np.delete(network.coordinates, hidden, axis=0), "haversine")
    farthest = distances.min(axis=1)
    return [
        {
            "rank correlation": float(spearmanr(ranking.reduction, realized).statistic),
            "around the means": float(spearmanr(ranking.reduction, around).statistic),
            "of the distance": float(spearmanr(farthest, realized).statistic),
            "distance, around the means": float(spearmanr(farthest, around).statistic),
            "expected mse": ranking.mse,
            "mse": before[0],
            "mse around the means": before[1],
            "expected fall %": float(np.mean(ranking.percent)),
            "fall %": float(100 * np.mean(realized) / before[0]),
            "fall % around the means": float(100 * np.mean(around) / before[1]),
            "seconds": seconds,
        }
    ]


def _with(readings: np.ndarray, i: int, truth: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    more = readings.copy()
    more[i] = truth[i] + np.sqrt(noise) * rng.standard_normal(truth.shape[1])
    return more


def _errors(model: nareg.spacetime.SpaceTimeModel, readings: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Mean squared error, in all and around every station's mean error."""
    error = model.smooth(readings).x - truth
    return np.array([np.mean(error**2), np.mean(np.var(error, axis=1))])


def show(rows: list[Row]) -> list[Table | str]:
    columns = [column for column in rows[0] if column not in ("method", "network", "seed", "protocol")]
    lines = [
        [name(rows, method), *(mean(select(rows, method=method), column) for column in columns)]
        for method in distinct(rows, "method")
    ]
    title = f"{HIDDEN} sites of the next sensor, {SNR_DB:g} dB: what the model expects and what the truth says"
    return [table(title, ["network", *columns], lines)]


PROTOCOL = Protocol("placement", NETWORKS, points, compute, show)
