"""Attacks: cases whose answer is known, and simple references."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.unlearning import attacks


def pairs_auroc(scores, positive):
    """By its definition: all pairs."""
    better = [float(a > b) + 0.5 * (a == b) for a in scores[positive] for b in scores[~positive]]
    return np.mean(better)


def dense_trend(probabilities, A):
    """Node by node, as the note has it."""
    n = len(A)
    confidence = probabilities.max(axis=1)
    degree = [(A[i] > 0).sum() for i in range(n)]
    taus = [confidence]
    for _ in range(2):
        following = taus[-1].copy()
        for i in range(n):
            neighbors = np.flatnonzero(A[i])
            if neighbors.size:
                following[i] = sum(taus[-1][j] / np.sqrt(degree[i] * degree[j]) for j in neighbors)
        taus.append(following)
    rows = []
    for i in range(n):
        neighbors = np.flatnonzero(A[i])
        around = confidence[neighbors].mean() if neighbors.size else confidence[i]
        one, two = taus[1][i] - taus[0][i], taus[2][i] - taus[1][i]
        rows.append([confidence[i], degree[i], around, one < 0, one > 0, two < 0, two > 0])
    return np.array(rows, dtype=float)


def test_auroc_is_the_share_of_pairs_in_order(rng):
    scores, positive = rng.integers(0, 5, 40).astype(float), rng.random(40) < 0.4
    assert attacks.auroc(scores, positive) == pytest.approx(pairs_auroc(scores, positive), abs=1e-14)
    assert attacks.auroc(scores, positive) + attacks.auroc(-scores, positive) == pytest.approx(1)
    assert np.isnan(attacks.auroc(scores, np.ones(40, dtype=bool)))


def test_a_model_that_changes_nothing_scores_a_half_and_one_that_changes_removed_nodes_alone_scores_one(rng):
    before = rng.dirichlet(np.ones(3), 50)
    removed, test = np.arange(10), np.arange(30, 50)
    assert attacks.membership(before, before, removed, test, rng) == 0.5
    after = before.copy()
    after[removed] = 1 / 3
    assert attacks.membership(before, after, removed, test, rng) == 1
    assert attacks.membership(before, after, np.arange(40), np.arange(45, 50), rng) > 0.5  # fewer test nodes than removed ones


def test_trend_features_are_those_of_a_loop_over_nodes(rng):
    A = np.triu(rng.random((30, 30)) < 0.1, 1).astype(float)
    A[5], A[:, 5] = 0, 0  # alone
    A = A + A.T
    probabilities = rng.dirichlet(np.ones(4), 30)
    np.testing.assert_allclose(attacks.trend_features(probabilities, nareg.Graph(A)), dense_trend(probabilities, A), atol=1e-14)


def test_the_trend_attack_finds_unsure_nodes_and_nothing_where_all_are_alike(rng):
    ring = np.roll(np.eye(40), 1, axis=1)
    graph, train = nareg.Graph(ring + ring.T), np.arange(40)
    removed = np.arange(0, 40, 4)
    alike = np.full((40, 2), 0.5)
    assert attacks.trend(alike, graph, removed, train) == 0.5
    unsure = np.tile([0.99, 0.01], (40, 1))
    unsure[removed] = 0.5
    assert attacks.trend(unsure, graph, removed, train) == 1


def test_the_attackers_regression_is_at_its_optimum(rng):
    X, positive = rng.standard_normal((60, 3)), rng.random(60) < 0.2
    scores = attacks.logistic_scores(X, positive)
    Z = np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones(60)])
    w = np.linalg.lstsq(Z, scores, rcond=None)[0]
    np.testing.assert_allclose(Z @ w, scores, atol=1e-10)
    share = np.where(positive, 60 / (2 * positive.sum()), 60 / (2 * (~positive).sum()))
    gradient = Z.T @ (share * (1 / (1 + np.exp(-scores)) - positive)) + np.append(w[:3], 0)
    assert np.abs(gradient).max() < 1e-3 * np.abs(Z.T @ (share * (0.5 - positive))).max()


def test_the_students_gradients_are_those_of_finite_differences(rng):
    student = attacks.Student(5, 3, rng)
    X, targets = rng.standard_normal((7, 5)), rng.dirichlet(np.ones(3), 7)

    def loss():
        return -(targets * np.log(student.probabilities(X))).sum(axis=1).mean()

    for value, gradient in zip(student.weights, student.gradients(X, targets), strict=True):
        place = tuple(rng.integers(size) for size in value.shape)
        value[place] += 1e-6
        above = loss()
        value[place] -= 2e-6
        below = loss()
        value[place] += 1e-6
        assert gradient[place] == pytest.approx((above - below) / 2e-6, abs=1e-8)


def test_sparse_features_give_the_same(rng, monkeypatch):
    labels = np.arange(90) % 3
    features = np.where(rng.random((90, 40)) < 0.05, 1.0, 0.0)
    teacher = rng.dirichlet(np.ones(3), 90)

    def recalled():
        return attacks.membership_recall(features, teacher, labels, np.arange(90), np.arange(9), np.random.default_rng(0))

    sparse = recalled()
    monkeypatch.setattr(attacks, "SPARSE", 0)
    assert recalled().auroc == pytest.approx(sparse.auroc, abs=1e-12)
    assert recalled().accuracy == sparse.accuracy


def test_recall_learns_labels_from_features_and_finds_what_a_model_is_sure_of(rng):
    labels = np.arange(300) % 3
    features = np.eye(3)[labels] * 3 + 0.1 * rng.standard_normal((300, 3))
    removed = np.arange(30)
    even = np.where(np.eye(3)[labels] > 0, 0.8, 0.1)
    result = attacks.membership_recall(features, even, labels, np.arange(300), removed, rng)
    assert result.accuracy > 0.95
    assert abs(result.auroc - 0.5) < 0.15
    sure = even.copy()
    sure[removed] = np.where(np.eye(3)[labels[removed]] > 0, 0.998, 0.001)
    assert attacks.membership_recall(features, sure, labels, np.arange(300), removed, rng).auroc > 0.95
