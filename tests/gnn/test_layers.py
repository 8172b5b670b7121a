"""Layers: what they compute, what they remember of a graph, how they travel."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import nareg
from nareg.errors import InputError
from nareg.gnn import NGC, RNGC, Adjacency, ConjugateGradients, NodeAdaptiveConv, Perturbation, propagate


@pytest.fixture
def graph():
    return nareg.graphs.sensor(24, rng=np.random.default_rng(1))


@pytest.fixture
def x():
    return torch.randn(24, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def edges(graph: nareg.Graph) -> tuple[torch.Tensor, torch.Tensor]:
    index, weight = graph.to_edge_index()
    return torch.tensor(index), torch.tensor(weight)


@pytest.mark.parametrize("out_channels", [2, 9])
def test_layers_filter_and_project(out_channels, graph, x):
    for layer, perturbation in ((NGC(5, out_channels), None), (RNGC(5, out_channels, eps=0.2), Perturbation(0.2))):
        layer.double()
        expected = propagate(graph, x, perturbation=perturbation) @ layer.weight + layer.bias
        torch.testing.assert_close(layer(x, graph), expected)
        index, weight = edges(graph)
        torch.testing.assert_close(layer(x, index, weight), expected)


def test_the_default_is_the_published_series_which_gives_41_percent_as_the_docs_say():
    """On a regular graph, where equal features are the smoothest ones and the filter keeps them."""
    ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
    default, whole = NGC(1, 1, bias=False), NGC(1, 1, bias=False, solver="chebyshev")
    whole.load_state_dict(default.state_dict())
    ratio = default(torch.ones(3, 1), ring) / whole(torch.ones(3, 1), ring)
    torch.testing.assert_close(ratio, torch.full((3, 1), 0.41), rtol=0.0, atol=0.005)


def test_node_adaptive_contains_the_untruncated_ngc(graph, x):
    """All weights sqrt(lam) on the augmented Laplacian: where learning starts."""
    adaptive = NodeAdaptiveConv(5, 3, n_nodes=24, lam=6.0, tol=1e-12).double()
    ngc = NGC(5, 3, lam=6.0, solver=ConjugateGradients(1e-12)).double()
    ngc.load_state_dict({key: adaptive.state_dict()[key] for key in ("weight", "bias")})
    torch.testing.assert_close(adaptive(x, graph), ngc(x, graph))


def test_node_adaptive_applies_a_design(graph, x):
    result = nareg.design.exact(graph, signals=x.numpy(), noise=0.3)
    layer = NodeAdaptiveConv(5, 5, weights=result, tol=1e-12).double()
    np.testing.assert_allclose(layer.denoise(graph, x), nareg.filters.denoise(graph, result, x.numpy()).x, atol=1e-9)
    assert layer.theta is None
    with pytest.raises(InputError, match="not designed for the combinatorial Laplacian"):
        layer(x, nareg.graphs.grid((4, 6)))


def test_node_adaptive_applies_a_design_for_the_augmented_laplacian(graph, x):
    L = nareg.gnn.Adjacency(graph).augmented_laplacian
    np.testing.assert_allclose(L.toarray(), np.eye(24) - nareg.gnn.Adjacency(graph).matrix.toarray(), atol=1e-15)
    result = nareg.design.blind(L, measurements=x.numpy(), noise=0.3)
    layer = NodeAdaptiveConv(5, 5, weights=result, laplacian="augmented", tol=1e-12).double()
    np.testing.assert_allclose(layer.denoise(graph, x), nareg.filters.denoise(L, result.weights, x.numpy()).x, atol=1e-9)
    with pytest.raises(InputError, match="not designed for the combinatorial Laplacian"):
        NodeAdaptiveConv(5, 5, weights=result).double()(x, graph)


def test_a_design_goes_with_float32_weights_of_edges(graph, x):
    index, weight = edges(graph)
    layer = NodeAdaptiveConv(5, 5, weights=nareg.design.exact(graph, signals=x.numpy(), noise=0.3))
    assert layer(x.float(), index, weight.float()).isfinite().all()


def test_rngc_remembers_the_last_features(graph, x, monkeypatch):
    """The perturbation and its check are computed once for the same features, and again for others or changed ones."""
    from nareg.gnn import robust

    count = []
    low_rank = robust._low_rank
    monkeypatch.setattr(robust, "_low_rank", lambda *a: count.append(1) or low_rank(*a))
    layer = RNGC(5, 2, eps=0.2).double()
    first = layer(x, graph)
    torch.testing.assert_close(layer(x, graph), first)
    assert len(count) == 1
    x[0] *= 2
    torch.testing.assert_close(layer(x, graph), layer(x.clone(), graph))
    assert not torch.allclose(layer(x, graph), first)
    assert len(count) == 4


@pytest.mark.parametrize("out_channels", [2, 9])
def test_features_are_checked_once(out_channels, graph, x, monkeypatch):
    """Once per call, at the border, on whichever side of W the filter is applied."""
    adjacency, count = Adjacency(graph), []
    isfinite = torch.isfinite
    monkeypatch.setattr(torch, "isfinite", lambda value: count.append(1) or isfinite(value))
    adaptive = NodeAdaptiveConv(5, out_channels, n_nodes=24).double()
    calls = [
        lambda layer=layer: layer(x, adjacency)
        for layer in (NGC(5, out_channels).double(), RNGC(5, out_channels, eps=0.2).double(), adaptive)
    ]
    calls += [lambda: adaptive.denoise(adjacency, x), lambda: propagate(adjacency, x, perturbation=Perturbation(0.2))]
    for call in calls:
        count.clear()
        call()
        assert len(count) == 1


def test_inference_mode(graph, x):
    layer = NGC(5, 2).double()
    expected = layer(x, graph)
    with torch.inference_mode():
        index, weight = edges(graph)
        torch.testing.assert_close(layer(x, index, weight), expected.detach())


def test_tied_and_bounded_weights():
    layer = NodeAdaptiveConv(2, 2, groups=["a", "b", "a"], lam=4.0, lower=1.0)
    assert layer.theta.shape == (2,)
    torch.testing.assert_close(layer.node_weights, torch.full((3,), 2.0))
    with torch.no_grad():
        layer.theta.fill_(-100.0)
    assert float(layer.node_weights.detach().min()) == pytest.approx(1.0)


def test_learning_node_weights_lowers_the_error(graph):
    """Rough where the noise is small, smooth where it is large: weights must grow on the noisy half."""
    rng = np.random.default_rng(0)
    clean = np.linalg.eigh(graph.laplacian().toarray())[1][:, :4] @ rng.standard_normal((4, 200))
    level = np.where(np.arange(24) < 12, 0.02, 0.6)[:, None]
    layer = NodeAdaptiveConv(1, 1, n_nodes=24, lam=1.0, laplacian="combinatorial").double()
    target, noisy = torch.tensor(clean), torch.tensor(clean + level * rng.standard_normal(clean.shape))
    optimizer = torch.optim.Adam([layer.theta], lr=0.1)
    errors = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = (layer.denoise(graph, noisy) - target).square().mean()
        loss.backward()
        optimizer.step()
        errors.append(float(loss.detach()))
    assert errors[-1] < 0.8 * errors[0]
    w = layer.node_weights.detach()
    assert w[12:].min() > w[:12].max()


def test_a_layer_notices_another_graph_and_a_changed_one(graph, x):
    layer = NGC(5, 2).double()
    index, weight = edges(graph)
    first = layer(x, index, weight)
    other = torch.tensor(nareg.graphs.grid((4, 6)).to_edge_index()[0])
    assert not torch.allclose(layer(x, other), first)
    torch.testing.assert_close(layer(x, index, weight), first)
    weight.mul_(torch.where(index[0] + index[1] == int(index[0, 0] + index[1, 0]), 3.0, 1.0))
    changed = layer(x, index, weight)
    assert not torch.allclose(changed, first)
    torch.testing.assert_close(changed, NGC.forward(_twin(layer), x, index, weight))


def test_node_adaptive_layers_notice_another_graph(graph, x):
    layer = NodeAdaptiveConv(5, 2, n_nodes=24).double()
    first = layer(x, graph)
    other = layer(x, nareg.graphs.grid((4, 6)))
    assert not torch.allclose(first, other)
    torch.testing.assert_close(layer(x, Adjacency(graph)), first)
    torch.testing.assert_close(layer.float()(x.float(), graph), first.float(), atol=1e-3, rtol=1e-3)


def _twin(layer: NGC) -> NGC:
    twin = NGC(5, 2).double()
    twin.load_state_dict(layer.state_dict())
    return twin


@pytest.mark.parametrize("make", [lambda: NGC(5, 2), lambda: RNGC(5, 2, eps=0.1), lambda: NodeAdaptiveConv(5, 2, n_nodes=24)])
def test_layers_are_copied_and_restored(make, graph, x):
    layer = make().double()
    index, weight = edges(graph)
    out = layer(x, index, weight)
    torch.testing.assert_close(copy.deepcopy(layer)(x, index, weight), out)
    fresh = make().double()
    fresh.load_state_dict(layer.state_dict())
    torch.testing.assert_close(fresh(x, index, weight), out)
    assert "lam" in repr(make()) or "node weights" in repr(make())


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("learned", [False, True])
def test_a_graph_without_nodes(learned, compiled):
    """As a part of a mini-batch can be: no rows come out, and gradients are zero."""
    nothing = torch.zeros(2, 0, dtype=torch.long)
    for layer in (NGC(3, 2), NGC(3, 4, solver="cg"), RNGC(3, 2), RNGC(3, 2, masked=True, solver="cg", lam=2.0)):
        x, w = torch.zeros(0, 3, requires_grad=True), torch.zeros(0, requires_grad=learned)
        called = torch.compile(layer, backend="aot_eager") if compiled else layer
        out = called(x, nothing, w)
        out.sum().backward()
        assert out.shape == (0, layer.out_channels)
        assert x.grad.shape == (0, 3)
        assert not layer.weight.grad.any()
    for graph in (torch.zeros(0, 0).to_sparse(), sp.csr_array((0, 0))):
        assert NGC(3, 2)(torch.zeros(0, 3), graph).shape == (0, 2)


def test_a_graph_with_nodes_is_refused_where_features_have_no_rows(graph):
    index, _ = edges(graph)
    for given, message in ((index, "out of range"), (graph, "24 nodes but x has 0 rows"), (Adjacency(graph), "24 nodes")):
        with pytest.raises(InputError, match=message):
            NGC(3, 2)(torch.zeros(0, 3), given)
    with pytest.raises(InputError, match="weights for 24 nodes but x has 0 rows"):
        NodeAdaptiveConv(3, 2, n_nodes=24)(torch.zeros(0, 3), index[:, :0])
    with pytest.raises(InputError, match="x has no rows"):
        propagate(index[:, :0], torch.zeros(0, 3), lam=2.0)
