"""Heads without a certificate: a perceptron (Table 2), ChebNetII (Table 14), and adversarial edges behind them (Figure 6).

ogbn-papers100M (Table 2) runs alone, where the memory is there: ``--set kinds=perceptron --set datasets=ogbn-papers100M``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _unlearning as u
from experiments._figure import Figure, Point, Row, Verdict, chosen, grade, instead
from experiments._unlearning_perceptron import TrainedFurther
from nareg._core import checks
from nareg.errors import DatasetNotFoundError
from nareg.graph import Graph

PERCEPTRON, CHEBYSHEV, ADVERSARIAL = "perceptron", "ChebNetII", "adversarial edges"
BASES = {PERCEPTRON: "gpr", CHEBYSHEV: "chebyshev", ADVERSARIAL: "gpr"}
PAPERS = "ogbn-papers100M"
#: Data set and edges per request, of a made-up graph too.
SETS = {
    PERCEPTRON: {"made up, products' size": 1000, "ogbn-products": 1000, PAPERS: 2000},
    CHEBYSHEV: {"made up, arxiv's size": 25, "ogbn-arxiv": 25},
    ADVERSARIAL: {"cora": 100},
}
#: Accuracy before any removal, seconds of a batch: retrained, updated.
PUBLISHED = {PERCEPTRON: ((74.16, 174.23), (74.25, 14.19)), CHEBYSHEV: ((71.99, 58.51), (71.99, 5.84))}
#: As many epochs as the updates have in all, on the graph with all edges; trained once, on the graph that never had them.
UNCHANGED, CLEAN = "nothing removed", "never added"
#: What is not as in the paper.
OTHERWISE = (
    "Features standardized. Updates are {more} more epochs of Adam, for {epochs} of training (the paper's program: a Newton "
    "step on every parameter; hidden layers of 1,024, a noise term)."
)
#: The published program does not update by epochs.
BY_EPOCHS = "by epochs of Adam, not a Newton step"


@dataclass(frozen=True)
class Settings:
    """Five batches of edges; on Cora 500 adversarial ones by the hundred, ``trials`` times (the paper: larger graphs)."""

    kinds: tuple[str, ...] = (ADVERSARIAL, CHEBYSHEV, PERCEPTRON)
    datasets: tuple[str, ...] = tuple(sorted({name for sets in SETS.values() for name in sets} - {PAPERS}))
    batches: int = 5
    trials: int = 5
    hidden: int = 256
    epochs: int = 200
    more: int = 20
    scale: float = 1.0
    seed: int = 0
    device: str | None = None


def points(s: Settings) -> list[Point]:
    for name in s.datasets:
        checks.choice("datasets", name, [known for sets in SETS.values() for known in sets])
    return [
        {"what": what, "dataset": dataset, "method": method, "trial": trial}
        for what in s.kinds for dataset in SETS[what] if dataset in s.datasets
        for trial in range(s.trials if what == ADVERSARIAL else 1)
        for method in (u.OURS, u.RETRAINED, *((UNCHANGED, CLEAN) if what == ADVERSARIAL else ()))
    ]  # fmt: skip


def compute(s: Settings, point: Point) -> list[Row]:
    """Retrained: propagated and trained from nothing on what remains in the end."""
    what, method, seed = point["what"], point["method"], [s.seed, point["trial"]]
    rng = np.random.default_rng(seed)
    try:
        clean = u.standardized(u.large(point["dataset"], s.scale))
    except DatasetNotFoundError:
        return [{"removed": None, "absent": True}]
    size = max(1, round(s.scale * SETS[what][point["dataset"]]))
    if what == ADVERSARIAL:
        data, edges = clean.with_adversarial_edges(s.batches * size, rng)
    else:
        data, edges = clean, clean.vulnerable_edges(s.batches * size, rng)
    retained: Row = {"absent": False, "total": None, "propagation": None}
    if method in (UNCHANGED, CLEAN):
        graph, epochs = (data.graph, s.epochs + s.batches * s.more) if method == UNCHANGED else (clean.graph, s.epochs)
        model, _ = fitted(s, what, data, graph, seed, epochs=epochs)
        return [retained | {"removed": 0, "accuracy": data.accuracy(model)}]
    if method == u.RETRAINED:
        model, total = fitted(s, what, data, without(data.graph, edges), seed)
        classes = np.unique(data.labels[data.train]).size
        return [retained | {"removed": len(edges), "accuracy": data.accuracy(model), "total": total, "classes": classes}]
    model, _ = fitted(s, what, data, data.graph, seed)
    rows: list[Row] = [retained | {"removed": 0, "accuracy": data.accuracy(model)}]
    for last in range(size, len(edges) + 1, size):
        seconds = model.remove_edges(edges[last - size : last]).timings
        rows.append(retained | {
            "removed": last, "accuracy": data.accuracy(model), "total": sum(seconds.values()),
            "propagation": seconds["propagation"],
        })  # fmt: skip
    return rows


def fitted(
    s: Settings, what: str, data: u.Loaded, graph: Graph, seed: list[int], *, epochs: int | None = None
) -> tuple[TrainedFurther, float]:
    """And the seconds that it took."""
    start = time.perf_counter()
    model = TrainedFurther(
        basis=BASES[what],
        hidden=s.hidden,
        epochs=epochs or s.epochs,
        update_epochs=s.more,
        device=s.device,
        rng=np.random.default_rng([*seed, 1]),
    )
    with u.quietly():
        model.fit(graph, data.features, data.labels, data.train)
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
        for k, dataset in enumerate(SETS[what]):
            for method, mark in ((u.OURS, "o-"), (u.RETRAINED, "s")):
                here = {"what": what, "dataset": dataset, "method": method, "absent": False}
                removed = sorted({row["removed"] for row in chosen(rows, **here)})
                if removed:
                    values = [u.mean(rows, "accuracy", removed=n, **here) for n in removed]
                    axis.plot(removed, values, mark, color=f"C{k}", label=f"{dataset}, {method}", alpha=0.7)
            for method, color in ((UNCHANGED, "C2"), (CLEAN, "C3")):
                if chosen(rows, what=what, dataset=dataset, method=method, absent=False):
                    value = u.mean(rows, "accuracy", what=what, dataset=dataset, method=method)
                    axis.axhline(value, color=color, linewidth=1, label=f"{dataset}, {method}")
        axis.set(title=what, xlabel="edges removed", ylabel="test accuracy [%]")
        if axis.lines:
            axis.legend(fontsize=8)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    result = []
    for what, claim in ((PERCEPTRON, "perceptron"), (CHEBYSHEV, "chebnet")):
        holds, texts = [], []
        for dataset in SETS[what]:
            ours, anew = (chosen(rows, what=what, dataset=dataset, method=m, absent=False) for m in (u.OURS, u.RETRAINED))
            if ours and anew:
                times = [u.median(mine, "total") for mine in (ours, anew)]
                learned = anew[-1]["accuracy"] > 2 * 100 / anew[-1]["classes"]  # above a constant answer
                holds += [times[0] < times[1], learned, abs(ours[-1]["accuracy"] - anew[-1]["accuracy"]) < 1]
                texts.append(f"{dataset} {ours[0]['accuracy']:.2f} to {ours[-1]['accuracy']:.2f} %, {times[0]:.2f} s per "
                            f"batch, {u.median(ours, 'propagation'):.2f} s of it propagation; "
                            f"retrained {anew[-1]['accuracy']:.2f} %, {times[1]:.2f} s")  # fmt: skip
        (accuracy_anew, seconds_anew), (accuracy, seconds) = PUBLISHED[what]
        texts.append(f"published {accuracy} % before, {seconds} s; retrained {accuracy_anew} %, {seconds_anew} s")
        verdict = Verdict(claim, grade(holds), "; ".join(texts) + ".", f"{_otherwise(s)}{_absent(rows, what)}")
        stands_in = u.stands_in(name for name in SETS[what] if chosen(rows, dataset=name, absent=False))
        result.append(instead(verdict, f"{stands_in} {BY_EPOCHS}".lstrip()))
    holds, texts = [], []
    for dataset in SETS[ADVERSARIAL]:
        here = {"what": ADVERSARIAL, "dataset": dataset, "absent": False}
        if not chosen(rows, **here):
            continue
        last = max(row["removed"] for row in chosen(rows, **here))
        first, end = (u.mean(rows, "accuracy", method=u.OURS, removed=n, **here) for n in (0, last))
        again = u.mean(rows, "accuracy", method=u.RETRAINED, removed=last, **here)
        same, clean = (u.mean(rows, "accuracy", method=m, **here) for m in (UNCHANGED, CLEAN))
        holds.append(clean > same and end - same > 0.5 * (clean - same))
        texts.append(f"{dataset} {first:.1f} to {end:.1f} % (retrained {again:.1f}); as many epochs, {UNCHANGED} {same:.1f}, "
                    f"{CLEAN} {clean:.1f}")  # fmt: skip
    why = f"More than half of what the edges cost has to come back, beyond what the epochs alone bring. {_otherwise(s)}"
    verdict = Verdict("adversarial", grade(holds), ("; ".join(texts) or "not run") + ".", why + _absent(rows, ADVERSARIAL))
    result.append(instead(verdict, f"on cora alone {BY_EPOCHS}"))
    return result


def _otherwise(s: Settings) -> str:
    return OTHERWISE.format(more=s.more, epochs=s.epochs)


def _absent(rows: list[Row], what: str) -> str:
    missing = sorted({row["dataset"] for row in chosen(rows, what=what, absent=True)})
    return f" Not run: {', '.join(missing)}, not here." if missing else ""


FIGURE = Figure(
    "unlearning-deep", "Heads without a certificate", Settings(),
    Settings(batches=2, trials=1, hidden=32, epochs=20, more=5, scale=0.01),
    points, compute, draw, judge, **u.PARTS,
)  # fmt: skip
