"""Sentences of the ScaleGUN paper that no table has: least squares, and alpha against retraining."""

from __future__ import annotations

import numpy as np

import nareg
from experiments._scalegun_bounds import published_data_dependent
from experiments._unlearning_peers import newton_step
from nareg.unlearning.certificate import published_budget
from nareg.unlearning.objective import LOSSES, ClassifierObjective
from nareg.unlearning.propagation.base import Change
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.propagation.exact import Propagation
from nareg.unlearning.propagation.residual import ApproximatePropagation
from tests.unlearning import reference

WEIGHTS, LAM = np.array([0.0, 0.0, 1.0]), 0.01


def made_up(rng):
    """A graph, its edges, rows of features of length one, and signs."""
    data = nareg.datasets.node_classification.synthetic(120, 2, rng=rng)
    X = data.dense_features().astype(float)
    edges = rng.permutation(np.argwhere(np.triu(data.graph.adjacency.toarray())))
    return data.graph, edges, X / np.linalg.norm(X, axis=1, keepdims=True), np.where(data.labels[:, None] == 1, 1.0, -1.0)


def unlearned(loss, r_max, rng):
    """The gradient on exact data without an edge at one Newton step after its removal, over that before the step."""
    graph, edges, X, Y = made_up(rng)
    B = 0.1 * rng.standard_normal((X.shape[1], 1))
    options = LiveGraph(graph), X.copy(), WEIGHTS, np.arange(120)
    stored = ApproximatePropagation(*options, r_max=r_max) if r_max else Propagation(*options)
    W = ClassifierObjective(*stored.trained(), Y, LOSSES[loss], LAM, B).minimize(np.zeros_like(B), 1e-12).W
    stored.update(Change(removed=edges[:1]))
    problem = ClassifierObjective(*stored.trained(), Y, LOSSES[loss], LAM, B)
    stepped = W + newton_step(problem, W, problem.evaluate(W).gradient)
    remaining = graph.adjacency.toarray()
    remaining[tuple(edges[0])] = remaining[tuple(edges[0][::-1])] = 0
    Z = reference.embedding(remaining, X, WEIGHTS)
    before, after = (np.linalg.norm(reference.gradient(Z, Y, at, B, LAM, loss)) for at in (W, stepped))
    return after / before


def test_a_newton_step_unlearns_least_squares_exactly_where_propagation_is_exact(rng):
    assert unlearned("squared", 0.0, rng) < 1e-9
    assert unlearned("logistic", 0.0, rng) > 1e-7
    assert unlearned("squared", 1e-2, rng) > 1e-2  # residues stay in the embedding


def trained_anew(alpha, rng):
    """How often Algorithm 1 trains anew as 60 edges are removed, its bounds added up."""
    graph, edges, X, Y = made_up(rng)
    B, allowed = alpha * rng.standard_normal((X.shape[1], 1)), published_budget(alpha, 1.0, 1e-4)
    stored = Propagation(LiveGraph(graph), X.copy(), WEIGHTS, np.arange(120))

    def problem():
        return ClassifierObjective(*stored.trained(), Y, LOSSES["logistic"], LAM, B)

    W, spent, count = problem().minimize(np.zeros_like(B), 1e-9).W, 0.0, 0
    for edge in edges[:60]:
        before = problem().evaluate(W).gradient
        stored.update(Change(removed=edge[None]))
        step = newton_step(problem(), W, problem().evaluate(W).gradient - before)
        W, Z = W + step, stored.embedding(stored.train)
        spent += published_data_dependent([np.zeros_like(Z)], Z, step[:, 0], c1=1.0, gamma2=0.25)
        if spent > allowed:
            W, spent, count = problem().minimize(W, 1e-9).W, 0.0, count + 1
    return count


def test_a_smaller_alpha_trains_anew_more_often(rng):
    seed = int(rng.integers(1000))
    counts = [trained_anew(alpha, np.random.default_rng(seed)) for alpha in (1e-3, 1e-2, 1e-1, 1e2)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[1] > counts[-1] == 0
