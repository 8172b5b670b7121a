"""How many powers of A~: S from 1 to 64 on clean and on noisy features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from experiments import _nodes as n
from experiments._figure import Figure, Point, Row, Verdict
from experiments.gnn_noise import CITATION


@dataclass(frozen=True)
class Settings:
    """Noise 1 as in the paper, whose features it drowns, and 0.3 (Pubmed: a tenth), which it does not."""

    datasets: tuple[str, ...] = CITATION
    depths: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    levels: tuple[float, ...] = (0.0, 0.3, 1.0)
    rows: tuple[str, ...] = ("l2", "signed-sum")
    models: tuple[str, ...] = (n.SGC, n.S2GC, n.NGC, n.RNGC)
    runs: int = 5
    epochs: int = 100
    seed: int = 0
    device: str | None = None


def size_of(dataset: str, level: float) -> float:
    """Noise standard deviation on a data set: of a level below one Pubmed, whose features are small, gets a tenth."""
    return level / 10 if dataset == "pubmed" and level < 1 else level


def points(s: Settings) -> list[Point]:
    n.check_models(s.models)
    return n.runs_of(s.datasets, dict.fromkeys(s.datasets, s.levels), s.runs, kind=s.rows, depth=s.depths)


def compute(s: Settings, point: Point) -> list[Row]:
    dataset, level, depth = point["dataset"], point["level"], point["depth"]
    _, features, graph = n.loaded(dataset)
    seed = [s.seed, point["run"], round(100 * level)]
    x = n.noisy(features, size_of(dataset, level), point["kind"], seed)
    defaults = n.Filter(order=depth)
    known = n.recipes(dataset, graph.degrees, defaults) | {
        n.SGC: n.Candidate(lambda f, c: n.peers.sgc(f, c, order=depth), 0.2, 1e-5),
        n.S2GC: n.Candidate(lambda f, c: n.peers.ssgc(f, c, order=depth), 0.2, 1e-5),
    }
    return n.trained(dataset, x, s.models, seed, defaults=defaults, epochs=s.epochs, device=s.device, chosen_recipes=known)


def draw(s: Settings, rows: list[Row]) -> Any:
    """Accuracy against S, a column a data set, a row a noise; full lines: L2 rows, broken: as published."""
    import matplotlib.pyplot as plt

    shape = len(s.levels), len(s.datasets)
    figure, axes = plt.subplots(
        *shape, figsize=(4.4 * shape[1], 3.2 * shape[0]), layout="constrained", squeeze=False, sharex=True
    )
    for line, level in zip(axes, s.levels, strict=True):
        for axis, dataset in zip(line, s.datasets, strict=True):
            for model in s.models:
                for kind, dash in zip(s.rows, ("-", "--"), strict=False):
                    cells = [n.cell(rows, dataset=dataset, level=level, kind=kind, depth=d, model=model) for d in s.depths]
                    shown = [(d, c.mean) for d, c in zip(s.depths, cells, strict=True) if c is not None]
                    axis.plot(*zip(*shown, strict=True), dash, marker="o", markersize=3, color=n.COLORS[model],
                              label=f"{model}, rows {kind}")  # fmt: skip
            axis.set_xscale("log", base=2)
            axis.set_title(f"{dataset}, noise {size_of(dataset, level):g}")
        line[0].set_ylabel("test accuracy [%]")
    for axis in axes[-1]:
        axis.set_xlabel("S, the last power of A~")
    axes[0, -1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def spread(s: Settings, rows: list[Row], dataset: str, kind: str, model: str) -> float:
    """Points between the best and the worst depth on clean features."""
    means = [n.cell(rows, dataset=dataset, level=s.levels[0], kind=kind, depth=d, model=model).mean for d in s.depths]
    return max(means) - min(means)


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    kind = s.rows[-1]
    both = [m for m in (n.NGC, n.RNGC) if m in s.models]
    spreads = {(d, m): spread(s, rows, d, kind, m) for d in s.datasets for m in both}
    steady = [(value < 5) == (d != "citeseer") for (d, _), value in spreads.items()]
    said = "Best less worst depth on clean features: " + ", ".join(f"{d} {m} {v:.1f}" for (d, m), v in spreads.items())
    gains = {}
    for dataset in s.datasets:
        for model in both:
            ends = [
                n.cell(rows, dataset=dataset, level=s.levels[-1], kind=kind, depth=d, model=model)
                for d in (s.depths[0], s.depths[-1])
            ]
            if None not in ends:
                gains[dataset, model] = ends[1].mean - ends[0].mean
    deep = f"S = {s.depths[-1]} less S = {s.depths[0]} at noise {s.levels[-1]:g}: "
    return [
        Verdict("clean", n.grade(steady), said + " points."),
        Verdict("noisy", n.grade(g > 0 for g in gains.values()),
                deep + ", ".join(f"{d} {m} {g:+.1f}" for (d, m), g in gains.items()) + " points."),
    ]  # fmt: skip


FIGURE = Figure(
    "gnn-depth", "Depth on clean and noisy features", Settings(),
    Settings(datasets=("cora",), depths=(1, 4, 16), levels=(0.0, 1.0), models=(n.NGC, n.RNGC), runs=1, epochs=60),
    points, compute, draw, judge, **n.PARTS | {"helpers": (*n.HELPERS, "gnn_noise")},
)  # fmt: skip
