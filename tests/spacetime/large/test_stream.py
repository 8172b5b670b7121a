"""A large model's stream follows the Kalman filter, through gaps, jumps and broken sensors, and is the same after a restart."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.errors import InputError
from nareg.spacetime import SparseStream, load_stream
from nareg.spacetime._sparse.field import FieldFamily
from nareg.spacetime._sparse.markov import MarkovFilter, Separators
from nareg.spacetime._sparse.system import Process
from tests.spacetime.large.reference import dense, model_of, process, readings

RNG = np.random.default_rng


def random_case(seed: int, n: int | None = None) -> tuple[nareg.Graph, Process, np.ndarray, np.ndarray, str]:
    """A process from rho .3 to .999 and noise 1e-3 to 1e2, its field and readings (N, 160), and what befalls them."""
    rng = RNG(seed)
    n = n or int(rng.choice([6, 30, 80]))
    smoothness, rho = int(rng.integers(1, 3)), float(rng.choice([0.3, 0.9, 0.98, 0.995, 0.999]))
    reach, noise = float(rng.choice([0.5, 3, 15, 50])), float(10.0 ** rng.uniform(-3, 2))
    spread, gaps = float(rng.choice([0, 0.5, 2.5])), float(rng.choice([0, 0.3, 0.8]))
    places = rng.random((n, 2))
    if rng.random() < 0.3:
        places[: n // 2] += 50  # another group, which no edge joins
    graph = nareg.Graph.from_knn(places, min(4, n - 1))
    of = Process(FieldFamily(graph.adjacency, smoothness).at(reach), rho, 2.0, noise * np.exp(rng.normal(0, spread, n)))
    truth, y = readings(of, 160, rng, gaps)
    befalls = str(rng.choice(["nothing", "blackout", "outage", "new stations"]))
    if befalls == "blackout":
        y[:, 90:110] = np.nan
    elif befalls == "outage":
        y[: n // 2, 60:130] = np.nan
    elif befalls == "new stations":
        y[: n // 3, :90] = np.nan
    return graph, of, truth, y, befalls


def assert_near(x: np.ndarray, std: np.ndarray, truth: np.ndarray, exact: np.ndarray, exact_var: np.ndarray) -> None:
    """Within 5 % of the Kalman filter's mean squared error and 10 % of its standard deviations, all for (T, N)."""
    assert np.mean((x - truth) ** 2) < 1.05 * np.mean((exact - truth) ** 2)
    ratio = std / np.sqrt(exact_var)
    assert ratio.min() > 0.9
    assert ratio.max() < 1.1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_random_processes_are_followed_like_the_kalman_filter(seed):
    graph, p, truth, y, _ = random_case(seed)
    stream = model_of(graph, p, y[:, :60]).stream(robust=None)
    assert isinstance(stream, SparseStream)
    updates = [stream.update(y[:, t]) for t in range(60, 160)]
    exact = dense(p, y, smooth=False)
    x, std = np.array([u.x for u in updates]), np.array([u.std for u in updates])
    assert_near(x, std, truth.T[60:], exact.x[60:], exact.var[60:])
    likelihood = dense(p, y[:, :160], smooth=False).log_likelihood - dense(p, y[:, :60], smooth=False).log_likelihood
    assert sum(u.log_likelihood for u in updates) == pytest.approx(likelihood, rel=0.01, abs=2.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [12, 53, 55, 59, 200, 209])
def test_separators_of_the_least_power_hold_in_larger_networks(seed):
    graph, p, truth, y, _ = random_case(seed, n=300)
    state = MarkovFilter.prior(p, Separators(graph.adjacency, power=3))
    xs, stds = [], []
    for t in range(160):
        if t:
            state.predict()
        state.correct(y[:, t], np.isfinite(y[:, t]) / p.noise)
        xs.append(state.mean)
        stds.append(np.sqrt(state.variance))
    exact = dense(p, y, smooth=False)
    x, std = np.array(xs), np.array(stds)
    assert np.mean((x - truth.T) ** 2) < 1.05 * np.mean((exact.x - truth.T) ** 2)
    assert 0.9 < np.median(std / np.sqrt(exact.var)) < 1.1


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.9, 0.995])
def test_a_stream_may_start_from_the_steady_state(rho):
    graph, p = process(n=60, rho=rho)
    state = MarkovFilter.prior(p, Separators(graph.adjacency))
    state.settle(np.zeros(60), 1 / p.noise)
    exact = dense(p, np.zeros((60, 2000)), smooth=False)
    np.testing.assert_allclose(state.variance, exact.var[-1], rtol=0.01)


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
