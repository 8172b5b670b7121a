"""Atomic folders: all files of a folder appear at once or not at all; drafts that killed writes left are removed."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from nareg._files import BINARY, DRAFT, resolved
from nareg.errors import InputError

try:
    import fcntl
except ModuleNotFoundError:  # a system without locks: drafts stay
    fcntl = None  # type: ignore[assignment]

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
        try:
            self._target = resolved(self.path)
            self._refuse_other()
            self._target.parent.mkdir(parents=True, exist_ok=True)
            _clear_drafts(self._target)
            self._draft = self._target.with_name(f".{self._target.name}.{secrets.token_hex(4)}.{DRAFT}")
            self._draft.mkdir()
            self._lock = _locked(self._draft)
        except OSError as error:
            raise self._refusal(error) from None
        return self._draft

    def __exit__(self, kind: type[BaseException] | None, raised: BaseException | None, _: object) -> None:
        try:
            if kind is None:
                for file in self._draft.iterdir():
                    _sync(file)
                (self._draft / LOCK).unlink(missing_ok=True)
                self._replace()
        except OSError as error:
            raise self._refusal(error) from None
        finally:
            if self._lock is not None:
                os.close(self._lock)
            shutil.rmtree(self._draft, ignore_errors=True)
        if isinstance(raised, OSError):  # a full disk may show during the write
            raise self._refusal(raised) from None

    def _replace(self) -> None:
        """No system renames a folder over one with files: the old one steps aside first."""
        self._refuse_other()
        if not self._target.exists():
            self._draft.rename(self._target)
            return
        aside = self._target.with_name(f".{self._target.name}.{secrets.token_hex(4)}.{DRAFT}")
        self._target.rename(aside)
        try:
            self._draft.rename(self._target)
        except OSError:
            aside.rename(self._target)
            raise
        shutil.rmtree(aside)

    def _refuse_other(self) -> None:
        if self._target.exists() and not (self._target / self._mark).is_file():
            raise InputError(f"{self.path} exists and is not a folder with {self._mark}: name another path.")

    def _refusal(self, error: OSError) -> InputError:
        return InputError(f"{self.path} cannot be written ({error.strerror or error}): choose another path.")


def _locked(draft: Path) -> int | None:
    if fcntl is None:  # such a system may also rename no folder with an open file
        return None
    handle = os.open(draft / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    with suppress(OSError):  # a file system without locks: no other process can lock it either
        fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def _clear_drafts(target: Path) -> None:
    """Remove drafts of this folder that no process writes any more: their locks went with their writers."""
    if fcntl is None:
        return
    ours = re.compile(rf"{re.escape(f'.{target.name}')}\.[0-9a-f]{{8}}\.{DRAFT}")
    for left in [path for path in target.parent.iterdir() if ours.fullmatch(path.name)]:
        with suppress(OSError):  # another user's, being written, or removed meanwhile: harmless
            handle = os.open(left / LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left)
            finally:
                os.close(handle)


def _sync(file: Path) -> None:
    handle = os.open(file, os.O_RDWR | BINARY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
