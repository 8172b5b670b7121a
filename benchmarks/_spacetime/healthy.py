"""Healthy records: how many stations are called suspect where nothing is wrong, per 100 months of a station.

Simulated networks of four kinds, with readings every 5 and 10 minutes, hour and day, and the five real networks as they are.
Nothing is wrong in the simulated ones. The real ones are taken to be healthy, which a few of their stations are not.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from rich.table import Table

import nareg
from _spacetime import networks
from _spacetime.points import Protocol, Row, distinct, select, table
from nareg.quality._results import KINDS as FAULTS

#: Minutes from one reading to the next, and how many there are.
STEPS = {5: 1440, 10: 1008, 60: 720, 1440: 730}
SIZES = (4, 12, 40, 144)
MONTH = np.timedelta64(2_629_746, "s")
START = np.datetime64("2024-03-01T00:00", "s")


def weather(
    rng: np.random.Generator, places: np.ndarray, hours: np.ndarray, reach: float, memory: float, passing: float = 0.0
) -> np.ndarray:
    """A field (N, T) of variance one, exponential in space (km) and in time (h), that may pass over at a speed in km/h."""
    apart = np.linalg.norm(places[:, None] - places, axis=2)
    root = np.linalg.cholesky(np.exp(-apart / reach) + 1e-6 * np.eye(len(places)))
    step = hours[1] - hours[0]
    rho = np.exp(-step / memory)
    shocks = root @ rng.standard_normal((len(places), hours.size + 200))
    field = np.empty_like(shocks)
    field[:, 0] = shocks[:, 0]
    for t in range(1, field.shape[1]):
        field[:, t] = rho * field[:, t - 1] + np.sqrt(1 - rho**2) * shocks[:, t]
    field = field[:, 200:]
    if passing:
        late = (places[:, 0] - places[:, 0].min()) / passing
        field = np.array([np.interp(hours - delay, hours, row) for row, delay in zip(field, late, strict=True)])
    return field


def moving(places: np.ndarray, hours: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Weather of the whole region that reaches one station after another, and some of every place."""
    whole = weather(rng, np.zeros((1, 2)), hours, 1.0, 12.0)[0]
    late = places[:, 0] / 40.0
    common = np.array([np.interp(hours - delay, hours, whole) for delay in late - late.min()])
    return 10 + 4 * common + 1.0 * weather(rng, places, hours, 100.0, 8.0)


def twins(places: np.ndarray, hours: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Every second station stands beside the one before; each has a level of its own."""
    return 10 + 3 * weather(rng, places, hours, 150.0, 24.0) + rng.standard_normal((len(places), 1))


def mountains(places: np.ndarray, hours: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Unequal altitudes: levels by a lapse rate, unequal amplitudes, and inversions that last for days."""
    n = len(places)
    altitude = rng.gamma(1.5, 500.0, n)
    share = np.clip(1.3 - altitude / 2500, 0.4, 1.3)[:, None]
    cold = np.maximum(weather(rng, np.zeros((1, 2)), hours, 1.0, 72.0) - 0.7, 0.0)
    own = weather(rng, places, hours, 30.0, 12.0)
    return (
        12 - 6.5 * altitude[:, None] / 1000 + 3 * share * weather(rng, places, hours, 150.0, 30.0) + 0.6 * own
        - 4 * cold * (share > 1)
    )  # fmt: skip


def skewed(places: np.ndarray, hours: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Concentrations: positive, with a long tail, each station with a scale of its own."""
    field = 0.8 * weather(rng, places, hours, 100.0, 15.0) + 0.3 * weather(rng, places, hours, 5.0, 3.0)
    return 12 * np.exp(field + 0.3 * rng.standard_normal((len(places), 1)))


KINDS = {"moving": moving, "twins": twins, "mountains": mountains, "skewed": skewed}


def simulated(
    kind: str, minutes: int, n: int, seed: int, n_times: int | None = None
) -> tuple[nareg.Graph, np.ndarray, np.ndarray]:
    """A graph, readings (N, T) with noise, gaps and a resolution of tenths, and their times."""
    rng = np.random.default_rng([seed, minutes, n, list(KINDS).index(kind)])
    T = STEPS[minutes] if n_times is None else n_times
    places = rng.uniform(0, 200, (n, 2))
    if kind == "twins":
        places[1::2] = places[: n - n % 2 : 2]
    hours = np.arange(T) * minutes / 60
    # slower where readings are daily: weather of a day would be noise there
    field = KINDS[kind](places, hours / (4 if minutes == 1440 else 1), rng)
    period = 24.0 if minutes < 1440 else 24 * 365.25
    height = (0.15 * field.std() if kind == "skewed" else 4.0) * rng.uniform(0.8, 1.2, (n, 1))
    field = field + height * np.cos(2 * np.pi * (hours - 0.6 * period - rng.uniform(0, 0.02 * period, (n, 1))) / period)
    readings = field + 0.2 * rng.standard_normal((n, T))
    readings = np.maximum(readings, 0.0) if kind == "skewed" else readings
    readings = np.round(readings, 1)
    readings[rng.random((n, T)) < 0.03] = np.nan
    coordinates = np.column_stack([47 + places[:, 1] / 111.2, 7 + places[:, 0] / 76.0])
    times = START + (np.arange(T) * minutes * 60).astype("timedelta64[s]")
    return nareg.Graph.from_knn(coordinates, min(7, n - 1), metric="haversine"), readings, times


def points(options: argparse.Namespace) -> list[Row]:
    made = [
        {"network": kind, "minutes": minutes, "stations": n, "method": "nareg.quality", "seed": seed}
        for kind in KINDS
        for minutes in STEPS
        for n in SIZES
        for seed in range(max((options.seeds or 2) * 12 // n, 1))
    ]
    real = [
        {"network": dataset, "minutes": 0, "stations": 0, "method": "nareg.quality", "seed": 0} for dataset in networks.FIVE
    ]
    return made + real


def compute(point: Row) -> list[Row]:
    if point["minutes"]:
        graph, readings, times = simulated(point["network"], point["minutes"], point["stations"], point["seed"])
        span = times[-1] - times[0]
    else:
        network = networks.load(point["network"])
        graph, readings, times = network.graph, network.signals, networks.times(network)
        step = networks.step_hours(point["network"])
        span = np.timedelta64(round(readings.shape[1] * step * 3600), "s")
    start = time.perf_counter()
    quality = nareg.quality.check(nareg.spacetime.fit(graph, readings, times=times))
    counts = {kind: len({s.station for s in quality.suspects if s.kind == kind}) for kind in FAULTS}
    months = float(len(readings) * (span / MONTH))
    return [{"months": months, **counts, "seconds": time.perf_counter() - start}]


def show(rows: list[Row]) -> list[Table | str]:
    lines = []
    for network in distinct(rows, "network"):
        for minutes in distinct(select(rows, network=network), "minutes"):
            of = select(rows, network=network, minutes=minutes)
            lines.append(_line(f"{network}, {minutes} min" if minutes else network, of))
    lines.append(_line("all", rows))
    title = "Suspects in healthy records, and how many there are per 100 months of a station"
    return [table(title, ["records", "months", *FAULTS, "per 100 months"], lines)]


def _line(name: str, rows: list[Row]) -> list[str | float]:
    months = sum(row["months"] for row in rows)
    counts = [sum(row[kind] for row in rows) for kind in FAULTS]
    return [name, months, *counts, 100 * sum(counts) / months]


PROTOCOL = Protocol("healthy", ("nareg.quality",), points, compute, show)
