"""Thousands of mixed requests, checked against the raw data that remain by nothing but SciPy.

    python benchmarks/requests.py                     10,000 on a random graph of 2,000 nodes, 10,000 on Cora
    python benchmarks/requests.py --requests 500

Edges, nodes and features go, edges and nodes come. Every so often the embedding is computed from scratch, and the gradient at
the model's coefficients; printed are how far the first is off at most, the largest share of what its certificate says that
the second reaches, and seconds of a request.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import scipy.sparse as sp
from rich.progress import track
from scipy.special import expit

import nareg
from nareg.errors import DatasetNotFoundError
from nareg.unlearning import CertifiedGPR

WEIGHTS = np.array([0.1, 0.2, 0.7])


class Raw:
    """What remains, as a user would keep it: pairs, rows, labels."""

    def __init__(self, adjacency: sp.csr_array, features: np.ndarray, labels: np.ndarray, train: np.ndarray) -> None:
        upper = sp.triu(adjacency, format="coo")
        self.edges = {(int(u), int(v)) for u, v in zip(upper.row, upper.col, strict=True)}
        self.features, self.labels = list(features), labels.tolist()
        self.train, self.here = set(train.tolist()), set(range(len(features)))

    def embedding(self) -> np.ndarray:
        """``sum_l w_l (D^-1/2 (A + I) D^-1/2)^l X``."""
        n, pairs = len(self.features), np.array(sorted(self.edges)).reshape(-1, 2)
        half = sp.csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
        A = half + half.T + sp.eye_array(n)
        roots = sp.diags_array(1 / np.sqrt(A.sum(axis=1)))
        P, power = roots @ A @ roots, np.array(self.features)
        Z = WEIGHTS[0] * power
        for weight in WEIGHTS[1:]:
            power = P @ power
            Z += weight * power
        return Z

    def gradient(self, Z: np.ndarray, model: CertifiedGPR, B: np.ndarray) -> float:
        """Norm of that of the perturbed logistic problem."""
        nodes = sorted(self.train)
        y = np.where(np.array(self.labels)[nodes][:, None] == model.classes, 1.0, -1.0)
        W, rows = model.coefficients, Z[nodes]
        slope = -y * expit(-y * (rows @ W))
        return float(np.linalg.norm(rows.T @ slope + model.lam * len(nodes) * W + B))


def request(raw: Raw, model: CertifiedGPR, rng: np.random.Generator) -> None:
    """A random one, carried out on both."""
    kind = rng.choice(["remove edges", "add edges", "remove node", "remove features", "add nodes"], p=[0.3, 0.3, 0.1, 0.1, 0.2])
    here = np.array(sorted(raw.here))
    if kind == "remove edges" and raw.edges:
        every = sorted(raw.edges)
        pairs = [every[k] for k in rng.choice(len(every), min(3, len(every)), replace=False)]
        model.remove_edges(pairs)
        raw.edges.difference_update(pairs)
    elif kind == "add edges":
        ends = np.sort(rng.choice(here, (4, 2)), axis=1)
        pairs = sorted({(int(u), int(v)) for u, v in ends if u != v} - raw.edges)
        if pairs:
            model.add_edges(pairs)
            raw.edges.update(pairs)
    elif kind == "add nodes":
        count = int(rng.integers(1, 3))
        new = np.array(raw.features)[rng.choice(len(raw.features), count)] + 0.1 * rng.standard_normal(
            (count, len(raw.features[0]))
        )
        labels = rng.choice(np.concatenate([[-1], model.classes]), count)
        nodes = range(len(raw.features), len(raw.features) + count)
        model.add_nodes(new, labels=labels)
        raw.features += list(new)
        raw.labels += labels.tolist()
        raw.here.update(nodes)
        raw.train.update(node for node, label in zip(nodes, labels, strict=True) if label >= 0)
    elif kind in ("remove node", "remove features"):
        node = int(rng.choice(here))
        whole = kind == "remove node"
        if whole:
            model.remove_nodes([node])
            raw.edges = {pair for pair in raw.edges if node not in pair}
            raw.here.discard(node)
        else:
            model.remove_features([node], labels=True)
        raw.train.discard(node)
        raw.features[node] = np.zeros_like(raw.features[node])


def run(name: str, raw: Raw, model: CertifiedGPR, count: int, every: int, rng: np.random.Generator) -> None:
    times, off, share = [], 0.0, 0.0
    for k in track(range(1, count + 1), description=name):
        start = time.perf_counter()
        request(raw, model, rng)
        times.append(time.perf_counter() - start)
        if k % every == 0 or k == count:
            Z, certificate = raw.embedding(), model.certificate()
            off = max(off, float(np.abs(model.embedding() - Z).max()))
            share = max(share, raw.gradient(Z, model, model._head.B) / certificate.spent)
    print(
        f"{name}: {count} requests, checked at every {every}th: embedding off by at most {off:.2g}, gradient at most "
        f"{share:.4f} of what is certified; a request {1e3 * statistics.median(times):.1f} ms (median), {max(times):.2f} s "
        f"(largest); left: {len(raw.here)} nodes, {len(raw.edges)} edges, {len(raw.train)} training nodes"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=250)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    made = nareg.datasets.node_classification.synthetic(2000, 5, n_features=32, exponent=2.5, rng=rng)
    tasks = [("random graph", made, np.arange(1000))]
    try:
        tasks.append(("cora", nareg.datasets.load("cora"), rng.permutation(2708)[:1208]))
    except DatasetNotFoundError as error:
        print(f"Cora is not here: {error}")
    for name, data, train in tasks:
        X = data.dense_features().astype(float)
        model = CertifiedGPR(weights=WEIGHTS, rng=rng)
        model.fit(data.graph, X, data.labels, train, classes=np.unique(data.labels))
        run(name, Raw(data.graph.adjacency, X, data.labels, train), model, arguments.requests, arguments.every, rng)


if __name__ == "__main__":
    main()
