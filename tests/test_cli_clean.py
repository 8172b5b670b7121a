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
import pytest
from typer.testing import CliRunner

import nareg
from nareg import io
from nareg.cli import app
from nareg.cli.apply_model import remember, remembered
from nareg.io import Recipe


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
    for said in (options, options[:-2]):  # its flags are remembered
        done = run("apply", tmp_path / "clean" / "model.npz", tmp_path / "readings.csv", *said)
        assert done.exit_code == 0, done.output
        assert "added in" in done.output


def test_what_is_remembered_of_a_first_run(tmp_path):
    """Flags other than QARTOD's were refused by apply, unless they were said again."""
    remember(Recipe(header="time,A", quality={"flags": "binary", "dismiss": ("A",)}), tmp_path / "model.npz")
    later = remembered(Recipe(quality={"ranges": ("0 to 5",)}), tmp_path / "model.npz")
    assert (later.header, later.quality) == ("time,A", {"ranges": ("0 to 5",), "flags": "binary"})
    assert remembered(Recipe(quality={"flags": "qartod"}), tmp_path / "model.npz").quality == {"flags": "qartod"}
    remember(Recipe(quality={"flags": "qartod"}), tmp_path / "model.npz")
    assert remembered(Recipe(), tmp_path / "model.npz") == Recipe()


def test_fast_names_its_suspects_and_writes_no_empty_line(tmp_path):
    network = nareg.datasets.simulated(8, 200, faults=("stuck",), rng=np.random.default_rng(1))
    network.to_csv(tmp_path)
    done = run("clean", tmp_path / "stations.csv", tmp_path / "readings.csv", "--out", tmp_path / "out", "--effort", "fast")
    assert done.exit_code == 0, done.output
    assert f"suspect, for many bad readings or much noise: {next(iter(network.faults))}" in done.stdout
    assert "" not in done.stderr.splitlines()
