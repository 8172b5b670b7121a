"""Batches removed at the size of ogbn-arxiv and ogbn-products: Tables 1, 7, 10 and 11, and Figure 4.

ogbn-papers100M (Figure 1, Tables 1, 9 and 11) runs alone, where the memory is there:
``--set datasets=ogbn-papers100M --set methods=nareg,retrained``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _unlearning as u
from experiments._figure import Figure, Point, Row, Verdict, chosen, grade, instead
from nareg.errors import DatasetNotFoundError
from nareg.unlearning import CertifiedGPR

EDGES, SMALL_DELTA, NODES, FEATURES, LARGER, MOST, MOST_FEATURES = (
    "edges", "edges, delta = 1/edges", "nodes", "features", "larger batches of nodes", "most of the training nodes",
    "features of most of the training nodes",
)  # fmt: skip
#: Seconds of a batch, and of propagation in it, published with C++ on 40 threads and a GPU: Tables 1, 11 and 7.
PUBLISHED: dict[str, dict[str, u.Times]] = {
    "ogbn-arxiv": {
        EDGES: {u.RETRAINED: (2.66, 1.73), u.CGU: (2.28, 1.68), u.CEU: (2.08, 1.68), u.OURS: (0.91, 0.70)},
        SMALL_DELTA: {u.RETRAINED: (2.66, 1.73), u.OURS: (1.08, 0.85)},
        FEATURES: {u.RETRAINED: (2.59, 1.55), u.CGU: (2.33, 1.56), u.OURS: (1.49, 0.77)},
        NODES: {u.RETRAINED: (2.66, 1.66), u.CGU: (2.04, 1.43), u.OURS: (1.38, 0.81)},
    },
    "ogbn-products": {
        EDGES: {u.RETRAINED: (101.90, 98.48), u.CGU: (92.37, 91.24), u.CEU: (95.79, 94.63), u.OURS: (8.76, 8.35)},
        SMALL_DELTA: {u.RETRAINED: (101.90, 98.48), u.OURS: (11.69, 10.81)},
    },
}
#: Tables 1, 9 and 11, in all and in propagation; of removed nodes and features what the claim says.
PAPERS = "ogbn-papers100M"
PUBLISHED_PAPERS: dict[str, u.Times] = {
    EDGES: {u.RETRAINED: (6764.31, 6703.44), u.OURS: (53.51, 6.14)},
    SMALL_DELTA: {u.RETRAINED: (6764.31, 6703.44), u.OURS: (54.79, 9.02)},
}
#: Nodes a batch -> seconds of it on ogbn-products, and of training anew after 1,000: Table 10.
LARGER_PUBLISHED = {1000: 24.00, 3000: 39.07, 5000: 45.58, 10000: 56.14}
ANEW_PUBLISHED = 92.44
#: Accuracy before any removal.
BEFORE = {"ogbn-arxiv": 57.84, "ogbn-products": 56.23}
#: Seconds that differ by this share are taken for the same.
CLOCK = 0.05
#: Edges, nodes or features a request.
BATCH = {"ogbn-arxiv": 25, "ogbn-products": 1000, PAPERS: 2000}


@dataclass(frozen=True)
class Settings:
    """Made-up graphs of a size, and the data sets themselves where a user has them; five batches, once (the paper: five times).
    Figure 4: 50 batches of 1,000 on ogbn-arxiv's size (the paper: batches of 25, and ogbn-products).
    """

    datasets: tuple[str, ...] = (*u.MADE_UP, *PUBLISHED)
    methods: tuple[str, ...] = tuple(u.METHODS)
    batches: int = 5
    larger: tuple[int, ...] = (1000, 3000, 5000, 10000)
    most: int = 50_000
    of_most: int = 1000
    scale: float = 1.0
    seed: int = 0
    device: str | None = None


def points(s: Settings) -> list[Point]:
    result: list[Point] = []
    for dataset in s.datasets:
        few = [method for method in s.methods if method in (u.OURS, u.RETRAINED)]
        kinds = {EDGES: s.methods, SMALL_DELTA: few}
        if like(dataset) == "ogbn-arxiv":
            kinds |= {kind: [method for method in s.methods if method != u.CEU] for kind in (NODES, FEATURES)}
            kinds |= {MOST: few, MOST_FEATURES: few}
        if dataset == PAPERS:
            kinds |= {NODES: few, FEATURES: few}
        result += [
            {"what": what, "dataset": dataset, "method": method,
             "batch": s.of_most if what in (MOST, MOST_FEATURES) else batch(s, dataset)}
            for what, methods in kinds.items() for method in methods
        ]  # fmt: skip
        if like(dataset) == "ogbn-products":
            sizes = [max(1, round(s.scale * size)) for size in s.larger]
            result += [{"what": LARGER, "dataset": dataset, "method": u.OURS, "batch": size} for size in sizes]
            result.append({"what": LARGER, "dataset": dataset, "method": u.RETRAINED, "batch": sizes[0]})
    return result


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
    options: dict[str, Any] = {}
    if what == SMALL_DELTA:
        options = {"delta": 1 / (data.graph.adjacency.nnz // 2)}
    model = data.fitted(method, np.random.default_rng([s.seed, 1]), device=s.device, **options)
    if what in (EDGES, SMALL_DELTA):
        asked: np.ndarray = data.vulnerable_edges(s.batches * size, rng).reshape(-1, size, 2)
    else:
        most = what in (MOST, MOST_FEATURES)
        count = round(s.scale * s.most) // size if most else s.batches
        # of those that train from nothing five requests in the place of fifty say how well they end
        rows = s.batches if most and method != u.OURS else count
        asked = rng.permutation(data.train)[: count * size].reshape(rows, -1)
    return u.removed_in_parts(data, model, asked, remover(model, what), every=1, timed=1)


def remover(model: CertifiedGPR, what: str) -> Callable[[np.ndarray], Any]:
    """What takes back the first of an array of batches."""
    if what in (EDGES, SMALL_DELTA):
        return lambda batches: model.remove_edges(batches[0])
    if what in (FEATURES, MOST_FEATURES):
        return lambda batches: model.remove_features(batches[0], labels=True)
    return lambda batches: model.remove_nodes(batches[0])


def draw(s: Settings, rows: list[Row]) -> Any:
    """Seconds of a batch of edges; seconds against its size; accuracy when most of the training nodes go."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(18, 3.9), layout="constrained")
    run = [dataset for dataset in s.datasets if done(rows, what=EDGES, dataset=dataset)]
    for axis, name in zip(axes, PUBLISHED, strict=False):
        shown = [dataset for dataset in run if like(dataset) == name]
        for k, dataset in enumerate(shown):
            for j, method in enumerate(s.methods):
                here = {"what": EDGES, "dataset": dataset, "method": method}
                u.draw_times(axis, j + 0.3 * k, rows, PUBLISHED[name][EDGES][method] if k == 0 else None, **here)
        axis.set(yscale="log", title=", ".join(shown), ylabel="seconds per batch of edges", xlabel=u.MARKS)
        axis.set_xticks(range(len(s.methods)), s.methods)
    for dataset in run:
        larger = done(rows, what=LARGER, dataset=dataset)
        mine = chosen(larger, method=u.OURS)
        sizes = sorted({row["batch"] for row in mine})
        if sizes:
            for key, line in (("total", "-"), ("propagation", ":")):
                label = f"{dataset}: {'in all' if key == 'total' else key}"
                axes[2].plot(sizes, [u.median(mine, key, batch=size) for size in sizes], "o" + line, label=label)
            again = u.median(larger, "total", method=u.RETRAINED)
            axes[2].plot(sizes[0], again, "s", color="C3", label=f"{dataset}: {u.RETRAINED}")
    if s.scale == 1:
        axes[2].plot(list(LARGER_PUBLISHED), list(LARGER_PUBLISHED.values()), "kx", label="published, in all")
        axes[2].plot(1000, ANEW_PUBLISHED, "k+", label=f"published, {u.RETRAINED}")
    for k, (dataset, what) in enumerate((d, w) for d in run for w in (MOST, MOST_FEATURES)):
        for method, line in ((u.OURS, "-"), (u.RETRAINED, ":")):
            mine = done(rows, what=what, dataset=dataset, method=method)
            if mine:
                removed = [row["removed"] * s.scale * s.most / mine[-1]["removed"] for row in mine]
                label = f"{'nodes' if what == MOST else 'features'}, {method}"
                axes[3].plot(removed, [row["accuracy"] for row in mine], "o" + line, markersize=3, color=f"C{k}", label=label)
    axes[2].set(xlabel="nodes per batch", ylabel="seconds per batch", title="larger batches", ylim=(0, None))
    axes[3].set(xlabel="training nodes removed", ylabel="test accuracy [%]", title="most of the training nodes (arxiv's size)")
    for axis in axes[2:]:
        if axis.lines:
            axis.legend(fontsize=7)
    return figure


def done(rows: list[Row], **keys: Any) -> list[Row]:
    """Rows of what was run."""
    return [row for row in chosen(rows, **keys) if row.get("refused") is None]


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    near, texts, faster, times, level, drift = [], [], [], [], [], []
    for dataset in s.datasets:
        if not done(rows, what=EDGES, dataset=dataset):
            continue
        for what in (EDGES, SMALL_DELTA, NODES, FEATURES):
            here = done(rows, what=what, dataset=dataset)
            if here:
                methods = tuple(method for method in s.methods if done(here, method=method))
                published = PUBLISHED_PAPERS if dataset == PAPERS else PUBLISHED[like(dataset)]
                first, seconds = u.compared_times(here, methods, published.get(what))
                faster += first
                times.append(f"{dataset}, {what}: {seconds}")
                (before, *_, after), (*_, anew) = (chosen(here, method=method) for method in (u.OURS, u.RETRAINED))
                level.append(abs(after["accuracy"] - anew["accuracy"]) < 0.1)
                drift.append(f"{dataset}, {what} {before['accuracy']:.2f} to {after['accuracy']:.2f} ({anew['accuracy']:.2f})")
        if dataset in BEFORE:
            result = u.mean(rows, "accuracy", what=EDGES, dataset=dataset, method=u.OURS, removed=0)
            near.append(abs(result - BEFORE[dataset]) < 3)
            texts.append(f"{dataset} {result:.2f} ({BEFORE[dataset]})")
    run = [dataset for dataset in s.datasets if done(rows, what=EDGES, dataset=dataset)]
    missing = [dataset for dataset in s.datasets if dataset not in run]
    why = f"Not run: {', '.join(missing)}, not here." if missing else ""

    def on(what: str) -> str:
        return u.stands_in(dataset for dataset in run if done(rows, what=what, dataset=dataset))

    cheaper, sizes = [], []
    for dataset in s.datasets:
        here = done(rows, what=LARGER, dataset=dataset)
        if here:
            again, mine = u.median(here, "total", method=u.RETRAINED), chosen(here, method=u.OURS)
            costs = {size: u.median(mine, "total", batch=size) for size in sorted({row["batch"] for row in mine})}
            cheaper += [cost < (1 - CLOCK) * again for cost in costs.values()]
            cells = [f"{n}: {cost:.1f} s ({LARGER_PUBLISHED.get(n, 'not run')})" for n, cost in costs.items()]
            sizes.append(f"{dataset} {', '.join(cells)}, retrained {again:.1f} s ({ANEW_PUBLISHED})")
    alike, ends = [], []
    for dataset in s.datasets:
        for what in (MOST, MOST_FEATURES):
            last = {m: here[-1]["accuracy"] for m in s.methods if (here := done(rows, what=what, dataset=dataset, method=m))}
            if last:
                ends.append(f"{dataset}, {what}: " + ", ".join(f"{method} {value:.2f}" for method, value in last.items()))
                alike.append(len(last) == 2 and abs(last[u.OURS] - last[u.RETRAINED]) < 1)
    verdicts = [
        (EDGES, Verdict("faster", grade(faster), "A batch (propagation in it): " + ". ".join(times) + ".",
                f"{u.SOLVERS} Vulnerable edges: of test nodes with fewer than 10 neighbors, or in the lowest tenth.")),
        (EDGES, Verdict("kept", grade(level),
                f"Accuracy with nareg before and after batches (retrained): {'; '.join(drift)} %.",
                "A difference to retraining of less than 0.1 is asked for; made-up graphs stand for the data sets.")),
        (LARGER, Verdict("larger", grade(cheaper),
                f"Seconds of a batch by nodes in it (published): {'; '.join(sizes) or 'not run'}.",
                f"A difference of less than {100 * CLOCK:g} % is none.")),
        (MOST, Verdict("most", grade(alike),
                f"Accuracy when most of the training nodes are gone: {'; '.join(ends) or 'not run'} %.",
                f"In batches of {s.of_most}.")),
    ]  # fmt: skip
    accuracy = "; ".join(texts) or "real data alone can tell"
    return [
        instead(Verdict("accuracy", grade(near), f"Before any removal (published): {accuracy}.", why),
                f"on {' and '.join(name for name in run if name in BEFORE)} alone" if missing else ""),
        *(instead(verdict, on(what)) for what, verdict in verdicts),
        papers_verdict(rows),
    ]  # fmt: skip


def papers_verdict(rows: list[Row]) -> Verdict:
    """The verdict on ogbn-papers100M."""
    faster, texts = [], []
    for what in (FEATURES, NODES):
        here = done(rows, what=what, dataset=PAPERS)
        if here:
            first, seconds = u.compared_times(here, (u.OURS, u.RETRAINED))
            faster += first
            texts.append(f"{what}: {seconds}")
    absent = f"{PAPERS}: 111 million nodes, whose propagation alone takes 340 GB."
    return Verdict("papers", grade(faster), f"A batch (propagation in it): {'. '.join(texts)}." if texts else absent)


FIGURE = Figure(
    "unlearning-large", "Batches removed from large graphs", Settings(),
    Settings(datasets=("made up, arxiv's size", "made up, products' size", "ogbn-products"), batches=2,
             larger=(1000, 3000), of_most=10, scale=0.01),
    points, compute, draw, judge, **u.PARTS,
)  # fmt: skip
