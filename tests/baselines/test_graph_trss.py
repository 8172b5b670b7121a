"""GraphTRSS against a dense solve and against conjugate gradients that start from zero, as the authors run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.linalg import LinearOperator, cg

import nareg
from nareg.baselines import graph_trss
from nareg.errors import InputError, TooLargeError


def system(graph, seen, weight, epsilon, power=1.0):
    """The normal equations of all times together, time by time, as a dense matrix."""
    n, T = seen.shape
    values, vectors = np.linalg.eigh(graph.laplacian().toarray() + epsilon * np.eye(n))
    D = np.diff(np.eye(T), axis=0).T
    return np.diag(seen.T.ravel().astype(float)) + weight * np.kron(D @ D.T, (vectors * values**power) @ vectors.T)


@given(
    seed=st.integers(0, 2**32 - 1),
    T=st.integers(2, 8),
    weight=st.floats(1e-3, 1e2),
    epsilon=st.floats(1e-2, 10),
    power=st.sampled_from([1.0, 0.5, 2.0]),
)
@pytest.mark.slow
def test_equals_a_dense_solve(seed, T, weight, epsilon, power):
    rng = np.random.default_rng(seed)
    graph = nareg.graphs.erdos_renyi(6, 0.6, rng=rng)
    y = rng.standard_normal((6, T))
    y[rng.random(y.shape) < 0.5] = np.nan
    y[:, 0] = np.where(np.isnan(y).all(axis=1), 1.0, y[:, 0])  # every station reads once: the minimum is unique
    seen = np.isfinite(y)
    exact = np.linalg.solve(system(graph, seen, weight, epsilon, power), np.where(seen, y, 0).T.ravel()).reshape(T, 6).T
    x = graph_trss(graph, y, weight=weight, epsilon=epsilon, power=power)
    np.testing.assert_allclose(x, exact, atol=1e-7 * np.abs(exact).max())


def test_silent_stations_end_where_conjugate_gradients_from_zero_do(rng):
    graph = nareg.graphs.grid((3, 3))
    y = rng.standard_normal((9, 12)) + 5
    y[rng.random(y.shape) < 0.4] = np.nan
    y[[2, 5]] = np.nan
    y[:, 4:6] = np.nan  # whole snapshots are missing as well
    seen = np.isfinite(y)
    A, b = system(graph, seen, 0.3, 0.1), np.where(seen, y, 0).T.ravel()
    steps, info = cg(LinearOperator(A.shape, matvec=A.__matmul__, dtype=float), b, rtol=1e-13, maxiter=5000)
    assert info == 0
    x = graph_trss(graph, y, weight=0.3, epsilon=0.1)
    np.testing.assert_allclose(x, steps.reshape(12, 9).T, atol=1e-7)
    np.testing.assert_allclose(x[[2, 5]].mean(axis=1), 0, atol=1e-12)


def test_without_epsilon_the_level_of_a_time_without_samples_is_free(rng):
    """Why epsilon is positive: Qiu et al.'s method, which has none, has no unique solution for whole snapshots."""
    graph = nareg.graphs.grid((3, 3))
    seen = rng.random((9, 6)) < 0.7
    seen[:, 4] = False
    L, D = graph.laplacian().toarray(), np.diff(np.eye(6), axis=0).T
    A = np.diag(seen.T.ravel().astype(float)) + 0.3 * np.kron(D @ D.T, L)
    level = np.zeros((6, 9))
    level[4] = 1.0
    np.testing.assert_allclose(A @ level.ravel(), 0, atol=1e-12)
    assert np.linalg.norm(system(graph, seen, 0.3, 0.1) @ level.ravel()) > 0.01


def test_mask_replaces_missing_values(rng):
    graph = nareg.graphs.grid((2, 3))
    y = rng.standard_normal((6, 5))
    seen = rng.random(y.shape) < 0.7
    given = graph_trss(graph, y, seen, weight=1.0, epsilon=0.5)
    np.testing.assert_array_equal(given, graph_trss(graph, np.where(seen, y, np.nan), weight=1.0, epsilon=0.5))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"weight": 0.0}, InputError, "weight"),
        ({"epsilon": 0.0}, InputError, "epsilon"),
        ({"power": -1.0}, InputError, "power"),
        ({"y": np.ones((5, 4))}, InputError, "y has 5 rows but the graph has 4 nodes"),
        ({"y": np.ones((4, 1))}, InputError, "at least 2"),
        ({"y": np.full((4, 3), np.nan)}, InputError, "no reading"),
        ({"graph": np.eye(4)}, InputError, "needs the Laplacian of a nareg.Graph"),
    ],
)
def test_bad_input_is_refused(change, error, message):
    arguments = {"graph": nareg.graphs.grid((4,)), "y": np.ones((4, 3)), "weight": 1.0, "epsilon": 0.1} | change
    with pytest.raises(error, match=message):
        graph_trss(**arguments)


def test_what_does_not_fit_is_refused_before_it_is_allocated():
    graph = nareg.graphs.grid((60, 60))
    with pytest.raises(TooLargeError, match="graph_trss"):
        graph_trss(graph, np.broadcast_to(1.0, (3600, 2000)), weight=1.0, epsilon=0.1)
