"""Designed filters and trained graph networks where readings are missing: at random, or whole stations; and where none is.

Times are cut into blocks that train and test in turn (as in "beyond"). The mean of every station over the training blocks is
removed. All readings are noisy. Errors count where no reading is taken, in the task "complete" everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _nodes as n
from experiments import _regressors as regressors
from experiments import beyond
from experiments._figure import Figure, Point, Row, Verdict, chosen, column
from experiments.gnn_filters import shown
from nareg import baselines, datasets, design, filters, spacetime
from nareg.errors import NaregError

BEST, EXACT, EDGE, LIKELIHOOD = "one weight, best", "exact", "edge", "edge, likelihood"
WIENER, BLIND, EDGE_BLIND = "Wiener (training covariance)", "blind", "edge from readings"
KRIGING, SPACETIME = "kriging", "spacetime, sees other times"
POLYNOMIAL, GCN, MLP, ADAPTIVE = "polynomial, learned", "GCN, trained", "MLP, trained", "node-adaptive, trained"
TRAINED = (POLYNOMIAL, GCN, MLP, ADAPTIVE)
#: Method -> what it learns from. All are told the means of the stations, all but kriging the noise variance.
NEEDS = {
    **dict.fromkeys((BEST, EXACT, EDGE, LIKELIHOOD, WIENER, *TRAINED), "clean signals"),
    **dict.fromkeys((BLIND, EDGE_BLIND), "noisy signals with gaps"),
    **dict.fromkeys((KRIGING, SPACETIME), "test readings"),
}
COMPLETE, ENTRIES, STATIONS = "complete", "entries", "stations"
TASKS = {COMPLETE: "every reading", ENTRIES: "readings missing at random", STATIONS: "stations never read"}
#: What the single weight of the training signals is multiplied by to suit the gaps.
FACTORS = np.geomspace(0.1, 10, 13)


@dataclass(frozen=True)
class Settings:
    """``missing``: share of the readings of every time, or of stations.

    ``training``: signals that a method may see, 0 for all of its blocks. A network draws ``batch`` of them per epoch.
    """

    networks: tuple[str, ...] = ("molene", "us-weather", "au-weather", "sea-surface-temperature", "pm25-california")
    snr_db: tuple[float, ...] = (10.0,)
    tasks: tuple[str, ...] = tuple(TASKS)
    missing: float = 0.5
    training: tuple[int, ...] = (10, 0)
    epochs: int = 1000
    batch: int = 32
    blocks: int = 20
    most_times: int = 200
    repeats: int = 2
    seed: int = 0
    device: str | None = None


@dataclass(frozen=True)
class Task:
    """Signals (N, T) to train on and to test; times are of the test. ``hidden(shape)`` draws where no reading is taken."""

    kind: str
    network: datasets.SensorNetwork
    train: np.ndarray
    test: np.ndarray
    times: np.ndarray
    variance: float
    silent: np.ndarray
    hidden: Callable[[tuple[int, ...]], np.ndarray]

    def read(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Noisy readings of signals, NaN where there is none."""
        return np.where(self.hidden(X.shape), np.nan, X + np.sqrt(self.variance) * rng.standard_normal(X.shape))


#: Readings (N, T), NaN where there is none -> estimates.
Estimator = Callable[[np.ndarray], np.ndarray]
#: Method -> what makes its estimator.
Ways = dict[str, Callable[[], Estimator]]


def points(s: Settings) -> list[Point]:
    return [
        {"network": network, "snr_db": snr, "task": task, "repeat": repeat}
        for network in s.networks for snr in s.snr_db for task in s.tasks for repeat in range(s.repeats)
    ]  # fmt: skip


def task_of(s: Settings, point: Point, rng: np.random.Generator) -> Task:
    network, raw = beyond.signals_of(point["network"], s.blocks, s.most_times)
    N, T = raw.shape
    first = np.arange(T) * s.blocks // T % 2 == point["repeat"] % 2
    X = raw - raw[:, first].mean(axis=1, keepdims=True)
    variance = float(np.mean(X[:, first] ** 2)) / 10 ** (point["snr_db"] / 10)
    silent = rng.permutation(N) < round(s.missing * N)

    def hidden(shape: tuple[int, ...]) -> np.ndarray:
        if point["task"] == ENTRIES:
            return np.argsort(rng.random(shape), axis=0) < round(s.missing * N)  # at every time as many, never all
        return np.tile(silent[:, None] & (point["task"] == STATIONS), (1, shape[1]))

    times = network.times[network.observed.all(axis=0)][:T][~first]
    return Task(point["task"], network, X[:, first], X[:, ~first], times, variance, silent, hidden)


def compute(s: Settings, point: Point) -> list[Row]:
    n.torch.set_num_threads(1)
    rng = np.random.default_rng([s.seed, point["repeat"], round(10 * point["snr_db"]) + 1000, list(TASKS).index(point["task"])])
    t = task_of(s, point, rng)
    readings = t.read(t.test, rng)
    rows = [scored(t, readings, method, make, None) for method, make in from_test(t).items()]
    for count in s.training:
        some = np.sort(rng.permutation(t.train.shape[1])[: count or None])  # in time order, as folds of designs expect
        X = t.train[:, some]
        ways = {**designed(t, X, rng), **trained(s, t, X, rng)}
        rows += [{**scored(t, readings, method, make, count), "signals": some.size} for method, make in ways.items()]
    return rows


def error_of(x: np.ndarray, readings: np.ndarray, truth: np.ndarray) -> float:
    """NMSE where no reading was taken, everywhere if none is missing."""
    scored = np.isnan(readings) if np.isnan(readings).any() else np.ones(truth.shape, dtype=bool)
    return float(np.sum((x - truth)[scored] ** 2) / np.sum(truth[scored] ** 2))


def scored(t: Task, readings: np.ndarray, method: str, make: Callable[[], Estimator], count: int | None) -> Row:
    start = time.perf_counter()
    try:
        nmse: float | None = error_of(make()(readings), readings, t.test)
        refused = ""
    except NaregError as error:
        nmse, refused = None, str(error)
    return {"method": method, "training": count, "nmse": nmse, "seconds": time.perf_counter() - start, "refused": refused}


def from_test(t: Task) -> Ways:
    """What learns from the readings that it completes: kriging each time apart, spacetime all of them in order."""
    graph = t.network.graph

    def kriged(Y: np.ndarray) -> np.ndarray:
        return baselines.kriging(t.network.coordinates, Y, metric="haversine", station_means=False).x

    def smoothed(Y: np.ndarray) -> np.ndarray:
        x: np.ndarray = spacetime.fit(graph, Y, times=t.times, noise=t.variance).smooth().x
        return x

    return {KRIGING: lambda: kriged, SPACETIME: lambda: smoothed}


def designed(t: Task, X: np.ndarray, rng: np.random.Generator) -> Ways:
    """Filters by training signals X, or by noisy readings of them with gaps."""
    graph, readings = t.network.graph, t.read(X, rng)
    data_weight = (~t.silent).astype(float) if t.kind == STATIONS else None
    known: dict[str, Any] = {"signals": X, "noise": t.variance}
    gappy: dict[str, Any] = {"measurements": readings, "observed": np.isfinite(readings), "noise": t.variance}

    def filtered(design_weights: Callable[[], Any]) -> Callable[[], Estimator]:
        def make() -> Estimator:
            weights = design_weights()
            return lambda Y: filters.interpolate(graph, weights, Y).x

        return make

    def one() -> Any:
        """The weight with the smallest error on readings of the training signals."""
        best = design.node_invariant(graph, rule="oracle", **known)
        trials = [best.rescaled(factor) for factor in FACTORS]
        return min(trials, key=lambda w: error_of(filters.interpolate(graph, w, readings).x, readings, X))

    return {
        BEST: filtered(one),
        EXACT: filtered(lambda: design.exact(graph, **known, data_weight=data_weight)),
        BLIND: filtered(lambda: design.blind(graph, **gappy)),
        EDGE: filtered(lambda: design.edge(graph, **known, data_weight=data_weight)),
        LIKELIHOOD: filtered(lambda: design.edge(graph, **known, criterion="likelihood")),
        EDGE_BLIND: filtered(lambda: design.edge(graph, **gappy)),
        WIENER: lambda: lambda Y: baselines.lmmse(graph, Y, **known, observed=np.isfinite(Y)),
    }


def trained(s: Settings, t: Task, X: np.ndarray, rng: np.random.Generator) -> Ways:
    """Networks by fresh noise and fresh gaps in every epoch; those of silent stations stay where they are."""
    graph, N, gaps = t.network.graph, t.network.n_nodes, t.kind != COMPLETE
    adjacency = n.Adjacency(graph)

    def by(build: Callable[[], n.torch.nn.Module], lr: float) -> Callable[[], Estimator]:
        options: dict[str, Any] = {
            "epochs": s.epochs,
            "device": s.device,
            "batch": s.batch,
            "hidden": t.hidden if gaps else None,
        }
        return lambda: regressors.train(build, adjacency, X, t.variance, lr=lr, rng=rng, **options).apply

    return {
        POLYNOMIAL: by(regressors.NormalizedPolynomial if gaps else regressors.Polynomial, 0.01),
        GCN: by(lambda: regressors.Snapshots(gaps=gaps), 0.01),
        MLP: by(lambda: regressors.Dense(N, gaps=gaps), 0.003),
        ADAPTIVE: by(lambda: regressors.GappyWeights(graph.laplacian().toarray()), 0.05),
    }


def draw(s: Settings, rows: list[Row]) -> Any:
    """NMSE of every method, a panel per task and network; color: what a method learns from."""
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogLocator, NullFormatter

    cases = [(snr, task) for snr in s.snr_db for task in s.tasks]
    shape = len(cases), len(s.networks)
    figure, axes = plt.subplots(
        *shape, figsize=(2.5 * shape[1] + 2.5, 3.1 * shape[0] + 0.8), layout="constrained", squeeze=False, sharey=True
    )
    colors = {source: f"C{k}" for k, source in enumerate(dict.fromkeys(NEEDS.values()))}
    for line, (snr, task) in zip(axes, cases, strict=True):
        for axis, network in zip(line, s.networks, strict=True):
            mine = chosen(rows, network=network, snr_db=snr, task=task)
            for k, (method, needs) in enumerate(NEEDS.items()):
                for count in dict.fromkeys(column(mine, "training", method=method)):
                    summary = shown(mine, method=method, training=count)
                    if summary is not None:
                        face = "none" if count else colors[needs]
                        marker = "s" if method in TRAINED else "o"
                        axis.plot(summary[0], k, marker, color=colors[needs], markerfacecolor=face, markersize=6)
            axis.set(xscale="log", title=f"{network}\n{TASKS[task]}, {snr:g} dB")
            axis.title.set_fontsize(10)
            axis.xaxis.set(
                major_locator=LogLocator(subs=(1, 2, 3, 5)), major_formatter="{x:g}", minor_formatter=NullFormatter()
            )
            axis.grid(color="0.9")
    for axis in axes[-1]:
        axis.set_xlabel("NMSE")
    axes[0, 0].set_yticks(range(len(NEEDS)), NEEDS)
    axes[0, 0].invert_yaxis()
    marks = [Line2D([], [], ls="", marker="o", color=color, label=f"learns from {source}") for source, color in colors.items()]
    marks += [Line2D([], [], ls="", marker=m, color="0.4", label=text) for m, text in (("o", "designed"), ("s", "trained"))]
    marks.append(
        Line2D([], [], ls="", marker="o", color="0.4", markerfacecolor="none", label=f"{min(filter(None, s.training))} signals")
    )
    figure.legend(handles=marks, loc="outside lower center", ncols=min(len(marks), 2 * len(s.networks)), fontsize=9)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    """No claim of a paper."""
    return []


FIGURE = Figure(
    "gnn-interpolation", "Designed filters and trained graph networks where readings are missing", Settings(),
    Settings(networks=("molene",), epochs=100, most_times=120, repeats=1), points, compute, draw, judge,
    helpers=(*n.HELPERS, "_regressors", "beyond", "_methods"), apart_from=(), versions=("torch",),
)  # fmt: skip
