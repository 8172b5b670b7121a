"""GraphTRSS's protocol: PM2.5 in California and sea-surface temperature, without noise; error at what was not sampled.

The first 220 and 600 times. Valid are PM2.5 values above zero, as in the authors' code. Three ways to sample: at every time the
same number of stations at random among the valid ones; whole snapshots at random; all but the last h times, which are then
forecast. The published numbers are means over 100 masks. Their methods' parameters were chosen by the true error on one mask
of the same data, one pair for all densities. The authors' masks are not published: these come from the stated seeds.

Source: Giraldo, Mahmood, Garcia-Garcia, Thanou, Bouwmans, "Reconstruction of Time-Varying Graph Signals via Sobolev
Smoothness", IEEE Transactions on Signal and Information Processing over Networks 8 (2022), and its authors' scripts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from experiments._figure import Figure, Point, Row, Verdict, chosen, column, grade, mean_and_error
from nareg import baselines, datasets, spacetime
from nareg._core.neighbors import nearest
from nareg.graph import Graph

#: Published curves whose ends are within this factor share a label.
CLOSE = 1.08
#: Data set -> times that are used.
TIMES = {"pm25-california": 220, "sea-surface-temperature": 600}
RECONSTRUCTION, SNAPSHOTS, FORECAST = "reconstruction", "entire snapshots", "forecasting"
#: Both parameters of GraphTRSS, as in the authors' search.
GRID = (1e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 1e2, 2e2, 5e2)
#: The mask by which the true error chooses, apart from those that are scored.
SEARCH = 1_000_000
PEERS = ("natural-neighbor", "graph regularization", "Puy et al.", "Tikhonov", "Qiu et al.", "GraphTRSS")
LINEAR, CHOSEN, OURS, ORACLE = "linear in time", "GraphTRSS, samples alone", "nareg.spacetime", "GraphTRSS, by the true error"
#: From the samples alone, in the order of the tables.
METHODS = (LINEAR, CHOSEN, OURS)
#: What the figures of this kind rest on (see Figure).
PARTS: dict[str, Any] = {
    "helpers": ("_graphtrss",), "apart_from": ("gnn", "design", "filters", "quality"),
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """``masks`` per density; of the published densities every ``every``-th is run. Published: 100 masks.

    GraphTRSS by the true error has ``peer_masks``: one solve each, so that its published means can be compared with.
    """

    datasets: tuple[str, ...] = tuple(TIMES)
    masks: int = 100
    peer_masks: int = 100
    every: int = 1
    seed: int = 0


@dataclass(frozen=True)
class Task:
    """Truth and samples (N, T), NaN where not sampled, and the scored cells; how many last times are forecast."""

    truth: np.ndarray
    samples: np.ndarray
    scored: np.ndarray
    horizon: int = 0

    def errors(self, x: np.ndarray) -> Row:
        error = (x - self.truth)[self.scored]
        return {"rmse": float(np.sqrt(np.mean(error**2))), "mae": float(np.abs(error).mean())}


@cache
def network(dataset: str) -> datasets.SensorNetwork:
    return datasets.load(dataset)


@cache
def published() -> dict[str, Any]:
    path = datasets.data_root() / "graph_trss" / "published.json"
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def known(dataset: str, kind: str) -> dict[str, Any]:
    """Published numbers: peer -> {"RMSE", "RMSE_sd", ...}, one per level."""
    names = {name.replace("bour", "bor").replace("aris", "ariz"): name for name in published()[dataset][kind]}
    return {peer: published()[dataset][kind][names[peer]] for peer in PEERS if peer in names}


def levels(dataset: str, kind: str, every: int = 1) -> list[float]:
    """Densities, or numbers of times that are forecast."""
    grid: list[float] = list(range(1, 11)) if kind == FORECAST else published()[dataset][kind]["grid"]
    return grid[::every]


@cache
def authors_graph(dataset: str) -> Graph:
    """Ten nearest neighbors by degrees, Gaussian kernel; its scale averages the zero distance of a station to itself too."""
    coordinates = network(dataset).coordinates
    distance = nearest(coordinates, 10, "euclidean")[1]
    return Graph.from_knn(coordinates, 10, scale=float(distance.mean()) * 10 / 11)


def task(dataset: str, kind: str, level: float, mask: int) -> Task:
    """The samples of a mask."""
    truth = network(dataset).signals[:, : TIMES[dataset]]
    n, T = truth.shape
    valid = np.isfinite(truth) & (truth > 0 if dataset == "pm25-california" else True)
    rng = np.random.default_rng([mask, round(1000 * level)])
    horizon = int(level) if kind == FORECAST else 0
    if kind == RECONSTRUCTION:
        order = np.where(valid, rng.random((n, T)), np.inf)
        sampled = valid & (np.argsort(np.argsort(order, axis=0), axis=0) < round(level * n))
    else:
        times = np.arange(T) < T - horizon if horizon else np.zeros(T, dtype=bool)
        if not horizon:
            times[rng.permutation(T)[: round(level * T)]] = True
        sampled = valid & times
    scored = valid & (np.arange(T) >= T - horizon) if horizon else valid & ~sampled
    return Task(truth, np.where(sampled, truth, np.nan), scored, horizon)


def hidden(whole: Task, kind: str, seed: list[int]) -> Task:
    """Of the samples a tenth is hidden in the manner of the protocol, to choose parameters by; no truth is used."""
    rng, seen = np.random.default_rng(seed), np.isfinite(whole.samples)
    T = seen.shape[1]
    away = np.zeros_like(seen)
    if kind == RECONSTRUCTION:
        away = seen & (rng.random(seen.shape) < 0.1)
    elif kind == SNAPSHOTS:
        times = np.flatnonzero(seen.any(axis=0))
        away[:, rng.permutation(times)[: max(1, round(0.1 * times.size))]] = True
    else:
        away[:, T - 2 * whole.horizon :] = True
    return Task(whole.samples, np.where(away, np.nan, whole.samples), seen & away, whole.horizon)


def search(loss: Callable[[float, float], float]) -> tuple[float, float]:
    """The best (epsilon, weight) of the grid by lines along one parameter and the other, until neither changes."""
    done: dict[tuple[int, int], float] = {}

    def value(at: tuple[int, int]) -> float:
        if at not in done:
            done[at] = loss(GRID[at[0]], GRID[at[1]])
        return done[at]

    best = (GRID.index(0.1), GRID.index(0.1))
    while True:
        before = best
        for axis in (0, 1):
            line = [(k, best[1]) if axis == 0 else (best[0], k) for k in range(len(GRID))]
            best = min(line, key=value)
        if best == before:
            return GRID[best[0]], GRID[best[1]]


def graph_trss(dataset: str, samples: np.ndarray, epsilon: float, weight: float) -> np.ndarray:
    return baselines.graph_trss(authors_graph(dataset), samples, weight=weight, epsilon=epsilon)


def points(s: Settings, kind: str) -> list[Point]:
    """GraphTRSS by the true error is one point per data set: its parameters serve all densities."""
    result: list[Point] = []
    for dataset in s.datasets:
        result.append({"dataset": dataset, "method": ORACLE})
        result += [
            {"dataset": dataset, "method": method, "level": level, "mask": s.seed + mask}
            for mask in range(1 if kind == FORECAST else s.masks)
            for level in levels(dataset, kind, s.every)
            for method in METHODS
        ]
    return result


def compute(s: Settings, point: Point, kind: str) -> list[Row]:
    if point["method"] == ORACLE:
        return by_true_error(s, point["dataset"], kind)
    whole = task(point["dataset"], kind, point["level"], point["mask"])
    begun = time.perf_counter()
    x, parameters = estimate(point, whole, kind)
    seconds = time.perf_counter() - begun
    return [{**whole.errors(x), **parameters, "seconds": seconds}]


def estimate(point: Point, whole: Task, kind: str) -> tuple[np.ndarray, Row]:
    """From the samples alone."""
    dataset = point["dataset"]
    if point["method"] == LINEAR:
        x = baselines.interpolate_in_time(whole.samples)
        return np.where(np.isnan(x), np.nanmean(whole.samples), x), {}
    if point["method"] == CHOSEN:
        part = hidden(whole, kind, [point["mask"], round(1000 * point["level"]), 1])
        epsilon, weight = search(lambda e, w: part.errors(graph_trss(dataset, part.samples, e, w))["rmse"])
        return graph_trss(dataset, whole.samples, epsilon, weight), {"epsilon": epsilon, "weight": weight}
    graph = network(dataset).graph
    if not whole.horizon:
        return spacetime.fit(graph, whole.samples).smooth().x, {}
    past = whole.samples[:, : -whole.horizon]
    x = np.full(whole.truth.shape, np.nan)
    x[:, -whole.horizon :] = spacetime.fit(graph, past).forecast(whole.horizon).x
    return x, {}


def by_true_error(s: Settings, dataset: str, kind: str) -> list[Row]:
    """GraphTRSS as published: one pair of parameters, best by the mean squared error of one mask over all densities."""
    tasks = [task(dataset, kind, level, SEARCH) for level in levels(dataset, kind)]

    def loss(epsilon: float, weight: float) -> float:
        return float(np.mean([t.errors(graph_trss(dataset, t.samples, epsilon, weight))["rmse"] ** 2 for t in tasks]))

    epsilon, weight = search(loss)
    rows = []
    for mask in range(1 if kind == FORECAST else s.peer_masks):
        for level in levels(dataset, kind, s.every):
            whole = task(dataset, kind, level, s.seed + mask)
            begun = time.perf_counter()
            errors = whole.errors(graph_trss(dataset, whole.samples, epsilon, weight))
            parameters = {"epsilon": epsilon, "weight": weight, "seconds": time.perf_counter() - begun}
            rows.append({"level": level, "mask": s.seed + mask, **errors, **parameters})
    return rows


def means(rows: list[Row], dataset: str, method: str, at: list[float]) -> np.ndarray:
    """Mean RMSE over masks, per level."""
    return np.array([mean_and_error(column(rows, "rmse", dataset=dataset, method=method, level=level))[0] for level in at])


def same_masks(rows: list[Row], dataset: str) -> list[Row]:
    """The rows of a data set whose masks nareg has run."""
    masks = set(column(rows, "mask", dataset=dataset, method=OURS))
    return [row for row in rows if row["dataset"] == dataset and row["mask"] in masks]


def printed(dataset: str, kind: str, every: int, peer: str, name: str = "RMSE") -> np.ndarray:
    return np.array(known(dataset, kind)[peer][name])[::every]


def best_printed(dataset: str, kind: str, every: int) -> np.ndarray:
    """Best published RMSE at each level, whatever method it is of."""
    return np.min([printed(dataset, kind, every, peer) for peer in known(dataset, kind)], axis=0)


def _close(ends: list[tuple[float, str]]) -> list[tuple[float, list[str]]]:
    """Ends of curves from the lowest on: those that are too close for two labels share one."""
    groups: list[tuple[float, list[str]]] = []
    for value, peer in sorted(ends):
        if groups and value < CLOSE * groups[-1][0]:
            groups[-1][1].append(peer)
        else:
            groups.append((value, [peer]))
    return groups


def draw(s: Settings, rows: list[Row], kind: str) -> Any:
    """RMSE against density or horizon, a column a data set; gray: published."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    figure, axes = plt.subplots(1, len(s.datasets), figsize=(5.4 * len(s.datasets), 4.2), layout="constrained", squeeze=False)
    styles = {LINEAR: "C7:", CHOSEN: "C1--", ORACLE: "C1-", OURS: "C0-"}
    for axis, dataset in zip(axes[0], s.datasets, strict=True):
        at = levels(dataset, kind, s.every)
        for peer in known(dataset, kind):
            axis.plot(at, printed(dataset, kind, s.every, peer), "x" if peer == "GraphTRSS" else "-", color="0.75")
        top = 3 * means(rows, dataset, LINEAR, at).max()
        ends = {peer: printed(dataset, kind, s.every, peer)[-1] for peer in known(dataset, kind)}
        for value, peers in _close([(end, peer) for peer, end in ends.items() if end < top]):
            axis.annotate(", ".join(peers), (1.02, value), xycoords=axis.get_yaxis_transform(), fontsize=7, va="center")
        for method, style in styles.items():
            axis.plot(at, means(rows, dataset, method, at), style, label=method)
        axis.set(title=dataset, yscale="log", ylabel=f"RMSE [{network(dataset).units}]")
        axis.set(xlabel="times ahead" if kind == FORECAST else "share sampled")
        axis.set_ylim(0.8 * means(rows, dataset, OURS, at).min(), top)
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, fontsize=8, title="gray: published", loc="outside lower center", ncols=len(names))
    return figure


def reproduced(s: Settings, rows: list[Row], kind: str) -> Verdict:
    """Whether GraphTRSS by the true error has the published mean RMSEs: within 2 % or three standard errors of both means."""
    near, texts = [], []
    for dataset in s.datasets:
        at = levels(dataset, kind, s.every)
        ours, theirs = means(rows, dataset, ORACLE, at), printed(dataset, kind, s.every, "GraphTRSS")
        count = len(set(column(rows, "mask", dataset=dataset, method=ORACLE)))
        spread = printed(dataset, kind, s.every, "GraphTRSS", "RMSE_sd") * np.sqrt(1 / 100 + 1 / count)
        tolerance = np.maximum(0.02 * theirs, 3 * spread)
        near += (np.abs(ours - theirs) <= tolerance).tolist()
        row = chosen(rows, dataset=dataset, method=ORACLE)[0]
        ratios = ours / theirs
        texts.append(
            f"{dataset}: {ratios.min():.2f} to {ratios.max():.2f} times the published RMSE, mean {ratios.mean():.3f} "
            f"(tolerance {(tolerance / theirs).max():.1%} at most, epsilon {row['epsilon']:g}, upsilon {row['weight']:g}, "
            f"{_masks(count)})"
        )
    return Verdict("numbers", grade([*near, *[False] * (s.every > 1)]), "; ".join(texts) + f".{_in_part(s)}")


def _in_part(s: Settings) -> str:
    """What a claim on every level does not say when some were not run."""
    return f" Of the published levels one in {s.every} was run." if s.every > 1 else ""


def _masks(count: int) -> str:
    return f"{count} mask" + "s" * (count > 1)


def below(s: Settings, rows: list[Row], kind: str, claim: str, bar: Callable[[str], np.ndarray], what: str) -> Verdict:
    """Aim: below a published RMSE at every level of both data sets, from the samples alone."""
    holds, texts = [], []
    for dataset in s.datasets:
        at = levels(dataset, kind, s.every)
        ratios = means(rows, dataset, OURS, at) / bar(dataset)
        holds += (ratios < 1).tolist()
        worst = int(np.argmax(ratios))
        texts.append(
            f"{dataset}: {ratios.mean():.3f} times {what} in the mean, {ratios.max():.3f} at worst ({at[worst]:g}), "
            f"below at {int((ratios < 1).sum())} of {len(at)}"
        )
    return Verdict(claim, grade([*holds, *[False] * (s.every > 1)], aim=True), "; ".join(texts) + f".{_in_part(s)}")


def best_beside(s: Settings, rows: list[Row], kind: str) -> list[Verdict]:
    """Whether GraphTRSS is reproduced, and whether nareg lies below the best published method."""
    best = below(s, rows, kind, "below", lambda d: best_printed(d, kind, s.every), "the best published RMSE")
    return [reproduced(s, rows, kind), best]


def experiment(name: str, title: str, kind: str, judge: Callable[..., list[Verdict]] = best_beside) -> Figure:
    """The experiment with one way to sample; ``judge`` also takes ``kind``."""
    return Figure(
        name, title, Settings(), Settings(masks=1, peer_masks=2, every=4), partial(points, kind=kind),
        partial(compute, kind=kind), partial(draw, kind=kind), partial(judge, kind=kind), **PARTS,
    )  # fmt: skip
