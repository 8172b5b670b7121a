"""Budgets, and the published bounds that are none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import nareg
from experiments import _scalegun_bounds as published_bounds
from nareg.unlearning.certificate import budget, exact_budget, published_budget
from nareg.unlearning.head import approximation
from nareg.unlearning.objective import LOSSES, ClassifierObjective
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.propagation.residual import ApproximatePropagation
from tests.helpers import examples
from tests.unlearning import reference


def apart(shift, alpha, eps):
    """The delta at this eps of two Gaussians, by its integral: mass of one above e^eps times the other."""
    x = np.linspace(-40, 40, 400_001) * alpha
    p, q = norm.pdf(x, 0, alpha), norm.pdf(x, shift, alpha)
    return np.trapezoid(np.maximum(p - math.exp(eps) * q, 0), x)


@pytest.mark.slow
@examples(10, 100)
@given(st.floats(1e-3, 10), st.floats(0.05, 12), st.floats(1e-7, 0.1))  # alpha, eps, delta
def test_a_shift_within_the_budget_cannot_be_told(alpha, eps, delta):
    assert apart(budget(alpha, eps, delta), alpha, eps) <= delta * (1 + 1e-3) + 1e-12
    assert apart(exact_budget(alpha, eps, delta), alpha, eps) == pytest.approx(delta, rel=1e-2)


@pytest.mark.parametrize("eps", [1e-300, 1e-13, 1.0, 1.5, 700.0, 1e4])
@pytest.mark.parametrize("delta", [5e-324, 1e-100, 1e-13, 0.5, 0.999])
def test_a_budget_for_all_settings_there_are(eps, delta):
    assert 0 < budget(1.0, eps, delta) <= published_budget(1.0, eps, delta) < math.inf


def test_the_published_budget_does_not_hold_for_every_eps():
    assert apart(published_budget(0.1, 10.0, 1e-4), 0.1, 10.0) > 2e-4
    assert budget(0.1, 10.0, 1e-4) == exact_budget(0.1, 10.0, 1e-4)
    assert budget(0.1, 1.0, 1e-4) == published_budget(0.1, 1.0, 1e-4) == pytest.approx(0.0228, abs=1e-4)
    assert budget(0.0, 1.0, 1e-4) == 0


def test_the_published_data_dependent_bound_is_none():
    """Two nodes without edges: the bound is zero, the gradient off by 0.4."""
    graph, X, y = nareg.Graph(np.zeros((2, 2))), np.array([[0.4], [-0.4]]), np.array([[1.0], [-1.0]])
    propagation = ApproximatePropagation(LiveGraph(graph), X, np.array([1.0, 0.0]), np.arange(2), r_max=0.5)
    Z_hat, w = propagation.embedding(), np.zeros((1, 1))
    stated = published_bounds.published_data_dependent(propagation.residues, Z_hat, w[:, 0], c1=1.0, gamma2=0.1)
    off = reference.gradient(X, y, w, w, 0.0) - reference.gradient(Z_hat, y, w, w, 0.0)
    assert stated == 0
    assert abs(off).item() == pytest.approx(0.4)
    problem = ClassifierObjective(*propagation.trained(), y, LOSSES["logistic"], 0.01, w)
    ours = approximation(problem, problem.evaluate(w), propagation)
    assert ours >= 0.4


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("r_max", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("size", [0.0, 1.0, 30.0])
def test_the_approximation_is_bounded(loss, r_max, size, rng):
    """With class-informative features, with which the published bound is violated; a large w makes |R| alone too small."""
    published_fails = 0
    for _ in range(10):
        labels = np.repeat([0, 1, 2], 30)
        graph = nareg.graphs.stochastic_block([30, 30, 30], np.full((3, 3), 0.02) + 0.15 * np.eye(3), rng=rng)
        X = rng.standard_normal((90, 6)) + 2 * np.eye(6)[labels]
        train = np.sort(rng.choice(90, 40, replace=False))
        propagation = ApproximatePropagation(LiveGraph(graph), X.copy(), np.array([0.0, 0.3, 0.7]), train, r_max=r_max)
        Y = reference.signs(labels[train], [0, 1, 2])
        W = size * rng.standard_normal((6, 3))
        Z = reference.embedding(graph.adjacency.toarray(), X, [0.0, 0.3, 0.7])[train]
        Z_hat = propagation.embedding(train)
        zero = np.zeros_like(W)
        off = reference.gradient(Z, Y, W, zero, 0.0, loss) - reference.gradient(Z_hat, Y, W, zero, 0.0, loss)
        problem = ClassifierObjective(*propagation.trained(), Y, LOSSES[loss], 0.01, zero)
        assert np.linalg.norm(off) <= approximation(problem, problem.evaluate(W), propagation)
        stated = published_bounds.published_data_dependent(propagation.residues, Z_hat, zero[:, 0], c1=1.0, gamma2=0.1)
        published_fails += stated < np.linalg.norm(off[:, 0])
    if loss == "logistic" and r_max == 2.0 and size == 0.0:
        assert published_fails > 0


def test_the_change_of_the_slopes_is_charged(rng):
    """At targets that are met exactly all slopes are zero, and the error is in their change alone (squared error)."""
    graph, X = nareg.graphs.erdos_renyi(40, 0.1, rng=rng), 3 * rng.standard_normal((40, 4))
    propagation = ApproximatePropagation(LiveGraph(graph), X.copy(), np.array([0.0, 1.0]), np.arange(40), r_max=0.2)
    W, zero, Z_hat = rng.standard_normal((4, 2)), np.zeros((4, 2)), propagation.embedding()
    Y = Z_hat @ W
    off = reference.gradient(reference.embedding(graph.adjacency.toarray(), X, [0.0, 1.0]), Y, W, zero, 0.0, "squared")
    problem = ClassifierObjective(*propagation.trained(), Y, LOSSES["squared"], 0.01, zero)
    stated = approximation(problem, problem.evaluate(W), propagation)
    quadratic = propagation.errors() * propagation.errors(W)
    assert quadratic < np.linalg.norm(off) <= stated


def test_a_newton_step_leaves_no_more_than_its_bound(rng):
    for _ in range(20):
        Z, y = rng.standard_normal((50, 5)), np.where(rng.random((50, 1)) < 0.5, 1.0, -1.0)
        zero, w = np.zeros((5, 1)), rng.standard_normal((5, 1))
        problem = ClassifierObjective(Z, np.ones(50), y, LOSSES["logistic"], 0.1, zero)
        at = problem.evaluate(w)
        step = -np.linalg.solve(Z.T @ (at.curvature * Z) + 5 * np.eye(5), at.gradient)
        assert problem.evaluate(w + step).residual <= published_bounds.newton_residual(
            Z, step[:, 0], gamma2=LOSSES["logistic"].gamma2
        )
