"""Layers as they are against torch.compile, forward and backward, and PyTorch Geometric's SSGConv beside them.

    python benchmarks/compiled_layers.py            300 to 30,000 nodes, 64 features, 16 outputs
    python benchmarks/compiled_layers.py --nodes 3000

Prints the shortest of many alternating passes, in processor time, which other work on the machine disturbs least, and the
seconds to compile.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import torch

from nareg import gnn, graphs

FEATURES, OUTPUTS, PASSES = 64, 16, 30


def step(module: torch.nn.Module, x: torch.Tensor, index: torch.Tensor) -> None:
    module.zero_grad()
    torch.relu(module(x, index)).square().mean().backward()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[300, 3000, 30_000])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread")
    for n in arguments.nodes:
        graph = graphs.power_law(n, mean_degree=10, rng=np.random.default_rng(0))
        index, x = torch.tensor(graph.to_edge_index()[0]), torch.randn(n, FEATURES)
        layers: dict[str, torch.nn.Module] = {
            "NGC": gnn.NGC(FEATURES, OUTPUTS),
            "NGC, chebyshev": gnn.NGC(FEATURES, OUTPUTS, solver="chebyshev"),
            "RNGC": gnn.RNGC(FEATURES, OUTPUTS, lam=4.0, eps=0.1),
            "NodeAdaptiveConv": gnn.NodeAdaptiveConv(FEATURES, OUTPUTS, n_nodes=n),
        }
        try:
            from torch_geometric.nn import SSGConv
        except ModuleNotFoundError:
            print("PyTorch Geometric is not installed: no peer")
        else:
            layers["PyG SSGConv"] = SSGConv(FEATURES, OUTPUTS, alpha=0.05, K=16)
        for name, layer in layers.items():
            torch._dynamo.reset()
            compiled = torch.compile(layer, fullgraph=True)
            start = time.perf_counter()
            step(compiled, x, index)
            took = time.perf_counter() - start
            best = [np.inf, np.inf]
            for _ in range(PASSES):
                for k, module in enumerate((layer, compiled)):
                    begun = time.process_time()
                    step(module, x, index)
                    best[k] = min(best[k], time.process_time() - begun)
            print(
                f"{n:7} nodes  {name:18} {1e3 * best[0]:8.2f} ms   compiled {1e3 * best[1]:8.2f} ms   "
                f"ratio {best[1] / best[0]:.2f}   to compile {took:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)
    main()
