"""A device against the CPU beside it: filters, designs, space-time smoothing, training, HERTA and unlearning, in one run.

    python benchmarks/devices.py --device cuda           minutes; the sizes stand in the table
    python benchmarks/devices.py --device cuda --small   a tenth of the nodes
    python benchmarks/devices.py --only filters training

Seconds of whole calls, transfers counted: the shorter of two after one to warm up; of one on the CPU where a call is long.
Beside them stands the largest difference of the answers, relative to the largest entry. Of trainings it is the difference of
the accuracies, or of the losses.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

import nareg
from experiments._gnn_peers import PredictThenPropagate
from nareg import herta
from nareg._solvers.backends import Torch
from nareg.filters import prepare
from nareg.gnn import networks, training
from nareg.spacetime._sparse.estimates import THREADS, mean_of, on_torch
from nareg.spacetime._sparse.field import FieldFamily
from nareg.spacetime._sparse.system import Process
from nareg.unlearning import CertifiedGPR


@dataclass(frozen=True)
class Row:
    """A job, its calls on the CPU and on the device, each with an answer, and how many times to time them."""

    job: str
    here: Callable[[], np.ndarray]
    there: Callable[[], np.ndarray]
    runs: int = 2


def filters(device: str, scale: int) -> Iterator[Row]:
    """One filter of many signals: on a mesh and on a network with hubs."""
    rng = np.random.default_rng(0)
    side = round((1_000_000 / scale) ** 0.5)
    graphs = {
        "grid": nareg.graphs.grid((side, side)),
        "power law": nareg.graphs.power_law(169_343 // scale, mean_degree=14, rng=rng),
    }
    for name, graph in graphs.items():
        n = graph.n_nodes
        y, w = rng.standard_normal((n, 16)), 10 ** rng.uniform(-1.5, 1.5, n)
        for method in ("cg", "multigrid") if name == "grid" else ("cg",):
            cpu, gpu = (prepare(graph, w, method=method, backend=backend) for backend in ("scipy", Torch(device=device)))
            yield Row(
                f"{method}, {name} of {n:,}, 16 signals", lambda f=cpu, y=y: f.denoise(y).x, lambda f=gpu, y=y: f.denoise(y).x
            )
            there = torch.as_tensor(y, device=device)
            yield Row(
                f"{method}, {name} of {n:,}, tensors there",
                lambda f=cpu, y=y: f.denoise(y).x,
                lambda f=gpu, y=there: synchronized(f.denoise(y).x).cpu().numpy(),
            )


def synchronized(x: torch.Tensor) -> torch.Tensor:
    if x.device.type == "cuda":
        torch.cuda.synchronize(x.device)
    return x


def designs(device: str, scale: int) -> Iterator[Row]:
    """Weights from a hundred clean signals of a large network."""
    rng = np.random.default_rng(0)
    graph = nareg.graphs.sensor(6_000 // scale, rng=rng)
    signals = nareg.filters.denoise(graph, 3.0, rng.standard_normal((graph.n_nodes, 100))).x
    for name, design in (("exact", nareg.design.exact), ("edge", nareg.design.edge)):

        def call(backend: object, design: Callable[..., object] = design, name: str = name) -> np.ndarray:
            options = {"criterion": "risk", "rng": np.random.default_rng(1)} if name == "edge" else {}
            made = design(graph, signals=signals, noise=0.5, backend=backend, **options)
            return np.array([made.objective])

        yield Row(
            f"design.{name}, {graph.n_nodes:,} nodes", lambda c=call: c("scipy"), lambda c=call: c(Torch(device=device)), 1
        )


def spacetime(device: str, scale: int) -> Iterator[Row]:
    """The mean of the sparse engine's smoother with known parameters; standard deviations come from the CPU with both."""
    rng = np.random.default_rng(0)
    graph = nareg.Graph.from_knn(rng.random((10_000 // scale, 2)), 8)
    process = Process(FieldFamily(graph.adjacency, 2).at(6.0), 0.93, 2.0, np.full(graph.n_nodes, 0.5))
    readings = process.draw(300, rng) + np.sqrt(0.5) * rng.standard_normal((graph.n_nodes, 300))
    readings[rng.random(readings.shape) < 0.2] = np.nan
    with ThreadPoolExecutor(THREADS) as pool:
        yield Row(
            f"smoothed mean, {graph.n_nodes:,} stations x 300 times",
            lambda: mean_of(readings.T, process, pool, 1e-8).T,
            lambda: on_torch(process, readings, 1e-8, Torch(device=device)),
        )


def task(scale: int) -> tuple[nareg.Graph, np.ndarray, np.ndarray, list[np.ndarray]]:
    """A graph of ogbn-arxiv's size, 128 features whose means are the classes', 40 classes, and halves of the nodes."""
    rng = np.random.default_rng(0)
    graph = nareg.graphs.power_law(169_343 // scale, mean_degree=14, rng=rng)
    labels = rng.integers(0, 40, graph.n_nodes)
    features = (0.5 * rng.standard_normal((40, 128))[labels] + rng.standard_normal((graph.n_nodes, 128))).astype(np.float32)
    return graph, features, labels, np.array_split(rng.permutation(graph.n_nodes), 3)


class Filter(torch.nn.Module):
    """NGC without weights."""

    def __init__(self, lam: float) -> None:
        super().__init__()
        self.lam = lam

    def forward(self, x: torch.Tensor, graph: nareg.gnn.Adjacency) -> torch.Tensor:
        """Filtered rows."""
        return nareg.gnn.propagate(graph, x, lam=self.lam)


def trainings(device: str, scale: int) -> Iterator[Row]:
    """Forty epochs: a filter before a perceptron, and one behind it, in every epoch."""
    graph, features, labels, split = task(scale)
    builders = {
        "NGC before a perceptron": lambda: networks.FilteredNetwork(128, 40, lam=4.0, hidden=(128,)),
        "RNGC before a perceptron": lambda: networks.FilteredNetwork(
            128, 40, lam=4.0, hidden=(128,), perturbation=nareg.gnn.Perturbation(0.1)
        ),
        "a perceptron before NGC": lambda: PredictThenPropagate(networks.Perceptron(128, 40, (128,)), Filter(4.0)),
    }
    for name, build in builders.items():

        def call(where: str, build: Callable[[], networks.Network] = build) -> np.ndarray:
            protocol = training.Protocol(epochs=40, device=where)
            return np.array([training.fit(build, graph, features, labels, split, protocol=protocol).test_accuracy])

        yield Row(f"40 epochs, {name}", lambda c=call: c("cpu"), lambda c=call: c(device), 1)


def unfolded(device: str, scale: int) -> Iterator[Row]:
    """HERTA's training of an unfolded network to convergence."""
    graph, features, labels, split = task(scale)
    for loss, optimizer in (("mse", "pcg"), ("ce", "lbfgs")):

        def call(where: str, loss: str = loss, optimizer: str = optimizer) -> np.ndarray:
            result = herta.fit(
                graph, features.astype(float), labels, lam=1.0, train=split[0], loss=loss, optimizer=optimizer, device=where
            )
            return np.array([result.loss])

        yield Row(f"HERTA, {loss} by {optimizer}", lambda c=call: c("cpu"), lambda c=call: c(device), 1)


def unlearning(device: str, scale: int) -> Iterator[Row]:
    """Fit, and one request to remove a hundred nodes, of a certified model."""
    graph, features, labels, split = task(scale)

    def call(where: str | None) -> np.ndarray:
        model = CertifiedGPR(device=where, rng=np.random.default_rng(0)).fit(graph, features.astype(float), labels, split[0])
        model.remove_nodes(split[0][:100])
        return np.array([(model.predict(split[2]) == labels[split[2]]).mean()])

    yield Row("CertifiedGPR: fit, 100 nodes removed", lambda: call(None), lambda: call(device), 1)


JOBS = {
    "filters": filters,
    "designs": designs,
    "spacetime": spacetime,
    "training": trainings,
    "herta": unfolded,
    "unlearning": unlearning,
}


def seconds(call: Callable[[], np.ndarray], runs: int) -> tuple[float, np.ndarray]:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        answer = call()
        times.append(time.perf_counter() - start)
    return min(times), answer


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", nargs="+", choices=JOBS, default=list(JOBS))
    options = parser.parse_args()
    name = torch.cuda.get_device_name(options.device) if options.device.startswith("cuda") else options.device
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"{name} and {cores} CPU cores, torch {torch.__version__}\n")
    print("| job | CPU, s | device, s | CPU / device | difference |\n|---|---|---|---|---|")
    for job in options.only:
        for row in JOBS[job](options.device, 10 if options.small else 1):
            warm = 1 if options.device != "cpu" else 0
            there, answer = seconds(row.there, 1 + warm if row.runs == 1 else row.runs + warm)
            here, expected = seconds(row.here, row.runs)
            gap = np.abs(answer - expected).max() / np.abs(expected).max()
            print(f"| {row.job} | {here:.3f} | {there:.3f} | {here / there:.1f} | {gap:.0e} |", flush=True)


if __name__ == "__main__":
    main()
