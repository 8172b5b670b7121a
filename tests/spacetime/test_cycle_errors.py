"""What readings leave of the errors of means and cycles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nareg
from nareg.spacetime._dense.learning import DenseLearner
from nareg.spacetime._dense.smoother import run
from nareg.spacetime._readings.cycle_errors import DRAWS, share_left, shown_errors, unit_errors, with_offsets
from nareg.spacetime._readings.space import Space
from nareg.spacetime._sparse.variances import everything, shares_of

from .reference import dense, model_of, network, random_dynamics, with_gaps


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kind", ["scalar", "full"])
def test_a_pass_takes_of_errors_what_the_joint_gaussian_takes(order, kind):
    rng = np.random.default_rng(order)
    n, T = 4, 9
    dynamics, r, scale = random_dynamics(rng, n, order, kind), 0.3 + rng.random(n), np.ones(T)
    y = with_gaps(rng, rng.standard_normal((T, n)), 0.3)
    errors = rng.standard_normal((T, n, 3))
    done, plain = run(y, dynamics, r, errors=errors), run(y, dynamics, r)
    np.testing.assert_allclose(done.x, plain.x, atol=1e-12)
    assert done.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-12)
    for j in range(3):
        read = np.where(np.isfinite(y), errors[..., j], np.nan)
        np.testing.assert_allclose(done.taken[..., j], dense(read, dynamics, r, scale).mean[:, :n], atol=1e-9)
        filtered = run(y, dynamics, r, errors=errors, smooth=False).taken[..., j]
        np.testing.assert_allclose(filtered, run(read, dynamics, r, smooth=False).x, atol=1e-9)


def test_shares_that_are_left():
    draws = np.random.default_rng(0).standard_normal((5, 3, DRAWS))
    np.testing.assert_array_equal(share_left(draws, np.zeros_like(draws)), 1.0)
    np.testing.assert_array_equal(share_left(draws, draws), 0.0)
    np.testing.assert_allclose(share_left(draws, 0.75 * draws), 0.0625)
    np.testing.assert_array_equal(share_left(np.zeros_like(draws), draws), 1.0)


def test_a_reading_has_the_field_within_its_noise():
    var, offsets, noise = np.array([[0.1, 0.1, 0.4]]), np.array([[0.5, 0.5, 0.5]]), np.array([0.2, 0.2, 0.2])
    total = with_offsets(var, offsets, noise, np.array([[True, False, True]]))
    np.testing.assert_allclose(total, [[0.2, 0.6, 0.4]])


def test_errors_of_stations_without_waves_are_correlated_as_their_readings():
    rng = np.random.default_rng(0)
    common = rng.standard_normal(400)
    y = np.column_stack([common, common + 0.1 * rng.standard_normal(400), rng.standard_normal((400, 2))])
    beside = np.full((4, 4), np.nan)
    beside[:, 3] = [1.0, -1.0, 0.5, 2.0]
    unit = unit_errors(beside, y, rng, 2000)
    np.testing.assert_array_equal(unit[:, 3], np.tile(beside[:, 3], 500))
    np.testing.assert_allclose(unit[:, :3].std(axis=0), 1.0, atol=0.06)
    correlation = np.corrcoef(unit[:, :3].T)
    assert correlation[0, 1] > 0.98
    assert abs(correlation[0, 2]) < 0.15


def test_errors_that_are_shown_have_the_covariance_of_random_combinations():
    rng = np.random.default_rng(0)
    y = np.cumsum(rng.standard_normal((12, 5)), axis=0) + rng.standard_normal((12, 1))
    y[3:6, 1], y[:, 4] = np.nan, np.nan
    none = np.full((4, 5), np.nan)
    shown, mixed = shown_errors(none, y), unit_errors(none, y, rng, 200_000)
    np.testing.assert_allclose((shown**2).mean(axis=0), [1.0, 1.0, 1.0, 1.0, 0.0])
    np.testing.assert_allclose(shown.T @ shown / len(shown), mixed.T @ mixed / len(mixed), atol=0.02)
    none[:, 2] = [1.0, -2.0, 0.5, 0.1]
    np.testing.assert_array_equal(shown_errors(none, y), np.nan_to_num(none))


def known_but_for_the_means(seed: int) -> tuple[nareg.spacetime.SpaceTimeModel, np.ndarray]:
    """A model with true dynamics and noise and estimated means, and the true field (N, T); one station is silent."""
    rng = np.random.default_rng(seed)
    model = network(seed, n=12, T=80, phi=(0.9,))
    field, y = model.simulate(rng)
    truth = field + rng.normal(0, 1, (12, 1))
    y = y + truth - field
    y[0], y[1, 20:40] = np.nan, np.nan
    cycles = DenseLearner(Space.of(model.graph)).cycles(y.T, model.grid, ())
    return replace(model_of(model.graph, y, process=model.parameters), cycles=cycles), truth


def test_bands_with_estimated_means_are_as_wide_as_the_errors():
    scores, silent, whole = [], [], []
    for seed in range(25):
        model, truth = known_but_for_the_means(seed)
        smoothed = model.smooth(robust=False)
        standard = (smoothed.x - truth) / smoothed.std
        scores.append(standard[1:].ravel())
        silent.append(standard[0])
        # without draws all of the means' variance is added
        blind = replace(model, cycles=replace(model.cycles, errors=np.zeros_like(model.cycles.errors)))
        whole.append(((smoothed.x - truth) / blind.smooth(robust=False).std)[1:].ravel())
    assert 0.8 < np.mean(np.square(scores)) < 1.3
    assert 0.5 < np.mean(np.square(silent)) < 1.6
    assert np.mean(np.square(whole)) < 0.7 * np.mean(np.square(scores))


def test_a_stream_has_the_bands_of_the_filter():
    model, _ = known_but_for_the_means(0)
    first = replace(model, readings=model.readings[:, :50], excluded=model.excluded[:, :50])
    first = replace(first, grid=replace(model.grid, rows=model.grid.rows[:50], length=50, values=model.grid.values[:50]))
    stream = first.stream(robust=None)
    errors = model.cycles.errors_at(model.grid.seconds)
    rows = model.readings.T - model.cycles.at(model.grid.seconds)
    done = run(rows, model.dynamics, model.unit_noise, smooth=False, errors=errors.draws)
    offsets = errors.left(done.taken)
    for t in range(50, 80):
        update = stream.update(model.readings[:, t])
        var = with_offsets(done.var[t], offsets[t], model.unit_noise, np.isfinite(model.readings[:, t]))
        np.testing.assert_allclose(update.std, np.sqrt(var), rtol=1e-8)


def test_a_far_forecast_knows_nothing_of_the_errors():
    model, _ = known_but_for_the_means(3)
    far = model.forecast(400).std[:, -1]
    np.testing.assert_allclose(far**2, model.dynamics.P0.diagonal() + model.cycles.spread[0], rtol=1e-6)
    near = model.forecast(1).std[:, 0]
    assert (near < far).all()


def test_the_curve_of_a_large_network():
    rng = np.random.default_rng(0)
    field = rng.random((200, 30)) * 0.9
    draws = rng.standard_normal((200, 30, 2))
    known = np.arange(30) > 2
    curve = shares_of([(field[:50], draws[:50], (field**2)[:50, :, None] * draws[:50]),
                       (field[50:], draws[50:], (field**2)[50:, :, None] * draws[50:])], known)  # fmt: skip
    at = np.linspace(0.1, 0.85, 5)
    np.testing.assert_allclose(curve.at(np.tile(at[:, None], 30))[:, 5], at**4, atol=0.02)
    assert (curve.at(np.full(30, 0.1))[:3] == 1.0).all()
    assert (curve.at(np.ones(30)) == 1.0).all()
    nothing = shares_of([(field, np.zeros_like(draws), draws)], known)
    np.testing.assert_array_equal(nothing.at(field), everything(known).at(field))


@pytest.mark.slow
def test_both_engines_are_about_as_sure():
    rng = np.random.default_rng(2)
    graph = nareg.graphs.grid((6, 6))
    truth = np.zeros((36, 150))
    smooth = np.linalg.inv(np.eye(36) + 4 * graph.laplacian().toarray())
    for t in range(1, 150):
        truth[:, t] = 0.9 * truth[:, t - 1] + smooth @ rng.standard_normal(36)
    truth += 2 * smooth @ rng.standard_normal((36, 1))
    y = truth + 0.3 * rng.standard_normal(truth.shape)
    y[rng.random(y.shape) < 0.2] = np.nan
    for engine in ("dense", "sparse"):
        smoothed = nareg.spacetime.fit(graph, y, engine=engine, cycles=None, rng=np.random.default_rng(0)).smooth()
        score = np.sqrt(np.mean((smoothed.x - truth) ** 2) / np.mean(smoothed.std**2))
        assert 0.75 < score < 1.3, (engine, score)
