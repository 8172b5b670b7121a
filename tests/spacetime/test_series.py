"""Means that follow what all stations share over time: recovered, judged, in the bands, saved, continued, and checked."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.errors import InputError
from nareg.spacetime._readings.series import Series
from tests.spacetime.reference import autoregressions

N, T = 10, 600
SILENT = slice(300, 360)
TIMES = np.datetime64("2024-05-01", "s") + 3600 * np.arange(T)


@pytest.fixture(scope="module")
def case() -> tuple[nareg.Graph, np.ndarray, np.ndarray, np.ndarray]:
    """A graph, a series, the truth that follows it, and readings of which all stations' are missing for 60 hours."""
    rng = np.random.default_rng(3)
    graph = nareg.Graph.from_knn(rng.uniform(size=(N, 2)), 4, names=[f"S{i}" for i in range(N)])
    shared = autoregressions(rng, 0.97, 1, T)
    truth = 5 + shared * (1 + 0.2 * rng.standard_normal((N, 1))) + 0.5 * autoregressions(rng, 0.95, N, T)
    y = truth + 0.3 * rng.standard_normal(truth.shape)
    y[:, SILENT] = np.nan
    return graph, 40 + 7 * shared, truth, y


@pytest.mark.slow
def test_a_series_fills_what_no_station_reads(case):
    graph, shared, truth, y = case
    alone, followed = (
        nareg.spacetime.fit(graph, y, times=TIMES, cycles=None, dynamics="scalar", covariates=given).smooth()
        for given in (None, {"era": shared})
    )
    errors = [(s.x - truth)[:, SILENT] for s in (alone, followed)]
    assert np.sqrt(np.mean(errors[1] ** 2)) < 0.8 * np.sqrt(np.mean(errors[0] ** 2))
    assert 0.8 < np.mean(np.abs(errors[1]) < 1.645 * followed.std[:, SILENT]) < 0.97
    assert np.sqrt(np.mean((followed.x - truth) ** 2)) < np.sqrt(np.mean((alone.x - truth) ** 2))


@pytest.mark.slow
def test_the_sparse_engine_follows_a_series_too(case):
    graph, shared, truth, y = case
    part = slice(240, 420)
    model = nareg.spacetime.fit(graph, y[:, part], cycles=None, covariates={"era": shared[:, part]}, engine="sparse")
    assert model.covariate_lines[0].startswith("estimates follow era, 0.1")
    smoothed, silent = model.smooth(), slice(SILENT.start - part.start, SILENT.stop - part.start)
    errors = (smoothed.x - truth[:, part])[:, silent]
    assert np.sqrt(np.mean(errors**2)) < 0.6
    assert 0.8 < np.mean(np.abs(errors) < 1.645 * smoothed.std[:, silent]) < 0.99


@pytest.mark.slow
def test_slopes_are_those_of_the_truth_and_a_series_without_use_is_left_out(case, rng):
    graph, shared, _, y = case
    junk = autoregressions(rng, 0.9, 1, T)
    model = nareg.spacetime.fit(graph, y, times=TIMES, dynamics="scalar", covariates={"junk": junk, "era": shared})
    first, second = model.covariate_lines
    assert first == "junk is not used: it does not help in stretches of time that are left out"
    slope = float(second.removeprefix("estimates follow era, ").split(" per unit")[0])
    assert abs(slope - 1 / 7) < 0.03
    assert all(line in model.summary() for line in model.covariate_lines)


@pytest.mark.slow
def test_series_drawn_at_random_are_hardly_ever_followed(rng):
    used = 0
    for _ in range(60):
        y = (0.8 * autoregressions(rng, 0.95, 1, T) + 0.5 * autoregressions(rng, 0.95, 6, T)).T
        series = Series.of({"junk": autoregressions(rng, 0.95, 1, T)}, 1.0 * np.arange(T))
        used += int(series.chosen(y, series.seconds, np.ones((T, 1))).used[0])
    assert used <= 3


@pytest.mark.slow
def test_unit_and_zero_of_a_series_change_nothing(case):
    graph, shared, _, y = case
    one, other = (
        nareg.spacetime.fit(graph, y, times=TIMES, dynamics="scalar", covariates={"era": given}).smooth().x
        for given in (shared, 273 - 0.01 * shared)
    )
    np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.slow
def test_a_model_with_a_series_is_saved_and_goes_on_with_further_values(case, tmp_path):
    graph, shared, _, y = case
    model = nareg.spacetime.fit(graph, y, times=TIMES, dynamics="scalar", covariates={"era": shared})
    model.save(tmp_path / "m.npz")
    loaded = nareg.spacetime.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(loaded.smooth().x, model.smooth().x)
    with pytest.raises(InputError, match="'era', which the estimate follows, has no value at some of these times: pass"):
        loaded.forecast(3)
    later = TIMES[-1] + 3600 * np.arange(1, 200)
    warm = loaded.with_covariates({"era": np.full(199, 40 + 7 * 3.0)}, later).forecast(199)
    cold = loaded.with_covariates({"era": np.full(199, 40 - 7 * 3.0)}, later).forecast(199)
    assert abs((warm.x - cold.x)[:, -1].mean() - 6) < 1
    known = warm.std[:, -1]
    assert (known > model.smooth().std.mean()).all()
    with pytest.raises(InputError, match="covariates lacks 'era', which the estimate follows"):
        loaded.with_covariates({"other": np.zeros(199)}, later)
    with pytest.raises(InputError, match="times are numbers, the model's are not"):
        loaded.with_covariates({"era": np.zeros(9)}, np.arange(9))
    plain = nareg.spacetime.fit(graph, y, times=TIMES, dynamics="scalar")
    with pytest.raises(InputError, match="the model follows none over time"):
        plain.with_covariates({"era": np.zeros(199)}, later)


def test_gaps_of_a_series_are_filled_by_straight_lines_and_its_ends_are_needed(case):
    graph, shared, _, y = case
    holes = shared.copy()
    holes[:, 100:103] = np.nan
    model = nareg.spacetime.fit(graph, y, times=TIMES, dynamics="scalar", covariates={"era": holes})
    values = model.cycles.series.values[99:104, 0]
    np.testing.assert_allclose(values, np.linspace(values[0], values[-1], 5))
    holes[:, 100:110] = np.nan
    with pytest.raises(InputError, match=r"covariates\['era'\] has no value between the times 99 and 110: fill it in"):
        nareg.spacetime.fit(graph, y, times=TIMES, covariates={"era": holes})
    holes[:, :2], holes[:, -3:] = np.nan, np.nan
    with pytest.raises(InputError, match=r"at the first 2 and the last 3 of 600 times: .* pass readings of \[:, 2:597\] alone"):
        nareg.spacetime.fit(graph, y, times=TIMES, covariates={"era": holes})
    with pytest.raises(InputError, match=r"covariates\['era'\] has shape \(600,\), a value per time: pass shape \(1, 600\)"):
        nareg.spacetime.fit(graph, y, times=TIMES, covariates={"era": shared[0]})
    with pytest.raises(InputError, match=r"covariates\['era'\] has 9 values for 600 times"):
        nareg.spacetime.fit(graph, y, times=TIMES, covariates={"era": np.zeros((1, 9))})
