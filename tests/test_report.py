from __future__ import annotations

import csv
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest

from nareg import datasets, plotting
from nareg.cli import demo_protocol as protocol
from nareg.cli import demo_report as report
from nareg.errors import InputError
from nareg.graph import Graph
from tests.helpers import at_night


@pytest.fixture(scope="module", params=["molene", *at_night(["us-weather"])])
def asked(request):
    if request.param == "molene":
        request.getfixturevalue("data_root")
    return protocol.DemoSettings(dataset=request.param, snr_db=(0.0,), seed=3)


@pytest.fixture(scope="module")
def outcome(asked):
    return protocol.run(asked)


@pytest.mark.slow
def test_report_is_self_contained_and_its_numbers_are_the_scores(outcome, tmp_path):
    page = report.write(outcome, tmp_path / "out").read_text()
    assert not re.search(r"(src|href)=\"(?!data:)", page), "the page refers to something outside itself"
    assert page.count("data:image/png;base64,") == 6
    for score in report.table(outcome, "equal") + report.table(outcome, "unequal"):
        assert f"{score.nmse:.4f}" in page
    pictures = sorted(p.name for p in (tmp_path / "out").glob("*.png"))
    assert pictures == ["bias_variance.png", "day.png", "network.png", "nmse.png", "series.png", "weights.png"]
    for name in pictures:
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader((tmp_path / "out" / "scores.csv").read_text().splitlines()))
    assert len(rows) == len(outcome.scores)
    assert float(rows[0]["nmse"]) == outcome.scores[0].nmse


@pytest.mark.slow
def test_demo_scores_are_consistent(outcome):
    for s in outcome.scores:
        assert s.nmse == pytest.approx(s.bias + s.variance)
        assert s.nmse >= outcome.lmmse[s.noise, s.split, 0.0] * (1 - 1e-9)
    # measured on one draw a day against the expected value in closed form
    noise_power = next(s.nmse for s in outcome.scores if s.method == "no filter" and s.split == "random days")
    for s in report.table(outcome, "equal"):
        assert s.removed == pytest.approx(1 - s.nmse / noise_power, abs=0.02)
    by_name = {(s.noise, s.method): s for s in outcome.scores if s.split == "random days"}
    assert by_name["equal", "no filter"].removed == 0.0
    assert by_name["equal", "exact"].nmse < by_name["equal", "one weight, best"].nmse
    assert (
        by_name["unequal", "exact, noise-weighted fit"].nmse < by_name["unequal", "one weight, best, noise-weighted fit"].nmse
    )
    assert by_name["unequal", "one weight, best, noise-weighted fit"].nmse < by_name["unequal", "exact"].nmse


@pytest.mark.slow
def test_demo_is_reproducible(asked, outcome):
    again = protocol.run(asked)
    for a, b in zip(outcome.scores, again.scores, strict=True):
        assert (a.method, a.nmse, a.removed) == (b.method, b.nmse, b.removed)


def test_jackknife_of_independent_days_is_the_ratio_estimator(rng):
    above, below = rng.random(2800) + 1, rng.random(2800) + 1
    ratio, error = protocol._jackknife(above, below)
    residual = above - ratio * below
    assert ratio == pytest.approx(above.sum() / below.sum())
    assert error == pytest.approx(residual.std() * np.sqrt(2800) / below.sum(), rel=0.15)


def test_one_missing_value_does_not_collapse_the_color_scale(rng):
    graph = Graph.from_knn(rng.random((10, 2)), 3)
    values = np.arange(10.0)
    values[[0, 4]] = np.nan, np.inf
    axes = plotting.network(graph, values, label="height (m)")
    rings, drawn = axes.collections[-2:]
    assert drawn.get_clim() == (1.0, 9.0)
    assert len(drawn.get_offsets()) == 8
    assert len(rings.get_offsets()) == 2
    plt.close(axes.figure)
    with pytest.raises(InputError, match="no finite entry"):
        plotting.network(graph, np.full(10, np.nan))


def test_plotting_needs_coordinates(rng):
    with pytest.raises(InputError, match="no two-dimensional coordinates"):
        plotting.network(Graph(np.ones((3, 3)) - np.eye(3)))
    axes = plotting.network(Graph.from_knn(rng.random((10, 2)), 3), np.arange(10.0), label="height (m)")
    assert axes.figure.axes[1].get_ylabel() == "height (m)"


def test_a_map_has_a_coastline_below_the_stations_and_the_stations_limits():
    places = datasets.load("us-weather").coordinates
    graph = Graph.from_knn(places, 3, metric="haversine")
    with_coast, without = plotting.network(graph), plotting.network(graph, coast=False)
    assert len(with_coast.collections) == len(without.collections) + 2
    land = with_coast.collections[0]
    assert land.get_zorder() < with_coast.collections[-1].get_zorder()
    assert any(path.contains_point((-98.0, 39.0)) for path in land.get_paths())  # Kansas
    assert not any(path.contains_point((-75.0, 31.0)) for path in land.get_paths())  # Atlantic
    for axis in ("x", "y"):
        np.testing.assert_allclose(getattr(with_coast, f"get_{axis}lim")(), getattr(without, f"get_{axis}lim")())
    flat = plotting.network(Graph.from_knn(places, 3, metric="euclidean"))
    assert len(flat.collections) == len(without.collections)
