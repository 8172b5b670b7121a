"""Node classification data to PyTorch Geometric and back, and from OGB's form."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.transforms import ToSparseTensor  # noqa: E402
from torch_geometric.utils import is_undirected  # noqa: E402

from nareg.datasets.node_classification import NodeClassification, synthetic  # noqa: E402
from nareg.errors import InputError  # noqa: E402


@pytest.fixture
def made():
    return synthetic(80, 3, n_features=7, rng=np.random.default_rng(0))


def same(a: NodeClassification, b: NodeClassification) -> None:
    assert (abs(a.graph.adjacency - b.graph.adjacency)).nnz == 0
    np.testing.assert_array_equal(a.dense_features(), b.dense_features())
    np.testing.assert_array_equal(a.labels, b.labels)
    assert a.n_classes == b.n_classes
    assert len(a.splits) == len(b.splits)
    for ours, theirs in zip(a.splits, b.splits, strict=True):
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(x, y)


class OGBShaped:
    """An object of the shape of ``ogb.nodeproppred.NodePropPredDataset``: ogb itself is not needed here."""

    name, num_classes = "ogbn-made", 4

    def __init__(self, made: NodeClassification) -> None:
        self._made = made
        one_way = sp.triu(made.graph.adjacency).tocoo()
        self.graph = {
            "edge_index": np.vstack(one_way.coords), "edge_feat": None, "node_feat": made.dense_features(),
            "num_nodes": made.n_nodes,
        }  # fmt: skip
        self.labels = made.labels.astype(np.float32)[:, None].copy()
        self.labels[5] = np.nan

    def __getitem__(self, index):
        return self.graph, self.labels

    def get_idx_split(self):
        return dict(zip(("train", "valid", "test"), self._made.splits[0], strict=True))


class TestThereAndBack:
    def test_one_split(self, made):
        data = made.to_pyg()
        assert data.validate()
        assert is_undirected(data.edge_index)
        assert data.x.dtype == torch.float32
        assert data.train_mask.shape == (80,)
        same(NodeClassification.from_pyg(data), made)

    def test_several_splits_and_none(self, made):
        rng = np.random.default_rng(1)
        several = NodeClassification(**{**vars(made), "splits": tuple(made.random_split(rng=rng) for _ in range(3))})
        data = several.to_pyg()
        assert data.val_mask.shape == (80, 3)
        same(NodeClassification.from_pyg(data), several)
        data.test_mask = data.test_mask[:, 0]  # one test set for all, as in WikiCS
        splits = NodeClassification.from_pyg(data).splits
        assert [split[2].tolist() for split in splits] == [several.splits[0][2].tolist()] * 3
        bare = NodeClassification(**{**vars(made), "splits": ()})
        assert "train_mask" not in bare.to_pyg()
        same(NodeClassification.from_pyg(bare.to_pyg()), bare)

    def test_sparse_features_stay_sparse(self, made):
        data = made.to_pyg()
        data.x = torch.where(data.x > 1, data.x, 0.0)
        dense = NodeClassification.from_pyg(data)
        data.x = data.x.to_sparse_coo()
        sparse = NodeClassification.from_pyg(data)
        assert isinstance(sparse.features, sp.csr_array)
        same(sparse, dense)

    def test_a_copy_shares_nothing(self, made):
        data = made.to_pyg()
        data.x.zero_()
        data.y.zero_()
        assert made.labels.any()
        assert made.dense_features().any()


class TestFromPyG:
    def test_directed_edges_doubles_and_loops_become_a_simple_graph(self, made):
        data = made.to_pyg()
        one_way = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
        data.edge_index = torch.cat([one_way, one_way[:, :3], torch.tensor([[4], [4]])], 1)
        same(NodeClassification.from_pyg(data), made)

    @pytest.mark.filterwarnings("ignore:Sparse")
    def test_adj_t(self, made):
        same(NodeClassification.from_pyg(ToSparseTensor(layout=torch.sparse_csr)(made.to_pyg())), made)

    def test_labels_as_a_column_and_unknown_ones(self, made):
        data = made.to_pyg()
        data.y = data.y[:, None].float()
        data.y[3], data.y[4] = torch.nan, -1
        labels = NodeClassification.from_pyg(data, name="mine").labels
        assert labels[3] == labels[4] == -1
        np.testing.assert_array_equal(np.delete(labels, [3, 4]), np.delete(made.labels, [3, 4]))

    REFUSED: ClassVar = {
        "not data": (lambda d: d.x, "data is a Tensor: a torch_geometric Data"),
        "hetero": (lambda d: HeteroData(), "data is a HeteroData"),
        "no x": (lambda d: d.update({"x": None}), "data has no x"),
        "no edges": (lambda d: d.update({"edge_index": None}), "data has no edges"),
        "weights": (lambda d: d.update({"edge_weight": torch.ones(d.num_edges)}), "set data.edge_weight = None"),
        "nan": (lambda d: d.update({"x": d.x.clone().index_fill(0, torch.tensor([2]), torch.nan)}), r"x\[2, 0\] is nan"),
        "many labels": (lambda d: d.update({"y": torch.ones(80, 5)}), "y has shape"),
        "fractions": (lambda d: d.update({"y": d.y + 0.5}), "not an integer"),
        "out of range": (lambda d: d.update({"edge_index": torch.tensor([[0, 99], [99, 0]])}), "holds node 99, out of range"),
        "mask": (lambda d: d.update({"val_mask": torch.arange(80)}), "val_mask has shape"),
        "columns": (
            lambda d: d.update({"val_mask": torch.ones(80, 2).bool(), "test_mask": torch.ones(80, 3).bool()}),
            "columns: one per split",
        ),
    }

    @pytest.mark.parametrize("name", REFUSED)
    def test_refused_with_a_sentence(self, name, made):
        change, said = self.REFUSED[name]
        with pytest.raises(InputError, match=said) as caught:
            NodeClassification.from_pyg(change(made.to_pyg()))
        assert "\n" not in str(caught.value)


class TestFromOGB:
    def test_an_object_of_that_shape(self, made):
        data = NodeClassification.from_ogb(OGBShaped(made))
        assert (data.name, data.n_classes) == ("ogbn-made", 4)
        assert data.labels[5] == -1
        expected = NodeClassification(**{**vars(made), "labels": np.where(np.arange(80) == 5, -1, made.labels), "n_classes": 4})
        same(data, expected)

    def test_refused_with_a_sentence(self, made):
        with pytest.raises(InputError, match=r"dataset is a Data: an ogb\.nodeproppred.NodePropPredDataset"):
            NodeClassification.from_ogb(made.to_pyg())
        dataset = OGBShaped(made)
        dataset.graph["node_feat"] = None
        with pytest.raises(InputError, match="no node_feat"):
            NodeClassification.from_ogb(dataset)
        for_pyg = OGBShaped(made)
        for_pyg.graph = Data()
        with pytest.raises(InputError, match=r"use NodeClassification\.from_pyg"):
            NodeClassification.from_ogb(for_pyg)
