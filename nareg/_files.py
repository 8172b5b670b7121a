"""Files that appear whole or not at all, and what a killed write has left."""

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
except ModuleNotFoundError:  # pragma: no cover (a system without: nothing is locked, and nothing cleared away)
    fcntl = None  # type: ignore[assignment]

#: Without it some systems change line ends.
BINARY = getattr(os, "O_BINARY", 0)
#: Ends the name of a draft: no file of a user's.
DRAFT = "nareg-part"
#: Bytes that a name may have with all that a draft's adds to it.
LONGEST = 220


class atomic_write:
    """Context manager: a binary handle whose content appears at ``path`` whole or not at all.

    A file that is there keeps its mode, and a link what it points to. What earlier writes to the same path have left when they
    were killed goes.
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
            self._draft, self._handle = _begun(self._target)
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
                if fcntl is not None:  # while it is locked: else others could take it for left behind
                    os.replace(self._draft, self._target)
            self._handle.close()
            if kind is None and fcntl is None:  # pragma: no cover (a system that renames no open files)
                os.replace(self._draft, self._target)
        except OSError as error:
            raise self._refusal(error) from None
        finally:
            with suppress(OSError):  # what could not be written is written once more
                self._handle.close()
            self._draft.unlink(missing_ok=True)
        if isinstance(raised, OSError):  # a full disk may show while it is being written
            raise self._refusal(raised) from None

    def _refusal(self, error: OSError) -> InputError:
        return InputError(f"{self.path} cannot be written ({error.strerror or error}): choose another path.")


def resolved(path: Path) -> Path:
    """Where links lead to.

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
    """Remove the drafts of writes to this file that nobody is at work on any more.

    Whoever writes one has it locked, and a system takes the locks of a process that ends: what can be locked is left behind.
    """
    if fcntl is None:  # pragma: no cover
        return
    ours = re.compile(rf"{re.escape(_stem(target))}\.[0-9a-f]{{8}}\.{DRAFT}")
    with suppress(OSError), os.scandir(target.parent) as entries:
        for left in [entry.path for entry in entries if ours.fullmatch(entry.name)]:
            with suppress(OSError):  # somebody else's, or gone meanwhile: it is in nobody's way
                handle = os.open(left, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(left)
                finally:
                    os.close(handle)


def _begun(target: Path) -> tuple[Path, Any]:
    """An empty draft, locked where that can be done."""
    while True:
        draft = target.with_name(f"{_stem(target)}.{secrets.token_hex(4)}.{DRAFT}")
        # 0o666 less the umask, as an ordinary new file has it
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, 0o666)
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks: then nobody else can lock it either
                fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return draft, os.fdopen(handle, "w+b")
        os.close(handle)  # taken for left behind before it was locked


def _stem(target: Path) -> str:
    """How the names of drafts begin."""
    name = target.name
    if len(os.fsencode(name)) > LONGEST:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return f".{name}"
