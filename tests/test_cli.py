"""The command line as a user runs it: what it designs, denoises and prints."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg import io
from tests.command_line import process, run
from tests.helpers import at_night


def error(x: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((x - truth) ** 2)))


@pytest.mark.slow
@pytest.mark.parametrize("out", ["weights.csv", "design.npz"])
def test_design_then_denoise(station_files, tmp_path, out):
    folder, truth, noisy, _, names = station_files
    done = process("design", folder / "stations.csv", folder / "readings.csv", "--noise", 9, "--out", tmp_path / out)
    assert done.returncode == 0, done.stderr
    assert "blind: " in done.stdout
    done = run(
        "denoise", folder / "stations.csv", folder / "readings.csv", "--weights", tmp_path / out, "--out", tmp_path / "x.csv"
    )
    assert done.returncode == 0, done.stderr
    assert "relative residual" in done.stdout
    x = io.read_readings(tmp_path / "x.csv", names).values
    assert error(x, truth) < 0.7 * error(noisy, truth)


def test_design_with_gaps_then_interpolate(station_files, tmp_path):
    folder, truth, _, gaps, names = station_files
    done = run("design", folder / "stations.csv", folder / "gaps.csv", "--method", "gcv", "--out", tmp_path / "d.npz")
    assert done.returncode == 0, done.stderr
    assert f"{int(np.isnan(gaps).sum())} of {gaps.size} readings are missing; the design uses all others" in done.stdout
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


@pytest.fixture(scope="module")
def faulty(station_files, tmp_path_factory):
    """The same stations with gaps at every time, a dead station and a stuck one; and a design for them."""
    folder, truth, noisy, _, names = station_files
    own = tmp_path_factory.mktemp("faulty")
    gaps = np.where(np.random.default_rng(1).random(truth.shape) < 0.2, np.nan, noisy)
    gaps[3], gaps[5] = np.nan, 7.0
    times = tuple(map(str, range(80)))
    io.write_readings(own / "gaps.csv", io.Readings(names, times, gaps))
    io.write_readings(own / "fahrenheit.csv", io.Readings(names, times, gaps * 1.8 + 32))
    one = np.where(np.arange(40)[:, None] == 8, gaps * 1.8 + 32, gaps)
    io.write_readings(own / "one.csv", io.Readings(names, times, one))
    done = run("design", folder / "stations.csv", own / "gaps.csv", "--out", own / "d.npz")
    assert done.returncode == 0, done.stderr
    return own, done, gaps


@pytest.mark.slow
def test_a_dead_and_a_stuck_station_are_named_and_gaps_at_every_time_used(station_files, faulty, tmp_path):
    folder, truth, *_, names = station_files
    own, done, gaps = faulty
    assert not np.isfinite(gaps).all(axis=0).any()
    assert "no reading from station 'station 3': left out of the design" in done.stdout
    assert "noise estimated: standard deviation" in done.stdout
    assert "variance" in done.stdout
    assert "the same reading at all times from station 'station 5'" in done.stderr
    common = (folder / "stations.csv", own / "gaps.csv", "--weights", own / "d.npz", "--out", tmp_path / "x.csv")
    done = run("interpolate", *common)
    assert done.returncode == 0, done.stderr
    x = io.read_readings(tmp_path / "x.csv", names).values
    assert np.isfinite(x).all()
    rest = np.setdiff1d(np.arange(40), [3, 5])
    missing = np.isnan(gaps)
    assert error(x[rest][~missing[rest]], truth[rest][~missing[rest]]) < 0.85 * 3.0
    assert error(x[rest][missing[rest]], truth[rest][missing[rest]]) < 5.0


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exact", "oracle", "gcv", "sure", *at_night(["minmax"])])
def test_a_clean_history_with_gaps_and_a_dead_station(station_files, faulty, tmp_path, method):
    folder, *_ = station_files
    own, *_ = faulty
    common = ("design", folder / "stations.csv", own / "gaps.csv", "--method", method, "--noise-std", 3)
    done = run(*common, "--center", "station", "--out", tmp_path / "d.npz")
    assert done.returncode == 0, done.stderr
    assert "noise given: standard deviation 3, variance 9" in done.stdout
    design = nareg.design.load(tmp_path / "d.npz")
    assert design.n_nodes == 40
    assert design.certificate.details["left_out"] == ["node 3 ('station 3')"]
    done = run(
        "interpolate", folder / "stations.csv", own / "gaps.csv", "--weights", tmp_path / "d.npz", "--out", tmp_path / "x.csv"
    )
    assert done.returncode == 0, done.stderr


def test_an_edge_design_needs_readings_of_every_station(station_files, faulty, tmp_path):
    folder, *_ = station_files
    own, *_ = faulty
    common = ("design", folder / "stations.csv", "--method", "edge", "--noise", 9, "--out", tmp_path / "d.npz")
    done = run(*common, own / "gaps.csv")
    assert done.returncode == 2
    assert "--method edge needs readings of every station, but there is none of station 'station 3': drop it" in " ".join(
        done.stderr.split()
    )
    assert run(*common, folder / "gaps.csv").returncode == 0


@pytest.mark.slow
def test_readings_in_another_unit_than_the_designs_are_refused(station_files, faulty, tmp_path):
    folder, *_ = station_files
    own, *_ = faulty
    common = ("interpolate", folder / "stations.csv", "--weights", own / "d.npz", "--out", tmp_path / "x.csv")
    done = run(*common, own / "fahrenheit.csv")
    assert done.returncode == 2
    assert "the readings are 52.5" in done.stderr
    assert "was designed for 11.4" in done.stderr
    assert "--allow-unlike" in done.stderr
    assert not (tmp_path / "x.csv").exists()
    done = run(*common, own / "fahrenheit.csv", "--allow-unlike")
    assert done.returncode == 0, done.stderr
    assert "was designed for 11.4" in done.stderr
    done = run(*common, own / "one.csv")
    assert done.returncode == 0, done.stderr
    assert "station 'station 8' reads 5" in done.stderr
    assert "may have changed" in done.stderr


def test_a_design_from_one_half_of_the_year_accepts_the_other(station_files, tmp_path):
    """Seasons differ, and that is no other unit."""
    folder, *_, names = station_files
    us = nareg.datasets.load("us-weather").complete().select(np.arange(40))
    for name, part in (("first.csv", slice(0, 180)), ("second.csv", slice(180, 365))):
        table = io.Readings(names, tuple(map(str, us.times[part])), us.signals[:, part])
        io.write_readings(tmp_path / name, table)
    done = run("design", folder / "stations.csv", "first.csv", "--method", "gcv", "--out", "d.npz", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = run("denoise", folder / "stations.csv", "second.csv", "--weights", "d.npz", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr


@pytest.mark.parametrize("method", ["exact", "relaxation", "oracle", "chen-liu", "sure"])
def test_every_quick_method_designs(station_files, tmp_path, method):
    folder, *_, names = station_files
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


def test_noise_per_station_from_a_file_and_weighted_fit(station_files, tmp_path):
    folder, *_, names = station_files
    (tmp_path / "noise.csv").write_text("station,variance\n" + "\n".join(f"{n},{4 + i}" for i, n in enumerate(names)))
    common = ("design", folder / "stations.csv", folder / "readings.csv", "--noise-weighted", "--out", tmp_path / "d.npz")
    done = run(*common, "--noise", tmp_path / "noise.csv", "--method", "oracle")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(nareg.design.load(tmp_path / "d.npz").data_weight, 1 / (4.0 + np.arange(40)))
    (tmp_path / "std.csv").write_text(
        "station,std\n" + "\n".join(f"{n},{float(np.sqrt(4 + i))!r}" for i, n in enumerate(names))
    )
    done = run(*common, "--noise-std", tmp_path / "std.csv", "--method", "oracle")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(nareg.design.load(tmp_path / "d.npz").data_weight, 1 / (4.0 + np.arange(40)))
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
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10 * np.abs(a).max())  # some readings are near zero


@pytest.mark.parametrize(("option", "column"), [("--noise", "variance"), ("--noise-std", "std")])
def test_a_noise_file_may_list_stations_without_a_column(station_files, tmp_path, option, column):
    folder, _, noisy, _, names = station_files
    io.write_readings(tmp_path / "fewer.csv", io.Readings(names[1:], tuple(map(str, range(80))), noisy[1:]))
    numbers = 2.0 + np.arange(40) / 40
    (tmp_path / "n.csv").write_text(f"station,{column}\n" + "\n".join(f"{n},{v}" for n, v in zip(names, numbers, strict=True)))
    common = ("design", folder / "stations.csv", "fewer.csv", "--noise-weighted", "--method", "gcv", "--out", "d.npz", option)
    done = run(*common, "n.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 station has no column and is left out: 'station 0'" in done.stderr
    variance = numbers[1:] if option == "--noise" else numbers[1:] ** 2
    np.testing.assert_allclose(nareg.design.load(tmp_path / "d.npz").data_weight, 1 / variance)
    (tmp_path / "n.csv").write_text((tmp_path / "n.csv").read_text() + "\nelsewhere,1")
    done = run(*common, "n.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert f"'elsewhere' is not in the station file: pass the {column} of this network" in done.stderr


def test_an_unknown_command_suggests_one_that_is_there():
    done = run("clen")
    assert (done.returncode, "Did you mean 'clean'?" in done.stderr) == (2, True)
