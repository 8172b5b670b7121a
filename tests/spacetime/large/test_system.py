"""The sparse space-time system and its field agree with dense algebra."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import nareg
from nareg.errors import SolverError
from nareg.spacetime._readings.space import _graph_correlation
from nareg.spacetime._sparse.field import FieldFamily
from nareg.spacetime._sparse.ranks import FACTOR, balanced
from nareg.spacetime._sparse.system import PLAIN, Process, Reinforced, SpaceTimeSystem, frequency_groups, log_likelihood
from tests.helpers import examples
from tests.spacetime.large.reference import dense, process, readings

RNG = np.random.default_rng


@pytest.mark.parametrize("reach", [0.5, 3.0, 30.0])
def test_field_is_the_dense_models_graph_family(reach):
    graph, _ = process()
    field = FieldFamily(graph.adjacency, 2).at(reach)
    C = _graph_correlation(graph.adjacency, reach)
    np.testing.assert_allclose(np.linalg.inv(field.precision().toarray()), C, atol=1e-8)
    assert field.log_det == pytest.approx(-np.linalg.slogdet(C)[1], rel=1e-9)


@pytest.mark.parametrize("smoothness", [1, 2])
def test_field_has_unit_variances_and_the_covariance_on_its_pattern(smoothness):
    graph, _ = process(n=25)
    field = FieldFamily(graph.adjacency, smoothness).at(2.0)
    C = np.linalg.inv(field.precision().toarray())
    np.testing.assert_allclose(np.diag(C), 1.0, rtol=1e-10)
    np.testing.assert_allclose(field.covariance, np.concatenate([np.diag(C), C[field.family.i, field.family.j]]), atol=1e-10)
    L = (np.diag(graph.adjacency.sum(axis=1)) - graph.adjacency.toarray()) / graph.adjacency.sum(axis=1).mean()
    K = np.linalg.matrix_power(L + np.eye(25) / 4, smoothness)
    scale = np.sqrt(np.diag(np.linalg.inv(K)))
    np.testing.assert_allclose(field.precision().toarray(), K * np.outer(scale, scale), atol=1e-9)


def test_field_without_edges():
    field = FieldFamily(sp.csr_array((3, 3)), 2).at(2.0)
    np.testing.assert_allclose(field.precision().toarray(), np.eye(3), atol=1e-12)


@pytest.mark.slow
@examples(6, 25)
@given(
    seed=st.integers(0, 1000), smoothness=st.sampled_from([1, 2]), rho=st.floats(-0.7, 0.97), reach=st.floats(0.7, 10.0),
    log_noise=st.floats(-4.0, 3.0), T=st.integers(1, 30), gaps=st.sampled_from([0.0, 0.3, 0.7]),
)  # fmt: skip
def test_mean_and_variance_agree_with_the_dense_smoother(seed, smoothness, rho, reach, log_noise, T, gaps):
    """The bar: dense and sparse engines agree to 1e-6."""
    _, p = process(seed, n=20, smoothness=smoothness, reach=reach, rho=rho, noise=np.exp(log_noise))
    _, y = readings(p, T, RNG(seed), gaps)
    expected = dense(p, y)
    system = SpaceTimeSystem(p, np.isfinite(y))
    x, _ = system.solve(system.right_side(y)[:, None, :], 1e-10)
    np.testing.assert_allclose(x[:, 0], expected.x.T, atol=1e-6)
    columns = np.eye(20 * T).reshape(20, T, 20 * T).transpose(0, 2, 1)
    pick = RNG(seed).choice(20 * T, min(5, 20 * T), replace=False)
    inverse, _ = system.solve(columns[:, pick], 1e-10)
    var = inverse[pick // T, np.arange(pick.size), pick % T]
    np.testing.assert_allclose(var, expected.var.T.ravel()[pick], atol=1e-6)


def hard(smoothness):
    """Noise over five decades, stations that stop and begin, hours in which none reads, and a field that hardly returns."""
    _, p = process(n=60, smoothness=smoothness, reach=20.0, rho=0.9995)
    p = replace(p, noise=10 ** RNG(1).uniform(-5, 0, 60), variance=100.0)
    _, y = readings(p, 60, RNG(2), 0.1)
    for i in range(0, 60, 2):
        y[i, i // 2 : i // 2 + 30] = np.nan
    y[:, 20:24] = np.nan
    return p, y


@pytest.mark.parametrize("smoothness", [1, 2])
def test_hard_systems_are_solved_in_few_steps(smoothness, monkeypatch):
    """Citizens' stations were like this: cosines in time did not reach a residual of 1e-4 in 500 steps."""
    p, y = hard(smoothness)
    system = SpaceTimeSystem(p, np.isfinite(y))
    right = system.right_side(y)[:, None, :]
    x, steps = system.solve(right, 1e-8)
    assert system.hard
    assert steps < PLAIN + 20
    np.testing.assert_allclose(x[:, 0], dense(p, y).x.T, atol=1e-4)
    assert system.solve(right, 1e-8)[1] < 20  # it is known by now
    monkeypatch.setattr("nareg.spacetime._sparse.system.Reinforced", lambda system, pool: system.preconditioner)
    with pytest.raises(SolverError, match="in 500 steps"):
        SpaceTimeSystem(p, np.isfinite(y)).solve(right, 1e-8)


def test_the_reinforced_preconditioner_is_symmetric_and_positive():
    p, y = hard(1)
    M = Reinforced(SpaceTimeSystem(p, np.isfinite(y)))
    A, B = RNG(0).standard_normal((2, 60, 1, 60))
    assert np.sum(A * M.solve(B)) == pytest.approx(np.sum(M.solve(A) * B), rel=1e-9)
    assert np.sum(A * M.solve(A)) > 0


def test_solves_start_from_a_given_answer_and_keep_several_right_sides_apart():
    _, p = process()
    _, y = readings(p, 20, RNG(0))
    system = SpaceTimeSystem(p, np.isfinite(y))
    B = RNG(1).standard_normal((40, 3, 20))
    X, steps = system.solve(B, 1e-9)
    np.testing.assert_allclose(system.product(X), B, atol=1e-6)
    again, fewer = system.solve(B, 1e-8, X)
    assert fewer == 0 < steps
    np.testing.assert_array_equal(again, X)
    one, _ = system.solve(B[:, 1:2], 1e-9)
    np.testing.assert_allclose(one[:, 0], X[:, 1], atol=1e-6)


@pytest.mark.parametrize("smoothness", [1, 2])
def test_draws_have_the_covariances_that_they_should(smoothness):
    _, p = process(n=6, smoothness=smoothness)
    T, S = 3, 60_000
    C = p.variance * np.linalg.inv(p.field.precision().toarray())
    lags = p.rho ** np.abs(np.subtract.outer(np.arange(T), np.arange(T)))
    prior = np.kron(C, lags)
    B = p.prior_noise((S, T), RNG(0))
    covariance = np.cov(B.transpose(0, 2, 1).reshape(6 * T, S))
    expected = np.linalg.inv(prior)
    np.testing.assert_allclose(covariance, expected, atol=0.03 * np.abs(expected).max())
    X = p.prior_solve(B[:, :50])
    found, sources = (each.transpose(0, 2, 1).reshape(6 * T, 50) for each in (X, B[:, :50]))
    np.testing.assert_allclose(found, prior @ sources, atol=1e-8)


@pytest.mark.parametrize("gaps", [0.0, 0.4])
def test_log_likelihood_is_the_kalman_filters(gaps):
    _, p = process(n=60)
    _, y = readings(p, 60, RNG(0), gaps)
    expected = dense(p, y)
    value = log_likelihood(y, expected.x.T, p)
    # the quadrature's probes: some units of 2,500 readings
    assert value == pytest.approx(expected.log_likelihood, abs=0.004 * np.isfinite(y).sum())


def test_a_process_far_from_zero_coverage_still_solves():
    graph = nareg.graphs.grid((5, 5))
    p = Process(FieldFamily(graph.adjacency, 2).at(20.0), 0.99, 1.0, np.full(25, 1e-5))
    y = np.full((25, 30), np.nan)
    y[3, 4] = 1.0
    system = SpaceTimeSystem(p, np.isfinite(y))
    x, _ = system.solve(system.right_side(y)[:, None, :], 1e-9)
    np.testing.assert_allclose(x[:, 0], dense(p, y).x.T, atol=1e-6)


@pytest.mark.slow
@given(
    T=st.integers(1, 300), ranks=st.integers(1, 40), rho=st.floats(-0.9, 0.99),
)  # fmt: skip
def test_ranks_have_each_frequency_once_and_much_the_same_work(T, ranks, rho):
    _, p = process(n=4, rho=0.9)
    groups = [members for members, _ in frequency_groups(Process(p.field, rho, 1.0, p.noise).eigenvalues(T))]
    owned = balanced(groups, ranks)
    assert len(owned) == ranks
    np.testing.assert_array_equal(np.sort(np.concatenate(owned)), np.arange(T))
    work = [part.size + FACTOR * sum(np.isin(part, members).any() for members in groups) for part in owned]
    # one piece of a group more or less
    assert max(work) - min(work) <= -(-T // ranks) + FACTOR
