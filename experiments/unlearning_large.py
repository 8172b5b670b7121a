"""Batches taken back at the size of ogbn-arxiv and ogbn-products: Tables 1, 7, 10 and 11, and Figure 4."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _unlearning as u
from experiments._figure import Figure, Point, Row, Verdict, chosen, grade
from nareg.errors import DatasetNotFoundError
from nareg.unlearning import CertifiedGPR

EDGES, SMALL_DELTA, NODES, FEATURES, LARGER, MOST = (
    "edges", "edges, delta = 1/edges", "nodes", "features", "larger batches of nodes", "most of the training nodes",
)  # fmt: skip
#: Seconds of a batch of edges, and of propagation in it, published with C++ on 32 threads: Table 1.
PUBLISHED: dict[str, dict[str, tuple[float, float]]] = {
    "ogbn-arxiv": {u.RETRAINED: (2.66, 1.73), u.CGU: (2.28, 1.68), u.CEU: (2.08, 1.68), u.OURS: (0.91, 0.70)},
    "ogbn-products": {u.RETRAINED: (101.90, 98.48), u.CGU: (92.37, 91.24), u.CEU: (95.79, 94.63), u.OURS: (8.76, 8.35)},
}
#: Accuracy before any removal.
BEFORE = {"ogbn-arxiv": 57.84, "ogbn-products": 56.23}
#: Edges, nodes or features a request.
BATCH = {"ogbn-arxiv": 25, "ogbn-products": 1000}


@dataclass(frozen=True)
class Settings:
    """Made-up graphs of a size, and the data sets themselves where a user has them; five batches (Figure 4: 50 of 1,000)."""

    datasets: tuple[str, ...] = (*u.MADE_UP, *PUBLISHED)
    methods: tuple[str, ...] = tuple(u.METHODS)
    batches: int = 5
    larger: tuple[int, ...] = (1000, 3000, 5000, 10000)
    most: int = 50_000
    of_most: int = 1000
    scale: float = 1.0
    seed: int = 0


def points(s: Settings) -> list[Point]:
    found: list[Point] = []
    for dataset in s.datasets:
        few = [method for method in s.methods if method in (u.OURS, u.RETRAINED)]
        kinds = {EDGES: s.methods, SMALL_DELTA: few}
        if like(dataset) == "ogbn-arxiv":
            kinds |= {kind: [method for method in s.methods if method != u.CEU] for kind in (NODES, FEATURES)}
            kinds |= {MOST: few}
        found += [
            {"what": what, "dataset": dataset, "method": method, "batch": s.of_most if what == MOST else batch(s, dataset)}
            for what, methods in kinds.items() for method in methods
        ]  # fmt: skip
        if like(dataset) == "ogbn-products":
            found += [
                {"what": LARGER, "dataset": dataset, "method": u.OURS, "batch": max(1, round(s.scale * size))}
                for size in s.larger
            ]
    return found


def like(dataset: str) -> str:
    """The data set that it is, or is made up after."""
    return u.MADE_UP[dataset].like if dataset in u.MADE_UP else dataset


def batch(s: Settings, dataset: str) -> int:
    """Of a request; less on a graph that is scaled down."""
    return max(1, round(s.scale * BATCH[like(dataset)]))


def compute(s: Settings, point: Point) -> list[Row]:
    what, method, size = point["what"], point["method"], point["batch"]
    try:
        data = u.large(point["dataset"], s.scale)
    except DatasetNotFoundError:
        return [{"removed": None, "refused": f"not run: {point['dataset']} is not here"}]
    rng = np.random.default_rng(s.seed)
    told: dict[str, Any] = {}
    if what == SMALL_DELTA:
        told = {"delta": 1 / (data.graph.adjacency.nnz // 2)}
    model = data.fitted(method, np.random.default_rng([s.seed, 1]), **told)
    if what in (EDGES, SMALL_DELTA):
        asked: np.ndarray = data.vulnerable_edges(s.batches * size, rng).reshape(-1, size, 2)
    else:
        count = round(s.scale * s.most) // size if what == MOST else s.batches
        # of those that train from nothing five requests in the place of fifty say how well they end
        rows = s.batches if what == MOST and method != u.OURS else count
        asked = rng.permutation(data.train)[: count * size].reshape(rows, -1)
    return u.removed_in_parts(data, model, asked, remover(model, what), every=1, timed=1)


def remover(model: CertifiedGPR, what: str) -> Callable[[np.ndarray], Any]:
    """What takes back the first of an array of batches."""
    if what in (EDGES, SMALL_DELTA):
        return lambda batches: model.remove_edges(batches[0])
    if what == FEATURES:
        return lambda batches: model.remove_features(batches[0], labels=True)
    return lambda batches: model.remove_nodes(batches[0])


def draw(s: Settings, rows: list[Row]) -> Any:
    """Seconds of a batch of edges; seconds against its size; accuracy when most of the training nodes go."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(17, 3.9), layout="constrained")
    run = [dataset for dataset in s.datasets if done(rows, what=EDGES, dataset=dataset)]
    for axis, name in zip(axes, PUBLISHED, strict=False):
        shown = [dataset for dataset in run if like(dataset) == name]
        for k, dataset in enumerate(shown):
            for j, method in enumerate(s.methods):
                place, here = j + 0.4 * (k - (len(shown) - 1) / 2), {"what": EDGES, "dataset": dataset, "method": method}
                axis.bar(place, u.mean(rows, "total", **here), 0.38, color=f"C{j}", alpha=0.4)
                axis.bar(place, u.mean(rows, "propagation", **here), 0.38, color=f"C{j}")
                axis.plot(place, PUBLISHED[name][method][0], "kx")
        axis.set(yscale="log", ylabel="seconds a batch of edges", title=", ".join(shown))
        axis.set_xlabel("dark: propagation in it; crosses: published, other machine")
        axis.set_xticks(range(len(s.methods)), s.methods)
    for dataset in run:
        sizes = sorted({row["batch"] for row in done(rows, what=LARGER, dataset=dataset)})
        if sizes:
            here = {"what": LARGER, "dataset": dataset}
            for key, line in (("total", "-"), ("propagation", ":")):
                axes[2].plot(sizes, [u.mean(rows, key, batch=size, **here) for size in sizes], "o" + line, label=key)
        for k, method in enumerate((u.OURS, u.RETRAINED)):
            mine = done(rows, what=MOST, dataset=dataset, method=method)
            if mine:
                removed = [row["removed"] * s.most / mine[-1]["removed"] for row in mine]
                axes[3].plot(removed, [row["accuracy"] for row in mine], "o-", markersize=3, color=f"C{k}", label=method)
    axes[2].set(xlabel="nodes a batch", ylabel="seconds a batch", title="larger batches (products)", ylim=(0, None))
    axes[3].set(xlabel="training nodes removed", ylabel="test accuracy [%]", title="most of the training nodes (arxiv)")
    for axis in axes[2:]:
        if axis.lines:
            axis.legend(fontsize=8)
    return figure


def done(rows: list[Row], **keys: Any) -> list[Row]:
    """Rows of what was run."""
    return [row for row in chosen(rows, **keys) if row.get("refused") is None]


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    near, told, faster, times, level, drift = [], [], [], [], [], []
    for dataset in s.datasets:
        if not done(rows, what=EDGES, dataset=dataset):
            continue
        for what in (EDGES, SMALL_DELTA, NODES, FEATURES):
            here = done(rows, what=what, dataset=dataset)
            if here:
                methods = tuple(method for method in s.methods if done(here, method=method))
                first, seconds = u.compared_times(here, methods)
                faster.append(first)
                retrained = sum(row.get("retrained") or 0 for row in chosen(here, method=u.OURS))
                times.append(f"{dataset}, {what}: {seconds}, trained anew {retrained} times of {s.batches}")
                mine = chosen(here, method=u.OURS)
                level.append(abs(mine[-1]["accuracy"] - mine[0]["accuracy"]) < 0.5)
                drift.append(f"{dataset}, {what} {mine[0]['accuracy']:.2f} to {mine[-1]['accuracy']:.2f}")
        if dataset in BEFORE:
            found = u.mean(rows, "accuracy", what=EDGES, dataset=dataset, method=u.OURS, removed=0)
            near.append(abs(found - BEFORE[dataset]) < 3)
            told.append(f"{dataset} {found:.2f} ({BEFORE[dataset]})")
    missing = [dataset for dataset in s.datasets if not done(rows, what=EDGES, dataset=dataset)]
    why = f"Not run: {', '.join(missing)}, not here; ogbn-papers100M, whose propagation alone takes 340 GB." if missing else ""
    cheaper, sizes = [], []
    for dataset in s.datasets:
        here = done(rows, what=LARGER, dataset=dataset)
        if here:
            anew = u.mean(rows, "total", what=EDGES, dataset=dataset, method=u.RETRAINED)
            costs = {size: u.mean(here, "total", batch=size) for size in sorted({row["batch"] for row in here})}
            cheaper += [cost < anew for cost in costs.values()]
            sizes.append(f"{dataset} {', '.join(f'{n}: {cost:.1f} s' for n, cost in costs.items())}, trained anew {anew:.1f} s")
    alike, ends = [], []
    for dataset in s.datasets:
        last = {m: here[-1]["accuracy"] for m in s.methods if (here := done(rows, what=MOST, dataset=dataset, method=m))}
        if last:
            ends.append(f"{dataset} " + ", ".join(f"{method} {value:.2f}" for method, value in last.items()))
            alike.append(len(last) == 2 and abs(last[u.OURS] - last[u.RETRAINED]) < 1)
    return [
        Verdict("accuracy", grade(near), "Before any removal (published): " + ("; ".join(told) or "on real data not run"), why),
        Verdict("faster", grade(faster), "A batch (propagation in it): " + "; ".join(times) + "."),
        Verdict("kept", grade(level), "Accuracy with nareg before and after all batches: " + "; ".join(drift) + " %."),
        Verdict("larger", grade(cheaper), f"Seconds of a batch by nodes in it: {'; '.join(sizes) or 'not run'}."),
        Verdict("most", grade(alike), f"Accuracy when most of the training nodes are gone: {'; '.join(ends) or 'not run'} %."),
    ]  # fmt: skip


FIGURE = Figure(
    "unlearning-large", "Batches taken back from large graphs", Settings(),
    Settings(datasets=("made up, arxiv's size", "made up, products' size", "ogbn-products"), batches=2,
             larger=(1000, 3000), of_most=10, scale=0.01),
    points, compute, draw, judge, **u.PARTS,
)  # fmt: skip
