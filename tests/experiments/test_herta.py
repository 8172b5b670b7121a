"""Which nodes the experiments on training train on."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from tests.datasets.test_graph_loaders import LABELS, SPLIT, write_arxiv, write_flickr

pytest.importorskip("torch")
from experiments import _herta


@pytest.mark.parametrize(("name", "write"), [("ogbn-arxiv", write_arxiv), ("flickr", write_flickr)])
def test_data_sets_with_a_standard_split_keep_it(name, write, tmp_path, monkeypatch, rng):
    write(tmp_path, rng.standard_normal((len(LABELS), 3)).astype(np.float32))
    monkeypatch.setenv("NAREG_DATA", str(tmp_path))
    task = _herta.loaded.__wrapped__(name)
    assert [part.tolist() for part in task.parts((0.8, 0.1, 0.1), rng)] == list(SPLIT.values())
    assert [part.tolist() for part in task.parts((0.8,), rng)] == [SPLIT["train"]]


def test_others_train_on_a_random_share(rng):
    data = nareg.datasets.node_classification.synthetic(50, 3, rng=rng)
    task = _herta.Loaded(data.graph, data.features, data.labels)
    train, stored, test = task.parts((0.8, 0.1, 0.1), rng)
    assert (train.size, stored.size, test.size) == (40, 5, 5)
    assert np.unique(np.concatenate([train, stored, test])).size == 50
