"""The command line as a user runs it: a process, its exit status, what it prints and writes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.io

import nareg
from nareg import io


def run(*arguments: object, cwd=None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nareg", *map(str, arguments)], capture_output=True, text=True, cwd=cwd, check=False
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Forty stations, eighty noisy days of a smooth field, some readings missing in a second table."""
    folder = tmp_path_factory.mktemp("network")
    us = nareg.datasets.load("us-weather").complete().select(np.arange(40))
    rng = np.random.default_rng(0)
    truth = us.signals[:, :80]
    names = tuple(f"station {i}" for i in range(40))
    rows = "\n".join(f"{n},{a},{b}" for n, (a, b) in zip(names, us.coordinates, strict=True))
    (folder / "stations.csv").write_text("station,latitude,longitude\n" + rows + "\n")
    noisy = truth + 3.0 * rng.standard_normal(truth.shape)
    times = tuple(us.times[:80])
    io.write_readings(folder / "readings.csv", io.Readings(names, times, noisy))
    gaps = np.where(rng.random(truth.shape) < 0.1, np.nan, noisy)
    gaps[:, ::2] = noisy[:, ::2]
    io.write_readings(folder / "gaps.csv", io.Readings(names, times, gaps))
    return folder, truth, noisy, gaps, names


def error(x: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((x - truth) ** 2)))


@pytest.mark.parametrize("out", ["weights.csv", "design.npz"])
def test_design_then_denoise(files, tmp_path, out):
    folder, truth, noisy, _, names = files
    done = run("design", folder / "stations.csv", folder / "readings.csv", "--noise", 9, "--out", tmp_path / out)
    assert done.returncode == 0, done.stderr
    assert "blind: " in done.stdout
    done = run(
        "denoise", folder / "stations.csv", folder / "readings.csv", "--weights", tmp_path / out, "--out", tmp_path / "x.csv"
    )
    assert done.returncode == 0, done.stderr
    assert "relative residual" in done.stdout
    x = io.read_readings(tmp_path / "x.csv", names).values
    assert error(x, truth) < 0.7 * error(noisy, truth)


def test_design_with_gaps_then_interpolate(files, tmp_path):
    folder, truth, _, gaps, names = files
    done = run("design", folder / "stations.csv", folder / "gaps.csv", "--method", "gcv", "--out", tmp_path / "d.npz")
    assert done.returncode == 0, done.stderr
    assert "have missing readings and are left out" in done.stdout
    common = (folder / "stations.csv", folder / "gaps.csv", "--weights", tmp_path / "d.npz", "--out", tmp_path / "x.npz")
    refused = run("denoise", *common)
    assert refused.returncode == 2
    assert "use `nareg interpolate`" in refused.stderr
    done = run("interpolate", *common)
    assert done.returncode == 0, done.stderr
    x = io.read_readings(tmp_path / "x.npz", names).values
    assert np.isfinite(x).all()
    filled = np.isnan(gaps)
    assert error(x[filled], truth[filled]) < 3.5


@pytest.mark.parametrize("method", ["exact", "relaxation", "oracle", "chen-liu", "sure"])
def test_every_quick_method_designs(files, tmp_path, method):
    folder, *_, names = files
    done = run(
        "design",
        folder / "stations.csv",
        folder / "readings.csv",
        "--method",
        method,
        "--noise",
        9,
        "--out",
        tmp_path / "w.csv",
    )
    assert done.returncode == 0, done.stderr
    assert np.isfinite(io.read_weights(tmp_path / "w.csv", names)).all()


def test_noise_per_station_from_a_file_and_weighted_fit(files, tmp_path):
    folder, *_, names = files
    (tmp_path / "noise.csv").write_text("station,variance\n" + "\n".join(f"{n},{4 + i}" for i, n in enumerate(names)))
    common = ("design", folder / "stations.csv", folder / "readings.csv", "--noise-fit", "--out", tmp_path / "d.npz")
    done = run(*common, "--noise", tmp_path / "noise.csv", "--method", "oracle")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(nareg.design.load(tmp_path / "d.npz").fit, 1 / (4.0 + np.arange(40)))
    # the CSV carries the data term too: both files give the same answer
    done = run(*common[:-1], tmp_path / "w.csv", "--noise", tmp_path / "noise.csv", "--method", "oracle")
    assert done.returncode == 0, done.stderr
    for weights, out in (("d.npz", "a.csv"), ("w.csv", "b.csv")):
        done = run(
            "denoise",
            folder / "stations.csv",
            folder / "readings.csv",
            "--weights",
            tmp_path / weights,
            "--out",
            tmp_path / out,
        )
        assert done.returncode == 0, done.stderr
    a, b = (io.read_readings(tmp_path / out, names).values for out in ("a.csv", "b.csv"))
    np.testing.assert_allclose(a, b, rtol=1e-9)


def test_stations_in_another_order_are_refused(files, tmp_path):
    folder, *_ = files
    lines = (folder / "stations.csv").read_text().splitlines()
    (tmp_path / "stations.csv").write_text("\n".join([lines[0], *reversed(lines[1:])]))
    assert (
        run(
            "design", folder / "stations.csv", folder / "readings.csv", "--method", "gcv", "--out", tmp_path / "d.npz"
        ).returncode
        == 0
    )
    done = run(
        "denoise",
        tmp_path / "stations.csv",
        folder / "readings.csv",
        "--weights",
        tmp_path / "d.npz",
        "--out",
        tmp_path / "x.csv",
    )
    assert done.returncode == 2
    assert "in another order" in " ".join(done.stderr.split())


def test_output_that_cannot_be_written_is_named(files, tmp_path):
    folder, *_ = files
    (tmp_path / "x.csv").mkdir()
    done = run("design", folder / "stations.csv", folder / "readings.csv", "--method", "gcv", "--out", tmp_path / "x.csv")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_graph_in_matrixmarket_format(tmp_path, rng):
    g = nareg.graphs.grid((3, 4))
    scipy.io.mmwrite(tmp_path / "g.mtx", g.adjacency)
    names = tuple(map(str, range(12)))
    io.write_readings(tmp_path / "r.csv", io.Readings(names, ("a", "b"), rng.standard_normal((12, 2))))
    io.write_weights(tmp_path / "w.csv", names, np.ones(12))
    done = run(
        "denoise",
        tmp_path / "g.mtx",
        tmp_path / "r.csv",
        "--weights",
        tmp_path / "w.csv",
        "--centre",
        "none",
        "--out",
        tmp_path / "x.csv",
    )
    assert done.returncode == 0, done.stderr
    y = io.read_readings(tmp_path / "r.csv").values
    np.testing.assert_allclose(io.read_readings(tmp_path / "x.csv").values, nareg.filters.denoise(g, 1.0, y).x)


def test_datasets_commands(tmp_path):
    assert "us-weather" in run("datasets", "list").stdout
    shown = run("datasets", "info", "molene").stdout
    for phrase in ("Licence Ouverte", "EUSIPCO 2015", "molene.npz"):
        assert phrase in shown
    assert run("datasets", "info", "nonsense").returncode == 2
    assert run("datasets", "fetch", "us-weather").returncode == 2


def test_neither_inputs_nor_settings_of_a_design_are_lost(files, tmp_path):
    folder, *_ = files
    for name in ("stations.csv", "readings.csv"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "link.csv").symlink_to("readings.csv")
    before = (tmp_path / "readings.csv").read_bytes()
    assert run("design", "stations.csv", "readings.csv", "--noise", 9, "--out", "d.npz", cwd=tmp_path).returncode == 0
    common = ("denoise", "stations.csv", "readings.csv", "--weights", "d.npz")
    for more, words in (
        (("--out", "link.csv"), "--out link.csv is readings.csv"),
        (("--out", "d.npz"), "--out d.npz is d.npz"),
        (("-k", 3), "--neighbours 3: d.npz was designed with 7"),
        (("--centre", "station"), "--centre station: d.npz was designed with global"),
    ):
        done = run(*common, *more, cwd=tmp_path)
        assert done.returncode == 2
        assert words in done.stderr
    assert run(*common, "-k", 7, "--centre", "global", cwd=tmp_path).returncode == 0
    assert run("design", "stations.csv", "readings.csv", "--noise", 9, "--out", "w.csv", cwd=tmp_path).returncode == 0
    done = run("denoise", "stations.csv", "readings.csv", "--weights", "w.csv", "-k", 0, cwd=tmp_path)
    assert done.returncode == 2
    assert "k is 0" in done.stderr
    assert (tmp_path / "readings.csv").read_bytes() == before
    nareg.design.load(tmp_path / "d.npz")


def test_a_folder_that_cannot_be_is_refused_before_anything_is_run(tmp_path):
    (tmp_path / "file").touch()
    for folder in ("file", "file/sub"):
        done = run("demo", "--out", folder, cwd=tmp_path)
        assert done.returncode == 2
        assert "a folder is expected" in done.stderr
    assert run("demo", "--seed", -1, cwd=tmp_path).returncode == 2


def test_help_shows_an_example_and_version_prints():
    for command in ("demo", "design", "denoise", "interpolate"):
        done = run(command, "--help")
        assert done.returncode == 0
        assert f"Example: nareg {command}" in done.stdout
    assert run("--version").stdout.strip() == f"nareg {nareg.__version__}"


STATIONS = "station,latitude,longitude\n" + "".join(f"s{i},{40 + i / 7:.3f},{-100 + i**2 / 50:.3f}\n" for i in range(10))
HEADER = "time," + ",".join(f"s{i}" for i in range(10))
ROW = ",".join("1.5" for _ in range(10))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"stations": "place,latitude,longitude\nA,1,2\n"}, "no column 'station'"),
        ({"stations": STATIONS.replace("s3,40.429", "s3,north")}, "line 5, column 'latitude': 'north' is not a number"),
        (
            {"stations": STATIONS.replace("s3,40.429", "s3,140.0")},
            "line 5: station 's3' is at 140.0, -99.820: a latitude",
        ),
        ({"stations": None}, "does not exist"),
        ({"stations": STATIONS[:60]}, "k is 7 but there are"),
        ({"readings": HEADER + "\nt0," + ROW.replace("1.5", "high", 1) + "\n"}, "column 's0': 'high' is not a number"),
        ({"readings": HEADER.replace("s9", "s10") + f"\nt0,{ROW}\n"}, "no column for station 's9'"),
        ({"readings": HEADER + "\nt0," + ROW.replace("1.5", "", 1) + "\n"}, "no time has a reading at every station"),
        ({"readings": HEADER + f"\nt0,{ROW}\n"}, "measurements has one column"),
        ({"options": ["--noise", "-1"]}, "--noise is -1"),
        ({"options": ["--noise", "nan"]}, "--noise is nan"),
        ({"options": ["--noise", "absent.csv"]}, "neither a number nor a CSV file"),
        ({"options": ["--noise", "1e9"]}, "no more power than noise"),
        ({"options": ["--out", "weights.txt"]}, "must end in .csv or .npz"),
        ({"options": ["--method", "magic"]}, "Invalid value"),
        ({"options": ["--method", "exact"]}, "a clean history, which does not show the noise to come"),
        ({"options": ["--out", "readings.csv"]}, "--out readings.csv is readings.csv, which would be lost"),
        ({"options": ["--noise", "9" * 400]}, "--noise is inf"),
        ({"options": ["--noise", "n" * 300]}, "neither a number nor a CSV file"),
        ({"options": ["-k", "0"]}, "k is 0"),
        ({"options": ["-k", "10"]}, "choose k from 1 to 9"),
    ],
)
def test_bad_input_ends_with_one_sentence_and_status_2(tmp_path, change, words):
    stations, readings = change.get("stations", STATIONS), change.get("readings")
    if readings is None:
        rng = np.random.default_rng(0)
        readings = (
            HEADER + "\n" + "".join(f"t{t}," + ",".join(f"{v:.3f}" for v in rng.standard_normal(10)) + "\n" for t in range(6))
        )
    if stations is not None:
        (tmp_path / "stations.csv").write_text(stations)
    (tmp_path / "readings.csv").write_text(readings)
    done = run("design", "stations.csv", "readings.csv", *change.get("options", []), cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "design.npz").exists()


def test_bad_weights_end_with_one_sentence_and_status_2(files, tmp_path):
    folder, *_, names = files
    common = ("denoise", folder / "stations.csv", folder / "readings.csv", "--out", tmp_path / "x.csv", "--weights")
    (tmp_path / "short.csv").write_text("station,weight\nstation 0,1.0\n")
    (tmp_path / "text.csv").write_text("station,weight\n" + "\n".join(f"{n},heavy" for n in names))
    (tmp_path / "bad.npz").write_text("hello")
    (tmp_path / "twice.csv").write_text("station,weight\nstation 0,1.0\nstation 0,2.0\n")
    other = nareg.design.node_invariant(
        nareg.graphs.grid((5, 8)), rule="gcv", measurements=np.random.default_rng(0).random((40, 9))
    )
    other.save(tmp_path / "other.npz")
    for name, words in (
        ("short.csv", "no weight for station 'station 1'"),
        ("text.csv", "'heavy' is not a number"),
        ("bad.npz", "is not a design"),
        ("other.npz", "another graph"),
        ("twice.csv", "'station 0' is listed twice"),
        ("absent.csv", "does not exist"),
        ("absent.npz", "does not exist"),
    ):
        done = run(*common, tmp_path / name)
        assert done.returncode == 2, name
        assert words in " ".join(done.stderr.split()), name
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "x.csv").exists()


def test_interpolate_warns_of_stations_whose_estimates_are_inflated(tmp_path):
    (tmp_path / "stations.csv").write_text("station,x,y\na,0,0\nb,1,0\nc,2,0\n")
    (tmp_path / "readings.csv").write_text("time,a,b,c\n0,1.0,,3.0\n1,2.0,2.0,2.0\n")
    (tmp_path / "weights.csv").write_text("station,weight\na,1.0\nb,0.01\nc,1.0\n")
    done = run("interpolate", "stations.csv", "readings.csv", "--weights", "weights.csv", "--neighbours", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "station b can be 1" in " ".join(done.stderr.split())
