"""``nareg clean`` of several quantities: their ranges, kinds and folders."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import nareg
from nareg import io
from nareg.cli import app


def run(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.slow
def test_a_station_that_one_quantity_lacks_is_dismissed_in_the_others(tmp_path, monkeypatch):
    network = nareg.datasets.simulated(8, 100, faults=(), rng=np.random.default_rng(1))
    network.to_csv(tmp_path)
    first, *_ = network.names
    cells = list(zip(np.repeat(network.times, 8), np.tile(network.names, 100), network.readings.T.ravel(), strict=True))
    rows = [f"{time},{name},temp,{y:.2f}" for time, name, y in cells if np.isfinite(y)]
    rows += [f"{time},{name},humid,{y + 50:.2f}" for time, name, y in cells if np.isfinite(y) and name != first]
    (tmp_path / "long.csv").write_text("\n".join(["time,station,parameter,value", *rows]))
    tables = (tmp_path / "stations.csv", tmp_path / "long.csv", "--out", tmp_path / "out", "--hidden", 0)
    tables += ("--value", "temp", "--value", "humid")
    spied, reading = [], io.read_readings
    monkeypatch.setattr(io, "read_readings", lambda *some, **more: spied.append(1) or reading(*some, **more))
    done = run("clean", *tables, "--dismiss", first)
    assert done.exit_code == 0, done.output
    assert len(spied) == 2  # each table of readings once
    assert done.stderr.count(f"No finding matches the dismissal '{first}'") == 1  # of the quantity that it has
    done = run("clean", *tables, "--dismiss", "Vernal")
    assert done.exit_code == 2
    assert done.stderr.count("no station has that name") == 2


@pytest.mark.slow
def test_ranges_of_quantities_and_of_a_station_flag_what_is_beyond(tmp_path):
    network = nareg.datasets.simulated(8, 200, faults=(), rng=np.random.default_rng(1))
    network.to_csv(tmp_path)
    first, *_ = network.names
    cells = list(zip(np.repeat(network.times, 8), np.tile(network.names, 200), network.readings.T.ravel(), strict=True))
    rows = [f"{time},{name},{what},{y + off:.2f}" for what, off in (("temp", 0), ("humid", 50)) for time, name, y in cells]
    rows = [row for row in rows if not row.endswith("nan")]
    (tmp_path / "long.csv").write_text("\n".join(["time,station,parameter,value", *rows]))
    low, high = (float(f"{end:.1f}") for end in np.nanquantile(network.readings, [0.02, 0.98]))
    written = f'[quality]\nranges = ["temp: {low} to {high}", "HUMID: {low + 40} to", "{first}: to 1e3"]\n'
    (tmp_path / "recipe.toml").write_text(written)
    tables = (
        tmp_path / "stations.csv",
        tmp_path / "long.csv",
        "--out",
        tmp_path / "out",
        "--value",
        "temp",
        "--value",
        "humid",
    )
    done = run("clean", *tables, "--recipe", tmp_path / "recipe.toml", "--hidden", 0, "--range", "-1e4 to 1e4")
    assert done.exit_code == 0, done.output
    assert "is not used" not in done.output
    assert "beyond the range that is set" in done.output
    flags = io.read_readings(tmp_path / "out" / "temp" / "flags.csv", network.names).values
    there = np.isfinite(network.readings)
    beyond = there & ((network.readings.round(2) < low) | (network.readings.round(2) > high))
    assert beyond.sum() > 20
    assert (flags[beyond] == 4).all()
    assert (flags[there & ~beyond] == 4).sum() <= 2
    assert not (io.read_readings(tmp_path / "out" / "humid" / "flags.csv").values == 4).sum() > 2
    done = run("clean", *tables[:-2], "--range", "pressure: 0 to 5", "--hidden", 0, "--effort", "fast")
    assert "'pressure: 0 to 5', whose name is neither a station's nor the quantity's, 'temp'" in done.stderr
    done = run("clean", *tables[:-2], "--range", "900 to 1100", "--hidden", 0)
    assert done.exit_code == 2
    assert "no reading is inside: use their unit" in done.stderr
    day = [row.replace("06-03", "06-05").replace("06-02", "06-04") for row in rows if ",temp," in row][-400:]
    (tmp_path / "day.csv").write_text("\n".join(["time,station,parameter,value", *day]))
    done = run("apply", tmp_path / "out" / "temp" / "model.npz", tmp_path / "day.csv", "--range", "to 1", "--value", "temp")
    assert done.exit_code == 0, done.output
    assert "suspect" in done.output


@pytest.mark.slow
def test_tomorrow_of_two_quantities_goes_to_the_model_in_the_folder_of_its_own(tmp_path):
    network = nareg.datasets.simulated(6, 80, faults=(), rng=np.random.default_rng(1))
    network.to_csv(tmp_path)
    cells = zip(np.repeat(network.times, 6), np.tile(network.names, 80), network.readings.T.ravel(), strict=True)
    rows = [f"{time},{name},{y:.2f},{60 - 3 * y:.1f}" for time, name, y in cells if np.isfinite(y)]
    for name, part in (("today", rows[:360]), ("tomorrow", rows[360:])):
        (tmp_path / f"{name}.csv").write_text("\n".join(["time,station,temp,rh (%)", *part]))
    done = run("clean", tmp_path / "stations.csv", tmp_path / "today.csv", "--out", tmp_path / "out", "--hidden", 0)
    assert done.exit_code == 0, done.output
    assert "left out" not in done.stderr  # each is cleaned
    for folder, middle in (("temp", 10), ("rh_", 30)):
        done = run("apply", tmp_path / "out" / folder / "model.npz", tmp_path / "tomorrow.csv")
        assert done.exit_code == 0, done.output
        written = io.read_readings(tmp_path / "out" / folder / "clean.csv")
        assert written.values.shape[1] > 75
        before, after = written.values[:, :60].mean(), written.values[:, 60:].mean()
        assert abs(after - before) < middle
    done = run("apply", tmp_path / "out", tmp_path / "tomorrow.csv")
    assert done.exit_code == 0, done.output
    assert "2 of 2 quantities" in words(done.output)
    joint = pd.read_csv(tmp_path / "out" / "clean.csv")
    assert joint[["temp estimate", "rh (%) estimate"]].notna().all().all()
    for folder, column in (("temp", "temp estimate"), ("rh_", "rh (%) estimate")):
        own = pd.read_csv(tmp_path / "out" / folder / "clean.csv")
        assert (own[["time", "station"]] == joint[["time", "station"]]).all().all()
        np.testing.assert_array_equal(own.iloc[:, 2], joint[column])
    alone = [",".join(row.split(",")[:3]) for row in rows[360:]]
    (tmp_path / "alone.csv").write_text("\n".join(["time,station,temp", *alone]))
    done = run("apply", tmp_path / "out", tmp_path / "alone.csv")
    assert done.exit_code == 0, done.output
    assert "no column of the readings is rh_" in words(done.stderr)
    assert "1 of 2 quantities" in words(done.output)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "out" / "clean.csv"), joint)
    refused = run("apply", tmp_path / "out", tmp_path / "alone.csv", "--lower", 0)
    assert "has several quantities: omit --value, --lower" in refused.output + str(refused.exception)
    (tmp_path / "temp_alone").mkdir()
    (tmp_path / "temp_alone" / "model.npz").write_bytes((tmp_path / "out" / "temp" / "model.npz").read_bytes())
    refused = run("apply", tmp_path / "temp_alone" / "model.npz", tmp_path / "tomorrow.csv")
    assert refused.exit_code != 0
    assert "name the one to read by --value" in refused.output + str(refused.exception)


@pytest.mark.slow
def test_results_of_an_earlier_run_are_named_and_not_applied(rng, tmp_path):
    """The folder of a quantity that was cleaned no more looked like one of the last run, and apply failed by it."""
    times = pd.date_range("2024-06-01", periods=80, freq="h").repeat(4)
    y = rng.standard_normal((3, 80, 4)).cumsum(axis=1).reshape(3, -1).round(2)
    frame = pd.DataFrame({"time": times, "station": list("ABCD") * 80, "temp": y[0], "rh": y[1], "pressure": y[2]})
    frame[:240].to_csv(tmp_path / "today.csv", index=False)
    frame[240:].to_csv(tmp_path / "tomorrow.csv", index=False)
    out = tmp_path / "out"
    (out / "mine").mkdir(parents=True)
    (out / "mine" / "report.html").write_text("of a user")
    clean = ("clean", tmp_path / "today.csv", "--out", out, "--hidden", 0)
    two = ("--value", "temp", "--value", "rh")
    one = ("--value", "rh", "--effort", "fast")
    runs = ((), None), (two, "pressure"), (one, "pressure, rh, temp"), (two, "std.csv, flags.csv, pressure")
    for options, older in runs:
        done = run(*clean, *options)
        assert done.exit_code == 0, done.output
        said = f"{out} has results that this run did not write: {older}. Remove them, if they are old."
        assert ("did not write" in words(done.stderr)) == (older is not None)
        assert older is None or said in words(done.stderr)
        assert (out / "pressure" / "clean.csv").exists()
    (out / "std.csv").unlink()
    done = run("apply", out, tmp_path / "tomorrow.csv")
    assert done.exit_code == 0, done.output
    assert f"{out / 'pressure'} is left out: {out / 'clean.csv'} has no such quantity." in words(done.stderr)
    assert "2 of 2 quantities" in words(done.output)
    assert len(pd.read_csv(out / "clean.csv")) == 320


@pytest.mark.slow
def test_kinds_of_several_quantities_and_of_one(tmp_path):
    rng = np.random.default_rng(3)
    rows = [
        f"2024-01-{1 + t // 24:02} {t % 24:02}:00:00,{s},{rng.uniform(40, 300):.1f},{rng.uniform():.2f},{rng.normal():.2f}"
        for t in range(48)
        for s in "AABBCC"
    ]
    rows[0], rows[1] = "2024-01-01 00:00:00,A,350,0.1,0.1", "2024-01-01 00:00:00,A,20,0.2,0.2"
    path = tmp_path / "r.csv"
    path.write_text("\n".join(["time,station,flow,rainfall,level", *rows]))
    command = ["clean", str(path), "--effort", "fast", "--out", str(tmp_path / "c")]
    kinds = ["--kind", "flow: direction", "--kind", "Rainfall=nonnegative", "--kind", "snow: nonnegative"]
    done = CliRunner().invoke(app, [*command, *kinds])
    assert done.exit_code == 0, done.output
    assert "kind has 'snow: nonnegative', but the quantity is 'flow' or 'rainfall' or 'level': it is not used." in done.output
    assert done.output.count("is not used") == 1
    assert done.output.count("kind: directions, cleaned as unit vectors") == 1
    read = io.read_readings(tmp_path / "c" / "clean.csv", recipe=io.Recipe(value="flow"))
    assert read.values[read.names.index("A"), 0] == pytest.approx(5)
    bare = CliRunner().invoke(app, [*command, "--kind", "direction"])
    assert bare.exit_code == 2
    assert "there are 3 quantities: name it, such as 'flow: direction'" in bare.output
    one = CliRunner().invoke(app, [*command[:-1], str(tmp_path / "one"), "--value", "flow", "--kind", "direction"])
    assert one.exit_code == 0, one.output
    assert "kind: directions" in one.output


@pytest.mark.slow
def test_a_quantity_without_a_reading_is_left_out_with_a_note(tmp_path):
    rows = [f"2024-01-{1 + t // 24:02} {t % 24:02}:00,{s},{t % 7}.5,,{t}" for t in range(48) for s in "ABC"]
    (tmp_path / "r.csv").write_text("\n".join(["time,station,temperature,humidity,level", *rows]))
    out = tmp_path / "c"
    command = ("clean", tmp_path / "r.csv", "--effort", "fast", "--out", out)
    for chosen in ((), ("--value", "humidity", "--value", "level")):
        done = run(*command, *chosen)
        assert done.exit_code == 0, done.output
        assert "note: humidity has no reading and is left out." in done.output
        assert "error:" not in done.output
    assert f"1 of 2 quantities: {out / 'clean.csv'}" in done.output
    (tmp_path / "r.csv").write_text("time,station,temperature,humidity\n2024-01-01,A,,\n2024-01-02,A,,\n2024-01-03,A,,\n")
    none = run(*command, "--value", "temperature", "--value", "humidity")
    assert none.exit_code == 2
    assert "readings contains no reading of any quantity" in none.output
