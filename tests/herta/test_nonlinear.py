from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
import torch
from torch.func import functional_call, jacrev

import nareg
from nareg import herta
from nareg.errors import InputError
from tests.herta.helpers import problem, propagated

LAM = 2.0


def network(d, hidden=6, classes=3, seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(d, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, classes)).double()


@pytest.fixture
def task(rng):
    graph, X, labels, train = problem(rng, n=80, d=5)
    return graph, torch.as_tensor(X), torch.as_tensor(labels), torch.as_tensor(train)


@pytest.mark.parametrize("kind", ["augmented", "combinatorial"])
def test_the_graph_layer_is_the_dense_solve_with_its_gradient(kind, rng):
    graph = nareg.graphs.erdos_renyi(12, 0.4, rng=rng)
    unfold = herta.Unfold(graph, lam=LAM, kind=kind, tol=1e-12)
    Y = torch.as_tensor(rng.standard_normal((12, 2))).requires_grad_(True)
    np.testing.assert_allclose(unfold(Y).detach(), propagated(graph, Y.detach().numpy(), LAM, kind), atol=1e-10)
    assert torch.autograd.gradcheck(unfold, (Y,))


@pytest.mark.parametrize("loss", ["mse", "ce"])
def test_leading_curvature_is_that_of_the_dense_gauss_newton_matrix(task, loss):
    graph, X, _, train = task
    net, unfold = network(5), herta.Unfold(graph, lam=LAM)
    optimizer = herta.GaussNewton(torch.optim.SGD(net.parameters(), lr=1.0), net, X, unfold, train=train, loss=loss, rank=40)
    H = torch.as_tensor(propagated(graph, np.eye(80), LAM))[train]
    named = dict(net.named_parameters())
    J = jacrev(lambda q: H @ functional_call(net, q, (X,)))(named)
    J = torch.cat([J[name].reshape(train.numel() * 3, -1) for name in named], dim=1).detach()
    D = torch.eye(train.numel() * 3, dtype=torch.float64)
    if loss == "ce":
        D = torch.kron(torch.eye(train.numel()), 0.5 * (torch.eye(3) - 1 / 3)).double()
    exact = torch.linalg.eigh(J.T @ D @ J)
    values, V = optimizer.leading_curvature()
    assert torch.allclose(values[:10], exact.eigenvalues.flip(0)[:10], rtol=0.03)  # solves behind it are good to 1e-2
    assert torch.allclose(V.T @ V, torch.eye(V.shape[1], dtype=torch.float64), atol=1e-8)
    lead = exact.eigenvectors[:, -1]
    assert float((V[:, 0] @ lead).abs()) > 0.999


def test_coordinates_turn_back_and_gradients_follow(task, rng):
    graph, X, _, train = task
    net = network(5)
    optimizer = herta.GaussNewton(torch.optim.SGD(net.parameters(), lr=0.1), net, X, herta.Unfold(graph), train=train, rank=8)
    optimizer._renew()
    values = [torch.as_tensor(rng.standard_normal(p.shape)) for p in net.parameters()]
    for back, value in zip(optimizer._outer(optimizer._inner(values)), values, strict=True):
        assert torch.allclose(back, value, atol=1e-9)
    others = [torch.as_tensor(rng.standard_normal(p.shape)) for p in net.parameters()]
    left = sum(float((a * b).sum()) for a, b in zip(optimizer._outer(values), others, strict=True))
    right = sum(float((a * b).sum()) for a, b in zip(values, optimizer._pull_back(others), strict=True))
    assert left == pytest.approx(right, rel=1e-9)


def trained(net, optimizer, unfold, X, labels, train, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(unfold(net(X))[train], labels[train], reduction="sum")
        loss.backward()
        optimizer.step()
    return float(loss.detach())


@pytest.mark.slow
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_sixty_steps_get_further_at_the_best_learning_rate(task, kind):
    graph, X, labels, train = task
    unfold, first = herta.Unfold(graph, lam=LAM), network(5)

    def best(rates, wrap):
        found = []
        for rate in rates:
            net = copy.deepcopy(first)
            found.append(trained(net, wrap(kind(net.parameters(), lr=rate), net), unfold, X, labels, train, 60))
        return min(value for value in found if np.isfinite(value))

    plain = best((1e-4, 1e-3, 1e-2, 0.1, 1.0), lambda optimizer, net: optimizer)
    turned = best(
        (0.1, 0.3),
        lambda optimizer, net: herta.GaussNewton(optimizer, net, X, unfold, train=train, loss="ce", rank=40, every=5),
    )
    assert turned < 0.7 * plain


def test_a_network_without_curvature_keeps_its_coordinates(task):
    graph, X, _, train = task
    net = torch.nn.Linear(5, 2, bias=False).double()
    torch.nn.init.zeros_(net.weight)
    optimizer = herta.GaussNewton(
        torch.optim.SGD(net.parameters(), lr=0.5), net, torch.zeros_like(X), herta.Unfold(graph), train=train, rank=3
    )
    net.weight.grad = torch.ones_like(net.weight)
    optimizer.step()
    assert torch.allclose(net.weight, torch.full_like(net.weight, -0.5))


def test_what_cannot_work_is_refused(task):
    graph, X, _, train = task
    net, unfold = network(5), herta.Unfold(graph, lam=LAM)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    with pytest.raises(InputError, match="optimizer holds a parameter that is not in network"):
        herta.GaussNewton(torch.optim.SGD(network(5).parameters(), lr=0.1), net, X, unfold, train=train)
    with pytest.raises(InputError, match="train is empty"):
        herta.GaussNewton(sgd, net, X, unfold, train=[])
    with pytest.raises(InputError, match="loss is 'l1'; choose one of"):
        herta.GaussNewton(sgd, net, X, unfold, train=train, loss="l1")
    with pytest.raises(InputError, match="rank is 0"):
        herta.GaussNewton(sgd, net, X, unfold, train=train, rank=0)
    with pytest.raises(InputError, match="lam is -1"):
        herta.Unfold(graph, lam=-1)
    with pytest.raises(InputError, match=r"Y has shape \(79, 3\), torch\.float64 on cpu: pass \(80, C\)"):
        unfold(torch.ones(79, 3, dtype=torch.float64))


def test_the_graph_layer_is_moved_and_converted_like_any_module(rng):
    graph = nareg.graphs.erdos_renyi(30, 0.2, rng=rng)
    unfold, Y = herta.Unfold(graph, lam=LAM), torch.as_tensor(rng.standard_normal((30, 2)))
    exact = unfold(Y)
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), unfold).float()
    assert unfold.system.dtype == torch.float32
    assert torch.allclose(unfold(Y.float()).double(), exact, atol=1e-5)
    assert torch.allclose(net.double()[1](Y), exact, atol=1e-12)
    assert herta.Unfold(graph.to_edge_index()[0], n_nodes=40)(torch.ones(40, 1, dtype=torch.float64)).shape == (40, 1)


def test_a_frozen_part_stays_frozen(task):
    graph, X, _, train = task
    net = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Dropout(0.5), torch.nn.Linear(6, 3)).double()
    net[1].eval()
    optimizer = herta.GaussNewton(torch.optim.SGD(net.parameters(), lr=0.1), net, X, herta.Unfold(graph), train=train, rank=4)
    optimizer.leading_curvature()
    assert (net.training, net[0].training, net[1].training) == (True, True, False)


def test_training_goes_on_from_a_saved_state(task, tmp_path):
    graph, X, labels, train = task
    unfold, nets = herta.Unfold(graph, lam=LAM), [network(5), network(5, seed=1)]

    def wrapped(net):
        adam = torch.optim.Adam(net.parameters(), lr=0.1)
        return herta.GaussNewton(adam, net, X, unfold, train=train, loss="ce", rank=10, every=4)

    first = wrapped(nets[0])
    trained(nets[0], first, unfold, X, labels, train, 6)
    torch.save({"net": nets[0].state_dict(), "optimizer": first.state_dict()}, tmp_path / "saved.pt")
    saved = torch.load(tmp_path / "saved.pt", weights_only=True)
    second = wrapped(nets[1])
    nets[1].load_state_dict(saved["net"])
    second.load_state_dict(saved["optimizer"])
    # up to the next renewal, whose random directions are the generator's
    losses = [
        trained(net, optimizer, unfold, X, labels, train, 2) for net, optimizer in zip(nets, (first, second), strict=True)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    with pytest.raises(InputError, match="state is not of this kind of optimizer"):
        second.load_state_dict(torch.optim.Adam(nets[0].parameters()).state_dict())


def test_the_coordinates_are_made_anew_every_so_many_steps(task):
    graph, X, labels, train = task
    net, unfold = network(5), herta.Unfold(graph, lam=LAM)
    optimizer = herta.GaussNewton(torch.optim.SGD(net.parameters(), lr=0.1), net, X, unfold, train=train, rank=4, every=3)
    seen = []
    for _ in range(7):
        trained(net, optimizer, unfold, X, labels, train, 1)
        seen.append(optimizer.state_dict()["coordinates"]["vectors"])
    changed = [not torch.equal(a, b) for a, b in itertools.pairwise(seen)]
    assert changed == [False, False, True, False, False, True]


def test_networks_and_features_that_do_not_go_together_are_refused(task):
    graph, X, _, train = task
    net, unfold = network(5), herta.Unfold(graph, lam=LAM)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    with pytest.raises(InputError, match=r"features are not a dense tensor of 80 rows of torch\.float64 on cpu"):
        herta.GaussNewton(sgd, net, X.float(), unfold, train=train)
    with pytest.raises(InputError, match=r"features are not a dense tensor of 80 rows"):
        herta.GaussNewton(sgd, net, X[:7], unfold, train=train)
    single = network(5).float()
    with pytest.raises(InputError, match=r"network holds parameters that are not torch\.float64"):
        herta.GaussNewton(torch.optim.SGD(single.parameters(), lr=0.1), single, X, unfold, train=train)
    with pytest.raises(InputError, match="unfold is None"):
        herta.GaussNewton(sgd, net, X, None, train=train)
    with pytest.raises(InputError, match=r"network is None: pass a torch\.nn\.Module"):
        herta.GaussNewton(sgd, None, X, unfold, train=train)
    with pytest.raises(InputError, match=r"dtype is torch\.float16: float32 or float64 is expected"):
        herta.Unfold(graph, dtype=torch.float16)
    with pytest.raises(InputError, match="Y has type <class 'numpy"):
        unfold(np.ones((80, 1)))


def test_a_copy_of_the_graph_layer_does_the_same(rng):
    """For the best model so far, or a running mean of models."""
    graph = nareg.graphs.erdos_renyi(30, 0.2, rng=rng)
    net = torch.nn.Sequential(torch.nn.Linear(2, 2).double(), herta.Unfold(graph, lam=LAM))
    other, X = copy.deepcopy(net), torch.as_tensor(rng.standard_normal((30, 2)))
    assert torch.equal(net(X), other(X))
    assert other[0].weight is not net[0].weight


def test_what_a_network_returns_is_checked(task):
    graph, X, _, train = task
    flat = torch.nn.Sequential(torch.nn.Linear(5, 1).double(), torch.nn.Flatten(0))
    optimizer = herta.GaussNewton(torch.optim.SGD(flat.parameters(), lr=1.0), flat, X, herta.Unfold(graph), train=train)
    with pytest.raises(InputError, match=r"network returns a tensor of shape \(80,\)"):
        optimizer.step()
    net = network(5)
    sgd = torch.optim.SGD(net.parameters(), lr=1.0)
    with pytest.raises(InputError, match=r"generator is 3: pass a torch\.Generator"):
        herta.GaussNewton(sgd, net, X, herta.Unfold(graph), train=train, generator=3)
