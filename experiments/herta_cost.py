"""Seconds and products against the number of edges: leverage scores, sparsifier, preconditioner, gradient, whole trainings."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import nareg
from experiments import _herta as h
from experiments._figure import Figure, Point, Row, Verdict, chosen, column, grade
from experiments._sparsifier import sparsify
from nareg import herta
from nareg.gnn import Adjacency

SCORES, SPARSIFIED, BUILT, GRADIENT, SQUARED, CROSS = (
    "leverage scores", "draws", "preconditioner", "gradient", "training, mse", "training, ce",
)  # fmt: skip
STEPS = (SCORES, SPARSIFIED, BUILT, GRADIENT, SQUARED, CROSS)
#: Whose products with H are counted.
COUNTED = (GRADIENT, SQUARED, CROSS)


@dataclass(frozen=True)
class Settings:
    """Graphs with power-law degrees; one thread."""

    edges: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)
    degree: float = 20.0
    features: int = 16
    classes: int = 4
    lam: float = 1.0
    seed: int = 0
    device: str | None = None


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

    def timed(step: str, seconds: float, products: float | None = None) -> None:
        rows.append({"step": step, "seconds": seconds, "products": products, "made": made, "nodes": n})

    result = sparsify(graph, lam=s.lam, epsilon=0.5, rng=rng, scores="approximate", draws=made, measure=False)
    timed(SCORES, result.timings["scores"])
    timed(SPARSIFIED, result.timings["draws"])
    start = time.perf_counter()
    herta.precondition(graph, X, lam=s.lam, how="sketched", device=s.device, rng=rng)
    timed(BUILT, time.perf_counter() - start)
    options: dict[str, Any] = {"lam": s.lam, "device": s.device, "rng": rng}
    timed(GRADIENT, *gradient(graph, X, s, rng))
    for step, loss in ((SQUARED, "mse"), (CROSS, "ce")):
        start = time.perf_counter()
        trained = herta.fit(graph, X, labels, loss=loss, optimizer=herta.Optimizer(tol=1e-6), **options)
        timed(step, time.perf_counter() - start, trained.products)
        rows[-1] |= {"status": trained.status.name, "optimizer": trained.optimizer, "preconditioner": trained.preconditioner}
    return rows


def gradient(graph: Any, X: np.ndarray, s: Settings, rng: np.random.Generator) -> tuple[float, float]:
    """Seconds and products of a gradient of the squared error to 1e-6: two solves from nothing; the second of two."""
    import torch

    from nareg.herta import _inputs as inputs
    from nareg.herta import _objective as objective

    system, features, index = inputs.read_model(graph, X, herta.Unfolding(s.lam), device=s.device)
    place: dict[str, Any] = {"dtype": features.dtype, "device": features.device}
    nodes = torch.as_tensor(index, device=features.device)
    W = torch.as_tensor(rng.standard_normal((X.shape[1], s.classes)), **place)
    seconds, before = 0.0, 0
    for _ in range(2):
        before = system.products
        map_ = objective.Implicit(system, features, nodes)
        target = objective.SquaredError(torch.zeros((index.size, s.classes), **place))
        training = objective.TrainingProblem(map_, target, features, weight_decay=0.0, tol=1e-6)
        start = time.perf_counter()
        training.evaluate(W)
        seconds = time.perf_counter() - start
    return seconds, system.products - before


def draw(s: Settings, rows: list[Row]) -> Any:
    """Seconds, and products of one column times edges; all axes logarithmic, a line of slope one beside."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for axis, steps, key in zip(axes, (STEPS, COUNTED), ("seconds", "work"), strict=True):
        for step in steps:
            axis.plot(column(rows, "made", step=step), values(rows, step, key), "o-", color=f"C{STEPS.index(step)}", label=step)
        edges = np.array(column(rows, "made", step=GRADIENT))
        axis.plot(edges, values(rows, GRADIENT, key)[0] * edges / edges[0], color="0.7", label="slope one")
        axis.set(xscale="log", yscale="log", xlabel="undirected edges")
        axis.legend(fontsize=8)
    axes[0].set_ylabel(f"seconds, F = {s.features}, one thread")
    axes[1].set_ylabel("products of H with one column, times edges")
    return figure


def values(rows: list[Row], step: str, key: str) -> list[float]:
    """Seconds of a step, or its work: products times edges."""
    return [row["seconds"] if key == "seconds" else row["products"] * row["made"] for row in chosen(rows, step=step)]


def slope(rows: list[Row], step: str, key: str) -> float:
    """Growth from the smallest to the largest graph, as a power of the edges."""
    edges, options = column(rows, "made", step=step), values(rows, step, key)
    return float(np.log(options[-1] / options[0]) / np.log(edges[-1] / edges[0]))


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    counted, work = [], []
    for step in COUNTED:
        products = " / ".join(f"{count:,.0f}" for count in column(rows, "products", step=step))
        work.append(slope(rows, step, "work"))
        counted.append(f"{step} {products} (times edges: slope {work[-1]:.2f})")
    timed, clock = [], []
    for step in STEPS:
        seconds = values(rows, step, "seconds")
        clock.append(slope(rows, step, "seconds"))
        timed.append(f"{step} {seconds[0]:.2g} to {seconds[-1]:.3g} s, slope {clock[-1]:.2f}")
    edges = column(rows, "made", step=GRADIENT)
    first, last = (8e-6 * s.features * nodes for nodes in column(rows, "nodes", step=GRADIENT)[:: len(edges) - 1])
    return [
        Verdict(
            "linear", grade([*(result < 1.1 for result in work), *(result < 1.2 for result in clock)]),
            f"{edges[0]} to {edges[-1]} edges. Products of one column: {'; '.join(counted)}. Seconds: {'; '.join(timed)}.",
            f"Seconds grow faster as vectors leave the cache: {s.features} columns take {first:.2g} to {last:.3g} MB.",
            "on made-up graphs",
        )
    ]  # fmt: skip


FIGURE = Figure(
    "herta-cost", "Cost against edges", Settings(), Settings(edges=(3_000, 10_000, 30_000)),
    points, compute, draw, judge, **h.PARTS,
)  # fmt: skip
