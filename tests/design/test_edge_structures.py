"""Edge designs by likelihood and with Laplacian structure without dense matrices, against the dense Newton method."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import nareg
from nareg.design import edge
from nareg.design._edge.cone import LikelihoodObjective
from nareg.design._edge.sparse_likelihood import EdgeLikelihood
from nareg.design._edge.support import Support
from nareg.errors import InputError, TooLargeError
from nareg.results import Status, upper_edges
from tests.design.test_edge import field


def large(monkeypatch):
    monkeypatch.setattr("nareg.design._edge.edge.DENSE_UNKNOWNS", 0)


def both(monkeypatch, graph, **options):
    dense = edge(graph, **options)
    large(monkeypatch)
    return dense, edge(graph, **options)


def test_the_inverse_on_the_edges_and_the_gradient_are_the_dense_ones(rng):
    g = nareg.graphs.sensor(60, rng=rng)
    base = nareg._solvers.system.penalty(g)
    i, j = upper_edges(base.L)
    support = Support(60, i, j)
    model = EdgeLikelihood(base, support)
    u = rng.uniform(0.5, 2, 60 + i.size)
    B = rng.standard_normal((60, 7))
    dense = LikelihoodObjective(support, B @ B.T)
    point = dense.at(u)
    np.testing.assert_allclose(model.inverse_products(u), support.gather(point.P), rtol=1e-10)
    moments = model.moments(nareg.design._risk.sampled.SampleColumns(B, B, 7))
    value, gradient = model.value_and_gradient(u, moments)
    assert value == pytest.approx(point.value, rel=1e-12)
    np.testing.assert_allclose(gradient, dense.slope(point), rtol=1e-8, atol=1e-10)
    assert model.value_and_gradient(u - 10, moments)[0] == np.inf


@pytest.mark.parametrize("noise", [None, 0.5])
def test_the_likelihood_is_the_dense_one(rng, monkeypatch, noise):
    g = nareg.graphs.sensor(50, k=4, rng=rng)
    dense, ours = both(monkeypatch, g, signals=field(g, 400, rng), noise=noise, criterion="likelihood", shrink=None)
    assert ours.status is Status.CONVERGED
    assert ours.objective == pytest.approx(dense.objective, abs=1e-6 * 50)
    np.testing.assert_allclose(ours.weights, dense.weights, rtol=1e-3, atol=1e-3 * np.abs(dense.weights).max())
    details = ours.certificate.details
    assert details["best_two_parameter_likelihood"] == pytest.approx(
        dense.certificate.details["best_two_parameter_likelihood"], rel=1e-6
    )
    assert details["best_two_parameter_likelihood"] > ours.objective


def test_a_laplacian_structure_by_likelihood_is_the_dense_one(rng, monkeypatch):
    g = nareg.graphs.sensor(50, k=4, rng=rng)
    dense, ours = both(monkeypatch, g, signals=field(g, 400, rng), criterion="likelihood", structure="laplacian", shrink=None)
    assert ours.status is Status.CONVERGED
    assert ours.objective == pytest.approx(dense.objective, abs=1e-4)
    i, j = upper_edges(g.laplacian())
    u = Support(50, i, j).unknowns(ours.weights)
    assert u.min() >= -1e-12 * u.max()


@pytest.mark.slow
def test_a_laplacian_structure_by_risk_is_near_the_dense_one(rng, monkeypatch):
    """The dense risk has its expectation over the noise, the sampled one 32 probes."""
    g = nareg.graphs.sensor(50, k=4, rng=rng)
    X = field(g, 300, rng)
    dense, ours = both(monkeypatch, g, signals=X, noise=0.5, structure="laplacian", shrink=0.1)
    symmetric = edge(g, signals=X, noise=0.5, shrink=0.1)
    i, j = upper_edges(g.laplacian())
    u = Support(50, i, j).unknowns(ours.weights)
    assert u.min() >= -1e-12 * u.max()
    result, reference, free = (nareg.design.risk(g, d, signals=X, noise=0.5).mse for d in (ours, dense, symmetric))
    assert result == pytest.approx(reference, rel=0.03)
    assert result < 0.97 * ours.certificate.details["best_scalar_risk"]
    assert free < 1.02 * result
    # every distributed method applies
    y = X[:, :1] + 0.5 * rng.standard_normal((50, 1))
    jacobi = nareg.filters.denoise(g, ours, y, method="jacobi", tol=1e-8)
    np.testing.assert_allclose(jacobi.x, nareg.filters.denoise(g, ours, y, method="direct").x, atol=1e-6)


@pytest.mark.parametrize("structure", ["symmetric", "laplacian"])
@pytest.mark.parametrize("criterion", ["risk", "likelihood"])
def test_held_out_signals_stop_every_descent(rng, monkeypatch, criterion, structure):
    large(monkeypatch)
    g = nareg.graphs.sensor(50, k=4, rng=rng)
    steps = []
    d = edge(g, signals=field(g, 60, rng), noise=0.5, criterion=criterion, structure=structure, progress=steps.append)
    details = d.certificate.details
    assert d.status in (Status.STOPPED_EARLY, Status.NO_IMPROVEMENT, Status.CONVERGED)
    assert details["held_out_risk"] <= details["held_out_scalar_risk"]
    assert details["held_out_error"] > 0
    assert details["smallest_eigenvalue_K"] > 0
    assert len(steps) == details["iterations"]


def test_graphs_without_a_sparse_factor_are_refused_with_what_works(rng, monkeypatch):
    large(monkeypatch)
    monkeypatch.setattr("nareg.design._edge.sparse_risk.FACTOR_NODES", 0)
    g = nareg.graphs.sensor(50, k=4, rng=rng)
    X = field(g, 60, rng)
    with pytest.raises(TooLargeError, match="use criterion='risk'"):
        edge(g, signals=X, noise=0.5, criterion="likelihood")
    assert edge(g, signals=X, noise=0.5, criterion="risk", structure="laplacian").status.ok
    with pytest.raises(InputError, match="starts from the graph's Laplacian"):
        edge(sp.csr_array(g.laplacian() @ g.laplacian()), signals=X, noise=0.5, structure="laplacian")
