"""Gradients against finite differences in float64: all parameters, all solvers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad, gradcheck

import nareg
from nareg._solvers import cg
from nareg.errors import InputError
from nareg.gnn import (
    NGC,
    RNGC,
    Adjacency,
    Chebyshev,
    ConjugateGradients,
    Neumann,
    NodeAdaptiveConv,
    Perturbation,
    propagate,
)
from nareg.gnn.networks import dropout
from nareg.herta import Unfold
from tests.helpers import at_night


@pytest.fixture
def graph():
    return nareg.graphs.erdos_renyi(18, 0.2, rng=np.random.default_rng(0))


def leaf(*shape: int, seed: int = 0) -> torch.Tensor:
    drawn = torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return drawn.requires_grad_()


def way(solver, eps=0.0, normalization="sym", masked=False):
    return solver, eps, normalization, masked


CG, CHEBYSHEV = ConjugateGradients(1e-12), Chebyshev(1e-12)
WAYS = [
    way(Neumann(5)),
    way(Neumann(0)),
    way(Neumann(5), normalization="rw"),
    way(Neumann(3, unit_gain=True)),
    way(CG),
    way(CG, normalization="rw"),
    way(CHEBYSHEV),
    way(Neumann(5), 0.3),
    way(Neumann(5), 0.1, normalization="rw"),
    way(Neumann(5), 0.3, masked=True),
    way(Neumann(3, unit_gain=True), 0.3),
    way(CG, 0.5),
    way(CG, 0.2, masked=True),
    way(CHEBYSHEV, 0.5),
]


def propagated(graph, x, way, factor=None):
    solver, eps, normalization, masked = way
    perturbation = Perturbation(eps, masked=masked, factor=factor) if eps else None
    return propagate(Adjacency(graph, normalization=normalization), x, lam=3.0, solver=solver, perturbation=perturbation)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("nodes", "features"), [(10, 2), (5, 7), *at_night([(18, 3), (8, 10)])])
def test_gradient_in_the_features(way, nodes, features):
    """With fewer features than nodes, and with more: Gram matrices of either side."""
    graph = nareg.graphs.erdos_renyi(nodes, 3.6 / nodes, rng=np.random.default_rng(0))
    assert gradcheck(lambda x: propagated(graph, x, way), leaf(nodes, features))


@pytest.mark.slow
@pytest.mark.parametrize("way", [way for way in WAYS if way[1]])
def test_gradient_in_what_the_perturbation_is_made_of(way):
    graph = nareg.graphs.erdos_renyi(10, 0.36, rng=np.random.default_rng(0))
    assert gradcheck(lambda x, U: propagated(graph, x, way, factor=U), (leaf(10, 2), leaf(10, 4, seed=1)))


@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_gradient_in_the_weights_of_powers(normalization, graph):
    A = Adjacency(graph, normalization=normalization)
    assert gradcheck(lambda x, w: propagate(A, x, weights=w), (leaf(18, 3), leaf(5, seed=1)))


@pytest.mark.parametrize("out_channels", [2, 6])
@pytest.mark.parametrize("layer", [NGC, RNGC])
def test_gradient_of_layers(layer, out_channels, graph):
    module = layer(4, out_channels, lam=2.0, order=3).double()
    if layer is RNGC:
        module.eps = 0.3
    parameters = dict(module.named_parameters())

    def run(x, *values):
        return torch.func.functional_call(module, dict(zip(parameters, values, strict=True)), (x, graph))

    assert gradcheck(run, (leaf(18, 4), *(p.detach().requires_grad_() for p in parameters.values())))


@pytest.mark.slow
@pytest.mark.parametrize("laplacian", ["augmented", "combinatorial"])
@pytest.mark.parametrize("groups", [None, np.arange(18) % 4])
def test_gradient_in_node_weights(laplacian, groups, graph):
    n = 18 if groups is None else None
    module = NodeAdaptiveConv(3, 2, n_nodes=n, groups=groups, lam=2.0, laplacian=laplacian, tol=1e-13).double()

    def run(x, theta):
        return torch.func.functional_call(module, {"theta": theta}, (x, graph))

    assert gradcheck(run, (leaf(18, 3), leaf(*module.theta.shape, seed=2)))


def test_backward_of_the_solve_is_a_solve(graph, monkeypatch):
    """No unrolled graph: the backward pass costs one more solve, and no iterate is kept."""
    calls = []
    solve = cg.solve_exactly
    monkeypatch.setattr(cg, "solve_exactly", lambda *a, **k: calls.append(1) or solve(*a, **k))
    module = NodeAdaptiveConv(3, 3, n_nodes=18).double()
    out = module(leaf(18, 3), graph)
    assert len(calls) == 1
    out.sum().backward()
    assert len(calls) == 2
    assert module.theta.grad.abs().sum() > 0


U = torch.randn(10, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
LINEAR = {
    "series": lambda g, x: propagate(g, x, lam=3.0, solver=Neumann(4)),
    "random walk": lambda g, x: propagate(Adjacency(g, normalization="rw"), x, lam=3.0, solver=Neumann(4)),
    "conjugate gradients": lambda g, x: propagate(g, x, lam=3.0, solver=CG),
    "perturbed by others": lambda g, x: propagate(g, x, lam=3.0, solver=Neumann(4), perturbation=Perturbation(0.3, factor=U)),
    "powers": lambda g, x: propagate(g, x, weights=[0.2, 0.3, 0.1]),
    "layer": lambda g, x: NGC(2, 1, lam=3.0, order=4, bias=False).double()(x, g),
    "fixed node weights": lambda g, x: NodeAdaptiveConv(2, 1, weights=np.ones(10), tol=1e-13).double()(x, g),
    "unfolded": lambda g, x: Unfold(g, lam=3.0, tol=1e-12)(x),
    "dropout": lambda g, x: dropout(x, 0.3, True),
}


@pytest.mark.parametrize("name", LINEAR)
def test_filters_that_are_linear_have_second_derivatives(name):
    graph = nareg.graphs.erdos_renyi(10, 0.36, rng=np.random.default_rng(0))

    def run(x):
        torch.manual_seed(1)
        return LINEAR[name](graph, x)

    x = leaf(10, 2)
    H = torch.autograd.functional.jacobian(run, x.detach()).reshape(-1, 20)
    (first,) = torch.autograd.grad(run(x).pow(2).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.pow(2).sum(), x)
    assert torch.allclose(second.ravel(), 8 * H.T @ H @ H.T @ H @ x.detach().ravel(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("square", [True, False])
@pytest.mark.parametrize("name", ["features", "weights of powers", "node weights", "edge weights"])
def test_filters_that_are_not_refuse_a_second_derivative(name, square, graph):
    """Also where the incoming gradient has none, and the gradient depends on x all the same."""
    w = leaf(18, seed=3)
    edges, values = (torch.tensor(part) for part in graph.to_edge_index())
    module = NodeAdaptiveConv(3, 3, n_nodes=18).double()
    run = {
        "features": lambda x: propagate(graph, x, lam=3.0, perturbation=Perturbation(0.3)),
        "weights of powers": lambda x: propagate(graph, x, weights=w[:4]),
        "node weights": lambda x: module(x, graph),
        "edge weights": lambda x: NGC(3, 3).double()(x, edges, values.requires_grad_()),
    }[name]
    x = leaf(18, 3)
    out = run(x)
    (first,) = torch.autograd.grad((out**2 if square else out).sum(), x, create_graph=True)
    with pytest.raises(InputError, match="create_graph=True asks for second derivatives"):
        torch.autograd.grad(first.pow(2).sum(), x, allow_unused=True)


def test_dropout_is_unbiased_reproducible_and_its_own_gradient():
    x = torch.ones(400, 300, requires_grad=True)
    torch.manual_seed(3)
    first = dropout(x, 0.3, True)
    torch.manual_seed(3)
    assert torch.equal(first, dropout(x, 0.3, True))
    assert not torch.equal(first, dropout(x, 0.3, True))
    remaining = (first != 0).double()
    assert remaining.mean() == pytest.approx(0.7, abs=5 * np.sqrt(0.21 / remaining.numel()))
    # no pattern along rows or columns: their means vary as those of independent draws
    assert float(remaining.mean(0).var()) * 400 == pytest.approx(0.21, rel=0.35)
    assert float(remaining.mean(1).var()) * 300 == pytest.approx(0.21, rel=0.35)
    first.sum().backward()
    assert torch.equal(x.grad, first.detach())
    assert dropout(x, 0.3, False) is x
    assert torch.func.grad(lambda z: dropout(z, 0.3, True).sum())(x.detach()).unique().tolist() == pytest.approx([0, 1 / 0.7])
    assert dropout(x, 0.0, True) is x


@pytest.mark.parametrize("solver", [Neumann(12), ConjugateGradients(1e-10)])
def test_without_gradients_the_values_are_the_same(graph, solver):
    """Iterates are stored for a gradient alone; what they lead to does not depend on that."""
    x, options = leaf(18, 4), {"lam": 2.0, "solver": solver, "perturbation": Perturbation(0.3)}
    with_gradient = propagate(graph, x, **options)
    assert with_gradient.requires_grad
    with torch.no_grad():
        without = propagate(graph, x, **options)
    assert not without.requires_grad
    torch.testing.assert_close(without, with_gradient.detach(), rtol=1e-12, atol=1e-12)


class TestOfTorchFunc:
    """Transforms wrap tensors, which have no memory then: graphs are read and matrices are made outside of them."""

    EDGES = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    LAYERS = (
        lambda: nareg.gnn.NGC(3, 2),
        lambda: nareg.gnn.NGC(3, 2, lam=4.0, solver="cg", normalization="rw"),
        lambda: nareg.gnn.RNGC(3, 2, lam=2.0),
        lambda: nareg.gnn.RNGC(3, 2, lam=2.0, masked=True),
        lambda: nareg.gnn.NodeAdaptiveConv(3, 2, n_nodes=4),
    )

    @pytest.mark.parametrize("make", LAYERS)
    def test_gradient_in_parameters(self, make, rng):
        layer, x = make().double(), torch.from_numpy(rng.standard_normal((4, 3)))

        def loss(parameters):
            return torch.func.functional_call(layer, parameters, (x, self.EDGES)).pow(3).sum()

        parameters = dict(layer.named_parameters())
        gradients = torch.func.grad(loss)(parameters)  # on a graph that the layer has not seen
        loss(parameters).backward()
        for name, parameter in parameters.items():
            torch.testing.assert_close(gradients[name], parameter.grad)

    @pytest.mark.parametrize("make", LAYERS)
    def test_edges_may_be_made_within(self, make, rng):
        layer, x = make().double(), torch.from_numpy(rng.standard_normal((4, 3)))

        def loss(parameters, within):
            graph = (self.EDGES.flip(0), torch.ones(6)) if within else (self.EDGES,)
            return torch.func.functional_call(layer, parameters, (x, *graph)).pow(3).sum()

        parameters = {name: parameter.detach() for name, parameter in layer.named_parameters()}
        within, without = (torch.func.grad(loss)(parameters, made) for made in (True, False))
        torch.testing.assert_close(within, without)

    def test_derivatives_in_features(self, rng):
        x = torch.from_numpy(rng.standard_normal((4, 3)))

        def filtered(z):
            return nareg.gnn.propagate(self.EDGES, z, lam=3.0)

        def loss(z):
            return filtered(z).pow(3).sum()

        torch.testing.assert_close(torch.func.jacrev(filtered)(x), torch.autograd.functional.jacobian(filtered, x))
        torch.testing.assert_close(torch.func.jacfwd(filtered)(x), torch.autograd.functional.jacobian(filtered, x))
        hessian = torch.func.hessian(loss)(x)
        torch.testing.assert_close(hessian, torch.autograd.functional.hessian(loss, x))

    @pytest.mark.parametrize("enabled", [True, False])
    @pytest.mark.parametrize("solver", ["neumann", "chebyshev", "cg"])
    def test_a_tangent_is_right_or_refused(self, solver, enabled, rng):
        """Forward, nothing requires a gradient: what the filter depends on besides must not be taken for fixed."""
        x, w = (torch.from_numpy(rng.standard_normal(shape)) for shape in ((4, 3), 6))
        layer = nareg.gnn.NodeAdaptiveConv(3, 2, n_nodes=4).double()
        theta, options = layer.theta.detach(), {"lam": 2.0, "solver": solver}

        def adaptive(t):
            return torch.func.functional_call(layer, {"theta": t}, (x, self.EDGES))

        for function, value in (
            (lambda z: propagate(self.EDGES, z, **options, perturbation=Perturbation(0.5)), x),
            (lambda z: propagate(self.EDGES, x, **options, perturbation=Perturbation(0.5, factor=z)), x),
            (lambda v: propagate(Adjacency(self.EDGES, edge_weight=v), x, **options), torch.ones(6).double()),
            (lambda v: nareg.gnn.NGC(3, 2).double()(x, self.EDGES, v), torch.ones(6).double()),
            (lambda v: propagate(self.EDGES, x, weights=v), w[:3]),
            (adaptive, theta),
        ):
            direction = torch.ones_like(value)
            with torch.set_grad_enabled(enabled), forward_ad.dual_level():
                try:
                    out = forward_ad.unpack_dual(function(forward_ad.make_dual(value, direction))).tangent
                except (NotImplementedError, InputError):
                    continue
            expected = (function(value + 1e-6 * direction) - function(value - 1e-6 * direction)) / 2e-6
            torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-6)

    def test_a_sparse_graph_is_read(self, rng):
        x, A = torch.from_numpy(rng.standard_normal((4, 3))), torch.zeros(4, 4)
        A[*self.EDGES] = 1.0
        with warnings.catch_warnings(action="ignore"):  # torch's sparse CSR is in beta
            for graph in (A.to_sparse(), A.to_sparse_csr()):
                out, tangent = torch.func.jvp(lambda z, graph=graph: propagate(graph, z, lam=3.0), (x,), (x,))
                torch.testing.assert_close(out, tangent)

    def test_what_has_none_is_refused(self, rng):
        x, layer = torch.from_numpy(rng.standard_normal((4, 3))), nareg.gnn.RNGC(3, 2, lam=2.0).double()
        for function, value in (
            (lambda z: layer(z, self.EDGES).sum(), x),
            (lambda w: layer(x, self.EDGES, w).sum(), torch.ones(6)),
            (lambda w: nareg.gnn.propagate(self.EDGES, x, weights=w).sum(), torch.ones(3)),
        ):
            with pytest.raises(nareg.errors.InputError, match=r"no derivative by torch\.func"):
                torch.func.grad(function)(value)

    @pytest.mark.parametrize("solver", ["neumann", "chebyshev", "cg"])
    def test_batched_features(self, solver, rng):
        x = torch.from_numpy(rng.standard_normal((3, 4, 3)))
        layers = [nareg.gnn.NGC(3, 2, solver=solver), nareg.gnn.NodeAdaptiveConv(3, 2, n_nodes=4)]
        for layer in [*layers, nareg.gnn.RNGC(3, 2, solver=solver)] if solver == "chebyshev" else layers:
            layer.double()
            whole = torch.func.vmap(lambda z, layer=layer: layer(z, self.EDGES))(x)
            torch.testing.assert_close(whole, torch.stack([layer(part, self.EDGES) for part in x]))

    def test_what_cannot_be_batched_is_refused(self, rng):
        x = torch.from_numpy(rng.standard_normal((2, 4, 3)))
        broken, robust = x.clone(), nareg.gnn.RNGC(3, 2, lam=2.0).double()
        adaptive = nareg.gnn.NodeAdaptiveConv(3, 2, n_nodes=4).double()
        broken[1, 0, 0] = torch.nan
        for function, value in (
            (lambda w: nareg.gnn.propagate(self.EDGES, x[0], weights=w), torch.ones(2, 3)),
            (lambda z: robust(z, self.EDGES), x),
            (lambda t: torch.func.functional_call(adaptive, {"theta": t}, (x[0], self.EDGES)), torch.ones(2, 4).double()),
            (lambda z: nareg.gnn.propagate(self.EDGES, z, lam=3.0), broken),
        ):
            with pytest.raises(nareg.errors.InputError, match=r"torch\.func\.vmap batches"):
                torch.func.vmap(function)(value)

    def test_learned_node_weights(self, rng):
        """Their Jacobian, and their gradient where a transform is of the features alone."""
        x, layer = torch.from_numpy(rng.standard_normal((4, 3))), nareg.gnn.NodeAdaptiveConv(3, 2, n_nodes=4).double()

        def of_theta(theta):
            return torch.func.functional_call(layer, {"theta": theta}, (x, self.EDGES))

        jacobian = torch.func.jacrev(of_theta)(layer.theta.detach())
        torch.testing.assert_close(jacobian, torch.autograd.functional.jacobian(of_theta, layer.theta.detach()))
        (expected,) = torch.autograd.grad(layer(x, self.EDGES).pow(2).sum(), layer.theta)
        for out in (
            torch.func.vjp(lambda z: layer(z, self.EDGES), x)[0],
            torch.func.jvp(lambda z: layer(z, self.EDGES), (x,), (x,))[0],
            torch.func.vmap(lambda z: layer(z, self.EDGES))(x[None])[0],
        ):
            torch.testing.assert_close(torch.autograd.grad(out.pow(2).sum(), layer.theta)[0], expected)
        slope = torch.func.grad(lambda z: layer(z, self.EDGES).pow(2).sum())(x)
        with pytest.raises(InputError, match="second derivatives"):
            slope.sum().backward()
