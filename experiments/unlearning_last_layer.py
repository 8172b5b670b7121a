"""A perceptron whose last layer forgets with a certificate, beside one without and beside the linear model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from experiments import _unlearning as u
from experiments._figure import Figure, Point, Row, Verdict, chosen, grade
from experiments._unlearning_perceptron import TrainedFurther
from nareg.unlearning import Certificate, CertifiedGPR
from nareg.unlearning.deep import DeepGPR

LINEAR, ALL, LAST = "CertifiedGPR", "all layers", "last layer"
METHODS = (LINEAR, ALL, LAST)
EDGES, NODES, HIDDEN = "edges", "nodes", "a hidden node"
#: Points of accuracy that the certificate may cost.
POINTS = 1.0


@dataclass(frozen=True)
class Settings:
    """Removed are random edges, then random nodes, both without data of the hidden layer; then one of its nodes."""

    datasets: tuple[str, ...] = ("cora", "citeseer", "amazon-photo")
    trials: int = 3
    edges: int = 100
    nodes: int = 10
    hidden: int = 64
    epochs: int = 200
    seed: int = 0


def points(s: Settings) -> list[Point]:
    return [
        {"dataset": dataset, "trial": trial, "method": method}
        for dataset in s.datasets for trial in range(s.trials) for method in METHODS
    ]  # fmt: skip


def compute(s: Settings, point: Point) -> list[Row]:
    data, seed = loaded(point["dataset"]), [s.seed, point["trial"]]
    rng = np.random.default_rng(seed)
    hidden = data.train[rng.random(data.labels.size)[data.train] < 0.5]
    edges = data.edges(rng)
    edges = edges[~np.isin(edges, hidden).all(axis=1)][: s.edges]
    nodes = rng.permutation(np.setdiff1d(np.arange(data.labels.size), hidden))[: s.nodes]
    model = unfitted(s, point["method"], np.random.default_rng([*seed, 1]))
    parts = {"hidden_nodes": hidden} if point["method"] == LAST else {}
    with u.quietly():
        model.fit(data.graph, data.features, data.labels, data.train, classes=np.unique(data.labels[data.labels >= 0]), **parts)
    first = {
        "what": "fit",
        "accuracy": data.accuracy(model),
        "total": None,
        "propagation": None,
        "spent": None,
        "retrained": None,
    }
    rows: list[Row] = [first]
    for what, remove, removed in (
        (EDGES, model.remove_edges, edges),
        (NODES, model.remove_nodes, nodes),
        (HIDDEN, model.remove_nodes, hidden[:1]),
    ):
        answer = remove(removed)
        certified = isinstance(answer, Certificate)
        rows.append({
            "what": what, "accuracy": data.accuracy(model), "total": sum(answer.timings.values()),
            "propagation": answer.timings["propagation"], "spent": answer.spent / answer.budget if certified else None,
            "retrained": int(answer.retrained) if certified else None,
        })  # fmt: skip
    return rows


def unfitted(s: Settings, method: str, rng: np.random.Generator) -> Any:
    """A model, with ridge and noise by default."""
    if method == LINEAR:
        return CertifiedGPR(rng=rng)
    return (TrainedFurther if method == ALL else DeepGPR)(hidden=s.hidden, epochs=s.epochs, rng=rng)


@cache
def loaded(name: str) -> u.Loaded:
    """Every row of features divided by its own length: no node's data are in another's row."""
    data = u.raw(name)
    lengths = np.linalg.norm(data.features, axis=1, keepdims=True)
    return replace(data, features=data.features / np.where(lengths > 0, lengths, 1))


def draw(s: Settings, rows: list[Row]) -> Any:
    """Accuracy, and seconds of a removal."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 3.8), layout="constrained")
    places = np.arange(len(s.datasets))
    for k, method in enumerate(METHODS):
        for place, dataset in zip(places, s.datasets, strict=True):
            values = [row["accuracy"] for row in chosen(rows, dataset=dataset, method=method, what="fit")]
            label = method if place == 0 else None
            left.plot(np.full(len(values), place + 0.2 * (k - 1)), values, "o", color=f"C{k}", label=label, alpha=0.7)
            for what, mark in ((EDGES, "o"), (NODES, "s"), (HIDDEN, "x")):
                seconds = u.median(rows, "total", dataset=dataset, method=method, what=what)
                label = f"{method}: {what}" if place == 0 else None
                right.semilogy(place + 0.2 * (k - 1), seconds, mark, color=f"C{k}", label=label, alpha=0.7)
    left.set(title="before any removal", ylabel="test accuracy [%]")
    right.set(title="removals", ylabel="seconds")
    for axis in (left, right):
        axis.set_xticks(places, s.datasets)
        axis.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    accuracy = {
        (dataset, method): u.mean(rows, "accuracy", dataset=dataset, method=method, what="fit")
        for dataset in s.datasets for method in METHODS
    }  # fmt: skip
    table = "; ".join(f"{name} " + ", ".join(f"{m} {accuracy[name, m]:.1f}" for m in METHODS) for name in s.datasets)
    near = [accuracy[name, LAST] >= accuracy[name, ALL] - POINTS for name in s.datasets]
    better = [accuracy[name, LAST] > accuracy[name, LINEAR] for name in s.datasets]
    faster, texts = [], []
    for name in s.datasets:
        mine = {"dataset": name, "method": LAST}
        seconds = {what: u.median(rows, "total", what=what, **mine) for what in (EDGES, NODES, HIDDEN)}
        outside = [row for what in (EDGES, NODES) for row in chosen(rows, what=what, **mine)]
        spent, retrained = max(row["spent"] for row in outside), sum(row["retrained"] for row in outside)
        faster += [seconds[EDGES] < seconds[HIDDEN], seconds[NODES] < seconds[HIDDEN], not retrained]
        others = ", ".join(
            f"{method} {u.median(rows, 'total', dataset=name, method=method, what=EDGES):.2f} and "
            f"{u.median(rows, 'total', dataset=name, method=method, what=NODES):.2f} s" for method in (LINEAR, ALL)
        )  # fmt: skip
        texts.append(
            f"{name} {s.edges} edges {seconds[EDGES]:.2f} s, {s.nodes} nodes {seconds[NODES]:.2f} s, from nothing "
            f"{seconds[HIDDEN]:.2f} s; {spent:.1%} of the budget at most, {retrained} of {len(outside)} retrained ({others})"
        )
    means = f"Test accuracy before any removal, means of {s.trials}: {table} %."
    return [
        Verdict("accuracy", grade(near, aim=True), means),
        Verdict("linear", grade(better, aim=True), means),
        Verdict("faster", grade(faster, aim=True), "; ".join(texts) + "."),
    ]


FIGURE = Figure(
    "unlearning-last-layer", "A certified last layer", Settings(), Settings(datasets=("cora",), trials=1, epochs=20),
    points, compute, draw, judge, **u.PARTS,
)  # fmt: skip
