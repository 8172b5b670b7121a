"""Seconds per update of a stream: 60 and 500 simulated stations, all reading, after a warm-up of 20 updates."""

from __future__ import annotations

import argparse
import time

import numpy as np
from rich.table import Table

import nareg
from _spacetime import library
from _spacetime.points import Protocol, Row, mean, name, select, table

#: Stations -> bar in milliseconds.
BARS = {60: 1.0, 500: 20.0}
N_FIT, N_WARM, N_TIMED = 144, 20, 200


def points(options: argparse.Namespace) -> list[Row]:
    return [
        {"method": "nareg.spacetime", "stations": n, "gaps": gaps, "seed": seed}
        for n in BARS
        for gaps in (0.0, 0.05)
        for seed in range(options.seeds or 1)
    ]


def compute(point: Row) -> list[Row]:
    n_times = N_FIT + N_WARM + N_TIMED
    rng = np.random.default_rng(point["seed"])
    network = nareg.datasets.simulated(point["stations"], n_times, missing=point["gaps"], faults=(), rng=rng)
    estimate = library.spacetime(network.graph(), network.readings[:, :N_FIT], network.times[:N_FIT])
    stream = library.stream(estimate.model)
    seconds, errors = [], []
    for t in range(N_FIT, n_times):
        start = time.perf_counter()
        update = stream.update(network.readings[:, t], time=network.times[t])
        seconds.append(time.perf_counter() - start)
        errors.append(np.asarray(update.x) - network.truth[:, t])
    timed = 1e3 * np.array(seconds[N_WARM:])
    return [
        {
            "fit seconds": estimate.seconds,
            "median ms": float(np.median(timed)),
            "99 % ms": float(np.quantile(timed, 0.99)),
            "largest ms": float(timed.max()),
            "rmse": float(np.sqrt(np.mean(np.square(errors[N_WARM:])))),
        }
    ]


def show(rows: list[Row]) -> list[Table | str]:
    lines = []
    for n, bar in BARS.items():
        for gaps in (0.0, 0.05):
            of = select(rows, stations=n, gaps=gaps)
            values = [mean(of, c) for c in ("median ms", "99 % ms", "largest ms", "rmse", "fit seconds")]
            lines.append([f"{n} stations, {100 * gaps:g} % missing", *values, bar if gaps == 0 else None])
    header = [
        name(rows, "nareg.spacetime"),
        "median ms",
        "99 % ms",
        "largest ms",
        "RMSE (°C)",
        "seconds of the fit",
        "bar (ms)",
    ]
    return [table("A stream's update after warm-up", header, lines)]


PROTOCOL = Protocol("stream", ("nareg.spacetime",), points, compute, show)
