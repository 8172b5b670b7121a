"""Predictions from the other stations against dense conditionals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.fft import next_fast_len

import nareg
from nareg.quality._lasting import Scan, highest, scans
from nareg.quality._others import Spectrum, Whitener, _spiky, convolve, covariances, others
from nareg.quality._residuals import compute_residuals, neighbor_spread
from nareg.quality._swapped import _denied, _Pairs

from ..spacetime.reference import model_of, parameters
from .conftest import drawn, known_model


def joint_covariance(model, steps: int) -> np.ndarray:
    """Covariance (steps, n, steps, n) of the field, from the autoregression's autocovariances."""
    a, gamma, _ = model.parameters.autoregression()
    c = [gamma[0, 0], gamma[0, 1]]
    while len(c) < steps:
        c.append(a[0] * c[-1] + a[1] * c[-2])
    lags = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
    return np.einsum("st,ij->sitj", np.array(c)[lags], model.parameters.covariance(model.space))


def conditional(model, y: np.ndarray, without: list[int]) -> np.ndarray:
    """(steps, n) mean of the field given the readings of all stations but some."""
    steps, n = y.shape
    S = joint_covariance(model, steps).reshape(steps * n, steps * n)
    seen = np.isfinite(y)
    seen[:, without] = False
    k = np.flatnonzero(seen.ravel())
    noise = np.tile(model.unit_noise, steps)[k]
    return (S[:, k] @ np.linalg.solve(S[np.ix_(k, k)] + np.diag(noise), y.ravel()[k])).reshape(steps, n)


@pytest.fixture
def small(rng):
    coordinates, readings = drawn(rng, 4, 160)
    readings[2, 70:85] = np.nan
    return known_model(readings, coordinates)


def test_prediction_without_a_station_is_the_dense_conditional(small):
    residuals = compute_residuals(small)
    seen = others(residuals)
    usable = np.where(residuals.usable, residuals.y, np.nan)
    middle = slice(50, 110)
    expected = conditional(small, usable, [2])[middle, 2]
    # station 2 alone has gaps, so nothing is approximate but the ends of the record
    np.testing.assert_allclose(seen.prediction[middle, 2], expected, atol=1e-6)


def test_gaps_of_others_are_a_small_approximation(small):
    residuals = compute_residuals(small)
    usable = np.where(residuals.usable, residuals.y, np.nan)
    expected = conditional(small, usable, [0])[:, 0]
    error = others(residuals).prediction[:, 0] - expected
    assert np.sqrt(np.mean(error**2)) < 0.05 * np.std(expected)


def test_residuals_have_the_stated_standard_deviation(rng):
    coordinates, readings = drawn(rng, 12, 800)
    residuals = compute_residuals(known_model(readings, coordinates))
    seen = others(residuals)
    np.testing.assert_allclose(seen.residual.std(axis=0), seen.std, rtol=0.15)


def test_pairs_are_left_out_together(rng):
    coordinates, readings = drawn(rng, 4, 160)
    model = known_model(readings, coordinates)
    residuals = compute_residuals(model)
    seen = others(residuals)
    usable = np.where(residuals.usable, residuals.y, np.nan)
    spectrum = Spectrum.of(residuals, next_fast_len(2 * 160, real=True))
    parts = seen.prediction + seen.residual, seen.whitener.adjoint(seen.white), seen.observed, residuals.offset
    pairs = _Pairs(spectrum, np.ones((160, 1)), *parts)
    first, second = pairs.residuals(1, np.array([3]), spectrum.row(1)[[3]])
    field = conditional(model, usable, [1, 3])
    middle = np.flatnonzero(residuals.usable.all(axis=1))
    middle = middle[(middle > 50) & (middle < 110)]
    for station, residual in ((1, first[:, 0]), (3, second[:, 0])):
        np.testing.assert_allclose(residual[middle], (residuals.y[:, station] - field[:, station])[middle], atol=0.02)


def test_spectra_agree(small):
    spectrum = Spectrum.of(compute_residuals(small), 64)
    row = spectrum.row(1)
    np.testing.assert_allclose(row[3], spectrum.entry(1, 3))
    np.testing.assert_allclose(row[1], spectrum.own()[1])


def test_convolution_is_a_toeplitz_product(rng):
    from scipy.linalg import toeplitz

    kernel, values = rng.standard_normal((2, 9, 3))
    expected = np.column_stack([toeplitz(k) @ v for k, v in zip(kernel.T, values.T, strict=True)])
    np.testing.assert_allclose(convolve(kernel, values), expected, atol=1e-12)


@pytest.mark.parametrize("width", [4, 5, 11])
def test_covering_takes_the_largest_place_over_a_step(rng, width):
    rows = 23
    scan = Scan("box", width, rng.standard_normal((rows - width + 1, 2)))
    expected = [np.abs(scan.ratio[max(0, t - width + 1) : t + 1]).max(axis=0) for t in range(rows)]
    np.testing.assert_allclose(scan.covering(rows), expected)


@pytest.fixture
def slow():
    """Autocovariances (T, 2) of two slow series with a little noise."""
    lags = np.arange(240)
    return np.column_stack([0.995**lags + 0.01 * (lags == 0), np.exp(-((lags / 10.0) ** 1.0)) + 0.1 * (lags == 0)])


def test_filters_whiten_from_the_first_step_to_the_last(slow):
    from scipy.linalg import toeplitz

    whitener = Whitener.of(slow)
    for j in range(2):
        C = toeplitz(slow[:, j])
        F = np.array([whitener.apply(np.repeat(e[:, None], 2, axis=1))[:, j] for e in np.eye(len(C))]).T
        np.testing.assert_allclose(F @ C @ F.T, np.eye(len(C)), atol=2e-3)
        np.testing.assert_allclose(F[-40:, :] @ C @ F[-40:, :].T, np.eye(40), atol=2e-3)


def test_the_adjoint_is_the_transpose(slow, rng):
    whitener = Whitener.of(slow)
    x, y = rng.standard_normal((2, *slow.shape))
    np.testing.assert_allclose((whitener.apply(x) * y).sum(axis=0), (x * whitener.adjoint(y)).sum(axis=0), rtol=1e-10)


@pytest.mark.parametrize("place", ["inside", "at the end"])
def test_ratios_are_those_of_generalized_least_squares(rng, place):
    """Up to the pooled spread and the station's own, which two places of one station share."""
    from scipy.linalg import toeplitz

    coordinates, readings = drawn(rng, 6, 120)
    residuals = compute_residuals(known_model(readings, coordinates))
    seen = others(residuals)
    scan = next(s for s in scans(seen) if s.name == "ramp" and s.width > 15)
    i, starts = 3, [20, 40 if place == "inside" else 120 - scan.width]
    covariance = covariances(residuals, residuals.usable)[:, i]
    C = toeplitz(covariance) + residuals.model.parameters.noise[i] * np.eye(120)
    expected = []
    for start in starts:
        X = np.column_stack([np.zeros(120), np.ones(120)])
        X[start : start + scan.width, 0] = np.linspace(1 / scan.width, 1, scan.width)
        variances = np.linalg.inv(X.T @ np.linalg.solve(C, X))
        height = (variances @ X.T @ np.linalg.solve(C, seen.residual[:, i]))[0]
        expected.append(height / np.sqrt(variances[0, 0]))
    (first, second), (one, other) = scan.ratio[starts, i], expected
    assert first * other == pytest.approx(second * one, rel=4e-3)


def test_ratios_are_standard_normal_up_to_the_ends_of_slow_records(rng):
    """A slow field with little noise: the precision of an infinite record finds a fault at both ends of a finite one."""
    ends = []
    for _ in range(12):
        coordinates = rng.uniform(0, 1, (5, 2))
        process = parameters(5, phi=(0.995,), noise=0.0025, reach=0.8)
        graph = nareg.Graph.from_knn(coordinates, 4)
        readings = model_of(graph, np.zeros((5, 400)), process=process).simulate(rng)[1]
        seen = others(compute_residuals(model_of(graph, readings, process=process)))
        ends += [scan.ratio[-1] for scan in scans(seen) if scan.width < 200]
    assert np.std(ends) < 1.1  # pooled and own spreads count as at least 1
    assert np.abs(ends).max() < 5


def test_a_course_that_the_fit_took_from_the_readings_is_no_drift(rng):
    """As a yearly cycle, whose coefficients are estimated and shrunk as the means are."""
    coordinates, readings = drawn(rng, 6, 120)
    seen = others(compute_residuals(known_model(readings, coordinates)))
    season = np.cos(2 * np.pi * np.arange(120) / 120)
    seen = replace(seen, slow=np.column_stack([np.ones(120), season]))
    course = np.zeros((120, 6))
    course[:, 2] = 3 + 2 * season
    moved = replace(seen, white=seen.white + np.where(seen.observed, seen.whitener.apply(course), 0.0))
    for scan, other in zip(scans(seen), scans(moved), strict=True):
        np.testing.assert_allclose(scan.ratio, other.ratio, atol=1e-8)


@pytest.mark.parametrize(("stations", "scale"), [(8, 0.2), (150, 0.2), (150, 0.9)])
def test_healthy_networks_seldom_pass_their_limit(stations, scale, rng):
    passed = []
    for _ in range(1500):
        peaks = rng.gumbel(3.0, scale, stations)
        passed.append(peaks.max() > highest(peaks))
    assert 0.01 < np.mean(passed) < 0.15  # .05 if the scale were known


def test_a_few_faulty_stations_hardly_raise_the_limit(rng):
    peaks = rng.gumbel(3.0, 0.3, 40)
    faulty = peaks.copy()
    faulty[:4] = 30.0
    assert highest(faulty) < highest(peaks) + 1.5


def test_unrest_is_one_in_calm_and_grows_with_neighbors(rng):
    from nareg.graphs import grid

    adjacency = grid((5, 5)).adjacency
    scores = rng.standard_normal((200, 25))
    calm = neighbor_spread(scores, adjacency)
    assert calm.min() == 1.0
    assert np.median(calm) < 1.1
    scores[100] *= 6
    assert np.median(neighbor_spread(scores, adjacency)[100]) > 1.5
    alone = rng.standard_normal((200, 25))
    alone[50, 12] = 1e6
    assert neighbor_spread(alone, adjacency)[50].max() < 2.5  # one spike at a neighbor hides little


def test_stations_that_go_with_the_same_others_before_and_after_were_not_exchanged(rng):
    """A calm station and one with jams, which the model takes for exchanged on quiet days."""
    common = rng.standard_normal((300, 1)) * np.where(np.arange(300) < 180, 1.0, 2.0)[:, None]
    readings = np.hstack([common + 0.3 * rng.standard_normal((300, 5)), rng.standard_normal((300, 5))])
    weights = sp.csr_array(np.kron(np.eye(2), np.ones((5, 5))) - np.eye(10))
    all_read = np.ones(300, dtype=bool)
    assert _denied(readings, 0, 9, slice(0, 180), all_read, weights, memory=1.0, gain=100.0)
    swapped = readings.copy()
    swapped[:180, [0, 9]] = readings[:180, [9, 0]]
    assert not _denied(swapped, 0, 9, slice(0, 180), all_read, weights, memory=1.0, gain=100.0)
    assert not _denied(readings, 0, 1, slice(0, 180), all_read, weights, memory=1.0, gain=100.0)  # alike: nothing follows
    # throughout, each goes along with the neighbors of its own place, or of the other one's
    assert _denied(readings, 0, 9, slice(0, 300), all_read, weights, memory=1.0, gain=100.0)
    assert not _denied(readings[:, [9, *range(1, 9), 0]], 0, 9, slice(0, 300), all_read, weights, memory=1.0, gain=100.0)
    # where one of them reads no more, others' predictions are in its place: what is read is an exchange throughout, or none
    ended = np.where(np.arange(300)[:, None] < 180, readings, readings[:, [1]])
    assert _denied(ended, 0, 9, slice(0, 180), np.arange(300) < 180, weights, memory=1.0, gain=100.0)
    # of a slow field, the record is a handful of readings
    exchanged = readings[:, [9, *range(1, 9), 0]]
    assert _denied(exchanged, 0, 9, slice(0, 300), all_read, weights, memory=50.0, gain=40.0)
    assert _denied(readings, 0, 9, slice(0, 300), all_read, weights, memory=50.0, gain=100.0)
    assert not _denied(exchanged, 0, 9, slice(0, 300), all_read, weights, memory=50.0, gain=100.0)


@pytest.mark.parametrize("height", [4.0, -4.0])
def test_the_first_readings_after_a_step_are_no_spikes(height):
    error = 0.3 * np.random.default_rng(0).standard_normal((60, 2)) - height / 2
    error[30:, 0] += height
    error[30:36, 1] += height
    bad = np.zeros(error.shape, dtype=bool)
    bad[30:36] = True
    np.testing.assert_array_equal(_spiky(bad, error).any(axis=0), [False, True])
    assert _spiky(bad, error)[30:36, 1].all()


def test_spikes_beside_the_ends_of_a_record_or_of_a_part_are_spikes():
    error = 0.3 * np.random.default_rng(0).standard_normal((60, 5))
    bad = np.zeros(error.shape, dtype=bool)
    for rows, station in ((slice(0, 1), 0), (slice(59, 60), 1), (slice(57, 60), 2), (slice(20, 21), 3), (slice(30, 31), 4)):
        error[rows, station], bad[rows, station] = 20.0, True
    error[21:45, 3] = np.nan
    np.testing.assert_array_equal(_spiky(bad, error), bad)
