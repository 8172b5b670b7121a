"""AirGNN's message passing: the steps of its paper, which lower its objective."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.errors import InputError

torch = pytest.importorskip("torch")

from experiments import _gnn_peers as peers  # noqa: E402
from nareg.gnn import Adjacency  # noqa: E402


@pytest.fixture
def graph():
    """Weighted, with a node on its own."""
    sensors = nareg.graphs.sensor(29, rng=np.random.default_rng(3)).adjacency
    return nareg.Graph(np.pad(sensors.toarray(), ((0, 1), (0, 1))))


@pytest.fixture
def f():
    generator = torch.Generator().manual_seed(0)
    return 2 * torch.randn(30, 3, dtype=torch.float64, generator=generator)


def normalized(graph):
    """``D~^-1/2 (A + I) D~^-1/2``, dense."""
    A = graph.adjacency.toarray() + np.eye(30)
    half = 1 / np.sqrt(A.sum(axis=1))
    return half[:, None] * A * half


def loop(graph, f, steps, lam):
    """Gradient step, then the proximal step of every row."""
    L, X, length = np.eye(30) - normalized(graph), f.copy(), 1 / (2 * (1 - lam))
    for _ in range(steps):
        Y = X - length * 2 * (1 - lam) * L @ X
        for i in range(30):
            distance = np.linalg.norm(Y[i] - f[i])
            beta = max(1 - length * lam / distance, 0) if distance > 0 else 0
            X[i] = f[i] + beta * (Y[i] - f[i])
    return X


@pytest.mark.parametrize("lam", [0.1, 0.5, 0.8])
def test_steps_are_those_of_the_dense_loop(lam, graph, f):
    steps = peers.AdaptiveResidual(7, lam=lam)(f, graph)
    np.testing.assert_allclose(steps, loop(graph, f.numpy(), 7, lam), atol=1e-12)
    prepared = Adjacency(graph, normalization="rw")
    np.testing.assert_allclose(peers.AdaptiveResidual(7, lam=lam)(f, prepared), steps, atol=1e-12)


@pytest.mark.parametrize("lam", [0.1, 0.5, 0.8])
def test_every_step_lowers_the_objective(lam, graph, f):
    L = np.eye(30) - normalized(graph)
    values = []
    for steps in range(40):
        X = peers.AdaptiveResidual(steps, lam=lam)(f, graph).numpy()
        values.append(lam * np.linalg.norm(X - f.numpy(), axis=1).sum() + (1 - lam) * np.trace(X.T @ L @ X))
    assert values[1] < values[0]
    assert (np.diff(values) <= 1e-12 * values[0]).all()


def test_the_ends_propagate_alone_and_return_the_input(graph, f):
    powers = np.linalg.matrix_power(normalized(graph), 6) @ f.numpy()
    np.testing.assert_allclose(peers.AdaptiveResidual(6, lam=0.0)(f, graph), powers, atol=1e-12)
    assert torch.equal(peers.AdaptiveResidual(6, lam=1.0)(f, graph), f)


@pytest.mark.slow
@pytest.mark.parametrize("lam", [0.0, 0.3, 0.6, 1.0])
def test_gradients_are_those_of_finite_differences(lam, graph, f):
    assert torch.autograd.gradcheck(lambda x: peers.AdaptiveResidual(5, lam=lam)(x, graph), f.requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
def test_gradients_are_finite_where_nothing_moves(lam, dtype, graph):
    """A node on its own, and features that are all zero."""
    x = torch.zeros(30, 3, dtype=dtype, requires_grad=True)
    peers.AdaptiveResidual(4, lam=lam)(x, graph).sum().backward()
    assert torch.isfinite(x.grad).all()


def test_a_residual_is_kept_where_a_node_is_like_its_neighbors():
    path = nareg.graphs.grid((6,))
    x = torch.tensor([[0.0], [0.1], [0.0], [9.0], [0.1], [0.0]])
    moved = (peers.AdaptiveResidual(1, lam=0.5)(x, path) - x).abs().ravel()
    assert moved[0] == 0
    assert moved.argmax() == 3
    assert moved[3] > 4


def test_settings_are_checked():
    with pytest.raises(InputError, match=r"lam is 1\.5"):
        peers.airgnn(4, 3, lam=1.5)
    with pytest.raises(InputError, match="steps is -1"):
        peers.AdaptiveResidual(-1)
