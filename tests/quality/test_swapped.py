"""Two stations that exchanged their loggers are found, and nothing else is taken for an exchange."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

import nareg
from nareg.cleaning._network import learned_graph
from nareg.quality import Flag, check
from nareg.quality._others import others
from nareg.quality._residuals import compute_residuals
from nareg.quality._swapped import exchanges
from nareg.spacetime import SpaceTimeModel
from tests.helpers import at_night

from .conftest import N, T, drawn, known_model


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 2.0])
def test_swapped_from_some_time_on(case, rng, spread):
    coordinates, readings = case
    readings += spread * rng.standard_normal((N, 1))  # stations have a level of their own, or do not
    other = int(np.argmax(np.linalg.norm(coordinates - coordinates[0], axis=1)))
    readings[[0, other], 130:] = readings[[other, 0], 130:]
    quality = check(known_model(readings, coordinates, level=readings.mean(axis=1)))
    assert {s.station for s in quality.suspects} == {0, other}
    assert {s.kind for s in quality.suspects} == {"swapped"}
    assert abs(quality.suspects[0].start - 130) <= (5 if spread else 40)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "other", "start"), [(18, 7, 375), (49, 9, 381)])
def test_swapped_in_a_slow_field(seed, other, start):
    """A hundred steps tell little of whom a station goes along with: chance made every exchange look strange."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(0, 3, (12, 2))
    correlation = np.exp(-np.linalg.norm(places[:, None] - places, axis=2) / 1.2) + 1e-9 * np.eye(12)
    field = lfilter([0.2832], [1, -0.959], np.linalg.cholesky(correlation) @ rng.standard_normal((12, 580)))[:, 100:]
    readings = 10 + rng.standard_normal((12, 1)) + 2 * field + 0.3 * rng.standard_normal((12, 480))
    readings[[0, other], 380:] = readings[[other, 0], 380:]
    quality = check(nareg.spacetime.fit(nareg.Graph.from_knn(places, 5), readings, dynamics="scalar"))
    assert {(s.station, s.kind, s.start) for s in quality.suspects} == {(0, "swapped", start), (other, "swapped", start)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_swapped_throughout_in_a_slow_field(seed):
    """Its memory is a hundred hours, the record five weeks: no correlation in it is known well, but the places are."""
    rng = np.random.default_rng(seed)
    places = np.array([(i % 4, i // 4) for i in range(12)]) / 4 + rng.normal(0, 0.03, (12, 2))
    distance = np.linalg.norm(places[:, None] - places, axis=2)
    steps = np.linalg.cholesky(np.exp(-distance / 0.6)) @ rng.standard_normal((12, 800))
    readings = lfilter([np.sqrt(1 - 0.99**2)], [1, -0.99], steps) + 0.1 * rng.standard_normal(steps.shape)
    other = int(np.argmax(distance[0]))
    readings[[0, other]] = readings[[other, 0]]
    quality = check(nareg.spacetime.fit(nareg.Graph.from_knn(places, 4), readings, dynamics="scalar"))
    assert {(s.station, s.kind) for s in quality.suspects} == {(0, "swapped"), (other, "swapped")}


@pytest.mark.slow
def test_swapped_throughout_in_a_graph_without_places():
    coordinates, readings = drawn(np.random.default_rng(1))
    other = int(np.argmax(np.linalg.norm(coordinates - coordinates[0], axis=1)))
    readings[[0, other]] = readings[[other, 0]]
    graph = nareg.Graph(nareg.Graph.from_knn(coordinates, 5).adjacency)
    quality = check(nareg.spacetime.fit(graph, readings))
    assert {(s.station, s.kind) for s in quality.suspects} == {(0, "swapped"), (other, "swapped")}


@pytest.mark.slow
def test_nobody_exchanges_stations_that_are_neighbors_by_their_readings():
    """Houses that are heated at hours of their own: two of them were bad throughout, for the neighbors of each other."""
    rng = np.random.default_rng(27)
    n, hours = 18, np.arange(1200)
    begins, ends = rng.integers(4, 7, (n, 1)), rng.integers(20, 23, (n, 1))
    at_work = (hours // 24 % 7 < 5) | (rng.random((n, 1)) < 0.6)
    heated = (hours % 24 >= begins) & (hours % 24 < ends) & at_work
    base, night = rng.normal(34, 4, (n, 1)), rng.uniform(5, 11, (n, 1))
    outside = lfilter([0.2], [1, -0.98], rng.standard_normal(hours.size))
    readings = lfilter([0.45], [1, -0.55], base + night * heated - 2 * outside)
    readings += lfilter([0.35], [1, -0.72], rng.standard_normal((n, hours.size)))
    readings += rng.exponential(2.0, readings.shape) * (rng.random(readings.shape) < 0.02)
    readings[:, :24] = readings[:, 168:192]
    readings[4, 480:] = readings[4, 479:-1]
    readings[7, 600:] += 6
    times = np.datetime64("2025-01-06", "s") + hours * np.timedelta64(3600, "s")
    graph = learned_graph(readings, [f"S{i}" for i in range(n)], 7)
    quality = check(nareg.spacetime.fit(graph, readings, times=times))
    assert "swapped" not in {s.kind for s in quality.suspects}
    assert (7, "drift") in {(s.station, s.kind) for s in quality.suspects}


@pytest.mark.slow
def test_swapped_where_readings_are_missing(case, rng):
    coordinates, readings = case
    readings += 2.0 * rng.standard_normal((N, 1))
    other = int(np.argmax(np.linalg.norm(coordinates - coordinates[0], axis=1)))
    readings[[0, other], 130:] = readings[[other, 0], 130:]
    readings[rng.random(readings.shape) < 0.1] = np.nan
    quality = check(known_model(readings, coordinates, level=np.nanmean(readings, axis=1)))
    assert {(s.station, s.kind) for s in quality.suspects} == {(0, "swapped"), (other, "swapped")}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.slow
def test_swapped_stations_of_unlike_days(seed):
    """A cycle moves with its station; what the model took for the cycle of either is a mixture of both.

    So half of the evidence is in the readings before the exchange.
    """
    rng = np.random.default_rng(seed)
    coordinates, readings = drawn(rng, 12, 480)
    hours = np.arange(480)
    amplitude, late = rng.uniform(1, 8, (12, 1)), rng.uniform(-1.5, 1.5, (12, 1))
    readings += amplitude * np.cos(2 * np.pi * (hours - 15 - late) / 24)
    readings[[0, 5], 240:] = readings[[5, 0], 240:]
    times = np.datetime64("2024-03-04", "s") + hours * np.timedelta64(3600, "s")
    graph = nareg.Graph.from_knn(coordinates, 5)
    quality = check(nareg.spacetime.fit(graph, readings, times=times))
    assert {(s.station, s.kind) for s in quality.suspects} == {(0, "swapped"), (5, "swapped")}


@pytest.mark.parametrize(("one", "other"), [(4, -4), (6, -4), (6, -6)])
@pytest.mark.slow
def test_days_that_change_their_size_are_no_exchange(one, other):
    """A season: the day of either becomes about as large as the other's was, but its weather is that of its place."""
    rng = np.random.default_rng(1)
    coordinates, readings = drawn(rng, 12, 480)
    hours = np.arange(480)
    amplitude, late = rng.uniform(1, 8, (12, 1)) * np.ones(480), rng.uniform(-1.5, 1.5, (12, 1))
    amplitude[0], amplitude[5] = np.where(hours < 240, 2, 2 + one), np.where(hours < 240, 6, 6 + other)
    readings += amplitude * np.cos(2 * np.pi * (hours - 15 - late) / 24)
    times = np.datetime64("2024-03-04", "s") + hours * np.timedelta64(3600, "s")
    quality = check(nareg.spacetime.fit(nareg.Graph.from_knn(coordinates, 5), readings, times=times))
    assert not any(s.kind == "swapped" for s in quality.suspects)


@pytest.mark.slow
def test_exchanges_at_once_do_not_deny_each_other():
    """A station of one fits the place of another's as well: two of four were taken for odd ones."""
    coordinates, readings = drawn(np.random.default_rng(8), 30)
    exchanged = ((4, 5), (7, 16), (8, 18), (23, 25))
    for one, other in exchanged:
        readings[[one, other], 130:] = readings[[other, one], 130:]
    residuals = compute_residuals(known_model(readings, coordinates, level=readings.mean(axis=1)))
    swaps = exchanges(residuals, others(residuals))
    assert {(swap.first, swap.second) for swap in swaps if swap.ratio > 9} == set(exchanged)


@pytest.mark.slow
def test_swapped_beside_a_series_of_every_station():
    """What an exchanged station follows is that of its place, not that of its readings."""
    rng = np.random.default_rng(1)
    coordinates, readings = drawn(rng, 12, 480)
    hours = np.arange(480)
    readings += rng.uniform(1, 8, (12, 1)) * np.cos(2 * np.pi * (hours - 15 - rng.uniform(-1.5, 1.5, (12, 1))) / 24)
    series = readings + 5 + 0.1 * rng.standard_normal((12, 480)).cumsum(axis=1)
    readings[[0, 5], 240:] = readings[[5, 0], 240:]
    times = np.datetime64("2024-03-04", "s") + hours * np.timedelta64(3600, "s")
    graph = nareg.Graph.from_knn(coordinates, 5)
    model = nareg.spacetime.fit(graph, readings, times=times, dynamics="scalar", covariates={"era": series})
    assert model.cycles.local is not None
    assert model.cycles.local.used == ("era",)
    assert {(s.station, s.kind) for s in check(model).suspects} == {(0, "swapped"), (5, "swapped")}


@pytest.mark.slow
@pytest.mark.parametrize("n_times", [240, *at_night([744])])
def test_a_wrong_clock_is_no_exchange(n_times, data_root):
    """Three hours behind, a station of Brittany reads as one farther east does: its neighbors are healthy."""
    network = nareg.datasets.load("molene", root=data_root)
    signals = network.signals[:, :n_times]
    readings = signals.copy()
    readings[1, :-3], readings[1, -3:] = signals[1, 3:], np.nan
    times = np.array([str(t) for t in network.times[:n_times]], dtype="datetime64[s]")
    quality = check(nareg.spacetime.fit(network.graph, readings, times=times))
    assert {s.kind for s in quality.suspects if s.station == 1} == {"clock"}
    assert "swapped" not in {s.kind for s in quality.suspects}


def with_the_farthest(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, int]:
    """Coordinates, readings, and the station that is farthest from the first."""
    coordinates, readings = drawn(rng, t=480)
    return coordinates, readings, int(np.argmax(np.linalg.norm(coordinates - coordinates[0], axis=1)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_station_noisier_than_the_other_takes_its_noise_along(seed):
    """One place is noisier once exchanged than the fit says, which took its noise from the readings of both."""
    rng = np.random.default_rng(seed)
    coordinates, readings, other = with_the_farthest(rng)
    readings[other] += 0.6 * rng.standard_normal(480)
    readings[[0, other], 200:] = readings[[other, 0], 200:]
    quality = check(nareg.spacetime.fit(nareg.Graph.from_knn(coordinates, 5), readings))
    assert {(s.station, s.kind) for s in quality.suspects} == {(0, "swapped"), (other, "swapped")}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_two_places_that_change_their_noise_at_once_are_no_exchange(seed):
    rng = np.random.default_rng(seed)
    coordinates, readings, other = with_the_farthest(rng)
    readings[0, 200:] += 0.6 * rng.standard_normal(280)
    readings[other, :200] += 0.6 * rng.standard_normal(200)
    quality = check(nareg.spacetime.fit(nareg.Graph.from_knn(coordinates, 5), readings))
    assert "swapped" not in {s.kind for s in quality.suspects}


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "begin"), [(0, 200), (2, 30)])
def test_exchanged_stations_of_unlike_levels_are_of_no_wrong_level(seed, begin):
    """The level was clearer than the exchange that explains it, so that the other station seemed to drift."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(0, 3, (30, 2))
    distance = np.linalg.norm(places[:, None] - places, axis=2)
    steps = np.linalg.cholesky(np.exp(-distance / 1.5) + 1e-9 * np.eye(30)) @ rng.standard_normal((30, 600))
    field = lfilter([np.sqrt(1 - 0.9**2)], [1, -0.9], steps)[:, 100:]
    readings = (8 - 2 * places[:, [1]]) + 0.6 * field + 0.1 * rng.standard_normal((30, 500))
    pair = [int(np.argmin(places[:, 1])), int(np.argmax(places[:, 1]))]
    readings[pair, begin:] = readings[pair[::-1], begin:]
    quality = check(nareg.spacetime.fit(nareg.Graph.from_knn(places, 5), readings))
    assert {(s.station, s.kind) for s in quality.suspects} == {(station, "swapped") for station in pair}


@pytest.mark.slow
def test_exchanged_stations_do_not_say_that_another_has_a_wrong_unit(data_root):
    """A sea of 2 °C beside one of 28 °C made half of that plausible there, which is about a knot in m/s."""
    network = nareg.datasets.load("sea-surface-temperature", root=data_root)
    places = network.graph.coordinates
    near = np.argsort(np.linalg.norm(places - places[99], axis=1))[:20]
    some = np.unique(np.concatenate([near, [32, 47, 99], np.random.default_rng(0).permutation(100)[:20]]))
    readings = network.signals[some][:, :400].copy()
    pair = np.flatnonzero(np.isin(some, [32, 47]))
    readings[pair, 120:] = readings[pair[::-1], 120:]
    quality = check(nareg.spacetime.fit(nareg.Graph.from_knn(places[some], 5), readings))
    assert {(s.station, s.kind) for s in quality.suspects} == {(station, "swapped") for station in pair.tolist()}


def _exchanged(seed: int, size: int, width: float, others: int, extra: float) -> SpaceTimeModel:
    """A known model of two clusters and others between; the first of each cluster is noisier, and exchanged from step 100."""
    rng = np.random.default_rng(seed)
    clusters = [rng.uniform(0, width, (size, 2)) + np.array([x, 0]) for x in (0, 4)]
    coordinates = np.vstack([*clusters, rng.uniform(0, 4, (others, 2)) + np.array([0, 2])])
    _, readings = known_model(np.full((len(coordinates), T), 15.0), coordinates).simulate(rng, n_times=T)
    readings[[0, size]] += extra * rng.standard_normal((2, T))
    readings[[0, size], 100:] = readings[[size, 0], 100:]
    return known_model(readings, coordinates)


@pytest.mark.slow
@pytest.mark.parametrize("extra", [0.0, 0.5])
@pytest.mark.parametrize("seed", [0, 1, 5])
def test_neighbors_of_two_exchanged_stations_are_healthy(seed, extra):
    quality = check(_exchanged(seed, 8, 0.4, 6, extra))
    assert {(s.station, s.kind) for s in quality.suspects} == {(0, "swapped"), (8, "swapped")}
    assert (quality.flags[np.setdiff1d(np.arange(22), [0, 8])] < Flag.BAD).mean() > 0.99


@pytest.mark.slow
def test_an_exchange_that_another_explains_as_well_is_no_proof():
    """Two stations at either end: exchanging one of each leaves what exchanging the other two leaves."""
    quality = check(_exchanged(0, 2, 0.3, 18, 0.5))
    swapped = [s for s in quality.suspects if s.kind == "swapped"]
    assert len(swapped) == 2
    assert all("S0" in s.evidence + s.name and "S2" in s.evidence + s.name for s in swapped)
    assert (quality.flags[[0, 2], 100:] != Flag.BAD).mean() > 0.99
    assert (quality.flags[[1, 3], 100:] != Flag.BAD).mean() > 0.99


def chain(seed: int) -> tuple[nareg.Graph, np.ndarray]:
    """Temperatures (8, 360) of a chain of sensors, which are of unlike levels and vary alike."""
    rng = np.random.default_rng(seed)
    shared, own = (lfilter([np.sqrt(1 - 0.95**2)], [1, -0.95], rng.standard_normal((rows, 360))) for rows in (1, 8))
    levels = np.linspace(20, 6, 8)[:, None]
    return nareg.graphs.grid((8,)), levels + shared + 0.2 * own + 0.05 * rng.standard_normal((8, 360))


@pytest.mark.parametrize("seed", range(3))
def test_sensors_of_a_chain_that_leap_to_where_the_other_was_are_exchanged(seed):
    graph, readings = chain(seed)
    readings[[2, 5], 200:] = readings[[5, 2], 200:]
    quality = check(nareg.spacetime.fit(graph, readings))
    assert {(s.station, s.kind, s.start, s.stop) for s in quality.suspects} == {
        (2, "swapped", 200, 359),
        (5, "swapped", 200, 359),
    }
    assert (quality.flags[[2, 5], 200:] == 3).all()


def test_levels_say_that_the_fewer_readings_before_a_leap_are_exchanged():
    graph, readings = chain(2)
    readings[[2, 5], :150] = readings[[5, 2], :150]
    suspects = check(nareg.spacetime.fit(graph, readings)).suspects
    assert {(s.station, s.kind, s.start, s.stop) for s in suspects} == {(2, "swapped", 0, 149), (5, "swapped", 0, 149)}


def test_spikes_beside_an_exchange_do_not_move_its_ends():
    graph, readings = chain(0)
    readings[[2, 5], 200:] = readings[[5, 2], 200:]
    readings[2, 202] += 30
    readings[5, 198] -= 20
    swapped = [s for s in check(nareg.spacetime.fit(graph, readings)).suspects if s.kind == "swapped"]
    assert {(s.station, s.start, s.stop) for s in swapped} == {(2, 200, 359), (5, 200, 359)}


def test_a_station_is_exchanged_with_one_other_at_most():
    graph, readings = chain(1)
    readings[4] += readings[3].mean() - readings[4].mean() + 0.5
    leap = readings[2].mean() - readings[3].mean() + 5
    readings[2] += 5
    readings[2, 200:] -= leap
    readings[3:5, 200:] += leap
    suspects = check(nareg.spacetime.fit(graph, readings)).suspects
    assert {(s.station, s.kind) for s in suspects} == {(2, "swapped"), (3, "swapped"), (4, "drift")}
    assert len(suspects) == 3


def test_two_that_leap_at_once_elsewhere_are_not_exchanged():
    graph, readings = chain(0)
    readings[2, 200:] -= 4
    readings[5, 200:] += 2
    quality = check(nareg.spacetime.fit(graph, readings))
    assert {(s.station, s.kind) for s in quality.suspects} == {(2, "drift"), (5, "drift")}
