"""The level of a station without a reading follows its height, where the others' levels do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import nareg
from nareg.cleaning._limits import follow_heights

N, T = 10, 120


def network(rng: np.random.Generator, rate: float) -> tuple[nareg.Graph, np.ndarray, np.ndarray, np.ndarray]:
    """A graph, heights, the truth and readings without those of the last station, the highest."""
    heights = np.append(rng.uniform(500, 1800, N - 1), 2900.0)
    places = 47 + rng.random((N, 2))
    graph = nareg.Graph.from_knn(places, 4, metric="haversine", names=[f"S{i}" for i in range(N)])
    truth = 10 + rate * heights[:, None] + 3 * np.sin(np.arange(T) / 4) + 0.3 * rng.standard_normal((N, 1))
    y = truth + 0.3 * rng.standard_normal((N, T))
    y[rng.random(y.shape) < 0.1] = np.nan
    y[-1] = np.nan
    return graph, heights, truth, y


def test_a_silent_summit_is_as_cold_as_its_height_says(rng):
    graph, heights, truth, y = network(rng, -0.0065)
    flat = np.where(np.isfinite(y), y, np.nanmean(y, axis=0))
    x, std, note = follow_heights(graph, heights, y, flat, np.ones_like(flat))
    assert np.abs(flat[-1] - truth[-1]).mean() > 8
    assert np.abs(x[-1] - truth[-1]).mean() < 2.5
    assert (std[-1] > 1).all()
    np.testing.assert_array_equal(x[:-1], flat[:-1])
    assert note.startswith("Without a reading: S9. The level there follows the height, by -6.")


def test_without_a_clear_slope_heights_are_said_not_to_enter(rng):
    graph, heights, _, y = network(rng, 0.0)
    flat = np.nan_to_num(y)
    x, _, note = follow_heights(graph, heights, y, flat, flat)
    np.testing.assert_array_equal(x, flat)
    assert "do not enter the estimate: 'S9' is 1," in note
    assert follow_heights(graph, None, y, flat, flat)[2] is None
    level = follow_heights(graph, np.full(N, 10.0), y, flat, flat)[2]
    assert level == "The stations' heights do not enter the estimate."
    low = np.where(np.arange(N) == 3, 100.0, 2000.0)
    assert "'S3' is 1,900 below its lowest neighbor" in follow_heights(graph, low, y, flat, flat)[2]


@pytest.mark.slow
def test_clean_fills_a_silent_summit(rng):
    graph, heights, truth, y = network(rng, -0.0065)
    index = pd.date_range("2024-05-01", periods=T, freq="h", name="time")
    places = pd.DataFrame(graph.coordinates, index=list(graph.names), columns=["latitude", "longitude"])
    cleaned = nareg.clean(pd.DataFrame(y.T, index=index, columns=list(graph.names)), places.assign(elevation=heights))
    assert np.abs(cleaned.x["S9"].to_numpy() - truth[-1]).mean() < 2.5
    low, high = cleaned.band()
    assert ((truth[-1] >= low[-1]) & (truth[-1] <= high[-1])).mean() > 0.5
    assert any(note.startswith("Without a reading: S9") for note in cleaned.notes)
