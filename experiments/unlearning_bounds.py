"""Bounds of the gradient against the truth on Cora, without a noise term (the paper's Figure 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from experiments import _scalegun_bounds
from experiments import _unlearning as u
from experiments._figure import Figure, Point, Row, Verdict, chosen, grade
from experiments._unlearning_peers import newton_step
from nareg.unlearning.head import approximation
from nareg.unlearning.objective import LOSSES, ClassifierObjective
from nareg.unlearning.propagation.base import Change
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.propagation.exact import Propagation
from nareg.unlearning.propagation.residual import ApproximatePropagation

TRUE, WORST, PRINTED, CHARGED = "true", "worst case", "data-dependent, as printed", "charged here"
CURVES = (WORST, PRINTED, CHARGED, TRUE)
WEIGHTS = np.array([0.0, 0.0, 1.0])
LOSS = LOSSES["logistic"]
#: For rows of Z no longer than one: the gradient of a node's loss is no longer than c1.
C = 1.0
#: Third derivative of the logistic loss as the published code has it; 1 / (6 sqrt 3) is enough.
GAMMA2 = 0.25


@dataclass(frozen=True)
class Settings:
    """The largest class of Cora against the rest; rows of length one, as the worst-case bounds need."""

    kinds: tuple[str, ...] = ("features", "edges", "nodes")
    r_max: tuple[float, ...] = (0.0, 1e-7, 1e-2)
    removals: int = 100
    lam: float = 1e-2
    seed: int = 0


def points(s: Settings) -> list[Point]:
    return [{"kind": kind, "r_max": r_max} for kind in s.kinds for r_max in s.r_max]


def compute(s: Settings, point: Point) -> list[Row]:
    """A Newton step a removal, as Algorithm 1 has it; what it accumulates adds up over removals."""
    data, kind, r_max = u.raw("cora"), point["kind"], point["r_max"]
    rng = np.random.default_rng(s.seed)
    X = data.features / np.maximum(np.linalg.norm(data.features, axis=1, keepdims=True), 1e-12)
    largest = np.bincount(data.labels).argmax()
    exact = Propagation(LiveGraph(data.graph), X.copy(), WEIGHTS, data.train)
    stored: Any = exact
    if r_max:
        stored = ApproximatePropagation(LiveGraph(data.graph), X.copy(), WEIGHTS, data.train, r_max=r_max)
    both = [stored] if stored is exact else [stored, exact]

    def objective(of: Any) -> ClassifierObjective:
        targets = np.where(data.labels[of.train][:, None] == largest, 1.0, -1.0)
        S, scales = of.trained()
        return ClassifierObjective(S, scales, targets, LOSS, s.lam, np.zeros((X.shape[1], 1)))

    def gradient(of: Any, w: np.ndarray) -> np.ndarray:
        result: np.ndarray = objective(of).evaluate(w).gradient
        return result

    w = objective(stored).minimize(np.zeros((X.shape[1], 1)), 1e-9).W
    edges, nodes = data.edges(rng), rng.permutation(data.train)
    rows: list[Row] = []
    stepped = worst = 0.0
    for k in range(s.removals):
        change, leaving = removal(kind, stored.graph, edges[k] if kind == "edges" else nodes[k], X.shape[1])
        worst += worst_case(kind, stored, change, s.lam, r_max)
        before = gradient(stored, w)
        for one in both:
            one.update(change)
            one.leave(leaving)
        problem = objective(stored)
        step = newton_step(problem, w, gradient(stored, w) - before)  # minus Delta, whose second sign line 7 lacks
        w = w + step
        Z = stored.embedding(stored.train)
        residues = stored.residues if r_max else [np.zeros((1, X.shape[1]))]
        canceled = _scalegun_bounds.published_data_dependent(residues, Z, 0 * step[:, 0], c1=LOSS.c1, gamma2=GAMMA2)
        stepped += _scalegun_bounds.published_data_dependent(residues, Z, step[:, 0], c1=LOSS.c1, gamma2=GAMMA2) - canceled
        at = replace(problem.evaluate(w), W=w)
        charged = at.residual + approximation(problem, at, stored)
        rows.append({
            "removed": k + 1, TRUE: float(np.linalg.norm(gradient(exact, w))), WORST: worst, PRINTED: stepped + canceled,
            CHARGED: charged,
        })  # fmt: skip
    return rows


def removal(kind: str, graph: LiveGraph, what: np.ndarray, n_features: int) -> tuple[Change, np.ndarray]:
    """The change, and nodes that are no longer trained on: with its features a node's label goes, as the paper has it."""
    if kind == "edges":
        return Change(removed=what[None]), np.empty(0, dtype=np.int64)
    node, blank = np.array([what]), np.zeros((1, n_features))
    if kind == "features":
        return Change(nodes=node, features=blank), node
    joined = graph.neighbors_of(int(what))
    pairs = np.sort(np.stack([np.full(joined.size, what), joined], axis=1), axis=1)
    return Change(removed=pairs, nodes=node, features=blank), node


def worst_case(kind: str, stored: Any, change: Change, lam: float, r_max: float) -> float:
    """Theorems 4.2 to 4.4, with degrees before the removal."""
    graph, degrees = stored.graph, stored.graph.degrees
    assumed = _scalegun_bounds.WorstCaseBounds(
        n_features=stored.features.shape[1], n_train=stored.train.size, lam=lam, c=C, c1=LOSS.c1, gamma1=LOSS.gamma1,
        error=_scalegun_bounds.embedding_error(graph.n_nodes, stored.order, r_max),
    )  # fmt: skip
    if kind == "edges":
        u_, v = change.removed[0]
        return assumed.edge((float(degrees[u_]), float(degrees[v])))
    node = int(change.nodes[0])
    if kind == "features":
        return assumed.feature(float(degrees[node]))
    return assumed.node(float(degrees[node]), degrees[graph.neighbors_of(node)].tolist())


def draw(s: Settings, rows: list[Row]) -> Any:
    """A column a kind of removal, a row an r_max."""
    import matplotlib.pyplot as plt

    shape = len(s.r_max), len(s.kinds)
    figure, axes = plt.subplots(
        *shape, figsize=(4.2 * shape[1], 3 * shape[0]), layout="constrained", squeeze=False, sharex=True, sharey=True
    )
    for line, r_max in zip(axes, s.r_max, strict=True):
        for axis, kind in zip(line, s.kinds, strict=True):
            mine = chosen(rows, kind=kind, r_max=r_max)
            for k, curve in enumerate(CURVES):
                axis.plot([r["removed"] for r in mine], [r[curve] for r in mine], color="k" if curve == TRUE else f"C{k}",
                          label=curve)  # fmt: skip
            axis.set(yscale="log", title=f"{kind}, r_max = {r_max:g}")
        line[0].set_ylabel("norm of the gradient")
    for axis in axes[-1]:
        axis.set_xlabel("removals")
    axes[0, -1].legend(fontsize=7)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    def violated(curve: str) -> tuple[list[bool], str]:
        holds, texts = [], []
        for kind in s.kinds:
            for r_max in s.r_max:
                mine = chosen(rows, kind=kind, r_max=r_max)
                below = [r[TRUE] > r[curve] for r in mine]
                holds.append(not any(below))
                ratio = max(r[TRUE] / r[curve] for r in mine)
                texts.append(
                    f"{kind} {r_max:g}: {sum(below)} of {len(below)} below the truth, truth / bound at most {ratio:.2g}"
                )
        return holds, "; ".join(texts) + "."

    worst, told_worst = violated(WORST)
    printed, told_printed = violated(PRINTED)
    charged, told_charged = violated(CHARGED)
    why = "What is charged here, for comparison: " + told_charged
    return [
        Verdict("worst-case", grade(worst), told_worst),
        Verdict("data-dependent", grade(printed), told_printed, why + ("" if all(charged) else " VIOLATED.")),
    ]


FIGURE = Figure(
    "unlearning-bounds", "Bounds of the gradient and the truth", Settings(), Settings(r_max=(0.0, 1e-2), removals=5),
    points, compute, draw, judge, **u.PARTS,
)  # fmt: skip
