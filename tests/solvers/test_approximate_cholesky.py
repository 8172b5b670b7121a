"""Approximate Cholesky factors against dense ones: exact on forests, right in the mean, close elsewhere, and sparse."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import nareg
from nareg._solvers.approximate_cholesky import ApproximateCholesky


def dominant(weights, excess):
    """``diag(excess) + D - A``."""
    return sp.csr_array(sp.diags_array(excess + np.asarray(weights.sum(axis=1)).ravel()) - weights)


def symmetric(n, i, j, w):
    """The (N, N) weights of these edges; repeated ones add up, loops are left out."""
    different = i != j
    upper = sp.csr_array((w[different], (i[different], j[different])), shape=(n, n))
    return sp.csr_array(upper + upper.T)


def factor(weights, excess, rng, **options):
    return ApproximateCholesky.of(dominant(weights, excess), np.ones(len(excess)), excess, rng=rng, **options)


def inverse(F):
    return F.solve(np.eye(F.pivots.size))


def preconditioned(weights, excess, F):
    """Eigenvalues of the factor's inverse times the matrix."""
    return scipy.linalg.eigh(dominant(weights, excess).toarray(), np.linalg.inv(inverse(F)), eigvals_only=True)


GRAPHS = {
    "preferential attachment": lambda rng: nareg.graphs.power_law(400, mean_degree=6.0, rng=rng),
    "grid": lambda rng: nareg.graphs.grid((20, 20)),
    "dense random": lambda rng: nareg.graphs.erdos_renyi(200, 0.3, rng=rng),
}


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_forests_have_exact_factors(parts, rng):
    """A star, a path and isolated nodes: to eliminate a node with one or two neighbors draws nothing."""
    i, j = np.r_[np.zeros(30, int), np.arange(31, 60)], np.r_[np.arange(1, 31), np.arange(32, 61)]
    weights, excess = symmetric(64, i, j, rng.lognormal(0, 3, i.size)), rng.lognormal(0, 3, 64)
    F = factor(weights, excess, rng, parts=parts)
    assert F.nnz == i.size
    np.testing.assert_allclose(inverse(F) @ dominant(weights, excess).toarray(), np.eye(64), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("lam", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_condition_number_is_small_whatever_the_strength_of_the_edges(name, lam, rng):
    graph = GRAPHS[name](rng)
    weights = sp.csr_array(lam * graph.adjacency)
    excess = 1 + np.asarray(graph.adjacency.sum(axis=1)).ravel()
    values = preconditioned(weights, excess, factor(weights, excess, rng))
    assert values[-1] / values[0] < 15


@pytest.mark.slow
def test_the_factor_is_right_in_the_mean(rng):
    """The mean of many factors tends to the matrix: within four standard errors of every entry."""
    n = 7
    i, j = np.triu_indices(n, 1)
    weights, excess = symmetric(n, i, j, rng.lognormal(0, 1, i.size)), rng.lognormal(0, 1, n)
    drawn = np.array([np.linalg.inv(inverse(factor(weights, excess, rng))) for _ in range(4000)])
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (abs(drawn.mean(axis=0) - dominant(weights, excess).toarray()) <= 4 * error + 1e-9).all()
    assert error.max() > 1e-4  # something was drawn


def test_a_dense_graph_does_not_fill(rng):
    """Every elimination removes at least as many edges as it adds."""
    graph = nareg.graphs.power_law(3000, mean_degree=20.0, rng=rng)
    edges = graph.adjacency.nnz // 2
    F = factor(sp.csr_array(graph.adjacency), np.ones(3000), rng)
    assert F.nnz < 6 * edges


def test_equal_generators_give_equal_factors(rng):
    graph = nareg.graphs.power_law(300, rng=rng)
    first, second = (factor(sp.csr_array(graph.adjacency), np.ones(300), np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(first.values, second.values)
    np.testing.assert_array_equal(first.order, second.order)


@st.composite
def matrices(draw):
    """Weights over twelve decades, with isolated nodes, several components, parallel edges, and zeros."""
    n, seed = draw(st.integers(1, 40)), draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    m = draw(st.integers(0, 4 * n))
    i, j = rng.integers(0, n, m), rng.integers(0, n, m)
    spread = draw(st.sampled_from([0.0, 1.0, 5.0]))
    weights = symmetric(n, i, j, rng.lognormal(0, spread, m) * (rng.random(m) > 0.1))
    return weights, rng.lognormal(0, spread, n), rng


@pytest.mark.slow
@given(matrices(), st.integers(1, 3))
def test_every_graph_has_a_positive_definite_factor(matrix, parts):
    weights, excess, rng = matrix
    F = factor(weights, excess, rng, parts=parts)
    assert sorted(F.order) == list(range(excess.size))
    assert F.pivots.min() > 0
    assert F.values.min(initial=0) >= 0
    U = sp.csc_array((-F.values, F.rows, F.start), shape=(excess.size,) * 2).toarray() + np.eye(excess.size)
    assert (np.triu(U, 1) == 0).all()
    made = np.empty_like(U)
    made[np.ix_(F.order, F.order)] = U @ np.diag(F.pivots) @ U.T
    # exact row sums: the elimination neither adds nor loses any
    np.testing.assert_allclose(made.sum(axis=1), excess, rtol=1e-9, atol=1e-12 * abs(made).max())
    B = rng.standard_normal((excess.size, 3))
    X = F.solve(B)
    # backward error
    assert abs(made @ X - B).max() <= 1e-10 * (abs(made) @ abs(X)).max()
