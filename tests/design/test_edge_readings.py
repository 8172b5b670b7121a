"""Edge weights from noisy readings: the marginal likelihood against its definition, the path, gaps, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import nareg
from nareg.design._edge.marginal import MarginalObjective, patterns
from nareg.design._edge.support import support_of
from nareg.design._risk.descent import Groups
from nareg.errors import InputError
from nareg.results import Status


def problem(seed, *, gaps=True, groups=False, T=7):
    """A small graph, a point inside the cone, readings, masks and noise variances."""
    rng = np.random.default_rng(seed)
    g = nareg.graphs.erdos_renyi(int(rng.integers(3, 9)), 0.6, rng=rng)
    assume(g.n_edges)
    n = g.n_nodes
    base = nareg._solvers.system.penalty(g)
    support = support_of(base, Groups(rng.integers(0, 2, n) if groups else None, n))
    u = support.of_operator(base.L) * rng.uniform(0.5, 2, support.size) + 0.3 * support.identity
    seen = rng.random((n, T)) < 0.7 if gaps else None
    variance = 10 ** rng.uniform(-1, 1, n)
    Y = rng.standard_normal((n, T)) if seen is None else np.where(seen, rng.standard_normal((n, T)), 0.0)
    return g, support, u, Y, seen, variance


def deviance(Theta, Y, seen, variance):
    """Twice the negative log-likelihood of each time, without the constants that depend on the noise alone."""
    out = []
    for t in range(Y.shape[1]):
        at = np.ones(len(Y), dtype=bool) if seen is None else seen[:, t]
        if at.any():
            V = np.linalg.inv(Theta)[np.ix_(at, at)] + np.diag(variance[at])
            fixed = np.log(variance[at]).sum() + float(np.sum(Y[at, t] ** 2 / variance[at]))
            out.append(np.linalg.slogdet(V)[1] + Y[at, t] @ np.linalg.solve(V, Y[at, t]) - fixed)
    return np.array(out)


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), gaps=st.booleans(), groups=st.booleans(), wide=st.booleans())
def test_value_and_slope_are_those_of_the_likelihood(seed, gaps, groups, wide):
    _, support, u, Y, seen, variance = problem(seed, gaps=gaps, groups=groups, T=25 if wide else 4)
    readings = patterns(Y, seen, 1 / variance)
    if not readings:
        return
    f = MarginalObjective.of(support, 1 / variance, readings)
    point = f.at(u)
    expected = deviance(support.matrix(u), Y, seen, variance)
    assert point.value == pytest.approx(expected.mean(), rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(np.sort(f.deviances(u, readings)), np.sort(expected), rtol=1e-8, atol=1e-8)
    slope, h = f.slope(point), 1e-5
    for k in range(support.size):
        e = h * (np.arange(support.size) == k)
        numeric = (f.at(u + e).value - f.at(u - e).value) / (2 * h)
        assert slope[k] == pytest.approx(numeric, rel=1e-4, abs=1e-5 * np.abs(slope).max() + 1e-7)


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), groups=st.booleans())
def test_the_hessian_without_gaps_is_the_slopes_derivative(seed, groups):
    _, support, u, Y, _, variance = problem(seed, gaps=False, groups=groups)
    f = MarginalObjective.of(support, 1 / variance, patterns(Y, None, 1 / variance))
    lower = f.curvature(f.at(u))[1]
    whole = np.tril(lower) + np.tril(lower, -1).T
    h = 1e-6
    numeric = np.array([
        (f.slope(f.at(u + h * e)) - f.slope(f.at(u - h * e))) / (2 * h) for e in np.eye(support.size)
    ])  # fmt: skip
    np.testing.assert_allclose(whole, numeric, atol=1e-5 * np.abs(numeric).max())


@given(seed=st.integers(0, 10**6))
def test_the_expected_hessian_is_positive_semidefinite_and_less_than_that_of_clean_signals(seed):
    _, support, u, Y, seen, variance = problem(seed)
    readings = patterns(Y, seen, 1 / variance)
    if not readings:
        return
    f = MarginalObjective.of(support, 1 / variance, readings)
    point = f.at(u)
    noisy, clean = f.gauss_newton(point), support.products((point.P, point.P))
    for lower in (noisy, clean - noisy):
        assert np.linalg.eigvalsh(np.tril(lower) + np.tril(lower, -1).T).min() >= -1e-9 * np.abs(clean).max()


@pytest.fixture(scope="module")
def field():
    """Readings of a field whose edges differ: twenty strong ones among weak ones."""
    rng = np.random.default_rng(3)
    g = nareg.graphs.grid((5, 6))
    n = g.n_nodes
    support = support_of(nareg._solvers.system.penalty(g), Groups(None, n))
    u = 0.05 * support.identity + (1 - support.identity) * 10 ** rng.uniform(-1.5, 1.5, support.size)
    clean = np.linalg.solve(np.linalg.cholesky(support.matrix(u)).T, rng.standard_normal((n, 500)))
    return g, support.matrix(u), clean, clean[:, :120] + rng.standard_normal((n, 120))


def risk(design, truth, n):
    """Expected squared error under the true model."""
    H = np.linalg.inv(np.eye(n) + design.matrix.toarray())
    error = H - np.eye(n)
    return float(np.sum((error @ np.linalg.inv(truth)) * error) + np.sum(H**2))


def test_edges_are_found_from_readings_alone(field):
    g, truth, clean, Y = field
    n = g.n_nodes
    design = nareg.design.edge(g, measurements=Y, noise=1.0)
    single = nareg.design.node_invariant(g, rule="oracle", signals=clean, noise=1.0)
    wiener = np.linalg.inv(np.eye(n) + truth)
    gap = (risk(design, truth, n) - float(np.trace(wiener))) / (risk(single, truth, n) - float(np.trace(wiener)))
    assert design.status is Status.CONVERGED
    assert gap < 0.5  # of what the single weight leaves to the filter that knows the model
    details = design.certificate.details
    assert details["held_out_risk"] < details["held_out_scalar_risk"] - details["held_out_error"]
    blind = nareg.design.blind(g, measurements=Y, noise=1.0)
    assert risk(design, truth, n) < risk(blind, truth, n)


@pytest.mark.parametrize("structure", ["symmetric", "laplacian"])
def test_shrinkage_goes_from_the_likelihood_to_two_parameters(structure, field):
    g, _, _, Y = field
    values = [
        nareg.design.edge(g, measurements=Y, noise=1.0, structure=structure, shrink=a).objective for a in (0.0, 0.05, 0.3, 1.0)
    ]
    assert np.all(np.diff(values) > 0)
    most = nareg.design.edge(g, measurements=Y, noise=1.0, structure=structure, shrink=1.0)
    assert most.status is Status.NO_IMPROVEMENT
    L = g.laplacian().toarray()
    S = most.matrix.toarray()
    beta = -S[0, 1] / -L[0, 1]
    np.testing.assert_allclose(S - beta * L, (S - beta * L)[0, 0] * np.eye(g.n_nodes), atol=1e-9 * np.abs(S).max())
    if structure == "laplacian":
        least = nareg.design.edge(g, measurements=Y, noise=1.0, structure=structure, shrink=0.0).matrix.toarray()
        assert (least - np.diag(np.diagonal(least)) <= 0).all()
        assert (least.sum(axis=1) >= -1e-9 * np.abs(least).max()).all()


def test_the_unit_and_the_order_of_stations_do_not_matter(field, rng):
    g, _, _, Y = field
    Y = Y[:, :40]
    design = nareg.design.edge(g, measurements=Y, noise=1.0, shrink=0.2)
    scaled = nareg.design.edge(g, measurements=1e3 * Y, noise=1e6, shrink=0.2)
    np.testing.assert_allclose(scaled.matrix.toarray(), design.matrix.toarray(), atol=1e-5 * np.abs(design.weights).max())
    order = rng.permutation(g.n_nodes)
    moved = nareg.design.edge(g.subgraph(order), measurements=Y[order], noise=1.0, shrink=0.2)
    expected = design.matrix.toarray()[np.ix_(order, order)]
    np.testing.assert_allclose(moved.matrix.toarray(), expected, atol=1e-5 * np.abs(design.weights).max())


@pytest.mark.slow
def test_gaps_and_silent_stations(field, rng):
    g, truth, _, Y = field
    n = g.n_nodes
    whole = nareg.design.edge(g, measurements=Y, noise=1.0, shrink=0.1)
    none = nareg.design.edge(g, measurements=Y, observed=np.ones_like(Y, dtype=bool), noise=1.0, shrink=0.1)
    np.testing.assert_array_equal(none.matrix.toarray(), whole.matrix.toarray())
    seen = rng.random(Y.shape) < 0.8
    seen[7] = False
    design = nareg.design.edge(g, measurements=np.where(seen, Y, np.nan), observed=seen, noise=1.0)
    single = nareg.design.node_invariant(g, rule="sure", measurements=Y, noise=1.0)
    assert design.status is Status.CONVERGED
    assert risk(design, truth, n) < risk(single, truth, n)
    estimate = nareg.filters.interpolate(g, design, np.where(seen, Y, 0.0)[:, :3], seen[:, :3])
    assert np.isfinite(estimate.x).all()


def test_groups_share_weights_and_noise_may_be_estimated(field):
    g, _, _, Y = field
    labels = np.arange(g.n_nodes) // 10
    design = nareg.design.edge(g, measurements=Y, noise=nareg.design.estimate_noise(g, Y), groups=labels)
    details = design.certificate.details
    assert details["degrees_of_freedom"] == support_of(nareg._solvers.system.penalty(g), Groups(labels, g.n_nodes)).size


@pytest.mark.slow
@pytest.mark.parametrize("silent", [[0, 3, 3, 3, 3, 50], [110] * 600])
def test_times_without_a_reading_tell_nothing(silent, field):
    g, _, _, Y = field
    seen = np.random.default_rng(4).random(Y.shape) < 0.9
    wanted = nareg.design.edge(g, measurements=Y, observed=seen, noise=1.0)
    design = nareg.design.edge(
        g, measurements=np.insert(Y, silent, 7.0, axis=1), observed=np.insert(seen, silent, False, axis=1), noise=1.0
    )
    np.testing.assert_allclose(design.matrix.toarray(), wanted.matrix.toarray(), rtol=1e-9, atol=1e-12)


def test_unequal_noise_enters_the_data_term(field, rng):
    g, truth, clean, _ = field
    n = g.n_nodes
    variance = 10 ** rng.uniform(-1, 1, n)
    Y = clean[:, :120] + np.sqrt(variance)[:, None] * rng.standard_normal((n, 120))
    design = nareg.design.edge(g, measurements=Y, noise=variance, data_weight="noise")
    H = np.linalg.solve(np.diag(1 / variance) + design.matrix.toarray(), np.diag(1 / variance))
    wiener = np.linalg.solve(np.diag(1 / variance) + truth, np.diag(1 / variance))

    def error(H):
        left = H - np.eye(n)
        return float(np.sum((left @ np.linalg.inv(truth)) * left) + np.sum(H**2 * variance))

    assert error(H) < 1.25 * error(wiener)


def test_ctrl_c_keeps_the_best_so_far(field):
    g, _, _, Y = field

    def stop_at(step):
        def progress(report):
            if report.step == step:
                raise KeyboardInterrupt

        return progress

    early = nareg.design.edge(g, measurements=Y, noise=1.0, progress=stop_at(3))
    assert early.status is Status.INTERRUPTED
    late = nareg.design.edge(g, measurements=Y, noise=1.0, shrink=0.02, progress=stop_at(6))
    assert late.status is Status.INTERRUPTED
    assert late.objective < early.objective


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"signals": np.ones((30, 2))}, InputError, "beside clean signals"),
        ({"criterion": "risk"}, InputError, "criterion is 'risk' but measurements are noisy"),
        ({"noise": None}, InputError, r"noise is None.*nareg.design.estimate_noise"),
        ({"noise": np.eye(30)}, InputError, "need variances"),
        ({"noise": np.where(np.arange(30) == 4, 0.0, 1.0)}, InputError, r"noise\[4\] is 0"),
        ({"noise": 1e9}, InputError, "no more power than noise"),
        ({"backend": "torch"}, InputError, "sparse factors"),
        ({"measurements": None, "observed": np.ones((30, 2), bool), "signals": np.ones((30, 2))}, InputError, "without measur"),
        ({"data_weight": -np.ones(30)}, InputError, "negative"),
    ],
)
def test_what_cannot_be_designed_is_refused(change, error, words, field):
    g, _, _, Y = field
    with pytest.raises(error, match=words):
        nareg.design.edge(g, **{"measurements": Y, "noise": 1.0, **change})
