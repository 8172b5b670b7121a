"""Atomic folders: all files of a folder appear at once or not at all; what killed writes left is put right.

No system renames a folder over one with files. So a writer renames the old folder to a name of its own (``aside``), its draft
to the path, and then removes the old one. If it is killed between the first two, the folder is aside, whole: whoever asks for
the path next renames it back (:func:`whole_folder`). Renaming is done under a lock of the folder around it, which ends with the
process that holds it, so that nobody else takes a writer that is between the two for one that was killed.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nareg._core.process import fcntl, only_here, process
from nareg._storage.files import BINARY, DRAFT, own_file, refusal, resolved, stem, sync
from nareg.errors import InputError

#: File in a draft that its writer keeps locked.
LOCK = "writing"


class atomic_folder:
    """Context manager: an empty folder beside ``path`` that is renamed to it at the end, or removed after an error.

    A folder that is there is replaced if it holds a file of the name ``mark``, and refused otherwise. Drafts of earlier writes
    to the same path that were killed are removed.
    """

    def __init__(self, path: str | os.PathLike[str], *, mark: str) -> None:
        self.path, self._mark = Path(path), mark

    def __enter__(self) -> Path:
        self._process = process()
        try:
            self._target = resolved(self.path)
            self._target.parent.mkdir(parents=True, exist_ok=True)
            whole_folder(self._target)
            self._refuse_other()
            with _renaming(self._target.parent):
                _clear_drafts(self._target)
                self._draft = _other(self._target)
                self._draft.mkdir()
                self._lock = _locked(self._draft)
        except OSError as error:
            raise refusal(self.path, error) from None
        return self._draft

    def __exit__(self, kind: type[BaseException] | None, raised: BaseException | None, _: object) -> None:
        if self._process != process():  # the draft is the other process's
            if kind is None:
                raise refusal(self.path, OSError("another process began to write it, of which this is a fork"))
            return
        try:
            if kind is None:
                for file in self._draft.iterdir():
                    sync(file, os.O_RDWR | BINARY)
                self._replace()
        except OSError as error:
            raise refusal(self.path, error) from None
        finally:
            if self._lock is not None:
                self._lock.close()
            shutil.rmtree(self._draft, ignore_errors=True)
        if isinstance(raised, OSError):  # a full disk may show during the write
            raise refusal(self.path, raised) from None

    def _replace(self) -> None:
        old = None
        with _renaming(self._target.parent):
            _recover(self._target)
            self._refuse_other()
            (self._draft / LOCK).unlink(missing_ok=True)
            before = aside(self._target)
            if self._target.exists():
                self._target.rename(before)
            try:
                self._draft.rename(self._target)
            except OSError:
                if before.exists():
                    before.rename(self._target)
                raise
            if before.exists():  # a half removed one must not have its name
                before.rename(old := _other(self._target))
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)  # the next writer removes what is left

    def _refuse_other(self) -> None:
        if self._target.exists() and not (self._target / self._mark).is_file():
            raise InputError(f"{self.path} exists and is not a folder with {self._mark}: name another path.")


def whole_folder(path: str | os.PathLike[str]) -> Path:
    """The path of a folder, after what a writer that was killed left is put right. All readers of folders ask for it first.

    Where the folder around cannot be written, it is the path of the whole folder that such a writer left, if there is one.
    """
    try:
        target = resolved(Path(path))
        before = aside(target)
        if not before.exists():
            return Path(path)
    except OSError:  # no path at all, which its reader will say
        return Path(path)
    try:
        with _renaming(target.parent):
            _recover(target)
    except OSError:  # not ours to rename
        if not target.exists():
            return before
    return Path(path)


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether there is a folder, after :func:`whole_folder`."""
    try:
        return whole_folder(path).is_dir()
    except (OSError, ValueError):
        return False


def aside(target: Path) -> Path:
    """The name of the folder of this path while another one takes its place."""
    return target.with_name(f"{stem(target)}.aside.{DRAFT}")


def _recover(target: Path) -> None:
    """The same, for whoever has the lock."""
    before = aside(target)
    if not before.exists():
        return
    if target.exists():
        before.rename(old := _other(target))
        shutil.rmtree(old, ignore_errors=True)
    else:
        before.rename(target)


def _other(target: Path) -> Path:
    """A name for a draft, or for a folder that is being removed."""
    return target.with_name(f"{stem(target)}.{secrets.token_hex(4)}.{DRAFT}")


@contextmanager
def _renaming(parent: Path) -> Iterator[None]:
    """The lock of a folder around others, for renaming in it."""
    if fcntl is None:
        yield
        return
    handle = only_here(_Folder(os.open(parent, os.O_RDONLY)))
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        handle.close()


class _Folder:
    """An open folder, as a file is one."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self.closed = False

    def fileno(self) -> int:
        return self._handle

    def close(self) -> None:
        self.closed = True
        os.close(self._handle)


def _locked(draft: Path) -> Any:
    if fcntl is None:  # such a system may also rename no folder with an open file
        return None
    handle = only_here(open(draft / LOCK, "xb", buffering=0))  # noqa: SIM115
    with suppress(OSError):  # a file system without locks: no other process can lock it either
        fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def _clear_drafts(target: Path) -> None:
    """Remove drafts of this folder that no process writes any more, under the lock of the folder around.

    The locks of drafts went with their writers. One without a lock is being removed, or whoever removed it was killed.
    """
    if fcntl is None:
        return
    ours = re.compile(rf"{re.escape(stem(target))}\.[0-9a-f]{{8}}\.{DRAFT}")
    for left in [path for path in target.parent.iterdir() if ours.fullmatch(path.name) and not path.is_symlink()]:
        with suppress(OSError):  # another user's, being written, or removed meanwhile: harmless
            try:
                handle = own_file(left / LOCK, os.O_RDWR)
            except FileNotFoundError:
                shutil.rmtree(left, ignore_errors=True)
                continue
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left)
            finally:
                os.close(handle)
