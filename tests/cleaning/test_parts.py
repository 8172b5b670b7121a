"""Checks of the stations of large networks, in neighborhoods."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import nareg
from nareg.cleaning._parts import NEIGHBORHOOD, neighborhoods
from nareg.quality import Flag

N, T, INDOORS = 30, 150, 24


@pytest.fixture(scope="module")
def tables():
    """Stations of which one is indoors."""
    network = nareg.datasets.simulated(N, T, faults=(), rng=np.random.default_rng(4))
    readings = pd.DataFrame(network.readings.T.copy(), pd.DatetimeIndex(network.times, name="time"), network.names)
    rng = np.random.default_rng(5)
    readings.iloc[:, INDOORS] = np.nanmean(readings) + 25 + 0.5 * np.sin(np.arange(T) / 9) + 0.1 * rng.standard_normal(T)
    places = pd.DataFrame(np.asarray(network.coordinates), network.names, ["latitude", "longitude"]).rename_axis("station")
    return readings, places


@pytest.fixture
def small_engine(monkeypatch):
    """The network is too large for the dense engine, and for one neighborhood."""
    monkeypatch.setattr("nareg.spacetime._model.fit.LARGEST", N - 1)
    monkeypatch.setattr("nareg.cleaning._parts.NEIGHBORHOOD", 20)


@pytest.mark.slow
@pytest.mark.usefixtures("small_engine")
def test_a_thorough_run_finds_what_is_wrong_in_a_large_network(tables):
    readings, _ = tables
    cleaned = nareg.clean(*tables, effort="thorough")
    assert isinstance(cleaned.model, nareg.spacetime.SparseSpaceTimeModel)
    (suspect,) = [s for s in cleaned.quality.suspects if s.kind in ("level", "unit", "swapped", "drift", "clock")]
    assert (suspect.kind, suspect.name, suspect.station) == ("level", readings.columns[INDOORS], INDOORS)
    flags = cleaned.flags.to_numpy()
    assert (flags[:, INDOORS] == Flag.BAD).mean() > 0.95
    others = np.delete(flags, INDOORS, axis=1)
    assert (others == Flag.BAD).mean() < 0.002
    assert any("fitted again without" in note for note in cleaned.notes)
    # the estimate there is the weather's, as its neighbors have it
    assert np.abs(cleaned.x.iloc[:, INDOORS].mean() - cleaned.x.to_numpy().mean()) < 5
    dismissed = nareg.clean(*tables, effort="thorough", quality={"dismiss": [f"{suspect.name}: level"]})
    assert not [s for s in dismissed.quality.suspects if s.kind == "level"]
    assert [s.station for s in dismissed.quality.dismissed] == [INDOORS]


@pytest.mark.slow
@pytest.mark.usefixtures("small_engine")
def test_a_normal_run_says_what_it_did_not_look_for(tables):
    cleaned = nareg.clean(*tables)
    assert cleaned.quality is None
    assert any("Effort thorough looks for drifts" in note for note in cleaned.notes)


@pytest.mark.parametrize("placed", [True, False])
@pytest.mark.parametrize("n", [3, NEIGHBORHOOD, 500])
def test_neighborhoods_have_every_station_once(n, placed):
    places = np.random.default_rng(n).random((n, 2))
    graph = nareg.Graph.from_knn(places, min(6, n - 1))
    if not placed:
        graph = nareg.Graph(graph.adjacency)
    parts = neighborhoods(graph)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(n))
    assert max(map(len, parts)) <= NEIGHBORHOOD
    assert len(parts) <= 2 * -(-n // NEIGHBORHOOD)
    spread = np.mean([places[part].std(axis=0).max() for part in parts])
    assert len(parts) == 1 or spread < 0.7 * places.std(axis=0).max()
