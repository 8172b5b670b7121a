"""nareg convert: every source gives the graph that Graph makes of it, in parts, or one sentence and nothing on disk."""

from __future__ import annotations

import gzip
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import nareg
from nareg import io
from nareg._storage import folders
from nareg.errors import InputError
from tests.command_line import run

HEAD = "%%MatrixMarket matrix coordinate real "


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Many chunks from small files."""
    monkeypatch.setattr("nareg._storage.text_files.TEXT", 997)
    monkeypatch.setattr("nareg.io._graphs.PIECE", 101)


@pytest.fixture
def graph(rng):
    return nareg.graphs.sensor(400, rng=rng)


def listed(graph, rng):
    """Its edges in a random order, each in a random direction."""
    upper = sp.triu(graph.adjacency).tocoo()
    order = rng.permutation(upper.nnz)
    ends = np.stack([upper.row, upper.col])[:, order]
    turned = rng.random(upper.nnz) < 0.5
    return np.where(turned, ends[::-1], ends), upper.data[order]


@pytest.mark.parametrize("memory", [2**16, 2**28])
@pytest.mark.parametrize(
    ("name", "separator"), [("e.csv", ","), ("e.tsv", "\t"), ("e.txt", " "), ("e.edges", " ; "), ("e.csv.gz", ",")]
)
def test_an_edge_list_becomes_its_graph(graph, rng, tmp_path, name, separator, memory):
    ends, weights = listed(graph, rng)
    lines = [separator.join((str(u), str(v), repr(w))) for u, v, w in zip(*ends.tolist(), weights.tolist(), strict=True)]
    lines += [separator.join((str(ends[1, 0]), str(ends[0, 0]), repr(weights[0].item()))), ""]
    text = "\n".join(["# made by hand", separator.join(("from", "to", "weight")), *lines])
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    seen = []
    io.convert(tmp_path / name, tmp_path / "a.graph", n_nodes=graph.n_nodes, memory=memory, progress=seen.append)
    assert nareg.Graph.load(tmp_path / "a.graph").hash == graph.hash
    assert seen[-1].fraction == 1.0
    assert {"reading edges", "distributing edges", "sorting rows"} == {report.stage for report in seen}


@pytest.mark.parametrize("name", ["g.npz", "coo.npz", "packed.npz", "g.mtx", "general.mtx", "g.mtx.gz"])
def test_a_matrix_becomes_its_graph_and_goes_back(graph, tmp_path, name):
    matrix = graph.adjacency
    if name.endswith(".npz"):
        sp.save_npz(tmp_path / name, matrix.tocoo() if name == "coo.npz" else matrix, compressed=name == "packed.npz")
    else:
        symmetry = "general" if "general" in name else "symmetric"
        scipy.io.mmwrite(tmp_path / "w.mtx", sp.coo_matrix(matrix), precision=17, symmetry=symmetry)
        text = (tmp_path / "w.mtx").read_bytes()
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert io.convert(tmp_path / name, tmp_path / "a.graph", memory=2**16) == f"400 nodes, {graph.n_edges} edges"
    assert nareg.Graph.load(tmp_path / "a.graph").hash == graph.hash
    io.convert(tmp_path / "a.graph", tmp_path / "back.npz")
    assert (sp.load_npz(tmp_path / "back.npz") != matrix).nnz == 0
    io.convert(tmp_path / "a.graph", tmp_path / "back.mtx")
    assert (sp.csr_array(scipy.io.mmread(tmp_path / "back.mtx")) != matrix).nnz == 0
    assert nareg.Graph(io.read_adjacency(tmp_path / "back.mtx")).hash == graph.hash


@pytest.mark.slow
@given(
    edges=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from([0, 0.5, 1, 2])), min_size=1, max_size=40),
    memory=st.sampled_from([2**16, 2**28]),
    matrix=st.booleans(),
)
def test_symmetrize_joins_with_the_larger_weight(edges, memory, matrix, tmp_path_factory):
    """Against the definition, entry by entry; entries of a matrix that are listed twice are added."""
    folder = tmp_path_factory.mktemp("edges")
    wanted = np.zeros((10, 10))
    for i, j, w in edges:
        wanted[i, j] = wanted[i, j] + w if matrix else max(wanted[i, j], w)
    np.fill_diagonal(wanted, 0)
    wanted = np.maximum(wanted, wanted.T)
    if matrix:
        lines = [f"{i + 1} {j + 1} {w}" for i, j, w in edges]
        head = HEAD + f"general\n10 10 {len(edges)}"
        (folder / "e.mtx").write_text("\n".join([head, *lines]))
    else:
        (folder / "e.csv").write_text("\n".join(f"{i},{j},{w}" for i, j, w in edges))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nareg._storage.graph_sorting.CELL", 1)
        patch.setattr("nareg._storage.graph_sorting.PER_ENTRY", 2**13)
        io.convert(
            folder / ("e.mtx" if matrix else "e.csv"),
            folder / "a.graph",
            n_nodes=10,
            symmetrize=True,
            drop_loops=True,
            memory=memory,
        )
    assert np.array_equal(nareg.Graph.load(folder / "a.graph").adjacency.toarray(), wanted)


def test_an_edge_index_becomes_a_graph_without_weights(graph, rng, tmp_path):
    np.save(tmp_path / "e.npy", listed(graph, rng)[0])
    io.convert(tmp_path / "e.npy", tmp_path / "a.graph", n_nodes=graph.n_nodes)
    assert (nareg.Graph.load(tmp_path / "a.graph").adjacency != (graph.adjacency > 0)).nnz == 0
    assert not (tmp_path / "a.graph" / "weights.npy").exists()


def test_float32_weights_take_half_the_space(graph, tmp_path):
    sp.save_npz(tmp_path / "g.npz", graph.adjacency.astype(np.float32))
    for dtype in ("float32", "float64"):
        io.convert(tmp_path / "g.npz", tmp_path / f"{dtype}.graph", dtype=dtype)
    sizes = [(tmp_path / f"{dtype}.graph" / "weights.npy").stat().st_size - 128 for dtype in ("float32", "float64")]
    assert 2 * sizes[0] == sizes[1] == 16 * graph.n_edges


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("e.csv", "0,1\n1,1\n", r"self-loop at node 1.*--drop-loops"),
        ("e.csv", "0,1\n1,x\n", "line 2: 'x' is not a number"),
        ("e.csv", "0,1\n1,0x1\n", "line 2: '0x1' is not a number"),
        ("e.csv", "0,1\n1,2,3\n", "line 2: 3 values where other lines have 2"),
        ("e.csv", "# c\nu,v\n0,1\n\n1\n", "line 5: 1 values where other lines have 2"),
        ("e.csv", "A,B\nB,C\n", "line 2: 'B' is not a number"),
        ("e.csv", "0,1,2,3\n", "line 1: 4 values, 2 or 3 are expected"),
        ("e.csv", "0,1.5\n", "names node 1.5: node numbers are whole numbers"),
        ("e.csv", "0,-1\n", "names node -1"),
        ("e.csv", "0,7\n", "names node 7: nodes are numbered from 0 to 4"),
        ("e.csv", "0,1,-2\n", "the edge of nodes 0 and 1 has weight -2"),
        ("e.csv", "0,1,nan\n", "has weight nan"),
        ("e.csv", "0,1,2\n1,0,3\n", r"lists the edge of nodes 0 and 1 with weights 2 and 3.*--symmetrize"),
        ("e.csv", "0,1,1e60\n", "store weights as float64"),
        ("e.mtx", "0,1\n", "is not a MatrixMarket file"),
        ("e.mtx", HEAD + "general\n2 2 1\n1 2 5\n", r"from node 0 to 1 is 5 and back 0.*--symmetrize"),
        ("e.mtx", HEAD + "symmetric\n2 2 2\n2 1 5\n", "declares 2 entries and has 1: it is cut off"),
        ("e.mtx", HEAD + "symmetric\n2 2 1\n3 1 5\n", "names node 2: nodes are numbered from 0 to 1"),
        ("e.mtx", HEAD + "symmetric\n2 3 1\n2 1 5\n", "a square matrix is expected"),
        ("e.mtx", "%%MatrixMarket matrix array real general\n1 1\n5\n", "coordinate, real or pattern"),
        ("e.npz", "no archive", "cannot be read"),
        ("e.npy", "no array", "cannot be read"),
        ("e.doc", "0,1\n", "a graph's name ends in"),
    ],
)  # fmt: skip
def test_what_is_no_graph_is_refused_and_nothing_is_left(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        io.convert(tmp_path / name, tmp_path / "a.graph", n_nodes=5, dtype="float32")
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("n_nodes", [None, 10**14])
def test_numbers_that_are_no_positions_are_refused_before_anything_is_allocated(n_nodes, tmp_path):
    (tmp_path / "e.csv").write_text("0,1\n0,99999999999\n")
    message = "names node 99999999999 and has about 2 edges" if n_nodes is None else "GiB of row starts, more than is free"
    with pytest.raises(InputError, match=message):
        io.convert(tmp_path / "e.csv", tmp_path / "a.graph", n_nodes=n_nodes)
    assert [path.name for path in tmp_path.iterdir()] == ["e.csv"]


def test_numbers_from_one_are_told(tmp_path):
    (tmp_path / "e.csv").write_text("1,2\n2,3\n")
    said = io.convert(tmp_path / "e.csv", tmp_path / "a.graph")
    assert said == "4 nodes, 2 edges; node 0 has none: numbers count from 0"


def test_a_source_that_is_not_there_is_named_before_the_output(tmp_path):
    with pytest.raises(InputError, match=r"b.graph does not exist"):
        io.convert(tmp_path / "b.graph", tmp_path / "b.mtx")


def test_an_empty_list_needs_the_number_of_nodes(tmp_path):
    (tmp_path / "e.csv").write_text("u,v\n")
    with pytest.raises(InputError, match="pass the number of nodes"):
        io.convert(tmp_path / "e.csv", tmp_path / "a.graph")
    assert io.convert(tmp_path / "e.csv", tmp_path / "a.graph", n_nodes=7) == "7 nodes, 0 edges"
    assert nareg.Graph.load(tmp_path / "a.graph").n_nodes == 7


@pytest.mark.parametrize("stage", ["reading edges", "distributing edges", "sorting rows"])
def test_an_interrupted_conversion_leaves_the_older_graph(graph, rng, tmp_path, stage):
    nareg.graphs.grid((3,)).save(tmp_path / "a.graph")
    np.save(tmp_path / "e.npy", listed(graph, rng)[0])

    def interrupt(report):
        if report.stage == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        io.convert(tmp_path / "e.npy", tmp_path / "a.graph", memory=2**16, progress=interrupt)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.graph", "e.npy"]
    assert nareg.Graph.load(tmp_path / "a.graph") == nareg.graphs.grid((3,))


@pytest.mark.skipif(folders.fcntl is None, reason="drafts of killed writers stay where the system has no file locks")
def test_what_a_killed_conversion_leaves_is_removed_by_the_next(graph, rng, tmp_path):
    np.save(tmp_path / "e.npy", listed(graph, rng)[0])
    code = (
        "import os, signal, nareg\n"
        "def kill(report):\n"
        "    if report.stage == 'sorting rows': os.kill(os.getpid(), signal.SIGKILL)\n"
        "nareg.io.convert('e.npy', 'a.graph', progress=kill)"
    )
    killed = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "a.graph").exists()
    assert len(list(tmp_path.glob(".a.graph.*"))) == 1
    io.convert(tmp_path / "e.npy", tmp_path / "a.graph")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.graph", "e.npy"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_signals_become_an_array_that_can_be_mapped(rng, tmp_path, dtype):
    values = rng.standard_normal((300, 3))
    np.savetxt(tmp_path / "y.csv", values, delimiter=",", header="a,b,c", fmt="%.17g")
    np.save(tmp_path / "y.npy", np.asfortranarray(values))
    for name in ("y.csv", "y.npy"):
        io.convert(tmp_path / name, tmp_path / "out.npy", dtype=dtype)
        mapped = np.load(tmp_path / "out.npy", mmap_mode="r")
        assert mapped.flags.c_contiguous
        assert np.array_equal(mapped, values.astype(dtype))


def test_signals_with_gaps_or_too_large_are_refused(tmp_path):
    (tmp_path / "y.csv").write_text("1,2\n3,nan\n")
    with pytest.raises(InputError, match=re.escape("the value at (1, 1) is nan")):
        io.convert(tmp_path / "y.csv", tmp_path / "y.npy")
    np.save(tmp_path / "z.npy", np.array([1e60]))
    with pytest.raises(InputError, match="beyond float32"):
        io.convert(tmp_path / "z.npy", tmp_path / "y.npy", dtype="float32")
    assert not (tmp_path / "y.npy").exists()


@pytest.mark.slow
def test_the_command_converts_and_other_commands_take_the_folder(station_files, tmp_path):
    coordinates = io.read_stations(station_files[0] / "stations.csv")
    graph = nareg.Graph.from_knn(coordinates.coordinates, 7, metric=coordinates.metric)
    scipy.io.mmwrite(tmp_path / "g.mtx", sp.coo_matrix(graph.adjacency), precision=17)
    result = run("convert", tmp_path / "g.mtx", tmp_path / "g.graph", columns=200)
    assert result.returncode == 0
    assert "40 nodes" in result.stdout
    table = io.read_readings(station_files[0] / "readings.csv")
    io.write_readings(tmp_path / "y.csv", io.Readings(tuple(map(str, range(40))), table.times, table.values))
    (tmp_path / "w.csv").write_text("station,weight\n" + "".join(f"{i},2.0\n" for i in range(40)))
    for name in ("g.mtx", "g.graph"):
        result = run(
            "denoise", tmp_path / name, tmp_path / "y.csv", "--weights", tmp_path / "w.csv", "--out", tmp_path / f"{name}.csv"
        )
        assert result.returncode == 0, result.stderr
    assert (tmp_path / "g.mtx.csv").read_bytes() == (tmp_path / "g.graph.csv").read_bytes()
    np.save(tmp_path / "y.npy", table.values)
    np.save(tmp_path / "w.npy", np.full(40, 2.0))
    result = run(
        "denoise", tmp_path / "g.graph", tmp_path / "y.npy", "--weights", tmp_path / "w.npy", "--out", tmp_path / "x.npy"
    )
    assert result.returncode == 0, result.stderr
    assert np.allclose(np.load(tmp_path / "x.npy"), nareg.filters.denoise(graph, 2.0, table.values).x, atol=1e-6)
    refused = run("denoise", tmp_path / "g.graph", tmp_path / "y.npy", "--weights", tmp_path / "w.csv", columns=200)
    assert "the weights are an .npy file, too" in refused.stderr
    refused = run("convert", tmp_path / "g.mtx", tmp_path / "y.csv", columns=200)
    assert refused.returncode == 2
    assert "name a .graph folder" in refused.stderr
