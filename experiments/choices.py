"""How the ranking depends on choices that papers rarely discuss: neighbors, kernel, the mean removed, the split.

One choice at a time is changed from a default. The filters are designed on the training times and judged in closed form on
the test times; every NMSE is shown over that of the best single weight of the same setting. Every repeat swaps the parts of a
split (a random one is drawn anew) and draws the noisy readings that GCV and the blind design learn from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments._figure import Figure, Point, Row, Verdict, chosen, column, mean_and_error
from experiments._methods import matrix, published_weight, wiener
from experiments._stations import distances
from nareg import datasets, design
from nareg.graph import Graph

DEFAULT = {"neighbors": "7", "kernel": "mean distance", "mean": "global", "split": "blocks"}
CHOICES = {
    "neighbors": ("3", "5", "7", "10"),
    "kernel": ("mean distance", "self-tuning", "equal", "exp(-5 d^2), largest distance 1", "exp(-5 d^2), mean distance 1"),
    "mean": ("none", "global", "station", "each time's own (known)"),
    "split": ("blocks", "halves", "random"),
}


@dataclass(frozen=True)
class Settings:
    """Networks and SNR; blocks hold a thirtieth of the times."""

    networks: tuple[str, ...] = ("molene", "us-weather")
    snr_db: float = 0.0
    blocks: int = 30
    repeats: int = 4
    few: bool = False
    seed: int = 9


SINGLE = "one weight, best"
METHODS = ("one weight (NI rule)", "one weight, GCV", "Prony", "relaxation (SDR)", "blind", "exact", "edge", "Wiener filter")


def points(s: Settings) -> list[Point]:
    """The default, and every other value of every choice, on every network."""
    result = []
    for network in s.networks:
        result.append({"network": network, "choice": "default", "value": "default"})
        for choice, values in CHOICES.items():
            others = [value for value in values if value != DEFAULT[choice]]
            result += [{"network": network, "choice": choice, "value": v} for v in (others[:1] if s.few else others)]
    return result


def _graph(coordinates: np.ndarray, neighbors: int, kernel: str) -> Graph:
    """Nearest neighbors on the sphere, joined with one of the kernels."""
    if kernel in ("mean distance", "self-tuning"):
        named = "gaussian" if kernel == "mean distance" else kernel
        return Graph.from_knn(coordinates, neighbors, metric="haversine", kernel=named)
    if kernel == "equal":
        return Graph.from_knn(coordinates, neighbors, metric="haversine", kernel=np.ones_like)

    def of_distance(d: np.ndarray) -> np.ndarray:
        length = d.mean() if "mean" in kernel else distances(coordinates).max()
        weights: np.ndarray = np.maximum(np.exp(-5 * (d / length) ** 2), 1e-12)
        return weights

    return Graph.from_knn(coordinates, neighbors, metric="haversine", kernel=of_distance)


def _centered(X: np.ndarray, mean: str, first: np.ndarray) -> np.ndarray:
    """Signals as they are, without the mean of the training times (one, or one a station), or without each time's own."""
    if mean == "none":
        return X
    if mean == "global":
        return X - X[:, first].mean()
    axis = 1 if mean == "station" else 0
    centered: np.ndarray = X - (X[:, first] if axis else X).mean(axis=axis, keepdims=True)
    return centered


def _training(T: int, split: str, s: Settings, repeat: int, rng: np.random.Generator) -> np.ndarray:
    """Mask of the training times."""
    if split == "random":
        return rng.permutation(T) < T // 2
    parts = 2 if split == "halves" else s.blocks
    first: np.ndarray = np.arange(T) * parts // T % 2 == repeat % 2
    return first


def compute(s: Settings, point: Point) -> list[Row]:
    """All methods in one setting."""
    setting = DEFAULT | ({} if point["choice"] == "default" else {point["choice"]: point["value"]})
    network = datasets.load(point["network"]).complete()
    graph = _graph(network.coordinates, int(setting["neighbors"]), setting["kernel"])
    raw = network.signals
    rows = []
    for repeat in range(s.repeats):
        rng = np.random.default_rng([s.seed, repeat])
        first = _training(raw.shape[1], setting["split"], s, repeat, rng)
        X = _centered(raw, setting["mean"], first)
        error = _errors(graph, X[:, first], X[:, ~first], 10 ** (s.snr_db / 10), rng)
        order = sorted(error, key=lambda name: error[name])
        rows += [
            {"repeat": repeat, "method": name, "nmse": e, "over_single": e / error[SINGLE], "rank": order.index(name) + 1}
            for name, e in error.items()
        ]
    return rows


def _errors(graph: Graph, train: np.ndarray, test: np.ndarray, snr: float, rng: np.random.Generator) -> dict[str, float]:
    """Method -> expected NMSE on the test times."""
    noise = float(np.mean(train**2)) / snr
    readings = train + np.sqrt(noise) * rng.standard_normal(train.shape)
    known: dict[str, Any] = {"signals": train, "noise": noise}
    H = {
        SINGLE: matrix(graph, design.node_invariant(graph, rule="oracle", **known)),
        METHODS[0]: matrix(graph, np.sqrt(published_weight(graph, snr))),
        METHODS[1]: matrix(graph, design.node_invariant(graph, rule="gcv", measurements=readings)),
        METHODS[2]: matrix(graph, design.prony(graph, **known, scale="bound")),
        METHODS[3]: matrix(graph, design.relaxation(graph, **known)),
        METHODS[4]: matrix(graph, design.blind(graph, measurements=readings, noise=noise)),
        METHODS[5]: matrix(graph, design.exact(graph, **known)),
        METHODS[6]: matrix(graph, design.edge(graph, **known)),
        METHODS[7]: wiener(train @ train.T / train.shape[1], noise),
    }
    power = float(np.sum(test**2))
    return {
        name: (float(np.sum((h @ test - test) ** 2)) + float(np.sum(h**2)) * noise * test.shape[1]) / power
        for name, h in H.items()
    }


def draw(s: Settings, rows: list[Row]) -> Any:
    """NMSE over that of the best single weight, with two standard errors: methods against settings, a panel a network."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        len(s.networks), 1, figsize=(10, 0.6 + 5 * len(s.networks)), layout="constrained", squeeze=False
    )
    for axis, network in zip(axes[:, 0], s.networks, strict=True):
        mine = chosen(rows, network=network)
        settings = list(dict.fromkeys((row["choice"], row["value"]) for row in mine))
        table = np.array(
            [[mean_and_error(column(mine, "over_single", choice=c, value=v, method=m)) for m in METHODS] for c, v in settings]
        )
        image = axis.imshow(np.log2(table[..., 0]), cmap="RdBu_r", vmin=-1.5, vmax=1.5, aspect="auto")
        for (i, j), value in np.ndenumerate(table[..., 0]):
            error = table[i, j, 1]
            text = f"{value:.2f}" + (f" ±{2 * error:.2f}" if error >= 0.0025 else "")
            axis.text(j, i, text, ha="center", va="center", fontsize=8, color="white" if abs(np.log2(value)) > 1 else "black")
        axis.set_xticks(range(len(METHODS)), METHODS, rotation=20, ha="right")
        axis.set_yticks(range(len(settings)), [c if c == v else f"{c}: {v}" for c, v in settings])
        axis.set_title(network)
    bar = figure.colorbar(image, ax=axes[:, 0].tolist(), label="NMSE over that of the best single weight", shrink=0.6)
    bar.set_ticks([-1, 0, 1], labels=["½", "1", "2"])
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    """The paper makes no claim about these choices."""
    return []


FIGURE = Figure(
    "choices", "What choices in passing do to the ranking", Settings(), Settings(networks=("molene",), repeats=2, few=True),
    points, compute, draw, judge,
)  # fmt: skip
