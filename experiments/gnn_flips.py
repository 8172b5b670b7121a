"""Features flipped at random: |x - m| with m one with probability p."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _nodes as n
from experiments._figure import Figure, Point, Row, Verdict, chosen
from experiments.gnn_noise import CITATION

#: (data set, p) -> S, lambda, eps of the paper's table; all others S = 16, lambda = 32, eps = 1e-5 (Pubmed: 0.1).
PUBLISHED = {
    ("cora", 0.1): n.Filter(32, 64.0, 1e-5), ("cora", 0.2): n.Filter(eps=1e-5), ("cora", 0.4): n.Filter(eps=0.1),
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """The paper divides rows by their sum; with features and flips that are not negative that is "l1"."""

    datasets: tuple[str, ...] = CITATION
    levels: tuple[float, ...] = (0.1, 0.2, 0.4)
    rows: tuple[str, ...] = ("l1", "l2", "none")
    models: tuple[str, ...] = (n.MLP, n.GCN, n.S2GC, n.NGC, n.RNGC, n.EXACT)
    runs: int = 10
    epochs: int = 200
    seed: int = 0
    device: str | None = None


def points(s: Settings) -> list[Point]:
    n.check_models(s.models)
    flips = n.runs_of(s.datasets, dict.fromkeys(s.datasets, s.levels), s.runs, kind=s.rows, what=["features"])
    control = n.runs_of(s.datasets, dict.fromkeys(s.datasets, s.levels[-1:]), s.runs, kind=s.rows, what=["pure noise"])
    return flips + control


def compute(s: Settings, point: Point) -> list[Row]:
    dataset, level = point["dataset"], point["level"]
    _, features, _ = n.loaded(dataset)
    seed = [s.seed, point["run"], round(1000 * level)]
    clean = features if point["what"] == "features" else np.zeros_like(features)
    x = n.noise.normalize_rows(n.noise.flip(clean, level, np.random.default_rng(seed)), point["kind"])
    defaults = PUBLISHED.get((dataset, level), n.Filter(eps=0.1 if dataset == "pubmed" else 1e-5))
    return n.trained(dataset, x, s.models, seed, defaults=defaults, epochs=s.epochs, device=s.device)


def draw(s: Settings, rows: list[Row]) -> Any:
    """Accuracy against the probability of a flip; a row of panels for each way to normalize; crosses: published."""
    import matplotlib.pyplot as plt

    shape = len(s.rows), len(s.datasets)
    figure, axes = plt.subplots(*shape, figsize=(4.6 * shape[1], 3.6 * shape[0]), layout="constrained", squeeze=False)
    known = n.published("gnn-flips")[n.RNGC]
    for line, kind in zip(axes, s.rows, strict=True):
        for axis, dataset in zip(line, s.datasets, strict=True):
            n.lines(axis, rows, s.levels, s.models, dataset=dataset, kind=kind, what="features")
            axis.plot([float(p) for p in known[dataset]], list(known[dataset].values()), "x", color=n.COLORS[n.RNGC])
            alone = n.cell(rows, dataset=dataset, kind=kind, what="pure noise", model=n.NGC)
            axis.axhline(alone.mean, color="k", linestyle=":", linewidth=1)
            axis.set(title=f"{dataset}, rows: {kind}", xlabel="probability of a flip")
        line[0].set_ylabel("test accuracy [%]")
    axes[0, -1].legend(
        fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), title="cross: RNGC, published;\ndotted: NGC on flips alone"
    )
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    mine = [row for row in rows if row["what"] == "features"]
    first, *others = s.rows
    verdict = n.judged("table", mine, "gnn-flips", kind=first)
    why = "".join(f" Rows {kind}: {n.judged('table', mine, 'gnn-flips', kind=kind).measured}" for kind in others)
    why += " The paper does not say what a flip does to Pubmed's features, which are not binary; here x becomes 1 - x."
    ahead, said = [], []
    for dataset in s.datasets:
        for kind in s.rows:
            here = chosen(mine, dataset=dataset, level=s.levels[-1], kind=kind)
            rival = max((m for m in (n.MLP, n.GCN) if m in s.models), key=lambda m: n.cell(here, model=m).mean)
            test = n.paired_rows(here, n.RNGC, rival)
            ahead.append(test.difference > test.half_width)
            said.append(f"{dataset} {kind}: {test.difference:+.1f} ± {test.half_width:.1f} against {rival}")
    return [
        Verdict("table", verdict.finding, verdict.measured, why.strip()),
        Verdict("better", n.grade(ahead), f"RNGC at p = {s.levels[-1]:g}: " + "; ".join(said) + " points (95 %)."),
    ]


FIGURE = Figure(
    "gnn-flips", "Flipped features", Settings(),
    Settings(datasets=("cora",), levels=(0.1, 0.4), models=(n.MLP, n.GCN, n.NGC, n.RNGC), runs=2, epochs=60),
    points, compute, draw, judge, **n.PARTS | {"helpers": ("_nodes", "gnn_noise")},
)  # fmt: skip
