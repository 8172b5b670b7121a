"""Removals against full propagation and training, in one run.

    python benchmarks/unlearning.py              n = 169,343, about 1.2 million edges, F = 128, L = 2 (ogbn-arxiv's size); Cora
    python benchmarks/unlearning.py --small      a tenth of it, without Cora
    python benchmarks/unlearning.py --device cuda   and full propagation on a GPU beside it
    python benchmarks/unlearning.py --products   n = 2,449,029, about 62 million edges, F = 100 (ogbn-products'): 16 GiB

Prints medians of the seconds that it takes to bring the embedding up to date, their ratio to a full propagation by the same
compiled loop and by SciPy, rows touched, and on Cora the whole of a removal with its certificate.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable

import numba
import numpy as np
import scipy.sparse as sp

import nareg
from nareg.errors import DatasetNotFoundError
from nareg.unlearning import CertifiedGPR
from nareg.unlearning.propagation.base import Change
from nareg.unlearning.propagation.device import Device
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.propagation.exact import Propagation, edge_factors

WEIGHTS = np.array([0.0, 0.0, 1.0])


def seconds(call: Callable[[], object], runs: int) -> list[float]:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def some_edges(graph: LiveGraph, count: int, rng: np.random.Generator) -> np.ndarray:
    """Random edges that are there: a random neighbor of a node drawn in proportion to its degree."""
    edges: set[tuple[int, int]] = set()
    ends = np.cumsum(graph.live)
    while len(edges) < count:
        place = int(rng.integers(ends[-1]))
        u = int(np.searchsorted(ends, place, side="right"))
        v = int(graph.neighbors[graph.start[u] + place - (ends[u] - graph.live[u])])
        edges.add((min(u, v), max(u, v)))
    return np.array(sorted(edges))


def propagation(n: int, degree: float, features: int, exponent: float, batches: dict[int, int], device: str | None) -> None:
    rng = np.random.default_rng(0)
    live = LiveGraph(nareg.graphs.power_law(n, exponent=exponent, mean_degree=degree, rng=rng))
    print(f"\n{n} nodes, {live.n_edges} edges, degrees by a power law of exponent {exponent:g} (largest {live.live.max()}), "
          f"F = {features}, L = 2, {numba.get_num_threads()} threads")  # fmt: skip
    X = rng.standard_normal((n, features))
    propagated = Propagation(live, X, WEIGHTS, np.arange(n // 2))
    full = min(seconds(propagated.recompute, 3))
    if device is not None:
        there = Propagation(live, X, WEIGHTS, np.arange(n // 2), device=Device(device))
        on_device = min(seconds(there.recompute, 3))
        print(f"full propagation on {device}, transfers counted: {on_device:.3f} s; here {full:.3f} s")
        del there
    if n < 1_000_000:
        A = live.adjacency() + sp.eye_array(n, format="csr")
        roots = sp.diags_array(live.degrees**-0.5)
        P = sp.csr_array(roots @ A @ roots)
        print(f"full propagation: {full:.3f} s; by SciPy {min(seconds(lambda: P @ (P @ X), 3)):.3f} s")
        del A, P
        pairs = [some_edges(live, 1, rng)[0] for _ in range(201)]  # the first compiles
        times = [seconds(lambda pair=pair: edge_factors(propagated, pair), 1)[0] for pair in pairs][1:]
        print(f"factors of an edge: median {1e3 * statistics.median(times):.3f} ms, largest {1e3 * max(times):.1f} ms")
    else:
        print(f"full propagation: {full:.3f} s")
    for count, runs in batches.items():
        times, touched = [], []
        for _ in range(runs):
            change = Change(removed=some_edges(live, count, rng))
            start = time.perf_counter()
            propagated.update(change)
            times.append(time.perf_counter() - start)
            reached, _ = propagated.scratch.reach(change.touched, propagated.order)
            propagated.scratch.forget(reached)
            touched.append(reached.size)
        median = statistics.median(times)
        print(f"{count:5d} edges: median {1e3 * median:9.3f} ms, largest {1e3 * max(times):9.1f} ms, full propagation is "
              f"{full / median:7.1f} times that; rows touched {statistics.median(touched):.0f}")  # fmt: skip
    print(f"memory at the peak: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB")


def cora(removals: int, device: str | None = None) -> None:
    try:
        data = nareg.datasets.load("cora")
    except DatasetNotFoundError as error:
        print(f"\nCora is not here: {error}")
        return
    rng = np.random.default_rng(0)
    nodes = rng.permutation(data.n_nodes)
    train, test = nodes[:1208], nodes[-1000:]

    def right(model: CertifiedGPR) -> float:
        return float((model.predict(test) == data.labels[test]).mean())

    model = CertifiedGPR(device=device, rng=rng)
    (fitting,) = seconds(lambda: model.fit(data.graph, data.dense_features().astype(float), data.labels, train), 1)
    before, times, shares = right(model), [], []
    for pair in rng.permutation(np.argwhere(sp.triu(data.graph.adjacency).toarray()))[:removals]:
        start = time.perf_counter()
        certificate = model.remove_edges([pair])
        times.append(time.perf_counter() - start)
        shares.append(certificate.spent / certificate.budget)
    where = "" if device is None else f" on {device}"
    print(
        f"\nCora{where}, 1,433 features, 7 classes, 1,208 training nodes: fit {fitting:.2f} s, {100 * before:.1f} % right; "
        f"one edge with its certificate: median {1e3 * statistics.median(times):.1f} ms, largest {1e3 * max(times):.1f} ms; "
        f"after {removals} of them {100 * right(model):.1f} % right, budget spent at most {100 * max(shares):.1f} %"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--products", action="store_true")
    parser.add_argument("--threads", type=int, default=numba.get_num_threads())
    parser.add_argument("--device", help="of torch, to compare with")
    arguments = parser.parse_args()
    numba.set_num_threads(arguments.threads)
    if arguments.products:
        propagation(2_449_029, 50.5, 100, 3.3, {1: 20, 1000: 3}, arguments.device)  # largest degree as there
        return
    for exponent in (3.0, 2.5):
        propagation(16_934 if arguments.small else 169_343, 14.2, 128, exponent, {1: 200, 25: 20, 125: 8}, arguments.device)
    if not arguments.small:
        cora(200)
        if arguments.device is not None:
            cora(200, arguments.device)


if __name__ == "__main__":
    main()
