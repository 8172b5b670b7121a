"""The V-cycle: its compiled sweeps against dense triangles, its symmetry, and its convergence."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import nareg
from nareg._solvers import kernels, multigrid
from nareg._solvers.system import build, penalty
from tests.helpers import dense_filter


def m_matrix(n, seed):
    rng = np.random.default_rng(seed)
    graph = nareg.graphs.sensor(n, rng=rng)
    return sp.csr_array(graph.laplacian() + sp.diags_array(rng.random(n) + 1e-3))


@settings(max_examples=20, deadline=None)
@given(st.integers(8, 40), st.sampled_from([1, 2, 4, 5, 16]), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_sweeps_solve_with_the_triangles_of_each_chunk(n, columns, chunks, seed):
    A = m_matrix(n, seed)
    bounds = np.array([chunk * n // chunks for chunk in range(chunks + 1)])
    chunk = np.searchsorted(bounds, np.arange(n), side="right")
    within = np.where(chunk[:, None] == chunk[None, :], A.toarray(), 0.0)
    inverse = 1.0 / (A.diagonal() + np.abs(A.toarray() - within).sum(axis=1))
    lower, upper = np.tril(within, -1) + np.diag(1 / inverse), np.triu(within, 1) + np.diag(1 / inverse)
    B = np.random.default_rng(seed).standard_normal((n, columns))
    X = np.empty_like(B)
    kernels.sweep_down(A.indptr, A.indices, A.data, inverse, bounds, B, X)
    np.testing.assert_allclose(X, np.linalg.solve(lower, B), rtol=1e-9, atol=1e-9)
    before, X = X, np.full_like(X, np.nan)
    kernels.sweep_up(A.indptr, A.indices, A.data, inverse, bounds, B, before, X)
    np.testing.assert_allclose(X, before + np.linalg.solve(upper, B - A @ before), rtol=1e-9, atol=1e-9)
    out = np.empty_like(B)
    for factor in (-1.0, 1.0):
        kernels.add_product(A.indptr, A.indices, A.data, factor, B, X, out)
        np.testing.assert_allclose(out, B + factor * (A @ X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("columns", [1, 2, 4, 7])
def test_loops_of_every_width_give_the_product(columns, rng):
    A = m_matrix(60, 3)
    P = rng.standard_normal((60, columns))
    Q = np.empty_like(P)
    dots = kernels.product_and_dot(A.indptr, A.indices, A.data, P, Q)
    np.testing.assert_allclose(Q, A @ P, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(dots, np.sum(P * Q, axis=0), rtol=1e-12)


@pytest.mark.parametrize("rows", [50, 10_000])
@pytest.mark.parametrize("zeros", [False, True])
def test_the_cycle_is_symmetric_and_positive(rows, zeros, rng, monkeypatch):
    monkeypatch.setattr(multigrid, "CHUNK_ROWS", rows)
    monkeypatch.setattr(multigrid, "COARSEST", 20)
    graph = nareg.graphs.sensor(300, rng=rng)
    w = 10 ** rng.uniform(-1, 1, 300)
    w[:40] *= -1
    if zeros:
        w[rng.choice(300, 30, replace=False)] = 0.0
    hierarchy = multigrid.Hierarchy(build(penalty(graph), w, np.ones(300)))
    dense = hierarchy.precondition(np.eye(300))
    np.testing.assert_allclose(dense, dense.T, atol=1e-10)
    assert np.linalg.eigvalsh((dense + dense.T) / 2).min() > 0


@pytest.mark.parametrize("coarsest", [20, 500])
def test_weights_of_unlike_size_leave_an_easy_system_easy(coarsest, rng, monkeypatch):
    """``c / w^2`` spans 20 digits on the coarsest level: what is small there is no null space."""
    monkeypatch.setattr(multigrid, "COARSEST", coarsest)
    graph = nareg.Graph(1e-8 * nareg.graphs.sensor(300, rng=rng).adjacency)
    w = 10 ** rng.uniform(-7, 3, 300)
    y = rng.standard_normal((300, 3))
    solution = nareg.filters.denoise(graph, w, y, method="multigrid")
    assert solution.status.ok
    assert solution.iterations < 20
    np.testing.assert_allclose(solution.x, dense_filter(graph, w) @ y, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("heavy", [1e30, 1e150])
def test_data_weights_of_unlike_size_leave_the_light_nodes_right(heavy, rng):
    """The residual at a heavy node met rounding between it and a light one: the light ones were off by 1e44."""
    graph = nareg.graphs.sensor(300, rng=rng)
    c, y = np.where(rng.random(300) < 0.5, heavy, 1.0), rng.standard_normal((300, 2))
    solution = nareg.filters.denoise(graph, 1.0, y, data_weight=c, method="multigrid")
    assert solution.status.ok
    direct = nareg.filters.denoise(graph, 1.0, y, data_weight=c, method="direct")
    np.testing.assert_allclose(solution.x, direct.x, rtol=1e-5, atol=1e-6)


def test_many_nodes_in_random_order_are_taken_in_a_better_one(rng):
    graph = nareg.graphs.sensor(20_500, rng=rng)
    w = 10 ** (3 * rng.random(graph.n_nodes))
    w[:100] = 0.0
    y = rng.standard_normal((graph.n_nodes, 2))
    hierarchy = multigrid.Hierarchy(build(penalty(graph), w, np.ones(graph.n_nodes)))
    assert hierarchy.system.order is not None
    solution = nareg.filters.denoise(graph, w, y, method="multigrid", tol=1e-10)
    np.testing.assert_allclose(solution.x, nareg.filters.denoise(graph, w, y, method="direct").x, atol=1e-7)
    np.testing.assert_allclose(solution.x[:100], y[:100], rtol=1e-9)


def test_iterations_do_not_grow_with_the_grid():
    iterations = []
    for side in (50, 100, 200):
        graph = nareg.graphs.grid((side, side))
        y = np.random.default_rng(0).standard_normal(graph.n_nodes)
        iterations.append(nareg.filters.denoise(graph, 100.0, y, method="multigrid").iterations)
    assert max(iterations) <= min(iterations) + 3 <= 15


@pytest.mark.parametrize("columns", [1, 3])
def test_small_systems_match_the_dense_solve(columns, rng):
    graph = nareg.graphs.grid((9, 8))
    w = 10 ** rng.uniform(-1, 2, 72)
    c = rng.random(72)
    y = rng.standard_normal((72, columns))
    solution = nareg.filters.denoise(graph, w, y, data_weight=c, method="multigrid", tol=1e-12)
    np.testing.assert_allclose(solution.x, dense_filter(graph, w, c) @ y, atol=1e-8)


@pytest.mark.slow
def test_building_levels_leaves_numpys_global_generator_alone():
    """Also while they are built: other threads draw from it."""
    graph = nareg.graphs.grid((150, 150))
    np.random.seed(12345)  # noqa: NPY002
    drawn, done = [], threading.Event()

    def draw():
        while not done.is_set():
            drawn.append(np.random.random())  # noqa: NPY002

    other = threading.Thread(target=draw)
    other.start()
    try:
        for _ in range(3):
            nareg.filters.denoise(graph, 30.0, np.ones(graph.n_nodes), method="multigrid")
    finally:
        done.set()
        other.join()
    np.testing.assert_array_equal(drawn, np.random.RandomState(12345).random(len(drawn)))
