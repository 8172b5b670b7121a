"""Converters on raw files in the layout of each source, written from the prepared arrays: the way there and back.

Planetoid's are tested on the published files themselves (``test_fetch.py``).
"""

from __future__ import annotations

import gzip
import json
import re
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import nareg
from nareg._storage.array_files import read_npz
from nareg._storage.sparse_files import stored
from nareg.datasets import _converters, _delivery, fetching, registry
from nareg.datasets._delivery import SIZES
from nareg.errors import DatasetCorruptError

# -- Geom-GCN ------------------------------------------------------------------------------------------------


def write_geom_gcn(name: str, z: dict, raw, rng) -> None:
    """Nodes in random order as in the source, directed edges some of them twice, splits of bytes."""
    raw.mkdir(exist_ok=True)
    x = stored(z, "x", what="x")
    lines = ["node_id\tfeature\tlabel"]
    for node in rng.permutation(x.shape[0]):
        row = x[[node]].toarray().ravel()
        words = np.flatnonzero(row) if name == "film" else row
        words = np.append(words, words[0]) if name == "film" else words  # the source lists some features twice
        lines.append(f"{node}\t{','.join(map(str, words))}\t{z['y'][node]}")
    (raw / _converters.GEOM_NODES).write_text("\n".join(lines) + "\n")
    edges = np.concatenate([z["directed_edges"], z["directed_edges"][:7]])
    rows = [f"{i}\t{j}" for i, j in rng.permutation(edges)]
    (raw / _converters.GEOM_EDGES).write_text("\n".join(["node_id\tnode_id", *rows]) + "\n")
    for k in range(10):
        masks = {f"{part}_mask": z[f"{part}_masks"][k].astype(np.uint8) for part in ("train", "val", "test")}
        np.savez(raw / _converters.geom_split_file(name, k), **masks)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "theirs"), [("cornell", "cornell"), ("texas", "texas"), ("wisconsin", "wisconsin"), ("actor", "film")]
)
def test_geom_gcn(name, theirs, site, data_root, tmp_path, monkeypatch, rng):
    write_geom_gcn(theirs, read_npz(data_root / "heterophily" / f"{name}.npz"), tmp_path / "raw", rng)
    site.serve(monkeypatch, name, tmp_path / "raw")
    nareg.datasets.fetch(name, tmp_path / "data")
    assert len(nareg.datasets.load(name, root=tmp_path / "data").splits) == 10


def test_geom_gcn_with_a_missing_node_is_refused(site, data_root, tmp_path, monkeypatch, rng):
    raw = tmp_path / "raw"
    write_geom_gcn("texas", read_npz(data_root / "heterophily" / "texas.npz"), raw, rng)
    lines = (raw / _converters.GEOM_NODES).read_text().splitlines()
    (raw / _converters.GEOM_NODES).write_text("\n".join(lines[:-1]))
    site.serve(monkeypatch, "texas", raw)
    with pytest.raises(DatasetCorruptError, match="does not list the nodes 0 to 181, each once"):
        nareg.datasets.fetch("texas", tmp_path / "data")


# -- Shchur's arrays -----------------------------------------------------------------------------------------


def one_way(adjacency, rng):
    """Each undirected edge in one direction or both, and a self-loop, as the sources have them."""
    half = sp.coo_array(sp.triu(adjacency))
    turned = rng.random(half.nnz) < 0.5
    i, j = np.where(turned, half.col, half.row), np.where(turned, half.row, half.col)
    both = rng.random(half.nnz) < 0.2
    i, j = np.concatenate([i, j[both], [0]]), np.concatenate([j, i[both], [0]])
    return sp.csr_array((np.ones(i.size, np.float32), (i, j)), shape=adjacency.shape)


def write_shchur(path, adjacency, features, labels) -> None:
    matrices = {"adj": adjacency, "attr": features}
    parts = {
        f"{name}_{part}": value
        for name, m in matrices.items()
        for part, value in (("data", m.data), ("indices", m.indices), ("indptr", m.indptr), ("shape", np.array(m.shape)))
    }
    # names are Python objects in some of these files; they must not get in the way
    np.savez(path, **parts, labels=labels, class_names=np.array(["a", None], dtype=object))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "file"),
    [("amazon-photo", "amazon_photo"), ("coauthor-cs", "coauthor_cs"), ("coauthor-physics", "coauthor_physics")],
)
def test_shchur(name, file, site, data_root, tmp_path, monkeypatch, rng):
    z = read_npz(data_root / "amazon_coauthor" / f"{file}.npz")
    raw = tmp_path / "raw"
    raw.mkdir()
    (remote,) = fetching.SOURCES[name].files
    features = stored(z, "x", what="x").astype(np.float32)
    write_shchur(raw / remote.name, one_way(stored(z, "adj", what="adj"), rng), features, z["y"])
    site.serve(monkeypatch, name, raw)
    nareg.datasets.fetch(name, tmp_path / "data")
    mine, prepared = (nareg.datasets.load(name, root=root) for root in (tmp_path / "data", data_root))
    assert mine.graph == prepared.graph
    assert (mine.features != prepared.features).nnz == 0


# -- Metattack -----------------------------------------------------------------------------------------------


def write_attacks(name: str, z: dict, raw) -> None:
    for key, file in (
        ("meta_adj_0p25", "pro-gnn-{}-0.25.npz"),
        *((f"gadc_meta_adj_0p{s[2:]}", f"gadc-{{}}-{s}.npz") for s in ("0.25", "0.5", "0.75")),
    ):
        matrix = sp.csr_matrix(stored(z, key, what=key).astype(np.float32))
        matrix.setdiag(1)  # a self-loop is no edge here
        sp.save_npz(raw / file.format(name), matrix)
    split = {part: z[part].tolist() for part in ("idx_train", "idx_val", "idx_test")}
    (raw / f"{name}_prognn_splits.json").write_text(json.dumps(split))


@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_metattack(name, site, data_root, tmp_path, monkeypatch, rng):
    z = read_npz(data_root / "metattack" / f"{name}.npz")
    raw = tmp_path / "raw"
    raw.mkdir()
    nodes = z["orig_node_idx"]
    n = int(nodes.max()) + 6  # with nodes outside the largest component, among and behind its own
    place = sp.csr_array((np.ones(nodes.size), (nodes, np.arange(nodes.size))), shape=(n, nodes.size))
    whole = place @ stored(z, "adj", what="adj") @ place.T
    labels = np.zeros(n, dtype=np.int64)
    labels[nodes] = z["y"]
    features = sp.csr_array(place @ stored(z, "x", what="x").astype(np.float32))
    write_shchur(raw / f"{name}.npz", one_way(whole, rng), features, labels)
    write_attacks(name, z, raw)
    site.serve(monkeypatch, f"metattack-{name}", raw)
    nareg.datasets.fetch(f"metattack-{name}", tmp_path / "data")
    data = nareg.datasets.load(f"metattack-{name}", root=tmp_path / "data")
    assert sorted(data.perturbed) == ["gadc-25", "gadc-50", "gadc-75", "pro-gnn-25"]


@pytest.mark.slow
def test_metattack_on_pubmed_brings_planetoids_features(site, data_root, tmp_path, monkeypatch):
    """Planetoid's files of Pubmed are not here: its prepared arrays stand in for their conversion."""
    z, whole = (read_npz(data_root / part / "pubmed.npz") for part in ("metattack", "planetoid"))
    raw = tmp_path / "raw"
    raw.mkdir()
    write_attacks("pubmed", z, raw)
    for part in _converters.PLANETOID_PARTS:
        (raw / f"ind.pubmed.{part}").write_bytes(b"")
    site.serve(monkeypatch, "metattack-pubmed", raw)
    with pytest.raises(DatasetCorruptError, match=r"ind\.pubmed\.allx has digest git:"):
        nareg.datasets.fetch("metattack-pubmed", tmp_path / "data")

    monkeypatch.setattr(_converters, "planetoid", lambda name, folder: whole)
    assert (
        registry.of_arrays(_converters.metattack("pubmed", raw))
        == nareg.datasets.info("metattack-pubmed").files["metattack/pubmed.npz"]
    )


# -- sensor networks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sea-surface-temperature", "pm25-california"])
@pytest.mark.parametrize("turned", [False, True])
def test_graph_trss(name, turned, site, data_root, tmp_path, monkeypatch):
    """Either order of the columns of positions; other variables in the file do not matter."""
    file, readings, variable = {
        "sea-surface-temperature": ("sea_surface_temperature", "temperature_C", "Data"),
        "pm25-california": ("pm2_5_california", "pm25", "myDataPM"),
    }[name]
    z = read_npz(data_root / "graph_trss" / f"{file}.npz")
    raw = tmp_path / "raw"
    raw.mkdir()
    places = np.column_stack([z["lat"], z["lon"]][:: -1 if turned else 1])
    (remote,) = fetching.SOURCES[name].files
    scipy.io.savemat(raw / remote.name, {variable: z[readings].T, "Position": places, "time": np.arange(3)})
    site.serve(monkeypatch, name, raw)
    nareg.datasets.fetch(name, tmp_path / "data")
    mine, prepared = (nareg.datasets.load(name, root=root) for root in (tmp_path / "data", data_root))
    np.testing.assert_array_equal(mine.signals, prepared.signals)
    np.testing.assert_array_equal(mine.coordinates, prepared.coordinates)


def test_graph_trss_without_its_variable_is_refused(site, tmp_path, monkeypatch):
    raw = tmp_path / "raw"
    raw.mkdir()
    scipy.io.savemat(raw / "PM2_5_concentration.mat", {"Position": np.zeros((3, 2))})
    site.serve(monkeypatch, "pm25-california", raw)
    with pytest.raises(DatasetCorruptError, match="not laid out as expected"):
        nareg.datasets.fetch("pm25-california", tmp_path / "data")


@pytest.mark.slow
def test_aqi36(site, data_root, tmp_path, monkeypatch):
    """As PriSTI's files begin: ``datetime,001001,...`` and ``2014/05/01 01:00:00,138,89,...``, empty where missing."""
    z = read_npz(data_root / "aqi36" / "aqi36.npz")
    raw = tmp_path / "raw"
    raw.mkdir()
    places = [f"{s},{a!r},{o!r}" for s, a, o in zip(z["station"].tolist(), z["lat"].tolist(), z["lon"].tolist(), strict=True)]
    (raw / "pm25_latlng.txt").write_text("\n".join(["sensor_id,latitude,longitude", *places]) + "\n")
    hours = [time.replace("-", "/").replace("T", " ") for time in z["time"].tolist()]
    assert hours[0] == "2014/05/01 01:00:00"
    for key, file in (("pm25", "pm25_ground.txt"), ("pm25_missing", "pm25_missing.txt")):
        rows = [
            f"{hour}," + ",".join("" if np.isnan(v) else f"{v:g}" for v in row)
            for hour, row in zip(hours, z[key].tolist(), strict=True)
        ]
        (raw / file).write_text("\n".join(["datetime," + ",".join(z["station"].tolist()), *rows]) + "\n")
    site.serve(monkeypatch, "aqi36", raw)
    nareg.datasets.fetch("aqi36", tmp_path / "data")
    assert int(nareg.datasets.load("aqi36", root=tmp_path / "data").held_out.sum()) == 20434
    (raw / "pm25_latlng.txt").write_text("\n".join(["sensor_id,latitude,longitude", *places[:-1]]) + "\n")
    site.serve(monkeypatch, "aqi36", raw)
    with pytest.raises(DatasetCorruptError, match="has other stations than pm25_latlng"):
        nareg.datasets.fetch("aqi36", tmp_path / "other")


@pytest.mark.slow
def test_molene_is_checked_before_it_appears(site, tmp_path, monkeypatch, data_root):
    from nareg.datasets import loaders
    from tests.datasets.test_datasets import archive_text, write_archive

    prepared = nareg.datasets.load("molene", root=data_root)
    hours = loaders.FIRST_HOUR + np.arange(loaders.N_HOURS)
    files = {
        f"{s[0]}.txt": archive_text(s[0], hours, v) for s, v in zip(loaders.radomeh_stations(), prepared.signals, strict=True)
    }
    write_archive(tmp_path / "bad" / "RADOMEH.tar.gz", {"a.txt": "numer_sta,date,t\n"})
    site.serve(monkeypatch, "molene", tmp_path / "bad")
    with pytest.raises(DatasetCorruptError, match="digest missing"):
        nareg.datasets.fetch("molene", tmp_path / "data")
    assert not list((tmp_path / "data").iterdir())
    write_archive(tmp_path / "good" / "RADOMEH.tar.gz", files)
    site.serve(monkeypatch, "molene", tmp_path / "good")
    path = nareg.datasets.fetch("molene", tmp_path / "data")
    assert [p.name for p in path.parent.iterdir()] == ["RADOMEH.tar.gz"]
    np.testing.assert_array_equal(nareg.datasets.load("molene", root=tmp_path / "data").signals, prepared.signals)


# -- archives and plain files of large graphs ----------------------------------------------------------------


def ogb_archive(path, extra: dict[str, bytes] | None = None, *, n: int = 20, edges: int = 40, rng) -> None:
    pairs = rng.integers(0, n, (edges, 2))
    order = rng.permutation(n)
    tables = {
        "raw/edge": pairs, "raw/node-feat": rng.standard_normal((n, 3)).round(3), "raw/node-label": np.arange(n)[:, None] % 4,
        "split/time/train": order[:10, None], "split/time/valid": order[10:15, None], "split/time/test": order[15:, None],
    }  # fmt: skip
    with zipfile.ZipFile(path, "w") as archive:
        for name, table in tables.items():
            text = "\n".join(",".join(map(str, row)) for row in table.tolist()) + "\n"
            archive.writestr(f"arxiv/{name}.csv.gz", gzip.compress(text.encode()))
        archive.writestr("arxiv/RELEASE_v1.txt", "")
        for name, content in (extra or {}).items():
            archive.writestr(name, content)


def test_ogb(site, tmp_path, monkeypatch, rng):
    raw = tmp_path / "raw"
    raw.mkdir()
    ogb_archive(raw / "arxiv.zip", rng=rng)
    site.serve(monkeypatch, "ogbn-arxiv", raw)
    with pytest.raises(DatasetCorruptError, match=r"raw/node-label.csv.gz has 20 lines, expected 169343"):
        nareg.datasets.fetch("ogbn-arxiv", tmp_path / "data")
    assert not list((tmp_path / "data").iterdir())
    monkeypatch.setitem(_delivery.ARCHIVES, "ogbn-arxiv", ("arxiv", 20, 40))
    nareg.datasets.fetch("ogbn-arxiv", tmp_path / "data")
    assert nareg.datasets.load("ogbn-arxiv", root=tmp_path / "data").graph.n_nodes == 20
    assert {p.name for p in (tmp_path / "data").iterdir()} == {"ogbn_arxiv"}


@pytest.mark.parametrize(
    "name", ["../escape.txt", "arxiv/../../escape.txt", "/escape.txt", "arxiv\\..\\..\\escape.txt", "C:/escape.txt"]
)
def test_an_archive_with_a_member_outside_is_refused(name, site, tmp_path, monkeypatch, rng):
    raw = tmp_path / "raw"
    raw.mkdir()
    ogb_archive(raw / "arxiv.zip", {name: b"x"}, rng=rng)
    site.serve(monkeypatch, "ogbn-arxiv", raw)
    monkeypatch.setitem(_delivery.ARCHIVES, "ogbn-arxiv", ("arxiv", 20, 40))
    with pytest.raises(DatasetCorruptError, match="points outside"):
        nareg.datasets.fetch("ogbn-arxiv", tmp_path / "deep" / "data")
    assert not list(tmp_path.rglob("*escape*"))
    assert not list((tmp_path / "deep" / "data").iterdir())


def test_no_archive_at_all(site, tmp_path, monkeypatch):
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "arxiv.zip").write_bytes(b"<html>sorry</html>")
    site.serve(monkeypatch, "ogbn-arxiv", raw)
    with pytest.raises(DatasetCorruptError, match="not laid out as expected"):
        nareg.datasets.fetch("ogbn-arxiv", tmp_path / "data")


def test_flickr(site, tmp_path, monkeypatch, rng):
    raw = tmp_path / "raw"
    raw.mkdir()
    n = 12
    half = np.triu(rng.random((n, n)) < 0.4, 1)
    adjacency = sp.csr_matrix((half | half.T).astype(float))
    sp.save_npz(raw / "adj_full.npz", adjacency)
    np.save(raw / "feats.npy", rng.standard_normal((n, 5)))
    (raw / "class_map.json").write_text(json.dumps({str(i): i % 3 for i in range(n)}))
    (raw / "role.json").write_text(json.dumps({"tr": [0, 1, 2, 3], "va": [4, 5], "te": list(range(6, n))}))
    site.serve(monkeypatch, "flickr", raw)
    with pytest.raises(DatasetCorruptError, match=r"has digest \(12, \d+, 5\), expected \(89250, 449878, 500\)"):
        nareg.datasets.fetch("flickr", tmp_path / "data")
    assert not list((tmp_path / "data").iterdir())
    monkeypatch.setitem(SIZES, "flickr", (n, adjacency.nnz // 2, 5))
    nareg.datasets.fetch("flickr", tmp_path / "data")
    assert nareg.datasets.load("flickr", root=tmp_path / "data").graph.n_edges == adjacency.nnz // 2


@pytest.mark.parametrize(("name", "size"), [("amazon-ratings", (24_492, 93_050, 300)), ("roman-empire", (22_662, 32_927, 300))])
def test_heterophilous_graphs(name, size, site, tmp_path, monkeypatch, rng):
    raw = tmp_path / "raw"
    raw.mkdir()
    n = 8
    edges = np.array([[0, 1], [1, 2], [5, 3], [4, 6]])
    masks = {"train": np.arange(n) < 4, "val": np.arange(n) == 4, "test": np.arange(n) > 4}
    np.savez(
        raw / f"{name.replace('-', '_')}.npz", edges=edges, node_features=rng.standard_normal((n, 3)).astype(np.float32),
        node_labels=np.arange(n) % 3, **{f"{part}_masks": np.stack([mask, mask]) for part, mask in masks.items()},
    )  # fmt: skip
    site.serve(monkeypatch, name, raw)
    with pytest.raises(DatasetCorruptError, match=re.escape(f"has digest (8, 4, 3), expected {size}")):
        nareg.datasets.fetch(name, tmp_path / "data")
    assert not list((tmp_path / "data").iterdir())
    monkeypatch.setitem(SIZES, name, (8, 4, 3))
    nareg.datasets.fetch(name, tmp_path / "data")
    data = nareg.datasets.load(name, root=tmp_path / "data")
    assert len(data.splits) == 2
    assert data.splits[1][2].tolist() == [5, 6, 7]


# -- parts ---------------------------------------------------------------------------------------------------


def test_the_simple_graph_of_edges_is_the_dense_one(rng):
    for _ in range(20):
        n = int(rng.integers(1, 9))
        edges = rng.integers(0, n, (int(rng.integers(0, 30)), 2))
        dense = np.zeros((n, n))
        for i, j in edges:
            dense[i, j] = dense[j, i] = i != j
        np.testing.assert_array_equal(_converters.simple(edges, n).toarray(), dense)
    with pytest.raises(ValueError, match="beyond the 2 nodes"):
        _converters.simple(np.array([[0, 2]]), 2)


def test_objects_in_an_archive_of_arrays_are_never_read(tmp_path):
    write_shchur(tmp_path / "a.npz", sp.csr_array(np.ones((2, 2))), sp.csr_array(np.eye(2)), np.array([0, 1]))
    adjacency, features, labels = _converters.read_shchur(tmp_path / "a.npz")
    assert (adjacency.nnz, features.nnz, labels.tolist()) == (2, 2, [0, 1])
