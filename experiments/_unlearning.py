"""Shared parts of the experiments on unlearning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

import nareg
from experiments import _scalegun
from experiments._figure import Row, Verdict, chosen, grade
from experiments._unlearning_compare import CERTIFIED
from nareg.datasets import node_classification
from nareg.errors import InputError, UtilityWarning
from nareg.unlearning import Certificate, CertifiedGPR
from nareg.unlearning.forgetting import Forgetting

#: What the figures of this kind rest on (see Figure).
PARTS: dict[str, Any] = {
    "helpers": (
        "_unlearning", "_scalegun", "_scalegun_bounds", "_unlearning_peers", "_unlearning_network", "_unlearning_influence",
        "_unlearning_mutual", "_unlearning_perceptron", "_gauss_newton",
    ),
    "apart_from": ("design", "baselines", "gnn"),
}  # fmt: skip
OURS, RETRAINED, CGU, CEU, SCALEGUN = "nareg", "retrained", "CGU", "CEU", "ScaleGUN"
METHODS: dict[str, type[CertifiedGPR]] = CERTIFIED
#: What Tables 7 and 8 compare, and nareg.
AS_PUBLISHED: dict[str, type[CertifiedGPR]] = {
    OURS: CertifiedGPR, SCALEGUN: _scalegun.ScaleGUN, RETRAINED: _scalegun.Retrained, CGU: _scalegun.CGU,
    CEU: _scalegun.CEU,
}  # fmt: skip
#: Those that no removal shares its time with another.
ONE_BY_ONE = (OURS, SCALEGUN)
#: lam and alpha of the paper's Table 5, and r_max.
PUBLISHED = {"cora": (1e-2, 0.1), "citeseer": (1e-2, 0.1), "amazon-photo": (1e-4, 3.0)}
R_MAX = {"cora": 1e-7, "citeseer": 1e-8, "amazon-photo": 1e-8}
LARGE = 1e-4, 0.1
#: Method -> published accuracies after 0, 1, 2, ... parts, seconds of a removal, and of propagation in it.
Published = dict[str, tuple[tuple[float, ...], float, float]]
#: Method -> published seconds of a removal, and of propagation in it.
Times = dict[str, tuple[float, float]]
#: Of the marks for seconds.
MARKS = "circles: in all, squares: propagation\nx and +: published, another machine"
#: Why the totals are not those of the methods alone.
SOLVERS = (
    "nareg's Newton steps are matrix-free, those of CGU and CEU have the dense Hessian of every class: totals compare these. "
    "The methods differ in propagation. Retrained has a noise term here, as all others; r_max is 0 (Table 5: 1e-7, 1e-8)."
)
#: Whose totals those of Tables 7 and 8 are.
STEPS = "ScaleGUN, CGU and CEU have one Newton step, by conjugate gradients in the place of a dense inverse; nareg has its own."


@dataclass(frozen=True)
class Size:
    """Of a made-up graph, after a data set: the same numbers of nodes, classes and features, about as many edges, an exponent
    that gives a largest degree of its order, and the split of the paper's Table 4.

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


def stands_in(names: Iterable[str]) -> str:
    """What stood in for data sets that were not here, of those that something was run on; empty where all were."""
    run = list(dict.fromkeys(names))
    made_up = [name for name in run if name in MADE_UP and MADE_UP[name].like not in run]
    if not made_up:
        return ""
    real = [name for name in run if name not in MADE_UP]
    return f"on {' and '.join([*real, 'a made-up graph' if len(made_up) == 1 else 'made-up graphs'])}"


@dataclass(frozen=True, eq=False)
class Loaded:
    """A data set as the paper has it: everything trained on but for validation and test."""

    name: str
    graph: Any
    features: np.ndarray
    labels: np.ndarray
    train: np.ndarray
    test: np.ndarray

    def fitted(
        self, method: str, rng: np.random.Generator, *, methods: dict[str, type[CertifiedGPR]] = METHODS, **options: Any
    ) -> CertifiedGPR:
        """A model with the published lam and alpha, r_max = 0, and these options."""
        lam, alpha = PUBLISHED.get(self.name, LARGE)
        model = methods[method](**{"lam": lam, "alpha": alpha, "rng": rng, **options})
        with quietly():
            return model.fit(
                self.graph, self.features, self.labels, self.train, classes=np.unique(self.labels[self.labels >= 0])
            )

    def as_published(self, method: str, rng: np.random.Generator, **options: Any) -> CertifiedGPR:
        """One of AS_PUBLISHED, ScaleGUN with its r_max."""
        r_max = self.residue(R_MAX[self.name]) if method == SCALEGUN else 0.0
        return self.fitted(method, rng, methods=AS_PUBLISHED, **{"r_max": r_max, **options})

    def residue(self, r_max: float) -> float:
        """A published r_max, which is for columns x with ``||D^1/2 x||_1 <= 1`` (Section 3): times the mean of that norm."""
        roots = np.sqrt(np.diff(self.graph.adjacency.indptr) + 1.0)
        return r_max * float((roots @ np.abs(self.features)).mean())

    def scaled(self) -> Loaded:
        """Columns standardized and all divided by the longest row, as the published program has it.

        Rows of at most length one are Assumption 4.1, and what lam and alpha are meant for. No service may do so: means,
        deviations and the longest row carry what is removed.
        """
        X = self.features - self.features.mean(axis=0)
        deviations = X.std(axis=0)
        X /= np.where(deviations > 0, deviations, 1)
        X /= np.sqrt(np.einsum("ij,ij->i", X, X).max())
        return replace(self, features=X)

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
        same_class = (vulnerable[u] | vulnerable[v]) & (self.labels[u] == self.labels[v])
        edges = np.stack([u[same_class], v[same_class]], axis=1)
        if len(edges) < count:
            raise InputError(f"count is {count}, but {self.name} has {len(edges)} such edges.")
        return rng.permutation(edges)[:count]

    def with_adversarial_edges(
        self, count: int, rng: np.random.Generator, *, targets: np.ndarray | None = None
    ) -> tuple[Loaded, np.ndarray]:
        """The data with so many edges more, between random nodes of unlike classes (an end in ``targets``); and these."""
        n, upper = self.labels.size, sp.triu(self.graph.adjacency, format="coo")
        present = np.stack([upper.row, upper.col], axis=1).astype(np.int64)
        added = np.empty((0, 2), dtype=np.int64)
        while len(added) < count:
            ends = rng.integers(n, size=(2 * count, 2))
            if targets is not None:
                ends[:, 0] = rng.choice(targets, len(ends))
            ends = np.sort(ends, axis=1)
            ends = ends[(ends[:, 0] != ends[:, 1]) & (self.labels[ends[:, 0]] != self.labels[ends[:, 1]])]
            new = ends[~np.isin(code(ends, n), code(np.concatenate([present, added]), n))]
            _, first = np.unique(code(new, n), return_index=True)
            added = np.concatenate([added, new[np.sort(first)]])[:count]
        every = np.concatenate([present, added])
        graph = joined(np.concatenate([every, every[:, ::-1]]), n)
        return replace(self, graph=graph), added


def placed(method: str, device: str | None) -> dict[str, Any]:
    """Where a method of AS_PUBLISHED computes: nareg may on a device, the others do not."""
    return {"device": device} if method == OURS else {}


@contextmanager
def quietly() -> Iterator[None]:
    """Without the warning of standardized columns: here they are meant to be."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* columns of features have mean zero")
        warnings.simplefilter("ignore", UtilityWarning)  # the published noise is what is asked for
        yield


def code(edges: np.ndarray, n_nodes: int) -> np.ndarray:
    """A number for each ordered pair."""
    codes: np.ndarray = edges[:, 0].astype(np.int64) * n_nodes + edges[:, 1]
    return codes


def joined(pairs: np.ndarray, n_nodes: int) -> nareg.Graph:
    """The graph of edges that are given in both directions."""
    return nareg.Graph(sp.csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n_nodes, n_nodes)))


@lru_cache(maxsize=1)  # the largest take gigabytes
def large(name: str, scale: float = 1.0) -> Loaded:
    """A made-up graph, or a user's own data set, scaled; ``scale`` times as many nodes of the former."""
    if name not in MADE_UP:
        return raw.__wrapped__(name).scaled()  # which would keep it
    size, rng = MADE_UP[name], np.random.default_rng(0)
    n = round(scale * size.nodes)
    data = node_classification.synthetic(
        n, size.classes, n_features=size.features, mean_degree=size.degree, homophily=0.65,
        informative=size.informative, exponent=size.exponent, rng=rng,
    )  # fmt: skip
    train, rest = np.split(rng.permutation(n), [round(scale * size.train)])
    test = rest[-round(scale * size.test) :]
    return Loaded(name, data.graph, data.dense_features(), data.labels, train, test).scaled()


def standardized(data: Loaded) -> Loaded:
    """Scaled data with columns of deviation one again: rows of at most length one are so small that Adam gets nowhere."""
    deviations = data.features.std(axis=0)
    return replace(data, features=data.features / np.where(deviations > 0, deviations, 1))


@cache
def loaded(name: str) -> Loaded:
    """A small data set, scaled."""
    return raw(name).scaled()


@cache
def raw(name: str) -> Loaded:
    """With features as they come. 500 nodes for validation, 1,000 to test: the public ones of Cora and Citeseer, random ones
    (always the same) of Photo.
    """
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
    values = known(rows, key, **keys)
    return float(np.mean(values)) if values else float("nan")


def median(rows: list[Row], key: str, **keys: Any) -> float:
    """The same. For seconds: what is run first is compiled first, and a mean would have that in it."""
    values = known(rows, key, **keys)
    return float(np.median(values)) if values else float("nan")


def known(rows: list[Row], key: str, **keys: Any) -> list[float]:
    """Values of a column, where there are any."""
    return [row[key] for row in chosen(rows, **keys) if row.get(key) is not None]


def removed_in_parts(
    data: Loaded, model: CertifiedGPR, what: np.ndarray, remove: Callable[[np.ndarray], Certificate], *, every: int, timed: int
) -> list[Row]:
    """A row before any removal and one after every ``every``: accuracy, mean seconds of a removal by itself, and of
    the budget what certificates state at most and what the gradient is at the end.

    ``timed`` of each part are removed one by one, the rest of it at once.
    """
    rows: list[Row] = [{"removed": 0, "accuracy": data.accuracy(model), "total": None, "propagation": None}]
    for first in range(0, len(what), every):
        part = what[first : first + every]
        alone = [remove(part[i : i + 1]) for i in range(min(timed, len(part)))]
        rest = [remove(part[timed:])] if timed < len(part) else []
        rows.append({
            "removed": first + len(part), "accuracy": data.accuracy(model),
            "total": float(np.mean([sum(one.timings.values()) for one in alone])),
            "propagation": float(np.mean([one.timings["propagation"] for one in alone])),
            "spent": max(one.spent / one.budget for one in alone + rest), "timed": len(alone),
            "retrained": sum(one.retrained for one in alone), "rest retrained": sum(one.retrained for one in rest),
            "true": _scalegun.true_gradient(model) / model.budget,
        })  # fmt: skip
    return rows


def line(k: int) -> dict[str, Any]:
    """The look of line k of at most four: each narrower than the ones below it, so that lines that coincide are all seen."""
    return {"color": f"C{k}", "linewidth": 4.0 - k, "marker": "o", "markersize": 9.0 - 2 * k}


def draw_times(axis: Any, place: float, rows: list[Row], published: tuple[float, ...] | None = None, **keys: Any) -> None:
    """Seconds of a removal and of propagation in it, and those published, one above the other."""
    color = f"C{int(place)}"
    for k, (key, mark) in enumerate((("total", "o"), ("propagation", "s"))):
        axis.plot(place, median(rows, key, **keys), mark, color=color)
        if published is not None:
            axis.plot(place, published[k], "x" if key == "total" else "+", color="k")


def against_published(rows: list[Row], published: Published, every: int, **keys: Any) -> tuple[list[bool], str]:
    """Whether ScaleGUN is within 3 points of what is published before any removal, and falls as much to within 1.5."""
    theirs, anew = published[SCALEGUN][0], published[RETRAINED][0]
    removed = [every * k for k in range(len(theirs)) if chosen(rows, method=SCALEGUN, removed=every * k, **keys)]
    reached, ours, again = (
        [mean(rows, "accuracy", method=m, removed=n, **keys) for n in removed] for m in (SCALEGUN, OURS, RETRAINED)
    )
    cells = [
        f"{a:.1f} ({theirs[n // every]:.1f}), nareg {b:.1f}, retrained {c:.1f} ({anew[n // every]:.1f})"
        for a, b, c, n in zip(reached, ours, again, removed, strict=True)
    ]
    fall = (reached[0] - reached[-1]) - (theirs[0] - theirs[len(reached) - 1])
    return [abs(reached[0] - theirs[0]) < 3, abs(fall) < 1.5], ", ".join(cells)


def compared_times(
    rows: list[Row], methods: tuple[str, ...], published: Times | None = None, *, first: str = OURS, **keys: Any
) -> tuple[list[bool], str]:
    """Whether a removal, and propagation in it, take the first less time than all others but us; and all the times."""
    total, share = ({m: median(rows, key, method=m, **keys) for m in methods} for key in ("total", "propagation"))
    others = [m for m in methods if m not in (OURS, first)]
    cells = []
    for m in methods:
        anew, timed = (sum(known(rows, key, method=m, **keys)) for key in ("retrained", "timed"))
        compared = (
            ""
            if published is None or m not in published
            else "; published {:.0f}, {:.0f}".format(*(1e3 * value for value in published[m]))
        )
        cells.append(
            f"{m} {1e3 * total[m]:.0f} ms ({1e3 * share[m]:.1f}{compared}), trained anew {anew:.0f} of {timed:.0f} times"
        )
    return [all(seconds[first] < seconds[m] for m in others) for seconds in (total, share)], "; ".join(cells)


def compared_tables(
    rows: list[Row], key: str, published: dict[str, Published], every: int, methods: tuple[str, ...], names: tuple[str, ...]
) -> tuple[Verdict, Verdict]:
    """ScaleGUN's accuracies with those published, and its times with those of the others, of every table, by its name.

    Times are those of rows without a number of removals, where there are any.
    """
    clock = {"removed": None} if chosen(rows, removed=None) else {}
    near, texts, faster, times = [], [], [], []
    for name in names:
        good, cells = against_published(rows, published[name], every, **{key: name})
        known_times = {method: (total, share) for method, (_, total, share) in published[name].items()}
        quick, seconds = compared_times(rows, methods, known_times, first=SCALEGUN, **{key: name, **clock})
        near += good
        texts.append(f"{name} {cells}")
        faster += quick
        times.append(f"{name}: {seconds}")
    after = f"With ScaleGUN after 0, {every}, ... removals (published): {'; '.join(texts)} %."
    scaled = "Features standardized and divided by the longest row."
    between = (
        "Processor seconds of the same removals by all methods in turn."
        if clock
        else "Untimed removals of retraining, CGU and CEU are done at once."
    )
    near_enough = f"{scaled} Before any removal within 3 points, and as large a fall within 1.5."
    return (
        Verdict("accuracy", grade(near), after, near_enough),
        Verdict("faster", grade(faster), "A removal (propagation in it): " + ". ".join(times) + ".", f"{between} {STEPS}"),
    )
