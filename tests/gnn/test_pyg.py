"""Layers inside PyTorch Geometric: data objects, relations, batches, and what they refuse."""

from __future__ import annotations

import copy
import inspect
from typing import ClassVar

import numpy as np
import pytest
import torch

pyg = pytest.importorskip("torch_geometric")

from torch_geometric import EdgeIndex, nn  # noqa: E402
from torch_geometric.data import Batch, Data, HeteroData  # noqa: E402
from torch_geometric.loader import RandomNodeLoader  # noqa: E402
from torch_geometric.nn import HeteroConv, SAGEConv, to_hetero  # noqa: E402
from torch_geometric.transforms import ToSparseTensor  # noqa: E402
from torch_geometric.utils import k_hop_subgraph, subgraph  # noqa: E402

import nareg  # noqa: E402
from experiments import _gnn_peers as peers  # noqa: E402
from nareg import gnn  # noqa: E402
from nareg.errors import InputError  # noqa: E402
from nareg.gnn import NGC, RNGC, Adjacency, NodeAdaptiveConv, networks, propagate, training  # noqa: E402

N = 60
GRAPH = nareg.graphs.sensor(N, rng=np.random.default_rng(0))
INDEX, WEIGHT = (torch.tensor(part) for part in GRAPH.to_edge_index())
X = torch.randn(N, 5, generator=torch.Generator().manual_seed(0))
LAYERS = {
    "NGC": lambda width=5, out=3, **more: NGC(width, out, lam=4.0, **more),
    "RNGC": lambda width=5, out=3, **more: RNGC(width, out, lam=4.0, eps=0.2, **more),
    "NodeAdaptiveConv": lambda width=5, out=3, **more: NodeAdaptiveConv(width, out, n_nodes=N, **more),
}
each_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)


def two_types() -> HeteroData:
    data = HeteroData()
    data["paper"].x, data["author"].x = X, torch.ones(4, 2)
    data["paper", "cites", "paper"].edge_index = INDEX
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 1], [2, 3]])
    return data


class Net(torch.nn.Module):
    """What a script gives to ``to_hetero``."""

    def __init__(self):
        super().__init__()
        self.conv = NGC(-1, 3)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index).relu()


def hetero() -> torch.nn.Module:
    data = two_types()
    data["paper", "written_by", "author"].edge_index = torch.tensor([[2, 3], [0, 1]])  # to_hetero wants edges into each type
    return to_hetero(Net(), data.metadata())


def one_relation() -> HeteroData:
    data = HeteroData()
    data["paper"].x = X
    data["paper", "cites", "paper"].edge_index = INDEX
    return data


@pytest.mark.filterwarnings("ignore:Sparse")  # torch's own, of its sparse tensors
class TestFormsOfAGraph:
    @each_layer
    def test_every_form_gives_the_same_result(self, make):
        layer = make()
        expected = layer(X, INDEX, WEIGHT)
        data = Data(x=X, edge_index=INDEX, edge_weight=WEIGHT)
        sparse = torch.sparse_coo_tensor(INDEX, WEIGHT, (N, N)).coalesce()
        for form in (data, GRAPH, Adjacency(data), sparse, sparse.to_sparse_csr()):
            torch.testing.assert_close(layer(X, form), expected)

    @each_layer
    def test_other_ways_of_pyg_to_hold_edges(self, make):
        layer = make()
        expected = layer(X, INDEX)
        transposed = ToSparseTensor(layout=torch.sparse_csr)(Data(x=X, edge_index=INDEX))
        hetero = two_types()
        for form in (EdgeIndex(INDEX, sparse_size=(N, N)), transposed, transposed.adj_t, one_relation(),
                     hetero["paper", "cites", "paper"]):  # fmt: skip
            torch.testing.assert_close(layer(X, form), expected)

    def test_a_data_object_is_prepared_once_and_again_when_its_edges_change(self, monkeypatch):
        from nareg.gnn import adjacency

        count, read = [], adjacency.read
        monkeypatch.setattr(adjacency, "read", lambda *a: count.append(1) or read(*a))
        layer, data = NGC(5, 3), Data(x=X, edge_index=INDEX)
        first = layer(X, data)
        torch.testing.assert_close(layer(X, data), first)
        assert len(count) == 1
        data.edge_index = INDEX[:, (INDEX != 0).all(0)]
        assert not torch.allclose(layer(X, data), first)
        assert len(count) == 2

    def test_propagate_and_a_batch_of_graphs(self):
        data = Data(x=X, edge_index=INDEX)
        torch.testing.assert_close(propagate(data, X), propagate(INDEX, X))
        batch = Batch.from_data_list([data, data])
        layer = NGC(5, 3)
        torch.testing.assert_close(layer(batch.x, batch.edge_index), torch.cat([layer(X, INDEX)] * 2))


@pytest.mark.filterwarnings("ignore:There exist node types")  # PyTorch Geometric's own
class TestRelations:
    @each_layer
    def test_in_a_hetero_conv(self, make):
        layer = make()
        network = HeteroConv({("paper", "cites", "paper"): layer, ("author", "writes", "paper"): SAGEConv((-1, -1), 3)})
        data = two_types()
        out = network(data.x_dict, data.edge_index_dict)["paper"]
        other = network.convs["author", "writes", "paper"]((data["author"].x, X), data["author", "writes", "paper"].edge_index)
        torch.testing.assert_close(out, layer(X, INDEX) + other)

    REFUSED: ClassVar = {
        "two relations": (lambda: NGC(5, 3)(X, two_types()), "a HeteroData with 2 relations: pass one"),
        "two types": (lambda: NGC(5, 3)(X, two_types()["author", "writes", "paper"]), "between two types of nodes"),
        "two types of features": (
            lambda: HeteroConv({("author", "writes", "paper"): NGC(-1, 3)})(two_types().x_dict, two_types().edge_index_dict),
            "x is a tuple, as features of several types of nodes.*HeteroConv",
        ),
        "all features": (lambda: NGC(5, 3)(two_types().x_dict, two_types().edge_index_dict), "x is a dict.*HeteroConv"),
        "to_hetero": (lambda: hetero()(two_types().x_dict, two_types().edge_index_dict), "x is a tuple.*HeteroConv"),
        "edges between two types": (
            lambda: NGC(5, 3)(X, torch.tensor([[0, 1], [2, 3]])),
            "edges between two types of nodes cannot work",
        ),
        "more of the other type": (lambda: NGC(5, 3)(X, torch.tensor([[0, N], [2, 3]])), f"holds node {N}.*both ends"),
        "no edges": (lambda: NGC(5, 3)(X, Data(x=X)), "a Data without edges: it needs edge_index or adj_t"),
        "weights twice": (lambda: NGC(5, 3)(X, Data(x=X, edge_index=INDEX), WEIGHT), "put it into the data object"),
    }

    @pytest.mark.parametrize("name", REFUSED)
    def test_refused_with_a_sentence(self, name):
        call, said = self.REFUSED[name]
        with pytest.raises(InputError, match=said) as caught:
            call()
        assert "\n" not in str(caught.value)


class TestNamesOfArguments:
    """Arguments that PyTorch Geometric's layers have, and ours have not."""

    REMEDIES: ClassVar = {
        "K": ({"NGC": "use order", "RNGC": "use order", "NodeAdaptiveConv": "omit it, the filter is not truncated"}, 16),
        "alpha": (dict.fromkeys(LAYERS, r"use lam = 1 / alpha - 1"), 0.05),
        "cached": (dict.fromkeys(LAYERS, "omit it"), True),
        "add_self_loops": (dict.fromkeys(LAYERS, "omit it"), True),
        "normalize": ({"NGC": "use normalization", "RNGC": "use normalization", "NodeAdaptiveConv": "use laplacian"}, True),
    }

    @pytest.mark.parametrize("name", REMEDIES)
    @pytest.mark.parametrize("layer", LAYERS)
    def test_are_refused_with_the_name_to_use(self, layer, name):
        remedies, value = self.REMEDIES[name]
        with pytest.raises(TypeError, match=rf"^{layer} has no argument {name}, .*: {remedies[layer]}[^\n]*\.$"):
            LAYERS[layer](**{name: value})

    def test_others_are_python_s_own_error_and_signatures_stay(self):
        with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
            NGC(5, 3, depth=2)
        assert list(inspect.signature(NGC).parameters)[:4] == ["in_channels", "out_channels", "order", "lam"]
        assert inspect.signature(RNGC).parameters["eps"].default == 1.0

    def test_a_subclass_without_its_own_init_or_with_more_arguments(self):
        class Same(NGC):
            pass

        class Kept(NGC):
            def __init__(self, width: int, K: int) -> None:
                super().__init__(width, 3, order=K)

        with pytest.raises(TypeError, match=r"^Same has no argument K"):
            Same(5, 3, K=2)
        assert Kept(5, K=2).solver.order == 2


class TestBatches:
    def sampled(self) -> torch.Tensor:
        """Edges towards a few nodes, as neighbor sampling keeps them: one way only."""
        keep = (INDEX[1] < 20) & (torch.arange(INDEX.shape[1]) % 3 > 0)
        return INDEX[:, keep]

    @each_layer
    def test_a_sampled_subgraph_with_symmetrize(self, make):
        index = self.sampled()
        with pytest.raises(InputError, match=r"graph is directed: .*pass symmetrize=True to the layer"):
            make()(X, index)
        layer = make(symmetrize=True)
        both = torch.cat([index, index.flip(0)], 1).unique(dim=1)
        torch.testing.assert_close(layer(X, index), layer(X, both))
        torch.testing.assert_close(layer(X, Adjacency(index, n_nodes=N, symmetrize=True)), layer(X, both))

    def test_rows_of_features_propagated_before(self):
        """Filter once, then batches of rows: the same as the layer on the whole graph."""
        layer = NGC(5, 3)
        filtered = propagate(INDEX, X)
        rows = torch.randperm(N, generator=torch.Generator().manual_seed(0))[:16]
        torch.testing.assert_close(filtered[rows] @ layer.weight + layer.bias, layer(X, INDEX)[rows])

    def test_the_neighborhood_of_a_batch_has_the_whole_graph_s_result(self):
        """As many hops as the series has powers and one, for the degrees at the rim."""
        layer, order = NGC(5, 3, order=2), 2
        nodes, edges, rows, _ = k_hop_subgraph([7, 11], order + 1, INDEX, relabel_nodes=True)
        assert nodes.numel() < N
        torch.testing.assert_close(layer(X[nodes], edges)[rows], layer(X, INDEX)[[7, 11]])

    def test_parts_of_a_graph_train_a_layer(self):
        data = Data(x=X, edge_index=INDEX, y=(X[:, 0] > 0).long())
        torch.manual_seed(0)
        layer = NGC(5, 2, lam=1.0)
        optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
        losses = []
        for _ in range(20):
            for batch in RandomNodeLoader(data, num_parts=3):
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(layer(batch.x, batch.edge_index), batch.y)
                loss.backward()
                optimizer.step()
                losses.append(float(loss.detach()))
        assert np.mean(losses[-6:]) < 0.8 * np.mean(losses[:6])

    def test_a_part_is_filtered_with_its_own_degrees(self):
        nodes = torch.arange(30)
        edges = subgraph(nodes, INDEX, relabel_nodes=True)[0]
        A = torch.zeros(30, 30, dtype=torch.float64).index_put((edges[0], edges[1]), torch.ones(edges.shape[1]).double())
        A += torch.eye(30)
        M = A / (A.sum(0)[:, None] * A.sum(0)).sqrt()
        layer = NGC(5, 3, lam=4.0, order=400).double()
        dense = torch.linalg.solve(5 * torch.eye(30) - 4 * M, X[nodes].double()) @ layer.weight + layer.bias
        torch.testing.assert_close(layer(X[nodes].double(), edges), dense)


class TestLazyWidth:
    @each_layer
    def test_the_width_is_that_of_the_first_features(self, make):
        torch.manual_seed(3)
        lazy = make(-1)
        optimizer = torch.optim.SGD(lazy.parameters(), lr=0.1)
        out = lazy(X, INDEX)
        assert (lazy.in_channels, lazy.weight.shape) == (5, (5, 3))
        fixed = make(5)
        fixed.load_state_dict(lazy.state_dict())
        torch.testing.assert_close(fixed(X, INDEX), out)
        before = lazy.weight.detach().clone()
        out.sum().backward()
        optimizer.step()
        assert not torch.equal(lazy.weight, before)
        with pytest.raises(InputError, match="x has 4 features but the layer takes 5"):
            lazy(X[:, :4], INDEX)

    @each_layer
    def test_before_that_it_is_copied_saved_and_converted(self, make):
        lazy = make(-1)
        assert "(-1, 3" in repr(lazy)
        twin = copy.deepcopy(lazy).double()
        assert twin(X.double(), INDEX).dtype == torch.float64
        assert lazy.in_channels == -1
        again = make(-1)
        again.load_state_dict(lazy.state_dict())
        assert again.in_channels == -1
        again.load_state_dict(twin.state_dict())
        torch.testing.assert_close(again.double()(X.double(), INDEX), twin(X.double(), INDEX))

    def test_other_widths_are_refused(self):
        for width in (0, -2, (-1, -1), 2.5):
            with pytest.raises(InputError, match="in_channels is"):
                NGC(width, 3)


class TestCompare:
    """PyTorch Geometric's models train as they are, on the edges and weights of the data set."""

    MODELS: ClassVar = {
        "GCN": lambda f, c: nn.GCN(f, 16, 2, c, dropout=0.5),
        "GAT": lambda f, c: nn.GAT(f, 16, 2, c, heads=2),
        "SGConv": lambda f, c: nn.SGConv(f, c, K=2),
        "SSGConv": lambda f, c: nn.SSGConv(f, c, alpha=0.1, K=4),
        "MLP": lambda f, c: nn.MLP([f, 16, c]),
        "APPNP": lambda f, c: nn.Sequential("x, e", [(torch.nn.Linear(f, c), "x -> x"), (nn.APPNP(10, 0.1), "x, e -> x")]),
        "NGC": lambda f, c: gnn.NGC(f, c, lam=8.0),
    }

    @pytest.mark.slow
    def test_models_learn(self):
        data = nareg.datasets.node_classification.synthetic(150, 3, rng=np.random.default_rng(0))
        recipes = {name: gnn.Candidate(build, 0.05) for name, build in self.MODELS.items()}
        result = gnn.compare(data, recipes, runs=1, protocol=training.Protocol(epochs=30))
        assert result.models == list(self.MODELS)
        for name, summary in result.summary().items():
            assert summary.mean > 50, name

    @pytest.mark.parametrize("name", ["GCN", "SGConv", "NGC"])
    def test_weights_of_edges_enter(self, name):
        graph = nareg.graphs.sensor(30, rng=np.random.default_rng(0))
        x = torch.randn(30, 6, generator=torch.Generator().manual_seed(1))
        module = self.MODELS[name](6, 3).eval()
        network, adjacency = networks.as_network(module), gnn.Adjacency(graph)
        index, weight = (torch.as_tensor(part) for part in graph.to_edge_index())
        ((inputs, rows),) = network.views(adjacency, x, [np.array([3, 4])])
        expected = module(x, index, edge_weight=weight.float())[[3, 4]]
        torch.testing.assert_close(network(inputs, rows), expected, atol=1e-5, rtol=1e-4)

    def test_a_convolution_of_ours_answers_as_theirs(self):
        graph = nareg.graphs.sensor(30, rng=np.random.default_rng(0))
        x = torch.randn(30, 6, generator=torch.Generator().manual_seed(1))
        theirs = nn.GCN(6, 16, 2, 3, dropout=0.5).eval()
        ours = peers.gcn(6, 3).eval()
        for mine, other in ((ours.first, theirs.convs[0]), (ours.second, theirs.convs[1])):
            assert not mine.load_state_dict(other.state_dict(), strict=False).missing_keys
        network, adjacency = networks.as_network(theirs), gnn.Adjacency(graph)
        outs = [net(net.prepare(adjacency, x), slice(None)) for net in (network, ours)]
        torch.testing.assert_close(*outs, atol=1e-5, rtol=1e-4)
