"""Propagation against PyTorch Geometric and against bare sparse products, in one run.

    python benchmarks/propagation.py            n = 169,343, about 1.2 million edges, F = 128, S = 16 (ogbn-arxiv's size)
    python benchmarks/propagation.py --small    a tenth of it

Prints medians of five runs, the ratio to sixteen bare products, the arrays that a call allocates, and the products that the
exact filter takes.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch

from nareg import gnn, graphs
from nareg._solvers import cg
from nareg.gnn import Adjacency, Chebyshev, ConjugateGradients, Perturbation, propagate, series
from nareg.gnn._operators import adjacency_operator
from nareg.gnn.ngc import system

RUNS = 5


def seconds(call: Callable[[], object]) -> float:
    call()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def allocated(call: Callable[[], object]) -> int:
    """Bytes that are allocated at the same time, beyond what there was, by torch's own account."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        call()
    in_use = peak = 0
    for event in sorted(profile.profiler.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            in_use += event.nbytes()
            peak = max(peak, in_use)
    return peak


def exact(adjacency: Adjacency, x: torch.Tensor, lam: float, tol: float) -> tuple[int, float, int, float]:
    """Products and relative error (to the solution, not to x) of CG and Chebyshev."""
    reference = propagate(adjacency, x.double(), lam=lam, solver=ConjugateGradients(1e-10))
    solved, products = cg.solve_exactly(system(adjacency_operator(adjacency, x), lam), x, tol=tol)
    expanded = propagate(adjacency, x, lam=lam, solver=Chebyshev(tol))
    size = reference.norm()
    errors = [float((answer.double() - reference).norm() / size) for answer in (solved, expanded)]
    return products, errors[0], series.products_needed(lam, tol), errors[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    n, F, S = (16_934 if arguments.small else 169_343), 128, 16
    rng = np.random.default_rng(0)
    graph = graphs.power_law(n, mean_degree=14.2, rng=rng)
    adjacency = Adjacency(graph)
    x = torch.from_numpy(rng.standard_normal((n, F), dtype=np.float32))
    A = adjacency.tensor(x.dtype, x.device)
    index = torch.tensor(graph.to_edge_index()[0])
    print(f"{n} nodes, {graph.n_edges} edges, F = {F}, S = {S}, {arguments.threads} threads, torch {torch.__version__}")
    ways: dict[str, Callable[[], object]] = {
        "16 bare products (torch.sparse.mm)": lambda: [torch.sparse.mm(A, x) for _ in range(S)],
        "NGC": lambda: propagate(adjacency, x),
        "RNGC": lambda: propagate(adjacency, x, perturbation=Perturbation(1.0)),
        "RNGC, edge-masked": lambda: propagate(adjacency, x, perturbation=Perturbation(0.1, masked=True)),
        "NGC exact, 1e-3 (Chebyshev)": lambda: propagate(adjacency, x, solver="chebyshev"),
        "RNGC exact, 1e-3 (Chebyshev)": lambda: propagate(adjacency, x, solver="chebyshev", perturbation=Perturbation(1.0)),
        "NGC exact, 1e-3 (CG)": lambda: propagate(adjacency, x, solver="cg"),
    }
    for layer, name in ((gnn.NGC(F, F), "NGC layer"), (gnn.RNGC(F, F), "RNGC layer, same features")):
        ways[name] = torch.no_grad()(lambda layer=layer: layer(x, adjacency))
    try:
        from torch_geometric.nn import SSGConv
    except ModuleNotFoundError:
        print("PyTorch Geometric is not installed: no peer")
    else:
        layer = SSGConv(F, F, alpha=0.05, K=S)
        ways["PyG SSGConv, edge_index"] = torch.no_grad()(lambda: layer(x, index))
        ways["PyG SSGConv, CSR"] = torch.no_grad()(lambda: layer(x, adjacency.tensor(x.dtype, x.device)))
    times = {name: seconds(call) for name, call in ways.items()}
    bare, ngc = times["16 bare products (torch.sparse.mm)"], times["NGC"]
    # compulsory traffic of a product: A once, X read and written once
    traffic = S * (12.0 * A.values().numel() + 8.0 * n * F)
    copied = seconds(lambda: x.clone())
    for name, duration in times.items():
        print(f"{name:36} {duration:8.3f} s   {duration / bare:6.2f} bare   {duration / ngc:6.2f} NGC")
    print(f"copy bandwidth {8 * n * F / copied / 1e9:.1f} GB/s; NGC moves its compulsory {traffic / ngc / 1e9:.1f} GB/s")
    unit = 4 * n * F
    for name in ("NGC", "NGC exact, 1e-3 (Chebyshev)", "RNGC"):
        print(f"{name}: at most {allocated(ways[name]) / unit:.2f} arrays of x's size at a time, the result among them")
    for lam in (32.0, 1024.0):
        products, error, terms, other = exact(adjacency, x, lam, 1e-3)
        print(f"lam = {lam:g}, tol = 1e-3: CG {products} products, error {error:.1e}; Chebyshev {terms}, {other:.1e}")


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)
    main()
