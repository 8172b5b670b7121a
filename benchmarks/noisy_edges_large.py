"""Edge weights from noisy readings with gaps on a large geometric network: seconds, and the error on held-out maps.

    python benchmarks/noisy_edges_large.py                  10,000 stations, 100 snapshots, 10 % gaps, one core
    python benchmarks/noisy_edges_large.py --nodes 2000     to look at it

Two truths: ``edges``, a Gaussian field whose precision has random weights on the graph's edges, and ``field``, one whose
smoothness varies over the square and whose precision is not on the graph. Noise has the power of the signal. Errors are those
of 50 further maps with gaps, over those of the best single weight, which sees the clean training maps. ``true precision`` is
the Wiener filter that knows everything.
"""

from __future__ import annotations

import argparse
import platform
import resource
import time
from importlib.metadata import version

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.progress import Progress as Bars

from nareg import Graph, design, filters, graphs
from nareg.progress import Progress
from nareg.results import upper_edges

#: Maps on which errors are measured.
TEST = 50
#: Standard deviation of the logarithm of true weights.
SCATTER = 2.0


def on_edges(graph: Graph) -> tuple[sp.csc_array, sp.csc_array]:
    """A precision with a log-normal weight on every edge and a log-normal row sum at every node, and a square root B."""
    rng = np.random.default_rng(1)
    n, L = graph.n_nodes, graph.laplacian()
    i, j = upper_edges(L)
    weights = -np.asarray(L[i, j]).ravel() * np.exp(SCATTER * rng.standard_normal(i.size))
    sums = 0.01 * weights.mean() * np.exp(SCATTER * rng.standard_normal(n))
    edges = np.arange(i.size)
    ends = sp.csc_array((np.ones(i.size), (i, edges)), shape=(n, i.size)) - sp.csc_array(
        (np.ones(i.size), (j, edges)), shape=(n, i.size)
    )
    B = sp.csc_array(sp.hstack([ends * np.sqrt(weights), sp.diags_array(np.sqrt(sums))]))
    return sp.csc_array(B @ B.T), B


def off_edges(graph: Graph) -> tuple[sp.csc_array, sp.csc_array]:
    """The precision of a field that is a hundred times rougher on the right of the square, and a square root."""
    k = 0.02 * 100 ** graph.coordinates[:, 0] * graph.degrees.mean()
    B = sp.csc_array((graph.laplacian() + sp.diags_array(k)) @ sp.diags_array(1 / np.sqrt(k)))
    return sp.csc_array(B @ B.T), B


def wiener(precision: sp.csc_array, Y: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Maps by the true precision, for noise of variance one."""
    return np.column_stack([
        sp.linalg.splu(sp.csc_matrix(precision + sp.diags_array(at.astype(float)))).solve(np.where(at, y, 0.0))
        for y, at in zip(Y.T, seen.T, strict=True)
    ])  # fmt: skip


def measure(truth: str, n_nodes: int, times: int, gaps: float) -> str:
    """A row of the table."""
    rng = np.random.default_rng(0)
    graph = graphs.sensor(n_nodes, rng=rng)
    precision, B = {"edges": on_edges, "field": off_edges}[truth](graph)
    # Theta^-1 B z has the covariance Theta^-1
    X = sp.linalg.splu(precision).solve(B @ rng.standard_normal((B.shape[1], times + TEST)))
    precision, X = precision * np.mean(X**2), X / np.sqrt(np.mean(X**2))
    seen = rng.random(X.shape) >= gaps
    Y = np.where(seen, X + rng.standard_normal(X.shape), np.nan)
    data = {"measurements": Y[:, :times], "observed": seen[:, :times], "noise": 1.0}
    with Bars(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(truth, total=1.0)

        def progress(report: Progress) -> None:
            bars.update(task, completed=report.fraction or 0.0, description=f"{truth}: {report.stage}")

        start, cpu = time.perf_counter(), time.process_time()
        edges = design.edge(graph, **data, progress=progress)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    designs = {
        "one": design.node_invariant(graph, rule="oracle", signals=X[:, :times], noise=1.0),
        "edges": edges,
    }
    test = Y[:, times:], seen[:, times:]
    maps = {name: filters.interpolate(graph, d, *test).x for name, d in designs.items()} | {"true": wiener(precision, *test)}
    error = {name: np.sum((x - X[:, times:]) ** 2) for name, x in maps.items()}
    shrink = edges.certificate.details["shrink"]
    return (
        f"| {truth} | {seconds:.0f} | {cpu:.0f} | {peak:.1f} | {shrink:.2f} | {error['edges'] / error['one']:.3f} "
        f"| {error['true'] / error['one']:.3f} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--gaps", type=float, default=0.1)
    parser.add_argument("--truths", nargs="+", choices=("edges", "field"), default=["edges", "field"])
    options = parser.parse_args()
    print(
        f"Python {platform.python_version()}, numpy {version('numpy')}, nareg {version('nareg')}; {options.nodes} stations, "
        f"{options.times} snapshots, {options.gaps:.0%} gaps\n"
    )
    print("| truth | seconds | of the processor | GiB | shrink | edge | true precision |")
    print("|---" * 7 + "|")
    for truth in options.truths:
        print(measure(truth, options.nodes, options.times, options.gaps), flush=True)


if __name__ == "__main__":
    main()
