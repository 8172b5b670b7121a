"""What training takes, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from nareg.errors import InputError
from tests.herta.helpers import best_squared, fit, laplacian, problem, propagated


def test_arrays_come_back_in_kind(rng):
    graph, X, labels, train = problem(rng)
    dense = fit(graph, X, labels, train=train)
    for features in (sp.csr_array(X), torch.as_tensor(X)):
        for nodes in (train, torch.as_tensor(train), np.isin(np.arange(60), train)):
            found = fit(graph, features, labels, train=nodes)
            np.testing.assert_allclose(np.asarray(found.weights), dense.weights, atol=1e-8)
            assert isinstance(found.weights, torch.Tensor) == isinstance(features, torch.Tensor)
    single = fit(graph, X, labels, train=train, dtype=np.float32)
    assert single.weights.dtype == np.float32
    assert single.loss == pytest.approx(dense.loss, rel=1e-3)
    edge_index, _ = graph.to_edge_index()
    np.testing.assert_allclose(fit(edge_index, X, labels, train=train).weights, dense.weights, atol=1e-8)


def test_tensors_of_any_kind_are_taken(rng):
    graph, X, labels, train = problem(rng)
    X = np.round(X)  # exact in bfloat16
    plain = fit(graph, X, labels, train=train).weights
    tensor = torch.as_tensor(X)
    kinds = [tensor.to_sparse(), tensor.to_sparse_csr(), tensor.bfloat16(), tensor.half(), tensor.float(), tensor.int()]
    for features in kinds:
        found = fit(graph, features, torch.as_tensor(labels), train=torch.as_tensor(train))
        np.testing.assert_allclose(found.weights.numpy(), plain, atol=1e-8)
    L = torch.as_tensor(laplacian(graph))
    for operator in (L, L.to_sparse()):
        np.testing.assert_allclose(fit(operator, X, labels, train=train, kind="operator").weights, plain, atol=1e-8)


def test_sparse_and_dense_features_agree(rng):
    graph, X, labels, train = problem(rng, n=200, d=30)
    X *= rng.random(X.shape) < 0.05
    dense, sparse = (fit(graph, x, labels, train=train, loss="ce", weight_decay=0.1) for x in (X, sp.csr_array(X)))
    np.testing.assert_allclose(dense.weights, sparse.weights, atol=1e-8)


def test_targets_may_be_numbers_and_unknown_where_not_trained_on(rng):
    graph, X, labels, train = problem(rng)
    Y = rng.standard_normal((60, 2))
    best = best_squared(propagated(graph, X, 1.0)[train], Y[train])
    rest = np.setdiff1d(np.arange(60), train)
    Y[rest] = np.nan
    assert fit(graph, X, Y, train=train).loss == pytest.approx(best, rel=1e-6)
    labels[rest] = -1
    assert fit(graph, X, labels, train=train).weights.shape == (8, 3)


def test_one_hot_rows_are_classes_and_rows_of_nan_unknown(rng):
    graph, X, labels, train = problem(rng)
    Y = np.eye(3)[labels]
    held = np.setdiff1d(np.arange(60), train)
    Y[held[5:]] = np.nan
    told = {"train": train, "optimizer": "adam", "max_iterations": 5}
    found = fit(graph, X, Y, validation=held[:5], **told)
    np.testing.assert_array_equal(found.validation, fit(graph, X, labels, validation=held[:5], **told).validation)
    with pytest.raises(InputError, match="validation holds a node whose label is not known"):
        fit(graph, X, Y, validation=held, **told)


def test_a_single_output_is_no_class(rng):
    graph, X, _, train = problem(rng)
    with pytest.raises(InputError, match="outputs have a single column"):
        fit(graph, X, rng.standard_normal((60, 1)), train=train).predict()


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"lam": -1.0}, "lam is -1.0, it must be at least 0"),
        ({"train": []}, "train is empty: name at least one node"),
        ({"train": [0, 60]}, "train holds 60 but there are 60 nodes"),
        ({"train": [1, 1]}, "train lists a node twice"),
        ({"train": [0, -1]}, "train holds -1: nodes are numbered from 0"),
        ({"train": np.ma.masked_equal([0, 1, 2], 1)}, "train is a masked array"),
        ({"train": [[0], [1, 2]]}, "train is not an array: its rows have different lengths"),
        ({"train": np.ones(4, bool)}, r"train has shape \(4,\) and dtype bool: pass a mask \(60,\) or node numbers"),
        ({"targets": np.full(60, -1)}, r"targets\[0\] is -1, no class, but node 0 is in train"),
        ({"targets": np.ones(59, int)}, r"targets have shape \(59,\) but there are 60 nodes"),
        ({"targets": np.full((60, 2), np.nan)}, r"targets\[0\] is not finite but node 0 is in train"),
        ({"targets": np.zeros(60, int), "loss": "ce"}, "targets hold a single class"),
        ({"targets": np.ones((60, 2)), "loss": "ce"}, "are expected for loss='ce'"),
        ({"features": np.full((60, 3), np.inf)}, r"features\[0, 0\] is inf"),
        ({"features": sp.csr_array(np.diag(np.full(60, np.nan)))}, r"features\[0, 0\] is nan: replace or drop"),
        ({"features": np.ones((59, 3))}, "graph has 60 nodes but"),
        ({"loss": "mae"}, "loss is 'mae'; choose one of"),
        ({"optimizer": "sgd"}, "optimizer is 'sgd'; choose one of"),
        ({"optimizer": "pcg", "loss": "ce"}, "optimizer is 'pcg', which needs loss='mse'"),
        ({"optimizer": "direct", "preconditioner": "exact"}, "optimizer='direct' takes no preconditioner"),
        ({"preconditioner": "blocks"}, "preconditioner is .blocks., but with loss=.mse. those of all outputs are equal"),
        (
            {"preconditioner": "sketched", "rows": 5},
            "the sketch has 5 rows but the propagated features have rank 8, of which",
        ),
        ({"dtype": np.int64}, "dtype is .*: float32 or float64 is expected"),
        ({"device": "gpu"}, "device is 'gpu': 'cpu' or 'cuda' is expected"),
        ({"weight_decay": -1.0}, "weight_decay is -1.0, it must be at least 0"),
        ({"rng": 3}, "rng is 3, a numpy generator is expected"),
        ({"validation": []}, "validation is empty: name at least one node"),
        ({"dropout": 0.5}, "dropout is 0.5 but 'auto' needs the same loss at every step"),
        ({"dropout": 1.0, "optimizer": "adam"}, "dropout is 1.0: it must be below 1"),
        ({"kind": "operator", "graph": -np.eye(60)}, "has a negative diagonal entry"),
        ({"kind": "operator", "graph": np.eye(59)}, "there are 60 rows of features"),
        ({"kind": "operator", "graph": np.eye(60), "optimizer": "algorithm-1"}, "kind='operator' has none: take 'pcg'"),
        ({"validation": [0], "targets": np.eye(60)[:, :3] * 2}, "validation needs classes"),
        ({"unrolled": 0}, "unrolled is 0, an integer of at least 1"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0, it must be above 0"),
        ({"tol": 1.0}, r"tol is 1\.0, it must be above 0 and below 1"),
        ({"inner_tol": 1e-17}, "inner_tol is 1e-17 but rounding in torch.float64 allows"),
        ({"lam": 1e300}, r"lam is 1e\+300 and the largest eigenvalue of L"),
        ({"lam": 1e7, "dtype": np.float32}, "take a smaller lam, smaller edge weights, or dtype float64"),
        ({"stop_below": "low"}, "stop_below is 'low', a number is expected"),
        ({"patience": 1.5}, r"patience is 1\.5, an integer of at least 1"),
        ({"progress": True}, r"progress is True: pass a function of one nareg\.progress\.Progress"),
        ({"features": np.full((60, 2), 1e160)}, r"features hold 1e\+160, whose square is outside the range"),
        ({"features": np.full((60, 2), 1e-160)}, "features hold 1e-160, whose square is outside the range"),
        ({"features": np.full((60, 2), 1e15), "dtype": np.float32}, r"range of torch\.float32: choose another unit"),
        ({"targets": np.full((60, 2), 1e160)}, r"targets hold 1e\+160, whose square is outside the range"),
        ({"features": np.ones((60, 2), complex)}, "features has dtype complex128, real numbers are expected"),
        (
            {"optimizer": "algorithm-1", "rows": 3},
            "the sketch has 3 rows but the propagated features have rank 8, of which",
        ),
        (
            {"loss": "ce", "preconditioner": "sketched", "rows": 3},
            "the sketch has 3 rows but the propagated features have rank 8, of which such a sketch sees 3: take .* at least 16",
        ),
    ],
)
def test_what_cannot_work_is_refused_in_one_sentence(told, message, rng):
    graph, X, labels, _ = problem(rng)
    told = dict(told)
    arguments = [told.pop("graph", graph), told.pop("features", X), told.pop("targets", labels)]
    with pytest.raises(InputError, match=message):
        fit(*arguments, **told)


def test_a_class_that_no_training_node_has_is_told(rng):
    graph, X, labels, train = problem(rng)
    labels[np.setdiff1d(np.arange(60), train)[0]] = 5
    with pytest.warns(UserWarning, match="targets hold 6 classes, but no node of train has class 3, 4, 5"):
        assert fit(graph, X, labels, train=train).weights.shape == (8, 6)


def test_arrays_that_cannot_be_written_to_are_read(rng):
    graph, X, labels, train = problem(rng)
    whole = fit(graph, X, labels, train=train)
    for array in (X, labels, train):
        array.setflags(write=False)
    np.testing.assert_array_equal(fit(graph, X, labels, train=train).weights, whole.weights)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_refused(rng):
    graph, X, labels, _ = problem(rng)
    with pytest.raises(InputError, match="device is 'cuda' but torch sees no CUDA GPU here: leave it out"):
        fit(graph, X, labels, device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")
@pytest.mark.parametrize(
    "told",
    [
        {"optimizer": "direct"},
        {"optimizer": "pcg", "preconditioner": "sketched"},
        {"optimizer": "gd", "preconditioner": "exact"},
        {"optimizer": "adam", "preconditioner": "exact", "dropout": 0.2, "max_iterations": 5},
        {"optimizer": "algorithm-1"},
        {"loss": "ce"},
        {"loss": "ce", "preconditioner": "blocks"},
        {"loss": "ce", "preconditioner": "sketched"},
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_gpu_gives_the_same(told, sparse, rng):
    graph, X, labels, train = problem(rng, n=300)
    X = sp.csr_array(X * (rng.random(X.shape) < 0.08)) if sparse else X
    here, there = (
        fit(graph, X, labels, train=train, device=device, rng=np.random.default_rng(0), **told) for device in ("cpu", "cuda")
    )
    np.testing.assert_allclose(there.weights, here.weights, rtol=1e-4, atol=1e-6)
    assert there.status is here.status
