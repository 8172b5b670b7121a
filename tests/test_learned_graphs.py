"""Graphs learned from signals: the optimum by cvxpy, optimality conditions, sparsity, recovery, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.errors import InputError, TooLargeError
from nareg.graphs import learn
from nareg.results import Status


@pytest.fixture
def signals(rng):
    g = nareg.graphs.sensor(25, 4, rng=rng)
    return np.linalg.solve(np.eye(25) + 5 * g.laplacian().toarray(), rng.standard_normal((25, 40)))


def distances(X):
    return np.sum((X[:, None] - X[None]) ** 2, axis=-1)


def value(W, Z, model, alpha, beta):
    d = W.sum(axis=1)
    spread = beta / 2 * np.sum(W**2)
    return np.sum(W * Z) + spread + (-alpha * np.sum(np.log(d)) if model == "log" else alpha / 2 * np.sum(d**2))


@pytest.mark.parametrize("model", ["log", "l2"])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.3, 4.0), (20.0, 0.5)])
def test_weights_are_those_of_cvxpy(signals, model, alpha, beta):
    import cvxpy as cp

    learned = learn(signals, model=model, alpha=alpha, beta=beta, tol=1e-12)
    Z = distances(signals)
    n = len(Z)
    W = cp.Variable((n, n), symmetric=True)
    degrees = cp.sum(W, axis=1)
    cost = cp.sum(cp.multiply(W, Z)) + beta / 2 * cp.sum_squares(W)
    limits = [W >= 0, cp.diag(W) == 0]
    if model == "log":
        cost = cost - alpha * cp.sum(cp.log(degrees))
    else:
        cost = cost + alpha / 2 * cp.sum_squares(degrees)
        limits.append(cp.sum(W) == n)
    theirs = cp.Problem(cp.Minimize(cost), limits).solve(
        solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11
    )
    ours = learned.graph.adjacency.toarray()
    assert learned.status is Status.CONVERGED
    assert learned.objective == pytest.approx(value(ours, Z, model, alpha, beta), rel=1e-9)
    assert learned.objective == pytest.approx(theirs, rel=1e-7)
    assert learned.gap < 1e-9 * max(abs(theirs), n * max(alpha, beta))
    np.testing.assert_allclose(ours, W.value, atol=1e-5 * ours.max())


def test_optimality_conditions_of_the_log_model(signals):
    learned = learn(signals, neighbors=4, tol=1e-13)
    W, Z = learned.graph.adjacency.toarray(), distances(signals)
    inverse = 1 / W.sum(axis=1)
    # derivative by one edge: at least 0, and 0 where the edge has weight
    slope = 2 * Z - learned.alpha * (inverse[:, None] + inverse) + 2 * learned.beta * W
    off = ~np.eye(25, dtype=bool)
    accuracy = 10 * np.sqrt(1e-13 * learned.objective * learned.alpha)  # the slope is known to the root of the gap
    assert accuracy < 1e-4
    assert slope[off].min() > -accuracy
    assert np.abs(slope[W > 0]).max() < accuracy


@pytest.mark.parametrize("neighbors", [3, 6, 12])
def test_neighbors_are_met_on_average(rng, neighbors):
    graph = nareg.graphs.sensor(200, rng=rng)
    X = np.linalg.solve(np.eye(200) + 5 * graph.laplacian().toarray(), rng.standard_normal((200, 300)))
    mean = 2 * learn(X, neighbors=neighbors).graph.n_edges / 200
    assert 0.7 * neighbors < mean < 1.4 * neighbors


def test_edges_of_the_true_graph_come_back(rng):
    graph = nareg.graphs.grid((6, 6))
    X = np.linalg.solve(np.eye(36) + 10 * graph.laplacian().toarray(), rng.standard_normal((36, 3000)))
    learned = learn(X, neighbors=4).graph.adjacency.toarray()
    truth = graph.adjacency.toarray() > 0
    assert learned[truth].mean() > 10 * learned[~truth].mean()


def test_candidates_that_hold_the_solution_do_not_change_it(rng):
    graph = nareg.graphs.sensor(120, rng=rng)
    X = np.linalg.solve(np.eye(120) + 5 * graph.laplacian().toarray(), rng.standard_normal((120, 50)))
    whole = learn(X, alpha=0.5, beta=2.0, tol=1e-12)
    some = learn(X, alpha=0.5, beta=2.0, candidates=whole.graph, tol=1e-12)
    np.testing.assert_allclose(some.graph.adjacency.toarray(), whole.graph.adjacency.toarray(), atol=1e-6)
    near = learn(X, neighbors=4, candidates=30, tol=1e-12)
    every = learn(X, neighbors=4, tol=1e-12)
    np.testing.assert_allclose(near.graph.adjacency.toarray(), every.graph.adjacency.toarray(), atol=1e-6)


def test_large_networks_take_conjugate_gradients(rng):
    points = rng.random((2000, 2))
    for model, given in (("log", {"neighbors": 5}), ("l2", {"alpha": 0.01, "beta": 0.01})):
        learned = learn(points, model=model, candidates=15, **given)
        assert learned.status is Status.CONVERGED
        assert learned.gap <= 1e-10 * max(2000 * learned.alpha, abs(learned.objective))


def test_nodes_are_renamed_and_scales_are_free(signals):
    order = np.random.default_rng(0).permutation(25)
    W = learn(signals, neighbors=5, tol=1e-12).graph.adjacency.toarray()
    permuted = learn(signals[order], neighbors=5, tol=1e-12).graph.adjacency.toarray()
    np.testing.assert_allclose(permuted, W[np.ix_(order, order)], atol=1e-6)
    np.testing.assert_allclose(learn(1e4 * signals, neighbors=5, tol=1e-12).graph.adjacency.toarray(), W, atol=1e-6)


def test_progress_and_interruption(signals):
    seen = []

    def stop(report):
        seen.append(report)
        if report.step == 2:
            raise KeyboardInterrupt

    learned = learn(signals, progress=stop)
    assert learned.status is Status.INTERRUPTED
    assert np.isfinite(learned.objective)
    assert [report.step for report in seen] == [0, 1, 2]
    assert learn(signals, max_iterations=1, tol=1e-14).status is Status.MAX_ITERATIONS


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "l2"}, "needs alpha and beta"),
        ({"alpha": 1.0}, "beta is missing"),
        ({"alpha": 1.0, "beta": 1.0, "neighbors": 3}, "pass either"),
        ({"alpha": 0.0, "beta": 1.0}, "above 0"),
        ({"neighbors": 1}, "at least 2"),
        ({"neighbors": 24}, "at most 23"),
        ({"neighbors": 5, "candidates": 3}, "too few to choose 5"),
        ({"candidates": nareg.graphs.grid((4,))}, "the same nodes"),
        ({"model": "sparse"}, "choose one of"),
    ],
)
def test_what_cannot_work_is_refused(signals, options, words):
    with pytest.raises(InputError, match=words):
        learn(signals, **options)


def test_degenerate_signals_are_refused():
    with pytest.raises(InputError, match="nothing to learn"):
        learn(np.ones((5, 3)))
    with pytest.raises(InputError, match="at least three"):
        learn(np.ones((2, 3)))
    with pytest.raises(TooLargeError, match="pass candidates"):
        learn(np.zeros((3001, 2)))
