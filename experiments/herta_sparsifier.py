"""Edges drawn by ridge leverage scores, uniformly, by effective resistances: what is kept, and how far from the graph it is."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import nareg
from experiments import _herta as h
from experiments._figure import Figure, Point, Row, Verdict, chosen, column, grade
from experiments._sparsifier import sparsify
from nareg.gnn import Adjacency

SCORES = ("auto", "uniform", "effective-resistance")
LABELS = {"auto": "ridge leverage", "uniform": "uniform", "effective-resistance": "effective resistance"}
#: Synthetic graphs -> nodes; the rest are data sets.
DENSE, BRIDGED, UNEVEN = "dense random", "two cliques and a bridge", "uneven weights"
SYNTHETIC = {DENSE: 800, BRIDGED: 400, UNEVEN: 800}
#: Times n_lam ln(n) / epsilon^2 draws that count as O(...): about what matrix Chernoff bounds ask for.
ENOUGH = 8.0


@dataclass(frozen=True)
class Settings:
    """``draws`` in multiples of the number of edges; ``checks`` seeds for which an accuracy is asked for and measured."""

    graphs: tuple[str, ...] = (DENSE, BRIDGED, UNEVEN, "cora", "pubmed")
    lams: tuple[float, ...] = (1.0, 100.0)
    draws: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
    repeats: int = 3
    checks: int = 200
    epsilon: float = 0.5
    seed: int = 0


def points(s: Settings) -> list[Point]:
    compared: list[Point] = [
        {"what": "compared", "graph": graph, "lam": lam, "repeat": repeat}
        for graph, lam, repeat in itertools.product(s.graphs, s.lams, range(s.repeats))
    ]
    return [*compared, *({"what": "checked", "graph": DENSE, "lam": lam, "repeat": 0} for lam in s.lams)]


@cache
def graph_of(name: str) -> Any:
    """A graph by its name."""
    rng, n = np.random.default_rng(0), SYNTHETIC.get(name, 0)
    if name == DENSE:
        return Adjacency(nareg.graphs.erdos_renyi(n, 0.4, rng=rng))
    if name == BRIDGED:
        A = np.kron(np.eye(2), np.ones((n // 2, n // 2)) - np.eye(n // 2))
        A[0, n // 2] = A[n // 2, 0] = 1
        return Adjacency(nareg.Graph(A))
    if name == UNEVEN:  # a few edges carry most of the weight
        W = np.triu((rng.random((n, n)) < 0.2) * np.exp(2.0 * rng.standard_normal((n, n))), 1)
        return Adjacency(nareg.Graph(W + W.T))
    return h.loaded(name).graph


def compute(s: Settings, point: Point) -> list[Row]:
    graph = graph_of(point["graph"])
    if point["what"] == "checked":
        return [checked(s, graph, point["lam"])]
    m, rows = graph.raw.nnz // 2, []
    options = {
        "lam": point["lam"],
        "epsilon": s.epsilon,
        "kind": "combinatorial" if point["graph"] in SYNTHETIC else "augmented",
    }
    for k, scores in enumerate(SCORES):
        for share in s.draws:
            rng = np.random.default_rng([s.seed, point["repeat"], k])
            result = sparsify(graph, rng=rng, scores=scores, draws=max(round(share * m), 1), **options)
            rows.append({
                "scores": scores, "draws": share, "kept": result.n_edges / m, "error": result.error,
                "dimension": result.effective_dimension, "edges": m, "seconds": sum(result.timings.values()),
            })  # fmt: skip
    return rows


def checked(s: Settings, graph: Any, lam: float) -> Row:
    """How often the accuracy asked for holds, by all eigenvalues; what it took, in the paper's unit of draws."""
    import scipy.linalg

    eye, stored, kept_share, constants = np.eye(graph.n_nodes), [], [], []
    for seed in range(s.checks):
        result = sparsify(graph, lam=lam, epsilon=s.epsilon, rng=np.random.default_rng([s.seed, seed]))
        values = scipy.linalg.eigvalsh(eye + lam * graph.augmented_laplacian.toarray(), eye + lam * result.laplacian.toarray())
        stored.append(max(values[-1] - 1, 1 - values[0]) <= s.epsilon)
        kept_share.append(result.n_edges / result.n_edges_before)
        unit = result.effective_dimension * math.log(graph.n_nodes) / s.epsilon**2
        constants.append(result.draws / unit)
    return {
        "scores": "auto", "held": float(np.mean(stored)), "kept": float(np.mean(kept_share)),
        "constant": float(np.mean(constants)),
        "dimension": result.effective_dimension, "edges": result.n_edges_before,
    }  # fmt: skip


def draw(s: Settings, rows: list[Row]) -> Any:
    """Measured error against the share of edges kept."""
    import matplotlib.pyplot as plt

    shape = len(s.lams), len(s.graphs)
    figure, axes = plt.subplots(*shape, figsize=(3.0 * shape[1], 2.8 * shape[0]), layout="constrained", squeeze=False)
    for (i, lam), (j, graph) in itertools.product(enumerate(s.lams), enumerate(s.graphs)):
        axis = axes[i, j]
        for scores in SCORES:
            mine = chosen(rows, what="compared", graph=graph, lam=lam, scores=scores)
            x, y = ([np.mean(column(mine, key, draws=share)) for share in s.draws] for key in ("kept", "error"))
            axis.plot(x, y, "o-", markersize=3, label=LABELS[scores])
        axis.axhline(s.epsilon, color="0.7", linewidth=0.8)
        axis.set(yscale="log", xlim=(0, 1), title=f"{graph}, λ = {lam:g}")
        axis.title.set_fontsize(9)
        axis.tick_params(which="both", labelsize=7)
    for axis in axes[-1]:
        axis.set_xlabel("share of the edges kept")
    for axis in axes[:, 0]:
        axis.set_ylabel("spectral error, measured")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(SCORES), fontsize=8)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    checks = chosen(rows, what="checked")
    stored = "; ".join(f"λ {r['lam']:g}: within ε = {s.epsilon:g} for {r['held']:.1%} of {s.checks} seeds" for r in checks)
    took = "; ".join(
        f"λ {r['lam']:g}: {r['constant']:.2g} times n_λ ln(n) / ε² draws (n_λ = {r['dimension']:.4g}), {r['kept']:.0%} of the "
        f"{r['edges']} edges of a dense random graph kept"
        for r in checks
    )
    sparse, texts = [], []
    for graph, lam in itertools.product([g for g in s.graphs if g not in SYNTHETIC], s.lams):
        here = chosen(rows, what="compared", graph=graph, lam=lam, scores="auto")
        good = [share for share in s.draws if np.mean(column(here, "error", draws=share)) <= s.epsilon]
        kept_share = min((float(np.mean(column(here, "kept", draws=share))) for share in good), default=1.0)
        sparse.append(kept_share < 0.5)
        texts.append(f"{graph} λ {lam:g}: {kept_share:.0%}")
    where = []
    for graph, lam in itertools.product(s.graphs, s.lams):
        last = s.draws[-1]
        mine, other = (
            float(np.mean(column(rows, "error", what="compared", graph=graph, lam=lam, scores=scores, draws=last)))
            for scores in ("auto", "uniform")
        )
        where.append(f"{graph} λ {lam:g}: {mine:.3g} / {other:.3g}")
    return [
        Verdict(
            "holds", grade(r["held"] >= 0.95 for r in checks), stored + ".",
            "nareg draws until its measured error holds: what can fail here is the measurement.",
            "on a made-up graph",
        ),
        Verdict(
            "enough", grade(r["constant"] <= ENOUGH for r in checks), f"{took}.", f"Up to {ENOUGH:g} times counts as O(...).",
            "on a made-up graph",
        ),
        Verdict(
            "sparse", grade(sparse),
            f"Edges of the citation graphs that have to be kept for ε = {s.epsilon:g}: " + "; ".join(texts) + ".",
            "Error with the most draws, leverage / uniform: " + "; ".join(where) + ".",
        ),
    ]  # fmt: skip


FIGURE = Figure(
    "herta-sparsifier", "Sparsified graphs", Settings(),
    Settings(graphs=(BRIDGED, "cora"), lams=(1.0,), draws=(0.5, 4.0), repeats=1, checks=3),
    points, compute, draw, judge, **h.PARTS,
)  # fmt: skip
