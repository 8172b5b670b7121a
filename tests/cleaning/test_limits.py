"""What the quantity can be, flags that the readings contradict, and estimates beyond all readings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter
from scipy.special import ndtr

import nareg
from nareg import io
from nareg.cleaning import MODEL
from nareg.cleaning._compare import contradicted
from nareg.cleaning._limits import failed, limits
from nareg.errors import InputError
from nareg.quality import Flag
from nareg.spacetime import Bounds, intermittent, on_grid

N, T = 6, 240


def field(rng: np.random.Generator, rho: float) -> np.ndarray:
    """(N, T) shared and own autoregressions."""
    z = np.zeros((T, N + 1))
    steps = np.sqrt(1 - rho**2) * rng.standard_normal(z.shape)
    z[0] = rng.standard_normal(N + 1)
    for t in range(1, T):
        z[t] = rho * z[t - 1] + steps[t]
    return (z[:, :1] + 0.4 * z[:, 1:]).T


def tables(y: np.ndarray, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    names = [f"S{i}" for i in range(len(y))]
    index = pd.date_range("2024-05-01", periods=y.shape[1], freq="h", name="time")
    places = pd.DataFrame(47 + rng.random((len(y), 2)), index=names, columns=["latitude", "longitude"])
    return pd.DataFrame(y.T, index=index, columns=names), places


@pytest.mark.slow
def test_humidity_stays_at_100(rng):
    """Fog: right readings at the bound are good, and no estimate or band is above it."""
    truth = np.minimum(95 + 7 * field(rng, 0.95), 100)
    y = np.clip(np.round(truth + rng.standard_normal(truth.shape)), 0, 100)
    y[truth == 100] = 100
    y[rng.random(y.shape) < 0.05] = np.nan
    cleaned = nareg.clean(*tables(y, rng))
    assert (y == 100).mean() > 0.2
    assert (cleaned.flags.to_numpy().T[y == 100] == Flag.GOOD).all()
    assert cleaned.suspects == ()
    assert max(cleaned.x.to_numpy().max(), cleaned.band(0.99)[1].max()) <= 100
    assert any("No reading is above 100" in note for note in cleaned.notes)
    seen = np.isfinite(y)
    error, raw = (float(np.sqrt(np.mean((x - truth)[seen] ** 2))) for x in (cleaned.x.to_numpy().T, y))
    assert error < 1.02 * raw


def saturated(rng: np.random.Generator, level: float):
    """Truth, readings and tables of three networks of nine stations, whose smooth field would go on above 100."""
    places = rng.uniform(0, 2, (9, 2))
    distance = np.linalg.norm(places[:, None] - places, axis=2)
    root = np.linalg.cholesky((1 + distance) * np.exp(-distance))
    for _ in range(3):
        z = lfilter([1], [1, -2 * 0.92, 0.92**2], root @ rng.standard_normal((9, 600)), axis=1)[:, 240:]
        truth = np.minimum(level + 10 * np.cos(np.arange(360) * np.pi / 12) + 12 * z / z.std(), 100)
        y = np.clip(np.round(truth + 2 * rng.standard_normal(truth.shape)), 0, 100)
        frame, stations = tables(y, rng)
        stations[:] = 50 + places
        yield truth, y, (frame, stations)


@pytest.mark.slow
def test_bands_hold_their_share_where_a_field_is_saturated(rng):
    """Readings at 100 were taken for the field's: beside them readings below pulled estimates down where it is saturated."""
    at_100, low_errors = [], []
    for truth, y, (frame, stations) in saturated(rng, 87):
        cleaned = nareg.clean(frame, stations)
        below = (truth == 100) & (y < 100)
        assert cleaned.bounds == Bounds(-np.inf, 100)
        low, high = cleaned.band(0.9)
        at_100.append(((low <= truth) & (truth <= high))[below].mean())
        low_errors.append((cleaned.x.to_numpy().T - truth)[below].mean())
    assert np.mean(at_100) > 0.8
    assert np.mean(low_errors) > -0.8


@pytest.mark.slow
def test_bands_of_readings_that_are_kept_know_of_their_noise(rng):
    """They were as wide as those of the smoothed field, and held half of the truth."""
    shares = []
    for truth, y, (frame, stations) in saturated(rng, 105):
        cleaned = nareg.clean(frame, stations)
        away = y < 100
        assert intermittent(y.T)
        assert np.array_equal(cleaned.x.to_numpy().T[away], y[away])
        low, high = cleaned.band(0.9)
        shares.append(((low <= truth) & (truth <= high))[away].mean())
    assert 0.83 < np.mean(shares) < 0.95


@pytest.mark.parametrize("off", [-3.0, 0.1, 2.0])
def test_a_reading_at_a_bound_says_that_the_field_is_at_least_there(rng, off):
    """Of one such reading, mean and variance are those of the exact posterior."""
    y = 10 + field(rng, 0.9) + 0.3 * rng.standard_normal((N, T))
    y[2, 100] = np.nan
    model = nareg.spacetime.fit(nareg.graphs.grid((2, 3)), y, transform=None, dynamics="scalar", robust=False)
    bound = y[2, 99] + off
    y[y > bound] = np.nan
    y[2, 100] = bound
    model, r = replace(model, readings=y, bounds=Bounds(high=bound)), model.unit_noise[2]
    given = on_grid(model, None, None, exclude=False)
    rows = given.rows.copy()
    rows[100, 2] = np.nan
    without, done = (
        model._smoothed(one, None, search=False, progress=None)
        for one in (replace(given, rows=rows, values=np.where(y == bound, np.nan, y)), given)
    )
    mean, var = without.x[100, 2], without.var[100, 2]
    x = mean + np.sqrt(var) * np.linspace(-12, 12, 20001)
    weights = np.exp(-0.5 * (x - mean) ** 2 / var) * ndtr((x - given.rows[100, 2]) / np.sqrt(r))
    weights /= weights.sum()
    exact = float(weights @ x)
    assert done.x[100, 2] == pytest.approx(exact, rel=1e-6, abs=1e-8)
    assert done.var[100, 2] == pytest.approx(float(weights @ (x - exact) ** 2), rel=1e-5)


def test_a_transform_that_falls_turns_the_bound(rng):
    y = np.round(np.minimum(10 + field(rng, 0.9) + 0.3 * rng.standard_normal((N, T)), 11.0), 2)
    down = (lambda v: 30 - v, lambda u: 30 - u)
    models = [
        replace(nareg.spacetime.fit(nareg.graphs.grid((2, 3)), y, transform=law, dynamics="scalar"), bounds=Bounds(high=11.0))
        for law in ((lambda v: v + 1, lambda u: u - 1), down)
    ]
    rising, falling = (model.smooth(y).x for model in models)
    assert np.sqrt(np.mean((falling - rising) ** 2)) < 0.05


@pytest.mark.slow
def test_bands_hold_where_all_stations_stay_at_the_bound():
    """Each of a run of readings was told by the model alone what it says: bands of 95 % held half of the truth."""
    rng = np.random.default_rng(1)
    T, rho = 1500, 0.99
    root = np.linalg.cholesky(0.95 + 0.05 * np.eye(4))
    x = np.zeros((4, T))
    x[:, 0] = root @ rng.standard_normal(4)
    for t in range(1, T):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * (root @ rng.standard_normal(4))
    y = x + 0.15 * rng.standard_normal(x.shape)
    graph = nareg.Graph.from_knn(47 + 0.02 * rng.standard_normal((4, 2)), 3)
    model = nareg.spacetime.fit(graph, y)
    bound = np.quantile(x, 0.8)
    clipped = np.minimum(y, bound)
    runs = (clipped == bound).all(axis=0)
    given = on_grid(model, clipped, np.arange(T), exclude=False)
    plain, told = (
        replace(model, bounds=ends)._smoothed(given, None, search=False, progress=None)
        for ends in (Bounds(), Bounds(high=bound))
    )
    off, above = ((done.x + given.offset).T[:, runs] * model.unit - x[:, runs] for done in (plain, told))
    inside = np.abs(above) <= 1.96 * model.unit * np.sqrt(told.var.T[:, runs])
    assert 0.9 < inside.mean() < 0.99
    assert np.sqrt(np.mean(above**2)) < 0.5 * np.sqrt(np.mean(off**2))


@pytest.mark.slow
def test_a_user_may_name_the_bounds(rng):
    y = np.exp(field(rng, 0.9))
    frames = tables(np.round(y + 0.3 * rng.standard_normal(y.shape), 2), rng)
    assert nareg.clean(*frames).x.to_numpy().min() < 0
    cleaned = nareg.clean(*frames, bounds=(0.0, 3.0))
    assert cleaned.x.to_numpy().min() >= 0
    assert cleaned.band()[0].min() == 0
    assert cleaned.band()[1].max() == 3


def test_bounds_are_named_and_a_limit_of_detection_is_told_from_a_bound(rng):
    y = np.round(np.maximum(field(rng, 0.8), -0.5), 2)
    ends, note = limits(y, (None, None))
    assert ends.low == -0.5
    assert "limit of detection" in note
    ends, note = limits(y + 0.5, (None, None))
    assert ends.low == 0.0
    assert "limit of detection" not in note
    assert limits(y, (-1.0, None))[1] is None
    with pytest.raises(InputError, match=r"bounds is \(5, 2\): pass a lower bound below"):
        limits(y, (5.0, 2.0))
    with pytest.raises(InputError, match=r"bounds\[0\] is nan"):
        limits(y, (float("nan"), None))
    with pytest.raises(InputError, match="bounds is 3: pass"):
        limits(y, 3)


def test_an_estimate_beyond_all_readings_has_failed(rng):
    y = rng.standard_normal((3, 50))
    x = np.zeros((3, 50))
    assert not failed(x, np.ones_like(x), y, Bounds()).any()
    x[1, 7] = y.max() + 1.1 * y.std()
    std = np.zeros_like(x)
    std[2, 9] = 10.0
    assert set(zip(*np.nonzero(failed(x, std, y, Bounds())), strict=True)) == {(1, 7), (2, 9)}


def test_a_band_that_ends_where_the_quantity_does_has_not_failed(rng):
    """Dry days: the band of a simple method reaches below no rain, where nothing is."""
    y = np.where(rng.random((3, 50)) < 0.8, 0.0, rng.exponential(1.0, (3, 50)))
    x, std = np.zeros_like(y), np.full(y.shape, 2.0)
    assert not failed(x, std, y, Bounds(low=0.0, high=y.max())).any()
    assert failed(x - 9, std, y, Bounds(low=0.0)).all()


def test_flags_that_a_line_contradicts_are_doubted(rng):
    y = np.cumsum(rng.standard_normal((2, 80)), axis=1)
    flagged = np.zeros(y.shape, dtype=bool)
    flagged[:, ::8] = True
    line = y + 0.3 * rng.standard_normal(y.shape)
    assert contradicted(y, y + 5.0, line, flagged).startswith("The flags are doubtful and not applied")
    assert contradicted(y, y + 0.5, line, flagged) is None
    assert contradicted(y, y + 5.0, line, flagged & (np.arange(80) < 9)) is None


@pytest.mark.slow
def test_a_flood_stays_and_both_errors_are_shown(rng):
    """Waves that travel from gauge to gauge and fade, far above the level of most days."""
    hours = np.arange(T) - 3 * np.arange(N)[:, None]
    rise = sum(
        np.where(hours > s, np.exp(-np.maximum(hours - s, 0) / 14), np.exp(-(((hours - s) / 4.0) ** 2))) for s in (60, 150)
    )
    truth = 0.8 + np.linspace(2.2, 1.0, N)[:, None] * rise
    y = np.round(truth + 0.01 * rng.standard_normal(truth.shape), 2)
    cleaned = nareg.clean(*tables(y, rng))
    flags, x = cleaned.flags.to_numpy().T, cleaned.x.to_numpy().T
    peak = truth > np.quantile(truth, 0.8)
    assert (flags[peak] == Flag.BAD).mean() <= 0.01
    assert x.max() > 0.95 * truth.max()
    assert float(np.sqrt(np.mean((x - truth)[peak] ** 2))) < 0.03
    assert {"rmse", "rmse_with_flagged"} <= set(cleaned.errors.columns)
    assert (cleaned.errors["rmse_with_flagged"] >= 0).all()


@pytest.mark.slow
def test_failed_estimates_of_a_simple_method_are_replaced_by_another_simple_one():
    """Readings that jump between 0 and 360: a simple method wins, its bands go too far, and the model is next best."""
    rng = np.random.default_rng(0)
    y = np.cumsum(rng.random((6, 200)) < 0.15, axis=1) % 2 * 360.0 + rng.normal(0, 0.3, (6, 200))
    index = pd.date_range("2024-03-01", periods=200, freq="h", name="time")
    names = [f"K{i}" for i in range(6)]
    places = pd.DataFrame(np.c_[50 + rng.random(6), 5 + rng.random(6)], index=names, columns=["latitude", "longitude"])
    cleaned = nareg.clean(pd.DataFrame(y.T, index=index, columns=names), places)
    assert cleaned.method != MODEL
    assert cleaned.replaced.any()
    note = next(note for note in cleaned.notes if "beyond all readings" in note)
    assert MODEL not in note.lower()


def test_all_that_a_model_says_stays_inside_the_bounds(rng, tmp_path):
    """Humidity is at most 100 % at other places, tomorrow, in a draw and in a band, too."""
    y = np.minimum(np.round(97 + 5 * field(rng, 0.95)), 100)
    readings, places = tables(y, rng)
    cleaned = nareg.clean(readings[:-24], places, hidden=0)
    assert cleaned.bounds == Bounds(-np.inf, 100)
    cleaned.model.save(tmp_path / "m.npz")
    model = nareg.spacetime.load(tmp_path / "m.npz")
    assert model.bounds == cleaned.bounds
    estimates = [model.smooth(), model.forecast(12), model.interpolate_at(places.to_numpy()[:3] + 0.05)]
    ends = [end for one in estimates for of in ("field", "reading") for end in one.interval(0.99, of=of)]
    update = model.stream().update(y[:, -24])
    drawn = [*model.simulate(rng), update.x, nareg.cleaning.apply(model, readings[-24:]).x.to_numpy()]
    assert max(part.max() for part in (*(one.x for one in estimates), *(one.median for one in estimates), *ends, *drawn)) <= 100
    assert limits(y, (None, None), Bounds(high=120))[0].high == 120  # the model's count more than the readings'
    assert limits(y, (None, 110.0), Bounds(high=120))[0].high == 110


def test_meters_are_refused_and_what_else_only_rises_has_a_note(rng):
    """A meter that began anew made bad readings of healthy ones, and estimates between its end and 0."""
    times = pd.date_range("2024-03-01", periods=T, freq="15min", name="time")
    meters = pd.DataFrame(np.cumsum(rng.random((T, N)), axis=0), times, [f"M{i}" for i in range(N)])
    with pytest.raises(InputError, match="only rise, in kWh, as those of a meter do: clean the differences"):
        nareg.clean(meters, unit="kWh", effort="fast")
    with pytest.raises(InputError, match="and begin anew at 6 stations"):
        nareg.clean(meters % 100, effort="fast")
    one = np.concatenate([np.cumsum(rng.random((1, 300)), axis=1)] * 2, axis=1)
    assert io.counter_of(one) == (True, 1)
    sums = np.repeat(one, 5, axis=0)  # such as degree days of a year
    sums[0, 300:302] = np.nan
    assert io.counter_of(sums) == (True, 0)
    azimuths = pd.DataFrame((np.arange(T)[:, None] * 360 / (0.8 * T) + 2 * rng.random((T, N))) % 360, times, meters.columns)
    assert not any("only rise" in note for note in nareg.clean(azimuths, effort="fast").notes)  # of directions
    assert any("The readings only rise. If they are" in note for note in nareg.clean(meters, effort="fast").notes)
    for others, kind in ((meters, "number"), (meters.diff(), "auto")):
        assert not any("only rise" in note for note in nareg.clean(others, kind=kind, unit="kWh", effort="fast").notes)
