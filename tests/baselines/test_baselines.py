from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.baselines import bandlimited, kernel_ridge, lmmse, total_variation
from nareg.errors import InputError, SolverError


@pytest.fixture
def problem(rng):
    g = nareg.graphs.sensor(40, rng=rng)
    y = 3.0 * (g.coordinates[:, :1] > 0.5) + 0.3 * rng.standard_normal((40, 3))
    seen = rng.random((40, 3)) < 0.7
    return g, y, seen


def test_kernel_ridge_minimizes_its_objective(problem):
    from scipy.linalg import expm

    g, y, seen = problem
    x = kernel_ridge(g, np.where(seen, y, np.nan), sigma2=0.8, mu=0.02, observed=seen)
    precision = expm(0.4 * g.laplacian().toarray())
    for t in range(3):
        P = np.diag(seen[:, t].astype(float))
        gradient = P @ (x[:, t] - y[:, t]) / seen[:, t].sum() + 0.02 * precision @ x[:, t]
        assert np.linalg.norm(gradient) < 1e-8 * np.linalg.norm(y)


def test_total_variation_against_cvxpy(problem):
    import cvxpy as cp

    g, y, _ = problem
    x = total_variation(g, y, weight=0.4, tol=1e-9)
    i, j = g.to_edge_index()[0]
    A = g.to_edge_index()[1]
    for t in range(3):
        v = cp.Variable(40)
        cost = cp.sum_squares(y[:, t] - v) + 0.4 * cp.sum(cp.multiply(A, cp.abs(v[i] - v[j]))) / 2
        theirs = cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL")
        ours = np.sum((y[:, t] - x[:, t]) ** 2) + 0.4 * np.sum(A * np.abs(x[i, t] - x[j, t])) / 2
        assert ours == pytest.approx(theirs, rel=1e-7)
        np.testing.assert_allclose(x[:, t], v.value, atol=1e-4)  # the point is known to the root of the value's accuracy


@pytest.mark.parametrize("weight", [0.02, 0.4, 30.0])
def test_total_variation_with_gaps_against_cvxpy(problem, weight):
    import cvxpy as cp

    g, y, seen = problem
    x = total_variation(g, np.where(seen, y, np.nan), weight=weight, observed=seen, tol=1e-8)
    (i, j), A = g.to_edge_index()
    for t in range(3):
        m = seen[:, t]
        v = cp.Variable(40)
        cost = cp.sum_squares(y[m, t] - v[m]) + weight * cp.sum(cp.multiply(A, cp.abs(v[i] - v[j]))) / 2
        theirs = cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL")
        ours = np.sum((y[m, t] - x[m, t]) ** 2) + weight * np.sum(A * np.abs(x[i, t] - x[j, t])) / 2
        assert ours == pytest.approx(theirs, rel=1e-6)
        np.testing.assert_allclose(x[m, t], v.value[m], atol=1e-3)  # unique where observed: the data term is strictly convex


def test_total_variation_interpolates_a_step_and_needs_a_reading_per_part(rng):
    g = nareg.graphs.grid((20, 20))
    steps = np.where(np.arange(400) % 20 < 10, 0.0, 5.0)
    seen = rng.random(400) < 0.3
    x = total_variation(g, np.where(seen, steps, np.nan), weight=0.01, observed=seen, tol=1e-8)
    assert np.mean(np.abs(x - steps) < 0.5) > 0.95
    np.testing.assert_array_equal(
        total_variation(g, steps, weight=0.2, observed=np.ones(400, bool)), total_variation(g, steps, weight=0.2)
    )
    constant = np.where(seen, 7.0, np.nan)
    np.testing.assert_array_equal(total_variation(g, constant, weight=1.0, observed=seen), np.full(400, 7.0))
    pieces = nareg.Graph(np.kron(np.eye(2), 1 - np.eye(3)))
    with pytest.raises(InputError, match="no node of a connected part"):
        total_variation(pieces, np.arange(6.0), weight=1.0, observed=np.arange(6) < 3)
    with pytest.raises(InputError, match="weight is 0"):
        total_variation(g, steps, weight=0.0, observed=seen)


def test_total_variation_limits(problem):
    g, y, _ = problem
    np.testing.assert_array_equal(total_variation(g, y, weight=0.0), y)
    flat = total_variation(g, y, weight=1e4, tol=1e-9)
    np.testing.assert_allclose(flat, np.tile(y.mean(axis=0), (40, 1)), atol=1e-3)
    with pytest.raises(SolverError, match="raise max_iterations"):
        total_variation(g, y, weight=5.0, tol=1e-12, max_iterations=5)
    with pytest.raises(InputError, match="needs the edges"):
        total_variation(g.laplacian(), y, weight=1.0)


def test_bandlimited_recovers_bandlimited_signals_from_enough_nodes(problem, rng):
    g, _, seen = problem
    U = np.linalg.eigh(g.laplacian().toarray())[1][:, :6]
    x = U @ rng.standard_normal((6, 3))
    np.testing.assert_allclose(bandlimited(g, np.where(seen, x, np.nan), n_frequencies=6, observed=seen), x, atol=1e-8)
    np.testing.assert_allclose(bandlimited(g, x, n_frequencies=6), x, atol=1e-12)
    few = np.zeros(40, bool)
    few[:4] = True
    with pytest.raises(InputError, match="do not determine 6 frequencies"):
        bandlimited(g, x, n_frequencies=6, observed=few)
    with pytest.raises(InputError, match="n_frequencies is 41"):
        bandlimited(g, x, n_frequencies=41)


def test_bandlimited_on_a_large_graph_uses_the_sparse_path(rng):
    g = nareg.graphs.grid((56, 60))
    _, j = g.coordinates.T
    # cosines are the eigenvectors of a grid; the three smoothest frequencies hold these two
    x = 2.0 + np.cos(np.pi * (j + 0.5) / 60)
    np.testing.assert_allclose(bandlimited(g, x, n_frequencies=3), x, atol=1e-6)


def test_lmmse_is_the_conditional_mean(problem, rng):
    g, _, seen = problem
    root = rng.standard_normal((40, 40))
    R, noise = root @ root.T, rng.random(40) + 0.1
    y = rng.standard_normal((40, 3))
    x = lmmse(g, y, second_moment=R, noise=noise, observed=seen)
    for t in range(3):
        m = seen[:, t]
        np.testing.assert_allclose(x[:, t], R[:, m] @ np.linalg.solve(R[np.ix_(m, m)] + np.diag(noise[m]), y[m, t]), rtol=1e-8)


def test_dtype_is_kept(problem):
    g, y, _ = problem
    y = y.astype(np.float32)
    for x in (
        kernel_ridge(g, y),
        total_variation(g, y, weight=0.1),
        bandlimited(g, y, n_frequencies=3),
        lmmse(g, y, signals=y, noise=0.1),
    ):
        assert (x.dtype, x.shape) == (np.float32, y.shape)
