"""Row normalization at noise far above the features: NGC's published table, both ways to normalize A~, and the L2 rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from experiments import _nodes as n
from experiments._figure import Figure, Point, Row, Verdict
from experiments.gnn_noise import CITATION


@dataclass(frozen=True)
class Settings:
    """``rows`` as in noise.normalize_rows; "signed-sum" is what the paper calls with, "none" without row normalization."""

    datasets: tuple[str, ...] = CITATION
    levels: tuple[float, ...] = (1.0, 10.0, 100.0)
    rows: tuple[str, ...] = ("signed-sum", "none", "l2")
    normalizations: tuple[str, ...] = ("sym", "rw")
    models: tuple[str, ...] = (n.NGC,)
    runs: int = 100
    epochs: int = 100
    seed: int = 0
    device: str | None = None


def points(s: Settings) -> list[Point]:
    n.check_models(s.models)
    levels = dict.fromkeys(s.datasets, s.levels)
    both = n.runs_of(s.datasets, levels, s.runs, kind=s.rows, normalization=s.normalizations)
    control = n.runs_of(s.datasets, dict.fromkeys(s.datasets, s.levels[-1:]), s.runs, kind=s.rows, normalization=["pure noise"])
    return both + control


def compute(s: Settings, point: Point) -> list[Row]:
    data, features, _ = n.loaded(point["dataset"])
    control = point["normalization"] == "pure noise"
    seed = [s.seed, point["run"], round(point["level"])]
    x = n.noisy(features, point["level"], point["kind"], seed, control=control)
    defaults = n.Filter(normalization="sym" if control else point["normalization"])
    # only the Neumann filters are told how to normalize A~; without normalized rows RNGC's perturbation has no other scale
    models = s.models if defaults.normalization == "sym" else [m for m in s.models if m in (n.NGC, n.RNGC)]
    adjacency = n.Adjacency(data.graph, normalization=defaults.normalization)
    return n.trained(
        point["dataset"], x, models, seed, defaults=defaults, epochs=s.epochs, device=s.device, adjacency=adjacency
    )


def draw(s: Settings, rows: list[Row]) -> Any:
    """NGC's accuracy by data set and noise, a bar a way to normalize; crosses: published."""
    import matplotlib.pyplot as plt
    import numpy as np

    known = n.published("gnn-rows")
    figure, axes = plt.subplots(1, len(s.datasets), figsize=(4.8 * len(s.datasets), 4.2), layout="constrained", squeeze=False)
    ways = [(r, m) for r in s.rows for m in (*s.normalizations, "pure noise")]
    for axis, dataset in zip(axes[0], s.datasets, strict=True):
        for k, (kind, normalization) in enumerate(ways):
            for place, level in enumerate(s.levels):
                cells = n.cell(rows, dataset=dataset, level=level, kind=kind, normalization=normalization, model=n.NGC)
                if cells is None:
                    continue
                at = place + (k - len(ways) / 2) / (len(ways) + 1)
                hatch = {"sym": "", "rw": "//", "pure noise": ".."}[normalization]
                color = {"signed-sum": "C3", "none": "C7", "l2": "C0", "l1": "C1"}[kind]
                axis.bar(at, cells.mean, 0.9 / len(ways), yerr=cells.deviation, color=color, hatch=hatch, edgecolor="w",
                         label=f"{kind}, {normalization}" if place == len(s.levels) - 1 else None)  # fmt: skip
                number = known.get(kind, {}).get(dataset, {}).get(f"{level:g}")
                if number is not None and normalization == "sym":
                    axis.plot(at, number, "kx")
        axis.set_xticks(np.arange(len(s.levels)), [f"{level:g}" for level in s.levels])
        axis.set(title=dataset, xlabel="noise standard deviation", ylim=(20, 80))
    axes[0, 0].set_ylabel("test accuracy of NGC [%] ± standard deviation")
    axes[0, -1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), title="rows, A~ (cross: published)")
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    mine = [{**row, "ngc": row["model"], "model": row["kind"]} for row in rows]
    result = []
    for claim, kind in (("with", "signed-sum"), ("without", "none")):
        ways = {w: n.judged(claim, mine, "gnn-rows", ngc=n.NGC, normalization=w, only=kind) for w in s.normalizations}
        first, *others = ways.items()
        texts = "".join(f" With A~ normalized as {name}: {v.measured}" for name, v in others)
        result.append(Verdict(claim, first[1].finding, first[1].measured, texts.strip()))
    parts = [
        f"{d}: {n.cell(rows, dataset=d, kind=kind, normalization='pure noise', model=n.NGC).mean:.1f}"
        f" against {n.cell(rows, dataset=d, level=s.levels[-1], kind=kind, normalization='sym', model=n.NGC).mean:.1f}"
        for kind in s.rows[:1] for d in s.datasets
    ]  # fmt: skip
    said = f"NGC on noise without any features against features with noise of {s.levels[-1]:g}: " + "; ".join(parts) + "."
    why = "The accuracy at this noise comes from the graph through random features; no feature is denoised."
    return [*result, Verdict("denoises", n.Finding.NOT, said, why)]


FIGURE = Figure(
    "gnn-rows", "Row normalization under noise that drowns the features", Settings(),
    Settings(datasets=("cora",), levels=(1.0, 100.0), runs=2, epochs=60),
    points, compute, draw, judge, **n.PARTS | {"helpers": (*n.HELPERS, "gnn_noise")},
)  # fmt: skip
