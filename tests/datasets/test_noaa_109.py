"""The 109 stations, with made-up values in the layout of the file: (109, 8759), distances in the place of coordinates."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest

import nareg
from nareg.datasets import _digests, loaders, registry
from nareg.errors import DatasetCorruptError, DatasetNotFoundError, InputError

WEIGHTS = "noaa_109/distance.npy"
VALUES = "noaa_109/NOA_109_data.npy"


@pytest.fixture
def root(data_root, tmp_path, monkeypatch, rng):
    """A data folder with the published weights and made-up values, whose digest the registry then has."""
    if not (data_root / WEIGHTS).is_file():
        pytest.skip("the data folder has no noaa_109")
    (tmp_path / "noaa_109").mkdir()
    shutil.copyfile(data_root / WEIGHTS, tmp_path / WEIGHTS)
    place(tmp_path, 15 + rng.standard_normal((109, 8759)), monkeypatch)
    return tmp_path


def place(root, values, monkeypatch):
    np.save(root / VALUES, values)
    entry = registry.REGISTRY["noaa-109"]
    files = {VALUES: _digests.git_blob(root / VALUES), WEIGHTS: entry.files[WEIGHTS]}
    monkeypatch.setitem(registry.REGISTRY, "noaa-109", dataclasses.replace(entry, files=files))


def test_the_network_joins_the_pairs_of_largest_weight(root):
    network = nareg.datasets.load("noaa-109", root=root)
    assert (network.n_nodes, network.n_times, network.neighbors) == (109, 8759, 7)
    weights = np.load(root / WEIGHTS)
    joined = network.graph.adjacency.toarray() > 0
    for i, row in enumerate(weights):
        assert joined[i, np.argsort(-row)[:7]].all()
    assert network.graph.is_connected
    np.testing.assert_array_equal(network.distances, network.distances.T)
    off = ~np.eye(109, dtype=bool)
    np.testing.assert_allclose(np.exp(-(network.distances[off] ** 2)), weights[off] / weights.max(), rtol=1e-12)


def test_the_published_matrix_holds_weights_and_no_distances(data_root):
    """What passes for distances violates the triangle inequality; what is made of it lies in a plane nearly."""
    weights = np.load(data_root / WEIGHTS)

    def detours(D):
        return (D[:, None, :] > D[:, :, None] + D[None] + 1e-9).mean()  # [i, k, j]: straight on against by way of k

    distances = loaders.distances_of_weights(weights)
    assert detours(weights) > 0.3
    assert detours(distances) < 0.01
    n = len(weights)
    centered = np.eye(n) - 1 / n
    spectrum = np.sort(np.abs(np.linalg.eigvalsh(-centered @ distances**2 @ centered / 2)))[::-1]
    assert spectrum[:2].sum() > 0.9 * spectrum.sum()


def test_parts_keep_their_distances(root):
    network = nareg.datasets.load("noaa-109", root=root)
    part = network.select(np.arange(40, 90))
    np.testing.assert_array_equal(part.distances, network.distances[40:90, 40:90])
    assert part.graph == nareg.Graph.from_distances(part.distances, 7, names=part.names)
    assert network.complete().graph == network.graph


def test_no_coordinates_is_said(root, tmp_path):
    network = nareg.datasets.load("noaa-109", root=root)
    with pytest.raises(InputError, match=r"noaa-109 has no coordinates: use \.distances, and Graph\.from_distances"):
        _ = network.coordinates
    with pytest.raises(InputError, match="no coordinates"):
        network.to_csv(tmp_path / "tables")


def test_missing_values_become_the_mask(root, monkeypatch, rng):
    values = rng.standard_normal((109, 50))
    values[3, 4] = np.nan
    place(root, values, monkeypatch)
    network = nareg.datasets.load("noaa-109", root=root)
    assert np.argwhere(~network.observed).tolist() == [[3, 4]]


def test_other_files_are_refused(root, data_root, monkeypatch, rng):
    with pytest.raises(DatasetNotFoundError, match="To get it: run `nareg datasets fetch noaa-109`"):
        nareg.datasets.load("noaa-109", root=root / "absent")
    place(root, rng.standard_normal((50, 109)), monkeypatch)
    with pytest.raises(DatasetCorruptError, match=r"shape \(50, 109\) for weights of \(109, 109\), stations x hours"):
        nareg.datasets.load("noaa-109", root=root)
    np.save(root / VALUES, np.array([{"a": 1}] * 109, dtype=object), allow_pickle=True)
    with pytest.raises(DatasetCorruptError, match="expected"):  # its digest
        nareg.datasets.load("noaa-109", root=root)
    place_objects = registry.REGISTRY["noaa-109"]
    files = {VALUES: _digests.git_blob(root / VALUES), WEIGHTS: place_objects.files[WEIGHTS]}
    monkeypatch.setitem(registry.REGISTRY, "noaa-109", dataclasses.replace(place_objects, files=files))
    with pytest.raises(DatasetCorruptError, match="holds Python objects"):
        nareg.datasets.load("noaa-109", root=root)


def test_figure_6_runs_on_it_as_soon_as_it_is_there(root, monkeypatch):
    """In this process, since the made-up values' digest is only in this registry."""
    from experiments import fig6

    settings = dataclasses.replace(fig6.FIGURE.quick, snr_db=(-5.0, 0.0, 5.0), observed=(10, 30), draws=2, every=40)
    monkeypatch.setenv("NAREG_DATA", str(root / "absent"))
    without = fig6.points(settings)
    assert without == [{"part": "denoising"}, {"part": "interpolation"}]
    monkeypatch.setenv("NAREG_DATA", str(root))
    points = fig6.points(settings)
    assert points[:2] == without
    assert points[2:] == [{"dataset": "noaa-109", "part": "denoising"}, {"dataset": "noaa-109", "part": "interpolation"}]
    rows = [{**point, **row} for point in points for row in fig6.compute(settings, point)]
    verdicts = fig6.judge(settings, rows)
    assert [v.claim for v in verdicts] == ["three-db", "interpolation"]
    for verdict in verdicts:
        assert verdict.measured.startswith("noaa-109: ")
        assert "Us-weather: " in verdict.why
        assert "Not run" not in verdict.why
    assert len(fig6.draw(settings, rows).axes) == 4
    alone = [row for row in rows if "dataset" not in row]
    for verdict in fig6.judge(settings, alone):
        assert verdict.why.endswith("Not run on NOAA: needs `nareg datasets fetch noaa-109`.")
    mine = [{key: value for key, value in row.items() if key != "dataset"} for row in rows if "dataset" in row]
    named = fig6.judge(dataclasses.replace(settings, dataset="noaa-109"), mine)
    assert [v.finding for v in named] == [v.finding for v in verdicts]
