"""Seconds against the number of edges: leverage scores, sparsifier, preconditioner, gradient, whole trainings."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import nareg
from experiments import _herta as h
from experiments._figure import Figure, Point, Row, Verdict, chosen, column, grade
from nareg import herta
from nareg.gnn import Adjacency

SCORES, SPARSIFIED, BUILT, GRADIENT, SQUARED, CROSS = (
    "leverage scores", "draws", "preconditioner", "gradient", "training, mse", "training, ce",
)  # fmt: skip
STEPS = (SCORES, SPARSIFIED, BUILT, GRADIENT, SQUARED, CROSS)


@dataclass(frozen=True)
class Settings:
    """Graphs with power-law degrees; one thread."""

    edges: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)
    degree: float = 20.0
    features: int = 16
    classes: int = 4
    lam: float = 1.0
    seed: int = 0


def points(s: Settings) -> list[Point]:
    return [{"edges": edges} for edges in s.edges]


def compute(s: Settings, point: Point) -> list[Row]:
    rng = np.random.default_rng([s.seed, point["edges"]])
    n = round(2 * point["edges"] / s.degree)
    graph = Adjacency(nareg.graphs.power_law(n, mean_degree=s.degree, rng=rng))
    X = rng.standard_normal((n, s.features))
    labels = (X @ rng.standard_normal((s.features, s.classes)) + 3 * rng.standard_normal((n, s.classes))).argmax(axis=1)
    made = graph.raw.nnz // 2
    rows: list[Row] = []

    def timed(step: str, seconds: float) -> None:
        rows.append({"step": step, "seconds": seconds, "made": made, "nodes": n})

    found = herta.sparsify(graph, lam=s.lam, epsilon=0.5, rng=rng, scores="approximate", draws=made, measure=False)
    timed(SCORES, found.timings["scores"])
    timed(SPARSIFIED, found.timings["draws"])
    start = time.perf_counter()
    herta.precondition(graph, X, lam=s.lam, how="sketched", rng=rng)
    timed(BUILT, time.perf_counter() - start)
    told: dict[str, Any] = {"lam": s.lam, "rng": rng}
    timed(GRADIENT, gradient_seconds(graph, X, s.lam, s.classes, rng))
    for step, loss in ((SQUARED, "mse"), (CROSS, "ce")):
        start = time.perf_counter()
        trained = herta.fit(graph, X, labels, loss=loss, tol=1e-6, **told)
        timed(step, time.perf_counter() - start)
        rows[-1] |= {"status": trained.status.name, "optimizer": trained.optimizer, "preconditioner": trained.preconditioner}
    return rows


def gradient_seconds(graph: Any, X: np.ndarray, lam: float, classes: int, rng: np.random.Generator) -> float:
    """Of a gradient of the squared error to 1e-6: two solves, no guess to start from; the second of two calls."""
    import torch

    from nareg.herta import losses, problem, task, unfolded

    given: dict[str, Any] = {"lam": lam, "train": None, "kind": "normalized", "unrolled": None, "device": None, "dtype": None}
    system, features, index = task.model(graph, X, **given)
    W = torch.as_tensor(rng.standard_normal((X.shape[1], classes)))
    seconds = 0.0
    for _ in range(2):
        map_ = unfolded.Implicit(system, features, torch.as_tensor(index))
        target = losses.SquaredError(torch.zeros((index.size, classes), dtype=torch.float64))
        training = problem.Problem(map_, target, features, weight_decay=0.0, tol=1e-6)
        start = time.perf_counter()
        training.evaluate(W)
        seconds = time.perf_counter() - start
    return seconds


def draw(s: Settings, rows: list[Row]) -> Any:
    """Both axes logarithmic, a line of slope one beside."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4.4), layout="constrained")
    for step in STEPS:
        axis.plot(column(rows, "made", step=step), column(rows, "seconds", step=step), "o-", label=step)
    edges = np.array(column(rows, "made", step=GRADIENT))
    axis.plot(edges, column(rows, "seconds", step=GRADIENT)[0] * edges / edges[0], color="0.7", label="slope one")
    axis.set(xscale="log", yscale="log", xlabel="undirected edges", ylabel=f"seconds, F = {s.features}, one thread")
    axis.legend(fontsize=8)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    linear, told = [], []
    for step in STEPS:
        mine = chosen(rows, step=step)
        first, last = mine[0], mine[-1]
        slope = float(np.log(last["seconds"] / first["seconds"]) / np.log(last["made"] / first["made"]))
        linear.append(slope < 1.2)
        told.append(f"{step} {first['seconds']:.2g} to {last['seconds']:.3g} s, slope {slope:.2f}")
    return [Verdict("linear", grade(linear), f"{mine[0]['made']} to {mine[-1]['made']} edges: " + "; ".join(told) + ".")]


FIGURE = Figure(
    "herta-cost", "Cost against edges", Settings(), Settings(edges=(3_000, 10_000, 30_000)),
    points, compute, draw, judge, **h.PARTS,
)  # fmt: skip
