"""``nareg.explore``: its sources, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import nareg
from nareg.cli import app
from nareg.errors import InputError, TooLargeError
from nareg.explorer._explore import basis
from nareg.explorer._payload import SNRS, design_grid
from nareg.explorer._source import MAX_READINGS, MAX_STATIONS, Scene, assembled
from tests.explorer.page_data import decode, unpack

from .conftest import data_of


def run(*arguments: object):
    return CliRunner().invoke(app, ["explore", *map(str, arguments)])


@pytest.fixture(scope="module")
def small() -> nareg.datasets.SimulatedNetwork:
    return nareg.datasets.simulated(6, 40, faults=("stuck",), rng=np.random.default_rng(1))


@pytest.mark.slow
def test_two_files_give_a_page(small, tmp_path):
    small.to_csv(tmp_path)
    done = run(tmp_path / "stations.csv", tmp_path / "readings.csv", "--out", tmp_path / "page.html", "--unit", "°C")
    assert done.exit_code == 0, done.output
    assert done.stdout.strip().splitlines()[-1].endswith("page.html: open it in a browser")
    data = data_of(tmp_path / "page.html")
    assert data["names"] == list(small.names)
    assert data["unit"] == "°C"
    assert data["truth"] is None
    assert data["geographic"] is True
    for suspect in data["suspects"]:
        assert suspect["evidence"] in " ".join(done.stdout.split())


def test_a_simulation_brings_its_truth(small, tmp_path):
    stages: list[tuple[str, float]] = []
    page = nareg.explore(small, path=tmp_path / "page.html", progress=lambda now: stages.append((now.stage, now.fraction)))
    data = data_of(page)
    truth = unpack(data["truth"], small.truth.shape)
    np.testing.assert_allclose(truth, small.truth, atol=0.51 * data["truth"]["step"])
    fractions = [fraction for _, fraction in stages]
    assert fractions == sorted(fractions)
    assert stages[-1] == ("done", 1.0)


def test_designs_and_moment_are_those_of_the_learned_times(cleaned, page):
    scene = Scene(cleaned, "", None, record=False, source="")
    field, own = basis(scene)
    assert own == pytest.approx(max(cleaned.reading_error**2, 0))
    graph = cleaned.network.graph
    grid = design_grid(graph, field, own, lambda stage, share: None)
    learned = np.repeat([True, False] * 5, [8, 7, 7, 7, 7, 8, 7, 7, 7, 7])
    past = field[:, learned] - field[:, learned].mean(axis=1, keepdims=True)
    np.testing.assert_array_equal(grid.learned, learned)
    np.testing.assert_allclose(grid.moment, past @ past.T / learned.sum())
    assert grid.variances[0] == own
    np.testing.assert_allclose(np.array(grid.variances[1:]) - own, np.mean(past**2) / 10 ** (np.array(SNRS[1:], float) / 10))
    data = data_of(page)
    for k, noise in enumerate(grid.variances):
        again = nareg.design.edge(graph, signals=past, noise=noise)
        stored = decode(data["designs"]["edge"][k], "float64")
        np.testing.assert_allclose(stored[: graph.n_nodes], again.matrix.diagonal(), rtol=1e-9)
        one = nareg.design.node_invariant(graph, rule="oracle", signals=past, noise=noise)
        assert data["designs"]["one"][k] == pytest.approx(one.weights[0], rel=1e-9)


def test_places_without_degrees_have_no_coast(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"p{i}" for i in range(5)]
    (tmp_path / "stations.csv").write_text("station,x,y\n" + "".join(f"{n},{10 * i},{i * i}\n" for i, n in enumerate(names)))
    nareg.io.write_readings(
        tmp_path / "readings.csv", nareg.io.Readings(tuple(names), tuple(map(str, range(30))), rng.normal(size=(5, 30)))
    )
    data = data_of(nareg.explore(tmp_path / "readings.csv", tmp_path / "stations.csv", path=tmp_path / "page.html"))
    assert data["geographic"] is False
    assert data["coast"] == {"land": [], "borders": []}


def test_one_table_is_not_taken_for_the_name_of_a_network(tmp_path):
    result = run(tmp_path / "stations.csv")
    assert result.exit_code == 2
    assert "is one table and there is no second: pass stations.csv and readings.csv" in result.stderr


def test_too_few_readings_for_a_model_still_make_a_page(small, tmp_path):
    few = replace(small, readings=small.readings[:, :6], truth=small.truth[:, :6], times=small.times[:6], bad=small.bad[:, :6])
    data = data_of(nareg.explore(few, path=tmp_path / "page.html"))
    assert data["scores"] is None
    assert data["cleaned"]["model"] is False
    assert data["learned"] == [1] * 6


@pytest.mark.parametrize(
    ("source", "stations", "message"),
    [
        ("no-such-network", None, "source is 'no-such-network': pass readings with their stations, or the name of a sensor"),
        ("cora", None, "source is 'cora': pass readings"),
        (3, None, "source is a int without stations"),
    ],
)
def test_other_sources_are_refused(source, stations, message, tmp_path):
    with pytest.raises(InputError, match=message):
        nareg.explore(source, stations, path=tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_stations_given_twice_are_refused(small, cleaned, tmp_path):
    for source in (small, cleaned):
        with pytest.raises(InputError, match="omit stations"):
            nareg.explore(source, small.graph(3), path=tmp_path / "page.html")


def wide(n: int, n_times: int) -> tuple[nareg.io.Readings, nareg.io.Stations]:
    names = tuple(map(str, range(n)))
    places = np.column_stack([np.linspace(0, 40, n), np.linspace(0, 10, n)])
    readings = nareg.io.Readings(names, tuple(map(str, range(n_times))), np.ones((n, n_times)))
    return readings, nareg.io.Stations(names, places, "haversine")


def test_networks_that_do_not_fit_are_refused_before_any_work():
    with pytest.raises(TooLargeError, match=f"at most {MAX_STATIONS}: pass the stations of one region"):
        assembled(*wide(MAX_STATIONS + 1, 2), unit=None)
    with pytest.raises(TooLargeError, match="pass 4000 times or fewer"):
        assembled(*wide(100, MAX_READINGS // 100 + 1), unit=None)
    with pytest.raises(InputError, match="at least 2"):
        assembled(*wide(1, 20), unit=None)


def test_constant_readings_are_refused(tmp_path):
    readings, stations = wide(4, 30)
    with pytest.raises(InputError, match="readings are constant"):
        nareg.explore(readings, stations, path=tmp_path / "page.html")


def test_graphs_without_coordinates_or_edges_are_refused(small):
    readings = nareg.io.Readings(small.names, tuple(map(str, small.times)), small.readings, small.times)
    graph = nareg.Graph(small.graph(3).adjacency, names=small.names)
    with pytest.raises(InputError, match="no two-dimensional coordinates"):
        assembled(readings, graph, unit=None)
    lonely = nareg.Graph(np.zeros((6, 6)), coordinates=small.coordinates, names=small.names)
    with pytest.raises(InputError, match="have no edges"):
        assembled(readings, lonely, unit=None)


def test_bad_command_lines(small, tmp_path):
    small.to_csv(tmp_path)
    files = tmp_path / "stations.csv", tmp_path / "readings.csv"
    for arguments, message in (
        (("no-such-network",), "source is 'no-such-network'"),
        ((*files, "--out", tmp_path / "page.pdf"), "must end in .html"),
        ((tmp_path / "absent.csv", files[1]), "absent.csv"),
    ):
        done = run(*arguments)
        assert done.exit_code == 2
        assert message in " ".join(done.output.split())


@pytest.mark.nightly
def test_the_bundled_network_is_small_and_loads(show, tmp_path, record_property):
    page = nareg.explore("us-weather", path=tmp_path / "us.html")
    assert page.stat().st_size < 5_000_000
    browser = show(page, "m=edge&snr=5&miss=20")
    paint = browser.execute_script("return performance.getEntriesByName('first-contentful-paint')[0].startTime")
    record_property("first contentful paint, ms", paint)
    assert browser.execute_script("return document.querySelectorAll('.dot[data-station]').length") == 144
