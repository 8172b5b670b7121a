"""Requests, settings and data that cannot work are refused; what works is left as it was given."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from nareg.errors import InputError
from nareg.unlearning import CertifiedGPR
from tests.unlearning.requests import assert_same, fitted, problem, state


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda m: m.remove_nodes([]), "nodes is empty"),
        (lambda m: m.remove_nodes([3, 3]), "nodes lists a node twice"),
        (lambda m: m.remove_nodes([60]), "nodes holds 60 but there are 60 nodes"),
        (lambda m: m.remove_nodes([59]), "nodes holds 59, which was removed before"),
        (lambda m: m.remove_features([59]), "nodes holds 59, which was removed before"),
        (lambda m: m.add_edges([(1, 59)]), "edges holds 59, which was removed before"),
        (lambda m: m.remove_edges([(2, 2)]), "a self-loop is not an edge"),
        (lambda m: m.remove_nodes(np.flatnonzero(m.labels == 1)), "the last training node of class 1"),
        (lambda m: m.remove_nodes(np.arange(40)), "nodes holds all training nodes: keep at least one to train on"),
        (lambda m: m.remove_features(np.arange(40), labels=True), "nodes holds all training nodes"),
        (lambda m: m.add_nodes(np.ones((1, 5))), "features has 5 columns but the model was fitted to 6"),
        (lambda m: m.add_nodes(np.full((1, 6), np.nan)), r"features\[0, 0\] is nan"),
        (lambda m: m.add_nodes(np.ones((1, 6)), labels=[3]), r"labels holds 3, not a class of the model"),
        (lambda m: m.add_nodes(np.ones((1, 6)), labels=[-5]), r"labels holds -5, not a class of the model: .*, or -1"),
        (lambda m: m.add_nodes(np.ones((1, 6)), labels=[1, 2]), r"labels have shape \(2,\)"),
    ],
)
def test_requests_that_cannot_work_are_refused_and_change_nothing(act, message, rng):
    model, *_ = fitted(rng)
    model.remove_nodes([59])
    before = state(model)
    with pytest.raises(InputError, match=message):
        act(model)
    assert_same(before, state(model))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": -1}, "weights is -1"),
        ({"weights": []}, "weights have 0 values"),
        ({"weights": [0.8, 0.3]}, r"absolute values sum to 1\.1"),
        ({"loss": "hinge"}, "loss is 'hinge'"),
        ({"lam": 0.0}, "lam is 0.0, it must be above 0"),
        ({"alpha": -1}, "alpha is -1"),
        ({"eps": 0}, "eps is 0"),
        ({"delta": 0}, "delta is 0"),
        ({"delta": 1}, "delta is 1, which guarantees nothing"),
        ({"r_max": -1}, "r_max is -1"),
        ({"alpha": 1e-300, "eps": 1e-10}, "alpha is 1e-300, eps 1e-10 and delta 0.0001: their budget, .*, is below rounding"),
        ({"rng": 0}, "rng is 0, a numpy generator"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        CertifiedGPR(**settings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.ones((59, 6))}, r"features has shape \(59, 6\): \(60, F\) is expected"),
        ({"features": np.ones((60, 0))}, "F at least 1"),
        ({"features": np.full((60, 6), np.inf)}, r"features\[0, 0\] is inf"),
        ({"labels": np.zeros(60)}, "dtype float64"),
        ({"labels": np.zeros(59, int)}, r"\(60,\) integers are expected"),
        ({"labels": np.full(60, -1)}, r"labels\[0\] is -1, not a class"),
        ({"labels": np.zeros(60, int)}, "are all 0: at least two classes are needed"),
        ({"train": []}, "train"),
        ({"train": [60]}, "train holds 60"),
        ({"graph": np.ones((60, 60)) - np.eye(60) * 2}, "adjacency"),
    ],
)
def test_data_that_cannot_work_are_refused(change, message, rng):
    graph, X, y = problem(rng)
    given = {"graph": graph, "features": X, "labels": y, "train": np.arange(40), **change}
    with pytest.raises(InputError, match=message):
        CertifiedGPR(rng=rng).fit(**given)


def test_masked_arrays_are_refused(rng):
    model, graph, X, y = fitted(rng)
    with pytest.raises(InputError, match="nodes is a masked array, whose mask would be lost"):
        model.remove_nodes(np.ma.array([17, 30], mask=[False, True]))
    with pytest.raises(InputError, match="labels is a masked array"):
        CertifiedGPR().fit(graph, X, np.ma.array(y, mask=y == 1), np.arange(40))


@pytest.mark.parametrize("other", [None, np.ones(400), np.arange(400) % 2])
def test_features_that_were_scaled_by_columns_are_pointed_out(other, rng):
    graph, X, y = problem(rng, n=400)
    scaled = (X - X.mean(0)) / X.std(0)
    if other is not None:  # one column that is not centered hides no others
        scaled[:, 0] = other
    with pytest.warns(UserWarning, match="columns of features have mean zero") as caught:
        CertifiedGPR().fit(graph, scaled, y, np.arange(40))
    assert caught[0].filename == __file__
    for fine in (X / np.linalg.norm(X, axis=1, keepdims=True), np.zeros_like(X)):
        CertifiedGPR().fit(graph, fine, y, np.arange(40))


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([0, 1], "labels of training nodes hold class 2, which is not among classes"),
        ([0], "classes is .*: two or more integers"),
        ([-1, 0, 1, 2], "two or more integers of at least 0"),
        ([0.0, 1.0, 2.0], "two or more integers"),
    ],
)
def test_classes_that_cannot_be_are_refused(classes, message, rng):
    graph, X, y = problem(rng)
    with pytest.raises(InputError, match=message):
        CertifiedGPR(rng=rng).fit(graph, X, y, np.arange(40), classes=classes)


def test_arguments_are_not_changed_and_sparse_features_are_taken(rng):
    graph, X, y = problem(rng)
    original = X.copy(), y.copy(), graph.adjacency.toarray()
    model = CertifiedGPR(rng=np.random.default_rng(3)).fit(graph, X, y, np.arange(40))
    other = CertifiedGPR(rng=np.random.default_rng(3)).fit(graph.adjacency, sp.csr_array(X), y, np.arange(60) < 40)
    np.testing.assert_array_equal(model.coefficients, other.coefficients)
    model.remove_nodes([1, 2])
    for before, after in zip(original, (X, y, graph.adjacency.toarray()), strict=True):
        np.testing.assert_array_equal(before, after)
