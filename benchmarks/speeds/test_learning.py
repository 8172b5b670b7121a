"""Graph networks, HERTA and unlearning on a block graph of 3,000 nodes with 64 features, mean degree about 10."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nareg
from nareg import gnn, herta, unlearning


@pytest.fixture(scope="module", autouse=True)
def _one_torch_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def blocks():
    rng = np.random.default_rng(0)
    graph = nareg.graphs.stochastic_block([600] * 5, np.full((5, 5), 0.001) + 0.013 * np.eye(5), rng=rng)
    labels = np.repeat(np.arange(5), 600)
    features = rng.standard_normal((5, 64))[labels] + rng.standard_normal((3_000, 64))
    return graph, features, labels, rng.permutation(3_000)[:600]


@pytest.mark.parametrize("layer", ["NGC", "RNGC"])
def test_forward_and_backward(benchmark, blocks, layer):
    graph, features, *_ = blocks
    convolution = getattr(gnn, layer)(64, 5)
    x = torch.tensor(features, dtype=torch.float32, requires_grad=True)
    edge_index = torch.tensor(graph.to_edge_index()[0])
    benchmark(lambda: convolution(x, edge_index).sum().backward())
    assert torch.isfinite(x.grad).all()


def test_herta(benchmark, blocks):
    graph, features, labels, train = blocks
    result = benchmark(herta.fit, graph, features, labels, loss="ce", lam=1.0, train=train)
    assert result.losses[-1] < result.losses[0]


def test_unlearn_a_node(benchmark, blocks):
    graph, features, labels, train = blocks
    model = unlearning.CertifiedGPR(lam=1e-2, rng=np.random.default_rng(0)).fit(graph, features, labels, train)
    requests = iter(train)
    # once per node: a node is removed once
    answer = benchmark.pedantic(model.remove_nodes, setup=lambda: (([int(next(requests))],), {}), rounds=50)
    assert answer is not None
