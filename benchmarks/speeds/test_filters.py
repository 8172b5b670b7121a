"""Applying the denoiser to 16 signals on a sensor graph, with weights over three decades."""

from __future__ import annotations

import numpy as np
import pytest

import nareg


@pytest.mark.parametrize("method", ["auto", "direct", "cg", "multigrid"])
@pytest.mark.parametrize("nodes", [1_000, 30_000])
def test_denoise(benchmark, nodes, method):
    rng = np.random.default_rng(0)
    graph = nareg.Graph.from_knn(rng.random((nodes, 2)), 6)
    w, y = 10 ** rng.uniform(-1.5, 1.5, nodes), rng.standard_normal((nodes, 16))
    nareg.filters.denoise(graph, w, y, method=method)  # the ordering of the graph is kept from the first call on
    assert benchmark(nareg.filters.denoise, graph, w, y, method=method).status.ok
