"""Modules that are trained: what they are given, and what is refused."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from joblib import Parallel, delayed

import nareg
from experiments import _gnn_peers as peers
from nareg.gnn import networks, training

from .test_training import DATA, fit


def outputs(net, data):
    """What a network says of a data set, in whatever process."""
    inputs = net.prepare(nareg.gnn.Adjacency(data.graph), torch.from_numpy(data.features))
    with torch.no_grad():
        return net.eval()(inputs, slice(None)).numpy()


@pytest.mark.slow
def test_trained_networks_and_data_sets_go_to_other_processes_and_are_copied():
    makers = (
        lambda: peers.gat(64, 3),
        lambda: peers.RobustGCN(64, 3),
        lambda: networks.FilteredNetwork(64, 3, lam=4.0),
    )
    trained = [fit(make, epochs=2).network for make in makers]
    for net in trained:
        other = copy.deepcopy(net)
        assert {id(p) for p in other.decayed()} <= {id(p) for p in other.parameters()}
        np.testing.assert_array_equal(outputs(other, DATA), outputs(net, DATA))
    there = Parallel(n_jobs=2)(delayed(outputs)(net, DATA) for net in trained)
    for net, result in zip(trained, there, strict=True):
        np.testing.assert_allclose(result, outputs(net, DATA), atol=1e-5)


def test_a_network_without_outputs_is_refused():
    class Nothing(networks.Network):
        """No forward."""

    with pytest.raises(TypeError, match="abstract"):
        Nothing()


class Weighted(torch.nn.Module):
    """The features' sum over weighted edges."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, x, edge_index=None, edge_weight=None):
        weight = torch.ones(edge_index.shape[1], 1) if edge_weight is None else edge_weight[:, None]
        return torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]] * weight) * self.scale


@pytest.mark.parametrize(
    "wrapped",
    [lambda m: m, lambda m: torch.compile(m, backend="eager"), torch.nn.DataParallel],
    ids=["bare", "compiled", "parallel"],
)
def test_edges_that_are_optional_and_weights_reach_a_module_and_one_in_a_wrapper(wrapped):
    weight = torch.tensor([2.0, 2.0, 5.0, 5.0])
    A = nareg.gnn.Adjacency(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), edge_weight=weight)
    network = networks.as_network(wrapped(Weighted()))
    out = network(network.prepare(A, torch.tensor([[1.0], [10.0], [100.0]])), slice(None))
    assert out.ravel().tolist() == [20.0, 502.0, 50.0]


def test_a_module_that_takes_anything_gets_edges_whatever_is_inside():
    class Anything(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(1, 1)

        def forward(self, *args, **options):
            x, edge_index = args
            return self.linear(x[edge_index[1]])

    assert networks.as_network(Anything()).takes_edges


def test_a_compiled_module_of_features_gets_no_edges():
    assert not networks.as_network(torch.compile(torch.nn.Linear(2, 3), backend="eager")).takes_edges


def test_a_module_in_the_place_of_a_function_is_refused():
    with pytest.raises(nareg.errors.InputError, match="build is a FilteredNetwork: pass a function that builds"):
        fit(networks.FilteredNetwork(64, 3))


def test_a_module_with_nothing_to_train_is_refused():
    with pytest.raises(nareg.errors.InputError, match="Linear has no parameter that requires a gradient"):
        fit(lambda: torch.nn.Linear(64, 3).requires_grad_(False))


def test_a_module_may_have_a_state_that_is_no_tensor():
    class Counting(torch.nn.Linear):
        def get_extra_state(self):
            return {"calls": 1}

        def set_extra_state(self, state):
            raise AssertionError

    assert fit(lambda: Counting(64, 3)).test_accuracy > 0


@pytest.mark.parametrize(
    "options", [{}, {"solver": "cg"}, {"solver": "cg", "masked": True}, {"normalization": "rw"}, {"masked": True}]
)
def test_a_training_diverges_in_front_of_a_perturbed_layer(options):
    """Hidden features that are NaN have no spectrum to check."""
    hidden, last = nareg.gnn.NGC(64, 8), nareg.gnn.RNGC(8, 3, lam=0.5, eps=1.0, **options)
    network = peers.Convolutional(hidden, last)
    run = training.fit(
        lambda: network, DATA.graph, DATA.features, DATA.labels, DATA.splits[0],
        learning_rate=1e25, protocol=training.Protocol(epochs=3), rng=np.random.default_rng(0),
    )  # fmt: skip
    assert run.status.name == "DIVERGED"
