"""Station means, daily and yearly cycles."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.errors import InputError
from nareg.spacetime._dense.cycles import FAR, WIDE, regressed
from nareg.spacetime._dense.learning import DenseLearner
from nareg.spacetime._readings import cycles as _cycles
from nareg.spacetime._readings.space import Space
from nareg.spacetime._sparse.fitting import open_learner

from .reference import autoregressions, regular

HOUR = 3600.0


def fit(y, seconds, step, dated, space, wanted):
    return DenseLearner(space).cycles(y, regular(seconds, step, dated), wanted)


def fit_large(y, seconds, step, dated, graph, wanted):
    with open_learner(graph, len(y)) as learner:
        return learner.cycles(y, regular(seconds, step, dated), wanted)


def places(n=6):
    return Space.of(nareg.Graph.from_knn(4 * np.random.default_rng(0).random((n, 2)), min(n - 1, 2)))


def daily(seconds, n=6, amplitude=3.0):
    angle = 2 * np.pi * seconds / _cycles.DAY
    wave = np.cos(angle) + 0.5 * np.sin(angle) + 0.3 * np.cos(2 * angle)
    return amplitude * wave[:, None] * (1 + 0.1 * np.arange(n)) + np.arange(n)


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_pure_daily_cycle_is_found_everywhere(gaps):
    rng = np.random.default_rng(1)
    seconds = 1.7e9 + HOUR * np.arange(24 * 10)
    truth = daily(seconds)
    y = truth + 0.05 * rng.standard_normal(truth.shape)
    y[rng.random(y.shape) < gaps] = np.nan
    cycles = fit(y, seconds, HOUR, True, places(), "auto")
    assert cycles.names == ("day",)
    np.testing.assert_allclose(cycles.at(seconds), truth, atol=0.1)


def test_cycle_of_a_silent_station_and_of_a_new_place_is_the_neighbors():
    seconds = HOUR * np.arange(24 * 10)
    truth, space = daily(seconds), places()
    y = truth + 0.05 * np.random.default_rng(0).standard_normal(truth.shape)
    y[:, 2] = np.nan
    cycles = fit(y, seconds, HOUR, True, space, "auto")
    silent = cycles.at(seconds)[:, 2] - cycles.level[0, 2]
    middle = truth[:, [0, 1, 3, 4, 5]].mean(axis=1) - truth[:, [0, 1, 3, 4, 5]].mean()
    assert np.corrcoef(silent, middle)[0, 1] > 0.99
    at_stations = cycles.at_points(space, space.coordinates)
    np.testing.assert_allclose(at_stations, cycles.level, atol=0.1 * np.abs(cycles.level).max())


@pytest.mark.parametrize(
    ("span", "step", "dated", "names"),
    [
        (0.5 * _cycles.DAY, 600.0, True, ()),
        (1.5 * _cycles.DAY, 600.0, True, ()),
        (3 * _cycles.DAY, 600.0, True, ("day",)),
        (3 * _cycles.DAY, 8 * HOUR, True, ()),
        (3 * _cycles.DAY, 600.0, False, ()),
        (400 * _cycles.DAY, _cycles.DAY, True, ("year",)),
        (400 * _cycles.DAY, HOUR, True, ("day", "year")),
        (5 * _cycles.YEAR, 92 * _cycles.DAY, True, ("year",)),  # quarters
        (5 * _cycles.YEAR, 122 * _cycles.DAY, True, ()),
    ],
)
def test_a_cycle_is_looked_for_where_the_readings_can_show_it(span, step, dated, names):
    seconds = np.arange(0.0, span, step)
    assert _cycles.find(seconds, step, dated, "auto")[0] == names
    assert _cycles.find(seconds, step, dated, ()) == ((), ())


def test_a_cycle_that_cannot_be_found_is_not_dropped_silently():
    seconds = np.arange(0.0, 0.5 * _cycles.DAY, 600.0)
    with pytest.raises(InputError, match=r"cycles names 'day' but the times span 0.5 of them"):
        _cycles.find(seconds, 600.0, True, ("day",))
    with pytest.raises(InputError, match="times are numbers"):
        _cycles.find(seconds, 600.0, False, ("day",))


@pytest.mark.parametrize("value", [0.0, 20.1, 1e-200])
def test_nothing_but_one_value(value):
    cycles = fit(np.full((30, 6), value), np.arange(30.0), 1.0, False, places(), "auto")
    np.testing.assert_allclose(cycles.level[0], value, rtol=1e-12)


def test_one_silent_one_zero_and_few_readings():
    rng = np.random.default_rng(0)
    y = rng.standard_normal((40, 6)) + 5
    y[:, 1], y[:, 2], y[2:, 3] = np.nan, 0.0, np.nan
    cycles = fit(y, np.arange(40.0), 1.0, False, places(), "auto")
    assert np.isfinite(cycles.level).all()
    assert cycles.level[0, 2] == pytest.approx(0.0, abs=0.1)
    assert 2 < cycles.level[0, 1] < 6


def test_cycles_of_the_stations_that_stay():
    seconds, space = HOUR * np.arange(24 * 5), places()
    y = daily(seconds) + 0.05 * np.random.default_rng(0).standard_normal((120, 6))
    cycles = fit(y, seconds, HOUR, True, space, "auto")
    keep = np.array([0, 2, 3, 5])
    part = nareg.Graph.from_knn(space.coordinates, 2).subgraph(keep)
    less = cycles.restricted(Space.of(part), keep)
    np.testing.assert_array_equal(less.at(seconds), cycles.at(seconds)[:, keep])
    np.testing.assert_allclose(less.at_points(Space.of(part), part.coordinates), less.level, atol=1e-3)


def test_the_variance_of_levels_covers_their_errors():
    """Levels of white readings around a smooth field: the standardized errors have variance one."""
    coordinates = np.random.default_rng(0).random((60, 2))
    space = Space.of(nareg.Graph.from_knn(coordinates, 6))
    scores = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        level = 3 * np.sin(4 * coordinates[:, 0] + rng.uniform(0, 6))
        y = level + rng.standard_normal((25, 60))
        y[:, :5] = np.nan
        found = fit(y, np.arange(25.0), 1.0, False, space, ())
        scores.append((found.level[0] - level)[5:] / np.sqrt(found.spread[0][5:]))
        np.testing.assert_array_equal(found.variance_at(np.arange(3.0)), np.repeat(found.spread, 3, axis=0))
    assert 0.6 < np.mean(np.square(scores)) < 1.6


@pytest.mark.slow
def test_readings_close_together_leave_no_mean_open():
    """A station that read for a short while only: its mean's variance stays that of a short mean, and estimates stay small."""
    rng = np.random.default_rng(0)
    graph = nareg.Graph.from_knn(rng.random((12, 2)), 4)
    y = np.exp(rng.standard_normal((12, 200)) + rng.normal(0, 2, (12, 1)))
    y[3, :80], y[3, 110:] = np.nan, np.nan
    space = Space.of(graph)
    for fitted in (
        fit(np.log(y).T, np.arange(200.0), 1.0, False, space, "auto"),
        fit_large(np.log(y).T, np.arange(200.0), 1.0, False, graph, "auto"),
    ):
        assert fitted.spread[0, 3] < 20 * np.median(fitted.spread[0])
    x = nareg.spacetime.fit(graph, y, transform="log", rng=rng).smooth().x
    assert x[3].max() < 3 * np.nanmax(y)


def test_a_station_that_read_once_leaves_the_others_means_as_they_were():
    """Its error is 400 times that of the others: it sets neither the scale of the errors nor that of the field."""
    rng = np.random.default_rng(0)
    graph = nareg.Graph.from_knn(rng.random((30, 2)), 4)
    y = rng.standard_normal((30, 400)) + rng.normal(0, 0.05, (30, 1))
    y[3] = np.nan
    once = y.copy()
    once[3, 0] = 8.0
    others = np.arange(30) != 3

    def dense(y):
        return fit(y.T, np.arange(400.0), 1.0, False, Space.of(graph), "auto")

    def sparse(y):
        return fit_large(y.T, np.arange(400.0), 1.0, False, graph, "auto")

    for engine in (dense, sparse):
        without, with_one = engine(y), engine(once)
        np.testing.assert_allclose(with_one.level[0, others], without.level[0, others], atol=0.03)
        ratio = with_one.spread[0, others] / without.spread[0, others]
        assert ratio.min() > 0.5
        assert ratio.max() < 1.8


@pytest.mark.parametrize(("name", "step"), [("day", 600.0), ("day", 3600.0), ("year", 86_400.0)])
def test_waves_beside_the_cycles_leave_their_harmonics_alone(name, step):
    """However many periods the record has: no variance of a cycle's coefficient grows by half through the waves beside it."""
    period = _cycles.PERIODS[name]
    for periods in np.arange(2.0, 8.0, 0.05):
        seconds = np.arange(round(periods * period / step)) * step
        names, harmonics = _cycles.find(seconds, step, True, "auto")
        basis = _cycles.none(names, harmonics).basis(seconds)
        both = np.column_stack([basis, _cycles.control_waves(seconds, step, names)])
        alone = np.diag(np.linalg.inv(basis.T @ basis))
        together = np.diag(np.linalg.inv(both.T @ both))[: basis.shape[1]]
        assert (together < 1.5 * alone).all(), periods


def tide(hours, n=6, near=0.2):
    """Of the sun and the moon, ``near`` by how much the moon comes near."""
    periods = {12.4206: 1.0, 12.6583: near, 6.2103: 0.1, 25.8193: 0.2, 12.0: 0.3}
    wave = sum(size * np.cos(2 * np.pi * hours / period) for period, size in periods.items())
    return wave[:, None] * (1 + 0.1 * np.arange(n))


@pytest.mark.parametrize("days", [3, 10, 40])
def test_only_what_follows_the_moon_is_tidal(days):
    rng = np.random.default_rng(days)
    hours = np.arange(0.0, 24.0 * days, 0.5)
    grid, shape = regular(HOUR * hours, HOUR / 2, True), (hours.size, 6)
    noise = 0.1 * rng.standard_normal(shape)
    assert _cycles.tidal(tide(hours) + noise, grid)
    assert not _cycles.tidal(tide(hours) + noise, regular(HOUR * hours, HOUR / 2, False))
    sun = daily(HOUR * hours) + 2 * np.sign(np.cos(2 * np.pi * hours / 12))[:, None]
    walk = rng.standard_normal(shape).cumsum(axis=0)
    for other in (sun, walk, walk.cumsum(axis=0), 10 * noise):
        assert not _cycles.tidal(other + noise, grid)
    few = np.where(np.arange(hours.size)[:, None] % (hours.size // 40) == 0, tide(hours) + noise, np.nan)
    assert not _cycles.tidal(few, grid)


@pytest.mark.parametrize(("days", "count"), [(12, 3), (40, 4)])
def test_tide_is_a_cycle_on_request(days, count):
    hours = np.arange(0.0, 24.0 * days, 0.5)
    truth = tide(hours, near=0.2 if count == 4 else 0.0)
    y = truth + 0.05 * np.random.default_rng(0).standard_normal(truth.shape)
    cycles = fit(y, HOUR * hours, HOUR / 2, True, places(), ("day", "tide"))
    assert cycles.names == ("day", "tide")
    assert cycles.harmonics == (2, count)
    np.testing.assert_allclose(cycles.at(HOUR * hours), truth, atol=0.1)
    assert fit(y, HOUR * hours, HOUR / 2, True, places(), "auto").names == ("day",)
    with pytest.raises(InputError, match=r"names 'tide' but the times span 1\.9 of them"):
        _cycles.find(HOUR * np.arange(24.0), HOUR, True, ("tide",))


def test_only_what_follows_the_week_is_weekly():
    rng = np.random.default_rng(5)
    days = np.arange(400.0)
    walk = np.cumsum(rng.standard_normal((400, 6)), axis=0) + rng.standard_normal((400, 6))
    grid = regular(_cycles.DAY * days, _cycles.DAY, True)
    assert not _cycles.weekly(walk, grid)
    well = walk.copy()
    well[:, 2] -= 6.0 * (days % 7 < 5)  # one pumped well of six
    assert _cycles.weekly(well, grid)
    assert _cycles.weekly(well[:120], regular(_cycles.DAY * days[:120], _cycles.DAY, True))
    assert not _cycles.weekly(walk[:120], regular(_cycles.DAY * days[:120], _cycles.DAY, True))
    assert not _cycles.weekly(well, regular(_cycles.DAY * days, _cycles.DAY, False))
    assert not _cycles.weekly(well[:20], regular(_cycles.DAY * days[:20], _cycles.DAY, True))
    hours = np.arange(24.0 * 60)
    grid = regular(HOUR * hours, HOUR, True)
    weather = daily(HOUR * hours) * (1 + 0.3 * np.sin(hours / 91.0))[:, None] + rng.standard_normal((hours.size, 6))
    assert not _cycles.weekly(weather, grid)
    rush = np.exp(-(((hours % 24) - 8) ** 2)) * (hours // 24 % 7 < 5)  # mornings of workdays, at the mean of any day
    assert _cycles.weekly(weather + 8 * rush[:, None], grid)


def test_the_week_of_readings_that_rest_or_of_two_times_of_day():
    times = HOUR * np.arange(1000.0)
    rest = np.full((1000, 2), 5.0)
    rest[:, 1] = np.cos(2 * np.pi * np.arange(1000) / 24)
    assert not _cycles.weekly(rest, regular(times, HOUR, True))
    rng = np.random.default_rng(5)
    times = 6 * HOUR * np.arange(28.0 * 26)
    work = 3.0 * (times // _cycles.DAY % 7 < 5)
    seen = np.where(times[:, None] % _cycles.DAY < 9 * HOUR, np.nan, rng.standard_normal((20, times.size, 3)))
    grid = regular(times, 6 * HOUR, True)  # such gaps make waves of the day those of the week
    assert [_cycles.weekly(y, grid) for y in seen] == [False] * 20
    assert sum(_cycles.weekly(y + work[:, None], grid) for y in seen) > 15


@pytest.mark.parametrize(("step", "count"), [(_cycles.DAY, 3), (HOUR, 9)])
def test_the_week_is_a_cycle_and_a_holiday_another_day_of_it(step, count):
    seconds = np.arange(0.0, 140 * _cycles.DAY, step)
    work = 4.0 * (seconds // _cycles.DAY % 7 < 5)
    if count > 3:
        work = work * np.exp(np.cos(2 * np.pi * (seconds / _cycles.DAY - 0.5)))
    y = work[:, None] * np.ones(6) + 0.1 * np.random.default_rng(0).standard_normal((seconds.size, 6))
    cycles = fit(y, seconds, step, True, places(), ("day", "week")[count == 3 :])
    assert cycles.harmonics[-1] == count
    left = cycles.at(seconds) - work[:, None]
    assert np.sqrt(np.mean(left**2)) < (0.1 if count == 3 else 0.2) * work.std()
    less, more = cycles.other_days(seconds)
    workday = seconds // _cycles.DAY % 7 == 2
    np.testing.assert_allclose((more - less).max(), work.max(), rtol=0.2)
    assert (less[workday].min(axis=0) < -0.8 * work.max()).all()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["dense", "sparse"])
def test_a_record_of_two_and_a_half_days_has_narrow_bands(engine):
    network = nareg.datasets.simulated(12, 60, step_minutes=60, faults=(), rng=np.random.default_rng(2))
    model = nareg.spacetime.fit(
        network.graph(), network.readings, times=network.times, dynamics="scalar", engine=engine, rng=np.random.default_rng(0)
    )
    assert "day" in model.cycles.names
    assert model.forecast(24).std.max() < 2 * network.truth.std()
    assert model.smooth().std.max() < 2 * network.noise


def test_levels_that_neighbors_do_not_share_stay_with_their_stations():
    rng = np.random.default_rng(4)
    coordinates, seconds = rng.uniform(0, 10, (40, 2)), HOUR * np.arange(48)
    space = Space.of(nareg.Graph.from_knn(coordinates, 5))
    own = 3 * rng.standard_normal(40)  # sensors on walls and in hollows
    y = 10 + own + 0.1 * rng.standard_normal((48, 40))
    cycles = fit(y, seconds, HOUR, False, space, ())
    assert cycles.own[0] >= 0.4
    np.testing.assert_allclose(cycles.level[0], y.mean(axis=0), atol=0.1)
    beside = cycles.at_points(space, coordinates + 0.01)[0]
    assert np.std(beside - 10) < 0.6 * np.std(own)
    spread = cycles.spread_at_points(space, coordinates + 0.01)[0]
    covered = np.abs(beside - 10 - 3 * rng.standard_normal(40)) <= 1.645 * np.sqrt(spread)
    assert 0.75 <= covered.mean() <= 1.0
    few = np.arange(0, 40, 2)
    less = cycles.restricted(Space.of(nareg.Graph.from_knn(coordinates, 5).subgraph(few)), few)
    assert np.std(less.at_points(Space.of(nareg.Graph.from_knn(coordinates[few], 5)), coordinates) - 10) < 0.7 * np.std(own)


@pytest.mark.parametrize("n", [2, 6])
def test_levels_once_more_are_the_most_probable_ones(n):
    rng = np.random.default_rng(2)
    seconds = 1.7e9 + HOUR * np.arange(24 * 10)
    cycles = fit(daily(seconds, n) + rng.standard_normal((seconds.size, n)), seconds, HOUR, True, places(n), "auto")
    K = len(cycles.level)
    root = rng.standard_normal((n * K, n * K))
    A, b = root @ root.T, rng.standard_normal(n * K)
    new, gain = regressed(cycles, places(n), np.arange(n), A, b)

    def log_density(level, common):
        change = (level - cycles.level).T.ravel()
        density = change @ b - 0.5 * change @ A @ change
        density -= 0.5 * (common[0] - cycles.common[0]) ** 2 / FAR**2 + 0.5 * np.sum(common[1:] ** 2) / WIDE**2
        for k in range(K):
            rest = level[k] - common[k]
            density -= 0.5 * rest @ np.linalg.solve(new.covariance(places(n), k)[0], rest)
        return density

    best = log_density(new.level, new.common)
    steps = 1e-3 * rng.standard_normal((20, K, n + 1))
    assert all(log_density(new.level + step[:, :n], new.common + step[:, n]) < best for step in steps)
    change = (new.level - cycles.level).T.ravel()
    assert gain == pytest.approx(change @ b - 0.5 * change @ A @ change)
    if n > 2:  # at the stations a field interpolates their levels
        at = new.at_points(places(n), 4 * np.random.default_rng(0).random((n, 2)))
        smooth = [k for k in range(K) if new.own_share(k) == 0]
        np.testing.assert_allclose(at[smooth], new.level[smooth], atol=1e-5)


def test_exact_readings_have_exact_levels():
    """Normal equations that float64 holds and their sum with a prior does not: levels were off by 15 standard deviations."""
    rng = np.random.default_rng(2)
    seconds = 1.7e9 + HOUR * np.arange(24 * 10)
    cycles = fit(daily(seconds) + rng.standard_normal((seconds.size, 6)), seconds, HOUR, True, places(), "auto")
    root, change = rng.standard_normal((30, 30)), rng.standard_normal((5, 6))
    for size in (1e14, 1e18, 1e22):
        A = size * root @ root.T
        new, _ = regressed(cycles, places(), np.arange(6), A, A @ change.T.ravel())
        np.testing.assert_allclose(new.level, cycles.level + change, atol=1e-6)
        assert np.sqrt(new.spread).max() < 2e-4


def test_slow_weather_in_gaps_is_no_cycle():
    rng = np.random.default_rng(7)
    n, T = 7, 2592  # nine days of readings every five minutes, and weather of weeks, as of pressure
    weather = 5 * autoregressions(rng, 0.9997, 1, T)[0][:, None] + 0.2 * autoregressions(rng, 0.99, n, T).T
    y = 5 * np.arange(n) + weather + 0.05 * rng.standard_normal((T, n))
    for i in range(n):
        for start in rng.integers(0, T - 250, 3):
            y[start : start + 250, i] = np.nan
    y[1000:1120] = np.nan
    times = np.datetime64("2024-05-01") + np.arange(T) * np.timedelta64(5, "m")
    graph = nareg.Graph.from_knn(rng.random((n, 2)), 3)
    model = nareg.spacetime.fit(graph, y.T, times=times, transform=None)
    grid = regular((times - times[0]) / np.timedelta64(1, "s") + 1.7e9, 300.0, True)
    before = DenseLearner(Space.of(graph)).cycles((y - np.nanmean(y, axis=0)) / model.unit, grid, "auto")
    truth = 5 * np.arange(n) + weather
    rms = np.sqrt(np.mean((model.smooth().x.T - truth)[np.isnan(y)] ** 2))
    assert model.cycles.names == ("day",)
    ratio = np.sqrt(np.mean(model.cycles.level[1:] ** 2) / np.mean(before.level[1:] ** 2))
    assert ratio < 0.75  # before .92
    assert rms < 0.33  # before .38


def test_what_few_stations_show_is_theirs():
    rng = np.random.default_rng(4)
    hours = np.arange(24 * 6)
    times = np.datetime64("2024-05-01") + hours * np.timedelta64(1, "h")
    graph, sizes = nareg.Graph.from_knn(rng.random((3, 2)), 2), np.array([[4.0], [1.0], [2.0]])
    truth = sizes * np.cos(np.pi * hours / 12) + autoregressions(rng, 0.6, 3, hours.size)
    y = truth + 0.3 * rng.standard_normal(truth.shape)
    y[2, np.abs(hours - 25) > 5] = np.nan  # two stations have a cycle of their own, a third one has ten readings
    model = nareg.spacetime.fit(graph, y, times=times, transform=None)
    np.testing.assert_allclose(model.unit * model.cycles.level[1, :2], [4, 1], atol=0.6)  # before, all three had 2.7
    pair = nareg.spacetime.fit(graph.subgraph([0, 2]), y[[0, 2]], times=times, transform=None)
    low, high = pair.smooth().interval(0.9)
    assert (high - low)[1].mean() < 3 * np.std(y[0])  # before, 5 times


def test_readings_of_four_hours_a_day_show_no_wild_cycle():
    rng = np.random.default_rng(3)
    n, hours = 6, np.arange(24 * 8)
    times = np.datetime64("2024-05-01") + hours * np.timedelta64(1, "h")
    y = 3 * np.cos(np.pi * hours / 12) + 2 * rng.standard_normal((n, 1)) + 3 * autoregressions(rng, 0.98, n, hours.size)
    y += 0.5 * rng.standard_normal(y.shape)
    y[:, (hours % 24 < 10) | (hours % 24 > 13)] = np.nan
    model = nareg.spacetime.fit(nareg.Graph.from_knn(rng.random((n, 2)), 3), y, times=times, transform=None)
    assert np.abs(model.cycles.level[1:]).max() < 3
    assert np.sqrt(model.cycles.spread).max() < 3
