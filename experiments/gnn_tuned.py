"""The same budget of tuning for every model: configurations chosen by validation accuracy on draws of noise of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from experiments import _nodes as n
from experiments._figure import Figure, Point, Row, Verdict, chosen
from experiments.gnn_noise import CITATION, level_of
from nareg.errors import InputError

#: Configurations tried for every model.
BUDGET = 6
MODELS = (n.MLP, n.GCN, n.GAT, n.SGC, n.S2GC, n.APPNP, n.GLP, n.IRLS, n.NGC, n.RNGC, n.EXACT)


@dataclass(frozen=True)
class Settings:
    """``draws`` of noise to tune on; the ``runs`` that test use those of gnn-noise. Rows have length one."""

    datasets: tuple[str, ...] = CITATION
    levels: tuple[float, ...] = (0.3,)
    kinds: tuple[str, ...] = ("noise", "pure noise")
    models: tuple[str, ...] = MODELS
    budget: int = BUDGET
    draws: int = 2
    runs: int = 10
    epochs: int = 200
    seed: int = 0
    device: str | None = None


def candidates(dataset: str, degrees: np.ndarray) -> dict[str, dict[str, n.Candidate]]:
    """Model -> name -> configuration; the published one is the first of each."""
    published = n.recipes(dataset, degrees)

    def configured(build: Callable[..., Any], way: dict[str, Any]) -> Callable[[int, int], n.networks.Network]:
        return lambda f, c: build(f, c, **way)

    def grid(
        model: str, build: Callable[..., Any], ways: Sequence[dict[str, Any]], decays: Sequence[float]
    ) -> dict[str, n.Candidate]:
        result = {}
        for decay in decays:
            for way in ways:
                name = ", ".join(f"{key} {value:g}" for key, value in {**way, "decay": decay}.items())
                result[name] = n.Candidate(configured(build, way), published[model].learning_rate, decay)
        if len(result) != BUDGET:
            raise AssertionError(f"{model} has {len(result)} configurations, {BUDGET} are each model's budget")
        return result

    def series(f: int, c: int, *, order: int, **way: Any) -> Any:
        return n.networks.FilteredNetwork(f, c, solver=n.Neumann(order), **way)

    decay = {model: recipe.weight_decay for model, recipe in published.items()}
    strengths: list[dict[str, Any]] = [{"lam": 32.0, "order": 16}, {"lam": 32.0, "order": 64}, {"lam": 128.0, "order": 64}]
    exact = [{"lam": lam} for lam in (32.0, 8.0, 128.0)]
    widths = [{"hidden": 16}, {"hidden": 64}]
    ten_times, small = (5e-4, 5e-3, 5e-2), (1e-5, 1e-3)
    steps, out_heads = {"cora": 8, "citeseer": 16}.get(dataset, 40), 8 if dataset == "pubmed" else 1
    return {
        n.MLP: grid(n.MLP, n.peers.mlp, widths, ten_times),
        n.GCN: grid(n.GCN, n.peers.gcn, widths, ten_times),
        n.GAT: grid(
            n.GAT, partial(n.peers.gat, out_heads=out_heads), [{"dropout": 0.6}, {"dropout": 0.8}],
            [decay[n.GAT] * factor for factor in (1, 10, 100)],
        ),
        n.SGC: grid(n.SGC, n.peers.sgc, [{"order": 2}, {"order": 8}, {"order": 16}], small),
        n.S2GC: grid(n.S2GC, n.peers.ssgc, [{"order": 16}, {"order": 64}], [decay[n.S2GC] * k for k in (1, 10, 100)]),
        n.APPNP: grid(
            n.APPNP, n.peers.appnp,
            [{"alpha": 0.1, "order": 10}, {"alpha": 0.05, "order": 20}, {"alpha": 0.02, "order": 20}], (5e-3, 2e-2),
        ),
        n.GLP: grid(n.GLP, n.peers.glp, [{"lam": 10.0}, {"lam": 32.0}, {"lam": 100.0}], ten_times[:2]),
        n.IRLS: grid(
            n.IRLS, lambda f, c, **way: n.peers.twirls(f, c, steps=steps, dropout=0.5 if dataset == "citeseer" else 0.8, **way),
            [{"lam": 1.0}, {"lam": 4.0}, {"lam": 16.0}], [decay[n.IRLS], 10 * decay[n.IRLS]],
        ),
        n.NGC: grid(n.NGC, series, strengths, small),
        n.RNGC: grid(n.RNGC, lambda f, c, **way: series(f, c, perturbation=n.Perturbation(1.0), **way), strengths, small),
        n.EXACT: grid(n.EXACT, lambda f, c, **way: n.networks.FilteredNetwork(f, c, solver="chebyshev", **way), exact, small),
    }  # fmt: skip


def points(s: Settings) -> list[Point]:
    unknown = [model for model in s.models if model not in MODELS]
    if unknown:
        raise InputError(f"models holds {unknown[0]!r}: choose from {', '.join(MODELS)}.")
    if not 1 <= s.budget <= BUDGET:
        raise InputError(f"budget is {s.budget}: there are {BUDGET} configurations a model, take 1 to {BUDGET} of them.")
    return [
        {"dataset": d, "level": level_of(d, level), "kind": kind, "model": model}
        for d in s.datasets for level in s.levels for kind in s.kinds for model in s.models
    ]  # fmt: skip


def compute(s: Settings, point: Point) -> list[Row]:
    dataset, level, model, control = point["dataset"], point["level"], point["model"], point["kind"] == "pure noise"
    _, features, adjacency = n.loaded(dataset)
    known = dict(list(candidates(dataset, adjacency.degrees)[model].items())[: s.budget])

    def trained(name: str, seed: list[int]) -> Row:
        x = n.noisy(features, level, "l2", seed, control=control)
        chosen_recipe = {model: known[name]}
        (row,) = n.trained(dataset, x, [model], seed, epochs=s.epochs, device=s.device, chosen_recipes=chosen_recipe)
        return {**row, "configuration": name}

    rows: list[Row] = []
    for tuning in range(s.draws):
        seed = [s.seed, 1000 + tuning, round(1e6 * level), control]
        rows += [{**trained(name, seed), "what": "tuning", "run": tuning} for name in known]
    # a series that diverged on a draw is no choice
    mean = {name: np.mean([row.get("val", -np.inf) for row in chosen(rows, configuration=name)]) for name in known}
    best = max(known, key=lambda name: mean[name])
    for run in range(s.runs):
        rows.append({**trained(best, [s.seed, run, round(1e6 * level), control]), "what": "test", "run": run})
    return rows


def draw(s: Settings, rows: list[Row]) -> Any:
    """Accuracy of every model, tuned; gray: on noise without features. A panel a data set and noise."""
    import matplotlib.pyplot as plt

    shape = len(s.levels), len(s.datasets)
    figure, axes = plt.subplots(*shape, figsize=(4.6 * shape[1], 4.2 * shape[0]), layout="constrained", squeeze=False)
    for line, nominal in zip(axes, s.levels, strict=True):
        for axis, dataset in zip(line, s.datasets, strict=True):
            level = level_of(dataset, nominal)
            for kind in s.kinds:
                for place, model in enumerate(s.models):
                    cells = n.cell(rows, dataset=dataset, level=level, kind=kind, model=model, what="test")
                    if cells is None:
                        continue
                    color = n.COLORS[model] if kind == "noise" else "0.75"
                    axis.errorbar(cells.mean, place, xerr=cells.half_width, fmt="o", color=color, capsize=3)
            axis.set_yticks(range(len(s.models)), s.models)
            axis.invert_yaxis()
            axis.set(title=f"{dataset}, noise {level:g}", xlabel="test accuracy [%], 95 % intervals; gray: noise alone")
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    """The paper's main claim once more, every model tuned alike."""
    ahead, said = [], []
    for dataset in s.datasets:
        for level in (level_of(dataset, nominal) for nominal in s.levels):
            mine = chosen(rows, dataset=dataset, level=level, kind="noise", what="test")
            others = [m for m in s.models if m in n.EIGHT and m not in (n.NGC, n.RNGC)]
            if not others or n.cell(mine, model=n.RNGC) is None:
                continue
            rival = max(others, key=lambda m: n.cell(mine, model=m).mean)
            test = n.paired_rows(mine, n.RNGC, rival)
            ahead.append(test.difference > test.half_width)
            said.append(f"{dataset} {level:g}: {test.difference:+.1f} ± {test.half_width:.1f} against {rival}")
    return [Verdict("best", n.grade(ahead), f"RNGC, {s.budget} configurations tried for each model: " + "; ".join(said) + ".")]


FIGURE = Figure(
    "gnn-tuned", "Every model tuned alike", Settings(),
    Settings(datasets=("cora",), models=(n.MLP, n.S2GC, n.NGC, n.RNGC), budget=2, draws=1, runs=2, epochs=60),
    points, compute, draw, judge, **n.PARTS | {"helpers": (*n.HELPERS, "gnn_noise")},
)  # fmt: skip
