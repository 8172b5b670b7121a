"""Writing where the system has no file locks."""

from __future__ import annotations

from nareg._storage import files


def test_a_system_without_locks_writes_whole_files_and_leaves_drafts_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "fcntl", None)
    target = tmp_path / "x.bin"
    draft = tmp_path / f".x.bin.01234567.{files.DRAFT}"  # of a writer that may still be at work
    draft.write_bytes(b"half")
    for content in (b"one", b"two"):
        with files.atomic_write(target) as handle:
            handle.write(content)
        assert target.read_bytes() == content
    write = files.atomic_write(target)
    write.__enter__().write(b"three")
    write.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert target.read_bytes() == b"two"
    assert sorted(path.name for path in tmp_path.iterdir()) == [draft.name, "x.bin"]
