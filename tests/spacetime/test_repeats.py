"""Runs of one value: what a bound, a coarse sensor or a calm explains, and what only a fault does."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

import nareg
from nareg.spacetime._readings.freezes import freezes, stuck
from nareg.spacetime._readings.repeats import at_bound, bounds, detectable, intermittent, remembered, stuck_runs

N, T = 8, 600


def field(rng: np.random.Generator, rho: float = 0.95, own: float = 0.4) -> np.ndarray:
    """(T, N) a shared autoregression and one per station, of variance about one."""
    steps = rng.standard_normal((T, N + 1)) * np.sqrt(1 - rho**2)
    z = np.zeros((T, N + 1))
    z[0] = rng.standard_normal(N + 1)
    for t in range(1, T):
        z[t] = rho * z[t - 1] + steps[t]
    return z[:, :1] + own * z[:, 1:]


@pytest.fixture
def humidity(rng) -> np.ndarray:
    """Long fogs at 100 %, whole numbers."""
    return np.round(np.minimum(96 + 6 * field(rng) + rng.standard_normal((T, N)), 100))


@pytest.fixture
def rain(rng) -> np.ndarray:
    """Dry most of the time; wet stations and dry ones."""
    wet = field(rng, rho=0.7) + np.linspace(-1.4, -0.2, N)
    return np.round(np.where(wet > 0, 8 * wet**2, 0.0), 1)


@pytest.fixture
def sunlight(rng) -> np.ndarray:
    height = np.maximum(np.sin(2 * np.pi * np.arange(T) / 96), 0.0)[:, None]
    return np.round(800 * height * (1 - 0.4 * np.clip(field(rng, rho=0.9), 0, 2)), 0)


def test_a_shared_end_that_readings_return_to_is_a_bound(humidity, rain, sunlight, rng):
    assert bounds(humidity).high == 100
    assert bounds(humidity).low == -np.inf
    assert bounds(rain).low == bounds(sunlight).low == 0
    free = bounds(np.round(10 + 5 * rng.standard_normal((T, N)), 1))
    assert (free.low, free.high) == (-np.inf, np.inf)


def test_a_code_far_from_all_readings_is_no_bound(rain, rng):
    rain[rng.random(rain.shape) < 0.01] = -9999.0
    assert bounds(rain).low in (0, -np.inf)
    rain[:2, 0], rain[:2, 1] = -9999.0, -9999.0
    assert bounds(rain).low != -9999.0


@pytest.mark.parametrize("kind", ["humidity", "rain", "sunlight"])
def test_no_run_of_a_healthy_quantity_at_its_bound_is_stuck(kind, request):
    y = request.getfixturevalue(kind)
    lengths = [np.diff(np.flatnonzero(np.diff(column) != 0)).max() for column in y.T]
    assert max(lengths) > 15  # there are long runs
    assert not stuck(y).any()


def test_a_detection_limit_of_one_station_is_no_fault(rng):
    y = np.round(np.exp(field(rng)), 2)
    y[:, 3] = np.maximum(y[:, 3], np.quantile(y[:, 3], 0.5))
    assert at_bound(y)[:, 3].mean() > 0.4
    assert not stuck(y).any()


def test_a_coarse_sensor_is_no_fault(rng):
    y = np.round(10 + 3 * field(rng, rho=0.995) + 0.05 * rng.standard_normal((T, N)), 2)
    y[:, 2] = np.round(y[:, 2])
    assert np.mean(np.diff(y[:, 2]) == 0) > 0.7
    assert not stuck(y).any()


def test_a_drought_that_all_show_is_no_fault(rng):
    """A river that falls by less than its gauges' step; one of them is coarser than the rest."""
    y = np.round(1 + 0.3 * np.abs(field(rng)) * (np.arange(T)[:, None] < 300) + 0.02 * np.arange(T)[::-1, None] / T, 2)
    y[:, 5] = np.round(y[:, 5], 1)
    assert np.diff(y[320:, 5]).any() <= 1
    assert not stuck(y).any()


@pytest.mark.parametrize("kind", ["humidity", "rain", "sunlight"])
def test_a_sensor_stuck_away_from_the_bound_is_found(kind, request):
    y = request.getfixturevalue(kind)
    inner = np.flatnonzero((y[100:400, 4] > 0) & (y[100:400, 4] < 99))[0] + 100
    y[inner : inner + 150, 4] = y[inner, 4]
    found = stuck(y)
    assert found[inner + 1 : inner + 150, 4].all()
    assert not np.delete(found, 4, axis=1).any()


def test_a_dark_sensor_and_a_clogged_gauge_are_found(sunlight, rain):
    """At the bound, where the others are far from it: also for a station that is wet while it works."""
    sunlight[200:500, 1] = 0.0
    rain[300:, N - 1] = 0.0
    for y, station in ((sunlight, 1), (rain, N - 1)):
        runs = stuck_runs(y)
        assert {run.station for run in runs} == {station}
        assert sum(run.rows.size for run in runs) > 0.8 * (300 if station == 1 else T - 300)


def test_a_single_station_that_is_stuck_is_found_and_at_its_bound_left_alone(humidity, rng):
    assert not stuck(humidity[:, :1]).any()
    y = np.round(field(rng, rho=0.5)[:, :1], 2)
    y[200:300] = y[200]
    assert stuck(y)[201:300].all()


def test_a_constant_station_is_stuck(rng):
    y = np.round(field(rng), 1)
    y[:, 0] = 3.3
    assert stuck(y)[:, 0].all()
    assert not stuck(y)[:, 1:].any()


def test_order_unit_and_zero_change_nothing(rain, humidity, rng):
    for y in (rain, humidity):
        y[300:400, 2] = y[299, 2] if y[299, 2] not in (0, 100) else 42.0
        order = rng.permutation(N)
        expected = stuck(y)
        np.testing.assert_array_equal(stuck(y[:, order]), expected[:, order])
        np.testing.assert_array_equal(stuck(2.0 * y + 64.0), expected)


def test_rain_and_sunlight_are_intermittent_and_humidity_is_not(rain, sunlight, rng):
    assert intermittent(rain)
    assert intermittent(sunlight)
    assert not intermittent(np.round(np.minimum(80 + 12 * field(rng), 100)))
    assert not intermittent(rng.standard_normal((T, N)))


def test_a_limit_of_detection_is_no_stuck_sensor(rng):
    """Ozone at night: whole numbers from 2 on, and before some day another instrument with fractions of these below."""
    ozone = np.exp(2 + 1.6 * field(rng))
    y = np.maximum(np.round(ozone), 2.0)
    y[:60] = np.round(ozone[:60] / 0.2142) * 0.2142
    assert detectable(y).low == 2.0
    assert bounds(y).low == -np.inf  # an estimate may be below
    assert not stuck(y).any()
    y[200:260, 3] = 31.0
    assert stuck(y)[200:260, 3].all()


@pytest.mark.parametrize("mean", [2.7, 2.9])
def test_a_limit_that_few_readings_reach_is_no_stuck_sensor(rng, mean):
    """Fine dust after rain is 3 for hours, at one station or another; each value from 8 on is read more often."""

    def weather(columns: int) -> np.ndarray:
        return lfilter([np.sqrt(1 - 0.985**2)], [1, -0.985], rng.standard_normal((6000, columns)), axis=0)

    logs = mean + 0.5 * (weather(1) + weather(8)) + 0.1 * rng.standard_normal((6000, 8))
    y = np.maximum(np.round(np.exp(logs)), 3.0)
    assert detectable(y).low == -np.inf
    assert not stuck(y).any()
    y[1000:1100, 3] = 4.0
    assert stuck(y)[1001:1100, 3].all()


def test_the_values_of_a_stuck_sensor_are_no_limit(rng):
    y = np.round(10 * field(rng)) / 10
    y[100:200, 2] = y.min() + 0.1
    assert detectable(y) == bounds(y)
    assert stuck(y)[101:200, 2].all()


def test_whole_numbers_among_tenths_are_no_limits(rng):
    """A thermometer that read whole degrees for a part of the time."""
    y = np.round(10 * (5 * field(rng))) / 10
    y[::3] = np.round(y[::3])
    assert detectable(y) == bounds(y)


@pytest.fixture
def slow(rng) -> np.ndarray:
    """Daily waves every 15 minutes in hundredths; at the first station nights are flat, and move by another bit each night."""
    t = np.arange(96 * 60)
    nights = np.interp(t, np.arange(61) * 96, np.cumsum(rng.normal(0, 0.1, 61)))
    y = 8.5 + 0.3 * np.sin(2 * np.pi * (t[:, None] / 96 + np.arange(N) / 50))
    y[:, 0] = 8.5 + 0.6 * np.maximum(np.sin(2 * np.pi * t / 96), 0) ** 2 + nights
    return np.round(y, 2)


def test_a_slow_quantity_comes_to_rest_and_is_not_stuck(slow):
    assert np.diff(np.flatnonzero(np.diff(slow[:, 0]) != 0)).max() >= 30
    assert stuck(slow).mean() < 0.002


def test_a_sensor_stuck_in_a_slow_quantity_is_long_or_has_to_catch_up(slow):
    slow[500:700, 0] = slow[500, 0]
    slow[1210:1250, 0] = slow[1210, 0]
    assert stuck(slow)[501:700, 0].all()
    assert stuck(slow)[1211:1250, 0].all()


def test_a_mark_with_nothing_beside_it_is_no_bound(rng):
    """Oxygen of 8 to 14 where two loggers write 0 for a sensor that is out, and one stray reading lies between."""
    y = np.round(11 + field(rng), 2)
    y[100:130, 0] = y[300:320, 1] = 0.0
    y[99, 0] = 4.0
    assert bounds(y).low == -np.inf
    assert stuck(y)[101:130, 0].all()


def test_two_stuck_stations_do_not_hide_each_other():
    network = nareg.datasets.simulated(12, 400, faults=(), rng=np.random.default_rng(0))
    readings = network.readings.copy()
    readings[4, 100:160], readings[5, 200:260] = 8.0, 9.0
    assert stuck(readings.T).sum(axis=0).tolist() == [0, 0, 0, 0, 60, 60, 0, 0, 0, 0, 0, 0]


def test_a_sensor_of_fine_steps_is_stuck_where_it_hardly_reads_elsewhere():
    """Monthly rain in tenths: of six equal sums few others are within steps, but the thirty nearest never repeat."""
    rng = np.random.default_rng(0)
    y = np.exp(rng.standard_normal((360, 1)) + 0.35 * rng.standard_normal((360, 14)) + 4).round(1)
    assert not stuck_runs(y)
    y[300:306, 9] = y[300, 9]
    (run,) = stuck_runs(y)
    assert (run.station, run.rows.tolist()) == (9, list(range(300, 306)))


def test_water_that_rests_at_its_freezing_point_is_not_stuck(rng):
    """Hundredths, between -0.02 and 0 in cold nights at one station; a sensor that fails leaps to 0."""
    t = np.arange(96 * 40)
    y = 3 + 2 * np.sin(2 * np.pi * (t[:, None] / 96 + np.arange(N) / 50)) + rng.normal(0, 0.02, (t.size, N))
    ice = np.repeat(rng.choice([-0.02, -0.01, 0.0], t.size), rng.geometric(0.15, t.size))[: t.size]
    y[:, 0] = np.where(y[:, 0] < 3.0, np.maximum(0.3 * (y[:, 0] - 2), ice), y[:, 0] - 2.7)
    y = np.round(y, 2)
    y[3090:3120, 0] = 0.0
    assert stuck(y)[3091:3120, 0].all()
    assert stuck(y).sum() <= 40


def hourly(rng, n=8, days=40):
    """Temperatures in tenths, with days and weather that all stations share."""
    hours = np.arange(24 * days)
    weather = np.cumsum(0.4 * rng.standard_normal(hours.size)) * np.exp(-hours / hours.size)
    common = 4 * np.sin(2 * np.pi * hours / 24) + weather
    return np.round(10 + common[:, None] + 0.3 * rng.standard_normal((hours.size, n)), 1)


@pytest.mark.parametrize("length", [20, 24, 70])
def test_a_network_that_stands_still_is_seen_as_a_whole(rng, length):
    """No station differs from the others, so that no run was evidence."""
    y = hourly(rng)
    assert freezes(y) == []
    y[300 : 300 + length + 1] = y[300]
    y[310, 2] = np.nan
    (runs,) = freezes(y)
    assert [run.station for run in runs] == list(range(8))
    expected = np.zeros(y.shape, dtype=bool)
    expected[301 : 301 + length] = True  # the first reading is right
    expected[310, 2] = False
    np.testing.assert_array_equal(stuck(y), expected)


def test_a_station_that_goes_on_is_not_frozen(rng):
    y = hourly(rng, n=12)
    y[300:331, :11] = y[300, :11]
    (runs,) = freezes(y)
    assert [run.station for run in runs] == list(range(11))


def test_a_network_that_still_stands_at_the_end_is_frozen(rng):
    """Tomorrow's file would show the leap; today's has calms of a few steps before."""
    y = hourly(rng)
    y[-30:] = y[-31]
    (runs,) = freezes(y)
    assert [run.rows.tolist() for run in runs] == [[*range(len(y) - 30, len(y))]] * 8
    calm = np.round(np.cumsum(0.02 * rng.standard_normal((3000, 1)), axis=0) + np.linspace(0, 0.2, 6))
    assert all(freezes(calm[:stop]) == [] for stop in range(200, 3000, 100))


@pytest.mark.parametrize("quantity", ["Temperatuur", "Vochtigheid", "Luchtdruk"])
def test_a_network_whose_stations_go_on_at_their_own_minutes_is_frozen(data_root, quantity):
    """Four times, for 6 to 25 hours, after which they go on within 15 minutes; what they stood at looked like a limit."""
    recipe = nareg.io.Recipe(value=quantity)
    readings = nareg.io.read_readings(data_root / "files" / "metobs-demo" / "datafile.csv", recipe=recipe)
    frozen = freezes(readings.values.T)
    assert [len(runs) for runs in frozen] == [7, 7, 7, 7]
    begins = [readings.times[min(int(run.rows[0]) for run in runs)][:10] for runs in frozen]
    assert begins == ["2022-09-02", "2022-09-07", "2022-09-08", "2022-09-09"]
    if quantity == "Temperatuur":  # what a station reads until it goes on, later than the others, is as old
        assert {readings.times[run.rows[-1]][11:16] for run in frozen[2]} == {"14:05", "14:10", "14:20"}


def test_a_quantity_at_rest_is_not_frozen(rng):
    """Whole numbers of a calm network, which goes on by a step; and levels with many calms, after which all leap."""
    calm = np.round(np.cumsum(0.02 * rng.standard_normal((3000, 1)), axis=0) + np.linspace(0, 0.2, 6))
    assert freezes(calm) == []
    falls = np.repeat(np.cumsum(rng.integers(5, 30, 40)), rng.integers(5, 60, 40))[:, None] + np.arange(6.0)
    assert freezes(falls) == []


def test_a_calm_in_which_every_station_makes_a_step_is_no_freeze():
    """It was a freeze of no station, which the check of a network could not put into words."""
    y = np.repeat(np.arange(12.0)[None], 400, axis=0) * 10 + 100
    y[:100] += np.cumsum(np.ones((100, 12)), axis=0)
    for i in range(12):
        y[120 + 20 * i :, i] += 1  # one after the other makes a step
    y[380:] += 50
    assert all(len(runs) >= 3 for runs in freezes(y))


@pytest.mark.parametrize("seed", range(4))
def test_dry_gauges_are_not_frozen_until_the_flood(seed):
    """Five wadis in whole cm: each has its own stage without water, and a flood reaches all of them within an hour or two."""
    rng = np.random.default_rng(seed)
    stage = np.zeros((1500, 5))
    for begin in rng.integers(100, 1400, 8):
        for i in range(5):
            hours = np.arange(1500) - begin - rng.integers(0, 2)
            stage[:, i] += np.where(hours > 0, 200 * rng.uniform(0.5, 1.5) * np.exp(-np.maximum(hours, 0) / 20), 0.0)
    assert freezes(np.round(stage + rng.integers(20, 200, 5))) == []


def test_light_at_night_is_not_frozen(rng):
    """A week of hours; every sensor has its own offset in the dark."""
    sun = np.maximum(np.sin(2 * np.pi * (np.arange(7 * 24) / 24 - 0.25)), 0.0)[:, None]
    light = 900 * sun * np.repeat(rng.uniform(0.3, 1.0, (7, 1)), 24, axis=0) * (1 + 0.1 * rng.standard_normal((168, 5)))
    assert freezes(np.round(light) + np.arange(-2.0, 3.0)) == []


@pytest.mark.parametrize("seed", range(4))
def test_a_flood_that_rises_is_no_leap_of_one_logger(seed):
    """It comes to twelve gauges within two hours, after weeks of a slow fall, and goes on to rise there."""
    rng = np.random.default_rng(seed)
    stage = np.zeros((1500, 12))
    for begin in (300, 700, 1150):
        for i in range(12):
            hours = np.maximum(np.arange(1500) - begin - rng.integers(0, 3), 0)
            stage[:, i] += (
                rng.uniform(50, 150) * (1 - np.exp(-hours / 3)) * (0.7 * np.exp(-hours / 20) + 0.3 * np.exp(-hours / 1500))
            )
    assert freezes(np.round(stage + rng.uniform(20, 200, 12))) == []


def floods(seed):
    """Stages of seven gauges on a river in whole cm, every hour: floods come down in half a day, and rest lasts for weeks."""
    rng = np.random.default_rng(seed)
    rain = rng.gamma(0.7, 1.0, 2200) * (rng.random(2200) < 1 / 400)
    flow = lfilter([0.3], [1, -0.9], lfilter([1], [1, -0.8], rain)) + lfilter([0.13], [1, -0.984], rain)
    stage = np.column_stack(
        [rng.uniform(20, 60) + 50 * rng.uniform(0.6, 1.4) * np.sqrt(flow[20 - 2 * i :][:2160]) for i in range(7)]
    )
    return np.round(stage + 0.05 * rng.standard_normal(stage.shape))


@pytest.mark.parametrize("seed", range(4))
def test_a_river_at_rest_is_neither_stuck_nor_frozen(seed):
    assert stuck(floods(seed)).sum() == 0


@pytest.mark.parametrize("station", [0, 3])
def test_a_gauge_that_catches_up_was_stuck(station):
    """A day in a flood that falls by 10 to 20 cm, by one every two hours, so that repeats alone are no evidence."""
    y = floods(1)
    top = int(np.argmax(y[:, 0]))
    y[top + 15 : top + 40, station] = y[top + 15, station]
    expected = np.zeros(y.shape, dtype=bool)
    expected[top + 16 : top + 40, station] = True
    np.testing.assert_array_equal(stuck(y) & expected, expected)
    assert stuck(y).sum() <= 30


@pytest.mark.parametrize("stations", [[1, 3, 4], [0, 2, 3, 6]])
def test_gauges_that_stand_still_together_are_found_together(stations):
    y = floods(1)
    top = int(np.argmax(y[:, 0]))
    y[top + 30 : top + 67, stations] = y[top + 30, stations]
    assert {run.station for run in stuck_runs(y)} == {*stations}
    assert {int(run.rows[-1]) for run in stuck_runs(y)} == {top + 66}


@pytest.mark.parametrize("seed", range(4))
def test_dust_rests_at_zero_in_clean_air(seed):
    """Whole numbers from sensors that read no less than 0; clean air of its own lasts at a place for a day or two."""
    rng = np.random.default_rng(seed)
    log = [
        lfilter([np.sqrt(1 - rho**2)], [1, -rho], rng.standard_normal((1440, n)), axis=0) for n, rho in ((1, 0.97), (12, 0.94))
    ]
    dust = np.exp(1.2 + 0.45 * log[0] + 0.6 * log[1]) - 1.5
    assert stuck(np.round(np.maximum(dust + 0.6 * rng.standard_normal(dust.shape), 0))).sum() == 0


def test_a_lone_sensor_is_stuck_by_its_own_habit(rng):
    """Tenths every 5 minutes, where two readings in a row are seldom equal; nobody else reads."""
    day = 20 + 8 * np.sin(2 * np.pi * np.arange(288) / 288) + 0.1 * rng.standard_normal(288)
    y = np.round(day, 1)[:, None]
    y[100:112] = y[99] + 0.3
    assert stuck(y)[:, 0].nonzero()[0].tolist() == list(range(100, 112))


@pytest.mark.parametrize("seed", range(4))
def test_a_lone_gauge_rests_and_lone_snow_melts(seed):
    snow = np.maximum(60 - np.abs(np.arange(-60, 240))[:, None], 0) + np.random.default_rng(seed).integers(0, 3, (300, 1))
    assert stuck(np.where(np.arange(300)[:, None] < 120, snow, 0.0)).sum() == 0
    assert stuck(floods(seed)[:, [3]]).sum() == 0


def test_the_same_readings_are_looked_through_once(rng):
    looked = []

    @remembered
    def runs_of(y: np.ndarray) -> list[int]:
        looked.append(y.shape)
        return [len(y)]

    y = field(rng)
    runs_of(y).append(0)  # an answer is the caller's own
    assert runs_of(y.copy()) == [T]
    assert runs_of(y + 1) == [T]
    assert runs_of(y) == [T]
    assert len(looked) == 2
    assert runs_of(y.reshape(N, T)) == [N]  # the same numbers in another shape
    assert runs_of(y + 2) == runs_of(y + 1) == [T]  # what is long ago is looked through again
    assert len(looked) == 5
