"""A large model's stream follows the Kalman filter, through gaps, jumps and broken sensors, and is the same after a restart."""

from __future__ import annotations

import numpy as np
import pytest

from nareg.errors import InputError
from nareg.spacetime import SparseStream, load_stream
from tests.spacetime.large.reference import dense, model_of, process, readings

RNG = np.random.default_rng


@pytest.mark.parametrize(("smoothness", "rho", "gaps"), [(2, 0.9, 0.0), (2, 0.95, 0.5), (1, 0.9, 0.3), (2, 0.3, 0.3)])
def test_means_are_nearly_the_kalman_filters(smoothness, rho, gaps):
    graph, p = process(n=80, smoothness=smoothness, rho=rho)
    truth, y = readings(p, 120, RNG(0), gaps)
    stream = model_of(graph, p, y[:, :60]).stream(robust=None)
    updates = [stream.update(y[:, t]) for t in range(60, 120)]
    exact = dense(p, y, smooth=False)
    x, std = np.array([u.x for u in updates]), np.array([u.std for u in updates])
    error, least = np.mean((x - truth.T[60:]) ** 2), np.mean((exact.x[60:] - truth.T[60:]) ** 2)
    assert error < 1.02 * least
    assert 0.9 < np.median(std / np.sqrt(exact.var[60:])) < 1.15
    assert isinstance(stream, SparseStream)


def test_scores_are_standardized_innovations():
    graph, p = process(n=80)
    _, y = readings(p, 300, RNG(1), 0.0)
    stream = model_of(graph, p, y[:, :60]).stream(robust=None)
    scores = np.array([stream.update(y[:, t]).scores for t in range(60, 300)])
    assert scores.std() == pytest.approx(1.0, abs=0.06)


def test_a_jump_in_time_returns_to_the_mean():
    graph, p = process()
    _, y = readings(p, 60, RNG(0), 0.0)
    stream = model_of(graph, p, y).stream()
    near = stream.update(np.full(40, np.nan))
    far = stream.update(np.full(40, np.nan), time=5000)
    assert stream.time == 5000
    assert np.abs(far.x).max() < 1e-5 < np.abs(near.x).max()
    np.testing.assert_allclose(far.std, np.sqrt(p.variance), rtol=0.05)


def test_wild_readings_are_clipped_and_a_broken_station_is_set_aside():
    graph, p = process()
    _, y = readings(p, 100, RNG(0), 0.0)
    y[5, 60:] = 100.0
    stream = model_of(graph, p, y[:, :60]).stream()
    updates = [stream.update(y[:, t]) for t in range(60, 100)]
    assert all(u.clipped[5] for u in updates)
    assert abs(updates[-1].x[5]) < 5


def test_a_stream_goes_on_from_its_file(tmp_path):
    graph, p = process()
    _, y = readings(p, 80, RNG(0))
    stream = model_of(graph, p, y[:, :60]).stream()
    for t in range(60, 70):
        stream.update(y[:, t])
    stream.save(tmp_path / "stream.npz")
    again = load_stream(tmp_path / "stream.npz")
    for t in range(70, 80):
        one, two = stream.update(y[:, t]), again.update(y[:, t])
        np.testing.assert_array_equal(one.x, two.x)
        np.testing.assert_array_equal(one.std, two.std)


def test_readings_of_another_number_of_stations():
    graph, p = process()
    _, y = readings(p, 30, RNG(0))
    stream = model_of(graph, p, y).stream()
    with pytest.raises(InputError, match="y has 41 readings but the model has 40 stations"):
        stream.update(np.zeros(41))
    with pytest.raises(InputError, match="same step"):
        stream.update(np.zeros(40), time=29)
