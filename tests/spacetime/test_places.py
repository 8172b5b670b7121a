"""The covariance that carries the field to places: errors of stations left out, the search, and where it is used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nareg
from nareg.spacetime._dense.places import LeftOut, PlaceKernel, best_kernel
from nareg.spacetime._readings.space import Space

N, T = 25, 300
START = PlaceKernel("exponential", 1.0, 0.1, 1.0, (0.0,))
NOISE = np.full(N, 0.01)


def space(rng: np.random.Generator) -> Space:
    return Space.of(nareg.Graph.from_knn(rng.uniform(0, 10, (N, 2)), 5))


def drawn(kernel: PlaceKernel, where: Space, z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Readings (T, N), independent in time."""
    root = np.linalg.cholesky(kernel.at_stations(where, z))
    return (root @ rng.standard_normal((N, T))).T + 0.1 * rng.standard_normal((T, N))


def test_errors_are_those_of_kriging_from_the_others(rng):
    where, z = space(rng), rng.standard_normal((N, 1))
    kernel = replace(START, slopes=(0.3,))
    rows = drawn(kernel, where, z, rng)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    readings = LeftOut.of(rows, NOISE, where, z)
    errors, variances, noises = readings.errors(kernel)
    assert errors.size == sum(y.size for _, y in readings.sets)
    stations, y = readings.sets[3]
    K = kernel.at_stations(where, z)[np.ix_(stations, stations)] + 0.01 * np.eye(stations.size)
    begin = sum(part.size for _, part in readings.sets[:3])
    for i in range(0, stations.size, 6):
        rest = np.delete(np.arange(stations.size), i)
        weights = np.linalg.solve(K[np.ix_(rest, rest)], K[rest, i])
        at = begin + i * y.shape[1]
        assert errors[at] == pytest.approx(y[i, 0] - weights @ y[rest, 0])
        assert variances[at] == pytest.approx(K[i, i] - weights @ K[rest, i])
    np.testing.assert_array_equal(noises, 0.01)


def test_the_search_comes_near_the_covariance_that_made_the_readings(rng):
    where, z = space(rng), rng.standard_normal((N, 2))
    truth = PlaceKernel("exponential", 8.0, 0.01, 2.5, (0.1, 0.0))
    rows = drawn(truth, where, z, rng)
    start = replace(START, slopes=(0.0, 0.0))
    best = best_kernel(start, rows, NOISE, where, z, np.array([True, False]))
    readings = LeftOut.of(rows, NOISE, where, z)
    losses = [float(np.mean(readings.errors(kernel)[0] ** 2)) for kernel in (truth, best, start)]
    assert losses[1] < 1.03 * losses[0]
    assert losses[2] > 1.1 * losses[0]
    assert best.slopes[0] > 0
    assert best.slopes[1] == 0  # it is not used
    errors, variances, _ = readings.errors(best)
    assert np.mean(errors**2 / variances) == pytest.approx(1.0, abs=0.15)


def test_the_unit_of_the_readings_is_that_of_the_variance(rng):
    where, z = space(rng), np.empty((N, 0))
    start = replace(START, slopes=())
    rows = drawn(start, where, z, rng)
    best = best_kernel(start, rows, NOISE, where, z, np.zeros(0, dtype=bool))
    scaled = best_kernel(replace(start, variance=4.0), 2 * rows, 4 * NOISE, where, z, np.zeros(0, dtype=bool))
    assert scaled.variance == pytest.approx(4 * best.variance)
    assert (scaled.family, scaled.reach, scaled.own) == (best.family, best.reach, best.own)


def test_with_too_few_stations_it_is_that_of_the_process(rng):
    where, z = space(rng), np.zeros((N, 1))
    rows = np.full((T, N), np.nan)
    rows[:, :4] = rng.standard_normal((T, 4))
    assert best_kernel(START, rows, NOISE, where, z, np.array([True])) == START


def test_a_model_is_saved_with_it_and_without_it_places_follow_the_process(rng, tmp_path):
    network = nareg.datasets.simulated(12, 150, faults=(), rng=rng)
    model = nareg.spacetime.fit(network.graph(), network.readings, times=network.times, dynamics="scalar")
    assert model.places is not None
    model = replace(model, places=replace(model.places, reach=0.2 * model.places.reach))
    model.save(tmp_path / "model.npz")
    assert nareg.spacetime.load(tmp_path / "model.npz").places == model.places
    place = network.coordinates[:2].mean(axis=0)[None]
    plain = replace(model, places=None)
    assert plain.kernel == PlaceKernel.of(model.parameters, 0)
    explicit = replace(model, places=plain.kernel)
    np.testing.assert_array_equal(plain.interpolate_at(place).x, explicit.interpolate_at(place).x)
    assert not np.allclose(model.interpolate_at(place).x, plain.interpolate_at(place).x, rtol=1e-6)


def test_around_a_globe_no_family_is_taken_whose_covariance_is_none(rng):
    places = np.degrees(np.column_stack([np.arcsin(rng.uniform(-1, 1, N)), rng.uniform(-np.pi, np.pi, N)]))
    a, b = np.radians(places).T
    along = np.column_stack([np.cos(a) * np.cos(b), np.cos(a) * np.sin(b), np.sin(a)])
    where, z = Space.of(nareg.Graph.from_knn(places, 4, metric="haversine")), np.empty((N, 0))
    rows = rng.standard_normal((T, 3)) @ along.T
    noise = np.full(N, 1e-8)
    start = PlaceKernel("exponential", 5000.0, 0.003, 1.0)
    best = best_kernel(start, rows, noise, where, z, np.zeros(0, dtype=bool))
    np.linalg.cholesky(best.at_stations(where, z) + np.diag(noise))
    readings = LeftOut.of(rows, noise, where, z)
    assert np.square(readings.errors(best)[0]).mean() <= np.square(readings.errors(start)[0]).mean()
