"""ogbn-products where a user has it, and what propagation costs on a made-up graph of its size."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _nodes as n
from experiments._figure import Figure, Point, Row, Verdict
from nareg import gnn, graphs
from nareg._solvers._torch._device import resolve
from nareg.errors import DatasetNotFoundError

#: Ways to propagate whose cost is measured.
WAYS: dict[str, dict[str, Any]] = {
    "NGC": {},
    "RNGC, edge-masked": {"perturbation": n.Perturbation(1e-2, masked=True)},
    "RNGC": {"perturbation": n.Perturbation(1e-2)},
    "NGC exact (1e-3)": {"solver": "chebyshev"},
}
#: Trained on the data set itself.
MODELS = (n.MLP, n.GCN, n.S2GC, n.NGC, n.RNGC)


@dataclass(frozen=True)
class Settings:
    """The made-up graph has the nodes, edges (about) and features of ogbn-products, degrees by a power law."""

    nodes: tuple[int, ...] = (24_490, 244_903, 2_449_029)
    mean_degree: float = 50.5
    features: int = 100
    order: int = 16
    levels: tuple[float, ...] = (0.1, 1.0)
    runs: int = 10
    epochs: int = 300
    seed: int = 0
    device: str | None = None


def points(s: Settings) -> list[Point]:
    cost: list[Point] = [{"what": "cost", "nodes": nodes} for nodes in s.nodes]
    return cost + [{"what": "accuracy", "level": level, "run": run} for level in s.levels for run in range(s.runs)]


def compute(s: Settings, point: Point) -> list[Row]:
    return cost(s, point["nodes"]) if point["what"] == "cost" else accuracy(s, point["level"], point["run"])


def cost(s: Settings, nodes: int) -> list[Row]:
    """Seconds of one propagation, by one thread, and the process's memory at its peak."""
    n.torch.set_num_threads(1)
    rng = np.random.default_rng(s.seed)
    graph = graphs.power_law(nodes, mean_degree=s.mean_degree, rng=rng)
    edges, adjacency = graph.n_edges, n.Adjacency(graph)
    del graph
    device = resolve(s.device or "cpu")
    features = n.noise.normalize_rows(rng.standard_normal((nodes, s.features), dtype=np.float32))
    x = n.torch.as_tensor(features, device=device)
    adjacency.tensor(x.dtype, x.device)  # prepared once, as a training does
    rows: list[Row] = []
    for way, arguments in WAYS.items():
        start = time.perf_counter()
        gnn.propagate(adjacency, x, lam=32.0, **{"solver": n.Neumann(s.order), **arguments})
        if device.type == "cuda":
            n.torch.cuda.synchronize(device)  # it returns before the work is done
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        rows.append({"model": way, "edges": edges, "seconds": seconds, "peak_gib": peak, "test": None, "refused": ""})
    return rows


def accuracy(s: Settings, level: float, run: int) -> list[Row]:
    """Every model on the data set itself, whose files a user must have."""
    try:
        _, features, graph = n.loaded("ogbn-products")
    except DatasetNotFoundError:
        return [{"model": model, "test": None, "refused": "not run: ogbn-products is not here"} for model in MODELS]
    seed = [s.seed, run, round(100 * level)]
    x = n.noisy(features, level, "l2", seed)
    defaults = n.Filter(128, 32.0 if level < 1 else 256.0, 1e-2, 0.01, 0.0, hidden=(256, 256), dropout=0.5)
    known = n.recipes("ogbn-products", graph.degrees, defaults)
    known[n.MLP] = n.Candidate(lambda f, c: n.peers.mlp(f, c, hidden=256))
    known[n.GCN] = n.Candidate(lambda f, c: n.peers.gcn(f, c, hidden=256))
    head: dict[str, Any] = {
        "hidden": (256, 256),
        "dropout": 0.5,
        "lam": defaults.lam,
        "solver": n.Neumann(defaults.order),
        "perturbation": n.Perturbation(defaults.eps, masked=True),
    }
    known[n.RNGC] = n.Candidate(lambda f, c: n.networks.FilteredNetwork(f, c, **head), defaults.lr, defaults.weight_decay)
    return n.trained("ogbn-products", x, MODELS, seed, epochs=s.epochs, device=s.device, chosen_recipes=known)


def draw(s: Settings, rows: list[Row]) -> Any:
    """Seconds of a propagation against edges; the thin line has slope one."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.5, 4.5), layout="constrained")
    for k, way in enumerate(WAYS):
        mine = [row for row in rows if row["model"] == way and row["what"] == "cost"]
        axis.plot([row["edges"] for row in mine], [row["seconds"] for row in mine], "o-", color=f"C{k}", label=way)
    first = next(row for row in rows if row["model"] == "NGC")
    ends = np.array(
        [min(r["edges"] for r in rows if r["what"] == "cost"), max(r["edges"] for r in rows if r["what"] == "cost")]
    )
    axis.plot(ends, first["seconds"] * ends / first["edges"], color="0.7", linewidth=1)
    axis.set(
        xscale="log", yscale="log", xlabel="undirected edges", ylabel=f"seconds, S = {s.order}, F = {s.features}, one thread"
    )
    axis.legend(fontsize=8)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    largest = [row for row in rows if row["what"] == "cost" and row["nodes"] == s.nodes[-1]]
    seconds = "; ".join(f"{row['model']} {row['seconds']:.1f} s" for row in largest)
    plain, masked = (next(r["seconds"] for r in largest if r["model"] == way) for way in ("NGC", "RNGC, edge-masked"))
    said = f"On a made-up graph: {s.nodes[-1]} nodes, {largest[0]['edges']} edges, S = {s.order}: {seconds}."
    cells = [row for row in rows if row["what"] == "accuracy" and row["test"] is not None]
    means = {
        (model, level): accuracies.mean
        for model in MODELS
        for level in s.levels if (accuracies := n.cell(cells, model=model, level=level)) is not None
    }  # fmt: skip
    better = [means[n.RNGC, level] > mean for (model, level), mean in means.items() if model in (n.MLP, n.GCN, n.S2GC)]
    texts = "; ".join(f"{model} {level:g}: {mean:.1f}" for (model, level), mean in means.items())
    return [
        Verdict("masked", n.grade([masked < 2 * plain]), said, on="on a made-up graph"),
        Verdict("accuracy", n.grade(better), f"{texts}." if means else "ogbn-products is not here."),
    ]


FIGURE = Figure(
    "gnn-products", "Cost at the size of ogbn-products", Settings(),
    Settings(nodes=(2_449, 24_490), order=4, levels=(0.1,), runs=1),
    points, compute, draw, judge, **n.PARTS,
)  # fmt: skip
