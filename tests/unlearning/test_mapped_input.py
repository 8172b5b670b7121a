"""Models in files: options, input and folders that cannot work are refused."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.unlearning import CertifiedGPR, LedgerError
from nareg.unlearning.store.table import Table
from tests.unlearning.mapped_models import assert_equal, everything, mapped, with_new_sums
from tests.unlearning.requests import problem


def test_one_model_has_a_folder_at_a_time(rng, tmp_path):
    model = mapped(rng, tmp_path / "m")
    with pytest.raises(LedgerError, match="another model or process has it open"):
        CertifiedGPR.load(tmp_path / "m")
    with pytest.raises(LedgerError, match="another model or process has it open"):
        mapped(rng, tmp_path / "m")
    graph, X, y = problem(rng)
    with pytest.raises(nareg.errors.InputError, match="fit was called on a model with the open store"):
        model.fit(graph, X, y, np.arange(40))
    with pytest.raises(nareg.errors.InputError, match="which is its store"):
        model.save(tmp_path / "store")
    model.remove_nodes([3])
    model.close()
    with pytest.raises(nareg.errors.InputError, match="not fitted"):
        model.predict()
    model.fit(graph, X, y, np.arange(40))
    assert model.remaining.size == 60
    model.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"r_max": 1e-3}, "r_max is 0.001 and folder is given"),
        ({"device": "cpu"}, "device is 'cpu' and folder is given"),
    ],
)
def test_options_that_a_folder_cannot_have_are_refused(options, message, tmp_path):
    with pytest.raises(nareg.errors.InputError, match=message):
        CertifiedGPR(folder=tmp_path / "m", **options)


def test_input_that_cannot_work_is_refused(rng, tmp_path):
    graph, X, y = problem(rng)
    with pytest.raises(nareg.errors.InputError, match="memory is 0"):
        CertifiedGPR(folder=tmp_path / "m").fit(graph, X, y, np.arange(40), memory=0)
    nareg.Graph(2 * graph.adjacency).save(tmp_path / "weighted.graph")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    bad = X.copy()
    bad[7, 2] = np.nan
    for where, arguments, message in (
        (
            "m",
            (tmp_path / "weighted.graph", X, y, np.arange(40)),
            "has edge weights: certified removal is for edges of weight one",
        ),
        ("m", (nareg.Graph(2 * graph.adjacency), X, y, np.arange(40)), "graph has an edge of weight 2"),
        ("m", (tmp_path / "none.graph", X, y, np.arange(40)), "is not a graph folder"),
        ("m", (graph, tmp_path / "none.npy", y, np.arange(40)), "which is no file"),
        ("m", (graph, X[:7], y, np.arange(40)), "features has shape"),
        ("m", (graph, X[:, 0], y, np.arange(40)), "features"),
        ("m", (graph, bad, y, np.arange(40)), r"features\[7, 2\] is nan"),
        ("m", (graph, X, y, []), "train is empty"),
        ("other", (graph, X, y, np.arange(40)), "exists and is not a folder with state.json"),
    ):
        with pytest.raises(nareg.errors.InputError, match=message):
            CertifiedGPR(folder=tmp_path / where).fit(*arguments)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["other", "weighted.graph"]
    with pytest.raises(nareg.errors.InputError, match="is not a nareg store"):
        CertifiedGPR.load(tmp_path / "other")
    assert [file.name for file in (tmp_path / "other").iterdir()] == ["mine.txt"]


def test_centered_columns_raise_the_warning_of_the_model_in_memory(rng, tmp_path):
    graph, X, y = problem(rng)
    X = 1e6 + X - X.mean(axis=0)
    CertifiedGPR(folder=tmp_path / "m", alpha=0).fit(graph, X, y, np.arange(40)).close()  # far from zero: no warning
    with pytest.warns(UserWarning, match="6 of 6 columns of features have mean zero") as caught:
        CertifiedGPR(folder=tmp_path / "n").fit(graph, X - X.mean(axis=0), y, np.arange(40)).close()
    assert caught[0].filename == __file__


def test_new_nodes_need_features_that_the_files_can_hold(rng, tmp_path):
    graph, X, y = problem(rng)
    model = CertifiedGPR(rng=rng, folder=tmp_path / "m").fit(graph, X.astype(np.float32), y, np.arange(40))
    before = everything(model)
    with pytest.raises(nareg.errors.InputError, match="has values that float32, in which the model's were given, cannot hold"):
        model.add_nodes(np.full((1, 6), 0.1))
    assert_equal(everything(model), before)
    model.add_nodes(np.full((1, 6), 0.1, dtype=np.float32))
    model.close()


@pytest.mark.parametrize("name", ["sum.npy", "state.json", "term.npy", "live.npy"])
@pytest.mark.parametrize("damage", ["missing", "cut", "other"])
def test_a_damaged_folder_is_refused(name, damage, rng, tmp_path):
    mapped(rng, tmp_path / "m").close()
    file = tmp_path / "m" / name
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(content[: len(content) - 9] if damage == "cut" else b"x" * len(content))
    with pytest.raises((LedgerError, nareg.errors.InputError), match=r"restore|is not a nareg store"):
        CertifiedGPR.load(tmp_path / "m")
    file.write_bytes(content)
    CertifiedGPR.load(tmp_path / "m").close()  # the lock was given back


@pytest.mark.parametrize(("name", "at", "value"), [
    ("start", 3, 10**9), ("start", 3, -1), ("live", 0, 50), ("room", 5, 10**6), ("row", 7, 99), ("row", 7, 8), ("node", 0, 1),
    ("neighbors", 4, 60), ("neighbors", 4, -7),
])  # fmt: skip
def test_numbers_that_would_lead_out_of_the_tables_are_refused(name, at, value, rng, tmp_path):
    mapped(rng, tmp_path / "m").close()
    array = np.load(tmp_path / "m" / f"{name}.npy", mmap_mode="r+")
    array[at] = value
    array.flush()
    del array
    with pytest.raises(LedgerError, match="do not have their checksum"):
        CertifiedGPR.load(tmp_path / "m")
    with_new_sums(tmp_path / "m")
    with pytest.raises(LedgerError, match="its files do not fit together"):
        CertifiedGPR.load(tmp_path / "m")


def test_a_preview_is_the_change_and_leaves_the_files(rng, tmp_path):
    model = mapped(rng, tmp_path / "m")
    edge = np.argwhere(np.triu(model._data.graph.adjacency().toarray()))[5]
    before = everything(model)
    factors = model.preview(edge)
    assert_equal(everything(model), before)
    Z = model.embedding()
    Z[factors.nodes] += factors.left @ factors.right
    model.remove_edges([edge])
    np.testing.assert_allclose(model.embedding(), Z, atol=1e-12)
    model.close()


def test_a_table_reads_its_changes_and_forgets_them(tmp_path):
    table = Table.create(tmp_path / "t.npy", "<f8", (10, 3))
    table.write(0, np.arange(30.0).reshape(10, 3))
    table.attach()
    table.array[[2, 7]] = -1
    table.note(np.array([7, 2]))
    expected = np.arange(30.0).reshape(10, 3)
    np.testing.assert_array_equal(np.load(tmp_path / "t.npy"), expected)
    expected[[2, 7]] = -1
    np.testing.assert_array_equal(table.read(1, 8), expected[1:8])
    table.grow(20)
    np.testing.assert_array_equal(table.array[:10], expected)
    np.testing.assert_array_equal(table.noted(), [2, 7])
    table.attach()
    assert table.array[2, 0] == 6
    assert len(np.load(tmp_path / "t.npy")) == table.capacity == 25
