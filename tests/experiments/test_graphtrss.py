"""GraphTRSS's protocol: what is sampled, hidden and scored, how parameters are searched, and the verdicts."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import _graphtrss as g
from experiments._figure import Finding

PM25, SST = "pm25-california", "sea-surface-temperature"


@pytest.mark.parametrize("dataset", [PM25, SST])
@pytest.mark.parametrize("density", [0.1, 0.45])
def test_every_time_has_its_share_of_samples_and_all_else_that_is_valid_is_scored(dataset, density, data_root):
    task = g.task(dataset, g.RECONSTRUCTION, density, 3)
    seen = np.isfinite(task.samples)
    valid = task.truth > 0 if dataset == PM25 else np.isfinite(task.truth)
    assert (np.minimum(valid.sum(axis=0), round(density * len(seen))) == seen.sum(axis=0)).all()
    assert not (seen & task.scored).any()
    np.testing.assert_array_equal(seen | task.scored, valid)
    np.testing.assert_array_equal(task.samples[seen], task.truth[seen])


@pytest.mark.parametrize("dataset", [PM25, SST])
def test_snapshots_are_whole_and_forecasts_begin_after_the_last_sample(dataset, data_root):
    valid = g.task(dataset, g.RECONSTRUCTION, 0.1, 0).truth > 0 if dataset == PM25 else np.ones((100, 600), dtype=bool)
    snapshots = g.task(dataset, g.SNAPSHOTS, 0.3, 0)
    times = np.isfinite(snapshots.samples).any(axis=0)
    assert times.sum() == round(0.3 * times.size)
    np.testing.assert_array_equal(snapshots.scored, valid & ~times)
    ahead = g.task(dataset, g.FORECAST, 4, 0)
    assert ahead.horizon == 4
    np.testing.assert_array_equal(ahead.scored, valid & (np.arange(times.size) >= times.size - 4))
    assert not np.isfinite(ahead.samples[:, -4:]).any()


@pytest.mark.parametrize(("kind", "level"), [(g.RECONSTRUCTION, 0.2), (g.SNAPSHOTS, 0.2), (g.FORECAST, 5)])
def test_parameters_from_the_samples_alone_see_samples_alone(kind, level, data_root):
    whole = g.task(PM25, kind, level, 0)
    part = g.hidden(whole, kind, [0, 1])
    seen, left = np.isfinite(whole.samples), np.isfinite(part.samples)
    np.testing.assert_array_equal(part.truth, whole.samples)  # NaN where nothing was sampled
    assert part.scored.any()
    assert left.any()
    np.testing.assert_array_equal(left | part.scored, seen)
    assert not (left & part.scored).any()


def test_the_authors_scale_counts_the_distance_of_a_station_to_itself(data_root):
    graph, points = g.authors_graph(SST), g.network(SST).coordinates
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    scale = np.sort(distance, axis=1)[:, :11].mean()
    i, j = graph.adjacency.nonzero()
    np.testing.assert_allclose(graph.adjacency.toarray()[i, j], np.exp(-((distance[i, j] / scale) ** 2)), rtol=1e-12)


@pytest.mark.parametrize("best", [(0.001, 500.0), (0.5, 0.02), (10.0, 5.0)])
def test_search_finds_the_minimum_of_a_bowl(best):
    found = g.search(
        lambda e, w: np.log(e / best[0]) ** 2 + np.log(w / best[1]) ** 2 + 0.5 * np.log(e / best[0]) * np.log(w / best[1])
    )
    assert found == best


def rows_of(ratio: float) -> list[dict]:
    """Every method at a ratio to GraphTRSS's published errors."""
    return [
        {"dataset": PM25, "method": method, "level": level, "mask": 0, "rmse": ratio * rmse, "epsilon": 0.1, "weight": 0.2}
        for method in (g.OURS, g.ORACLE)
        for level, rmse in zip(g.levels(PM25, g.RECONSTRUCTION), g.printed(PM25, g.RECONSTRUCTION, 1, "GraphTRSS"), strict=True)
    ]


def test_verdicts_follow_the_errors(data_root):
    s = g.Settings(datasets=(PM25,), masks=1)
    bar = {"what": "it", "claim": "below", "bar": lambda d: g.printed(d, g.RECONSTRUCTION, 1, "GraphTRSS")}
    for ratio, reproduced, below in (
        (1.0, Finding.REPRODUCED, Finding.NOT_MET), (0.5, Finding.NOT, Finding.MET), (1.5, Finding.NOT, Finding.NOT_MET),
    ):  # fmt: skip
        assert g.reproduced(s, rows_of(ratio), g.RECONSTRUCTION).finding is reproduced
        assert g.below(s, rows_of(ratio), g.RECONSTRUCTION, **bar).finding is below


def test_no_published_method_is_below_the_best_of_them(data_root):
    for dataset in g.TIMES:
        for kind in (g.RECONSTRUCTION, g.SNAPSHOTS, g.FORECAST):
            best = g.best_printed(dataset, kind, 1)
            assert all((g.printed(dataset, kind, 1, peer) >= best).all() for peer in g.known(dataset, kind))
            assert len(g.levels(dataset, kind)) == len(best)
