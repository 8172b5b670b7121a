"""Files of a store: the store itself, its key, and the draft that it is written to first."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from nareg._files import DRAFT, resolved
from nareg.errors import InputError, LedgerError

#: Bytes of a key.
KEY = 32


def link(draft: Path, path: Path) -> None:
    """Rename a draft to a path that must not exist. Without hard links, the check comes just before the renaming."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise FileExistsError(errno.EEXIST, "exists", str(path)) from None
    except OSError:
        if path.exists():
            raise FileExistsError(errno.EEXIST, "exists", str(path)) from None
        os.replace(draft, path)
    else:
        draft.unlink()


def drop_drafts(path: Path) -> None:
    """Delete the drafts of saves that were killed."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.{DRAFT}(-journal)?")
    if path.parent.is_dir():
        for draft in path.parent.iterdir():
            if pattern.fullmatch(draft.name):
                draft.unlink(missing_ok=True)


def key_file(path: Path) -> Path:
    """Default path of the key of a store."""
    return path.with_name(path.name + ".key")


def paths(path: str | os.PathLike[str], key: str | os.PathLike[str] | None) -> tuple[Path, Path]:
    """Paths of a store and of its key."""
    store = Path(path)
    if not store.name:
        raise InputError(f"{store} is a folder: pass the path of a file.")
    return store, key_file(store) if key is None else Path(key)


def refuse_taken(path: str | os.PathLike[str], key: str | os.PathLike[str] | None) -> tuple[Path, Path]:
    """Paths of a new store and of its key.

    Raises
    ------
    InputError
        If one of them exists, or both are the same file.
    """
    store, key_path = paths(path, key)
    if exists(store):
        raise InputError(f"{store} exists: load it, or pass another path.")
    if exists(key_path):
        raise InputError(f"key is {key_path}, which exists and may belong to another store: pass another path, or delete it.")
    try:
        same = resolved(key_path) == resolved(store)
    except OSError as error:
        raise InputError(f"{store} or {key_path} cannot be written ({error}): pass another path.") from None
    if same:
        raise InputError(f"key is {key_path}, the store itself: pass another path, preferably on another disk.")
    return store, key_path


def exists(path: Path) -> bool:
    """Whether a file or folder has this path.

    Raises
    ------
    InputError
        If the system cannot tell, or no file can have this path.
    """
    try:
        return path.exists()
    except OSError as error:
        raise InputError(f"{path} cannot be accessed ({error.strerror}): pass another path.") from None


def is_file(path: Path) -> bool:
    """Whether the path is a file; raises as :func:`exists`."""
    return exists(path) and path.is_file()


def read_key(path: Path, *, required: bool) -> bytes | None:
    """The key; None if its file is absent or unreadable, which is an error only if ``required``."""
    if required and not is_file(path):
        raise InputError(f"key is {path}, which is not a file: pass the file that save() wrote.")
    try:
        key = bytes.fromhex(path.read_text().strip())
    except ValueError:
        key = b""
    except OSError as error:
        if required:
            raise InputError(f"key is {path}, which cannot be read ({error.strerror}): check its permissions.") from None
        return None
    if len(key) != KEY:
        raise LedgerError(f"{path} is not a key: restore the one that save() wrote.")
    return key
