"""Edge weights from noisy readings by sparse factors: the same numbers as by dense matrices, gaps, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import nareg
from nareg.design._edge.marginal import MarginalObjective, patterns
from nareg.design._edge.sparse_likelihood import EdgeLikelihood
from nareg.design._edge.sparse_marginal import TOGETHER, SparseMarginal
from nareg.design._risk import kernels
from nareg.errors import InputError, TooLargeError
from nareg.results import Status
from tests.design.test_edge_readings import problem
from tests.helpers import little_memory


@pytest.fixture
def sparse(monkeypatch):
    """Every network counts as large."""
    monkeypatch.setattr("nareg.design._edge.edge.DENSE_UNKNOWNS", 0)


@pytest.fixture(scope="module")
def field():
    """Readings of a field whose precision has weights over two decades on a network of 60 stations, with gaps."""
    rng = np.random.default_rng(1)
    n = 60
    g = nareg.graphs.sensor(n, k=4, rng=rng)
    truth = g.laplacian().toarray() + np.diag(10 ** rng.uniform(-1.5, 0.5, n))
    X = np.linalg.cholesky(np.linalg.inv(truth)) @ rng.standard_normal((n, 100))
    X /= X.std()
    return g, X + rng.standard_normal(X.shape), rng.random(X.shape) < 0.9


def both(seed, **options):
    """The likelihood of random readings by dense matrices and by sparse factors, a point, and the readings."""
    g, support, u, Y, seen, variance = problem(seed, **options)
    readings = patterns(Y, seen, 1 / variance)
    assume(readings)
    clean = EdgeLikelihood(nareg._solvers.system.penalty(g), support)
    dense = MarginalObjective.of(support, 1 / variance, readings)
    return dense, SparseMarginal(clean, 1 / variance, readings), u, readings


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), gaps=st.booleans(), groups=st.booleans(), times=st.sampled_from([1, 4, 2 * TOGETHER + 3]))
def test_sparse_factors_give_the_dense_likelihood_and_slope(seed, gaps, groups, times):
    dense, sparse, u, readings = both(seed, gaps=gaps, groups=groups, T=times)
    value, slope = dense.value_and_slope(u)
    other, gradient = sparse.value_and_slope(u)
    assert other == pytest.approx(value, rel=1e-10, abs=1e-10)
    np.testing.assert_allclose(gradient, slope, rtol=1e-8, atol=1e-10 * np.abs(slope).max())
    np.testing.assert_allclose(sparse.deviances(u, readings), dense.deviances(u, readings), rtol=1e-9, atol=1e-9)
    outside = u - 100 * np.abs(u).max()
    assert dense.value_and_slope(outside)[0] == sparse.value_and_slope(outside)[0] == np.inf


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), gaps=st.booleans(), groups=st.booleans(), nonnegative=st.booleans())
def test_a_proximal_step_ends_where_the_dense_one_ends(seed, gaps, groups, nonnegative):
    dense, sparse, u, _ = both(seed, gaps=gaps, groups=groups)
    u = np.abs(u)
    first = dense.step(u, 0.6, nonnegative=nonnegative, tolerance=1e-8)
    second = sparse.step(u, 0.6, nonnegative=nonnegative, tolerance=1e-8)
    assume(first.message == second.message == "gradient below tolerance")
    assert sparse.value_and_slope(second.w)[0] == pytest.approx(dense.value_and_slope(first.w)[0], rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(second.w, first.w, atol=1e-4 * np.abs(first.w).max())


@given(case=st.sampled_from([(8, True), (32, True), (52, False)]))
def test_a_step_whose_last_gains_are_roundings_ends(case):
    """Steps that lowered nothing passed for progress: every one of 500 points took 600 evaluations."""
    _, sparse, u, _ = both(case[0], groups=case[1])
    end = sparse.step(np.abs(u), 0.6, nonnegative=False, tolerance=1e-8)
    assert end.message == "gradient below tolerance"
    assert end.iterations < 100


@given(seed=st.integers(0, 10**6), count=st.integers(1, 5), columns=st.integers(1, 6))
def test_batched_factors_solve_and_invert(seed, count, columns):
    g, support, u, *_ = problem(seed)
    rng = np.random.default_rng(seed)
    n, e = g.n_nodes, EdgeLikelihood(nareg._solvers.system.penalty(g), support).elimination
    shifts = rng.uniform(0, 2, (n, count))
    data = np.zeros((e.indices.size, count))
    data[e.positions] = support.entries(u)[:, None]
    data[e.positions[:n]] += shifts
    assert kernels.eliminate_many(e.indptr, e.indices, data)
    which, x = rng.integers(0, count, columns), rng.standard_normal((n, columns))
    solved = np.ascontiguousarray(x[e.order])
    kernels.substitute_many(e.indptr, e.indices, data, which, solved)
    entries = kernels.selected_inverse_many(e.indptr, e.indices, data)[e.positions]
    for k in range(count):
        P = np.linalg.inv(support.matrix(u) + np.diag(shifts[:, k]))
        np.testing.assert_allclose(
            entries[:, k], np.concatenate([np.diagonal(P), P[support.i, support.j]]), rtol=1e-8, atol=1e-12
        )
        np.testing.assert_allclose(solved[:, which == k], (P @ x)[e.order][:, which == k], rtol=1e-8, atol=1e-10)
    data[:] = -1.0
    assert not kernels.eliminate_many(e.indptr, e.indices, data)


@pytest.mark.parametrize("structure", ["symmetric", "laplacian"])
@pytest.mark.parametrize("gaps", [False, True])
def test_one_step_is_the_same_design(structure, gaps, field, monkeypatch):
    g, Y, seen = field
    data = {"measurements": Y, "observed": seen if gaps else None, "noise": 1.0, "structure": structure, "shrink": 0.9}
    dense = nareg.design.edge(g, **data)
    monkeypatch.setattr("nareg.design._edge.edge.DENSE_UNKNOWNS", 0)
    sparse = nareg.design.edge(g, **data)
    assert "sparse factor" in sparse.certificate.solver
    assert sparse.status is Status.CONVERGED
    # a relative gradient of 1e-5 of the step ends both, which the likelihood alone sees to first order
    assert sparse.objective == pytest.approx(dense.objective, rel=1e-5)
    np.testing.assert_allclose(sparse.weights, dense.weights, atol=1e-3 * np.abs(dense.weights).max())


@pytest.mark.slow
def test_the_chosen_design_is_as_likely(field, monkeypatch):
    g, Y, seen = field
    dense = nareg.design.edge(g, measurements=Y, observed=seen, noise=1.0)
    monkeypatch.setattr("nareg.design._edge.edge.DENSE_UNKNOWNS", 0)
    sparse = nareg.design.edge(g, measurements=Y, observed=seen, noise=1.0)
    held_out = sparse.certificate.details["held_out_risk"]
    assert held_out == pytest.approx(dense.certificate.details["held_out_risk"], rel=1e-3)
    assert sparse.objective == pytest.approx(dense.objective, rel=1e-3)


def test_the_largest_likelihood_of_a_laplacian_is_the_dense_one(field, monkeypatch):
    g, Y, seen = field
    data = {"measurements": Y, "observed": seen, "noise": 1.0, "structure": "laplacian", "shrink": 0}
    dense = nareg.design.edge(g, **data)
    monkeypatch.setattr("nareg.design._edge.edge.DENSE_UNKNOWNS", 0)
    design = nareg.design.edge(g, **data)
    assert design.objective == pytest.approx(dense.objective, rel=1e-7)
    assert design.status is Status.CONVERGED
    S = design.matrix.toarray()
    assert (S - np.diag(np.diagonal(S)) <= 0).all()
    assert (S.sum(axis=1) >= -1e-9 * np.abs(S).max()).all()


def test_ctrl_c_keeps_a_point_no_worse_than_the_start(field, sparse, monkeypatch):
    g, Y, seen = field
    calls = []
    compute = SparseMarginal._compute

    def stop(self, u):
        calls.append(0)
        if len(calls) == 40:
            raise KeyboardInterrupt
        return compute(self, u)

    monkeypatch.setattr(SparseMarginal, "_compute", stop)
    design = nareg.design.edge(g, measurements=Y, observed=seen, noise=1.0, shrink=0.05)
    assert design.status is Status.INTERRUPTED
    assert design.objective < design.certificate.details["best_two_parameter_likelihood"]


def test_what_does_not_fit_is_refused_first(rng, sparse, monkeypatch):
    g = nareg.graphs.grid((30, 30))
    readings = {"measurements": rng.standard_normal((900, 3)), "noise": 0.5}
    little_memory(monkeypatch)
    with pytest.raises(TooLargeError, match="the edge design needs about"):
        nareg.design.edge(g, **readings)
    with pytest.raises(InputError, match="backend='scipy'"):
        nareg.design.edge(g, **readings, backend="torch")


def test_graphs_whose_factors_fill_up_are_refused(rng):
    g = nareg.graphs.erdos_renyi(2500, 0.01, rng=rng)
    with pytest.raises(TooLargeError, match=r"fill up.*nareg\.design\.blind"):
        nareg.design.edge(g, measurements=rng.standard_normal((2500, 3)), noise=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("n", [300, pytest.param(2000, marks=pytest.mark.nightly)])
def test_a_large_network_with_gaps(n, sparse):
    rng = np.random.default_rng(2)
    g = nareg.graphs.sensor(n, rng=rng)
    X = nareg.graphs.heterogeneous_field(g, 90, rng=rng).signals
    X /= np.sqrt(np.mean(X**2))
    Y = X + rng.standard_normal(X.shape)
    seen = rng.random(X.shape) < 0.9
    design = nareg.design.edge(g, measurements=np.where(seen, Y, np.nan)[:, :60], observed=seen[:, :60], noise=1.0)
    one = nareg.design.node_invariant(g, rule="oracle", signals=X[:, :60], noise=1.0)
    error = [np.sum((nareg.filters.denoise(g, d, Y[:, 60:]).x - X[:, 60:]) ** 2) for d in (design, one)]
    assert error[0] < error[1]


@pytest.mark.slow
def test_readings_that_all_stations_share_end_with_a_finite_design(sparse):
    """The likelihood wants weights without bound: the first image of a step is singular, and there is no point before it."""
    rng = np.random.default_rng(0)
    Y = 1e5 * rng.standard_normal(60) + rng.standard_normal((16, 60))
    design = nareg.design.edge(nareg.graphs.grid((4, 4)), measurements=Y, noise=1.0)
    assert np.isfinite(design.matrix.data).all()
    x = np.linalg.solve(np.eye(16) + design.matrix.toarray(), Y)
    assert np.mean((x - Y.mean(axis=0)) ** 2) < 0.5  # near the mean of the sixteen
