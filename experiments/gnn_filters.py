"""Designed filters and trained graph networks on one task: the same signals, noise, training data; error, size and time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _nodes as n
from experiments import _regressors as regressors
from experiments._figure import Figure, Point, Row, Verdict, chosen, column, mean_and_error
from experiments._methods import equal_power, matrix, published_weight, wiener
from experiments._stations import large
from nareg import design
from nareg.errors import NaregError

NI, BEST, PRONY, SDR, MINMAX = "one weight (NI)", "one weight, best", "Prony", "relaxation", "min-max (box)"
EXACT, BLIND, EDGE, WIENER = "exact", "blind", "edge", "Wiener (training covariance)"
DESIGNED = (NI, BEST, PRONY, SDR, MINMAX, EXACT, BLIND, EDGE, WIENER)
NGC, RNGC, POLYNOMIAL, GCN, MLP, ADAPTIVE = (
    "NGC", "RNGC", "polynomial, learned", "GCN, trained", "MLP, trained", "node-adaptive, trained",
)  # fmt: skip
TRAINED = (NGC, RNGC, POLYNOMIAL, GCN, MLP, ADAPTIVE)


@dataclass(frozen=True)
class Settings:
    """``training``: clean signals that a method may see, 0 for half of all; the other half tests. Signals have power one."""

    networks: tuple[str, ...] = ("molene", "us-weather", "au-weather", "sea-surface-temperature")
    snr_db: tuple[float, ...] = (0.0, 10.0)
    training: tuple[int, ...] = (10, 50, 0)
    epochs: int = 500
    repeats: int = 3
    seed: int = 0
    device: str | None = None


def points(s: Settings) -> list[Point]:
    return [
        {"network": network, "snr_db": snr, "training": count, "repeat": repeat}
        for network in s.networks for snr in s.snr_db for count in s.training for repeat in range(s.repeats)
    ]  # fmt: skip


def compute(s: Settings, point: Point) -> list[Row]:
    n.torch.set_num_threads(1)
    stations = large(point["network"])
    U = equal_power(stations.signals)
    rng = np.random.default_rng([s.seed, point["repeat"], round(10 * point["snr_db"]) + 1000, point["training"]])
    order = rng.permutation(U.shape[1])
    half = U.shape[1] // 2
    train, test = U[:, order[: point["training"] or half]], U[:, order[half:]]
    variance = 10 ** (-point["snr_db"] / 10)
    readings = test + np.sqrt(variance) * rng.standard_normal(test.shape)
    rows = []
    for method, make in ways(s, stations.graph, train, variance, rng).items():
        start = time.perf_counter()
        try:
            learned = make()
            nmse: float | None = float(np.mean((learned.apply(readings) - test) ** 2))
            note, parameters = "", learned.parameters
        except NaregError as refused:
            nmse, note, parameters = None, str(refused), 0
        rows.append({
            "method": method, "kind": "designed" if method in DESIGNED else "trained", "nmse": nmse,
            "parameters": parameters, "signals": train.shape[1], "seconds": time.perf_counter() - start, "refused": note,
        })  # fmt: skip
    return rows


def ways(
    s: Settings, graph: Any, train: np.ndarray, variance: float, rng: np.random.Generator
) -> dict[str, Callable[[], regressors.Learned]]:
    """Name -> what makes the denoiser from the training signals. All of them know the noise variance."""
    N = graph.n_nodes
    known: dict[str, Any] = {"signals": train, "noise": variance}
    w0 = published_weight(graph, 1 / variance)
    noisy = train + np.sqrt(variance) * rng.standard_normal(train.shape)
    low, high = train.min(axis=1), train.max(axis=1)
    adjacency = n.Adjacency(graph)
    tuned = [{"lam": lam, "solver": n.Neumann(16)} for lam in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)]

    def filtered(weights: Callable[[], Any], count: int) -> Callable[[], regressors.Learned]:
        def make() -> regressors.Learned:
            H = matrix(graph, weights())
            return regressors.Learned(lambda Y: H @ Y, count, 0.0)

        return make

    def trained(build: Callable[[], n.torch.nn.Module], lr: float) -> Callable[[], regressors.Learned]:
        return lambda: regressors.train(build, adjacency, train, variance, lr=lr, epochs=s.epochs, device=s.device, rng=rng)

    def dense() -> regressors.Learned:
        H = wiener(train @ train.T / train.shape[1], variance)
        return regressors.Learned(lambda Y: H @ Y, N * (N + 1) // 2, 0.0)

    robust = [{**way, "perturbation": n.Perturbation(eps)} for way in tuned for eps in (0.1, 1.0)]
    return {
        NI: filtered(lambda: np.sqrt(w0), 1),
        BEST: filtered(lambda: design.node_invariant(graph, rule="oracle", **known), 1),
        PRONY: filtered(lambda: design.prony(graph, **known, lower=w0), N),
        SDR: filtered(lambda: design.relaxation(graph, **known, lower=w0), N),
        MINMAX: filtered(
            lambda: design.minmax(
                graph, signal_low=low, signal_high=high, noise=variance, criterion="mse", uncertainty="box", lower=w0
            ),
            N,
        ),
        EXACT: filtered(lambda: design.exact(graph, **known), N),
        BLIND: filtered(lambda: design.blind(graph, measurements=noisy, noise=variance), N),
        EDGE: filtered(lambda: design.edge(graph, **known), N + graph.n_edges),
        WIENER: dense,
        NGC: lambda: regressors.chosen_filter(adjacency, train, variance, tuned, rng, s.device),
        RNGC: lambda: regressors.chosen_filter(adjacency, train, variance, robust, rng, s.device),
        POLYNOMIAL: trained(regressors.Polynomial, 0.01),
        GCN: trained(regressors.Snapshots, 0.01),
        MLP: trained(lambda: regressors.Dense(N), 0.003),
        ADAPTIVE: trained(lambda: regressors.Weights(N, 1.0), 0.05),
    }


def shown(rows: list[Row], **keys: Any) -> tuple[float, float] | None:
    """Mean and standard error of the NMSE over repeats, None where not run or refused."""
    values = [value for value in column(rows, "nmse", **keys) if value is not None]
    return mean_and_error(values) if values else None


def draw(s: Settings, rows: list[Row]) -> Any:
    """NMSE against the number of training signals, a panel a network and SNR; full: designed, broken: trained."""
    import matplotlib.pyplot as plt

    shape = len(s.snr_db), len(s.networks)
    figure, axes = plt.subplots(*shape, figsize=(4.4 * shape[1] + 2, 3.8 * shape[0]), layout="constrained", squeeze=False)
    for line, snr in zip(axes, s.snr_db, strict=True):
        for axis, network in zip(line, s.networks, strict=True):
            mine = chosen(rows, network=network, snr_db=snr)
            for k, method in enumerate((*DESIGNED, *TRAINED)):
                at = [(column(mine, "signals", training=t)[0], shown(mine, method=method, training=t)) for t in s.training]
                known = sorted((count, options) for count, options in at if options is not None)
                dash = "-" if method in DESIGNED else "--"
                color = plt.get_cmap("tab20")(k / 20)
                axis.errorbar([c for c, _ in known], [t[0] for _, t in known], [t[1] for _, t in known], ls=dash, marker="o",
                              markersize=3, color=color, label=method)  # fmt: skip
            axis.set(xscale="log", yscale="log", title=f"{network}, {snr:g} dB", xlabel="clean training signals")
        line[0].set_ylabel("NMSE on the other half")
    axes[0, -1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.3))
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    """No claim of a paper."""
    return []


FIGURE = Figure(
    "gnn-filters", "Designed filters and trained graph networks on the same denoising tasks", Settings(),
    Settings(networks=("molene",), snr_db=(0.0,), training=(10, 50), epochs=100, repeats=1),
    points, compute, draw, judge,
    helpers=(*n.HELPERS, "_regressors", "_methods", "_stations"), apart_from=(), versions=("torch",),
)  # fmt: skip
