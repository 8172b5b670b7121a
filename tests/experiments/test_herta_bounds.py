"""Lemma 5.1 and Theorem B.1 on random graphs, features and solvers, against dense float64 matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nareg
from experiments import _herta_bounds as b
from experiments._sparsifier import sparsify
from nareg.errors import InputError
from tests.helpers import examples
from tests.herta.helpers import best_squared, laplacian, propagated

CASES = given(st.integers(0, 10**6), st.floats(0.1, 50), st.floats(1e-3, 0.9))


def problem(seed, lam, n=20, d=4):
    """H, X with columns in different units, y, and their generator."""
    rng = np.random.default_rng(seed)
    H = np.eye(n) + lam * laplacian(nareg.graphs.erdos_renyi(n, 0.2, rng=rng))
    X = rng.standard_normal((n, d)) * np.geomspace(1, rng.uniform(1, 100), d)
    return H, X, rng.standard_normal(n), rng


def length(v, H):
    """``||v||_H``."""
    return float(np.sqrt(v @ H @ v))


def worst_solver(H, mu, rng):
    """A solver that is not linear and has an error rate of exactly mu, in a new direction every time."""

    def solve(u):
        exact, off = np.linalg.solve(H, u), rng.standard_normal(u.size)
        return exact + mu * length(exact, H) / length(off, H) * off

    return solve


def linear_solver(H, mu, rng):
    """``(I + mu E) H^-1`` with an E of norm one in the norm of H."""
    values, vectors = np.linalg.eigh(H)
    root = vectors * np.sqrt(values) @ vectors.T
    Q = np.linalg.qr(rng.standard_normal(H.shape))[0]
    M = np.linalg.solve(root, Q @ root)
    return lambda u: (lambda exact: exact + mu * M @ exact)(np.linalg.solve(H, u))


def squared_loss(F, y, w):
    return 0.5 * float(((F @ w - y) ** 2).sum())


@examples(15, 60)
@CASES
def test_gradients_are_as_accurate_as_lemma_5_1_needs(seed, lam, epsilon):
    H, X, y, rng = problem(seed, lam)
    F = np.linalg.solve(H, X)
    condition = float(np.linalg.cond(X))
    lowest = squared_loss(F, y, np.linalg.lstsq(F, y, rcond=None)[0])
    mu = b.inner_error_rate(epsilon, condition=condition, lam=lam)
    bound = b.gradient_error(epsilon, condition=condition, lam=lam, mu=mu)
    if lam >= 1:
        printed = b.published_gradient_error(epsilon, condition=condition, lam=lam, mu=mu)
        assert bound <= printed <= 0.5 + 1e-12
    for make in (linear_solver, worst_solver):
        solve = make(H, mu, rng)
        for size in (1e-3, 1.0, 1e3):
            w = np.linalg.lstsq(F, y, rcond=None)[0] + size * rng.standard_normal(X.shape[1])
            if squared_loss(F, y, w) > (1 + epsilon) * lowest:
                z = X @ w - H @ y
                exact = X.T @ np.linalg.solve(H, np.linalg.solve(H, z))
                error = np.linalg.norm(X.T @ solve(solve(z)) - exact)
                assert error <= bound * np.linalg.norm(exact) * (1 + 1e-8)


@examples(8, 25)
@given(st.integers(0, 10**6), st.floats(1, 10), st.floats(1e-3, 0.5))
def test_lemma_5_1_reaches_its_loss(seed, lam, epsilon):
    """With the printed error rate and as many steps as C.34 says; the features are orthonormal, to keep them few."""
    H, X, y, rng = problem(seed, lam)
    X = np.linalg.qr(X)[0]
    F = np.linalg.solve(H, X)
    values = np.linalg.eigvalsh(F.T @ F)
    lowest = squared_loss(F, y, np.linalg.lstsq(F, y, rcond=None)[0])
    solve = worst_solver(H, b.inner_error_rate(epsilon, condition=1.0, lam=lam), rng)
    w, gamma = np.zeros(4), 0.5
    taken = b.outer_steps(epsilon, condition=values[-1] / values[0], start=squared_loss(F, y, w) / lowest)
    for _ in range(taken):
        if squared_loss(F, y, w) <= (1 + epsilon) * lowest:  # beyond, gradients may be noise
            return
        w -= (1 - gamma) / (1 + gamma) ** 2 / values[-1] * (X.T @ solve(solve(X @ w - H @ y)))
    assert squared_loss(F, y, w) <= (1 + epsilon) * lowest * (1 + 1e-9)


@examples(15, 60)
@given(st.integers(0, 10**6), st.floats(0, 8), st.floats(1e-3, 0.9))
def test_theorem_b_1_and_the_iteration_of_the_network(seed, lam, epsilon):
    H, _, u, _ = problem(seed, lam)
    exact = np.linalg.solve(H, u)
    size = 1 + 2 * lam
    counts = b.inner_steps(epsilon, lam=lam), b.unrolled_steps(epsilon, lam=lam)
    for count, matrix in zip(counts, (H @ H / size**2, H / size), strict=True):
        left = np.linalg.matrix_power(np.eye(u.size) - matrix, count) @ exact  # errors, from zero
        assert length(left, H) <= epsilon * length(exact, H) * (1 + 1e-9)
    if lam >= 1:
        assert counts[1] <= counts[0] <= b.published_inner_steps(epsilon, lam=lam)


def test_the_numbers_of_steps_are_not_far_too_many():
    """Two isolated edges: one eigenvector is at the lower end of the spectrum, and needs them all but for rounding up."""
    lam, epsilon = 3.0, 0.01
    for count, rate in ((b.inner_steps(epsilon, lam=lam), 49), (b.unrolled_steps(epsilon, lam=lam), 7)):
        assert (1 - 1 / rate) ** count <= epsilon < (1 - 1 / rate) ** (0.9 * count)


def test_the_start_counts():
    """A smallest loss near zero takes more steps than O(kappa log 1/epsilon): the paper's number has no start."""
    assert b.outer_steps(0.1, condition=1.0, start=1e12) > 9 * np.log(1 / 0.1) * 10


def test_the_condition_of_the_mixed_strategy_is_not_enough():
    """D.3: n_lam / epsilon draws, far fewer than it has edges to spare, leave a loss far above (1 + epsilon) its minimum."""
    rng, lam, epsilon, n = np.random.default_rng(0), 1.0, 0.1, 200
    graph = nareg.graphs.erdos_renyi(n, 0.5, rng=rng)
    L, X = laplacian(graph), rng.standard_normal((n, 5))
    values = np.linalg.eigvalsh(L)
    n_lam = float((values / (values + 1 / lam)).sum())
    assert n_lam / epsilon <= graph.n_edges * np.log(1 / epsilon)
    F = propagated(graph, X, lam)
    Y = F @ rng.standard_normal((5, 2)) + 0.05 * rng.standard_normal((n, 2))
    sparse = sparsify(graph, lam=lam, epsilon=0.5, draws=int(n_lam / epsilon), measure=False, rng=rng)
    W = np.linalg.lstsq(np.linalg.solve(np.eye(n) + lam * sparse.laplacian.toarray(), X), Y, rcond=None)[0]
    assert 0.5 * ((F @ W - Y) ** 2).sum() > (1 + 5 * epsilon) * best_squared(F, Y)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, -1.0])
def test_rates_outside_their_range_are_refused(epsilon):
    for refused in (b.inner_steps, b.unrolled_steps, b.published_inner_steps):
        with pytest.raises(InputError, match="epsilon"):
            refused(epsilon, lam=1.0)
