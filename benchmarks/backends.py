"""Seconds and bytes of one denoising per backend and size, for the table that says which backend to take.

    python benchmarks/backends.py            a minute; two threads

Each row runs in a process of its own, which denoises once to compile or cache, and once for the seconds. Memory is the peak
of the whole process, its graph and libraries included.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np

import nareg

#: Backend, kind of graph, nodes, and weights.
ROWS = (
    ("scipy", "knn", 5_000, "independent"),
    ("scipy", "grid", 1_000_000, "independent"),
    ("scipy", "grid", 1_000_000, "smooth"),
    ("torch", "grid", 1_000_000, "independent"),
)


def measure(backend: str, kind: str, n: int, spread: str) -> dict[str, object]:
    """One row, in this process."""
    rng = np.random.default_rng(0)
    side = round(n**0.5)
    graph = nareg.graphs.grid((side, side)) if kind == "grid" else nareg.graphs.sensor(n, rng=rng)
    n = graph.n_nodes
    w = 10 ** (rng.uniform(-1.5, 1.5, n) if spread == "independent" else 3.0 * np.arange(n) / n)
    y = rng.standard_normal(n)
    nareg.filters.denoise(graph, w, y, backend=backend)
    start = time.perf_counter()
    solution = nareg.filters.denoise(graph, w, y, backend=backend)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": seconds, "bytes": peak, "method": solution.method}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", type=int, help=argparse.SUPPRESS)
    row = parser.parse_args().row
    if row is not None:
        print(json.dumps(measure(*ROWS[row])))
        return
    print("| backend | graph | nodes | weights | seconds | MB | method |\n|---|---|---|---|---|---|---|")
    for k, (backend, kind, n, spread) in enumerate(ROWS):
        done = subprocess.run([sys.executable, __file__, "--row", str(k)], check=True, capture_output=True, text=True)
        result = json.loads(done.stdout)
        size = result["bytes"] / 1e6
        print(f"| {backend} | {kind} | {n:,} | {spread} | {result['seconds']:.3g} | {size:.3g} | {result['method']} |")


if __name__ == "__main__":
    main()
