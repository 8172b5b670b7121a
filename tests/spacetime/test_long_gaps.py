"""A week without any reading, at all stations: the field goes back to its mean, and the band to the stationary one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.signal import lfilter

import nareg
from nareg.spacetime import SpaceTimeModel, fit
from nareg.spacetime._dense import families
from nareg.spacetime._dense.families import ModelComparison, windows_of
from nareg.spacetime._dense.starts import calm_noise
from nareg.spacetime._readings.engine import LearningTask, StageClock
from nareg.spacetime._readings.holdout import Judge, gaps_of, hide, hide_times, improvement, silent_times
from nareg.spacetime._readings.space import Space
from tests.helpers import hourly_rooms
from tests.spacetime.reference import dense, model_of, network, parameters

RNG = np.random.default_rng
WEEK, BEFORE, AFTER = 168, 60, 60
GAP = slice(BEFORE, BEFORE + WEEK)
HOURS = np.datetime64("2024-03-01T00") + np.arange(BEFORE + WEEK + AFTER) * np.timedelta64(1, "h")


def interrupted(phi: tuple[float, ...] = (0.9,)) -> SpaceTimeModel:
    model = network(2, n=5, T=HOURS.size, gaps=0.05, phi=phi, times=HOURS, level=3.0)
    model.readings[:, GAP] = np.nan
    return model


def stationary_std(model: SpaceTimeModel) -> np.ndarray:
    return np.sqrt(model.dynamics.P0.diagonal()[: model.n_nodes])


@pytest.mark.slow
@pytest.mark.parametrize("phi", [(0.9,), (0.9, -0.4)])
def test_the_smoother_is_the_dense_conditional_through_the_gap(phi):
    model = interrupted(phi)
    y = model.readings.T - 3.0
    exact = dense(y, model.dynamics, model.unit_noise, np.ones(len(y)))
    smoothed = model.smooth(robust=False)
    np.testing.assert_allclose(smoothed.x, exact.mean[:, :5].T + 3.0, atol=1e-9)
    std = np.sqrt(np.einsum("titi->it", exact.covariance[:, :5, :, :5]))
    np.testing.assert_allclose(smoothed.std, std, rtol=1e-8)


@pytest.mark.parametrize("phi", [(0.9,), (0.9, -0.4)])
def test_the_band_widens_to_the_stationary_one_and_narrows_again(phi):
    model = interrupted(phi)
    smoothed = model.smooth()
    limit = stationary_std(model)
    middle = BEFORE + WEEK // 2
    np.testing.assert_allclose(smoothed.std[:, middle], limit, rtol=1e-3)
    np.testing.assert_allclose(smoothed.x[:, middle], 3.0, atol=1e-2)
    assert (np.diff(smoothed.std[:, BEFORE - 1 : middle], axis=1) > -1e-9).all()
    assert (np.diff(smoothed.std[:, middle : BEFORE + WEEK + 1], axis=1) < 1e-9).all()
    assert (smoothed.std <= limit[:, None] * (1 + 1e-9)).all()
    low, high = smoothed.interval(0.9)
    np.testing.assert_allclose((high - low)[:, middle], 2 * 1.6449 * limit, rtol=1e-3)


def test_a_forecast_of_a_week_meets_the_stationary_band():
    model = interrupted()
    ahead = model.forecast(WEEK)
    np.testing.assert_allclose(ahead.std[:, -1], stationary_std(model), rtol=1e-6)
    np.testing.assert_allclose(ahead.x[:, -1], 3.0, atol=1e-5)
    assert (np.diff(ahead.std, axis=1) > -1e-12).all()
    # a forecast right behind a gap knows nothing either
    behind = model.forecast(1, readings=model.readings[:, : GAP.stop], times=HOURS[: GAP.stop])
    np.testing.assert_allclose(behind.std[:, 0], stationary_std(model), rtol=1e-6)


def test_a_stream_goes_on_behind_the_gap_as_the_filter_does():
    """In one leap, and hour by hour without a reading."""
    model = interrupted()
    start = model_of(
        model.graph, model.readings[:, :BEFORE], process=parameters(5, phi=(0.9,)), times=HOURS[:BEFORE], level=3.0
    )
    leaping, waiting = start.stream(robust=None), start.stream(robust=None)
    for hour in HOURS[GAP]:
        empty = waiting.update(np.full(5, np.nan), time=hour)
    np.testing.assert_allclose(empty.std, stationary_std(model), rtol=1e-6)
    for t in range(GAP.stop, HOURS.size):
        one = leaping.update(model.readings[:, t], time=HOURS[t])
        two = waiting.update(model.readings[:, t], time=HOURS[t])
        np.testing.assert_allclose(one.x, two.x, atol=1e-9)
        np.testing.assert_allclose(one.std, two.std, rtol=1e-9)
    whole = model.stream(robust=None).update(np.full(5, np.nan))
    np.testing.assert_allclose(leaping.update(np.full(5, np.nan)).x, whole.x, atol=1e-9)


@pytest.mark.slow
def test_a_fit_takes_a_week_without_readings():
    """Daily cycle, gap and all: inside the gap the cycle goes on, and bands hold the truth."""
    data = nareg.datasets.simulated(9, 600, faults=(), step_minutes=60, rng=RNG(3))
    readings = data.readings.copy()
    readings[:, 200 : 200 + WEEK] = np.nan
    smoothed = fit(data.graph(), readings, times=data.times).smooth()
    low, high = smoothed.interval(0.9)
    inside = np.s_[:, 200 : 200 + WEEK]
    covered = np.mean((data.truth[inside] >= low[inside]) & (data.truth[inside] <= high[inside]))
    assert 0.75 < covered <= 1.0
    assert smoothed.std[:, 284].mean() > 1.5 * smoothed.std[:, 100].mean()
    around_mean = data.truth[inside] - data.truth.mean(axis=1, keepdims=True)
    assert np.mean((smoothed.x[inside] - data.truth[inside]) ** 2) < np.mean(around_mean**2)


def test_hidden_readings_are_whole_times_where_the_gaps_are():
    rng = np.random.default_rng(0)
    y = rng.standard_normal((400, 20))
    complete = hide(y, 0.1, np.random.default_rng(1))
    assert not complete.all(axis=1).any()
    y[rng.random(400) < 0.5] = np.nan
    there = np.isfinite(y).any(axis=1)
    hidden = hide(y, 0.1, np.random.default_rng(1))
    assert not (hidden & ~np.isfinite(y)).any()
    whole = hidden.all(axis=1)
    # half of the hidden readings, those that are not single ones
    assert 0.3 < 20 * whole.sum() / hidden.sum() < 0.7
    assert hidden.sum() == pytest.approx(0.1 * 20 * there.sum(), rel=0.25)


@pytest.mark.parametrize(("single", "imitated"), [(0.05, True), (0.3, False)])
def test_hidden_readings_are_whole_times_in_proportion_where_most_of_the_gaps_are(single, imitated):
    rng = np.random.default_rng(0)
    y = rng.standard_normal((1000, 10))
    y[rng.random(1000) < 0.1] = np.nan
    y[rng.random(y.shape) < single] = np.nan
    hidden = hide(y, 0.2, np.random.default_rng(1))
    there = np.isfinite(y)
    whole = ((hidden == there) | ~there).all(axis=1) & (there.sum(axis=1) > 4)
    missing = (~there.any(axis=1)).sum() * 10 / (~there).sum()
    assert (missing > 0.5) == imitated
    assert hidden[whole].sum() / hidden.sum() == pytest.approx(missing / 2 if imitated else 0, abs=0.1)


def test_whole_times_are_hidden_up_to_a_share_of_missing_readings():
    y = np.random.default_rng(0).standard_normal((400, 20))
    hidden = hide_times(y, 0.05, np.random.default_rng(1))
    assert hidden.all(axis=1).sum() == 20
    assert hidden.sum() == 20 * 20
    y[:8, 3:] = np.nan  # 1.7 %
    hidden = hide_times(y, 0.05, np.random.default_rng(1))
    assert (hidden == np.isfinite(y)).all(axis=1).sum() == int((0.05 - 8 * 17 / 8000) * 400)
    y[:, 5] = np.nan  # a dead station is no gap
    y[380:] = np.nan  # nor is what follows the last reading
    assert hide_times(y, 0.05, np.random.default_rng(1)).any()
    y[np.random.default_rng(2).random(y.shape) < 0.1] = np.nan
    assert not hide_times(y, 0.05, np.random.default_rng(1)).any()
    assert not hide_times(np.full((5, 2), np.nan), 0.05, np.random.default_rng(1)).any()


def test_breaks_of_a_season_are_no_gaps():
    """A station reads from May to September: the winters between are not imitated, single times without a reading are."""
    rng = np.random.default_rng(0)
    y = rng.standard_normal((1200, 10))
    y[rng.random(1200) < 0.1] = np.nan
    pieces = [y[:400], y[400:800], y[800:]]
    winter = np.full((300, 10), np.nan)
    seasons = np.concatenate([pieces[0], winter, pieces[1], winter, pieces[2]])
    for draw in range(5):
        hidden = hide(seasons, 0.1, np.random.default_rng(draw))
        hidden |= hide_times(seasons, 0.05, np.random.default_rng(draw))
        whole = (hidden == np.isfinite(seasons)).all(axis=1) & np.isfinite(seasons).any(axis=1)
        runs = np.diff(np.flatnonzero(np.diff(np.concatenate([[False], whole, [False]]).astype(int))))[::2]
        assert hidden.sum() == pytest.approx(hide(y, 0.1, np.random.default_rng(draw)).sum(), rel=0.1)
        assert runs.max() < 20
        assert len(runs) > 20


def test_silent_times_are_those_at_which_nothing_is_seen():
    seen = [np.array([[1.0, np.nan], [np.nan, np.nan]]), np.array([[np.nan, np.nan]])]
    masks = [np.array([[False, True], [True, True]]), np.array([[True, False]])]
    np.testing.assert_array_equal(silent_times(seen, masks), [-1, 1, 1, 2])


def test_a_gain_at_whole_times_alone_is_as_sure_as_there_are_times():
    rng = np.random.default_rng(0)
    old = rng.standard_normal(100) * np.repeat([1.0, 3.0, 1.0, 2.0], 25)
    new, groups = 0.9 * old, np.repeat(np.arange(4), 25)
    alone, together = improvement(old, new, 10.0), improvement(old, new, 10.0, groups)
    assert alone[0] == pytest.approx(0.19) == together[0]
    squares = (old**2 - new**2).reshape(4, 25).sum(axis=1)
    expected = np.linalg.norm(squares - squares.mean()) / (old**2).sum()
    assert together[1] == pytest.approx(expected)
    assert together[1] > 2 * alone[1]


def test_readings_with_neighbors_are_not_drowned_by_those_without():
    """Errors without any neighbor are a hundred times as large: a twentieth less at the others counts all the same."""
    rng = np.random.default_rng(0)
    silent = np.r_[np.full(1000, -1), np.repeat(np.arange(20), 25)]
    old = rng.standard_normal(1500) * np.where(silent < 0, 1.0, 100.0)
    judge = Judge.of(old, silent)
    better = judge.gain(old, np.where(silent < 0, 0.97 * old, old))
    assert better.better
    assert better.value == pytest.approx((1 - 0.97**2) / 2, rel=0.1)
    assert judge.loss(0.97 * old) < judge.loss(old)
    assert not judge.gain(old, np.where(silent < 0, 0.999 * old, 1.2 * old)).better
    assert judge.gain(old, np.where(silent < 0, 1.02 * old, 0.8 * old)).better  # what the dynamics are worth
    assert not judge.gain(old, old).better


def test_gaps_are_between_readings_that_are_seen():
    """Of a station alone; where none reads, of all; and each window has its own."""
    y = np.array([[1.0, 1.0], [np.nan, 1.0], [np.nan, np.nan], [1.0, np.nan], [np.nan, 1.0]])
    mask = np.array([[False, False], [True, False], [True, True], [False, True], [True, False]])
    gaps = gaps_of([y, y], [mask, mask])
    first, second = gaps[:5], gaps[5:]
    assert first[1] == first[2]  # a time at which no station reads: one gap of both
    assert len({*first}) == 4
    assert not {*first} & {*second}


def three_with_long_gaps(seed, recursion):
    """Readings (3, T) of unrelated stations, one of which reads every eighth time, mostly."""
    rng = RNG(seed)
    y = lfilter([1], recursion, rng.standard_normal((3, 400)), axis=1) + 0.05 * rng.standard_normal((3, 400))
    y[2, 8 * rng.permutation(50)[:45]] = np.nan
    for station in range(3):
        start = int(rng.integers(0, 260))
        y[station, start : start + 60] = np.nan
    return y


TRIANGLE = nareg.Graph(np.ones((3, 3)) - np.eye(3))


def second_orders(*recursion):
    """Of twelve such networks, in how many a second order is taken."""
    series = [three_with_long_gaps(seed, recursion) for seed in range(12)]
    return sum("order 2" in fit(TRIANGLE, y, rng=RNG(0), cycles=None, transform="none").details.chosen for y in series)


@pytest.mark.filterwarnings("ignore::nareg.errors.DegenerateFitWarning")  # noise of .05 beside steps of 1 is not told from none
@pytest.mark.slow
def test_a_few_long_gaps_do_not_turn_down_a_second_order():
    """Errors in one long gap are alike: they say little against what is far likelier."""
    assert second_orders(1, -1.5, 0.56) >= 10
    assert second_orders(1, -0.9) <= 5


def test_where_passes_are_long_a_second_order_has_to_predict_better(monkeypatch):
    """Speeds of 207 roads: a likelier order that predicted as well as the first took twice the seconds of the whole fit."""

    def chosen(seed):
        y = three_with_long_gaps(seed, (1, -1.5, 0.56)).T
        task = LearningTask("auto", None, True, RNG(0))
        comparison = ModelComparison(y, Space.of(TRIANGLE), task, StageClock(None))
        order = comparison.best_family()[0].parameters.order
        [gain, error] = next(choice[1:] for choice in comparison.choices if choice[0] == "second order")
        return order, gain > error

    assert (chosen(0), chosen(1)) == ((2, True), (2, False))
    monkeypatch.setattr(families, "COSTLY_SECONDS", 0.0)
    assert (chosen(0), chosen(1)) == ((2, True), (1, False))


@pytest.mark.slow
def test_noise_of_a_smooth_field_that_works_by_day_is_seen():
    """Rooms fill and empty: a rough field without noise is likely, too, and the way from there is over a ridge."""
    rng = RNG(0)
    people = np.repeat(rng.binomial(5, 0.5, (6, 250)), 4, axis=1) * np.repeat(np.arange(20) % 2, 50)
    field = 40 * lfilter([0.15], [1, -0.85], people, axis=1)
    y = field + 4 * rng.standard_normal(field.shape)
    model = fit(nareg.Graph(np.ones((6, 6)) - np.eye(6)), y, rng=RNG(0), cycles=None, transform="none")
    assert "order 2" in model.details.chosen
    np.testing.assert_allclose(np.sqrt(model.noise), 4, rtol=0.2)
    smoothed = model.smooth(y)
    low, high = smoothed.interval(0.9)
    assert 0.87 < np.mean((low <= field) & (field <= high)) < 0.93
    assert np.mean((smoothed.x - field) ** 2) < 0.5 * 4**2


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.slow
def test_a_field_that_jumps_from_hour_to_hour_by_day_is_no_noise(seed):
    """By night nothing but noise is left; jumps by day, of 60 ppm, were noise of 20 to 30 to every model of equal steps."""
    field, y = hourly_rooms(seed)
    times = np.datetime64("2024-01-08") + np.arange(y.shape[1]) * np.timedelta64(1, "h")
    model = fit(nareg.Graph(np.ones((12, 12)) - np.eye(12)), y, times=times, rng=RNG(0))
    assert "noise of calm times" in model.details.chosen
    assert model.transform.name == "none"
    assert np.sqrt(np.median(model.noise)) == pytest.approx(8, rel=0.2)
    smoothed = model.smooth(y)
    low, high = smoothed.interval(0.9)
    assert 0.87 < np.mean((low <= field) & (field <= high)) < 0.93
    assert np.mean((smoothed.x - field) ** 2) < np.mean((y - field) ** 2)


def test_noise_of_calm_times_is_that_of_busy_ones_unless_these_are_white_too(rng):
    """The field's jumps are not white; noise that grows by day is, and then calm times show too little of it."""
    day = np.arange(1000) % 50 < 20
    calm = 3 + 0.5 * rng.standard_normal((1000, 5))
    jumps = lfilter([1], [1, -0.6], 10 * day[:, None] * rng.standard_normal((1000, 5)), axis=0)
    np.testing.assert_allclose(np.sqrt(calm_noise(calm + jumps)), 0.5, rtol=0.2)
    gaps = np.where(rng.random(calm.shape) < 0.1, np.nan, calm + jumps)
    gaps[:, 1] = np.nan
    gaps[10:, 2] = np.nan
    np.testing.assert_allclose(np.sqrt(calm_noise(gaps)), 0.5, rtol=0.25)  # of stations without readings the others' median
    noisier = calm + 5 * day[:, None] * rng.standard_normal(calm.shape)
    events = calm + np.where(np.arange(1000)[:, None] % 200 < 10, jumps, 0.0)
    standing = np.where(day[:, None], calm + jumps, 3.0)
    for y in (noisier, events, standing, calm, np.cumsum(calm - 3, axis=0), gaps[:, 1:2], calm[:20]):
        assert calm_noise(y) is None


@pytest.mark.nightly
def test_a_complete_record_shows_its_second_order(data_root):
    """Neighbors tell the sea's temperature at a single station; whole times show that it goes on as it went."""
    network = nareg.datasets.load("sea-surface-temperature", root=data_root)
    some = np.sort(np.random.default_rng(0).permutation(network.n_nodes)[:25])
    y = network.signals[some, :590]
    past, future = y[:, :-7], y[:, -7:]
    model = nareg.spacetime.fit(nareg.Graph.from_knn(network.coordinates[some], 5), past)
    assert "order 2" in model.details.chosen
    error, unchanged = model.forecast(7).x - future, past[:, -1:] - future
    assert np.mean(error**2) < 0.5 * np.mean(unchanged**2)


def test_kinds_of_hidden_readings_count_as_many_as_they_are():
    """A few silent readings do not turn down what many others confirm, and the other way round."""
    rng = np.random.default_rng(0)
    old = rng.standard_normal(1100)
    few = np.where(np.arange(1100) < 1050, -1, np.arange(1100))
    many = np.where(np.arange(1100) < 50, -1, np.arange(1100))
    assert Judge.of(old, few).better_overall(old, np.where(few < 0, 0.9, 1.3) * old)
    assert not Judge.of(old, few).gain(old, np.where(few < 0, 0.9, 1.3) * old).better
    assert not Judge.of(old, many).better_overall(old, np.where(many < 0, 0.9, 1.3) * old)
    assert Judge.of(old, many).better_overall(old, np.where(many < 0, 1.3, 0.9) * old)


@pytest.mark.slow
def test_a_year_that_swings_does_not_make_the_rest_noise(data_root):
    """One swing of all stations leaves what differs between them to the noise: the first order is refined beside it."""
    network = nareg.datasets.load("sea-surface-temperature", root=data_root)
    truth = network.signals[:50, :600]
    hidden = np.random.default_rng(0).random(truth.shape) < 0.5
    model = nareg.spacetime.fit(nareg.Graph.from_knn(network.coordinates[:50], 5), np.where(hidden, np.nan, truth))
    assert ", order 1" in model.details.chosen
    assert any("order 1" in name and "modes" in name for name, *_ in model.details.choices)
    assert np.median(np.sqrt(model.noise)) < 0.06  # readings have hundredths of a degree; 0.14 with the second order
    assert np.sqrt(np.mean((model.smooth().x - truth)[hidden] ** 2)) < 0.19  # 0.21


@pytest.mark.slow
def test_whole_times_without_readings_are_bridged_by_the_swing(data_root):
    """Nine of ten months are silent: the year that the others show goes on in between."""
    network = nareg.datasets.load("sea-surface-temperature", root=data_root)
    truth = network.signals[:, :600]
    silent = np.random.default_rng(0).random(600) < 0.9
    model = nareg.spacetime.fit(nareg.Graph.from_knn(network.coordinates, 5), np.where(silent, np.nan, truth))
    error = np.sqrt(np.mean((model.smooth().x - truth)[:, silent] ** 2))
    assert error < 0.7  # 0.55; 1.04 by a search that did not begin with a swing


@pytest.mark.slow
def test_a_first_order_replaces_a_swing_where_it_tells_more_on_the_whole():
    """At four of five times nobody reads; what gains a little at single hidden readings lost far more at silent times."""
    rng = np.random.default_rng(12)
    places = rng.uniform(0, 3, (8, 2))
    correlation = np.exp(-np.linalg.norm(places[:, None] - places, axis=2) / 1.5) + 1e-9 * np.eye(8)
    field = lfilter([0.436], [1, -0.9], np.linalg.cholesky(correlation) @ rng.standard_normal((8, 500)))
    truth = field + rng.uniform(1, 3, (8, 1)) * np.cos(2 * np.pi * np.arange(500) / 12.42)
    readings = truth + 0.5 * rng.standard_normal(truth.shape)
    silent = rng.random(500) < 0.8
    readings[:, silent] = np.nan
    model = nareg.spacetime.fit(nareg.Graph.from_knn(places, 5), readings)
    assert any("modes" in name and "order 1" in name for name, *_ in model.details.choices)
    assert "order 2" in model.details.chosen
    assert np.sqrt(np.mean((model.smooth().x - truth)[:, silent] ** 2)) < 1.1  # 1.00; 1.42 by the first order


def test_a_record_that_is_silent_but_for_a_while_is_learned_from_that_while():
    """Windows spread over the record would hold no reading at all."""
    rng = np.random.default_rng(0)
    y = np.full((6, 20_000), np.nan)
    y[:, 9000:9300] = lfilter([0.3], [1.0, -0.98], rng.standard_normal(300)) + rng.standard_normal((6, 300))
    model = nareg.spacetime.fit(nareg.graphs.grid((2, 3)), y, rng=rng)
    np.testing.assert_allclose(np.sqrt(model.noise), 1.0, atol=0.15)
    whole = np.ones((20_000, 3))
    parts = windows_of(np.where(np.arange(20_000)[:, None] % 7 == 0, whole, np.nan), 1, seconds=0.01)
    assert len(parts) == 4
    assert all(a.stop <= b.start for a, b in itertools.pairwise(parts))
    assert parts[-1].stop > 19_000
