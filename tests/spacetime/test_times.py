"""Times on a grid: numbers and dates, even and uneven steps, and everything that is no time."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nareg
from nareg.errors import InputError, TooLargeError
from nareg.spacetime._readings.times import checked, grid, on_steps
from tests.spacetime.reference import network

DAY = np.timedelta64(1, "D")


@given(st.integers(0, 1000), st.floats(1e-3, 1e6), st.floats(-1e6, 1e6), st.integers(2, 60))
def test_numbers_on_a_grid_with_missing_rows(seed, step, start, n):
    rng = np.random.default_rng(seed)
    rows = np.cumsum(1 + (rng.random(n) < 0.2) * rng.integers(1, 5, n))
    if np.median(np.diff(rows)) != 1:
        return
    regular = grid(checked(start + step * rows, n))
    np.testing.assert_array_equal(regular.rows, rows - rows[0])
    assert regular.step == pytest.approx(step, rel=1e-6)
    assert regular.length == regular.rows[-1] + 1
    np.testing.assert_allclose(regular.seconds_of(regular.rows), start + step * rows, rtol=1e-6, atol=1e-6 * step)


@pytest.mark.parametrize(
    "times",
    [
        np.datetime64("2024-01-01") + np.arange(5) * DAY,
        ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05"],
        [dt.date(2024, 1, d) for d in range(1, 6)],
        [dt.datetime(2024, 1, d) for d in range(1, 6)],
        pd.date_range("2024-01-01", periods=5),
        pd.Series(pd.date_range("2024-01-01", periods=5)),
        [pd.Timestamp(2024, 1, d) for d in range(1, 6)],
        np.array(["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05"], dtype="datetime64[h]"),
    ],
)
def test_every_way_to_write_a_date(times):
    values = checked(times, 5)
    assert values.dtype == "datetime64[ns]"
    np.testing.assert_array_equal(values, np.datetime64("2024-01-01") + np.arange(5) * DAY)
    regular = grid(values)
    assert (regular.step, regular.length, regular.dated) == (86_400.0, 5, True)
    assert regular.time_of(7) == np.datetime64("2024-01-08")


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([0.0, 1.0, 1.0], r"times\[2\] = 1.0 repeats times\[1\]"),
        ([0.0, 2.0, 1.0], r"times\[2\] = 1.0 is before times\[1\]"),
        (["2024-01-02", "2024-01-01", "2024-01-03"], r"times\[1\] .* is before"),
        ([0.0, np.nan, 1.0], r"times\[1\] is nan"),
        ([0.0, 1.0, np.inf], r"times\[2\] is inf"),
        (["2024-01-01", "NaT", "2024-01-03"], r"times\[1\] is NaT"),
        ([0.0, 1.0], r"shape \(2,\) but readings has 3 columns"),
        ([[0.0, 1.0, 2.0]], r"shape \(1, 3\)"),
        ([True, False, True], "dtype bool"),
        ([0j, 1j, 2j], "dtype complex"),
        (["noon", "one", "two"], "'noon', which is not an ISO date"),
        (["0", "1", "2"], "'0', which is not an ISO date or a number"),
        (["20240101", "20240102", "20240103"], "'20240101', which is not an ISO date"),
        (["2024-01-01", "2024-13-01", "2024-14-01"], "not an ISO date"),
        ([0, "2024-01-01", 1.5], "not an ISO date or a number"),
        ([None, None, None], "not an ISO date or a number"),
        (["2024-01-01T00:00Z", "2024-01-01T01:00Z", "2024-01-01T02:00Z"], "time zone"),
        (["2024-01-01T00:00+01:00", "2024-01-01T01:00+02:00", "2024-01-01T02:00"], "time zone"),
        (["2024-01-01T00:00-05:00", "2024-01-01T01:00-05:00", "2024-01-01T02:00-05:00"], "time zone"),
        (pd.date_range("2024-01-01", periods=3, tz="Europe/Paris"), "time zone"),
        (np.array(["1024-01-01", "2024-01-01", "3024-01-01"], dtype="datetime64[s]"), "outside the years 1678 to 2261"),
        (["2024-01-01", "2824-01-01", "3024-01-01"], "outside the years 1678 to 2261"),
    ],
)
def test_what_is_no_time(times, message):
    with pytest.raises(InputError, match=message):
        checked(times, 3)


def test_no_times_are_counted_and_one_time_is_a_grid():
    np.testing.assert_array_equal(checked(None, 3), [0.0, 1.0, 2.0])
    single = grid(checked(["2024-01-01"], 1))
    assert (single.length, single.rows.tolist()) == (1, [0])
    assert single.time_of(0) == np.datetime64("2024-01-01")


@pytest.mark.parametrize("n", [50, 5000])
@pytest.mark.parametrize("jitter", [0.0, 0.01])
def test_small_jitter_is_on_the_grid(jitter, n):
    rng = np.random.default_rng(0)
    times = np.delete(np.arange(n) + jitter * rng.uniform(-1, 1, n), [20, 21, 22])
    regular = grid(600.0 * times)
    np.testing.assert_array_equal(regular.rows, np.delete(np.arange(n), [20, 21, 22]))
    assert regular.step == pytest.approx(600.0, rel=1e-3)


def test_uneven_steps_refine_the_grid():
    uneven = np.sort(np.concatenate([np.arange(50.0), [3.25, 10.5, 20.75]]))
    regular = grid(uneven)
    assert regular.step == pytest.approx(0.25)
    np.testing.assert_allclose(regular.rows * regular.step, uneven)


@given(st.integers(0, 500))
def test_random_times_get_a_row_each(seed):
    times = np.sort(np.random.default_rng(seed).random(20))
    if np.diff(times).min() < 1e-4:
        return
    regular = grid(times)
    assert (np.diff(regular.rows) > 0).all()
    assert np.abs(regular.seconds_of(regular.rows) - times).max() <= np.median(np.diff(times)) / 8


def test_gap_of_days_is_rows_without_readings_and_a_gap_of_ages_is_refused():
    times = np.concatenate([np.arange(100), 1000 + np.arange(100)]) * 600.0
    assert grid(times).length == 1100
    with pytest.raises(TooLargeError, match="fit the dense parts one by one"):
        grid(np.concatenate([np.arange(100), 1e6 + np.arange(100)]))
    with pytest.raises(TooLargeError, match="smooth the dense parts one by one"):
        on_steps(np.array([0.0, 1e6]), 1.0)
    with pytest.raises(InputError, match="fall into one step of the model"):
        on_steps(np.array([0.0, 0.3, 1.0]), 1.0)


def test_smoother_gives_back_the_users_times_and_sees_the_gap():
    times = np.datetime64("2024-01-01") + np.concatenate([np.arange(30), 60 + np.arange(30)]) * np.timedelta64(1, "h")
    model = network(n=5, T=60, gaps=0.0, times=times)
    smoothed = model.smooth()
    assert smoothed.x.shape == (5, 60)
    np.testing.assert_array_equal(smoothed.times, times)
    # the field forgets across the gap: its first reading behind it is seen from one side
    assert (smoothed.std[:, 30] > 1.02 * smoothed.std[:, 15]).all()
    again = model.smooth(model.readings, times=times, robust=False)
    np.testing.assert_allclose(again.x, model.smooth(robust=False).x, atol=1e-12)
    with pytest.raises(InputError, match="pass times as well"):
        model.smooth(model.readings[:, :10])
    with pytest.raises(InputError, match="times are numbers, the model's are not"):
        model.smooth(model.readings[:, :10], times=np.arange(10))
    with pytest.raises(InputError, match="times is given without readings"):
        model.smooth(times=times)


def test_forecast_goes_on_in_the_models_steps():
    times = np.datetime64("2024-01-01T00:00") + np.arange(20) * np.timedelta64(10, "m")
    ahead = network(n=4, T=20, times=times).forecast(3)
    np.testing.assert_array_equal(ahead.times, times[-1] + np.arange(1, 4) * np.timedelta64(10, "m"))
    graph = nareg.graphs.grid((2, 2))
    assert graph.n_nodes == ahead.x.shape[0]


def test_any_span_of_dates_is_measured():
    """A difference of nanoseconds overflows after 292 years."""
    times = checked(np.array(["1700-01-01", "1950-01-01", "2200-01-01"], dtype="datetime64[ns]"), 3)
    assert grid(times).rows.tolist() == [0, 1, 2]
    years = grid(checked(np.array(["1700", "1950", "2200"], dtype="datetime64[Y]"), 3))
    assert years.seconds[-1] - years.seconds[0] == pytest.approx(500 * 365.2425 * 86400, rel=1e-3)


@pytest.mark.parametrize(
    ("times", "error", "words"),
    [
        ([-1.7e308, 0.0, 1.7e308], InputError, r"times\[0\] is -1.7e\+308: divide times by a constant"),
        ([-1e300, 0.0, 1.0, 2.0], TooLargeError, "times span 1e\\+300"),
        ([0.0, 1.0, 1e299], TooLargeError, "times span"),
    ],
)
def test_numbers_that_span_too_much_are_refused(times, error, words):
    with pytest.raises(error, match=words):
        grid(checked(times, len(times)))


@pytest.mark.parametrize(("frequency", "months"), [("MS", 1), ("ME", 1), ("QS", 3), ("QE", 3), ("YS", 12), ("YE", 12)])
def test_calendar_months_are_steps_of_one_row(frequency, months):
    """Months are 28 to 31 days long: a grid of days or eighths of months would be all but empty."""
    dates = pd.date_range("1931-02-01", periods=90, freq=frequency).to_numpy()
    given_ = np.delete(dates, [3, 4, 17])
    regular = grid(checked(given_, given_.size))
    np.testing.assert_array_equal(regular.rows, np.delete(np.arange(90), [3, 4, 17]))
    assert regular.months == months
    assert [regular.time_of(row) for row in range(90)] == list(dates.astype("datetime64[ns]"))
    np.testing.assert_array_equal(regular.row_of(given_), regular.rows)
    later = on_steps(dates[40:].astype("datetime64[ns]"), regular.step)
    np.testing.assert_array_equal(later.rows, np.arange(50))
    assert later.time_of(49) == dates[89]
    np.testing.assert_array_equal(later.seconds, regular.seconds[40:])  # at which a model's year is


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Europe/London", "America/New_York", "Pacific/Auckland", "Asia/Tokyo"])
@pytest.mark.parametrize("frequency", ["MS", "ME"])
def test_months_of_a_zone_are_months_in_utc(zone, frequency):
    """In summer local months begin an hour earlier in UTC: a grid of 4 days had 8 rows per month."""
    dates = pd.date_range("2010-01-01", periods=60, freq=frequency, tz=zone).tz_convert("UTC").tz_localize(None).to_numpy()
    regular = grid(checked(dates, 60))
    assert regular.months == 1
    np.testing.assert_array_equal(regular.rows, np.arange(60))
    np.testing.assert_array_equal(np.rint(regular.row_of(dates.astype("datetime64[ns]"))), regular.rows)
    for begin in range(12):
        later = on_steps(dates[begin:].astype("datetime64[ns]"), regular.step)
        np.testing.assert_array_equal(later.rows, np.arange(60 - begin))
        np.testing.assert_array_equal(later.seconds, regular.seconds[begin:])


def test_days_of_one_month_after_another_are_no_months():
    """Times within months, at other days or hours of each, are on a regular grid as before."""
    dates = np.datetime64("2024-01-31T00", "ns") + np.arange(0, 300, 30) * DAY
    assert not grid(checked(dates, 10)).months
    assert not grid(checked(np.datetime64("2024-01-01", "ns") + np.arange(40) * DAY, 40)).months
    noon = pd.date_range("2024-01-01", periods=12, freq="MS").to_numpy() + np.timedelta64(12, "h") * (np.arange(12) % 2)
    assert not grid(checked(noon, 12)).months


def test_a_model_of_months_forecasts_and_streams_by_the_calendar():
    rng = np.random.default_rng(0)
    dates = pd.date_range("1990-01-31", periods=246, freq="ME").to_numpy()
    year = 5 * np.cos(2 * np.pi * np.arange(246) / 12)
    anomaly = np.cumsum(rng.standard_normal((6, 246)), axis=1) * 0.1
    y = year + anomaly + 0.2 * rng.standard_normal((6, 246))
    model = nareg.spacetime.fit(nareg.graphs.grid((2, 3)), y[:, :240], times=dates[:240], rng=rng)
    assert model.grid.length == 240
    assert model.cycles.names == ("year",)
    ahead = model.forecast(6)
    np.testing.assert_array_equal(ahead.times, dates[240:])
    assert np.sqrt(np.mean((ahead.x - y[:, 240:]) ** 2)) < 1.5
    stream = model.stream()
    for k in range(240, 246):
        update = stream.update(y[:, k], time=dates[k])
    assert stream.time == dates[245]
    np.testing.assert_allclose(update.x, model.smooth(y, times=dates).x[:, -1], atol=1e-9)
