"""The peers' convolutions compute what PyTorch Geometric's compute, weights copied."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import nareg
from experiments import _convolutions as convolutions
from experiments import _gnn_peers as peers
from experiments._unfolded import Unfolded
from nareg.errors import InputError
from nareg.gnn import Adjacency, networks

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch_geometric.*")
pyg = pytest.importorskip("torch_geometric.nn")


@pytest.fixture
def graph():
    return nareg.graphs.erdos_renyi(30, 0.1, rng=np.random.default_rng(3))


@pytest.fixture
def x():
    return torch.randn(30, 6, generator=torch.Generator().manual_seed(1))


CASES = {
    "GCNConv": (lambda m: m.GCNConv(6, 4)),
    "SGConv": (lambda m: m.SGConv(6, 4, K=3)),
    "SSGConv": (lambda m: m.SSGConv(6, 4, alpha=0.05, K=8)),
    "GATConv": (lambda m: m.GATConv(6, 4, heads=3)),
    "GATConv, mean": (lambda m: m.GATConv(6, 4, heads=2, concat=False)),
    "APPNP": (lambda m: m.APPNP(K=10, alpha=0.1)),
}


@pytest.mark.parametrize("name", CASES)
def test_same_output_and_gradient(name, graph, x):
    theirs, ours = CASES[name](pyg), CASES[name](convolutions)
    missing = ours.load_state_dict(theirs.state_dict(), strict=False)
    assert not missing.missing_keys
    index = torch.tensor(graph.to_edge_index()[0])
    gradients = []
    for layer in (theirs, ours):
        features = x.clone().requires_grad_()
        out = layer(features, index)
        out.square().sum().backward()
        gradients.append((out.detach(), features.grad))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_weights_of_edges_enter_as_in_pyg(x):
    graph = nareg.graphs.sensor(30, rng=np.random.default_rng(0))
    index, weight = (torch.tensor(part) for part in graph.to_edge_index())
    theirs, ours = pyg.GCNConv(6, 4), convolutions.GCNConv(6, 4)
    ours.load_state_dict(theirs.state_dict(), strict=False)
    torch.testing.assert_close(ours(x, index, weight), theirs(x, index, weight.float()), atol=1e-5, rtol=1e-4)


def test_neighborhood_training_looks_at_all_that_matters(graph, x):
    """Outputs of some nodes from their two-step neighborhood alone."""
    A = Adjacency(graph)
    rows = np.array([3, 17, 29])
    near = peers.within(A, rows, 2)
    assert near.size < 30
    for make in (peers.gcn, peers.gat):
        net = make(6, 3).eval()
        assert net.reach == 2
        whole = net(net.prepare(A, x), torch.tensor(rows))
        part = net(net.prepare(peers.Neighborhood(A, near), x[near]), torch.tensor(np.searchsorted(near, rows)))
        torch.testing.assert_close(whole, part)


@pytest.mark.parametrize("alpha", [1.0, 0.6])
def test_unfolded_steps_against_the_loop_they_stand_for(alpha, graph):
    A = graph.adjacency.toarray()
    f = torch.randn(30, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    scale = 1 / (1 + 2.0 * A.sum(axis=1))[:, None]
    Y = f.detach().numpy()
    for _ in range(7):
        Y = (1 - alpha) * Y + alpha * scale * (2.0 * A @ Y + f.detach().numpy())
    net = Unfolded(7, lam=2.0, alpha=alpha)
    np.testing.assert_allclose(net(f, graph).detach(), Y, atol=1e-12)
    assert torch.autograd.gradcheck(lambda g: net(g, graph), f)
    limit = np.linalg.solve(np.eye(30) + 2.0 * graph.laplacian().toarray(), f.detach().numpy())
    np.testing.assert_allclose(Unfolded(3000, lam=2.0)(f, graph).detach(), limit, atol=1e-8)


def test_unfolded_attention_gives_up_edges_between_unlike_nodes():
    path = nareg.graphs.grid((4,))
    f = torch.tensor([[0.0], [0.1], [50.0], [50.1]], dtype=torch.float64, requires_grad=True)
    plain, careful = Unfolded(60, lam=5.0)(f, path), Unfolded(60, lam=5.0, attention=True, tau=0.2, cut=20.0)(f, path)
    jumps = [float((Y[2] - Y[1]).detach()) for Y in (plain, careful)]
    assert jumps[0] < jumps[1]
    assert jumps[1] > 5
    assert torch.autograd.gradcheck(lambda g: Unfolded(6, lam=1.0, attention=True, tau=0.2)(g, path), f)


def test_defenses_remove_and_weigh_unlike_edges():
    square = nareg.graphs.grid((2, 2))  # edges 01, 02, 13, 23
    X = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    remaining = peers.jaccard(square, X, 0.01)
    assert remaining.adjacency.toarray()[0, 1] == 1
    assert remaining.n_edges == 1
    weighted = peers.similarity_weighted(square, X)
    assert weighted.adjacency.toarray()[0, 1] == pytest.approx(1 / np.sqrt(2))
    assert weighted.n_edges == 1
    assert peers.cosine(square, X, 0.8).n_edges == 0


def test_low_rank_gcn_multiplies_by_the_truncated_matrix(graph, x):
    net = peers.LowRankGCN(6, 3, rank=29, hidden=4).eval()
    _, (left, right, diagonal) = net.prepare(Adjacency(graph), x.double())
    A = graph.adjacency.toarray()
    U, s, Vt = np.linalg.svd(A)
    near = U[:, :29] * s[:29] @ Vt[:29]
    half = 1 / np.sqrt(1 + np.maximum(near.sum(axis=1), 0))
    np.testing.assert_allclose(
        left @ right.T + torch.diag(diagonal[:, 0]), half[:, None] * (near + np.eye(30)) * half, atol=1e-8
    )


def test_robust_gcn_without_spread_is_a_gcn_with_its_activations(graph, x):
    net = peers.RobustGCN(6, 3, hidden=4).eval()
    with torch.no_grad():
        for layer in net.variances:
            layer.weight.fill_(0.0)
    A = torch.tensor(Adjacency(graph).matrix.toarray(), dtype=torch.float32)
    elu = torch.nn.functional.elu
    expected = A @ elu((A @ elu(x @ net.means[0].weight.T)) @ net.means[1].weight.T)
    torch.testing.assert_close(net(net.prepare(Adjacency(graph), x), slice(None)), expected, atol=1e-5, rtol=1e-4)
    assert net.penalty() == 0  # nothing is drawn towards anything outside training
    net.train()(net.prepare(Adjacency(graph), x), slice(None))
    assert float(net.penalty().detach()) > 0


def test_filtered_networks_are_what_their_names_say(graph, x):
    A = Adjacency(graph)
    for net, layer in (
        (peers.sgc(6, 3, order=2), pyg.SGConv(6, 3, K=2)),
        (peers.ssgc(6, 3), pyg.SSGConv(6, 3, alpha=0.05, K=16)),
    ):
        head = net.head.layers[0]
        layer.lin.load_state_dict(head.state_dict())
        out = net(net.prepare(A, x), slice(None))
        torch.testing.assert_close(out, layer(x, torch.tensor(graph.to_edge_index()[0])), atol=1e-5, rtol=1e-4)
    dense = torch.linalg.inv(11 * torch.eye(30) - 10 * torch.tensor(A.matrix.toarray(), dtype=torch.float32)) @ x
    torch.testing.assert_close(peers.glp(6, 3).prepare(A, x), dense, atol=3e-3, rtol=0)
    assert isinstance(peers.mlp(6, 3), networks.FilteredNetwork)
    assert peers.mlp(6, 3).prepare(A, x) is x


@pytest.mark.parametrize(
    "change", [np.asfortranarray, lambda x: x.astype(">f8"), lambda x: x.astype(np.float32), sp.csr_array, lambda x: x.tolist()]
)
def test_features_of_any_layout_clean_the_graph_alike(change, rng):
    graph, x = nareg.graphs.grid((4, 4)), rng.random((16, 3)).round(2)
    expected = peers.cosine(graph, x, 0.8).adjacency.toarray()
    assert np.array_equal(peers.cosine(graph, change(x), 0.8).adjacency.toarray(), expected)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (np.full((16, 2), "a"), "real numbers are expected"),
        (np.ones(16), "2-dimensional"),
        (np.full((16, 2), np.nan), r"features\[0, 0\] is nan"),
        (np.ones((15, 2)), "has 15 rows but the graph has 16 nodes"),
        (sp.csr_array(np.ones((16, 2)) * 1j), "pass real"),
    ],
)
def test_features_that_cannot_be_compared_are_refused(features, words):
    for clean in (peers.jaccard, peers.similarity_weighted):
        with pytest.raises(InputError, match=words):
            clean(nareg.graphs.grid((4, 4)), features)


def binary(x):
    return (x > 0).double()


MADE = {
    "airgnn": lambda: peers.airgnn(6, 3), "appnp": lambda: peers.appnp(6, 3), "gat": lambda: peers.gat(6, 3),
    "gcn": lambda: peers.gcn(6, 3), "glp": lambda: peers.glp(6, 3), "mlp": lambda: peers.mlp(6, 3),
    "sgc": lambda: peers.sgc(6, 3), "ssgc": lambda: peers.ssgc(6, 3), "twirls": lambda: peers.twirls(6, 3),
    "RobustGCN": lambda: peers.RobustGCN(6, 3), "cosine": lambda: lambda g, x: peers.cosine(g, x, 0.7),
    "jaccard": lambda: lambda g, x: peers.jaccard(g, binary(x), 0.1),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_relabeled_nodes_give_relabeled_results(name, graph, x):
    """Finite ones; arguments are left as they are."""
    torch.manual_seed(0)
    make, order, before = MADE[name](), np.random.default_rng(1).permutation(30), x.clone()
    relabeled = nareg.Graph(graph.adjacency[order][:, order])
    if isinstance(make, networks.Network):
        with torch.no_grad():
            first, second = (
                make.eval()(make.prepare(Adjacency(g), y), slice(None)) for g, y in ((graph, x), (relabeled, x[order]))
            )
        assert first.isfinite().all()
        torch.testing.assert_close(second, first[order], atol=1e-5, rtol=1e-4)
    else:
        first, second = (make(g, y).adjacency.toarray() for g, y in ((graph, x), (relabeled, x[order])))
        np.testing.assert_array_equal(second, first[order][:, order])
    assert torch.equal(x, before)
