"""Faults that begin and do not end: indoors, a broken law, twins that disagree; and what only looks like one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

import nareg
from nareg.quality import Flag, check
from nareg.quality._level import deaf
from nareg.quality._others import others
from nareg.quality._residuals import compute_residuals
from nareg.quality._slow import _level
from nareg.quality._units import _factor, _factor_shown, _leaps_where_it_changes, _ratios, _shows, _station, _usual_factor

from .conftest import N, T, drawn, known_model


def checked(readings: np.ndarray, coordinates: np.ndarray):
    """A fit takes the means of what was read."""
    return check(known_model(readings, coordinates, level=np.nanmean(readings, axis=1)))


@pytest.fixture
def case(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """So near that neighbors tell most of what a station reads."""
    coordinates = rng.uniform(0, 1, (N, 2))
    return coordinates, known_model(np.full((N, T), 15.0), coordinates).simulate(rng, n_times=T)[1]


def found(quality) -> dict[int, set[str]]:
    return {i: {s.kind for s in quality.suspects if s.station == i} for i in {s.station for s in quality.suspects}}


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 100])
def test_a_sensor_indoors(case, rng, start):
    coordinates, readings = case
    readings[7, start:] = 30 + 0.2 * rng.standard_normal(T - start)
    quality = checked(readings, coordinates)
    assert found(quality).keys() == {7}
    assert "level" in found(quality)[7]
    assert (quality.flags[7, start + 20 :] == Flag.BAD).all()
    assert next(s for s in quality.suspects if s.kind == "level").size == pytest.approx(15, abs=2)


def test_a_river_below_a_dam_is_not_bad(case, rng):
    """The water that a dam lets out is as unlike the other rivers as a room is unlike the weather."""
    coordinates, readings = case
    readings[7] = 30 + 0.2 * rng.standard_normal(T)
    model = known_model(readings, coordinates, level=np.nanmean(readings, axis=1))
    for quantity, flag in ((("°C", "Water Temp (°C)"), Flag.SUSPECT), (("°C", "air temperature", "river_valley"), Flag.BAD)):
        quality = check(model, quantity=quantity)
        assert (quality.flags[7] == flag).mean() > 0.9
        (level,) = (s for s in quality.suspects if s.kind == "level")
        assert ("a dam" in level.evidence.lower()) == (flag == Flag.SUSPECT)


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 100])
def test_a_broken_law(case, start):
    coordinates, readings = case
    readings[7, start:] = 300 + 8 * readings[7, start:]
    quality = checked(readings, coordinates)
    assert found(quality).keys() == {7}
    assert (quality.flags[7, start + 20 :] == Flag.BAD).all()


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 150])
@pytest.mark.parametrize("broken", [10, 11])
def test_of_two_at_one_place_the_one_that_contradicts_the_third_is_faulty(rng, broken, start):
    coordinates = rng.uniform(0, 3, (N, 2))
    coordinates[1::2] = coordinates[::2]
    readings = known_model(np.full((N, T), 15.0), coordinates).simulate(rng, n_times=T)[1]
    readings[broken, start:] += 9
    quality = checked(readings, coordinates)
    assert found(quality).keys() == {broken}
    assert (quality.flags[broken, start + 20 :] >= Flag.SUSPECT).all()
    assert (quality.flags[21 - broken] == Flag.GOOD).mean() > 0.98


def test_a_battery_that_empties_keeps_its_readings(case, rng):
    """It was charged as all others at first, and its voltage falls step by step: no sensor of another level."""
    coordinates, readings = case
    readings[7, 60:] = readings[7, 60] - 0.06 * np.arange(T - 60) + 0.2 * rng.standard_normal(T - 60)
    quality = checked(readings, coordinates)
    assert "level" not in found(quality).get(7, set())
    assert (quality.flags[7] == Flag.BAD).mean() < 0.02


@pytest.mark.parametrize("backwards", [False, True])
def test_a_sensor_that_is_buried_within_days_and_stays_deaf_has_a_wrong_level(case, rng, backwards):
    """It was none, as its level had come step by step."""
    coordinates, readings = case
    ramp = np.minimum(np.arange(T - 60) / 96, 1)
    readings[7, 60:] = (1 - ramp) * readings[7, 60:] + ramp * (readings[7, 60] - 10) + 0.2 * rng.standard_normal(T - 60)
    quality = checked(readings[:, ::-1] if backwards else readings, coordinates)
    assert "level" in found(quality)[7]


def test_an_offset_that_lasts_to_the_end(case):
    coordinates, readings = case
    readings[7, 180:] += 3
    quality = checked(readings, coordinates)
    assert found(quality) == {7: {"drift"}}
    (suspect,) = quality.suspects
    assert suspect.stop >= T - 10
    assert abs(suspect.start - 180) < 25
    assert suspect.size == pytest.approx(3, rel=0.35)


def test_a_mountain_and_a_calm_coast_are_no_fault(case):
    coordinates, readings = case
    readings[7] -= 25
    readings[3] = 15 + 0.25 * (readings[3] - 15)
    assert found(checked(readings, coordinates)) == {}


@pytest.mark.parametrize("seed", [0, 3, 4, 5])
def test_soils_that_thaw_one_after_the_other_are_no_fault(seed):
    """All rest at the melting point, and then each warms from a time of its own: levels and company are like no winter's."""
    rng = np.random.default_rng(seed)
    coordinates, _ = drawn(rng)
    winter = known_model(np.full((N, T), 15.0), coordinates).simulate(rng, n_times=T)[1]
    thaws = rng.integers(225, 285, (N, 1))
    thaws[7] = 222
    steps = np.arange(T)
    spring = 15 + 0.3 * rng.standard_normal((N, T)) + 0.15 * np.maximum(steps - thaws, 0)
    quality = checked(np.where(steps < 200, winter, spring), coordinates)
    assert {s.kind for s in quality.suspects} <= {"drift"}
    assert quality.count(Flag.BAD) == 0


@pytest.mark.parametrize("start", [0, 150])
@pytest.mark.parametrize(
    ("factor", "quantity", "unit"),
    [
        (1 / 0.3048, ("m",), "feet instead of m"), (1 / 0.3048, ("tide",), "feet instead of m"),
        (1 / 0.3048, (), "feet instead of m"), (3.6, (), "km/h instead of m/s"), (3.6, ("m/s", "level"), "km/h instead of m/s"),
        (1 / 0.3048, ("°C", "level"), None), (1 / 0.3048, ("hPa",), None), (3.6, ("temperature of the air",), None),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_a_unit_is_one_of_the_quantity_and_the_nearest(case, factor, quantity, unit, start):
    coordinates, readings = case
    readings[7, start:] *= factor
    model = known_model(readings, coordinates, level=np.nanmean(readings, axis=1))
    units = [s.evidence.rpartition(" in ")[2] for s in check(model, quantity=quantity).suspects if s.kind == "unit"]
    assert units == ([] if unit is None else [f"{unit}."])


@pytest.mark.parametrize(("seed", "placed"), [(0, True), (1, True), (0, False)])
def test_millivolts_among_volts_need_not_vary_by_as_much(seed, placed):
    """A battery beside others has swings of its own, and nothing but a unit makes its voltage 1000 times as large."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(0, 1, (10, 2))
    shared, own = lfilter([0.3], [1, -0.95], rng.standard_normal(T)), lfilter([0.3], [1, -0.95], rng.standard_normal((10, T)))
    volts = 12 + 0.4 * (shared + 0.3 * own) * rng.uniform(0.6, 1.6, (10, 1)) + 0.02 * rng.standard_normal((10, T))
    volts[7] = 1000 * (12 + 0.4 * (volts[7] - 12))
    graph = nareg.Graph.from_knn(places, 4)
    (suspect,) = check(nareg.spacetime.fit(graph if placed else nareg.Graph(graph.adjacency), volts, rng=rng)).suspects
    assert (suspect.station, suspect.kind) == (7, "unit")
    assert "1000 times too large" in suspect.evidence


def test_a_river_that_carries_many_times_as_much_as_its_brooks_is_in_their_unit():
    """Their discharges differ, and its follows their floods, later and longer."""
    rng = np.random.default_rng(0)
    places, events = rng.uniform(0, 1, (10, 2)), (rng.random(400) < 0.03) * rng.gamma(2, 1, 400)
    floods = lfilter([0.5], [1, -0.9], events) * rng.uniform(0.7, 1.4, (10, 1))
    discharge = 0.2 * np.exp(rng.normal(0, 0.4, (10, 1)) + 0.05 * rng.standard_normal((10, 400))) * (1 + floods)
    discharge[7] = 50 * (1 + 0.7 * lfilter([0.4], [1, -0.94], events)) * np.exp(0.03 * rng.standard_normal(400))
    quality = check(nareg.spacetime.fit(nareg.Graph.from_knn(places, 4), discharge, rng=rng))
    assert (quality.flags[7] == Flag.BAD).mean() < 0.05


def test_rain_is_in_no_unit(rng):
    """Most days are dry: medians are zero, and a wet place is no wrong unit."""
    coordinates, readings = drawn(rng)
    rain = np.maximum(readings - 16, 0.0) * np.where(np.arange(N) == 4, 8.0, 1.0)[:, None]
    assert not {"unit", "level"} & set().union(*found(checked(rain, coordinates)).values(), set())


def test_a_station_that_nothing_is_compared_with_is_not_evaluated(rng):
    coordinates, _ = drawn(rng)
    coordinates[9] += 1000
    readings = known_model(np.full((N, T), 15.0), coordinates).simulate(rng, n_times=T)[1]
    readings[9, 50] += 20
    flags = checked(readings, coordinates).flags
    assert (flags[9] == Flag.UNKNOWN).mean() > 0.95
    assert flags[9, 50] == Flag.BAD
    assert (np.delete(flags, 9, axis=0) != Flag.UNKNOWN).all()


def test_a_part_of_the_record_has_one_ratio_of_spreads(rng):
    x = rng.standard_normal(300)
    ratio = _ratios(3 * x + 1, x, 0.0)
    assert ratio(0, 100) == pytest.approx(3)
    assert ratio(100, None) == pytest.approx(3)
    spread = 3 * np.median(np.abs(x - np.median(x))) / 0.6745
    assert _ratios(3 * x, np.zeros(300), 2.0)(0, 300) == pytest.approx(spread / 2, rel=1e-4)


@pytest.mark.parametrize(("factor", "suspects"), [(0.08, [7]), (0.4, []), (1.0, [])])
def test_a_sensor_that_hardly_follows_is_suspect_at_the_weathers_own_level(case, rng, factor, suspects):
    """Indoors it may be as warm as out, and a coast varies less than the land."""
    coordinates, readings = case
    readings[7] = readings.mean() + factor * (readings[7] - readings.mean()) + 0.2 * rng.standard_normal(T)
    residuals = compute_residuals(known_model(readings, coordinates, level=readings.mean(axis=1)))
    responses = deaf(residuals, others(residuals))
    assert [response.station for response in responses] == suspects
    for response in responses:
        finding = _level(residuals, response)
        assert finding.flag == Flag.SUSPECT
        assert "standard deviations less than these follow each other" in finding.evidence


@pytest.mark.parametrize("everywhere", [True, False])
def test_a_road_without_jams_is_no_deaf_sensor(rng, everywhere):
    """All others have jams, and beside these nobody follows anybody; of weather, a sensor that follows nobody is deaf."""
    coordinates, weather = drawn(rng)
    jams = np.zeros(T)
    for start in range(40, T, 90):
        jams[start : start + 3] = 12.0
    calm = weather if everywhere else 15 + 0.7 * rng.standard_normal((N, T))
    readings = calm - jams * rng.uniform(0.9, 1.1, (N, 1))
    readings[7] = 15 + 0.7 * rng.standard_normal(T)
    residuals = compute_residuals(known_model(readings, coordinates, level=readings.mean(axis=1)))
    assert [response.station for response in deaf(residuals, others(residuals))] == ([7] if everywhere else [])


@pytest.mark.parametrize("seed", [3, 8])
def test_a_neighbor_of_a_sensor_that_spikes_is_not_deaf(seed):
    """What was expected of it were that sensor's spikes, which it did not follow."""
    rng = np.random.default_rng(seed)
    coordinates = rng.uniform(0, 1, (N, 2))
    readings = known_model(np.full((N, T), 15.0), coordinates).simulate(rng, n_times=T)[1]
    rng = np.random.default_rng(seed + 9)
    at = rng.random(T) < 0.2
    readings[7, at] += rng.choice([-1, 1], at.sum()) * rng.uniform(5, 9, at.sum())
    assert {s.station for s in checked(readings, coordinates).suspects} == {7}


def test_many_deaf_sensors_do_not_hide_each_other(rng):
    """A third of a network indoors: in calm times, too, it is the others that have to respond alike. None was found."""
    coordinates, readings = drawn(rng)
    indoors = np.arange(0, N, 3)
    readings[indoors] = 15 + 0.2 * rng.standard_normal((indoors.size, T))
    residuals = compute_residuals(known_model(readings, coordinates, level=readings.mean(axis=1)))
    suspects = {response.station for response in deaf(residuals, others(residuals))}
    assert suspects <= set(indoors)
    assert len(suspects) >= indoors.size - 1


def test_a_unit_changes_at_once():
    """Snow that stays on a mountain while it melts in the valley is 3.6 times as deep there by and by, and in no unit."""
    depth, valley = np.linspace(100, 80, 100), np.linspace(100, 20, 100)
    part = slice(60, None)
    assert not _leaps_where_it_changes(depth, valley, part, 3.6, 0.0)
    assert _leaps_where_it_changes(np.where(np.arange(100) < 60, 1.0, 3.6) * depth, depth, part, 3.6, 0.0)
    assert _leaps_where_it_changes(3.6 * depth, depth, slice(0, None), 3.6, 0.0)


@pytest.mark.parametrize(
    ("others", "measured", "factors"),
    [
        ([0.71, 1.16, 0.68, 0.52, 1.4], 1.4, [1 / 0.3048, 3.6]),  # rivers of unlike width: no knots
        ([0.8, 1.01, 0.94, 0.9, 1.11], 3.5, [1 / 0.3048, 3.6]),
        ([0.8, 1.01, 0.94, 0.9, 1.11], 4.5, [3.6]),
        ([0.71, np.nan, np.nan, 0.52, np.nan], 2.92, [1.943844, 1 / 0.3048, 3.6, 10.0]),
    ],
)
def test_a_factor_of_a_unit_is_no_natural_one(others, measured, factors):
    assert [f for f in (1.943844, 1 / 0.3048, 3.6, 10.0) if _shows(f, measured, _usual_factor(np.array(others)))] == factors


def test_a_unit_that_explains_no_reading_is_none():
    """Checking ended with an error: near 0 °C a factor costs little, and over the record it costs more than it gains."""
    expected = np.r_[np.full(60, 10.0), 0.4 * np.cos(np.arange(40)), 10.0]
    readings = np.where(np.abs(expected) < 1, 0.6, 1.0) * expected
    knots = [("in m/s instead of knots", 1 / 1.943844, 0.0)]
    assert _station(0, readings, expected, np.zeros(101), (1.0, 0.01), knots, (np.nan, None), throughout=True) is None


def test_a_factor_counts_floods(rng):
    """Robust spreads are those of the rest between the floods, which is noise and rounding."""
    flood = np.where(np.arange(400) % 100 < 20, 1.0, 0.0)
    x = 0.3 + flood + 0.02 * rng.standard_normal(400)
    assert _factor(np.round(3 * x + 0.02 * rng.standard_normal(400), 1), x) == pytest.approx(3, rel=0.03)
    assert np.isnan(_factor(rng.standard_normal(400), x))
    assert np.isnan(_factor(np.full(400, np.nan), x))


def test_readings_that_are_stuck_show_no_factor(rng):
    """Cleaning ended with a division by zero: more than half of the readings before a jump were one value."""
    expected = rng.standard_normal(400)
    readings = np.r_[np.where(np.arange(200) < 120, 1.0, expected[:200]), 2 * expected[200:]]
    for part in (slice(200, None), slice(0, 200)):
        assert _factor_shown(expected, part, _ratios(readings, expected, 0.1), 0.1) is None
    sound = np.r_[expected[:200], 2 * expected[200:]]
    assert _factor_shown(expected, slice(200, None), _ratios(sound, expected, 0.0), 0.1) == pytest.approx(2, rel=0.01)
