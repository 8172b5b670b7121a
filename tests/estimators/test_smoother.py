"""The space-time smoother is the model of nareg.spacetime, with times from the index."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

import nareg
from nareg.errors import InputError
from nareg.estimators import SpaceTimeSmoother


@pytest.fixture(scope="module")
def walk():
    """200 times of nine stations on a grid, and their readings."""
    rng = np.random.default_rng(3)
    clean = np.cumsum(0.2 * rng.standard_normal((200, 1)), axis=0) + 0.1 * rng.standard_normal(9)
    return clean, clean + 0.5 * rng.standard_normal((200, 9))


@pytest.fixture(scope="module")
def fitted(walk):
    return SpaceTimeSmoother(nareg.graphs.grid((3, 3)), dynamics="scalar").fit(walk[1])


@pytest.mark.slow
def test_it_is_the_functions_model(walk, fitted):
    model = nareg.spacetime.fit(nareg.graphs.grid((3, 3)), walk[1].T, dynamics="scalar")
    expected = model.smooth(walk[1].T, times=np.arange(200.0)).x.T
    np.testing.assert_allclose(fitted.transform(walk[1]), expected, rtol=1e-10)
    assert fitted.score(walk[1], walk[0]) > 0.4 * -0.25


def test_other_readings_of_any_length(walk, fitted):
    for n in (1, 50, 300):
        X = np.resize(walk[1], (n, 9))
        assert fitted.transform(X).shape == (n, 9)


@pytest.mark.slow
def test_dates_in_the_index_are_used(clean, noisy, network):
    smoother = SpaceTimeSmoother(network.graph, dynamics="scalar").fit(noisy)
    assert smoother.model_.cycles.names == ("year",)
    np.testing.assert_array_equal(smoother.model_.times, noisy.index.to_numpy())
    zoned = noisy.set_axis(noisy.index.tz_localize("UTC").tz_convert("America/New_York"))
    np.testing.assert_allclose(smoother.transform(zoned), smoother.transform(noisy))
    assert smoother.score(noisy, clean) > 0.5 * -4.0


@pytest.mark.slow
def test_a_gap_in_the_index_is_a_gap_in_time(walk):
    """A training set that misses a block: rows beside the gap are not neighbors in time."""
    frame = pd.DataFrame(walk[1])
    train = frame.drop(index=range(80, 120))
    smoother = SpaceTimeSmoother(nareg.graphs.grid((3, 3)), dynamics="scalar")
    assert smoother.fit(train).model_.grid.length == 200
    assert smoother.fit(train.to_numpy()).model_.grid.length == 160


def test_times_out_of_order_are_refused(walk, fitted):
    frame = pd.DataFrame(walk[1])
    with pytest.raises(InputError, match=r"does not increase at row 1, 198\.0: sort X by time"):
        SpaceTimeSmoother().fit(frame.iloc[::-1])
    with pytest.raises(InputError, match="does not increase at row 3"):
        fitted.transform(frame.iloc[[0, 1, 2, 2]])


def test_a_pickle_holds_plain_values(walk, fitted):
    data = pickle.dumps(fitted)
    assert b"SpaceTimeModel" not in data
    again = pickle.loads(data)
    np.testing.assert_array_equal(again.transform(walk[1]), fitted.transform(walk[1]))
    assert again.model_.log_likelihood == fitted.model_.log_likelihood
    np.testing.assert_array_equal(again.model_.forecast(3).x, fitted.model_.forecast(3).x)
