"""What the command line reads, refuses in one sentence, and never writes over."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import scipy.io

import nareg
from nareg import io
from tests.command_line import process, run


def test_stations_in_another_order_are_refused(station_files, tmp_path):
    folder, *_ = station_files
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


def test_output_that_cannot_be_written_is_named(station_files, tmp_path):
    folder, *_ = station_files
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
        "--center",
        "none",
        "--out",
        tmp_path / "x.csv",
    )
    assert done.returncode == 0, done.stderr
    y = io.read_readings(tmp_path / "r.csv").values
    np.testing.assert_allclose(io.read_readings(tmp_path / "x.csv").values, nareg.filters.denoise(g, 1.0, y).x)


def test_datasets_commands(tmp_path):
    listed = run("datasets", "list", columns=80).stdout
    for name in nareg.datasets.names():  # whole, in a terminal of the least width
        assert f" {name} " in listed
    shown = run("datasets", "info", "molene").stdout
    for phrase in ("Licence Ouverte", "EUSIPCO 2015", "molene.npz"):
        assert phrase in shown
    assert run("datasets", "info", "nonsense").returncode == 2
    assert run("datasets", "fetch", "us-weather").returncode == 2
    wide = run("datasets", "list", columns=200).stdout
    for words in ("│ cora ", "│ 0.1 MB ", "License: ODC-BY", "Cite: Menne", "`nareg datasets fetch NAME` downloads"):
        assert words in wide
    shown = run("datasets", "info", "cora").stdout
    for words in (
        "from: https://raw.githubusercontent.com/kimiyoung/planetoid/",
        "digest of its arrays ",
        "datasets fetch cora",
    ):
        assert words in shown
    shown = run("datasets", "info", "noaa-109").stdout
    for words in (
        "climate normals 1981-2010",
        "not measurements of 2010",
        "hold the same series",
        "public domain",
        "bundled sha256",
    ):
        assert words in shown
    assert "fetch" not in shown


def test_datasets_fetch_writes_what_load_reads(data_root, tmp_path):
    """Without a network: the source's files lie in the folder of downloads."""
    if not (data_root / "planetoid_raw").is_dir():
        pytest.skip("the data folder has no planetoid_raw")
    shutil.copytree(data_root / "planetoid_raw", tmp_path / "downloads" / "citeseer", copy_function=shutil.copyfile)
    done = run("datasets", "fetch", "citeseer", "--folder", tmp_path, columns=400)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"ready: {tmp_path / 'planetoid' / 'citeseer.npz'}"
    data = nareg.datasets.load("citeseer", root=tmp_path)
    assert data.graph == nareg.datasets.load("citeseer", root=data_root).graph
    assert run("datasets", "fetch", "noaa-109", "--folder", tmp_path).returncode == 2


@pytest.mark.slow
def test_neither_inputs_nor_settings_of_a_design_are_lost(station_files, tmp_path):
    folder, *_ = station_files
    for name in ("stations.csv", "readings.csv"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "link.csv").symlink_to("readings.csv")
    before = (tmp_path / "readings.csv").read_bytes()
    assert run("design", "stations.csv", "readings.csv", "--noise", 9, "--out", "d.npz", cwd=tmp_path).returncode == 0
    common = ("denoise", "stations.csv", "readings.csv", "--weights", "d.npz")
    for more, words in (
        (("--out", "link.csv"), "--out link.csv would overwrite the input readings.csv"),
        (("--out", "d.npz"), "--out d.npz would overwrite the input d.npz"),
        (("-k", 3), "--neighbors 3: d.npz uses k = 7: omit --neighbors or redesign."),
        (("--center", "station"), "--center station: d.npz uses center = global: omit --center or redesign."),
    ):
        done = run(*common, *more, cwd=tmp_path)
        assert done.returncode == 2
        assert words in done.stderr
    assert run(*common, "-k", 7, "--center", "global", cwd=tmp_path).returncode == 0
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
        assert "name a folder" in done.stderr
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
        ({"stations": "place,latitude,longitude\n1,1,2\n"}, "no column 'station'"),
        ({"stations": STATIONS.replace("s3,40.429", "s3,north")}, "line 5, column 'latitude': 'north' is not a number"),
        (
            {"stations": STATIONS.replace("s3,40.429", "s3,140.0")},
            "line 5: station 's3' is at 140.0, -99.820: write a latitude",
        ),
        ({"stations": None}, "does not exist"),
        ({"stations": STATIONS[:60]}, "k is 7 but there are"),
        ({"readings": HEADER + "\nt0," + ROW.replace("1.5", "high", 1) + "\n"}, "column 's0': 'high' is not a number"),
        (
            {"readings": HEADER.replace("s9", "s10") + f"\nt0,{ROW}\n", "options": ["--strict"]},
            "column 's10' is not a station",
        ),
        ({"readings": HEADER + "\nt0,,2" + 8 * ",3" + "\n"}, "observed leaves no station with two readings"),
        ({"readings": HEADER + "\nt0,1,2" + 8 * ",3" + "\n"}, "measurements has one column"),
        ({"readings": HEADER + f"\nt0,{ROW}\nt1,{ROW}\n"}, "all readings are (nearly) 1.5: pass readings that vary"),
        ({"readings": HEADER + "\nt0" + 10 * "," + "\n"}, "contains no reading: pass"),
        (
            {"readings": HEADER + "\nt0,1" + 9 * "," + "\nt1,2" + 9 * "," + "\n", "options": ["--noise-std", "0.1"]},
            "one station",
        ),
        ({"options": ["--noise", "0"]}, "--noise is 0, so there is no noise to remove"),
        ({"options": ["--noise-std", "-1"]}, "--noise-std is -1"),
        ({"options": ["--noise-std", "1", "--noise", "1"]}, "give one of them"),
        ({"options": ["--noise-std", "40", "--method", "gcv"]}, "variance 1600 (standard deviation 40) is not below"),
        ({"options": ["--noise", "-1"]}, "--noise is -1"),
        ({"options": ["--noise", "nan"]}, "--noise is nan"),
        ({"options": ["--noise", "absent.csv"]}, "neither a number nor a CSV file"),
        ({"options": ["--noise", "1e9"]}, "no signal would be left"),
        ({"options": ["--out", "weights.txt"]}, "must end in .csv or .npz"),
        ({"options": ["--method", "magic"]}, "Invalid value"),
        ({"options": ["--method", "exact"]}, "a clean history, which contains no noise: pass"),
        ({"options": ["--out", "readings.csv"]}, "--out readings.csv would overwrite the input readings.csv"),
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


@pytest.mark.slow
def test_a_process_shows_a_sentence_and_no_traceback(tmp_path):
    done = process("design", "absent.csv", "readings.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("absent.csv does not exist.")
    assert "Traceback" not in done.stderr
    assert process("--version").stdout.strip() == f"nareg {nareg.__version__}"


def test_bad_weights_end_with_one_sentence_and_status_2(station_files, tmp_path):
    folder, *_, names = station_files
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
        ("twice.csv", "'station 0' appears twice"),
        ("absent.csv", "does not exist"),
        ("absent.npz", "does not exist"),
    ):
        done = run(*common, tmp_path / name)
        assert done.returncode == 2, name
        assert words in " ".join(done.stderr.split()), name
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "x.csv").exists()


def test_a_strangers_files_are_read_and_every_guess_is_printed(station_files, tmp_path):
    folder, _, noisy, _, _ = station_files
    stations = io.read_stations(folder / "stations.csv")
    rows = "".join(f"S{i};{a};{b};7\n" for i, (a, b) in enumerate(stations.coordinates))
    (tmp_path / "stations.csv").write_text("ID;Lat;Lng;Straße\n" + rows.replace(".", ","), encoding="latin-1")
    lines = ["Datum;" + ";".join(f"s{i}" for i in range(39)) + ";battery"]
    for t in range(40):
        cells = [f"{v:.2f}".replace(".", ",") for v in noisy[:39, t]]
        if t % 10 == 3:
            cells[t // 4] = "-9999"
        lines.append(";".join([f"{t % 28 + 1:02d}.{t // 28 + 1:02d}.2024", *cells, "ok"]))
    (tmp_path / "readings.csv").write_text("\n".join(lines))
    done = run("design", "stations.csv", "readings.csv", "--method", "gcv", "--out", "d.npz", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for words in (
        "stations.csv: the text is not UTF-8 and is read as Latin-1.",
        "separated by a semicolon",
        "read with a decimal comma",
        "1 column is not needed and left out: 'Straße'",
        "column 'Datum' holds the times",
        "39 columns are matched with a station by ignoring case, spaces or leading zeros: 's0' is taken as 'S0'",
        "1 column is not in the station table and left out: 'battery'",
        "-9999 appears in 4 cells",
        "read day first, as '13.01.2024' shows",
        "1 station has no column and is left out: 'S39'",
    ):
        assert words in done.stderr
    # the design's stations are taken, of a table without one of them too, which is filled in
    (tmp_path / "fewer.csv").write_text((tmp_path / "readings.csv").read_text().replace(";s38;", ";other;"))
    done = run("interpolate", "stations.csv", "fewer.csv", "--weights", "d.npz", "--out", "x.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = io.read_readings(tmp_path / "x.csv")
    assert table.names == tuple(f"S{i}" for i in range(39))
    assert table.times[:2] == ("01.01.2024", "02.01.2024")
    assert table.observed.all()
    for command in (("design",), ("interpolate", "--weights", "d.npz"), ("denoise", "--weights", "d.npz")):
        done = run(command[0], "stations.csv", "readings.csv", *command[1:], "--strict", cwd=tmp_path)
        assert done.returncode == 2
        assert "the text is not UTF-8; save it as CSV UTF-8" in done.stderr


def test_interpolate_warns_of_stations_whose_estimates_are_inflated(tmp_path):
    (tmp_path / "stations.csv").write_text("station,x,y\na,0,0\nb,1,0\nc,2,0\n")
    (tmp_path / "readings.csv").write_text("time,a,b,c\n0,1.0,,3.0\n1,2.0,2.0,2.0\n")
    (tmp_path / "weights.csv").write_text("station,weight\na,1.0\nb,0.01\nc,1.0\n")
    done = run("interpolate", "stations.csv", "readings.csv", "--weights", "weights.csv", "--neighbors", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "station 'b' could be 1" in " ".join(done.stderr.split())
    assert "weighted like their neighbors in 1 of 2 signals" in " ".join(done.stderr.split())
    b = io.read_readings(tmp_path / "filled.csv").values[1]
    assert 1.0 <= b[0] <= 3.0


def test_one_of_two_quantities_is_designed_for_and_filtered(tmp_path, rng):
    values = {"temperature": 10 + rng.normal(size=(12, 9)), "pressure": 1000 + rng.normal(size=(12, 9))}
    lines = ["station,latitude,longitude", *(f"S{i},48.{i},-4.{i}" for i in range(9))]
    (tmp_path / "stations.csv").write_text("\n".join(lines))
    rows = [
        f"2024-05-01 {t:02},S{i},{kind},{value[t, i]}" for t in range(12) for i in range(9) for kind, value in values.items()
    ]
    (tmp_path / "readings.csv").write_text("\n".join(["time,station,variable,value", *rows]))
    tables = (tmp_path / "stations.csv", tmp_path / "readings.csv")
    design, method = tmp_path / "d.npz", ("--method", "gcv", "--out", tmp_path / "d.npz")
    assert "name it by --value" in " ".join(run("design", *tables, *method).stderr.split())
    assert run("design", *tables, *method, "--value", "pressure", "--value", "temperature").returncode == 2
    assert run("design", *tables, *method, "--value", "pressure").returncode == 0
    done = run("denoise", *tables, "--weights", design, "--value", "pressure", "--out", tmp_path / "x.csv")
    assert done.returncode == 0, done.stderr
    estimate = io.read_readings(tmp_path / "x.csv").values
    assert abs(estimate.mean() - values["pressure"].mean()) < 1e-6


def test_columns_are_not_named_for_a_folder_of_a_graph(tmp_path):
    nareg.graphs.grid((2, 2)).save(tmp_path / "g.graph")
    np.save(tmp_path / "y.npy", np.ones((4, 2)))
    np.save(tmp_path / "w.npy", np.ones(4))
    common = ("denoise", "g.graph", "y.npy", "--weights", "w.npy", "--out", "x.npy")
    refused = run(*common, "--value", "pressure", cwd=tmp_path)
    assert refused.returncode == 2
    assert "options of columns are for tables" in refused.stderr
    assert run(*common, cwd=tmp_path).returncode == 0
