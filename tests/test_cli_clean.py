"""``nareg clean`` as a user runs it."""

from __future__ import annotations

import csv
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

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


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stranger")
    network = nareg.datasets.simulated(8, 120, faults=("dead", "stuck"), rng=np.random.default_rng(1))
    network.to_csv(folder)
    return folder, network


@pytest.fixture(scope="module")
def outcome(files):
    folder, _ = files
    done = run("clean", folder / "stations.csv", folder / "readings.csv", "--out", folder / "clean", "--unit", "°C")
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.slow
def test_it_ends_with_one_plain_line_and_says_what_was_chosen(outcome, files):
    folder, _ = files
    lines = outcome.stdout.strip().splitlines()
    assert re.fullmatch(
        r"readings ±[\d.]+ °C, cleaned ±[\d.]+ °C \(hidden readings\), 2 suspect stations, report in .*report\.html", lines[-1]
    )
    assert lines[0].startswith("network: 8 stations, 120 times")
    for text in (
        "method:",
        "noise estimated: standard deviation",
        "variance",
        "kriging",
        "rolling mean of 13",
        "dead",
        "stuck",
    ):
        assert text in outcome.stdout
    assert str(folder / "clean") in lines[-1]
    assert "has no reading" in words(outcome.stderr)


def test_tables_have_the_shape_and_the_labels_of_the_readings(outcome, files):
    folder, network = files
    rows = {
        name: list(csv.reader((folder / where / f"{name}.csv").read_text().splitlines()))
        for name, where in (("readings", "."), ("clean", "clean"), ("std", "clean"), ("flags", "clean"))
    }
    for name in ("clean", "std", "flags"):
        assert [row[0] for row in rows[name]] == [row[0] for row in rows["readings"]]
        assert rows[name][0] == rows["readings"][0]
        assert all(cell for row in rows[name] for cell in row)
    assert {cell for row in rows["flags"][1:] for cell in row[1:]} <= {"1", "3", "4", "9"}
    x = io.read_readings(folder / "clean" / "clean.csv", network.names).values
    good = network.healthy[:, None] & network.observed
    assert np.mean((x - network.truth)[good] ** 2) < 0.3 * network.noise**2
    assert sorted(path.name for path in (folder / "clean").iterdir()) == [
        "clean.csv",
        "flags.csv",
        "model.npz",
        "model.toml",
        "report.html",
        "std.csv",
    ]


def test_report_is_self_contained_and_has_the_numbers(outcome, files):
    folder, network = files
    page = (folder / "clean" / "report.html").read_text()
    assert not re.search(r"(src|href)=\"(?!data:)", page), "the page refers to something outside itself"
    assert page.count("data:image/png;base64,") == 4
    for name in network.faults:
        assert f"<td>{name}</td>" in page
    line = outcome.stdout.strip().splitlines()[-1].split(", report in")[0]
    assert line[1:] in page
    for method in ("space-time model", "last reading", "kriging", "one weight", "neighbors&#39; median"):
        assert method in page
    assert "has no reading" in page


@pytest.mark.slow
def test_python_and_the_command_give_the_same_numbers(outcome, files):
    folder, network = files
    cleaned = nareg.clean(folder / "readings.csv", folder / "stations.csv", rng=np.random.default_rng(0))
    x = io.read_readings(folder / "clean" / "clean.csv", network.names).values
    np.testing.assert_allclose(x, cleaned.x.to_numpy().T, atol=1e-3)


@pytest.mark.slow
def test_netcdf_comes_back_as_the_same_readings(files, tmp_path):
    folder, network = files
    done = run("clean", folder / "stations.csv", folder / "readings.csv", "--out", tmp_path / "out", "--format", "netcdf")
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"clean.nc", "report.html", "model.npz", "model.toml"}
    xarray = pytest.importorskip("xarray")
    data = xarray.load_dataset(tmp_path / "out" / "clean.nc")
    np.testing.assert_allclose(data["reading"].sel(station=list(network.names)), network.readings, atol=1e-3)


@pytest.mark.slow
def test_a_bound_that_the_user_states_limits_the_estimate(files, tmp_path):
    folder, network = files
    highest = float(np.nanmedian(network.readings))
    options = ("--upper", highest, "--hidden", 0, "--dynamics", "scalar", "--out", tmp_path / "out")
    done = run("clean", folder / "stations.csv", folder / "readings.csv", *options)
    assert done.exit_code == 0, done.output
    assert io.read_readings(tmp_path / "out" / "clean.csv", network.names).values.max() <= highest


def test_errors_are_shown_with_flagged_readings_and_without(outcome, files):
    folder, _ = files
    heading = next(line for line in outcome.stdout.splitlines() if "RMSE" in line and "MAE" in line)
    assert "with flagged" in heading
    assert "<th>with flagged</th>" in (folder / "clean" / "report.html").read_text()


def test_help_shows_an_example():
    done = run("clean", "--help")
    assert done.exit_code == 0
    assert "nareg clean stations.csv readings.csv --out clean/" in words(done.stdout)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--noise", "1", "--noise-std", "1"], "give one of them"),
        (["--noise-std", "-1"], "--noise-std is -1"),
        (["--noise", "0"], "--noise is 0"),
        (["--noise", "-2"], "--noise is -2"),
        (["--noise", "none.csv"], "neither a number nor a CSV file"),
        (["--noise", "1", "--transform", "log"], "noise and transform are both given"),
        (["--noise-std", "1e6"], "variance"),
        (["-k", "0"], "Invalid value"),
        (["--dynamics", "fast"], "Invalid value"),
        (["--hidden", "0.9"], "Invalid value"),
        (["--dismiss", "Vernal: drift"], "quality.dismiss has 'Vernal: drift', but no station has that name"),
        (["--flags", "words"], "Invalid value"),
    ],
)
def test_options_that_cannot_work(files, tmp_path, options, message):
    folder, _ = files
    done = run("clean", folder / "stations.csv", folder / "readings.csv", "--out", tmp_path / "clean", *options)
    assert done.exit_code == 2
    assert message in words(done.output)
    assert not (tmp_path / "clean" / "clean.csv").exists()


def test_inputs_are_not_written_over(files, tmp_path):
    folder, network = files
    network.to_csv(tmp_path)
    (tmp_path / "readings.csv").rename(tmp_path / "clean.csv")
    before = (tmp_path / "clean.csv").read_bytes()
    done = run("clean", tmp_path / "stations.csv", tmp_path / "clean.csv", "--out", tmp_path)
    assert done.exit_code == 2
    assert "would overwrite the input" in words(done.output)
    assert (tmp_path / "clean.csv").read_bytes() == before
    (tmp_path / "file").write_text("")
    done = run("clean", folder / "stations.csv", folder / "readings.csv", "--out", tmp_path / "file")
    assert done.exit_code == 2
    assert "is a file" in words(done.output)


def dirty(network: nareg.datasets.SimulatedNetwork, folder: Path) -> None:
    """As a spreadsheet of another country writes it, and as a tired person sends it."""
    lines = ["Station_ID;Lat;Lng;Owner"]
    for i, (name, (lat, lon)) in enumerate(zip(network.names, network.coordinates, strict=True)):
        place = ";" if i == 3 else f"{lat:.5f};{lon:.5f}".replace(".", ",")
        lines.append(f'"{name}";{place};me')
    (folder / "stations.csv").write_bytes("\r\n".join(lines).encode("utf-8-sig"))
    rows = ["Datetime;" + ";".join(network.names) + ";battery"]
    for time_, column in zip(network.times.astype(str), network.readings.T, strict=True):
        cells = ["N/A" if np.isnan(v) else f"{v:.2f}".replace(".", ",") for v in column]
        if len(rows) == 40:
            cells[0] = "-9999"
        rows.append(";".join([time_.replace("T", " "), *cells, "12,1"]))
    rows.insert(60, rows[59])
    (folder / "readings.csv").write_text("\n".join(rows))


@pytest.mark.slow
def test_a_dirty_file_is_cleaned_and_every_guess_is_said(files, tmp_path):
    _, network = files
    dirty(network, tmp_path)
    done = run("clean", tmp_path / "stations.csv", tmp_path / "readings.csv", "--out", tmp_path / "clean")
    assert done.exit_code == 0, done.output
    said = words(done.stderr)
    for text in ("semicolon", "decimal", "-9999", "repeats the time of another", "no coordinates", "battery", "Owner"):
        assert text in said, text
    x = io.read_readings(tmp_path / "clean" / "clean.csv")
    assert x.names == tuple(name for i, name in enumerate(network.names) if i != 3)
    assert len(x.times) == network.n_times
    rows = [i for i in range(network.n_nodes) if i != 3 and network.healthy[i]]
    error = (x.values - np.delete(network.truth, 3, axis=0))[[i - (i > 3) for i in rows]]
    assert np.sqrt(np.mean(error**2)) < network.noise
    strict = run("clean", tmp_path / "stations.csv", tmp_path / "readings.csv", "--out", tmp_path / "strict", "--strict")
    assert strict.exit_code == 2
    assert not (tmp_path / "strict").exists()


@pytest.mark.slow
def test_interrupted_it_leaves_nothing_half_written(tmp_path):
    nareg.datasets.simulated(60, 432, rng=np.random.default_rng(0)).to_csv(tmp_path)
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # a job in the background ignores it
    command = [
        sys.executable,
        "-c",
        f"{heed}; from nareg.cli import run; run()",
        "clean",
        tmp_path / "stations.csv",
        tmp_path / "readings.csv",
        "--out",
    ]
    process = subprocess.Popen(
        [*map(str, command), str(tmp_path / "clean")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for _ in range(600):
        if (tmp_path / "clean").exists():
            break
        time.sleep(0.1)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted: nothing was written" in words(said)
    assert list((tmp_path / "clean").iterdir()) == []


@pytest.mark.slow
def test_findings_are_dismissed_and_corrected_by_options_and_by_the_recipe(tmp_path):
    network = nareg.datasets.simulated(8, 200, faults=(), rng=np.random.default_rng(1))
    network.to_csv(tmp_path)
    table = io.read_readings(tmp_path / "readings.csv")
    values = table.values.copy()
    values[2] = 1.8 * values[2] + 32
    values[4, 20:60] = values[4, 20]
    io.write_readings(tmp_path / "readings.csv", io.Readings(table.names, table.times, values, table.timestamps))
    tables = (tmp_path / "stations.csv", tmp_path / "readings.csv", "--out", tmp_path / "clean", "--hidden", 0)
    wrong, still = table.names[2], table.names[4]
    (tmp_path / "recipe.toml").write_text(f'[quality]\ndismiss = ["{still}: stuck"]\nflags = "binary"\n')
    done = run("clean", *tables, "--recipe", tmp_path / "recipe.toml", "--correct")
    assert done.exit_code == 0, done.output
    assert f"dismissed {still}, stuck: " in done.output
    assert f"suspect {wrong}, unit: " in done.output
    flags = io.read_readings(tmp_path / "clean" / "flags.csv").values
    there = np.isfinite(values)
    assert not flags[4].any()
    np.testing.assert_array_equal(flags[2] == 1, there[2])
    corrected = (tmp_path / "clean" / "corrections.csv").read_text().splitlines()
    assert len(corrected) == 1 + there[2].sum()
    (tmp_path / "correct.toml").write_text("[quality]\ncorrect = true\n")
    off = tmp_path / "off"
    done = run("clean", *tables[:3], off, *tables[4:], "--recipe", tmp_path / "correct.toml", "--no-correct")
    assert done.exit_code == 0, done.output
    flags = io.read_readings(off / "flags.csv").values
    assert (flags[2][there[2]] == 4).all()
    assert "are not applied" in done.stderr
    rows = (tmp_path / "readings.csv").read_text().splitlines()
    (tmp_path / "today.csv").write_text("\n".join(rows[:170]))
    options = ("--out", tmp_path / "clean", "--dismiss", f"{wrong}: unit", "--dismiss", still, "--flags", "labels")
    done = run("clean", tmp_path / "stations.csv", tmp_path / "today.csv", "--hidden", 0, *options)
    assert done.exit_code == 0, done.output
    assert "no suspect stations" in done.output
    assert not (tmp_path / "clean" / "corrections.csv").exists()
    last = (tmp_path / "clean" / "flags.csv").read_text().splitlines()[-1]
    assert set(last.split(",")[1:]) <= {"ok", "gap", "not checked"}
    done = run("apply", tmp_path / "clean" / "model.npz", tmp_path / "readings.csv", *options)
    assert done.exit_code == 0, done.output
    assert "added in" in done.output


def test_fast_names_its_suspects_and_writes_no_empty_line(tmp_path):
    network = nareg.datasets.simulated(8, 200, faults=("stuck",), rng=np.random.default_rng(1))
    network.to_csv(tmp_path)
    done = run("clean", tmp_path / "stations.csv", tmp_path / "readings.csv", "--out", tmp_path / "out", "--effort", "fast")
    assert done.exit_code == 0, done.output
    assert f"suspect: {next(iter(network.faults))}, " in done.stdout
    assert "" not in done.stderr.splitlines()


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
