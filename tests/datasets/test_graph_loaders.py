"""Node classification data sets: the prepared files, and a user's own downloads in the layout of their source."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import nareg
from nareg.errors import DatasetCorruptError, DatasetNotFoundError

PREPARED = {
    # name: (nodes, edges, features, classes, splits, nodes without a label)
    "cora": (2708, 5278, 1433, 7, 1, 0),
    "citeseer": (3327, 4552, 3703, 6, 1, 15),
    "pubmed": (19717, 44324, 500, 3, 1, 0),
    "cornell": (183, 277, 1703, 5, 10, 0),
    "texas": (183, 279, 1703, 5, 10, 0),
    "wisconsin": (251, 450, 1703, 5, 10, 0),
    "actor": (7600, 26659, 932, 5, 10, 0),
    "amazon-photo": (7650, 119081, 745, 8, 0, 0),
    "metattack-cora": (2485, 5069, 1433, 7, 1, 0),
}


@pytest.mark.parametrize("name", PREPARED)
def test_prepared_graphs_are_what_their_card_says(name, data_root):
    data = nareg.datasets.load(name, root=data_root)
    unknown = int((data.labels < 0).sum())
    stated = data.n_nodes, data.graph.n_edges, data.n_features, data.n_classes, len(data.splits), unknown
    assert stated == PREPARED[name]
    card = nareg.datasets.info(name).shape.replace(",", "")
    assert card.startswith(f"{data.n_nodes} nodes")
    assert f"{data.graph.n_edges} edges" in card
    assert (abs(data.graph.adjacency - data.graph.adjacency.T)).nnz == 0
    for train, val, test in data.splits:
        joined = np.concatenate([train, val, test])
        assert np.unique(joined).size == joined.size
        assert (data.labels[joined] >= 0).all()


EDGES = [(0, 1), (1, 0), (2, 1), (3, 3), (4, 0), (2, 1)]
UNDIRECTED = [(0, 1), (0, 4), (1, 2)]
LABELS = [0, 2, 1, 0, -1]
SPLIT = {"train": [0, 1], "valid": [2], "test": [3]}


def as_csv(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as handle:
        handle.write("".join(",".join(map(str, row)) + "\n" for row in rows))


def write_arxiv(root, features, edges=EDGES, labels=LABELS):
    """In OGB's layout: tables without a header, an empty label as nan, splits by time."""
    folder = root / "ogbn_arxiv"
    as_csv(folder / "raw" / "edge.csv.gz", edges)
    as_csv(folder / "raw" / "node-feat.csv.gz", features.tolist())
    as_csv(folder / "raw" / "node-label.csv.gz", [["nan" if label == -1 else float(label)] for label in labels])
    for part, nodes in SPLIT.items():
        as_csv(folder / "split" / "time" / f"{part}.csv.gz", [[node] for node in nodes])


def write_papers(root, features, edges=EDGES, labels=LABELS):
    """In OGB's layout for large graphs."""
    write_arxiv(root / "parts", features)
    folder = root / "ogbn_papers100M"
    shutil.copytree(root / "parts" / "ogbn_arxiv" / "split", folder / "split", dirs_exist_ok=True)
    (folder / "raw").mkdir(exist_ok=True)
    np.savez(folder / "raw" / "data.npz", edge_index=np.array(edges).T, node_feat=features)
    known = np.array([[np.nan if label == -1 else label] for label in labels], dtype=float)
    np.savez(folder / "raw" / "node-label.npz", node_label=known)


def write_flickr(root, features, edges=EDGES, labels=LABELS):
    """In GraphSAINT's layout: the parts of a CSR matrix, numbers as the keys of a JSON object, roles."""
    folder = root / "flickr"
    folder.mkdir(parents=True, exist_ok=True)
    rows, columns = np.array(edges).T
    A = sp.csr_array((np.ones(len(edges)), (rows, columns)), shape=(len(labels), max(len(labels), columns.max() + 1)))
    np.savez(folder / "adj_full.npz", data=A.data, indices=A.indices, indptr=A.indptr, shape=A.shape)
    np.save(folder / "feats.npy", features.astype(np.float64))
    (folder / "class_map.json").write_text(json.dumps({str(i): label for i, label in enumerate(labels) if label != -1}))
    roles = dict(zip(("tr", "va", "te"), SPLIT.values(), strict=True))
    (folder / "role.json").write_text(json.dumps(roles))


def write_ratings(root, features, edges=EDGES, labels=LABELS):
    """In the layout of Platonov et al.: arrays of one file, a line of masks per split."""
    folder = root / "heterophilous"
    folder.mkdir(parents=True, exist_ok=True)
    masks = {}
    for part, nodes in zip(("train", "val", "test"), SPLIT.values(), strict=True):
        masks[f"{part}_masks"] = np.isin(np.arange(len(labels)), nodes)[None]
    np.savez(folder / "amazon_ratings.npz", edges=np.array(edges), node_features=features, node_labels=labels, **masks)


WRITERS = {
    "ogbn-arxiv": write_arxiv, "ogbn-papers100M": write_papers, "flickr": write_flickr, "amazon-ratings": write_ratings,
}  # fmt: skip
FOLDERS = {name: name.replace("-", "_") for name in WRITERS} | {"amazon-ratings": "heterophilous"}


@pytest.fixture
def features(rng):
    return rng.standard_normal((5, 3)).astype(np.float32)


@pytest.mark.parametrize("name", WRITERS)
def test_a_users_own_download_is_read(name, features, tmp_path):
    WRITERS[name](tmp_path, features)
    data = nareg.datasets.load(name, root=tmp_path)
    assert sorted(zip(*sp.triu(data.graph.adjacency).nonzero(), strict=True)) == UNDIRECTED
    assert set(data.graph.adjacency.data) == {1.0}
    np.testing.assert_allclose(data.features, features, rtol=1e-6)
    assert data.features.dtype == np.float32
    assert data.labels.tolist() == LABELS
    assert data.n_classes == 3
    assert [part.tolist() for part in data.splits[0]] == list(SPLIT.values())


@pytest.mark.parametrize("name", WRITERS)
def test_parts_that_do_not_fit_are_refused(name, features, tmp_path):
    write, folder = WRITERS[name], str(tmp_path / FOLDERS[name])
    wrongs = (
        {"features": features[:4]},
        {"features": np.where(features == features[0, 0], np.nan, features)},
        {"edges": [*EDGES, (0, 5)]},
        {"labels": [*LABELS[:4], -3]},
    )
    for wrong in wrongs:
        write(tmp_path, **{"features": features, **wrong})
        with pytest.raises(DatasetCorruptError, match=folder):
            nareg.datasets.load(name, root=tmp_path)


@pytest.mark.parametrize("name", WRITERS)
def test_splits_that_overlap_are_refused(name, features, tmp_path, monkeypatch):
    monkeypatch.setitem(SPLIT, "test", [3, 1])
    WRITERS[name](tmp_path, features)
    with pytest.raises(DatasetCorruptError, match="splits do not belong together"):
        nareg.datasets.load(name, root=tmp_path)


def test_numbers_that_would_be_rounded_are_refused(features, tmp_path):
    write_papers(tmp_path, features, edges=[(0.7, 1.2), (1.2, 0.7)])
    with pytest.raises(DatasetCorruptError, match="node numbers of dtype float64"):
        nareg.datasets.load("ogbn-papers100M", root=tmp_path)
    write_flickr(tmp_path, features)
    (tmp_path / "flickr" / "role.json").write_text(json.dumps({"tr": [0.7], "va": [1], "te": [2]}))
    with pytest.raises(DatasetCorruptError, match="node numbers of dtype float64"):
        nareg.datasets.load("flickr", root=tmp_path)


def test_a_split_of_two_columns_is_refused(features, tmp_path):
    write_arxiv(tmp_path, features)
    as_csv(tmp_path / "ogbn_arxiv" / "split" / "time" / "test.csv.gz", [[3, 4]])
    with pytest.raises(DatasetCorruptError, match="has more than one column"):
        nareg.datasets.load("ogbn-arxiv", root=tmp_path)


def test_what_is_damaged_is_listed_all_the_same(features, tmp_path):
    assert not nareg.datasets.available("ogbn-arxiv", root=tmp_path)
    write_arxiv(tmp_path, features)
    (tmp_path / "ogbn_arxiv" / "raw" / "edge.csv.gz").write_bytes(gzip.compress(b"0,1\n")[:-9] + b"xxxxxxxxx")
    assert nareg.datasets.available("OGBN-arxiv", root=tmp_path)
    with pytest.raises(DatasetCorruptError, match="is not a table of numbers"):
        nareg.datasets.load("ogbn-arxiv", root=tmp_path)


@pytest.mark.parametrize("name", ["ogbn-arxiv", "ogbn-papers100M"])
def test_a_class_that_is_no_whole_number_is_refused(name, features, tmp_path):
    WRITERS[name](tmp_path, features, labels=[0, 0.5, 1, 0, 1])
    with pytest.raises(DatasetCorruptError, match="not whole numbers: download it again"):
        nareg.datasets.load(name, root=tmp_path)


def test_a_table_cut_short_is_refused(features, tmp_path):
    write_arxiv(tmp_path, features)
    path = tmp_path / "ogbn_arxiv" / "raw" / "node-feat.csv.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(DatasetCorruptError, match="is not a table of numbers"):
        nareg.datasets.load("ogbn-arxiv", root=tmp_path)


@pytest.mark.parametrize("broken", ["adj_full.npz", "feats.npy", "class_map.json", "role.json"])
def test_files_of_another_kind_are_refused(broken, features, tmp_path):
    write_flickr(tmp_path, features)
    (tmp_path / "flickr" / broken).write_bytes(b"an error page")
    with pytest.raises(DatasetCorruptError, match=r"flickr: adj_full.npz, .* are not in GraphSAINT's format"):
        nareg.datasets.load("flickr", root=tmp_path)


def test_masks_of_another_length_are_refused(features, tmp_path):
    write_ratings(tmp_path, features)
    path = tmp_path / "heterophilous" / "amazon_ratings.npz"
    with np.load(path) as archive:
        parts = dict(archive)
    np.savez(path, **(parts | {"test_masks": np.zeros((2, 5), dtype=bool)}))
    with pytest.raises(DatasetCorruptError, match=r"does not hold a heterophilous graph .*: download it again"):
        nareg.datasets.load("amazon-ratings", root=tmp_path)


@pytest.mark.parametrize("broken", ["data.npz", "node-label.npz"])
def test_arrays_of_another_kind_are_refused(broken, features, tmp_path):
    write_papers(tmp_path, features)
    np.savez(tmp_path / "ogbn_papers100M" / "raw" / broken, other=features)
    with pytest.raises(DatasetCorruptError, match=r"ogbn_papers100M/raw: the arrays are not in OGB's format .*: get"):
        nareg.datasets.load("ogbn-papers100M", root=tmp_path)


@pytest.mark.parametrize("wrong", [{"-1": 0}, {"0": 0.5}, {"5": 0}, {"node": 0}, [0, 1], {}])
def test_classes_of_no_node_are_refused(wrong, features, tmp_path):
    write_flickr(tmp_path, features)
    (tmp_path / "flickr" / "class_map.json").write_text(json.dumps(wrong))
    with pytest.raises(DatasetCorruptError, match="flickr"):
        nareg.datasets.load("flickr", root=tmp_path)


class Hostile:
    """Makes a file where it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("flickr", "feats.npy"),
        ("flickr", "adj_full.npz"),
        ("ogbn-papers100M", "raw/data.npz"),
        ("ogbn-papers100M", "raw/node-label.npz"),
        ("amazon-ratings", "amazon_ratings.npz"),
    ],
)
def test_nothing_is_unpickled(name, file, features, tmp_path):
    """A download that would run code if it were unpickled is refused, and runs none."""
    WRITERS[name](tmp_path, features)
    path, mark = tmp_path / FOLDERS[name] / file, tmp_path / "unpickled"
    hostile = np.array([Hostile(mark)], dtype=object)
    if path.suffix == ".npy":
        np.save(path, hostile)
    else:
        with np.load(path) as archive:
            np.savez(path, **dict.fromkeys(archive.files, hostile))
    with pytest.raises(DatasetCorruptError, match="holds Python objects"):
        nareg.datasets.load(name, root=tmp_path)
    assert not mark.exists()


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_is_missing_is_named(name, features, tmp_path):
    WRITERS[name](tmp_path, features)
    gone = next(path for path in sorted((tmp_path / FOLDERS[name]).rglob("*")) if path.is_file())
    gone.unlink()
    with pytest.raises(DatasetNotFoundError, match=gone.name):
        nareg.datasets.load(name, root=tmp_path)
