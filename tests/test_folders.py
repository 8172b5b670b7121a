"""Folders appear whole or not at all."""

from __future__ import annotations

import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading

import pytest

import nareg
from nareg._storage import folders, graph_files
from nareg._storage.files import DRAFT, atomic_write
from nareg._storage.folders import LOCK, aside, atomic_folder, is_folder, whole_folder
from nareg.errors import InputError


def write(path, content):
    with atomic_folder(path, mark="mark") as draft:
        (draft / "mark").write_text(content)


def test_a_folder_replaces_its_older_self_and_nothing_else(tmp_path):
    for content in ("one", "two"):
        write(tmp_path / "a", content)
        assert (tmp_path / "a" / "mark").read_text() == content
    (tmp_path / "b").mkdir()
    (tmp_path / "c").write_text("a file")
    for other in ("b", "c"):
        with pytest.raises(InputError, match="is not a folder with mark"):
            write(tmp_path / other, "three")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["mark"]


def test_a_system_without_locks_writes_whole_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "fcntl", None)
    for content in ("one", "two"):
        write(tmp_path / "a", content)
        assert (tmp_path / "a" / "mark").read_text() == content
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_write_leaves_the_older_folder(tmp_path, error):
    write(tmp_path / "a", "one")
    folder = atomic_folder(tmp_path / "a", mark="mark")
    (folder.__enter__() / "mark").write_text("half")
    folder.__exit__(error, error(), None)
    assert (tmp_path / "a" / "mark").read_text() == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_drafts_of_killed_writers_are_removed_and_those_being_written_stay(tmp_path):
    left = tmp_path / f".a.01234567.{DRAFT}"
    left.mkdir()
    (left / LOCK).touch()
    with atomic_folder(tmp_path / "a", mark="mark") as first:
        assert not left.exists()
        with atomic_folder(tmp_path / "a", mark="mark") as second:
            assert first.exists()
            (second / "mark").write_text("second")
        (first / "mark").write_text("first")
    assert (tmp_path / "a" / "mark").read_text() == "first"


def test_a_full_or_forbidden_disk_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be written"):
        write(tmp_path / "file" / "a", "one")
    with pytest.raises(InputError, match="No space left"), atomic_folder(tmp_path / "a", mark="mark"):
        raise OSError(28, "No space left on device")


KILLED = """
import os, pathlib, signal, sys
from nareg._storage.folders import atomic_folder
left, rename = int(sys.argv[2]), pathlib.Path.rename
def counted(self, target):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return rename(self, target)
pathlib.Path.rename = counted
with atomic_folder(sys.argv[1], mark="mark") as draft:
    (draft / "mark").write_text("two")
"""


@pytest.mark.parametrize(("renames", "content"), [(0, "one"), (1, "one"), (2, "two"), (3, "two")])
def test_a_writer_killed_at_any_rename_leaves_a_whole_folder(renames, content, tmp_path):
    write(tmp_path / "a", "one")
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "a"), str(renames)], check=False)
    assert done.returncode == (-signal.SIGKILL if renames < 3 else 0)
    assert is_folder(tmp_path / "a")
    assert (whole_folder(tmp_path / "a") / "mark").read_text() == content
    write(tmp_path / "a", "three")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a" / "mark").read_text() == "three"


def test_what_a_killed_writer_left_is_read_where_nothing_can_be_renamed(tmp_path, monkeypatch):
    write(tmp_path / "a", "one")
    (tmp_path / "a").rename(aside(tmp_path / "a"))

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pathlib.Path, "rename", refuse)
    assert (whole_folder(tmp_path / "a") / "mark").read_text() == "one"


@pytest.mark.slow
def test_readers_never_see_half_a_folder_or_none(tmp_path):
    """A graph is saved again and again, with as many nodes and edges, while others load it."""
    path, done, seen = tmp_path / "g.graph", threading.Event(), set()
    graphs = [nareg.Graph(weight * nareg.graphs.grid((4, 4)).adjacency.toarray()) for weight in (2.0, 3.0)]
    graphs[0].save(path)

    def save():
        for k in range(60):
            graphs[k % 2].save(path)
        done.set()

    writer = threading.Thread(target=save)
    writer.start()
    while not done.is_set():
        seen.add(frozenset(nareg.Graph.load(path).adjacency.data.tolist()))
    writer.join()
    assert seen == {frozenset({2.0}), frozenset({3.0})}
    assert [file.name for file in tmp_path.iterdir()] == ["g.graph"]


def test_an_open_graph_stays_the_one_that_was_opened(tmp_path):
    path = tmp_path / "g.graph"
    nareg.Graph(2.0 * nareg.graphs.grid((4, 4)).adjacency.toarray()).save(path)
    stored = nareg.io.StoredGraph(path)
    nareg.graphs.grid((5, 5)).save(path)
    assert set(stored.rows(0, 16).weights.tolist()) == {2.0}
    assert pickle.loads(pickle.dumps(stored)).n_nodes == 25


@pytest.mark.parametrize("name", ["graph.json", "indptr.npy", "indices.npy", "weights.npy"])
def test_links_in_the_folder_of_a_graph_are_not_followed(name, tmp_path):
    path = tmp_path / "g.graph"
    nareg.Graph(2.0 * nareg.graphs.grid((4, 4)).adjacency.toarray()).save(path)
    (path / name).rename(tmp_path / name)
    (path / name).symlink_to(tmp_path / name)
    with pytest.raises(InputError, match="it is a link, which could lead to any file"):
        nareg.Graph.load(path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
@pytest.mark.parametrize("writer", ["file", "folder"])
def test_a_fork_leaves_the_draft_to_its_writer(writer, tmp_path):
    context = atomic_write(tmp_path / "a") if writer == "file" else atomic_folder(tmp_path / "a", mark="mark")
    entered = context.__enter__()
    if writer == "file":
        entered.write(b"one")
    child = os.fork()
    if not child:
        try:
            context.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    if writer == "folder":
        (entered / "mark").write_text("one")
    context.__exit__(None, None, None)
    assert (tmp_path / "a" if writer == "file" else tmp_path / "a" / "mark").read_text() == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_later_folder_with_the_number_of_the_one_before_is_another(tmp_path, monkeypatch):
    """A loader took a folder whose files were being removed for a damaged one: the next but one had got its number."""
    path, graph = tmp_path / "g.graph", nareg.graphs.grid((3, 3))
    graph.save(path)
    opened, calls = graph_files.opened, []

    def replaced_meanwhile(folder):
        calls.append(folder)
        if len(calls) == 1:
            for _ in range(2):
                graph.save(path)
            raise InputError("indices.npy is missing")
        return opened(folder)

    monkeypatch.setattr(graph_files, "opened", replaced_meanwhile)
    assert nareg.Graph.load(path).n_nodes == 9
    assert len(calls) == 2
