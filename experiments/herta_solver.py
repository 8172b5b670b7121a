"""Products and seconds against lam: solves with ``I + lam L``, and whole trainings, by each solver."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

import nareg
from experiments import _herta as h
from experiments._figure import Figure, Point, Row, Verdict, chosen, column, grade
from nareg import herta
from nareg.gnn import Adjacency

SOLVERS = ("chebyshev", "cg", "cholesky", "auto")
LABELS = {
    "chebyshev": "Chebyshev polynomial", "cg": "conjugate gradients", "cholesky": "approximate Cholesky factor", "auto": "auto",
}  # fmt: skip
SOLVE, TRAINING = "solve", "training"
#: The made-up graph: every new node joins older ones in proportion to their edges.
MADE_UP = "made up"
#: Power of lam up to which a cost counts as one that does not grow: a factor of 3 over five decades.
FLAT = 0.1


@dataclass(frozen=True)
class Settings:
    """Solves of so many columns to ``tol``, from a new system each; trainings with the squared error. One thread.

    Trainings by the polynomial end at ``longest``, because they take minutes beyond.
    """

    graphs: tuple[str, ...] = ("pubmed", MADE_UP)
    lams: tuple[float, ...] = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
    longest: float = 1e4
    columns: int = 64
    tol: float = 1e-6
    nodes: int = 20_000
    links: int = 5
    features: int = 64
    seed: int = 0
    device: str | None = None


def points(s: Settings) -> list[Point]:
    return [{"graph": graph, "lam": lam} for graph, lam in itertools.product(s.graphs, s.lams)]


@cache
def problem(s: Settings, name: str) -> tuple[Any, Any, np.ndarray, np.ndarray]:
    """Graph, features, labels and training nodes."""
    rng = np.random.default_rng(s.seed)
    if name != MADE_UP:
        data = h.loaded(name, s.device)
        return data.graph, data.features, data.labels, data.parts((0.8,), rng)[0]
    X = rng.standard_normal((s.nodes, s.features))
    labels = (X @ rng.standard_normal((s.features, 4)) + 3 * rng.standard_normal((s.nodes, 4))).argmax(axis=1)
    train = np.sort(rng.permutation(s.nodes)[: 4 * s.nodes // 5])
    return Adjacency(preferential_attachment(s.nodes, s.links, rng)), X, labels, train


def preferential_attachment(n: int, links: int, rng: np.random.Generator) -> nareg.Graph:
    """Node after node, each linked to up to ``links`` ends of random older edges (Barabasi, Albert 1999)."""
    ends, sources, targets = list(range(links)), [], []
    for node in range(links, n):
        mine = sorted({ends[k] for k in rng.integers(len(ends), size=links)})
        sources += [node] * len(mine)
        targets += mine
        ends += mine + [node] * len(mine)
    upper = sp.csr_array((np.ones(len(sources)), (sources, targets)), shape=(n, n))
    return nareg.Graph(sp.csr_array(upper + upper.T))


def compute(s: Settings, point: Point) -> list[Row]:
    import torch

    from nareg.herta import _inputs as inputs

    graph, X, labels, train = problem(s, point["graph"])
    warm(s)
    rows: list[Row] = []
    exact = None
    for solver in ("cholesky", *(other for other in SOLVERS if other != "cholesky")):
        unfolding = herta.Unfolding(point["lam"], solver=solver)
        system, features, _ = inputs.read_model(graph, X, unfolding, device=s.device)
        B = np.random.default_rng(s.seed).standard_normal((system.n_nodes, s.columns))
        right = torch.as_tensor(B, dtype=features.dtype, device=features.device)
        start = time.process_time()
        solved = system.solve(right, tol=s.tol)
        seconds, products = time.process_time() - start, system.products
        if exact is None:
            exact = system.solve(right, tol=1e-3 * s.tol)
        error = float(((solved - exact).norm(dim=0) / right.norm(dim=0)).max())
        rows.append({"what": SOLVE, "solver": solver, "seconds": seconds, "products": products / s.columns, "error": error})
        if solver == "chebyshev" and point["lam"] > s.longest:
            continue
        start = time.process_time()
        trained = herta.fit(graph, X, labels, lam=unfolding, train=train, optimizer=herta.Optimizer(tol=1e-6), device=s.device)
        seconds = time.process_time() - start
        rows.append({
            "what": TRAINING, "solver": solver, "seconds": seconds, "products": trained.products, "error": None,
            "optimizer": trained.optimizer, "steps": trained.losses.size - 1, "loss": trained.loss,
            "status": trained.status.name,
        })  # fmt: skip
    return rows


@cache
def warm(s: Settings) -> None:
    """Compile what is timed."""
    rng = np.random.default_rng(0)
    graph, X = nareg.graphs.grid((10, 10)), rng.standard_normal((100, s.columns))
    for solver in SOLVERS:
        herta.fit(graph, X, rng.integers(0, 4, 100), lam=herta.Unfolding(1e3, solver=solver), device=s.device)


def draw(s: Settings, rows: list[Row]) -> Any:
    """Products and seconds of a solve, and seconds of a training, against lam; all axes logarithmic."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(s.graphs), 3, figsize=(12, 3.6 * len(s.graphs)), layout="constrained", squeeze=False)
    panels = ((SOLVE, "products", "products per column"), (SOLVE, "seconds", f"seconds of one core, {s.columns} columns"),
              (TRAINING, "seconds", "seconds of one core, training"))  # fmt: skip
    for graph, line in zip(s.graphs, axes, strict=True):
        for axis, (what, key, label) in zip(line, panels, strict=True):
            for k, solver in enumerate(SOLVERS):
                mine = chosen(rows, graph=graph, what=what, solver=solver)
                style = "k--" if solver == "auto" else f"C{k}o-"
                axis.plot(column(mine, "lam"), column(mine, key), style, label=LABELS[solver], markersize=4)
            axis.set(xscale="log", yscale="log", xlabel="λ", ylabel=label, title=graph)
    axes[0][0].legend(fontsize=8)
    return figure


def slope(rows: list[Row], key: str) -> float:
    """Growth from the smallest to the largest lam, as a power of it."""
    values, lams = column(rows, key), column(rows, "lam")
    return float(np.log(values[-1] / values[0]) / np.log(lams[-1] / lams[0]))


def last(rows: list[Row], graph: str) -> str:
    """Seconds of the trainings with the largest lam."""
    runs = {solver: chosen(rows, graph=graph, solver=solver, what=TRAINING)[-1] for solver in ("cholesky", "chebyshev")}
    return ", ".join(f"{LABELS[solver]} {run['seconds']:.3g} s at λ = {run['lam']:g}" for solver, run in runs.items())


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    solves, trainings, losses, said = [], [], [], []
    for graph in s.graphs:
        for solver in SOLVERS:
            solve, training = (chosen(rows, graph=graph, solver=solver, what=what) for what in (SOLVE, TRAINING))
            powers = [slope(mine, key) for mine in (solve, training) for key in ("products", "seconds")]
            if solver == "cholesky":
                solves.append(powers[0] < FLAT)
                trainings.append(powers[3] < FLAT)
            counts = " / ".join(f"{products:.0f}" for products in column(solve, "products"))
            seconds = " / ".join(f"{one:.2g}" for one in column(training, "seconds"))
            said.append(
                f"{graph}, {LABELS[solver]}: {counts} products per column (power {powers[0]:.2f}; of seconds {powers[1]:.2f}), "
                f"training {seconds} s (power {powers[3]:.2f})"
            )
        for lam in s.lams:
            ends = column(rows, "loss", graph=graph, lam=lam, what=TRAINING)
            losses.append(max(ends) / min(ends) - 1)
    lams = f"λ from {s.lams[0]:g} to {s.lams[-1]:g}"
    return [
        Verdict(
            "solves", grade(solves), f"{lams}. {'; '.join(said)}.",
            f"A power of λ below {FLAT:g} counts as none, which allows for logarithms: for the factor's products. The largest "
            f"error of a solve is {max(column(rows, 'error', what=SOLVE)):.1g} of its right-hand side. All trainings end at "
            f"the same loss, to {max(losses):.1g}.",
        ),
        Verdict(
            "trainings", grade(trainings), "; ".join(f"{graph}: {last(rows, graph)}" for graph in s.graphs) + ".",
            "Seconds of the factor's solver have to grow with a power below the same.",
        ),
    ]  # fmt: skip


FIGURE = Figure(
    "herta-solver", "Cost against λ", Settings(), Settings(graphs=(MADE_UP,), lams=(1.0, 100.0), nodes=500, features=8),
    points, compute, draw, judge, **h.PARTS,
)  # fmt: skip
