"""Readings that follow a value per station and time: recovered, judged, saved, continued, and refused where it is unknown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nareg
from nareg.errors import InputError
from nareg.spacetime._readings.station_series import StationSeries
from tests.spacetime.reference import autoregressions

N, T = 10, 500
SILENT = slice(240, 300)
TIMES = np.datetime64("2024-05-01", "s") + 3600 * np.arange(T)


@pytest.fixture(scope="module")
def case() -> tuple[nareg.Graph, np.ndarray, np.ndarray, np.ndarray]:
    """A graph, a reanalysis with a level of its own at each station and slow errors, the truth, and readings with gaps."""
    rng = np.random.default_rng(3)
    places = rng.uniform(size=(N, 2))
    graph = nareg.Graph.from_knn(places, 4, names=[f"S{i}" for i in range(N)])
    truth = 5 + 2 * autoregressions(rng, 0.97, 1, T) + autoregressions(rng, 0.97, N, T) + 4 * rng.standard_normal((N, 1))
    era = 40 + 2 * (truth + 3 * rng.standard_normal((N, 1)) + 0.3 * autoregressions(rng, 0.97, N, T))
    y = truth + 0.2 * rng.standard_normal(truth.shape)
    y[:, SILENT] = np.nan
    y[4, 100:160] = np.nan
    return graph, era, truth, y


def fitted(case, era=None, **options) -> nareg.spacetime.SpaceTimeModel:
    graph, series, _, y = case
    given = {"era": series if era is None else era}
    return nareg.spacetime.fit(graph, y, times=TIMES, cycles=None, dynamics="scalar", covariates=given, **options)


@pytest.fixture(scope="module")
def model(case) -> nareg.spacetime.SpaceTimeModel:
    return fitted(case)


@pytest.mark.parametrize(
    ("engine", "part"), [("dense", slice(0, T)), pytest.param("sparse", slice(60, 360), marks=pytest.mark.slow)]
)
def test_what_differs_between_stations_fills_gaps_of_one_and_of_all(case, engine, part, tmp_path):
    graph, (era, truth, y) = case[0], (values[:, part] for values in case[1:])
    given = [None, {"era": era}, *([{"era": era.mean(axis=0, keepdims=True)}] if engine == "dense" else [])]
    models = [
        nareg.spacetime.fit(graph, y, times=TIMES[part], cycles=None, dynamics="scalar", covariates=one, engine=engine)
        for one in given
    ]
    estimates = [one.smooth() for one in models]
    silent = slice(SILENT.start - part.start, SILENT.stop - part.start)
    for where in (np.s_[:, silent], np.s_[4, 100 - part.start : 160 - part.start]):
        errors = [np.sqrt(np.mean((one.x - truth)[where] ** 2)) for one in estimates]
        assert errors[1] < 0.7 * min(errors[::2])
    own, smoothed = models[1], estimates[1]
    own.save(tmp_path / "m.npz")
    np.testing.assert_array_equal(nareg.spacetime.load(tmp_path / "m.npz").smooth().x, smoothed.x)
    assert 0.8 < np.mean(np.abs(smoothed.x - truth)[:, silent] < 1.645 * smoothed.std[:, silent]) < 0.99


def test_slopes_are_those_of_the_truth_in_any_unit(case, model):
    line = model.covariate_lines[0]
    assert line.startswith("estimates follow era at the stations, their mean, 0.5 per unit: the squared error of mean and")
    assert "; and what each has beside it, 0.4" in line
    other = fitted(case, 273 - 0.01 * case[1])
    np.testing.assert_allclose(other.smooth().x, model.smooth().x, rtol=1e-6)


@pytest.mark.slow
def test_neither_a_useless_series_nor_noise_at_the_stations_is_followed(case):
    rng = np.random.default_rng(1)
    graph, _, truth, y = case
    useless = fitted(case, 30 * autoregressions(rng, 0.95, N, T))
    assert useless.covariate_lines == ("era is not used: it does not help in stretches of time that are left out",)
    plain = nareg.spacetime.fit(graph, y, times=TIMES, cycles=None, dynamics="scalar")
    np.testing.assert_allclose(useless.smooth().x, plain.smooth().x, atol=1e-9)
    noisy = fitted(case, truth + 3 * rng.standard_normal(truth.shape))
    assert "their mean" in noisy.covariate_lines[0]
    assert "beside it" not in noisy.covariate_lines[0]


@pytest.mark.slow
def test_series_drawn_at_random_are_hardly_ever_followed():
    rng, used = np.random.default_rng(2), 0
    for _ in range(60):
        y = (0.8 * autoregressions(rng, 0.95, 1, T) + 0.5 * autoregressions(rng, 0.95, 6, T)).T
        series = StationSeries.of(
            {"junk": autoregressions(rng, 0.95, 1, T) + autoregressions(rng, 0.95, 6, T)}, 1.0 * np.arange(T)
        )
        used += len(series.chosen(y, series.seconds, np.ones((T, 1))).used)
    assert used <= 3


@pytest.mark.slow
def test_readings_at_uneven_times_follow_it_too(case):
    graph, era, truth, y = case
    times = np.sort(np.random.default_rng(0).choice(4 * T, T, replace=False)).astype(float)
    model = nareg.spacetime.fit(graph, y, times=times, dynamics="scalar", covariates={"era": era})
    errors = (model.smooth().x - truth)[:, SILENT]
    assert np.sqrt(np.mean(errors**2)) < 0.7


def test_a_saved_model_goes_on_with_further_values_of_each_station(case, model, tmp_path):
    _, era, truth, y = case
    model.save(tmp_path / "m.npz")
    loaded = nareg.spacetime.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(loaded.smooth().x, model.smooth().x)
    assert loaded.covariate_lines == model.covariate_lines
    part = until(model, 400)
    with pytest.raises(InputError, match="'era', which the estimate follows, has no value at some of these times: pass"):
        part.smooth(y, times=TIMES)
    later = part.with_covariates({"era": era[:, 400:]}, TIMES[400:])
    np.testing.assert_allclose(later.smooth(y, times=TIMES).x, model.smooth(y, times=TIMES).x, atol=1e-9)
    stream = later.stream(readings=y[:, :400], times=TIMES[:400])
    assert np.abs(stream.update(y[:, 400], time=TIMES[400]).x - truth[:, 400]).max() < 1
    with pytest.raises(
        InputError, match=r"covariates\['era'\] has shape \(100,\), .*: pass shape \(10, 100\), a row per station"
    ):
        part.with_covariates({"era": era[0, 400:]}, TIMES[400:])
    with pytest.raises(InputError, match="covariates lacks 'era', which the estimate follows"):
        part.with_covariates({"other": era[:, 400:]}, TIMES[400:])


def until(model: nareg.spacetime.SpaceTimeModel, stop: int) -> nareg.spacetime.SpaceTimeModel:
    """The model with the values of its series before a time alone."""
    local = model.cycles.local
    assert local is not None
    some = replace(local, seconds=local.seconds[:stop], own=local.own[:stop], shared=local.shared[:stop])
    return replace(model, cycles=replace(model.cycles, local=some))


def test_new_places_are_refused_and_fewer_stations_follow_the_same(model):
    for there in (model.interpolate_at, model.extended):
        with pytest.raises(
            InputError, match="estimates follow 'era' at each station, whose values at new places are unknown: fit"
        ):
            there([[0.5, 0.5]])
    few = model.without([0, 1])
    seconds = model.grid.seconds
    np.testing.assert_allclose(few.cycles.local.at(seconds), model.cycles.local.at(seconds)[:, 2:], atol=1e-12)


def test_gaps_and_shapes_are_named_with_what_to_pass(case):
    holes = case[1].copy()
    holes[3, 100:110] = np.nan
    with pytest.raises(InputError, match=r"covariates\['era'\]\[3\] has no value between the times 99 and 110: fill it in"):
        fitted(case, holes)
    with pytest.raises(InputError, match=r"covariates\['era'\]\[0\] has 9 values for 500 times"):
        fitted(case, holes[:, :9])
    for shape in [(T, N), (1, N, T)]:
        with pytest.raises(InputError, match=r"has shape .*: pass shape \(1, 500\) .* or \(10, 500\), a row per station"):
            fitted(case, np.ones(shape))
