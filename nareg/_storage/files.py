"""Atomic writes: a file appears whole or not at all; drafts that killed writes left are removed.

And files of folders that may come from others, in which a link could lead to any file of the user.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from nareg._core.process import fcntl, only_here, process
from nareg.errors import InputError

#: Some systems convert line ends without it.
BINARY = getattr(os, "O_BINARY", 0)
#: No link, and no waiting for the other end of a pipe.
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
#: Suffix of a draft's name, which no user's file has.
DRAFT = "nareg-part"
#: Longest name in bytes that leaves room for a draft's suffix.
LONGEST = 220


class atomic_write:
    """Context manager: a binary handle whose content appears at ``path`` whole or not at all.

    An existing file keeps its mode, and a link its target; with ``own``, in a folder that may come from others, the file takes
    the place of the link. Drafts of earlier writes to the same path that were killed are removed.
    """

    def __init__(self, path: str | os.PathLike[str], *, own: bool = False) -> None:
        self.path, self._own = Path(path), own

    def __enter__(self) -> Any:
        self._process = process()
        try:
            self._target = resolved(self.path.parent) / self.path.name if self._own else resolved(self.path)
            self._target.parent.mkdir(parents=True, exist_ok=True)
            if self._target.is_dir():
                raise IsADirectoryError("it is a folder")
            clear_drafts(self._target)
            self._draft, self._handle = _open_draft(self._target)
        except OSError as error:
            raise refusal(self.path, error) from None
        return self._handle

    def __exit__(self, kind: type[BaseException] | None, raised: BaseException | None, _: object) -> None:
        if self._process != process():  # the draft is the other process's
            self._handle.close()
            if kind is None:
                raise refusal(self.path, OSError("another process began to write it, of which this is a fork"))
            return
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
            raise refusal(self.path, error) from None
        finally:
            with suppress(OSError):  # closing writes what is still buffered
                self._handle.close()
            self._draft.unlink(missing_ok=True)
        if isinstance(raised, OSError):  # a full disk may show during the write
            raise refusal(self.path, raised) from None


def refusal(path: Path, error: OSError) -> InputError:
    """Of a path that cannot be written."""
    return InputError(f"{path} cannot be written ({error.strerror or error}): choose another path.")


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


def own_file(path: Path, flags: int = os.O_RDONLY, *, folder: int | None = None) -> int:
    """Open a plain file in a folder that may come from others: no link, no pipe; and none with a second name, to write.

    ``folder`` is an open one that has the path.

    Raises
    ------
    OSError
        Also if it is a link, no plain file, or has a second name.
    """
    try:
        handle = os.open(path, flags | BINARY | _PLAIN, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise OSError(errno.ELOOP, "it is a link, which could lead to any file", str(path)) from None
        raise
    status = os.fstat(handle)
    why = "" if stat.S_ISREG(status.st_mode) else "it is no plain file"
    if flags & (os.O_WRONLY | os.O_RDWR) and status.st_nlink > 1:
        why = "it has a second name, whose file would be changed, too: copy the folder, and use the copy"
    if why:
        os.close(handle)
        raise OSError(errno.EPERM, why, str(path))
    return handle


def refuse_links(folder: Path) -> None:
    """Refuse links, second names of files, and whatever is no plain file, in a folder that may come from others.

    Raises
    ------
    InputError
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                continue
            what = "" if stat.S_ISREG(status.st_mode) else "no plain file"
            if stat.S_ISLNK(status.st_mode):
                what = "a link, which could lead to any file"
            elif status.st_nlink > 1:
                what = "one of several names of a file, all of which would change"
            if what:
                raise InputError(f"{entry.path} is {what}: if you trust where it is from, put a copy of the file in its place.")


def sync(path: Path, flags: int = os.O_RDONLY) -> None:
    """Wait until a file or a folder is on the disk."""
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def clear_drafts(target: Path) -> None:
    """Remove drafts of this file that no process writes any more.

    A writer locks its draft, and the system releases the locks of a process that ends: a draft that can be locked is stale.
    """
    if fcntl is None:
        return
    ours = re.compile(rf"{re.escape(stem(target))}\.[0-9a-f]{{8}}\.{DRAFT}")
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
        draft = target.with_name(f"{stem(target)}.{secrets.token_hex(4)}.{DRAFT}")
        # 0o666 less the umask, as an ordinary new file has it
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, 0o666)
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks: no other process can lock it either
                fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return draft, only_here(os.fdopen(handle, "w+b"))
        os.close(handle)  # another process removed it before it was locked


def stem(target: Path) -> str:
    """First part of the names of drafts."""
    name = target.name
    if len(os.fsencode(name)) > LONGEST:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return f".{name}"
