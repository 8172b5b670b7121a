"""A stream is the filter of the batch; stations come and go; bad readings move their neighbors by a bounded amount."""

from __future__ import annotations

import copy
import itertools
import pickle
import sys
import threading

import numpy as np
import pytest

import nareg
from nareg.errors import BusyError, InputError
from nareg.spacetime import load_stream
from nareg.spacetime._dense.filter import Dynamics
from nareg.spacetime._dense.smoother import run
from tests.spacetime.reference import KINDS, model_of, network, parameters, random_dynamics

EXACT = {"rtol": 1e-8, "atol": 1e-8}


def filtered(model, y):
    """Mean and variance of the field after each of the readings (N, T), by one pass over all of them."""
    done = run(y.T, model.dynamics, model.unit_noise, smooth=False)
    return done, done.x, done.var


def assert_same(update, other):
    for name in ("x", "std", "innovations", "scores", "clipped"):
        np.testing.assert_array_equal(getattr(update, name), getattr(other, name))
    assert update.log_likelihood == other.log_likelihood


def with_dynamics(seed, order, kind, n=5, T=30):
    """A model with random dynamics, and 40 further readings with gaps and a time without any."""
    rng = np.random.default_rng(seed)
    graph = nareg.Graph.from_knn(rng.random((n, 2)), 2, names=[f"s{i}" for i in range(n)])
    y = np.where(rng.random((n, T + 40)) < 0.2, np.nan, rng.standard_normal((n, T + 40)))
    y[:, T + 5] = np.nan
    process = parameters(n, phi=(0.8, -0.2)[:order])
    model = model_of(graph, y[:, :T], process=process, dynamics=random_dynamics(rng, n, order, kind), noise=0.1 + rng.random(n))
    return model, y


@pytest.mark.parametrize(("order", "kind"), list(itertools.product((1, 2), KINDS)))
@pytest.mark.parametrize("gaps", [False, True])
def test_stream_is_the_filter_of_the_batch(order, kind, gaps):
    model, y = with_dynamics(0, order, kind)
    if not gaps:
        y[:, 30:] = np.random.default_rng(1).standard_normal((5, 40))
    done, x, var = filtered(model, y)
    stream, total = model.stream(robust=None), filtered(model, y[:, :30])[0].log_likelihood
    for t in range(30, 70):
        update = stream.update(y[:, t])
        np.testing.assert_allclose(update.x, x[t], **EXACT)
        np.testing.assert_allclose(update.std**2, var[t], **EXACT)
        np.testing.assert_allclose(update.innovations, done.innovations[t], **EXACT)
        np.testing.assert_allclose(update.scores, done.innovations[t] / np.sqrt(done.innovation_variances[t]), **EXACT)
        total += update.log_likelihood
        assert stream.time == t
    assert total == pytest.approx(done.log_likelihood, rel=1e-9)


def test_long_complete_stream_stays_the_filter():
    """Long enough for a steady state, left by a gap and reached again."""
    model = network(n=5, T=20, gaps=0.0, phi=(0.7,))
    rng = np.random.default_rng(3)
    y = np.hstack([model.readings, rng.standard_normal((5, 300))])
    y[2, 150:155] = np.nan
    y[:, 200] = np.nan
    _, x, var = filtered(model, y)
    stream = model.stream(robust=None)
    for t in range(20, 320):
        update = stream.update(y[:, t])
        np.testing.assert_allclose(update.x, x[t], **EXACT)
        np.testing.assert_allclose(update.std**2, var[t], **EXACT)


@pytest.mark.parametrize("jump", [2, 7, 500])
def test_skipped_times_are_times_without_readings(jump):
    model = network(n=4, T=15)
    y = np.full((4, 16 + jump), np.nan)
    y[:, :15] = model.readings
    y[:, [14 + jump, 15 + jump]] = np.random.default_rng(0).standard_normal((4, 2))
    _, x, var = filtered(model, y)
    stream = model.stream(robust=None)
    for t, time in ((14 + jump, 14 + jump), (15 + jump, None)):
        update = stream.update(y[:, t], time=time)
        assert stream.time == t
        np.testing.assert_allclose(update.x, x[t], **EXACT)
        np.testing.assert_allclose(update.std**2, var[t], **EXACT)


def test_dates_texts_and_order_of_times():
    times = np.datetime64("2024-05-01") + np.arange(20) * np.timedelta64(10, "m")
    model = network(n=4, T=20, times=times)
    stream = model.stream()
    assert stream.time == times[-1]
    stream.update(np.zeros(4))
    assert stream.time == np.datetime64("2024-05-01T03:20")
    stream.update(np.zeros(4), time="2024-05-01T04:00")
    assert stream.time == np.datetime64("2024-05-01T04:00")
    for time, message in (
        ("2024-05-01T03:50", "not after the last step"),
        ("2024-05-01T04:00", "merge the readings of one step"),
        ("2024-05-01T04:02", "merge the readings of one step"),
        (5.0, "the model's times are dates"),
        ("yesterday", "not an ISO date"),
        ("2024-05-01T05:00+02:00", "time zone"),
        ("2124-05-01", "more than 100,000 steps"),
        (np.datetime64("NaT"), "give every column a time"),
    ):
        before = stream.time
        with pytest.raises(InputError, match=message):
            stream.update(np.zeros(4), time=time)
        assert stream.time == before


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(3), "y has 3 readings but the model has 4 stations"),
        (np.zeros((4, 1)), "1-dimensional"),
        ([0.0, np.inf, 0.0, 0.0], r"y\[1\] is infinite"),
        ([0.0, 1.0, 2.0, "a"], "y has dtype"),
        (np.zeros(4, dtype=bool), "y is boolean"),
    ],
)
def test_refused_readings_leave_the_stream_as_it_was(y, message):
    stream, twin = (network(n=4, T=20).stream() for _ in range(2))
    with pytest.raises(InputError, match=message):
        stream.update(y)
    assert_same(stream.update(np.ones(4)), twin.update(np.ones(4)))


def test_spike_moves_neighbors_by_a_bounded_amount_and_a_stuck_station_is_set_aside():
    model = network(n=6, T=60, gaps=0.0)
    spread = np.sqrt(model.unit_noise[0] + 1.0)
    calm = np.zeros(6)
    plain, spiked, worse, naive = model.stream(), model.stream(), model.stream(), model.stream(robust=None)
    reference = plain.update(calm)
    for stream, size in ((spiked, 50), (worse, 5000)):
        update = stream.update(calm + size * spread * (np.arange(6) == 2))
        assert update.clipped.tolist() == [False, False, True, False, False, False]
        assert update.scores[2] > 20
        # never further than a reading at the edge of what is credible moves it
        assert np.abs(update.x - reference.x).max() < 4 * spread
    np.testing.assert_allclose(spiked._z, worse._z, atol=1e-10)
    bent = naive.update(calm + 50 * spread * (np.arange(6) == 2))
    assert np.abs(bent.x - reference.x).max() > 3 * np.abs(update.x - reference.x).max()
    for _ in range(30):
        update = spiked.update(calm + 50 * spread * (np.arange(6) == 2))
        reference = plain.update(np.where(np.arange(6) == 2, np.nan, calm))
    np.testing.assert_allclose(np.delete(update.x, 2), np.delete(reference.x, 2), atol=0.01)
    assert abs(update.x[2]) < 0.3
    assert update.clipped[2]


def test_station_that_was_set_aside_comes_back():
    model = network(n=6, T=60, gaps=0.0)
    stream = model.stream()
    for _ in range(10):
        stream.update(np.where(np.arange(6) == 2, 40.0, 0.0))
    for _ in range(10):
        update = stream.update(np.zeros(6))
    assert not update.clipped.any()
    assert update.std[2] == pytest.approx(model.stream().update(np.zeros(6)).std[2], rel=0.1)


@pytest.mark.parametrize("robust", [None, 3.0])
@pytest.mark.parametrize(("order", "kind"), list(itertools.product((1, 2), KINDS)))
@pytest.mark.slow
def test_resumed_stream_is_the_same_to_the_last_bit(order, kind, robust, tmp_path):
    model, y = with_dynamics(4, order, kind)
    y[:, 45:55] = np.random.default_rng(0).standard_normal((5, 10))
    stream = model.stream(robust=robust)
    resumed = []
    for t in range(30, 70):
        if t in (30, 36, 50, 60):  # at the start, after a time without readings, in a complete stretch, after a gap
            stream.save(tmp_path / "stream.npz")
            resumed.append(load_stream(tmp_path / "stream.npz"))
            assert resumed[-1].time == stream.time
        update = stream.update(y[:, t])
        for other in resumed:
            assert_same(update, other.update(y[:, t]))


def test_resumed_stream_keeps_a_steady_state(tmp_path):
    model = network(n=5, T=300, gaps=0.0, phi=(0.6,))
    stream = model.stream(robust=None)
    for _ in range(60):
        stream.update(np.ones(5))
    assert stream._steady
    stream.save(tmp_path / "s.npz")
    again = load_stream(tmp_path / "s.npz")
    for k in range(20):
        assert_same(stream.update(np.full(5, float(k))), again.update(np.full(5, float(k))))


@pytest.mark.parametrize(("order", "kind"), list(itertools.product((1, 2), KINDS)))
def test_stream_after_extension_is_the_batch_of_the_extended_model(order, kind):
    """A station that joins later is a station that had not read anything before."""
    model, y = with_dynamics(2, order, kind)
    larger = model.extended([[0.4, 0.6]], ["new"])
    assert larger.graph.names[-1] == "new"
    rng = np.random.default_rng(5)
    more = np.vstack([y, np.full(70, np.nan)])
    more[5, 45:] = rng.standard_normal(25)
    done, x, var = filtered(larger, more)
    joined, fresh = model.stream(robust=None), larger.stream(robust=None)
    for t in range(30, 70):
        if t == 45:
            joined.add_station("new", [0.4, 0.6])
        smoothed = joined.update(more[: joined.model.n_nodes, t])
        batch = fresh.update(more[:, t])
        n = joined.model.n_nodes
        np.testing.assert_allclose(batch.x, x[t], **EXACT)
        np.testing.assert_allclose(smoothed.x, x[t, :n], **EXACT)
        np.testing.assert_allclose(smoothed.std**2, var[t, :n], **EXACT)
    assert joined.model.graph.names == larger.graph.names
    assert done.x.shape == (70, 6)


def test_new_station_begins_with_its_kriging_estimate():
    """Scalar dynamics: the field at the new place given the others' filtered field, by the covariance alone."""
    model = network(n=6, T=60, gaps=0.0)
    stream = model.stream(robust=None)
    place = np.array([[1.7, 2.1]])
    K = model.parameters.covariance(model.space)
    eta = 1 / (1 + np.exp(-model.parameters.logit_eta))
    cross = (1 - eta) * model.space.cross_correlation("exponential", np.exp(model.parameters.log_reach), place)
    weights = np.linalg.solve(K, cross.T)[:, 0]
    before, P = stream._z.copy(), stream._P.copy()
    stream.add_station("new", place[0])
    assert stream._z[-1] == pytest.approx(weights @ before, rel=1e-9)
    own = K[0, 0] - cross[0] @ weights
    assert stream._P[-1, -1] == pytest.approx(weights @ P @ weights + own, rel=1e-9)


@pytest.mark.parametrize(("order", "kind"), list(itertools.product((1, 2), ("scalar", "diagonal"))))
def test_removed_station_is_one_that_reads_no_more(order, kind):
    model, y = with_dynamics(6, order, kind)
    stream, silent = model.stream(robust=None), model.stream(robust=None)
    stream.remove_station("s1")
    assert stream.model.graph.names == ("s0", "s2", "s3", "s4")
    others = [0, 2, 3, 4]
    for t in range(30, 70):
        smoothed = stream.update(y[others, t])
        expected = silent.update(np.where(np.arange(5) == 1, np.nan, y[:, t]))
        np.testing.assert_allclose(smoothed.x, expected.x[others], **EXACT)
        np.testing.assert_allclose(smoothed.std, expected.std[others], **EXACT)


@pytest.mark.parametrize("order", [1, 2])
def test_removed_station_of_full_dynamics_loses_its_influence(order):
    """What it read long ago no longer counts, and the model that is left is a model of its own."""
    model, y = with_dynamics(6, order, "full")
    streams = []
    for size in (0.0, 30.0):
        stream = model.stream(robust=None)
        stream.update(np.where(np.arange(5) == 1, size, y[:, 30]))
        stream.remove_station(1)
        streams.append(stream)
    gaps = []
    for t in range(31, 70):
        one, other = (stream.update(y[[0, 2, 3, 4], t]).x for stream in streams)
        gaps.append(np.abs(one - other).max())
    assert gaps[0] > 1e-3
    assert gaps[-1] < 1e-3 * gaps[0]
    assert np.linalg.eigvalsh(streams[0].model.dynamics.Q)[0] > 0


def test_stations_join_and_leave_and_the_stream_is_saved_on_the_way(tmp_path):
    stream = network(n=5, T=40).stream()
    stream.add_station("new", [1.0, 1.0])
    stream.update(np.zeros(6))
    stream.remove_station("s0")
    stream.save(tmp_path / "s.npz")
    again = load_stream(tmp_path / "s.npz")
    assert again.model.graph.names == ("s1", "s2", "s3", "s4", "new")
    for _ in range(3):
        assert_same(stream.update(np.ones(5)), again.update(np.ones(5)))
    again.add_station("s0", [0.5, 0.5])
    assert again.update(np.ones(6)).x.shape == (6,)


def test_what_no_station_can_do():
    named, nameless = network(n=3, T=20).stream(), network(n=3, T=20, names=False).stream()
    refused = [
        (lambda: named.add_station("s1", [0.0, 0.0]), "'s1', which another station has"),
        (lambda: named.add_station(None, [0.0, 0.0]), "not a text"),
        (lambda: named.add_station("new", [0.0]), "columns each"),
        (lambda: named.add_station("new", [0.0, np.nan]), "finite"),
        (lambda: nameless.add_station("new", [0.0, 0.0]), "have no names"),
        (lambda: named.remove_station("there"), "not in the model"),
        (lambda: named.remove_station(3), "3 stations"),
        (lambda: named.remove_station(-1), "at least 0"),
        (lambda: nameless.remove_station("s1"), "has no names"),
    ]
    for act, message in refused:
        with pytest.raises(InputError, match=message):
            act()
    nameless.add_station(None, [0.0, 0.0])
    for _ in range(3):
        nameless.remove_station(0)
    with pytest.raises(InputError, match="keep at least one"):
        nameless.remove_station(0)
    assert nameless.update([0.0]).x.shape == (1,)


def test_graph_without_coordinates_takes_no_new_station():
    path = nareg.Graph(np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1))
    model = model_of(path, np.zeros((4, 20)), process=parameters(4, family="graph"))
    with pytest.raises(InputError, match="no coordinates"):
        model.stream().add_station(None, [0.0, 0.0])
    assert model.without(0).n_nodes == 3


def test_dynamics_of_the_stations_left_are_the_regression_on_them():
    """Where the first state is stationary, so is what is left of it."""
    from nareg.spacetime._dense.places import restricted

    rng = np.random.default_rng(0)
    old = random_dynamics(rng, 4, 1, "full")
    P = old.P0
    for _ in range(400):
        P = old.covariance_after(P, 1.0)
    old = Dynamics(old.blocks, old.Q, P)
    new = restricted(old, np.array([0, 1, 3]))
    np.testing.assert_allclose(new.covariance_after(new.P0, 1.0), new.P0, atol=1e-9)


def test_readings_by_name_are_the_array_and_a_stranger_is_named():
    model = network(n=4, T=20)
    one, two = model.stream(), model.stream()
    by_name = one.update({"s2": 0.5, "s0": -0.25, "s1": np.nan})
    np.testing.assert_array_equal(by_name.x, two.update(np.array([-0.25, np.nan, 0.5, np.nan])).x)
    with pytest.raises(InputError, match="reading of station 'roof', which the model does not know: add it first"):
        one.update({"s0": 1.0, "roof": 2.0})
    with pytest.raises(InputError, match=r"y\['s1'\]"):
        one.update({"s1": np.inf})
    with pytest.raises(InputError, match=r"y has 5 readings but the model has 4 stations: .* needs add_station"):
        one.update(np.zeros(5))
    np.testing.assert_array_equal(one.update(np.zeros(4)).x, two.update(np.zeros(4)).x)  # nothing was changed
    with pytest.raises(InputError, match="stations have no names: pass an array"):
        network(n=4, T=20, names=False).stream().update({"s0": 1.0})


@pytest.mark.parametrize("library", ["pandas", "xarray"])
def test_readings_with_a_named_axis_go_by_name_in_any_order(library):
    import pandas as pd

    pytest.importorskip(library)
    model = network(n=4, T=20)
    series = pd.Series([3.0, np.nan, 1.0], index=pd.Index(["s3", "s2", "s0"], name="station"))
    expected = model.stream().update(np.array([1.0, np.nan, np.nan, 3.0])).x
    np.testing.assert_array_equal(model.stream().update(series if library == "pandas" else series.to_xarray()).x, expected)


def test_series_that_names_a_station_twice_is_refused_and_one_without_names_is_an_array():
    import pandas as pd

    twice = pd.Series([1.0, 2.0], index=["s1", "s1"])
    with pytest.raises(InputError, match="y: station 's1' appears twice"):
        network(n=4, T=20).stream().update(twice)
    nameless = network(n=4, T=20, names=False)
    y = pd.Series([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(nameless.stream().update(y).x, nameless.stream().update(y.to_numpy()).x)


def shared(stream, y, n_threads=4, n_updates=25):
    """A stream that threads update with the same readings, each so many times."""

    def run():
        for _ in range(n_updates):
            stream.update(y)

    threads = [threading.Thread(target=run) for _ in range(n_threads)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    return stream


def test_threads_that_share_a_stream_lose_no_update():
    model, y = with_dynamics(3, 1, "full")
    here, there = model.stream(), shared(model.stream(), y[:, 30])
    for _ in range(100):
        here.update(y[:, 30])
    assert there.time == here.time
    assert_same(there.update(y[:, 31]), here.update(y[:, 31]))
    assert_same(copy.deepcopy(there).update(y[:, 32]), pickle.loads(pickle.dumps(there)).update(y[:, 32]))


def test_an_update_in_the_middle_of_another_is_refused():
    """As a signal's handler would ask for it."""

    class Asks:
        def __array__(self, dtype=None, copy=None):
            stream.update(y[:, 30])
            raise AssertionError("not reached")

    model, y = with_dynamics(3, 1, "full")
    stream = model.stream()
    before = stream.time
    with pytest.raises(BusyError, match="update was called in the middle of an update of this stream"):
        stream.update(Asks())
    stream.update(y[:, 30])
    assert stream.time == before + 1
