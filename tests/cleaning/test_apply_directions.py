"""Directions of tomorrow, with and without the wind's speed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import nareg
from nareg.cleaning import apply
from nareg.cli.main import app
from nareg.errors import InputError
from tests.cleaning.test_apply import run


@pytest.fixture(scope="module")
def vanes():
    """Directions of four days that turn around north, in degrees."""
    rng = np.random.default_rng(4)
    turning = 70 * np.sin(np.arange(96) / 9)[:, None] + 15 * rng.standard_normal((96, 5))
    return pd.DataFrame(np.round(turning) % 360, pd.date_range("2024", periods=96, freq="h", name="time"), list("ABCDE"))


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.slow
def test_directions_are_those_of_the_smoothed_parts(vanes, tmp_path, signed):
    frame = (vanes + 180) % 360 - 180 if signed else vanes
    cleaned = nareg.clean(frame[:72], kind="direction")
    cleaned.save(tmp_path)
    models = nareg.spacetime.load_any(tmp_path / "model.npz")
    new = frame[72:].copy()
    new.iloc[5, 2], new.iloc[7, 1] = np.nan, np.nan
    applied = apply(models, new)
    good = np.deg2rad(new.where(~applied.flags.isin([4, 9])).to_numpy().T)
    east, north = (
        model.smooth(np.hstack([model.readings, part(good)]), times=frame.index.to_numpy())
        for model, part in ((models.east, np.sin), (models.north, np.cos))
    )
    expected = np.rad2deg(np.arctan2(east.x, north.x))[:, 72:].T
    np.testing.assert_allclose((applied.x - expected + 180) % 360 - 180, 0, atol=1e-6)
    assert applied.x.to_numpy().min() < 0 if signed else applied.x.to_numpy().min() >= 0
    stds = [part.std * part.factors(0.9) for part in (east, north)]
    across = np.hypot(north.x * stds[0], east.x * stds[1])[:, 72:] / np.hypot(east.x, north.x)[:, 72:] ** 2
    np.testing.assert_allclose(applied.std.T, np.minimum(np.rad2deg(across) * models.stretch, 360 / 12**0.5), rtol=1e-6)
    assert applied.flags.iloc[5, 2] == 9
    pd.testing.assert_series_equal(applied.flags.eq(4).mean(), pd.Series(0.0, list("ABCDE")), atol=0.1)
    truth = 70 * np.sin(np.arange(72, 96) / 9)[:, None]
    off = [np.sqrt((((one - truth + 180) % 360 - 180) ** 2).mean().mean()) for one in (applied.x, frame[72:])]
    assert off[0] < 0.8 * off[1]
    beyond = apply(models, new, recipe=nareg.io.Recipe(quality={"ranges": ["A: -180 to -179"]}))
    assert beyond.flags["A"].eq(4).mean() > 0.9
    with pytest.raises(InputError, match="omit them"):
        apply(models, new, bounds=(0, 360))
    with pytest.raises(InputError, match="convert them to degrees"):
        apply(models, new + 900)
    with pytest.raises(InputError, match="pass it to nareg apply"):
        nareg.spacetime.load(tmp_path / "model.npz")


def test_a_few_new_directions_are_averaged_around_north(vanes, tmp_path):
    models = nareg.clean(vanes[:72], kind="direction").directed
    later = pd.DatetimeIndex(["2024-01-04 00:10", "2024-01-04 00:20"], name="time")
    new = pd.DataFrame([[300.0] * 5, [200.0] * 5], later, list("ABCDE"))
    new["A"] = [350.0, 20.0]
    applied = apply(models, new, recipe=nareg.io.Recipe(step="1h"))
    np.testing.assert_allclose(applied.readings.values[:, 0], [5.0, 250.0, 250.0, 250.0, 250.0])


def test_series_of_directions_are_in_the_zone_of_the_readings(vanes, tmp_path):
    recipe = nareg.io.Recipe(zone="Asia/Tokyo", series=(str(tmp_path / "series.csv"),))
    for name, part in (("today", vanes[:72]), ("tomorrow", vanes[72:])):
        part.to_csv(tmp_path / f"{name}.csv")
    vanes[["A"]].rename(columns={"A": "model"}).to_csv(tmp_path / "series.csv")
    network = nareg.cleaning.assemble(tmp_path / "today.csv", recipe=recipe)
    models = nareg.cleaning.run(network, nareg.cleaning.CleanSettings(kind="direction")).directed
    vanes[72:][["A"]].rename(columns={"A": "model"}).to_csv(tmp_path / "series.csv")
    assert apply(models, tmp_path / "tomorrow.csv", recipe=recipe).x.shape == (24, 5)


@pytest.mark.slow
def test_directions_are_added_by_the_command(vanes, tmp_path):
    vanes[:72].to_csv(tmp_path / "today.csv")
    vanes[72:].to_csv(tmp_path / "tomorrow.csv")
    run("clean", tmp_path / "today.csv", "--kind", "direction", "--out", tmp_path / "out")
    assert (tmp_path / "out" / "model.toml").is_file()
    for model in (tmp_path / "out" / "model.npz", tmp_path / "out"):
        assert "24 times of 5 stations" in run("apply", model, tmp_path / "tomorrow.csv").stdout
    table = pd.read_csv(tmp_path / "out" / "clean.csv", index_col="time")
    assert table.shape == (96, 5)
    assert table.to_numpy().min() >= 0


@pytest.mark.slow
def test_directions_with_a_speed_go_on_with_it(vanes, tmp_path):
    """They left no model: vectors of tomorrow are as long as its speeds, over the median of the first run."""
    rng = np.random.default_rng(6)
    speeds = pd.DataFrame(rng.gamma(2.0, 2.0, vanes.shape).round(1), vanes.index, vanes.columns)
    speeds.iloc[80, 2] = np.nan
    cleaned = nareg.clean(vanes[:72], kind=nareg.cleaning.Wind(speeds[:72]))
    cleaned.save(tmp_path)
    models = nareg.spacetime.load_any(tmp_path / "model.npz")
    np.testing.assert_array_equal(models.speeds, speeds[:72].median())
    assert models.median_speed == np.median(speeds[:72])
    applied = apply(models, vanes, speed=speeds)
    length = (speeds[72:].fillna(speeds[:72].median()) / np.median(speeds[:72])).to_numpy().T
    good, bad = np.deg2rad(vanes[72:].to_numpy().T), applied.flags.to_numpy().T == 4
    times = vanes.index.to_numpy()
    east, north = (
        model.smooth(np.hstack([model.readings, np.where(bad, np.nan, length * part(good))]), times=times, robust=False)
        for model, part in ((models.east, np.sin), (models.north, np.cos))
    )
    expected = np.rad2deg(np.arctan2(east.x, north.x))[:, 72:].T
    np.testing.assert_allclose((applied.x - expected + 180) % 360 - 180, 0, atol=1e-6)
    assert "1 new direction without a speed: that of the station's median is taken." in applied.notes
    with pytest.raises(InputError, match=r"were cleaned with a speed: pass speed="):
        apply(models, vanes)
    with pytest.raises(InputError, match="kind has a speed of -1"):
        apply(models, vanes, speed=speeds * 0 - 1)
    with pytest.raises(InputError, match="speed is given, but the model's directions were cleaned without"):
        apply(dataclasses.replace(models, speeds=None), vanes, speed=speeds)
    with pytest.raises(InputError, match="speed is given, but the model is not of directions"):
        apply(models.east, vanes, speed=speeds)
    models.save(tmp_path / "again.npz")
    assert nareg.spacetime.load_any(tmp_path / "again.npz").speed_column is None


@pytest.mark.slow
def test_the_column_of_speeds_is_remembered(vanes, tmp_path):
    rows = vanes.rename_axis(columns="station").stack(future_stack=True).rename("WDIR").reset_index()
    rows["WSPD"], rows["gust"] = np.random.default_rng(6).gamma(2.0, 2.0, (2, len(rows))).round(1)
    rows[:360].to_csv(tmp_path / "today.csv", index=False)
    rows[360:].to_csv(tmp_path / "tomorrow.csv", index=False)
    run("clean", tmp_path / "today.csv", "--value", "WDIR", "--speed", "WSPD", "--out", tmp_path / "out", "--hidden", 0)
    assert nareg.spacetime.load_any(tmp_path / "out" / "model.npz").speed_column == "WSPD"
    estimates = []
    for options in ((), ("--speed", "WSPD"), ("--speed", "gust")):
        assert "24 times of 5 stations" in run("apply", tmp_path / "out", tmp_path / "tomorrow.csv", *options).stdout
        estimates.append(pd.read_csv(tmp_path / "out" / "clean.csv")["WDIR"][360:].to_numpy())
    assert len(estimates[0]) == 24 * 5
    np.testing.assert_array_equal(estimates[0], estimates[1])
    assert np.abs(estimates[0] - estimates[2]).max() > 1
    run("clean", tmp_path / "today.csv", "--value", "WSPD", "--effort", "fast", "--out", tmp_path / "fast")
    refused = CliRunner().invoke(app, ["apply", str(tmp_path / "fast"), str(tmp_path / "tomorrow.csv")])
    assert "were cleaned without a model, as all with --effort fast are" in str(refused.exception) + refused.output


def test_directions_follow_the_model_too(rng, tmp_path):
    times = pd.date_range("2024-01-28", periods=192, freq="h", name="time")
    frame = pd.DataFrame((180 + rng.standard_normal((192, 4)).cumsum(axis=0)).round(1), times, list("ABCD"))
    model = nareg.clean(frame[:168], hidden=0, kind="direction").directed
    frame[168:].set_axis(times[168:].strftime("%m/%d/%Y %H:%M")).rename_axis("time").to_csv(tmp_path / "day.csv")
    applied = apply(model, tmp_path / "day.csv")
    pd.testing.assert_frame_equal(applied.x, apply(model, frame[168:]).x, check_freq=False)
    np.testing.assert_array_equal(applied.readings.values.T, frame[168:])
