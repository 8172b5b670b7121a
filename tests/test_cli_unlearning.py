"""``nareg unlearn`` as a user runs it, on files: one process, the rest in this one."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import nareg
from nareg.cli import reproduce
from nareg.errors import InputError
from nareg.unlearning import CertifiedGPR
from tests.command_line import run
from tests.unlearning.stores import contents


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Sixty nodes of three classes, forty to train on, as MatrixMarket, NumPy and CSV files; and a CSV of edges."""
    folder = tmp_path_factory.mktemp("service")
    data = nareg.datasets.node_classification.synthetic(60, 3, n_features=5, rng=np.random.default_rng(0))
    scipy.io.mmwrite(folder / "graph.mtx", data.graph.adjacency)
    edges = np.argwhere(np.triu(data.graph.adjacency.toarray()))
    (folder / "edges.csv").write_text("u,v\n" + "".join(f"{u},{v}\n" for u, v in edges))
    np.save(folder / "features.npy", data.features)
    sp.save_npz(folder / "features.npz", sp.csr_array(data.features))
    scipy.io.mmwrite(folder / "features.mtx", sp.coo_array(data.features))
    rows = [f"{i},{label if i < 50 else ''},{int(i < 40)}" for i, label in enumerate(data.labels)]
    (folder / "labels.csv").write_text("node,label,train\n" + "\n".join(rows) + "\n")
    return folder, edges


def fitted(files, store, graph="graph.mtx", features="features.npy"):
    folder, _ = files
    done = run("unlearn", "fit", store, folder / graph, folder / features, folder / "labels.csv", "--eps", 2)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def service(files, tmp_path_factory):
    """A store beside the files, two copies with the endings of what is written, and files that are no features."""
    folder = tmp_path_factory.mktemp("stores")
    for path in files[0].iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    np.save(folder / "scalar.npy", np.float64(1))
    (folder / "empty.npy").touch()
    fitted(files, folder / "s")
    for name in ("t.csv", "k.json"):
        shutil.copytree(folder / "s", folder / name)
    return folder, contents(folder / "s")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "features"), [("graph.mtx", "features.npy"), ("edges.csv", "features.npz"), ("graph.mtx", "features.mtx")]
)
def test_fit_from_files_of_every_kind(files, tmp_path, graph, features):
    _, edges = files
    text = fitted(files, tmp_path / "s", graph, features)
    assert "(2, 0.0001)-certified: fit of 60" in text
    assert f"remaining: 60 nodes, {len(edges)} edges, 40 training nodes" in text
    assert "key of its hashes" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s", "s.key"]


def test_scaled_features_are_warned_of_in_one_line(files, tmp_path):
    folder, _ = files
    X = np.load(folder / "features.npy")
    np.save(tmp_path / "scaled.npy", (X - X.mean(0)) / X.std(0))
    done = run("unlearn", "fit", "s", folder / "graph.mtx", "scaled.npy", folder / "labels.csv", cwd=tmp_path)
    assert done.returncode == 0
    # a machine that has never compiled the loops says so, on a line of its own
    (line,) = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("note: Loops are compiled")]
    assert line.startswith("warning: 5 of 5 columns of features have mean zero over all nodes")
    assert "written: s" in done.stdout


@pytest.mark.slow
def test_a_removal_may_be_followed_by_a_new_term(files, tmp_path):
    fitted(files, tmp_path / "s")
    done = run("unlearn", "remove", "s", "--nodes", "3", "--renew", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "remove_nodes of 1" in done.stdout
    assert "renew of 59, retrained" in done.stdout


def test_forget_predict_and_verify(files, tmp_path):
    _, edges = files
    fitted(files, tmp_path / "s")
    (tmp_path / "nodes.csv").write_text("3\n55\n")
    remaining = next((u, v) for u, v in edges if not {3, 55} & {u, v})
    done = run(
        "unlearn",
        "remove",
        "s",
        "--edges",
        f"{remaining[0]}-{remaining[1]}",
        "--nodes",
        "nodes.csv",
        "--features",
        "7",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    for text in ("remove_edges of 1", "remove_nodes of 2", "remove_features of 1"):
        assert text in done.stdout
    left = sum(not {3, 55} & {u, v} for u, v in edges) - 1
    assert f"remaining: 58 nodes, {left} edges, 39 training nodes" in done.stdout
    done = run("unlearn", "certificate", "s", "--out", "all.json", cwd=tmp_path)
    assert "4 requests" in done.stdout
    stated = json.loads((tmp_path / "all.json").read_text())
    assert [one["certificate"]["request"] for one in stated] == ["fit", "remove_edges", "remove_nodes", "remove_features"]
    assert all(one["certificate"]["spent"] <= one["certificate"]["budget"] for one in stated)
    done = run("unlearn", "predict", "s", "--out", "classes.csv", cwd=tmp_path)
    rows = np.loadtxt(tmp_path / "classes.csv", delimiter=",", skiprows=1, dtype=int)
    model = CertifiedGPR.load(tmp_path / "s")
    np.testing.assert_array_equal(rows[:, 0], model.remaining)
    np.testing.assert_array_equal(rows[:, 1], model.predict(model.remaining))
    locked = run("unlearn", "verify", "s", cwd=tmp_path)
    assert (locked.returncode, "another model or process has it open" in locked.stderr) == (2, True)
    model.close()
    done = run("unlearn", "verify", "s", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the last certificate holds; 4 requests" in done.stdout
    assert "100.00% of the predictions agree" in done.stdout


def test_prove_shows_which_request_it_was(files, tmp_path):
    _, edges = files
    fitted(files, tmp_path / "s")
    pair = "-".join(map(str, edges[0][::-1]))
    assert run("unlearn", "remove", "s", "--edges", pair, "--nodes", "9,4", "--features", "7", cwd=tmp_path).returncode == 0
    for named, what in ((("--edges", pair), "1: (2"), (("--nodes", "4,9"), "2: (2"), (("--features", "7"), "3: (2")):
        done = run("unlearn", "prove", "s", *named, cwd=tmp_path)
        assert (done.returncode, f"request {what}, 0.0001)-certified: remove" in done.stdout) == (0, True)
    for named in (("--nodes", "4"), ("--features", "7", "--labels"), ("--edges", "-".join(map(str, edges[1])))):
        done = run("unlearn", "prove", "s", *named, cwd=tmp_path)
        assert (done.returncode, "removed exactly this" in done.stdout) == (1, True)
    (tmp_path / "s.key").unlink()
    done = run("unlearn", "prove", "s", "--nodes", "4,9", cwd=tmp_path)
    assert (done.returncode, "nothing can be proved" in done.stderr) == (2, True)


def test_classes_that_were_told_may_lose_their_last_training_node(files, tmp_path):
    folder, _ = files
    labels = np.loadtxt(folder / "labels.csv", delimiter=",", skiprows=1, dtype=str)
    (last,) = (k for k, row in enumerate(labels) if row[0] == "39")
    labels[:, 2] = [str(int(i < 40 and (row[1] != labels[last][1] or i == last))) for i, row in enumerate(labels)]
    (folder / "few.csv").write_text("node,label,train\n" + "\n".join(map(",".join, labels)) + "\n")
    given = (folder / "graph.mtx", folder / "features.npy", folder / "few.csv")
    for store, more, code, text in (
        ("untold", (), 2, "which would show that it was there"), ("told", ("--classes", "0,1,2"), 0, "remove_nodes of 1"),
    ):  # fmt: skip
        assert run("unlearn", "fit", tmp_path / store, *given, *more).returncode == 0
        done = run("unlearn", "remove", tmp_path / store, "--nodes", "39")
        assert (done.returncode, text in done.stdout + done.stderr) == (code, True)


def test_renew_draws_another_random_term(files, tmp_path):
    fitted(files, tmp_path / "s")
    done = run("unlearn", "renew", "s", cwd=tmp_path)
    assert (done.returncode, "renew of 60, retrained" in done.stdout) == (0, True)
    done = run("unlearn", "verify", "s", cwd=tmp_path)
    assert (done.returncode, "the last certificate holds; 2 requests" in done.stdout) == (0, True)


@pytest.mark.slow
def test_preview_changes_nothing(files, tmp_path):
    _, edges = files
    fitted(files, tmp_path / "s")
    stored = contents(tmp_path / "s")
    edge = "-".join(map(str, edges[0]))
    done = run("unlearn", "preview", "s", "--edge", edge, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    model = CertifiedGPR.load(tmp_path / "s")
    change = model.preview(edges[0])
    model.close()
    assert done.stdout.startswith(f"{change.nodes.size} nodes are within reach")
    before, moved = model.decision(change.nodes), change.apply(model.coefficients)
    assert f"scores move by {np.abs(moved).max():.3g} at most" in done.stdout
    assert f"and {np.sum(before.argmax(1) != (before + moved).argmax(1))} nodes change class" in done.stdout
    assert contents(tmp_path / "s") == stored


def test_settings_of_a_fit_are_those_of_the_model(files, tmp_path):
    folder, _ = files
    done = run(
        "unlearn", "fit", tmp_path / "s", folder / "graph.mtx", folder / "features.npy", folder / "labels.csv",
        "--weights", "0.25,0.25,0.5", "--loss", "squared", "--r-max", "1e-7", "--lam", "0.5", "--alpha", "2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    model = CertifiedGPR.load(tmp_path / "s")
    model.close()
    np.testing.assert_array_equal(model.weights, [0.25, 0.25, 0.5])
    assert (model.loss.name, model.r_max, model.lam, model.alpha) == ("squared", 1e-7, 0.5, 2)


@pytest.mark.slow
def test_methods_are_compared_on_random_edges_or_named_ones(files, tmp_path):
    pytest.importorskip("torch")  # for --deep
    folder, edges = files
    task = folder / "graph.mtx", folder / "features.npy", folder / "labels.csv"
    done = run("unlearn", "compare", *task, "--random", "2", "--deep", "--out", tmp_path / "c.csv")
    assert done.returncode == 0, done.stderr
    assert all(
        method in done.stdout for method in ("nareg", "retrained", "CGU", "CEU", "perceptron", "ChebNetII", "last layer")
    )
    with (tmp_path / "c.csv").open() as handle:
        rows = list(csv.DictReader(handle))
    assert [row["retrained"] for row in rows[:2]] == ["0", "2"]
    assert len({row["before"] for row in rows[:4]}) == 1
    assert [row["spent"] == "" for row in rows] == [False] * 4 + [True] * 2 + [False]
    edge = "-".join(map(str, edges[0]))
    done = run("unlearn", "compare", *task, "--edges", edge, "--nodes", "3,4", "--loss", "squared", "--device", "cpu",
               "--out", tmp_path / "d.csv")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [line.split(",")[-1] for line in (tmp_path / "d.csv").read_text().splitlines()[:3]] == ["retrained", "0", "3"]


def test_a_comparison_needs_a_checkout(monkeypatch):
    monkeypatch.setattr(reproduce, "find", lambda _: None)
    with pytest.raises(InputError, match="run `nareg unlearn compare` in a checkout"):
        reproduce.experiment("_unlearning_compare", command="unlearn compare")


def test_a_graph_grows(files, tmp_path):
    pytest.importorskip("torch")  # for --device
    _, edges = files
    fitted(files, tmp_path / "s")
    np.save(tmp_path / "new.npy", np.eye(3, 5))
    done = run(
        "unlearn", "add", "s", "--nodes", "new.npy", "--labels", "0,-1,1", "--edges", "60-3,61-60", "--device", "cpu",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "add_nodes of 3" in done.stdout
    assert "nodes 60 to 62 were added" in done.stdout
    assert f"remaining: 63 nodes, {len(edges) + 2} edges, 42 training nodes" in done.stdout
    model = CertifiedGPR.load(tmp_path / "s")
    np.testing.assert_array_equal(model.labels[60:], [0, -1, 1])
    assert model.remove_edges([(60, 61)]).spent <= model.budget
    model.close()
    np.save(tmp_path / "one.npy", np.ones((1, 5)))
    done = run("unlearn", "add", "s", "--nodes", "one.npy", "--edges", "63-64", cwd=tmp_path)
    assert done.returncode == 2
    assert "nodes are 0 to 63: correct it. Before that nodes 63 to 63 were added: do not repeat them" in done.stderr
    assert run("unlearn", "verify", "s", "--device", "cpu", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "s"), "nothing to add: pass --nodes or --edges"),
        (("add", "s", "--labels", "0", "--edges", "0-1"), "--labels needs --nodes"),
        (("add", "s", "--edges", "0-60"), "edges has (0, 60) but nodes are 0 to 59"),
        (("add", "s", "--nodes", "labels.csv"), "pass features as .npy"),
        (("remove", "s"), "nothing to remove: pass"),
        (("remove", "s", "--nodes", "60"), "nodes holds 60 but there are 60 nodes"),
        (("remove", "s", "--nodes", "x"), "x is neither a file nor a list of numbers"),
        (("remove", "s", "--nodes", "3,"), "3,: '' is not a whole number"),
        (("remove", "s", "--edges", "-1-3"), "-1-3: write pairs of nodes as 3-5,7-9"),
        (("remove", "s", "--nodes", "9" * 20), "is too large"),
        (("remove", "s", "--edges", "1-2-3"), "write pairs of nodes as 3-5,7-9"),
        (("remove", "nowhere", "--nodes", "1"), "nowhere is not a nareg store"),
        (("certificate", "nowhere"), "nowhere is not a nareg store"),
        (("remove", "s", "--nodes", ",".join(map(str, range(1, 400, 2)))), "nodes holds 399 but there are 60 nodes"),
        (("remove", "s", "--nodes", "features.npy"), "features.npy holds zero bytes"),
        (("remove", "s", "--nodes", "3", "--labels"), "--labels needs --features"),
        (("remove", "s", "--nodes=-1"), "nodes holds -1: nodes are numbered from 0"),
        (("predict", "s", "--out", "s"), "must end in .csv"),
        (("predict", "t.csv", "--out", "t.csv"), "--out t.csv would overwrite the input t.csv"),
        (("predict", "nowhere", "--out", "labels.csv"), "nowhere is not a nareg store"),
        (("certificate", "s", "--out", "s.key"), "must end in .json"),
        (("certificate", "k.json", "--out", "k.json"), "--out k.json would overwrite the input k.json"),
        (("remove", "s", "--nodes", "edges.csv"), "edges.csv, line 2: 2 values: write one number per line"),
        (("remove", "s", "--features", "3", "--nodes", "5,999"), "nodes holds 999"),
        (("fit", "t", "graph.mtx", "features.npy", "labels.csv", "--key", "s"), "key is s, which exists"),
        (("fit", "t", "graph.mtx", "features.npy", "labels.csv", "--key", "t"), "key is t, the store itself"),
        (("fit", "t", "graph.mtx", "features.npy", "labels.csv", "--alpha", "0"), "--alpha is 0"),
        (("fit", "s", "--dataset", "cora"), "s exists"),
        (("fit", "t"), "data are missing: pass the files graph, features and labels"),
        (("fit", "t", "--dataset", "us-weather"), "not a node classification data set"),
        (("fit", "t", "graph.mtx", "labels.csv", "labels.csv"), "pass features as .npy"),
        (("fit", "t", "graph.mtx", "features.npy", "edges.csv"), "must name the columns node, label, train"),
        (("fit", "t", "graph.mtx", "features.npy", "absent.csv"), "absent.csv does not exist"),
        (("fit", "t", "graph.mtx", "features.npy", "labels.csv", "--delta", "1"), "delta is 1"),
        (
            ("fit", "t", "graph.mtx", "features.npy", "labels.csv", "--weights", "1,x"),
            "--weights 1,x: pass numbers separated",
        ),
        (("fit", "t", "graph.mtx", "features.npy", "labels.csv", "--weights", "1,1"), "absolute values sum to 2"),
        (("fit", "t", "graph.mtx", "features.npy", "labels.csv", "--loss", "hinge"), "loss is 'hinge'"),
        (("preview", "s", "--edge", "0-0"), "a self-loop is not an edge"),
        (("preview", "s", "--edge", "3"), "write pairs of nodes as 3-5,7-9"),
        (("fit", "t", "graph.mtx", "scalar.npy", "labels.csv"), "scalar.npy has an array of shape ()"),
        (("fit", "t", "graph.mtx", "empty.npy", "labels.csv"), "empty.npy cannot be read"),
        (("fit", "t", "graph.mtx", "--dataset", "cora"), "--dataset replaces the files"),
        (("compare", "--dataset", "cora", "--edges", "0-1", "--random", "3"), "--random replaces --edges and --nodes"),
        (("compare",), "data are missing: pass the files graph, features and labels"),
        (("compare", "graph.mtx", "features.npy", "labels.csv", "--nodes", "60"), "nodes holds 60"),
        (("compare", "graph.mtx", "features.npy", "labels.csv", "--out", "c.txt"), "must end in .csv"),
    ],
)
def test_what_cannot_work_ends_with_one_sentence_and_status_2(service, arguments, words):
    folder, stores = service
    files = sorted(folder.iterdir())
    done = run("unlearn", *arguments, cwd=folder)
    assert done.returncode == 2
    assert all(contents(folder / name) == stores for name in ("s", "t.csv", "k.json"))
    assert sorted(folder.iterdir()) == files
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_process_shows_one_sentence_and_no_traceback(service):
    folder, _ = service
    command = [sys.executable, "-m", "nareg", "unlearn", "predict", "nowhere", "--out", "labels.csv"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 2
    assert done.stderr.strip().endswith(
        "nowhere is not a nareg store (it has no state.json): pass one that save() or fit() wrote."
    )
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("stored", [False, True])
def test_a_folder_serves_every_command_that_needs_no_history(files, stored, tmp_path):
    folder, edges = files
    graph = folder / "graph.mtx"
    if stored:
        nareg.io.convert(graph, tmp_path / "network.graph")
        graph = tmp_path / "network.graph"
    data = (graph, folder / "features.npy", folder / "labels.csv")
    done = run("unlearn", "fit", "m", *data, "--folder", "--memory", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("written: m\n")
    assert not (tmp_path / "m.key").exists()
    u, v = edges[0]
    done = run("unlearn", "remove", "m", "--edges", f"{u}-{v}", "--nodes", "17", cwd=tmp_path)
    assert "remove_nodes of 1" in done.stdout
    files_before = {path: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    done = run("unlearn", "preview", "m", "--edge", "-".join(map(str, edges[3])), cwd=tmp_path)
    assert "nodes are within reach" in done.stdout, done.stderr
    done = run("unlearn", "certificate", "m", "--out", "c.json", cwd=tmp_path)
    assert "remove_nodes of 1" in done.stdout
    (row,) = json.loads((tmp_path / "c.json").read_text())
    assert row["digest"] is None
    assert row["certificate"]["request"] == "remove_nodes"
    assert run("unlearn", "predict", "m", "--out", "classes.csv", cwd=tmp_path).returncode == 0
    with open(tmp_path / "classes.csv") as handle:
        predicted = {int(row["node"]): int(row["class"]) for row in csv.DictReader(handle)}
    done = run("unlearn", "verify", "m", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the last certificate holds; a folder keeps no history of requests" in done.stdout
    assert {path: path.read_bytes() for path in (tmp_path / "m").iterdir()} == files_before
    model = CertifiedGPR.load(tmp_path / "m")
    assert predicted == dict(zip(model.remaining.tolist(), model.predict(model.remaining).tolist(), strict=True))
    model.close()
    done = run("unlearn", "prove", "m", "--nodes", "17", cwd=tmp_path)
    assert done.returncode == 2
    assert "m is the folder of a model, which keeps no history of requests" in " ".join(done.stderr.split())
    for options, words in (
        (("--folder",), "m exists: pass a new path, or delete it"),
        (("--folder", "--key", "k"), "--key is given, but a folder keeps no hashes"),
        (("--memory", 5), "--memory is for --folder"),
        (("--folder", "--r-max", "0.1"), "r_max is 0.1 and folder is given"),
    ):
        done = run("unlearn", "fit", "m", *data, *options, cwd=tmp_path)
        assert done.returncode == 2
        assert words in " ".join(done.stderr.split())
