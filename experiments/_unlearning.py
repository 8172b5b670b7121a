"""What the experiments on unlearning have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

import nareg
from experiments._figure import Row, Verdict, chosen, grade
from nareg.datasets import node_classification
from nareg.errors import InputError
from nareg.unlearning import Certificate, CertifiedGPR
from nareg.unlearning.comparison import CERTIFIED
from nareg.unlearning.forgetting import Forgetting

#: What the figures of this kind rest on (see Figure).
PARTS: dict[str, Any] = {"helpers": ("_unlearning",), "apart_from": ("design", "baselines", "gnn")}
OURS, RETRAINED, CGU, CEU = "nareg", "retrained", "CGU", "CEU"
METHODS: dict[str, type[CertifiedGPR]] = CERTIFIED
#: lam and alpha of the paper's Table 5.
PUBLISHED = {"cora": (1e-2, 0.1), "citeseer": (1e-2, 0.1), "amazon-photo": (1e-4, 3.0)}
LARGE = 1e-4, 0.1


@dataclass(frozen=True)
class Size:
    """Of a made-up graph, after a data set: the same numbers of nodes, classes and features, about as many edges, an exponent
    that gives about its largest degree, and the split of the paper's Table 4.

    Accuracies on it say nothing of those on the data set itself.
    """

    like: str
    nodes: int
    degree: float
    features: int
    classes: int
    exponent: float
    informative: float
    train: int
    test: int


MADE_UP = {
    "made up, arxiv's size": Size("ogbn-arxiv", 169_343, 13.9, 128, 40, 2.5, 0.05, 90_941, 48_603),
    "made up, products' size": Size("ogbn-products", 2_449_029, 50.8, 100, 47, 3.3, 0.01, 196_615, 2_213_091),
}


@dataclass(frozen=True, eq=False)
class Loaded:
    """A data set as the paper has it: features as published, everything trained on but for validation and test."""

    name: str
    graph: Any
    features: np.ndarray
    labels: np.ndarray
    train: np.ndarray
    test: np.ndarray

    def fitted(self, method: str, rng: np.random.Generator, **told: Any) -> CertifiedGPR:
        """A model with the published settings, those apart that are told."""
        lam, alpha = PUBLISHED.get(self.name, LARGE)
        return METHODS[method](**{"lam": lam, "alpha": alpha, "rng": rng, **told}).fit(
            self.graph, self.features, self.labels, self.train, classes=np.unique(self.labels[self.labels >= 0])
        )

    def accuracy(self, model: Forgetting[Any]) -> float:
        """In per cent, at the test nodes."""
        return 100 * float((model.predict(self.test) == self.labels[self.test]).mean())

    def edges(self, rng: np.random.Generator) -> np.ndarray:
        """All edges in a random order."""
        upper = sp.triu(self.graph.adjacency, format="coo")
        return rng.permutation(np.stack([upper.row, upper.col], axis=1))

    def vulnerable_edges(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Random ones from a test node of low degree (below 10, or in the lowest tenth) to a node of its class."""
        degrees = np.diff(self.graph.adjacency.indptr)
        vulnerable = np.zeros(degrees.size, dtype=bool)
        vulnerable[self.test] = degrees[self.test] <= max(9, np.quantile(degrees, 0.1))
        upper = sp.triu(self.graph.adjacency, format="coo")
        u, v = upper.row, upper.col
        kept = (vulnerable[u] | vulnerable[v]) & (self.labels[u] == self.labels[v])
        found = np.stack([u[kept], v[kept]], axis=1)
        if len(found) < count:
            raise InputError(f"count is {count}, but {self.name} has {len(found)} such edges.")
        return rng.permutation(found)[:count]

    def with_adversarial_edges(
        self, count: int, rng: np.random.Generator, *, targets: np.ndarray | None = None
    ) -> tuple[Loaded, np.ndarray]:
        """The data with so many edges more, between random nodes of unlike classes (an end in ``targets``); and these."""
        n, upper = self.labels.size, sp.triu(self.graph.adjacency, format="coo")
        held = np.stack([upper.row, upper.col], axis=1).astype(np.int64)
        added = np.empty((0, 2), dtype=np.int64)
        while len(added) < count:
            ends = rng.integers(n, size=(2 * count, 2))
            if targets is not None:
                ends[:, 0] = rng.choice(targets, len(ends))
            ends = np.sort(ends, axis=1)
            ends = ends[(ends[:, 0] != ends[:, 1]) & (self.labels[ends[:, 0]] != self.labels[ends[:, 1]])]
            new = ends[~np.isin(code(ends, n), code(np.concatenate([held, added]), n))]
            _, first = np.unique(code(new, n), return_index=True)
            added = np.concatenate([added, new[np.sort(first)]])[:count]
        every = np.concatenate([held, added])
        graph = joined(np.concatenate([every, every[:, ::-1]]), n)
        return replace(self, graph=graph), added


def code(edges: np.ndarray, n_nodes: int) -> np.ndarray:
    """A number for each ordered pair."""
    found: np.ndarray = edges[:, 0].astype(np.int64) * n_nodes + edges[:, 1]
    return found


def joined(pairs: np.ndarray, n_nodes: int) -> nareg.Graph:
    """The graph of edges that are given in both directions."""
    return nareg.Graph(sp.csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n_nodes, n_nodes)))


@lru_cache(maxsize=1)  # the largest take gigabytes
def large(name: str, scale: float = 1.0) -> Loaded:
    """A made-up graph, or a user's own data set; ``scale`` times as many nodes of the former."""
    if name not in MADE_UP:
        return loaded.__wrapped__(name)  # which would keep it
    size, rng = MADE_UP[name], np.random.default_rng(0)
    n = round(scale * size.nodes)
    data = node_classification.synthetic(
        n, size.classes, n_features=size.features, mean_degree=size.degree, homophily=0.65,
        informative=size.informative, exponent=size.exponent, rng=rng,
    )  # fmt: skip
    train, rest = np.split(rng.permutation(n), [round(scale * size.train)])
    return Loaded(name, data.graph, data.dense_features(), data.labels, train, rest[-round(scale * size.test) :])


@cache
def loaded(name: str) -> Loaded:
    """500 nodes for validation, 1,000 to test: the public ones of Cora and Citeseer, random ones (always the same) of Photo."""
    data = nareg.datasets.load(name)
    known = np.flatnonzero(data.labels >= 0)
    if data.splits:
        _, val, test = data.splits[0]
    else:
        val, test = np.split(np.random.default_rng(0).permutation(known)[:1500], [500])
    train = np.setdiff1d(known, np.concatenate([val, test]))
    return Loaded(name, data.graph, data.dense_features().astype(float), data.labels, train, test)


def mean(rows: list[Row], key: str, **keys: Any) -> float:
    """Of a column, rows without a value left out."""
    values = [row[key] for row in chosen(rows, **keys) if row[key] is not None]
    return float(np.mean(values)) if values else float("nan")


def removed_in_parts(
    data: Loaded, model: CertifiedGPR, what: np.ndarray, remove: Callable[[np.ndarray], Certificate], *, every: int, timed: int
) -> list[Row]:
    """A row before any removal and one after every ``every``: accuracy, mean seconds of a removal by itself, budget.

    ``timed`` of each part are removed one by one, the rest of it at once.
    """
    rows: list[Row] = [{"removed": 0, "accuracy": data.accuracy(model), "total": None, "propagation": None}]
    for first in range(0, len(what), every):
        part = what[first : first + every]
        alone = [remove(part[i : i + 1]) for i in range(min(timed, len(part)))]
        told = alone + ([remove(part[timed:])] if timed < len(part) else [])
        rows.append({
            "removed": first + len(part), "accuracy": data.accuracy(model),
            "total": float(np.mean([sum(one.seconds.values()) for one in alone])),
            "propagation": float(np.mean([one.seconds["propagation"] for one in alone])),
            "spent": max(one.spent / one.budget for one in told), "retrained": sum(one.retrained for one in told),
        })  # fmt: skip
    return rows


def against_published(rows: list[Row], published: tuple[float, ...], every: int, **keys: Any) -> tuple[list[bool], str]:
    """Whether our accuracy after 0, ``every``, ... removals is within 3 points of what is published, where there is any."""
    near, cells = [], []
    for k, known in enumerate(published):
        if chosen(rows, method=OURS, removed=every * k, **keys):
            found = mean(rows, "accuracy", method=OURS, removed=every * k, **keys)
            near.append(abs(found - known) < 3)
            cells.append(f"{found:.1f} ({known:.1f})")
    return near, ", ".join(cells)


def compared_times(rows: list[Row], methods: tuple[str, ...], **keys: Any) -> tuple[bool, str]:
    """Whether a removal, and propagation in it, take us less time than all others; and all the times, medians of the rows'.

    What is run first is compiled first: a mean would have that in it.
    """
    total, share = (
        {m: float(np.median([row[key] for row in chosen(rows, method=m, **keys) if row[key] is not None])) for m in methods}
        for key in ("total", "propagation")
    )
    faster = all(total[OURS] < total[m] and share[OURS] < share[m] for m in methods if m != OURS)
    return faster, ", ".join(f"{m} {1e3 * total[m]:.0f} ms ({1e3 * share[m]:.1f})" for m in methods)


def compared_tables(
    rows: list[Row],
    key: str,
    published: dict[str, dict[str, tuple[tuple[float, ...], float, float]]],
    every: int,
    methods: tuple[str, ...],
    names: tuple[str, ...],
) -> tuple[Verdict, Verdict]:
    """Accuracies with those published, and times with those of the other methods, of every table, by its name under ``key``."""
    near, told, faster, times = [], [], [], []
    for name in names:
        good, cells = against_published(rows, published[name][OURS][0], every, **{key: name})
        first, seconds = compared_times(rows, methods, **{key: name})
        near += good
        told.append(f"{name} {cells}")
        faster.append(first)
        times.append(f"{name} {seconds}")
    after = f"With nareg after 0, {every}, ... removals (published): {'; '.join(told)} %."
    return (
        Verdict("accuracy", grade(near), after),
        Verdict("faster", grade(faster), "A removal (propagation in it): " + "; ".join(times) + "."),
    )
