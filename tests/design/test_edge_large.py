"""Edge design without dense matrices: sparse factors, probes, early stopping."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import nareg
from nareg.design import edge, node_invariant, risk
from nareg.design._edge import sparse
from nareg.design._edge.cone import RiskObjective
from nareg.design._edge.result import smallest_eigenvalues
from nareg.design._risk.sampled import clean_and_noise
from tests.design.test_edge import covariance, field, random_objective
from tests.helpers import at_night


def test_sparse_value_and_gradient_agree_with_the_dense_ones(rng):
    objective, u = random_objective(rng)
    n, support = 20, objective.support
    X = rng.standard_normal((n, 5))
    Sigma, c = rng.uniform(0.1, 1, n), objective.c
    R = X @ X.T / 5
    cross = c[:, None] * R
    dense = RiskObjective(support, c, c[:, None] * (R + np.diag(Sigma)) * c, (cross + cross.T) / 2, float(np.trace(R)))
    A = sp.csr_array((np.ones(support.i.size), (support.i, support.j)), shape=(n, n))
    base = nareg._solvers.system.penalty(nareg.Graph(A + A.T))
    sampled = sparse.EdgeRisk(base, support, c)
    noise = np.diag(np.sqrt(Sigma))  # identity probes are exact
    columns = clean_and_noise(X, noise)
    point = dense.at(u)
    for factorizes in (True, False):
        sampled.systems.factorizes = factorizes
        value, gradient = sampled.value_and_gradient(u, columns)
        assert value == pytest.approx(point.value, rel=1e-5)
        np.testing.assert_allclose(gradient, dense.slope(point), rtol=1e-3, atol=1e-4 * np.abs(gradient).max())
        assert sampled.value(u - 100, columns) == np.inf
    sampled.systems.factorizes = True
    np.testing.assert_allclose(sampled.value_and_gradient(u, columns)[1], dense.slope(point), rtol=1e-8)
    signs = np.sqrt(n) * np.eye(n)
    np.testing.assert_allclose(sampled.stiffness(u, columns, lambda: signs), dense.curvature(point)[0], rtol=1e-8)


def test_eigenvalues_without_dense_matrices(rng, monkeypatch):
    g = nareg.graphs.sensor(300, rng=rng)
    S = g.laplacian() - 0.3 * sp.eye_array(300)
    system = nareg._solvers.system.FilterSystem(
        S=sp.csr_array(S), c=rng.uniform(1, 2, 300), w=None, penalty=nareg._solvers.system.penalty(g)
    )
    dense = smallest_eigenvalues(system)
    monkeypatch.setattr("nareg.design._edge.result.DENSE_NODES", 10)
    np.testing.assert_allclose(smallest_eigenvalues(system), dense, rtol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("shrink", ["auto", 1.0, 0.3, None])
def test_large_path_on_a_small_scale(rng, monkeypatch, shrink):
    monkeypatch.setattr("nareg.design._edge.edge.DENSE_UNKNOWNS", 0)
    g = nareg.graphs.sensor(50, k=4, rng=rng)
    X = field(g, 200, rng)
    d = edge(g, signals=X, noise=0.5, shrink=shrink)
    one = node_invariant(g, rule="oracle", signals=X, noise=0.5)
    result, scalar = (risk(g, w, signals=X, noise=0.5).mse for w in (d, one))
    assert result < (1.02 if shrink == 1.0 else 1.0) * scalar
    assert edge(g, signals=X, noise=0.5, shrink=shrink, rng=np.random.default_rng(0)).objective == d.objective


def test_large_path_with_few_signals_keeps_one_weight(rng, monkeypatch):
    monkeypatch.setattr("nareg.design._edge.edge.DENSE_UNKNOWNS", 0)
    g = nareg.graphs.sensor(50, k=4, rng=rng)
    d = edge(g, signals=field(g, 3, rng), noise=0.5)
    assert d.status.name == "NO_IMPROVEMENT"


@pytest.mark.slow
def test_large_path_takes_covariances_and_graphs_that_do_not_factorize(rng, monkeypatch):
    monkeypatch.setattr("nareg.design._edge.edge.DENSE_UNKNOWNS", 0)
    g = nareg.graphs.sensor(50, k=4, rng=rng)
    R, Sigma = covariance(50, rng), covariance(50, rng)
    d = edge(g, second_moment=R, noise=Sigma)
    assert d.certificate.details["smallest_eigenvalue_K"] > 0
    monkeypatch.setattr("nareg.design._edge.sparse_risk.FACTOR_NODES", 0)
    other = edge(g, second_moment=R, noise=Sigma)
    assert "conjugate gradients" in other.certificate.solver
    assert other.objective == pytest.approx(d.objective, rel=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("n", [800, *at_night([2000])])
def test_networks_of_many_nodes(n):
    rng = np.random.default_rng(3)
    g = nareg.graphs.sensor(n, rng=rng)
    X = field_on(g, 96, rng)
    steps = []
    d = edge(g, signals=X[:, :64], noise=0.5, progress=steps.append)
    details = d.certificate.details
    assert d.status.name == "STOPPED_EARLY"
    assert details["held_out_risk"] < details["held_out_scalar_risk"] - details["held_out_error"]
    assert details["smallest_eigenvalue_K"] > 0
    assert len(steps) == details["iterations"]
    one = node_invariant(g, rule="oracle", signals=X[:, :64], noise=0.5)
    test = X[:, 64:]
    assert risk(g, d, signals=test, noise=0.5).mse < 0.98 * risk(g, one, signals=test, noise=0.5).mse


def field_on(graph, T, rng):
    """A field of varying smoothness over the unit square."""
    x = graph.coordinates[:, 0]
    k = 0.02 * 100**x * graph.degrees.mean()
    lu = sp.linalg.splu(sp.csc_matrix(graph.laplacian() + sp.diags_array(k)))
    X = np.sqrt(k)[:, None] * lu.solve(rng.standard_normal((graph.n_nodes, T)))
    return X / np.sqrt(np.mean(X**2))


@pytest.mark.nightly
def test_network_of_ten_thousand_nodes():
    rng = np.random.default_rng(4)
    g = nareg.graphs.sensor(10_000, rng=rng)
    X = field_on(g, 64, rng)
    d = edge(g, signals=X, noise=0.5)
    assert d.status.name == "STOPPED_EARLY"
    assert d.certificate.details["held_out_risk"] < 0.98 * d.certificate.details["held_out_scalar_risk"]


@pytest.mark.slow
def test_other_penalties_without_dense_matrices(rng):
    """The normalized Laplacian: its off-diagonal entries are the edges, and the single weight scales all of it."""
    g = nareg.graphs.sensor(800, rng=rng)
    operator = g.laplacian("normalized")
    signals = nareg.graphs.heterogeneous_field(g, 128, rng=rng)
    train, test = signals.signals[:, :96], signals.signals[:, 96:]
    d = edge(operator, signals=train, noise=1.0)
    one = node_invariant(operator, rule="oracle", signals=train, noise=1.0)
    assert d.certificate.details["smallest_eigenvalue_K"] > 0
    assert risk(operator, d, signals=test, noise=1.0).nmse < 0.99 * risk(operator, one, signals=test, noise=1.0).nmse
