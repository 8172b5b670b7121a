"""Readings that are means of unlike many: their noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import nareg
from nareg.cleaning import CleanSettings, assemble, run
from nareg.errors import InputError
from nareg.io import Recipe
from nareg.spacetime import SpaceTimeModel
from tests.spacetime.reference import dense, model_of, network

MOST = 6


def of_unlike_many(seed, *, lowered=1.0, n=6, T=400):
    """A model by hand of readings that are means of 1 to 6, by which this share of their noise falls; truth and numbers."""
    rng = np.random.default_rng(seed)
    base = network(seed, n, T, gaps=0.0)
    number = rng.integers(1, MOST + 1, (n, T))
    truth = base.simulate(rng)[0]
    variance = 4.0 * (1 - lowered + lowered / number)
    y = truth + np.sqrt(variance) * rng.standard_normal((n, T))
    y[rng.random((n, T)) < 0.1] = np.nan
    noise = np.array([variance[i, np.isfinite(y[i])].mean() for i in range(n)])
    return model_of(base.graph, y, noise=noise), truth, number


def test_estimates_are_those_of_the_joint_gaussian():
    model, _, number = of_unlike_many(0, n=4, T=25)
    weighed = replace(model, noise_shares=np.where(np.isfinite(model.readings), 2.0 / number, 1.0))
    exact = dense(model.readings.T, model.dynamics, model.unit_noise * weighed.noise_shares.T, np.ones(25))
    smoothed = weighed.smooth()
    np.testing.assert_allclose(smoothed.x.T, exact.mean[:, :4], atol=1e-10)
    further = np.concatenate([model.readings, np.full((4, 2), np.nan)], axis=1)
    np.testing.assert_allclose(weighed.forecast(2).x, weighed.smooth(further, times=np.arange(27.0)).x[:, 25:], atol=1e-10)
    next_one = weighed.stream().update(np.full(4, np.nan))
    np.testing.assert_allclose(next_one.x, weighed.forecast(1).x[:, 0], atol=1e-10)


def test_the_noise_of_means_falls_with_their_number():
    for seed in range(3):
        model, truth, number = of_unlike_many(seed)
        weighed = model.with_averages(number)
        assert weighed.noise_shares is not None
        errors = [float(np.sqrt(np.mean((one.smooth().x - truth) ** 2))) for one in (model, weighed)]
        assert errors[1] < 0.98 * errors[0]
        assert weighed.log_likelihood > model.log_likelihood + 10
        seen = np.isfinite(model.readings)
        np.testing.assert_allclose([weighed.noise_shares[i, seen[i]].mean() for i in range(6)], 1.0)


def test_noise_that_does_not_fall_stays_as_it_is():
    unweighed = [of_unlike_many(seed, lowered=0.0) for seed in range(6)]
    assert all(model.with_averages(number).noise_shares is None for model, _, number in unweighed)


def test_part_of_the_noise_may_fall():
    model, _, number = of_unlike_many(1, lowered=0.5)
    shares = model.with_averages(number).noise_shares
    assert shares is not None
    every = model.with_averages(np.where(number > 1, 10**6, 1)).noise_shares
    assert every is None or every.min() > 0
    assert shares[np.isfinite(model.readings)].min() > 0.5


def test_one_number_for_all_changes_nothing():
    model, _, number = of_unlike_many(2)
    assert model.with_averages(np.full(number.shape, 3)) is model


def test_readings_that_the_fit_did_not_see_have_the_noise_of_their_number():
    model, _, number = of_unlike_many(0)
    shares = model.with_averages(number).noise_shares
    unseen = np.isnan(model.readings)
    for i in range(6):
        of_number = {k: shares[i, ~unseen[i] & (number[i] == k)][0] for k in range(1, MOST + 1)}
        np.testing.assert_allclose(shares[i, unseen[i]], [of_number[k] for k in number[i, unseen[i]]])


def test_stations_come_and_go_and_files_keep_it(tmp_path):
    model, _, number = of_unlike_many(0)
    weighed = model.with_averages(number)
    weighed.save(tmp_path / "model.npz")
    again = nareg.spacetime.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.smooth().x, weighed.smooth().x)
    np.testing.assert_array_equal(weighed.without(0).noise_shares, weighed.noise_shares[1:])
    longer = weighed.extended(np.array([[1.0, 1.0]]))
    np.testing.assert_allclose(longer.smooth().x[:6], weighed.smooth().x, atol=1e-9)
    # further readings after those of the fit: these keep their noise
    more = np.concatenate([model.readings, np.full((6, 3), np.nan)], axis=1)
    np.testing.assert_allclose(
        weighed.smooth(more, times=np.arange(403.0)).x[:, :400], weighed.smooth(model.readings).x, atol=1e-9
    )


@pytest.mark.parametrize("number", [np.ones((6, 3)), np.zeros((6, 400))])
def test_numbers_that_fit_no_reading_are_refused(number):
    with pytest.raises(InputError, match="number has shape"):
        of_unlike_many(0)[0].with_averages(number)


@pytest.mark.slow
def test_cleaning_takes_the_number_of_readings_in_a_step():
    rng = np.random.default_rng(1)
    simulated = nareg.datasets.simulated(6, 400, faults=(), rng=rng)
    fine = np.array([np.interp(np.arange(6 * 400) / 6, np.arange(400), row) for row in simulated.truth])
    often = np.repeat(rng.beta(0.5, 0.5, (6, 400)), 6, axis=1)
    y = np.where(rng.random(fine.shape) < often, fine + 2 * rng.standard_normal(fine.shape), np.nan)
    index = pd.date_range("2024-01-01", periods=2400, freq="10min", name="time")
    places = pd.DataFrame(simulated.coordinates, simulated.names, ["latitude", "longitude"])
    taken = assemble(pd.DataFrame(y.T, index, simulated.names), places, recipe=Recipe(step="1h"))
    plain = replace(taken, readings=replace(taken.readings, averaged=None))
    errors = []
    for one in (plain, taken):
        cleaned = run(one, CleanSettings())
        x = cleaned.x.to_numpy().T[:, :400]
        errors.append(float(np.sqrt(np.mean((x - simulated.truth) ** 2))))
    assert isinstance(cleaned.model, SpaceTimeModel)
    assert errors[1] < 0.96 * errors[0]
    assert "mean of more" in dict(cleaned.reasons)["noise estimated"]
