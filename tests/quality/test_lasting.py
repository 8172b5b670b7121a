"""What is evidence of a drift, and which part of a record a step spoils."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.ndimage import maximum_filter1d
from scipy.signal import lfilter

import nareg
from nareg.quality import check
from nareg.quality._lasting import Scan
from nareg.spacetime import fit

from .conftest import N, T, known_model


def checked(readings: np.ndarray, coordinates: np.ndarray):
    """A fit takes the means of what was read."""
    return check(known_model(readings, coordinates, level=np.nanmean(readings, axis=1)))


def case(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """So near that neighbors tell most of what a station reads."""
    rng = np.random.default_rng(seed)
    coordinates = rng.uniform(0, 1, (N, 2))
    return coordinates, known_model(np.full((N, T), 15.0), coordinates).simulate(rng, n_times=T)[1]


@pytest.mark.parametrize("seed", [1, 3])
def test_spikes_in_a_row_are_no_drift(seed):
    coordinates, readings = case(seed)
    readings[7, [120, 122, 123, 159, 162]] += 10
    readings[7, 124] -= 10
    readings[7, [130, 131, 160, 161]] = np.nan
    assert {(s.station, s.kind) for s in checked(readings, coordinates).suspects} == {(7, "spikes")}


@pytest.mark.parametrize(("seed", "spiking", "missing"), [(3, 0.15, 0.5), (7, 0.25, 0.65)])
def test_a_few_readings_with_many_spikes_among_them_are_no_drift(seed, spiking, missing):
    coordinates, readings = case(seed)
    rng = np.random.default_rng(seed + 50)
    at = rng.random(T) < spiking
    readings[7, at] += rng.choice([-1, 1], at.sum()) * rng.uniform(5, 9, at.sum())
    readings[7, rng.random(T) < missing] = np.nan
    suspects = checked(readings, coordinates).suspects
    assert "drift" not in {s.kind for s in suspects}
    assert 7 in {s.station for s in suspects}


def test_a_sensor_that_often_spikes_has_a_few_in_a_row():
    """Half of eight readings are off at one place by chance, and were a drift."""
    coordinates, readings = case(8)
    rng = np.random.default_rng(17)
    at = rng.random(T) < 0.15
    readings[7, at] += rng.choice([-1, 1], at.sum()) * rng.uniform(5, 9, at.sum())
    assert {(s.station, s.kind) for s in checked(readings, coordinates).suspects} == {(7, "spikes")}


def test_a_faint_drift_over_half_of_a_record():
    """Below six standard errors: no healthy station is as clear, and the network's own limit is lower."""
    coordinates, readings = case(5)
    readings[7, 100:250] += np.linspace(0, 1.65, 150)
    (suspect,) = checked(readings, coordinates).suspects
    assert (suspect.station, suspect.kind) == (7, "drift")


@pytest.mark.slow
@pytest.mark.parametrize("quantity", ["Temperatuur", "Vochtigheid"])
def test_a_network_that_stood_still_is_one_finding_each_time(data_root, quantity):
    """Stations that had rested for some time before, and went on five minutes later, were findings of their own.

    And beside standstills that were not seen, stations drifted.
    """
    files, recipe = data_root / "files" / "metobs-demo", nareg.io.Recipe(value=quantity)
    readings = nareg.io.read_readings(files / "datafile.csv", recipe=recipe)
    cleaned = nareg.clean(
        nareg.io.readings_to_frame(readings), nareg.io.read_stations(files / "metadatafile.csv", recipe=recipe)
    )
    stuck = [suspect for suspect in cleaned.quality.suspects if suspect.kind == "stuck"]
    assert len({suspect.evidence for suspect in stuck if suspect.evidence.startswith("7 of 7 stations")}) == 4
    assert {suspect.name for suspect in stuck if not suspect.evidence.startswith("7 of 7 stations")} == {"vlinder05"}
    assert not {suspect.kind for suspect in cleaned.quality.suspects} & {"drift", "clock", "swapped"}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.slow
def test_an_offset_has_its_size_and_begins_when_it_does(seed):
    """A leap counts little where outliers are capped, so that a ramp from long before was as clear."""
    coordinates, readings = case(seed)
    readings[7, 170:] += 3.6
    (suspect,) = checked(readings, coordinates).suspects
    assert (suspect.station, suspect.kind, suspect.start, suspect.stop) == (7, "drift", 170, T - 1)
    assert suspect.size == pytest.approx(3.6, abs=0.5)
    assert " are " in suspect.evidence


@pytest.mark.parametrize("seed", [0, 1, 2, 4, 5])
@pytest.mark.slow
def test_a_drift_over_the_whole_record_has_its_size(seed):
    coordinates, readings = case(seed)
    readings[7] += np.linspace(0, 3, T)
    (suspect,) = checked(readings, coordinates).suspects
    assert (suspect.station, suspect.kind, suspect.stop) == (7, "drift", T - 1)
    assert suspect.start < 30
    assert suspect.size == pytest.approx(3 * (1 - suspect.start / T), abs=0.5)
    assert " move to " in suspect.evidence


@pytest.mark.parametrize("wrong", [slice(0, 180), slice(210, None), slice(60, 240), slice(0, 100), slice(100, None)])
@pytest.mark.slow
def test_the_part_of_a_step_that_is_wrong_is_to_be_corrected(wrong):
    """Which part is wrong that says to which the station returns, or the levels of the others, however long it is."""
    coordinates, readings = case(2)
    readings[7, wrong] += 6
    (suspect,) = checked(readings, coordinates).suspects
    assert (suspect.station, suspect.kind) == (7, "drift")
    assert (suspect.start, suspect.stop) == pytest.approx((wrong.start, (wrong.stop or T) - 1), abs=2)
    assert "above" in suspect.evidence
    assert suspect.corrected == pytest.approx(readings[7, suspect.columns] - 6, abs=1)


@pytest.mark.parametrize("wrong", [slice(0, 210), slice(210, None)])
def test_where_levels_differ_as_much_nothing_says_which_part_of_a_step_is_wrong(wrong):
    coordinates, readings = case(2)
    readings += 5 * np.random.default_rng(0).standard_normal((N, 1))
    readings[7] += np.median(readings) - np.median(readings[7]) - 2
    readings[7, wrong] += 4
    (suspect,) = checked(readings, coordinates).suspects
    assert (suspect.station, suspect.kind) == (7, "drift")
    assert "not to be corrected: nothing says" in suspect.evidence
    assert suspect.corrected is None


@pytest.mark.parametrize("part", [slice(170, None), slice(0, 110)])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.slow
def test_noise_that_is_sixfold_in_a_part_of_the_record(seed, part):
    coordinates, readings = case(seed)
    assert not checked(readings, coordinates).suspects
    rng = np.random.default_rng(seed + 50)
    start, stop, _ = part.indices(T)
    readings[7, part] += 0.3 * np.sqrt(35) * rng.standard_normal(stop - start)
    suspects = checked(readings, coordinates).suspects
    assert {s.station for s in suspects} == {7}
    (noisy,) = (s for s in suspects if s.kind == "noisy")
    assert abs(noisy.start - start) < 10
    assert abs(noisy.stop - (stop - 1)) < 10
    assert float(noisy.evidence.split("deviation of ")[1].split(",")[0]) == pytest.approx(1.8, rel=0.3)


def series(rng: np.random.Generator, n: int, rows: int, memory: float, std: float = 1.0) -> np.ndarray:
    noise = std * rng.standard_normal((n, rows))
    noise[:, 1:] *= np.sqrt(1 - memory**2)
    return lfilter([1], [1, -memory], noise, axis=1)


@pytest.mark.slow
def test_an_offset_accuses_no_neighbor_of_one_before_it():
    """The mean of an offset station is off at other times as well, and with it what is expected of its neighbors."""
    rng, n, hours = np.random.default_rng([11, 0]), 20, np.arange(1344)
    places = rng.uniform(0, 50, (n, 2))
    far = np.sqrt(3) * np.linalg.norm(places[:, None] - places, axis=2) / 40
    day, late = rng.uniform(3, 5, n)[:, None], rng.uniform(-0.7, 0.7, n)[:, None]
    weather = 2.5 * series(rng, 1, 1344, np.exp(-1 / 60))
    y = 12 + 0.8 * rng.standard_normal((n, 1)) + day * np.cos(2 * np.pi * (hours - 15 - late) / 24) + weather
    field = np.linalg.cholesky((1 + far) * np.exp(-far) + 1e-6 * np.eye(n)) @ series(rng, n, 1344, np.exp(-1 / 24))
    y += 1.2 * field + 0.004 * (hours - 672) + series(rng, n, 1344, 0.6, 0.3) + 0.15 * rng.standard_normal((n, 1344))
    y[19, 768:] -= 1.2
    names = [f"S{i:02d}" for i in range(n)]
    stations = pd.DataFrame(
        {"latitude": 50 + places[:, 1] / 111.2, "longitude": 8 + places[:, 0] / (111.2 * np.cos(np.radians(50)))}, index=names
    )
    frame = pd.DataFrame(np.round(y, 1).T, pd.date_range("2024-04-01", periods=1344, freq="1h", name="time"), names)
    (suspect,) = nareg.clean(frame, stations).quality.suspects
    assert (suspect.name, suspect.kind) == ("S19", "drift")
    assert suspect.size == pytest.approx(1.2, abs=0.15)


@pytest.mark.slow
def test_neighbors_that_end_make_no_drift():
    """With them goes what is expected of a gauge, whose tide is not quite theirs."""
    rng, hours = np.random.default_rng(34), np.arange(1000)
    x = np.sort(rng.uniform(0, 50, 8))
    high, since = (1.2 + 0.012 * x + 0.05 * rng.standard_normal(8))[:, None], hours - x[:, None] / 40
    tide = np.cos(2 * np.pi * since / 12.42) + 0.3 * np.cos(2 * np.pi * (since - 2) / 12)
    tide += 0.15 * np.cos(2 * np.pi * (since - x[:, None] / 40) / 25.82)
    surge = 0.15 * lfilter([0.2], [1, -0.97], rng.standard_normal(1000))
    y = high * tide + surge + 0.02 * rng.standard_normal((8, 1000))
    y += 0.03 * lfilter([0.3], [1, -0.92], rng.standard_normal((8, 1000)), axis=1)
    y[[2, 5], 500:] = np.nan
    graph = nareg.Graph.from_knn(np.column_stack([x, np.zeros(8)]), 5)
    assert {(s.station, s.kind) for s in check(fit(graph, y)).suspects} == {(2, "dead"), (5, "dead")}


def gauges(rng: np.random.Generator) -> np.ndarray:
    """Hourly levels of six gauges in cm: floods that travel, each gauge with its own lag and gain."""
    hours = np.arange(800)
    starts, heights = rng.integers(-100, 800, 8), rng.gamma(2.0, 60.0, 8)
    lags, gains = np.sort(rng.uniform(0, 20, 6)), rng.uniform(0.5, 1.6, 6)
    since = np.clip(hours[:, None] - starts - lags[:, None, None], 0, None)
    waves = ((1 - np.exp(-since / 10)) * np.exp(-since / 80)) @ heights
    return np.round(np.linspace(60, 110, 6)[:, None] + gains[:, None] * waves + 0.8 * rng.standard_normal((6, 800)))


@pytest.mark.slow
def test_a_datum_shift_of_a_flood_gauge_is_found():
    """Its leap is one step, which counts little where outliers are capped, and gauges wander by more than it."""
    sizes = []
    for seed in (1, 2, 3, 5):
        graph, readings = nareg.graphs.grid((6,)), gauges(np.random.default_rng(seed))
        assert not check(fit(graph, readings)).suspects
        readings[2, 400:] += 25
        (suspect,) = check(fit(graph, readings)).suspects
        assert (suspect.station, suspect.kind, suspect.start, suspect.stop) == (2, "drift", 400, 799)
        sizes.append(suspect.size)
    assert np.sqrt(np.mean((np.array(sizes) - 25) ** 2)) < 4


def routed(rng: np.random.Generator) -> np.ndarray:
    """Hourly levels of eight gauges in m: each flood comes two hours and a reach's delay later to the next, and lower."""
    flow, hours, levels = np.zeros(1440), np.arange(1440), []
    for start in rng.integers(0, 1440, 7):
        since = np.clip(hours - start, 0, None)
        flow += rng.uniform(0.5, 2.5) * (1 - np.exp(-since / 6)) * np.exp(-since / 48)
    share = np.exp(-1 / 2.5)
    for i in range(8):
        levels.append(1 + 0.1 * i + 0.97**i * flow)
        flow = lfilter([1 - share], [1, -share], np.append([flow[0]] * 2, flow[:-2]))
    return np.round(np.array(levels) + 0.02 * rng.standard_normal((8, 1440)), 2)


@pytest.mark.slow
def test_a_flood_that_travels_makes_no_drift():
    """Upstream it comes first and is higher: the readings there were taken for off by the height of the flood."""
    graph = nareg.Graph.from_knn(np.column_stack([51 + 0.1 * np.arange(8), np.full(8, 10.0)]), 5, metric="haversine")
    readings = routed(np.random.default_rng(2))
    assert not check(fit(graph, readings)).suspects
    readings[4, 700:] += 1
    (suspect,) = check(fit(graph, readings)).suspects
    assert (suspect.station, suspect.kind, suspect.start, suspect.stop) == (4, "drift", 700, 1439)


def lasting_weather(rng: np.random.Generator) -> tuple[nareg.Graph, np.ndarray]:
    """Hourly humidity of eight stations, whose weather lasts a day, with noise of 2."""
    coordinates = np.column_stack([52 + 0.8 * rng.random(8), 9 + 1.2 * rng.random(8)])
    root = np.linalg.cholesky(np.exp(-np.linalg.norm(coordinates[:, None] - coordinates, axis=2)))
    field = lfilter([np.sqrt(1 - 0.96**2)], [1, -0.96], root @ rng.standard_normal((8, 400)))[:, 40:]
    readings = 80 + 11 * field + 2 * rng.standard_normal((8, 360))
    return nareg.Graph.from_knn(coordinates, 5, metric="haversine"), readings


@pytest.mark.parametrize("seed", [18, 20, 25, 31, 40])
@pytest.mark.slow
def test_what_is_lower_to_the_end_is_suspect_after_its_leap_alone(seed):
    """Where the weather of a station lasts, whitened readings show the leap, which a ramp up to it shares."""
    graph, readings = lasting_weather(np.random.default_rng(seed))
    readings[5, 240:] -= 18
    (suspect,) = check(fit(graph, readings)).suspects
    assert (suspect.station, suspect.kind, suspect.start, suspect.stop) == (5, "drift", 240, 359)


@pytest.mark.parametrize("seed", [18, 20, 25])
@pytest.mark.slow
def test_what_is_lower_until_its_repair_is_suspect_before_it_alone(seed):
    """The step is the same as that of an error after it, which most of the readings would then have."""
    graph, readings = lasting_weather(np.random.default_rng(seed))
    readings[5, :100] -= 24
    (suspect,) = check(fit(graph, readings)).suspects
    assert (suspect.station, suspect.kind, suspect.start, suspect.stop) == (5, "drift", 0, 99)
    assert "below" in suspect.evidence
    assert suspect.size == pytest.approx(24, rel=0.25)


def wells(datum: float, seed: int = 11) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places, days and levels (8, 800) of wells. One is pumped on workdays but for ten days; one has another datum later."""
    rng = np.random.default_rng(seed)
    places, days = rng.uniform(0, 1, (8, 2)), np.arange("2021-01-01", "2023-03-12", dtype="M8[D]")
    rain = (rng.random(days.size) < 0.4) * rng.gamma(0.7, 6.0, days.size)
    recharge = rain - rain.mean() + 2.0 * np.cos(2 * np.pi * np.arange(days.size) / 365) + rng.standard_normal((8, days.size))
    memory = np.exp(-1 / rng.uniform(30, 160, 8))
    levels = np.array([0.006 * lfilter([1], [1, -m], own) for m, own in zip(memory, recharge, strict=True)])
    works = np.is_busday(days).astype(float)
    works[600:610] = 0
    levels[3] -= lfilter([0.5], [1, -0.5], 0.6 * works * rng.uniform(0.9, 1.1, days.size))
    levels += 0.006 * rng.standard_normal(levels.shape)
    levels[5, 500:] += datum
    return places, days, levels


def test_a_well_that_is_pumped_on_workdays_is_neither_noisy_nor_bad():
    places, days, levels = wells(0.0)
    quality = check(fit(nareg.Graph.from_knn(places, 4), levels, times=days))
    assert {s.station for s in quality.suspects if s.kind != "drift"} == set()
    flagged = np.argwhere(quality.flags > 1)
    assert set(flagged[:, 0]) <= {3}
    assert set(flagged[:, 1]) <= set(range(598, 612))  # the days without the pump


def test_another_datum_spoils_what_comes_after_it():
    places, days, levels = wells(0.45)
    quality = check(fit(nareg.Graph.from_knn(places, 4), levels, times=days))
    (shift,) = (s for s in quality.suspects if s.station == 5)
    assert (shift.kind, str(shift.start)[:10]) == ("drift", str(days[500]))
    assert (quality.flags[5, 500:] == 3).all()
    assert (quality.flags[5, :500] == 1).mean() > 0.98


@pytest.mark.parametrize("step", [24, 3])
def test_a_spike_alone_is_bad_and_a_holiday_of_all_is_not(step):
    rng = np.random.default_rng(3)
    hours = np.arange(0, 24 * 140 if step == 24 else 24 * 56, step)
    days, at = hours // 24, 22 * 24 // step + (4 if step < 24 else 0)  # a Tuesday, at noon
    work = np.where((days % 7 < 5) & (days != 31), 1.0, 0.0)  # but for a Thursday
    if step < 24:
        work *= 1 + np.cos(2 * np.pi * (hours / 24 - 0.5))
    field = lfilter([1], [1, -np.exp(-step / 24)], rng.standard_normal((8, hours.size)), axis=1)
    readings = 20 + 4 * work * rng.uniform(0.8, 1.2, (8, 1)) + 0.3 * field + 0.3 * rng.standard_normal((8, hours.size))
    readings[2, at] -= 4
    times = np.datetime64("2024-01-01T00", "h") + hours
    model = fit(nareg.Graph.from_knn(rng.uniform(0, 1, (8, 2)), 4), readings, times=times)
    assert "week" in model.cycles.names
    flags = check(model).flags
    assert flags[2, at] == 4
    assert (flags[:, days == 31] == 4).mean() < 0.05


@pytest.mark.parametrize(("seed", "start", "stop", "size"), [(9, 100, 400, 5.0), (2, 200, 500, 4.0)])
def test_a_drift_that_a_repair_ends_is_not_what_comes_after_it(seed, start, stop, size):
    rng = np.random.default_rng(seed)
    places = rng.random((8, 2))
    root = np.linalg.cholesky(np.exp(-np.linalg.norm(places[:, None] - places, axis=2)) + 1e-9 * np.eye(8))
    field = lfilter([1], [1, -0.95], rng.standard_normal((900, 8)) @ root.T, axis=0)[300:]
    readings = (10 + field + 0.3 * rng.standard_normal((600, 8))).T
    readings[3, start:stop] += size * np.linspace(0, 1, stop - start)
    quality = check(fit(nareg.Graph.from_knn(places, 4), readings, dynamics="scalar"))
    (drift,) = (s for s in quality.suspects if s.station == 3)
    assert (drift.kind, drift.stop) == ("drift", stop - 1)
    assert (quality.flags[3, stop:] == 1).mean() > 0.98


def test_five_sensors_that_are_off_for_a_while_do_not_excuse_each_other():
    """They were taken for showers, and a neighbor for the faulty one."""
    coordinates, readings = case(3)
    stations = (7, 2, 11, 15, 4)
    for k, station in enumerate(stations):
        readings[station, 40 * (k + 1) : 40 * (k + 1) + 14] += 4
    assert {(s.station, s.kind) for s in checked(readings, coordinates).suspects} == {(i, "drift") for i in stations}


@pytest.mark.parametrize("width", [1, 2, 7, 16, 40])
def test_a_step_has_the_largest_ratio_of_the_places_that_cover_it(width):
    ratio = np.random.default_rng(0).normal(size=(50, 3))
    rows = len(ratio) + width - 1
    behind = np.vstack([np.abs(ratio), np.zeros((width - 1, 3))])
    expected = maximum_filter1d(behind, width, axis=0, mode="constant", origin=(width - 1) // 2)
    np.testing.assert_array_equal(Scan("step", width, ratio).covering(rows), expected)


def test_an_earthquake_is_no_fault_of_the_nearest_station():
    """Its level changed by more than the others said, and it was suspect from then on."""
    coordinates, readings = case(3)
    jump = 20 * np.exp(-np.linalg.norm(coordinates - coordinates[7], axis=1) / 0.5)
    readings[:, 180:] += jump[:, None]
    assert checked(readings, coordinates).suspects == ()
    alone = case(3)[1]
    alone[7, 180:] += 4
    assert [(s.station, s.kind) for s in checked(alone, coordinates).suspects] == [(7, "drift")]


@pytest.mark.parametrize(
    ("seed", "height", "reach"), [(5, 10, 0.5), (5, 20, 0.25), (1, 20, 0.25), (4, 40, 0.25), (4, 20, 0.25), (6, 60, 0.15)]
)
def test_an_earthquake_that_moves_one_station_by_far_most_is_no_fault(seed, height, reach):
    """One neighbor went along, and no other by a fifth as much. Or one hardly moved, so that its neighbors said too much."""
    coordinates, readings = case(seed)
    readings[:, 180:] += (height * np.exp(-np.linalg.norm(coordinates - coordinates[7], axis=1) / reach))[:, None]
    assert {s.kind for s in checked(readings, coordinates).suspects} <= {"spikes"}


def test_an_offset_that_begins_with_a_front_is_no_part_of_it():
    """All others rose by 8 at that time, and alike."""
    for seed in (2, 3):
        coordinates, readings = case(seed)
        readings[:, 180:] += 8
        readings[7, 180:] += 5
        assert [(s.station, s.kind) for s in checked(readings, coordinates).suspects] == [(7, "drift")]


def test_a_station_that_follows_a_front_by_less_accuses_no_neighbor():
    """By itself it is no fault, but it bent what was expected of the nearest one."""
    coordinates, readings = case(3)
    readings[:, 180:] += 8
    readings[7, 180:] -= 3
    assert {s.station for s in checked(readings, coordinates).suspects} <= {7}


def test_showers_that_come_and_go_are_at_one_station_or_another():
    """The largest of them was a drift of eight hours."""
    coordinates, readings = case(5)
    shower = np.array([1, 3, 5, 5, 4, 4, 3, 3, 2, 2, 1])
    size = {7: 1.5, 2: 1.2, 11: 1.1, 15: 1.1, 4: 1.05}
    for k, (station, times) in enumerate(size.items()):
        readings[station, 40 * (k + 1) : 40 * (k + 1) + shower.size] += times * shower
    assert "drift" not in {s.kind for s in checked(readings, coordinates).suspects}
    readings[[2, 11, 15, 4]] = case(5)[1][[2, 11, 15, 4]]
    assert 7 in {s.station for s in checked(readings, coordinates).suspects}
