"""Following a network in time: 50 stations and 500 times with noise, gaps and faults; 2,000 stations for the sparse engine."""

from __future__ import annotations

import numpy as np
import pytest

import nareg


@pytest.fixture(scope="module")
def network():
    return nareg.datasets.simulated(50, 500, rng=np.random.default_rng(0))


def fitted(graph, readings):
    return nareg.spacetime.fit(graph, readings, rng=np.random.default_rng(0))


@pytest.fixture(scope="module")
def model(network):
    return fitted(network.graph(), network.readings)


def test_fit(benchmark, network):
    assert benchmark(fitted, network.graph(), network.readings).n_nodes == 50


def test_smooth(benchmark, model):
    assert np.isfinite(benchmark(model.smooth).x).all()


def test_check(benchmark, model):
    assert benchmark(nareg.quality.check, model).flags.shape == (50, 500)


def test_stream_update(benchmark, network, model):
    stream, y = model.stream(), network.readings[:, 0]
    assert np.isfinite(benchmark(lambda: stream.update(y)).x).all()


def test_fit_of_the_sparse_engine(benchmark):
    rng = np.random.default_rng(0)
    graph = nareg.Graph.from_knn(rng.random((2_000, 2)), 8)
    readings = np.cumsum(rng.standard_normal((2_000, 50)), axis=1)
    assert benchmark(fitted, graph, readings).n_nodes == 2_000
