"""Seconds behind two claims of the papers.

    python benchmarks/claims.py program    an iteration of an interior-point solver on Prony's program (25), by nodes
    python benchmarks/claims.py gradient   the gradient of HERTA's Algorithm 1 beside PyTorch's autograd, on Pubmed

A minute each, CPU seconds of one thread: of Clarabel everything that cvxpy does included. ``gradient`` unfolds the
network in so many steps, and takes the same steps in the formula; medians.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import cvxpy
import numpy as np
import torch

import nareg

NODES = (20, 30, 45, 70)
LAM, STEPS, REPEATS = 1.0, 16, 7


def program() -> None:
    print("| nodes | iterations | seconds per iteration |\n|---:|---:|---:|")
    each = []
    for n in NODES:
        graph = nareg.graphs.erdos_renyi(n, 0.5, rng=np.random.default_rng(n))
        L = graph.laplacian().toarray()
        x = np.linalg.eigh(L)[1][:, : 2 * n // 5].sum(axis=1)  # the signal of Section V-A
        omega = cvxpy.Variable((n, n), PSD=True)
        cost = cvxpy.sum_squares(cvxpy.multiply(omega, L) @ x)
        problem = cvxpy.Problem(cvxpy.Minimize(cost), [cvxpy.diag(omega) >= 1 / n])
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # ends "inaccurate", at values next to zero
            problem.solve(solver="CLARABEL")
        each.append((time.process_time() - began) / problem.solver_stats.num_iters)
        print(f"| {n} | {problem.solver_stats.num_iters} | {each[-1]:.3g} |", flush=True)
    power = np.polyfit(np.log(NODES[1:]), np.log(each[1:]), 1)[0]
    print(f"\nPower of the nodes from {NODES[1]} on: {power:.1f}")


def gradient() -> None:
    torch.set_num_threads(1)
    data = nareg.datasets.load("pubmed")
    adjacency = nareg.gnn.Adjacency(data.graph).raw + 0.0
    adjacency.setdiag(1.0)
    root = np.asarray(adjacency.sum(axis=1)).ravel() ** -0.5
    scaled = adjacency.multiply(root[:, None]).multiply(root[None]).tocoo()
    at, values = torch.from_numpy(np.stack(scaled.coords)), torch.from_numpy(scaled.data.astype(np.float32))
    coordinates = torch.sparse_coo_tensor(at, values, scaled.shape, check_invariants=True).coalesce()
    warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state", UserWarning)
    X = torch.tensor(np.asarray(data.dense_features()), dtype=torch.float32)
    train = torch.from_numpy(np.random.default_rng(0).permutation(np.flatnonzero(data.labels >= 0))[: int(0.8 * len(X))])
    Y = torch.nn.functional.one_hot(torch.as_tensor(data.labels)[train]).float()
    W = torch.zeros((X.shape[1], Y.shape[1]))

    def unfolded(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """``H^-1 B``, ``H = I + LAM L``, by steps of gradient descent as in a TWIRLS network."""
        Z, rate = B, 1 / (1 + LAM)
        for _ in range(STEPS):
            Z = Z - rate * ((1 + LAM) * Z - LAM * (A @ Z) - B)
        return Z

    def formula(A: torch.Tensor) -> torch.Tensor:
        R = torch.zeros((len(X), Y.shape[1]))
        R[train] = unfolded(A, X @ W)[train] - Y
        return X.T @ unfolded(A, R)

    def autograd(A: torch.Tensor) -> torch.Tensor:
        V = W.clone().requires_grad_()
        (0.5 * (unfolded(A, X @ V)[train] - Y).square().sum()).backward()
        assert V.grad is not None
        return V.grad

    def seconds(of: Callable[[torch.Tensor], torch.Tensor], A: torch.Tensor) -> float:
        times = []
        for _ in range(REPEATS + 1):
            began = time.process_time()
            of(A)
            times.append(time.process_time() - began)
        return statistics.median(times[1:])

    for name, A in (("COO", coordinates), ("CSR", coordinates.to_sparse_csr())):
        a, b = formula(A), autograd(A)
        difference = float((a - b).abs().max() / a.abs().max())
        ours, theirs = seconds(formula, A), seconds(autograd, A)
        print(
            f"{name}: formula {1e3 * ours:.0f} ms, autograd {1e3 * theirs:.0f} ms, {theirs / ours:.2f} times as long; "
            f"largest difference over the largest entry {difference:.0e}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("program", "gradient"))
    {"program": program, "gradient": gradient}[parser.parse_args().what]()
