"""Models of large networks: what they estimate, what they refuse, and their files."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import nareg
from nareg._solvers.backends import Torch
from nareg.errors import DegenerateFitWarning, InputError, TooLargeError
from nareg.spacetime import SpaceTimeModel, SparseSpaceTimeModel, fit, load
from tests.helpers import at_night, little_memory
from tests.spacetime.large.reference import dense, model_of, process, readings

pytestmark = pytest.mark.slow
RNG = np.random.default_rng


@pytest.fixture(scope="module")
def case():
    graph, p = process(n=60)
    truth, y = readings(p, 120, RNG(0), 0.2)
    return graph, p, truth, y, fit(graph, y + 20.0, engine="sparse", rng=RNG(0))


@pytest.mark.slow
def test_smooth_is_the_dense_smoothers(case):
    graph, p, _, y, _ = case
    done, exact = model_of(graph, p, y).smooth(), dense(p, y)
    np.testing.assert_allclose(done.x, exact.x.T, atol=1e-6)
    assert done.log_likelihood == pytest.approx(exact.log_likelihood, rel=0.005)
    np.testing.assert_array_equal(model_of(graph, p, y).smooth().x, done.x)


@pytest.mark.slow
def test_a_fit_estimates_nearly_as_well_as_the_true_process(case):
    _, p, truth, y, model = case
    done = model.smooth()
    error, least = np.mean((done.x - 20.0 - truth) ** 2), np.mean((dense(p, y).x.T - truth) ** 2)
    assert error < 1.15 * least
    assert np.mean(np.abs(done.x - 20.0 - truth) <= 1.645 * done.std) == pytest.approx(0.9, abs=0.05)
    assert np.isfinite(done.x).all()
    assert model.status.ok
    hidden = np.isfinite(y) & (RNG(5).random(y.shape) < 0.1)
    lower, upper = model.smooth(np.where(hidden, np.nan, y + 20)).interval(0.9, of="reading")
    assert np.mean((lower <= y + 20)[hidden] & (y + 20 <= upper)[hidden]) == pytest.approx(0.9, abs=0.04)


@pytest.mark.slow
def test_dense_and_sparse_engines_agree_on_a_field_of_the_graph(case):
    graph, _, truth, y, model = case
    without = nareg.Graph(graph.adjacency)  # no coordinates: the dense model's field is of the graph, too
    other = fit(without, y + 20.0, dynamics="scalar", engine="dense", rng=RNG(0))
    assert isinstance(other, SpaceTimeModel)
    ours, theirs = model.smooth().x - 20, other.smooth().x - 20
    assert np.mean((ours - truth) ** 2) < 1.1 * np.mean((theirs - truth) ** 2)


def test_forecast_falls_to_the_mean_with_the_fields_variance(case):
    graph, p, _, y, _ = case
    ahead = model_of(graph, p, y).forecast(100)
    last = dense(p, y).x[-1]
    np.testing.assert_allclose(ahead.x[:, 0], p.rho * last, atol=1e-4)
    assert np.abs(ahead.x[:, -1]).max() < 1e-3
    np.testing.assert_allclose(ahead.std[:, -1], np.sqrt(p.variance), rtol=1e-6)
    assert (np.diff(ahead.std, axis=1) >= -1e-12).all()
    np.testing.assert_array_equal(ahead.times[:2], [120.0, 121.0])


def test_simulated_readings_have_the_processs_moments(case):
    graph, p, _, y, _ = case
    field, noisy = model_of(graph, p, y).simulate(RNG(0), n_times=4000)
    assert field.var() == pytest.approx(p.variance, rel=0.1)
    assert (noisy - field).var(axis=1) == pytest.approx(p.noise, rel=0.2)
    assert np.mean(field[:, 1:] * field[:, :-1]) / field.var() == pytest.approx(p.rho, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("n_times", [80, *at_night([120])])
def test_outliers_are_left_out(n_times, case):
    graph, p, truth, y, _ = case
    truth, y = truth[:, :n_times], y[:, :n_times]
    wild = y.copy()
    seen = np.argwhere(np.isfinite(y))[::1201]
    wild[tuple(seen.T)] += 20.0
    model = fit(graph, wild, engine="sparse", rng=RNG(0))
    assert model.excluded[tuple(seen.T)].mean() > 0.95
    assert model.excluded.sum() < 3 * len(seen)
    assert np.mean((model.smooth().x - truth) ** 2) < 1.15 * np.mean((dense(p, y).x.T - truth) ** 2)
    fresh = model_of(graph, p, y)
    assert np.mean((fresh.smooth(wild).x - truth) ** 2) < 1.1 * np.mean((dense(p, y).x.T - truth) ** 2)
    scores = np.abs(fresh.scores(wild))
    assert (scores[tuple(seen.T)] > 5).mean() > 0.95


@pytest.mark.slow
def test_a_model_returns_from_its_file(case, tmp_path):
    model = case[-1]
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert isinstance(again, SparseSpaceTimeModel)
    np.testing.assert_array_equal(again.smooth().x, model.smooth().x)
    np.testing.assert_array_equal(again.smooth().interval(0.9)[0], model.smooth().interval(0.9)[0])
    assert again.summary() == model.summary()


def test_a_model_travels_to_other_processes(case):
    model = case[-1]
    done = model.smooth()  # which factors
    again = pickle.loads(pickle.dumps((model, done)))
    np.testing.assert_array_equal(again[0].smooth().x, done.x)
    np.testing.assert_array_equal(again[1].interval(0.9), done.interval(0.9))


@pytest.mark.nightly
def test_cycles_and_levels_of_dated_readings():
    rng = RNG(2)
    graph = nareg.Graph.from_knn(rng.random((50, 2)), 6)
    times = np.datetime64("2024-01-01T00") + np.arange(24 * 20) * np.timedelta64(1, "h")
    wave = np.cos(2 * np.pi * np.arange(times.size) / 24)
    level = 10 + 3 * graph.coordinates[:, :1]
    y = level + 4 * wave + 0.5 * rng.standard_normal((50, times.size))
    with pytest.warns(DegenerateFitWarning, match="the variance of the field runs to zero"):
        model = fit(graph, y, times=times, engine="sparse", rng=rng)
    assert model.cycles.names == ("day",)
    np.testing.assert_allclose(model.cycles.level[0] * model.unit, level[:, 0], atol=0.15)
    assert np.mean((model.smooth().x - level - 4 * wave) ** 2) < 0.02


@pytest.mark.slow
def test_skewed_readings_are_transformed():
    graph, p = process(n=50)
    truth, y = readings(p, 80, RNG(4), 0.1)
    model = fit(graph, np.exp(0.5 * y), engine="sparse", rng=RNG(0))
    assert model.transform.name == "log"
    assert np.corrcoef(np.log(model.smooth().median).ravel(), truth.ravel())[0, 1] > 0.95


@pytest.mark.slow
def test_501_stations_take_the_sparse_engine_by_themselves():
    graph = nareg.graphs.grid((3, 167))
    y = np.cumsum(0.2 * RNG(0).standard_normal(10)) + RNG(1).standard_normal((501, 10))
    model = fit(graph, y, rng=RNG(0))
    assert isinstance(model, SparseSpaceTimeModel)
    assert np.abs(nareg.quality.scores(graph, y, model=model)).max() < 8
    with pytest.raises(InputError, match=r"sparse engine, with 501 stations.*nareg\.quality\.scores"):
        nareg.quality.check(model)


@pytest.mark.parametrize("dynamics", ["diagonal", "full"])
def test_dynamics_that_only_the_dense_engine_has(dynamics):
    with pytest.raises(InputError, match="the sparse engine, for more than 500 stations, has one autoregression"):
        fit(nareg.graphs.grid((3, 167)), np.zeros((501, 20)), dynamics=dynamics)


def test_the_dense_engine_refuses_501_stations():
    with pytest.raises(TooLargeError, match=r"501 stations, more than the 500.*engine='sparse'"):
        fit(nareg.graphs.grid((3, 167)), np.zeros((501, 20)), engine="dense")


def test_an_engine_that_is_none():
    with pytest.raises(InputError, match="engine"):
        fit(nareg.graphs.grid((3, 3)), RNG(0).standard_normal((9, 30)), engine="fast")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::nareg.errors.DegenerateFitWarning")  # white noise has no field
@pytest.mark.parametrize("rows", [1, 2, 12])
def test_short_records(rows):
    y = 5 + RNG(0).standard_normal((60, rows))
    done = fit(nareg.graphs.grid((6, 10)), y, engine="sparse", rng=RNG(0)).smooth()
    assert np.isfinite(done.x).all()
    assert np.abs(done.x.mean() - y.mean()) < 0.3


@pytest.mark.slow
def test_dead_stations_and_parts_without_edges():
    adjacency = np.zeros((40, 40))
    adjacency[:30, :30] = nareg.graphs.grid((5, 6)).adjacency.toarray()
    y = np.cumsum(0.3 * RNG(1).standard_normal(80)) + 0.3 * RNG(0).standard_normal((40, 80))
    y[[2, 35]] = np.nan
    done = fit(nareg.Graph(adjacency), y, engine="sparse", rng=RNG(0)).smooth()
    assert np.isfinite(done.x).all()
    assert np.isfinite(done.std).all()
    assert done.std[35].min() > done.std[3].max()


@pytest.mark.slow
def test_what_would_not_fit_is_refused_before_anything_is_allocated(monkeypatch):
    star = np.ones((1, 1999))
    hub = sp.csr_array(sp.block_array([[None, star], [star.T, None]]))
    readings = np.ones((2000, 2))
    readings[0, 0] = 2.0
    little_memory(monkeypatch)
    with pytest.raises(TooLargeError, match=r"needs about [\d.]+ GiB and this machine has .*graph\.subgraph"):
        fit(nareg.Graph(hub), readings)


@pytest.mark.slow
def test_readings_that_do_not_vary_are_named():
    y = np.repeat(np.arange(60.0)[:, None], 30, axis=1)
    with pytest.warns(DegenerateFitWarning, match="no station has two different readings"):
        done = fit(nareg.graphs.grid((6, 10)), y, engine="sparse", robust=False, rng=RNG(0)).smooth(robust=False)
    np.testing.assert_allclose(done.x, y, atol=0.5)


def test_placement_needs_the_dense_engine(case):
    with pytest.raises(InputError, match=r"model is a SparseSpaceTimeModel.*engine='dense'"):
        nareg.spacetime.placement(case[-1], stations=[1])


@pytest.mark.slow
def test_readings_by_name():
    graph, p = process(n=20)
    named = nareg.Graph(graph.adjacency, names=[f"s{i}" for i in range(20)])
    _, y = readings(p, 20, RNG(0), 0.0)
    one, two = (model_of(named, p, y).stream() for _ in range(2))
    np.testing.assert_array_equal(one.update({"s3": 1.0}).x, two.update([1.0 if i == 3 else np.nan for i in range(20)]).x)
    with pytest.raises(InputError, match="'s99', which the model does not know"):
        one.update({"s99": 1.0})


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2, 90])
@pytest.mark.parametrize("smoothness", [1, 2])
def test_torch_has_the_same_estimate(rows, smoothness):
    torch = pytest.importorskip("torch")
    graph, p = process(n=50, smoothness=smoothness, reach=8.0, rho=0.95)
    _, y = readings(p, rows, RNG(0), 0.3 if rows > 2 else 0.0)
    model = model_of(graph, p, y)
    expected = model.smooth()
    for options in ("torch", Torch(device="cpu"), Torch(device="cpu", dtype=torch.float32)):
        done = model.smooth(backend=options)
        np.testing.assert_allclose(done.x, expected.x, atol=1e-6)
        np.testing.assert_allclose(done.std, expected.std)


def test_backends_that_do_not_solve_are_refused(case):
    graph, p, _, y, _ = case
    with pytest.raises(InputError, match=r"backend is 'cupy'"):
        model_of(graph, p, y).smooth(backend="cupy")
