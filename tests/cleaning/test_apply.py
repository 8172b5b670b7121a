"""Tomorrow's readings by a model that was learned before."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import nareg
from nareg.cleaning import apply
from nareg.cli.apply_model import remember, remembered
from nareg.cli.main import app
from nareg.errors import InputError

LEARNED = 150


@pytest.fixture(scope="module")
def tables():
    """Readings of eight days by the hour, their truth (T, N), and places."""
    network = nareg.datasets.simulated(7, 192, faults=(), rng=np.random.default_rng(2))
    frame = pd.DataFrame(network.readings.T, pd.DatetimeIndex(network.times, name="time"), network.names)
    return frame, network.truth.T, pd.DataFrame(network.coordinates, network.names, ["latitude", "longitude"])


@pytest.fixture(scope="module")
def folder(tables, tmp_path_factory):
    """What ``nareg clean`` leaves of the first days."""
    folder = tmp_path_factory.mktemp("clean")
    cleaned = nareg.clean(tables[0][:LEARNED], tables[2])
    cleaned.save(folder)
    return folder


@pytest.fixture
def model(folder):
    return nareg.spacetime.load(folder / "model.npz")


def test_the_file_has_the_readings_that_were_hidden(tables, model):
    good = tables[0][:LEARNED].to_numpy().T
    assert np.isfinite(model.readings).sum() > 0.99 * np.isfinite(good).sum()


def test_estimates_are_the_smoothers(tables, model):
    frame = tables[0]
    applied = apply(model, frame)  # with the days that the model has
    assert any("which the model has, left out" in note for note in applied.notes)
    assert list(applied.x.index) == list(frame.index[LEARNED:])
    everything = np.hstack([model.readings, np.where(applied.flags == 4, np.nan, frame[LEARNED:]).T])
    smoothed = model.smooth(everything, times=frame.index.to_numpy())
    np.testing.assert_allclose(applied.x.to_numpy().T, smoothed.x[:, LEARNED:], rtol=1e-9)
    expected = smoothed.std * smoothed.factors(0.9)  # as wide as the band of 90 %
    np.testing.assert_allclose(applied.std.to_numpy().T, expected[:, LEARNED:], rtol=1e-9)
    errors = [np.sqrt(np.nanmean((x - tables[1][LEARNED:]) ** 2)) for x in (applied.x, frame[LEARNED:])]
    assert errors[0] < 0.6 * errors[1]


@pytest.mark.parametrize("forgotten", [True, False])
def test_a_long_past_is_forgotten_or_smoothed(model, monkeypatch, forgotten):
    if not forgotten:
        monkeypatch.setattr("nareg.cleaning._apply.MOVED", -1.0)
    rng = np.random.default_rng(3)
    readings = model.simulate(rng, n_times=1500)[1]
    times = model.times[0] + (model.times[1] - model.times[0]) * np.arange(1500)
    long = dataclasses.replace(
        model, readings=readings[:, :-24], excluded=np.zeros((7, 1476), dtype=bool),
        grid=dataclasses.replace(model.grid, values=times[:-24], rows=np.arange(1476)),
    )  # fmt: skip
    frame = pd.DataFrame(readings[:, -24:].T, pd.DatetimeIndex(times[-24:], name="time"), list(model.graph.names))
    lengths = []
    smooth = type(model).smooth
    monkeypatch.setattr(type(model), "smooth", lambda self, y, **o: lengths.append(y.shape[1]) or smooth(self, y, **o))
    applied = apply(long, frame)
    assert lengths[-1] == (1024 if forgotten else 1500)
    good = np.hstack([readings[:, :-24], np.where(applied.flags == 4, np.nan, frame).T])
    smoothed = smooth(model, good, times=times)
    np.testing.assert_allclose(applied.x.to_numpy().T, smoothed.x[:, -24:], rtol=1e-6)
    expected = smoothed.std * smoothed.factors(0.9)
    np.testing.assert_allclose(applied.std.to_numpy().T, expected[:, -24:], rtol=1e-6)


def test_bad_readings_are_flagged_and_missing_stations_estimated(tables, model):
    frame = tables[0][LEARNED:].copy()
    frame.iloc[20, 2] += 40
    applied = apply(model, frame.drop(columns=frame.columns[5]))
    assert applied.flags.iloc[20, 2] == 4
    assert (applied.flags.iloc[:, 5] == 9).all()
    assert np.isfinite(applied.x.to_numpy()).all()
    assert any(f"Without a new reading: {frame.columns[5]}" in note for note in applied.notes)


@pytest.mark.slow
def test_rows_are_added_to_the_tables_once(tables, folder, tmp_path):
    work = tmp_path / "clean"
    work.mkdir()
    for file in folder.iterdir():
        (work / file.name).write_bytes(file.read_bytes())
    before = pd.read_csv(work / "clean.csv")
    for stop in (170, 192, 192):  # a file that grows, and one that comes twice
        tables[0][LEARNED:stop].to_csv(tmp_path / "tomorrow.csv")
        done = CliRunner().invoke(app, ["apply", str(work / "model.npz"), str(tmp_path / "tomorrow.csv")])
        assert done.exit_code == 0, done.output
        for name in ("clean", "std", "flags"):
            table = pd.read_csv(work / f"{name}.csv")
            assert len(table) == stop
            assert table["time"].is_unique
    after = pd.read_csv(work / "clean.csv")
    pd.testing.assert_frame_equal(after[:LEARNED], before)
    assert pd.read_csv(work / "flags.csv").dtypes[1:].map(lambda kind: kind.kind == "i").all()


@pytest.mark.slow
@pytest.mark.parametrize("tidy", [True, False])
def test_rows_are_added_in_the_shape_of_the_first_run(tables, tmp_path, tidy):
    wide, long = tables[0].rename(columns={tables[0].columns[0]: "007", tables[0].columns[1]: "=b"}), {}
    places = tables[2].rename({tables[0].columns[0]: "007", tables[0].columns[1]: "=b"})
    for name, part in (("first", wide[:LEARNED]), ("next", wide[LEARNED:])):
        rows = part.rename_axis(columns="station").stack(future_stack=True).rename("level").reset_index()
        long[name] = rows.assign(other=1.0)
    first, then = (long["first"], wide[LEARNED:]) if tidy else (wide[:LEARNED], long["next"])
    first.to_csv(tmp_path / "r.csv", index=not tidy)
    then.to_csv(tmp_path / "next.csv", index=tidy)
    places.rename_axis("station").to_csv(tmp_path / "s.csv")
    chosen = ["--value", "level"] if tidy else []
    command = ["clean", str(tmp_path / "s.csv"), str(tmp_path / "r.csv"), "--out", str(tmp_path / "c"), *chosen]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    (tmp_path / "c" / "model.toml").unlink(missing_ok=True)  # the next table is of another shape
    again = ["apply", str(tmp_path / "c" / "model.npz"), str(tmp_path / "next.csv"), *([] if tidy else ["--value", "level"])]
    for _ in range(2):
        done = CliRunner().invoke(app, again)
        assert done.exit_code == 0, done.output
        for name in ("clean", "std", "flags"):
            header = (tmp_path / "c" / f"{name}.csv").read_text().splitlines()[0]
            assert header == "time,station,level" if tidy else header.startswith("time,007,")
            read = nareg.io.read_readings(tmp_path / "c" / f"{name}.csv")
            assert read.names == tuple(wide.columns)
            assert read.values.shape == wide.T.shape
            assert np.isfinite(read.values).all()


@pytest.mark.parametrize(
    ("before", "after", "zone"),
    [
        ("%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", None),
        ("%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M", None),
        ("%d.%m.%Y %H:%M", "%Y-%m-%d %H:%M", None),
        ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S+00:00", None),
        ("%Y-%m-%d %H:%M:%S+00:00", "%Y-%m-%dT%H:%M", "UTC"),
    ],
)
def test_times_are_written_as_those_before(tables, model, tmp_path, before, after, zone):
    """They were in two forms in one table, and rows of the same times were there twice."""
    frame = tables[0]
    new = frame[LEARNED:].set_axis(frame.index[LEARNED:].strftime(after)).rename_axis("time")
    applied = apply(model, new, recipe=nareg.io.Recipe(zone=zone, dates="day-first" if "%d.%m" in after else None))
    earlier = pd.date_range(end=frame.index[LEARNED], periods=40, freq="h")  # the last row is the first new one
    for name in ("clean", "std", "flags"):
        pd.DataFrame(1, earlier.strftime(before), frame.columns).to_csv(tmp_path / f"{name}.csv", index_label="time")
    applied.append(tmp_path)
    labels = pd.read_csv(tmp_path / "clean.csv")["time"].tolist()
    assert labels == [*earlier[:-1].strftime(before), *frame.index[LEARNED:].strftime(before)]


def test_a_day_that_is_applied_again_stays_in_its_place(tables, model, tmp_path):
    """Its rows went behind those of later days."""
    frame = tables[0]
    first, second = frame[: LEARNED + 20], frame[: LEARNED + 12].drop(index=frame.index[LEARNED + 3])
    for part in (first, frame, second, second):
        apply(model, part).append(tmp_path)
        times = pd.read_csv(tmp_path / "clean.csv", parse_dates=["time"])["time"]
        assert list(times) == list(frame.index[LEARNED : max(len(first), LEARNED + len(times))])


@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M"])
def test_a_day_that_comes_late_goes_where_its_times_belong(tables, model, tmp_path, form):
    """It went behind the later days that were there."""
    frame = tables[0].set_axis(tables[0].index.strftime(form)).rename_axis("time")
    recipe = nareg.io.Recipe(dates="day-first" if form.startswith("%d") else None)
    for part in (slice(170, 180), slice(155, 165), slice(185, 187), slice(150, 158)):
        apply(model, frame[part], recipe=recipe).append(tmp_path)
    for name in ("clean", "std", "flags"):
        labels = pd.read_csv(tmp_path / f"{name}.csv")["time"].tolist()
        assert labels == list(frame.index[np.r_[150:165, 170:180, 185:187]])


def test_times_before_the_models_are_counted_as_such(tables):
    """They were said to be times that the model has."""
    frame, _, places = tables
    model = nareg.clean(frame[40:100].drop(index=frame.index[50:53]), places, hidden=0).model
    applied = apply(model, frame[:110])
    end = frame.index[99].isoformat()
    assert f"57 times up to {end}, which the model has, left out." in applied.notes
    assert f"43 times before {end}, which the model does not have, left out: clean all anew to add them." in applied.notes
    counts = applied.readings.counts
    assert counts.add_up
    assert counts.beside["of earlier times that the model does not have"] == frame.iloc[np.r_[:40, 50:53]].notna().sum().sum()
    assert counts.beside["of times that the model has"] == frame.iloc[np.r_[40:50, 53:100]].notna().sum().sum()
    assert len(applied.x) == 10


def test_the_rows_of_the_model_stay_where_clocks_go_back(tmp_path, rng):
    """New times had the labels of times an hour before, whose rows were lost."""
    times = pd.date_range("2024-10-25 22:00", periods=168, freq="20min", tz="UTC").tz_convert("Europe/Berlin")
    frame = pd.DataFrame(rng.standard_normal((168, 4)).cumsum(axis=0).round(2), times.tz_localize(None), list("ABCD"))
    last = int(np.flatnonzero(times == pd.Timestamp("2024-10-27 00:40", tz="UTC"))[0])  # 02:40 in summer time
    for name, part in (("today", frame[: last + 1]), ("all", frame)):
        part.to_csv(tmp_path / f"{name}.csv", index_label="time", date_format="%Y-%m-%d %H:%M")
    run("clean", tmp_path / "today.csv", "--zone", "Europe/Berlin", "--out", tmp_path / "out", "--hidden", 0)
    for _ in range(2):
        run("apply", tmp_path / "out", tmp_path / "all.csv")
        labels = pd.read_csv(tmp_path / "out" / "clean.csv")["time"].tolist()
        assert labels == frame.index.strftime("%Y-%m-%d %H:%M").tolist()


def test_times_with_a_zone_do_not_follow_those_without(tables, model, tmp_path):
    """The model's local times counted as UTC, and the new ones were hours apart, without a word."""
    frame = tables[0]
    new = frame[LEARNED:].set_axis(frame.index[LEARNED:].strftime("%Y-%m-%d %H:%M+00:00")).rename_axis("time")
    for name in ("clean", "std", "flags"):
        frame[:LEARNED].to_csv(tmp_path / f"{name}.csv", date_format="%Y-%m-%d %H:%M")
    with pytest.raises(InputError, match=r"have times with a zone, such as .*\+00:00', and those of .* have none"):
        apply(model, new).append(tmp_path)


def test_what_cannot_be_applied_is_one_sentence(tables, model, tmp_path):
    frame = tables[0]
    with pytest.raises(InputError, match=r"readings end at .*: pass later readings"):
        apply(model, frame[:LEARNED])
    with pytest.raises(InputError, match="times of another kind"):
        apply(model, frame.reset_index(drop=True))
    with pytest.raises(InputError, match=r"no column has a station.s name"):
        apply(model, frame.rename(columns=lambda name: f"other{name}"))
    applied = apply(model, frame)
    (tmp_path / "std.csv").write_text("time,A\n2024-01-01,3\n")
    with pytest.raises(InputError, match=r"std.csv has other columns than the model's stations"):
        applied.append(tmp_path)
    assert not (tmp_path / "clean.csv").exists()


@pytest.mark.slow
def test_a_model_of_an_earlier_run_does_not_stay(tables, tmp_path):
    long = tables[0][:48].rename_axis(columns="station").stack(future_stack=True).rename("level").reset_index()
    long.assign(flow=long.level + 1).to_csv(tmp_path / "two.csv", index=False)
    tables[0][:48].to_csv(tmp_path / "one.csv")
    for again in (("one.csv", "--effort", "fast"), ("two.csv", "--effort", "fast")):
        run("clean", tmp_path / "one.csv", "--out", tmp_path / "out")
        assert (tmp_path / "out" / "model.npz").is_file()
        run("clean", tmp_path / again[0], *again[1:], "--out", tmp_path / "out")
        assert not list((tmp_path / "out").glob("model.*"))


@pytest.mark.parametrize("more", [1, 20])
def test_times_that_jitter_are_on_the_grid_of_the_model(tables, more):
    """A few new times kept their own, and a file of all times moved the model's last one behind itself."""
    frame, _, places = tables
    own = frame.index + pd.to_timedelta(np.random.default_rng(1).integers(-110, 111, len(frame)), unit="s")
    jittered = frame.set_axis(own.rename("time"))
    model = nareg.clean(jittered[:LEARNED], places).model
    for part in (jittered[: LEARNED + more], jittered[LEARNED : LEARNED + more]):
        assert list(apply(model, part).x.index) == list(frame.index[LEARNED : LEARNED + more])


@pytest.mark.parametrize("kind", ["number", "direction"])
def test_rows_are_added_at_the_readings_own_times(tables, tmp_path, kind):
    """They were missing: the table ended with the first run, with a note."""
    frame, _, places = tables
    offset = np.random.default_rng(1).integers(-170, 171, len(frame))
    index = (frame.index + pd.to_timedelta(offset, unit="s")).rename("time")
    level = frame.to_numpy()
    frame = pd.DataFrame((50 * level) % 360 if kind == "direction" else level, index, frame.columns)
    recipe = nareg.io.Recipe(step="10min", kind=(kind,))
    network = nareg.cleaning.assemble(frame[:LEARNED], places, recipe=recipe)
    cleaned = nareg.cleaning.run(network, nareg.cleaning.CleanSettings(kind=kind, hidden=0))
    cleaned.save(tmp_path)
    model = nareg.spacetime.load_any(tmp_path / "model.npz")
    first = pd.read_csv(tmp_path / "own_times.csv")
    for part in (frame[:170], frame, frame):  # one comes twice
        apply(model, part, recipe=recipe).append(tmp_path)
    own, table = pd.read_csv(tmp_path / "own_times.csv"), pd.read_csv(tmp_path / "clean.csv", index_col="time")
    pd.testing.assert_frame_equal(own[: len(first)], first)
    t, station = np.nonzero(frame.notna().to_numpy())
    assert list(pd.to_datetime(own["time"])) == list(frame.index[t])
    assert list(own["station"]) == list(frame.columns[station])
    np.testing.assert_allclose(own["reading"], frame.to_numpy()[t, station])
    steps = pd.to_datetime(table.index).to_numpy().astype("datetime64[ns]").astype(float)
    x = np.unwrap(table, axis=0, period=360 if kind == "direction" else 1e9)
    at = frame.index.to_numpy().astype("datetime64[ns]").astype(float)
    expected = np.array([np.interp(at[r], steps, x[:, i]) for r, i in zip(t, station, strict=True)])
    between = (at[t] > steps[LEARNED - 1]) & (at[t] < steps[LEARNED])  # whose earlier step is estimated anew by later readings
    off = (own["estimate"] - expected)[~between]
    off = (off + 180) % 360 - 180 if kind == "direction" else off
    std = pd.read_csv(tmp_path / "std.csv", index_col="time").to_numpy()
    assert np.abs(off).max() < 0.02 * std.min()  # as far as numbers are rounded
    flags = pd.read_csv(tmp_path / "flags.csv", index_col="time").to_numpy()
    row = np.searchsorted((steps[1:] + steps[:-1]) / 2, at[t], side="right")
    np.testing.assert_array_equal(own["flag"], flags[row, station])


def test_an_instant_in_another_offset_is_no_other_row(tables, model, tmp_path):
    frame = tables[0]
    for offset, part in ((1, slice(LEARNED, LEARNED + 20)), (2, slice(LEARNED + 10, LEARNED + 30))):
        own = frame.index[part] + pd.Timedelta(hours=offset)
        apply(model, frame[part].set_axis(own.strftime(f"%Y-%m-%d %H:%M:%S+0{offset}:00")).rename_axis("time")).append(tmp_path)
    times = pd.to_datetime(pd.read_csv(tmp_path / "clean.csv")["time"], utc=True).dt.tz_localize(None)
    assert list(times) == list(frame.index[LEARNED : LEARNED + 30])


def test_readings_of_rain_stay_as_they_are(rng):
    """As nareg clean leaves them: apply smoothed what rests at zero."""
    storm = np.where(rng.random(160) < 0.15, rng.gamma(0.8, 2.0, 160), 0.0)
    rain = np.round(storm[:, None] * rng.uniform(0.6, 1.4, (160, 5)), 1)
    frame = pd.DataFrame(rain, pd.date_range("2024", periods=160, freq="h", name="time"), list("ABCDE"))
    applied = apply(nareg.clean(frame[:120]).model, frame[120:])
    good = applied.flags.to_numpy() != 4
    np.testing.assert_array_equal(applied.x.to_numpy()[good], rain[120:][good])
    assert good.mean() > 0.98
    # as nareg clean states them: a reading that is kept is off by what others contradict as well
    wet = good & (rain[120:] > 0)
    off = rain[120:] - nareg.clean(frame[:120]).model.smooth(rain.T, times=frame.index).x[:, 120:].T
    assert (applied.std.to_numpy()[wet] >= 0.99 * np.abs(off[wet])).all()


def test_a_day_that_may_be_of_another_month_is_the_one_that_follows_the_model(rng, tmp_path):
    """Within two days; where it follows later, it may be either and is refused."""
    times = pd.date_range("2024-01-28", periods=192, freq="h", name="time")  # up to the third of February
    frame = pd.DataFrame(rng.standard_normal((192, 4)).cumsum(axis=0), times, list("ABCD"))
    model = nareg.clean(frame[:168], hidden=0).model
    expected = apply(model, frame[168:])
    for order, said in (
        ("%m/%d/%Y %H:%M", "are read month first, so that they follow"),
        ("%d/%m/%Y %H:%M", "are read day first"),
    ):
        frame[168:].set_axis(times[168:].strftime(order)).rename_axis("time").to_csv(tmp_path / "day.csv")
        applied = apply(model, tmp_path / "day.csv")
        assert [said in note for note in applied.notes if "dates such as" in note] == [True]
        pd.testing.assert_frame_equal(applied.x, expected.x, check_freq=False)
    frame[168:].set_axis((times[168:] + pd.Timedelta("5D")).strftime("%m/%d/%Y %H:%M")).to_csv(tmp_path / "day.csv")
    with pytest.raises(InputError, match="read as 2024-09-02; as 2024-02-09 they would follow"):
        apply(model, tmp_path / "day.csv")


@pytest.mark.slow
def test_times_without_a_zone_do_not_follow_those_with_one(rng, tmp_path):
    """They were added hours apart, without a word."""
    times = pd.date_range("2024-06-01", periods=150, freq="h")
    frame = pd.DataFrame(rng.standard_normal((150, 4)).cumsum(axis=0), times.strftime("%Y-%m-%d %H:%M"), list("ABCD")).round(2)
    frame[:120].to_csv(tmp_path / "today.csv", index_label="time (CEST)")
    frame[120:].to_csv(tmp_path / "bare.csv", index_label="time")
    frame[120:].to_csv(tmp_path / "tomorrow.csv", index_label="time (CEST)")
    run("clean", tmp_path / "today.csv", "--out", tmp_path / "out", "--hidden", 0)
    before = (tmp_path / "out" / "clean.csv").read_bytes()
    done = CliRunner().invoke(app, ["apply", str(tmp_path / "out"), str(tmp_path / "bare.csv")])
    assert done.exit_code
    assert "have times without a zone, such as '2024-06-06 00:00'" in " ".join(done.stderr.split())
    assert (tmp_path / "out" / "clean.csv").read_bytes() == before
    run("apply", tmp_path / "out", tmp_path / "bare.csv", "--zone", "+02:00")
    own = pd.read_csv(tmp_path / "out" / "clean.csv").iloc[:, 1:]
    run("apply", tmp_path / "out", tmp_path / "tomorrow.csv", "--out", tmp_path / "again")
    other = pd.read_csv(tmp_path / "again" / "clean.csv").iloc[:, 1:]
    np.testing.assert_allclose(own[120:], other)


def run(*arguments):
    done = CliRunner().invoke(app, [str(one) for one in arguments])
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.slow
def test_later_readings_are_read_as_those_of_the_model_were(rng, tmp_path):
    """Local times were taken as UTC where --zone was said to nareg clean alone."""
    times = pd.date_range("2024-06-01", periods=150, freq="h", name="time")
    frame = pd.DataFrame(rng.standard_normal((150, 4)).cumsum(axis=0), times, list("ABCD")).round(2).astype(str)
    frame.iloc[130, 1] = "-"
    frame[:120].to_csv(tmp_path / "today.csv")
    frame[120:].to_csv(tmp_path / "tomorrow.csv")
    out, named = tmp_path / "out", ("--zone", "Europe/Brussels", "--missing", "-", "--step", "none")
    clean = ("clean", tmp_path / "today.csv", "--out", out, "--hidden", 0)
    run(*clean, *named)
    model = out / "model.npz"
    assert nareg.io.Recipe.load(out / "model.toml") == nareg.io.Recipe(zone="Europe/Brussels", missing=("-",), step="none")
    tomorrow = ("apply", model, tmp_path / "tomorrow.csv")
    done = run(*tomorrow)
    assert "missing -; zone Europe/Brussels; step none" in " ".join(done.stderr.split())
    assert "30 times of 4 stations" in done.stdout
    written = (out / "clean.csv").read_bytes()
    run(*clean, *named)
    run(*tomorrow, *named)
    assert (out / "clean.csv").read_bytes() == written
    assert "zone" not in run(*tomorrow, "--zone", "UTC").stderr  # what is said now goes before
    run(*clean)
    assert nareg.io.Recipe.load(out / "model.toml") == nareg.io.Recipe()
    assert "model.toml" not in run(*tomorrow).stderr
    (out / "model.toml").unlink()
    assert f"{out / 'model.toml'} is absent: pass options such as --zone and --step again" in run(*tomorrow).stderr


def test_marks_that_are_named_exclude_remembered_ones(tmp_path):
    remember(nareg.io.Recipe(flag="mark", use_flags=False, start="2024-01-01", step="1h"), tmp_path / "model.npz")
    for recipe in (nareg.io.Recipe(bad=("4",)), nareg.io.Recipe(use_flags=True)):
        expected = dataclasses.replace(recipe, flag="mark", step="1h")  # later readings start later
        assert remembered(recipe, tmp_path / "model.npz") == expected
    assert remembered(nareg.io.Recipe(), tmp_path / "model.npz").use_flags is False


@pytest.mark.slow
def test_times_between_the_models_steps_are_joined_as_its_own_were(rng, tmp_path):
    """This failed, as two times fell into one step of the model."""
    times = pd.date_range("2024-06-01", periods=720, freq="10min", name="time")
    frame = pd.DataFrame(rng.standard_normal((720, 4)).cumsum(axis=0), times, list("ABCD")).round(2)
    frame[:600].to_csv(tmp_path / "today.csv")
    frame[600:].to_csv(tmp_path / "tomorrow.csv")
    run("clean", tmp_path / "today.csv", "--out", tmp_path / "out", "--step", "1h", "--hidden", 0)
    done = run("apply", tmp_path / "out" / "model.npz", tmp_path / "tomorrow.csv")
    assert "20 times of 4 stations" in done.stdout
    own = pd.read_csv(tmp_path / "out" / "own_times.csv")
    read = frame.drop(times[600:603])  # those of the model's last step are left out
    assert list(own["time"]) == list(read.index.astype(str).repeat(4))
    np.testing.assert_array_equal(own["reading"], read.to_numpy().ravel())


@pytest.mark.slow
def test_one_of_several_quantities_may_come_alone(rng, tmp_path):
    times = np.repeat(pd.date_range("2024-06-01", periods=100, freq="h"), 4)
    y = rng.standard_normal((2, 100, 4)).cumsum(axis=1).reshape(2, -1).round(2)
    frame = pd.DataFrame({"time": times, "station": list("ABCD") * 100, "temp": y[0], "rh": y[1]})
    frame[:320].to_csv(tmp_path / "today.csv", index=False)
    frame[320:].to_csv(tmp_path / "tomorrow.csv", index=False)
    frame[320:].pivot(index="time", columns="station", values="temp").to_csv(tmp_path / "alone.csv")
    clean = ("clean", tmp_path / "today.csv", "--hidden", 0, "--value", "temp")
    run(*clean, "--out", tmp_path / "temp")
    assert "20 times" in run("apply", tmp_path / "temp" / "model.npz", tmp_path / "alone.csv").stdout
    refused = CliRunner().invoke(app, ["apply", str(tmp_path / "model.npz"), str(tmp_path / "alone.csv")])
    assert f"such as {tmp_path / 'temp' / 'model.npz'}" in str(refused.exception) + refused.output
    run(*clean, "--out", tmp_path / "out")
    assert "value temp" in run("apply", tmp_path / "out" / "model.npz", tmp_path / "tomorrow.csv").stderr


def test_no_new_reading_is_lost_where_the_clocks_go_back(tmp_path):
    network = nareg.datasets.simulated(6, 200, faults=(), rng=np.random.default_rng(2))
    local = pd.date_range("2024-10-20", periods=200, freq="h", tz="Europe/Berlin").strftime("%Y-%m-%d %H:%M")
    frame = pd.DataFrame(network.readings.T, pd.Index(local, name="time"), network.names)
    places = pd.DataFrame(network.coordinates, network.names, ["latitude", "longitude"])
    model = nareg.clean(frame[:160], places).model
    for later in (slice(160, 200), slice(140, 200)):
        applied = apply(model, frame[later])
        assert list(applied.readings.times) == local[160:].tolist()
        np.testing.assert_array_equal(np.diff(applied.readings.timestamps), np.timedelta64(1, "h"))
