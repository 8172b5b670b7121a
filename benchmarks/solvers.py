"""Filters against their peers in one run: time, iterations and residual at 16 signals.

    python benchmarks/solvers.py            the full table (about ten minutes on two cores)
    python benchmarks/solvers.py --small    the same on a hundredth of the nodes, to see that it runs

Problems: a sensor graph of 100,000 nodes (7 nearest neighbors in the unit square) and a grid of 1,000,000.
Once with weights spread independently over three decades, once with one weight (tau = 2). Peers: SciPy's plain
conjugate gradients and SuperLU on the same matrix at the same residual; PyGSP's regression_tikhonov, which knows
one weight only and stops at 1e-5. Every method starts from zero; compilation and imports are done before.
"""

from __future__ import annotations

import argparse
import platform
import resource
import time
from collections.abc import Callable
from importlib.metadata import version

import numpy as np
import pygsp
import scipy.sparse as sp
from rich.console import Console
from rich.progress import track
from scipy.sparse.linalg import cg, splu

import nareg

TOL = 1e-8
SIGNALS = 16

Answer = tuple[np.ndarray, int | None]


def ours(graph: nareg.Graph, w: np.ndarray, Y: np.ndarray, method: str) -> Answer:
    solution = nareg.filters.denoise(graph, w, Y, method=method, tol=TOL)
    return solution.x, solution.iterations


def plain_cg(K: sp.csr_matrix, Y: np.ndarray) -> Answer:
    x, max_iterations = np.empty_like(Y), 0
    for t in track(range(Y.shape[1]), "plain CG, signal by signal", transient=True, console=Console(stderr=True)):
        count = [0]

        def tick(_: np.ndarray, count: list[int] = count) -> None:
            count[0] += 1

        x[:, t], _ = cg(K, Y[:, t], rtol=TOL, maxiter=5000, callback=tick)
        max_iterations = max(max_iterations, count[0])
    return x, max_iterations


def superlu(K: sp.csr_matrix, Y: np.ndarray) -> Answer:
    lu = splu(sp.csc_matrix(K), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return lu.solve(Y), None


def pygsp_tikhonov(graph: pygsp.graphs.Graph, Y: np.ndarray, tau: float) -> Answer:
    return pygsp.learning.regression_tikhonov(graph, Y, np.ones(len(Y), dtype=bool), tau=tau), None


def measure(call: Callable[[], Answer], K: sp.csr_matrix, Y: np.ndarray) -> tuple[float, int | None, float]:
    """Seconds, iterations, and the largest relative residual recomputed from the answer."""
    begun = time.perf_counter()
    x, iterations = call()
    seconds = time.perf_counter() - begun
    residual = np.max(np.linalg.norm(Y - K @ x, axis=0) / np.linalg.norm(Y, axis=0))
    return seconds, iterations, float(residual)


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a hundredth of the nodes")
    parser.add_argument("--no-lu", action="store_true", help="leave out the sparse LU of the grid (minutes, gigabytes)")
    options = parser.parse_args()
    shrink = 100 if options.small else 1
    side = 100 if options.small else 1000
    rng = np.random.default_rng(0)
    graphs = {
        f"sensor graph, {100_000 // shrink:,} nodes": nareg.graphs.sensor(100_000 // shrink, rng=rng),
        f"grid, {side * side:,} nodes": nareg.graphs.grid((side, side)),
    }
    warm = nareg.graphs.grid((10, 10))  # compile the kernels outside the measured time
    for columns in (1, SIGNALS):
        nareg.filters.denoise(warm, 1.0, np.ones((100, columns)), method="cg")
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "pygsp", "pyamg", "numba", "nareg"))
    print(f"Python {platform.python_version()}, {versions}; {SIGNALS} signals, relative residual {TOL:g}\n")
    print("| problem | weights | method | seconds | iterations | residual | against nareg |")
    print("|---|---|---|---|---|---|---|")
    for name, graph in graphs.items():
        n = graph.n_nodes
        Y = rng.standard_normal((n, SIGNALS))
        L = graph.laplacian()
        for label, w in (("three decades", 10 ** rng.uniform(-1.5, 1.5, n)), ("one, tau = 2", np.full(n, np.sqrt(2.0)))):
            K = sp.csr_matrix(sp.eye_array(n) + sp.diags_array(w) @ L @ sp.diags_array(w))
            calls: dict[str, Callable[[], Answer]] = {
                "nareg auto": lambda graph=graph, w=w, Y=Y: ours(graph, w, Y, "auto"),
                "nareg multigrid": lambda graph=graph, w=w, Y=Y: ours(graph, w, Y, "multigrid"),
                "SciPy cg, plain": lambda K=K, Y=Y: plain_cg(K, Y),
            }
            if not (options.no_lu and n > 500_000):
                calls["SciPy SuperLU"] = lambda K=K, Y=Y: superlu(K, Y)
            if label.startswith("one"):
                there = graph.to_pygsp()
                _ = there.L  # its Laplacian is built once, outside the measured time
                calls["PyGSP regression_tikhonov (1e-5)"] = lambda there=there, Y=Y: pygsp_tikhonov(there, Y, 2.0)
            first = None
            for method, call in calls.items():
                seconds, iterations, residual = measure(call, K, Y)
                first = first or seconds
                its = "" if iterations is None else iterations
                ratio = f"{seconds / first:.1f}"
                print(f"| {name} | {label} | {method} | {seconds:.2f} | {its} | {residual:.1e} | {ratio} |", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\npeak memory of the whole run: {peak:.1f} GiB")


if __name__ == "__main__":
    main()
