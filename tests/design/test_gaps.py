"""Designs from readings with gaps: equal to those without where there are none, and close to them where there are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nareg
from nareg.design import blind, estimate_noise, node_invariant, risk
from nareg.design._node.completion import Completion, _conditional
from nareg.design._node.gap_patterns import kron_reduction, patterns
from nareg.design._node.node_invariant import ScalarCriteria
from nareg.errors import InputError
from nareg.filters import interpolate
from tests.helpers import at_night


def field(seed: int, n: int, T: int, missing: float, sigma: float = 1.0):
    """A sensor network, a smooth field whose scale differs from station to station, its readings and where they are."""
    rng = np.random.default_rng(seed)
    g = nareg.graphs.sensor(n, rng=rng)
    scale = 10 ** rng.uniform(-0.3, 0.3, n)
    L = g.laplacian().toarray()
    R = scale[:, None] * np.linalg.inv(L / np.diag(L).mean() + 0.02 * np.eye(n)) * scale
    X = np.linalg.cholesky(R) @ rng.standard_normal((n, T))
    seen = rng.random((n, T)) >= missing
    return g, R, X + sigma * rng.standard_normal((n, T)), seen


def mask_with_nan(Y: np.ndarray, seen: np.ndarray) -> np.ndarray:
    return np.where(seen, Y, np.nan)


def test_without_gaps_every_result_is_the_same_to_the_last_bit():
    g, _, Y, _ = field(0, 20, 30, 0.0)
    everything = np.ones(Y.shape, dtype=bool)
    assert np.array_equal(estimate_noise(g, Y), estimate_noise(g, Y, observed=everything))
    for rule in ("gcv", "sure", "discrepancy"):
        a, b = (node_invariant(g, rule=rule, measurements=Y, noise=1.0, observed=o) for o in (None, everything[:, 0]))
        assert np.array_equal(a.weights, b.weights)
    a, b = (blind(g, measurements=Y, observed=o) for o in (None, everything))
    assert np.array_equal(a.weights, b.weights)
    assert a.objective == b.objective
    assert "left_out" not in b.certificate.details


@given(st.integers(0, 100_000))
def test_the_reduced_graph_is_the_schur_complement_for_all_weights(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 10))
    L = nareg.graphs.erdos_renyi(n, 0.4, rng=rng).laplacian().toarray()
    seen = rng.random(n) < 0.6
    seen[rng.integers(n)] = True
    w, c = 10 ** rng.uniform(-1, 1, n), 10 ** rng.uniform(-1, 1, n)
    reduced, extension = kron_reduction(L, seen)
    # a part of the graph without a reading changes nothing: a trace of data term there makes K regular
    K = np.diag(np.where(seen, c, 1e-13)) + w[:, None] * L * w
    H = np.linalg.pinv(K)[np.ix_(seen, seen)] * c[seen]
    expected = np.linalg.inv(np.diag(c[seen]) + w[seen][:, None] * reduced * w[seen]) * c[seen]
    np.testing.assert_allclose(H, expected, atol=1e-6 * np.abs(expected).max())
    assert np.abs(reduced.sum(axis=1)).max() < 1e-10 * np.abs(L).max(initial=1.0)
    reached = extension.any(axis=1)
    np.testing.assert_allclose(extension[reached].sum(axis=1), 1.0)


@pytest.mark.slow
@given(st.integers(0, 100_000), st.booleans(), st.booleans())
def test_criteria_of_one_weight_are_those_of_the_dense_filter_of_each_time(seed, weighted, correlated):
    rng = np.random.default_rng(seed)
    n, T = 7, 5
    g = nareg.graphs.erdos_renyi(n, 0.6, rng=rng)
    L, Y = g.laplacian().toarray(), rng.standard_normal((n, T))
    seen = rng.random((n, T)) < 0.7
    seen[:2, 0] = True
    c = 10 ** rng.uniform(-0.5, 0.5, n) if weighted else np.ones(n)
    A = rng.standard_normal((n, n))
    Sigma = A @ A.T if correlated else 10 ** rng.uniform(-1, 1, n)
    criteria = ScalarCriteria(L, c, np.where(seen, Y, 0.0), seen, Sigma, rng)
    covariance = Sigma if correlated else np.diag(Sigma)
    for w0 in (0.01, 1.0, 30.0):
        residual = trace = sure = 0.0
        for t in np.flatnonzero(seen.any(axis=0)):
            s = seen[:, t]
            H = (np.linalg.pinv(np.diag(c * s) + w0 * L, rcond=1e-12) * (c * s))[np.ix_(s, s)]
            r = Y[s, t] - H @ Y[s, t]
            residual, trace = residual + r @ (c[s] * r), trace + np.trace(H)
            Ss = covariance[np.ix_(s, s)]
            sure += r @ r + 2 * np.trace(H @ Ss) - np.trace(Ss)
        m = seen.sum()
        assert criteria.gcv(w0) == pytest.approx((residual / m) / (1 - trace / m) ** 2, rel=1e-6)
        assert criteria.sure(w0) == pytest.approx(sure * n / m, rel=1e-6, abs=1e-8)


def test_what_is_missing_is_filled_by_the_gaussian_conditional(rng):
    A = rng.standard_normal((8, 8))
    model = A @ A.T + np.eye(8)
    Y = rng.standard_normal((8, 3))
    for few in (2, 6):  # from either block
        seen = np.arange(8) >= few
        mean, covariance = _conditional(model, np.linalg.inv(model), seen, Y)
        gain = model[np.ix_(~seen, seen)] @ np.linalg.inv(model[np.ix_(seen, seen)])
        np.testing.assert_allclose(mean, gain @ Y[seen], rtol=1e-9)
        np.testing.assert_allclose(covariance, model[np.ix_(~seen, ~seen)] - gain @ model[np.ix_(seen, ~seen)], rtol=1e-9)


@pytest.mark.slow
def test_the_completed_moment_is_a_fixed_point_that_converges_to_the_true_one():
    errors = []
    for T in (100, 1600):
        g, R, Y, seen = field(3, 15, T, 0.3)
        truth = R + np.eye(15)
        completion = Completion(g.laplacian().toarray(), Y, seen, np.random.default_rng(0))
        M = completion.moment()
        assert np.linalg.eigvalsh(M)[0] > -1e-10
        full = np.linalg.norm(Y @ Y.T / T - truth)
        errors.append(np.linalg.norm(M - truth))
        assert errors[-1] < 1.4 * full
        drawn = completion.draw(np.random.default_rng(1))
        assert np.array_equal(drawn[seen], Y[seen])
        assert np.linalg.norm(drawn @ drawn.T / T - M) < 0.1 * np.linalg.norm(M)
    assert errors[1] < 0.5 * errors[0]
    everything = np.ones(Y.shape, dtype=bool)
    same = Completion(g.laplacian().toarray(), Y, everything, np.random.default_rng(0))
    np.testing.assert_allclose(same.moment(), Y @ Y.T / T, rtol=1e-12)
    np.testing.assert_allclose(same.shared_moment(np.arange(T)), Y @ Y.T / T, rtol=1e-10, atol=1e-12)


def test_shared_moments_have_no_bias():
    g, _, Y, _ = field(4, 10, 60, 0.0)
    rng = np.random.default_rng(0)
    L, total = g.laplacian().toarray(), np.zeros((10, 10))
    draws = 400
    for _ in range(draws):
        seen = rng.random(Y.shape) < 0.6
        total += Completion(L, Y, seen, rng).shared_moment(np.arange(seen.any(axis=0).sum()))
    full = Y @ Y.T / 60
    assert np.abs(total / draws - full).max() < 0.03 * np.abs(full).max()


@pytest.mark.slow
@pytest.mark.parametrize("n_fields", [1, *at_night([3])])
def test_with_more_times_a_design_with_gaps_approaches_the_one_without(n_fields):
    losses = []
    for T in (60, 600):
        ratio = []
        for seed in range(n_fields):
            g, R, Y, seen = field(seed, 25, T, 0.3)
            full = blind(g, measurements=Y, noise=1.0)
            gaps = blind(g, measurements=mask_with_nan(Y, seen), observed=seen, noise=1.0)
            at = [risk(g, d, second_moment=R, noise=1.0).mse for d in (full, gaps)]
            one = risk(g, node_invariant(g, rule="oracle", second_moment=R, noise=1.0), second_moment=R, noise=1.0).mse
            assert at[1] < 1.03 * one
            ratio.append(at[1] / at[0])
        losses.append(np.mean(ratio) - 1)
    assert losses[1] < 0.01
    assert losses[1] < max(losses[0], 0.01)


def test_one_weight_with_gaps_costs_what_one_weight_without_costs():
    g, R, Y, seen = field(5, 30, 300, 0.5)
    for rule in ("gcv", "sure"):
        full = node_invariant(g, rule=rule, measurements=Y, noise=1.0)
        gaps = node_invariant(g, rule=rule, measurements=mask_with_nan(Y, seen), observed=seen, noise=1.0)
        at = [risk(g, d, second_moment=R, noise=1.0).mse for d in (full, gaps)]
        assert at[1] < 1.05 * at[0]


def test_a_weight_at_the_end_of_its_search_is_named_with_gaps_as_without():
    g, _, Y, seen = field(8, 15, 20, 0.3)
    for rule in ("gcv", "sure"):
        d = node_invariant(g, rule=rule, measurements=Y, observed=seen, noise=1.0)
        assert d.certificate.details["at_search_bound"] is False
        assert d.certificate.details["missing"] == (~seen).sum()
    # the same reading everywhere: no weight is too large
    for observed in (seen, None):
        d = node_invariant(g, rule="sure", measurements=np.ones(Y.shape), observed=observed, noise=1.0)
        assert d.certificate.details["at_search_bound"] is True


def test_readings_with_gaps_whose_squares_underflow_are_refused():
    g, _, Y, seen = field(8, 15, 20, 0.3)
    for rule in ("gcv", "sure"):
        with pytest.raises(InputError, match=r"the largest value of measurements is .* underflows"):
            node_invariant(g, rule=rule, measurements=1e-160 * Y, observed=seen, noise=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gcv", "differences"])
def test_noise_of_each_station_with_gaps(method):
    rng = np.random.default_rng(0)
    g = nareg.graphs.grid((6, 6))
    sigma = np.where(np.arange(36) < 18, 0.5, 2.0)
    y = 20 * rng.standard_normal(400) + sigma[:, None] * rng.standard_normal((36, 400))
    seen = rng.random(y.shape) < 0.7
    seen[20] = False  # dead
    seen[21, 1:] = False  # one reading
    v = np.sqrt(estimate_noise(g, mask_with_nan(y, seen), method=method, observed=seen))
    rest = np.setdiff1d(np.arange(18, 36), [20, 21])
    assert abs(v[:18].mean() - 0.5) < 0.12
    assert abs(v[rest].mean() - 2.0) < 0.2
    np.testing.assert_allclose(v[[20, 21]] ** 2, np.median(np.delete(v, [20, 21]) ** 2))


@pytest.mark.slow
def test_noise_of_stations_with_an_offset_and_a_constant_one(rng):
    """The mean of a station is that of all its readings; a stuck station has no noise and disturbs nobody."""
    g = nareg.graphs.grid((5, 5))
    y = 10 * rng.standard_normal(300) + rng.standard_normal((25, 300)) + 100 * rng.standard_normal((25, 1))
    seen = rng.random(y.shape) < 0.8
    v = estimate_noise(g, mask_with_nan(y, seen), observed=seen)
    assert abs(np.sqrt(v).mean() - 1.0) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"data_weight": "noise"}, {"groups": np.arange(24) // 4}, *at_night([{"solver": "sampled"}])]
)
def test_a_station_that_never_reads_is_left_out_named_and_filled(options, recwarn):
    g, _, Y, seen = field(6, 24, 80, 0.1)
    named = nareg.Graph(g.adjacency, coordinates=g.coordinates, names=[f"S{i}" for i in range(24)])
    seen[[3, 11]] = False
    design = blind(named, measurements=mask_with_nan(Y, seen), observed=seen, noise=np.ones(24), **options)
    assert len(design.certificate.details["left_out"]) == 2
    assert "S3" in design.certificate.details["left_out"][0]
    assert "S11" in design.summary()
    assert design.weights.shape == (24,)
    assert np.isfinite(design.weights).all()
    if "groups" in options:
        assert design.weights[3] == design.weights[2]
    solution = interpolate(named, design, mask_with_nan(Y, seen), seen)
    assert solution.status.ok
    dead = solution.x[[3, 11]]
    assert np.sqrt(np.mean((dead - Y[[3, 11]]) ** 2)) < np.sqrt(np.mean(Y[[3, 11]] ** 2))
    if options.get("data_weight") == "noise":
        np.testing.assert_allclose(design.data_weight, 1.0)
    live = np.flatnonzero(seen.any(axis=1))
    reduced, _ = kron_reduction(g.laplacian().toarray(), seen.any(axis=1))
    alone = blind(reduced, measurements=mask_with_nan(Y, seen)[live], observed=seen[live], noise=1.0, **{
        name: value if np.ndim(value) == 0 else value[live] for name, value in options.items()
    })  # fmt: skip
    np.testing.assert_allclose(design.weights[live], alone.weights, rtol=1e-3)


def test_a_part_of_the_network_without_readings_does_not_stop_the_design():
    a = nareg.graphs.grid((4, 4)).adjacency.toarray()
    g = nareg.Graph(np.block([[a, np.zeros((16, 2))], [np.zeros((2, 16)), np.array([[0, 1.0], [1.0, 0]])]]))
    rng = np.random.default_rng(0)
    Y = 10 * rng.standard_normal(40) + rng.standard_normal((18, 40))
    seen = np.ones(Y.shape, dtype=bool)
    seen[16:] = False
    design = blind(g, measurements=Y, observed=seen, noise=1.0)
    assert (design.weights[16:] > 0).all()
    with pytest.raises(nareg.errors.SingularSystemError, match="node 16"):
        interpolate(g, design, Y, seen)


def test_many_nodes_choose_one_weight_on_some_of_the_patterns(rng, monkeypatch):
    g, _, Y, seen = field(7, 20, 60, 0.3)
    exact = node_invariant(g, rule="gcv", measurements=Y, observed=seen)
    monkeypatch.setattr("nareg.design._node.node_invariant.WORK", 20.0**3 * 20)
    some = node_invariant(g, rule="gcv", measurements=Y, observed=seen, rng=rng)
    assert some.weights[0] != exact.weights[0]
    assert abs(np.log(some.weights[0] / exact.weights[0])) < 1.0


def test_patterns_are_the_different_columns():
    seen = np.array([[1, 1, 0, 1, 0], [1, 1, 1, 1, 0], [0, 0, 1, 0, 0]], dtype=bool)
    result = [(p.seen.tolist(), p.columns.tolist()) for p in patterns(seen)]
    assert result == [([True, True, False], [0, 1, 3]), ([False, True, True], [2])]


G = nareg.graphs.grid((3, 3))
Y9 = np.random.default_rng(0).standard_normal((9, 12))
GAP = np.ones((9, 12), dtype=bool)
GAP[2, 3] = False
NAN = np.where(GAP, Y9, np.nan)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: blind(G, measurements=NAN, noise=0.1), r"measurements\[2, 3\] is nan.*observed=numpy.isfinite"),
        (lambda: estimate_noise(G, NAN), r"observed=numpy.isfinite"),
        (lambda: node_invariant(G, rule="gcv", measurements=NAN), r"observed=numpy.isfinite"),
        (lambda: blind(G, measurements=NAN, observed=~GAP), "observed is True there: set it to False"),
        (lambda: blind(G, measurements=Y9, observed=GAP.T), r"observed has shape \(12, 9\)"),
        (lambda: blind(G, measurements=Y9, observed=GAP.astype(int)), "observed has dtype int64"),
        (lambda: blind(G, measurements=Y9, observed=np.zeros(9, dtype=bool)), "marks nothing as observed"),
        (lambda: blind(G, measurements=Y9, observed=np.arange(9) == 2), "readings of one station only"),
        (lambda: blind(G, measurements=NAN, observed=GAP, noise=1e6), "no more power than noise"),
        (lambda: node_invariant(G, rule="l-curve", measurements=NAN, observed=GAP), "takes readings without gaps"),
        (lambda: node_invariant(G, rule="oracle", signals=Y9, noise=1.0, observed=GAP), "pass measurements too"),
        (lambda: node_invariant(G, rule="gcv", measurements=Y9, observed=np.eye(9, 12) > 0), "no two connected stations"),
        (lambda: estimate_noise(G, Y9, observed=np.eye(9, 12) > 0), "two readings"),
        (lambda: estimate_noise(G, np.ones((9, 12)), observed=GAP), "do not vary"),
        (lambda: blind(G, measurements=Y9, observed=GAP, noise=1.0, groups=[1, 2]), "groups has shape"),
    ],
)
def test_bad_masks(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_gaps_on_a_network_too_large_for_dense_matrices_are_refused():
    g = nareg.graphs.grid((60, 60))
    Y = np.random.default_rng(0).standard_normal((3600, 3))
    seen = np.arange(3600) != 7
    for call in (
        lambda: blind(g, measurements=Y, observed=seen, noise=0.1),
        lambda: node_invariant(g, rule="gcv", measurements=Y, observed=seen),
        lambda: estimate_noise(g, Y, observed=seen, method="gcv"),
    ):
        with pytest.raises(InputError, match="limit of 3000 nodes"):
            call()
    assert np.isfinite(estimate_noise(g, Y, observed=seen)).all()
