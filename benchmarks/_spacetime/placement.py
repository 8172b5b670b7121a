"""Sites for the next sensor: what the model expects of each against what a sensor there does to the true error.

Noise is added to a network's complete stations (10 dB, as in the US protocol), and the readings of ten stations are hidden. The
model is fitted to the others, with the noise variance known. Three questions, each with one smoother pass of that model per
site:

- new sites: the noisy readings of each hidden station in turn are given to the smoother; realized is the fall of the mean
  squared error against the truth, over all stations and times;
- sites that go: the readings of each of ten other stations in turn are taken away;
- new sites, model true: as the first, but the truth is a field that the model draws. What is missing to a rank correlation of
  one is then the chance of one record.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from rich.table import Table
from scipy.stats import spearmanr

import nareg
from _spacetime.points import Protocol, Row, distinct, mean, name, select, table

NETWORKS = ("us-weather", "molene")
SNR_DB, SITES = 10.0, 10
QUESTIONS = ("new sites", "sites that go", "new sites, model true")


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
    std = float(np.std(truth)) / 10 ** (SNR_DB / 20)
    order = rng.permutation(network.n_nodes)
    hidden, going = np.sort(order[:SITES]), np.sort(order[SITES : 2 * SITES])
    noisy = truth + std * rng.standard_normal(truth.shape)
    model = nareg.spacetime.fit(network.graph, _without(noisy, hidden), times=network.times, noise=std**2)
    drawn = model.simulate(rng)[0][:, model.grid.rows]
    readings = drawn + std * rng.standard_normal(drawn.shape)
    come, go = nareg.spacetime.placement(model), nareg.spacetime.removal(model, stations=going)

    def error(of: np.ndarray, left_out: np.ndarray, y: np.ndarray) -> float:
        return float(np.mean((model.smooth(_without(y, left_out)).x - of) ** 2))

    def judged(ranking: nareg.spacetime.SensorRanking, sets: list[np.ndarray], of: np.ndarray, y: np.ndarray) -> Row:
        before = error(of, hidden, y)
        realized = np.array([before - error(of, left_out, y) for left_out in sets])
        return {
            "rank correlation": float(spearmanr(ranking.reduction, realized).statistic),
            "expected error": ranking.mse**0.5,
            "error": before**0.5,
            "expected change %": -float(np.mean(ranking.percent)),
            "change %": -float(100 * np.mean(realized) / before),
        }

    more, fewer = [np.setdiff1d(hidden, i) for i in hidden], [np.append(hidden, i) for i in going]
    answers: dict[str, Callable[[], Row]] = {
        "new sites": lambda: judged(come, more, truth, noisy),
        "sites that go": lambda: judged(go, fewer, truth, noisy),
        "new sites, model true": lambda: judged(come, more, drawn, readings),
    }
    return [{"question": question, "seconds": come.timings["total"], **answer()} for question, answer in answers.items()]


def _without(y: np.ndarray, stations: np.ndarray) -> np.ndarray:
    return np.where(np.isin(np.arange(len(y)), stations)[:, None], np.nan, y)


def show(rows: list[Row]) -> list[Table | str]:
    columns = ("rank correlation", "expected error", "error", "expected change %", "change %", "seconds")
    lines = []
    for method in distinct(rows, "method"):
        for question in QUESTIONS:
            of = select(rows, method=method, question=question)
            each = ", ".join(f"{row['rank correlation']:.2f}" for row in of)
            lines.append([f"{name(rows, method)}, {question}", *(mean(of, column) for column in columns), each])
    title = f"{SITES} sites, {SNR_DB:g} dB: what the model expects of each and what the truth says (root mean squared errors)"
    return [table(title, ["", *columns, "rank correlation per draw"], lines)]


PROTOCOL = Protocol("placement", NETWORKS, points, compute, show)
