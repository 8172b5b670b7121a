"""Work of lazy propagation from the first edge to the last, counted (Theorems 3.3 and D.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

import nareg
from experiments import _unlearning as u
from experiments._figure import Figure, Point, Row, Verdict, chosen, grade
from nareg.unlearning.propagation import kernels
from nareg.unlearning.propagation.base import Change
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.propagation.residual import ApproximatePropagation

REGULAR, POWER_LAW, STAR = "regular", "power law", "star"
GRAPHS = (REGULAR, POWER_LAW, STAR)
#: Mean degree of a star.
TWO = 2


@dataclass(frozen=True)
class Settings:
    """Sizes, degrees and orders vary one at a time, around ``nodes[1]``, ``degrees[1]`` and ``orders[1]``. ``residues`` are
    r_max n: the theorem has r_max >= 1 / n, smaller ones say what then happens.
    """

    nodes: tuple[int, ...] = (250, 500, 1000)
    degrees: tuple[int, ...] = (4, 8, 16)
    orders: tuple[int, ...] = (1, 2, 3, 4)
    residues: tuple[float, ...] = (1.0, 0.1, 0.01)
    seed: int = 0


def points(s: Settings) -> list[Point]:
    nodes, degree, order = s.nodes[1], s.degrees[1], s.orders[1]
    ways = [(n, degree, order) for n in s.nodes]
    ways += [(nodes, d, order) for d in s.degrees] + [(nodes, degree, L) for L in s.orders]
    return [
        {"graph": graph, "nodes": n, "degree": d if graph != STAR else TWO, "order": L, "residue": residue}
        for graph in GRAPHS for residue in s.residues for n, d, L in dict.fromkeys(ways) if graph != STAR or d == degree
    ]  # fmt: skip


class Counted(ApproximatePropagation):
    """Counts the rows that pushes add to: neighbors, and the node itself."""

    work = 0

    def _spread(self, pushed: np.ndarray, sent: np.ndarray, residues: np.ndarray) -> np.ndarray:
        if pushed.size:
            self.work += int(kernels.work(self.graph.live, pushed))
        return super()._spread(pushed, sent, residues)


def compute(s: Settings, point: Point) -> list[Row]:
    """Every edge is removed, in a random order, with one column of features scaled to ``||D^1/2 x||_1 = 1``."""
    n, rng = point["nodes"], np.random.default_rng([s.seed, point["nodes"]])
    graph = nareg.Graph(nx.to_scipy_sparse_array(made(point["graph"], n, point["degree"]), format="csr", dtype=float))
    x = rng.random((n, 1))
    x /= np.sqrt(graph.adjacency.sum(axis=1) + 1) @ x
    weights = np.eye(point["order"] + 1)[-1]
    stored = Counted(LiveGraph(graph), x, weights, np.arange(n), r_max=point["residue"] / n)
    stored.work = 0  # not that of the first propagation
    edges = rng.permutation(np.argwhere(sp.triu(graph.adjacency).toarray()))
    for edge in edges:
        stored.update(Change(removed=edge[None]))
    d = 2 * len(edges) / n
    per_edge = stored.work / len(edges)
    return [{"edges": len(edges), "mean degree": d, "work": per_edge, "share": per_edge / (point["order"] ** 2 * d)}]


def made(kind: str, n: int, degree: int) -> Any:
    if kind == STAR:
        return nx.star_graph(n - 1)
    return nx.random_regular_graph(degree, n, seed=1) if kind == REGULAR else nx.barabasi_albert_graph(n, degree // 2, seed=1)


def draw(s: Settings, rows: list[Row]) -> Any:
    """Work of a removal over L^2 d: a panel each for nodes, degree and order, a color a graph, a mark an r_max."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained", sharey=True)
    middle = {"nodes": s.nodes[1], "degree": s.degrees[1], "order": s.orders[1]}
    labels = {"nodes": "nodes n", "degree": "mean degree d", "order": "order L"}
    for axis, (varied, label) in zip(axes, labels.items(), strict=True):
        for k, graph in enumerate(GRAPHS):
            fixed = {key: value for key, value in middle.items() if key != varied}
            if graph == STAR:
                fixed.pop("degree", None)
            for residue, mark in zip(s.residues, "os^", strict=False):
                mine = sorted(chosen(rows, graph=graph, residue=residue, **fixed), key=lambda row: row[varied])
                mine = [row for row in mine if row["share"] > 0]
                axis.plot([row[varied] for row in mine], [row["share"] for row in mine], f"{mark}-", color=f"C{k}",
                          label=f"{graph}, r_max n = {residue:g}")  # fmt: skip
        axis.axhline(1, color="k", linewidth=0.8)
        axis.set(xlabel=label, xscale="log", yscale="log")
        ticks = list(getattr(s, {"nodes": "nodes", "degree": "degrees", "order": "orders"}[varied]))
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.minorticks_off()
    axes[0].set_ylabel("rows added to per removal, over L² d")
    axes[2].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.02, 0.5))
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    """At r_max = 1 / n, the least that the theorem has."""
    holds, texts = [], []
    for graph in GRAPHS:
        mine = chosen(rows, graph=graph, residue=1.0)
        sizes = [row["share"] for n in s.nodes for row in chosen(mine, nodes=n, order=s.orders[1]) if _middle(s, row)]
        holds.append(max(row["share"] for row in mine) <= 1)
        shown = ", ".join(f"{share:.2g} at {n}" for n, share in zip(s.nodes, sizes, strict=True))
        texts.append(f"{graph}: {shown} nodes, at most {max(row['share'] for row in mine):.2g}")
    small = min(s.residues)
    beyond = ", ".join(
        f"{graph} {max(row['share'] for row in chosen(rows, graph=graph, residue=small)):.2g}" for graph in GRAPHS
    )
    idle = [graph for graph in GRAPHS if all(row["work"] == 0 for row in chosen(rows, graph=graph, residue=1.0))]
    why = (
        "Rows that pushes of a removal add to, over L^2 d, until no edge is left. The proof takes d for the cost of a push; on "
        f"a star the pushed node has all the edges. At r_max = {small:g} / n the ratio is at most {beyond}."
        + (f" Nothing is pushed at all: {', '.join(idle)}." if idle else "")
    )
    return [Verdict("last-edge", grade(holds), "; ".join(texts) + ".", why)]


def _middle(s: Settings, row: Row) -> bool:
    return row["graph"] == STAR or row["degree"] == s.degrees[1]


FIGURE = Figure(
    "unlearning-cost", "Work of lazy propagation until no edge is left", Settings(),
    Settings(nodes=(100, 200), degrees=(4, 8), orders=(1, 2)),
    points, compute, draw, judge, **u.PARTS,
)  # fmt: skip
