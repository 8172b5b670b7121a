"""Graphs on disk: what was saved comes back, any rows by themselves, and damaged folders are refused."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import nareg
from nareg._storage.graph_files import StoredGraph
from nareg._storage.graph_writer import GraphWriter
from nareg.errors import InputError


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 12))
    pairs = draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30))
    weight = draw(st.sampled_from([None, 0.1, 1e-30, 1e30]))
    matrix = np.zeros((n, n))
    for k, (i, j) in enumerate(sorted(pairs)):
        if i != j:
            matrix[i, j] = matrix[j, i] = 1.0 if weight is None else weight * (k + 1)
    return nareg.Graph(matrix)


@given(graph=graphs(), dtype=st.sampled_from(["float64", "float32"]), piece=st.integers(1, 40))
def test_what_was_saved_comes_back(graph, dtype, piece, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "a.graph"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nareg._storage.graph_writer.PIECE", piece)
        graph.save(folder, dtype=dtype)
    stored = StoredGraph(folder)
    wanted = graph.adjacency.astype(dtype)
    assert (stored.n_nodes, stored.n_edges) == (graph.n_nodes, graph.n_edges)
    assert (stored.weights is None) == bool((wanted.data == 1).all())
    assert stored.indices.dtype == np.int32
    loaded = nareg.Graph.load(folder)
    assert np.array_equal(loaded.adjacency.toarray(), wanted.toarray().astype(float))
    if dtype == "float64":
        assert loaded == graph
        assert loaded.hash == graph.hash
    # as any program that reads NumPy's files sees it
    for name in ("indptr", "indices"):
        assert np.array_equal(np.load(folder / f"{name}.npy", mmap_mode="r"), getattr(stored, name))
    rebuilt = sp.vstack([_rows(stored, first, last) for first, last in stored.row_ranges(piece)])
    assert np.array_equal(rebuilt.toarray(), wanted.toarray())


def _rows(stored, first, last):
    part = stored.rows(first, last)
    data = np.ones(part.indices.size) if part.weights is None else part.weights
    return sp.csr_array((data, part.indices, part.indptr), shape=(last - first, stored.n_nodes))


def test_coordinates_names_and_metric_come_back(rng, tmp_path):
    graph = nareg.Graph.from_knn(rng.random((20, 2)), 3, metric="haversine", names=[f"Ål {i}" for i in range(20)])
    graph.save(tmp_path / "a.graph")
    assert nareg.Graph.load(tmp_path / "a.graph") == graph


def test_rows_are_read_in_ranges_of_about_the_bytes_asked_for(rng, tmp_path):
    nareg.graphs.power_law(2000, rng=rng).save(tmp_path / "a.graph")
    stored = StoredGraph(tmp_path / "a.graph")
    ranges = list(stored.row_ranges(4000))
    assert [first for first, _ in ranges[1:]] == [last for _, last in ranges[:-1]]
    assert (ranges[0][0], ranges[-1][1]) == (0, 2000)
    for first, last in ranges:
        bytes_ = 4 * int(stored.indptr[last] - stored.indptr[first]) + 8 * (last - first)
        assert bytes_ <= 4000 or last == first + 1


@pytest.fixture
def folder(tmp_path):
    nareg.Graph(np.array([[0, 2, 0], [2, 0, 3], [0, 3, 0.0]])).save(tmp_path / "a.graph")
    return tmp_path / "a.graph"


@pytest.mark.parametrize("name", ["indptr.npy", "indices.npy", "weights.npy"])
@pytest.mark.parametrize("change", [-1, 5])
def test_a_file_of_another_length_is_refused(folder, name, change):
    size = (folder / name).stat().st_size
    os.truncate(folder / name, size + change)
    with pytest.raises(InputError, match=rf"{name} has {size + change} bytes, {size} bytes are expected.*convert again"):
        StoredGraph(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "nareg-graph-9"}, "has format 'nareg-graph-9', 'nareg-graph-1' is expected"),
        ({"n_nodes": 4}, "its dtypes or bytes do not fit 4 nodes and 2 edges"),
        ({"n_nodes": -3}, "n_nodes -3"),
        ({"n_nodes": "3"}, "n_nodes '3'"),
        ({"n_edges": 2**60}, "n_edges"),
        ({"n_edges": True}, "n_edges True"),
        ({"dtypes": {"indptr": "<i8", "indices": "<i4", "weights": "|O"}}, "is damaged"),
        ({"dtypes": None}, "is damaged"),
        ({"bytes": {}}, "is damaged"),
    ],
)
def test_an_index_that_does_not_fit_is_refused(folder, change, message):
    content = json.loads((folder / "graph.json").read_text())
    (folder / "graph.json").write_text(json.dumps({**content, **change}))
    with pytest.raises(InputError, match=message):
        StoredGraph(folder)


def test_other_folders_and_missing_files_are_refused(folder, tmp_path):
    with pytest.raises(InputError, match=r"is not a graph folder.*nareg convert"):
        StoredGraph(tmp_path)
    (folder / "graph.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        nareg.Graph.load(folder)
    nareg.graphs.grid((3,)).save(folder)
    (folder / "indices.npy").unlink()
    with pytest.raises(InputError, match=r"indices.npy is missing, \d+ bytes are expected"):
        StoredGraph(folder)


def overwrite(folder, name, index, value, dtype):
    with open(folder / f"{name}.npy", "r+b") as handle:
        handle.seek(128 + index * np.dtype(dtype).itemsize)
        handle.write(np.array(value, dtype).tobytes())


@pytest.mark.parametrize(
    ("name", "index", "value", "dtype"),
    [
        ("indices", 1, 3, "<i4"),
        ("indices", 1, -1, "<i4"),
        ("indptr", 1, 9, "<i8"),
        ("indptr", 1, -1, "<i8"),
        ("indptr", 3, 3, "<i8"),
    ],
)
def test_damaged_numbers_never_reach_the_compiled_loops(folder, name, index, value, dtype, tmp_path):
    overwrite(folder, name, index, value, dtype)
    with pytest.raises(InputError, match=rf"{name}.npy.*convert again"):
        nareg.gnn.propagate(folder, np.ones((3, 1)), out=tmp_path / "z.npy", weights=[0.5, 0.5])
    assert not (tmp_path / "z.npy").exists()


def test_a_file_that_shrinks_after_it_was_opened_is_refused(folder):
    stored = StoredGraph(folder)
    os.truncate(folder / "indices.npy", 130)
    with pytest.raises(InputError, match="shorter than when it was opened"):
        stored.rows(0, 3)


def test_weights_that_float32_cannot_hold_are_refused_and_nothing_is_left(tmp_path):
    for weight in (1e-60, 1e60):
        with pytest.raises(InputError, match="store weights as float64"):
            nareg.Graph([[0, weight], [weight, 0]]).save(tmp_path / "a.graph", dtype="float32")
    with pytest.raises(InputError, match="float32 or float64"):
        nareg.graphs.grid((3,)).save(tmp_path / "a.graph", dtype="int8")
    assert list(tmp_path.iterdir()) == []


def test_rows_beyond_the_number_of_nodes_are_refused(tmp_path):
    with pytest.raises(InputError, match="append one per node"), GraphWriter(tmp_path / "a.graph", 1) as writer:
        writer.append(np.zeros(2, int), np.zeros(0, int))
    assert list(tmp_path.iterdir()) == []


def test_a_copied_folder_opens(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "b.graph")
    assert nareg.Graph.load(tmp_path / "b.graph") == nareg.Graph.load(folder)
