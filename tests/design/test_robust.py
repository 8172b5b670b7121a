"""Reliability of stations from leave-one-out prediction."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg._solvers.system import penalty
from nareg.design import node_invariant, robust_fit
from nareg.design._node import robust_fit as reliability
from nareg.design._risk.sampled import probes
from nareg.errors import InputError, SolverError
from nareg.results import Status
from tests.helpers import dense_filter

N, T = 60, 80
DRIFTING, SPIKING = 7, 31


@pytest.fixture(scope="module")
def network():
    """Graph, clean signals smooth on it, readings with noise of unequal size, its variance."""
    rng = np.random.default_rng(11)
    g = nareg.graphs.sensor(N, rng=rng)
    X = nareg.filters.denoise(g, 3.0, rng.standard_normal((N, T))).x * 5
    variance = rng.uniform(0.2, 1.0, N)
    return g, X, X + np.sqrt(variance)[:, None] * rng.standard_normal(X.shape), variance


def spoilt(Y, variance):
    """One station drifts to six standard deviations, one is 20 off in half of its readings."""
    bad = Y.copy()
    bad[DRIFTING] += 6 * np.sqrt(variance[DRIFTING]) * np.linspace(0, 1, T)
    bad[SPIKING, ::2] += 20 * np.sqrt(variance[SPIKING]) * np.where(np.arange(T // 2) % 2, 1, -1)
    return bad


@pytest.mark.parametrize("loss", ["scale", "huber"])
def test_bad_stations_are_found_and_good_ones_kept(network, loss):
    g, _, Y, variance = network
    result = robust_fit(g, 1.0, spoilt(Y, variance), noise=variance, loss=loss)
    assert result.status is Status.CONVERGED
    good = np.delete(result.reliability, [DRIFTING, SPIKING])
    assert set(np.argsort(result.reliability)[:2]) == {DRIFTING, SPIKING}
    assert max(result.reliability[[DRIFTING, SPIKING]]) < (0.35 if loss == "scale" else 0.75)
    assert good.mean() > 0.95
    assert (result.reliability > 0).all()
    assert (result.reliability <= 1).all()
    np.testing.assert_array_equal(result.data_weight, result.reliability)
    if loss == "scale":
        assert set(result.suspects()) == {DRIFTING, SPIKING}
        assert list(result.suspects()) == sorted(result.suspects(), key=lambda i: result.reliability[i])
    assert result.suspects(0.0).size == 0


def test_estimates_of_the_neighbors_are_better(network):
    """The bad station itself and its neighbors gain; the error of all is nearly that without bad stations."""
    g, X, Y, variance = network
    bad = spoilt(Y, variance)
    error = {}
    for name, readings in (("clean", Y), ("spoilt", bad)):
        first = node_invariant(g, rule="sure", measurements=readings, noise=variance)
        error[name] = np.mean((nareg.filters.denoise(g, first, readings).x - X) ** 2)
    result = robust_fit(g, first, bad, noise=variance)
    again = node_invariant(g, rule="sure", measurements=bad, noise=result.noise, data_weight=result.data_weight)
    good = result.reliability == 1
    np.testing.assert_array_equal(result.noise[good], variance[good])
    power = np.mean((bad - X) ** 2, axis=1)
    np.testing.assert_allclose(result.noise[[DRIFTING, SPIKING]], power[[DRIFTING, SPIKING]], rtol=0.05)
    repaired = np.mean((nareg.filters.denoise(g, again, bad).x - X) ** 2)
    assert error["spoilt"] > 2 * error["clean"]
    assert repaired < 1.15 * error["clean"]


def test_clean_gaussian_readings_are_left_alone(network):
    g, X, Y, variance = network
    for options in ({}, {"loss": "huber"}, {"per_reading": True}):
        result = robust_fit(g, 1.0, Y, noise=variance, **options)
        assert result.reliability.mean() > 0.98
        before, after = (np.mean((x - X) ** 2) for x in (nareg.filters.denoise(g, 1.0, Y).x, result.estimate))
        assert after < 1.02 * before
    assert np.mean(np.abs(result.readings - Y) > 1e-6) < 0.03


def test_mean_huber_weight_of_normal_numbers(rng):
    r = np.abs(rng.standard_normal(400_000))
    for k in (0.5, 1.345, 3.0):
        assert reliability._mean_huber_weight(k) == pytest.approx(np.mean(np.minimum(1, k / r)), abs=2e-3)


def test_single_spikes_are_moved_back(network, rng):
    g, X, Y, variance = network
    spikes = rng.random(Y.shape) < 0.01
    bad = Y + 20 * np.sqrt(variance)[:, None] * spikes * rng.choice([-1, 1], size=Y.shape)
    result = robust_fit(g, 1.0, bad, noise=variance, per_reading=True)
    assert result.status is Status.CONVERGED
    plain = np.mean((nareg.filters.denoise(g, 1.0, bad).x - X) ** 2)
    clean = np.mean((nareg.filters.denoise(g, 1.0, Y).x - X) ** 2)
    assert plain > 3 * clean
    assert np.mean((result.estimate - X) ** 2) < 1.15 * clean
    np.testing.assert_allclose(
        result.estimate, nareg.filters.denoise(g, 1.0, result.readings, data_weight=result.data_weight).x, rtol=1e-9
    )
    moved = np.abs(result.readings - bad) > 1e-6
    assert (moved & spikes).sum() == spikes.sum()


@pytest.mark.parametrize("options", [{}, {"per_reading": True}])
def test_order_of_stations_and_readings_does_not_matter(network, rng, options):
    g, _, Y, variance = network
    bad = spoilt(Y, variance)
    nodes, times = rng.permutation(N), rng.permutation(T)
    result = robust_fit(g, 1.0, bad, noise=variance, **options)
    L = g.laplacian()[nodes][:, nodes]
    turned = robust_fit(L, 1.0, bad[nodes][:, times], noise=variance[nodes], **options)
    np.testing.assert_allclose(turned.reliability, result.reliability[nodes], rtol=1e-6)
    np.testing.assert_allclose(turned.estimate, result.estimate[nodes][:, times], atol=1e-6)


@pytest.mark.parametrize("unit", [1e-6, 10.0, 1e6])
@pytest.mark.parametrize("data_weight", [None, "noise"])
def test_unit_of_the_readings_does_not_matter(network, unit, data_weight):
    g, _, Y, variance = network
    bad = spoilt(Y, variance)
    weights = 1.0 if data_weight is None else 1.5
    one = robust_fit(g, weights, bad, noise=variance, data_weight=data_weight, per_reading=True)
    other = robust_fit(
        g,
        weights / (unit if data_weight else 1.0),
        unit * bad,
        noise=unit**2 * variance,
        data_weight=data_weight,
        per_reading=True,
    )
    np.testing.assert_allclose(other.reliability, one.reliability, rtol=1e-6)
    np.testing.assert_allclose(other.estimate, unit * one.estimate, rtol=1e-5, atol=1e-6 * unit)


def test_prediction_is_the_one_without_the_station(network):
    """Differences and their variance against filters built without the station's reading."""
    g, _, Y, variance = network
    rounds = reliability._Rounds(penalty(g), 1.0, variance, np.ones(N), Y, 1.345, "scale", False, None)
    prediction, expected = rounds.predict(np.ones(N), Y)
    ratios = []
    for i in (0, 17, 44):
        H = dense_filter(g, np.ones(N), (np.arange(N) != i).astype(float))
        np.testing.assert_allclose(prediction[i], H[i] @ Y, rtol=1e-8)
        noise = variance[i] + H[i] ** 2 @ variance
        own = np.linalg.inv(np.diag((np.arange(N) != i).astype(float)) + g.laplacian().toarray())[i, i]
        ratios.append((expected[i] ** 2 - noise) / own)
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-6)  # one tau for all


def test_probes_agree_with_the_dense_diagonals(network, rng):
    g, _, Y, variance = network
    bad = spoilt(Y, variance)
    base = penalty(g)
    arguments = (base, 1.0, variance, np.ones(N), bad, 1.345, "scale", False)
    dense = reliability._Rounds(*arguments, None)
    sampled = reliability._Rounds(*arguments, probes(base.L, 48, rng))
    for a, b in zip(dense.filtered(np.ones(N), bad), sampled.filtered(np.ones(N), bad), strict=True):
        np.testing.assert_allclose(b, a, rtol=0.15)
    np.testing.assert_allclose(sampled.run(30).reliability, dense.run(30).reliability, atol=0.05)


def test_stations_without_neighbors_or_data_are_not_judged(network):
    g, _, Y, variance = network
    c = np.ones(N)
    c[3] = 0.0
    w = np.ones(N)
    w[5] = 0.0
    bad = Y.copy()
    bad[[3, 5]] += 100
    result = robust_fit(g, w, bad, noise=variance, data_weight=c, per_reading=True)
    np.testing.assert_array_equal(result.reliability[[3, 5]], 1.0)
    assert result.data_weight[3] == 0
    np.testing.assert_array_equal(result.readings[[3, 5]], bad[[3, 5]])
    with pytest.raises(InputError, match="every station without neighbors"):
        robust_fit(g, 0.0, Y, noise=variance)


def test_one_reading_a_station_and_repeatability(network):
    """With T = 1 only gross errors can be told; the same generator gives the same answer."""
    g, _, Y, variance = network
    y = Y[:, 0].copy()
    y[20] += 30
    result = robust_fit(g, 1.0, y, noise=variance)
    assert list(result.suspects()) == [20]
    again = robust_fit(g, 1.0, y, noise=variance, sampling=nareg.design.Sampling(n_probes=64, rng=np.random.default_rng(4)))
    np.testing.assert_array_equal(result.reliability, again.reliability)


def test_a_round_limit_is_reported(network):
    g, _, Y, variance = network
    result = robust_fit(g, 1.0, spoilt(Y, variance), noise=variance, max_rounds=1)
    assert result.status is Status.MAX_ITERATIONS
    assert result.rounds == 1


def test_designs_take_the_fit(network):
    g, _, Y, variance = network
    first = nareg.design.blind(g, measurements=Y, noise=variance, data_weight="noise", sampling=nareg.design.Sampling(folds=2))
    result = robust_fit(g, first, Y, noise=variance)
    np.testing.assert_allclose(result.data_weight, result.reliability / variance)
    nareg.filters.denoise(g, first, Y, data_weight=result.data_weight)


def test_thousands_of_nodes_without_dense_matrices(rng, monkeypatch):
    n = 4000
    g = nareg.graphs.sensor(n, rng=rng)
    X = nareg.filters.denoise(g, 3.0, rng.standard_normal((n, 40))).x * 5
    Y = X + rng.standard_normal(X.shape)
    bad = rng.choice(n, 20, replace=False)
    Y[bad] += np.linspace(0, 12, 40)
    for name in ("inv", "solve", "cholesky", "eigh", "eigvalsh"):
        monkeypatch.delattr(np.linalg, name)  # whatever is dense goes through one of them
    result = robust_fit(g, 1.0, Y, noise=1.0)
    assert result.status is Status.CONVERGED
    assert set(bad) == set(result.suspects(0.4))
    assert np.delete(result.reliability, bad).mean() > 0.99


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"noise": 0.0}, r"noise\[0\] is 0"),
        ({"noise": [1, 1, 0, 1]}, r"noise\[2\] is 0"),
        ({"noise": np.eye(4)}, "noise is a covariance"),
        ({"noise": -1.0}, "negative"),
        ({"threshold": 0}, "threshold is 0"),
        ({"loss": "tukey"}, "choose one of 'scale', 'huber'"),
        ({"max_rounds": 0}, "max_rounds is 0"),
        ({"sampling": {"n_probes": 1}}, "n_probes is 1"),
        ({"sampling": {"rng": 3}}, "rng is 3"),
        ({"data_weight": [1, 1, 1, -1]}, r"data_weight\[3\] is -1"),
        ({"data_weight": "weights"}, "data_weight is 'weights'"),
    ],
)
def test_bad_arguments_are_named(options, words):
    def judged(sampling=None, noise=1.0, **others):
        drawn = nareg.design.Sampling(**(sampling or {}))
        robust_fit(nareg.graphs.grid((4,)), 1.0, np.arange(8.0).reshape(4, 2), noise=noise, sampling=drawn, **others)

    with pytest.raises(InputError, match=words):
        judged(**options)


def test_bad_readings_are_named():
    g = nareg.graphs.grid((4,))
    with pytest.raises(InputError, match="finite"):
        robust_fit(g, 1.0, [1.0, np.nan, 2.0, 3.0], noise=1.0)
    with pytest.raises(InputError, match="transposed"):
        robust_fit(g, 1.0, np.ones((2, 4)), noise=1.0)


def test_a_failed_solve_is_not_used(network, monkeypatch):
    g, _, Y, variance = network
    result = nareg.filters.denoise(g, 1.0, Y)
    failed = nareg.results.Solution(result.x, Status.STALLED, "cg", 1, result.residuals, 1.0)
    monkeypatch.setattr(reliability, "denoise", lambda *_, **__: failed)
    with pytest.raises(SolverError, match="STALLED"):
        robust_fit(g, 1.0, Y, noise=variance)


def test_drift_on_a_real_network(us):
    """US stations at 0 dB, one in twenty drifting to five standard deviations: nearly all of the harm is undone."""
    rng = np.random.default_rng(1)
    X = us.signals
    sd = np.sqrt(np.mean(X**2))
    clean = X + sd * rng.standard_normal(X.shape)
    bad = clean.copy()
    stations = rng.choice(140, 7, replace=False)
    bad[stations] += np.linspace(0, 5, X.shape[1]) * sd

    def error(Y, noise=sd**2, data_weight=None):
        d = node_invariant(us.graph, rule="sure", measurements=Y, noise=noise, data_weight=data_weight)
        return d, np.mean((nareg.filters.denoise(us.graph, d, Y).x - X) ** 2)

    (_, without), (first, plain) = error(clean), error(bad)
    result = robust_fit(us.graph, first, bad, noise=sd**2)
    assert set(result.suspects()) == set(stations)
    assert plain > 2 * without
    assert error(bad, result.noise, result.data_weight)[1] < 1.1 * without
    untouched = robust_fit(us.graph, first, clean, noise=sd**2)
    assert error(clean, untouched.noise, untouched.data_weight)[1] < 1.02 * without


def test_a_gross_spike_does_not_drag_its_neighbors_along(rng):
    g = nareg.graphs.grid((3, 3))
    Y = 0.3 * rng.standard_normal((9, 50))
    Y[4, 7] = 1000.0
    result = robust_fit(g, 1.0, Y, noise=0.09, per_reading=True)
    others = np.delete(np.abs(result.readings - Y), 4, axis=0)
    assert others.max() < 1.0
    assert abs(result.readings[4, 7]) < 5.0
    assert np.abs(result.estimate).max() < 2.0
