"""Every peer on the clean citation graphs, as a check before the comparison under noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from experiments import _nodes as n
from experiments import _noise as noise
from experiments._figure import Figure, Point, Row, Verdict
from experiments.gnn_noise import CITATION


@dataclass(frozen=True)
class Settings:
    """Rows are divided by the sum of their (non-negative) entries, as is usual."""

    datasets: tuple[str, ...] = CITATION
    models: tuple[str, ...] = n.ALL
    runs: int = 10
    epochs: int = 200
    seed: int = 0
    device: str | None = None


def points(s: Settings) -> list[Point]:
    n.check_models(s.models)
    return n.runs_of(s.datasets, dict.fromkeys(s.datasets, (0.0,)), s.runs)


def compute(s: Settings, point: Point) -> list[Row]:
    _, features, _ = n.loaded(point["dataset"])
    x = noise.normalize_rows(features, "l1")
    return n.trained(point["dataset"], x, s.models, [s.seed, point["run"]], epochs=s.epochs, device=s.device)


def draw(s: Settings, rows: list[Row]) -> Any:
    """Accuracy of every model, a panel a data set; crosses: published."""
    import matplotlib.pyplot as plt

    known = n.published("gnn-clean")
    figure, axes = plt.subplots(1, len(s.datasets), figsize=(4.6 * len(s.datasets), 4.5), layout="constrained", squeeze=False)
    for axis, dataset in zip(axes[0], s.datasets, strict=True):
        for place, model in enumerate(s.models):
            cells = n.cell(rows, dataset=dataset, model=model)
            axis.errorbar(cells.mean, place, xerr=cells.deviation, fmt="o", color=n.COLORS[model], capsize=3)
            number = known.get(model, {}).get(dataset, {}).get("0")
            if number is not None:
                axis.plot(number, place, "kx")
        axis.set_yticks(range(len(s.models)), s.models)
        axis.invert_yaxis()
        axis.set(title=dataset, xlabel="test accuracy [%] ± standard deviation")
    axes[0, 0].plot([], [], "kx", label="published")
    axes[0, 0].legend(fontsize=8, loc="lower left")
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    within = n.judged("known", rows, "gnn-clean", tolerance=1.5)
    return [within]


FIGURE = Figure(
    "gnn-clean", "Every model without noise", Settings(),
    Settings(datasets=("cora",), models=(n.MLP, n.GCN, n.SGC, n.S2GC, n.NGC), runs=2),
    points, compute, draw, judge, **n.PARTS | {"helpers": (*n.HELPERS, "gnn_noise")},
)  # fmt: skip
