"""Means and cycles that follow what is known of the stations: recovered, invariant, judged, saved, and checked."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.errors import InputError
from nareg.spacetime._dense.learning import DenseLearner
from nareg.spacetime._readings.covariates import Covariates
from nareg.spacetime._readings.cycles import Cycles
from nareg.spacetime._readings.space import Space

from .reference import regular

N, HOURS = 30, 24 * 6
#: Of the mean and of the daily cycle, per meter; and the noise.
LAPSE, DAILY, NOISE = -0.0065, 0.002, 0.4
TIMES = np.datetime64("2024-05-01", "s") + 3600 * np.arange(HOURS)


def network(seed: int, n: int = N) -> tuple[nareg.Graph, np.ndarray, np.ndarray, np.ndarray]:
    """A graph, heights, and truth and readings of a field that gets colder and has larger days with the height."""
    rng = np.random.default_rng(seed)
    places, heights = rng.uniform(0, 100, (n, 2)), rng.uniform(200, 2500, n)
    root = np.linalg.cholesky(np.exp(-np.linalg.norm(places[:, None] - places, axis=-1) / 60) + 1e-9 * np.eye(n))
    slow = np.zeros((n, HOURS))
    state = root @ rng.standard_normal(n)
    for t in range(HOURS):
        state = 0.95 * state + np.sqrt(1 - 0.95**2) * (root @ rng.standard_normal(n))
        slow[:, t] = state
    day = np.cos(2 * np.pi * np.arange(HOURS) / 24)
    truth = (
        20 + LAPSE * heights[:, None] + (2 + DAILY * heights[:, None]) * day + 0.5 * root @ rng.standard_normal((n, 1)) + slow
    )
    graph = nareg.Graph.from_knn(places, 6, names=[f"S{i}" for i in range(n)])
    return graph, heights, truth, truth + NOISE * rng.standard_normal(truth.shape)


def cycles_by(values: dict[str, np.ndarray], y: np.ndarray, graph: nareg.Graph) -> Cycles:
    """Means and cycles of readings (N, T) that follow these covariates."""
    covariates = Covariates.of(values, np.isfinite(y).any(axis=1))
    hours = regular(3600.0 * np.arange(y.shape[1]), 3600.0, dated=True)
    return DenseLearner(Space.of(graph)).cycles(y.T, hours, "auto", covariates)


@pytest.fixture(scope="module")
def case() -> tuple[nareg.SpaceTimeModel, np.ndarray, np.ndarray]:
    """A model of all but the last 6 stations, heights and truth of all 30."""
    graph, heights, truth, y = network(0)
    some = np.arange(N - 6)
    model = nareg.spacetime.fit(
        graph.subgraph(some), y[some], times=TIMES, dynamics="scalar", covariates={"height": heights[some]}
    )
    return model, heights, truth


def hidden(model: nareg.SpaceTimeModel) -> np.ndarray:
    """Coordinates of the 6 stations that the model does not have."""
    return network(0)[0].coordinates[model.n_nodes :]


def test_a_lapse_rate_is_recovered_and_its_change_over_the_day(case):
    model, _, _ = case
    regression = model.cycles.regression
    per_meter = regression.slopes[:, 0] * model.unit / regression.covariates.scale
    assert per_meter[0] == pytest.approx(LAPSE, rel=0.1)
    assert per_meter[1] == pytest.approx(DAILY, rel=0.2)  # the cosine of the day
    assert model.covariate_lines[0].startswith("means and cycles follow height, by -6.")
    assert "per 1,000: their squared error" in model.summary()


def test_a_slope_is_written_without_an_exponent():
    """A water table that rises with the ground rose "by 1e+02 per 100"."""
    rng = np.random.default_rng(0)
    graph, heights = nareg.graphs.sensor(12, rng=rng), rng.uniform(250, 350, 12)
    y = heights[:, None] + rng.standard_normal((12, 60))
    model = nareg.spacetime.fit(graph, y, dynamics="scalar", covariates={"height": heights}, rng=rng)
    assert model.covariate_lines[0].startswith("means and cycles follow height, by 100 per 100: ")


def test_places_without_a_station_follow_their_height_and_bands_cover(case):
    model, heights, truth = case
    places, n = hidden(model), model.n_nodes
    result = model.interpolate_at(places, covariates={"height": heights[n:]})
    flat = model.interpolate_at(places, covariates={"height": np.full(6, heights[:n].mean())})
    errors = [float(np.sqrt(np.mean((each.x - truth[n:]) ** 2))) for each in (result, flat)]
    assert errors[0] < 0.3 * errors[1]
    low, high = result.interval(0.9)
    assert np.mean((low <= truth[n:]) & (truth[n:] <= high)) >= 0.8


@pytest.mark.slow
def test_bands_of_silent_stations_cover_nine_of_ten():
    shares = []
    for seed in range(8):
        graph, heights, truth, y = network(seed)
        y[-6:] = np.nan
        cycles = cycles_by({"height": heights}, y, graph)
        basis = cycles.basis(3600.0 * np.arange(HOURS))
        x, std = basis @ cycles.level, np.sqrt(basis**2 @ cycles.spread)
        # mean and cycles of the truth, with its slow field in it as their estimates have
        own = basis @ np.linalg.lstsq(basis, truth.T, rcond=None)[0]
        shares.append(np.mean(np.abs(x - own)[:, -6:] <= 1.645 * std[:, -6:]))
    assert 0.8 <= np.mean(shares) <= 0.97


@pytest.mark.slow
def test_zero_and_unit_of_a_covariate_change_nothing():
    graph, heights, _, y = network(1)
    y[-3:] = np.nan
    expected = cycles_by({"height": heights}, y, graph)
    assert expected.regression.used.all()
    for values in (heights + 4000, 3.28 * heights, -heights):
        result = cycles_by({"height": values}, y, graph)
        np.testing.assert_allclose(result.level, expected.level, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(result.spread, expected.spread, rtol=1e-6)


def test_the_order_of_the_stations_changes_nothing():
    graph, heights, _, y = network(1)
    expected = cycles_by({"height": heights}, y, graph)
    order = np.random.default_rng(0).permutation(N)
    result = cycles_by({"height": heights[order]}, y[order], graph.subgraph(order))
    np.testing.assert_allclose(result.level, expected.level[:, order], rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(result.errors, expected.errors[:, order], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("value", [0.0, 512.0])
def test_a_constant_covariate_changes_nothing(value):
    graph, _, _, y = network(2)
    hours = regular(3600.0 * np.arange(HOURS), 3600.0, dated=True)
    plain = DenseLearner(Space.of(graph)).cycles(y.T, hours, "auto")
    result = cycles_by({"height": np.full(N, value)}, y, graph)
    for name in ("level", "spread", "dual", "errors"):
        np.testing.assert_array_equal(getattr(result, name), getattr(plain, name))
    assert not result.regression.used.any()


@pytest.mark.slow
def test_only_what_helps_is_used():
    used, slopes = np.zeros(2), np.zeros(2)
    for seed in range(12):
        graph, heights, _, y = network(seed)
        lottery = np.random.default_rng(100 + seed).standard_normal(N)
        regression = cycles_by({"lottery": lottery, "height": heights}, y, graph).regression
        used += regression.used
        slopes += np.abs(regression.slopes[0])
    assert used[1] == 12
    assert used[0] <= 2
    assert slopes[0] < 0.02 * slopes[1]
    graph, heights, _, y = network(0)
    few = np.arange(5)
    assert not cycles_by({"height": heights[few]}, y[few], graph.subgraph(few)).regression.used.any()


@pytest.mark.slow
def test_a_line_says_what_does_not_help():
    graph, _, _, y = network(0)
    lottery = np.random.default_rng(5).standard_normal(N)
    model = nareg.spacetime.fit(graph, y, times=TIMES, dynamics="scalar", covariates={"lottery": lottery})
    assert model.covariate_lines == ("lottery is not used: it does not help at stations that are left out",)
    result = model.interpolate_at([[50.0, 50.0]])  # which needs none
    np.testing.assert_array_equal(result.x, model.interpolate_at([[50.0, 50.0]], covariates={"lottery": [3.0]}).x)


def test_new_stations_have_the_estimate_of_places(case):
    model, heights, _ = case
    places, values = hidden(model), {"height": heights[model.n_nodes :]}
    result = model.interpolate_at(places, covariates=values)
    larger = model.extended(places, covariates=values)
    np.testing.assert_allclose(larger.smooth(robust=False).x[-6:], result.x, atol=0.05)
    np.testing.assert_allclose(larger.cycles.regression.covariates.values[-6:, 0], values["height"])
    back = larger.without(larger.graph.names[-6:])
    np.testing.assert_allclose(back.interpolate_at(places, covariates=values).x, result.x, rtol=1e-3, atol=1e-4)
    stream = model.stream()
    stream.add_station("summit", places[0], {"height": 4000.0})
    assert stream.model.cycles.regression.covariates.values[-1, 0] == pytest.approx(4000.0)
    ranking = nareg.spacetime.placement(model, coordinates=places, covariates=values)
    assert ranking.reduction.shape == (6,)


def test_a_saved_model_has_its_covariates(case, tmp_path):
    model, heights, _ = case
    model.save(tmp_path / "model.npz")
    loaded = nareg.spacetime.load(tmp_path / "model.npz")
    places, values = hidden(model), {"height": heights[model.n_nodes :]}
    expected, result = (m.interpolate_at(places, covariates=values) for m in (model, loaded))
    np.testing.assert_array_equal(result.x, expected.x)
    np.testing.assert_array_equal(result.std, expected.std)


@pytest.mark.slow
def test_the_sparse_engine_follows_what_helps_and_fills_in_a_silent_summit():
    graph, heights, truth, y = network(1, 40)
    top = np.argsort(heights)[-4:]
    y[top] = np.nan
    given = {"height": heights, "number": np.random.default_rng(0).standard_normal(40)}
    flat, model = (nareg.spacetime.fit(graph, y, times=TIMES, engine="sparse", covariates=each) for each in (None, given))
    assert model.cycles.follows == ("height",)
    assert model.covariate_lines[0].startswith("means and cycles follow height, by -6.")
    errors = [np.sqrt(np.mean((m.smooth().x - truth)[top] ** 2)) for m in (flat, model)]
    assert errors[1] < 0.3 * errors[0]
    smoothed = model.smooth()
    assert np.mean(np.abs(smoothed.x - truth)[top] < 1.645 * smoothed.std[top]) > 0.7


def test_wrong_covariates(case):
    model, heights, _ = case
    graph, y, n = model.graph, model.readings, model.n_nodes
    some = heights[:n].copy()
    some[3] = np.nan

    def fit(covariates: object) -> None:
        nareg.spacetime.fit(graph, y, times=TIMES, covariates=covariates)

    for act, message in (
        (lambda: fit({"height": some}), r"covariates\['height'\]\[3\] is nan"),
        (lambda: fit({"height": heights}), r"covariates\['height'\] has shape \(30,\)"),
        (lambda: fit([heights[:n]]), "covariates is a list: pass a mapping"),
        (lambda: model.interpolate_at(hidden(model)), "covariates lacks 'height', which the model's means follow"),
        (lambda: model.interpolate_at(hidden(model), covariates={"heigth": 1.0}), "names 'heigth', but the model has 'height'"),
        (lambda: model.interpolate_at(hidden(model), covariates={"height": [1.0]}), r"shape \(1,\)"),
        (lambda: model.extended(hidden(model)), "covariates lacks 'height'"),
    ):
        with pytest.raises(InputError, match=message):
            act()
    bare = nareg.spacetime.fit(graph.subgraph(np.arange(5)), y[:5], times=TIMES, dynamics="scalar")
    with pytest.raises(InputError, match="names 'height', but the model has none"):
        bare.interpolate_at(hidden(model), covariates={"height": heights[n:]})
