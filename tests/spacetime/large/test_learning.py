"""Parameters of simulated readings are found, whatever share of the variance is noise."""

from __future__ import annotations

import numpy as np
import pytest

from nareg.spacetime import fit
from nareg.spacetime._sparse import fitting
from nareg.spacetime._sparse.field import FieldFamily
from nareg.spacetime._sparse.learning import Window, learn, shrunk_noise
from nareg.spacetime._sparse.system import Process
from tests.helpers import at_night
from tests.spacetime.large.reference import dense, process, readings

RNG = np.random.default_rng


def fitted(seed=0, T=150, noise=0.5, gaps=0.2, smoothness=2, fixed=False, **options):
    graph, truth = process(seed, n=150, noise=noise, smoothness=smoothness, **options)
    _, y = readings(truth, T, RNG(seed), gaps)
    start = Process(FieldFamily(graph.adjacency, smoothness).at(2.0), 0.7, 1.0, truth.noise if fixed else np.full(150, noise))
    return truth, y, learn([Window(y, 1)], start, iterations=60, fixed_noise=fixed)


@pytest.mark.slow
@pytest.mark.parametrize("smoothness", [2, *at_night([1])])
def test_the_process_is_found(smoothness):
    truth, y, done = fitted(smoothness=smoothness)
    found = done.process
    assert done.converged
    assert np.arctanh(found.rho) == pytest.approx(np.arctanh(truth.rho), abs=0.1)
    assert np.log(found.variance) == pytest.approx(np.log(truth.variance), abs=0.25)
    assert np.log(found.field.reach) == pytest.approx(np.log(truth.field.reach), abs=0.25)
    assert np.log(found.noise / truth.noise).std() < 0.25
    assert abs(np.log(found.noise / truth.noise).mean()) < 0.1
    assert dense(found, y).log_likelihood > dense(truth, y).log_likelihood


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.5, 10.0, *at_night([0.05])])
def test_the_likelihood_is_that_of_the_true_process_or_higher(noise):
    """With noise of five times the field's variance the expected sums need their control variate."""
    truth, y, done = fitted(noise=noise, fixed=True)
    assert dense(done.process, y).log_likelihood > dense(truth, y).log_likelihood - 2.0


@pytest.mark.slow
def test_two_windows_count_as_two_records():
    graph, truth = process(3, n=100)
    _, y = readings(truth, 160, RNG(3), 0.0)
    start = Process(FieldFamily(graph.adjacency, 2).at(2.0), 0.7, 1.0, np.full(100, 0.5))
    found = learn([Window(y[:, :70], 1), Window(y[:, 90:], 2)], start, iterations=60, fixed_noise=False).process
    assert found.rho == pytest.approx(truth.rho, abs=0.03)
    assert np.log(found.variance) == pytest.approx(np.log(truth.variance), abs=0.3)


@pytest.mark.slow
def test_the_same_seeds_give_the_same_process():
    one, two = (fitted(T=40)[2].process for _ in range(2))
    assert (one.rho, one.variance, one.field.reach) == (two.rho, two.variance, two.field.reach)
    np.testing.assert_array_equal(one.noise, two.noise)


def test_known_noise_stays():
    truth, _, done = fitted(T=30, fixed=True)
    np.testing.assert_array_equal(done.process.noise, truth.noise)


def test_noise_is_drawn_to_the_networks():
    counts, squares = np.array([0, 5, 10_000]), np.array([0.0, 5 * 4.0, 10_000 * 4.0])
    noise = shrunk_noise(counts, squares, np.ones(3))
    assert noise[2] == pytest.approx(4.0, rel=0.01)
    assert noise[1] < noise[2]
    assert noise[0] == pytest.approx(np.exp(np.log(noise).mean()), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "part"), [(120, 80), *at_night([(400, 250)])])
def test_a_part_of_a_network_stands_for_it(n, part, monkeypatch):
    graph, truth = process(2, n=n)
    _, y = readings(truth, 160, RNG(2), 0.1)
    monkeypatch.setattr(fitting, "STATIONS", part)
    model = fit(graph, y, engine="sparse", rng=RNG(0))
    learned = model.process
    assert learned.field.n == n
    assert learned.rho == pytest.approx(truth.rho, abs=0.03)
    assert np.log(learned.variance * model.unit**2) == pytest.approx(np.log(truth.variance), abs=0.3)
    assert np.log(learned.field.reach) == pytest.approx(np.log(truth.field.reach), abs=0.3)
    # every station's noise is learned, also outside of the part
    assert np.log(model.noise / truth.noise).std() < 0.3
    assert np.corrcoef(np.log(model.noise), np.log(truth.noise))[0, 1] > 0.8
