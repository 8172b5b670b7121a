"""What ridge and noise cost: measured on nodes that are held out, warned of with the remedy, and of remaining data only."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import nareg
from nareg.errors import UtilityWarning
from nareg.unlearning import CertifiedGPR
from nareg.unlearning.cost import measured
from nareg.unlearning.objective import LOSSES, ClassifierObjective


def task(n=400, classes=4):
    """One class of half the nodes and ``classes - 1`` small ones: a large ridge gives all nodes the large one."""
    data = nareg.datasets.node_classification.synthetic(n, 2 * (classes - 1), rng=np.random.default_rng(0))
    return data.graph, data.features.astype(float), np.maximum(data.labels, classes - 2) - classes + 2, np.arange(n // 2)


def test_a_ridge_that_drowns_the_features_is_warned_of_with_one_that_helps():
    graph, X, y, train = task()
    model = CertifiedGPR(lam=100.0, alpha=1e-3, rng=np.random.default_rng(1))
    with pytest.warns(UtilityWarning, match=r"points of accuracy .* pass a smaller lam \(lam=.* was best"):
        model.fit(graph, X, y, train)
    assert model.cost.ridge > 5
    test = np.setdiff1d(np.arange(400), train)
    better = CertifiedGPR(lam=model.cost.best_lam, alpha=1e-3, rng=np.random.default_rng(1)).fit(graph, X, y, train)
    assert (better.predict(test) == y[test]).mean() > (model.predict(test) == y[test]).mean() + 0.05


def test_noise_that_drowns_the_scores_is_warned_of():
    graph, X, y, train = task()
    model = CertifiedGPR(lam=1e-3, alpha=50.0, rng=np.random.default_rng(1))
    with pytest.warns(UtilityWarning, match="pass a smaller alpha"):
        model.fit(graph, X, y, train)
    assert model.cost.noise > 5 > model.cost.ridge


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_the_default_is_not_warned_of_at_any_scale(factor):
    graph, X, y, train = task()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UtilityWarning)
        model = CertifiedGPR(rng=np.random.default_rng(1)).fit(graph, factor * X, y, train)
    assert model.cost.points < 5


@pytest.mark.slow
def test_labels_that_nothing_predicts_are_not_blamed_on_ridge_and_noise():
    graph, X, _, train = task()
    for seed in range(5):
        y = np.random.default_rng(seed).integers(0, 4, 400)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UtilityWarning)
            CertifiedGPR(rng=np.random.default_rng(1)).fit(graph, X, y, train)


def test_the_figures_are_those_of_heads_that_are_trained_on_the_others():
    """One part is held out of 1,000 nodes; dense Newton steps find the same classes."""
    rng = np.random.default_rng(5)
    Z, w = rng.normal(size=(1000, 4)), rng.normal(size=4)
    Y = np.where(Z @ w + rng.normal(size=1000) > 0, 1.0, -1.0)[:, None]
    B, lam = 20.0 * rng.normal(size=(4, 1)), 0.3
    found = measured(ClassifierObjective(Z, np.ones(1000), Y, LOSSES["squared"], lam, B))
    held_out = np.arange(1000) % 5 == 0
    A = Z[~held_out]

    def accuracy(ridge, noise):
        W = np.linalg.solve(A.T @ A + ridge * len(A) * np.eye(4), A.T @ Y[~held_out] - 0.8 * noise)
        return 100 * np.mean((Z[held_out] @ W > 0) == (Y[held_out] > 0))

    assert found.nodes == 200
    assert found.accuracy == pytest.approx(accuracy(lam, B), abs=1.0)
    assert found.noiseless == pytest.approx(accuracy(lam, 0 * B), abs=1.0)
    assert found.best == pytest.approx(accuracy(found.best_lam, 0 * B), abs=1.0)
    assert found.best >= found.noiseless


def test_it_is_of_the_data_that_remain_and_changes_nothing():
    graph, X, y, train = task()
    model = CertifiedGPR(rng=np.random.default_rng(1)).fit(graph, X, y, train)
    before = model.coefficients
    assert model.cost.nodes == 200
    assert np.array_equal(model.coefficients, before)
    model.remove_nodes(np.arange(150))
    assert model.cost.nodes == 50
    model.remove_nodes(np.arange(150, 185))
    assert model.cost is None  # 15 training nodes
