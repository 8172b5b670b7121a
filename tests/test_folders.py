"""Folders appear whole or not at all."""

from __future__ import annotations

import pytest

from nareg import _folders
from nareg._files import DRAFT
from nareg._folders import LOCK, atomic_folder
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
    monkeypatch.setattr(_folders, "fcntl", None)
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
