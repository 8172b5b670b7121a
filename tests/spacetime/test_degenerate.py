"""Readings that a likelihood has no maximum for are answered, and named in one sentence."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import nareg
from nareg.errors import DegenerateFitWarning
from nareg.spacetime import fit, load
from nareg.spacetime._dense.learning import _first_outliers
from tests.spacetime.reference import network

RNG = np.random.default_rng
GRAPH = nareg.Graph.from_knn(RNG(0).random((5, 2)), 2, names=list("abcde"))


def noisy(seed: int = 0, T: int = 120) -> np.ndarray:
    rng = RNG(seed)
    return np.cumsum(0.2 * rng.standard_normal((5, T)), axis=1) + 0.4 * rng.standard_normal((5, T))


def smooth_curves() -> np.ndarray:
    return np.cumsum(0.01 * np.cumsum(RNG(0).standard_normal((5, 120)), axis=1), axis=1)


def without_network_mean(y: np.ndarray) -> np.ndarray:
    return y - y.mean(axis=0)


WITHOUT_MAXIMUM = {
    "all equal": (lambda: np.full((5, 60), 3.3), "no station has two different readings"),
    "all zero": (lambda: np.zeros((5, 60)), "no station has two different readings"),
    "constant stations": (lambda: np.repeat(np.arange(5.0)[:, None], 60, axis=1), "no station has two different readings"),
    "no noise": (smooth_curves, "the noise variance of each station runs to zero"),
    "no field": (lambda: without_network_mean(RNG(2).standard_normal((5, 150))), "the variance of the field runs to zero"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", WITHOUT_MAXIMUM)
def test_a_likelihood_without_a_maximum_is_named(what, tmp_path):
    readings, sentence = WITHOUT_MAXIMUM[what]
    with pytest.warns(DegenerateFitWarning, match=sentence) as caught:
        model = fit(GRAPH, readings(), rng=RNG(0))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "the likelihood has no maximum" in model.details.notes[0]
    assert len(model.details.notes[0]) < 250
    assert model.details.notes[0] in model.summary()
    smoothed = model.smooth()
    assert np.isfinite(smoothed.x).all()
    assert np.isfinite(smoothed.std).all()
    model.save(tmp_path / "model.npz")
    assert load(tmp_path / "model.npz").details.notes == model.details.notes


@pytest.mark.slow
@pytest.mark.parametrize("dynamics", ["auto", "full"])
def test_constant_readings_are_their_own_estimate(dynamics):
    with pytest.warns(DegenerateFitWarning):
        model = fit(GRAPH, np.full((5, 60), 3.3), dynamics=dynamics)
    np.testing.assert_allclose(model.smooth().x, 3.3)
    np.testing.assert_allclose(model.forecast(3).x, 3.3)


@pytest.mark.slow
@pytest.mark.parametrize(("robust", "what"), [(True, "and is left out"), (False, "and misleads the fit: remove it")])
def test_a_constant_station_is_named(robust, what):
    readings = noisy()
    readings[2] = 5.0
    model = fit(GRAPH, readings, robust=robust, dynamics="scalar", rng=RNG(0))
    assert len(model.details.notes) == 1
    assert f"station 'c' reads one value at all times {what}" in model.details.notes[0]


@pytest.mark.slow
def test_a_station_with_one_reading_is_named():
    readings = noisy()
    readings[[1, 3]] = np.nan
    readings[[1, 3], 50] = 1.0
    model = fit(GRAPH, readings, rng=RNG(0))
    assert model.details.notes == ("each of the stations 'b', 'd' has one reading: its mean and its noise are the network's.",)
    assert np.isfinite(model.smooth().x).all()


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["estimate", 0.16])
def test_sound_readings_are_not_remarked_on(noise):
    readings = noisy()
    readings[4] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit(GRAPH, readings, noise=noise, rng=RNG(0))
    assert model.details.notes == ()


def test_noise_that_the_user_says_is_zero_is_no_degenerate_fit():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit(GRAPH, noisy(), noise=0.0, rng=RNG(0)).details.notes == ()


def test_outliers_do_not_stay_in_the_noise_that_they_made():
    model = network(2, n=8, T=400, gaps=0.0)
    true = model.parameters.noise[3]
    y, at = model.readings.T.copy(), np.arange(5, 400, 15)
    y[at, 3] += 8.0
    swollen = model.parameters.log_noise.copy()
    swollen[3] += np.log(9.0)
    found, calmer = _first_outliers(y, model.space, replace(model.parameters, log_noise=swollen), fixed=False)
    assert found[at, 3].all()
    assert found.sum() < at.size + 5
    # the spread of a reading around its prediction by the others: their error is in it, too
    assert true < calmer.noise[3] < 3 * true
    np.testing.assert_array_equal(np.delete(calmer.log_noise, 3)[~np.delete(found, 3, 1).any(axis=0)], np.log(0.25))
    given = replace(model.parameters, log_noise=swollen)
    assert _first_outliers(y, model.space, given, fixed=True)[1] is given


@pytest.mark.parametrize("seed", range(3))
def test_few_readings_of_one_value_are_answered(seed):
    """Where most are missing all of them are stuck, and NumPy said that nothing has no minimum."""
    y = np.where(RNG(seed).random((3, 120)) < 0.2, 3.0, np.nan)
    with pytest.warns(DegenerateFitWarning, match="no station has two different readings"):
        model = fit(nareg.Graph.from_knn(RNG(0).random((3, 2)), 2), y)
    assert model.smooth().x == pytest.approx(3.0)
