"""Filters on torch: on the CPU against our compiled loops, on a GPU against its bandwidth and bare sparse products.

    python benchmarks/torch_filters.py                   CPU, minutes; --small on a hundredth of the nodes
    python benchmarks/torch_filters.py --device cuda     a GPU: batched CG on a grid of 10^6, and propagation

Medians of five calls of a prepared filter, in turn, so that other work on the machine meets both. On the CPU a ratio is torch's
time over that of the compiled loops. On a GPU it is the bandwidth of conjugate gradients over that of a copy, counting each
array of an iteration once per step that must touch it, with fused kernels and without; and propagation (16 steps, n = 169,343,
1.2e6 edges, 128 float32 features) over 16 bare products with the same matrix, with PyTorch Geometric beside it.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

import nareg
from nareg._solvers._torch import _passes
from nareg._solvers.backends import Torch
from nareg.filters import prepare

RUNS = 5
#: Arrays of the signals' size that one CG iteration reads or writes: product 2, step 6, direction 3; sums come on the way.
PASSES = 11


def medians(calls: dict[str, Callable[[], object]], device: str) -> dict[str, float]:
    """Seconds of each call, measured in turn."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for run in range(RUNS + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if device != "cpu":
                torch.cuda.synchronize()
            if run:  # the first sets up
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def on_the_cpu(scale: int) -> None:
    """Seconds of the compiled loops and of torch, in float64 and in corrected float32."""
    rng = np.random.default_rng(0)
    side = round((90_000 / scale) ** 0.5)
    graphs = {
        "grid": nareg.graphs.grid((side, side)),
        "sensors": nareg.graphs.sensor(60_000 // scale, rng=rng),
        "power law": nareg.graphs.power_law(50_000 // scale, rng=rng),
    }
    print("| graph, nodes | method | signals | compiled | torch | ratio | torch, float32 | ratio | largest difference |")
    print("|---|---|---|---|---|---|---|---|---|")
    ratios: dict[str, list[float]] = {}
    for name, graph in graphs.items():
        n = graph.n_nodes
        # one small weight for Chebyshev, whose interval one large weight at a hub would stretch to thousands of rounds
        for method, w in (("cg", 10 ** rng.uniform(-1.5, 1.5, n)), ("chebyshev", np.full(n, 0.3))):
            for signals in (1, 4, 16, 64):
                y = rng.standard_normal((n, signals))
                backends = {"compiled": "scipy", "torch": Torch(device="cpu")}
                backends["float32"] = Torch(device="cpu", dtype=torch.float32)
                filters = {key: prepare(graph, w, method=method, backend=backend) for key, backend in backends.items()}
                seconds = medians({key: lambda f=f, y=y: f.denoise(y) for key, f in filters.items()}, "cpu")
                answers = {key: f.denoise(y).x for key, f in filters.items()}
                gap = max(np.abs(answers[key] - answers["compiled"]).max() for key in ("torch", "float32"))
                double, single = (seconds[key] / seconds["compiled"] for key in ("torch", "float32"))
                ratios.setdefault(method, []).append(double)
                print(
                    f"| {name}, {n:,} | {method} | {signals} | {seconds['compiled']:.3f} "
                    f"| {seconds['torch']:.3f} | {double:.2f} | {seconds['float32']:.3f} | {single:.2f} | {gap:.0e} |",
                    flush=True,
                )
    for method, values in ratios.items():
        print(f"\n{method}: geometric mean of the ratios {np.exp(np.mean(np.log(values))):.2f}, largest {max(values):.2f}")


def on_a_gpu(device: str, scale: int) -> None:
    """Bandwidth of conjugate gradients, and propagation against bare products."""
    print(f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}\n")
    print("| what | seconds | floor | ratio |\n|---|---|---|---|")
    source = torch.empty(2**28 // scale, device=device)
    target = torch.empty_like(source)
    copy = 2 * source.nbytes / medians({"copy": lambda: target.copy_(source)}, device)["copy"]
    side = round((1_000_000 / scale) ** 0.5)
    graph = nareg.graphs.grid((side, side))
    n = graph.n_nodes
    rng = np.random.default_rng(0)
    for dtype, many in itertools.product((torch.float64, torch.float32), (_passes.MANY, n + 1)):
        _passes.MANY = many
        size = torch.finfo(dtype).bits // 8
        y = torch.as_tensor(rng.standard_normal((n, 16)), device=device)
        cg = prepare(graph, 10 ** rng.uniform(-1.5, 1.5, n), method="cg", backend=Torch(device=device, dtype=dtype))
        seconds = medians({"cg": lambda cg=cg, y=y: cg.denoise(y)}, device)["cg"]
        moved = cg.denoise(y).iterations * (PASSES * n * 16 * size + 5 * n * (size + 4))
        floor, kind = moved / copy, "torch's operations" if many > n else "fused kernels"
        print(
            f"| CG, {n:,} nodes, 16 signals, {dtype}, {kind} | {seconds:.4f} | {floor:.4f} | {floor / seconds:.2f} |",
            flush=True,
        )
    n, order = 169_343 // scale, 16
    graph = nareg.graphs.power_law(n, mean_degree=14, rng=rng)
    adjacency = nareg.gnn.Adjacency(graph)
    x = torch.as_tensor(rng.standard_normal((n, 128)), device=device, dtype=torch.float32)
    matrix = adjacency.tensor(torch.float32, torch.device(device))

    def products() -> torch.Tensor:
        Z = x
        for _ in range(order):
            Z = torch.mm(matrix, Z)
        return Z

    weights = np.full(order + 1, 1.0 / (order + 1))
    seconds_of = medians({"ours": lambda: nareg.gnn.propagate(adjacency, x, weights=weights), "bare": products}, device)
    ours, bare = seconds_of["ours"], seconds_of["bare"]
    try:
        from torch_geometric.nn import SSGConv
    except ModuleNotFoundError:
        print("PyTorch Geometric is not installed: no peer")
    else:
        index = torch.as_tensor(graph.to_edge_index()[0], device=device)
        conv = SSGConv(128, 128, alpha=0.0, K=order, cached=False).to(device)
        conv.lin = torch.nn.Identity()

        def pyg() -> torch.Tensor:
            with torch.no_grad():
                return conv(x, index)

        peer = medians({"PyG": pyg}, device)["PyG"]  # by itself: its messages fill the memory that the next call starts with
        print(f"| PyTorch Geometric's SSGConv beside it | {peer:.4f} | {bare:.4f} | {peer / bare:.2f} |")
    print(f"| propagation, {n:,} nodes, {graph.n_edges:,} edges, 128 features | {ours:.4f} | {bare:.4f} | {ours / bare:.2f} |")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    scale = 100 if options.small else 1
    if options.device == "cpu":
        print(f"torch {torch.__version__}, {torch.get_num_threads()} threads\n")
        on_the_cpu(scale)
    else:
        on_a_gpu(options.device, scale)


if __name__ == "__main__":
    main()
