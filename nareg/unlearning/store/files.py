"""Files of a store: its own, its key, and the draft that it is made in."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from nareg._files import DRAFT, resolved
from nareg.errors import InputError
from nareg.unlearning.store.entries import LedgerError

#: Bytes of a key.
KEY = 32


def link(draft: Path, path: Path) -> None:
    """Give a file its name, unless something else has it; where a file can have one name only, unless it had just before."""
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
    """What a save that was killed has left."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.{DRAFT}(-journal)?")
    if path.parent.is_dir():
        for left in path.parent.iterdir():
            if ours.fullmatch(left.name):
                left.unlink(missing_ok=True)


def key_file(path: Path) -> Path:
    """Where the key of a store is, if nothing else is said."""
    return path.with_name(path.name + ".key")


def paths(path: str | os.PathLike[str], key: str | os.PathLike[str] | None) -> tuple[Path, Path]:
    """Of a store and of its key."""
    store = Path(path)
    if not store.name:
        raise InputError(f"{store} is a folder: name a file in it.")
    return store, key_file(store) if key is None else Path(key)


def refuse_taken(path: str | os.PathLike[str], key: str | os.PathLike[str] | None) -> tuple[Path, Path]:
    """Where a new store and its key will be.

    Raises
    ------
    InputError
        If there is something already, or both are one.
    """
    store, key_path = paths(path, key)
    if exists(store):
        raise InputError(f"{store} exists: load it, or name another file.")
    if exists(key_path):
        raise InputError(f"key is {key_path}, which exists and may be another store's: name another file, or delete it.")
    try:
        same = resolved(key_path) == resolved(store)
    except OSError as error:
        raise InputError(f"{store} or {key_path} cannot be written ({error}): name another file.") from None
    if same:
        raise InputError(f"key is {key_path}, the store itself: name another file, best on another disk.")
    return store, key_path


def exists(path: Path) -> bool:
    """Whether something has this name.

    Raises
    ------
    InputError
        If that cannot be told, or no file can have such a name.
    """
    try:
        return path.exists()
    except OSError as error:
        raise InputError(f"{path} cannot be looked at ({error.strerror}): name another file.") from None


def is_file(path: Path) -> bool:
    """Whether it is one; raises as :func:`exists`."""
    return exists(path) and path.is_file()


def read_key(path: Path, *, told: bool) -> bytes | None:
    """The key; none where there is no file or it is not to be read, unless the user named it."""
    if told and not is_file(path):
        raise InputError(f"key is {path}, which is no file.")
    try:
        key = bytes.fromhex(path.read_text().strip())
    except ValueError:
        key = b""
    except OSError as error:
        if told:
            raise InputError(f"key is {path}, which cannot be read ({error.strerror}).") from None
        return None
    if len(key) != KEY:
        raise LedgerError(f"{path} is no key: put the one back that save() wrote.")
    return key
