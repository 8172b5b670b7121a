"""The automatic choice of a solver: what it predicts, what it takes, and that the numbers are those of a dense solve."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import nareg
from nareg._solvers import costs, engines, twofold
from nareg._solvers.factorization import fill_order
from nareg._solvers.system import build, penalty
from nareg.results import Status
from tests.helpers import dense_filter


def system(graph, w=30.0):
    return build(penalty(graph), w, np.ones(graph.n_nodes))


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: nareg.graphs.grid((170, 170)),
        lambda rng: nareg.graphs.sensor(25_000, rng=rng),
        lambda rng: nareg.graphs.grid((22, 22, 22)),
    ],
    ids=["grid", "nearest neighbors", "three dimensions"],
)
def test_the_size_of_a_factor_is_predicted_from_balls(make, rng):
    K = system(make(rng)).K
    entries, flops = costs.factor_size(K)
    order = fill_order(K)
    ordered = sp.csr_array(K[order][:, order])
    counts = twofold.column_counts(ordered.indptr, ordered.indices)[0].astype(float)
    assert 0.4 < entries / counts.sum() < 2.5
    assert 0.2 < flops / (counts**2).sum() < 5


@pytest.mark.parametrize("n", [4_000, 20_000])
def test_conjugate_gradients_go_on_where_a_factor_fills(n, rng):
    graph = nareg.graphs.power_law(n, mean_degree=8, rng=rng)
    assert costs.alternatives(system(graph), 1).multigrid == np.inf
    y = rng.standard_normal(n)
    solution = nareg.filters.denoise(graph, 30.0, y)
    assert solution.method == f"cg (auto: {n} nodes)"
    assert solution.status is Status.CONVERGED


def test_costs_grow_with_signals_and_calls(rng):
    K = system(nareg.graphs.grid((120, 120)))
    of = [costs.alternatives(K, columns) for columns in (1, 4, 16, 64)]
    assert all(a.direct < b.direct and a.multigrid < b.multigrid for a, b in itertools.pairwise(of))
    assert costs.alternatives(K, 4, calls=30).multigrid > of[1].multigrid
    assert 3.5 < costs.iteration(K.K, 64) / costs.iteration(K.K, 16) < 4.5


@pytest.mark.parametrize("columns", [1, 3, 20])
def test_slow_conjugate_gradients_are_given_up_on_a_mesh(columns, rng):
    graph = nareg.graphs.grid((110, 110))
    w = 10 ** (3 * np.arange(graph.n_nodes) / graph.n_nodes)
    y = rng.standard_normal((graph.n_nodes, columns))
    solution = nareg.filters.denoise(graph, w, y)
    reference = nareg.filters.denoise(graph, w, y, method="direct")
    assert solution.method.startswith(("cg, then direct (auto: CG would take", "cg, then multigrid (auto: CG would take"))
    assert solution.status is Status.CONVERGED
    assert solution.residual <= 2e-8
    np.testing.assert_allclose(solution.x, reference.x, atol=1e-5)


def test_the_choice_reads_no_clock(rng):
    graph = nareg.graphs.sensor(8_000, rng=rng)
    y = rng.standard_normal((graph.n_nodes, 2))
    first, second = (nareg.filters.denoise(graph, 30.0, y) for _ in range(2))
    assert first.method == second.method
    np.testing.assert_array_equal(first.x, second.x)


@pytest.mark.slow
@pytest.mark.parametrize("w", [1.0, "independent"])
@pytest.mark.parametrize("columns", [1, 20])
def test_quick_conjugate_gradients_go_on(w, columns, rng):
    graph = nareg.graphs.grid((110, 110))
    weights = 10 ** rng.uniform(-1.5, 1.5, graph.n_nodes) if w == "independent" else w
    y = rng.standard_normal((graph.n_nodes, columns))
    solution = nareg.filters.denoise(graph, weights, y)
    assert solution.method == f"cg (auto: {graph.n_nodes} nodes)"
    np.testing.assert_allclose(solution.x, nareg.filters.denoise(graph, weights, y, method="direct").x, atol=1e-6)


@pytest.mark.slow
def test_the_largest_signal_is_the_one_that_is_tried(monkeypatch):
    graph = nareg.graphs.grid((40, 40))
    monkeypatch.setattr(engines, "SMALL", 0)
    monkeypatch.setattr(engines, "TINY", 0)
    Y = np.zeros((graph.n_nodes, 9))
    Y[::7, 5] = 1.0
    w = np.full(graph.n_nodes, 2.0)
    solution = nareg.filters.denoise(graph, w, Y)
    assert solution.iterations > 5
    np.testing.assert_allclose(solution.x, dense_filter(graph, w) @ Y, atol=1e-7)


def test_a_factor_ends_what_multigrid_does_not(monkeypatch, rng):
    """Weights of 1e5 leave conjugate gradients and multigrid with a residual of rounding; a factor is refined."""
    graph = nareg.graphs.grid((80, 80))
    monkeypatch.setattr(engines.Outlook, "_alternatives", costs.Costs(direct=1e-8, multigrid=1e-9))
    y = rng.standard_normal(graph.n_nodes)
    solution = nareg.filters.denoise(graph, 1e6, y)
    assert solution.status is Status.CONVERGED
    assert solution.method.startswith("direct (auto: CG and multigrid did not converge)")
    np.testing.assert_allclose(solution.x, y.mean(), atol=1e-8)


def test_an_iteration_limit_holds_over_the_switch(rng):
    graph = nareg.graphs.grid((110, 110))
    w = 10 ** (3 * np.arange(graph.n_nodes) / graph.n_nodes)
    solution = nareg.filters.denoise(graph, w, rng.standard_normal(graph.n_nodes), max_iterations=10)
    assert solution.iterations == 10
    assert solution.status is Status.MAX_ITERATIONS
