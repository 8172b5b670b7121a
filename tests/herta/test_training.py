"""Every way to train reaches the dense optimum."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import nareg
from tests.herta.helpers import ONE_HOT, best_cross_entropy, best_squared, cross_entropy, fit, laplacian, problem, propagated


@pytest.mark.parametrize("kind", ["augmented", "combinatorial"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
@pytest.mark.parametrize(
    "told",
    [
        {},
        {"optimizer": "direct"},
        {"optimizer": "pcg", "preconditioner": "exact"},
        {"optimizer": "pcg", "preconditioner": "sketched", "rows": 40},
        {"optimizer": "pcg", "preconditioner": "none"},
        {"optimizer": "lbfgs", "preconditioner": "exact"},
        {"optimizer": "gd", "preconditioner": "exact"},
        {"optimizer": "gd", "preconditioner": "sketched", "max_iterations": 300},
        {"optimizer": "adam", "preconditioner": "exact", "max_iterations": 600},
    ],
)
def test_the_squared_error_reaches_the_dense_optimum(kind, weight_decay, told, rng):
    graph, X, labels, train = problem(rng)
    F = propagated(graph, X, 2.0, kind)[train]
    best = best_squared(F, ONE_HOT[labels[train]], weight_decay)
    found = fit(graph, X, labels, lam=2.0, train=train, kind=kind, weight_decay=weight_decay, rng=rng, **told)
    assert found.loss == pytest.approx(best, rel=1e-6)
    np.testing.assert_allclose(found.outputs, propagated(graph, X @ found.weights, 2.0, kind), atol=1e-6)
    true = 0.5 * ((found.outputs[train] - ONE_HOT[labels[train]]) ** 2).sum() + 0.5 * weight_decay * (found.weights**2).sum()
    assert found.loss == pytest.approx(true, rel=1e-9)
    assert found.losses[0] == pytest.approx(0.5 * len(train))


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize(
    "told",
    [
        {},
        {"preconditioner": "exact"},
        {"preconditioner": "sketched", "rows": 100},
        {"preconditioner": "none"},
        {"optimizer": "gd", "preconditioner": "exact", "max_iterations": 400},
        {"optimizer": "adam", "preconditioner": "exact", "max_iterations": 600},
    ],
)
def test_cross_entropy_reaches_the_optimum(weight_decay, told, rng):
    graph, X, labels, train = problem(rng, n=200)
    F = propagated(graph, X, 2.0)[train]
    best = best_cross_entropy(F, labels[train], 3, weight_decay)
    found = fit(graph, X, labels, lam=2.0, train=train, loss="ce", weight_decay=weight_decay, rng=rng, **told)
    assert found.loss == pytest.approx(best, rel=1e-6)
    value, gradient = cross_entropy(F, labels[train], found.weights, weight_decay)
    assert found.loss == pytest.approx(value, rel=1e-8)
    assert found.gradient_norm == pytest.approx(np.linalg.norm(gradient), abs=1e-6)
    assert found.losses[0] == pytest.approx(len(train) * np.log(3))


def test_lam_zero_is_least_squares_without_a_graph(rng):
    graph, X, labels, train = problem(rng)
    found = fit(graph, X, labels, lam=0.0, train=train)
    assert found.loss == pytest.approx(best_squared(X[train], ONE_HOT[labels[train]]), rel=1e-9)


def test_work_is_counted(rng):
    graph, X, labels, train = problem(rng)
    found = fit(graph, X, labels, train=train, optimizer="gd", preconditioner="none", max_iterations=5, learning_rate=1e-3)
    assert found.evaluations == 6
    assert found.products >= 2 * 3 * 6
    assert "6 evaluations, 0 Hessian products" in found.summary()


def test_isolated_nodes_see_their_own_features_only(rng):
    A = np.zeros((20, 20))
    A[:10, :10] = np.ones((10, 10)) - np.eye(10)
    X, Y = rng.standard_normal((20, 3)), rng.standard_normal((20, 2))
    found = fit(nareg.Graph(A), X, Y, lam=4.0)
    np.testing.assert_allclose(found.outputs[10:], X[10:] @ found.weights, atol=1e-8)
    assert found.loss == pytest.approx(best_squared(propagated(nareg.Graph(A), X, 4.0), Y), rel=1e-8)


def test_algorithm_1_converges_when_corrected_and_to_another_place_as_printed(rng):
    graph, X, labels, _ = problem(rng, n=150, d=6)
    best = best_squared(propagated(graph, X, 2.0), ONE_HOT[labels])
    told = {"lam": 2.0, "max_iterations": 150}
    corrected, printed = (
        fit(graph, X, labels, optimizer=name, rng=np.random.default_rng(0), **told)
        for name in ("algorithm-1", "algorithm-1-as-printed")
    )
    assert corrected.loss == pytest.approx(best, rel=1e-6)
    assert printed.loss > best * (1 + 1e-5)
    # its curve is that of the true loss
    true = 0.5 * ((propagated(graph, X @ printed.weights, 2.0) - ONE_HOT[labels]) ** 2).sum()
    assert printed.loss == pytest.approx(true, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("sparse", [False, True])
def test_dropout_is_a_ridge_on_average(sparse, rng):
    """The mean of the squared error over dropped features is the squared error and a quadratic form in W."""
    graph, X, labels, train = problem(rng, n=100, d=5)
    if sparse:
        X *= rng.random(X.shape) < 0.09
        X[0] = 1.0
    K = propagated(graph, np.eye(100), 2.0)[train]
    F, rate = K @ X, 0.4
    ridge = np.diag(((K**2).sum(0)[:, None] * X**2).sum(0)) * rate / (1 - rate)
    W = np.linalg.solve(F.T @ F + ridge, F.T @ ONE_HOT[labels[train]])
    best = 0.5 * ((F @ W - ONE_HOT[labels[train]]) ** 2).sum() + 0.5 * np.einsum("fc,fg,gc->", W, ridge, W)
    x = sp.csr_array(X) if sparse else X
    told = {"lam": 2.0, "train": train, "optimizer": "adam", "preconditioner": "exact", "learning_rate": 0.03, "dropout": rate}
    found = fit(graph, x, labels, max_iterations=1500, rng=rng, **told)
    assert found.losses[1000:1500].mean() == pytest.approx(best, rel=0.05)
    plain = fit(graph, x, labels, lam=2.0, train=train)
    assert np.linalg.norm(found.weights) < np.linalg.norm(plain.weights)


@pytest.mark.parametrize("told", [{}, {"optimizer": "direct"}, {"loss": "ce", "preconditioner": "none"}])
def test_unrolled_steps_are_those_of_twirls(told, rng):
    graph, X, labels, train = problem(rng, n=200)
    lam, steps = 3.0, 4
    A = np.eye(200) - laplacian(graph)
    F = X
    for _ in range(steps):
        F = (lam * A @ F + X) / (1 + lam)
    F = F[train]
    cross = told.get("loss") == "ce"
    best = best_cross_entropy(F, labels[train], 3) if cross else best_squared(F, ONE_HOT[labels[train]])
    found = fit(graph, X, labels, lam=lam, train=train, unrolled=steps, **told)
    assert found.loss == pytest.approx(best, rel=1e-6)
    many = fit(graph, X, labels, lam=lam, train=train, unrolled=200, **told)
    assert many.loss == pytest.approx(fit(graph, X, labels, lam=lam, train=train, **told).loss, rel=1e-6)


@pytest.mark.slow
def test_a_designed_matrix_takes_the_place_of_the_laplacian(rng):
    """diag(w) L diag(w) from a design of node weights."""
    graph, X, labels, train = problem(rng)
    design = nareg.design.exact(graph, signals=rng.standard_normal((60, 20)), noise=0.5)
    S = design.matrix.toarray()
    F = np.linalg.solve(np.eye(60) + S, X)[train]
    found = fit(design.matrix, X, labels, lam=1.0, train=train, kind="operator")
    assert found.loss == pytest.approx(best_squared(F, ONE_HOT[labels[train]]), rel=1e-6)


@pytest.mark.parametrize("lam", [1e4, 1e8])
def test_a_very_strong_graph_is_solved_too(lam, rng):
    graph, X, labels, train = problem(rng, n=40, d=4)
    found = fit(graph, X, labels, lam=lam, train=train, kind="combinatorial", tol=1e-4, weight_decay=1e-3)
    F = propagated(graph, X, lam, "combinatorial")[train]
    assert found.loss == pytest.approx(best_squared(F, ONE_HOT[labels[train]], 1e-3), rel=1e-3)
    np.testing.assert_allclose(found.outputs, propagated(graph, X @ found.weights, lam, "combinatorial"), atol=1e-3)
