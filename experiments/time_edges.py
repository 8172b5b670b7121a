"""Edge weights from noisy readings alone on five networks, over the best single weight."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import beyond
from experiments._figure import Figure, Point, Row, Verdict, column, grade, mean_and_error
from experiments._methods import matrix
from nareg import design

BEST, EDGE, BLIND, SURE, CLEAN = "best single weight", "edge from readings", "blind", "one weight, SURE", "edge, clean history"


@dataclass(frozen=True)
class Settings:
    """Times are cut into ``blocks`` that train and test in turn, as in "beyond"; noise is equal at all stations."""

    networks: tuple[str, ...] = ("us-weather", "au-weather", "molene", "sea-surface-temperature", "pm25-california")
    snr_db: tuple[float, ...] = (-10.0, 0.0, 10.0)
    blocks: int = 20
    most_times: int = 800
    repeats: int = 4
    seed: int = 0


def points(s: Settings) -> list[Point]:
    return [
        {"network": network, "snr_db": snr, "repeat": repeat}
        for network in s.networks for snr in s.snr_db for repeat in range(s.repeats)
    ]  # fmt: skip


def compute(s: Settings, point: Point) -> list[Row]:
    network, raw = beyond.signals_of(point["network"], s.blocks, s.most_times)
    graph, (n, T) = network.graph, raw.shape
    first = np.arange(T) * s.blocks // T % 2 == point["repeat"] % 2
    X = raw - raw[:, first].mean(axis=1, keepdims=True)
    train, test = X[:, first], X[:, ~first]
    noise = np.full(n, float(np.mean(train**2)) / 10 ** (point["snr_db"] / 10))
    rng = np.random.default_rng([s.seed, point["repeat"], round(point["snr_db"]) + 1000])
    readings = train + np.sqrt(noise)[:, None] * rng.standard_normal(train.shape)
    known, noisy = {"signals": train, "noise": noise}, {"measurements": readings, "noise": noise}
    calls = {
        BEST: lambda: design.node_invariant(graph, rule="oracle", **known),
        EDGE: lambda: design.edge(graph, **noisy),
        BLIND: lambda: design.blind(graph, **noisy),
        SURE: lambda: design.node_invariant(graph, rule="sure", **noisy),
        CLEAN: lambda: design.edge(graph, **known),
    }
    rows = []
    for name, call in calls.items():
        begun = time.perf_counter()
        weights = call()
        seconds = time.perf_counter() - begun
        H = matrix(graph, weights)
        rows.append(
            {"method": name, "stations": n, "times": int(first.sum()), "nmse": beyond.nmse(H, test, noise), "seconds": seconds}
        )
    return rows


def ratios(rows: list[Row], method: str, network: str, snr_db: float) -> np.ndarray:
    """NMSE on the test blocks over that of the best single weight, per repeat."""
    at = {"network": network, "snr_db": snr_db}
    return np.array(column(rows, "nmse", method=method, **at)) / np.array(column(rows, "nmse", method=BEST, **at))


def draw(s: Settings, rows: list[Row]) -> Any:
    """Ratio to the best single weight, a column an SNR."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(s.snr_db), figsize=(4 * len(s.snr_db), 4), layout="constrained", squeeze=False, sharey=True
    )
    for axis, snr in zip(axes[0], s.snr_db, strict=True):
        for k, method in enumerate((EDGE, BLIND, SURE, CLEAN)):
            means = [ratios(rows, method, network, snr).mean() for network in s.networks]
            axis.plot(means, np.arange(len(means)), "osD^"[k], color=f"C{k}", label=method)
        axis.axvline(1, color="0.5", linewidth=1)
        axis.set(title=f"{snr:g} dB", xlabel="NMSE over the best single weight's")
    axes[0, 0].set_yticks(range(len(s.networks)), s.networks)
    axes[0, -1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    mean = {
        (network, snr, method): mean_and_error(ratios(rows, method, network, snr))[0]
        for network in s.networks for snr in s.snr_db for method in (EDGE, BLIND)
    }  # fmt: skip

    def said(method: str) -> str:
        return "; ".join(f"{net}: {'/'.join(f'{mean[net, snr, method]:.2f}' for snr in s.snr_db)}" for net in s.networks)

    cases = [(network, snr) for network in s.networks for snr in s.snr_db]
    decibels = "/".join(f"{snr:g}" for snr in s.snr_db)
    harmless = grade([mean[(*case, EDGE)] <= 1.01 for case in cases], aim=True)
    below_blind = grade([mean[(*case, EDGE)] <= mean[(*case, BLIND)] for case in cases], aim=True)
    return [
        Verdict("harmless", harmless, f"At {decibels} dB, {said(EDGE)}."),
        Verdict("blind", below_blind, f"Blind node weights at {decibels} dB, {said(BLIND)}."),
    ]


FIGURE = Figure(
    "time-edges", "Edge weights from noisy readings on five networks", Settings(),
    Settings(networks=("us-weather", "molene"), snr_db=(0.0,), repeats=1), points, compute, draw, judge,
    helpers=("_methods", "beyond"), apart_from=("gnn", "spacetime", "quality"),
)  # fmt: skip
