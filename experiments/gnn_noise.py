"""Gaussian noise on the features of citation graphs, rows of equal length; the pure-noise control has no features at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from experiments import _nodes as n
from experiments._figure import Figure, Finding, Point, Row, Verdict, chosen

CITATION = ("cora", "citeseer", "pubmed")


@dataclass(frozen=True)
class Settings:
    """Noise standard deviations are ``levels``, a tenth of them on Pubmed, whose features are that small.

    Learned node weights have an experiment of their own, gnn-adaptive.
    """

    datasets: tuple[str, ...] = CITATION
    levels: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5)
    rows: str = "l2"
    models: tuple[str, ...] = tuple(m for m in n.ALL if m != n.ADAPTIVE)
    runs: int = 10
    epochs: int = 200
    seed: int = 0
    device: str | None = None


def level_of(dataset: str, level: float) -> float:
    """Noise standard deviation on a data set."""
    return round(level / 10, 6) if dataset == "pubmed" else level


def points(s: Settings) -> list[Point]:
    n.check_models(s.models)
    levels = {d: [level_of(d, level) for level in s.levels] for d in s.datasets}
    noisy = n.runs_of(s.datasets, levels, s.runs, kind=["noise"])
    return noisy + n.runs_of(s.datasets, {d: [level_of(d, s.levels[-1])] for d in s.datasets}, s.runs, kind=["pure noise"])


def compute(s: Settings, point: Point) -> list[Row]:
    _, features, _ = n.loaded(point["dataset"])
    control = point["kind"] == "pure noise"
    seed = [s.seed, point["run"], round(1e6 * point["level"]), control]
    x = n.noisy(features, point["level"], s.rows, seed, control=control)
    return n.trained(point["dataset"], x, s.models, seed, epochs=s.epochs, device=s.device)


def draw(s: Settings, rows: list[Row]) -> Any:
    """Accuracy against noise, a panel a data set; dotted: the best model on noise without features."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(s.datasets), figsize=(5.2 * len(s.datasets), 5), layout="constrained", squeeze=False)
    for axis, dataset in zip(axes[0], s.datasets, strict=True):
        levels = [level_of(dataset, level) for level in s.levels]
        n.lines(axis, rows, levels, s.models, dataset=dataset, kind="noise")
        control = [n.cell(rows, dataset=dataset, kind="pure noise", model=m) for m in s.models]
        best = max(c.mean for c in control if c is not None)
        axis.axhline(best, color="k", linestyle=":", linewidth=1, label="best model on noise\nwithout features")
        axis.set(title=dataset, xlabel="noise standard deviation")
    axes[0, 0].set_ylabel("test accuracy [%], 95 % intervals")
    axes[0, -1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def winners(s: Settings, rows: list[Row]) -> str:
    """The best of all models in every cell."""
    texts = []
    for dataset in s.datasets:
        for level in s.levels:
            mine = chosen(rows, dataset=dataset, level=level_of(dataset, level), kind="noise")
            cells = {m: n.cell(mine, model=m) for m in s.models}
            best = max((m for m in cells if cells[m] is not None), key=lambda m: cells[m].mean)
            texts.append(f"{dataset} {level_of(dataset, level):g}: {best} {cells[best].mean:.1f}")
    return "; ".join(texts)


def judge_best(s: Settings, rows: list[Row]) -> Verdict:
    """The paper's main claim: NGC and RNGC are significantly better than the other six."""
    holds, gaps = [], []
    for dataset in s.datasets:
        for level in s.levels:
            mine = chosen(rows, dataset=dataset, level=level_of(dataset, level), kind="noise")
            others = [m for m in s.models if m in n.EIGHT and m not in (n.NGC, n.RNGC)]
            if not others or n.RNGC not in s.models:
                continue
            rival = max(others, key=lambda m: n.cell(mine, model=m).mean)
            test = n.paired_rows(mine, n.RNGC, rival)
            holds.append(test.difference > test.half_width)
            gaps.append(
                f"{dataset} {level_of(dataset, level):g}: {test.difference:+.1f} ± {test.half_width:.1f} against {rival}"
            )
    if not holds:
        return Verdict("best", Finding.NOT_RUN, "RNGC or all of the other six are not among the models.")
    said = f"RNGC is ahead of the best of the other six beyond the 95 % interval in {sum(holds)} of {len(holds)} cells. "
    return Verdict("best", n.grade(holds), said + "; ".join(gaps) + ".", f"Best of all models: {winners(s, rows)}.")


def judge_control(s: Settings, rows: list[Row]) -> Verdict:
    """A denoising result must beat the same model on noise alone."""
    parts, holds = [], []
    for dataset in s.datasets:
        for model in (m for m in (n.NGC, n.RNGC) if m in s.models):
            last = n.cell(rows, dataset=dataset, level=level_of(dataset, s.levels[-1]), kind="noise", model=model)
            alone = n.cell(rows, dataset=dataset, kind="pure noise", model=model)
            holds.append(last.mean - alone.mean > last.deviation)
            parts.append(f"{dataset} {model}: {last.mean:.1f} with features, {alone.mean:.1f} without")
    return Verdict("features", n.grade(holds), "At the largest noise: " + "; ".join(parts) + ".")


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    return [judge_best(s, rows), judge_control(s, rows)]


FIGURE = Figure(
    "gnn-noise", "Gaussian noise on features, rows of equal length (L2)", Settings(),
    Settings(datasets=("cora",), levels=(0.1, 0.3), models=(n.MLP, n.GCN, n.S2GC, n.NGC, n.RNGC, n.EXACT), runs=2, epochs=60),
    points, compute, draw, judge, **n.PARTS,
)  # fmt: skip
