"""Heads without a certificate: a perceptron (Table 2), ChebNetII (Table 14), and adversarial edges behind them (Figure 6)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _unlearning as u
from experiments._figure import Figure, Point, Row, Verdict, chosen, grade
from nareg.errors import DatasetNotFoundError
from nareg.graph import Graph
from nareg.unlearning.deep import DeepGPR

PERCEPTRON, CHEBYSHEV, ADVERSARIAL = "perceptron", "ChebNetII", "adversarial edges"
BASES = {PERCEPTRON: "gpr", CHEBYSHEV: "chebyshev", ADVERSARIAL: "gpr"}
#: Data set and edges a request, of a made-up graph too.
SETS = {
    PERCEPTRON: {"made up, products' size": 1000, "ogbn-products": 1000},
    CHEBYSHEV: {"made up, arxiv's size": 25, "ogbn-arxiv": 25},
    ADVERSARIAL: {"cora": 100},
}
#: Accuracy before any removal, seconds of a batch: retrained, updated.
PUBLISHED = {PERCEPTRON: ((74.16, 174.23), (74.25, 14.19)), CHEBYSHEV: ((71.99, 58.51), (71.99, 5.84))}


@dataclass(frozen=True)
class Settings:
    """Five batches of edges; on Cora 500 adversarial ones in fives of a hundred."""

    kinds: tuple[str, ...] = (PERCEPTRON, CHEBYSHEV, ADVERSARIAL)
    batches: int = 5
    hidden: int = 256
    epochs: int = 200
    more: int = 20
    scale: float = 1.0
    seed: int = 0


def points(s: Settings) -> list[Point]:
    return [
        {"what": what, "dataset": dataset, "method": method}
        for what in s.kinds for dataset in SETS[what] for method in (u.OURS, u.RETRAINED)
    ]  # fmt: skip


def compute(s: Settings, point: Point) -> list[Row]:
    """Retrained: propagated and trained from nothing on what remains."""
    what, rng = point["what"], np.random.default_rng(s.seed)
    try:
        data = u.large(point["dataset"], s.scale)
    except DatasetNotFoundError:
        return [{"removed": None, "absent": True}]
    size = max(1, round(s.scale * SETS[what][point["dataset"]]))
    if what == ADVERSARIAL:
        data, edges = data.with_adversarial_edges(s.batches * size, rng)
    else:
        edges = data.vulnerable_edges(s.batches * size, rng)
    model, seconds = fitted(s, what, data, data.graph)
    rows: list[Row] = [{"removed": 0, "absent": False, "accuracy": data.accuracy(model), "fit": seconds, "total": None}]
    for last in range(size, len(edges) + 1, size):
        if point["method"] == u.OURS:
            told = model.remove_edges(edges[last - size : last])
            seconds = sum(told.seconds.values())
        else:
            del model  # gigabytes, which the next one needs
            model, seconds = fitted(s, what, data, without(data.graph, edges[:last]))
        rows.append({"removed": last, "absent": False, "accuracy": data.accuracy(model), "total": seconds})
    return rows


def fitted(s: Settings, what: str, data: u.Loaded, graph: Graph) -> tuple[DeepGPR, float]:
    """And the seconds that it took."""
    start = time.perf_counter()
    model = DeepGPR(
        basis=BASES[what], hidden=s.hidden, epochs=s.epochs, more=s.more, rng=np.random.default_rng([s.seed, 1])
    ).fit(graph, data.features, data.labels, data.train)
    return model, time.perf_counter() - start


def without(graph: Graph, edges: np.ndarray) -> Graph:
    """A graph with some edges fewer."""
    adjacency = graph.adjacency.copy()
    for i, j in np.concatenate([edges, edges[:, ::-1]]):
        row = slice(adjacency.indptr[i], adjacency.indptr[i + 1])
        adjacency.data[row][adjacency.indices[row] == j] = 0
    adjacency.eliminate_zeros()
    return Graph(adjacency)


def draw(s: Settings, rows: list[Row]) -> Any:
    """Accuracy against edges removed."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(s.kinds), figsize=(4.8 * len(s.kinds), 3.8), layout="constrained", squeeze=False)
    for axis, what in zip(axes[0], s.kinds, strict=True):
        for dataset in SETS[what]:
            for k, method in enumerate((u.OURS, u.RETRAINED)):
                mine = chosen(rows, what=what, dataset=dataset, method=method, absent=False)
                if mine:
                    axis.plot([r["removed"] for r in mine], [r["accuracy"] for r in mine], "o-", color=f"C{k}",
                              label=f"{dataset}, {method}")  # fmt: skip
        axis.set(title=what, xlabel="edges removed", ylabel="test accuracy [%]")
        if axis.lines:
            axis.legend(fontsize=8)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    found = []
    for what, claim in ((PERCEPTRON, "perceptron"), (CHEBYSHEV, "chebnet"), (ADVERSARIAL, "adversarial")):
        holds, told = [], []
        for dataset in SETS[what]:
            ours, anew = (chosen(rows, what=what, dataset=dataset, method=m, absent=False) for m in (u.OURS, u.RETRAINED))
            if ours and anew:
                first, last, end = ours[0]["accuracy"], ours[-1]["accuracy"], anew[-1]["accuracy"]
                times = [float(np.mean([r["total"] for r in mine[1:]])) for mine in (ours, anew)]
                good = last > first if what == ADVERSARIAL else times[0] < times[1]
                holds += [good, abs(last - end) < 1]
                told.append(f"{dataset} {first:.2f} to {last:.2f} %, trained anew {end:.2f} %; {times[0]:.2f} s a batch, "
                            f"trained anew {times[1]:.2f} s")  # fmt: skip
        missing = sorted({row["dataset"] for row in chosen(rows, what=what, absent=True)})
        why = f"Not run: {', '.join(missing)}, not here." if missing else ""
        found.append(Verdict(claim, grade(holds), "; ".join(told) or "not run", why))
    return found


FIGURE = Figure(
    "unlearning-deep", "Heads without a certificate", Settings(),
    Settings(batches=2, hidden=32, epochs=20, more=5, scale=0.01),
    points, compute, draw, judge, **u.PARTS,
)  # fmt: skip
