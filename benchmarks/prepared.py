"""A prepared filter against ``denoise`` called anew, on streams of snapshots.

    python benchmarks/prepared.py            minutes; --small leaves out 250,000 nodes

A row per graph and weights: seconds of the first call of a prepared filter, of a later one, and of ``denoise`` for the same
snapshot; a later call with 1 % of the readings missing, and ``interpolate``. Medians of five calls, single threads.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import numpy as np

import nareg
from nareg.errors import AmplificationWarning

RUNS = 5


def seconds(call: Callable[[], object], runs: int = RUNS) -> float:
    """Median of so many calls."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def weights(graph: nareg.Graph) -> dict[str, np.ndarray]:
    """One moderate weight, one large, independent ones over three decades, and smooth ones over three decades."""
    n = graph.n_nodes
    rng = np.random.default_rng(1)
    place = np.linspace(0.0, 1.0, n) if graph.coordinates is None else np.argsort(np.argsort(graph.coordinates[:, 0])) / n
    return {
        "one, 1": np.full(n, 1.0),
        "one, 30": np.full(n, 30.0),
        "independent": 10 ** rng.uniform(-1.5, 1.5, n),
        "smooth": 10 ** (3.0 * place),
    }


def row(name: str, graph: nareg.Graph, kind: str, w: np.ndarray) -> str:
    """The numbers of one graph and its weights, as a row of a table."""
    rng = np.random.default_rng(0)
    n = graph.n_nodes
    y = rng.standard_normal(n)
    seen = rng.random(n) < 0.99
    nareg.filters.denoise(graph, w, y)  # what is compiled or cached once
    denoiser = nareg.filters.prepare(graph, w)
    first = seconds(lambda: denoiser.denoise(y), 1)
    later, once = seconds(lambda: denoiser.denoise(y)), seconds(lambda: nareg.filters.denoise(graph, w, y), 3)
    gaps = seconds(lambda: denoiser.interpolate(y, seen), 3)
    gaps_once = seconds(lambda: nareg.filters.interpolate(graph, w, y, seen), 3)
    error = np.abs(denoiser.denoise(y).x - nareg.filters.denoise(graph, w, y, tol=1e-11).x).max()
    method = denoiser.denoise(y).method.split(" (")[0]
    numbers = " | ".join(f"{v:.4f}" for v in (first, later, once))
    return (
        f"| {name}, {n:,} | {kind} | {method} | {numbers} | {once / later:.1f} | {gaps:.4f} | {gaps_once:.4f} "
        f"| {gaps_once / gaps:.1f} | {error:.0e} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    graphs = {
        "sensors": [nareg.graphs.sensor(n, rng=rng) for n in (10_000, 60_000)],
        "grid": [nareg.graphs.grid((300, 300))] + ([] if options.small else [nareg.graphs.grid((500, 500))]),
    }
    columns = "graph, nodes|weights|solver|first|later|denoise|ratio|gaps, later|interpolate|ratio|largest error"
    print(f"| {columns.replace('|', ' | ')} |")
    warnings.simplefilter("ignore", AmplificationWarning)
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, sizes in graphs.items():
        for graph in sizes:
            for kind, w in weights(graph).items():
                print(row(name, graph, kind, w), flush=True)


if __name__ == "__main__":
    main()
