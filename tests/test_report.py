from __future__ import annotations

import csv
import re

import numpy as np
import pytest

from nareg import demo, plotting, report
from nareg.errors import InputError
from nareg.graph import Graph


@pytest.fixture(scope="module")
def outcome():
    return demo.run(demo.Settings(snr_db=(0.0,), seed=3))


@pytest.mark.slow
def test_report_is_self_contained_and_its_numbers_are_the_scores(outcome, tmp_path):
    page = report.write(outcome, tmp_path / "out").read_text()
    assert not re.search(r"(src|href)=\"(?!data:)", page), "the page refers to something outside itself"
    assert page.count("data:image/png;base64,") == 6
    for score in outcome.scores:
        assert f"{score.nmse:.4f}" in page
    pictures = sorted(p.name for p in (tmp_path / "out").glob("*.png"))
    assert pictures == ["bias_variance.png", "day.png", "network.png", "nmse.png", "series.png", "weights.png"]
    for name in pictures:
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader((tmp_path / "out" / "scores.csv").open()))
    assert len(rows) == len(outcome.scores)
    assert float(rows[0]["nmse"]) == outcome.scores[0].nmse


@pytest.mark.slow
def test_demo_scores_are_consistent(outcome):
    by_name = {(s.noise, s.method): s for s in outcome.scores}
    for (noise, _), s in by_name.items():
        assert s.nmse >= 0.95 * outcome.lmmse[noise, 0.0]
        if np.isfinite(s.bias):
            # measured on one draw a day against the expected value in closed form
            assert abs(s.nmse - s.bias - s.variance) < 5 * s.nmse_error
    assert by_name["equal", "no filter"].removed == 0.0
    assert by_name["equal", "exact"].nmse < by_name["equal", "one weight, best"].nmse
    assert (
        by_name["unequal", "exact, noise-weighted fit"].nmse < by_name["unequal", "one weight, best, noise-weighted fit"].nmse
    )
    assert by_name["unequal", "one weight, best, noise-weighted fit"].nmse < by_name["unequal", "exact"].nmse


@pytest.mark.slow
def test_demo_is_reproducible(outcome):
    again = demo.run(demo.Settings(snr_db=(0.0,), seed=3))
    for a, b in zip(outcome.scores, again.scores, strict=True):
        assert (a.method, a.nmse, a.bias) == (b.method, b.nmse, b.bias) or np.isnan(a.bias)


def test_plotting_needs_coordinates(rng):
    with pytest.raises(InputError, match="no two-dimensional coordinates"):
        plotting.network(Graph(np.ones((3, 3)) - np.eye(3)))
    axes = plotting.network(Graph.from_knn(rng.random((10, 2)), 3), np.arange(10.0), label="height (m)")
    assert axes.figure.axes[1].get_ylabel() == "height (m)"
