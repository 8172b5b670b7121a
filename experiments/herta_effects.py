"""What the preconditioner is made of: training mask, sketch size, edges kept, ridge; condition numbers and iterations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _herta as h
from experiments._figure import Figure, Point, Row, Verdict, chosen, grade
from experiments._sparsifier import sparsify
from nareg.herta import Regularized, Unfolding

#: Effect -> its values; of the others, the first value of "edges" (all of them) and "exact" rows hold, with the mask.
MASKED, UNMASKED = "training rows", "all rows"
#: Draws of the sparsifier in multiples of the edges; none keeps the graph as it is.
DRAWS = (0.0, 4.0, 2.0, 1.0)
#: Rows of the sketch in multiples of the features.
SIZES = (2, 4, 8, 16)
#: Relative ridge.
RIDGES = (1e-9, 1e-8, 1e-4, 1e-2)
#: Relative gap whose first iteration is told.
GAP = 1e-6


@dataclass(frozen=True)
class Settings:
    """80 % of the labeled nodes to train on, ``masks`` times at random; conjugate gradients, squared error."""

    datasets: tuple[str, ...] = ("cora", "citeseer", "pubmed")
    lams: tuple[float, ...] = (1.0, 20.0)
    masks: int = 3
    most: int = 500
    seed: int = 0
    device: str | None = None


def points(s: Settings) -> list[Point]:
    return [
        {"dataset": dataset, "lam": lam, "mask": mask}
        for dataset, lam, mask in itertools.product(s.datasets, s.lams, range(s.masks))
    ]


def compute(s: Settings, point: Point) -> list[Row]:
    import torch

    from nareg.herta import _build as build
    from nareg.herta import _inputs as inputs
    from nareg.herta import _objective as objective
    from nareg.herta._preconditioner import RIDGE, TOLERANCE, GramFactor, Preconditioner
    from nareg.herta._system import System

    data = h.loaded(point["dataset"], s.device)
    rng = np.random.default_rng([s.seed, point["mask"]])
    (train,) = data.parts((0.8,), rng)
    model = data.graph, data.features, data.labels, Unfolding(point["lam"]), Regularized()
    problem = inputs.read(*model, train=train, device=s.device)
    lowest = data.optimum(loss="mse", lam=point["lam"], train=train)
    rank = int(np.linalg.matrix_rank(data.features.toarray() if hasattr(data.features, "toarray") else data.features))

    def rows(system: Any, nodes: Any) -> Any:
        return build.propagated(system, problem.features, nodes, tight=1e-8)

    everything = torch.arange(problem.system.n_nodes, device=problem.train.device)
    F, d, ridge = rows(problem.system, problem.train), problem.features.shape[1], RIDGE[torch.float64]
    result: list[Row] = []

    def tried(effect: str, value: float | str, Q: Any, ridge: float = ridge, **more: Any) -> None:
        P = Preconditioner([GramFactor(Q, ridge=ridge)], "exact", Q.shape[0])
        condition, steps = run(s, problem, P, lowest)
        result.append({"effect": effect, "value": value, "condition": condition, "iterations": steps, "rank": rank, **more})

    tried("mask", MASKED, F)
    tried("mask", UNMASKED, rows(problem.system, everything))
    for value in RIDGES:
        tried("ridge", value, F, value)
    for size in SIZES:
        if size * d < build.SRHT.max_size(train.size):
            sketch = build.SRHT(train.size, size * d, rng=rng)
            tried("sketch", size, objective.sketched(problem.system, problem.features, problem.train, sketch, tol=TOLERANCE))
    for draws in DRAWS:
        if draws == 0:
            tried("edges", 1.0, F, draws=draws)
            continue
        made = round(draws * data.graph.raw.nnz / 2)
        sparse = sparsify(data.graph, lam=point["lam"], epsilon=0.5, rng=rng, draws=made, measure=False)
        share = sparse.n_edges / sparse.n_edges_before
        tried("edges", share, rows(System(sparse.laplacian, point["lam"]), problem.train), draws=draws)
    return result


def run(s: Settings, problem: Any, P: Any, lowest: float) -> tuple[float | None, int | None]:
    """Condition number as conjugate gradients see it, and iterations to the gap (None: not within the limit)."""
    from nareg.herta._curvature import Ritz
    from nareg.herta._objective import Implicit, TrainingProblem
    from nareg.herta._optimizers import Step, conjugate_gradients

    model = Implicit(problem.system, problem.features, problem.train)
    training, ritz = TrainingProblem(model, problem.loss, problem.features, weight_decay=0.0, tol=1e-8), Ritz()
    steps: Iterator[Step] = conjugate_gradients(training, P, training.zeros(problem.like), ritz)
    for k, step in enumerate(itertools.islice(steps, s.most + 1)):
        if step.loss <= lowest * (1 + GAP):
            return ritz.condition(), k
    return ritz.condition(), None


def draw(s: Settings, rows: list[Row]) -> Any:
    """Iterations against sketch size, edges kept, ridge and mask."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(14, 3.6), layout="constrained", sharey=True)
    lines = list(itertools.product(s.datasets, s.lams))
    options = {
        "mask": "rows that P is made of", "ridge": "ridge, relative",
        "sketch": "rows of the sketch, in multiples of F", "edges": "share of the edges kept",
    }  # fmt: skip
    for axis, (effect, label) in zip(axes, options.items(), strict=True):
        for k, (dataset, lam) in enumerate(lines):
            mine = chosen(rows, effect=effect, dataset=dataset, lam=lam)
            key = "draws" if effect == "edges" else "value"
            values = list(dict.fromkeys(row[key] for row in mine))
            x = [np.mean([row["value"] for row in mine if row[key] == v]) if effect == "edges" else v for v in values]
            y = [min(h.median([row for row in mine if row[key] == v], "iterations"), s.most) for v in values]
            axis.plot(x, y, "o-" if lam == s.lams[0] else "s:", color=f"C{k // len(s.lams)}", label=f"{dataset}, λ = {lam:g}")
        axis.set(yscale="log", xlabel=label)
        if effect in ("ridge", "sketch"):
            axis.set_xscale("log", base=2 if effect == "sketch" else 10)
    axes[0].set_ylabel(f"iterations to a gap of {GAP:g} (CG)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    masks, ranks, sizes = [], [], []
    options = []
    for dataset, lam in itertools.product(s.datasets, s.lams):
        here = chosen(rows, dataset=dataset, lam=lam)
        conditions = [h.median(chosen(here, effect="mask", value=value), "condition") for value in (UNMASKED, MASKED)]
        steps = [h.median(chosen(here, effect="mask", value=value), "iterations") for value in (UNMASKED, MASKED)]
        masks.append(steps[0] < 2 * steps[1])
        options.append(
            f"{dataset} λ {lam:g}: condition number {conditions[0]:.3g}, {h.said(steps[0], s.most)} iterations with all rows, "
            f"{conditions[1]:.3g}, {h.said(steps[1], s.most)} with the training rows"
        )
        four = [r for r in chosen(here, effect="edges") if r["draws"] > 0]
        sizes.append(all(r["iterations"] is not None for r in four))
        ranks.append(here[0]["rank"])
    shares = [r["value"] for r in chosen(rows, effect="edges", draws=4.0)]
    return [
        Verdict("mask", grade(masks), "; ".join(options) + ".", "The algorithm as printed has no mask: its P is of all rows."),
        Verdict(
            "sparsified", grade(sizes),
            f"With 4 draws an edge {min(shares):.0%} to {max(shares):.0%} of the edges are kept; iterations in the picture.",
            f"Ranks of X: {', '.join(f'{name} {rank}' for name, rank in zip(s.datasets, ranks[:: len(s.lams)], strict=True))}.",
        ),
    ]  # fmt: skip


FIGURE = Figure(
    "herta-effects", "What the preconditioner is made of", Settings(),
    Settings(datasets=("cora",), lams=(1.0,), masks=1, most=60),
    points, compute, draw, judge, **h.PARTS,
)  # fmt: skip
