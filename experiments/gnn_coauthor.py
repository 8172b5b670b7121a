"""Coauthor CS and Physics: many training nodes, thousands of features, RNGC with inner products on edges only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _nodes as n
from experiments._figure import Figure, Point, Row, Verdict

#: Models with the paper's own hyper-parameters.
FILTERS = (n.NGC, n.RNGC, n.UNIT, n.ROBUST_UNIT)


@dataclass(frozen=True)
class Settings:
    """Random 60 / 20 / 20 by class. ``epochs``: of the filters on CS and on Physics, as published, and of all others."""

    datasets: tuple[str, ...] = ("coauthor-cs", "coauthor-physics")
    levels: tuple[float, ...] = (0.1, 1.0)
    rows: tuple[str, ...] = ("l2", "signed-sum")
    models: tuple[str, ...] = (n.MLP, n.GCN, n.S2GC, n.NGC, n.RNGC, n.UNIT, n.ROBUST_UNIT)
    runs: int = 10
    epochs: tuple[int, int, int] = (1000, 200, 200)
    seed: int = 0
    device: str | None = None


def points(s: Settings) -> list[Point]:
    n.check_models(s.models, (*n.ALL, n.UNIT, n.ROBUST_UNIT))
    noisy = n.runs_of(s.datasets, dict.fromkeys(s.datasets, s.levels), s.runs, kind=s.rows, what=["features"])
    last = dict.fromkeys(s.datasets, s.levels[-1:])
    return noisy + n.runs_of(s.datasets, last, s.runs, kind=s.rows[:1], what=["pure noise"])


def compute(s: Settings, point: Point) -> list[Row]:
    dataset, level = point["dataset"], point["level"]
    data, features, graph = n.loaded(dataset)
    seed = [s.seed, point["run"], round(100 * level)]
    x = n.noisy(features, level, point["kind"], seed, control=point["what"] != "features")
    split = data.random_split(rng=np.random.default_rng([*seed, 1]))
    physics = dataset == "coauthor-physics"
    lam = 1.0 if level < 1 else 1024.0 if physics else 128.0
    defaults = n.Filter(16, lam, weight_decay=5e-4 if physics else 1e-7, hidden=(16,) if physics else (), dropout=0.5 * physics)
    known = n.recipes(dataset, graph.degrees, defaults)
    head: dict[str, Any] = {"hidden": defaults.hidden, "dropout": defaults.dropout, "lam": lam}

    def recipe(**more: Any) -> n.Candidate:
        return n.Candidate(lambda f, c: n.networks.FilteredNetwork(f, c, **head, **more), defaults.lr, defaults.weight_decay)

    masked, unit = n.Perturbation(1.0, masked=True), n.Neumann(16, unit_gain=True)
    known[n.RNGC] = recipe(solver=n.Neumann(16), perturbation=masked)
    known[n.UNIT], known[n.ROBUST_UNIT] = recipe(solver=unit), recipe(solver=unit, perturbation=masked)
    on_cs, on_physics, of_others = s.epochs
    filters = [m for m in s.models if m in FILTERS]
    longest = on_physics if physics else on_cs
    rows = n.trained(dataset, x, filters, seed, epochs=longest, device=s.device, split=split, chosen_recipes=known)
    others = [m for m in s.models if m not in FILTERS]
    return rows + n.trained(dataset, x, others, seed, epochs=of_others, device=s.device, split=split, chosen_recipes=known)


def draw(s: Settings, rows: list[Row]) -> Any:
    """Accuracy of every model, a panel a data set and noise."""
    import matplotlib.pyplot as plt

    shape = len(s.levels), len(s.datasets)
    figure, axes = plt.subplots(*shape, figsize=(5 * shape[1], 3 * shape[0]), layout="constrained", squeeze=False)
    for line, level in zip(axes, s.levels, strict=True):
        for axis, dataset in zip(line, s.datasets, strict=True):
            for k, kind in enumerate(s.rows):
                for place, model in enumerate(s.models):
                    cells = n.cell(rows, dataset=dataset, level=level, kind=kind, what="features", model=model)
                    if cells is not None:
                        axis.errorbar(cells.mean, place + 0.2 * k, xerr=cells.deviation, fmt="o", color=f"C{k}",
                                      label=f"rows {kind}" if place == 0 else None)  # fmt: skip
            axis.set_yticks(range(len(s.models)), s.models)
            axis.invert_yaxis()
            axis.set_title(f"{dataset}, noise {level:g}")
    for axis in axes[-1]:
        axis.set_xlabel("test accuracy [%] ± standard deviation")
    axes[0, 0].legend(fontsize=8)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    mine = [row for row in rows if row["what"] == "features"]
    below, slightly, said = [], [], []
    for dataset in s.datasets:
        for level in s.levels:
            for kind in s.rows:
                cells = {m: n.cell(mine, dataset=dataset, level=level, kind=kind, model=m) for m in (n.MLP, n.GCN, n.RNGC)}
                if None in cells.values():
                    said.append(f"{dataset} {level:g} {kind}: a model was not run or refused")
                    continue
                below.append(cells[n.MLP].mean < min(cells[n.GCN].mean, cells[n.RNGC].mean))
                slightly.append(cells[n.GCN].mean < cells[n.RNGC].mean)
                said.append(f"{dataset} {level:g} {kind}: " + ", ".join(f"{m} {c.mean:.1f}" for m, c in cells.items()))
    return [
        Verdict("mlp", n.grade(below), "; ".join(said) + "."),
        Verdict("gcn", n.grade(slightly), f"RNGC is ahead of GCN in {sum(slightly)} of {len(slightly)} cells."),
    ]


FIGURE = Figure(
    "gnn-coauthor", "Coauthor graphs", Settings(),
    Settings(datasets=("coauthor-cs",), levels=(0.1,), rows=("l2",), models=(n.MLP, n.NGC), runs=1, epochs=(10, 10, 10)),
    points, compute, draw, judge, **n.PARTS,
)  # fmt: skip
