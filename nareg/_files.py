"""Atomic writes: a file appears whole or not at all; drafts that killed writes left are removed."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from nareg.errors import InputError

try:
    import fcntl
except ModuleNotFoundError:  # a system without locks: drafts stay
    fcntl = None  # type: ignore[assignment]

#: Some systems convert line ends without it.
BINARY = getattr(os, "O_BINARY", 0)
#: Suffix of a draft's name, which no user's file has.
DRAFT = "nareg-part"
#: Longest name in bytes that leaves room for a draft's suffix.
LONGEST = 220


class atomic_write:
    """Context manager: a binary handle whose content appears at ``path`` whole or not at all.

    An existing file keeps its mode, and a link its target. Drafts of earlier writes to the same path that were killed are
    removed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __enter__(self) -> Any:
        try:
            self._target = resolved(self.path)
            self._target.parent.mkdir(parents=True, exist_ok=True)
            if self._target.is_dir():
                raise IsADirectoryError("it is a folder")
            clear_drafts(self._target)
            self._draft, self._handle = _open_draft(self._target)
        except OSError as error:
            raise self._refusal(error) from None
        return self._handle

    def __exit__(self, kind: type[BaseException] | None, raised: BaseException | None, _: object) -> None:
        try:
            if kind is None:
                self._handle.flush()
                os.fsync(self._handle.fileno())
                if self._target.exists():
                    os.chmod(self._draft, stat.S_IMODE(self._target.stat().st_mode))
                if fcntl is not None:  # while it is locked: others remove unlocked drafts
                    os.replace(self._draft, self._target)
            self._handle.close()
            if kind is None and fcntl is None:  # a system that renames no open files
                os.replace(self._draft, self._target)
        except OSError as error:
            raise self._refusal(error) from None
        finally:
            with suppress(OSError):  # closing writes what is still buffered
                self._handle.close()
            self._draft.unlink(missing_ok=True)
        if isinstance(raised, OSError):  # a full disk may show during the write
            raise self._refusal(raised) from None

    def _refusal(self, error: OSError) -> InputError:
        return InputError(f"{self.path} cannot be written ({error.strerror or error}): choose another path.")


def resolved(path: Path) -> Path:
    """The path with all links followed.

    Raises
    ------
    OSError
        If they lead in a circle.
    """
    try:
        return path.resolve()
    except RuntimeError:  # as Python before 3.13 says it
        raise OSError("its links lead in a circle") from None


def clear_drafts(target: Path) -> None:
    """Remove drafts of this file that no process writes any more.

    A writer locks its draft, and the system releases the locks of a process that ends: a draft that can be locked is stale.
    """
    if fcntl is None:
        return
    ours = re.compile(rf"{re.escape(_stem(target))}\.[0-9a-f]{{8}}\.{DRAFT}")
    with suppress(OSError), os.scandir(target.parent) as entries:
        for left in [entry.path for entry in entries if ours.fullmatch(entry.name)]:
            with suppress(OSError):  # another user's, or removed meanwhile: harmless
                handle = os.open(left, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(left)
                finally:
                    os.close(handle)


def _open_draft(target: Path) -> tuple[Path, Any]:
    """An empty draft, locked where the file system has locks."""
    while True:
        draft = target.with_name(f"{_stem(target)}.{secrets.token_hex(4)}.{DRAFT}")
        # 0o666 less the umask, as an ordinary new file has it
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, 0o666)
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks: no other process can lock it either
                fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return draft, os.fdopen(handle, "w+b")
        os.close(handle)  # another process removed it before it was locked


def _stem(target: Path) -> str:
    """First part of the names of drafts."""
    name = target.name
    if len(os.fsencode(name)) > LONGEST:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return f".{name}"
