from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.design import Sampling, blind, estimate_noise, exact, node_invariant, risk
from nareg.errors import InputError
from tests.helpers import dense_risk, half_split


@pytest.fixture(scope="module")
def split():
    us = nareg.datasets.load("us-weather").complete()
    rng = np.random.default_rng(11)
    train, test = half_split(us.signals, rng)
    power = float(np.mean(train**2))
    return us.graph, train, test, power, rng


@pytest.mark.parametrize(
    ("db", "published", "best", "limit"), [(-10, 0.520, 0.368, 0.209), (0, 0.126, 0.126, 0.068), (10, 0.052, 0.041, 0.024)]
)
@pytest.mark.slow
def test_us_network_scalars_and_limit_at_equal_noise(us, db, published, best, limit):
    """The theory page's table, one split there, here the mean over 20 random half splits."""
    result = []
    for seed in range(20):
        train, test = half_split(us.signals, np.random.default_rng(seed))
        noise = float(np.mean(train**2)) / 10 ** (db / 10)
        rules = [node_invariant(us.graph, rule=rule, signals=train, noise=noise) for rule in ("chen-liu", "oracle")]
        measured = [risk(us.graph, d, signals=test, noise=noise) for d in rules]
        # the limit of a filter that learns from the training days
        R = train @ train.T / train.shape[1]
        wiener = R @ np.linalg.inv(R + noise * np.eye(140))
        learned = sum(dense_risk(wiener, test @ test.T / test.shape[1], noise * np.eye(140))) * test.shape[1] / np.sum(test**2)
        result.append([*(r.nmse for r in measured), learned])
    np.testing.assert_allclose(np.mean(result, axis=0), [published, best, limit], rtol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("db", "ratio"), [(-10, 0.327 / 0.368), (0, 0.116 / 0.126), (10, 0.036 / 0.041)])
def test_exact_beats_the_best_single_weight_on_the_us_network(split, db, ratio):
    g, train, test, power, _ = split
    noise = power / 10 ** (db / 10)
    one = risk(g, node_invariant(g, rule="oracle", signals=train, noise=noise), signals=test, noise=noise).nmse
    d = exact(g, signals=train, noise=noise)
    assert risk(g, d, signals=test, noise=noise).nmse / one == pytest.approx(ratio, abs=0.03)
    assert d.status.ok
    assert d.certificate.gradient_norm < 1e-4


@pytest.mark.slow
def test_us_network_with_unequal_noise_the_weighted_fit_wins(split):
    g, train, test, power, rng = split
    shape = 10 ** rng.uniform(-1, 1, 140)
    noise = power * shape / shape.mean()
    plain = exact(g, signals=train, noise=noise)
    one = node_invariant(g, rule="oracle", signals=train, noise=noise, data_weight="noise")
    best = exact(g, signals=train, noise=noise, data_weight="noise")
    values = [risk(g, d, signals=test, noise=noise).nmse for d in (best, one, plain)]
    assert values == sorted(values)
    assert values[1] < 0.8 * values[2]


@pytest.mark.slow
def test_exact_is_no_worse_than_any_start_and_deterministic(split, rng):
    g, train, _, power, _ = split
    start = rng.random(140) * 3
    d = exact(g, signals=train, noise=power, starts=[start])
    assert d.objective <= d.certificate.details["best_scalar_risk"]
    assert d.objective == pytest.approx(min(d.certificate.details["starts"].values()))
    assert d.objective <= risk(g, start, signals=train, noise=power).mse
    np.testing.assert_array_equal(d.weights, exact(g, signals=train, noise=power, starts=[start]).weights)


def test_exact_with_unobserved_nodes_in_the_fit(split):
    g, train, _, power, _ = split
    c = np.ones(140)
    c[::4] = 0.0
    d = exact(g, signals=train, noise=power, data_weight=c)
    scalar = node_invariant(g, rule="oracle", signals=train, noise=power)
    assert d.objective < risk(g, scalar, signals=train, noise=power, data_weight=c).mse


def test_interrupt_keeps_the_best_weights(split):
    g, train, _, power, _ = split

    def impatient(now: nareg.progress.Progress) -> None:
        if now.step == 5:
            raise KeyboardInterrupt

    d = exact(g, signals=train, noise=power, progress=impatient)
    assert d.status.name == "INTERRUPTED"
    assert not d.status.ok
    assert d.objective < d.certificate.details["best_scalar_risk"]


@pytest.mark.slow
def test_blind_keeps_up_with_one_weight_and_beats_it_with_enough_readings(split):
    """Against the single weight that SURE picks from the same noisy readings."""
    g, train, test, power, _ = split
    rng = np.random.default_rng(6)
    Y = train + np.sqrt(power) * rng.standard_normal(train.shape)
    for columns, factor in ((5, 1.01), (20, 1.01), (60, 1.01), (182, 0.985)):
        chosen = Y[:, rng.permutation(182)[:columns]]
        one, many = node_invariant(g, rule="sure", measurements=chosen, noise=power), blind(g, measurements=chosen, noise=power)
        assert risk(g, many, signals=test, noise=power).nmse < factor * risk(g, one, signals=test, noise=power).nmse, columns


def test_blind_objective_is_sure_on_all_readings(split):
    g, train, _, power, rng = split
    Y = train + np.sqrt(power) * rng.standard_normal(train.shape)
    d = blind(g, measurements=Y, noise=power)
    H = np.linalg.inv(np.eye(140) + d.matrix.toarray())
    sure = np.mean(np.sum((Y - H @ Y) ** 2, axis=0)) + 2 * power * np.trace(H) - 140 * power
    assert d.objective == pytest.approx(sure, rel=1e-9)


@pytest.mark.slow
def test_blind_without_noise_level_estimates_it(split):
    g, train, test, power, rng = split
    Y = train + np.sqrt(power) * rng.standard_normal(train.shape)
    d = blind(g, measurements=Y)
    assert d.certificate.details["noise_estimated"]
    assert d.certificate.details["noise_power"] == pytest.approx(140 * power, rel=0.15)
    one = node_invariant(g, rule="oracle", signals=train, noise=power)
    assert risk(g, d, signals=test, noise=power).nmse < 1.02 * risk(g, one, signals=test, noise=power).nmse


@pytest.mark.parametrize("T", [1, 2, 3])
def test_blind_with_next_to_no_readings_keeps_one_weight(split, T):
    g, train, _, power, rng = split
    d = blind(g, measurements=train[:, :T] + np.sqrt(power / 10) * rng.standard_normal((140, T)), noise=power / 10)
    assert d.status.name == "NO_IMPROVEMENT"
    np.testing.assert_allclose(d.weights, d.weights[0])


@pytest.mark.parametrize("method", ["gcv", "differences"])
def test_noise_estimate_per_station_on_a_smooth_field(method):
    rng = np.random.default_rng(4)
    g = nareg.graphs.sensor(120, rng=rng)
    field = 5 * np.sin(3 * g.coordinates @ rng.standard_normal((2, 300)))
    sigma2 = 10 ** rng.uniform(-1, 1, 120)
    Y = field + np.sqrt(sigma2)[:, None] * rng.standard_normal((120, 300))
    result = estimate_noise(g, Y, method=method)
    assert np.corrcoef(np.log(result), np.log(sigma2))[0, 1] > 0.9
    assert 0.8 < np.median(result / sigma2) < 1.25


def test_differences_resist_spikes_and_gcv_does_not(rng):
    g = nareg.graphs.sensor(60, rng=rng)
    Y = rng.standard_normal((60, 400))
    Y[:, ::50] += 100 * rng.standard_normal((60, 8))
    assert np.median(estimate_noise(g, Y, method="differences")) < 2
    assert np.median(estimate_noise(g, Y, method="gcv")) > 50


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda g: estimate_noise(g, np.ones((9, 1))), "one column"),
        (lambda g: estimate_noise(nareg.Graph(np.zeros((9, 9))), np.ones((9, 3))), "no edges"),
        (lambda g: estimate_noise(g, np.ones((9, 3)), method="mad"), "choose one of"),
        (lambda g: blind(g, measurements=np.zeros((9, 5)), noise=1.0), "no more power than noise"),
        (lambda g: blind(g, measurements=np.ones((9, 5)), noise=-1.0), r"noise\[0\] is -1"),
        (lambda g: blind(g, measurements=np.ones((9, 5)), noise=0.1, sampling=Sampling(rng=7)), "numpy generator"),
        (lambda g: blind(g, measurements=np.ones((9, 5)), noise=0.1, sampling=Sampling(folds=0)), "folds is 0"),
        (lambda g: exact(g, signals=np.ones(9), noise=1.0, starts=np.ones(8)), "starts has shape"),
    ],
)
def test_bad_arguments_are_named(call, words):
    with pytest.raises(InputError, match=words):
        call(nareg.graphs.grid((3, 3)))
