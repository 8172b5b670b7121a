"""Lazy propagation against recomputation from what remains."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.unlearning.propagation import base, kernels
from nareg.unlearning.propagation import exact as propagating
from nareg.unlearning.propagation.base import Change
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.propagation.exact import Propagation
from nareg.unlearning.propagation.residual import ApproximatePropagation
from tests.unlearning import reference

SCHEMES = {
    "SGC": [0.0, 0.0, 1.0],
    "one hop": [0.0, 1.0],
    "features": [1.0],
    "every power": [0.1, 0.2, -0.3, 0.4],
    "first and last": [0.5, 0.0, 0.0, 0.5],
}


def changes(live, X, rng, count):
    """Random mixed requests; X, the features that remain, is changed alongside."""
    for _ in range(count):
        A = live.adjacency().toarray()
        removed = rng.permutation(np.argwhere(np.triu(A)))[: rng.integers(0, 4)].astype(np.int64)
        added = rng.permutation(np.argwhere(np.triu(A == 0, 1)))[: rng.integers(0, 4)].astype(np.int64)
        nodes = np.sort(rng.choice(len(X), rng.integers(0, 3), replace=False))
        rows = rng.standard_normal((nodes.size, X.shape[1])) * rng.integers(0, 2)
        X[nodes] = rows
        yield Change(removed=removed, added=added, nodes=nodes, features=rows)


@pytest.mark.parametrize("weights", SCHEMES.values(), ids=list(SCHEMES))
@pytest.mark.parametrize(
    ("full", "lookups"),
    [(0.5, 2.0), (0.0, 0.0), (np.inf, 0.0), (np.inf, np.inf)],
    ids=["mixed", "always anew", "always scattered", "always collected"],
)
def test_the_embedding_is_that_of_what_remains(weights, full, lookups, rng, monkeypatch):
    monkeypatch.setattr(propagating, "FULL", full)
    monkeypatch.setattr(base, "LOOKUPS", lookups)
    live = LiveGraph(nareg.graphs.erdos_renyi(60, 0.07, rng=rng))
    X = rng.standard_normal((60, 5))
    train = np.sort(rng.choice(60, 20, replace=False))
    propagation = Propagation(live, X.copy(), np.array(weights), train)
    for change in changes(live, X, rng, 40):
        propagation.update(change)
        Z = reference.embedding(live.adjacency().toarray(), X, weights)
        np.testing.assert_allclose(propagation.embedding(), Z, atol=1e-13)
        S, s = propagation.trained()
        np.testing.assert_allclose(s[:, None] * S, Z[propagation.train], atol=1e-13)


def test_nodes_are_added_trained_on_and_not(rng):
    live = LiveGraph(nareg.graphs.erdos_renyi(40, 0.1, rng=rng))
    X, weights = rng.standard_normal((40, 3)), np.array([0.2, 0.3, 0.5])
    propagation = Propagation(live, X.copy(), weights, np.arange(10))
    for step in range(30):
        new = rng.standard_normal((2, 3))
        propagation.add_nodes(new)
        X = np.concatenate([X, new])
        propagation.join(np.array([len(X) - 1]))
        propagation.leave(np.array([step]))
        propagation.update(Change(added=np.array([(step, len(X) - 1), (step, len(X) - 2)])))
        Z = reference.embedding(live.adjacency().toarray(), X, weights)
        np.testing.assert_allclose(propagation.embedding(), Z, atol=1e-13)
        wanted = {*range(step + 1, 10), *(41 + 2 * k for k in range(step + 1))} - set(range(step + 1))
        assert set(propagation.train) == wanted
        S, s = propagation.trained()
        np.testing.assert_allclose(s[:, None] * S, Z[propagation.train], atol=1e-13)


@pytest.mark.parametrize("r_max", [0.0, 0.1])
def test_added_nodes_and_changes_are_undone(r_max, rng):
    live = LiveGraph(nareg.graphs.erdos_renyi(40, 0.1, rng=rng))
    X, weights, train = rng.standard_normal((40, 3)), np.array([0.0, 0.5, 0.5]), np.array([3, 7, 30])
    kind = (lambda *a: ApproximatePropagation(*a, r_max=r_max)) if r_max else Propagation
    propagation = kind(live, X.copy(), weights, train)
    edge = np.argwhere(np.triu(live.adjacency().toarray()))[:1]
    change = Change(removed=edge, nodes=np.array([5]), features=np.zeros((1, 3)))
    before = propagation.embedding()
    propagation.update(change)
    propagation.restore(change, X[[5]])
    np.testing.assert_allclose(propagation.embedding(), before, atol=1e-13)
    propagation.add_nodes(np.ones((3, 3)))
    propagation.join(np.array([41, 42]))
    propagation.drop_nodes(40)
    np.testing.assert_allclose(propagation.embedding(), before, atol=1e-13)
    assert sorted(propagation.train) == train.tolist()
    propagation.update(change)
    X[5] = 0
    exact = reference.embedding(live.adjacency().toarray(), X, weights)
    assert np.linalg.norm(propagation.embedding() - exact) <= propagation.errors() + 1e-12


@pytest.mark.parametrize("weights", SCHEMES.values(), ids=list(SCHEMES))
@pytest.mark.parametrize("lookups", [0.0, np.inf], ids=["scattered", "collected"])
@pytest.mark.parametrize("r_max", [1e-3, 0.1, 1.0])
def test_residues_keep_the_invariant_and_bound_the_error(weights, r_max, lookups, rng, monkeypatch):
    """Lemma 3.2, the bound of Lemma 3.1; and errors of the embedding, of products with it and of its columns."""
    monkeypatch.setattr(base, "LOOKUPS", lookups)
    live = LiveGraph(nareg.graphs.erdos_renyi(60, 0.07, rng=rng))
    X, W = rng.standard_normal((60, 5)), rng.standard_normal((5, 2))
    propagation = ApproximatePropagation(live, X.copy(), np.array(weights), np.arange(10), r_max=r_max)
    waited = 0
    for change in changes(live, X, rng, 40):
        propagation.update(change)
        A = live.adjacency().toarray() + np.eye(60)
        d = A.sum(1)[:, None]
        q, r = propagation._reserves, propagation.residues
        np.testing.assert_allclose(q[0] + r[0], np.sqrt(d) * X, atol=1e-12)
        for level in range(1, len(weights)):
            np.testing.assert_allclose(q[level] + r[level], A @ (q[level - 1] / d), atol=1e-12)
            waited += int((r[level - 1] != 0).sum())
        assert all(abs(one).max() <= r_max for one in r)
        assert not r[-1].any()
        off = reference.embedding(A - np.eye(60), X, weights) - propagation.embedding()
        assert (np.linalg.norm(off, axis=0) <= np.sqrt(60) * (len(weights) - 1) * r_max + 1e-12).all()
        assert np.linalg.norm(off) <= propagation.errors() + 1e-12
        assert np.linalg.norm(off @ W) <= propagation.errors(W) + 1e-12
        assert (abs(off).sum(0) <= propagation.column_errors() + 1e-12).all()
    assert waited or r_max == 1e-3 or len(weights) == 1


def test_a_star_shows_that_the_operator_of_the_lemma_is_longer_than_one():
    """``||A D^-1||_2 <= 1`` is false, on which the proof of Lemma 3.1 rests."""
    A = np.eye(101)
    A[0] = A[:, 0] = 1
    assert np.linalg.norm(A / A.sum(0), 2) == pytest.approx(5.02, abs=0.01)


def test_rows_are_added_at_places_that_repeat(rng):
    places, rows, signs = rng.integers(0, 5, 20), rng.standard_normal((20, 2, 3)), rng.choice([-1.0, 1.0], 20)
    out = rng.standard_normal((5, 3))
    expected = out.copy()
    np.add.at(expected, places, signs[:, None] * rows[:, 1])
    kernels.add_signed(places, rows[:, 1], signs, out)
    np.testing.assert_allclose(out, expected, atol=1e-14)


@pytest.mark.parametrize("count", [1, 30, 60])
def test_pushed_or_propagated_anew_the_embedding_is_that_of_the_definition(rng, count, monkeypatch):
    """Few edges are pushed, many propagated anew: from the second level on, or from the first."""
    monkeypatch.setattr(propagating, "MANY", 1)
    A = np.triu(rng.random((60, 60)) < 0.08, 1).astype(float)
    A, X, weights = A + A.T, rng.standard_normal((60, 4)), np.array([0.2, 0.3, 0.5])
    edges = rng.permutation(np.argwhere(np.triu(A)))[:count]
    propagation = Propagation(LiveGraph(nareg.Graph(A)), X.copy(), weights, np.arange(40))
    propagation.update(Change(removed=edges))
    A[edges[:, 0], edges[:, 1]] = A[edges[:, 1], edges[:, 0]] = 0
    np.testing.assert_allclose(propagation.embedding(), reference.embedding(A, X, weights), atol=1e-12)
