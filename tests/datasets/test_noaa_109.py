"""The 109 stations: the published file to the byte, places that give the published weights, and what the data are."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from experiments import _stations
from nareg.datasets import registry

#: Names of two stations -> the published weight between them.
WEIGHTS = {
    ("BROWNSVILLE", "VICTORIA RGNL AP"): 0.243148015,
    ("BROWNSVILLE", "PORT ARTHUR SE TX AP"): 0.128664679,
}


@pytest.fixture(scope="module")
def network():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NAREG_DATA", "nowhere")
        return nareg.datasets.load("noaa-109")


def test_the_published_file_is_bundled_to_the_byte(network, tmp_path):
    """That of the repository andrea-cavallo-98/STVNN, by the name that git gives it."""
    assert network.observed.all()
    np.save(tmp_path / "NOA_109_data.npy", network.signals)
    assert registry.git_blob(tmp_path / "NOA_109_data.npy") == "git:6f148ced776999a694ea7a3ac9503a299c9f8d32"


def test_one_place_is_there_twice(network):
    np.testing.assert_array_equal(network.signals[36], network.signals[37])
    np.testing.assert_array_equal(network.coordinates[36], network.coordinates[37])
    assert network.names[36:38] == ("FRESNO YOSEMITE INTL AP", "FRESNO YOSEMITE INTL AP (2)")
    assert len(np.unique(network.signals, axis=0)) == 108


def test_the_readings_are_climate_normals_in_local_time(network):
    """Measurements change by degrees from one day to the next, and are warmest at another hour on each coast."""
    assert network.units == "°F"
    assert np.median(np.abs(network.signals[:, 24:] - network.signals[:, :-24])) == pytest.approx(0.2)
    warmest = network.signals[:, : 364 * 24].reshape(109, 364, 24).mean(axis=1).argmax(axis=1)
    longitude = network.coordinates[:, 1]
    assert abs(np.median(warmest[longitude < -115]) - np.median(warmest[longitude > -80])) <= 1


def test_the_figure_has_the_published_graph(network):
    """Its matrix is of all pairs; the paper joins seven neighbors."""
    graph = _stations.noaa().graph
    assert graph.n_edges == 464
    assert graph.is_connected
    for pair, weight in WEIGHTS.items():
        assert graph.adjacency[tuple(map(network.names.index, pair))] == pytest.approx(weight, rel=5e-4)


def test_the_places_give_all_published_weights(network, data_root):
    """Of all 5,886 pairs; the figure has those of the 464 edges."""
    if not (data_root / "noaa_109" / "distance.npy").is_file():
        pytest.skip("the data folder has no noaa_109")
    published, off = np.load(data_root / "noaa_109" / "distance.npy"), ~np.eye(109, dtype=bool)
    near = np.exp(-((_stations.distances(network.coordinates) / 600) ** 2)) * off
    sums = np.sort(near, axis=1)[:, -7:].sum(axis=1)
    np.testing.assert_allclose((near / np.sqrt(np.outer(sums, sums)))[off], published[off], rtol=5e-4)
    joined = _stations.noaa().graph.adjacency.toarray()
    np.testing.assert_allclose(joined[joined > 0], published[joined > 0], rtol=5e-4)
