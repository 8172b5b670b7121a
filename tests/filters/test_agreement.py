"""On the same problem all solvers agree with each other and with a dense float64 solve."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.filters import denoise, interpolate
from tests.helpers import at_night, dense_filter

ALL = ("direct", "cg", "multigrid", "jacobi", "chebyshev", "auto")
TOLERANCE = 1e-6  # relative, against the dense solve


def relative_error(x: np.ndarray, reference: np.ndarray) -> float:
    return float(np.linalg.norm(x - reference) / np.linalg.norm(reference))


def three_decades(n: int, rng: np.random.Generator) -> np.ndarray:
    return 10 ** rng.uniform(-1.5, 1.5, n) * rng.choice([-1.0, 1.0], n)


def graph_named(name: str, request: pytest.FixtureRequest) -> nareg.Graph:
    rng = np.random.default_rng(7)
    if name == "us":
        return request.getfixturevalue("us").graph
    if name == "molene":
        return nareg.datasets.load("molene", root=request.getfixturevalue("data_root")).graph
    return {
        "erdos-renyi": lambda: nareg.graphs.erdos_renyi(80, 0.2, rng=rng),
        "sensor": lambda: nareg.graphs.sensor(300, rng=rng),
        "grid": lambda: nareg.graphs.grid((15, 20)),
        "power-law": lambda: nareg.graphs.power_law(300, mean_degree=6, rng=rng),
        "blocks apart": lambda: nareg.graphs.stochastic_block([30, 40], [[0.3, 0.0], [0.0, 0.3]], rng=rng),
    }[name]()


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("name", ["us", "molene", "erdos-renyi", "sensor", "grid", "power-law", "blocks apart"])
def test_methods_agree_with_weights_over_three_decades(name, method, request, rng):
    g = graph_named(name, request)
    w = three_decades(g.n_nodes, rng)
    y = rng.standard_normal((g.n_nodes, 5))
    solution = denoise(g, w, y, method=method)
    assert solution.status.ok
    assert solution.residual <= 2e-8
    assert relative_error(solution.x, dense_filter(g, w) @ y) < TOLERANCE


@pytest.mark.parametrize("method", ALL)
def test_methods_agree_with_unequal_data_terms(us, method, rng):
    w, c = three_decades(us.n_nodes, rng), 10 ** rng.uniform(-1, 1, us.n_nodes)
    y = rng.standard_normal((us.n_nodes, 3))
    solution = denoise(us.graph, w, y, data_weight=c, method=method)
    assert solution.status.ok
    assert relative_error(solution.x, dense_filter(us.graph, w, c) @ y) < TOLERANCE


@pytest.mark.parametrize("method", ALL)
def test_methods_agree_with_missing_nodes(us, method, rng):
    w = 10 ** rng.uniform(-0.14, 0.14, us.n_nodes)  # never above twice: nothing is replaced
    seen = rng.random(us.n_nodes) < 0.5
    y = np.where(seen[:, None], rng.standard_normal((us.n_nodes, 3)), np.nan)
    solution = interpolate(us.graph, w, y, seen, method=method, tol=1e-10)
    reference = dense_filter(us.graph, w, seen.astype(float)) @ np.nan_to_num(y)
    assert solution.status.ok
    assert relative_error(solution.x, reference) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("n", [2000, *at_night([8000])])
def test_large_sensor_graph_against_the_factorization(n, rng):
    g = nareg.graphs.sensor(n, rng=rng)
    w = three_decades(g.n_nodes, rng)
    y = rng.standard_normal((g.n_nodes, 20))  # more columns than one block
    reference = denoise(g, w, y, method="direct").x
    for method in ("auto", "cg", "multigrid", "jacobi", "chebyshev"):
        assert relative_error(denoise(g, w, y, method=method).x, reference) < TOLERANCE, method


def test_published_recursion_agrees_where_it_converges(us, rng):
    y = rng.standard_normal(us.n_nodes)
    solution = denoise(us.graph, 0.2, y, method="recursion")
    assert solution.status.ok
    assert relative_error(solution.x, dense_filter(us.graph, np.full(us.n_nodes, 0.2)) @ y) < TOLERANCE


def test_one_weight_with_missing_nodes_agrees_with_pygsp(us, rng):
    learning = pytest.importorskip("pygsp.learning", reason="PyGSP is not installed")
    g, tau = us.graph, 2.0
    seen = rng.random(us.n_nodes) < 0.6
    y = us.signals[:, 0] - us.signals.mean()
    theirs = learning.regression_tikhonov(g.to_pygsp(), np.where(seen, y, 0.0), seen, tau=tau)
    ours = interpolate(g, np.sqrt(tau), y, seen).x
    assert relative_error(ours, theirs) < 1e-4  # PyGSP stops at a relative residual of 1e-5
