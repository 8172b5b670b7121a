"""`method="auto"` against every single method, on 24 systems from 10,000 to 1,000,000 nodes.

    python benchmarks/auto.py            about ten minutes on two cores; --small leaves out graphs above 100,000 nodes

A row per system: seconds by `auto`, its choice, seconds by each method, and `auto` over the best of them. Compilation and the
graph are done before; each number is the median of three runs, of one where a run takes more than ten seconds. An iterative
method is stopped once it has taken three times as long as `auto`; `direct` is not tried above 300,000 nodes (a minute and
more).
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.progress import track
from scipy.sparse.csgraph import connected_components

import nareg
from nareg.errors import NaregError

METHODS = ("direct", "cg", "multigrid", "chebyshev")
#: Graph, nodes, weights, signals.
CASES = (
    ("grid", 10_000, "smooth", 1), ("grid", 10_000, "one, 30", 64), ("grid", 100_000, "one, 1", 4),
    ("grid", 100_000, "one, 30", 4), ("grid", 250_000, "smooth", 4), ("grid", 1_000_000, "independent", 1),
    ("grid", 1_000_000, "smooth", 1), ("kNN", 10_000, "one, 30", 4), ("kNN", 10_000, "independent", 64),
    ("kNN", 60_000, "one, 30", 4), ("kNN", 60_000, "smooth", 64), ("kNN", 200_000, "smooth", 1),
    ("kNN", 200_000, "one, 1", 64), ("kNN", 1_000_000, "independent", 4), ("power law", 10_000, "one, 30", 1),
    ("power law", 100_000, "smooth", 4), ("power law", 100_000, "independent", 64), ("power law", 1_000_000, "one, 1", 1),
    ("power law", 10_000, "smooth", 64), ("road", 10_000, "smooth", 64), ("road", 100_000, "one, 30", 1),
    ("road", 100_000, "one, 1", 64), ("road", 500_000, "smooth", 4), ("road", 1_000_000, "independent", 1),
)  # fmt: skip


class TooSlow(Exception):
    """A method took three times as long as ``auto``."""


def road(n: int, rng: np.random.Generator) -> nareg.Graph:
    """The largest part of a grid that has lost 38 % of its edges: degrees of 2.5, long detours."""
    side = round((n / 0.84) ** 0.5)
    upper = sp.coo_array(sp.triu(nareg.graphs.grid((side, side)).adjacency))
    left = rng.random(upper.nnz) < 0.62
    A = sp.coo_array((np.ones(left.sum()), tuple(c[left] for c in upper.coords)), shape=upper.shape)
    A = sp.csr_array(A + A.T)
    labels = connected_components(A, directed=False)[1]
    part = np.flatnonzero(labels == np.bincount(labels).argmax())
    return nareg.Graph(A[part][:, part])


def make(name: str, n: int) -> nareg.Graph:
    """A graph of about n nodes."""
    rng = np.random.default_rng(0)
    if name == "grid":
        side = round(n**0.5)
        return nareg.graphs.grid((side, side))
    if name == "kNN":
        return nareg.graphs.sensor(n, rng=rng)
    return road(n, rng) if name == "road" else nareg.graphs.power_law(n, mean_degree=8, rng=rng)


def weights(graph: nareg.Graph, kind: str) -> np.ndarray:
    """One weight; independent ones over three decades; smooth ones over three decades."""
    n = graph.n_nodes
    if kind.startswith("one"):
        return np.full(n, float(kind.split(", ")[1]))
    if kind == "independent":
        return 10 ** np.random.default_rng(1).uniform(-1.5, 1.5, n)
    place = np.linspace(0.0, 1.0, n) if graph.coordinates is None else np.argsort(np.argsort(graph.coordinates[:, 0])) / n
    return 10 ** (3.0 * place)


def seconds(call: Callable[[], nareg.Solution]) -> tuple[float, nareg.Solution]:
    """Median of three runs, of one where it is slow; and the last answer."""
    times: list[float] = []
    while len(times) < 3:
        start = time.perf_counter()
        solution = call()
        times.append(time.perf_counter() - start)
        if times[0] > 10:
            break
    return statistics.median(times), solution


def timed(graph: nareg.Graph, w: np.ndarray, Y: np.ndarray, method: str, limit: float) -> float | None:
    """Seconds of a method, None where it is refused, does not converge or takes longer than the limit."""
    if method == "direct" and graph.n_nodes > 300_000:
        return None

    def run() -> nareg.Solution:
        start = time.perf_counter()

        def watch(_: object) -> None:
            if time.perf_counter() - start > limit:
                raise TooSlow

        return nareg.filters.denoise(graph, w, Y, method=method, progress=watch)

    try:
        taken, solution = seconds(run)
    except (TooSlow, NaregError):
        return None
    return taken if solution.status.name == "CONVERGED" else None


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="up to 100,000 nodes")
    options = parser.parse_args()
    cases = [case for case in CASES if not options.small or case[1] <= 100_000]
    warm = nareg.graphs.grid((80, 80))
    for columns in (1, 4, 16):
        for method in ("cg", "multigrid", "chebyshev"):
            nareg.filters.denoise(warm, 3.0, np.ones((warm.n_nodes, columns)), method=method)
    nareg.filters.denoise(nareg.graphs.grid((110, 110)), 300.0, np.ones((12_100, 1)))
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "pyamg", "numba", "nareg"))
    print(f"Python {platform.python_version()}, {versions}; {os.cpu_count()} cores, relative residual 1e-8\n")
    print(f"| graph | nodes | weights | signals | auto | its choice | {' | '.join(METHODS)} | auto / best |")
    print("|---" * (7 + len(METHODS)) + "|")
    ratios = []
    for name, n, kind, columns in track(cases, "systems", transient=True, console=Console(stderr=True)):
        graph = make(name, n)
        w = weights(graph, kind)
        Y = np.random.default_rng(2).standard_normal((graph.n_nodes, columns))
        auto, solution = seconds(lambda graph=graph, w=w, Y=Y: nareg.filters.denoise(graph, w, Y))
        taken = {method: timed(graph, w, Y, method, 3 * auto) for method in METHODS}
        ratios.append(auto / min(t for t in taken.values() if t is not None))
        shown = " | ".join("" if t is None else f"{t:.3f}" for t in taken.values())
        choice = solution.method.split(" (")[0]
        print(
            f"| {name} | {graph.n_nodes:,} | {kind} | {columns} | {auto:.3f} | {choice} | {shown} | {ratios[-1]:.2f} |",
            flush=True,
        )
    print(f"\nauto / best: at most {max(ratios):.2f}, {np.exp(np.mean(np.log(ratios))):.2f} in the geometric mean")


if __name__ == "__main__":
    main()
